/* SPDX-License-Identifier: Apache-2.0 */
#include "gcs.h"

#include <errno.h>
#include <stdlib.h>

#include "moment.h"
#include "page.h"
#include "table.h"
#include "units.h"

#define WORD_BYTES 8

/* A thread's time on a CPU, as the kernel's switches tell it. */
struct gc_thread {
	int32_t tid;
	bool running;
	uint64_t since_ns; /* running: since when */
	uint64_t ran_ns; /* before that */
	uint64_t gc_start_ran_ns; /* when the GC that it does began */
	uint64_t gc_ran_ns; /* of the last GC that ended; UINT64_MAX: not known */
	bool gc_open;
	UT_hash_handle hh;
};

struct gcs {
	struct report *report;
	struct gc_row *table;
	struct gc_thread *threads;
	uint64_t switches;
};

static struct gc_thread *thread_get(struct gcs *gcs, int32_t tid)
{
	struct gc_thread *thread;

	HASH_FIND_INT(gcs->threads, &tid, thread);
	if (thread)
		return thread;
	thread = calloc(1, sizeof(*thread));
	if (thread) {
		thread->tid = tid;
		thread->gc_ran_ns = UINT64_MAX;
		HASH_ADD_INT(gcs->threads, tid, thread);
		if (thread->hh.tbl)
			return thread;
		free(thread);
	}
	section_failed(gcs->report, -ENOMEM);
	return NULL;
}

static void on_switch(struct gcs *gcs, const struct event *event)
{
	const struct probe_switch *record = event->sched_switch;
	struct gc_thread *thread;

	gcs->switches++;
	if (record->flags & PROBE_PREV_TARGET) {
		thread = thread_get(gcs, record->prev_tid);
		if (thread && thread->running && event->ts_ns > thread->since_ns)
			thread->ran_ns += event->ts_ns - thread->since_ns;
		if (thread)
			thread->running = false;
	}
	if (record->flags & PROBE_NEXT_TARGET) {
		thread = thread_get(gcs, record->next_tid);
		if (thread) {
			thread->running = true;
			thread->since_ns = event->ts_ns;
		}
	}
}

/* The thread that writes an event is on a CPU, whatever was seen of it before. */
static uint64_t thread_ran(struct gc_thread *thread, uint64_t ts_ns)
{
	if (!thread->running) {
		thread->running = true;
		thread->since_ns = ts_ns;
	}
	return thread->ran_ns + (ts_ns > thread->since_ns ? ts_ns - thread->since_ns : 0);
}

static void on_event(void *context, const struct event *event)
{
	struct gcs *gcs = context;
	bool start = event->kind == RING_GC_MINOR_START || event->kind == RING_GC_MAJOR_START;
	struct gc_thread *thread;

	if (event->kind == EVENT_KERNEL + PROBE_SWITCH) {
		on_switch(gcs, event);
		return;
	}
	if ((!start && event->kind != RING_GC_MINOR_END && event->kind != RING_GC_MAJOR_END) ||
	    !event->tid)
		return;
	thread = thread_get(gcs, event->tid);
	if (!thread)
		return;
	if (start) {
		thread->gc_start_ran_ns = thread_ran(thread, event->ts_ns);
		thread->gc_ran_ns = UINT64_MAX;
	} else if (thread->gc_open) {
		thread->gc_ran_ns = thread_ran(thread, event->ts_ns) - thread->gc_start_ran_ns;
	}
	thread->gc_open = start;
}

/* How long a GC that has just ended was on a CPU; UINT64_MAX when that is not known. */
static uint64_t gc_ran(struct gcs *gcs, const struct gc_interval *gc, uint64_t duration_ns)
{
	struct gc_thread *thread;

	if (!gcs->switches || gc->open || gc->failed ||
	    gaps_over(&gcs->report->gaps, gc->start_ns, gc->end_ns).kernel)
		return UINT64_MAX;
	HASH_FIND_INT(gcs->threads, &gc->tid, thread);
	if (!thread || thread->gc_ran_ns > duration_ns)
		return UINT64_MAX;
	return thread->gc_ran_ns;
}

static struct gc_row *row_get(struct gcs *gcs, uint64_t process)
{
	struct gc_row *row;

	HASH_FIND(hh, gcs->table, &process, sizeof(process), row);
	if (row)
		return row;
	row = calloc(1, sizeof(*row));
	if (!row)
		return NULL;
	row->process = process;
	HASH_ADD(hh, gcs->table, process, sizeof(row->process), row);
	if (!row->hh.tbl) {
		free(row);
		return NULL;
	}
	return row;
}

static void on_gc(void *context, const struct gc_interval *gc)
{
	struct gcs *gcs = context;
	uint64_t ns = gc->end_ns > gc->start_ns ? gc->end_ns - gc->start_ns : 0;
	uint64_t ran_ns = gc_ran(gcs, gc, ns), cost_ns = ran_ns == UINT64_MAX ? ns : ran_ns;
	struct gc_row *row;

	if (!section_inside(gcs->report, gc->start_ns, gc->end_ns))
		return;
	row = row_get(gcs, gc->process);
	if (!row) {
		section_failed(gcs->report, -ENOMEM);
		return;
	}
	row->minor += !gc->major;
	row->major += gc->major;
	row->failed += gc->failed;
	row->total_ns += ns;
	row->reclaimed_words += gc->reclaimed_words;
	row->last_ns = gc->end_ns;
	if (ran_ns == UINT64_MAX)
		row->on_cpu_unknown++;
	else
		row->on_cpu_ns += ran_ns;
	if (ns > row->max_ns || !row->max_at_ns) {
		row->max_ns = ns;
		row->max_at_ns = gc->start_ns;
		row->live_words = gc->after.heap_size + gc->after.old_heap_size;
		row->max_on_cpu_ns = ran_ns;
		row->max_major = gc->major;
		row->max_dirty = gc->dirty;
		row->max_open = gc->open || gc->failed;
	}
	if (cost_ns >= gcs->report->options->min_ns) {
		if (!row->long_count++)
			row->long_first_ns = gc->start_ns;
		row->long_ns += cost_ns;
	}
}

static void *gcs_open(struct report *report, struct timeline_sink *sink)
{
	struct gcs *gcs = calloc(1, sizeof(*gcs));

	if (!gcs)
		return NULL;
	gcs->report = report;
	sink->context = gcs;
	sink->gc = on_gc;
	sink->event = on_event;
	return gcs;
}

static void gcs_close(void *state)
{
	struct gcs *gcs = state;
	struct gc_row *row, *next;
	struct gc_thread *thread, *next_thread;

	HASH_ITER (hh, gcs->table, row, next) {
		HASH_DEL(gcs->table, row);
		free(row);
	}
	HASH_ITER (hh, gcs->threads, thread, next_thread) {
		HASH_DEL(gcs->threads, thread);
		free(thread);
	}
	free(gcs);
}

static int row_compare(const void *a, const void *b)
{
	const struct gc_row *left = *(struct gc_row *const *)a, *right = *(struct gc_row *const *)b;

	if (left->total_ns != right->total_ns)
		return left->total_ns < right->total_ns ? 1 : -1;
	return (left->process > right->process) - (left->process < right->process);
}

size_t gcs_rows(void *state, struct gc_row ***rows)
{
	struct gcs *gcs = state;
	struct gc_row *row, *next;
	size_t count = 0;

	*rows = calloc(HASH_COUNT(gcs->table) + 1, sizeof(**rows));
	if (!*rows) {
		section_failed(gcs->report, -ENOMEM);
		return 0;
	}
	HASH_ITER (hh, gcs->table, row, next)
		(*rows)[count++] = row;
	qsort(*rows, count, sizeof(**rows), row_compare);
	return count;
}

static json_t *gcs_json(void *state)
{
	struct gcs *gcs = state;
	struct report *report = gcs->report;
	json_t *list = json_array();
	struct gc_row **rows;
	size_t count = gcs_rows(gcs, &rows);

	for (size_t i = 0; i < count && i < section_limit(report); i++) {
		const struct gc_row *row = rows[i];

		json_array_append_new(
			list, json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "process",
					section_json_process(report, row->process), "name",
					section_json_text(trace_process_name(
						report->trace, row->process, row->last_ns)),
					"minor", section_json_number(row->minor), "major",
					section_json_number(row->major), "failed",
					section_json_number(row->failed), "total_ns",
					section_json_number(row->total_ns), "max_ns",
					section_json_number(row->max_ns), "max_start_ns",
					section_json_number(row->max_at_ns), "reclaimed_words",
					section_json_number(row->reclaimed_words), "on_cpu_ns",
					row->on_cpu_unknown ? json_null()
							    : section_json_number(row->on_cpu_ns)));
	}
	free(rows);
	return json_pack("{s:o,s:b}", "processes", list, "recorded",
			 report->coverage.looks[LOOK_GC].on);
}

static int gcs_text(void *state, FILE *out)
{
	static const struct table_column columns[] = {
		{"PROCESS", TABLE_FLEX}, {"MINOR", TABLE_RIGHT},
		{"MAJOR", TABLE_RIGHT},	 {"TOTAL", TABLE_RIGHT},
		{"ON CPU", TABLE_RIGHT}, {"LONGEST", TABLE_RIGHT},
		{"", TABLE_LEFT},	 {"LONGEST AT", TABLE_LEFT},
		{"LIVE", TABLE_RIGHT},	 {NULL, 0}};
	struct gcs *gcs = state;
	struct report *report = gcs->report;
	struct gc_row **rows;
	size_t count = gcs_rows(gcs, &rows), limit = section_limit(report);
	struct table *table = NULL;
	int error = 0;

	if (!count) {
		fputc('\n', out);
		section_nothing(report, out, LOOK_GC);
		goto cleanup;
	}
	table = table_new(columns);
	error = table ? 0 : -ENOMEM;
	page_title(
		out,
		"Garbage collections by process, most time first. LIVE: what the longest left on "
		"the heap%s",
		report->gaps.count ? " (~: it is over a gap)" : "");
	for (size_t i = 0; table && i < count && i < limit; i++) {
		const struct gc_row *row = rows[i];

		table_cell(table, "%s", SECTION_NAME(report, row->process, row->last_ns));
		table_cell(table, "%s", UNITS_COUNT(row->minor));
		table_cell(table, "%s", UNITS_COUNT(row->major));
		table_cell(table, "%s", UNITS_DURATION(row->total_ns));
		table_cell(table, "%s", row->on_cpu_unknown ? "" : UNITS_DURATION(row->on_cpu_ns));
		table_cell(
			table, "%s%s%s", row->max_open ? ">" : "",
			gaps_over(&report->gaps, row->max_at_ns, row->max_at_ns + row->max_ns).count
				? "~"
				: "",
			UNITS_DURATION(row->max_ns));
		table_cell(table, "%s", row->max_major ? "major" : "minor");
		table_cell(table, "%s", MOMENT_TIME(report->trace, row->max_at_ns));
		table_cell(table, "%s",
			   row->max_open ? "" : UNITS_BYTES(row->live_words * WORD_BYTES));
	}
	if (!error)
		error = table_print(table, out, 2);
	section_left_out(out, limit, count, "processes");
cleanup:
	free(rows);
	table_free(table);
	return error;
}

const struct section section_gc = {.name = "gc",
				   .about = "garbage collections by process",
				   .open = gcs_open,
				   .json = gcs_json,
				   .text = gcs_text,
				   .close = gcs_close};
