/* SPDX-License-Identifier: Apache-2.0 */
/* Stalls of scheduler threads and totals of sockets. */
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>

#include "timeline_feed.h"

#define US 1000ULL
#define MS 1000000ULL

/* A switch-out with all that the kernel side can tell. */
static void leave(struct feed *feed, uint64_t ts_ns, int32_t tid, uint32_t state, int32_t syscall,
		  uint64_t process, uint32_t flags)
{
	struct probe_switch record = {
		.prev_tid = tid,
		.prev_tgid = 100,
		.next_tid = 7,
		.next_tgid = 6,
		.prev_state = state,
		.flags = PROBE_PREV_TARGET | PROBE_PROCESS_KNOWN | PROBE_SYSCALL_KNOWN |
			 PROBE_THROTTLE_KNOWN | flags,
		.syscall = syscall,
		.syscall_arg = 17,
		.process = process,
		.next_comm = "hog",
	};

	snprintf(record.prev_comm, sizeof(record.prev_comm), "%d_scheduler", tid - 100);
	feed_kernel(feed, ts_ns, PROBE_SWITCH, 0, &record);
}

static void come(struct feed *feed, uint64_t ts_ns, int32_t tid)
{
	feed_switch(feed, ts_ns, 0, 7, 0, tid);
}

static void expect_stall(const struct feed *feed, size_t i, enum stall_cause cause,
			 uint64_t start_ns, uint64_t end_ns)
{
	assert_true(i < feed->stall_count);
	assert_string_equal(stall_cause_name(feed->stalls[i].cause), stall_cause_name(cause));
	assert_int_equal(feed->stalls[i].start_ns, start_ns);
	assert_int_equal(feed->stalls[i].end_ns, end_ns);
	assert_non_null(feed->stalls[i].evidence);
}

static void a_scheduler_off_the_cpu_has_a_cause(void **unused)
{
	struct feed *feed = feed_new(5 * MS);

	(void)unused;
	come(feed, 1 * MS, 101);
	leave(feed, 10 * MS, 101, 0, -1, PID(1), 0); /* preempted 20 ms */
	come(feed, 30 * MS, 101);
	leave(feed, 40 * MS, 101, 0, -1, PID(1), PROBE_THROTTLED); /* 10 ms */
	come(feed, 50 * MS, 101);
	leave(feed, 60 * MS, 101, 1, SYS_futex, PID(1), 0); /* a lock, 6 ms */
	feed_waking(feed, 66 * MS, 101, 102);
	come(feed, 66 * MS + US, 101);
	leave(feed, 70 * MS, 101, 1, SYS_write, PID(1), 0); /* 8 ms in write(17) */
	feed_waking(feed, 78 * MS, 101, 102);
	come(feed, 78 * MS + US, 101);
	leave(feed, 80 * MS, 101, 2, -1, PID(1), 0); /* 9 ms uninterruptible */
	feed_waking(feed, 89 * MS, 101, 0);
	come(feed, 89 * MS + US, 101);
	leave(feed, 90 * MS, 101, 1, SYS_epoll_pwait, 0, 0); /* idle for 100 ms */
	feed_waking(feed, 190 * MS, 101, 0);
	come(feed, 196 * MS, 101); /* woken, but task 7 kept its CPU for 6 ms */
	leave(feed, 200 * MS, 101, 4, -1, 0, 0); /* stopped with nothing to do */
	feed_waking(feed, 250 * MS, 101, 0);
	come(feed, 250 * MS + US, 101);
	timeline_finish(feed->timeline);

	assert_int_equal(feed->stall_count, 7);
	expect_stall(feed, 0, STALL_PREEMPTED, 10 * MS, 30 * MS);
	assert_int_equal(feed->stalls[0].by_tid, 7);
	/* it came as "hog": its newest name counts */
	assert_string_equal(feed->stalls[0].by_comm, "task7");
	assert_int_equal(feed->stalls[0].by_ns, 20 * MS);
	assert_int_equal(feed->stalls[0].by_count, 1);
	assert_int_equal(feed->stalls[0].process, PID(1));
	assert_true(feed->stalls[0].certain);
	assert_int_equal(feed->stalls[0].role, RING_ROLE_NORMAL);
	assert_int_equal(feed->stalls[0].number, 1);
	expect_stall(feed, 1, STALL_THROTTLED, 40 * MS, 50 * MS);
	expect_stall(feed, 2, STALL_LOCK, 60 * MS, 66 * MS);
	expect_stall(feed, 3, STALL_SYSCALL, 70 * MS, 78 * MS);
	assert_int_equal(feed->stalls[3].syscall, SYS_write);
	assert_int_equal(feed->stalls[3].syscall_arg, 17);
	expect_stall(feed, 4, STALL_BLOCKED, 80 * MS, 89 * MS);
	expect_stall(feed, 5, STALL_PREEMPTED, 190 * MS, 196 * MS);
	assert_int_equal(feed->stalls[5].by_tid, 7);
	expect_stall(feed, 6, STALL_STOPPED, 200 * MS, 250 * MS);
	feed_free(feed);
}

static void a_kernel_thread_that_came_first_is_not_blamed(void **unused)
{
	struct feed *feed = feed_new(5 * MS);
	struct probe_switch record = {
		.prev_tid = 101,
		.next_tid = 15,
		.next_tgid = 15,
		.flags = PROBE_PREV_TARGET | PROBE_PROCESS_KNOWN,
		.process = PID(1),
		.prev_comm = "1_scheduler",
		.next_comm = "rcu_preempt",
	};

	(void)unused;
	come(feed, 1 * MS, 101);
	feed_kernel(feed, 10 * MS, PROBE_SWITCH, 0, &record);
	come(feed, 20 * MS, 101); /* after task7 */
	strcpy(record.next_comm, "first");
	feed_kernel(feed, 30 * MS, PROBE_SWITCH, 0, &record);
	come(feed, 40 * MS, 101);
	timeline_finish(feed->timeline);
	assert_int_equal(feed->stall_count, 2);
	assert_int_equal(feed->stalls[0].by_tid, 7);
	assert_string_equal(feed->stalls[0].by_comm, "task7");
	assert_false(feed->stalls[0].certain);
	assert_string_equal(feed->stalls[1].by_comm, "first");
	assert_false(feed->stalls[1].certain);
	feed_free(feed);
}

/* A CPU goes from one task to another; those from 100 on are the target's, and leave runnable. */
static void hand(struct feed *feed, uint64_t ts_ns, int32_t cpu, int32_t prev,
		 const char *prev_comm, int32_t next, const char *next_comm)
{
	struct probe_switch record = {
		.prev_tid = prev,
		.prev_tgid = prev >= 100 ? 100 : prev + 1,
		.next_tid = next,
		.next_tgid = next >= 100 ? 100 : next + 1,
		.flags = (prev >= 100 ? PROBE_PREV_TARGET | PROBE_PROCESS_KNOWN : 0) |
			 (next >= 100 ? PROBE_NEXT_TARGET : 0),
		.syscall = -1,
		.process = prev >= 100 ? PID(1) : 0,
	};

	snprintf(record.prev_comm, sizeof(record.prev_comm), "%s", prev_comm);
	snprintf(record.next_comm, sizeof(record.next_comm), "%s", next_comm);
	feed_kernel(feed, ts_ns, PROBE_SWITCH, cpu, &record);
}

#define SCHEDULER "1_scheduler"

static void expect_by(const struct feed *feed, size_t i, int32_t tid, const char *comm, uint64_t ns,
		      uint32_t count)
{
	assert_true(i < feed->stall_count);
	assert_int_equal(feed->stalls[i].cause, STALL_PREEMPTED);
	assert_int_equal(feed->stalls[i].by_tid, tid);
	assert_int_equal(feed->stalls[i].by_tgid, tid + 1);
	assert_string_equal(feed->stalls[i].by_comm, comm);
	assert_int_equal(feed->stalls[i].by_ns, ns);
	assert_int_equal(feed->stalls[i].by_count, count);
	assert_true(feed->stalls[i].certain);
}

static void who_had_the_cpu_the_longest_is_the_culprit(void **unused)
{
	struct feed *feed = feed_new(5 * MS);
	int32_t i;

	(void)unused;
	hand(feed, 1 * MS, 0, 20, "other", 101, SCHEDULER);
	/* a short task first, then the hog */
	hand(feed, 10 * MS, 0, 101, SCHEDULER, 30, "bash");
	hand(feed, 11 * MS, 0, 30, "bash", 31, "hog");
	hand(feed, 40 * MS, 0, 31, "hog", 101, SCHEDULER);
	/* two that take turns: 3 times 2 ms, and 2 times 4 ms */
	hand(feed, 50 * MS, 0, 101, SCHEDULER, 40, "a");
	hand(feed, 52 * MS, 0, 40, "a", 41, "b");
	hand(feed, 56 * MS, 0, 41, "b", 40, "a");
	hand(feed, 58 * MS, 0, 40, "a", 41, "b");
	hand(feed, 62 * MS, 0, 41, "b", 40, "a");
	hand(feed, 64 * MS, 0, 40, "a", 101, SCHEDULER);
	/* a hog between more tasks than there is room for: 20 times 1 ms, and each of them 0.5 ms */
	hand(feed, 100 * MS, 0, 101, SCHEDULER, 31, "hog");
	for (i = 0; i < 20; i++) {
		hand(feed, (101 + 2 * (uint64_t)i) * MS, 0, 31, "hog", 50 + i, "short");
		hand(feed, (101 + 2 * (uint64_t)i) * MS + 500 * US, 0, 50 + i, "short", 0, "");
		hand(feed, (102 + 2 * (uint64_t)i) * MS, 0, 0, "", 31, "hog");
	}
	hand(feed, 142 * MS, 0, 31, "hog", 101, SCHEDULER);
	timeline_finish(feed->timeline);

	assert_int_equal(feed->stall_count, 3);
	expect_by(feed, 0, 31, "hog", 29 * MS, 2);
	expect_by(feed, 1, 41, "b", 8 * MS, 2);
	expect_by(feed, 2, 31, "hog", 22 * MS, 21);
	feed_free(feed);
}

static void a_task_is_named_as_it_was_called_last(void **unused)
{
	struct feed *feed = feed_new(5 * MS);

	(void)unused;
	hand(feed, 1 * MS, 0, 20, "other", 101, SCHEDULER);
	hand(feed, 10 * MS, 0, 101, SCHEDULER, 30, "erl_child_setup");
	hand(feed, 18 * MS, 0, 30, "sh", 31, "short");
	hand(feed, 19 * MS, 0, 31, "short", 30, "sh");
	hand(feed, 21 * MS, 0, 30, "tar", 101, SCHEDULER);
	timeline_finish(feed->timeline);
	assert_int_equal(feed->stall_count, 1);
	expect_by(feed, 0, 30, "tar", 10 * MS, 2);
	feed_free(feed);
}

static void a_wait_goes_on_at_the_cpu_to_which_the_thread_is_moved(void **unused)
{
	struct probe_migrate move = {.tid = 101, .from_cpu = 0, .to_cpu = 1};
	struct feed *feed = feed_new(5 * MS);

	(void)unused;
	hand(feed, 1 * MS, 0, 20, "other", 101, SCHEDULER);
	hand(feed, 2 * MS, 1, 0, "", 31, "hog");
	hand(feed, 10 * MS, 0, 101, SCHEDULER, 30, "first");
	feed_kernel(feed, 13 * MS, PROBE_MIGRATE, 1, &move);
	/* what happens on the CPU that it left does not matter any more */
	hand(feed, 14 * MS, 0, 30, "first", 32, "late");
	hand(feed, 16 * MS, 1, 31, "hog", 33, "short");
	hand(feed, 17 * MS, 1, 33, "short", 31, "hog");
	hand(feed, 20 * MS, 1, 31, "hog", 101, SCHEDULER);
	timeline_finish(feed->timeline);
	assert_int_equal(feed->stall_count, 1);
	expect_by(feed, 0, 31, "hog", 6 * MS, 3);
	feed_free(feed);
}

static void a_woken_thread_may_wait_for_a_task_or_for_nobody(void **unused)
{
	struct probe_waking waking = {.tid = 101, .target_cpu = 1, .comm = SCHEDULER};
	struct feed *feed = feed_new(5 * MS);

	(void)unused;
	feed_switch(feed, 1 * MS, 1, 101, 1, 0); /* it sleeps */
	hand(feed, 2 * MS, 1, 0, "", 30, "short");
	feed_kernel(feed, 10 * MS, PROBE_WAKING, 0, &waking);
	hand(feed, 11 * MS, 1, 30, "short", 31, "hog");
	hand(feed, 19 * MS, 1, 31, "hog", 101, SCHEDULER);
	feed_switch(feed, 20 * MS, 1, 101, 1, 0);
	feed_kernel(feed, 30 * MS, PROBE_WAKING, 0, &waking);
	hand(feed, 38 * MS, 1, 0, "", 31, "hog"); /* the CPU was idle for 8 ms */
	hand(feed, 39 * MS, 1, 31, "hog", 101, SCHEDULER);
	timeline_finish(feed->timeline);
	assert_int_equal(feed->stall_count, 2);
	expect_by(feed, 0, 31, "hog", 8 * MS, 2);
	expect_stall(feed, 1, STALL_UNKNOWN, 30 * MS, 39 * MS);
	assert_false(feed->stalls[1].certain);
	feed_free(feed);
}

static void who_has_the_cpu_at_the_end_had_it_until_then(void **unused)
{
	struct feed *feed = feed_new(5 * MS);

	(void)unused;
	hand(feed, 1 * MS, 0, 20, "other", 101, SCHEDULER);
	hand(feed, 10 * MS, 0, 101, SCHEDULER, 30, "first");
	hand(feed, 12 * MS, 0, 30, "first", 31, "hog");
	hand(feed, 30 * MS, 1, 0, "", 20, "other"); /* the last event, elsewhere */
	timeline_finish(feed->timeline);
	assert_int_equal(feed->stall_count, 1);
	expect_by(feed, 0, 31, "hog", 18 * MS, 2);
	feed_free(feed);
}

static void a_missing_switch_leaves_a_time_untold(void **unused)
{
	struct feed *feed = feed_new(5 * MS);
	struct probe_switch record = {
		.prev_tid = 31,
		.prev_tgid = 32,
		.next_tid = 101,
		.next_tgid = 100,
		.flags = PROBE_NEXT_TARGET,
		.ran_ns = 9 * MS,
		.syscall = -1,
		.prev_comm = "hog",
		.next_comm = SCHEDULER,
	};

	(void)unused;
	/* it left when it had run for 9 of 12 ms: the other 3 cannot make up for that */
	hand(feed, 1 * MS, 0, 20, "other", 101, SCHEDULER);
	hand(feed, 10 * MS, 0, 101, SCHEDULER, 30, "first");
	feed_kernel(feed, 22 * MS, PROBE_SWITCH, 0, &record);
	/* 5 of 12 ms: another may have had more */
	hand(feed, 30 * MS, 0, 101, SCHEDULER, 30, "first");
	record.ran_ns = 5 * MS;
	feed_kernel(feed, 42 * MS, PROBE_SWITCH, 0, &record);
	timeline_finish(feed->timeline);
	assert_int_equal(feed->stall_count, 2);
	expect_by(feed, 0, 31, "hog", 9 * MS, 1);
	assert_int_equal(feed->stalls[1].by_count, 0);
	assert_false(feed->stalls[1].certain);
	feed_free(feed);
}

static void a_hog_that_takes_short_turns_makes_a_burst(void **unused)
{
	struct feed *feed = feed_new(10 * MS);
	int i;

	(void)unused;
	come(feed, 1 * MS, 101);
	/* eight turns of 3 ms, 3 ms apart: the fourth makes it 12 ms */
	for (i = 0; i < 8; i++) {
		leave(feed, (10 + 6 * i) * MS, 101, 0, -1, PID(1), 0);
		come(feed, (13 + 6 * i) * MS, 101);
	}
	/* one alone is none */
	leave(feed, 200 * MS, 101, 0, -1, PID(1), 0);
	come(feed, 203 * MS, 101);
	timeline_finish(feed->timeline);
	assert_int_equal(feed->stall_count, 8);
	for (i = 0; i < 8; i++)
		expect_stall(feed, (size_t)i, STALL_PREEMPTED, (10 + 6 * i) * MS,
			     (13 + 6 * i) * MS);
	feed_free(feed);
}

static void a_sleep_of_which_nothing_is_known_is_no_stall(void **unused)
{
	struct feed *feed = feed_new(MS);

	(void)unused;
	feed_switch(feed, 10 * MS, 0, 101, 1, 7); /* asleep; nothing tells that it had work */
	feed_switch(feed, 90 * MS, 0, 7, 0, 101);
	timeline_finish(feed->timeline);
	assert_int_equal(feed->stall_count, 0);
	feed_free(feed);
}

static void one_process_may_keep_a_scheduler_too_long(void **unused)
{
	struct feed *feed = feed_new(5 * MS);
	struct ring_gc gc = {.heap_size = 1000};
	struct event event;

	(void)unused;
	come(feed, 1 * MS, 101);
	feed_running(feed, 10 * MS, RING_IN, 1, PID(1));
	feed_running(feed, 30 * MS, RING_OUT, 1, PID(1)); /* 20 ms */
	feed_running(feed, 40 * MS, RING_IN, 1, PID(2));
	event = feed_vm(42 * MS, RING_GC_MAJOR_START, 1, PID(2), &gc);
	feed_give(feed, &event);
	event = feed_vm(58 * MS, RING_GC_MAJOR_END, 1, PID(2), &gc);
	feed_give(feed, &event);
	feed_running(feed, 60 * MS, RING_OUT, 1, PID(2)); /* 16 of 20 ms in a collection */
	feed_running(feed, 70 * MS, RING_IN, 1, PID(3));
	leave(feed, 72 * MS, 101, 0, -1, PID(3), 0);
	come(feed, 88 * MS, 101);
	feed_running(feed, 90 * MS, RING_OUT, 1, PID(3)); /* 16 of 20 ms without a CPU */
	feed_running(feed, 100 * MS, RING_IN, 10, PID(4));
	feed_running(feed, 150 * MS, RING_OUT, 10, PID(4)); /* dirty: that is what they are for */
	timeline_finish(feed->timeline);
	assert_int_equal(feed->stall_count, 3);
	expect_stall(feed, 0, STALL_LONG_RUN, 10 * MS, 30 * MS);
	assert_int_equal(feed->stalls[0].process, PID(1));
	assert_int_equal(feed->stalls[0].mfa, 7);
	expect_stall(feed, 1, STALL_GC, 42 * MS, 58 * MS);
	assert_int_equal(feed->stalls[1].number, 1);
	expect_stall(feed, 2, STALL_PREEMPTED, 72 * MS, 88 * MS);
	feed_free(feed);
}

/* ---- Sockets ---- */

static void state_of(struct feed *feed, uint64_t ts_ns, uint64_t sock, uint16_t local_port,
		     uint16_t remote_port, uint8_t old_state, uint8_t new_state)
{
	struct probe_sock_state record = {
		.sock = sock,
		.family = 2,
		.protocol = 6,
		.local_port = local_port,
		.remote_port = remote_port,
		.old_state = old_state,
		.new_state = new_state,
		.remote = {127, 0, 0, remote_port ? 1 : 0},
	};

	if (!remote_port)
		memset(record.remote, 0, sizeof(record.remote));
	feed_kernel(feed, ts_ns, PROBE_SOCK_STATE, 0, &record);
}

static void io_of(struct feed *feed, uint64_t ts_ns, uint32_t kind, uint64_t sock, int32_t result)
{
	struct probe_sock_io record = {.sock = sock, .result = result};

	feed_kernel(feed, ts_ns, kind, 0, &record);
}

static void a_connection_is_counted_and_joined_to_its_port(void **unused)
{
	struct feed *feed = feed_new(MS);
	struct ring_dict_port port = {
		.owner = PID(5), .family = 10, .local_port = 80, .remote_port = 4000};
	struct event event = {.ts_ns = 450, .kind = EVENT_PORT, .process = PORT(2), .port = &port};
	struct probe_sock_event other = {.sock = 0xb};
	const struct socket_totals *totals;

	(void)unused;
	/* IPv4 as the kernel has it and mapped into IPv6 are one address */
	memcpy(port.remote, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1", 16);
	state_of(feed, 100, 0xa, 80, 0, 7, 10); /* listens */
	state_of(feed, 200, 0xb, 80, 4000, 3, 1); /* a connection arrives */
	feed_kernel(feed, 300, PROBE_SOCK_DATA_READY, 0, &other); /* and its first bytes */
	io_of(feed, 400, PROBE_SOCK_RECV, 0xb, 120); /* they are read */
	feed_give(feed, &event);
	io_of(feed, 500, PROBE_SOCK_SEND, 0xb, 4096);
	io_of(feed, 510, PROBE_SOCK_SEND, 0xb, 4);
	io_of(feed, 520, PROBE_SOCK_RECV, 0xb, -EAGAIN);
	io_of(feed, 530, PROBE_SOCK_RECV, 0xb, -ECONNRESET);
	feed_kernel(feed, 540, PROBE_TCP_RETRANSMIT, 0, &other);
	feed_kernel(feed, 550, PROBE_TCP_RESET_RECEIVED, 0, &other);
	state_of(feed, 600, 0xb, 0, 0, 1, 7);
	state_of(feed, 700, 0xb, 5000, 81, 7, 2); /* the same memory, another socket */
	timeline_finish(feed->timeline);

	assert_int_equal(feed->socket_count, 3);
	totals = &feed->sockets[0]; /* the closed one first */
	assert_int_equal(totals->local_port, 80);
	assert_int_equal(totals->remote_port, 4000);
	assert_int_equal(totals->erlang_port, PORT(2));
	assert_int_equal(totals->owner, PID(5));
	assert_int_equal(totals->state, 7);
	assert_int_equal(totals->opened_ns, 200);
	assert_int_equal(totals->closed_ns, 600);
	assert_int_equal(totals->sent_bytes, 4100);
	assert_int_equal(totals->sends, 2);
	assert_int_equal(totals->received_bytes, 120);
	assert_int_equal(totals->receives, 1);
	assert_int_equal(totals->errors, 1);
	assert_int_equal(totals->retransmits, 1);
	assert_int_equal(totals->resets, 1);
	if (feed->sockets[1].sock != 0xa)
		totals = &feed->sockets[2];
	else
		totals = &feed->sockets[1];
	assert_int_equal(totals->state, 10);
	assert_int_equal(totals->accept_wait_ns, 100);
	feed_free(feed);
}

static void closed_sockets_do_not_pile_up(void **unused)
{
	struct feed *feed = feed_new(MS);
	uint64_t i;

	(void)unused;
	for (i = 0; i < 10000; i++) {
		state_of(feed, 100 + i, 0x1000 + i % 8000, 80, 4000, 3, 1);
		state_of(feed, 100 + i, 0x1000 + i % 8000, 80, 4000, 1, 7);
	}
	assert_true(feed->socket_count >= 5000);
	timeline_finish(feed->timeline);
	assert_int_equal(feed->socket_count, 10000);
	feed_free(feed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_scheduler_off_the_cpu_has_a_cause),
		cmocka_unit_test(a_kernel_thread_that_came_first_is_not_blamed),
		cmocka_unit_test(who_had_the_cpu_the_longest_is_the_culprit),
		cmocka_unit_test(a_task_is_named_as_it_was_called_last),
		cmocka_unit_test(a_wait_goes_on_at_the_cpu_to_which_the_thread_is_moved),
		cmocka_unit_test(a_woken_thread_may_wait_for_a_task_or_for_nobody),
		cmocka_unit_test(who_has_the_cpu_at_the_end_had_it_until_then),
		cmocka_unit_test(a_missing_switch_leaves_a_time_untold),
		cmocka_unit_test(a_hog_that_takes_short_turns_makes_a_burst),
		cmocka_unit_test(a_sleep_of_which_nothing_is_known_is_no_stall),
		cmocka_unit_test(one_process_may_keep_a_scheduler_too_long),
		cmocka_unit_test(a_connection_is_counted_and_joined_to_its_port),
		cmocka_unit_test(closed_sockets_do_not_pile_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
