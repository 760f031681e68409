/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of a recording, taken from the timeline and from the raw events, as JSON. An export of
 * the same recording must have the same: check.py compares.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "timeline.h"

#define MIN_STALL_NS 100000u /* as the export has it */
#define TIDS	     65536u
#define CPUS	     1024u

struct sums {
	struct trace *trace;
	json_t *root;
	uint64_t first_ns, last_ns;
	uint64_t since_ns[TIDS]; /* by tid: on a CPU since; 0 not */
	uint64_t switch_ns[CPUS]; /* by CPU: its newest switch */
};

/* root[group][key] = [count + 1, total + ns] */
static void sums_add(struct sums *sums, const char *group, const char *key, uint64_t ns)
{
	json_t *object = json_object_get(sums->root, group);
	json_t *pair;

	if (!object) {
		object = json_object();
		json_object_set_new(sums->root, group, object);
	}
	pair = json_object_get(object, key);
	if (!pair) {
		pair = json_pack("[ii]", 0, 0);
		json_object_set_new(object, key, pair);
	}
	json_integer_set(json_array_get(pair, 0), json_integer_value(json_array_get(pair, 0)) + 1);
	json_integer_set(json_array_get(pair, 1),
			 json_integer_value(json_array_get(pair, 1)) + (json_int_t)ns);
}

static void sums_run(void *context, const struct run_interval *run)
{
	struct sums *sums = context;

	sums_add(sums, "runs", trace_process_text(sums->trace, run->process),
		 run->end_ns - run->start_ns);
}

static void sums_call(void *context, const struct call_interval *call)
{
	struct sums *sums = context;

	sums_add(sums, "calls", trace_mfa(sums->trace, call->mfa), call->end_ns - call->start_ns);
}

static void sums_gc(void *context, const struct gc_interval *gc)
{
	sums_add(context, "gcs", gc->major ? "major GC" : "minor GC", gc->end_ns - gc->start_ns);
}

static void sums_message(void *context, const struct message *message)
{
	if (message->sent_ns)
		sums_add(context, "messages", "send", 0);
	if (message->fetched_ns)
		sums_add(context, "messages", "receive", 0);
	if (message->sent_ns && message->fetched_ns)
		sums_add(context, "messages", "flow", message->fetched_ns - message->sent_ns);
}

static void sums_queue(void *context, const struct queue_sample *sample)
{
	struct sums *sums = context;

	sums_add(sums, "mailboxes", trace_process_text(sums->trace, sample->process),
		 sample->length);
}

static void sums_instant(void *context, const struct instant *instant)
{
	const char *name = event_kind_name(instant->event.kind);

	if (instant->event.kind < EVENT_KERNEL && instant->event.process)
		sums_add(context, "instants", name ? name : "unknown event", 0);
}

static void sums_stall(void *context, const struct stall *stall)
{
	sums_add(context, "stalls", stall_cause_name(stall->cause),
		 stall->end_ns - stall->start_ns);
}

static void sums_loss(void *context, const struct loss *loss)
{
	char key[32];

	snprintf(key, sizeof(key), "%s %u", loss->kernel ? "kernel" : "vm", loss->ring);
	sums_add(context, "losses", key, loss->count);
}

/*
 * Time on a CPU of the target's threads: from the switch to it, or where that has no record from when
 * the kernel says that it came, to the switch from it.
 */
static void sums_switch(struct sums *sums, const struct event *event)
{
	const struct probe_switch *record = event->sched_switch;
	uint32_t prev = (uint32_t)record->prev_tid, next = (uint32_t)record->next_tid;
	uint32_t cpu = (uint32_t)event->cpu < CPUS ? (uint32_t)event->cpu : 0;
	uint64_t since_ns = prev < TIDS ? sums->since_ns[prev] : 0;
	char key[16];

	if (!since_ns && record->ran_ns && sums->switch_ns[cpu])
		since_ns = event->ts_ns - record->ran_ns;
	if (since_ns && since_ns < sums->switch_ns[cpu])
		since_ns = sums->switch_ns[cpu];
	if (record->flags & PROBE_PREV_TARGET && prev < TIDS && since_ns) {
		snprintf(key, sizeof(key), "%u", prev);
		sums_add(sums, "running", key, event->ts_ns - since_ns);
		sums->since_ns[prev] = 0;
	}
	if (record->flags & PROBE_NEXT_TARGET && next < TIDS)
		sums->since_ns[next] = event->ts_ns;
	sums->switch_ns[cpu] = event->ts_ns;
}

static void sums_event(void *context, const struct event *event)
{
	struct sums *sums = context;
	const char *name = event_kind_name(event->kind);
	const struct probe_sock_io *io = event->sock_io;

	if (!sums->first_ns)
		sums->first_ns = event->ts_ns;
	sums->last_ns = event->ts_ns;
	sums_add(sums, "events", name ? name : "unknown", 0);
	if (event->kind == EVENT_KERNEL + PROBE_SWITCH)
		sums_switch(sums, event);
	if ((event->kind == EVENT_KERNEL + PROBE_SOCK_SEND ||
	     event->kind == EVENT_KERNEL + PROBE_SOCK_RECV) &&
	    io->result >= 0)
		sums_add(sums, "sockets",
			 event->kind == EVENT_KERNEL + PROBE_SOCK_SEND ? "sent" : "received",
			 (uint32_t)io->result);
}

int main(int argc, char **argv)
{
	static struct sums sums;
	const struct timeline_sink sink = {
		.context = &sums,
		.run = sums_run,
		.call = sums_call,
		.gc = sums_gc,
		.message = sums_message,
		.queue = sums_queue,
		.instant = sums_instant,
		.stall = sums_stall,
		.loss = sums_loss,
		.event = sums_event,
	};
	struct timeline *timeline;
	int error;

	if (argc != 2) {
		fprintf(stderr, "usage: timeline_sums FILE\n");
		return 2;
	}
	sums.trace = trace_open(argv[1]);
	sums.root = json_object();
	timeline = sums.trace ? timeline_new(sums.trace, &sink, MIN_STALL_NS) : NULL;
	if (!timeline || !sums.root) {
		fprintf(stderr, "timeline_sums: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	error = timeline_run(timeline);
	if (error) {
		fprintf(stderr, "timeline_sums: %s: %s\n", argv[1], strerror(-error));
		return 1;
	}
	json_object_set_new(sums.root, "first_ns", json_integer((json_int_t)sums.first_ns));
	json_object_set_new(sums.root, "last_ns", json_integer((json_int_t)sums.last_ns));
	json_dumpf(sums.root, stdout, JSON_INDENT(1) | JSON_SORT_KEYS);
	printf("\n");
	timeline_free(timeline);
	trace_close(sums.trace);
	json_decref(sums.root);
	return 0;
}
