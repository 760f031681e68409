/* SPDX-License-Identifier: Apache-2.0 */
#include "reorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void reorder_rewind(struct reorder *reorder)
{
	for (uint32_t i = 0; i < reorder->count; i++)
		free(reorder->heap[i].data);
	free(reorder->given.data);
	reorder->given.data = NULL;
	reorder->count = 0;
	reorder->bytes = 0;
	reorder->order = 0;
	reorder->newest_ns = 0;
	reorder->last_ns = 0;
	reorder->clamped = 0;
}

void reorder_free(struct reorder *reorder)
{
	reorder_rewind(reorder);
	free(reorder->heap);
	reorder->heap = NULL;
	reorder->capacity = 0;
}

static bool item_before(const struct reorder_item *left, const struct reorder_item *right)
{
	if (left->event.ts_ns != right->event.ts_ns)
		return left->event.ts_ns < right->event.ts_ns;
	return left->order < right->order;
}

static int heap_grow(struct reorder *reorder)
{
	uint32_t capacity = reorder->capacity ? reorder->capacity * 2 : 256;
	struct reorder_item *heap = realloc(reorder->heap, capacity * sizeof(*heap));

	if (!heap)
		return -ENOMEM;
	reorder->heap = heap;
	reorder->capacity = capacity;
	return 0;
}

int reorder_push(struct reorder *reorder, const struct event *event, uint32_t bytes)
{
	struct reorder_item item = {.event = *event, .bytes = bytes};
	uint32_t at = reorder->count;
	ptrdiff_t etf = event->etf.bytes ? event->etf.data - (const char *)event->raw : 0;

	if (at == reorder->capacity && heap_grow(reorder))
		return -ENOMEM;
	item.data = malloc(bytes);
	if (!item.data)
		return -ENOMEM;
	memcpy(item.data, event->raw, bytes);
	item.event.raw = item.data;
	if (event->etf.bytes)
		item.event.etf.data = (const char *)item.data + etf;
	item.order = reorder->order++;
	if (event->ts_ns > reorder->newest_ns)
		reorder->newest_ns = event->ts_ns;
	reorder->bytes += bytes;
	reorder->count++;
	while (at && item_before(&item, &reorder->heap[(at - 1) / 2])) {
		reorder->heap[at] = reorder->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	reorder->heap[at] = item;
	return 0;
}

bool reorder_ready(const struct reorder *reorder)
{
	return reorder->count &&
	       (reorder->newest_ns - reorder->heap[0].event.ts_ns >= REORDER_WINDOW_NS ||
		reorder->count >= REORDER_EVENTS_MAX || reorder->bytes >= REORDER_BYTES_MAX);
}

static void heap_sink(struct reorder *reorder, struct reorder_item item)
{
	uint32_t at = 0;

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= reorder->count)
			break;
		if (child + 1 < reorder->count &&
		    item_before(&reorder->heap[child + 1], &reorder->heap[child]))
			child++;
		if (!item_before(&reorder->heap[child], &item))
			break;
		reorder->heap[at] = reorder->heap[child];
		at = child;
	}
	reorder->heap[at] = item;
}

bool reorder_pop(struct reorder *reorder, struct event *event)
{
	free(reorder->given.data);
	reorder->given.data = NULL;
	if (!reorder->count)
		return false;
	reorder->given = reorder->heap[0];
	reorder->bytes -= reorder->given.bytes;
	if (--reorder->count)
		heap_sink(reorder, reorder->heap[reorder->count]);
	*event = reorder->given.event;
	if (event->ts_ns < reorder->last_ns) {
		event->ts_ns = reorder->last_ns;
		reorder->clamped++;
	}
	reorder->last_ns = event->ts_ns;
	return true;
}
