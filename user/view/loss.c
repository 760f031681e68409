/* SPDX-License-Identifier: Apache-2.0 */
#include "section.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "moment.h"
#include "page.h"
#include "table.h"
#include "units.h"

#define INTERVALS_MAX 65536

struct loss_interval {
	bool kernel;
	uint32_t ring;
	uint64_t from_ns, to_ns, count;
	const char *why;
};

struct losses {
	struct report *report;
	struct loss_interval *intervals;
	size_t count, room;
	uint64_t left_out; /* intervals beyond INTERVALS_MAX */
};

/* A ring's final counts; of VM threads and CPUs alike. */
struct loss_ring {
	bool kernel;
	uint32_t ring;
	int32_t tid;
	uint64_t recorded, discarded;
	uint64_t kinds[RING_KINDS]; /* discarded by kind */
	uint32_t kind_base;
};

static void on_loss(void *context, const struct loss *loss)
{
	struct losses *losses = context;
	struct report *report = losses->report;

	if (!section_inside(report, loss->from_ns, loss->to_ns))
		return;
	if (losses->count == INTERVALS_MAX) {
		losses->left_out++;
		return;
	}
	if (losses->count == losses->room) {
		size_t room = losses->room ? losses->room * 2 : 16;
		struct loss_interval *grown = realloc(losses->intervals, room * sizeof(*grown));

		if (!grown) {
			section_failed(report, -ENOMEM);
			return;
		}
		losses->intervals = grown;
		losses->room = room;
	}
	losses->intervals[losses->count++] = (struct loss_interval){
		loss->kernel, loss->ring, loss->from_ns, loss->to_ns, loss->count, loss->why};
}

static void *losses_open(struct report *report, struct timeline_sink *sink)
{
	struct losses *losses = calloc(1, sizeof(*losses));

	if (!losses)
		return NULL;
	losses->report = report;
	sink->context = losses;
	sink->loss = on_loss;
	return losses;
}

static void losses_close(void *state)
{
	struct losses *losses = state;

	free(losses->intervals);
	free(losses);
}

static void ring_of_thread(struct loss_ring *ring, const struct trace_thread *thread)
{
	ring->ring = thread->ring;
	ring->tid = thread->tid;
	for (size_t i = 0; i < RING_KINDS; i++) {
		ring->recorded += thread->recorded[i];
		ring->discarded += thread->discarded[i];
		ring->kinds[i] = thread->discarded[i];
	}
}

static void ring_of_cpu(struct loss_ring *ring, const struct probe_counts *counts, uint32_t cpu)
{
	_Static_assert(PROBE_KINDS <= RING_KINDS, "kinds of both fit");
	ring->kernel = true;
	ring->kind_base = EVENT_KERNEL;
	ring->ring = cpu;
	for (size_t i = 0; i < PROBE_KINDS; i++) {
		/* counters of one instant, read one after the other: never below 0 */
		if (counts->generated[i] > counts->discarded[i])
			ring->recorded += counts->generated[i] - counts->discarded[i];
		ring->discarded += counts->discarded[i];
		ring->kinds[i] = counts->discarded[i];
	}
}

/* Every ring with its final counts. NULL without memory. */
static struct loss_ring *rings_new(struct losses *losses, size_t *count)
{
	const struct trace_thread *threads = NULL;
	const struct probe_counts *cpus = NULL;
	size_t thread_count = trace_threads(losses->report->trace, &threads);
	size_t cpu_count = trace_kernel_counts(losses->report->trace, &cpus);
	struct loss_ring *rings = calloc(thread_count + cpu_count + 1, sizeof(*rings));

	*count = rings ? thread_count + cpu_count : 0;
	for (size_t i = 0; rings && i < thread_count; i++)
		ring_of_thread(&rings[i], &threads[i]);
	for (size_t i = 0; rings && i < cpu_count; i++)
		ring_of_cpu(&rings[thread_count + i], &cpus[i], (uint32_t)i);
	if (!rings)
		section_failed(losses->report, -ENOMEM);
	return rings;
}

static json_t *kinds_json(const struct loss_ring *ring)
{
	json_t *kinds = json_object();

	for (uint32_t i = 0; i < RING_KINDS; i++) {
		const char *name = event_kind_name(ring->kind_base + i);

		if (ring->kinds[i])
			json_object_set_new(kinds, name ? name : "other",
					    section_json_number(ring->kinds[i]));
	}
	return kinds;
}

static json_t *intervals_json(const struct losses *losses, const struct loss_ring *ring)
{
	json_t *list = json_array();

	for (size_t i = 0; i < losses->count; i++) {
		const struct loss_interval *interval = &losses->intervals[i];

		if (interval->kernel != ring->kernel || interval->ring != ring->ring)
			continue;
		json_array_append_new(list, json_pack("{s:o,s:o,s:o,s:o}", "from_ns",
						      section_json_number(interval->from_ns),
						      "to_ns", section_json_number(interval->to_ns),
						      "count", section_json_number(interval->count),
						      "why", section_json_text(interval->why)));
	}
	return list;
}

static json_t *losses_json(void *state)
{
	struct losses *losses = state;
	json_t *list = json_array();
	size_t count;
	struct loss_ring *rings = rings_new(losses, &count);

	for (size_t i = 0; i < count; i++) {
		char name[32];

		snprintf(name, sizeof(name), rings[i].kernel ? "cpu %u" : "thread %u",
			 rings[i].ring);
		json_array_append_new(
			list, json_pack("{s:s,s:o,s:o,s:o,s:o}", "ring", name, "tid",
					rings[i].kernel ? json_null() : json_integer(rings[i].tid),
					"recorded", section_json_number(rings[i].recorded),
					"discarded", kinds_json(&rings[i]), "intervals",
					intervals_json(losses, &rings[i])));
	}
	free(rings);
	return json_pack("{s:o,s:o,s:o,s:o}", "rings", list, "intervals_left_out",
			 section_json_number(losses->left_out), "names_lost",
			 section_json_number(trace_names_lost(losses->report->trace)), "own_events",
			 section_json_number(trace_own_all(losses->report->trace)));
}

/* "call 1,000, send 234" */
static void kinds_text(const struct loss_ring *ring, char *text, size_t size)
{
	size_t used = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < RING_KINDS && used < size; i++) {
		const char *name = event_kind_name(ring->kind_base + i);

		if (ring->kinds[i])
			used += (size_t)snprintf(text + used, size - used, "%s%s %s",
						 used ? ", " : "", name ? name : "other",
						 UNITS_COUNT(ring->kinds[i]));
	}
}

static int rings_print(const struct loss_ring *rings, size_t count, FILE *out)
{
	static const struct table_column columns[] = {
		{"RING", TABLE_LEFT},  {"TID", TABLE_RIGHT},	{"RECORDED", TABLE_RIGHT},
		{"LOST", TABLE_RIGHT}, {"BY KIND", TABLE_FLEX}, {NULL, 0}};
	struct table *table = table_new(columns);
	int error;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		char kinds[256];

		kinds_text(&rings[i], kinds, sizeof(kinds));
		table_cell(table, rings[i].kernel ? "cpu %u" : "thread %u", rings[i].ring);
		if (rings[i].kernel)
			table_cell(table, "%s", "");
		else
			table_cell(table, "%d", rings[i].tid);
		table_cell(table, "%s", UNITS_COUNT(rings[i].recorded));
		table_cell(table, "%s", UNITS_COUNT(rings[i].discarded));
		table_cell(table, "%s", kinds);
	}
	error = table_print(table, out, 2);
	table_free(table);
	return error;
}

static int intervals_print(const struct losses *losses, FILE *out)
{
	static const struct table_column columns[] = {{"FROM", TABLE_LEFT},
						      {"TO", TABLE_LEFT},
						      {"LASTED", TABLE_RIGHT},
						      {"LOST", TABLE_RIGHT},
						      {"RING", TABLE_LEFT},
						      {"WHY", TABLE_LEFT},
						      {NULL, 0}};
	const struct report *report = losses->report;
	struct table *table = table_new(columns);
	size_t limit = section_limit(report);
	int error;

	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < losses->count && i < limit; i++) {
		const struct loss_interval *interval = &losses->intervals[i];

		table_cell(table, "%s", MOMENT_TIME(report->trace, interval->from_ns));
		table_cell(table, "%s", MOMENT_TIME(report->trace, interval->to_ns));
		table_cell(table, "%s",
			   UNITS_DURATION(interval->to_ns > interval->from_ns
						  ? interval->to_ns - interval->from_ns
						  : 0));
		table_cell(table, "%s", UNITS_COUNT(interval->count));
		table_cell(table, interval->kernel ? "cpu %u" : "thread %u", interval->ring);
		table_cell(table, "%s", interval->why ? interval->why : "");
	}
	error = table_print(table, out, 2);
	section_left_out(out, limit, losses->count + losses->left_out, "intervals");
	table_free(table);
	return error;
}

static int losses_text(void *state, FILE *out)
{
	struct losses *losses = state;
	size_t count;
	struct loss_ring *rings = rings_new(losses, &count);
	uint64_t recorded = 0, discarded = 0;
	int error = rings ? 0 : -ENOMEM;

	for (size_t i = 0; i < count; i++) {
		recorded += rings[i].recorded;
		discarded += rings[i].discarded;
	}
	if (!count && !losses->count)
		page_title(out, "Nothing was lost as far as this file tells: it holds no counts.");
	else if (!discarded && !losses->count && trace_damage(losses->report->trace)->no_end)
		page_title(
			out,
			"Nothing was lost as far as the file goes: %s events. Its final counts are "
			"missing.",
			UNITS_COUNT(recorded));
	else if (!discarded && !losses->count)
		page_title(out, "Nothing was lost: %s events recorded.", UNITS_COUNT(recorded));
	else
		page_title(out,
			   "%s events recorded, %s lost. A bigger buffer (record --buffer-size) or "
			   "less to record (-c, --pids) mends it.",
			   UNITS_COUNT(recorded), UNITS_COUNT(discarded));
	if (!error && count)
		error = rings_print(rings, count, out);
	section_own(losses->report, out);
	if (trace_names_lost(losses->report->trace))
		page_title(out,
			   "%s names of processes, functions or atoms found no room: they print as "
			   "numbers.",
			   UNITS_COUNT(trace_names_lost(losses->report->trace)));
	if (!error && losses->count) {
		page_title(out, "When");
		error = intervals_print(losses, out);
	}
	free(rings);
	return error;
}

const struct section section_loss = {.name = "loss",
				     .about = "events that were lost: how many, where, when",
				     .open = losses_open,
				     .json = losses_json,
				     .text = losses_text,
				     .close = losses_close};
