/* SPDX-License-Identifier: Apache-2.0 */
/* The file's clock and the wall's. */
#include "trace_private.h"

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
