/* SPDX-License-Identifier: Apache-2.0 */
#include "chrome_track.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "perfetto_erlang.h"
#include "text.h"

static const char *const group_names[] = {
	[ROWS_CPUS] = "CPUs",
	[ROWS_THREADS] = "Threads of the VM",
	[ROWS_SCHEDULERS] = "Schedulers",
	[ROWS_ERLANG] = "Erlang processes",
	[ROWS_ERLANG_PORTS] = "Erlang ports",
	[ROWS_SOCKET] = "Sockets",
	[ROWS_STALLS] = "Stalls",
	[ROWS_LOSS] = "Lost events",
};

/* A row that has its name. */
struct named_row {
	uint64_t key; /* group << 56 | what the row is of */
	uint64_t number; /* in its group, from 1 */
	UT_hash_handle hh;
};

static void meta_write(struct chrome *chrome, const char *what, enum chrome_group group,
		       uint64_t row, const char *name)
{
	row_begin(&chrome->rows, 'M', group, row, what, NULL);
	row_text(&chrome->rows, "name", name);
	row_end(&chrome->rows);
}

void track_name(struct chrome *chrome, enum chrome_group group, uint64_t row, const char *name)
{
	meta_write(chrome, "thread_name", group, row, name);
	row_begin(&chrome->rows, 'M', group, row, "thread_sort_index", NULL);
	row_number(&chrome->rows, "sort_index", row);
	row_end(&chrome->rows);
}

/* Find the row of `what`, numbered in the order of appearance; *is_new: it has no name yet. */
uint64_t track_find(struct chrome *chrome, enum chrome_group group, uint64_t what, bool *is_new)
{
	const uint64_t key = (uint64_t)group << 56 ^ what;
	struct named_row *row;

	HASH_FIND(hh, chrome->named, &key, sizeof(key), row);
	*is_new = !row;
	if (row)
		return row->number;
	row = calloc(1, sizeof(*row));
	if (!row) {
		chrome->error = -ENOMEM;
		*is_new = false;
		return 0;
	}
	row->key = key;
	row->number = ++chrome->counts[group];
	HASH_ADD(hh, chrome->named, key, sizeof(row->key), row);
	return row->number;
}

enum chrome_group track_word_group(struct chrome *chrome, uint64_t word)
{
	return trace_process_text(chrome->trace, word)[0] == '#' ? ROWS_ERLANG_PORTS : ROWS_ERLANG;
}

static void process_name(struct chrome *chrome, uint64_t word, uint64_t number, uint64_t ts_ns)
{
	enum chrome_group group = track_word_group(chrome, word);
	char label[CHROME_LABEL], calls[CHROME_LABEL + 32];

	perfetto_process_label(chrome->trace, word, ts_ns, label, sizeof(label));
	track_name(chrome, group, 2 * number, label);
	if (group == ROWS_ERLANG) {
		snprintf(calls, sizeof(calls), "%s calls and GC", label);
		track_name(chrome, group, 2 * number + 1, calls);
	}
}

/* The row of a process's runs; that of its calls and collections is the next one. */
uint64_t track_process(struct chrome *chrome, uint64_t word, uint64_t ts_ns)
{
	bool is_new;
	uint64_t number = track_find(chrome, track_word_group(chrome, word), word, &is_new);

	if (is_new)
		process_name(chrome, word, number, ts_ns);
	return 2 * number;
}

const char *track_thread_label(struct chrome *chrome, int32_t tid, char *buffer, size_t size)
{
	const struct trace_thread *threads;
	size_t count = trace_threads(chrome->trace, &threads);
	size_t tasks;
	const struct chunk_task *task = trace_tasks(chrome->trace, &tasks);
	struct text_builder text;

	for (size_t i = 0; i < count; i++)
		if (threads[i].tid == tid)
			return perfetto_thread_label(buffer, size, threads[i].role,
						     threads[i].number, tid);
	text_begin(&text, buffer, size);
	for (size_t i = 0; i < tasks; i++) {
		if (task[i].tid != tid)
			continue;
		text_add_clean(&text, task[i].comm, strnlen(task[i].comm, sizeof(task[i].comm)));
		text_format(&text, " (%d)", tid);
		return buffer;
	}
	text_format(&text, "thread %d", tid);
	return buffer;
}

/* A thread's row in a group is its tid. */
uint64_t track_thread(struct chrome *chrome, enum chrome_group group, int32_t tid)
{
	uint64_t row = tid > 0 ? (uint64_t)tid : 0;
	char label[64];
	bool is_new;

	track_find(chrome, group, row, &is_new);
	if (is_new)
		track_name(chrome, group, row,
			   track_thread_label(chrome, tid, label, sizeof(label)));
	return row;
}

uint64_t track_cpu(struct chrome *chrome, int32_t cpu)
{
	uint64_t row = cpu >= 0 ? (uint64_t)cpu + 1 : 0;
	char label[32];
	bool is_new;

	track_find(chrome, ROWS_CPUS, row, &is_new);
	snprintf(label, sizeof(label), cpu >= 0 ? "CPU %d" : "CPU unknown", cpu);
	if (is_new)
		track_name(chrome, ROWS_CPUS, row, label);
	return row;
}

void note_mfa(struct chrome *chrome, const char *key, uint32_t mfa)
{
	if (mfa != RING_NO_INDEX)
		row_text(&chrome->rows, key, trace_mfa(chrome->trace, mfa));
}

void note_term(struct chrome *chrome, const char *key, struct text etf)
{
	char text[ROW_TERM_BYTES];

	if (!etf.bytes)
		return;
	trace_term_text(chrome->trace, etf, text, sizeof(text));
	row_text(&chrome->rows, key, text);
}

void note_arguments(struct chrome *chrome, struct text etf)
{
	char text[ROW_TERM_BYTES];

	if (!etf.bytes)
		return;
	trace_arguments_text(chrome->trace, etf, text, sizeof(text));
	row_text(&chrome->rows, "arguments", text);
}

void note_process(struct chrome *chrome, const char *key, uint64_t word, uint64_t ts_ns)
{
	char label[CHROME_LABEL];

	if (word)
		row_text(&chrome->rows, key,
			 perfetto_process_label(chrome->trace, word, ts_ns, label, sizeof(label)));
}

void note_open(struct chrome *chrome, bool open)
{
	if (open)
		row_flag(&chrome->rows, "cut by the end of the recording", true);
}

void track_group(struct chrome *chrome, enum chrome_group group)
{
	meta_write(chrome, "process_name", group, 0, group_names[group]);
	row_begin(&chrome->rows, 'M', (uint64_t)group, 0, "process_sort_index", NULL);
	row_number(&chrome->rows, "sort_index", (uint64_t)group);
	row_end(&chrome->rows);
}

void track_rename(struct chrome *chrome, uint64_t word, uint64_t ts_ns)
{
	process_name(chrome, word, track_process(chrome, word, ts_ns) / 2, ts_ns);
}

void tracks_free(struct chrome *chrome)
{
	struct named_row *row, *next;

	HASH_ITER (hh, chrome->named, row, next) {
		HASH_DEL(chrome->named, row);
		free(row);
	}
}
