/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "reply.h"

/* In memory of exactly its size, so that a sanitizer sees a byte too many. */
static int64_t checked(const char *data, size_t bytes)
{
	char *copy = malloc(bytes ? bytes : 1);
	int64_t end;

	memcpy(copy, data, bytes);
	end = term_check(copy, bytes, 0);
	free(copy);
	return end;
}

/* One of everything that ei encodes. */
static void everything(ei_x_buff *term)
{
	erlang_pid pid = {.node = "n@h", .num = 1, .serial = 2, .creation = 4};
	erlang_ref reference = {.node = "n@h", .len = 3, .n = {1, 2, 3}, .creation = 4};
	erlang_port port = {.node = "n@h", .id = 7, .creation = 4};

	ei_x_new(term);
	ei_x_encode_tuple_header(term, 11);
	ei_x_encode_atom(term, "ok");
	ei_x_encode_long(term, 7);
	ei_x_encode_long(term, -70000);
	ei_x_encode_longlong(term, INT64_MAX);
	ei_x_encode_double(term, 1.5);
	ei_x_encode_string(term, "text");
	ei_x_encode_binary(term, "\0\1", 2);
	ei_x_encode_pid(term, &pid);
	ei_x_encode_ref(term, &reference);
	ei_x_encode_port(term, &port);
	ei_x_encode_map_header(term, 1);
	ei_x_encode_atom(term, "key");
	ei_x_encode_list_header(term, 2);
	ei_x_encode_atom(term, "a");
	ei_x_encode_empty_list(term);
	ei_x_encode_empty_list(term);
}

static void test_whole(void **state)
{
	ei_x_buff term;

	(void)state;
	everything(&term);
	assert_int_equal(checked(term.buff, (size_t)term.index), term.index);
	/* More bytes behind it do not matter, one too few does. */
	for (int bytes = 0; bytes < term.index; bytes++)
		assert_int_equal(checked(term.buff, (size_t)bytes), -EINVAL);
	ei_x_free(&term);
}

static void test_hostile(void **state)
{
	static const struct {
		const char *data;
		size_t bytes;
	} terms[] = {
		{"m\xff\xff\xff\xffx", 6}, /* a binary of 4 GB */
		{"i\xff\xff\xff\xff"
		 "a\1",
		 7}, /* a tuple of 4 G elements */
		{"l\xff\xff\xff\xff"
		 "a\1",
		 7},
		{"t\x80\0\0\0"
		 "a\1",
		 7}, /* 2 G pairs */
		{"p\0\0\0\0", 5}, /* a fun smaller than its size field */
		{"Z\xff\xffw\1n\0\0\0\0", 9}, /* a reference of 65535 words */
		{"R\0", 2}, /* an atom of a cache that is not ours */
		{"\xff", 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(terms) / sizeof(*terms); i++)
		assert_int_equal(checked(terms[i].data, terms[i].bytes), -EINVAL);
}

static void test_deep(void **state)
{
	char nested[4096];

	(void)state;
	/* {{{...}}}: 60 levels are read, a thousand are refused rather than recursed into. */
	for (size_t i = 0; i < 1000; i++)
		memcpy(nested + 2 * i, "h\1", 2);
	nested[2000] = 'j';
	assert_int_equal(checked(nested, 2001), -EINVAL);
	nested[120] = 'j';
	assert_int_equal(checked(nested, 121), 121);
}

static void test_garbled(void **state)
{
	ei_x_buff term;

	(void)state;
	everything(&term);
	/* Whatever one byte becomes, what is accepted ends inside, and ei can print it. */
	for (int at = 0; at < term.index; at++) {
		for (int value = 0; value < 256; value += 5) {
			char before = term.buff[at], text[300];

			term.buff[at] = (char)value;
			if (checked(term.buff, (size_t)term.index) > 0)
				term_text(term.buff, 0, text, sizeof(text));
			term.buff[at] = before;
		}
	}
	ei_x_free(&term);
}

static void test_words(void **state)
{
	char text[8];
	ei_x_buff term;
	int index = 0;

	(void)state;
	ei_x_new(&term);
	ei_x_encode_binary(&term, "a long word", 11);
	ei_x_encode_atom(&term, "atom");
	term_words(term.buff, &index, text, sizeof(text));
	assert_string_equal(text, "a long ");
	term_words(term.buff, &index, text, sizeof(text));
	assert_string_equal(text, "atom");
	assert_int_equal(index, term.index);
	ei_x_free(&term);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole), cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_deep),  cmocka_unit_test(test_garbled),
		cmocka_unit_test(test_words),
	};

	ei_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
