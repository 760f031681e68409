/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_CLOCK_H
#define BEAMWEAVE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* One of the kernel's clocks, in nanoseconds. */
static inline uint64_t clock_of_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* CLOCK_MONOTONIC: the clock of all records. */
static inline uint64_t clock_ns(void)
{
	return clock_of_ns(CLOCK_MONOTONIC);
}

#endif
