/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TRACE_PRIVATE_H
#define BEAMWEAVE_TRACE_PRIVATE_H

/* What the files of a trace share and nobody else sees. */

#include "decode.h"
#include "merge.h"
#include "names.h"
#include "terms.h"
#include "trace.h"
#include "trc.h"

/* A loss with its counts kept sparse: there may be one for each sub-buffer. */
struct loss_note {
	uint64_t from_ns, to_ns;
	const char *why;
	uint32_t ring;
	uint32_t first, count; /* in trace->loss_counts */
	bool kernel;
};

struct loss_counts {
	uint32_t kind;
	uint64_t count;
};

/* What stands beside the records and has a time. */
struct side {
	uint64_t ts_ns;
	uint32_t kind; /* enum event_kind */
	uint32_t index; /* of the loss note, of the moment, of the chunk */
};

struct trace {
	struct file_reader file;
	json_t *meta;
	struct ring_vm vm;
	bool vm_known;
	struct names *names;

	struct chunk_clock *clocks; /* by monotonic time */
	size_t clock_count;
	struct chunk_task *tasks;
	size_t task_count;
	uint64_t first_ns, last_ns; /* of all events; first_ns UINT64_MAX: none */

	struct trace_thread *threads; /* by ring, parallel to decoders */
	struct vm_decoder *decoders;
	size_t thread_count;
	struct ring_thread *entries; /* of the newest THREADS chunk, by ring */
	size_t entry_count;
	size_t entries_chunk; /* where it stands in the file; SIZE_MAX: nowhere */
	struct chunk_threads entries_head;
	struct kernel_decoder *cpus;
	size_t cpu_count;
	struct probe_counts *kernel_counts; /* by CPU */
	size_t kernel_counts_count;

	struct loss_note *losses;
	size_t loss_count, loss_capacity;
	struct loss_counts *loss_counts;
	size_t loss_counts_count, loss_counts_capacity;
	struct side *sides;
	size_t side_count, side_next;
	struct loss loss; /* the one given */
	uint8_t *sample; /* the one given */
	size_t sample_bytes;

	uint64_t own[RING_KINDS];
	struct merge merge;

	/* Trace messages: in records of the rings, and in frames of OTP's trace ports. */
	struct ring_dict_clock *vm_clocks; /* by clock_ns */
	size_t vm_clock_count;
	bool rings_have_terms;
	struct merge rings; /* the rings in order of arrival, when they have */
	struct terms ring_terms, trc_terms;
	struct trc trc; /* count 0: no frames */
	uint64_t times[3]; /* messages in frames by enum message_clock */
};

/* Fill an opened file's trace from its chunks. 0 or -errno. */
int trace_load(struct trace *trace, const char *path);
/* Read all records once: accounts, losses, names. After trace_load(). */
int trace_account(struct trace *trace);
int trace_loss_add(struct trace *trace, const struct loss *loss);
/* The thread that the target calls `ns_tid`, in the initial pid namespace; 0: not known. */
int32_t trace_tid(const struct trace *trace, uint32_t ns_tid);
void trace_span_widen(struct trace *trace, uint64_t ts_ns);

/* ---- trace_terms.c ---- */

/* RING_DICT_CLOCK. */
int trace_clock_add(struct trace *trace, const struct ring_dict_entry *entry);
/* After the chunks were loaded: where messages come from, and how their words are made. */
int trace_terms_load(struct trace *trace, const char *path);
/* META of a file that has none. */
int trace_terms_meta(struct trace *trace);
/* Read all frames once. */
int trace_terms_account(struct trace *trace);
/* What an event says of names, decoded first when it is a message. 0 or -errno. */
int trace_term_learn(struct trace *trace, const struct terms *terms, struct event *event);
void trace_terms_rewind(struct trace *trace);
void trace_terms_free(struct trace *trace);

#endif
