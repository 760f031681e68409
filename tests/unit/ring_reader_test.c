/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: draining, and what a hostile or racing other side can do to both. */

#include "ring_fixture.h"

#include <errno.h>
#include <stdio.h>

/* A session with one writer and one reader. */
struct scene {
	struct ring ring;
	struct ring_writer writer, other;
	struct ring_reader *reader;
	struct notebook *book;
};

static struct scene scene;
static const char *hook_point;

static void scene_new(enum ring_mode mode, uint32_t subbufs)
{
	struct ring_config config = small_config(mode, subbufs);

	memset(&scene, 0, sizeof(scene));
	session_new(&scene.ring, &config);
	writer_new(&scene.writer, &scene.ring, 1);
	writer_new(&scene.other, &scene.ring, 2);
	scene.reader = ring_reader_new(&scene.ring, 1, 1);
	scene.book = notebook_new();
	assert_non_null(scene.reader);
}

static void scene_free(void)
{
	ring_reader_free(scene.reader);
	session_free(&scene.ring);
	notebook_free(scene.book);
}

static int64_t drain(void)
{
	return ring_drain(scene.reader, UINT64_MAX, note_fragment, scene.book);
}

static struct ring_subbuf *subbuf(uint32_t index)
{
	return (struct ring_subbuf *)(scene.ring.pool + 4096ull * index);
}

/* The numbers that arrived are from..from+count-1, in order. */
static void arrived(uint64_t from, uint64_t count)
{
	assert_int_equal(scene.book->numbers, count);
	for (uint64_t i = 0; i < count; i++)
		assert_int_equal(scene.book->number[i], from + i);
}

/* ---- Draining ---------------------------------------------------------------------------- */

static void fragments_come_in_pieces(void **state)
{
	const struct note *notes;

	(void)state;
	scene_new(RING_DISCARD, 8);
	notes = scene.book->notes;
	assert_int_equal(drain(), 0);
	records_write(&scene.writer, 0, 10);
	assert_int_equal(drain(), HEADER + 240);
	assert_int_equal(drain(), 0);
	records_write(&scene.writer, 10, 5);
	assert_int_equal(drain(), 120);
	records_write(&scene.writer, 15, RECORDS_FIT);
	assert_int_equal(drain(), (RECORDS_FIT - 15) * 24 + HEADER + 15 * 24);
	arrived(0, RECORDS_FIT + 15);
	assert_int_equal(scene.book->count, 4);
	assert_int_equal(notes[1].from, HEADER + 240);
	assert_int_equal(notes[1].sequence, 1);
	assert_int_equal(notes[1].base_ns, 1000);
	assert_int_equal(notes[2].from, HEADER + 360);
	assert_int_equal(notes[3].from, 0);
	assert_int_equal(notes[3].sequence, 2);
	/* The full one is free again, and the next to be taken. */
	assert_int_equal(RING_STATE_OF(scene.ring.meta[0].state), RING_FREE);
	assert_int_equal((uint32_t)scene.ring.control->free_top, 1);
	scene_free();
}

static void full_ones_come_in_turn_within_the_budget(void **state)
{
	static const uint32_t threads[] = {0, 1, 0, 1, 0, 1};

	(void)state;
	scene_new(RING_DISCARD, 8);
	records_write(&scene.writer, 0, 3 * RECORDS_FIT);
	records_write(&scene.other, 1000, 3 * RECORDS_FIT);
	/* One full sub-buffer at a time, alternating. */
	for (uint32_t i = 0; i < 6; i++) {
		assert_int_equal(ring_drain(scene.reader, 4096, note_fragment, scene.book), 4096);
		assert_int_equal(scene.book->count, i + 1);
		assert_int_equal(scene.book->notes[i].thread, threads[i]);
		assert_int_equal(scene.book->notes[i].sequence, i / 2 + 1);
		/* 6 of 8 are in use; the two being written are not waiting for us. */
		assert_int_equal(ring_fill_permille(scene.reader), i < 5 ? (4 - i) * 125 : 0);
	}
	/* A budget of nothing still gets on. */
	records_write(&scene.writer, 9000, 1);
	assert_true(ring_drain(scene.reader, 0, note_fragment, scene.book) > 0);
	scene_free();
}

static void refused_fragments_come_again(void **state)
{
	(void)state;
	scene_new(RING_DISCARD, 4);
	records_write(&scene.writer, 0, 2 * RECORDS_FIT + 1);
	scene.book->fail = ENOSPC;
	assert_int_equal(drain(), -ENOSPC);
	assert_int_equal(drain(), -ENOSPC);
	assert_int_equal(RING_STATE_OF(scene.ring.meta[0].state), RING_FULL);
	scene.book->fail = 0;
	assert_true(drain() > 0);
	arrived(0, 2 * RECORDS_FIT + 1);
	scene.book->fail = EIO;
	records_write(&scene.writer, 2 * RECORDS_FIT + 1, 1);
	assert_int_equal(drain(), -EIO);
	scene.book->fail = 0;
	assert_int_equal(drain(), 24);
	arrived(0, 2 * RECORDS_FIT + 2);
	scene_free();
}

static void replaced_reader_stops(void **state)
{
	struct ring_reader *second;

	(void)state;
	scene_new(RING_DISCARD, 4);
	records_write(&scene.writer, 0, 1);
	/* The same pid: a process that attaches again. */
	second = ring_reader_new(&scene.ring, 1, 1);
	assert_non_null(second);
	assert_int_equal(drain(), -ESTALE);
	ring_reader_free(second);
	scene_free();
}

/* ---- Forced races ------------------------------------------------------------------------ */

static void (*hook_action)(void);

static void hook_once(const char *point)
{
	void (*action)(void) = hook_action;

	if (strcmp(point, hook_point))
		return;
	hook_action = NULL;
	ring_test_hook = NULL;
	action();
}

static void hook_set(const char *point, void (*action)(void))
{
	hook_point = point;
	hook_action = action;
	ring_test_hook = hook_once;
}

static void write_three_subbufs(void)
{
	records_write(&scene.writer, 10, 3 * RECORDS_FIT);
}

/* Between the scans a thread goes on: nothing of it may come before what it wrote earlier. */
static void order_holds_when_a_thread_runs_on(void **state)
{
	(void)state;
	scene_new(RING_DISCARD, 8);
	records_write(&scene.writer, 0, 10);
	hook_set("scanned", write_three_subbufs);
	assert_true(drain() > 0);
	assert_null(hook_action);
	/* Only up to the sub-buffer that the first scan saw. */
	arrived(0, RECORDS_FIT);
	assert_true(drain() > 0);
	arrived(0, 10 + 3 * RECORDS_FIT);
	scene_free();
}

static void overwrite_everything(void)
{
	records_write(&scene.writer, 1000, 10 * RECORDS_FIT);
}

/* Overwrite mode: the sub-buffer is taken back while it is being copied. */
static void copy_of_an_overwritten_subbuf_is_dropped(void **state)
{
	(void)state;
	scene_new(RING_OVERWRITE, 2);
	records_write(&scene.writer, 0, 10);
	hook_set("copied", overwrite_everything);
	assert_int_equal(drain(), 0);
	assert_int_equal(scene.book->count, 0);
	/* 1370 records in all: 10 full sub-buffers and 10 records, of which the last two are kept. */
	assert_true(drain() > 0);
	arrived(1000 + 10 * RECORDS_FIT - 10 - RECORDS_FIT, RECORDS_FIT + 10);
	scene_free();
}

/* The same after it was passed on: its length must not count for the new use. */
static void late_length_is_not_the_new_uses(void **state)
{
	(void)state;
	scene_new(RING_OVERWRITE, 2);
	records_write(&scene.writer, 0, 10);
	hook_set("passed", overwrite_everything);
	assert_int_equal(drain(), HEADER + 240);
	arrived(0, 10);
	scene.book->numbers = 0;
	assert_true(drain() > 0);
	arrived(1000 + 10 * RECORDS_FIT - 10 - RECORDS_FIT, RECORDS_FIT + 10);
	assert_int_equal(scene.book->notes[1].from, 0);
	assert_int_equal(scene.book->notes[2].from, 0);
	scene_free();
}

static struct ring_reader *successor;

static void take_over(void)
{
	successor = ring_reader_new(&scene.ring, 1, 1);
}

/* A writer stands between taking an index off the stack and claiming it when a reader repairs. */
static void repair_wins_over_a_slow_writer(void **state)
{
	(void)state;
	scene_new(RING_DISCARD, 4);
	hook_set("taken", take_over);
	records_write(&scene.writer, 0, 1);
	assert_non_null(successor);
	/* The repairer put it back and the writer took it from there: it is used once. */
	assert_int_equal(scene.ring.meta[0].state, RING_STATE(RING_WRITING, 0, 1));
	assert_int_equal(subbufs_takeable(&scene.ring, 3), 3);
	ring_reader_free(successor);
	scene_free();
}

static void take_as_the_other(void)
{
	records_write(&scene.other, 500, 1);
}

static void writers_take_different_ones(void **state)
{
	static const char *const points[] = {"take", "taken", "claimed"};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		scene_new(RING_DISCARD, 4);
		hook_set(points[i], take_as_the_other);
		records_write(&scene.writer, 0, 1);
		assert_null(hook_action);
		assert_int_not_equal(scene.writer.index, scene.other.index);
		assert_int_equal(subbufs_takeable(&scene.ring, 3), 2);
		scene_free();
	}
}

static void fill_as_the_other(void)
{
	for (int i = 0; i < 4 * RECORDS_FIT; i++)
		record_write(&scene.other, 1);
}

/* The reader pushes while a writer empties the stack. */
static void push_and_take_do_not_lose_any(void **state)
{
	static const char *const points[] = {"free", "freed", "push", "pushed"};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		scene_new(RING_DISCARD, 4);
		records_write(&scene.writer, 0, 2 * RECORDS_FIT + 1);
		hook_set(points[i], fill_as_the_other);
		assert_true(drain() > 0);
		assert_null(hook_action);
		/* The other filled the last free one, and the freed one if it was in time. */
		assert_null(scene.other.subbuf);
		while (drain() > 0)
			;
		/* All but the one that the writer is in. */
		assert_int_equal(subbufs_takeable(&scene.ring, 3), 3);
		scene_free();
	}
}

/* ---- Hostility --------------------------------------------------------------------------- */

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
		cmocka_unit_test(fragments_come_in_pieces),
		cmocka_unit_test(full_ones_come_in_turn_within_the_budget),
		cmocka_unit_test(refused_fragments_come_again),
		cmocka_unit_test(replaced_reader_stops),
		cmocka_unit_test(order_holds_when_a_thread_runs_on),
		cmocka_unit_test(copy_of_an_overwritten_subbuf_is_dropped),
		cmocka_unit_test(late_length_is_not_the_new_uses),
		cmocka_unit_test(repair_wins_over_a_slow_writer),
		cmocka_unit_test(writers_take_different_ones),
		cmocka_unit_test(push_and_take_do_not_lose_any),
		cmocka_unit_test(lengths_are_bounded),
		cmocka_unit_test(consumed_is_bounded),
		cmocka_unit_test(headers_that_lie_are_not_passed_on),
		cmocka_unit_test(states_of_any_content_are_survived),
		cmocka_unit_test(free_stacks_of_any_content_are_survived),
		cmocka_unit_test(commit_does_not_believe_the_record),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
