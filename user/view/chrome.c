/* SPDX-License-Identifier: Apache-2.0 */
#include "chrome.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "chrome_row.h"
#include "lines.h"
#include "perfetto_erlang.h"
#include "timeline.h"

#define MIN_STALL_NS 100000u
#define LABEL_BYTES  512

/* The groups, in the order in which viewers show them. */
enum chrome_group {
	ROWS_CPUS = 1,
	ROWS_THREADS = 2,
	ROWS_SCHEDULERS = 3,
	ROWS_ERLANG = 4,
	ROWS_ERLANG_PORTS = 5,
	ROWS_SOCKET = 6,
	ROWS_STALLS = 7,
	ROWS_LOSS = 8,
};

static const char *const group_names[] = {
	[ROWS_CPUS] = "CPUs",
	[ROWS_THREADS] = "Threads of the VM",
	[ROWS_SCHEDULERS] = "Schedulers",
	[ROWS_ERLANG] = "Erlang processes",
	[ROWS_ERLANG_PORTS] = "Erlang ports",
	[ROWS_SOCKET] = "Sockets",
	[ROWS_STALLS] = "Stalls",
	[ROWS_LOSS] = "Lost events",
};

/* Rows of kernel rings stand behind those of the VM's. */
#define LOSS_KERNEL_ROWS 1000000u

/* A row that has its name. */
struct named_row {
	uint64_t key; /* group << 56 | what the row is of */
	uint64_t number; /* in its group, from 1 */
	UT_hash_handle hh;
};

struct chrome {
	struct trace *trace;
	struct chrome_rows rows;
	struct named_row *named;
	uint64_t counts[ROWS_LOSS + 1]; /* rows of each group that were numbered */
	uint64_t from_ns, to_ns, end_ns;
	uint64_t flows, sockets;
	int error;
};

static bool chrome_wants(const struct chrome *chrome, uint64_t start_ns, uint64_t end_ns)
{
	return end_ns >= chrome->from_ns && start_ns <= chrome->to_ns;
}

/* ---- Rows and their names ---- */

static void meta_write(struct chrome *chrome, const char *what, enum chrome_group group,
		       uint64_t row, const char *name)
{
	row_begin(&chrome->rows, 'M', group, row, what, NULL);
	row_text(&chrome->rows, "name", name);
	row_end(&chrome->rows);
}

static void row_name(struct chrome *chrome, enum chrome_group group, uint64_t row, const char *name)
{
	meta_write(chrome, "thread_name", group, row, name);
	row_begin(&chrome->rows, 'M', group, row, "thread_sort_index", NULL);
	row_number(&chrome->rows, "sort_index", row);
	row_end(&chrome->rows);
}

/* Find the row of `what`, numbered in the order of appearance; *is_new: it has no name yet. */
static uint64_t row_find(struct chrome *chrome, enum chrome_group group, uint64_t what,
			 bool *is_new)
{
	const uint64_t key = (uint64_t)group << 56 ^ what;
	struct named_row *row;

	HASH_FIND(hh, chrome->named, &key, sizeof(key), row);
	*is_new = !row;
	if (row)
		return row->number;
	row = calloc(1, sizeof(*row));
	if (!row) {
		chrome->error = -ENOMEM;
		*is_new = false;
		return 0;
	}
	row->key = key;
	row->number = ++chrome->counts[group];
	HASH_ADD(hh, chrome->named, key, sizeof(row->key), row);
	return row->number;
}

static enum chrome_group word_group(struct chrome *chrome, uint64_t word)
{
	return trace_process_text(chrome->trace, word)[0] == '#' ? ROWS_ERLANG_PORTS : ROWS_ERLANG;
}

static void process_name(struct chrome *chrome, uint64_t word, uint64_t number, uint64_t ts_ns)
{
	enum chrome_group group = word_group(chrome, word);
	char label[LABEL_BYTES], calls[LABEL_BYTES + 32];

	perfetto_process_label(chrome->trace, word, ts_ns, label, sizeof(label));
	row_name(chrome, group, 2 * number, label);
	if (group == ROWS_ERLANG) {
		snprintf(calls, sizeof(calls), "%s calls and GC", label);
		row_name(chrome, group, 2 * number + 1, calls);
	}
}

/* The row of a process's runs; that of its calls and collections is the next one. */
static uint64_t process_row(struct chrome *chrome, uint64_t word, uint64_t ts_ns)
{
	bool is_new;
	uint64_t number = row_find(chrome, word_group(chrome, word), word, &is_new);

	if (is_new)
		process_name(chrome, word, number, ts_ns);
	return 2 * number;
}

static const char *thread_label(struct chrome *chrome, int32_t tid, char *buffer, size_t size)
{
	const struct trace_thread *threads;
	size_t count = trace_threads(chrome->trace, &threads);
	size_t tasks;
	const struct chunk_task *task = trace_tasks(chrome->trace, &tasks);
	struct text_builder text;

	for (size_t i = 0; i < count; i++)
		if (threads[i].tid == tid)
			return perfetto_thread_label(buffer, size, threads[i].role,
						     threads[i].number, tid);
	text_begin(&text, buffer, size);
	for (size_t i = 0; i < tasks; i++) {
		if (task[i].tid != tid)
			continue;
		text_add_clean(&text, task[i].comm, strnlen(task[i].comm, sizeof(task[i].comm)));
		text_format(&text, " (%d)", tid);
		return buffer;
	}
	text_format(&text, "thread %d", tid);
	return buffer;
}

/* A thread's row in a group is its tid. */
static uint64_t thread_row(struct chrome *chrome, enum chrome_group group, int32_t tid)
{
	uint64_t row = tid > 0 ? (uint64_t)tid : 0;
	char label[64];
	bool is_new;

	row_find(chrome, group, row, &is_new);
	if (is_new)
		row_name(chrome, group, row, thread_label(chrome, tid, label, sizeof(label)));
	return row;
}

static uint64_t cpu_row(struct chrome *chrome, int32_t cpu)
{
	uint64_t row = cpu >= 0 ? (uint64_t)cpu + 1 : 0;
	char label[32];
	bool is_new;

	row_find(chrome, ROWS_CPUS, row, &is_new);
	snprintf(label, sizeof(label), cpu >= 0 ? "CPU %d" : "CPU unknown", cpu);
	if (is_new)
		row_name(chrome, ROWS_CPUS, row, label);
	return row;
}

static void note_mfa(struct chrome *chrome, const char *key, uint32_t mfa)
{
	if (mfa != RING_NO_INDEX)
		row_text(&chrome->rows, key, trace_mfa(chrome->trace, mfa));
}

static void note_term(struct chrome *chrome, const char *key, struct text etf)
{
	char text[ROW_TERM_BYTES];

	if (!etf.bytes)
		return;
	trace_term_text(chrome->trace, etf, text, sizeof(text));
	row_text(&chrome->rows, key, text);
}

static void note_process(struct chrome *chrome, const char *key, uint64_t word, uint64_t ts_ns)
{
	char label[LABEL_BYTES];

	if (word)
		row_text(&chrome->rows, key,
			 perfetto_process_label(chrome->trace, word, ts_ns, label, sizeof(label)));
}

static void note_open(struct chrome *chrome, bool open)
{
	if (open)
		row_flag(&chrome->rows, "cut by the end of the recording", true);
}

/* ---- The timeline's sink ---- */

static void sink_thread(void *context, const struct thread_interval *interval)
{
	static const char *const states[] = {
		[THREAD_RUNNING] = "running",	[THREAD_RUNNABLE] = "runnable",
		[THREAD_SLEEPING] = "sleeping", [THREAD_BLOCKED] = "blocked",
		[THREAD_STOPPED] = "stopped",
	};
	struct chrome *chrome = context;
	char label[64];

	if (interval->state >= THREAD_UNKNOWN ||
	    !chrome_wants(chrome, interval->start_ns, interval->end_ns))
		return;
	if (interval->state == THREAD_RUNNING) {
		row_slice(&chrome->rows, ROWS_CPUS, cpu_row(chrome, interval->cpu), "cpu",
			  thread_label(chrome, interval->tid, label, sizeof(label)),
			  interval->start_ns, interval->end_ns);
		row_end(&chrome->rows);
	}
	/* A sleep is what is left blank. */
	if (interval->state == THREAD_SLEEPING)
		return;
	row_slice(&chrome->rows, ROWS_THREADS, thread_row(chrome, ROWS_THREADS, interval->tid),
		  "state", states[interval->state], interval->start_ns, interval->end_ns);
	if (interval->state == THREAD_RUNNABLE)
		row_flag(&chrome->rows, "preempted", interval->preempted);
	note_open(chrome, interval->open);
	row_end(&chrome->rows);
}

static void sink_run(void *context, const struct run_interval *run)
{
	struct chrome *chrome = context;
	char label[LABEL_BYTES];
	uint64_t row;

	if (!chrome_wants(chrome, run->start_ns, run->end_ns))
		return;
	row = process_row(chrome, run->process, run->start_ns);
	row_slice(&chrome->rows, word_group(chrome, run->process), row, "run",
		  thread_label(chrome, run->tid, label, sizeof(label)), run->start_ns, run->end_ns);
	note_mfa(chrome, "in", run->mfa_in);
	note_mfa(chrome, "out", run->mfa_out);
	if (run->exiting)
		row_flag(&chrome->rows, "exiting", true);
	note_open(chrome, run->open);
	row_end(&chrome->rows);
	perfetto_process_label(chrome->trace, run->process, run->start_ns, label, sizeof(label));
	row = thread_row(chrome, ROWS_SCHEDULERS, run->tid);
	row_slice(&chrome->rows, ROWS_SCHEDULERS, row, "process", label, run->start_ns,
		  run->end_ns);
	row_end(&chrome->rows);
}

static void sink_call(void *context, const struct call_interval *call)
{
	static const char *const ends[] = {
		[CALL_RETURNED] = "returned",
		[CALL_TAIL] = "tail call",
		[CALL_EXCEPTION] = "exception",
		[CALL_UNSEEN] = "not seen: an upper bound",
		[CALL_EXITED] = "its process exited",
		[CALL_OPEN] = "cut by the end of the recording",
		[CALL_LOST] = "events were lost",
	};
	struct chrome *chrome = context;
	uint64_t row;

	if (!chrome_wants(chrome, call->start_ns, call->end_ns))
		return;
	row = process_row(chrome, call->process, call->start_ns) + 1;
	row_slice(&chrome->rows, ROWS_ERLANG, row, "call", trace_mfa(chrome->trace, call->mfa),
		  call->start_ns, call->end_ns);
	row_text(&chrome->rows, "end",
		 call->how < sizeof(ends) / sizeof(*ends) ? ends[call->how] : "unknown");
	if (!call->certain)
		row_flag(&chrome->rows, "certain", false);
	if (call->gc_ns)
		row_number(&chrome->rows, "gc_ns", call->gc_ns);
	note_mfa(chrome, "caller", call->caller);
	note_term(chrome, "arguments", call->arguments);
	note_term(chrome, "result", call->result);
	row_end(&chrome->rows);
}

static void sink_gc(void *context, const struct gc_interval *gc)
{
	struct chrome *chrome = context;
	uint64_t row;

	if (!chrome_wants(chrome, gc->start_ns, gc->end_ns))
		return;
	row = process_row(chrome, gc->process, gc->start_ns) + 1;
	row_slice(&chrome->rows, ROWS_ERLANG, row, "gc", gc->major ? "major GC" : "minor GC",
		  gc->start_ns, gc->end_ns);
	row_number(&chrome->rows, "heap words before",
		   gc->before.heap_size + gc->before.old_heap_size);
	if (!gc->failed && !gc->open)
		row_number(&chrome->rows, "reclaimed words", gc->reclaimed_words);
	if (gc->failed)
		row_flag(&chrome->rows, "failed", true);
	if (gc->dirty)
		row_flag(&chrome->rows, "dirty scheduler", true);
	note_open(chrome, gc->open);
	row_end(&chrome->rows);
}

static void message_end(struct chrome *chrome, const struct message *message, bool sent)
{
	uint64_t self = sent ? message->from : message->to;
	uint64_t other = sent ? message->to : message->from;
	uint64_t ts_ns = sent ? message->sent_ns : message->fetched_ns;
	char shape[LABEL_BYTES];
	struct text_builder text;

	text_begin(&text, shape, sizeof(shape));
	lines_shape(chrome->trace, &message->shape, &text);
	text_finish(&text);
	row_instant(&chrome->rows, word_group(chrome, self), process_row(chrome, self, ts_ns),
		    sent ? "send" : "receive", shape, ts_ns);
	note_process(chrome, sent ? "to" : "from", other, ts_ns);
	if (sent && message->noproc)
		row_flag(&chrome->rows, "no such process", true);
	note_term(chrome, "message", message->content);
	row_end(&chrome->rows);
}

static void message_flow(struct chrome *chrome, const struct message *message, char phase)
{
	bool start = phase == 's' || phase == 'b';
	uint64_t self = phase == 's' ? message->from : message->to;
	uint64_t ts_ns = start ? message->sent_ns : message->fetched_ns;

	row_begin(&chrome->rows, phase, word_group(chrome, self), process_row(chrome, self, ts_ns),
		  "message", "message");
	row_time(&chrome->rows, ts_ns);
	row_id(&chrome->rows, chrome->flows);
	row_end(&chrome->rows);
}

static void sink_message(void *context, const struct message *message)
{
	struct chrome *chrome = context;
	uint64_t start_ns = message->sent_ns ? message->sent_ns : message->fetched_ns;
	uint64_t end_ns = message->fetched_ns ? message->fetched_ns : message->sent_ns;

	if (!chrome_wants(chrome, start_ns, end_ns))
		return;
	if (message->sent_ns)
		message_end(chrome, message, true);
	if (message->fetched_ns)
		message_end(chrome, message, false);
	if (!message->sent_ns || !message->fetched_ns)
		return;
	chrome->flows++;
	for (const char *phase = "sfbe"; *phase; phase++)
		message_flow(chrome, message, *phase);
}

static void sink_queue(void *context, const struct queue_sample *sample)
{
	struct chrome *chrome = context;
	char name[64] = "mailbox ";

	if (!chrome_wants(chrome, sample->ts_ns, sample->ts_ns))
		return;
	trace_process_put(chrome->trace, sample->process, name + strlen(name),
			  sizeof(name) - strlen(name));
	row_begin(&chrome->rows, 'C', ROWS_ERLANG, 0, name, "mailbox");
	row_time(&chrome->rows, sample->ts_ns);
	row_number(&chrome->rows, "messages", sample->length);
	row_end(&chrome->rows);
}

static void sink_instant(void *context, const struct instant *instant)
{
	const struct event *event = &instant->event;
	const char *kind = event_kind_name(event->kind);
	struct chrome *chrome = context;
	struct text_builder text;
	char line[LABEL_BYTES];
	bool vm = event->kind < EVENT_KERNEL;

	if ((vm && !event->process) || !chrome_wants(chrome, event->ts_ns, event->ts_ns))
		return;
	if (event->kind == RING_REGISTER)
		process_name(chrome, event->process,
			     process_row(chrome, event->process, event->ts_ns) / 2, event->ts_ns);
	row_instant(&chrome->rows, vm ? word_group(chrome, event->process) : ROWS_SOCKET,
		    vm ? process_row(chrome, event->process, event->ts_ns) : 0, "instant",
		    kind ? kind : "unknown event", event->ts_ns);
	text_begin(&text, line, sizeof(line));
	lines_text(chrome->trace, event, &text);
	text_finish(&text);
	row_text(&chrome->rows, "event", line);
	row_end(&chrome->rows);
}

static void sink_stall(void *context, const struct stall *stall)
{
	struct chrome *chrome = context;
	struct text_builder text;
	char by[3 * PROBE_COMM + 1];

	if (!chrome_wants(chrome, stall->start_ns, stall->end_ns))
		return;
	row_slice(&chrome->rows, ROWS_STALLS, thread_row(chrome, ROWS_STALLS, stall->tid), "stall",
		  stall_cause_name(stall->cause), stall->start_ns, stall->end_ns);
	note_process(chrome, "process", stall->process, stall->start_ns);
	note_mfa(chrome, "mfa", stall->mfa);
	if (stall->by_tid) {
		text_begin(&text, by, sizeof(by));
		text_add_clean(&text, stall->by_comm, strnlen(stall->by_comm, PROBE_COMM));
		row_text(&chrome->rows, "by", by);
		row_number(&chrome->rows, "by tid", (uint64_t)(uint32_t)stall->by_tid);
	}
	row_text(&chrome->rows, "evidence", stall->evidence ? stall->evidence : "");
	row_flag(&chrome->rows, "certain", stall->certain);
	row_end(&chrome->rows);
}

static void sink_loss(void *context, const struct loss *loss)
{
	struct chrome *chrome = context;
	uint64_t row = loss->kernel ? LOSS_KERNEL_ROWS + loss->ring : loss->ring;
	char name[64];
	bool is_new;

	if (!chrome_wants(chrome, loss->from_ns, loss->to_ns))
		return;
	row_find(chrome, ROWS_LOSS, row, &is_new);
	snprintf(name, sizeof(name), "%s %" PRIu32, loss->kernel ? "CPU" : "ring", loss->ring);
	if (is_new)
		row_name(chrome, ROWS_LOSS, row, name);
	snprintf(name, sizeof(name), "%" PRIu64 " events %s", loss->count, loss->why);
	row_slice(&chrome->rows, ROWS_LOSS, row, "loss", name, loss->from_ns,
		  loss->to_ns < loss->from_ns ? loss->from_ns : loss->to_ns);
	row_number(&chrome->rows, "count", loss->count);
	row_end(&chrome->rows);
}

static void sink_socket(void *context, const struct socket_totals *totals)
{
	struct chrome *chrome = context;
	uint64_t start_ns = totals->opened_ns ? totals->opened_ns : trace_start_ns(chrome->trace);
	uint64_t end_ns = totals->closed_ns ? totals->closed_ns : chrome->end_ns;
	char local[LINES_ADDRESS], remote[LINES_ADDRESS], name[2 * LINES_ADDRESS + 8];

	if (end_ns < start_ns)
		end_ns = start_ns;
	if (!chrome_wants(chrome, start_ns, end_ns))
		return;
	lines_address(local, totals->family, totals->local, totals->local_port);
	lines_address(remote, totals->family, totals->remote, totals->remote_port);
	snprintf(name, sizeof(name), totals->remote_port ? "%s - %s" : "%s", local, remote);
	chrome->sockets++;
	for (const char *phase = "be"; *phase; phase++) {
		row_begin(&chrome->rows, *phase, ROWS_SOCKET, 0, name, "socket");
		row_time(&chrome->rows, *phase == 'b' ? start_ns : end_ns);
		row_id(&chrome->rows, chrome->sockets);
		if (*phase == 'b') {
			row_number(&chrome->rows, "sent bytes", totals->sent_bytes);
			row_number(&chrome->rows, "received bytes", totals->received_bytes);
			row_number(&chrome->rows, "retransmits", totals->retransmits);
			note_process(chrome, "Erlang port", totals->erlang_port, end_ns);
			note_process(chrome, "owner", totals->owner, end_ns);
		}
		row_end(&chrome->rows);
	}
}

/* ---- The whole ---- */

static void begin_write(struct chrome *chrome)
{
	rows_begin(&chrome->rows);
	for (int group = ROWS_CPUS; group <= ROWS_LOSS; group++) {
		meta_write(chrome, "process_name", (enum chrome_group)group, 0, group_names[group]);
		row_begin(&chrome->rows, 'M', (uint64_t)group, 0, "process_sort_index", NULL);
		row_number(&chrome->rows, "sort_index", (uint64_t)group);
		row_end(&chrome->rows);
	}
	row_name(chrome, ROWS_SOCKET, 0, "sockets");
}

static int chrome_feed(struct chrome *chrome, struct timeline *timeline)
{
	struct event event;
	int error;

	while ((error = trace_next(chrome->trace, &event)) > 0) {
		if (event.ts_ns > chrome->end_ns)
			chrome->end_ns = event.ts_ns;
		error = timeline_feed(timeline, &event);
		if (!error)
			error = chrome->error ? chrome->error : chrome->rows.error;
		if (error)
			return error;
	}
	return error < 0 ? error : timeline_finish(timeline);
}

int chrome_write(struct trace *trace, FILE *out, uint64_t from_ns, uint64_t to_ns)
{
	struct chrome chrome = {
		.trace = trace,
		.rows = {.out = out},
		.from_ns = from_ns,
		.to_ns = to_ns,
		.end_ns = trace_end_ns(trace),
	};
	const struct timeline_sink sink = {
		.context = &chrome,
		.thread = sink_thread,
		.run = sink_run,
		.call = sink_call,
		.gc = sink_gc,
		.message = sink_message,
		.queue = sink_queue,
		.instant = sink_instant,
		.stall = sink_stall,
		.loss = sink_loss,
		.socket = sink_socket,
	};
	struct timeline *timeline;
	struct named_row *row, *next;
	int error;

	trace_rewind(trace);
	timeline = timeline_new(trace, &sink, MIN_STALL_NS);
	if (!timeline)
		return -errno;
	begin_write(&chrome);
	error = chrome_feed(&chrome, timeline);
	rows_end(&chrome.rows);
	if (!error)
		error = chrome.error ? chrome.error : chrome.rows.error;
	if (!error && fflush(out))
		error = -errno;
	HASH_ITER (hh, chrome.named, row, next) {
		HASH_DEL(chrome.named, row);
		free(row);
	}
	timeline_free(timeline);
	return error;
}
