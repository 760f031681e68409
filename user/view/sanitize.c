/* SPDX-License-Identifier: Apache-2.0 */
#include "sanitize.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

static size_t sanitize(char *out, size_t size, const char *in, size_t bytes, int lines)
{
	size_t length = 0;

	if (!size)
		return 0;
	for (size_t i = 0; i < bytes;) {
		uint32_t point = 0;
		size_t step = utf8_read(in + i, bytes - i, &point);
		int keep = step && (!utf8_harmful(point) || (lines && point == '\n'));
		size_t room = keep ? step : 1;

		if (length + room >= size)
			break;
		if (keep)
			memcpy(out + length, in + i, step);
		else
			out[length] = '?';
		length += room;
		i += step ? step : 1;
	}
	out[length] = 0;
	return length;
}

size_t sanitize_copy(char *out, size_t size, const char *in, size_t bytes)
{
	return sanitize(out, size, in, bytes, 0);
}

char *sanitize_new(const char *in, size_t bytes, int lines)
{
	char *out = malloc(bytes + 1);

	if (out)
		sanitize(out, bytes + 1, in, bytes, lines);
	return out;
}

static size_t point_columns(uint32_t point)
{
	if ((point >= 0x300 && point <= 0x36f) || (point >= 0xfe00 && point <= 0xfe0f))
		return 0;
	if ((point >= 0x1100 && point <= 0x115f) || (point >= 0x2e80 && point <= 0xa4cf) ||
	    (point >= 0xac00 && point <= 0xd7a3) || (point >= 0xf900 && point <= 0xfaff) ||
	    (point >= 0xfe30 && point <= 0xfe6f) || (point >= 0xff00 && point <= 0xff60) ||
	    (point >= 0xffe0 && point <= 0xffe6) || (point >= 0x1f300 && point <= 0x1faff) ||
	    (point >= 0x20000 && point <= 0x3fffd))
		return 2;
	return 1;
}

static size_t measure(const char *text, size_t limit, size_t *columns)
{
	size_t bytes = strlen(text), i = 0;

	*columns = 0;
	while (i < bytes) {
		uint32_t point = 0;
		size_t step = utf8_read(text + i, bytes - i, &point);
		size_t width = step ? point_columns(point) : 1;

		if (*columns + width > limit)
			break;
		*columns += width;
		i += step ? step : 1;
	}
	return i;
}

size_t sanitize_columns(const char *text)
{
	size_t columns;

	measure(text, SIZE_MAX, &columns);
	return columns;
}

size_t sanitize_prefix(const char *text, size_t columns, size_t *used)
{
	size_t ignored;

	return measure(text, columns, used ? used : &ignored);
}
