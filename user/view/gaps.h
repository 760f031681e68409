/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_GAPS_H
#define BEAMWEAVE_GAPS_H

/* Where records were lost: what every figure that reaches over it has to say. */

#include "record.h"

struct gap {
	uint64_t from_ns, to_ns;
	uint64_t count; /* events lost in it, VM and kernel */
	uint64_t kernel; /* of them the kernel's */
};

/* Sorted by time, not overlapping. */
struct gaps {
	struct gap *gaps;
	size_t count, room;
};

/* Add a loss; losses that overlap become one gap. Returns 0 or -ENOMEM. */
int gaps_add(struct gaps *gaps, const struct loss *loss);
/*
 * The gap that an interval reaches over, several as one from the first's start to the last's end.
 * count 0: none. An event at a gap's very edge was recorded: it does not reach over it.
 */
struct gap gaps_over(const struct gaps *gaps, uint64_t start_ns, uint64_t end_ns);
void gaps_free(struct gaps *gaps);

#endif
