/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder_steps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "meta.h"

#define SLOW_SECONDS 5 /* between clock snapshots and counts, which a cut file is to have */

static struct chunk_clock clock_read(void)
{
	return (struct chunk_clock){.monotonic_ns = clock_of_ns(CLOCK_MONOTONIC),
				    .boottime_ns = clock_of_ns(CLOCK_BOOTTIME),
				    .realtime_ns = clock_of_ns(CLOCK_REALTIME)};
}

int recorder_write_mark(struct recorder *recorder, uint64_t mark_ns)
{
	struct chunk_clock clock = clock_read();
	uint64_t since_ns = clock.monotonic_ns - mark_ns;
	int error = 0;

	clock.monotonic_ns -= since_ns;
	clock.boottime_ns -= since_ns;
	clock.realtime_ns -= since_ns;
	if (recorder->threads_new && recorder->rings)
		error = rings_write_threads(recorder->rings, recorder->writer, clock_ns());
	recorder->threads_new = false;
	if (!error)
		error = file_append(recorder->writer, CHUNK_CLOCK, CLOCK_MARK, &clock,
				    sizeof(clock), NULL, 0);
	return error ? error : file_flush(recorder->writer);
}

static int write_clock(struct recorder *recorder)
{
	struct chunk_clock clock = clock_read();

	return file_append(recorder->writer, CHUNK_CLOCK, 0, &clock, sizeof(clock), NULL, 0);
}

int recorder_write_tasks(struct recorder *recorder)
{
	struct chunk_task *tasks;
	ssize_t count;
	int error = 0;

	if (!recorder->target.pid)
		return 0;
	count = target_threads(&recorder->target, &tasks);
	if (count > 0)
		error = file_append(recorder->writer, CHUNK_TASKS, 0, tasks,
				    (uint32_t)((size_t)count * sizeof(*tasks)), NULL, 0);
	free(tasks);
	return error;
}

int recorder_write_begin(struct recorder *recorder)
{
	int error = write_clock(recorder);

	if (!error)
		error = recorder_write_tasks(recorder);
	samples_read(&recorder->samples);
	if (!error)
		error = samples_write(&recorder->samples, recorder->writer, clock_ns());
	if (!error)
		error = meta_write(recorder);
	return error ? error : file_flush(recorder->writer);
}

static int write_counts(struct recorder *recorder)
{
	uint32_t cpus = recorder->kernel ? kernel_cpus(recorder->kernel) : 0;
	int error = 0;

	if (recorder->rings)
		error = rings_write_threads(recorder->rings, recorder->writer, clock_ns());
	for (uint32_t cpu = 0; cpu < cpus && !error; cpu++) {
		struct probe_counts counts;

		if (!kernel_counts(recorder->kernel, cpu, &counts))
			error = file_append(recorder->writer, CHUNK_COUNTS, cpu, &counts,
					    sizeof(counts), NULL, 0);
	}
	return error;
}

void recorder_count(struct recorder *recorder)
{
	uint32_t cpus = recorder->kernel ? kernel_cpus(recorder->kernel) : 0;
	uint64_t generated = 0, discarded = 0;

	if (recorder->stream || (recorder->rings && !rings_broken())) {
		struct rings_counts counts;

		if (recorder->stream)
			stream_counts(recorder->stream, &counts);
		else
			rings_counts(recorder->rings, &counts);
		recorder->recorded = counts.recorded;
		recorder->discarded = counts.discarded;
		memcpy(recorder->by_kind, counts.by_kind, sizeof(recorder->by_kind));
	}
	memset(recorder->kernel_by_kind, 0, sizeof(recorder->kernel_by_kind));
	for (uint32_t cpu = 0; cpu < cpus; cpu++) {
		struct probe_counts counts;

		if (kernel_counts(recorder->kernel, cpu, &counts))
			continue;
		for (size_t kind = 0; kind < PROBE_KINDS; kind++) {
			generated += counts.generated[kind];
			discarded += counts.discarded[kind];
			recorder->kernel_by_kind[kind] +=
				counts.generated[kind] - counts.discarded[kind];
		}
	}
	recorder->kernel_recorded = generated - discarded;
	recorder->kernel_discarded = discarded;
	recorder->file_bytes = file_bytes(recorder->writer);
}

int recorder_write_second(struct recorder *recorder, uint64_t second)
{
	int error;

	samples_read(&recorder->samples);
	error = samples_write(&recorder->samples, recorder->writer, recorder->now_ns);
	if (!error && second % SLOW_SECONDS == 0) {
		error = write_clock(recorder);
		if (!error)
			error = write_counts(recorder);
		if (!error)
			error = meta_write(recorder);
	}
	return error ? error : file_flush(recorder->writer);
}

static void keep_first(int *first, int error)
{
	if (!*first)
		*first = error;
}

int recorder_write_end(struct recorder *recorder)
{
	int error = 0;

	file_use_reserve(recorder->writer);
	samples_read(&recorder->samples);
	recorder_count(recorder);
	/* The smallest and dearest first: room may end anywhere. */
	keep_first(&error, write_clock(recorder));
	keep_first(&error, meta_write(recorder));
	keep_first(&error, write_counts(recorder));
	keep_first(&error, samples_write(&recorder->samples, recorder->writer, clock_ns()));
	keep_first(&error, recorder_follow(recorder));
	return error;
}
