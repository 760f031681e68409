/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TABLE_H
#define BEAMWEAVE_TABLE_H

/*
 * A table of text in at most page_columns(): cells are sanitized, columns as wide as their
 * widest cell. When that is too wide, the columns marked TABLE_FLEX give way, the widest first, and
 * their long cells are cut with "..". Columns in which no row has anything are left out.
 */

#include <stdio.h>

struct table;

enum table_align {
	TABLE_LEFT = 0,
	TABLE_RIGHT = 1,
	TABLE_FLEX = 2, /* left, and may be cut at its end */
	TABLE_FLEX_TAIL = 3, /* left, and may be cut at its front: functions */
	TABLE_FLEX_LATE = 4, /* left, and is cut only when the others have given what they can */
};

struct table_column {
	const char *title;
	enum table_align align;
};

/* `columns` ends with a NULL title; it must outlive the table. NULL without memory. */
struct table *table_new(const struct table_column *columns);
void table_free(struct table *table);
/* The next cell, row by row; "" leaves it empty. A lack of memory shows in table_print(). */
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Rows that are complete. */
size_t table_rows(const struct table *table);
/* Print, each line `indent` columns in. Prints nothing without rows. Returns 0 or -ENOMEM. */
int table_print(const struct table *table, FILE *out, size_t indent);

#endif
