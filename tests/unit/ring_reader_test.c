/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: draining, and the races between reader and writers, forced at test points. */

#include "ring_scene.h"

#include <errno.h>

static const char *hook_point;

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

static void drain_as_successor(void)
{
	assert_true(ring_drain(successor, UINT64_MAX, note_fragment, scene.book) > 0);
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
	/* Were it on the stack as well, it would be pushed onto itself here. */
	hook_set("closed", drain_as_successor);
	records_write(&scene.writer, 1, RECORDS_FIT);
	assert_null(hook_action);
	arrived(0, RECORDS_FIT);
	assert_int_equal(subbufs_takeable(&scene.ring, 3), 3);
	ring_reader_free(successor);
	scene_free();
}

static void take_two_and_free_the_first(void)
{
	records_write(&scene.other, 500, RECORDS_FIT + 1);
	drain();
}

/* The same index is on top again, but another one is below it. */
static void tag_tells_the_stacks_apart(void **state)
{
	(void)state;
	scene_new(RING_DISCARD, 4);
	hook_set("take", take_two_and_free_the_first);
	records_write(&scene.writer, 0, 1);
	assert_null(hook_action);
	assert_int_equal(scene.writer.index, 0);
	assert_int_equal(scene.other.index, 1);
	assert_int_equal(subbufs_takeable(&scene.ring, 3), 2);
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
		cmocka_unit_test(tag_tells_the_stacks_apart),
		cmocka_unit_test(writers_take_different_ones),
		cmocka_unit_test(push_and_take_do_not_lose_any),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
