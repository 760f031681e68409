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
	assert_string_equal(feed->stalls[0].by_comm, "hog");
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
		cmocka_unit_test(a_hog_that_takes_short_turns_makes_a_burst),
		cmocka_unit_test(a_sleep_of_which_nothing_is_known_is_no_stall),
		cmocka_unit_test(one_process_may_keep_a_scheduler_too_long),
		cmocka_unit_test(a_connection_is_counted_and_joined_to_its_port),
		cmocka_unit_test(closed_sockets_do_not_pile_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
