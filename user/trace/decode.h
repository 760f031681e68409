/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_DECODE_H
#define BEAMWEAVE_DECODE_H

/*
 * From chunks to records: one decoder for each thread of the VM and one for each CPU. Each holds one
 * chunk at a time. A record is given once, in its ring's order, whatever the order and the overlaps
 * of the chunks; what is missing is found from the cumulative counts in the sub-buffers' headers.
 */

#include "file.h"
#include "record.h"

#define DECODE_THREADS_MAX                                                                         \
	4096 /* rings and CPUs beyond are damage: no file can make us hold more */
#define DECODE_CPUS_MAX 8192

/* Records that are no use, over all decoders. */
struct decode_faults {
	uint64_t damaged_records, unknown_records, clamped_records;
};

/* ---- The VM's threads ---- */

/* One chunk of a thread; sorted by (sequence, from). */
struct vm_piece {
	uint64_t sequence;
	uint32_t from;
	uint32_t chunk; /* index in the file */
};

typedef int (*vm_loss_fn)(void *context, const struct loss *loss);

struct vm_decoder {
	const struct file_reader *file;
	uint32_t ring;
	int32_t tid;
	struct vm_piece *pieces;
	size_t count, capacity;

	/* where it is */
	size_t next; /* piece to read next */
	uint8_t *buffer;
	size_t buffer_bytes;
	uint32_t at, end; /* records in the buffer */
	uint64_t base_ns;
	uint64_t sequence; /* of the sub-buffer; 0: none yet */
	uint32_t covered; /* bytes of the sub-buffer that were decoded */
	uint64_t last_ns;

	/* the account of the thread */
	bool overwrite; /* what is missing at the start was overwritten, not read by someone else */
	uint64_t origin_ns; /* when the recording began */
	bool header_seen;
	bool gap; /* something is missing since the last header */
	bool gap_open; /* and no record was decoded after it yet */
	bool gap_whole; /* whole sub-buffers are missing, and only such */
	uint64_t gap_from_ns, gap_to_ns;
	uint64_t accounted[RING_KINDS]; /* decoded, or lost, or before our time */
	uint64_t before[RING_KINDS]; /* recorded, but for an earlier reader */
	uint64_t discarded[RING_KINDS]; /* as the last header says */
	uint64_t discarded_before[RING_KINDS];
	uint64_t given[RING_KINDS]; /* by vm_decoder_next() */
	struct decode_faults faults;
	/* Called for each loss as soon as it is known; may be NULL. Times may lie before last_ns. */
	vm_loss_fn loss_fn;
	void *loss_context;
};

void vm_decoder_free(struct vm_decoder *decoder);
/* Add a chunk that belongs to this thread; then sort once. */
int vm_decoder_add(struct vm_decoder *decoder, uint32_t chunk, const struct chunk_vm *head);
void vm_decoder_sort(struct vm_decoder *decoder);
/* Back to the first record. */
void vm_decoder_rewind(struct vm_decoder *decoder);
/* The next record, valid until the next call. Returns 1, 0 at the end, -errno. */
int vm_decoder_next(struct vm_decoder *decoder, struct event *event);
/* Close the account after the last record with the thread's final entry. */
int vm_decoder_close(struct vm_decoder *decoder, const struct ring_thread *last, uint64_t taken_ns);

/* ---- The kernel's CPUs ---- */

#define KERNEL_WINDOW	    128 /* records held back to bring them in order */
#define KERNEL_RECORD_BYTES 256 /* a longer one is of a kind that we do not know */

struct kernel_slot {
	uint64_t ts_ns, order;
	uint16_t kind;
	_Alignas(8) uint8_t record[KERNEL_RECORD_BYTES];
};

struct kernel_decoder {
	bool low_words; /* processes by the low half of their words (trace_load.c) */
	const struct file_reader *file;
	uint32_t cpu;
	uint32_t *chunks;
	size_t count, capacity;

	size_t next; /* chunk to read next */
	uint8_t *buffer;
	size_t buffer_bytes;
	uint32_t at, end;
	uint64_t order, last_ns;
	struct kernel_slot *slots; /* KERNEL_WINDOW + 1 of them: the last is the one given */
	uint16_t heap[KERNEL_WINDOW]; /* indices of slots, the earliest on top */
	uint16_t idle[KERNEL_WINDOW + 1];
	uint32_t held, idle_count;
	uint16_t given_slot;
	bool given_any;

	uint64_t decoded[PROBE_KINDS]; /* known and unknown */
	/* around chunks that are missing in the file, as far as this CPU shows it */
	bool gap, gap_open;
	uint64_t gap_from_ns, gap_to_ns;
	uint64_t newest_ns; /* of what was read, not of what was given */
	struct decode_faults faults;
};

void kernel_decoder_free(struct kernel_decoder *decoder);
int kernel_decoder_add(struct kernel_decoder *decoder, uint32_t chunk);
int kernel_decoder_rewind(struct kernel_decoder *decoder);
int kernel_decoder_next(struct kernel_decoder *decoder, struct event *event);

#endif
