/* SPDX-License-Identifier: Apache-2.0 */
/* Many streams to one, against a sort. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "merge.h"

struct stream {
	const uint64_t *times;
	size_t count, next;
	uint32_t id;
	int error; /* given instead of the end */
};

static int stream_next(void *context, struct event *event)
{
	struct stream *stream = context;

	if (stream->next == stream->count)
		return stream->error;
	event->ts_ns = stream->times[stream->next];
	event->ring = stream->id;
	event->process = stream->next++;
	return 1;
}

static void streams_come_as_one_in_time_order(void **state)
{
	static const uint64_t a[] = {1, 4, 9}, b[] = {2, 3}, d[] = {0, 10};
	struct stream streams[] = {
		{a, 3, 0, 0, 0}, {b, 2, 0, 1, 0}, {NULL, 0, 0, 2, 0}, {d, 2, 0, 3, 0}};
	static const uint64_t times[] = {0, 1, 2, 3, 4, 9, 10};
	static const uint32_t rings[] = {3, 0, 1, 1, 0, 0, 3};
	struct merge merge = {0};
	struct event event;

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(merge_add(&merge, stream_next, &streams[i]), 0);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 7; i++) {
			assert_int_equal(merge_next(&merge, &event), 1);
			assert_int_equal(event.ts_ns, times[i]);
			assert_int_equal(event.ring, rings[i]);
		}
		assert_int_equal(merge_next(&merge, &event), 0);
		assert_int_equal(merge_next(&merge, &event), 0);
		for (int i = 0; i < 4; i++)
			streams[i].next = 0;
		merge_rewind(&merge);
	}
	merge_free(&merge);
}

static void ties_come_in_the_order_of_streams_and_then_of_their_events(void **state)
{
	static const uint64_t same[] = {5, 5, 5};
	struct stream streams[] = {{same, 3, 0, 0, 0}, {same, 3, 0, 1, 0}};
	struct merge merge = {0};
	struct event event;

	(void)state;
	merge_add(&merge, stream_next, &streams[0]);
	merge_add(&merge, stream_next, &streams[1]);
	for (uint32_t i = 0; i < 6; i++) {
		assert_int_equal(merge_next(&merge, &event), 1);
		assert_int_equal(event.ring, i / 3);
		assert_int_equal(event.process, i % 3);
	}
	merge_free(&merge);
}

static void no_streams_are_an_end(void **state)
{
	struct merge merge = {0};
	struct event event;

	(void)state;
	assert_int_equal(merge_next(&merge, &event), 0);
	merge_free(&merge);
}

static void an_error_of_a_stream_is_the_merges(void **state)
{
	static const uint64_t a[] = {1}, b[] = {2};
	struct stream streams[] = {{a, 1, 0, 0, -EIO}, {b, 1, 0, 1, 0}};
	struct merge merge = {0};
	struct event event;

	(void)state;
	merge_add(&merge, stream_next, &streams[0]);
	merge_add(&merge, stream_next, &streams[1]);
	assert_int_equal(merge_next(&merge, &event), 1);
	assert_int_equal(merge_next(&merge, &event), -EIO);
	merge_free(&merge);
}

static int time_compare(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

static void a_hundred_random_streams_equal_a_sort(void **state)
{
	enum { STREAMS = 100, EVENTS = 50 };
	static uint64_t times[STREAMS][EVENTS], all[STREAMS * EVENTS];
	static struct stream streams[STREAMS];
	struct merge merge = {0};
	struct event event;

	(void)state;
	srandom(7);
	for (uint32_t i = 0; i < STREAMS; i++) {
		for (int j = 0; j < EVENTS; j++)
			times[i][j] = (uint64_t)random() % 1000;
		qsort(times[i], EVENTS, sizeof(uint64_t), time_compare);
		memcpy(all + i * EVENTS, times[i], sizeof(times[i]));
		streams[i] = (struct stream){times[i], EVENTS, 0, i, 0};
		merge_add(&merge, stream_next, &streams[i]);
	}
	qsort(all, STREAMS * EVENTS, sizeof(uint64_t), time_compare);
	for (int i = 0; i < STREAMS * EVENTS; i++) {
		assert_int_equal(merge_next(&merge, &event), 1);
		assert_int_equal(event.ts_ns, all[i]);
	}
	assert_int_equal(merge_next(&merge, &event), 0);
	merge_free(&merge);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams_come_as_one_in_time_order),
		cmocka_unit_test(ties_come_in_the_order_of_streams_and_then_of_their_events),
		cmocka_unit_test(no_streams_are_an_end),
		cmocka_unit_test(an_error_of_a_stream_is_the_merges),
		cmocka_unit_test(a_hundred_random_streams_equal_a_sort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
