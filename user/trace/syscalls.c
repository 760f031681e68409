/* SPDX-License-Identifier: Apache-2.0 */
#include "syscalls.h"

#include <stddef.h>

#include <seccomp.h>

#define NUMBERS 1024

const char *syscall_name(int number)
{
	/* The library gives each name as a copy: one of each is enough. */
	static char *names[NUMBERS];

	if (number < 0 || number >= NUMBERS)
		return NULL;
	if (!names[number])
		names[number] = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
	return names[number];
}
