/* SPDX-License-Identifier: Apache-2.0 */
/* Stalls inside stalls: a thread's lost time is counted once. */
#include <stdio.h>

#include "stall_nest.h"
#include "timeline_feed.h"

#define MS 1000000ULL

/* Thread 101 is scheduler 1, of process 100; task 7, of process 6, takes its CPU. */
static void off(struct feed *feed, uint64_t ts_ns, uint64_t process)
{
	struct probe_switch record = {
		.prev_tid = 101,
		.prev_tgid = 100,
		.next_tid = 7,
		.next_tgid = 6,
		.flags = PROBE_PREV_TARGET | PROBE_PROCESS_KNOWN | PROBE_SYSCALL_KNOWN,
		.syscall = -1,
		.process = process,
		.prev_comm = "1_scheduler",
		.next_comm = "hog",
	};

	feed_kernel(feed, ts_ns, PROBE_SWITCH, 0, &record);
}

static void on(struct feed *feed, uint64_t ts_ns)
{
	feed_switch(feed, ts_ns, 0, 7, 0, 101);
}

static void gc(struct feed *feed, uint64_t ts_ns, uint32_t kind, uint32_t ring, uint64_t process)
{
	const struct ring_gc record = {.heap_size = 1000};
	struct event event = feed_vm(ts_ns, kind, ring, process, &record);

	feed_give(feed, &event);
}

static void expect(const struct feed *feed, size_t i, enum stall_cause cause, uint64_t start_ns,
		   uint64_t end_ns)
{
	assert_true(i < feed->stall_count);
	assert_string_equal(stall_cause_name(feed->stalls[i].cause), stall_cause_name(cause));
	assert_int_equal(feed->stalls[i].start_ns, start_ns);
	assert_int_equal(feed->stalls[i].end_ns, end_ns);
}

static void a_preemption_inside_a_collection_is_a_part_of_it(void **unused)
{
	struct feed *feed = feed_new(2 * MS);

	(void)unused;
	on(feed, 1 * MS);
	gc(feed, 10 * MS, RING_GC_MAJOR_START, 1, PID(1));
	off(feed, 12 * MS, PID(1)); /* 3 ms */
	on(feed, 15 * MS);
	gc(feed, 30 * MS, RING_GC_MAJOR_END, 1, PID(1));
	off(feed, 40 * MS, PID(1)); /* 5 ms, alone */
	on(feed, 45 * MS);
	timeline_finish(feed->timeline);

	assert_int_equal(feed->stall_count, 2);
	expect(feed, 0, STALL_GC, 10 * MS, 30 * MS);
	assert_int_equal(feed->stalls[0].part_ns[STALL_GC], 17 * MS);
	assert_int_equal(feed->stalls[0].part_ns[STALL_PREEMPTED], 3 * MS);
	assert_int_equal(feed->stalls[0].process, PID(1));
	expect(feed, 1, STALL_PREEMPTED, 40 * MS, 45 * MS);
	assert_int_equal(feed->stalls[1].part_ns[STALL_PREEMPTED], 5 * MS);
	feed_free(feed);
}

static void what_took_most_of_a_collection_is_its_cause(void **unused)
{
	struct feed *feed = feed_new(2 * MS);

	(void)unused;
	on(feed, 1 * MS);
	gc(feed, 10 * MS, RING_GC_MINOR_START, 1, PID(1));
	off(feed, 11 * MS, PID(1));
	on(feed, 29 * MS);
	gc(feed, 30 * MS, RING_GC_MINOR_END, 1, PID(1));
	timeline_finish(feed->timeline);

	assert_int_equal(feed->stall_count, 1);
	expect(feed, 0, STALL_PREEMPTED, 10 * MS, 30 * MS);
	assert_int_equal(feed->stalls[0].by_tid, 7);
	assert_int_equal(feed->stalls[0].part_ns[STALL_PREEMPTED], 18 * MS);
	assert_int_equal(feed->stalls[0].part_ns[STALL_GC], 2 * MS);
	feed_free(feed);
}

static void a_long_run_holds_collections_and_preemptions(void **unused)
{
	struct feed *feed = feed_new(2 * MS);

	(void)unused;
	on(feed, 1 * MS);
	feed_running(feed, 10 * MS, RING_IN, 1, PID(1));
	off(feed, 12 * MS, PID(1)); /* 3 ms */
	on(feed, 15 * MS);
	gc(feed, 20 * MS, RING_GC_MAJOR_START, 1, PID(1));
	off(feed, 21 * MS, PID(1)); /* 2 ms of its 6 */
	on(feed, 23 * MS);
	gc(feed, 26 * MS, RING_GC_MAJOR_END, 1, PID(1));
	gc(feed, 28 * MS, RING_GC_MINOR_START, 1, PID(1)); /* too short for a stall of its own */
	gc(feed, 29 * MS, RING_GC_MINOR_END, 1, PID(1));
	feed_running(feed, 50 * MS, RING_OUT, 1, PID(1));
	timeline_finish(feed->timeline);

	assert_int_equal(feed->stall_count, 1);
	expect(feed, 0, STALL_LONG_RUN, 10 * MS, 50 * MS);
	assert_int_equal(feed->stalls[0].part_ns[STALL_PREEMPTED], 5 * MS);
	/* on a CPU for 35 ms, 5 of them in collections */
	assert_int_equal(feed->stalls[0].part_ns[STALL_LONG_RUN], 30 * MS);
	assert_int_equal(feed->stalls[0].part_ns[STALL_GC], 5 * MS);
	feed_free(feed);
}

static void the_stalls_of_a_short_run_stand_for_themselves(void **unused)
{
	struct feed *feed = feed_new(2 * MS);

	(void)unused;
	on(feed, 1 * MS);
	feed_running(feed, 10 * MS, RING_IN, 1, PID(1));
	off(feed, 11 * MS, PID(1));
	on(feed, 15 * MS);
	off(feed, 16 * MS, PID(1));
	on(feed, 19 * MS);
	assert_int_equal(feed->stall_count, 0);
	feed_running(feed, 20 * MS, RING_OUT, 1, PID(1));
	assert_int_equal(feed->stall_count, 2);
	expect(feed, 0, STALL_PREEMPTED, 11 * MS, 15 * MS);
	expect(feed, 1, STALL_PREEMPTED, 16 * MS, 19 * MS);
	timeline_finish(feed->timeline);
	assert_int_equal(feed->stall_count, 2);
	feed_free(feed);
}

static void an_end_that_never_comes_holds_nothing_back_for_good(void **unused)
{
	struct feed *feed = feed_new(2 * MS);
	uint64_t i;

	(void)unused;
	on(feed, 1 * MS);
	gc(feed, 5 * MS, RING_GC_MAJOR_START, 1, PID(1));
	/* it went on on a dirty thread, and ended there */
	gc(feed, 9 * MS, RING_GC_MAJOR_END, 10, PID(1));
	for (i = 0; i < 1500; i++) {
		off(feed, (10 + 5 * i) * MS, PID(2));
		on(feed, (13 + 5 * i) * MS);
	}
	timeline_finish(feed->timeline);
	assert_int_equal(feed->stall_count, 1500);
	for (i = 0; i < 1500; i++)
		expect(feed, i, STALL_PREEMPTED, (10 + 5 * i) * MS, (13 + 5 * i) * MS);
	feed_free(feed);
}

struct law {
	uint64_t end_ns, total_ns;
	uint64_t count, nested;
};

static void law_holds(void *context, const struct stall *stall)
{
	struct law *law = context;
	uint64_t sum_ns = 0, parts = 0;

	assert_true(stall->start_ns >= law->end_ns);
	assert_true(stall->end_ns > stall->start_ns);
	for (int i = 0; i < STALL_CAUSES; i++) {
		sum_ns += stall->part_ns[i];
		parts += stall->part_ns[i] > 0;
	}
	assert_int_equal(sum_ns, stall->end_ns - stall->start_ns);
	law->end_ns = stall->end_ns;
	law->total_ns += sum_ns;
	law->count++;
	law->nested += parts > 1;
}

static uint32_t dice_state = 1;

static uint32_t dice(uint32_t sides)
{
	dice_state = dice_state * 1664525u + 1013904223u;
	return (dice_state >> 8) % sides;
}

/* Runs, collections in them and times off the CPU, in any order, with ends that are missing. */
static void whatever_nests_no_time_counts_twice(void **unused)
{
	struct law law = {0};
	const struct timeline_sink sink = {.context = &law, .stall = law_holds};
	struct stall_nests nests = {.sink = &sink};
	uint64_t now_ns = 1, start_ns[3] = {0};
	int i;

	(void)unused;
	for (i = 0; i < 200000; i++) {
		struct stall stall = {.tid = 101};
		enum stall_hold hold = dice(2) ? STALL_HOLD_RUN : STALL_HOLD_GC;

		now_ns += dice(20);
		switch (dice(4)) {
		case 0:
			start_ns[hold] = now_ns;
			assert_int_equal(stall_nest_begin(&nests, 101, hold), 0);
			break;
		case 1:
			stall.start_ns = start_ns[hold];
			stall.end_ns = now_ns;
			stall.cause = hold == STALL_HOLD_RUN ? STALL_LONG_RUN : STALL_GC;
			assert_int_equal(stall_nest_end(&nests, 101, hold, dice(3) ? &stall : NULL,
							dice(200), dice(50)),
					 0);
			start_ns[hold] = now_ns;
			break;
		default:
			stall.start_ns = now_ns;
			stall.end_ns = now_ns + 1 + dice(50);
			stall.cause = (enum stall_cause)dice(6);
			now_ns = stall.end_ns;
			assert_int_equal(stall_nest_give(&nests, &stall), 0);
		}
	}
	stall_nests_finish(&nests);
	assert_true(law.total_ns <= now_ns);
	assert_true(law.nested > 10000);
	assert_true(law.count > law.nested);
	stall_nests_free(&nests);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_preemption_inside_a_collection_is_a_part_of_it),
		cmocka_unit_test(what_took_most_of_a_collection_is_its_cause),
		cmocka_unit_test(a_long_run_holds_collections_and_preemptions),
		cmocka_unit_test(the_stalls_of_a_short_run_stand_for_themselves),
		cmocka_unit_test(whatever_nests_no_time_counts_twice),
		cmocka_unit_test(an_end_that_never_comes_holds_nothing_back_for_good),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
