/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: what a hostile other side can do to the reader and to the writers. */

#include "ring_scene.h"

static void lengths_are_bounded(void **state)
{
	static const uint64_t lengths[] = {0,	 8,	     831,	 832,
					   4097, 65536,	     UINT32_MAX, UINT64_MAX,
					   4095, 1ull << 32, INT64_MAX,	 833};

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		for (int full = 0; full < 2; full++) {
			scene_new(RING_DISCARD, 4);
			records_write(&scene.writer, 0, full ? RECORDS_FIT + 1 : 1);
			atomic_store(&subbuf(0)->committed, lengths[i]);
			assert_true(drain() >= 0);
			assert_true(drain() >= 0);
			for (uint32_t n = 0; n < scene.book->count; n++) {
				const struct note *note = &scene.book->notes[n];

				assert_true(note->bytes <= 4096 && note->from <= 4096);
				assert_true(note->from + note->bytes <= 4096);
				assert_int_equal(note->bytes % 8, 0);
			}
			/* A full one without sense does not stay for ever. */
			if (full)
				assert_int_equal(RING_STATE_OF(scene.ring.meta[0].state),
						 RING_FREE);
			scene_free();
		}
	}
}

static void consumed_is_bounded(void **state)
{
	static const uint32_t consumed[] = {7, 831, 100000, UINT32_MAX, 4096, 4104, 12};

	(void)state;
	for (size_t i = 0; i < sizeof(consumed) / sizeof(consumed[0]); i++) {
		for (uint32_t sequence = 0; sequence < 2; sequence++) {
			scene_new(RING_DISCARD, 4);
			records_write(&scene.writer, 0, RECORDS_FIT + 1);
			atomic_store(&scene.ring.meta[0].consumed,
				     RING_CONSUMED(sequence, 0) | consumed[i]);
			assert_true(drain() >= 0);
			for (uint32_t n = 0; n < scene.book->count; n++)
				assert_true(scene.book->notes[n].from +
						    scene.book->notes[n].bytes <=
					    4096);
			scene_free();
		}
	}
}

static void headers_that_lie_are_not_passed_on(void **state)
{
	(void)state;
	scene_new(RING_DISCARD, 4);
	records_write(&scene.writer, 0, RECORDS_FIT);
	subbuf(0)->thread = 3;
	assert_int_equal(drain(), 0);
	subbuf(0)->thread = UINT32_MAX;
	assert_int_equal(drain(), 0);
	subbuf(0)->thread = 0;
	subbuf(0)->sequence = 77;
	assert_int_equal(drain(), 0);
	records_write(&scene.writer, 0, 1);
	/* Full and wrong: freed, and the one after it comes. */
	assert_int_equal(drain(), HEADER + 24);
	assert_int_equal(RING_STATE_OF(scene.ring.meta[0].state), RING_FREE);
	scene_free();
}

/* Any state words at all: the reader comes back, and passes on nothing outside the pool. */
static void states_of_any_content_are_survived(void **state)
{
	uint32_t seed = 1;

	(void)state;
	for (int round = 0; round < 500; round++) {
		scene_new(round % 2 ? RING_OVERWRITE : RING_DISCARD, 8);
		records_write(&scene.writer, 0, 3 * RECORDS_FIT);
		for (uint32_t i = 0; i < 8; i++) {
			uint64_t word = 0;

			for (int byte = 0; byte < 8; byte++) {
				seed = seed * 1664525 + 1013904223;
				word = word << 8 | seed >> 24;
			}
			/* Mostly of a shape that is looked at closely. */
			if (round % 4)
				word = RING_STATE(word % 5, (word >> 8) % 5, (word >> 16) % 5);
			atomic_store(&scene.ring.meta[i].state, word);
			atomic_store(&scene.ring.meta[i].next, seed % 11);
			atomic_store(&scene.ring.meta[i].consumed, (uint32_t)word);
			subbuf(i)->committed = seed % 6000;
		}
		atomic_store(&scene.ring.control->free_top, seed % 11);
		for (int turn = 0; turn < 3; turn++) {
			for (uint64_t n = 0; n < 300; n++) {
				record_write(&scene.writer, n);
				record_write(&scene.other, n);
			}
			assert_true(drain() >= 0);
		}
		/* And so does a successor, which repairs first. */
		ring_reader_free(scene.reader);
		scene.reader = ring_reader_new(&scene.ring, 1, 1);
		assert_non_null(scene.reader);
		assert_true(drain() >= 0);
		scene.book->count = scene.book->numbers = 0;
		scene_free();
	}
}

static void free_stacks_of_any_content_are_survived(void **state)
{
	/* beyond the pool, onto itself, a ring of two, an index beyond behind a right one */
	static const struct {
		uint64_t top;
		uint32_t next0, next1;
		int taken;
	} stacks[] = {
		{9, 0, 0, 0}, {UINT64_MAX, 0, 0, 0}, {1, 1, 0, 1}, {1, 2, 1, 2},
		{1, 9, 0, 0}, {1, UINT32_MAX, 0, 0}, {0, 0, 0, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
		scene_new(RING_DISCARD, 8);
		atomic_store(&scene.ring.control->free_top, stacks[i].top);
		atomic_store(&scene.ring.meta[0].next, stacks[i].next0);
		atomic_store(&scene.ring.meta[1].next, stacks[i].next1);
		for (int n = 0; n < 3 * RECORDS_FIT; n++)
			record_write(&scene.writer, 1);
		assert_int_equal(scene.writer.sequence, stacks[i].taken);
		assert_int_equal(scene.ring.threads[0].discarded[RING_IN],
				 (3 - stacks[i].taken) * RECORDS_FIT);
		/* The next reader finds all that are free. */
		ring_reader_free(scene.reader);
		scene.reader = ring_reader_new(&scene.ring, 1, 1);
		while (drain() > 0)
			;
		assert_int_equal(subbufs_takeable(&scene.ring, 3),
				 stacks[i].taken && scene.writer.subbuf ? 7 : 8);
		scene_free();
	}
}

/* A reserved record is changed under the writer's hands. */
static void commit_does_not_believe_the_record(void **state)
{
	struct ring_record *record;

	(void)state;
	scene_new(RING_DISCARD, 4);
	record = ring_reserve(&scene.writer, 1000, RING_IN, 24, 1);
	record->bytes = 65535;
	record->kind = 255;
	ring_commit(&scene.writer, record);
	assert_int_equal(scene.writer.position, HEADER + 24);
	assert_int_equal(scene.ring.threads[0].recorded[RING_UNKNOWN], 1);
	record = ring_reserve(&scene.writer, 1000, RING_IN, 24, 1);
	record->bytes = 13;
	ring_commit(&scene.writer, record);
	assert_int_equal(scene.writer.position, HEADER + 32);
	/* Once is enough. */
	ring_commit(&scene.writer, record);
	assert_int_equal(scene.writer.position, HEADER + 32);
	scene_free();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths_are_bounded),
		cmocka_unit_test(consumed_is_bounded),
		cmocka_unit_test(headers_that_lie_are_not_passed_on),
		cmocka_unit_test(states_of_any_content_are_survived),
		cmocka_unit_test(free_stacks_of_any_content_are_survived),
		cmocka_unit_test(commit_does_not_believe_the_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
