/* SPDX-License-Identifier: Apache-2.0 */

/* What reports are made of: figures, texts, tables, gaps. */

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gaps.h"
#include "page.h"
#include "program.h"
#include "quantile.h"
#include "report_feed.h"
#include "sanitize.h"
#include "table.h"
#include "units.h"

#define SECOND 1000000000ULL

/* ---- Percentiles ---- */

static void few_values_have_exact_percentiles(void **state)
{
	struct quantile quantile = {0};

	(void)state;
	assert_int_equal(quantile_at(&quantile, 500), 0);
	for (uint64_t value = 10; value >= 1; value--)
		assert_int_equal(quantile_add(&quantile, value * 1000), 0);
	/* nearest rank of 1000..10000: the 5th, the 9th, the 10th */
	assert_int_equal(quantile_at(&quantile, 500), 5000);
	assert_int_equal(quantile_at(&quantile, 900), 9000);
	assert_int_equal(quantile_at(&quantile, 990), 10000);
	assert_int_equal(quantile_at(&quantile, 0), 1000);
	assert_int_equal(quantile.count, 10);
	assert_int_equal(quantile.sum, 55000);
	assert_int_equal(quantile.min, 1000);
	assert_int_equal(quantile.max, 10000);
	quantile_free(&quantile);
}

static int value_compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static void many_values_have_percentiles_within_the_documented_error(void **state)
{
	enum { COUNT = 5000 };
	static const uint32_t shares[] = {1, 10, 250, 500, 900, 990, 999, 1000};
	uint64_t *values = calloc(COUNT, sizeof(*values)), seed = 88172645463325252ULL, sum = 0;
	struct quantile quantile = {0};

	(void)state;
	for (size_t i = 0; i < COUNT; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		/* all magnitudes: from single nanoseconds to minutes */
		values[i] = seed >> (28 + seed % 30);
		sum += values[i];
		assert_int_equal(quantile_add(&quantile, values[i]), 0);
	}
	qsort(values, COUNT, sizeof(*values), value_compare);
	for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
		size_t rank = (COUNT * shares[i] + 999) / 1000;
		uint64_t exact = values[rank ? rank - 1 : 0],
			 got = quantile_at(&quantile, shares[i]);

		assert_true(got >= exact);
		assert_true(got - exact <= exact / 64);
	}
	assert_int_equal(quantile_at(&quantile, 1000), values[COUNT - 1]);
	assert_int_equal(quantile.sum, sum);
	assert_int_equal(quantile.count, COUNT);
	quantile_free(&quantile);
	free(values);
}

static void percentiles_take_the_largest_values_there_are(void **state)
{
	struct quantile quantile = {0};

	(void)state;
	for (int i = 0; i < 40; i++)
		assert_int_equal(quantile_add(&quantile, i ? UINT64_MAX : 0), 0);
	assert_int_equal(quantile_at(&quantile, 0), 0);
	assert_int_equal(quantile_at(&quantile, 500), UINT64_MAX);
	assert_int_equal(quantile.sum, UINT64_MAX);
	quantile_free(&quantile);
}

/* ---- Units ---- */

static void durations_have_three_digits_that_count(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {{0, "0 ns"},
		     {999, "999 ns"},
		     {1000, "1.00 us"},
		     {12345, "12.3 us"},
		     {999499, "999 us"},
		     {999500, "1.00 ms"},
		     {50149999, "50.1 ms"},
		     {1234567890, "1.23 s"},
		     {59000000000, "59.0 s"},
		     {60000000000, "1 min 00 s"},
		     {125000000000, "2 min 05 s"},
		     {12000000000000, "3 h 20 min"}};
	char text[UNITS_TEXT];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_string_equal(units_duration(text, cases[i].ns), cases[i].text);
	assert_string_equal(units_duration(text, UINT64_MAX), "5124095 h 34 min");
	assert_string_equal(units_bytes(text, 512), "512 B");
	assert_string_equal(units_bytes(text, 3141592), "3.14 MB");
	assert_string_equal(units_bytes(text, UINT64_MAX), "18.4 EB");
	assert_string_equal(units_count(text, 0), "0");
	assert_string_equal(units_count(text, 8214), "8,214");
	assert_string_equal(units_count(text, 123456789), "123,456,789");
}

static void durations_are_parsed_exactly(void **state)
{
	uint64_t ns = 0;

	(void)state;
	assert_int_equal(units_parse_duration("1ms", &ns), 0);
	assert_int_equal(ns, 1000000);
	assert_int_equal(units_parse_duration("1.5", &ns), 0);
	assert_int_equal(ns, 1500000000);
	assert_int_equal(units_parse_duration("0.123456789s", &ns), 0);
	assert_int_equal(ns, 123456789);
	assert_int_equal(units_parse_duration("2.5us", &ns), 0);
	assert_int_equal(ns, 2500);
	assert_int_equal(units_parse_duration("1.25m", &ns), 0);
	assert_int_equal(ns, 75 * SECOND);
	assert_int_equal(units_parse_duration("", &ns), -EINVAL);
	assert_int_equal(units_parse_duration("-1s", &ns), -EINVAL);
	assert_int_equal(units_parse_duration("1.s", &ns), -EINVAL);
	assert_int_equal(units_parse_duration("1 ms", &ns), -EINVAL);
	assert_int_equal(units_parse_duration("99999999999999999999ns", &ns), -ERANGE);
	assert_int_equal(units_parse_duration("18446744073709551615s", &ns), -ERANGE);
}

/* ---- Text ---- */

static void hostile_text_cannot_steer_a_terminal(void **state)
{
	char text[64];

	(void)state;
	assert_int_equal(sanitize_copy(text, sizeof(text), "a\033[31mb\r\n\x7f", 10), 10);
	assert_string_equal(text, "a?[31mb???");
	/* U+009B, U+202E, an overlong slash, a surrogate, a cut character: one '?' a character or byte */
	sanitize_copy(text, sizeof(text), "\xc2\x9b|\xe2\x80\xae|\xc0\xaf|\xed\xa0\x80|\xe2\x82",
		      16);
	assert_string_equal(text, "?|?|??|???|??");
	sanitize_copy(text, sizeof(text), "na\xc3\xafve \xe6\xbc\xa2", 10);
	assert_string_equal(text, "na\xc3\xafve \xe6\xbc\xa2");
	assert_int_equal(sanitize_columns(text), 8);
	assert_int_equal(sanitize_prefix(text, 7, NULL), 7);
	/* cut between characters, with room for the 0 */
	assert_int_equal(sanitize_copy(text, 4, "ab\xc3\xaf", 4), 2);
	assert_string_equal(text, "ab");
}

static void tables_fit_a_page_and_leave_out_empty_columns(void **state)
{
	static const struct table_column columns[] = {{"NAME", TABLE_FLEX},
						      {"EMPTY", TABLE_RIGHT},
						      {"MFA", TABLE_FLEX_TAIL},
						      {"N", TABLE_RIGHT},
						      {NULL, 0}};
	char wide[200], *text = NULL;
	struct table *table = table_new(columns);
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	memset(wide, 'x', sizeof(wide) - 1);
	wide[sizeof(wide) - 1] = 0;
	table_cell(table, "%s", "short");
	table_cell(table, "%s", "");
	table_cell(table, "%s", "m:f/1");
	table_cell(table, "%d", 1);
	table_cell(table, "%s", wide);
	table_cell(table, "%s", "");
	table_cell(table, "%s:tail/3", wide);
	table_cell(table, "%s", "\033[2J");
	assert_int_equal(table_rows(table), 2);
	assert_int_equal(table_print(table, out, 2), 0);
	fclose(out);
	lines_fit(text);
	assert_null(strstr(text, "EMPTY"));
	assert_non_null(strstr(text, "x..  ..x"));
	assert_non_null(strstr(text, "x:tail/3  ?[2J\n"));
	assert_non_null(strstr(text, "  short  "));
	table_free(table);
	free(text);
}

static void prose_wraps_at_spaces(void **state)
{
	char *text = NULL, word[150];
	size_t size;
	FILE *out = open_memstream(&text, &size);

	(void)state;
	memset(word, 'w', sizeof(word) - 1);
	word[sizeof(word) - 1] = 0;
	page_print(out, 0, 4, "%s", "one two\nthree");
	page_print(out, 2, 4, "%s %s end", "start", word);
	page_print(out, 0, 0, "%s", "");
	fclose(out);
	lines_fit(text);
	assert_memory_equal(text, "one two\n    three\n  start\n    www", 33);
	free(text);
}

/* ---- Gaps ---- */

static void gaps_that_overlap_are_one(void **state)
{
	struct gaps gaps = {0};
	struct gap over;

	(void)state;
	gap_add(&gaps, 100, 200, 5, false);
	gap_add(&gaps, 400, 500, 7, true);
	gap_add(&gaps, 10, 20, 1, false);
	gap_add(&gaps, 150, 250, 2, false);
	assert_int_equal(gaps.count, 3);
	assert_int_equal(gaps.gaps[1].from_ns, 100);
	assert_int_equal(gaps.gaps[1].to_ns, 250);
	assert_int_equal(gaps.gaps[1].count, 7);
	/* one that joins two */
	gap_add(&gaps, 240, 400, 1, false);
	assert_int_equal(gaps.count, 2);
	over = gaps_over(&gaps, 0, 1000);
	assert_int_equal(over.count, 16);
	assert_int_equal(over.kernel, 7);
	assert_int_equal(over.from_ns, 10);
	assert_int_equal(over.to_ns, 500);
	/* an event at the edge was recorded */
	assert_int_equal(gaps_over(&gaps, 20, 100).count, 0);
	assert_int_equal(gaps_over(&gaps, 20, 101).count, 15);
	assert_int_equal(gaps_over(&gaps, 500, 600).count, 0);
	gaps_free(&gaps);
}

/* ---- The program's name in commands ---- */

static void commands_can_be_pasted(void **state)
{
	char path[200];

	(void)state;
	assert_string_equal(program_name(), "beamweave");
	/* what PATH finds, and what would steer a terminal, leave it so */
	program_set("beamweave");
	program_set("./\033[2J");
	memset(path, '/', sizeof(path) - 1);
	path[sizeof(path) - 1] = 0;
	program_set(path);
	program_set(NULL);
	assert_string_equal(program_name(), "beamweave");
	program_set("build/beamweave");
	assert_string_equal(program_name(), "build/beamweave");
	program_set("./it's here/beamweave");
	assert_string_equal(program_name(), "'./it'\\''s here/beamweave'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(few_values_have_exact_percentiles),
		cmocka_unit_test(many_values_have_percentiles_within_the_documented_error),
		cmocka_unit_test(percentiles_take_the_largest_values_there_are),
		cmocka_unit_test(durations_have_three_digits_that_count),
		cmocka_unit_test(durations_are_parsed_exactly),
		cmocka_unit_test(hostile_text_cannot_steer_a_terminal),
		cmocka_unit_test(tables_fit_a_page_and_leave_out_empty_columns),
		cmocka_unit_test(prose_wraps_at_spaces),
		cmocka_unit_test(gaps_that_overlap_are_one),
		cmocka_unit_test(commands_can_be_pasted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
