/* SPDX-License-Identifier: Apache-2.0 */
#include "table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "page.h"
#include "sanitize.h"

#define TABLE_COLUMNS_MAX 24
#define FLEX_LEAST	  8
#define COLUMN_GAP	  2

struct table {
	const struct table_column *columns;
	size_t width; /* columns */
	char **cells;
	size_t count, room;
	bool failed;
};

struct table *table_new(const struct table_column *columns)
{
	struct table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->columns = columns;
	while (columns[table->width].title && table->width < TABLE_COLUMNS_MAX)
		table->width++;
	return table;
}

void table_free(struct table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->count; i++)
		free(table->cells[i]);
	free(table->cells);
	free(table);
}

void table_cell(struct table *table, const char *format, ...)
{
	va_list arguments;
	char *text = NULL;
	int length;

	if (table->count == table->room) {
		size_t room = table->room ? table->room * 2 : 64;
		char **grown = realloc(table->cells, room * sizeof(*grown));

		if (!grown) {
			table->failed = true;
			return;
		}
		table->cells = grown;
		table->room = room;
	}
	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length < 0) {
		table->failed = true;
		return;
	}
	table->cells[table->count] = sanitize_new(text, (size_t)length, 0);
	free(text);
	if (table->cells[table->count])
		table->count++;
	else
		table->failed = true;
}

size_t table_rows(const struct table *table)
{
	return table->width ? table->count / table->width : 0;
}

/* The column that gives way next; table->width when none can. */
static size_t column_widest(const struct table *table, const size_t *widths, bool late)
{
	size_t widest = table->width;

	for (size_t i = 0; i < table->width; i++) {
		enum table_align align = table->columns[i].align;

		if (align < TABLE_FLEX || (align == TABLE_FLEX_LATE) != late ||
		    widths[i] <= FLEX_LEAST)
			continue;
		if (widest == table->width || widths[i] > widths[widest])
			widest = i;
	}
	return widest;
}

static void widths_fit(const struct table *table, size_t *widths, size_t indent)
{
	size_t total = indent;

	for (size_t i = 0; i < table->width; i++) {
		bool filled = false;

		widths[i] = strlen(table->columns[i].title);
		for (size_t row = 0; row < table_rows(table); row++) {
			size_t columns = sanitize_columns(table->cells[row * table->width + i]);

			filled = filled || columns;
			if (columns > widths[i])
				widths[i] = columns;
		}
		/* a column in which nothing stands takes no room, but the first keeps its place */
		if (i && !filled)
			widths[i] = 0;
		total += widths[i] + (widths[i] && i ? COLUMN_GAP : 0);
	}
	while (total > page_columns()) {
		size_t widest = column_widest(table, widths, false);

		if (widest == table->width)
			widest = column_widest(table, widths, true);
		if (widest == table->width)
			break;
		widths[widest]--;
		total--;
	}
}

/* Where the last `columns` columns of a text begin. */
static const char *text_tail(const char *text, size_t columns)
{
	while (sanitize_columns(text) > columns) {
		text++;
		while (((unsigned char)*text & 0xc0) == 0x80)
			text++;
	}
	return text;
}

/* Spaces are held back until something follows them: no line ends with any. */
static void cell_print(FILE *out, const char *text, size_t width, enum table_align align,
		       size_t *spaces)
{
	size_t columns = sanitize_columns(text), pad = columns < width ? width - columns : 0;
	const char *tail = text, *front = "", *back = "";
	size_t bytes = strlen(text);

	if (columns > width && align >= TABLE_FLEX && width > 2) {
		if (align == TABLE_FLEX_TAIL) {
			front = "..";
			tail = text_tail(text, width - 2);
			pad = width - 2 - sanitize_columns(tail);
			bytes = strlen(tail);
		} else {
			back = "..";
			bytes = sanitize_prefix(text, width - 2, &columns);
			pad = width - 2 - columns;
		}
	}
	if (align == TABLE_RIGHT)
		*spaces += pad;
	if (bytes) {
		fprintf(out, "%*s%s%.*s%s", (int)*spaces, "", front, (int)bytes, tail, back);
		*spaces = 0;
	}
	if (align != TABLE_RIGHT)
		*spaces += pad;
	*spaces += COLUMN_GAP;
}

static void row_print(const struct table *table, FILE *out, size_t indent, const size_t *widths,
		      char *const *cells)
{
	size_t spaces = indent;

	for (size_t i = 0; i < table->width; i++)
		if (widths[i])
			cell_print(out, cells ? cells[i] : table->columns[i].title, widths[i],
				   table->columns[i].align, &spaces);
	fputc('\n', out);
}

int table_print(const struct table *table, FILE *out, size_t indent)
{
	size_t widths[TABLE_COLUMNS_MAX], rows = table_rows(table);

	if (!rows)
		return table->failed ? -ENOMEM : 0;
	widths_fit(table, widths, indent);
	row_print(table, out, indent, widths, NULL);
	for (size_t row = 0; row < rows; row++)
		row_print(table, out, indent, widths, &table->cells[row * table->width]);
	return table->failed ? -ENOMEM : 0;
}
