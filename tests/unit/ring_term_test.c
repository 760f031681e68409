/* SPDX-License-Identifier: Apache-2.0 */
/* What is told of a trace message at a glance: its kind and its time. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ring_term.h"

/* Built with the tags of erl_ext_dist, byte by byte. */
static uint8_t message[1024];
static uint32_t used;

static void put(const void *bytes, uint32_t count)
{
	assert_true(used + count <= sizeof(message));
	memcpy(message + used, bytes, count);
	used += count;
}

#define PUT(...) put((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void put_atom(uint8_t tag, const char *text)
{
	if (tag == 100 || tag == 118)
		PUT(tag, 0, (uint8_t)strlen(text));
	else
		PUT(tag, (uint8_t)strlen(text));
	put(text, (uint32_t)strlen(text));
}

static void put_big(int64_t value)
{
	uint64_t bits = value < 0 ? -(uint64_t)value : (uint64_t)value;

	PUT(110, 8, value < 0);
	put(&bits, 8);
}

/* {Head, <0.17.1>, Tag, ...: `arity` elements in all. */
static void begin(const char *head, uint8_t arity, const char *tag)
{
	used = 0;
	PUT(131, 104, arity);
	put_atom(100, head);
	PUT(88);
	put_atom(100, "nonode@nohost");
	PUT(0, 0, 0, 17, 0, 0, 0, 1, 0, 0, 0, 0);
	put_atom(100, tag);
}

/* {m, f, 2} */
static void put_mfa(void)
{
	PUT(104, 3);
	put_atom(100, "m");
	put_atom(100, "f");
	PUT(97, 2);
}

static enum ring_kind kind(void)
{
	/* A heap of that very size, so that a read beyond it is seen. */
	uint8_t *copy = malloc(used);
	enum ring_kind found;

	memcpy(copy, message, used);
	found = ring_term_kind(copy, used);
	free(copy);
	return found;
}

static enum ring_term_clock clock_of(int64_t *time_ns)
{
	uint8_t *copy = malloc(used);
	enum ring_term_clock found;

	memcpy(copy, message, used);
	found = ring_term_time(copy, used, time_ns);
	free(copy);
	return found;
}

static void each_tag_has_its_kind(void **state)
{
	static const struct {
		const char *tag;
		enum ring_kind kind;
	} tags[] = {
		{"call", RING_CALL},
		{"return_to", RING_RETURN_TO},
		{"return_from", RING_RETURN_FROM},
		{"exception_from", RING_EXCEPTION_FROM},
		{"send", RING_SEND},
		{"send_to_non_existing_process", RING_SEND_NOPROC},
		{"receive", RING_RECEIVE},
		{"in", RING_IN},
		{"out", RING_OUT},
		{"in_exiting", RING_IN_EXITING},
		{"out_exiting", RING_OUT_EXITING},
		{"out_exited", RING_OUT_EXITED},
		{"gc_minor_start", RING_GC_MINOR_START},
		{"gc_minor_end", RING_GC_MINOR_END},
		{"gc_major_start", RING_GC_MAJOR_START},
		{"gc_major_end", RING_GC_MAJOR_END},
		{"gc_max_heap_size", RING_GC_MAX_HEAP},
		{"spawn", RING_SPAWN},
		{"spawned", RING_SPAWNED},
		{"exit", RING_EXIT},
		{"link", RING_LINK},
		{"unlink", RING_UNLINK},
		{"getting_linked", RING_GETTING_LINKED},
		{"getting_unlinked", RING_GETTING_UNLINKED},
		{"register", RING_REGISTER},
		{"unregister", RING_UNREGISTER},
		{"open", RING_PORT_OPEN},
		{"closed", RING_PORT_CLOSED},
		{"later_invention", RING_UNKNOWN},
		{"", RING_UNKNOWN},
		{"cal", RING_UNKNOWN},
		{"calls", RING_UNKNOWN},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		begin(i % 2 ? "trace" : "trace_ts", 4, tags[i].tag);
		put_mfa();
		assert_int_equal(kind(), tags[i].kind);
	}
}

static void every_form_of_atoms_and_tracees_is_read(void **state)
{
	static const uint8_t atoms[] = {100, 115, 118, 119};
	static const struct {
		uint8_t tag, bytes;
		enum ring_kind kind;
	} tracees[] = {
		{103, 9, RING_IN},	 {88, 12, RING_IN},	  {102, 5, RING_PORT_IN},
		{89, 8, RING_PORT_IN},	 {120, 12, RING_PORT_IN}, {97, 1, RING_UNKNOWN},
		{114, 20, RING_UNKNOWN},
	};
	static const uint8_t zeros[20];

	(void)state;
	for (size_t a = 0; a < sizeof(atoms); a++) {
		for (size_t t = 0; t < sizeof(tracees) / sizeof(tracees[0]); t++) {
			used = 0;
			PUT(131, 104, 4);
			put_atom(atoms[a], "trace");
			PUT(tracees[t].tag);
			put_atom(atoms[a], "n@h");
			put(zeros, tracees[t].bytes);
			put_atom(atoms[a], "in");
			PUT(97, 0);
			assert_true(ring_term_is_trace(message, used));
			assert_int_equal(kind(), tracees[t].kind);
		}
	}
}

static void what_is_no_trace_message_has_no_kind_and_no_time(void **state)
{
	int64_t time_ns;

	(void)state;
	used = 0;
	assert_false(ring_term_is_trace(message, used));
	put("hello", 5);
	assert_false(ring_term_is_trace(message, used));
	assert_int_equal(kind(), RING_UNKNOWN);
	assert_int_equal(clock_of(&time_ns), RING_TERM_NO_CLOCK);
	begin("trice", 4, "call");
	assert_false(ring_term_is_trace(message, used));
	assert_int_equal(kind(), RING_UNKNOWN);
	begin("seq_trace", 4, "call");
	assert_true(ring_term_is_trace(message, used));
	assert_int_equal(kind(), RING_UNKNOWN);
}

static void times_of_every_kind(void **state)
{
	int64_t time_ns;

	(void)state;
	begin("trace_ts", 5, "call");
	put_mfa();
	put_big(-576460751234567890);
	assert_int_equal(clock_of(&time_ns), RING_TERM_MONOTONIC);
	assert_int_equal(time_ns, -576460751234567890);

	/* strict: {Time, Unique}, Unique small or large */
	begin("trace_ts", 5, "call");
	put_mfa();
	PUT(104, 2);
	put_big(-576460751234567891);
	put_big(-576460752303423000);
	assert_int_equal(clock_of(&time_ns), RING_TERM_MONOTONIC);
	assert_int_equal(time_ns, -576460751234567891);
	begin("trace_ts", 5, "call");
	put_mfa();
	PUT(104, 2);
	put_big(77);
	PUT(97, 5);
	assert_int_equal(clock_of(&time_ns), RING_TERM_MONOTONIC);
	assert_int_equal(time_ns, 77);

	/* {1796, 92558, 7}: megaseconds, seconds, microseconds */
	begin("trace_ts", 5, "call");
	put_mfa();
	PUT(104, 3, 98, 0, 0, 7, 4, 98, 0, 1, 0x69, 0x8e, 97, 7);
	assert_int_equal(clock_of(&time_ns), RING_TERM_SYSTEM);
	assert_int_equal(time_ns, 1796092558000007000);

	/* The MFA's arity is no time. */
	begin("trace", 4, "call");
	put_mfa();
	assert_int_equal(clock_of(&time_ns), RING_TERM_NO_CLOCK);
	/* Nor is an atom. */
	begin("trace_ts", 4, "spawn");
	put_atom(100, "later");
	assert_int_equal(clock_of(&time_ns), RING_TERM_NO_CLOCK);
}

static void no_prefix_and_no_noise_is_read_beyond(void **state)
{
	uint32_t whole, seed = 1;
	int64_t time_ns;

	(void)state;
	begin("trace_ts", 5, "call");
	put_mfa();
	PUT(104, 2);
	put_big(-576460751234567891);
	put_big(-576460752303423000);
	whole = used;
	for (used = 0; used < whole; used++) {
		kind();
		clock_of(&time_ns);
	}
	for (int round = 0; round < 20000; round++) {
		uint8_t before;
		uint32_t at;

		seed = seed * 1664525 + 1013904223;
		at = (seed >> 8) % whole;
		before = message[at];
		message[at] = (uint8_t)(seed >> 24);
		used = whole;
		kind();
		clock_of(&time_ns);
		message[at] = before;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_tag_has_its_kind),
		cmocka_unit_test(every_form_of_atoms_and_tracees_is_read),
		cmocka_unit_test(what_is_no_trace_message_has_no_kind_and_no_time),
		cmocka_unit_test(times_of_every_kind),
		cmocka_unit_test(no_prefix_and_no_noise_is_read_beyond),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
