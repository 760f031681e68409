/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_REORDER_H
#define BEAMWEAVE_REORDER_H

/*
 * Events that come nearly in time order, put in order: each is held until one has come whose time is
 * REORDER_WINDOW_NS later, or until too much is held. Equal times keep the order in which they came.
 */

#include "record.h"

#define REORDER_WINDOW_NS  50000000ull
#define REORDER_EVENTS_MAX 65536u
#define REORDER_BYTES_MAX  (32u << 20)

/* An event with a copy of its record and capture. */
struct reorder_item {
	uint64_t order;
	struct event event;
	uint8_t *data;
	uint32_t bytes;
};

struct reorder {
	struct reorder_item *heap; /* the earliest on top */
	uint32_t count, capacity;
	uint64_t bytes, order, newest_ns, last_ns;
	uint64_t clamped; /* came so late that they were given at the time of the one before */
	struct reorder_item given;
};

void reorder_free(struct reorder *reorder);
void reorder_rewind(struct reorder *reorder);
/*
 * Take an event whose raw points to `bytes` bytes, that hold its etf too where it has one. 0 or
 * -ENOMEM.
 */
int reorder_push(struct reorder *reorder, const struct event *event, uint32_t bytes);
/* May the earliest be given? */
bool reorder_ready(const struct reorder *reorder);
/* The earliest, valid until the next call; false when none is held. */
bool reorder_pop(struct reorder *reorder, struct event *event);

#endif
