/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_SYSTEM_H
#define BEAMWEAVE_SYSTEM_H

/*
 * What the tracer needs of the kernel. The library names no libc, so that it loads under any of
 * them, and an old libc does not export everything that a new header declares: only symbols that
 * every libc has had for long are used (syscall, clock_gettime, memcpy and the like). Set-up only,
 * but for the clock.
 */

#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC in nanoseconds: the clock of every record. */
static inline uint64_t system_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The calling thread as the kernel knows it inside the VM's pid namespace. */
uint32_t system_tid(void);
uint32_t system_pid(void);

/*
 * Map an existing file of this user that nobody else may open, all of its blocks allocated: a page
 * that cannot be had later would be a SIGBUS in the VM. Returns 0 or -errno (EPERM: owner or mode,
 * ENODATA: has holes).
 */
int system_map(const char *path, void **map, uint64_t *bytes);

/* Make, allocate and map a new file, 0600. Returns 0 or -errno; nothing is left on failure. */
int system_create(const char *path, uint64_t bytes, void **map);

void system_unmap(void *map, uint64_t bytes);
int system_unlink(const char *path);

/*
 * Read this process's own memory at an address that may be wrong: 0 or -errno, never a signal.
 */
int system_peek(uint64_t address, void *into, size_t bytes);

void system_sleep_ns(uint64_t ns);

/* Let a store of one thread be seen before loads of all others. Returns 0 or -errno. */
int system_barrier_register(void);
int system_barrier(void);

#endif
