/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TESTS_EXERCISE_H
#define BEAMWEAVE_TESTS_EXERCISE_H

/*
 * Do with a file of any content all that reading can do, and abort where the reader breaks its word:
 * times that go back, rounds that differ, lines that are no JSON or hold control characters.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "trace.h"

#define EXERCISE_LINE (1u << 20)

#define EXERCISE_WANT(condition)                                                                   \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);    \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

struct exercise {
	uint64_t events;
	uint64_t losses;
};

static void exercise_line(struct trace *trace, const struct event *event, char *line)
{
	struct text_builder text;
	json_t *json;

	text_begin(&text, line, EXERCISE_LINE);
	lines_text(trace, event, &text);
	text_finish(&text);
	for (size_t i = 0; i < text.used; i++)
		EXERCISE_WANT((unsigned char)line[i] >= 0x20 && line[i] != 0x7f);
	text_begin(&text, line, EXERCISE_LINE);
	lines_json(trace, event, &text);
	text_finish(&text);
	EXERCISE_WANT(!memchr(line, '\n', text.used));
	/* Words and counts take all 64 bits; jansson's integers have a sign. */
	json = json_loadb(line, text.used, JSON_DECODE_INT_AS_REAL, NULL);
	if (!json)
		fprintf(stderr, "%s\n", line);
	EXERCISE_WANT(json_is_object(json));
	json_decref(json);
}

static struct exercise exercise_round(struct trace *trace, char *line)
{
	struct exercise round = {0};
	struct event event;
	uint64_t last_ns = 0;
	int found;

	while ((found = trace_next(trace, &event)) > 0) {
		EXERCISE_WANT(event.ts_ns >= last_ns);
		last_ns = event.ts_ns;
		round.events++;
		round.losses += event.kind == EVENT_LOSS;
		trace_process_text(trace, event.process);
		trace_process_parent(trace, event.process);
		trace_wall_ns(trace, event.ts_ns);
		if (line)
			exercise_line(trace, &event, line);
	}
	EXERCISE_WANT(!found);
	return round;
}

/* Returns false when the file is no recording at all. */
static bool exercise_file(const char *path, struct exercise *exercise)
{
	struct trace *trace = trace_open(path);
	const struct trace_thread *threads;
	const struct probe_counts *counts;
	const struct chunk_task *tasks;
	const char *const *notes;
	struct exercise again;
	char *line;
	size_t count;

	if (!trace)
		return false;
	line = malloc(EXERCISE_LINE);
	EXERCISE_WANT(line);
	*exercise = exercise_round(trace, line);
	trace_rewind(trace);
	again = exercise_round(trace, NULL);
	EXERCISE_WANT(!memcmp(&again, exercise, sizeof(again)));
	EXERCISE_WANT(json_is_object(trace_meta(trace)));
	EXERCISE_WANT(trace_start_ns(trace) <= trace_end_ns(trace));
	trace_boot_offset_ns(trace);
	trace_tasks(trace, &count);
	for (const struct chunk_task *task = trace_tasks(trace, &count); count--; task++)
		EXERCISE_WANT(memchr(task->comm, 0, sizeof(task->comm)));
	trace_threads(trace, &threads);
	trace_kernel_counts(trace, &counts);
	count = trace_notes(trace, &notes);
	while (count--)
		EXERCISE_WANT(strlen(notes[count]) < (size_t)-1);
	tasks = trace_tasks(trace, &count);
	EXERCISE_WANT(!count || tasks);
	free(line);
	trace_close(trace);
	return true;
}

#endif
