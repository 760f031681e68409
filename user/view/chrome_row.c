/* SPDX-License-Identifier: Apache-2.0 */
#include "chrome_row.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "text.h"

static void rows_check(struct chrome_rows *rows)
{
	if (!rows->error && ferror(rows->out))
		rows->error = errno ? -errno : -EIO;
}

void rows_begin(struct chrome_rows *rows)
{
	fputs("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"clock\":\"CLOCK_MONOTONIC\"},"
	      "\"traceEvents\":[",
	      rows->out);
}

void rows_end(struct chrome_rows *rows)
{
	fputs("\n]}\n", rows->out);
	rows_check(rows);
}

static void string_put(struct chrome_rows *rows, const char *value)
{
	char buffer[ROW_BYTES];
	struct text_builder text;

	text_begin(&text, buffer, sizeof(buffer));
	text_add_json(&text, value, strlen(value));
	text_finish(&text);
	fprintf(rows->out, "\"%s\"", buffer);
}

/* Microseconds with what is left as decimals: a double of 53 bits holds 100 days of nanoseconds. */
static void time_put(struct chrome_rows *rows, const char *key, uint64_t ns)
{
	fprintf(rows->out, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned int)(ns % 1000));
}

void row_begin(struct chrome_rows *rows, char phase, uint64_t pid, uint64_t tid, const char *name,
	       const char *category)
{
	fprintf(rows->out, "%s\n{\"ph\":\"%c\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu64 ",\"name\":",
		rows->any ? "," : "", phase, pid, tid);
	rows->any = true;
	rows->args = false;
	string_put(rows, name);
	if (category)
		fprintf(rows->out, ",\"cat\":\"%s\"", category);
	/* A flow ends in the slice that is around it. */
	if (phase == 'f')
		fputs(",\"bp\":\"e\"", rows->out);
}

void row_time(struct chrome_rows *rows, uint64_t ts_ns)
{
	time_put(rows, "ts", ts_ns);
}

void row_id(struct chrome_rows *rows, uint64_t id)
{
	fprintf(rows->out, ",\"id\":%" PRIu64, id);
}

void row_slice(struct chrome_rows *rows, uint64_t pid, uint64_t tid, const char *category,
	       const char *name, uint64_t start_ns, uint64_t end_ns)
{
	double start_us = (double)start_ns / 1000, end_us = (double)end_ns / 1000;

	row_begin(rows, 'X', pid, tid, name, category);
	time_put(rows, "ts", start_ns);
	/*
	 * Viewers add the two in floating point. With the digits of the difference that they would get
	 * themselves the sum is the `ts` of a slice that begins at this end, and not a little more.
	 */
	fprintf(rows->out, ",\"dur\":%.17g", end_us - start_us);
}

void row_instant(struct chrome_rows *rows, uint64_t pid, uint64_t tid, const char *category,
		 const char *name, uint64_t ts_ns)
{
	row_begin(rows, 'i', pid, tid, name, category);
	time_put(rows, "ts", ts_ns);
	fputs(",\"s\":\"t\"", rows->out);
}

static void key_put(struct chrome_rows *rows, const char *key)
{
	fprintf(rows->out, "%s\"%s\":", rows->args ? "," : ",\"args\":{", key);
	rows->args = true;
}

void row_text(struct chrome_rows *rows, const char *key, const char *value)
{
	key_put(rows, key);
	string_put(rows, value);
}

void row_number(struct chrome_rows *rows, const char *key, uint64_t value)
{
	key_put(rows, key);
	fprintf(rows->out, "%" PRIu64, value);
}

void row_flag(struct chrome_rows *rows, const char *key, bool value)
{
	key_put(rows, key);
	fputs(value ? "true" : "false", rows->out);
}

void row_end(struct chrome_rows *rows)
{
	fputs(rows->args ? "}}" : "}", rows->out);
	rows_check(rows);
}
