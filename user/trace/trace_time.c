// SPDX-License-Identifier: Apache-2.0
/* The file's clock and people's. */
#include "trace_private.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS     1000000000ull
#define DAY_NS	      (24 * 3600 * SECOND_NS)
#define CLOCK_STEP_NS 100000000 /* a clock that differs by more was set, not slewed */

uint64_t trace_start_ns(const struct trace *trace)
{
	uint64_t start = trace->clock_count ? trace->clocks[0].monotonic_ns
					    : trace->file.header.created_ns;

	if (!trace->clock_count && trace->first_ns != UINT64_MAX)
		return trace->first_ns;
	return trace->first_ns < start ? trace->first_ns : start;
}

uint64_t trace_end_ns(const struct trace *trace)
{
	uint64_t end = trace->clock_count ? trace->clocks[trace->clock_count - 1].monotonic_ns
					  : trace_start_ns(trace);

	return trace->last_ns > end ? trace->last_ns : end;
}

static int64_t clock_offset(const struct chunk_clock *clock)
{
	return (int64_t)(clock->realtime_ns - clock->monotonic_ns);
}

static uint64_t offset_add(uint64_t ts_ns, int64_t offset)
{
	return ts_ns + (uint64_t)offset;
}

uint64_t trace_wall_ns(const struct trace *trace, uint64_t ts_ns)
{
	const struct chunk_clock *clocks = trace->clocks;
	size_t low = 0, high = trace->clock_count;
	int64_t before, after;
	double share;

	if (!trace->clock_count)
		return ts_ns;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (clocks[middle].monotonic_ns <= ts_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low)
		return offset_add(ts_ns, clock_offset(&clocks[0]));
	before = clock_offset(&clocks[low - 1]);
	if (low == trace->clock_count)
		return offset_add(ts_ns, before);
	after = clock_offset(&clocks[low]);
	if (before == after ||
	    (uint64_t)before - (uint64_t)after + CLOCK_STEP_NS > 2 * CLOCK_STEP_NS)
		return offset_add(ts_ns, before);
	share = (double)(ts_ns - clocks[low - 1].monotonic_ns) /
		(double)(clocks[low].monotonic_ns - clocks[low - 1].monotonic_ns);
	return offset_add(ts_ns, before + (int64_t)((double)(after - before) * share));
}

int64_t trace_boot_offset_ns(const struct trace *trace)
{
	if (!trace->clock_count)
		return 0;
	return (int64_t)(trace->clocks[0].boottime_ns - trace->clocks[0].monotonic_ns);
}

/* ---- People's texts ---- */

static bool wall_split(uint64_t wall_ns, struct tm *local)
{
	time_t seconds = (time_t)(wall_ns / SECOND_NS);

	return localtime_r(&seconds, local) != NULL;
}

size_t trace_time_text(const struct trace *trace, uint64_t ts_ns, char *buffer, size_t size)
{
	uint64_t wall_ns = trace_wall_ns(trace, ts_ns);
	struct tm local;
	int bytes;

	if (!wall_split(wall_ns, &local))
		memset(&local, 0, sizeof(local));
	bytes = snprintf(buffer, size, "%02d:%02d:%02d.%06u", local.tm_hour, local.tm_min,
			 local.tm_sec, (unsigned int)(wall_ns % SECOND_NS / 1000));
	return bytes < 0 || (size_t)bytes >= size ? 0 : (size_t)bytes;
}

/* ".25" after a second. Returns false when there is something else. */
static bool fraction_parse(const char *text, uint64_t *ns)
{
	uint64_t unit = SECOND_NS / 10;

	*ns = 0;
	if (!*text)
		return true;
	if (*text++ != '.' || !*text)
		return false;
	for (; *text; text++, unit /= 10) {
		if (!isdigit((unsigned char)*text))
			return false;
		*ns += unit * (uint64_t)(*text - '0');
	}
	return true;
}

/* "1.5s", "300ms", a bare number is seconds. */
static int duration_parse(const char *text, uint64_t *ns)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"", 1e9}, {"s", 1e9},    {"ms", 1e6}, {"us", 1e3},
		     {"ns", 1}, {"min", 60e9}, {"m", 60e9}, {"h", 3600e9}};
	char *end;
	double value;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	value = strtod(text, &end);
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcmp(end, units[i].name))
			continue;
		value *= units[i].ns;
		if (!(value < 9e18))
			return -EINVAL;
		*ns = (uint64_t)value;
		return 0;
	}
	return -EINVAL;
}

/* The moment at which the wall clock showed `wall_ns`, looking from the start. */
static uint64_t wall_invert(const struct trace *trace, uint64_t wall_ns)
{
	uint64_t ts_ns = offset_add(
		wall_ns,
		-(int64_t)(trace_wall_ns(trace, trace_start_ns(trace)) - trace_start_ns(trace)));

	/* The clocks drift by parts in a million: two steps are exact. */
	for (int i = 0; i < 2; i++)
		ts_ns += wall_ns - trace_wall_ns(trace, ts_ns);
	return ts_ns;
}

int trace_parse_time(const struct trace *trace, const char *text, uint64_t *ts_ns)
{
	uint64_t start_ns = trace_start_ns(trace), fraction_ns, wall_ns;
	struct tm local, start;
	const char *rest;
	bool dated = true;
	time_t seconds;

	if (*text == '+') {
		int error = duration_parse(text + 1, &fraction_ns);

		if (!error)
			*ts_ns = start_ns + fraction_ns;
		return error;
	}
	if (!wall_split(trace_wall_ns(trace, start_ns), &start))
		return -EINVAL;
	local = start;
	rest = strptime(text, "%Y-%m-%d %H:%M:%S", &local);
	if (!rest)
		rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &local);
	if (!rest) {
		local = start;
		dated = false;
		rest = strptime(text, "%H:%M:%S", &local);
	}
	if (!rest || !fraction_parse(rest, &fraction_ns))
		return -EINVAL;
	local.tm_isdst = -1;
	seconds = mktime(&local);
	if (seconds < 0)
		return -EINVAL;
	wall_ns = (uint64_t)seconds * SECOND_NS + fraction_ns;
	*ts_ns = wall_invert(trace, wall_ns);
	/* A recording over midnight: "00:01:00" is a minute after it. */
	if (!dated && *ts_ns < start_ns && start_ns - *ts_ns > DAY_NS / 2 &&
	    *ts_ns + DAY_NS <= trace_end_ns(trace) + SECOND_NS)
		*ts_ns += DAY_NS;
	return 0;
}
