/* SPDX-License-Identifier: Apache-2.0 */
#include "terms.h"

#include <errno.h>
#include <string.h>

#define NS_PER_SECOND 1000000000

/* ---- Times ---- */

static int64_t clamp(__int128 value)
{
	if (value > INT64_MAX)
		return INT64_MAX;
	return value < INT64_MIN ? INT64_MIN : (int64_t)value;
}

/* A sample's reading of the clock that a message was stamped with, in ns. */
static __int128 sample_ns(const struct ring_dict_clock *sample, enum message_clock clock)
{
	if (clock == MESSAGE_SYSTEM)
		return (__int128)sample->erlang_os_us * 1000;
	return (__int128)sample->erlang * NS_PER_SECOND / (__int128)sample->per_second;
}

/* CLOCK_MONOTONIC of a message's time: between two samples along the line through them. */
static int64_t sampled_time(const struct terms_clock *clock, const struct message_time *time)
{
	size_t low = 0, high = clock->count;
	__int128 offset, next;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (sample_ns(&clock->samples[middle], time->clock) <= time->ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (low)
		low--;
	offset = (__int128)clock->samples[low].clock_ns -
		 sample_ns(&clock->samples[low], time->clock);
	if (low + 1 < clock->count) {
		__int128 from = sample_ns(&clock->samples[low], time->clock);
		__int128 to = sample_ns(&clock->samples[low + 1], time->clock);

		next = (__int128)clock->samples[low + 1].clock_ns - to;
		/* Within an hour: the products stay far below 128 bits. */
		if (time->ns >= from && to > from && to - from < (__int128)3600 * NS_PER_SECOND)
			offset += clamp(next - offset) * (time->ns - from) / (to - from);
	}
	return clamp(time->ns + offset);
}

static uint64_t file_time(struct terms_clock *clock, const struct message_time *time)
{
	__int128 ns;

	switch (time->clock) {
	case MESSAGE_SYSTEM:
		ns = time->ns;
		break;
	case MESSAGE_MONOTONIC:
		if (!clock->based) {
			clock->based = true;
			clock->base_ns = time->ns;
		}
		ns = (__int128)time->ns - clock->base_ns + TERMS_FIRST_NS;
		break;
	default:
		ns = clock->last_ns ? clock->last_ns + TERMS_STEP_NS : TERMS_FIRST_NS;
	}
	if (ns < 1)
		ns = 1;
	clock->last_ns = (uint64_t)clamp(ns);
	return clock->last_ns;
}

uint64_t terms_time(struct terms_clock *clock, const struct message_time *time, uint64_t arrived_ns)
{
	int64_t ns;

	if (clock->file)
		return file_time(clock, time);
	if (time->clock == MESSAGE_NO_TIME || !clock->count)
		return arrived_ns;
	ns = sampled_time(clock, time);
	if (ns <= 0 || (uint64_t)ns > arrived_ns + TERMS_AHEAD_NS)
		return arrived_ns;
	return (uint64_t)ns;
}

void terms_clock_rewind(struct terms_clock *clock)
{
	clock->based = false;
	clock->base_ns = 0;
	clock->last_ns = 0;
}

/* ---- Events ---- */

struct message_bytes terms_message(const struct ring_term *term)
{
	return (struct message_bytes){(const uint8_t *)(term + 1), term->bytes, term->tail_bytes};
}

int terms_decode(const struct terms *terms, union message_record *record, struct event *event)
{
	struct message_bytes bytes = terms_message(event->term);

	return message_decode(&bytes, terms->names, terms->vm, record, event);
}

void terms_free(struct terms *terms)
{
	reorder_free(&terms->reorder);
}

void terms_rewind(struct terms *terms)
{
	reorder_rewind(&terms->reorder);
	terms_clock_rewind(&terms->clock);
	terms->ended = false;
}

static int event_push(struct terms *terms, struct event *event)
{
	const struct ring_record *record = event->raw;
	struct message_bytes bytes;
	struct message_time time;
	uint32_t kind;

	if (!(event->flags & RING_F_TERM))
		return reorder_push(&terms->reorder, event, record->bytes);
	bytes = terms_message(event->term);
	if (message_peek(&bytes, &kind, &time))
		return 0; /* the file changed since it was read first */
	event->ts_ns = terms_time(&terms->clock, &time, event->ts_ns);
	return reorder_push(&terms->reorder, event,
			    (uint32_t)sizeof(struct ring_term) + bytes.bytes);
}

int terms_next(void *context, struct event *event)
{
	struct terms *terms = context;

	for (;;) {
		while (!terms->ended && !reorder_ready(&terms->reorder)) {
			int found = terms->next(terms->context, event);
			int error = found > 0 ? event_push(terms, event) : found;

			if (error)
				return error;
			terms->ended = !found;
		}
		if (!reorder_pop(&terms->reorder, event))
			return 0;
		if (!(event->flags & RING_F_TERM) || !terms_decode(terms, &terms->record, event))
			return 1;
	}
}
