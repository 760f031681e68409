/* SPDX-License-Identifier: Apache-2.0 */
#include "units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* `value` / `scale` with three digits that count; `scale` is a power of 10. */
static int scaled_print(char *buffer, uint64_t value, uint64_t scale, const char *unit)
{
	uint64_t whole = value / scale;
	uint64_t step = whole >= 100 ? scale : whole >= 10 ? scale / 10 : scale / 100;
	uint64_t rounded;

	if (!step)
		step = 1;
	rounded = (value / step + (value % step >= (step + 1) / 2)) * step;
	whole = rounded / scale;
	if (whole >= 1000)
		return -ERANGE;
	if (whole >= 100 || scale == 1)
		snprintf(buffer, UNITS_TEXT, "%" PRIu64 " %s", whole, unit);
	else if (whole >= 10)
		snprintf(buffer, UNITS_TEXT, "%" PRIu64 ".%" PRIu64 " %s", whole,
			 rounded % scale / (scale / 10), unit);
	else
		snprintf(buffer, UNITS_TEXT, "%" PRIu64 ".%02" PRIu64 " %s", whole,
			 rounded % scale / (scale / 100), unit);
	return 0;
}

char *units_duration(char buffer[static UNITS_TEXT], uint64_t ns)
{
	static const struct {
		uint64_t scale;
		const char *unit;
	} scales[] = {{1, "ns"}, {1000, "us"}, {1000000, "ms"}, {1000000000, "s"}};
	uint64_t seconds = ns / 1000000000 + (ns % 1000000000 >= 500000000);

	if (ns < 59995000000) {
		for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++)
			if (ns / 1000 < scales[i].scale &&
			    !scaled_print(buffer, ns, scales[i].scale, scales[i].unit))
				return buffer;
	}
	if (seconds < 3600)
		snprintf(buffer, UNITS_TEXT, "%" PRIu64 " min %02" PRIu64 " s", seconds / 60,
			 seconds % 60);
	else
		snprintf(buffer, UNITS_TEXT, "%" PRIu64 " h %02" PRIu64 " min", seconds / 3600,
			 seconds % 3600 / 60);
	return buffer;
}

char *units_bytes(char buffer[static UNITS_TEXT], uint64_t bytes)
{
	static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
	uint64_t scale = 1;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++, scale *= 1000)
		if (bytes / scale < 1000 && !scaled_print(buffer, bytes, scale, units[i]))
			break;
	return buffer;
}

char *units_count(char buffer[static UNITS_TEXT], uint64_t count)
{
	char digits[UNITS_TEXT];
	size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, count), out = 0;

	for (size_t i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			buffer[out++] = ',';
		buffer[out++] = digits[i];
	}
	buffer[out] = 0;
	return buffer;
}

int units_parse_duration(const char *text, uint64_t *ns)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {
		{"ns", 1},	  {"us", 1000},	      {"ms", 1000000},	    {"s", 1000000000},
		{"", 1000000000}, {"m", 60000000000}, {"min", 60000000000}, {"h", 3600000000000}};
	const char *at = text, *fraction = NULL;
	uint64_t whole = 0, unit_ns = 0, total;

	if (!isdigit((unsigned char)*at))
		return -EINVAL;
	for (; isdigit((unsigned char)*at); at++)
		if (__builtin_mul_overflow(whole, 10, &whole) ||
		    __builtin_add_overflow(whole, (uint64_t)(*at - '0'), &whole))
			return -ERANGE;
	if (*at == '.') {
		fraction = ++at;
		if (!isdigit((unsigned char)*at))
			return -EINVAL;
		while (isdigit((unsigned char)*at))
			at++;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(at, units[i].unit))
			unit_ns = units[i].ns;
	if (!unit_ns)
		return -EINVAL;
	if (__builtin_mul_overflow(whole, unit_ns, &total))
		return -ERANGE;
	/* digits beyond a nanosecond are cut off */
	for (uint64_t part = unit_ns; fraction && isdigit((unsigned char)*fraction); fraction++) {
		uint64_t digit_ns = part / 10 * (uint64_t)(*fraction - '0');

		if (part % 10)
			digit_ns += part % 10 * (uint64_t)(*fraction - '0') / 10;
		part /= 10;
		if (__builtin_add_overflow(total, digit_ns, &total))
			return -ERANGE;
	}
	*ns = total;
	return 0;
}
