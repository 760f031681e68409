// SPDX-License-Identifier: Apache-2.0
#include "gcs.h"

#include <errno.h>
#include <stdlib.h>

#include "moment.h"
#include "page.h"
#include "table.h"
#include "units.h"

#define WORD_BYTES 8

struct gcs {
	struct report *report;
	struct gc_row *table;
};

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
	if (ns > row->max_ns || !row->max_at_ns) {
		row->max_ns = ns;
		row->max_at_ns = gc->start_ns;
		row->live_words = gc->after.heap_size + gc->after.old_heap_size;
		row->max_major = gc->major;
		row->max_dirty = gc->dirty;
		row->max_open = gc->open || gc->failed;
	}
	if (ns >= gcs->report->options->min_ns) {
		if (!row->long_count++)
			row->long_first_ns = gc->start_ns;
		row->long_ns += ns;
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
	return gcs;
}

static void gcs_close(void *state)
{
	struct gcs *gcs = state;
	struct gc_row *row, *next;

	HASH_ITER (hh, gcs->table, row, next) {
		HASH_DEL(gcs->table, row);
		free(row);
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
			list, json_pack("{s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:n}", "process",
					section_json_process(report, row->process), "name",
					section_json_text(trace_process_name(
						report->trace, row->process, row->last_ns)),
					"minor", section_json_number(row->minor), "major",
					section_json_number(row->major), "failed",
					section_json_number(row->failed), "total_ns",
					section_json_number(row->total_ns), "max_ns",
					section_json_number(row->max_ns), "max_start_ns",
					section_json_number(row->max_at_ns), "reclaimed_words",
					section_json_number(row->reclaimed_words), "on_cpu_ns"));
	}
	free(rows);
	return json_pack("{s:o,s:b}", "processes", list, "recorded",
			 report->coverage.looks[LOOK_GC].on);
}

static int gcs_text(void *state, FILE *out)
{
	static const struct table_column columns[] = {
		{"PROCESS", TABLE_FLEX},    {"MINOR", TABLE_RIGHT},
		{"MAJOR", TABLE_RIGHT},	    {"TOTAL", TABLE_RIGHT},
		{"LONGEST", TABLE_RIGHT},   {"", TABLE_LEFT},
		{"LONGEST AT", TABLE_LEFT}, {"LIVE", TABLE_RIGHT},
		{"FREED", TABLE_RIGHT},	    {NULL, 0}};
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
		table_cell(table, "%s", UNITS_BYTES(row->reclaimed_words * WORD_BYTES));
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
