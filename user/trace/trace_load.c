/* SPDX-License-Identifier: Apache-2.0 */
/* From the chunks of a file to what a trace knows before its first event. */
#include "trace_private.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define DICT_MAX_BYTES (256u << 20)
#define TASKS_MAX      (1u << 20)

struct load {
	struct trace *trace;
	uint8_t *payload; /* of the chunk at hand */
	uint8_t *dict;
	uint64_t dict_bytes;
	uint32_t ring_count; /* highest ring of a chunk + 1 */
	uint32_t cpu_count;
};

/* ---- Small chunks ---- */

static int meta_load(struct trace *trace, const void *payload, uint32_t bytes)
{
	json_t *meta = json_loadb(payload, bytes, 0, NULL);

	if (!json_is_object(meta)) {
		json_decref(meta);
		return 0;
	}
	json_decref(trace->meta);
	trace->meta = meta;
	return 0;
}

static int clock_load(struct trace *trace, const void *payload, uint32_t bytes)
{
	struct chunk_clock *clocks;

	if (bytes < sizeof(*clocks))
		return 0;
	clocks = realloc(trace->clocks, (trace->clock_count + 1) * sizeof(*clocks));
	if (!clocks)
		return -ENOMEM;
	trace->clocks = clocks;
	memcpy(&clocks[trace->clock_count++], payload, sizeof(*clocks));
	return 0;
}

static int tasks_load(struct trace *trace, const uint8_t *payload, uint32_t bytes)
{
	size_t count = bytes / sizeof(struct chunk_task);
	struct chunk_task *tasks;

	if (!count || trace->task_count + count > TASKS_MAX)
		return 0;
	tasks = realloc(trace->tasks, (trace->task_count + count) * sizeof(*tasks));
	if (!tasks)
		return -ENOMEM;
	trace->tasks = tasks;
	memcpy(tasks + trace->task_count, payload, count * sizeof(*tasks));
	for (size_t i = trace->task_count; i < trace->task_count + count; i++)
		tasks[i].comm[sizeof(tasks[i].comm) - 1] = 0;
	trace->task_count += count;
	return 0;
}

/* Entries may lie across the chunks: they are put together before they are read. */
static int dict_make(struct load *load)
{
	const struct file_reader *file = &load->trace->file;

	for (size_t i = 0; i < file->count; i++) {
		struct chunk_dict head;
		uint64_t bytes;

		if (file->chunks[i].header.type != CHUNK_DICT ||
		    file_peek(file, &file->chunks[i], &head, sizeof(head)))
			continue;
		bytes = file->chunks[i].header.bytes - sizeof(head);
		if (head.offset <= DICT_MAX_BYTES - bytes && head.offset + bytes > load->dict_bytes)
			load->dict_bytes = head.offset + bytes;
	}
	load->dict = calloc(1, load->dict_bytes + 1);
	return load->dict ? 0 : -ENOMEM;
}

static void dict_load(struct load *load, const uint8_t *payload, uint32_t bytes)
{
	struct chunk_dict head;

	if (bytes < sizeof(head))
		return;
	memcpy(&head, payload, sizeof(head));
	bytes -= sizeof(head);
	if (head.offset % RING_DICT_SLOT || head.offset > load->dict_bytes ||
	    bytes > load->dict_bytes - head.offset)
		return;
	memcpy(load->dict + head.offset, payload + sizeof(head), bytes);
}

/*
 * A pid or port in a trace message is its number and serial, which is all that is known there; the
 * VM's own words of up to OTP 25 have it in their low half, and another index above it.
 */
static bool low_words(const struct trace *trace)
{
	return trace->vm_known && trace->vm.port && trace->vm.otp_release <= 25;
}

static void words_lower(struct ring_dict_entry *entry)
{
	uint8_t *payload = (uint8_t *)(entry + 1);
	uint64_t word;
	size_t at = entry->type == RING_DICT_PORT ? offsetof(struct ring_dict_port, owner) : 0;

	switch (entry->type) {
	case RING_DICT_PORT:
	case RING_DICT_PARENT:
		if (entry->bytes >= at + sizeof(word)) {
			memcpy(&word, payload + at, sizeof(word));
			word = (uint32_t)word;
			memcpy(payload + at, &word, sizeof(word));
		}
		entry->key = (uint32_t)entry->key;
		break;
	case RING_DICT_NAME:
	case RING_DICT_INITIAL:
	case RING_DICT_OWN:
		entry->key = (uint32_t)entry->key;
		break;
	}
}

static int dict_walk(struct load *load)
{
	const struct ring_dict_entry *entry;
	uint64_t position = 0;
	int error = 0;

	while (!error && ring_dict_next(load->dict, load->dict_bytes, &position, &entry)) {
		/* It stands in our own copy, and was checked just now. */
		if (low_words(load->trace))
			words_lower((struct ring_dict_entry *)entry);
		error = entry->type == RING_DICT_CLOCK ? trace_clock_add(load->trace, entry)
						       : names_add(load->trace->names, entry);
	}
	return error;
}

static void vm_info_load(struct trace *trace, const void *payload, uint32_t bytes)
{
	if (bytes < sizeof(trace->vm))
		return;
	memcpy(&trace->vm, payload, sizeof(trace->vm));
	trace->vm_known = true;
}

static int counts_load(struct trace *trace, const struct chunk *chunk, const void *payload)
{
	uint32_t cpu = chunk->header.stream;

	if (chunk->header.bytes < sizeof(struct probe_counts) || cpu >= DECODE_CPUS_MAX)
		return 0;
	if (cpu >= trace->kernel_counts_count) {
		struct probe_counts *counts =
			realloc(trace->kernel_counts, (cpu + 1) * sizeof(*counts));

		if (!counts)
			return -ENOMEM;
		memset(counts + trace->kernel_counts_count, 0,
		       (cpu + 1 - trace->kernel_counts_count) * sizeof(*counts));
		trace->kernel_counts = counts;
		trace->kernel_counts_count = cpu + 1;
	}
	memcpy(&trace->kernel_counts[cpu], payload, sizeof(struct probe_counts));
	return 0;
}

/* Chunks of rings are only looked at here; they are read when their turn comes. */
static void stream_note(struct load *load, const struct chunk *chunk)
{
	uint32_t stream = chunk->header.stream;

	if (chunk->header.type == CHUNK_VM && stream < DECODE_THREADS_MAX) {
		if (stream >= load->ring_count)
			load->ring_count = stream + 1;
	} else if (chunk->header.type == CHUNK_KERNEL && stream < DECODE_CPUS_MAX) {
		if (stream >= load->cpu_count)
			load->cpu_count = stream + 1;
	} else {
		load->trace->file.damage.damaged_chunks++;
	}
}

static int chunk_load(struct load *load, size_t index)
{
	struct trace *trace = load->trace;
	const struct chunk *chunk = &trace->file.chunks[index];
	uint32_t bytes = chunk->header.bytes;

	switch (chunk->header.type) {
	case CHUNK_VM:
	case CHUNK_KERNEL:
		stream_note(load, chunk);
		return 0;
	case CHUNK_SAMPLE:
	case CHUNK_TRC:
	case CHUNK_END:
		return 0;
	case CHUNK_THREADS:
		trace->entries_chunk = index;
		return 0;
	}
	if (file_read(&trace->file, chunk, load->payload)) {
		trace->file.damage.damaged_chunks++;
		return 0;
	}
	switch (chunk->header.type) {
	case CHUNK_META:
		return meta_load(trace, load->payload, bytes);
	case CHUNK_DICT:
		dict_load(load, load->payload, bytes);
		return 0;
	case CHUNK_COUNTS:
		return counts_load(trace, chunk, load->payload);
	case CHUNK_CLOCK:
		return clock_load(trace, load->payload, bytes);
	case CHUNK_TASKS:
		return tasks_load(trace, load->payload, bytes);
	case CHUNK_VM_INFO:
		vm_info_load(trace, load->payload, bytes);
		return 0;
	default:
		return 0; /* of a newer version */
	}
}

/* ---- Rings and CPUs ---- */

/* The entries of the newest THREADS chunk. */
static int entries_load(struct load *load)
{
	struct trace *trace = load->trace;
	const struct chunk *chunk;
	size_t count;

	if (trace->entries_chunk == SIZE_MAX)
		return 0;
	chunk = &trace->file.chunks[trace->entries_chunk];
	if (chunk->header.bytes < sizeof(trace->entries_head) ||
	    file_read(&trace->file, chunk, load->payload)) {
		trace->entries_chunk = SIZE_MAX;
		return 0;
	}
	memcpy(&trace->entries_head, load->payload, sizeof(trace->entries_head));
	count = (chunk->header.bytes - sizeof(trace->entries_head)) / sizeof(struct ring_thread);
	if (count > trace->entries_head.count)
		count = trace->entries_head.count;
	if (count > DECODE_THREADS_MAX)
		count = DECODE_THREADS_MAX;
	if (trace->entries_head.kinds != RING_KINDS)
		count = 0;
	trace->entries =
		aligned_alloc(_Alignof(struct ring_thread), (count + 1) * sizeof(*trace->entries));
	if (!trace->entries)
		return -ENOMEM;
	memcpy(trace->entries, load->payload + sizeof(trace->entries_head),
	       count * sizeof(*trace->entries));
	trace->entry_count = count;
	while (count && !trace->entries[count - 1].tid)
		count--;
	if (count > load->ring_count)
		load->ring_count = (uint32_t)count;
	return 0;
}

int32_t trace_tid(const struct trace *trace, uint32_t ns_tid)
{
	bool same = true;

	for (size_t i = 0; i < trace->task_count; i++) {
		if ((uint32_t)trace->tasks[i].ns_tid == ns_tid)
			return trace->tasks[i].tid;
		same = same && trace->tasks[i].ns_tid == trace->tasks[i].tid;
	}
	return same ? (int32_t)ns_tid : 0;
}

static void thread_make(struct trace *trace, uint32_t ring, bool overwrite)
{
	struct vm_decoder *decoder = &trace->decoders[ring];
	struct trace_thread *thread = &trace->threads[ring];

	thread->ring = ring;
	if (ring < trace->entry_count) {
		const struct ring_thread *entry = &trace->entries[ring];

		thread->role = entry->role;
		thread->number = entry->number;
		thread->tid = entry->tid ? trace_tid(trace, entry->tid) : 0;
	}
	decoder->file = &trace->file;
	decoder->ring = ring;
	decoder->tid = thread->tid;
	decoder->overwrite = overwrite;
	decoder->origin_ns = trace->clock_count ? trace->clocks[0].monotonic_ns
						: trace->file.header.created_ns;
}

static int decoders_make(struct load *load)
{
	struct trace *trace = load->trace;
	const json_t *options = json_object_get(trace->meta, "options");
	const char *mode = json_string_value(json_object_get(options, "mode"));
	bool overwrite = mode && !strcmp(mode, "overwrite");

	trace->threads = calloc(load->ring_count + 1, sizeof(*trace->threads));
	trace->decoders = calloc(load->ring_count + 1, sizeof(*trace->decoders));
	trace->cpus = calloc(load->cpu_count + 1, sizeof(*trace->cpus));
	if (!trace->threads || !trace->decoders || !trace->cpus)
		return -ENOMEM;
	trace->thread_count = load->ring_count;
	trace->cpu_count = load->cpu_count;
	for (uint32_t ring = 0; ring < load->ring_count; ring++)
		thread_make(trace, ring, overwrite);
	for (uint32_t cpu = 0; cpu < load->cpu_count; cpu++) {
		trace->cpus[cpu].file = &trace->file;
		trace->cpus[cpu].cpu = cpu;
		trace->cpus[cpu].low_words = low_words(trace);
	}
	return 0;
}

static int decoders_fill(struct load *load)
{
	struct trace *trace = load->trace;
	int error = 0;

	for (size_t i = 0; i < trace->file.count && !error; i++) {
		const struct chunk *chunk = &trace->file.chunks[i];
		uint32_t stream = chunk->header.stream;
		struct chunk_vm head;

		if (chunk->header.type == CHUNK_KERNEL && stream < load->cpu_count) {
			error = kernel_decoder_add(&trace->cpus[stream], (uint32_t)i);
		} else if (chunk->header.type == CHUNK_VM && stream < load->ring_count) {
			if (file_peek(&trace->file, chunk, &head, sizeof(head)))
				trace->file.damage.damaged_chunks++;
			else
				error = vm_decoder_add(&trace->decoders[stream], (uint32_t)i,
						       &head);
		}
	}
	for (size_t ring = 0; ring < trace->thread_count; ring++)
		vm_decoder_sort(&trace->decoders[ring]);
	return error;
}

static int clock_compare(const void *left, const void *right)
{
	const struct chunk_clock *a = left, *b = right;

	return a->monotonic_ns < b->monotonic_ns ? -1 : a->monotonic_ns > b->monotonic_ns;
}

int trace_load(struct trace *trace, const char *path)
{
	struct load load = {.trace = trace};
	uint32_t largest = 0;
	int error;

	trace->entries_chunk = SIZE_MAX;
	for (size_t i = 0; i < trace->file.count; i++) {
		if (trace->file.chunks[i].header.bytes > largest)
			largest = trace->file.chunks[i].header.bytes;
	}
	trace->names = names_new();
	load.payload = malloc((size_t)largest + 1);
	error = trace->names && load.payload ? dict_make(&load) : -ENOMEM;
	for (size_t i = 0; i < trace->file.count && !error; i++)
		error = chunk_load(&load, i);
	if (!error)
		error = dict_walk(&load);
	if (!error && trace->clock_count)
		qsort(trace->clocks, trace->clock_count, sizeof(*trace->clocks), clock_compare);
	if (!error && !trace->meta)
		error = (trace->meta = json_object()) ? 0 : -ENOMEM;
	if (!error && trace->file.trc)
		error = trace_terms_meta(trace);
	if (!error)
		error = entries_load(&load);
	if (!error)
		error = decoders_make(&load);
	if (!error)
		error = decoders_fill(&load);
	if (!error)
		error = trace_terms_load(trace, path);
	free(load.payload);
	free(load.dict);
	return error;
}
