/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_MERGE_H
#define BEAMWEAVE_MERGE_H

/* Streams of events, each in time order, to one: by (time, order of the streams, order in the stream). */

#include "record.h"

/* The next event of a stream, valid until the next call. Returns 1, 0 at the end, -errno. */
typedef int (*merge_next_fn)(void *context, struct event *event);

struct merge_stream {
	merge_next_fn next;
	void *context;
	struct event event; /* the one that waits */
};

struct merge {
	struct merge_stream *streams;
	uint32_t *heap; /* streams that have an event, the earliest on top */
	uint32_t count, capacity, held;
	bool started;
	bool given; /* the top's event is in use; its stream is moved on at the next call */
};

int merge_add(struct merge *merge, merge_next_fn next, void *context);
/* Begin again, after all streams were rewound. */
void merge_rewind(struct merge *merge);
int merge_next(struct merge *merge, struct event *event);
void merge_free(struct merge *merge);

#endif
