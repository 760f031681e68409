/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_PERFETTO_SYSCALL_H
#define BEAMWEAVE_PERFETTO_SYSCALL_H

/*
 * System calls of the VM's threads, on tracks of their own beside the thread: what was recorded from
 * enter to exit, and, where only switches were recorded, in what a thread waited.
 */

#include "perfetto_erlang.h"

struct syscall_thread;

struct perfetto_syscall {
	struct perfetto_erlang *erlang;
	struct syscall_thread *threads; /* by tid */
	int error;
};

void perfetto_syscall_begin(struct perfetto_syscall *syscall, struct perfetto_erlang *erlang);
void perfetto_syscall_free(struct perfetto_syscall *syscall);
/* Ended system calls; other events are ignored. */
void perfetto_syscall_event(struct perfetto_syscall *syscall, const struct event *event);
/* Waits in a system call; other intervals are ignored. */
void perfetto_syscall_thread(struct perfetto_syscall *syscall,
			     const struct thread_interval *interval);

#endif
