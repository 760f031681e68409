/* SPDX-License-Identifier: Apache-2.0 */
#include "chrome.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "chrome_track.h"
#include "lines.h"
#include "perfetto_erlang.h"
#include "timeline.h"

/* Rows of kernel rings stand behind those of the VM's. */
#define LOSS_KERNEL_ROWS 1000000u

#define MIN_STALL_NS 100000u

static bool chrome_wants(const struct chrome *chrome, uint64_t start_ns, uint64_t end_ns)
{
	return end_ns >= chrome->from_ns && start_ns <= chrome->to_ns;
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
		row_slice(&chrome->rows, ROWS_CPUS, track_cpu(chrome, interval->cpu), "cpu",
			  track_thread_label(chrome, interval->tid, label, sizeof(label)),
			  interval->start_ns, interval->end_ns);
		row_end(&chrome->rows);
	}
	/* A sleep is what is left blank. */
	if (interval->state == THREAD_SLEEPING)
		return;
	row_slice(&chrome->rows, ROWS_THREADS, track_thread(chrome, ROWS_THREADS, interval->tid),
		  "state", states[interval->state], interval->start_ns, interval->end_ns);
	if (interval->state == THREAD_RUNNABLE)
		row_flag(&chrome->rows, "preempted", interval->preempted);
	note_open(chrome, interval->open);
	row_end(&chrome->rows);
}

static void sink_run(void *context, const struct run_interval *run)
{
	struct chrome *chrome = context;
	char label[CHROME_LABEL];
	uint64_t row;

	if (!chrome_wants(chrome, run->start_ns, run->end_ns))
		return;
	row = track_process(chrome, run->process, run->start_ns);
	row_slice(&chrome->rows, track_word_group(chrome, run->process), row, "run",
		  track_thread_label(chrome, run->tid, label, sizeof(label)), run->start_ns,
		  run->end_ns);
	note_mfa(chrome, "in", run->mfa_in);
	note_mfa(chrome, "out", run->mfa_out);
	if (run->exiting)
		row_flag(&chrome->rows, "exiting", true);
	note_open(chrome, run->open);
	row_end(&chrome->rows);
	perfetto_process_label(chrome->trace, run->process, run->start_ns, label, sizeof(label));
	row = track_thread(chrome, ROWS_SCHEDULERS, run->tid);
	row_slice(&chrome->rows, ROWS_SCHEDULERS, row, "process", label, run->start_ns,
		  run->end_ns);
	row_end(&chrome->rows);
}

static void sink_call(void *context, const struct call_interval *call)
{
	struct chrome *chrome = context;
	uint64_t row;

	if (!chrome_wants(chrome, call->start_ns, call->end_ns))
		return;
	row = track_process(chrome, call->process, call->start_ns) + 1;
	row_slice(&chrome->rows, ROWS_ERLANG, row, "call", trace_mfa(chrome->trace, call->mfa),
		  call->start_ns, call->end_ns);
	row_text(&chrome->rows, "end", call_end_text(call->how));
	if (!call->certain)
		row_flag(&chrome->rows, "certain", false);
	if (call->gc_ns)
		row_number(&chrome->rows, "gc_ns", call->gc_ns);
	note_mfa(chrome, "caller", call->caller);
	note_arguments(chrome, call->arguments);
	note_term(chrome, "result", call->result);
	row_end(&chrome->rows);
}

static void sink_gc(void *context, const struct gc_interval *gc)
{
	struct chrome *chrome = context;
	uint64_t row;

	if (!chrome_wants(chrome, gc->start_ns, gc->end_ns))
		return;
	row = track_process(chrome, gc->process, gc->start_ns) + 1;
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
	char shape[CHROME_LABEL];
	struct text_builder text;

	text_begin(&text, shape, sizeof(shape));
	lines_shape(chrome->trace, &message->shape, &text);
	text_finish(&text);
	row_instant(&chrome->rows, track_word_group(chrome, self),
		    track_process(chrome, self, ts_ns), sent ? "send" : "receive", shape, ts_ns);
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

	row_begin(&chrome->rows, phase, track_word_group(chrome, self),
		  track_process(chrome, self, ts_ns), "message", "message");
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
	char line[CHROME_LABEL];
	bool vm = event->kind < EVENT_KERNEL;

	if ((vm && !event->process) || !chrome_wants(chrome, event->ts_ns, event->ts_ns))
		return;
	if (event->kind == RING_REGISTER)
		track_rename(chrome, event->process, event->ts_ns);
	row_instant(&chrome->rows, vm ? track_word_group(chrome, event->process) : ROWS_SOCKET,
		    vm ? track_process(chrome, event->process, event->ts_ns) : 0, "instant",
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
	row_slice(&chrome->rows, ROWS_STALLS, track_thread(chrome, ROWS_STALLS, stall->tid),
		  "stall", stall_cause_name(stall->cause), stall->start_ns, stall->end_ns);
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
	track_find(chrome, ROWS_LOSS, row, &is_new);
	snprintf(name, sizeof(name), "%s %" PRIu32, loss->kernel ? "CPU" : "ring", loss->ring);
	if (is_new)
		track_name(chrome, ROWS_LOSS, row, name);
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
	for (int group = ROWS_CPUS; group <= ROWS_LOSS; group++)
		track_group(chrome, (enum chrome_group)group);
	track_name(chrome, ROWS_SOCKET, 0, "sockets");
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
	tracks_free(&chrome);
	timeline_free(timeline);
	return error;
}
