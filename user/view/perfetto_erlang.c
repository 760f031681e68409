/* SPDX-License-Identifier: Apache-2.0 */
#include "perfetto_erlang.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#define LABEL_BYTES 512

struct open_call {
	uint64_t start_ns;
	uint32_t mfa;
};

struct erlang_process {
	uint64_t word;
	uint64_t track;
	uint64_t calls_track; /* 0: not described yet */
	uint64_t mark_ns; /* of the newest beginning or end on it */
	bool mailbox; /* its counter is described */
	struct open_call *open; /* calls whose BEGIN is written, the outermost first */
	uint32_t open_count, open_room;
	UT_hash_handle hh;
};

struct erlang_thread {
	int32_t tid;
	uint64_t track;
	uint64_t start_ns, end_ns; /* of the newest stretch on it */
	char label[48];
	UT_hash_handle hh;
};

static void erlang_fail(struct perfetto_erlang *erlang, int error)
{
	if (!erlang->error)
		erlang->error = error;
}

/* ---- Tracks ---- */

static bool word_is_port(struct trace *trace, uint64_t word)
{
	return trace_process_text(trace, word)[0] == '#';
}

/* The number in "<0.123.0>" and "#Port<0.7>": processes stand in the order in which they were made. */
static int32_t word_rank(struct trace *trace, uint64_t word)
{
	const char *dot = strchr(trace_process_text(trace, word), '.');
	unsigned long number = dot ? strtoul(dot + 1, NULL, 10) : 0;

	return number < INT32_MAX ? (int32_t)number : INT32_MAX;
}

static void process_describe(struct perfetto_erlang *erlang, const struct erlang_process *process,
			     uint64_t ts_ns)
{
	const char *initial = trace_process_initial(erlang->trace, process->word);
	bool port = word_is_port(erlang->trace, process->word);
	char label[LABEL_BYTES], about[LABEL_BYTES];
	struct track track = {
		.uuid = process->track,
		.parent = track_uuid(TRACK_GROUP, port ? GROUP_PORTS : GROUP_PROCESSES),
		.name = perfetto_process_label(erlang->trace, process->word, ts_ns, label,
					       sizeof(label)),
		.rank = word_rank(erlang->trace, process->word),
	};

	if (initial) {
		snprintf(about, sizeof(about), "initial call: %s", initial);
		track.description = about;
	}
	if (port && !erlang->ports) {
		const struct track group = {.uuid = track.parent,
					    .name = "Erlang ports",
					    .rank = GROUP_PORTS,
					    .ranked = true};

		track_describe(erlang->packets, &group);
		erlang->ports = true;
	}
	track_describe(erlang->packets, &track);
}

/* NULL with erlang->error. */
static struct erlang_process *process_find(struct perfetto_erlang *erlang, uint64_t word,
					   uint64_t ts_ns)
{
	struct erlang_process *process;

	HASH_FIND(hh, erlang->processes, &word, sizeof(word), process);
	if (process)
		return process;
	process = calloc(1, sizeof(*process));
	if (!process) {
		erlang_fail(erlang, -ENOMEM);
		return NULL;
	}
	process->word = word;
	process->track = track_uuid(TRACK_PROCESS, word);
	HASH_ADD(hh, erlang->processes, word, sizeof(process->word), process);
	process_describe(erlang, process, ts_ns);
	return process;
}

uint64_t perfetto_erlang_track(struct perfetto_erlang *erlang, uint64_t word, uint64_t ts_ns)
{
	const struct erlang_process *process = process_find(erlang, word, ts_ns);

	return process ? process->track : 0;
}

uint64_t perfetto_erlang_mailbox(struct perfetto_erlang *erlang, uint64_t word, uint64_t ts_ns)
{
	struct erlang_process *process = process_find(erlang, word, ts_ns);
	struct track track = {
		.uuid = track_uuid(TRACK_MAILBOX, word),
		.name = "mailbox",
		.description = "messages sent to it and not fetched yet, as far as they were seen",
		.unit = UNIT_COUNT,
	};

	if (!process)
		return 0;
	track.parent = process->track;
	if (!process->mailbox)
		track_describe(erlang->packets, &track);
	process->mailbox = true;
	return track.uuid;
}

void perfetto_erlang_rename(struct perfetto_erlang *erlang, uint64_t word, uint64_t ts_ns)
{
	const struct erlang_process *process = process_find(erlang, word, ts_ns);

	if (process)
		process_describe(erlang, process, ts_ns);
}

static uint64_t process_calls_track(struct perfetto_erlang *erlang, struct erlang_process *process)
{
	if (!process->calls_track) {
		const struct track track = {
			.uuid = track_uuid(TRACK_CALLS, process->word),
			.parent = process->track,
			.name = "calls and GC",
		};

		track_describe(erlang->packets, &track);
		process->calls_track = track.uuid;
	}
	return process->calls_track;
}

const char *perfetto_thread_label(char *buffer, size_t size, uint32_t role, uint32_t number,
				  int32_t tid)
{
	static const char *const names[] = {
		[RING_ROLE_NORMAL] = "scheduler",
		[RING_ROLE_DIRTY_CPU] = "dirty CPU scheduler",
		[RING_ROLE_DIRTY_IO] = "dirty IO scheduler",
	};
	const char *name = role < sizeof(names) / sizeof(*names) ? names[role] : NULL;

	if (name && number)
		snprintf(buffer, size, "%s %u", name, number);
	else if (name && role != RING_ROLE_NORMAL)
		snprintf(buffer, size, "%s", name);
	else
		snprintf(buffer, size, "thread %d", tid);
	return buffer;
}

static const struct trace_thread *vm_thread(struct trace *trace, int32_t tid)
{
	const struct trace_thread *threads;
	size_t count = trace_threads(trace, &threads);

	for (size_t i = 0; i < count; i++)
		if (threads[i].tid == tid)
			return &threads[i];
	return NULL;
}

static struct erlang_thread *thread_find(struct perfetto_erlang *erlang, int32_t tid)
{
	static const int32_t role_rank[] = {
		[RING_ROLE_OTHER] = 3000,
		[RING_ROLE_NORMAL] = 1,
		[RING_ROLE_DIRTY_CPU] = 1000,
		[RING_ROLE_DIRTY_IO] = 2000,
	};
	const struct trace_thread *vm;
	struct erlang_thread *thread;
	struct track track;

	HASH_FIND(hh, erlang->threads, &tid, sizeof(tid), thread);
	if (thread)
		return thread;
	thread = calloc(1, sizeof(*thread));
	if (!thread) {
		erlang_fail(erlang, -ENOMEM);
		return NULL;
	}
	thread->tid = tid;
	thread->track = track_uuid(TRACK_THREAD, (uint32_t)tid);
	HASH_ADD(hh, erlang->threads, tid, sizeof(thread->tid), thread);
	vm = vm_thread(erlang->trace, tid);
	track = (struct track){
		.uuid = thread->track,
		.tid = tid,
		.pid = perfetto_sched_tgid(erlang->sched, tid),
		.rank = role_rank[RING_ROLE_OTHER],
	};
	if (vm && vm->role <= RING_ROLE_DIRTY_IO && vm->number < 1000)
		track.rank = role_rank[vm->role] + (int32_t)vm->number;
	perfetto_thread_label(thread->label, sizeof(thread->label), vm ? vm->role : RING_ROLE_OTHER,
			      vm ? vm->number : 0, tid);
	if (!perfetto_sched_knows(erlang->sched, tid))
		track.name = thread->label;
	track_describe(erlang->packets, &track);
	return thread;
}

uint64_t perfetto_erlang_thread(struct perfetto_erlang *erlang, int32_t tid)
{
	const struct erlang_thread *thread = thread_find(erlang, tid);

	return thread ? thread->track : 0;
}

/* ---- Runs ---- */

static void run_thread_write(struct perfetto_erlang *erlang, const struct run_interval *run)
{
	struct erlang_thread *thread = thread_find(erlang, run->tid);
	uint64_t start_ns = run->start_ns;
	char label[LABEL_BYTES];

	if (!thread)
		return;
	/* Over a loss two processes may seem to share a thread; slices of a track must not cross. */
	if (start_ns > thread->start_ns && start_ns < thread->end_ns)
		start_ns = thread->end_ns;
	if (start_ns > run->end_ns)
		return;
	packet_event_open(erlang->packets, SEQUENCE_THREADS, start_ns, MARK_BEGIN, thread->track,
			  "process",
			  perfetto_process_label(erlang->trace, run->process, run->start_ns, label,
						 sizeof(label)));
	if (start_ns != run->start_ns)
		packet_note_uint(erlang->packets, "really since ns", run->start_ns);
	packet_event_close(erlang->packets);
	packet_event_open(erlang->packets, SEQUENCE_THREADS, run->end_ns, MARK_END, thread->track,
			  NULL, NULL);
	packet_event_close(erlang->packets);
	thread->start_ns = start_ns;
	thread->end_ns = run->end_ns;
}

void perfetto_erlang_run(struct perfetto_erlang *erlang, const struct run_interval *run)
{
	struct erlang_process *process = process_find(erlang, run->process, run->start_ns);
	struct packets *packets = erlang->packets;
	const struct erlang_thread *thread = thread_find(erlang, run->tid);
	char name[64];

	if (!process || !thread)
		return;
	snprintf(name, sizeof(name), "on %s", thread->label);
	packet_event_open(packets, SEQUENCE_ERLANG, run->start_ns, MARK_BEGIN, process->track,
			  "run", name);
	perfetto_note_mfa(erlang, "in", run->mfa_in);
	perfetto_note_mfa(erlang, "out", run->mfa_out);
	packet_note_int(packets, "tid", run->tid);
	if (run->exiting)
		packet_note_bool(packets, "exiting", true);
	if (run->open)
		packet_note_bool(packets, "cut by the end of the recording", true);
	packet_event_close(packets);
	packet_event_open(packets, SEQUENCE_ERLANG, run->end_ns, MARK_END, process->track, NULL,
			  NULL);
	packet_event_close(packets);
	run_thread_write(erlang, run);
}

/* ---- Calls ---- */

static void call_begin(struct perfetto_erlang *erlang, uint64_t word, uint64_t ts_ns, uint32_t mfa)
{
	struct erlang_process *process = process_find(erlang, word, ts_ns);

	if (!process)
		return;
	if (process->open_count == process->open_room) {
		uint32_t room = process->open_room ? 2 * process->open_room : 8;
		struct open_call *open = realloc(process->open, room * sizeof(*open));

		if (!open) {
			erlang_fail(erlang, -ENOMEM);
			return;
		}
		process->open = open;
		process->open_room = room;
	}
	process->open[process->open_count++] = (struct open_call){ts_ns, mfa};
	process->mark_ns = ts_ns;
	packet_event_open(erlang->packets, SEQUENCE_ERLANG, ts_ns, MARK_BEGIN,
			  process_calls_track(erlang, process), "call",
			  trace_mfa(erlang->trace, mfa));
	packet_event_close(erlang->packets);
}

static void call_end_open(struct perfetto_erlang *erlang, struct erlang_process *process,
			  uint64_t ts_ns)
{
	process->open_count--;
	process->mark_ns = ts_ns;
	packet_event_open(erlang->packets, SEQUENCE_ERLANG, ts_ns, MARK_END, process->calls_track,
			  NULL, NULL);
}

static void pending_write(struct perfetto_erlang *erlang)
{
	struct erlang_pending *pending = &erlang->pending;

	if (pending->is)
		call_begin(erlang, pending->process, pending->ts_ns, pending->mfa);
	pending->is = false;
}

void perfetto_erlang_flush(struct perfetto_erlang *erlang)
{
	pending_write(erlang);
}

/* Leave the call that ends on top of the open ones; those above it, which nothing ended, end too. */
static void call_expose(struct perfetto_erlang *erlang, struct erlang_process *process,
			const struct call_interval *call)
{
	uint32_t i = process->open_count;

	while (i && (process->open[i - 1].start_ns != call->start_ns ||
		     process->open[i - 1].mfa != call->mfa))
		i--;
	if (!i) {
		call_begin(erlang, call->process, call->start_ns, call->mfa);
		return;
	}
	while (process->open_count > i) {
		call_end_open(erlang, process, call->end_ns);
		packet_note_text(erlang->packets, "end", "unknown");
		packet_event_close(erlang->packets);
	}
}

void perfetto_erlang_call(struct perfetto_erlang *erlang, const struct call_interval *call)
{
	struct packets *packets = erlang->packets;
	struct erlang_pending *pending = &erlang->pending;
	struct erlang_process *process;

	/* Too deep to be followed, it ended where it began: before anything else can happen. */
	if (pending->is && pending->process == call->process && pending->mfa == call->mfa &&
	    pending->ts_ns == call->start_ns && call->how == CALL_LOST &&
	    call->end_ns == call->start_ns)
		pending_write(erlang);
	process = process_find(erlang, call->process, call->start_ns);
	if (!process)
		return;
	call_expose(erlang, process, call);
	if (erlang->error)
		return;
	call_end_open(erlang, process, call->end_ns);
	packet_note_text(packets, "end", call_end_text(call->how));
	if (!call->certain)
		packet_note_bool(packets, "certain", false);
	if (call->gc_ns)
		packet_note_uint(packets, "gc_ns", call->gc_ns);
	perfetto_note_mfa(erlang, "caller", call->caller);
	perfetto_note_arguments(erlang, call->arguments);
	perfetto_note_term(erlang, "result", call->result);
	packet_event_close(packets);
}

void perfetto_erlang_gc(struct perfetto_erlang *erlang, const struct gc_interval *gc)
{
	struct erlang_process *process = process_find(erlang, gc->process, gc->start_ns);
	struct packets *packets = erlang->packets;
	uint64_t track, start_ns = gc->start_ns;

	if (!process)
		return;
	/* Over a loss, and in a damaged file, a call may have begun or ended in it. */
	if (start_ns < process->mark_ns)
		start_ns = process->mark_ns < gc->end_ns ? process->mark_ns : gc->end_ns;
	track = process_calls_track(erlang, process);
	packet_event_open(packets, SEQUENCE_ERLANG, start_ns, MARK_BEGIN, track, "gc",
			  gc->major ? "major GC" : "minor GC");
	if (start_ns != gc->start_ns)
		packet_note_uint(packets, "really since ns", gc->start_ns);
	packet_note_uint(packets, "heap words before",
			 gc->before.heap_size + gc->before.old_heap_size);
	packet_note_uint(packets, "stack words", gc->before.stack_size);
	if (gc->failed) {
		packet_note_bool(packets, "failed", true);
	} else if (!gc->open) {
		packet_note_uint(packets, "heap words after",
				 gc->after.heap_size + gc->after.old_heap_size);
		packet_note_uint(packets, "reclaimed words", gc->reclaimed_words);
	}
	if (gc->dirty)
		packet_note_bool(packets, "dirty scheduler", true);
	if (gc->open)
		packet_note_bool(packets, "cut by the end of the recording", true);
	packet_note_int(packets, "tid", gc->tid);
	packet_event_close(packets);
	packet_event_open(packets, SEQUENCE_ERLANG, gc->end_ns, MARK_END, track, NULL, NULL);
	packet_event_close(packets);
}

/* ---- The whole ---- */

void perfetto_erlang_begin(struct perfetto_erlang *erlang, struct packets *packets,
			   struct trace *trace, struct perfetto_sched *sched)
{
	const struct track group = {
		.uuid = track_uuid(TRACK_GROUP, GROUP_PROCESSES),
		.name = "Erlang processes",
		.rank = GROUP_PROCESSES,
		.ranked = true,
	};

	memset(erlang, 0, sizeof(*erlang));
	erlang->packets = packets;
	erlang->trace = trace;
	erlang->sched = sched;
	track_describe(packets, &group);
}

void perfetto_erlang_event(struct perfetto_erlang *erlang, const struct event *event)
{
	pending_write(erlang);
	if (event->kind == RING_CALL && event->process)
		erlang->pending = (struct erlang_pending){event->process, event->ts_ns,
							  event->call->mfa, true};
}

int perfetto_erlang_end(struct perfetto_erlang *erlang, uint64_t end_ns)
{
	struct erlang_process *process, *next;

	HASH_ITER (hh, erlang->processes, process, next) {
		while (process->open_count) {
			call_end_open(erlang, process, end_ns);
			packet_note_text(erlang->packets, "end", "unknown");
			packet_event_close(erlang->packets);
		}
	}
	return erlang->error;
}

void perfetto_erlang_free(struct perfetto_erlang *erlang)
{
	struct erlang_process *process, *next;
	struct erlang_thread *thread, *next_thread;

	HASH_ITER (hh, erlang->processes, process, next) {
		HASH_DEL(erlang->processes, process);
		free(process->open);
		free(process);
	}
	HASH_ITER (hh, erlang->threads, thread, next_thread) {
		HASH_DEL(erlang->threads, thread);
		free(thread);
	}
}
