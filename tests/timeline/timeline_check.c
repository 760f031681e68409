/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The laws that every timeline keeps, checked on a recording. Prints what there is, one line a sort,
 * then "ok"; or the first violations and exit code 1.
 *
 * - A thread's intervals follow one another without gaps; its states add up to its life, which is
 *   the recording's length for a thread that lives through it.
 * - Runs of one process do not overlap; neither do those of processes on one thread.
 * - A call lies inside its parent, on the level below it, in the same process. Ids are unique.
 * - Collections of one process do not overlap.
 * - A message is fetched after it was sent.
 * - Counts of calls and sends by process are those of the events; so are receives, but for timeouts.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "map.h"
#include "timeline.h"

struct last {
	uint64_t start_ns, end_ns, sum_ns;
	bool forked; /* a thread of this number was made: a gap may stand before it */
};

struct open_call {
	uint64_t start_ns, latest_child_ns, process;
	uint32_t level;
};

struct check {
	struct trace *trace;
	struct map threads, thread_runs, port_runs, runs, gcs; /* -> struct last */
	struct map children; /* call id -> struct open_call that its children claim */
	uint64_t thread_count, run_count, call_count, doubtful, open, gc_count, message_count,
		matched, stall_count, socket_count, loss_count, calls, sends, receives;
	unsigned int wrong;
};

static void wrong(struct check *check, const char *what, uint64_t id, uint64_t ts_ns)
{
	if (check->wrong++ < 20)
		printf("WRONG: %s: %" PRIx64 " at %" PRIu64 "\n", what, id,
		       ts_ns - trace_start_ns(check->trace));
}

static void *known(struct map *map, uint64_t key, size_t bytes)
{
	void *value = map_get(map, key);

	if (!value) {
		value = calloc(1, bytes);
		if (!value || map_put(map, key, value))
			exit(2);
	}
	return value;
}

static void check_thread(void *context, const struct thread_interval *interval)
{
	struct check *check = context;
	struct last *last = known(&check->threads, (uint32_t)interval->tid, sizeof(*last));

	check->thread_count++;
	if (interval->end_ns <= interval->start_ns)
		wrong(check, "empty thread interval", (uint32_t)interval->tid, interval->start_ns);
	if (!last->end_ns)
		last->start_ns = interval->start_ns;
	else if (interval->start_ns < last->end_ns ||
		 (interval->start_ns > last->end_ns && !last->forked))
		wrong(check, "thread intervals do not follow one another", (uint32_t)interval->tid,
		      interval->start_ns);
	last->forked = false;
	last->end_ns = interval->end_ns;
	last->sum_ns += interval->end_ns - interval->start_ns;
}

static void check_after(struct check *check, struct map *map, uint64_t key, uint64_t start_ns,
			uint64_t end_ns, const char *what)
{
	struct last *last = known(map, key, sizeof(*last));

	if (start_ns > end_ns || start_ns < last->end_ns)
		wrong(check, what, key, start_ns);
	last->end_ns = end_ns;
}

static void check_run(void *context, const struct run_interval *run)
{
	struct check *check = context;
	bool port = (run->process & 0xf) == 0x7;

	check->run_count++;
	check_after(check, &check->runs, run->process, run->start_ns, run->end_ns,
		    "runs of a process overlap");
	/* a file that was cut may not tell which thread it was */
	if (run->tid)
		check_after(check, port ? &check->port_runs : &check->thread_runs,
			    (uint32_t)run->tid, run->start_ns, run->end_ns,
			    "runs on a thread overlap");
}

static void check_call(void *context, const struct call_interval *call)
{
	struct check *check = context;
	struct open_call *own = map_remove(&check->children, call->id), *parent;

	check->call_count++;
	check->doubtful += !call->certain;
	check->open += call->how == CALL_OPEN;
	if (call->end_ns < call->start_ns)
		wrong(check, "call ends before it starts", call->id, call->start_ns);
	if (own && (own->start_ns < call->start_ns || own->latest_child_ns > call->end_ns))
		wrong(check, "call outside its parent", call->id, call->start_ns);
	if (own && own->process != call->process)
		wrong(check, "parent in another process", call->id, call->start_ns);
	if (own && own->level != call->level + 1)
		wrong(check, "level is not the parent's plus one", call->id, call->start_ns);
	free(own);
	if (!call->parent) {
		if (call->level)
			wrong(check, "no parent, but not outermost", call->id, call->start_ns);
		return;
	}
	parent = known(&check->children, call->parent, sizeof(*parent));
	if (!parent->process)
		*parent = (struct open_call){call->start_ns, call->end_ns, call->process,
					     call->level};
	if (call->start_ns < parent->start_ns)
		parent->start_ns = call->start_ns;
	if (call->end_ns > parent->latest_child_ns)
		parent->latest_child_ns = call->end_ns;
}

static void check_gc(void *context, const struct gc_interval *gc)
{
	struct check *check = context;

	check->gc_count++;
	check_after(check, &check->gcs, gc->process, gc->start_ns, gc->end_ns,
		    "collections of a process overlap");
}

static void check_message(void *context, const struct message *message)
{
	struct check *check = context;

	check->message_count++;
	check->matched += message->sent_ns && message->fetched_ns;
	if (message->fetched_ns && message->fetched_ns < message->sent_ns)
		wrong(check, "fetched before it was sent", message->to, message->sent_ns);
	if (message->ran_ns && message->ran_ns < message->sent_ns)
		wrong(check, "led to a run before it was sent", message->to, message->sent_ns);
}

static void check_stall(void *context, const struct stall *stall)
{
	struct check *check = context;

	check->stall_count++;
	if (stall->end_ns < stall->start_ns || !stall->evidence)
		wrong(check, "stall", (uint32_t)stall->tid, stall->start_ns);
}

static void check_socket(void *context, const struct socket_totals *totals)
{
	(void)totals;
	((struct check *)context)->socket_count++;
}

static void check_loss(void *context, const struct loss *loss)
{
	(void)loss;
	((struct check *)context)->loss_count++;
}

static void check_event(void *context, const struct event *event)
{
	struct check *check = context;

	if (event->kind == EVENT_KERNEL + PROBE_FORK) {
		struct last *last =
			known(&check->threads, (uint32_t)event->task->tid, sizeof(*last));

		last->forked = true;
	}
	/* ports have no account */
	if (event->kind < EVENT_KERNEL && (event->process & 0xf) == 0x7)
		return;
	check->calls += event->kind == RING_CALL;
	check->sends += event->kind == RING_SEND || event->kind == RING_SEND_NOPROC;
	check->receives += event->kind == RING_RECEIVE;
}

static void check_totals(struct check *check, const struct timeline *timeline)
{
	uint64_t length_ns = trace_end_ns(check->trace) - trace_start_ns(check->trace);
	uint64_t calls = 0, sends = 0, receives = 0;
	const struct process_totals *processes;
	const struct thread_totals *threads;
	size_t count, i, state;

	count = timeline_threads(timeline, &threads);
	for (i = 0; i < count; i++) {
		const struct last *last = map_get(&check->threads, (uint32_t)threads[i].tid);
		uint64_t sum_ns = 0;

		for (state = 0; state < THREAD_STATES; state++)
			sum_ns += threads[i].state_ns[state];
		if (last && sum_ns > last->sum_ns)
			wrong(check, "states add up to more than the intervals",
			      (uint32_t)threads[i].tid, 0);
		if (last && last->start_ns == trace_start_ns(check->trace) && !threads[i].exited &&
		    sum_ns != length_ns)
			wrong(check, "states do not add up to the length", (uint32_t)threads[i].tid,
			      0);
		if (threads[i].working_ns > threads[i].state_ns[THREAD_RUNNING])
			wrong(check, "works more than it runs", (uint32_t)threads[i].tid, 0);
	}
	count = timeline_processes(timeline, &processes);
	for (i = 0; i < count; i++) {
		const struct process_totals *totals = &processes[i];

		calls += totals->calls;
		sends += totals->sends;
		receives += totals->receives;
		if (totals->running_ns + totals->runnable_ns + totals->waiting_ns > length_ns)
			wrong(check, "a process has more time than the recording", totals->process,
			      totals->first_ns);
	}
	if (calls != check->calls || calls != check->call_count)
		wrong(check, "calls are not the events", calls, check->calls);
	/* a timeout of a `receive` is reported as a receive, but is none */
	if (sends != check->sends || receives > check->receives)
		wrong(check, "sends and receives are not the events", sends, receives);
	printf("threads %zu intervals %" PRIu64 "\n", timeline_threads(timeline, &threads),
	       check->thread_count);
	printf("processes %zu runs %" PRIu64 "\n", count, check->run_count);
	printf("calls %" PRIu64 " doubtful %" PRIu64 " open %" PRIu64 "\n", check->call_count,
	       check->doubtful, check->open);
	printf("collections %" PRIu64 "\n", check->gc_count);
	printf("messages %" PRIu64 " matched %" PRIu64 "\n", check->message_count, check->matched);
	printf("stalls %" PRIu64 " sockets %" PRIu64 " losses %" PRIu64 "\n", check->stall_count,
	       check->socket_count, check->loss_count);
}

int main(int argc, char **argv)
{
	struct check check = {.trace = argc == 2 ? trace_open(argv[1]) : NULL};
	struct timeline_sink sink = {
		.context = &check,
		.thread = check_thread,
		.run = check_run,
		.call = check_call,
		.gc = check_gc,
		.message = check_message,
		.stall = check_stall,
		.loss = check_loss,
		.socket = check_socket,
		.event = check_event,
	};
	struct timeline *timeline;
	int err;

	if (!check.trace) {
		fprintf(stderr, "timeline_check: %s\n",
			argc == 2 ? strerror(errno) : "FILE.bwt wanted");
		return 2;
	}
	timeline = timeline_new(check.trace, &sink, 1000000);
	err = timeline ? timeline_run(timeline) : -ENOMEM;
	if (err)
		fprintf(stderr, "timeline_check: %s\n", strerror(-err));
	else
		check_totals(&check, timeline);
	timeline_free(timeline);
	trace_close(check.trace);
	map_free_values(&check.threads);
	map_free_values(&check.thread_runs);
	map_free_values(&check.port_runs);
	map_free_values(&check.runs);
	map_free_values(&check.gcs);
	map_free_values(&check.children);
	if (err || check.wrong)
		return 1;
	puts("ok");
	return 0;
}
