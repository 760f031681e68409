/* SPDX-License-Identifier: Apache-2.0 */
#include "merge.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int merge_add(struct merge *merge, merge_next_fn next, void *context)
{
	if (merge->count == merge->capacity) {
		uint32_t capacity = merge->capacity ? merge->capacity * 2 : 16;
		struct merge_stream *streams;
		uint32_t *heap;

		streams = realloc(merge->streams, capacity * sizeof(*streams));
		if (!streams)
			return -ENOMEM;
		merge->streams = streams;
		heap = realloc(merge->heap, capacity * sizeof(*heap));
		if (!heap)
			return -ENOMEM;
		merge->heap = heap;
		merge->capacity = capacity;
	}
	memset(&merge->streams[merge->count], 0, sizeof(*merge->streams));
	merge->streams[merge->count].next = next;
	merge->streams[merge->count].context = context;
	merge->count++;
	return 0;
}

void merge_rewind(struct merge *merge)
{
	merge->started = false;
	merge->given = false;
	merge->held = 0;
}

static bool stream_before(const struct merge *merge, uint32_t a, uint32_t b)
{
	uint64_t left = merge->streams[a].event.ts_ns, right = merge->streams[b].event.ts_ns;

	return left != right ? left < right : a < b;
}

static void heap_down(struct merge *merge, uint32_t at)
{
	uint32_t moving = merge->heap[at];

	for (;;) {
		uint32_t down = 2 * at + 1;

		if (down >= merge->held)
			break;
		if (down + 1 < merge->held &&
		    stream_before(merge, merge->heap[down + 1], merge->heap[down]))
			down++;
		if (!stream_before(merge, merge->heap[down], moving))
			break;
		merge->heap[at] = merge->heap[down];
		at = down;
	}
	merge->heap[at] = moving;
}

static int stream_advance(struct merge_stream *stream)
{
	memset(&stream->event, 0, sizeof(stream->event));
	return stream->next(stream->context, &stream->event);
}

static int merge_start(struct merge *merge)
{
	merge->held = 0;
	for (uint32_t i = 0; i < merge->count; i++) {
		int found = stream_advance(&merge->streams[i]);

		if (found < 0)
			return found;
		if (found)
			merge->heap[merge->held++] = i;
	}
	for (uint32_t i = merge->held / 2; i-- > 0;)
		heap_down(merge, i);
	merge->started = true;
	return 0;
}

int merge_next(struct merge *merge, struct event *event)
{
	if (!merge->started) {
		int error = merge_start(merge);

		if (error)
			return error;
	} else if (merge->given) {
		int found = stream_advance(&merge->streams[merge->heap[0]]);

		if (found < 0)
			return found;
		if (!found)
			merge->heap[0] = merge->heap[--merge->held];
		if (merge->held)
			heap_down(merge, 0);
	}
	merge->given = merge->held > 0;
	if (!merge->held)
		return 0;
	*event = merge->streams[merge->heap[0]].event;
	return 1;
}

void merge_free(struct merge *merge)
{
	free(merge->streams);
	free(merge->heap);
	memset(merge, 0, sizeof(*merge));
}
