/* SPDX-License-Identifier: Apache-2.0 */
#include "moment.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "units.h"

#define SECOND_NS 1000000000ULL
#define DAYS_MAX  1000 /* of a recording in which a time of day is looked for */

static struct tm moment_local(const struct trace *trace, uint64_t ts_ns, uint64_t *fraction_ns)
{
	uint64_t wall_ns = trace_wall_ns(trace, ts_ns);
	time_t seconds = (time_t)(wall_ns / SECOND_NS);
	struct tm local = {0};

	*fraction_ns = wall_ns % SECOND_NS;
	localtime_r(&seconds, &local);
	return local;
}

char *moment_time(char buffer[static MOMENT_TEXT], const struct trace *trace, uint64_t ts_ns)
{
	uint64_t fraction_ns;
	struct tm local = moment_local(trace, ts_ns, &fraction_ns);
	size_t length = strftime(buffer, MOMENT_TEXT, "%H:%M:%S", &local);

	snprintf(buffer + length, MOMENT_TEXT - length, ".%06" PRIu64, fraction_ns / 1000);
	return buffer;
}

char *moment_seconds(char buffer[static MOMENT_TEXT], const struct trace *trace, uint64_t ts_ns)
{
	uint64_t fraction_ns;
	struct tm local = moment_local(trace, ts_ns, &fraction_ns);

	strftime(buffer, MOMENT_TEXT, "%H:%M:%S", &local);
	return buffer;
}

char *moment_date(char buffer[static MOMENT_TEXT], const struct trace *trace, uint64_t ts_ns)
{
	uint64_t fraction_ns;
	struct tm local = moment_local(trace, ts_ns, &fraction_ns);

	/* a hostile file's year may have more digits than fit: never unterminated */
	if (!strftime(buffer, MOMENT_TEXT, "%Y-%m-%d %H:%M:%S", &local))
		buffer[0] = 0;
	return buffer;
}

char *moment_iso(char buffer[static MOMENT_TEXT], const struct trace *trace, uint64_t ts_ns)
{
	uint64_t fraction_ns;
	struct tm local = moment_local(trace, ts_ns, &fraction_ns);
	long offset = local.tm_gmtoff < 0 ? -local.tm_gmtoff : local.tm_gmtoff;
	size_t length = strftime(buffer, MOMENT_TEXT, "%Y-%m-%dT%H:%M:%S", &local);

	snprintf(buffer + length, MOMENT_TEXT - length, ".%06" PRIu64 "%c%02ld:%02ld",
		 fraction_ns / 1000, local.tm_gmtoff < 0 ? '-' : '+', offset / 3600 % 100,
		 offset / 60 % 60);
	return buffer;
}

/* "14", "14:03", "14:03:05.123": two digits a part; returns the position after, NULL when malformed. */
static const char *clock_part(const char *text, int most, int *value)
{
	if (!isdigit((unsigned char)text[0]) || !isdigit((unsigned char)text[1]))
		return NULL;
	*value = (text[0] - '0') * 10 + (text[1] - '0');
	return *value <= most ? text + 2 : NULL;
}

static int clock_parse(const char *text, struct tm *local, uint64_t *fraction_ns)
{
	uint64_t weight_ns = SECOND_NS / 10;

	*fraction_ns = 0;
	local->tm_sec = 0;
	text = clock_part(text, 23, &local->tm_hour);
	if (!text || *text++ != ':')
		return -EINVAL;
	text = clock_part(text, 59, &local->tm_min);
	if (!text)
		return -EINVAL;
	if (*text == ':') {
		text = clock_part(text + 1, 60, &local->tm_sec);
		if (!text)
			return -EINVAL;
		if (*text == '.' || *text == ',') {
			if (!isdigit((unsigned char)*++text))
				return -EINVAL;
			for (; isdigit((unsigned char)*text); text++, weight_ns /= 10)
				*fraction_ns += (uint64_t)(*text - '0') * weight_ns;
		}
	}
	return *text ? -EINVAL : 0;
}

/* CLOCK_MONOTONIC of a wall-clock time: the trace knows only the other direction. */
static uint64_t moment_of_wall(const struct trace *trace, uint64_t wall_ns)
{
	uint64_t ts_ns = trace_start_ns(trace);

	/* the clocks' rates differ by parts in a million: the second step is already exact */
	for (int i = 0; i < 4; i++) {
		int64_t off_ns = (int64_t)(wall_ns - trace_wall_ns(trace, ts_ns));

		if (off_ns < 0 && (uint64_t)-off_ns > ts_ns)
			return 0;
		ts_ns += (uint64_t)off_ns;
	}
	return ts_ns;
}

int moment_parse(const struct trace *trace, const char *text, uint64_t *ts_ns)
{
	uint64_t start_ns = trace_start_ns(trace), end_ns = trace_end_ns(trace);
	uint64_t best_off_ns = UINT64_MAX, wall_start_ns, wall_end_ns, fraction_ns, value;
	size_t length = strlen(text);
	struct tm typed, base;

	if (*text == '+') {
		if (units_parse_duration(text + 1, &value) ||
		    __builtin_add_overflow(start_ns, value, ts_ns))
			return -EINVAL;
		return 0;
	}
	if (length > 2 && !strcmp(text + length - 2, "ns"))
		return units_parse_duration(text, ts_ns) ? -EINVAL : 0;
	base = moment_local(trace, start_ns, &value);
	typed = base;
	if (clock_parse(text, &typed, &fraction_ns))
		return -EINVAL;
	wall_start_ns = trace_wall_ns(trace, start_ns);
	wall_end_ns = trace_wall_ns(trace, end_ns);
	for (int day = -1; day < DAYS_MAX; day++) {
		struct tm local = typed;
		uint64_t wall_ns, off_ns;
		time_t seconds;

		local.tm_mday = base.tm_mday + day;
		local.tm_isdst = -1;
		seconds = mktime(&local);
		if (seconds < 0)
			continue;
		wall_ns = (uint64_t)seconds * SECOND_NS + fraction_ns;
		off_ns = wall_ns < wall_start_ns ? wall_start_ns - wall_ns
			 : wall_ns > wall_end_ns ? wall_ns - wall_end_ns
						 : 0;
		if (off_ns < best_off_ns) {
			best_off_ns = off_ns;
			*ts_ns = moment_of_wall(trace, wall_ns);
		}
		if (wall_ns > wall_end_ns)
			break;
	}
	return best_off_ns == UINT64_MAX ? -EINVAL : 0;
}
