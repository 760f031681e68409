/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_REPORT_FIXTURE_H
#define BEAMWEAVE_REPORT_FIXTURE_H

/* A recording of ten seconds for tests of reports; cmocka.h comes before. */

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "section.h"

#define SECOND 1000000000ULL
#define START  (1000 * SECOND)
#define END    (1010 * SECOND)
#define WALL   1796047385ULL /* 2026-11-30 14:03:05 UTC */
#define MS(ms) (START + (uint64_t)(ms)*1000000)
#define PID(n) ((uint64_t)(n) << 4 | 0x3)

/* ---- A recording of ten seconds in which nothing happened ---- */

struct fixture {
	char path[32];
	struct trace *trace;
	struct report_options options;
	struct report report;
};

static inline int recording_open(void **state)
{
	static const char meta[] =
		"{\"vm\":{\"attached\":true,\"node\":\"a@b\\u001b[31m\","
		"\"pid\":42,\"flags\":[\"call\"]},"
		"\"kernel\":{\"enabled\":[],\"missed_runs\":7,\"missing\":[{\"probe\":\"sched\","
		"\"why\":\"no CAP_BPF\",\"fix\":\"run as root\"}]}}";
	struct chunk_clock clock = {START, START, WALL * SECOND};
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	struct file_writer *writer;
	int fd;

	setenv("TZ", "UTC", 1);
	tzset();
	strcpy(fixture->path, "/tmp/report_testXXXXXX");
	fd = mkstemp(fixture->path);
	assert_true(fd >= 0);
	close(fd);
	unlink(fixture->path);
	writer = file_create(fixture->path);
	assert_non_null(writer);
	assert_int_equal(file_append(writer, CHUNK_META, 0, meta, sizeof(meta) - 1, NULL, 0), 0);
	assert_int_equal(file_append(writer, CHUNK_CLOCK, 0, &clock, sizeof(clock), NULL, 0), 0);
	clock = (struct chunk_clock){END, END, (WALL + 10) * SECOND};
	assert_int_equal(file_append(writer, CHUNK_CLOCK, 0, &clock, sizeof(clock), NULL, 0), 0);
	assert_int_equal(file_close(writer, true), 0);
	fixture->trace = trace_open(fixture->path);
	assert_non_null(fixture->trace);
	fixture->options = (struct report_options){
		.path = "beamweave.bwt", .json = true, .to_ns = UINT64_MAX, .min_ns = 1000000};
	fixture->report = (struct report){.trace = fixture->trace,
					  .options = &fixture->options,
					  .start_ns = START,
					  .end_ns = END,
					  .from_ns = START,
					  .to_ns = END,
					  .whole = true};
	*state = fixture;
	return 0;
}

static inline int recording_close(void **state)
{
	struct fixture *fixture = *state;

	trace_close(fixture->trace);
	unlink(fixture->path);
	gaps_free(&fixture->report.gaps);
	free(fixture);
	return 0;
}

#endif
