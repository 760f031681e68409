/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random events in time order, of few processes, threads and sockets, so that every state meets every event,
 * and now and then of any number. Whatever comes in, the laws hold, and under ASan nothing is misused.
 */
#include <stdio.h>

#include "map.h"
#include "timeline_feed.h"

#define EVENTS 200000

struct last {
	uint64_t end_ns;
};

struct laws {
	struct map threads, runs, gcs, stalls;
	uint64_t calls, messages, sockets;
};

static uint64_t random_state;

static uint64_t random_next(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Mostly small, sometimes anything. */
static uint64_t random_below(uint64_t below)
{
	return random_next() % 1000 ? random_next() % below : random_next();
}

static void follows(struct map *map, uint64_t key, uint64_t start_ns, uint64_t end_ns)
{
	struct last *last = map_get(map, key);

	if (!last) {
		last = calloc(1, sizeof(*last));
		assert_int_equal(map_put(map, key, last), 0);
	}
	assert_true(start_ns >= last->end_ns);
	assert_true(end_ns >= start_ns);
	last->end_ns = end_ns;
}

static void law_thread(void *context, const struct thread_interval *interval)
{
	struct laws *laws = context;

	uint64_t length_ns = interval->end_ns - interval->start_ns;

	assert_true(interval->end_ns > interval->start_ns);
	assert_true(interval->most_ns <= length_ns);
	assert_true(interval->idle_ns <= length_ns - interval->most_ns);
	assert_true(interval->state == THREAD_RUNNABLE || !interval->most_count);
	follows(&laws->threads, (uint32_t)interval->tid, interval->start_ns, interval->end_ns);
}

static void law_run(void *context, const struct run_interval *run)
{
	struct laws *laws = context;

	follows(&laws->runs, run->process, run->start_ns, run->end_ns);
}

static void law_call(void *context, const struct call_interval *call)
{
	((struct laws *)context)->calls++;
	assert_true(call->end_ns >= call->start_ns);
	assert_true(call->id > call->parent);
	assert_true((call->level == 0) == (call->parent == 0));
	assert_true(call->gc_ns <= call->end_ns - call->start_ns);
}

static void law_gc(void *context, const struct gc_interval *gc)
{
	follows(&((struct laws *)context)->gcs, gc->process, gc->start_ns, gc->end_ns);
}

static void law_message(void *context, const struct message *message)
{
	((struct laws *)context)->messages++;
	assert_true(!message->fetched_ns || message->fetched_ns >= message->sent_ns);
	assert_true(!message->ran_ns || message->ran_ns >= message->sent_ns);
}

static void law_stall(void *context, const struct stall *stall)
{
	struct laws *laws = context;
	uint64_t sum_ns = 0;

	assert_non_null(stall->evidence);
	follows(&laws->stalls, (uint32_t)stall->tid, stall->start_ns, stall->end_ns);
	for (int i = 0; i < STALL_CAUSES; i++)
		sum_ns += stall->part_ns[i];
	assert_int_equal(sum_ns, stall->end_ns - stall->start_ns);
}

static void law_socket(void *context, const struct socket_totals *totals)
{
	(void)totals;
	((struct laws *)context)->sockets++;
}

static uint64_t word(void)
{
	return random_next() % 10 ? PID(random_below(8)) : PORT(random_below(4));
}

/* A record of any kind: random bytes with the fields that matter made likely. */
static void random_event(struct event *event, uint64_t *record, uint64_t ts_ns, struct loss *loss)
{
	static const uint8_t kernel[] = {
		PROBE_SWITCH,	 PROBE_WAKING,		PROBE_FORK,
		PROBE_EXIT,	 PROBE_MIGRATE,		PROBE_SOCK_STATE,
		PROBE_SOCK_SEND, PROBE_SOCK_RECV,	PROBE_TCP_RETRANSMIT,
		PROBE_EXEC,	 PROBE_SOCK_DATA_READY, PROBE_WAKEUP_NEW,
		PROBE_SYSCALL};
	size_t i;

	for (i = 0; i < 16; i++)
		record[i] = random_next();
	*event = (struct event){
		.ts_ns = ts_ns,
		.cpu = (int32_t)random_below(3),
		.tid = 100 + (int32_t)random_below(4),
		.process = word(),
		.flags = (uint8_t)random_below(8),
		.raw = record,
		.etf = {"\x83\x61\x01", random_next() % 8 ? 0 : 3},
	};
	event->ring = (uint32_t)event->tid - 100;
	switch (random_next() % 20) {
	case 0:
		event->kind = EVENT_LOSS;
		*loss = (struct loss){.kernel = random_next() % 2,
				      .ring = (uint32_t)random_below(4),
				      .from_ns = ts_ns,
				      .to_ns = ts_ns + random_below(1000),
				      .count = 1};
		loss->counts[random_next() % RING_KINDS] = random_next() % 3;
		event->loss = loss;
		return;
	case 1:
		event->kind = (uint32_t)random_below(EVENT_KINDS);
		if (event->kind == EVENT_LOSS || event->kind == EVENT_NAME ||
		    event->kind == EVENT_INITIAL || event->kind == EVENT_SAMPLE)
			event->kind = RING_CALL;
		break;
	case 2:
	case 3:
	case 4:
	case 5:
	case 6:
	case 7:
	case 8:
		event->kind = EVENT_KERNEL + kernel[random_next() % sizeof(kernel)];
		break;
	default:
		event->kind = (uint32_t)(random_next() % 31);
		break;
	}
	switch (event->kind) {
	case RING_CALL: {
		struct ring_call *call = (struct ring_call *)record;

		call->mfa = (uint32_t)random_below(8);
		call->depth = (uint32_t)random_below(100);
		call->frame = random_next() % 3 ? (uint32_t)random_below(100) : RING_NO_DEPTH;
		call->tail = (uint32_t)random_below(3);
		break;
	}
	case RING_RETURN_TO:
	case RING_RETURN_FROM:
	case RING_EXCEPTION_FROM:
		((struct ring_return_to *)record)->mfa = (uint32_t)random_below(8);
		((struct ring_return_to *)record)->depth = (uint32_t)random_below(100);
		((struct ring_value *)record)->mfa = (uint32_t)random_below(8);
		break;
	case RING_SEND:
	case RING_SPAWN:
	case RING_SPAWNED:
		((struct ring_send *)record)->to = random_next() % 8 ? word() : 0;
		((struct ring_send *)record)->shape.fingerprint = random_below(5);
		if (event->kind == RING_SEND)
			((struct ring_send *)record)->name = (uint32_t)random_below(3);
		break;
	case RING_RECEIVE:
		((struct ring_receive *)record)->shape.fingerprint = random_below(5);
		break;
	case RING_REGISTER:
	case RING_UNREGISTER:
		((struct ring_name *)record)->name = (uint32_t)random_below(3);
		break;
	case EVENT_KERNEL + PROBE_SWITCH: {
		struct probe_switch *leave = (struct probe_switch *)record;

		leave->prev_tid = 99 + (int32_t)random_below(6);
		leave->next_tid = 99 + (int32_t)random_below(6);
		leave->prev_state = random_next() % 2 ? 0 : 1u << random_next() % 9;
		snprintf(leave->prev_comm, sizeof(leave->prev_comm), "%d_scheduler",
			 (leave->prev_tid & 7) + 1);
		if (random_next() % 3 == 0)
			leave->ran_ns = (uint32_t)random_below(100);
		break;
	}
	case EVENT_KERNEL + PROBE_WAKING:
	case EVENT_KERNEL + PROBE_WAKEUP_NEW:
	case EVENT_KERNEL + PROBE_FORK:
	case EVENT_KERNEL + PROBE_EXIT:
	case EVENT_KERNEL + PROBE_EXEC:
		((struct probe_waking *)record)->tid = 99 + (int32_t)random_below(6);
		((struct probe_waking *)record)->target_cpu = (int32_t)random_below(4) - 1;
		break;
	case EVENT_KERNEL + PROBE_MIGRATE:
		((struct probe_migrate *)record)->tid = 99 + (int32_t)random_below(6);
		((struct probe_migrate *)record)->to_cpu = (int32_t)random_below(4) - 1;
		break;
	case EVENT_KERNEL + PROBE_SOCK_STATE: {
		struct probe_sock_state *state = (struct probe_sock_state *)record;

		state->old_state = (uint8_t)random_below(13);
		state->new_state = (uint8_t)random_below(13);
		state->local_port = (uint16_t)random_below(5);
		state->remote_port = (uint16_t)random_below(5);
		break;
	}
	default:
		break;
	}
	if (event->kind >= EVENT_KERNEL + PROBE_SOCK_STATE && event->kind < EVENT_LOSS)
		((struct probe_sock_io *)record)->sock = random_below(5);
}

static void laws_hold(uint64_t seed)
{
	struct laws laws = {0};
	struct timeline_sink sink = {
		.context = &laws,
		.thread = law_thread,
		.run = law_run,
		.call = law_call,
		.gc = law_gc,
		.message = law_message,
		.stall = law_stall,
		.socket = law_socket,
	};
	struct timeline *timeline = timeline_new(NULL, &sink, 100);
	uint64_t record[32], ts_ns = 1, calls = 0, i, sum_ns;
	const struct process_totals *processes;
	const struct thread_totals *threads;
	struct event event;
	struct loss loss;
	size_t count, t, state;

	assert_non_null(timeline);
	random_state = seed;
	for (i = 0; i < EVENTS; i++) {
		ts_ns += random_next() % 50;
		random_event(&event, record, ts_ns, &loss);
		calls += event.kind == RING_CALL && event.process;
		assert_int_equal(timeline_feed(timeline, &event), 0);
	}
	assert_int_equal(timeline_finish(timeline), 0);
	assert_int_equal(laws.calls, calls);
	count = timeline_threads(timeline, &threads);
	for (t = 0; t < count; t++) {
		for (state = 0, sum_ns = 0; state < THREAD_STATES; state++)
			sum_ns += threads[t].state_ns[state];
		assert_true(sum_ns <= ts_ns);
		assert_true(threads[t].working_ns <= threads[t].state_ns[THREAD_RUNNING]);
	}
	count = timeline_processes(timeline, &processes);
	for (t = 0; t < count; t++)
		assert_true(processes[t].running_ns + processes[t].runnable_ns +
				    processes[t].waiting_ns <=
			    ts_ns);
	timeline_free(timeline);
	map_free_values(&laws.threads);
	map_free_values(&laws.runs);
	map_free_values(&laws.gcs);
	map_free_values(&laws.stalls);
}

static void any_events_keep_the_laws(void **unused)
{
	uint64_t seed;

	(void)unused;
	for (seed = 1; seed <= 5; seed++)
		laws_hold(seed * 0x9e3779b97f4a7c15ULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_events_keep_the_laws),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
