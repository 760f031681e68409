/* SPDX-License-Identifier: Apache-2.0 */
/* The ring's dictionary and tables of words. */

#include "ring_fixture.h"

#include <errno.h>
#include <stdio.h>

static struct ring ring;
static struct ring_reader *reader;

static void scene_new(uint64_t dict_bytes)
{
	struct ring_config config = small_config(RING_DISCARD, 2);

	config.dict_bytes = dict_bytes;
	session_new(&ring, &config);
	reader = ring_reader_new(&ring, 1, 1);
	assert_non_null(reader);
}

static void scene_free(void)
{
	ring_reader_free(reader);
	session_free(&ring);
}

/* ---- Tables ------------------------------------------------------------------------------ */

static void mfa_has_one_index(void **state)
{
	uint32_t index;
	int is_new;

	(void)state;
	scene_new(4096);
	index = ring_mfa_index(&ring, 10, 20, 3, &is_new);
	assert_true(index < 64);
	assert_true(is_new);
	/* New until its text is said to be there. */
	assert_int_equal(ring_mfa_index(&ring, 10, 20, 3, &is_new), index);
	assert_true(is_new);
	ring_mfa_seen(&ring, index);
	assert_int_equal(ring_mfa_index(&ring, 10, 20, 3, &is_new), index);
	assert_false(is_new);
	assert_int_not_equal(ring_mfa_index(&ring, 10, 20, 2, &is_new), index);
	assert_int_not_equal(ring_mfa_index(&ring, 20, 10, 3, &is_new), index);
	assert_true(is_new);
	/* Out of range. */
	assert_int_equal(ring_mfa_index(&ring, 1u << 28, 1, 1, &is_new), RING_NO_INDEX);
	assert_int_equal(ring_mfa_index(&ring, 1, 1u << 28, 1, &is_new), RING_NO_INDEX);
	assert_int_equal(ring_mfa_index(&ring, 1, 1, 256, &is_new), RING_NO_INDEX);
	assert_int_not_equal(ring_mfa_index(&ring, (1u << 28) - 1, (1u << 28) - 1, 254, &is_new),
			     RING_NO_INDEX);
	ring_mfa_seen(&ring, RING_NO_INDEX);
	scene_free();
}

static void full_tables_say_so(void **state)
{
	uint8_t used[64] = {0};
	int is_new;

	(void)state;
	scene_new(4096);
	for (uint32_t i = 1; i <= 64; i++) {
		uint32_t index = ring_mfa_index(&ring, i, i, 0, &is_new);

		assert_true(index < 64);
		assert_false(used[index]);
		used[index] = 1;
		assert_non_null(ring_atom_slot(&ring, i * 1000));
	}
	assert_int_equal(ring_mfa_index(&ring, 65, 65, 0, &is_new), RING_NO_INDEX);
	assert_false(is_new);
	assert_int_not_equal(ring_mfa_index(&ring, 64, 64, 0, &is_new), RING_NO_INDEX);
	assert_null(ring_atom_slot(&ring, 1));
	assert_non_null(ring_atom_slot(&ring, 64000));
	scene_free();
}

static void atom_has_one_slot(void **state)
{
	struct ring_atom_slot *slot;

	(void)state;
	scene_new(4096);
	assert_null(ring_atom_slot(&ring, 0));
	slot = ring_atom_slot(&ring, 5);
	assert_int_equal(slot->key, 5);
	assert_false(slot->seen);
	ring_atom_seen(slot, 0x1234567890abcdef);
	assert_ptr_equal(ring_atom_slot(&ring, 5), slot);
	assert_true(slot->seen);
	assert_true(slot->hash == 0x1234567890abcdef);
	assert_ptr_not_equal(ring_atom_slot(&ring, 6), slot);
	scene_free();
}

/* ---- Entries ----------------------------------------------------------------------------- */

static void text_put(uint64_t key, const char *text)
{
	assert_int_equal(ring_dict_put(&ring, RING_DICT_ATOM, key, text, (uint32_t)strlen(text)),
			 0);
}

/* What the next drain passes on: one entry, or none at all (text NULL). */
static void text_drained(uint64_t at, uint64_t key, const char *text)
{
	const struct ring_dict_entry *entry;
	const void *data;
	uint64_t offset, position = 0;
	int64_t bytes = ring_dict_drain(reader, &data, &offset);

	if (!text) {
		assert_int_equal(bytes, 0);
		return;
	}
	assert_int_equal(bytes, 32);
	assert_int_equal(offset, at);
	assert_int_equal(ring_dict_next(data, (uint64_t)bytes, &position, &entry), 1);
	assert_int_equal(entry->key, key);
	assert_int_equal(entry->type, RING_DICT_ATOM);
	assert_int_equal(entry->bytes, strlen(text));
	assert_memory_equal(entry + 1, text, strlen(text));
	assert_int_equal(ring_dict_next(data, (uint64_t)bytes, &position, &entry), 0);
}

static void entries_come_as_they_were_put(void **state)
{
	const struct ring_dict_mfa mfa = {.module = 1, .function = 2, .arity = 3};
	const struct ring_dict_entry *entry;
	uint64_t offset, position = 0;
	const void *data;

	(void)state;
	scene_new(4096);
	text_put(7, "a text of more than one slot, which is 32 bytes");
	assert_int_equal(ring_dict_put(&ring, RING_DICT_MFA, 9, &mfa, sizeof(mfa)), 0);
	assert_int_equal(ring_dict_put(&ring, RING_DICT_OWN, 11, NULL, 0), 0);
	/* 16 + 47 are two slots; 16 + 16 and 16 are one each */
	assert_int_equal(ring.control->dict_tail, 128);
	assert_int_equal(ring_dict_drain(reader, &data, &offset), 128);
	assert_int_equal(offset, 0);
	assert_int_equal(ring_dict_next(data, 128, &position, &entry), 1);
	assert_int_equal(entry->key, 7);
	assert_int_equal(entry->bytes, 47);
	assert_int_equal(ring_dict_next(data, 128, &position, &entry), 1);
	assert_int_equal(entry->type, RING_DICT_MFA);
	assert_memory_equal(entry + 1, &mfa, sizeof(mfa));
	assert_int_equal(ring_dict_next(data, 128, &position, &entry), 1);
	assert_int_equal(entry->type, RING_DICT_OWN);
	assert_int_equal(entry->bytes, 0);
	assert_int_equal(ring_dict_next(data, 128, &position, &entry), 0);
	assert_int_equal(ring_dict_drain(reader, &data, &offset), 0);
	scene_free();
}

static void check_does_not_depend_on_the_cut(void **state)
{
	char text[41];
	uint64_t offset;
	const void *data;

	(void)state;
	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (char)(i * 37);
	for (uint32_t length = 0; length <= sizeof(text); length++) {
		for (uint32_t cut = 0; cut <= length; cut++) {
			const struct ring_dict_entry *entry;

			scene_new(4096);
			assert_int_equal(ring_dict_put2(&ring, RING_DICT_NAME, 3, text, cut,
							text + cut, length - cut),
					 0);
			assert_true(ring_dict_drain(reader, &data, &offset) > 0);
			entry = data;
			assert_int_equal(entry->check, ring_dict_check(RING_DICT_NAME,
								       (uint16_t)length, 3, text));
			assert_memory_equal(entry + 1, text, length);
			scene_free();
		}
	}
	/* Every part counts. */
	assert_int_not_equal(ring_dict_check(1, 3, 5, "abc"), ring_dict_check(2, 3, 5, "abc"));
	assert_int_not_equal(ring_dict_check(1, 3, 5, "abc"), ring_dict_check(1, 2, 5, "abc"));
	assert_int_not_equal(ring_dict_check(1, 3, 5, "abc"), ring_dict_check(1, 3, 6, "abc"));
	assert_int_not_equal(ring_dict_check(1, 3, 5, "abc"), ring_dict_check(1, 3, 5, "abd"));
}

static void full_dictionary_is_counted(void **state)
{
	static uint8_t big[RING_DICT_PAYLOAD_MAX + 1];
	const void *data;
	uint64_t offset;

	(void)state;
	scene_new(4096);
	assert_int_equal(ring_dict_put(&ring, RING_DICT_NOTE, 0, big, sizeof(big)), -EINVAL);
	assert_int_equal(ring_dict_put2(&ring, RING_DICT_NOTE, 0, big, sizeof(big) - 1, big, 1),
			 -EINVAL);
	assert_int_equal(ring_dict_put2(&ring, RING_DICT_NOTE, 0, big, UINT32_MAX, big, 2),
			 -EINVAL);
	assert_int_equal(ring.control->dict_discarded, 0);
	assert_int_equal(ring_dict_put(&ring, RING_DICT_NOTE, 0, big, 4096), -ENOSPC);
	for (int i = 0; i < 128; i++)
		text_put(1, "sixteen bytes ok");
	for (int i = 0; i < 5; i++)
		assert_int_equal(ring_dict_put(&ring, RING_DICT_ATOM, 1, "x", 1), -ENOSPC);
	assert_int_equal(ring.control->dict_discarded, 6);
	assert_int_equal(ring.control->dict_tail, 4096);
	assert_int_equal(ring_dict_drain(reader, &data, &offset), 4096);
	scene_free();
}

static void long_dictionary_comes_in_pieces(void **state)
{
	static uint8_t big[RING_DICT_PAYLOAD_MAX];
	uint64_t total = 0, expected = 0, offset;
	const void *data;
	int64_t bytes;

	(void)state;
	scene_new(1 << 20);
	for (uint32_t i = 0; i < 12; i++) {
		assert_int_equal(ring_dict_put(&ring, RING_DICT_NOTE, i, big, sizeof(big)), 0);
		expected += 60032; /* 16 + 60000, rounded up to 32 */
	}
	while ((bytes = ring_dict_drain(reader, &data, &offset)) > 0) {
		assert_int_equal(offset, total);
		assert_int_equal(bytes % 60032, 0);
		total += (uint64_t)bytes;
	}
	assert_int_equal(total, expected);
	/* A new reader gets all of it again. */
	ring_reader_free(reader);
	reader = ring_reader_new(&ring, 2, 1);
	assert_true(ring_dict_drain(reader, &data, &offset) > 0);
	assert_int_equal(offset, 0);
	scene_free();
}

/* ---- Holes ------------------------------------------------------------------------------- */

static uint32_t held_check;
static struct ring_dict_entry *held;

/* As a writer that was stopped just before its last store. */
static void text_hold(uint64_t key, const char *text)
{
	held = (void *)(ring.dict + ring.control->dict_tail);
	text_put(key, text);
	held_check = held->check;
	atomic_store(&held->check, 0);
}

static void hole_is_waited_for(void **state)
{
	(void)state;
	scene_new(4096);
	text_put(1, "one");
	text_hold(2, "two");
	text_put(3, "three");
	text_drained(0, 1, "one");
	text_drained(0, 0, NULL);
	atomic_store(&held->check, held_check);
	{
		const void *data;
		uint64_t offset;

		assert_int_equal(ring_dict_drain(reader, &data, &offset), 64);
		assert_int_equal(offset, 32);
	}
	scene_free();
}

static void hole_of_a_dead_writer_is_skipped(void **state)
{
	(void)state;
	scene_new(4096);
	text_put(1, "one");
	/* One that wrote nothing, and one that wrote all but the check. */
	atomic_fetch_add(&ring.control->dict_tail, 96);
	text_hold(2, "two");
	text_put(3, "three");
	text_drained(0, 1, "one");
	for (int wait = 0; wait < 4; wait++)
		text_drained(0, 0, NULL);
	text_drained(160, 3, "three");
	text_put(4, "four");
	text_drained(192, 4, "four");
	text_drained(0, 0, NULL);
	/* It was only slow. */
	atomic_store(&held->check, held_check);
	text_drained(128, 2, "two");
	text_drained(0, 0, NULL);
	scene_free();
}

static void hole_at_the_end_is_no_hole_yet(void **state)
{
	(void)state;
	scene_new(4096);
	text_hold(1, "one");
	for (int wait = 0; wait < 50; wait++)
		text_drained(0, 0, NULL);
	atomic_store(&held->check, held_check);
	text_drained(0, 1, "one");
	scene_free();
}

static void holes_are_skipped_in_a_copy(void **state)
{
	const struct ring_dict_entry *entry;
	uint64_t position = 0;

	(void)state;
	scene_new(4096);
	atomic_fetch_add(&ring.control->dict_tail, 64);
	text_put(1, "one");
	text_hold(2, "two");
	text_put(1, "one");
	assert_int_equal(ring_dict_next(ring.dict, 4096, &position, &entry), 1);
	assert_ptr_equal(entry, ring.dict + 64);
	/* Twice the same is harmless. */
	assert_int_equal(ring_dict_next(ring.dict, 4096, &position, &entry), 1);
	assert_ptr_equal(entry, ring.dict + 128);
	assert_int_equal(ring_dict_next(ring.dict, 4096, &position, &entry), 0);
	/* Cut in an entry's middle. */
	position = 0;
	assert_int_equal(ring_dict_next(ring.dict, 82, &position, &entry), 0);
	position = 0;
	assert_int_equal(ring_dict_next(ring.dict, 83, &position, &entry), 1);
	scene_free();
}

static void hostile_dictionary_is_survived(void **state)
{
	static const uint64_t tails[] = {4096,	     4097,	     1, 31, 1ull << 40,
					 UINT64_MAX, UINT64_MAX - 64};
	uint32_t seed = 7;

	(void)state;
	for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
		for (int round = 0; round < 20; round++) {
			const struct ring_dict_entry *entry;
			uint64_t offset, position = 0;
			const void *data;
			int64_t bytes;

			scene_new(4096);
			for (uint32_t n = 0; n < 4096; n++) {
				seed = seed * 1664525 + 1013904223;
				ring.dict[n] = (uint8_t)(seed >> 24);
			}
			/* A good one among the noise. */
			atomic_store(&ring.control->dict_tail, 64);
			text_put(1, "one");
			atomic_store(&ring.control->dict_tail, tails[i]);
			for (int n = 0; n < 12; n++) {
				bytes = ring_dict_drain(reader, &data, &offset);
				assert_true(bytes >= 0 && bytes <= 4096);
				if (bytes)
					assert_true(offset + (uint64_t)bytes <= 4096);
			}
			assert_int_equal(ring_dict_next(ring.dict, 4096, &position, &entry), 1);
			assert_ptr_equal(entry, ring.dict + 64);
			/* No writer gets beyond the end, or to a place between slots. */
			ring_dict_put(&ring, RING_DICT_ATOM, 1, "two", 3);
			assert_true(ring.pool == ring.dict + 4096);
			for (int n = 0; n < 64; n++)
				assert_int_equal(ring.pool[n], 0);
			scene_free();
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mfa_has_one_index),
		cmocka_unit_test(full_tables_say_so),
		cmocka_unit_test(atom_has_one_slot),
		cmocka_unit_test(entries_come_as_they_were_put),
		cmocka_unit_test(check_does_not_depend_on_the_cut),
		cmocka_unit_test(full_dictionary_is_counted),
		cmocka_unit_test(long_dictionary_comes_in_pieces),
		cmocka_unit_test(hole_is_waited_for),
		cmocka_unit_test(hole_of_a_dead_writer_is_skipped),
		cmocka_unit_test(hole_at_the_end_is_no_hole_yet),
		cmocka_unit_test(holes_are_skipped_in_a_copy),
		cmocka_unit_test(hostile_dictionary_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
