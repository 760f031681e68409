/* SPDX-License-Identifier: Apache-2.0 */
/* States of kernel threads: every expected interval is worked out by hand from the events. */
#include <stdio.h>
#include <sys/syscall.h>

#include "timeline_feed.h"

struct expected {
	int32_t tid;
	enum thread_state state;
	uint64_t start_ns, end_ns;
};

static void expect_intervals(const struct feed *feed, const struct expected *expected, size_t count)
{
	size_t i;

	assert_int_equal(feed->thread_count, count);
	for (i = 0; i < count; i++) {
		assert_int_equal(feed->threads[i].tid, expected[i].tid);
		assert_int_equal(feed->threads[i].state, expected[i].state);
		assert_int_equal(feed->threads[i].start_ns, expected[i].start_ns);
		assert_int_equal(feed->threads[i].end_ns, expected[i].end_ns);
	}
}

#define EXPECT(feed, ...)                                                                          \
	do {                                                                                       \
		const struct expected expected_[] = {__VA_ARGS__};                                 \
                                                                                                   \
		expect_intervals(feed, expected_, sizeof(expected_) / sizeof(expected_[0]));       \
	} while (0)

/* All states of a thread add up to its lifetime. */
static void expect_sums(const struct feed *feed, uint64_t length_ns)
{
	const struct thread_totals *totals;
	size_t count = timeline_threads(feed->timeline, &totals), i, state;

	for (i = 0; i < count; i++) {
		uint64_t sum_ns = 0;

		for (state = 0; state < THREAD_STATES; state++)
			sum_ns += totals[i].state_ns[state];
		assert_int_equal(sum_ns, length_ns);
	}
}

static void one_thread_through_all_states(void **unused)
{
	struct feed *feed = feed_new(1000000);
	const struct thread_totals *totals;

	(void)unused;
	feed_switch(feed, 100, 0, 9, 0, 101); /* unknown until here */
	feed_switch(feed, 200, 0, 101, 1, 0); /* sleeps */
	feed_waking(feed, 300, 101, 55);
	feed_switch(feed, 350, 1, 0, 0, 101);
	feed_switch(feed, 400, 1, 101, 0x100, 8); /* preempted by task 8 */
	feed_switch(feed, 500, 1, 8, 0, 101);
	feed_switch(feed, 600, 1, 101, 2, 0); /* uninterruptible */
	feed_waking(feed, 700, 101, 56);
	feed_switch(feed, 710, 1, 0, 0, 101);
	feed_switch(feed, 720, 1, 101, 4, 0); /* stopped */
	feed_waking(feed, 800, 101, 57);
	feed_switch(feed, 810, 1, 0, 0, 101);
	feed_switch(feed, 820, 1, 101, 0x80, 0); /* idle counts as sleeping */
	feed_switch(feed, 900, 1, 0, 0, 101); /* its waking was lost */
	feed_switch(feed, 950, 1, 101, 8, 0); /* traced by a debugger */
	feed_waking(feed, 1000, 101, 58);
	assert_int_equal(timeline_finish(feed->timeline), 0);
	EXPECT(feed, {101, THREAD_UNKNOWN, 0, 100}, {101, THREAD_RUNNING, 100, 200},
	       {101, THREAD_SLEEPING, 200, 300}, {101, THREAD_RUNNABLE, 300, 350},
	       {101, THREAD_RUNNING, 350, 400}, {101, THREAD_RUNNABLE, 400, 500},
	       {101, THREAD_RUNNING, 500, 600}, {101, THREAD_BLOCKED, 600, 700},
	       {101, THREAD_RUNNABLE, 700, 710}, {101, THREAD_RUNNING, 710, 720},
	       {101, THREAD_STOPPED, 720, 800}, {101, THREAD_RUNNABLE, 800, 810},
	       {101, THREAD_RUNNING, 810, 820}, {101, THREAD_SLEEPING, 820, 900},
	       {101, THREAD_RUNNING, 900, 950}, {101, THREAD_STOPPED, 950, 1000});
	expect_sums(feed, 1000);

	assert_int_equal(feed->threads[2].waker_tid, 55);
	assert_string_equal(feed->threads[2].waker_comm, "waker");
	assert_false(feed->threads[3].preempted);
	assert_int_equal(feed->threads[4].cpu, 1);
	assert_true(feed->threads[5].preempted);
	assert_int_equal(feed->threads[5].by_tid, 8);
	assert_string_equal(feed->threads[5].by_comm, "task8");

	assert_int_equal(timeline_threads(feed->timeline, &totals), 1);
	assert_int_equal(totals[0].switches, 6);
	assert_int_equal(totals[0].preemptions, 1);
	assert_int_equal(totals[0].role, RING_ROLE_NORMAL);
	assert_int_equal(totals[0].number, 1);
	feed_free(feed);
}

static void a_waking_just_before_the_sleep_is_its_end(void **unused)
{
	struct feed *feed = feed_new(1000000);

	(void)unused;
	feed_switch(feed, 1000, 0, 0, 0, 101);
	feed_waking(feed, 2000, 101, 55); /* the waker is faster than the sleeper */
	feed_switch(feed, 2500, 0, 101, 1, 0);
	feed_switch(feed, 9000, 0, 0, 0, 101);
	feed_waking(feed, 9500, 101, 55);
	feed_switch(feed, 9900, 0, 101, 1, 0); /* but this sleep ends with a waking of its own */
	feed_waking(feed, 10500, 101, 55);
	feed_switch(feed, 10600, 0, 0, 0, 101);
	timeline_finish(feed->timeline);
	EXPECT(feed, {101, THREAD_UNKNOWN, 0, 1000}, {101, THREAD_RUNNING, 1000, 2500},
	       {101, THREAD_RUNNABLE, 2500, 9000}, {101, THREAD_RUNNING, 9000, 9900},
	       {101, THREAD_SLEEPING, 9900, 10500}, {101, THREAD_RUNNABLE, 10500, 10600});
	feed_free(feed);
}

static void a_thread_lives_from_its_fork_to_its_last_switch(void **unused)
{
	struct feed *feed = feed_new(1000000);
	struct probe_task task = {.tid = 102, .tgid = 100, .parent_tid = 101, .comm = "beam.smp"};
	const struct thread_totals *totals;

	(void)unused;
	feed_switch(feed, 50, 0, 0, 0, 101);
	feed_kernel(feed, 100, PROBE_FORK, 0, &task);
	feed_waking(feed, 110, 102, 101);
	feed_switch(feed, 150, 1, 0, 0, 102);
	feed_kernel(feed, 300, PROBE_EXIT, 1, &task);
	feed_switch(feed, 310, 1, 102, 1, 0); /* it may sleep and be preempted on its way out */
	feed_waking(feed, 311, 102, 101);
	feed_switch(feed, 312, 1, 0, 0, 102);
	feed_switch(feed, 320, 1, 102, 0x20, 9);
	feed_switch(feed, 330, 1, 9, 0, 102);
	feed_switch(feed, 331, 1, 102, 0x10, 0);
	/* the number is given out again */
	feed_kernel(feed, 400, PROBE_FORK, 0, &task);
	feed_switch(feed, 450, 1, 0, 0, 102);
	feed_switch(feed, 500, 0, 101, 1, 0);
	timeline_finish(feed->timeline);
	EXPECT(feed, {101, THREAD_UNKNOWN, 0, 50}, {102, THREAD_RUNNABLE, 100, 150},
	       {102, THREAD_RUNNING, 150, 310}, {102, THREAD_SLEEPING, 310, 311},
	       {102, THREAD_RUNNABLE, 311, 312}, {102, THREAD_RUNNING, 312, 320},
	       {102, THREAD_UNKNOWN, 320, 330}, {102, THREAD_RUNNING, 330, 331},
	       {102, THREAD_RUNNABLE, 400, 450}, {101, THREAD_RUNNING, 50, 500},
	       {102, THREAD_RUNNING, 450, 500});
	assert_true(feed->threads[10].open);
	assert_int_equal(timeline_threads(feed->timeline, &totals), 3);
	assert_true(totals[1].exited);
	assert_false(totals[2].exited);
	feed_free(feed);
}

static void over_a_loss_states_are_unknown(void **unused)
{
	struct feed *feed = feed_new(1000000);
	struct loss loss = {.kernel = true, .ring = 1, .from_ns = 1000, .to_ns = 2000};
	struct event event = {.ts_ns = 1000, .kind = EVENT_LOSS, .ring = 1, .loss = &loss};

	(void)unused;
	loss.count = loss.counts[PROBE_SWITCH] = 5;
	feed_switch(feed, 100, 0, 0, 0, 101); /* runs on CPU 0 all the time */
	feed_switch(feed, 200, 1, 0, 0, 102); /* on the CPU that loses */
	feed_switch(feed, 300, 2, 103, 1, 0); /* sleeps */
	feed_give(feed, &event);
	feed_switch(feed, 1500, 2, 0, 0, 104); /* seen on a CPU that loses nothing */
	feed_switch(feed, 1600, 2, 104, 1, 0); /* asleep: who knows for how long */
	feed_switch(feed, 2500, 1, 102, 1, 0); /* it ran when the loss was over */
	feed_waking(feed, 2600, 103, 55); /* it slept */
	timeline_finish(feed->timeline);
	EXPECT(feed, {101, THREAD_UNKNOWN, 0, 100}, {102, THREAD_UNKNOWN, 0, 200},
	       {103, THREAD_UNKNOWN, 0, 300}, {102, THREAD_RUNNING, 200, 1000},
	       {103, THREAD_SLEEPING, 300, 1000}, {104, THREAD_UNKNOWN, 0, 1500},
	       {104, THREAD_RUNNING, 1500, 1600}, {102, THREAD_UNKNOWN, 1000, 2000},
	       {102, THREAD_RUNNING, 2000, 2500}, {103, THREAD_UNKNOWN, 1000, 2000},
	       {103, THREAD_SLEEPING, 2000, 2600}, {101, THREAD_RUNNING, 100, 2600},
	       {102, THREAD_SLEEPING, 2500, 2600}, {104, THREAD_UNKNOWN, 1600, 2600});
	expect_sums(feed, 2600);
	assert_int_equal(feed->loss_count, 1);
	feed_free(feed);
}

static void a_coming_without_a_record_is_told_by_the_leaving(void **unused)
{
	struct feed *feed = feed_new(1000000);
	struct probe_switch record = {
		.prev_tid = 101,
		.prev_tgid = 100,
		.prev_state = 1,
		.flags = PROBE_PREV_TARGET,
		.ran_ns = 40,
		.syscall = -1,
	};

	(void)unused;
	feed_kernel(feed, 100, PROBE_SWITCH, 0, &record); /* it came at 60 */
	feed_waking(feed, 150, 101, 55);
	record.ran_ns = 30;
	feed_kernel(feed, 200, PROBE_SWITCH, 1, &record); /* at 170 */
	record.ran_ns = 1000; /* more than can be: from the switch before on */
	feed_kernel(feed, 300, PROBE_SWITCH, 1, &record);
	timeline_finish(feed->timeline);
	EXPECT(feed, {101, THREAD_UNKNOWN, 0, 60}, {101, THREAD_RUNNING, 60, 100},
	       {101, THREAD_SLEEPING, 100, 150}, {101, THREAD_RUNNABLE, 150, 170},
	       {101, THREAD_RUNNING, 170, 200}, {101, THREAD_RUNNING, 200, 300});
	expect_sums(feed, 300);
	feed_free(feed);
}

static void a_thread_that_yields_is_not_preempted(void **unused)
{
	struct feed *feed = feed_new(1000000);
	struct probe_switch record = {
		.prev_tid = 101,
		.prev_tgid = 100,
		.next_tid = 9,
		.flags = PROBE_PREV_TARGET | PROBE_SYSCALL_KNOWN,
		.syscall = SYS_sched_yield,
	};
	const struct thread_totals *totals;

	(void)unused;
	feed_switch(feed, 100, 0, 9, 0, 101);
	feed_kernel(feed, 200, PROBE_SWITCH, 0, &record);
	feed_switch(feed, 300, 0, 9, 0, 101);
	record.syscall = -1;
	feed_kernel(feed, 400, PROBE_SWITCH, 0, &record);
	feed_switch(feed, 500, 0, 9, 0, 101);
	timeline_finish(feed->timeline);
	assert_int_equal(feed->threads[2].state, THREAD_RUNNABLE);
	assert_false(feed->threads[2].preempted);
	assert_true(feed->threads[4].preempted);
	assert_int_equal(timeline_threads(feed->timeline, &totals), 1);
	assert_int_equal(totals[0].preemptions, 1);
	feed_free(feed);
}

static void lost_socket_records_leave_states_alone(void **unused)
{
	struct feed *feed = feed_new(1000000);
	struct loss loss = {.kernel = true, .ring = 0, .from_ns = 200, .to_ns = 300, .count = 3};
	struct event event = {.ts_ns = 200, .kind = EVENT_LOSS, .loss = &loss};

	(void)unused;
	loss.counts[PROBE_SOCK_SEND] = 3;
	feed_switch(feed, 100, 0, 0, 0, 101);
	feed_give(feed, &event);
	feed_switch(feed, 400, 0, 101, 1, 0);
	timeline_finish(feed->timeline);
	EXPECT(feed, {101, THREAD_UNKNOWN, 0, 100}, {101, THREAD_RUNNING, 100, 400});
	feed_free(feed);
}

static void running_time_is_working_or_spinning(void **unused)
{
	struct feed *feed = feed_new(1000000);
	const struct thread_totals *totals;

	(void)unused;
	feed_switch(feed, 100, 0, 0, 0, 101);
	feed_running(feed, 200, RING_IN, 1, PID(1)); /* ring 1 is thread 101 */
	feed_switch(feed, 300, 0, 101, 0, 9);
	feed_switch(feed, 400, 0, 9, 0, 101);
	feed_running(feed, 600, RING_OUT, 1, PID(1));
	feed_switch(feed, 1000, 0, 101, 1, 0);
	timeline_finish(feed->timeline);
	assert_int_equal(timeline_threads(feed->timeline, &totals), 1);
	/* working 200-300 and 400-600, spinning 600-1000; 100-200 the VM had shown nothing */
	assert_int_equal(totals[0].state_ns[THREAD_RUNNING], 800);
	assert_int_equal(totals[0].working_ns, 300);
	assert_int_equal(totals[0].spinning_ns, 400);
	/* the process is known at the switch from the VM's side */
	assert_int_equal(feed->threads[2].state, THREAD_RUNNABLE);
	assert_true(feed->threads[2].process_known);
	assert_int_equal(feed->threads[2].process, PID(1));
	feed_free(feed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread_through_all_states),
		cmocka_unit_test(a_waking_just_before_the_sleep_is_its_end),
		cmocka_unit_test(a_thread_lives_from_its_fork_to_its_last_switch),
		cmocka_unit_test(over_a_loss_states_are_unknown),
		cmocka_unit_test(a_coming_without_a_record_is_told_by_the_leaving),
		cmocka_unit_test(a_thread_that_yields_is_not_preempted),
		cmocka_unit_test(lost_socket_records_leave_states_alone),
		cmocka_unit_test(running_time_is_working_or_spinning),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
