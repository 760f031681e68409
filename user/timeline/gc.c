/* SPDX-License-Identifier: Apache-2.0 */
#include "gc.h"

#include <string.h>

static uint64_t gc_words(const struct ring_gc *gc)
{
	return gc->heap_size + gc->old_heap_size + gc->mbuf_size;
}

static void gc_close(struct gcs *gcs, struct process *process, uint64_t ts_ns)
{
	struct gc_interval *gc = &process->gc;

	process->gc_running = false;
	gc->end_ns = ts_ns > gc->start_ns ? ts_ns : gc->start_ns;
	process->totals.gc_ns += gc->end_ns - gc->start_ns;
	if (gcs->sink && gcs->sink->gc)
		gcs->sink->gc(gcs->sink->context, gc);
	if (gcs->ended)
		gcs->ended(gcs->context, gc);
}

static void gc_fail(struct gcs *gcs, struct process *process, uint64_t ts_ns)
{
	if (!process->gc_running)
		return;
	process->gc.failed = true;
	gc_close(gcs, process, ts_ns);
}

static void gc_start(struct gcs *gcs, struct process *process, const struct event *event,
		     bool major)
{
	gc_fail(gcs, process, event->ts_ns);
	memset(&process->gc, 0, sizeof(process->gc));
	process->gc.process = process->totals.process;
	process->gc.tid = event->tid;
	process->gc.major = major;
	process->gc.dirty = event->flags & RING_F_DIRTY;
	process->gc.start_ns = event->ts_ns;
	process->gc.before = *event->gc;
	process->gc_running = true;
}

static void gc_end(struct gcs *gcs, struct process *process, const struct event *event, bool major)
{
	struct gc_interval *gc = &process->gc;
	uint64_t before, after;

	/* The start was not seen: nothing tells how long it took. */
	if (!process->gc_running)
		return;
	if (gc->major != major) {
		gc_fail(gcs, process, event->ts_ns);
		return;
	}
	gc->after = *event->gc;
	if (event->flags & RING_F_DIRTY) {
		gc->dirty = true;
		gc->tid = event->tid;
	}
	before = gc_words(&gc->before);
	after = gc_words(&gc->after);
	gc->reclaimed_words = before > after ? before - after : 0;
	gc_close(gcs, process, event->ts_ns);
}

void gc_event(struct gcs *gcs, struct process *process, const struct event *event)
{
	switch (event->kind) {
	case RING_GC_MINOR_START:
		gc_start(gcs, process, event, false);
		break;
	case RING_GC_MAJOR_START:
		gc_start(gcs, process, event, true);
		break;
	case RING_GC_MINOR_END:
		gc_end(gcs, process, event, false);
		break;
	case RING_GC_MAJOR_END:
		gc_end(gcs, process, event, true);
		break;
	case RING_GC_MAX_HEAP:
		gc_fail(gcs, process, event->ts_ns);
		break;
	default:
		break;
	}
}

void gc_exit(struct gcs *gcs, struct process *process, uint64_t ts_ns)
{
	gc_fail(gcs, process, ts_ns);
}

void gc_loss(struct gcs *gcs, struct process *process, const struct loss *loss)
{
	static const uint8_t kinds[] = {RING_UNKNOWN,	     RING_GC_MINOR_START, RING_GC_MINOR_END,
					RING_GC_MAJOR_START, RING_GC_MAJOR_END,	  RING_GC_MAX_HEAP};

	if (process->gc_running && loss_may_hold(loss, kinds, sizeof(kinds)))
		gc_fail(gcs, process, loss->from_ns);
}

void gc_finish(struct gcs *gcs, struct process *process, uint64_t ts_ns)
{
	if (!process->gc_running)
		return;
	process->gc.open = true;
	gc_close(gcs, process, ts_ns);
}
