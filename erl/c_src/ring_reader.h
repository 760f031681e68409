/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RING_READER_H
#define BEAMWEAVE_RING_READER_H

/* Between the parts of the reader's side: ring_reader.c, ring_reader_repair.c, ring_reader_dict.c. */

#include "ring.h"

/* A failed push means that a writer got on: reached only with a hostile other side. */
#define RING_PUSH_TRIES (1 << 20)

#define RING_HOLES 16

/* Of the private copy of dictionary bytes: four of the longest entries. */
#define RING_DICT_COPY_BYTES (256u << 10)

/* A sub-buffer to be read in this drain. */
struct candidate {
	uint32_t index, thread, sequence;
	uint32_t turn; /* how many of the same thread come before */
	uint32_t rank; /* of the thread, in the order in which threads are served */
};

/* Dictionary bytes that were passed over because their writer had not committed them. */
struct hole {
	uint64_t start, end;
};

struct ring_reader {
	struct ring *ring;
	uint32_t pid;
	uint64_t epoch;

	struct candidate *candidates; /* room for every sub-buffer */
	uint64_t *newest; /* by thread: the newest sequence begun, + 1 */
	uint8_t *copy; /* of one sub-buffer */
	uint32_t first_thread; /* served first by the next drain */
	uint32_t fill_permille;

	uint8_t *dict_copy;
	uint64_t dict_position; /* all before it was passed on, or is a hole */
	uint64_t dict_scan; /* how far the search for a hole's end has got */
	uint32_t dict_waits; /* drains that the entry at dict_position was waited for */
	struct hole holes[RING_HOLES];
	uint32_t hole_count;
};

/* Put a sub-buffer that the caller has set free on the free stack. */
void stack_push(struct ring *ring, uint32_t index);

#endif
