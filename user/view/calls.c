/* SPDX-License-Identifier: Apache-2.0 */
#include "calls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "moment.h"
#include "page.h"
#include "table.h"
#include "units.h"

struct calls {
	struct report *report;
	struct call_row *table;
};

static void caller_count(struct call_row *row, uint32_t mfa)
{
	for (size_t i = 0; i < row->caller_count; i++) {
		if (row->callers[i].mfa == mfa) {
			row->callers[i].count++;
			return;
		}
	}
	if (row->caller_count == CALL_CALLERS)
		row->other_callers++;
	else
		row->callers[row->caller_count++] = (struct call_caller){mfa, 1};
}

static void slowest_add(struct call_row *row, const struct call_slow *slow)
{
	size_t at = row->slow_count;

	while (at && row->slowest[at - 1].duration_ns < slow->duration_ns)
		at--;
	if (at == CALL_SLOWEST)
		return;
	if (row->slow_count < CALL_SLOWEST)
		row->slow_count++;
	memmove(&row->slowest[at + 1], &row->slowest[at],
		(row->slow_count - 1 - at) * sizeof(*row->slowest));
	row->slowest[at] = *slow;
}

static struct call_row *row_get(struct calls *calls, uint32_t mfa)
{
	struct call_row *row;

	HASH_FIND(hh, calls->table, &mfa, sizeof(mfa), row);
	if (row)
		return row;
	row = calloc(1, sizeof(*row));
	if (!row)
		return NULL;
	row->mfa = mfa;
	HASH_ADD(hh, calls->table, mfa, sizeof(row->mfa), row);
	if (!row->hh.tbl) {
		free(row);
		return NULL;
	}
	return row;
}

static void on_call(void *context, const struct call_interval *call)
{
	struct calls *calls = context;
	struct report *report = calls->report;
	uint64_t ns = call->end_ns > call->start_ns ? call->end_ns - call->start_ns : 0;
	struct call_slow slow = {.start_ns = call->start_ns,
				 .duration_ns = ns,
				 .gc_ns = call->gc_ns < ns ? call->gc_ns : ns,
				 .process = call->process,
				 .certain = call->certain,
				 .open = call->how == CALL_OPEN};
	struct call_row *row;

	if (!section_inside(report, call->start_ns, call->end_ns))
		return;
	row = row_get(calls, call->mfa);
	if (!row || quantile_add(&row->durations, ns)) {
		section_failed(report, -ENOMEM);
		return;
	}
	row->open += call->how == CALL_OPEN;
	row->lost += call->how == CALL_LOST;
	row->exceptions += call->how == CALL_EXCEPTION;
	row->tails += call->how == CALL_TAIL;
	row->uncertain += !call->certain && call->how != CALL_OPEN;
	row->gc_ns += slow.gc_ns;
	caller_count(row, call->caller);
	slowest_add(row, &slow);
}

static void *calls_open(struct report *report, struct timeline_sink *sink)
{
	struct calls *calls = calloc(1, sizeof(*calls));

	if (!calls)
		return NULL;
	calls->report = report;
	sink->context = calls;
	sink->call = on_call;
	return calls;
}

static void calls_close(void *state)
{
	struct calls *calls = state;
	struct call_row *row, *next;

	HASH_ITER (hh, calls->table, row, next) {
		HASH_DEL(calls->table, row);
		quantile_free(&row->durations);
		free(row);
	}
	free(calls);
}

static int row_compare(const void *a, const void *b)
{
	const struct call_row *left = *(struct call_row *const *)a;
	const struct call_row *right = *(struct call_row *const *)b;

	if (left->durations.sum != right->durations.sum)
		return left->durations.sum < right->durations.sum ? 1 : -1;
	return (left->mfa > right->mfa) - (left->mfa < right->mfa);
}

static int caller_compare(const void *a, const void *b)
{
	const struct call_caller *left = a, *right = b;

	return left->count < right->count ? 1 : left->count > right->count ? -1 : 0;
}

size_t calls_rows(void *state, struct call_row ***rows)
{
	struct calls *calls = state;
	struct call_row *row, *next;
	size_t count = 0;

	*rows = calloc(HASH_COUNT(calls->table) + 1, sizeof(**rows));
	if (!*rows) {
		section_failed(calls->report, -ENOMEM);
		return 0;
	}
	HASH_ITER (hh, calls->table, row, next) {
		qsort(row->callers, row->caller_count, sizeof(*row->callers), caller_compare);
		(*rows)[count++] = row;
	}
	qsort(*rows, count, sizeof(**rows), row_compare);
	return count;
}

/* What is known of a duration; all the rest is unknown, so that the parts add up. */
static json_t *parts_json(uint64_t duration_ns, uint64_t gc_ns)
{
	return json_pack("{s:n,s:o,s:n,s:n,s:n,s:n,s:o}", "on_cpu", "gc",
			 section_json_number(gc_ns), "run_queue", "waiting", "runnable", "blocked",
			 "unknown", section_json_number(duration_ns - gc_ns));
}

static json_t *callers_json(struct calls *calls, const struct call_row *row)
{
	json_t *callers = json_array();

	for (size_t i = 0; i < row->caller_count; i++)
		json_array_append_new(
			callers, json_pack("{s:o,s:o}", "mfa",
					   section_json_mfa(calls->report, row->callers[i].mfa),
					   "count", section_json_number(row->callers[i].count)));
	if (row->other_callers)
		json_array_append_new(callers, json_pack("{s:s,s:o}", "mfa", "(others)", "count",
							 section_json_number(row->other_callers)));
	return callers;
}

static json_t *slowest_json(struct calls *calls, const struct call_row *row)
{
	struct report *report = calls->report;
	json_t *slowest = json_array();

	for (size_t i = 0; i < row->slow_count && i < section_limit(report); i++) {
		const struct call_slow *slow = &row->slowest[i];
		struct gap gap = gaps_over(&report->gaps, slow->start_ns,
					   slow->start_ns + slow->duration_ns);

		json_array_append_new(
			slowest,
			json_pack("{s:o,s:o,s:o,s:o,s:o,s:b,s:b}", "start_ns",
				  section_json_number(slow->start_ns), "duration_ns",
				  section_json_number(slow->duration_ns), "process",
				  section_json_process(report, slow->process), "name",
				  section_json_text(trace_process_name(report->trace, slow->process,
								       slow->start_ns)),
				  "parts_ns", parts_json(slow->duration_ns, slow->gc_ns), "open",
				  slow->open, "certain", slow->certain && !gap.count));
	}
	return slowest;
}

static json_t *row_json(struct calls *calls, const struct call_row *row)
{
	json_t *object = json_object();
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {{"count", row->durations.count},
		       {"open", row->open},
		       {"total_ns", row->durations.sum},
		       {"p50_ns", quantile_at(&row->durations, 500)},
		       {"p90_ns", quantile_at(&row->durations, 900)},
		       {"p99_ns", quantile_at(&row->durations, 990)},
		       {"max_ns", row->durations.max},
		       {"exceptions", row->exceptions},
		       {"tail_calls", row->tails},
		       {"uncertain", row->uncertain},
		       {"over_loss", row->lost}};

	json_object_set_new(object, "mfa", section_json_mfa(calls->report, row->mfa));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(object, numbers[i].key, section_json_number(numbers[i].value));
	json_object_set_new(object, "parts_ns",
			    parts_json(row->durations.sum, row->gc_ns < row->durations.sum
								   ? row->gc_ns
								   : row->durations.sum));
	json_object_set_new(object, "callers", callers_json(calls, row));
	json_object_set_new(object, "slowest", slowest_json(calls, row));
	return object;
}

static json_t *calls_json(void *state)
{
	struct calls *calls = state;
	json_t *list = json_array();
	struct call_row **rows;
	size_t count = calls_rows(calls, &rows);

	for (size_t i = 0; i < count && i < section_limit(calls->report); i++)
		json_array_append_new(list, row_json(calls, rows[i]));
	free(rows);
	return json_pack("{s:o,s:b}", "calls", list, "recorded",
			 calls->report->coverage.looks[LOOK_CALLS].on);
}

static int rows_print(struct calls *calls, struct call_row **rows, size_t count, FILE *out)
{
	static const struct table_column columns[] = {
		{"FUNCTION", TABLE_FLEX_TAIL}, {"CALLS", TABLE_RIGHT},
		{"OPEN", TABLE_RIGHT},	       {"TOTAL", TABLE_RIGHT},
		{"P50", TABLE_RIGHT},	       {"P90", TABLE_RIGHT},
		{"P99", TABLE_RIGHT},	       {"MAX", TABLE_RIGHT},
		{"IN GC", TABLE_RIGHT},	       {NULL, 0}};
	struct table *table = table_new(columns);
	int error;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < count && i < section_limit(calls->report); i++) {
		const struct quantile *durations = &rows[i]->durations;

		table_cell(table, "%s", section_mfa(calls->report, rows[i]->mfa));
		table_cell(table, "%s", UNITS_COUNT(durations->count));
		table_cell(table, "%s", rows[i]->open ? UNITS_COUNT(rows[i]->open) : "");
		table_cell(table, "%s", UNITS_DURATION(durations->sum));
		table_cell(table, "%s", UNITS_DURATION(quantile_at(durations, 500)));
		table_cell(table, "%s", UNITS_DURATION(quantile_at(durations, 900)));
		table_cell(table, "%s", UNITS_DURATION(quantile_at(durations, 990)));
		table_cell(table, "%s", UNITS_DURATION(durations->max));
		table_cell(table, "%s", rows[i]->gc_ns ? UNITS_DURATION(rows[i]->gc_ns) : "");
	}
	error = table_print(table, out, 2);
	section_left_out(out, section_limit(calls->report), count, "functions");
	table_free(table);
	return error;
}

/* For the functions shown: by whom they were called, where that was traced too. */
static void callers_print(struct calls *calls, struct call_row **rows, size_t count, FILE *out)
{
	bool title = false;

	for (size_t i = 0; i < count && i < section_limit(calls->report); i++) {
		const struct call_row *row = rows[i];
		char text[512];
		size_t used;

		if (row->caller_count == 1 && row->callers[0].mfa == RING_NO_INDEX)
			continue;
		used = (size_t)snprintf(text, sizeof(text),
					"%.150s: ", section_mfa(calls->report, row->mfa));
		for (size_t k = 0; k < row->caller_count && k < 3 && used < sizeof(text); k++)
			used += (size_t)snprintf(
				text + used, sizeof(text) - used, "%s%.100s %s", k ? ", " : "",
				row->callers[k].mfa == RING_NO_INDEX
					? "(not traced)"
					: section_mfa(calls->report, row->callers[k].mfa),
				UNITS_COUNT(row->callers[k].count));
		if (!title)
			page_title(out, "Called by");
		title = true;
		page_print(out, 2, 4, "%s%s", text,
			   row->caller_count > 3 || row->other_callers ? ", ..." : "");
	}
}

struct slow_pick {
	const struct call_row *row;
	const struct call_slow *slow;
};

static int pick_compare(const void *a, const void *b)
{
	const struct slow_pick *left = a, *right = b;

	return left->slow->duration_ns < right->slow->duration_ns   ? 1
	       : left->slow->duration_ns > right->slow->duration_ns ? -1
								    : 0;
}

/* The slowest calls of all functions together, as far as each function kept them. */
static int slowest_print(struct calls *calls, struct call_row **rows, size_t count, FILE *out)
{
	static const struct table_column columns[] = {{"START", TABLE_LEFT},
						      {"DURATION", TABLE_RIGHT},
						      {"IN GC", TABLE_RIGHT},
						      {"FUNCTION", TABLE_FLEX_TAIL},
						      {"PROCESS", TABLE_FLEX},
						      {"", TABLE_LEFT},
						      {NULL, 0}};
	struct report *report = calls->report;
	struct table *table = table_new(columns);
	struct slow_pick *picks = calloc(count * CALL_SLOWEST + 1, sizeof(*picks));
	size_t picked = 0, limit = section_limit(report) < 10 ? section_limit(report) : 10;
	int error = table && picks ? 0 : -ENOMEM;

	for (size_t i = 0; picks && i < count; i++)
		for (size_t k = 0; k < rows[i]->slow_count; k++)
			picks[picked++] = (struct slow_pick){rows[i], &rows[i]->slowest[k]};
	if (picks)
		qsort(picks, picked, sizeof(*picks), pick_compare);
	for (size_t i = 0; !error && i < picked && i < limit; i++) {
		const struct call_slow *slow = picks[i].slow;

		table_cell(table, "%s", MOMENT_TIME(report->trace, slow->start_ns));
		table_cell(
			table, "%s%s",
			gaps_over(&report->gaps, slow->start_ns, slow->start_ns + slow->duration_ns)
					.count
				? "~"
				: "",
			UNITS_DURATION(slow->duration_ns));
		table_cell(table, "%s", slow->gc_ns ? UNITS_DURATION(slow->gc_ns) : "");
		table_cell(table, "%s", section_mfa(report, picks[i].row->mfa));
		table_cell(table, "%s", SECTION_NAME(report, slow->process, slow->start_ns));
		table_cell(table, "%s", slow->open ? "open" : !slow->certain ? "at most" : "");
	}
	if (!error)
		error = table_print(table, out, 2);
	free(picks);
	table_free(table);
	return error;
}

static int calls_text(void *state, FILE *out)
{
	struct calls *calls = state;
	struct call_row **rows;
	size_t count = calls_rows(calls, &rows);
	int error = 0;

	if (!count) {
		fputc('\n', out);
		section_nothing(calls->report, out, LOOK_CALLS);
	} else {
		page_title(out, "Calls, most total time first. Times include waiting and whatever "
				"the function calls.");
		error = rows_print(calls, rows, count, out);
		if (!error) {
			page_title(out, "Slowest calls%s",
				   calls->report->gaps.count ? " (~: over a gap)" : "");
			error = slowest_print(calls, rows, count, out);
			callers_print(calls, rows, count, out);
		}
	}
	free(rows);
	return error;
}

const struct section section_calls = {.name = "calls",
				      .about = "traced functions: counts and durations",
				      .open = calls_open,
				      .json = calls_json,
				      .text = calls_text,
				      .close = calls_close};
