/* SPDX-License-Identifier: Apache-2.0 */
#include "timeline.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "gc.h"
#include "message.h"
#include "process.h"
#include "socket.h"
#include "stall.h"
#include "thread.h"

struct timeline {
	struct trace *trace;
	struct timeline_sink sink;
	struct threads threads;
	struct processes processes;
	struct calls calls;
	struct messages messages;
	struct gcs gcs;
	struct sockets sockets;
	struct stalls stalls;
	uint64_t last_ns; /* of the events */
	struct thread_totals *totals; /* made at the end */
	size_t totals_count;
	bool finished;
	int error; /* of a callback */
};

static void timeline_thread_ended(void *context, const struct thread *thread,
				  const struct thread_interval *interval)
{
	struct timeline *timeline = context;
	int err;

	if (timeline->sink.thread)
		timeline->sink.thread(timeline->sink.context, interval);
	err = stall_thread(&timeline->stalls, thread, interval);
	if (err)
		timeline->error = err;
}

static void timeline_run_ended(void *context, struct process *process,
			       const struct run_interval *run)
{
	struct timeline *timeline = context;
	int error;

	if (timeline->sink.run)
		timeline->sink.run(timeline->sink.context, run);
	if (process->port || !timeline->sink.stall || !run->tid)
		return;
	error = stall_run(&timeline->stalls, &timeline->threads, process, run);
	if (error)
		timeline->error = error;
}

static void timeline_gc_ended(void *context, const struct gc_interval *gc)
{
	struct timeline *timeline = context;
	const struct process *process = map_get(&timeline->processes.map, gc->process);
	uint32_t mfa = process && process->phase == PROCESS_ON ? process->run.mfa_in
							       : RING_NO_INDEX;
	int error;

	if (!timeline->sink.stall)
		return;
	error = stall_gc(&timeline->stalls, map_get(&timeline->threads.map, (uint32_t)gc->tid), gc,
			 mfa);
	if (error)
		timeline->error = error;
}

/* Is `flag` one of a list like "call,return_to"? */
static bool flags_have(const char *flags, const char *flag)
{
	size_t bytes = strlen(flag), length;

	for (; *flags; flags += length + (flags[length] == ',')) {
		length = strcspn(flags, ",");
		if (length == bytes && !memcmp(flags, flag, bytes))
			return true;
	}
	return false;
}

/* Are there calls of a trace port, and no events that tell of their ends? */
static bool frames_endless(const struct trace *trace)
{
	static const uint8_t ends[] = {RING_RETURN_TO, RING_RETURN_FROM, RING_EXCEPTION_FROM};
	const struct trace_thread *threads;
	size_t count = trace_threads(trace, &threads);
	uint64_t found = 0;

	if (!trace_by_message(trace))
		return false;
	for (size_t i = 0; i < count; i++)
		for (size_t kind = 0; kind < sizeof(ends); kind++)
			found += threads[i].recorded[ends[kind]] + threads[i].discarded[ends[kind]];
	return !found;
}

struct timeline *timeline_new(struct trace *trace, const struct timeline_sink *sink,
			      uint64_t min_stall_ns)
{
	struct timeline *timeline = calloc(1, sizeof(*timeline));
	const struct ring_vm *vm = trace ? trace_vm(trace) : NULL;
	uint64_t start_ns = trace ? trace_start_ns(trace) : 0;
	uint64_t end_ns = trace ? trace_end_ns(trace) : UINT64_MAX;

	if (!timeline)
		return NULL;
	timeline->trace = trace;
	timeline->sink = *sink;
	threads_init(&timeline->threads, start_ns, end_ns > start_ns ? end_ns : UINT64_MAX,
		     timeline_thread_ended, timeline);
	timeline->processes.ended = timeline_run_ended;
	timeline->processes.context = timeline;
	timeline->calls.sink = &timeline->sink;
	timeline->calls.trace = trace;
	if (vm) {
		timeline->calls.frame_words = vm->frame_words;
		timeline->calls.return_slack = vm->return_slack;
	}
	/* Calls whose values are captured are traced with return_trace instead. */
	if (trace && trace_flags(trace))
		timeline->calls.returns = flags_have(trace_flags(trace), "call") &&
					  !flags_have(trace_flags(trace), "return_to");
	timeline->calls.endless = trace && frames_endless(trace);
	messages_init(&timeline->messages, &timeline->sink, &timeline->processes, trace);
	timeline->gcs.sink = &timeline->sink;
	timeline->gcs.ended = timeline_gc_ended;
	timeline->gcs.context = timeline;
	timeline->sockets.sink = &timeline->sink;
	timeline->stalls.sink = &timeline->sink;
	timeline->stalls.nests.sink = &timeline->sink;
	timeline->stalls.min_ns = min_stall_ns;
	if (trace && threads_known(&timeline->threads, trace)) {
		timeline_free(timeline);
		errno = ENOMEM;
		return NULL;
	}
	return timeline;
}

void timeline_free(struct timeline *timeline)
{
	size_t i;

	if (!timeline)
		return;
	/* what timeline_finish() would have given out goes without a word */
	memset(&timeline->sink, 0, sizeof(timeline->sink));
	for (i = 0; i < timeline->processes.count; i++) {
		call_finish(&timeline->calls, timeline->processes.all[i], 0, CALL_OPEN);
		message_exit(&timeline->messages, timeline->processes.all[i]);
	}
	calls_free(&timeline->calls);
	messages_free(&timeline->messages);
	sockets_free(&timeline->sockets);
	stalls_free(&timeline->stalls);
	processes_free(&timeline->processes);
	threads_free(&timeline->threads);
	free(timeline->totals);
	free(timeline);
}

static void timeline_gone(struct timeline *timeline, struct process *process, uint64_t ts_ns)
{
	gc_exit(&timeline->gcs, process, ts_ns);
	call_finish(&timeline->calls, process, ts_ns, CALL_EXITED);
	message_exit(&timeline->messages, process);
}

/* in, out and their kind, of processes and ports. */
static int timeline_running(struct timeline *timeline, struct process *process,
			    const struct event *event)
{
	bool port = event->kind == RING_PORT_IN || event->kind == RING_PORT_OUT;
	struct vm_thread *thread = process_ring(&timeline->processes, event->ring, event->tid);
	uint32_t mfa = port ? RING_NO_INDEX : event->run->mfa;
	int err = 0;

	if (!thread)
		return -ENOMEM;
	switch (event->kind) {
	case RING_IN:
	case RING_IN_EXITING:
	case RING_PORT_IN:
		process_in(&timeline->processes, process, thread, event, mfa);
		message_ran(process, event->ts_ns);
		if (!port && timeline->sink.stall)
			err = stall_run_begins(&timeline->stalls, &timeline->threads, process,
					       event);
		break;
	default:
		if (event->kind == RING_OUT)
			call_out(&timeline->calls, process, event);
		process_out(&timeline->processes, process, thread, event, mfa);
		if (event->kind == RING_OUT_EXITED)
			timeline_gone(timeline, process, event->ts_ns);
		break;
	}
	if (err || !event->tid)
		return err;
	return threads_vm(&timeline->threads, event->tid,
			  thread->process ? thread->process->totals.process : 0,
			  thread->process || thread->port, event->ts_ns);
}

static int timeline_spawn(struct timeline *timeline, const struct event *event)
{
	const struct ring_spawn *record = event->spawn;
	uint64_t child = event->kind == RING_SPAWN ? record->other : event->process;
	uint64_t parent = event->kind == RING_SPAWN ? event->process : record->other;
	uint32_t initial = record->initial != RING_NO_INDEX ? record->initial : record->mfa;
	struct process *before = map_get(&timeline->processes.map, child);

	/* A word that is given out again: nothing of its old bearer stays open. */
	if (before && before->totals.exited_ns) {
		timeline_gone(timeline, before, event->ts_ns);
		process_retire(&timeline->processes, before, event->ts_ns);
	}
	return process_spawn(&timeline->processes, child, parent, initial, event->ts_ns) ? 0
											 : -ENOMEM;
}

static void timeline_instant(struct timeline *timeline, const struct event *event)
{
	struct instant instant = {*event};

	if (timeline->sink.instant)
		timeline->sink.instant(timeline->sink.context, &instant);
}

static int timeline_vm_event(struct timeline *timeline, const struct event *event)
{
	struct process *process = process_get(&timeline->processes, event->process, event->ts_ns);

	if (!process)
		return -ENOMEM;
	switch (event->kind) {
	case RING_CALL:
		process->totals.calls++;
		return call_event(&timeline->calls, process, event);
	case RING_RETURN_TO:
		call_return_to(&timeline->calls, process, event);
		return 0;
	case RING_RETURN_FROM:
	case RING_EXCEPTION_FROM:
		call_value(&timeline->calls, process, event);
		return 0;
	case RING_SEND:
	case RING_SEND_NOPROC:
		process->totals.sends++;
		return message_send(&timeline->messages, process, event);
	case RING_RECEIVE:
		return message_receive(&timeline->messages, process, event);
	case RING_IN:
	case RING_OUT:
	case RING_IN_EXITING:
	case RING_OUT_EXITING:
	case RING_OUT_EXITED:
	case RING_PORT_IN:
	case RING_PORT_OUT:
		return timeline_running(timeline, process, event);
	case RING_GC_MINOR_START:
	case RING_GC_MAJOR_START:
		gc_event(&timeline->gcs, process, event);
		return timeline->sink.stall && event->tid
			       ? stall_gc_begins(&timeline->stalls, event->tid)
			       : 0;
	case RING_GC_MINOR_END:
	case RING_GC_MAJOR_END:
		gc_event(&timeline->gcs, process, event);
		return 0;
	case RING_GC_MAX_HEAP:
		gc_event(&timeline->gcs, process, event);
		break;
	case RING_SPAWN:
	case RING_SPAWNED:
		timeline_instant(timeline, event);
		return timeline_spawn(timeline, event);
	case RING_EXIT:
		timeline_instant(timeline, event);
		process_exit(&timeline->processes, process, event->ts_ns);
		timeline_gone(timeline, process, event->ts_ns);
		return 0;
	case RING_REGISTER:
		timeline_instant(timeline, event);
		return message_register(&timeline->messages, process, event->name->name);
	case RING_UNREGISTER:
		message_unregister(&timeline->messages, process, event->name->name);
		break;
	default:
		break;
	}
	timeline_instant(timeline, event);
	return 0;
}

static int timeline_loss(struct timeline *timeline, const struct event *event)
{
	const struct loss *loss = event->loss;
	size_t i;

	if (timeline->sink.loss)
		timeline->sink.loss(timeline->sink.context, loss);
	if (loss->kernel)
		return threads_loss(&timeline->threads, loss);
	call_loss(&timeline->calls, loss);
	process_loss(&timeline->processes, loss);
	for (i = 0; i < timeline->processes.count; i++)
		gc_loss(&timeline->gcs, timeline->processes.all[i], loss);
	return 0;
}

static int timeline_kernel_event(struct timeline *timeline, const struct event *event)
{
	switch (event->kind - EVENT_KERNEL) {
	case PROBE_SWITCH:
		return threads_switch(&timeline->threads, event);
	case PROBE_WAKING:
	case PROBE_WAKEUP_NEW:
		return threads_waking(&timeline->threads, event);
	case PROBE_MIGRATE:
		return threads_migrate(&timeline->threads, event);
	case PROBE_FORK:
		timeline_instant(timeline, event);
		return threads_fork(&timeline->threads, event);
	case PROBE_EXIT:
		timeline_instant(timeline, event);
		return 0;
	case PROBE_EXEC:
		timeline_instant(timeline, event);
		return threads_exec(&timeline->threads, event);
	case PROBE_SOCK_STATE:
	case PROBE_TCP_RETRANSMIT:
	case PROBE_TCP_RESET_SENT:
	case PROBE_TCP_RESET_RECEIVED:
		timeline_instant(timeline, event);
		return sockets_event(&timeline->sockets, event);
	case PROBE_SOCK_SEND:
	case PROBE_SOCK_RECV:
	case PROBE_SOCK_DATA_READY:
	case PROBE_SOCK_ERLANG:
		return sockets_event(&timeline->sockets, event);
	default:
		return 0;
	}
}

static int timeline_name(struct timeline *timeline, const struct event *event)
{
	struct process *process = process_get(&timeline->processes, event->process, event->ts_ns);

	return process ? message_name(&timeline->messages, process, event->text) : -ENOMEM;
}

int timeline_feed(struct timeline *timeline, const struct event *event)
{
	int err = 0;

	if (timeline->sink.event)
		timeline->sink.event(timeline->sink.context, event);
	if (event->ts_ns > timeline->last_ns)
		timeline->last_ns = event->ts_ns;
	switch (event->kind) {
	case EVENT_LOSS:
		err = timeline_loss(timeline, event);
		break;
	case EVENT_NAME:
		err = timeline_name(timeline, event);
		break;
	case EVENT_PORT:
		err = sockets_event(&timeline->sockets, event);
		break;
	case EVENT_INITIAL:
	case EVENT_SAMPLE:
		break;
	default:
		if (event->kind >= EVENT_KERNEL)
			err = timeline_kernel_event(timeline, event);
		else if (event->process)
			err = timeline_vm_event(timeline, event);
		break;
	}
	return err ? err : timeline->error;
}

int timeline_finish(struct timeline *timeline)
{
	struct threads *threads = &timeline->threads;
	uint64_t end_ns = threads->end_ns;
	size_t i;

	if (timeline->finished)
		return 0;
	timeline->finished = true;
	if (end_ns == UINT64_MAX)
		threads->end_ns = timeline->last_ns;
	/* Nothing that was seen lies behind the end. */
	if (end_ns == UINT64_MAX || end_ns < timeline->last_ns)
		end_ns = timeline->last_ns;
	for (i = 0; i < timeline->processes.count; i++) {
		struct process *process = timeline->processes.all[i];

		gc_finish(&timeline->gcs, process, end_ns);
		call_finish(&timeline->calls, process, end_ns, CALL_OPEN);
	}
	processes_finish(&timeline->processes, end_ns);
	for (i = 0; i < timeline->processes.count; i++)
		message_exit(&timeline->messages, timeline->processes.all[i]);
	threads_finish(threads);
	stalls_finish(&timeline->stalls);
	sockets_finish(&timeline->sockets);
	timeline->totals = threads_totals(threads);
	if (!timeline->totals || processes_totals(&timeline->processes))
		return -ENOMEM;
	timeline->totals_count = threads->count;
	for (i = 0; timeline->trace && i < timeline->processes.totals_count; i++) {
		struct process_totals *totals = &timeline->processes.totals[i];

		if (!totals->parent)
			totals->parent = trace_process_parent(timeline->trace, totals->process);
	}
	return timeline->error;
}

int timeline_run(struct timeline *timeline)
{
	struct event event;
	int err;

	trace_rewind(timeline->trace);
	while ((err = trace_next(timeline->trace, &event)) > 0) {
		err = timeline_feed(timeline, &event);
		if (err)
			return err;
	}
	return err ? err : timeline_finish(timeline);
}

size_t timeline_processes(const struct timeline *timeline, const struct process_totals **totals)
{
	*totals = timeline->processes.totals;
	return timeline->processes.totals_count;
}

size_t timeline_threads(const struct timeline *timeline, const struct thread_totals **totals)
{
	*totals = timeline->totals;
	return timeline->totals_count;
}
