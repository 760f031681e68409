/* SPDX-License-Identifier: Apache-2.0 */
/* The ring: set-up, the writer, credits, discarding and overwriting. */

#include "ring_fixture.h"

#include <errno.h>
#include <pthread.h>

/* ---- Set-up ------------------------------------------------------------------------------ */

static void sizes_default(void **state)
{
	struct ring_config config = {0};

	(void)state;
	/* header, control, 256 threads of 832, 2048 states of 16, tables, dictionary, pool */
	assert_int_equal(ring_file_bytes(&config), 4096 + 4096 + 256 * 832 + 2048 * 16 +
							   65536 * 16 + 131072 * 16 + (16 << 20) +
							   (64 << 20));
}

static void sizes_out_of_range(void **state)
{
	static const struct ring_config bad[] = {
		{.mode = 2},
		{.subbuf_bytes = 2048},
		{.subbuf_bytes = 131072},
		{.subbuf_bytes = 5000},
		{.pool_bytes = 32768},
		{.pool_bytes = 1},
		{.pool_bytes = UINT64_MAX},
		{.thread_max = 65537},
		{.mfa_slots = 100},
		{.mfa_slots = 32},
		{.mfa_slots = 1u << 25},
		{.atom_slots = 3},
		{.atom_slots = 1u << 27},
		{.dict_bytes = 100},
		{.dict_bytes = 4097},
		{.dict_bytes = 1ull << 33},
	};
	static _Alignas(64) uint8_t memory[4096];
	struct ring ring;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(ring_file_bytes(&bad[i]), 0);
		assert_int_equal(ring_create(&ring, memory, sizeof(memory), &bad[i], 1), -EINVAL);
	}
}

static void open_sees_what_create_made(void **state)
{
	struct ring_config config = small_config(RING_OVERWRITE, 8);
	struct ring ring, other;

	(void)state;
	session_new(&ring, &config);
	assert_int_equal(ring_open(&other, ring.map, ring.bytes), 0);
	assert_int_equal(other.mode, RING_OVERWRITE);
	assert_int_equal(other.subbuf_count, 8);
	assert_ptr_equal(other.pool, ring.pool);
	assert_ptr_equal(other.dict, ring.dict);
	assert_ptr_equal(other.control, ring.control);
	assert_int_equal(other.header->created_ns, 1);
	/* No lease yet: nothing runs. */
	atomic_store(&ring.control->lease_until_ns, 0);
	assert_false(ring_running(&other, 1));
	atomic_store(&ring.control->lease_until_ns, 10);
	assert_true(ring_running(&other, 9));
	assert_false(ring_running(&other, 10));
	atomic_store(&ring.control->stop_at_ns, 5);
	assert_false(ring_running(&other, 5));
	atomic_store(&ring.control->run, RING_PAUSED);
	assert_false(ring_running(&other, 1));
	session_free(&ring);
}

static void open_refuses_every_changed_field(void **state)
{
	/* Everything up to created_ns decides where something lies. */
	size_t words = offsetof(struct ring_header, created_ns) / 4;
	struct ring_config config = small_config(RING_DISCARD, 8);
	struct ring ring, other;
	int refused = 0;

	(void)state;
	session_new(&ring, &config);
	for (size_t i = 0; i < words; i++) {
		uint32_t *word = (uint32_t *)ring.map + i, old = *word;

		for (int bit = 0; bit < 32; bit++) {
			int err;

			*word = old ^ 1u << bit;
			err = ring_open(&other, ring.map, ring.bytes);
			*word = old;
			/* The mode's other value and the reserved word are no lie. */
			if (!err) {
				assert_true(i == offsetof(struct ring_header, mode) / 4 ||
					    i == offsetof(struct ring_header, reserved) / 4);
				continue;
			}
			assert_int_equal(err, i == offsetof(struct ring_header, version) / 4
						      ? -EPROTO
						      : -EINVAL);
			refused++;
		}
	}
	assert_int_equal(refused, (int)words * 32 - 32 - 1);
	assert_int_equal(ring_open(&other, ring.map, ring.bytes - 1), -EINVAL);
	assert_int_equal(ring_open(&other, ring.map, 100), -EINVAL);
	assert_int_equal(ring_open(&other, ring.map + 8, ring.bytes - 8), -EINVAL);
	assert_int_equal(ring_create(&other, ring.map, ring.bytes - 1, &config, 1), -EINVAL);
	session_free(&ring);
}

/* ---- Records ----------------------------------------------------------------------------- */

static struct ring_subbuf *current(const struct ring_writer *writer)
{
	return (struct ring_subbuf *)writer->subbuf;
}

static void record_is_seen_when_committed(void **state)
{
	struct ring_config config = small_config(RING_DISCARD, 8);
	struct ring_writer writer;
	struct ring_send *send;
	struct ring ring;

	(void)state;
	session_new(&ring, &config);
	writer_new(&writer, &ring, 7);
	assert_int_equal(ring.threads[0].tid, 7);
	assert_null(current(&writer));

	send = ring_reserve(&writer, 5000, RING_SEND, sizeof(*send), 0x123);
	assert_int_equal(current(&writer)->committed, HEADER);
	assert_int_equal(current(&writer)->base_ns, 5000);
	assert_int_equal(current(&writer)->sequence, 1);
	/* Given up: the next one takes its place. */
	send = ring_reserve(&writer, 5010, RING_SEND, sizeof(*send), 0x124);
	ring_commit(&writer, &send->h);
	assert_int_equal(current(&writer)->committed, HEADER + 56);
	/* Made smaller. */
	send = ring_reserve(&writer, 5020, RING_SEND, 200, 0x125);
	send->h.bytes = 64;
	ring_commit(&writer, &send->h);
	assert_int_equal(current(&writer)->committed, HEADER + 120);
	send = (void *)(writer.subbuf + HEADER);
	assert_int_equal(send->h.process, 0x124);
	assert_int_equal(send->h.delta_ns, 10);
	assert_int_equal(send->h.kind, RING_SEND);
	assert_int_equal(ring.threads[0].recorded[RING_SEND], 2);
	session_free(&ring);
}

static void subbuf_changes_when_it_must(void **state)
{
	struct ring_config config = small_config(RING_DISCARD, 8);
	struct ring_writer writer;
	struct ring_record *record;
	struct ring ring;

	(void)state;
	session_new(&ring, &config);
	writer_new(&writer, &ring, 1);
	records_write(&writer, 0, RECORDS_FIT);
	assert_int_equal(writer.sequence, 1);
	assert_int_equal(current(&writer)->committed, HEADER + RECORDS_FIT * RECORD_BYTES);
	records_write(&writer, RECORDS_FIT, 1);
	assert_int_equal(writer.sequence, 2);
	assert_int_equal(current(&writer)->recorded[RING_IN], RECORDS_FIT);
	assert_int_equal(current(&writer)->base_ns, 1000 + RECORDS_FIT);
	assert_int_equal(ring.meta[0].state, RING_STATE(RING_FULL, 0, 1));
	assert_int_equal(ring.meta[1].state, RING_STATE(RING_WRITING, 0, 2));

	/* The last nanosecond of 32 bits, the first beyond, and one before the base. */
	record = ring_reserve(&writer, 1000 + RECORDS_FIT + 0xffffffffull, RING_IN, 24, 1);
	assert_int_equal(record->delta_ns, 0xffffffffu);
	assert_int_equal(writer.sequence, 2);
	record = ring_reserve(&writer, 1000 + RECORDS_FIT + 0x100000000ull, RING_IN, 24, 1);
	assert_int_equal(record->delta_ns, 0);
	assert_int_equal(writer.sequence, 3);
	record = ring_reserve(&writer, 50, RING_IN, 24, 1);
	assert_int_equal(record->delta_ns, 0);
	assert_int_equal(current(&writer)->base_ns, 50);
	assert_int_equal(writer.sequence, 4);

	/* The longest that a sub-buffer can hold, and 8 bytes more. */
	assert_non_null(ring_reserve(&writer, 50, RING_IN, 4096 - HEADER, 1));
	assert_null(ring_reserve(&writer, 50, RING_CALL, 4096 - HEADER + 8, 1));
	assert_int_equal(ring.threads[0].discarded[RING_CALL], 1);
	session_free(&ring);
}

static void loss_is_counted_by_kind_and_time(void **state)
{
	struct ring_config config = small_config(RING_DISCARD, 2);
	struct notebook *book = notebook_new();
	struct ring_reader *reader;
	struct ring_writer writer;
	struct ring ring;

	(void)state;
	session_new(&ring, &config);
	writer_new(&writer, &ring, 1);
	reader = ring_reader_new(&ring, 1, 1);
	records_write(&writer, 0, 2 * RECORDS_FIT);
	assert_null(ring_reserve(&writer, 9001, RING_SEND, 56, 1));
	assert_null(ring_reserve(&writer, 9002, RING_GC_MINOR_END, 104, 1));
	ring_discard(&writer, 9003, RING_SEND);
	assert_int_equal(ring.threads[0].loss_first_ns, 9001);
	assert_int_equal(ring.threads[0].loss_last_ns, 9003);

	assert_true(ring_drain(reader, UINT64_MAX, note_fragment, book) > 0);
	assert_true(record_write(&writer, 10000));
	assert_int_equal(current(&writer)->loss_first_ns, 9001);
	assert_int_equal(current(&writer)->loss_last_ns, 9003);
	assert_int_equal(current(&writer)->discarded[RING_SEND], 2);
	assert_int_equal(current(&writer)->discarded[RING_GC_MINOR_END], 1);
	assert_int_equal(current(&writer)->recorded[RING_IN], 2 * RECORDS_FIT);
	assert_int_equal(current(&writer)->sequence, 3);
	/* The next one says nothing of it but the cumulative counts. */
	records_write(&writer, 10001, RECORDS_FIT);
	assert_int_equal(current(&writer)->loss_first_ns, 0);
	assert_int_equal(current(&writer)->loss_last_ns, 0);
	assert_int_equal(current(&writer)->discarded[RING_SEND], 2);
	/* A kind out of range must not count outside the table. */
	ring_discard(&writer, 20000, (enum ring_kind)200);
	assert_int_equal(ring.threads[0].discarded[RING_UNKNOWN], 1);
	ring_reader_free(reader);
	session_free(&ring);
	notebook_free(book);
}

static void threads_beyond_the_table_are_counted(void **state)
{
	struct ring_config config = small_config(RING_DISCARD, 8);
	struct ring_writer writer;
	struct ring ring;

	(void)state;
	session_new(&ring, &config);
	assert_int_equal(ring_writer_claim(&writer, &ring, 0, RING_ROLE_NORMAL, 1, 0), -EINVAL);
	for (uint32_t i = 0; i < 4; i++)
		writer_new(&writer, &ring, i + 1);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(ring_writer_claim(&writer, &ring, 9, RING_ROLE_NORMAL, 1, 0),
				 -ENOSPC);
		assert_null(ring_reserve(&writer, 1, RING_IN, 24, 1));
	}
	ring_discard(&writer, 1, RING_IN);
	assert_int_equal(ring.control->unclaimed_discarded, 4);
	assert_int_equal(ring.control->thread_count, 4);
	session_free(&ring);
}

/* ---- Credits ----------------------------------------------------------------------------- */

static void credits_none_without_limit(void **state)
{
	struct ring_config config = small_config(RING_DISCARD, 8);
	struct ring_writer writer;
	struct ring ring;

	(void)state;
	session_new(&ring, &config);
	writer_new(&writer, &ring, 1);
	records_write(&writer, 0, 500);
	assert_true(ring.control->credits == INT64_MAX);
	session_free(&ring);
}

static void credits_end_the_session(void **state)
{
	static const uint64_t limits[] = {1, 2, 15, 16, 17, 100, 3000};

	(void)state;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct ring_config config = small_config(RING_DISCARD, 64);
		struct ring_writer writer;
		struct ring ring;

		session_new(&ring, &config);
		atomic_store(&ring.control->credits, (int64_t)limits[i]);
		atomic_store(&ring.control->credit_block, i % 2 ? 0 : 64);
		writer_new(&writer, &ring, 1);
		records_write(&writer, 0, limits[i]);
		assert_int_equal(ring.control->run, RING_RUN);
		for (int more = 0; more < 3; more++)
			assert_false(record_write(&writer, 1));
		assert_int_equal(ring.threads[0].recorded[RING_IN], limits[i]);
		assert_int_equal(ring.threads[0].discarded[RING_IN], 0);
		assert_int_equal(ring.control->run, RING_STOPPED);
		assert_int_equal(ring.control->end_reason, RING_END_EVENTS);
		assert_false(ring_running(&ring, 1));
		session_free(&ring);
	}
}

struct spender {
	struct ring *ring;
	uint32_t tid;
	uint64_t recorded;
};

static void *credits_spend(void *argument)
{
	struct spender *spender = argument;
	struct ring_writer writer;

	if (ring_writer_claim(&writer, spender->ring, spender->tid, RING_ROLE_NORMAL, 1, 0))
		return NULL;
	while (ring_running(spender->ring, 1))
		spender->recorded += (uint64_t)record_write(&writer, 1);
	return NULL;
}

static void credits_are_exact_with_many_threads(void **state)
{
	(void)state;
	for (int64_t limit = 1000; limit < 1032; limit++) {
		struct ring_config config = small_config(RING_DISCARD, 64);
		struct spender spenders[4];
		uint64_t total = 0, counted = 0;
		pthread_t ids[4];
		struct ring ring;

		session_new(&ring, &config);
		atomic_store(&ring.control->credits, limit);
		atomic_store(&ring.control->credit_block, 50);
		for (uint32_t i = 0; i < 4; i++) {
			spenders[i] = (struct spender){&ring, i + 1, 0};
			assert_int_equal(pthread_create(&ids[i], NULL, credits_spend, &spenders[i]),
					 0);
		}
		/* entries are claimed in any order: all have to be over before one is read */
		for (uint32_t i = 0; i < 4; i++)
			pthread_join(ids[i], NULL);
		for (uint32_t i = 0; i < 4; i++) {
			total += spenders[i].recorded;
			counted += ring.threads[i].recorded[RING_IN];
			assert_int_equal(ring.threads[i].discarded[RING_IN], 0);
		}
		assert_int_equal(total, counted);
		/* Never more; fewer only by what three threads held when the fourth ended it. */
		assert_true(total <= (uint64_t)limit);
		assert_true(total + 3 * 50 >= (uint64_t)limit);
		session_free(&ring);
	}
}

/* ---- Overwriting ------------------------------------------------------------------------- */

static void overwrite_takes_back_its_own_oldest(void **state)
{
	struct ring_config config = small_config(RING_OVERWRITE, 4);
	struct notebook *book = notebook_new();
	struct ring_reader *reader;
	struct ring_writer writer;
	struct ring ring;

	(void)state;
	session_new(&ring, &config);
	writer_new(&writer, &ring, 1);
	records_write(&writer, 0, 10 * RECORDS_FIT);
	assert_int_equal(writer.sequence, 10);
	assert_int_equal(ring.threads[0].discarded[RING_IN], 0);
	reader = ring_reader_new(&ring, 1, 1);
	assert_true(ring_drain(reader, UINT64_MAX, note_fragment, book) > 0);
	/* The newest four sub-buffers, in order. */
	assert_int_equal(book->count, 4);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(book->notes[i].sequence, 7 + i);
	assert_int_equal(book->numbers, 4 * RECORDS_FIT);
	for (uint32_t i = 0; i < book->numbers; i++)
		assert_int_equal(book->number[i], 6 * RECORDS_FIT + i);
	ring_reader_free(reader);
	session_free(&ring);
	notebook_free(book);
}

static void overwrite_takes_the_oldest_of_another(void **state)
{
	struct ring_config config = small_config(RING_OVERWRITE, 4);
	struct ring_writer first, second, third;
	struct ring ring;

	(void)state;
	session_new(&ring, &config);
	writer_new(&first, &ring, 1);
	writer_new(&second, &ring, 2);
	writer_new(&third, &ring, 3);
	/* By time: second's 1, first's 1 and 2 and the one being written. */
	records_write(&second, 0, RECORDS_FIT);
	ring_reserve(&second, 1ull << 40, RING_IN, 24, 1);
	records_write(&first, 500, 2 * RECORDS_FIT);
	/* second: 1 full, 2 writing; first: 1 full, 2 writing (to its last byte) */
	assert_int_equal(ring.meta[0].state, RING_STATE(RING_FULL, 1, 1));
	assert_true(record_write(&third, 900));
	assert_int_equal(ring.meta[0].state, RING_STATE(RING_WRITING, 2, 1));
	/* first's own: index 2 */
	assert_true(record_write(&first, 901));
	assert_int_equal(ring.meta[2].state, RING_STATE(RING_WRITING, 0, 3));
	/* Nothing but what is being written: one is full at most, and then none is left. */
	ring_reserve(&second, 1ull << 41, RING_IN, 24, 1);
	assert_int_equal(ring.threads[1].discarded[RING_IN], 0);
	session_free(&ring);
}

static void overwrite_discards_when_all_are_being_written(void **state)
{
	struct ring_config config = small_config(RING_OVERWRITE, 2);
	struct ring_writer first, second, third;
	struct ring ring;

	(void)state;
	session_new(&ring, &config);
	writer_new(&first, &ring, 1);
	writer_new(&second, &ring, 2);
	writer_new(&third, &ring, 3);
	records_write(&first, 0, 1);
	records_write(&second, 0, 1);
	assert_false(record_write(&third, 0));
	assert_int_equal(ring.threads[2].discarded[RING_IN], 1);
	assert_int_equal(ring.threads[2].loss_first_ns, 1000);
	session_free(&ring);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_default),
		cmocka_unit_test(sizes_out_of_range),
		cmocka_unit_test(open_sees_what_create_made),
		cmocka_unit_test(open_refuses_every_changed_field),
		cmocka_unit_test(record_is_seen_when_committed),
		cmocka_unit_test(subbuf_changes_when_it_must),
		cmocka_unit_test(loss_is_counted_by_kind_and_time),
		cmocka_unit_test(threads_beyond_the_table_are_counted),
		cmocka_unit_test(credits_none_without_limit),
		cmocka_unit_test(credits_end_the_session),
		cmocka_unit_test(credits_are_exact_with_many_threads),
		cmocka_unit_test(overwrite_takes_back_its_own_oldest),
		cmocka_unit_test(overwrite_takes_the_oldest_of_another),
		cmocka_unit_test(overwrite_discards_when_all_are_being_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
