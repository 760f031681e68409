/* SPDX-License-Identifier: Apache-2.0 */
#include "section.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"
#include "table.h"
#include "units.h"

/* What a process did inside the window. */
struct process_row {
	uint64_t process;
	uint64_t running_ns, gc_ns, calls, sends, receives;
	uint64_t last_ns;
	struct process_totals totals; /* of the whole recording */
	UT_hash_handle hh;
};

struct processes {
	struct report *report;
	struct process_row *table;
};

static struct process_row *row_get(struct processes *processes, uint64_t word)
{
	struct process_row *row;

	HASH_FIND(hh, processes->table, &word, sizeof(word), row);
	if (row)
		return row;
	row = calloc(1, sizeof(*row));
	if (row) {
		row->process = word;
		HASH_ADD(hh, processes->table, process, sizeof(row->process), row);
		if (row->hh.tbl)
			return row;
		free(row);
	}
	section_failed(processes->report, -ENOMEM);
	return NULL;
}

/* Only for a window: of the whole recording the timeline keeps the account itself. */

static void on_run(void *context, const struct run_interval *run)
{
	struct processes *processes = context;
	uint64_t ns = section_clip(processes->report, run->start_ns, run->end_ns);
	struct process_row *row = ns ? row_get(processes, run->process) : NULL;

	if (row) {
		row->running_ns += ns;
		row->last_ns = run->end_ns;
	}
}

static void on_gc(void *context, const struct gc_interval *gc)
{
	struct processes *processes = context;
	uint64_t ns = section_clip(processes->report, gc->start_ns, gc->end_ns);
	struct process_row *row = ns ? row_get(processes, gc->process) : NULL;

	if (row) {
		row->gc_ns += ns;
		row->last_ns = gc->end_ns;
	}
}

static void on_event(void *context, const struct event *event)
{
	struct processes *processes = context;
	struct process_row *row;

	if (!event->process || !section_inside(processes->report, event->ts_ns, event->ts_ns))
		return;
	if (event->kind != RING_CALL && event->kind != RING_SEND &&
	    event->kind != RING_SEND_NOPROC && event->kind != RING_RECEIVE)
		return;
	row = row_get(processes, event->process);
	if (!row)
		return;
	row->calls += event->kind == RING_CALL;
	row->sends += event->kind == RING_SEND || event->kind == RING_SEND_NOPROC;
	row->receives += event->kind == RING_RECEIVE;
	row->last_ns = event->ts_ns;
}

static void *processes_open(struct report *report, struct timeline_sink *sink)
{
	struct processes *processes = calloc(1, sizeof(*processes));

	if (!processes)
		return NULL;
	processes->report = report;
	sink->context = processes;
	if (!report->whole) {
		sink->run = on_run;
		sink->gc = on_gc;
		sink->event = on_event;
	}
	return processes;
}

static void processes_close(void *state)
{
	struct processes *processes = state;
	struct process_row *row, *next;

	HASH_ITER (hh, processes->table, row, next) {
		HASH_DEL(processes->table, row);
		free(row);
	}
	free(processes);
}

static int row_compare(const void *a, const void *b)
{
	const struct process_row *left = *(struct process_row *const *)a;
	const struct process_row *right = *(struct process_row *const *)b;
	const uint64_t keys[][2] = {
		{left->running_ns, right->running_ns},
		{left->gc_ns, right->gc_ns},
		{left->calls, right->calls},
		{left->receives + left->sends, right->receives + right->sends},
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? 1 : -1;
	return (left->process > right->process) - (left->process < right->process);
}

static size_t processes_rows(struct processes *processes, struct process_row ***rows)
{
	struct report *report = processes->report;
	const struct process_totals *totals = NULL;
	size_t count = timeline_processes(report->timeline, &totals), used = 0;
	struct process_row *row, *next;

	for (size_t i = 0; i < count; i++) {
		if (report->whole) {
			row = row_get(processes, totals[i].process);
		} else {
			HASH_FIND(hh, processes->table, &totals[i].process,
				  sizeof(totals[i].process), row);
		}
		if (!row)
			continue;
		row->totals = totals[i];
		if (report->whole) {
			row->running_ns = totals[i].running_ns;
			row->gc_ns = totals[i].gc_ns;
			row->calls = totals[i].calls;
			row->sends = totals[i].sends;
			row->receives = totals[i].receives;
			row->last_ns = totals[i].last_ns;
		}
	}
	*rows = calloc(HASH_COUNT(processes->table) + 1, sizeof(**rows));
	if (!*rows) {
		section_failed(report, -ENOMEM);
		return 0;
	}
	HASH_ITER (hh, processes->table, row, next)
		(*rows)[used++] = row;
	qsort(*rows, used, sizeof(**rows), row_compare);
	return used;
}

static const char *row_initial(struct report *report, const struct process_row *row)
{
	const char *initial = trace_process_initial(report->trace, row->process);

	if (initial)
		return initial;
	/* a row without totals is all zero: index 0 would be someone's MFA */
	return row->totals.process && row->totals.initial != RING_NO_INDEX
		       ? trace_mfa(report->trace, row->totals.initial)
		       : NULL;
}

/* What it is called, or was until its exit. */
static const char *row_name(struct report *report, const struct process_row *row)
{
	return row->totals.exited_ns
		       ? trace_process_last_name(report->trace, row->process, row->totals.exited_ns)
		       : trace_process_name(report->trace, row->process, row->last_ns);
}

static json_t *row_json(struct report *report, const struct process_row *row)
{
	const struct coverage *coverage = &report->coverage;
	json_t *object = json_object();
	const struct {
		const char *key;
		uint64_t value;
		bool known;
	} numbers[] = {
		{"running_ns", row->running_ns, coverage->looks[LOOK_RUNNING].on},
		{"runnable_ns", row->totals.runnable_ns,
		 coverage->looks[LOOK_RUNNING].on && report->whole},
		{"waiting_ns", row->totals.waiting_ns,
		 coverage->looks[LOOK_RUNNING].on && report->whole},
		{"gc_ns", row->gc_ns, coverage->looks[LOOK_GC].on},
		{"calls", row->calls, coverage->looks[LOOK_CALLS].on},
		{"sends", row->sends, coverage->looks[LOOK_MESSAGES].on},
		{"receives", row->receives, coverage->looks[LOOK_MESSAGES].on},
		{"exited_ns", row->totals.exited_ns, row->totals.exited_ns != 0},
	};

	json_object_set_new(object, "process", section_json_process(report, row->process));
	json_object_set_new(object, "name", section_json_text(row_name(report, row)));
	json_object_set_new(object, "initial_call", section_json_text(row_initial(report, row)));
	json_object_set_new(object, "parent", section_json_process(report, row->totals.parent));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(object, numbers[i].key,
				    numbers[i].known ? section_json_number(numbers[i].value)
						     : json_null());
	return object;
}

static json_t *processes_json(void *state)
{
	struct processes *processes = state;
	json_t *list = json_array();
	struct process_row **rows;
	size_t count = processes_rows(processes, &rows);

	for (size_t i = 0; i < count && i < section_limit(processes->report); i++)
		json_array_append_new(list, row_json(processes->report, rows[i]));
	free(rows);
	return json_pack("{s:o}", "processes", list);
}

static int rows_print(struct report *report, struct process_row **rows, size_t count, FILE *out)
{
	static const struct table_column columns[] = {
		{"PROCESS", TABLE_FLEX_LATE}, {"INITIAL CALL", TABLE_FLEX},
		{"RUNNING", TABLE_RIGHT},     {"RUNNABLE", TABLE_RIGHT},
		{"WAITING", TABLE_RIGHT},     {"GC", TABLE_RIGHT},
		{"CALLS", TABLE_RIGHT},	      {"SENDS", TABLE_RIGHT},
		{"RECEIVES", TABLE_RIGHT},    {NULL, 0}};
	struct table *table = table_new(columns);
	int error;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < count && i < section_limit(report); i++) {
		const struct process_row *row = rows[i];
		const char *initial = row_initial(report, row);
		const char *name = row_name(report, row);
		const uint64_t times[] = {row->running_ns,
					  report->whole ? row->totals.runnable_ns : 0,
					  report->whole ? row->totals.waiting_ns : 0, row->gc_ns};
		const uint64_t counts[] = {row->calls, row->sends, row->receives};
		char who[SECTION_WHO];

		if (name && initial && !strcmp(name, initial))
			name = NULL;
		section_called(who, trace_process_text(report->trace, row->process), name);
		table_cell(table, "%s", who);
		table_cell(table, "%s", initial ? initial : "");
		for (size_t k = 0; k < sizeof(times) / sizeof(times[0]); k++)
			table_cell(table, "%s", times[k] ? UNITS_DURATION(times[k]) : "");
		for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++)
			table_cell(table, "%s", counts[k] ? UNITS_COUNT(counts[k]) : "");
	}
	error = table_print(table, out, 0);
	table_free(table);
	return error;
}

static int processes_text(void *state, FILE *out)
{
	static const enum look shown[] = {LOOK_RUNNING, LOOK_GC, LOOK_CALLS, LOOK_MESSAGES};
	struct processes *processes = state;
	struct report *report = processes->report;
	struct process_row **rows;
	size_t count = processes_rows(processes, &rows);
	int error = 0;

	if (count) {
		page_title(out,
			   "Processes, most running time first. RUNNABLE: it waited in a run "
			   "queue. WAITING: for a message%s.",
			   report->whole ? "" : " (both are known for the whole recording only)");
		error = rows_print(report, rows, count, out);
		section_left_out(out, section_limit(report), count, "processes");
	}
	fputc('\n', out);
	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		if (!report->coverage.looks[shown[i]].on)
			section_nothing(report, out, shown[i]);
	free(rows);
	return error;
}

const struct section section_processes = {.name = "processes",
					  .about = "Erlang processes: running, waiting, GC",
					  .open = processes_open,
					  .json = processes_json,
					  .text = processes_text,
					  .close = processes_close};
