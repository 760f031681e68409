/* SPDX-License-Identifier: Apache-2.0 */
/* One reading of all records before the first is given: accounts, losses and names. */
#include "trace_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIDES_MAX UINT32_MAX

int trace_loss_add(struct trace *trace, const struct loss *loss)
{
	struct loss_note note = {.from_ns = loss->from_ns,
				 .to_ns = loss->to_ns,
				 .why = loss->why,
				 .ring = loss->ring,
				 .kernel = loss->kernel,
				 .first = (uint32_t)trace->loss_counts_count};

	if (trace->loss_count == trace->loss_capacity) {
		size_t capacity = trace->loss_capacity ? trace->loss_capacity * 2 : 64;
		struct loss_note *losses =
			realloc(trace->losses, capacity * sizeof(*trace->losses));

		if (!losses)
			return -ENOMEM;
		trace->losses = losses;
		trace->loss_capacity = capacity;
	}
	if (trace->loss_counts_capacity - trace->loss_counts_count < RING_KINDS) {
		size_t capacity = trace->loss_counts_capacity * 2 + 4 * RING_KINDS;
		struct loss_counts *counts =
			realloc(trace->loss_counts, capacity * sizeof(*trace->loss_counts));

		if (!counts)
			return -ENOMEM;
		trace->loss_counts = counts;
		trace->loss_counts_capacity = capacity;
	}
	for (uint32_t kind = 0; kind < RING_KINDS; kind++) {
		if (!loss->counts[kind])
			continue;
		trace->loss_counts[trace->loss_counts_count++] =
			(struct loss_counts){kind, loss->counts[kind]};
		note.count++;
	}
	trace->losses[trace->loss_count++] = note;
	return 0;
}

static int loss_add(void *context, const struct loss *loss)
{
	return trace_loss_add(context, loss);
}

static void faults_add(struct file_damage *damage, const struct decode_faults *faults)
{
	damage->damaged_records += faults->damaged_records;
	damage->unknown_records += faults->unknown_records;
	damage->clamped_records += faults->clamped_records;
}

void trace_span_widen(struct trace *trace, uint64_t ts_ns)
{
	if (ts_ns < trace->first_ns)
		trace->first_ns = ts_ns;
	if (ts_ns > trace->last_ns)
		trace->last_ns = ts_ns;
}

/* ---- The VM's threads ---- */

/* Does the newest entry of this ring count everything that the ring ever held? */
static bool entry_final(const struct trace *trace, uint32_t ring)
{
	const struct vm_decoder *decoder = &trace->decoders[ring];

	if (ring >= trace->entry_count)
		return false;
	for (size_t i = 0; i < decoder->count; i++) {
		if (decoder->pieces[i].chunk > trace->entries_chunk)
			return false;
	}
	return true;
}

static void thread_count(struct trace_thread *thread, const struct vm_decoder *decoder)
{
	for (uint32_t kind = 0; kind < RING_KINDS; kind++) {
		thread->recorded[kind] = decoder->accounted[kind] - decoder->before[kind];
		thread->discarded[kind] =
			decoder->discarded[kind] - decoder->discarded_before[kind];
	}
}

/* The message's own time, without the order that the reorder window will bring. */
static void term_time(struct trace *trace, struct event *event)
{
	struct message_bytes bytes = terms_message(event->term);
	struct message_time time;
	uint32_t kind;

	trace->rings_have_terms = true;
	if (!message_peek(&bytes, &kind, &time))
		event->ts_ns = terms_time(&trace->ring_terms.clock, &time, event->ts_ns);
}

static int ring_account(struct trace *trace, uint32_t ring)
{
	struct vm_decoder *decoder = &trace->decoders[ring];
	struct event event;
	int found, error = 0;

	vm_decoder_rewind(decoder);
	decoder->loss_fn = loss_add;
	decoder->loss_context = trace;
	while ((found = vm_decoder_next(decoder, &event)) > 0) {
		if (event.flags & RING_F_TERM)
			term_time(trace, &event);
		trace_span_widen(trace, event.ts_ns);
		error = trace_term_learn(trace, &trace->ring_terms, &event);
		if (error)
			return error;
	}
	if (found < 0)
		return found;
	trace->threads[ring].counted = entry_final(trace, ring);
	if (trace->threads[ring].counted)
		error = vm_decoder_close(decoder, &trace->entries[ring],
					 trace->entries_head.taken_ns);
	thread_count(&trace->threads[ring], decoder);
	faults_add(&trace->file.damage, &decoder->faults);
	decoder->loss_fn = NULL;
	vm_decoder_rewind(decoder);
	return error;
}

/* Events of threads for which the VM's table had no room: their kinds are not known. */
static int unclaimed_account(struct trace *trace)
{
	struct loss loss = {.ring = LOSS_UNCLAIMED, .why = "discarded"};

	loss.count = trace->entries_head.unclaimed_discarded;
	loss.counts[RING_UNKNOWN] = loss.count;
	loss.to_ns = trace->entries_head.taken_ns;
	loss.from_ns = trace->clock_count ? trace->clocks[0].monotonic_ns : loss.to_ns;
	if (loss.from_ns > loss.to_ns)
		loss.from_ns = loss.to_ns;
	return loss.count ? trace_loss_add(trace, &loss) : 0;
}

/* ---- The kernel's CPUs ---- */

/* What one COUNTS chunk says beyond the one before it. */
static int counts_account(struct trace *trace, uint32_t cpu, const struct probe_counts *counts,
			  const struct probe_counts *before)
{
	struct loss loss = {.kernel = true, .ring = cpu, .why = "discarded"};

	for (uint32_t kind = 0; kind < PROBE_KINDS; kind++) {
		if (counts->discarded[kind] <= before->discarded[kind])
			continue;
		loss.counts[kind] = counts->discarded[kind] - before->discarded[kind];
		loss.count += loss.counts[kind];
	}
	loss.from_ns = counts->loss_first_ns > before->loss_last_ns ? counts->loss_first_ns
								    : before->loss_last_ns;
	loss.to_ns = counts->loss_last_ns > loss.from_ns ? counts->loss_last_ns : loss.from_ns;
	return loss.count ? trace_loss_add(trace, &loss) : 0;
}

/* All COUNTS chunks of a CPU, in file order. *last: where the newest stands; SIZE_MAX: nowhere. */
static int discarded_account(struct trace *trace, uint32_t cpu, size_t *last)
{
	struct probe_counts before = {0}, counts;
	int error = 0;

	*last = SIZE_MAX;
	for (size_t i = 0; i < trace->file.count && !error; i++) {
		const struct chunk *chunk = &trace->file.chunks[i];
		uint8_t payload[4096];

		if (chunk->header.type != CHUNK_COUNTS || chunk->header.stream != cpu ||
		    chunk->header.bytes < sizeof(counts) || chunk->header.bytes > sizeof(payload) ||
		    file_read(&trace->file, chunk, payload))
			continue;
		memcpy(&counts, payload, sizeof(counts));
		error = counts_account(trace, cpu, &counts, &before);
		before = counts;
		*last = i;
	}
	return error;
}

/* Records that the kernel stored and the file has not. */
static int damaged_account(struct trace *trace, const struct kernel_decoder *decoder)
{
	const struct probe_counts *counts = &trace->kernel_counts[decoder->cpu];
	struct loss loss = {.kernel = true, .ring = decoder->cpu, .why = "damaged"};

	for (uint32_t kind = 0; kind < PROBE_KINDS; kind++) {
		uint64_t stored = counts->generated[kind] > counts->discarded[kind]
					  ? counts->generated[kind] - counts->discarded[kind]
					  : 0;

		if (stored <= decoder->decoded[kind])
			continue;
		loss.counts[kind] = stored - decoder->decoded[kind];
		loss.count += loss.counts[kind];
	}
	if (!loss.count)
		return 0;
	loss.from_ns = decoder->gap ? decoder->gap_from_ns : decoder->newest_ns;
	loss.to_ns = decoder->gap && !decoder->gap_open ? decoder->gap_to_ns : trace_end_ns(trace);
	if (!loss.from_ns)
		loss.from_ns = trace_start_ns(trace);
	if (loss.to_ns < loss.from_ns)
		loss.to_ns = loss.from_ns;
	return trace_loss_add(trace, &loss);
}

static int cpu_read(struct trace *trace, struct kernel_decoder *decoder)
{
	struct event event;
	int found = kernel_decoder_rewind(decoder);

	if (found)
		return found;
	while ((found = kernel_decoder_next(decoder, &event)) > 0)
		trace_span_widen(trace, event.ts_ns);
	faults_add(&trace->file.damage, &decoder->faults);
	return found;
}

static int cpu_account(struct trace *trace, uint32_t cpu)
{
	struct kernel_decoder none = {.cpu = cpu}, *decoder;
	size_t last;
	int error = 0;

	decoder = cpu < trace->cpu_count ? &trace->cpus[cpu] : &none;
	if (cpu < trace->kernel_counts_count) {
		error = discarded_account(trace, cpu, &last);
		if (!error && last != SIZE_MAX &&
		    (!decoder->count || decoder->chunks[decoder->count - 1] < last))
			error = damaged_account(trace, decoder);
	}
	if (!error && decoder != &none)
		error = kernel_decoder_rewind(decoder);
	return error;
}

/* ---- What stands beside the records ---- */

static int side_compare(const void *left, const void *right)
{
	const struct side *a = left, *b = right;

	if (a->ts_ns != b->ts_ns)
		return a->ts_ns < b->ts_ns ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

static int sides_make(struct trace *trace)
{
	const struct names_moment *moments;
	size_t moment_count = names_moments(trace->names, &moments);
	size_t count = trace->loss_count + moment_count;

	for (size_t i = 0; i < trace->file.count; i++)
		count += trace->file.chunks[i].header.type == CHUNK_SAMPLE;
	if (count > SIDES_MAX)
		return -E2BIG;
	trace->sides = calloc(count + 1, sizeof(*trace->sides));
	if (!trace->sides)
		return -ENOMEM;
	for (size_t i = 0; i < trace->loss_count; i++)
		trace->sides[trace->side_count++] =
			(struct side){trace->losses[i].from_ns, EVENT_LOSS, (uint32_t)i};
	for (size_t i = 0; i < moment_count; i++) {
		if (!names_own(trace->names, moments[i].word))
			trace->sides[trace->side_count++] =
				(struct side){moments[i].ts_ns, moments[i].kind, (uint32_t)i};
	}
	for (size_t i = 0; i < trace->file.count; i++) {
		struct chunk_sample head;

		if (trace->file.chunks[i].header.type == CHUNK_SAMPLE &&
		    !file_peek(&trace->file, &trace->file.chunks[i], &head, sizeof(head)))
			trace->sides[trace->side_count++] =
				(struct side){head.ts_ns, EVENT_SAMPLE, (uint32_t)i};
	}
	qsort(trace->sides, trace->side_count, sizeof(*trace->sides), side_compare);
	return 0;
}

int trace_account(struct trace *trace)
{
	size_t cpus = trace->cpu_count > trace->kernel_counts_count ? trace->cpu_count
								    : trace->kernel_counts_count;
	int error = 0;

	trace->first_ns = UINT64_MAX;
	for (uint32_t cpu = 0; cpu < trace->cpu_count && !error; cpu++)
		error = cpu_read(trace, &trace->cpus[cpu]);
	for (uint32_t ring = 0; ring < trace->thread_count && !error; ring++)
		error = ring_account(trace, ring);
	for (uint32_t cpu = 0; cpu < cpus && !error; cpu++)
		error = cpu_account(trace, cpu);
	if (!error)
		error = unclaimed_account(trace);
	if (!error)
		error = trace_terms_account(trace);
	if (error)
		return error;
	names_settle(trace->names);
	return sides_make(trace);
}
