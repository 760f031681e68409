/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_GC_H
#define BEAMWEAVE_GC_H

/*
 * Garbage collections: a start and the next end of the same sort of one process, on whatever threads.
 * A failed minor collection is a whole minor one, followed by a major one. A start that another start,
 * gc_max_heap_size or the process's exit follows has no end and is `failed`.
 *
 * reclaimed_words is what the heap held before less what it holds after, and no less than 0:
 * heap_size + old_heap_size + mbuf_size of both. Binaries off the heap are not in it.
 */

#include "process.h"

struct gcs {
	const struct timeline_sink *sink;
	/* A collection is over; may be NULL. */
	void (*ended)(void *context, const struct gc_interval *interval);
	void *context;
};

/* RING_GC_*: also adds up the process's gc_ns. */
void gc_event(struct gcs *gcs, struct process *process, const struct event *event);
/* The process is gone: a collection in progress failed. */
void gc_exit(struct gcs *gcs, struct process *process, uint64_t ts_ns);
/* Records of collections are missing: the one in progress may have ended in between. */
void gc_loss(struct gcs *gcs, struct process *process, const struct loss *loss);
/* The recording ends: a collection in progress stays open. */
void gc_finish(struct gcs *gcs, struct process *process, uint64_t ts_ns);
/* Time in collections up to now, with the one in progress. */
static inline uint64_t gc_total_ns(const struct process *process, uint64_t ts_ns)
{
	uint64_t total_ns = process->totals.gc_ns;

	if (process->gc_running && ts_ns > process->gc.start_ns)
		total_ns += ts_ns - process->gc.start_ns;
	return total_ns;
}

#endif
