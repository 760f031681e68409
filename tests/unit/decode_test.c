/* SPDX-License-Identifier: Apache-2.0 */
/* From hand-made chunks of the VM to events and accounts. */
#include "decode_fixture.h"

static void records_come_as_they_were_written(void **state)
{
	const struct trace_thread *threads;
	struct trace *trace;
	struct event event;

	(void)state;
	ten_put(T0);
	maker_ring_store(&ring);
	threads_put(T0 + 500);
	trace = reopen();
	assert_int_equal(trace_next(trace, &event), 1);
	assert_int_equal(event.ts_ns, T0 + 10);
	assert_int_equal(event.kind, RING_IN);
	assert_int_equal(event.tid, 77);
	assert_int_equal(event.cpu, -1);
	assert_int_equal(event.process, 1);
	assert_int_equal(event.run->scheduler, 1);
	assert_int_equal(event.etf.bytes, 0);
	trace_rewind(trace);
	all_read(trace);
	PROCESSES_ARE(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
	assert_int_equal(loss_count, 0);
	assert_int_equal(trace_threads(trace, &threads), 1);
	assert_true(threads[0].counted);
	assert_int_equal(threads[0].recorded[RING_IN], 10);
	assert_int_equal(threads[0].role, RING_ROLE_NORMAL);
	assert_false(trace_damage(trace)->no_end);
	trace_close(trace);
}

static void pieces_come_once_whatever_their_order_and_overlap(void **state)
{
	struct trace *trace;

	(void)state;
	ten_put(T0);
	part_store(5, 9);
	part_store(0, 3);
	part_store(3, 6);
	part_store(4, 5);
	part_store(0, 3);
	threads_put(T0 + 500);
	trace = reopen();
	all_read(trace);
	PROCESSES_ARE(1, 2, 3, 4, 5, 6, 7, 8, 9, 10);
	assert_int_equal(loss_count, 0);
	trace_close(trace);
}

static void a_missing_piece_is_counted_where_it_is_missing(void **state)
{
	struct trace *trace;

	(void)state;
	ten_put(T0);
	part_store(0, 3);
	part_store(7, 9);
	maker_ring_begin(&ring, T0 + 1000);
	maker_run(&ring, T0 + 1010, RING_IN, 11, RING_NO_INDEX);
	maker_ring_store(&ring);
	threads_put(T0 + 5000);
	trace = reopen();
	all_read(trace);
	PROCESSES_ARE(1, 2, 3, 4, 8, 9, 10, 11);
	assert_int_equal(loss_count, 1);
	assert_string_equal(losses[0].why, "damaged");
	assert_int_equal(losses[0].count, 3);
	assert_int_equal(losses[0].counts[RING_IN], 3);
	assert_int_equal(losses[0].from_ns, T0 + 40);
	assert_int_equal(losses[0].to_ns, T0 + 80);
	assert_int_equal(losses[0].ring, 0);
	assert_false(losses[0].kernel);
	trace_close(trace);
}

static void a_missing_end_is_counted_from_the_last_record(void **state)
{
	struct trace *trace;

	(void)state;
	ten_put(T0);
	part_store(0, 3);
	threads_put(T0 + 5000);
	trace = reopen();
	all_read(trace);
	PROCESSES_ARE(1, 2, 3, 4);
	assert_int_equal(loss_count, 1);
	assert_int_equal(losses[0].count, 6);
	assert_int_equal(losses[0].from_ns, T0 + 40);
	assert_int_equal(losses[0].to_ns, T0 + 5000);
	trace_close(trace);
}

/* Three sub-buffers of ten records, of which the middle one is not in the file. */
static void middle_missing(void)
{
	ten_put(T0);
	maker_ring_store(&ring);
	maker_ring_begin(&ring, T0 + 1000);
	ten_put(T0 + 1000);
	ring.stored = ring.used;
	maker_ring_begin(&ring, T0 + 2000);
	ten_put(T0 + 2000);
	maker_ring_store(&ring);
	threads_put(T0 + 5000);
}

static void a_missing_subbuffer_is_damage_with_a_reader(void **state)
{
	struct trace *trace;

	(void)state;
	middle_missing();
	trace = reopen();
	all_read(trace);
	assert_int_equal(process_count, 20);
	assert_int_equal(loss_count, 1);
	assert_string_equal(losses[0].why, "damaged");
	assert_int_equal(losses[0].count, 10);
	assert_int_equal(losses[0].from_ns, T0 + 100);
	assert_int_equal(losses[0].to_ns, T0 + 2000);
	trace_close(trace);
}

static void a_missing_subbuffer_was_overwritten_without_one(void **state)
{
	const char meta[] = "{\"options\":{\"mode\":\"overwrite\"}}";
	struct trace *trace;

	(void)state;
	maker_append(file, CHUNK_META, 0, meta, sizeof(meta) - 1, NULL, 0);
	middle_missing();
	trace = reopen();
	all_read(trace);
	assert_int_equal(loss_count, 1);
	assert_string_equal(losses[0].why, "overwritten");
	assert_int_equal(losses[0].count, 10);
	trace_close(trace);
}

static void what_was_overwritten_before_the_first_is_counted_from_the_start(void **state)
{
	const char meta[] = "{\"options\":{\"mode\":\"overwrite\"}}";
	struct trace *trace;

	(void)state;
	maker_append(file, CHUNK_META, 0, meta, sizeof(meta) - 1, NULL, 0);
	ten_put(T0);
	ring.stored = ring.used;
	maker_ring_begin(&ring, T0 + 1000);
	ten_put(T0 + 1000);
	maker_ring_store(&ring);
	threads_put(T0 + 5000);
	trace = reopen();
	all_read(trace);
	assert_int_equal(process_count, 10);
	assert_int_equal(loss_count, 1);
	assert_string_equal(losses[0].why, "overwritten");
	assert_int_equal(losses[0].count, 10);
	assert_int_equal(losses[0].from_ns, T0);
	assert_int_equal(losses[0].to_ns, T0 + 1000);
	trace_close(trace);
}

static void what_an_earlier_reader_took_is_not_lost(void **state)
{
	const struct trace_thread *threads;
	struct trace *trace;

	(void)state;
	ten_put(T0);
	ring.stored = ring.used;
	maker_ring_discard(&ring, RING_CALL, 4, T0 - 500, T0 - 400);
	maker_ring_begin(&ring, T0 + 1000);
	ten_put(T0 + 1000);
	/* It had the header and the first three records of this sub-buffer too. */
	part_store(3, 9);
	maker_ring_begin(&ring, T0 + 2000);
	ten_put(T0 + 2000);
	maker_ring_store(&ring);
	threads_put(T0 + 5000);
	trace = reopen();
	all_read(trace);
	assert_int_equal(process_count, 17);
	assert_int_equal(loss_count, 0);
	trace_threads(trace, &threads);
	assert_int_equal(threads[0].recorded[RING_IN], 17);
	assert_int_equal(threads[0].discarded[RING_CALL], 0);
	trace_close(trace);
}

static void discarded_events_are_losses_with_their_times_and_kinds(void **state)
{
	const struct trace_thread *threads;
	struct trace *trace;

	(void)state;
	ten_put(T0);
	maker_ring_discard(&ring, RING_CALL, 4, T0 + 110, T0 + 150);
	maker_ring_discard(&ring, RING_SEND, 2, T0 + 160, T0 + 170);
	maker_ring_begin(&ring, T0 + 1000);
	ten_put(T0 + 1000);
	maker_ring_store(&ring);
	maker_ring_discard(&ring, RING_CALL, 1, T0 + 1200, T0 + 1200);
	threads_put(T0 + 5000);
	trace = reopen();
	all_read(trace);
	assert_int_equal(process_count, 20);
	assert_int_equal(loss_count, 2);
	assert_string_equal(losses[0].why, "discarded");
	assert_int_equal(losses[0].from_ns, T0 + 110);
	assert_int_equal(losses[0].to_ns, T0 + 170);
	assert_int_equal(losses[0].counts[RING_CALL], 4);
	assert_int_equal(losses[0].counts[RING_SEND], 2);
	assert_int_equal(losses[0].count, 6);
	assert_int_equal(losses[1].from_ns, T0 + 1200);
	assert_int_equal(losses[1].to_ns, T0 + 1200);
	assert_int_equal(losses[1].count, 1);
	trace_threads(trace, &threads);
	assert_int_equal(threads[0].discarded[RING_CALL], 5);
	assert_int_equal(threads[0].discarded[RING_SEND], 2);
	trace_close(trace);
}

static void counts_taken_too_early_are_no_last_word(void **state)
{
	const struct trace_thread *threads;
	struct trace *trace;

	(void)state;
	threads_put(T0);
	ten_put(T0);
	maker_ring_store(&ring);
	trace = reopen();
	all_read(trace);
	assert_int_equal(process_count, 10);
	assert_int_equal(loss_count, 0);
	trace_threads(trace, &threads);
	assert_false(threads[0].counted);
	assert_int_equal(threads[0].recorded[RING_IN], 10);
	assert_int_equal(threads[0].tid, 77);
	trace_close(trace);
}

static void events_of_threads_without_an_entry_are_a_loss(void **state)
{
	struct chunk_threads head = {
		.count = 0, .kinds = RING_KINDS, .unclaimed_discarded = 9, .taken_ns = T0 + 50};
	struct trace *trace;

	(void)state;
	maker_append(file, CHUNK_THREADS, 0, &head, sizeof(head), NULL, 0);
	trace = reopen();
	all_read(trace);
	assert_int_equal(loss_count, 1);
	assert_int_equal(losses[0].ring, LOSS_UNCLAIMED);
	assert_int_equal(losses[0].count, 9);
	assert_int_equal(losses[0].counts[RING_UNKNOWN], 9);
	assert_int_equal(losses[0].from_ns, T0);
	assert_int_equal(losses[0].to_ns, T0 + 50);
	trace_close(trace);
}

static void a_length_that_makes_no_sense_costs_the_rest_of_its_piece(void **state)
{
	static const uint16_t lengths[] = {0, 8, 20, 25, 4096};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		struct trace *trace;

		ten_put(T0);
		((struct ring_record *)(ring.subbuf + sizeof(struct ring_subbuf) + 3 * RUN_BYTES))
			->bytes = lengths[i];
		part_store(0, 5);
		part_store(6, 9);
		threads_put(T0 + 5000);
		trace = reopen();
		all_read(trace);
		PROCESSES_ARE(1, 2, 3, 7, 8, 9, 10);
		assert_int_equal(trace_damage(trace)->damaged_records, 1);
		assert_int_equal(loss_count, 1);
		assert_int_equal(losses[0].count, 3);
		assert_int_equal(losses[0].from_ns, T0 + 30);
		/* Known only from the counts at the end: somewhere between here and there. */
		assert_int_equal(losses[0].to_ns, T0 + 70);
		trace_close(trace);
		unlink(path);
		assert_int_equal(rmdir(directory), 0);
		assert_int_equal(setup(state), 0);
	}
	file_close(file, false);
}

static void kinds_that_are_not_known_are_skipped_and_counted(void **state)
{
	const struct trace_thread *threads;
	struct trace *trace;

	(void)state;
	maker_run(&ring, T0 + 10, RING_IN, 1, RING_NO_INDEX);
	maker_ring_put(&ring, T0 + 20, 40, 32, 2);
	maker_run(&ring, T0 + 30, RING_IN, 3, RING_NO_INDEX);
	maker_ring_store(&ring);
	threads_put(T0 + 500);
	trace = reopen();
	all_read(trace);
	PROCESSES_ARE(1, 3);
	assert_int_equal(loss_count, 0);
	assert_int_equal(trace_damage(trace)->unknown_records, 1);
	trace_threads(trace, &threads);
	assert_int_equal(threads[0].recorded[40], 1);
	trace_close(trace);
}

static void a_record_too_short_for_its_kind_is_damage(void **state)
{
	struct trace *trace;

	(void)state;
	maker_ring_put(&ring, T0 + 10, RING_CALL, 24, 1);
	maker_run(&ring, T0 + 20, RING_IN, 2, RING_NO_INDEX);
	maker_ring_store(&ring);
	threads_put(T0 + 500);
	trace = reopen();
	all_read(trace);
	PROCESSES_ARE(2);
	assert_int_equal(trace_damage(trace)->damaged_records, 1);
	assert_int_equal(loss_count, 1);
	assert_int_equal(losses[0].counts[RING_CALL], 1);
	trace_close(trace);
}

static void captures_stay_inside_their_records(void **state)
{
	struct trace *trace;
	struct event event;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct ring_call *call =
			maker_ring_put(&ring, T0 + 10, RING_CALL, sizeof(*call) + 16, 1);
		struct ring_capture *capture = (struct ring_capture *)(call + 1);

		call->h.flags = RING_F_CAPTURE;
		capture->bytes = (uint32_t[]){3, 9, 0xffffffff}[i];
		memcpy(capture + 1,
		       "\x83"
		       "a\x07",
		       3);
	}
	maker_call(&ring, T0 + 10, 1, 0, 0)->flags = RING_F_CAPTURE;
	maker_ring_store(&ring);
	trace = reopen();
	assert_int_equal(trace_next(trace, &event), 1);
	assert_int_equal(event.etf.bytes, 3);
	assert_memory_equal(event.etf.data,
			    "\x83"
			    "a\x07",
			    3);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(trace_next(trace, &event), 1);
		assert_int_equal(event.kind, RING_CALL);
		assert_int_equal(event.etf.bytes, 0);
	}
	assert_int_equal(trace_damage(trace)->damaged_records, 3);
	trace_close(trace);
}

static void time_that_goes_back_in_a_thread_stands_still(void **state)
{
	struct trace *trace;

	(void)state;
	ten_put(T0);
	maker_ring_begin(&ring, T0 + 50);
	maker_run(&ring, T0 + 60, RING_IN, 11, RING_NO_INDEX);
	maker_run(&ring, T0 + 200, RING_IN, 12, RING_NO_INDEX);
	maker_ring_store(&ring);
	threads_put(T0 + 500);
	trace = reopen();
	all_read(trace);
	assert_int_equal(process_count, 12);
	assert_int_equal(trace_damage(trace)->clamped_records, 1);
	assert_int_equal(loss_count, 0);
	trace_close(trace);
}

static void own_processes_are_left_out_and_counted(void **state)
{
	struct maker_dict dict = {.file = file};
	struct trace *trace;

	(void)state;
	maker_dict_put(&dict, RING_DICT_OWN, 4, NULL, 0, NULL, 0);
	ten_put(T0);
	maker_ring_store(&ring);
	threads_put(T0 + 500);
	/* The dictionary may come last: its entries hold from the start. */
	maker_dict_store(&dict);
	trace = reopen();
	all_read(trace);
	PROCESSES_ARE(1, 2, 3, 5, 6, 7, 8, 9, 10);
	assert_int_equal(trace_own_events(trace, RING_IN), 1);
	assert_int_equal(trace_own_events(trace, RING_OUT), 0);
	trace_close(trace);
}

static void entries_of_the_dictionary_may_lie_across_chunks(void **state)
{
	struct maker_dict dict = {.file = file};
	struct chunk_dict head = {0};
	struct trace *trace;
	char text[200];

	(void)state;
	memset(text, 'a', sizeof(text));
	maker_dict_put(&dict, RING_DICT_ATOM, 5, text, sizeof(text), NULL, 0);
	maker_dict_text(&dict, RING_DICT_ATOM, 6, "six");
	head.offset = 64;
	maker_append(file, CHUNK_DICT, 0, &head, sizeof(head), dict.bytes + 64, dict.used - 64);
	head.offset = 0;
	maker_append(file, CHUNK_DICT, 0, &head, sizeof(head), dict.bytes, 64);
	trace = reopen();
	assert_int_equal(strlen(trace_atom(trace, 5)), sizeof(text));
	assert_string_equal(trace_atom(trace, 6), "six");
	trace_close(trace);
}

static void tids_are_translated_into_the_initial_namespace(void **state)
{
	static const struct chunk_task tasks[] = {{5001, 5000, 77, 0, "1_scheduler"}};
	const struct trace_thread *threads;
	struct trace *trace;
	struct event event;

	(void)state;
	maker_append(file, CHUNK_TASKS, 0, tasks, sizeof(tasks), NULL, 0);
	ten_put(T0);
	maker_ring_store(&ring);
	threads_put(T0 + 500);
	trace = reopen();
	assert_int_equal(trace_next(trace, &event), 1);
	assert_int_equal(event.tid, 5001);
	trace_threads(trace, &threads);
	assert_int_equal(threads[0].tid, 5001);
	trace_close(trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(records_come_as_they_were_written),
		TEST(pieces_come_once_whatever_their_order_and_overlap),
		TEST(a_missing_piece_is_counted_where_it_is_missing),
		TEST(a_missing_end_is_counted_from_the_last_record),
		TEST(a_missing_subbuffer_is_damage_with_a_reader),
		TEST(a_missing_subbuffer_was_overwritten_without_one),
		TEST(what_was_overwritten_before_the_first_is_counted_from_the_start),
		TEST(what_an_earlier_reader_took_is_not_lost),
		TEST(discarded_events_are_losses_with_their_times_and_kinds),
		TEST(counts_taken_too_early_are_no_last_word),
		TEST(events_of_threads_without_an_entry_are_a_loss),
		TEST(a_length_that_makes_no_sense_costs_the_rest_of_its_piece),
		TEST(kinds_that_are_not_known_are_skipped_and_counted),
		TEST(a_record_too_short_for_its_kind_is_damage),
		TEST(captures_stay_inside_their_records),
		TEST(time_that_goes_back_in_a_thread_stands_still),
		TEST(own_processes_are_left_out_and_counted),
		TEST(entries_of_the_dictionary_may_lie_across_chunks),
		TEST(tids_are_translated_into_the_initial_namespace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
