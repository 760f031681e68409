/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_DECODE_FIXTURE_H
#define BEAMWEAVE_DECODE_FIXTURE_H

/* A recording that a test fills by hand, closes, and reads back. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../trace/maker.h"
#include "trace.h"

#define FIXTURE __attribute__((unused)) static

#define T0 1000000ull

FIXTURE char directory[64], path[128];
FIXTURE struct file_writer *file;
FIXTURE struct maker_ring ring;

FIXTURE int setup(void **state)
{
	const struct chunk_clock clock = {T0, T0, T0};

	(void)state;
	strcpy(directory, "/tmp/bwt_decode_test_XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/a.bwt", directory);
	file = file_create(path);
	maker_ring_init(&ring, file, 0, 77, RING_ROLE_NORMAL, 1);
	maker_append(file, CHUNK_CLOCK, 0, &clock, sizeof(clock), NULL, 0);
	return 0;
}

FIXTURE int teardown(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(directory);
}

FIXTURE struct trace *reopen(void)
{
	struct trace *trace;

	assert_int_equal(file_close(file, true), 0);
	trace = trace_open(path);
	assert_non_null(trace);
	return trace;
}

FIXTURE void threads_put(uint64_t taken_ns)
{
	struct maker_ring *const rings[] = {&ring};

	maker_threads(file, rings, 1, taken_ns);
}

/* Ten `in` records, at T0 + 10, 20, ... 100 for processes 1 to 10. */
FIXTURE void ten_put(uint64_t base_ns)
{
	for (uint64_t i = 1; i <= 10; i++)
		maker_run(&ring, base_ns + 10 * i, RING_IN, i, RING_NO_INDEX);
}

#define RUN_BYTES sizeof(struct ring_run)

/* Store a part of the sub-buffer: records first to last, counted from 0, with the header at 0. */
FIXTURE void part_store(uint32_t first, uint32_t last)
{
	const uint32_t head = sizeof(struct ring_subbuf);
	const uint32_t used = ring.used;

	ring.stored = first ? head + first * (uint32_t)RUN_BYTES : 0;
	ring.used = head + (last + 1) * (uint32_t)RUN_BYTES;
	maker_ring_store(&ring);
	ring.stored = ring.used = used;
}

/* Read all; the processes of the events, in order, and the losses. */
FIXTURE uint64_t processes[64];
FIXTURE struct loss losses[8];
FIXTURE size_t process_count, loss_count;

FIXTURE void all_read(struct trace *trace)
{
	struct event event;
	uint64_t last = 0;

	process_count = 0;
	loss_count = 0;
	while (trace_next(trace, &event) == 1) {
		assert_true(event.ts_ns >= last);
		last = event.ts_ns;
		if (event.kind == EVENT_LOSS) {
			assert_true(loss_count < 8);
			losses[loss_count++] = *event.loss;
		} else {
			assert_true(process_count < 64);
			processes[process_count++] = event.process;
		}
	}
}

FIXTURE void processes_are(const uint64_t *wanted, size_t count)
{
	assert_int_equal(process_count, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(processes[i], wanted[i]);
}
#define PROCESSES_ARE(...)                                                                         \
	processes_are((const uint64_t[]){__VA_ARGS__},                                             \
		      sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
