/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RING_FIXTURE_H
#define BEAMWEAVE_RING_FIXTURE_H

/* What the unit tests of the ring share: a small session and a reader's notebook. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "ring.h"

#define HEADER	     sizeof(struct ring_subbuf)
#define RECORD_BYTES 24
/* 24-byte records in a sub-buffer of 4096 bytes: (4096 - 832) / 24 */
#define RECORDS_FIT 136

static inline struct ring_config small_config(enum ring_mode mode, uint32_t subbufs)
{
	return (struct ring_config){.mode = mode,
				    .pool_bytes = subbufs * 4096ull,
				    .subbuf_bytes = 4096,
				    .thread_max = 4,
				    .mfa_slots = 64,
				    .atom_slots = 64,
				    .dict_bytes = 1 << 20};
}

/* A running session in memory that children share. */
static inline void session_new(struct ring *ring, const struct ring_config *config)
{
	uint64_t bytes = ring_file_bytes(config);
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(map != MAP_FAILED);
	assert_int_equal(ring_create(ring, map, bytes, config, 1), 0);
	atomic_store(&ring->control->lease_until_ns, UINT64_MAX);
}

static inline void session_free(struct ring *ring)
{
	munmap(ring->map, ring->bytes);
}

static inline void writer_new(struct ring_writer *writer, struct ring *ring, uint32_t tid)
{
	assert_int_equal(ring_writer_claim(writer, ring, tid, RING_ROLE_NORMAL, tid, 0), 0);
}

/* One record of 24 bytes whose process is its number. Returns 1, 0 when it was discarded. */
static inline int record_write(struct ring_writer *writer, uint64_t number)
{
	struct ring_run *run = ring_reserve(writer, 1000 + number, RING_IN, sizeof(*run), number);

	if (!run)
		return 0;
	run->mfa = (uint32_t)number;
	run->scheduler = 1;
	ring_commit(writer, &run->h);
	return 1;
}

static inline void records_write(struct ring_writer *writer, uint64_t from, uint64_t count)
{
	for (uint64_t n = 0; n < count; n++)
		assert_true(record_write(writer, from + n));
}

/* What a reader was given; lives in shared memory when readers are to die. */
#define NOTES_MAX   4096
#define NUMBERS_MAX 65536

struct note {
	uint32_t thread, from, bytes;
	uint64_t sequence, base_ns;
};

struct notebook {
	uint32_t count, numbers;
	struct note notes[NOTES_MAX];
	uint64_t number[NUMBERS_MAX]; /* of the records, in the order of arrival */
	int fail; /* errno to answer with */
};

static inline struct notebook *notebook_new(void)
{
	void *map = mmap(NULL, sizeof(struct notebook), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(map != MAP_FAILED);
	return map;
}

static inline void notebook_free(struct notebook *book)
{
	munmap(book, sizeof(*book));
}

static inline int note_fragment(void *context, const struct ring_fragment *fragment)
{
	struct notebook *book = context;
	const uint8_t *data = fragment->data;
	uint32_t position = fragment->from ? 0 : HEADER;

	if (book->fail)
		return -book->fail;
	assert_true(book->count < NOTES_MAX);
	book->notes[book->count++] = (struct note){fragment->thread, fragment->from,
						   fragment->bytes, fragment->sequence,
						   fragment->base_ns};
	while (position < fragment->bytes) {
		const struct ring_record *record = (const void *)(data + position);

		/* Of a hostile memory: what a decoder would refuse. */
		if (record->bytes < sizeof(*record) || record->bytes > fragment->bytes - position)
			break;
		assert_true(book->numbers < NUMBERS_MAX);
		book->number[book->numbers++] = record->process;
		position += record->bytes;
	}
	return 0;
}

/* Sub-buffers that can be had now: free ones, taken by a thread of their own until there is none. */
static inline uint32_t subbufs_takeable(struct ring *ring, uint32_t tid)
{
	struct ring_writer writer;
	uint32_t taken = 0;
	uint64_t now_ns = 1ull << 50;

	writer_new(&writer, ring, tid);
	/* Each is too far from the one before for 32 bits of nanoseconds. */
	while (taken <= ring->subbuf_count &&
	       ring_reserve(&writer, now_ns, RING_IN, RECORD_BYTES, 1)) {
		now_ns += 1ull << 33;
		taken++;
	}
	return taken;
}

#endif
