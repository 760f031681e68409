/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int side_next(void *context, struct event *event);

static int vm_next(void *context, struct event *event)
{
	return vm_decoder_next(context, event);
}

static int kernel_next(void *context, struct event *event)
{
	return kernel_decoder_next(context, event);
}

/* At one instant: first what stands beside the records, then the kernel, then the VM. */
static int streams_make(struct trace *trace)
{
	int error = merge_add(&trace->merge, side_next, trace);

	for (size_t i = 0; i < trace->cpu_count && !error; i++)
		error = merge_add(&trace->merge, kernel_next, &trace->cpus[i]);
	for (size_t i = 0; i < trace->thread_count && !error; i++)
		error = merge_add(trace->rings_have_terms ? &trace->rings : &trace->merge, vm_next,
				  &trace->decoders[i]);
	if (!error && trace->rings_have_terms)
		error = merge_add(&trace->merge, terms_next, &trace->ring_terms);
	if (!error && trace->trc.count)
		error = merge_add(&trace->merge, terms_next, &trace->trc_terms);
	return error;
}

struct trace *trace_open(const char *path)
{
	struct trace *trace = calloc(1, sizeof(*trace));
	int error;

	if (!trace)
		return NULL;
	error = file_open(&trace->file, path);
	if (error) {
		free(trace);
		errno = -error;
		return NULL;
	}
	error = trace_load(trace, path);
	if (!error)
		error = trace_account(trace);
	if (!error)
		error = streams_make(trace);
	if (error) {
		trace_close(trace);
		errno = -error;
		return NULL;
	}
	return trace;
}

void trace_close(struct trace *trace)
{
	if (!trace)
		return;
	merge_free(&trace->merge);
	trace_terms_free(trace);
	for (size_t i = 0; i < trace->thread_count; i++)
		vm_decoder_free(&trace->decoders[i]);
	for (size_t i = 0; i < trace->cpu_count; i++)
		kernel_decoder_free(&trace->cpus[i]);
	free(trace->decoders);
	free(trace->cpus);
	free(trace->threads);
	free(trace->entries);
	free(trace->kernel_counts);
	free(trace->losses);
	free(trace->loss_counts);
	free(trace->sides);
	free(trace->sample);
	free(trace->clocks);
	free(trace->tasks);
	json_decref(trace->meta);
	names_free(trace->names);
	file_reader_close(&trace->file);
	free(trace);
}

/* ---- Events ---- */

static void loss_event(struct trace *trace, uint32_t index, struct event *event)
{
	const struct loss_note *note = &trace->losses[index];
	struct loss *loss = &trace->loss;

	memset(loss, 0, sizeof(*loss));
	loss->kernel = note->kernel;
	loss->ring = note->ring;
	loss->from_ns = note->from_ns;
	loss->to_ns = note->to_ns;
	loss->why = note->why;
	for (uint32_t i = 0; i < note->count; i++) {
		const struct loss_counts *counts = &trace->loss_counts[note->first + i];

		loss->counts[counts->kind] = counts->count;
		loss->count += counts->count;
	}
	event->loss = loss;
	event->ring = loss->ring;
	if (loss->kernel)
		event->cpu = (int32_t)loss->ring;
	else if (loss->ring < trace->thread_count)
		event->tid = trace->threads[loss->ring].tid;
}

static void moment_event(struct trace *trace, uint32_t index, struct event *event)
{
	const struct names_moment *moments;

	names_moments(trace->names, &moments);
	event->process = moments[index].word;
	if (event->kind == EVENT_PORT)
		event->port = moments[index].port;
	else
		event->text = moments[index].text;
}

/* Returns 1, 0 when the chunk cannot be read any more, or -errno. */
static int sample_event(struct trace *trace, uint32_t index, struct event *event)
{
	const struct chunk *chunk = &trace->file.chunks[index];
	struct chunk_sample head;

	if (chunk->header.bytes < sizeof(head))
		return 0;
	if (chunk->header.bytes > trace->sample_bytes) {
		uint8_t *sample = realloc(trace->sample, chunk->header.bytes);

		if (!sample)
			return -ENOMEM;
		trace->sample = sample;
		trace->sample_bytes = chunk->header.bytes;
	}
	if (file_read(&trace->file, chunk, trace->sample))
		return 0;
	event->text.data = (const char *)trace->sample + sizeof(head);
	event->text.bytes = chunk->header.bytes - (uint32_t)sizeof(head);
	return 1;
}

static int side_next(void *context, struct event *event)
{
	struct trace *trace = context;

	while (trace->side_next < trace->side_count) {
		const struct side *side = &trace->sides[trace->side_next++];
		int found = 1;

		memset(event, 0, sizeof(*event));
		event->ts_ns = side->ts_ns;
		event->kind = side->kind;
		event->cpu = -1;
		event->etf.data = "";
		if (side->kind == EVENT_LOSS)
			loss_event(trace, side->index, event);
		else if (side->kind == EVENT_SAMPLE)
			found = sample_event(trace, side->index, event);
		else
			moment_event(trace, side->index, event);
		if (found)
			return found;
	}
	return 0;
}

int trace_next(struct trace *trace, struct event *event)
{
	for (;;) {
		int found = merge_next(&trace->merge, event);

		if (found <= 0)
			return found;
		if (event->kind >= EVENT_KERNEL || !names_own(trace->names, event->process))
			return 1;
	}
}

void trace_rewind(struct trace *trace)
{
	for (size_t i = 0; i < trace->thread_count; i++)
		vm_decoder_rewind(&trace->decoders[i]);
	/* Its memory is there since trace_open(): it cannot fail. */
	for (size_t i = 0; i < trace->cpu_count; i++)
		kernel_decoder_rewind(&trace->cpus[i]);
	trace_terms_rewind(trace);
	trace->side_next = 0;
	merge_rewind(&trace->merge);
}

/* ---- What the recording says of itself ---- */

const json_t *trace_meta(const struct trace *trace)
{
	return trace->meta;
}

bool trace_empty(const struct trace *trace)
{
	return !trace->file.count && !trace->file.trc;
}

const struct file_damage *trace_damage(const struct trace *trace)
{
	return &trace->file.damage;
}

const struct ring_vm *trace_vm(const struct trace *trace)
{
	return trace->vm_known ? &trace->vm : NULL;
}

const struct chunk_task *trace_tasks(const struct trace *trace, size_t *count)
{
	*count = trace->task_count;
	return trace->tasks;
}

size_t trace_threads(const struct trace *trace, const struct trace_thread **threads)
{
	*threads = trace->threads;
	return trace->thread_count + (trace->trc.count > 0);
}

size_t trace_kernel_counts(const struct trace *trace, const struct probe_counts **counts)
{
	*counts = trace->kernel_counts;
	return trace->kernel_counts_count;
}

uint64_t trace_own_events(const struct trace *trace, enum ring_kind kind)
{
	return (uint32_t)kind < RING_KINDS ? trace->own[kind] : 0;
}

uint64_t trace_own_all(const struct trace *trace)
{
	uint64_t all = 0;

	for (uint32_t kind = 0; kind < RING_KINDS; kind++)
		all += trace->own[kind];
	return all;
}

uint64_t trace_names_lost(const struct trace *trace)
{
	return trace->entries_head.dict_discarded;
}

const char *trace_flags(const struct trace *trace)
{
	return names_flags(trace->names);
}

size_t trace_notes(const struct trace *trace, const char *const **notes)
{
	return names_notes(trace->names, notes);
}

/* ---- Names ---- */

const char *trace_process_text(struct trace *trace, uint64_t word)
{
	return names_process(trace->names, word);
}

size_t trace_process_put(const struct trace *trace, uint64_t word, char *buffer, size_t size)
{
	return names_process_put(trace->names, word, buffer, size);
}

const char *trace_process_name(struct trace *trace, uint64_t word, uint64_t ts_ns)
{
	const char *name = names_registered(trace->names, word, ts_ns);

	return name ? name : names_initial(trace->names, word);
}

const char *trace_process_last_name(struct trace *trace, uint64_t word, uint64_t exited_ns)
{
	const char *name = names_registered_last(trace->names, word, exited_ns);

	return name ? name : names_initial(trace->names, word);
}

const char *trace_process_initial(struct trace *trace, uint64_t word)
{
	return names_initial(trace->names, word);
}

uint64_t trace_process_parent(const struct trace *trace, uint64_t word)
{
	return names_parent(trace->names, word);
}

const char *trace_mfa(struct trace *trace, uint32_t mfa)
{
	return names_mfa(trace->names, mfa);
}

const char *trace_atom(struct trace *trace, uint32_t atom)
{
	return names_atom(trace->names, atom);
}

bool trace_process_own(const struct trace *trace, uint64_t word)
{
	return names_own(trace->names, word);
}
