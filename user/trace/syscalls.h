/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_SYSCALLS_H
#define BEAMWEAVE_SYSCALLS_H

/* "epoll_wait", ...: the name of a system call of this machine's architecture; NULL for an unknown one. */
const char *syscall_name(int number);

#endif
