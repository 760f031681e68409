// SPDX-License-Identifier: Apache-2.0
/* A recording read along while it is written: what is complete, and in which order it comes. */
#include "decode_fixture.h"

#include <sys/mman.h>

#include "trace_follow.h"

#define MS 1000000ull

static int memory;
static struct trace_follow *follow;
static struct maker_ring other;

static int follow_setup(void **state)
{
	(void)state;
	memory = memfd_create("trace_follow_test", MFD_CLOEXEC);
	file = file_create_on(memory);
	follow = trace_follow_open(memory);
	maker_ring_init(&ring, file, 0, 77, RING_ROLE_NORMAL, 1);
	maker_ring_init(&other, file, 1, 78, RING_ROLE_NORMAL, 2);
	return file && follow ? 0 : -1;
}

static int follow_teardown(void **state)
{
	(void)state;
	trace_follow_close(follow);
	file_close(file, true);
	return close(memory);
}

static void mark(uint64_t ts_ns, uint32_t stream)
{
	const struct chunk_clock clock = {ts_ns, ts_ns, ts_ns};

	maker_append(file, CHUNK_CLOCK, stream, &clock, sizeof(clock), NULL, 0);
}

static void stored(void)
{
	maker_ring_store(&ring);
	maker_ring_store(&other);
}

static void next_is(uint64_t process)
{
	struct event event;

	assert_int_equal(trace_follow_next(follow, &event), 1);
	assert_int_equal(event.process, process);
}

static void read_all(bool last)
{
	assert_int_equal(file_flush(file), 0);
	assert_int_equal(trace_follow_read(follow, last), 0);
}

static void nothing_without_a_mark(void **state)
{
	struct event event;

	(void)state;
	maker_run(&ring, 100 * MS, RING_IN, 1, 0);
	stored();
	mark(200 * MS, 0); /* a snapshot, no mark */
	read_all(false);
	assert_int_equal(trace_follow_next(follow, &event), 0);
	mark(200 * MS, CLOCK_MARK);
	read_all(false);
	next_is(1);
	assert_int_equal(trace_follow_next(follow, &event), 0);
}

static void a_late_ring_comes_in_its_place(void **state)
{
	struct event event;

	(void)state;
	maker_run(&ring, 100 * MS, RING_IN, 1, 0);
	maker_run(&ring, 103 * MS, RING_IN, 3, 0);
	stored();
	/* 103 ms is within the grace of this mark. */
	mark(112 * MS, CLOCK_MARK);
	read_all(false);
	next_is(1);
	assert_int_equal(trace_follow_next(follow, &event), 0);
	maker_run(&other, 102 * MS, RING_IN, 2, 0);
	maker_run(&ring, 104 * MS, RING_IN, 4, 0);
	stored();
	mark(150 * MS, CLOCK_MARK);
	read_all(false);
	next_is(2);
	next_is(3);
	next_is(4);
	assert_int_equal(trace_follow_next(follow, &event), 0);
}

static void the_last_read_gives_all(void **state)
{
	struct event event;

	(void)state;
	maker_run(&other, 102 * MS, RING_IN, 2, 0);
	maker_run(&ring, 101 * MS, RING_IN, 1, 0);
	stored();
	read_all(true);
	next_is(1);
	next_is(2);
	assert_int_equal(trace_follow_next(follow, &event), 0);
}

#define FOLLOW(name) cmocka_unit_test_setup_teardown(name, follow_setup, follow_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FOLLOW(nothing_without_a_mark),
		FOLLOW(a_late_ring_comes_in_its_place),
		FOLLOW(the_last_read_gives_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
