/* SPDX-License-Identifier: Apache-2.0 */
#include "page.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sanitize.h"

size_t page_columns(void)
{
	const char *variable = getenv("COLUMNS");
	struct winsize size;
	long columns = variable ? strtol(variable, NULL, 10) : 0;

	if (columns <= 0 && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		columns = size.ws_col;
	if (columns <= 0)
		return PAGE_COLUMNS;
	if (columns < PAGE_COLUMNS_LEAST)
		return PAGE_COLUMNS_LEAST;
	return columns > PAGE_COLUMNS_MOST ? PAGE_COLUMNS_MOST : (size_t)columns;
}

static void line_wrap(FILE *out, size_t first, size_t rest, char *line)
{
	size_t columns = page_columns(), indent = first;

	do {
		size_t room = columns - indent, fits = sanitize_prefix(line, room, NULL),
		       next = fits;

		if (line[fits]) {
			size_t space = fits;

			while (space && line[space] != ' ')
				space--;
			/* a word longer than a line is cut where the line ends */
			if (space)
				fits = next = space;
			if (!fits)
				fits = next = 1;
		}
		while (line[next] == ' ')
			next++;
		while (fits && line[fits - 1] == ' ')
			fits--;
		fprintf(out, "%*s%.*s\n", fits ? (int)indent : 0, "", (int)fits, line);
		line += next;
		indent = rest;
	} while (*line);
}

static void text_wrap(FILE *out, size_t first, size_t rest, const char *format, va_list arguments)
{
	char *text = NULL, *clean, *line, *next;
	int length = vasprintf(&text, format, arguments);

	if (length < 0)
		return;
	clean = sanitize_new(text, (size_t)length, 1);
	for (line = clean; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		line_wrap(out, first, rest, line);
		first = rest;
	}
	free(clean);
	free(text);
}

void page_print(FILE *out, size_t first, size_t rest, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	text_wrap(out, first, rest, format, arguments);
	va_end(arguments);
}

void page_command(FILE *out, size_t indent, const char *command)
{
	char *clean = sanitize_new(command, strlen(command), 0);

	fprintf(out, "%*s%s\n", (int)indent, "", clean ? clean : "");
	free(clean);
}

void page_title(FILE *out, const char *format, ...)
{
	va_list arguments;

	fputc('\n', out);
	va_start(arguments, format);
	text_wrap(out, 0, 2, format, arguments);
	va_end(arguments);
}
