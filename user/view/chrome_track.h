/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_CHROME_TRACK_H
#define BEAMWEAVE_CHROME_TRACK_H

/* The rows of the Trace Event Format: their groups, numbers and names, and what events say of themselves. */

#include "chrome_row.h"
#include "trace.h"

/* The groups, in the order in which viewers show them. */
enum chrome_group {
	ROWS_CPUS = 1,
	ROWS_THREADS = 2,
	ROWS_SCHEDULERS = 3,
	ROWS_ERLANG = 4,
	ROWS_ERLANG_PORTS = 5,
	ROWS_SOCKET = 6,
	ROWS_STALLS = 7,
	ROWS_LOSS = 8,
};

#define CHROME_LABEL 512

struct named_row;

struct chrome {
	struct trace *trace;
	struct chrome_rows rows;
	struct named_row *named;
	uint64_t counts[ROWS_LOSS + 1]; /* rows of each group that were numbered */
	uint64_t from_ns, to_ns, end_ns;
	uint64_t flows, sockets;
	int error;
};

/* The name of a group, and of a row in it. */
void track_group(struct chrome *chrome, enum chrome_group group);
void track_name(struct chrome *chrome, enum chrome_group group, uint64_t row, const char *name);
/* Find the row of `what`, numbered in the order of appearance; *is_new: it has no name yet. */
uint64_t track_find(struct chrome *chrome, enum chrome_group group, uint64_t what, bool *is_new);
/* Erlang processes or Erlang ports. */
enum chrome_group track_word_group(struct chrome *chrome, uint64_t word);
/* The row of a process's runs, which gets its name; that of its calls and collections is the next one. */
uint64_t track_process(struct chrome *chrome, uint64_t word, uint64_t ts_ns);
/* It has a new name. */
void track_rename(struct chrome *chrome, uint64_t word, uint64_t ts_ns);
/* A thread's row in a group is its tid, a CPU's its number and 1. */
uint64_t track_thread(struct chrome *chrome, enum chrome_group group, int32_t tid);
uint64_t track_cpu(struct chrome *chrome, int32_t cpu);
/* "scheduler 1", "1_aux (1234)", "thread 1234" into `buffer`; returns it. */
const char *track_thread_label(struct chrome *chrome, int32_t tid, char *buffer, size_t size);
void tracks_free(struct chrome *chrome);

/* Arguments of the open event; without an MFA, a term or a process none. */
void note_mfa(struct chrome *chrome, const char *key, uint32_t mfa);
void note_term(struct chrome *chrome, const char *key, struct text etf);
void note_arguments(struct chrome *chrome, struct text etf);
void note_process(struct chrome *chrome, const char *key, uint64_t word, uint64_t ts_ns);
void note_open(struct chrome *chrome, bool open);

#endif
