/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_CALLS_H
#define BEAMWEAVE_CALLS_H

/* Calls by function. Times are inclusive: with everything that the call waited for and called. */

#include "section.h"

#define CALL_CALLERS 16 /* callers told apart; the rest counts as others */
#define CALL_SLOWEST 10

struct call_caller {
	uint32_t mfa; /* RING_NO_INDEX: not called by a traced function */
	uint64_t count;
};

struct call_slow {
	uint64_t start_ns, duration_ns, gc_ns, process;
	bool certain, open;
};

struct call_row {
	uint32_t mfa;
	uint64_t open; /* of the durations counted, those that the recording's end cut */
	uint64_t uncertain; /* of them, those whose end is an upper bound */
	uint64_t lost; /* of them, those over a loss */
	uint64_t exceptions, tails;
	uint64_t gc_ns;
	struct quantile durations;
	struct call_caller callers[CALL_CALLERS];
	size_t caller_count;
	uint64_t other_callers;
	struct call_slow slowest[CALL_SLOWEST]; /* longest first */
	size_t slow_count;
	UT_hash_handle hh;
};

/* The functions, most total time first; owned by the section. */
size_t calls_rows(void *state, struct call_row ***rows);

#endif
