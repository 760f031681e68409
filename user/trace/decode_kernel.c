/* SPDX-License-Identifier: Apache-2.0 */
#include "decode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of a kind's record; a longer one is of a newer version and begins the same. */
static const uint16_t kind_bytes[PROBE_KINDS] = {
	[PROBE_SWITCH] = sizeof(struct probe_switch),
	[PROBE_WAKING] = sizeof(struct probe_waking),
	[PROBE_MIGRATE] = sizeof(struct probe_migrate),
	[PROBE_FORK] = sizeof(struct probe_task),
	[PROBE_EXIT] = sizeof(struct probe_task),
	[PROBE_SOCK_STATE] = sizeof(struct probe_sock_state),
	[PROBE_SOCK_SEND] = sizeof(struct probe_sock_io),
	[PROBE_SOCK_RECV] = sizeof(struct probe_sock_io),
	[PROBE_TCP_RETRANSMIT] = sizeof(struct probe_sock_event),
	[PROBE_TCP_RESET_SENT] = sizeof(struct probe_sock_event),
	[PROBE_TCP_RESET_RECEIVED] = sizeof(struct probe_sock_event),
	[PROBE_SYSCALL] = sizeof(struct probe_syscall),
	[PROBE_WAKEUP_NEW] = sizeof(struct probe_waking),
	[PROBE_EXEC] = sizeof(struct probe_task),
	[PROBE_SOCK_DATA_READY] = sizeof(struct probe_sock_event),
	[PROBE_SOCK_ERLANG] = sizeof(struct probe_sock_erlang),
};

void kernel_decoder_free(struct kernel_decoder *decoder)
{
	free(decoder->chunks);
	free(decoder->buffer);
	free(decoder->slots);
	memset(decoder, 0, sizeof(*decoder));
}

int kernel_decoder_add(struct kernel_decoder *decoder, uint32_t chunk)
{
	if (decoder->count == decoder->capacity) {
		size_t capacity = decoder->capacity ? decoder->capacity * 2 : 64;
		uint32_t *chunks = realloc(decoder->chunks, capacity * sizeof(*chunks));

		if (!chunks)
			return -ENOMEM;
		decoder->chunks = chunks;
		decoder->capacity = capacity;
	}
	decoder->chunks[decoder->count++] = chunk;
	return 0;
}

int kernel_decoder_rewind(struct kernel_decoder *decoder)
{
	if (!decoder->slots)
		decoder->slots = calloc(KERNEL_WINDOW + 1, sizeof(*decoder->slots));
	if (!decoder->slots)
		return -ENOMEM;
	decoder->next = 0;
	decoder->at = 0;
	decoder->end = 0;
	decoder->order = 0;
	decoder->last_ns = 0;
	decoder->newest_ns = 0;
	decoder->held = 0;
	decoder->given_any = false;
	decoder->gap = false;
	decoder->gap_open = false;
	for (uint16_t slot = 0; slot <= KERNEL_WINDOW; slot++)
		decoder->idle[slot] = slot;
	decoder->idle_count = KERNEL_WINDOW + 1;
	memset(decoder->decoded, 0, sizeof(decoder->decoded));
	memset(&decoder->faults, 0, sizeof(decoder->faults));
	return 0;
}

static void gap_note(struct kernel_decoder *decoder)
{
	if (!decoder->gap)
		decoder->gap_from_ns = decoder->newest_ns;
	decoder->gap = true;
	decoder->gap_open = true;
	decoder->gap_to_ns = 0;
}

/* Are chunks missing between two that are neighbours for this CPU? They may have been of others. */
static bool chunks_missing(const struct file_reader *file, uint32_t first, uint32_t second)
{
	uint64_t numbers = file->chunks[second].header.number - file->chunks[first].header.number;

	return numbers != second - first;
}

/* ---- The window: a heap by (time, order of arrival) ---- */

static bool slot_before(const struct kernel_decoder *decoder, uint16_t a, uint16_t b)
{
	const struct kernel_slot *left = &decoder->slots[a], *right = &decoder->slots[b];

	if (left->ts_ns != right->ts_ns)
		return left->ts_ns < right->ts_ns;
	return left->order < right->order;
}

static void window_push(struct kernel_decoder *decoder, uint16_t slot)
{
	uint32_t at = decoder->held++;

	while (at) {
		uint32_t up = (at - 1) / 2;

		if (!slot_before(decoder, slot, decoder->heap[up]))
			break;
		decoder->heap[at] = decoder->heap[up];
		at = up;
	}
	decoder->heap[at] = slot;
}

static uint16_t window_pop(struct kernel_decoder *decoder)
{
	uint16_t top = decoder->heap[0];
	uint16_t last = decoder->heap[--decoder->held];
	uint32_t at = 0;

	for (;;) {
		uint32_t down = 2 * at + 1;

		if (down >= decoder->held)
			break;
		if (down + 1 < decoder->held &&
		    slot_before(decoder, decoder->heap[down + 1], decoder->heap[down]))
			down++;
		if (!slot_before(decoder, decoder->heap[down], last))
			break;
		decoder->heap[at] = decoder->heap[down];
		at = down;
	}
	decoder->heap[at] = last;
	return top;
}

/* ---- Chunks and records ---- */

static int chunk_read(struct kernel_decoder *decoder)
{
	uint32_t index = decoder->chunks[decoder->next];
	const struct chunk *chunk = &decoder->file->chunks[index];

	if (decoder->next &&
	    chunks_missing(decoder->file, decoder->chunks[decoder->next - 1], index))
		gap_note(decoder);
	decoder->next++;
	decoder->at = 0;
	decoder->end = 0;
	if (chunk->header.bytes > decoder->buffer_bytes) {
		uint8_t *buffer = realloc(decoder->buffer, chunk->header.bytes);

		if (!buffer)
			return -ENOMEM;
		decoder->buffer = buffer;
		decoder->buffer_bytes = chunk->header.bytes;
	}
	if (file_read(decoder->file, chunk, decoder->buffer)) {
		decoder->faults.damaged_records++;
		gap_note(decoder);
		return 0;
	}
	decoder->end = chunk->header.bytes;
	return 0;
}

/* Names of tasks end in 0, whatever the file says. */
static void names_end(uint16_t kind, void *record)
{
	switch (kind) {
	case PROBE_SWITCH:
		((struct probe_switch *)record)->prev_comm[PROBE_COMM - 1] = 0;
		((struct probe_switch *)record)->next_comm[PROBE_COMM - 1] = 0;
		break;
	case PROBE_WAKING:
	case PROBE_WAKEUP_NEW:
		((struct probe_waking *)record)->waker_comm[PROBE_COMM - 1] = 0;
		((struct probe_waking *)record)->comm[PROBE_COMM - 1] = 0;
		break;
	case PROBE_FORK:
	case PROBE_EXIT:
	case PROBE_EXEC:
		((struct probe_task *)record)->comm[PROBE_COMM - 1] = 0;
		break;
	default:
		break;
	}
}

/* Copy the record at `at` into the window, if it is one to give. */
static void record_take(struct kernel_decoder *decoder)
{
	const uint8_t *record = decoder->buffer + decoder->at;
	struct probe_header header;
	struct kernel_slot *slot;
	uint16_t index;

	if (decoder->end - decoder->at >= sizeof(header))
		memcpy(&header, record, sizeof(header));
	if (decoder->end - decoder->at < sizeof(header) || header.bytes < sizeof(header) ||
	    header.bytes > decoder->end - decoder->at) {
		decoder->faults.damaged_records++;
		decoder->at = decoder->end;
		gap_note(decoder);
		return;
	}
	decoder->at += header.bytes;
	if (header.kind < PROBE_KINDS)
		decoder->decoded[header.kind]++;
	if (header.kind >= PROBE_KINDS || !kind_bytes[header.kind] ||
	    header.bytes > KERNEL_RECORD_BYTES) {
		decoder->faults.unknown_records++;
		return;
	}
	if (header.bytes < kind_bytes[header.kind]) {
		decoder->decoded[header.kind]--;
		decoder->faults.damaged_records++;
		gap_note(decoder);
		return;
	}
	if (decoder->gap_open) {
		decoder->gap_open = false;
		decoder->gap_to_ns = header.ts_ns;
	}
	if (header.ts_ns > decoder->newest_ns)
		decoder->newest_ns = header.ts_ns;
	index = decoder->idle[--decoder->idle_count];
	slot = &decoder->slots[index];
	slot->ts_ns = header.ts_ns;
	slot->order = decoder->order++;
	slot->kind = header.kind;
	memcpy(slot->record, record, header.bytes);
	names_end(header.kind, slot->record);
	window_push(decoder, index);
}

static int window_fill(struct kernel_decoder *decoder)
{
	while (decoder->held < KERNEL_WINDOW) {
		if (decoder->at < decoder->end) {
			record_take(decoder);
		} else if (decoder->next < decoder->count) {
			int error = chunk_read(decoder);

			if (error)
				return error;
		} else {
			break;
		}
	}
	return 0;
}

static int32_t record_tid(uint16_t kind, const void *record)
{
	switch (kind) {
	case PROBE_SWITCH:
		return ((const struct probe_switch *)record)->prev_tid;
	case PROBE_WAKING:
	case PROBE_WAKEUP_NEW:
		return ((const struct probe_waking *)record)->waker_tid;
	case PROBE_MIGRATE:
		return ((const struct probe_migrate *)record)->tid;
	case PROBE_FORK:
	case PROBE_EXIT:
	case PROBE_EXEC:
		return ((const struct probe_task *)record)->tid;
	case PROBE_SOCK_STATE:
		return ((const struct probe_sock_state *)record)->tid;
	case PROBE_SOCK_SEND:
	case PROBE_SOCK_RECV:
		return ((const struct probe_sock_io *)record)->tid;
	case PROBE_SYSCALL:
		return ((const struct probe_syscall *)record)->tid;
	default:
		return ((const struct probe_sock_event *)record)->tid;
	}
}

int kernel_decoder_next(struct kernel_decoder *decoder, struct event *event)
{
	struct kernel_slot *slot;
	int error;

	if (decoder->given_any)
		decoder->idle[decoder->idle_count++] = decoder->given_slot;
	decoder->given_any = false;
	error = window_fill(decoder);
	if (error)
		return error;
	if (!decoder->held)
		return 0;
	decoder->given_slot = window_pop(decoder);
	decoder->given_any = true;
	slot = &decoder->slots[decoder->given_slot];
	if (slot->ts_ns < decoder->last_ns) {
		decoder->faults.clamped_records++;
		slot->ts_ns = decoder->last_ns;
	}
	decoder->last_ns = slot->ts_ns;

	memset(event, 0, sizeof(*event));
	event->ts_ns = slot->ts_ns;
	event->kind = EVENT_KERNEL + slot->kind;
	event->cpu = (int32_t)decoder->cpu;
	event->ring = decoder->cpu;
	event->tid = record_tid(slot->kind, slot->record);
	event->raw = slot->record;
	event->etf.data = "";
	if (slot->kind == PROBE_SWITCH && event->sched_switch->flags & PROBE_PROCESS_KNOWN)
		event->process = decoder->low_words ? (uint32_t)event->sched_switch->process
						    : event->sched_switch->process;
	return 1;
}
