/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_PAGE_H
#define BEAMWEAVE_PAGE_H

/* Text for a terminal. Everything that is printed here is sanitized first. */

#include <stdio.h>

/* Where nothing tells how wide, and the bounds between which a terminal is believed. */
#define PAGE_COLUMNS	   100
#define PAGE_COLUMNS_LEAST 40
#define PAGE_COLUMNS_MOST  160

/* The columns of a line: as COLUMNS says, or the terminal at standard output, else PAGE_COLUMNS. */
size_t page_columns(void);

/*
 * Print text wrapped at spaces: the first line begins at `first` columns, the others at `rest`. A '\n'
 * in the text ends a line.
 */
void page_print(FILE *out, size_t first, size_t rest, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
/* A command to be copied: on one line, however long it is. */
void page_command(FILE *out, size_t indent, const char *command);
/* A title, with an empty line before it. */
void page_title(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
