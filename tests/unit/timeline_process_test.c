/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of processes, collections and messages. */
#include <stdio.h>

#include "map.h"
#include "message.h"
#include "timeline_feed.h"

#define US 1000ULL
#define MS 1000000ULL

/* Runs of a process never overlap; between two of them there is a time, or nothing. */
static void expect_alternate(const struct feed *feed)
{
	size_t i, j;

	for (i = 0; i < feed->run_count; i++) {
		assert_true(feed->runs[i].start_ns <= feed->runs[i].end_ns);
		for (j = i + 1; j < feed->run_count; j++)
			if (feed->runs[i].process == feed->runs[j].process)
				assert_true(feed->runs[i].end_ns <= feed->runs[j].start_ns);
	}
}

static void expect_run(const struct feed *feed, size_t i, uint64_t process, uint64_t start_ns,
		       uint64_t end_ns)
{
	assert_true(i < feed->run_count);
	assert_int_equal(feed->runs[i].process, process);
	assert_int_equal(feed->runs[i].start_ns, start_ns);
	assert_int_equal(feed->runs[i].end_ns, end_ns);
}

static const struct process_totals *totals_of(const struct feed *feed, uint64_t process)
{
	const struct process_totals *totals;
	size_t count = timeline_processes(feed->timeline, &totals), i;

	for (i = 0; i < count; i++)
		if (totals[i].process == process)
			return &totals[i];
	fail();
	return NULL;
}

static void a_move_to_a_dirty_scheduler_and_back(void **unused)
{
	struct feed *feed = feed_new(MS);

	(void)unused;
	feed_running(feed, 100, RING_IN, 1, PID(1));
	feed_running(feed, 200, RING_OUT, 1, PID(1));
	feed_running(feed, 210, RING_IN, 1, PID(1)); /* the extra pair */
	feed_running(feed, 211, RING_OUT, 1, PID(1));
	feed_running(feed, 300, RING_IN, 10, PID(1));
	feed_running(feed, 400, RING_OUT, 10, PID(1));
	feed_running(feed, 405, RING_OUT, 10, PID(1)); /* dirty I/O: two in a row */
	feed_running(feed, 500, RING_IN, 2, PID(1));
	feed_running(feed, 550, RING_IN, 1, PID(1)); /* its out was not seen */
	feed_running(feed, 600, RING_OUT, 1, PID(1));
	timeline_finish(feed->timeline);
	assert_int_equal(feed->run_count, 5);
	expect_run(feed, 0, PID(1), 100, 200);
	expect_run(feed, 1, PID(1), 210, 211);
	expect_run(feed, 2, PID(1), 300, 400);
	assert_true(feed->runs[2].dirty);
	assert_int_equal(feed->runs[2].scheduler, 0);
	expect_run(feed, 3, PID(1), 500, 550);
	assert_int_equal(feed->runs[3].scheduler, 2);
	expect_run(feed, 4, PID(1), 550, 600);
	expect_alternate(feed);
	assert_int_equal(totals_of(feed, PID(1))->running_ns, 100 + 1 + 100 + 50 + 50);
	feed_free(feed);
}

static void a_thread_runs_one_process_at_a_time(void **unused)
{
	struct feed *feed = feed_new(MS);

	(void)unused;
	feed_running(feed, 100, RING_IN, 1, PID(1));
	feed_running(feed, 200, RING_IN, 1, PID(2)); /* the out of the first was lost */
	feed_running(feed, 250, RING_PORT_IN, 1, PORT(1)); /* a port inside a process's run */
	feed_running(feed, 260, RING_PORT_OUT, 1, PORT(1));
	feed_running(feed, 300, RING_OUT, 1, PID(2));
	timeline_finish(feed->timeline);
	assert_int_equal(feed->run_count, 3);
	expect_run(feed, 0, PID(1), 100, 200);
	expect_run(feed, 1, PORT(1), 250, 260);
	expect_run(feed, 2, PID(2), 200, 300);
	feed_free(feed);
}

static void an_exit_ends_the_run_with_or_without_exiting_events(void **unused)
{
	struct feed *feed = feed_new(MS);
	struct ring_value value = {.mfa = RING_NO_INDEX, .depth = RING_NO_DEPTH};
	struct event event;

	(void)unused;
	/* with them: the run goes on after the exit, and once more */
	feed_running(feed, 100, RING_IN, 1, PID(1));
	event = feed_vm(150, RING_EXIT, 1, PID(1), &value);
	feed_give(feed, &event);
	feed_running(feed, 200, RING_OUT_EXITING, 1, PID(1));
	feed_running(feed, 300, RING_IN_EXITING, 1, PID(1));
	feed_running(feed, 350, RING_OUT_EXITED, 1, PID(1));
	/* without: the next process on the thread tells that it is over */
	feed_running(feed, 400, RING_IN, 1, PID(2));
	event = feed_vm(450, RING_EXIT, 1, PID(2), &value);
	feed_give(feed, &event);
	feed_running(feed, 500, RING_IN, 1, PID(3));
	timeline_finish(feed->timeline);
	assert_int_equal(feed->run_count, 4);
	expect_run(feed, 0, PID(1), 100, 200);
	expect_run(feed, 1, PID(1), 300, 350);
	assert_true(feed->runs[1].exiting);
	expect_run(feed, 2, PID(2), 400, 450);
	expect_run(feed, 3, PID(3), 500, 500);
	assert_true(feed->runs[3].open);
	assert_int_equal(totals_of(feed, PID(1))->exited_ns, 150);
	assert_int_equal(totals_of(feed, PID(1))->waiting_ns, 0);
	feed_free(feed);
}

static void a_loss_ends_the_run_where_it_begins(void **unused)
{
	struct feed *feed = feed_new(MS);
	struct loss loss = {.ring = 1, .from_ns = 200, .to_ns = 300, .count = 2};
	struct event event = {.ts_ns = 200, .kind = EVENT_LOSS, .ring = 1, .loss = &loss};

	(void)unused;
	loss.counts[RING_OUT] = 2;
	feed_running(feed, 100, RING_IN, 1, PID(1));
	feed_running(feed, 110, RING_IN, 2, PID(2));
	feed_give(feed, &event);
	feed_running(feed, 400, RING_IN, 1, PID(1));
	feed_running(feed, 500, RING_OUT, 1, PID(1));
	feed_running(feed, 510, RING_OUT, 2, PID(2));
	timeline_finish(feed->timeline);
	expect_run(feed, 0, PID(1), 100, 200);
	expect_run(feed, 1, PID(1), 400, 500);
	expect_run(feed, 2, PID(2), 110, 510);
	/* nothing is known of 200-400 */
	assert_int_equal(totals_of(feed, PID(1))->waiting_ns, 10);
	assert_int_equal(totals_of(feed, PID(1))->runnable_ns, 0);
	feed_free(feed);
}

static void send_to(struct feed *feed, uint64_t ts_ns, uint64_t from, uint64_t to,
		    uint64_t fingerprint)
{
	struct ring_send record = {.to = to, .shape = {.fingerprint = fingerprint}};
	struct event event = feed_vm(ts_ns, RING_SEND, 2, from, &record);

	feed_give(feed, &event);
}

static void receive(struct feed *feed, uint64_t ts_ns, uint64_t process, uint64_t fingerprint)
{
	struct ring_receive record = {.shape = {.fingerprint = fingerprint}};
	struct event event = feed_vm(ts_ns, RING_RECEIVE, 1, process, &record);

	feed_give(feed, &event);
}

static void between_runs_it_waits_until_a_message_comes(void **unused)
{
	struct feed *feed = feed_new(MS);
	const struct process_totals *totals;

	(void)unused;
	feed_running(feed, 100 * US, RING_IN, 1, PID(1));
	feed_running(feed, 200 * US, RING_OUT, 1, PID(1));
	send_to(feed, 500 * US, PID(2), PID(1), 1);
	send_to(feed, 600 * US, PID(2), PID(1), 2);
	feed_running(feed, 700 * US, RING_IN, 1, PID(1));
	receive(feed, 710 * US, PID(1), 1);
	receive(feed, 711 * US, PID(1), 2);
	send_to(feed, 750 * US, PID(2), PID(1), 3); /* in its queue when it is taken off */
	feed_running(feed, 800 * US, RING_OUT, 1, PID(1));
	feed_running(feed, 900 * US, RING_IN, 1, PID(1));
	receive(feed, 910 * US, PID(1), 3);
	feed_running(feed, 950 * US, RING_OUT, 1, PID(1));
	timeline_finish(feed->timeline);
	totals = totals_of(feed, PID(1));
	assert_int_equal(totals->running_ns, (100 + 100 + 50) * US);
	assert_int_equal(totals->waiting_ns, 300 * US); /* 200-500 */
	assert_int_equal(totals->runnable_ns, (200 + 100) * US); /* 500-700, 800-900 */
	assert_int_equal(totals->receives, 3);
	assert_int_equal(totals->queue_max, 2);
	assert_int_equal(totals->queue_end, 0);
	assert_int_equal(totals_of(feed, PID(2))->sends, 3);
	assert_int_equal(feed->message_count, 3);
	assert_int_equal(feed->messages[0].sent_ns, 500 * US);
	assert_int_equal(feed->messages[0].ran_ns, 700 * US);
	assert_int_equal(feed->messages[0].fetched_ns, 710 * US);
	assert_int_equal(feed->messages[0].from, PID(2));
	assert_int_equal(feed->messages[2].ran_ns, 750 * US); /* it ran when it was sent */
	feed_free(feed);
}

static void two_workers_that_share_a_scheduler_are_runnable_in_turn(void **unused)
{
	struct feed *feed = feed_new(100 * MS);
	uint64_t ts_ns;
	int i;

	(void)unused;
	for (i = 0, ts_ns = MS; i < 10; i++, ts_ns += MS) {
		feed_running(feed, ts_ns, RING_IN, 1, PID(1 + i % 2));
		feed_running(feed, ts_ns + MS - US, RING_OUT, 1, PID(1 + i % 2));
	}
	/* a timer: short runs on a scheduler that is idle in between */
	for (i = 0; i < 10; i++, ts_ns += MS) {
		feed_running(feed, ts_ns, RING_IN, 2, PID(3));
		feed_running(feed, ts_ns + 10 * US, RING_OUT, 2, PID(3));
	}
	timeline_finish(feed->timeline);
	assert_int_equal(totals_of(feed, PID(1))->running_ns, 5 * (MS - US));
	assert_int_equal(totals_of(feed, PID(1))->runnable_ns, 4 * (MS + US));
	assert_int_equal(totals_of(feed, PID(3))->runnable_ns, 0);
	assert_int_equal(totals_of(feed, PID(3))->waiting_ns, 9 * (MS - 10 * US));
	feed_free(feed);
}

/* The atom `timeout`, which a recording would name, has number 77 here. */
static void a_timeout_is_no_message_and_tells_of_waiting(void **unused)
{
	struct processes processes = {0};
	struct messages messages;
	struct feed *feed = feed_new(MS);
	struct timeline_sink sink = {.context = feed, .message = feed_message};
	struct process *process = process_get(&processes, PID(1), MS);
	struct vm_thread *thread = process_ring(&processes, 1, 101);
	struct ring_run run = {.scheduler = 1};
	struct ring_receive timeout = {.shape = {.type = RING_T_ATOM, .atom = {77}}};
	struct event event = feed_vm(MS, RING_IN, 1, PID(1), &run);
	struct event fired = feed_vm(3 * MS + US, RING_RECEIVE, 1, PID(1), &timeout);

	(void)unused;
	messages_init(&messages, &sink, &processes, NULL);
	messages.timeout_key = 77;
	/* it looks preempted: 1 ms on, then another is on until it comes back */
	process_in(&processes, process, thread, &event, 7);
	event.ts_ns = 2 * MS;
	event.kind = RING_OUT;
	process_out(&processes, process, thread, &event, 7);
	event.kind = RING_IN;
	process_in(&processes, process_get(&processes, PID(2), 2 * MS), thread, &event, 7);
	event.ts_ns = 3 * MS;
	process_in(&processes, process, thread, &event, 7);
	assert_int_equal(process->totals.runnable_ns, MS);
	assert_int_equal(message_receive(&messages, process, &fired), 0);
	assert_int_equal(process->totals.runnable_ns, 0);
	assert_int_equal(process->totals.waiting_ns, MS);
	assert_int_equal(process->totals.receives, 0);
	assert_int_equal(feed->message_count, 0);
	messages_free(&messages);
	processes_free(&processes);
	feed_free(feed);
}

static void a_spawn_tree_has_its_parents(void **unused)
{
	struct feed *feed = feed_new(MS);
	struct ring_spawn spawn = {.other = PID(2), .mfa = 5, .initial = RING_NO_INDEX};
	struct ring_spawn spawned = {.other = PID(2), .mfa = 6, .initial = 8};
	struct event event = feed_vm(100, RING_SPAWN, 1, PID(1), &spawn);

	(void)unused;
	feed_give(feed, &event);
	event = feed_vm(150, RING_SPAWNED, 1, PID(3), &spawned);
	feed_give(feed, &event);
	feed_running(feed, 400, RING_IN, 1, PID(2));
	feed_running(feed, 500, RING_OUT, 1, PID(2));
	timeline_finish(feed->timeline);
	assert_int_equal(totals_of(feed, PID(2))->parent, PID(1));
	assert_int_equal(totals_of(feed, PID(2))->initial, 5);
	assert_int_equal(totals_of(feed, PID(2))->runnable_ns, 300); /* ready from its spawn on */
	assert_int_equal(totals_of(feed, PID(3))->parent, PID(2));
	assert_int_equal(totals_of(feed, PID(3))->initial, 8);
	assert_int_equal(feed->instant_count, 2);
	feed_free(feed);
}

static void collect(struct feed *feed, uint64_t ts_ns, uint32_t kind, uint32_t ring,
		    uint64_t process, uint64_t heap, uint64_t old_heap)
{
	struct ring_gc record = {.heap_size = heap, .old_heap_size = old_heap, .mbuf_size = 1};
	struct event event = feed_vm(ts_ns, kind, ring, process, &record);

	feed_give(feed, &event);
}

static void collections_pair_up(void **unused)
{
	struct feed *feed = feed_new(100 * MS);
	struct ring_value value = {.mfa = RING_NO_INDEX, .depth = RING_NO_DEPTH};
	struct event event;

	(void)unused;
	collect(feed, 100, RING_GC_MINOR_START, 1, PID(1), 1000, 100);
	collect(feed, 110, RING_GC_MINOR_START, 2, PID(2), 50, 0);
	collect(feed, 150, RING_GC_MINOR_END, 1, PID(1), 300,
		200); /* failed: a major one follows */
	collect(feed, 155, RING_GC_MAJOR_START, 1, PID(1), 300, 200);
	collect(feed, 190, RING_GC_MINOR_END, 2, PID(2), 60, 0); /* it grew */
	collect(feed, 400, RING_GC_MAJOR_END, 10, PID(1), 250, 0); /* on a dirty thread */
	collect(feed, 500, RING_GC_MAJOR_START, 1, PID(1), 9000, 0);
	collect(feed, 510, RING_GC_MAX_HEAP, 1, PID(1), 9000, 0); /* killed for it */
	collect(feed, 600, RING_GC_MINOR_START, 2, PID(2), 70, 0);
	event = feed_vm(610, RING_EXIT, 2, PID(2), &value);
	feed_give(feed, &event);
	collect(feed, 700, RING_GC_MINOR_END, 2, PID(3), 70, 0); /* began before the recording */
	collect(feed, 800, RING_GC_MAJOR_START, 2, PID(3), 70, 0);
	feed_running(feed, 900, RING_IN, 1, PID(4));
	timeline_finish(feed->timeline);

	assert_int_equal(feed->gc_count, 6);
	assert_int_equal(feed->gcs[0].end_ns - feed->gcs[0].start_ns, 50);
	assert_false(feed->gcs[0].major);
	assert_int_equal(feed->gcs[0].reclaimed_words, 1101 - 501);
	assert_int_equal(feed->gcs[1].process, PID(2));
	assert_int_equal(feed->gcs[1].reclaimed_words, 0);
	assert_true(feed->gcs[2].major);
	assert_true(feed->gcs[2].dirty);
	assert_int_equal(feed->gcs[2].start_ns, 155);
	assert_int_equal(feed->gcs[2].end_ns, 400);
	assert_int_equal(feed->gcs[2].reclaimed_words, 501 - 251);
	assert_true(feed->gcs[3].failed);
	assert_int_equal(feed->gcs[3].end_ns, 510);
	assert_int_equal(feed->gcs[3].after.heap_size, 0);
	assert_true(feed->gcs[4].failed);
	assert_int_equal(feed->gcs[4].end_ns, 610);
	assert_true(feed->gcs[5].open);
	assert_int_equal(feed->gcs[5].end_ns, 900);
	assert_int_equal(totals_of(feed, PID(1))->gc_ns, 50 + 245 + 10);
	feed_free(feed);
}

static void equal_messages_pair_first_in_first_out(void **unused)
{
	struct feed *feed = feed_new(MS);
	int i;

	(void)unused;
	for (i = 0; i < 1000; i++)
		send_to(feed, 100 + i, PID(10 + i % 3), PID(1), 42);
	for (i = 0; i < 1000; i++)
		receive(feed, 5000 + i, PID(1), 42);
	receive(feed, 7000, PID(1), 42); /* from a process that is not traced */
	timeline_finish(feed->timeline);
	assert_int_equal(feed->message_count, 1001);
	for (i = 0; i < 1000; i++) {
		assert_int_equal(feed->messages[i].from, PID(10 + i % 3));
		assert_int_equal(feed->messages[i].sent_ns, 100 + i);
		assert_int_equal(feed->messages[i].fetched_ns, 5000 + i);
	}
	assert_int_equal(feed->messages[1000].from, 0);
	assert_int_equal(feed->messages[1000].sent_ns, 0);
	assert_int_equal(totals_of(feed, PID(1))->queue_max, 1000);
	feed_free(feed);
}

static void answers_of_ports_wait_in_no_queue(void **unused)
{
	struct feed *feed = feed_new(MS);

	(void)unused;
	feed_running(feed, 100, RING_IN, 1, PID(1));
	receive(feed, 110, PID(1), 1);
	send_to(feed, 120, PORT(1), PID(1), 7); /* the answer to a call; nobody fetches it */
	feed_running(feed, 200, RING_OUT, 1, PID(1));
	send_to(feed, 300, PORT(1), PID(1), 8); /* data: it wakes the process */
	feed_running(feed, 400, RING_IN, 1, PID(1));
	receive(feed, 410, PID(1), 8);
	feed_running(feed, 500, RING_OUT, 1, PID(1));
	timeline_finish(feed->timeline);
	assert_int_equal(totals_of(feed, PID(1))->queue_max, 0);
	assert_int_equal(totals_of(feed, PID(1))->waiting_ns, 100); /* 200-300 */
	assert_int_equal(totals_of(feed, PID(1))->runnable_ns, 100); /* 300-400 */
	assert_int_equal(feed->message_count, 3);
	assert_int_equal(feed->messages[1].from, PORT(1));
	assert_int_equal(feed->messages[1].fetched_ns, 410);
	feed_free(feed);
}

static void what_is_never_fetched_is_given_out_unmatched(void **unused)
{
	struct feed *feed = feed_new(MS);
	struct ring_send record = {.to = PID(9)};
	struct ring_value value = {.mfa = RING_NO_INDEX, .depth = RING_NO_DEPTH};
	struct event event;

	(void)unused;
	send_to(feed, 100, PID(2), PID(1), 1);
	send_to(feed, 110, PID(2), PID(1), 2);
	receive(feed, 120, PID(1), 2); /* out of order: two senders may race */
	event = feed_vm(200, RING_EXIT, 1, PID(1), &value);
	feed_give(feed, &event);
	send_to(feed, 300, PID(2), PID(1), 3); /* to one that is gone */
	send_to(feed, 400, PID(2), PORT(3), 4); /* a port fetches nothing */
	event = feed_vm(500, RING_SEND_NOPROC, 1, PID(2), &record);
	feed_give(feed, &event);
	send_to(feed, 600, PID(2), PID(4), 5);
	timeline_finish(feed->timeline);
	assert_int_equal(feed->message_count, 6);
	assert_int_equal(feed->messages[0].fetched_ns, 120);
	assert_int_equal(feed->messages[1].sent_ns, 100);
	assert_int_equal(feed->messages[1].fetched_ns, 0);
	assert_int_equal(feed->messages[2].sent_ns, 300);
	assert_int_equal(feed->messages[3].to, PORT(3));
	assert_true(feed->messages[4].noproc);
	assert_int_equal(feed->messages[5].to, PID(4));
	assert_int_equal(totals_of(feed, PID(4))->queue_end, 1);
	feed_free(feed);
}

static void colliding_keys_do_no_harm(void **unused)
{
	struct feed *feed = feed_new(MS);
	/* the key is mix(receiver) ^ fingerprint: two receivers with one key */
	uint64_t fa = 77, fb = fa ^ map_mix(PID(1)) ^ map_mix(PID(2));

	(void)unused;
	send_to(feed, 100, PID(9), PID(1), fa);
	send_to(feed, 101, PID(9), PID(2), fb);
	send_to(feed, 102, PID(9), PID(1), fa);
	receive(feed, 200, PID(2), fb);
	receive(feed, 201, PID(1), fa);
	receive(feed, 202, PID(1), fa);
	receive(feed, 203, PID(1), fa);
	timeline_finish(feed->timeline);
	assert_int_equal(feed->message_count, 4);
	assert_int_equal(feed->messages[0].sent_ns, 101);
	assert_int_equal(feed->messages[0].to, PID(2));
	assert_int_equal(feed->messages[1].sent_ns, 100);
	assert_int_equal(feed->messages[2].sent_ns, 102);
	assert_int_equal(feed->messages[3].sent_ns, 0);
	feed_free(feed);
}

static void send_to_name(struct feed *feed, uint64_t ts_ns, uint32_t name)
{
	struct ring_send record = {.name = name};
	struct event event = feed_vm(ts_ns, RING_SEND, 2, PID(9), &record);

	feed_give(feed, &event);
}

static void a_name_is_whose_it_is_at_that_moment(void **unused)
{
	struct feed *feed = feed_new(MS);
	struct ring_name name = {.name = 31};
	struct event event;

	(void)unused;
	send_to_name(feed, 50, 31); /* nobody has it */
	event = feed_vm(100, RING_REGISTER, 1, PID(1), &name);
	feed_give(feed, &event);
	send_to_name(feed, 150, 31);
	event = feed_vm(200, RING_UNREGISTER, 1, PID(1), &name);
	feed_give(feed, &event);
	send_to_name(feed, 250, 31);
	event = feed_vm(300, RING_REGISTER, 1, PID(2), &name);
	feed_give(feed, &event);
	send_to_name(feed, 350, 31);
	receive(feed, 400, PID(1), 0);
	receive(feed, 450, PID(2), 0);
	timeline_finish(feed->timeline);
	assert_int_equal(feed->message_count, 4);
	assert_int_equal(feed->messages[0].sent_ns, 50);
	assert_int_equal(feed->messages[0].to, 0);
	assert_int_equal(feed->messages[1].sent_ns, 250);
	assert_int_equal(feed->messages[2].sent_ns, 150);
	assert_int_equal(feed->messages[2].to, PID(1));
	assert_int_equal(feed->messages[2].to_name, 31);
	assert_int_equal(feed->messages[3].sent_ns, 350);
	assert_int_equal(feed->messages[3].to, PID(2));
	feed_free(feed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_move_to_a_dirty_scheduler_and_back),
		cmocka_unit_test(a_thread_runs_one_process_at_a_time),
		cmocka_unit_test(an_exit_ends_the_run_with_or_without_exiting_events),
		cmocka_unit_test(a_loss_ends_the_run_where_it_begins),
		cmocka_unit_test(between_runs_it_waits_until_a_message_comes),
		cmocka_unit_test(two_workers_that_share_a_scheduler_are_runnable_in_turn),
		cmocka_unit_test(a_timeout_is_no_message_and_tells_of_waiting),
		cmocka_unit_test(a_spawn_tree_has_its_parents),
		cmocka_unit_test(collections_pair_up),
		cmocka_unit_test(equal_messages_pair_first_in_first_out),
		cmocka_unit_test(answers_of_ports_wait_in_no_queue),
		cmocka_unit_test(what_is_never_fetched_is_given_out_unmatched),
		cmocka_unit_test(colliding_keys_do_no_harm),
		cmocka_unit_test(a_name_is_whose_it_is_at_that_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
