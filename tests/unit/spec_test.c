/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "amount.h"
#include "spec.h"

static void parsed(const char *text, const char *module, const char *function, int arity)
{
	struct spec_error error;
	struct call_spec spec;

	assert_int_equal(spec_parse(text, &spec, &error), 0);
	assert_string_equal(spec.module, module);
	assert_string_equal(spec.function, function);
	assert_int_equal(spec.arity, arity);
}

static void refused(const char *text, size_t at)
{
	struct spec_error error;
	struct call_spec spec;

	assert_int_equal(spec_parse(text, &spec, &error), -EINVAL);
	assert_non_null(error.message);
	assert_int_equal(error.at, at);
}

static void test_erlang(void **state)
{
	(void)state;
	parsed("lists", "lists", "", -1);
	parsed("lists:seq", "lists", "seq", -1);
	parsed("lists:seq/2", "lists", "seq", 2);
	parsed("lists:seq/0", "lists", "seq", 0);
	parsed("lists:seq/255", "lists", "seq", 255);
	parsed("lists:seq/_", "lists", "seq", -1);
	parsed("lists:_", "lists", "", -1);
	parsed("lists:*/3", "lists", "", 3);
	parsed("lists:_x", "lists", "_x", -1);
	parsed("a@b_1:c@d/1", "a@b_1", "c@d", 1);
	parsed("'my-mod':'hello world'/1", "my-mod", "hello world", 1);
	parsed("erlang:'+'/2", "erlang", "+", 2);
	parsed("m:'it\\'s'", "m", "it's", -1);
	parsed("größe:läuft/1", "größe", "läuft", 1);
}

static void test_elixir(void **state)
{
	(void)state;
	parsed("Shop", "Elixir.Shop", "", -1);
	parsed("Shop.Cart", "Elixir.Shop.Cart", "", -1);
	parsed("Shop.Cart.add", "Elixir.Shop.Cart", "add", -1);
	parsed("Shop.Cart.add/2", "Elixir.Shop.Cart", "add", 2);
	parsed("Shop.Cart.empty?/1", "Elixir.Shop.Cart", "empty?", 1);
	parsed("Shop.Cart.fetch!/1", "Elixir.Shop.Cart", "fetch!", 1);
	parsed("Shop.Cart:add/2", "Elixir.Shop.Cart", "add", 2);
	parsed("Elixir.Shop.add", "Elixir.Shop", "add", -1);
	parsed("'Elixir.Shop':add", "Elixir.Shop", "add", -1);
	parsed(":lists.seq/2", "lists", "seq", 2);
	parsed("Shop._/2", "Elixir.Shop", "", 2);
	parsed("Shop.\"odd name\"/1", "Elixir.Shop", "odd name", 1);
}

static void test_wrong(void **state)
{
	char text[4 * ATOM_BYTES];

	(void)state;
	refused("", 0);
	refused("_", 0);
	refused("*:f", 0);
	refused("4x", 0);
	refused("lists:", 6);
	refused("lists:4", 6);
	refused("lists:seq/", 10);
	refused("lists:seq/256", 10);
	refused("lists:seq/99999999999999999999", 10);
	refused("lists:seq/-1", 10);
	refused("lists:seq/2/3", 11);
	refused("lists/2", 5);
	refused("lists:'seq", 6);
	refused("lists:''", 6);
	refused("a b", 1);
	refused("Shop.", 5);
	/* 255 characters are an atom, 256 are not, however many bytes they have. */
	memset(text, 'a', 256);
	text[255] = 0;
	parsed(text, text, "", -1);
	text[255] = 'a';
	text[256] = 0;
	refused(text, 0);
	for (size_t i = 0; i < 256; i++)
		memcpy(text + 2 * i, "ä", 2);
	text[510] = 0;
	parsed(text, text, "", -1);
}

static void test_caret(void **state)
{
	struct spec_error error = {.at = 3, .message = "x"};
	char lines[600];

	(void)state;
	spec_error_lines("ab:c", &error, lines, sizeof(lines));
	assert_string_equal(lines, "  ab:c\n     ^");
	/* Columns are characters, not bytes. */
	error.at = 4;
	spec_error_lines("äb:c", &error, lines, sizeof(lines));
	assert_string_equal(lines, "  äb:c\n     ^");
	error.at = 1;
	spec_error_lines("a\nb\x1b", &error, lines, sizeof(lines));
	assert_string_equal(lines, "  a?b?\n   ^");
}

static void test_amounts(void **state)
{
	static const struct amount_name names[] = {{"one", 1}, {"two", 2}, {NULL, 0}};
	const char *text = "one,three";
	uint32_t bits = 0;
	const char *at;
	uint64_t value;
	size_t bytes;

	(void)state;
	assert_int_equal(amount_duration("30", &value), 0);
	assert_int_equal(value, 30000000000);
	assert_int_equal(amount_duration("1.5s", &value), 0);
	assert_int_equal(value, 1500000000);
	assert_int_equal(amount_duration("250ms", &value), 0);
	assert_int_equal(value, 250000000);
	assert_int_equal(amount_duration("2m", &value), 0);
	assert_int_equal(value, 120000000000);
	assert_int_equal(amount_duration("0", &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(amount_bytes("64M", &value), 0);
	assert_int_equal(value, 64 << 20);
	assert_int_equal(amount_bytes("1.5k", &value), 0);
	assert_int_equal(value, 1536);
	assert_int_equal(amount_count("10k", &value), 0);
	assert_int_equal(value, 10000);
	for (size_t i = 0; i < 9; i++) {
		static const char *const wrong[] = {"",	   "x",	   "-1",   "1x", "inf",
						    "nan", "0x10", "1e99", " 1"};

		assert_int_equal(amount_duration(wrong[i], &value), -EINVAL);
		assert_int_equal(amount_bytes(wrong[i], &value), -EINVAL);
		assert_int_equal(amount_count(wrong[i], &value), -EINVAL);
	}
	assert_int_equal(amount_list("two,one", names, &bits, &at, &bytes), 0);
	assert_int_equal(bits, 3);
	assert_int_equal(amount_list(text, names, &bits, &at, &bytes), -EINVAL);
	assert_ptr_equal(at, text + 4);
	assert_int_equal(bytes, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_erlang),	cmocka_unit_test(test_elixir),
		cmocka_unit_test(test_wrong),	cmocka_unit_test(test_caret),
		cmocka_unit_test(test_amounts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
