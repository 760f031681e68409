/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reader's side of the dictionary. Entries are reserved in one order and committed in another,
 * and a writer may die in between: an entry that does not come is passed over after a while, and
 * passed on by itself when it comes after all (its thread was stopped, say).
 */

#include "ring_reader.h"

#include <string.h>

#define DICT_WAITS 4 /* drains */
#define SCAN_SLOTS 65536u /* of one search */
#define SCAN_BYTES (1u << 20) /* checked in one search: a hostile dictionary must not stop us */

/*
 * Copy the entry at `position` when it is committed and lies before `end`. Returns its size in the
 * dictionary or 0; *checked grows by what the look cost.
 */
static uint32_t entry_copy(struct ring *ring, uint64_t position, uint64_t end, uint8_t *to,
			   uint64_t *checked)
{
	struct ring_dict_entry *shared = (struct ring_dict_entry *)(ring->dict + position);
	struct ring_dict_entry entry;
	/* acquire: pairs with the release of the check */
	uint32_t check = atomic_load_explicit(&shared->check, memory_order_acquire);
	uint64_t size;

	if (!check)
		return 0;
	/* One read of each: all that follows is about the copy. */
	atomic_store_explicit(&entry.check, check, memory_order_relaxed);
	entry.type = *(volatile uint16_t *)&shared->type;
	entry.bytes = *(volatile uint16_t *)&shared->bytes;
	entry.key = *(volatile uint64_t *)&shared->key;
	size = ring_dict_size(entry.bytes);
	if (entry.bytes > RING_DICT_PAYLOAD_MAX || size > end - position)
		return 0;
	memcpy(to, &entry, sizeof(entry));
	memcpy(to + sizeof(entry), shared + 1, size - sizeof(entry));
	*checked += size;
	if (ring_dict_check(entry.type, entry.bytes, entry.key, to + sizeof(entry)) != check)
		return 0;
	return (uint32_t)size;
}

/* ---- Holes ------------------------------------------------------------------------------- */

static void hole_add(struct ring_reader *reader, uint64_t start, uint64_t end)
{
	if (start >= end)
		return;
	if (reader->hole_count == RING_HOLES) {
		/* The oldest is the least likely to come. */
		reader->hole_count--;
		memmove(reader->holes, reader->holes + 1,
			reader->hole_count * sizeof(*reader->holes));
	}
	reader->holes[reader->hole_count++] = (struct hole){start, end};
}

static void hole_remove(struct ring_reader *reader, uint32_t index)
{
	reader->hole_count--;
	memmove(reader->holes + index, reader->holes + index + 1,
		(reader->hole_count - index) * sizeof(*reader->holes));
}

/* An entry in a hole that was committed after all. Returns its size, 0 none. */
static uint32_t hole_drain(struct ring_reader *reader, uint64_t *offset)
{
	uint64_t checked = 0;

	for (uint32_t i = 0; i < reader->hole_count; i++) {
		struct hole hole = reader->holes[i];

		for (uint64_t at = hole.start; at < hole.end && checked < SCAN_BYTES;
		     at += RING_DICT_SLOT) {
			uint32_t size =
				entry_copy(reader->ring, at, hole.end, reader->dict_copy, &checked);

			if (!size)
				continue;
			hole_remove(reader, i);
			hole_add(reader, hole.start, at);
			hole_add(reader, at + size, hole.end);
			*offset = at;
			return size;
		}
	}
	return 0;
}

/*
 * Look for the next committed entry after the one that does not come. Returns 1 when it was found:
 * dict_position is there then, and what lies between is a hole.
 */
static int hole_skip(struct ring_reader *reader, uint64_t tail)
{
	uint64_t checked = 0;

	if (reader->dict_scan <= reader->dict_position)
		reader->dict_scan = reader->dict_position + RING_DICT_SLOT;
	for (uint32_t n = 0; n < SCAN_SLOTS && checked < SCAN_BYTES; n++) {
		if (reader->dict_scan >= tail) {
			/* Nothing yet: the entries after it may be on their way too. */
			reader->dict_scan = 0;
			return 0;
		}
		if (entry_copy(reader->ring, reader->dict_scan, tail, reader->dict_copy,
			       &checked)) {
			hole_add(reader, reader->dict_position, reader->dict_scan);
			reader->dict_position = reader->dict_scan;
			return 1;
		}
		reader->dict_scan += RING_DICT_SLOT;
	}
	return 0;
}

/* ---- Draining ---------------------------------------------------------------------------- */

int64_t ring_dict_drain(struct ring_reader *reader, const void **data, uint64_t *offset)
{
	struct ring *ring = reader->ring;
	/* relaxed: a bound; each entry publishes itself */
	uint64_t tail = atomic_load_explicit(&ring->control->dict_tail, memory_order_relaxed);
	uint64_t bytes = hole_drain(reader, offset), checked = 0;

	*data = reader->dict_copy;
	if (bytes)
		return (int64_t)bytes;
	if (tail > ring->dict_bytes)
		tail = ring->dict_bytes;
	tail &= ~(uint64_t)(RING_DICT_SLOT - 1);
	*offset = reader->dict_position;
	while (reader->dict_position < tail &&
	       bytes + ring_dict_size(RING_DICT_PAYLOAD_MAX) <= RING_DICT_COPY_BYTES) {
		uint32_t size = entry_copy(ring, reader->dict_position, tail,
					   reader->dict_copy + bytes, &checked);

		if (size) {
			bytes += size;
			reader->dict_position += size;
			reader->dict_waits = 0;
			continue;
		}
		/* What stands in the copy goes first, and does not count as waiting. */
		if (bytes || reader->dict_waits++ < DICT_WAITS || !hole_skip(reader, tail))
			break;
		*offset = reader->dict_position;
	}
	return (int64_t)bytes;
}
