/* SPDX-License-Identifier: Apache-2.0 */
#include "amount.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	double factor;
};

static int amount_parse(const char *text, const struct unit *units, double *value)
{
	char *end;

	errno = 0;
	/* strtod takes "inf", "nan" and hexadecimal numbers too */
	if (!strchr("0123456789.", *text) || !*text || strchr(text, 'x'))
		return -EINVAL;
	*value = strtod(text, &end);
	if (errno || end == text || !isfinite(*value))
		return -EINVAL;
	for (; units->name; units++) {
		if (!strcmp(end, units->name)) {
			*value *= units->factor;
			return *value < 9e18 ? 0 : -EINVAL;
		}
	}
	return -EINVAL;
}

int amount_duration(const char *text, uint64_t *ns)
{
	static const struct unit units[] = {
		{"", 1e9},   {"s", 1e9},    {"ms", 1e6},   {"us", 1e3}, {"ns", 1},
		{"m", 60e9}, {"min", 60e9}, {"h", 3600e9}, {NULL, 0},
	};
	double value;
	int error = amount_parse(text, units, &value);

	if (!error)
		*ns = (uint64_t)value;
	return error;
}

int amount_bytes(const char *text, uint64_t *bytes)
{
	static const struct unit units[] = {
		{"", 1},	  {"B", 1},	    {"k", 1 << 10},   {"K", 1 << 10},
		{"kB", 1 << 10},  {"KB", 1 << 10},  {"KiB", 1 << 10}, {"M", 1 << 20},
		{"MB", 1 << 20},  {"MiB", 1 << 20}, {"G", 1 << 30},   {"GB", 1 << 30},
		{"GiB", 1 << 30}, {"T", 0x1p40},    {NULL, 0},
	};
	double value;
	int error = amount_parse(text, units, &value);

	if (!error)
		*bytes = (uint64_t)value;
	return error;
}

int amount_count(const char *text, uint64_t *count)
{
	static const struct unit units[] = {
		{"", 1}, {"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {NULL, 0},
	};
	double value;
	int error = amount_parse(text, units, &value);

	if (!error)
		*count = (uint64_t)value;
	return error;
}

int amount_list(const char *text, const struct amount_name *names, uint32_t *bits, const char **at,
		size_t *bytes)
{
	for (;;) {
		size_t length = strcspn(text, ",");
		const struct amount_name *name = names;

		while (name->name &&
		       (strlen(name->name) != length || strncmp(name->name, text, length)))
			name++;
		if (!name->name) {
			*at = text;
			*bytes = length;
			return -EINVAL;
		}
		*bits |= name->bit;
		if (!text[length])
			return 0;
		text += length + 1;
	}
}
