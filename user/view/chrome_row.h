/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_CHROME_ROW_H
#define BEAMWEAVE_CHROME_ROW_H

/*
 * The Trace Event Format, an event at a time: row_begin() or what builds on it, then keys of "args",
 * then row_end(). Texts must be harmless already (sanitized); they are escaped here.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define ROW_TERM_BYTES 2048 /* of a captured term's text */
#define ROW_BYTES      65536 /* of an event: names, labels and terms are bounded */

struct chrome_rows {
	FILE *out;
	bool any; /* something was written: a comma comes first */
	bool args; /* "args" of the open event is begun */
	int error; /* the first one, negative errno */
};

/* The object around the events. */
void rows_begin(struct chrome_rows *rows);
void rows_end(struct chrome_rows *rows);

/* An event of a phase; `category` may be NULL. `pid` is a group, `tid` a row in it. */
void row_begin(struct chrome_rows *rows, char phase, uint64_t pid, uint64_t tid, const char *name,
	       const char *category);
/* "ts", for the phases that have one, and "id", for those that are paired by it. Before any argument. */
void row_time(struct chrome_rows *rows, uint64_t ts_ns);
void row_id(struct chrome_rows *rows, uint64_t id);
/* A complete event and an instant, with their times. */
void row_slice(struct chrome_rows *rows, uint64_t pid, uint64_t tid, const char *category,
	       const char *name, uint64_t start_ns, uint64_t end_ns);
void row_instant(struct chrome_rows *rows, uint64_t pid, uint64_t tid, const char *category,
		 const char *name, uint64_t ts_ns);
/* Arguments. */
void row_text(struct chrome_rows *rows, const char *key, const char *value);
void row_number(struct chrome_rows *rows, const char *key, uint64_t value);
void row_flag(struct chrome_rows *rows, const char *key, bool value);
void row_end(struct chrome_rows *rows);

#endif
