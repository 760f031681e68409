/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_STALL_NEST_H
#define BEAMWEAVE_STALL_NEST_H

/*
 * One stall at a time: what a scheduler thread was kept by during a collection or a long run is a part
 * of that stall and not a second one. A thread's stalls are held back while it executes a process or
 * collects garbage, and are given out when that has ended: each by itself, or as parts of the whole. Its
 * cause is then the one with the largest part. Stalls of one thread never overlap; the parts of each add
 * up to its duration.
 */

#include "map.h"
#include "timeline.h"

struct stall_nests {
	const struct timeline_sink *sink;
	struct map threads; /* tid -> struct stall_nest */
};

/* What holds stalls back. */
enum stall_hold { STALL_HOLD_RUN = 1, STALL_HOLD_GC = 2 };

void stall_nests_free(struct stall_nests *nests);
/* A stall with one cause that has ended; its parts are filled in. Each returns 0 or -ENOMEM. */
int stall_nest_give(struct stall_nests *nests, const struct stall *stall);
/* A run or a collection begins on a thread, */
int stall_nest_begin(struct stall_nests *nests, int32_t tid, enum stall_hold hold);
/*
 * and ends: `whole` is the stall that it was, or NULL. For on_cpu_ns of it the thread ran, and gc_ns
 * passed in collections. What neither these nor the stalls in it explain is unknown.
 */
int stall_nest_end(struct stall_nests *nests, int32_t tid, enum stall_hold hold,
		   const struct stall *whole, uint64_t on_cpu_ns, uint64_t gc_ns);
/* Give out what is still held back: an end that was lost, or came on another thread. */
void stall_nests_finish(struct stall_nests *nests);

#endif
