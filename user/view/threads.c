/* SPDX-License-Identifier: Apache-2.0 */
#include "section.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"
#include "stalls.h"
#include "table.h"
#include "units.h"

/* What a thread did inside the window. */
struct thread_row {
	int32_t tid;
	uint64_t state_ns[THREAD_STATES]; /* adds up to the window: what is not known is unknown */
	uint64_t switches, preemptions;
	struct thread_totals totals; /* of the whole recording */
	UT_hash_handle hh;
};

struct threads {
	struct report *report;
	struct thread_row *table;
};

static struct thread_row *row_get(struct threads *threads, int32_t tid)
{
	struct thread_row *row;

	HASH_FIND(hh, threads->table, &tid, sizeof(tid), row);
	if (row)
		return row;
	row = calloc(1, sizeof(*row));
	if (!row)
		return NULL;
	row->tid = tid;
	row->totals.tid = tid;
	HASH_ADD(hh, threads->table, tid, sizeof(row->tid), row);
	if (!row->hh.tbl) {
		free(row);
		return NULL;
	}
	return row;
}

static void on_thread(void *context, const struct thread_interval *interval)
{
	struct threads *threads = context;
	struct report *report = threads->report;
	struct thread_row *row;

	if (!section_inside(report, interval->start_ns, interval->end_ns))
		return;
	row = row_get(threads, interval->tid);
	if (!row) {
		section_failed(report, -ENOMEM);
		return;
	}
	if ((size_t)interval->state < THREAD_UNKNOWN)
		row->state_ns[interval->state] +=
			section_clip(report, interval->start_ns, interval->end_ns);
	/* a stretch on a CPU that ended here was ended by a switch */
	if (interval->state == THREAD_RUNNING && !interval->open &&
	    interval->end_ns <= report->to_ns)
		row->switches++;
	if (interval->preempted && interval->start_ns >= report->from_ns)
		row->preemptions++;
}

static void *threads_open(struct report *report, struct timeline_sink *sink)
{
	struct threads *threads = calloc(1, sizeof(*threads));

	if (!threads)
		return NULL;
	threads->report = report;
	sink->context = threads;
	sink->thread = on_thread;
	return threads;
}

static void threads_close(void *state)
{
	struct threads *threads = state;
	struct thread_row *row, *next;

	HASH_ITER (hh, threads->table, row, next) {
		HASH_DEL(threads->table, row);
		free(row);
	}
	free(threads);
}

static int row_compare(const void *a, const void *b)
{
	const struct thread_row *left = *(struct thread_row *const *)a;
	const struct thread_row *right = *(struct thread_row *const *)b;

	if (left->state_ns[THREAD_RUNNING] != right->state_ns[THREAD_RUNNING])
		return left->state_ns[THREAD_RUNNING] < right->state_ns[THREAD_RUNNING] ? 1 : -1;
	return (left->tid > right->tid) - (left->tid < right->tid);
}

/* Join the intervals with the totals; what is left of the window is unknown. */
static size_t threads_rows(struct threads *threads, struct thread_row ***rows)
{
	struct report *report = threads->report;
	const struct thread_totals *totals = NULL;
	size_t count = timeline_threads(report->timeline, &totals), used = 0;
	struct thread_row *row, *next;

	for (size_t i = 0; i < count; i++) {
		row = row_get(threads, totals[i].tid);
		if (!row) {
			section_failed(report, -ENOMEM);
			continue;
		}
		row->totals = totals[i];
		if (report->whole) {
			row->switches = totals[i].switches;
			row->preemptions = totals[i].preemptions;
		}
	}
	*rows = calloc(HASH_COUNT(threads->table) + 1, sizeof(**rows));
	if (!*rows) {
		section_failed(report, -ENOMEM);
		return 0;
	}
	HASH_ITER (hh, threads->table, row, next) {
		uint64_t left_ns = report->to_ns - report->from_ns;

		for (int i = 0; i < THREAD_UNKNOWN; i++)
			left_ns -= row->state_ns[i] < left_ns ? row->state_ns[i] : left_ns;
		row->state_ns[THREAD_UNKNOWN] = left_ns;
		(*rows)[used++] = row;
	}
	qsort(*rows, used, sizeof(**rows), row_compare);
	return used;
}

static json_t *row_json(struct report *report, const struct thread_row *row)
{
	json_t *object = json_object();
	char name[sizeof(row->totals.comm) + 1] = "";
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {{"running_ns", row->state_ns[THREAD_RUNNING]},
		       {"runnable_ns", row->state_ns[THREAD_RUNNABLE]},
		       {"sleeping_ns", row->state_ns[THREAD_SLEEPING]},
		       {"blocked_ns", row->state_ns[THREAD_BLOCKED]},
		       {"stopped_ns", row->state_ns[THREAD_STOPPED]},
		       {"unknown_ns", row->state_ns[THREAD_UNKNOWN]},
		       {"switches", row->switches},
		       {"preemptions", row->preemptions}};

	memcpy(name, row->totals.comm, sizeof(row->totals.comm));
	json_object_set_new(object, "tid", json_integer(row->tid));
	json_object_set_new(object, "name", section_json_text(name));
	json_object_set_new(object, "role", json_string(stalls_role(row->totals.role)));
	json_object_set_new(object, "number",
			    row->totals.number ? section_json_number(row->totals.number)
					       : json_null());
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(object, numbers[i].key, section_json_number(numbers[i].value));
	/* the timeline tells these for the whole recording only */
	json_object_set_new(object, "working_ns",
			    report->whole ? section_json_number(row->totals.working_ns)
					  : json_null());
	json_object_set_new(object, "spinning_ns",
			    report->whole ? section_json_number(row->totals.spinning_ns)
					  : json_null());
	json_object_set_new(object, "migrations",
			    report->whole ? section_json_number(row->totals.migrations)
					  : json_null());
	json_object_set_new(object, "exited", json_boolean(row->totals.exited));
	return object;
}

static json_t *threads_json(void *state)
{
	struct threads *threads = state;
	struct report *report = threads->report;
	json_t *list = json_array();
	struct thread_row **rows;
	size_t count = threads_rows(threads, &rows);

	for (size_t i = 0; i < count && i < section_limit(report); i++)
		json_array_append_new(list, row_json(report, rows[i]));
	free(rows);
	return json_pack("{s:o,s:o,s:b}", "threads", list, "duration_ns",
			 section_json_number(report->to_ns - report->from_ns), "recorded",
			 report->coverage.looks[LOOK_SCHED].on);
}

static int rows_print(const struct report *report, struct thread_row **rows, size_t count,
		      FILE *out)
{
	static const struct table_column columns[] = {{"TID", TABLE_RIGHT},
						      {"NAME", TABLE_FLEX},
						      {"RUNNING", TABLE_RIGHT},
						      {"RUNNABLE", TABLE_RIGHT},
						      {"SLEEPING", TABLE_RIGHT},
						      {"BLOCKED", TABLE_RIGHT},
						      {"STOPPED", TABLE_RIGHT},
						      {"UNKNOWN", TABLE_RIGHT},
						      {"SWITCHES", TABLE_RIGHT},
						      {"PREEMPT", TABLE_RIGHT},
						      {NULL, 0}};
	struct table *table = table_new(columns);
	int error;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < count && i < section_limit(report); i++) {
		table_cell(table, "%d", rows[i]->tid);
		table_cell(table, "%.16s", rows[i]->totals.comm);
		for (int k = 0; k < THREAD_STATES; k++)
			table_cell(table, "%s",
				   rows[i]->state_ns[k] ? UNITS_DURATION(rows[i]->state_ns[k])
							: "");
		table_cell(table, "%s", UNITS_COUNT(rows[i]->switches));
		table_cell(table, "%s",
			   rows[i]->preemptions ? UNITS_COUNT(rows[i]->preemptions) : "");
	}
	error = table_print(table, out, 0);
	table_free(table);
	return error;
}

static int threads_text(void *state, FILE *out)
{
	struct threads *threads = state;
	struct report *report = threads->report;
	struct thread_row **rows;
	size_t count = threads_rows(threads, &rows);
	int error = 0;

	if (!count || !report->coverage.looks[LOOK_SCHED].on) {
		fputc('\n', out);
		section_nothing(report, out, LOOK_SCHED);
		goto cleanup;
	}
	page_title(
		out,
		"Threads, most CPU time first. The states of a thread add up to %s. RUNNABLE: it "
		"wanted a CPU and had none. UNKNOWN: before its first event, after its end, or "
		"over a gap.",
		UNITS_DURATION(report->to_ns - report->from_ns));
	error = rows_print(report, rows, count, out);
	section_left_out(out, section_limit(report), count, "threads");
cleanup:
	free(rows);
	return error;
}

const struct section section_threads = {.name = "threads",
					.about = "the VM's threads: on CPU, waiting, stopped",
					.open = threads_open,
					.json = threads_json,
					.text = threads_text,
					.close = threads_close};
