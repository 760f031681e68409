/* SPDX-License-Identifier: Apache-2.0 */
/* Trace messages in a trace: of a trace port's ring, of a stream in chunks, or a file of their own. */
#include "trace_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DROPPED "dropped by the trace port"

/* ---- Set-up ---- */

static int clock_compare(const void *left, const void *right)
{
	const struct ring_dict_clock *a = left, *b = right;

	return a->clock_ns < b->clock_ns ? -1 : a->clock_ns > b->clock_ns;
}

int trace_clock_add(struct trace *trace, const struct ring_dict_entry *entry)
{
	struct ring_dict_clock clock, *clocks;

	if (entry->bytes < sizeof(clock))
		return 0;
	memcpy(&clock, entry + 1, sizeof(clock));
	/* What the arithmetic of times does not stand is no clock. */
	if (!clock.per_second || clock.per_second > 1000000000000ull || clock.clock_ns > INT64_MAX)
		return 0;
	clocks = realloc(trace->vm_clocks, (trace->vm_clock_count + 1) * sizeof(*clocks));
	if (!clocks)
		return -ENOMEM;
	trace->vm_clocks = clocks;
	clocks[trace->vm_clock_count++] = clock;
	return 0;
}

/* Pids of a VM that nobody looked at: number and serial as they are printed. */
static void vm_plain(struct ring_vm *vm)
{
	memset(vm, 0, sizeof(*vm));
	vm->otp_release = 25;
	memset(vm->pid_bit, 0xff, sizeof(vm->pid_bit));
	for (uint8_t bit = 0; bit < 28; bit++)
		vm->pid_bit[4 + bit] = bit;
	for (uint8_t bit = 0; bit < 32; bit++)
		vm->pid_bit[32 + bit] = 32 + bit;
}

static int chunks_add(struct trace *trace)
{
	int error = 0;

	for (size_t i = 0; i < trace->file.count && !error; i++) {
		const struct chunk *chunk = &trace->file.chunks[i];
		struct chunk_trc head;

		if (chunk->header.type != CHUNK_TRC)
			continue;
		if (file_peek(&trace->file, chunk, &head, sizeof(head)))
			trace->file.damage.damaged_chunks++;
		else
			error = trc_add_chunk(&trace->trc, (uint32_t)i, head.offset,
					      head.received_ns);
	}
	return error;
}

static int note_add(struct trace *trace, const char *note)
{
	_Alignas(8) uint8_t buffer[sizeof(struct ring_dict_entry) + 8 + 1024];
	struct ring_dict_entry *entry = (struct ring_dict_entry *)buffer;
	size_t bytes = strlen(note) < 1024 ? strlen(note) : 1024;

	memset(buffer, 0, sizeof(buffer));
	entry->type = RING_DICT_NOTE;
	entry->bytes = (uint16_t)(8 + bytes);
	memcpy(buffer + sizeof(*entry) + 8, note, bytes);
	return names_add(trace->names, entry);
}

/* What came through a pipe, or by a descriptor's name, has no neighbours. */
static bool path_is_file(const struct trace *trace, const char *path)
{
	struct stat named, opened;

	return !lstat(path, &named) && S_ISREG(named.st_mode) && !fstat(trace->file.fd, &opened) &&
	       named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

static int set_add(struct trace *trace, const char *path)
{
	int fd = dup(trace->file.fd), error;
	char *note = NULL;

	if (fd < 0)
		return -errno;
	error = path_is_file(trace, path) ? trc_add_set(&trace->trc, path, fd, &note)
					  : trc_add_file(&trace->trc, fd);
	if (!error && note)
		error = note_add(trace, note);
	free(note);
	return error;
}

static int source_next(void *context, struct event *event)
{
	struct trace *trace = context;
	struct trc_frame frame;
	int what;

	do
		what = trc_next(&trace->trc, &frame);
	while (what > 0 && what != TRC_MESSAGE);
	if (what <= 0)
		return what;
	memset(event, 0, sizeof(*event));
	event->ts_ns = frame.received_ns;
	event->kind = trace->trc.term->h.kind;
	event->cpu = -1;
	event->ring = (uint32_t)trace->thread_count;
	event->flags = trace->trc.term->h.flags;
	event->term = trace->trc.term;
	event->etf.data = "";
	return 1;
}

static int rings_next(void *context, struct event *event)
{
	return merge_next(context, event);
}

int trace_terms_load(struct trace *trace, const char *path)
{
	const char *tracer = json_string_value(json_object_get(trace->meta, "tracer"));
	const struct ring_vm *vm = trace->vm_known ? &trace->vm : NULL;
	struct terms terms = {.names = trace->names};
	int error;

	trace->trc.file = &trace->file;
	error = trace->file.trc ? set_add(trace, path) : chunks_add(trace);
	if (!error && trace->trc.count)
		error = trc_begin(&trace->trc);
	if (error)
		return error;
	if (trace->vm_clock_count)
		qsort(trace->vm_clocks, trace->vm_clock_count, sizeof(*trace->vm_clocks),
		      clock_compare);
	if (trace->file.trc || (trace->trc.count && !trace->vm_known)) {
		vm_plain(&trace->vm);
		vm = &trace->vm;
	}
	names_set_vm(trace->names, vm);
	names_set_ports_plain(trace->names,
			      trace->trc.count || (tracer && !strcmp(tracer, "port")));
	terms.vm = vm;
	terms.clock = (struct terms_clock){.samples = trace->vm_clocks,
					   .count = trace->vm_clock_count,
					   .file = trace->file.trc};
	trace->ring_terms = terms;
	trace->ring_terms.next = rings_next;
	trace->ring_terms.context = &trace->rings;
	trace->trc_terms = terms;
	trace->trc_terms.next = source_next;
	trace->trc_terms.context = trace;
	return 0;
}

void trace_terms_rewind(struct trace *trace)
{
	trc_rewind(&trace->trc);
	terms_rewind(&trace->ring_terms);
	terms_rewind(&trace->trc_terms);
	merge_rewind(&trace->rings);
}

void trace_terms_free(struct trace *trace)
{
	trc_free(&trace->trc);
	terms_free(&trace->ring_terms);
	terms_free(&trace->trc_terms);
	merge_free(&trace->rings);
	free(trace->vm_clocks);
}

bool trace_by_message(const struct trace *trace)
{
	return trace->rings_have_terms || trace->trc.count;
}

bool trace_dateless(const struct trace *trace)
{
	return trace->file.trc && !trace->times[MESSAGE_SYSTEM];
}

/* ---- The first reading ---- */

int trace_term_learn(struct trace *trace, const struct terms *terms, struct event *event)
{
	union message_record record;
	int error = 0;

	if (event->flags & RING_F_TERM)
		error = terms_decode(terms, &record, event);
	if (error)
		return 0; /* it was looked at before it was given */
	if (names_own(trace->names, event->process))
		trace->own[event->kind]++;
	return names_learn(trace->names, event);
}

/* What is missing in the stream, from the event before it to the one behind it. */
struct stream_gap {
	uint64_t dropped, damaged;
	uint64_t from_ns;
};

static int gap_close(struct trace *trace, struct stream_gap *gap, uint64_t to_ns)
{
	struct loss loss = {.ring = (uint32_t)trace->thread_count, .to_ns = to_ns};
	int error = 0;

	loss.from_ns = gap->from_ns && gap->from_ns < to_ns ? gap->from_ns : to_ns;
	if (gap->dropped) {
		loss.why = DROPPED;
		loss.count = loss.counts[RING_UNKNOWN] = gap->dropped;
		error = trace_loss_add(trace, &loss);
	}
	if (!error && gap->damaged) {
		loss.why = "damaged";
		loss.count = loss.counts[RING_UNKNOWN] = gap->damaged;
		error = trace_loss_add(trace, &loss);
	}
	gap->dropped = 0;
	gap->damaged = 0;
	return error;
}

static int message_account(struct trace *trace, struct trc_frame *frame, uint64_t *newest_ns)
{
	struct trace_thread *thread = &trace->threads[trace->thread_count];
	struct terms *terms = &trace->trc_terms;
	struct message_bytes bytes = terms_message(trace->trc.term);
	struct event event = {.cpu = -1, .flags = RING_F_TERM, .term = trace->trc.term};
	struct message_time time;
	uint32_t kind;

	if (message_peek(&bytes, &kind, &time))
		return 0;
	trace->times[time.clock]++;
	thread->recorded[kind]++;
	event.ts_ns = terms_time(&terms->clock, &time, frame->received_ns);
	trace_span_widen(trace, event.ts_ns);
	if (event.ts_ns + REORDER_WINDOW_NS < *newest_ns)
		trace->file.damage.clamped_records++;
	if (event.ts_ns > *newest_ns)
		*newest_ns = event.ts_ns;
	return trace_term_learn(trace, terms, &event);
}

static void faults_add(struct trace *trace)
{
	const struct trc_faults *faults = &trace->trc.faults;

	trace->file.damage.damaged_records += faults->damaged;
	trace->file.damage.skipped_bytes += faults->skipped_bytes;
	trace->file.damage.truncated_bytes += faults->truncated_bytes;
}

/* What the user must know of a file's times. */
static int times_note(struct trace *trace)
{
	if (!trace->file.trc || trace->times[MESSAGE_SYSTEM])
		return 0;
	if (trace->times[MESSAGE_MONOTONIC])
		return note_add(trace, "the trace has the VM's monotonic time only: dates are not "
				       "known, times count from 1 s before the first event");
	return note_add(trace, "the trace has no times (they come with the trace flag "
			       "monotonic_timestamp or timestamp): events stand in their order, "
			       "1 us apart, and durations mean nothing");
}

int trace_terms_account(struct trace *trace)
{
	struct trace_thread *thread = &trace->threads[trace->thread_count];
	struct stream_gap gap = {0};
	struct trc_frame frame;
	uint64_t newest_ns = 0;
	int what = 0, error = 0;

	terms_rewind(&trace->ring_terms);
	if (!trace->trc.count)
		return 0;
	thread->ring = (uint32_t)trace->thread_count;
	thread->counted = true;
	while (!error && (what = trc_next(&trace->trc, &frame)) > 0) {
		if (what == TRC_MESSAGE) {
			uint64_t before_ns = newest_ns;

			error = message_account(trace, &frame, &newest_ns);
			if (!error && (gap.dropped || gap.damaged)) {
				gap.from_ns = before_ns;
				error = gap_close(trace, &gap, newest_ns);
			}
		} else if (what == TRC_DROPPED) {
			thread->discarded[RING_UNKNOWN] += frame.dropped;
			gap.dropped += frame.dropped;
		} else {
			thread->recorded[RING_UNKNOWN]++;
			gap.damaged++;
		}
	}
	if (what < 0)
		error = what;
	if (!error) {
		gap.from_ns = newest_ns;
		error = gap_close(trace, &gap, newest_ns);
	}
	if (!error)
		error = times_note(trace);
	faults_add(trace);
	trc_rewind(&trace->trc);
	terms_rewind(&trace->trc_terms);
	return error;
}

/* What a file of messages alone says of itself, in the words of a recording. */
int trace_terms_meta(struct trace *trace)
{
	json_t *meta = json_pack("{s:s, s:{s:b}, s:{s:[], s:[{s:s, s:s, s:s}]}}", "tracer", "trc",
				 "vm", "attached", 1, "kernel", "enabled", "missing", "probe",
				 "all", "why", "a trace file of the VM has no kernel side", "fix",
				 "beamweave record -p PID");

	if (!meta)
		return -ENOMEM;
	json_decref(trace->meta);
	trace->meta = meta;
	return 0;
}
