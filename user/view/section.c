/* SPDX-License-Identifier: Apache-2.0 */
#include "section.h"

#include <stdlib.h>
#include <string.h>

#include "page.h"
#include "sanitize.h"
#include "units.h"

#define TEXT_ROWS 20
#define JSON_KEEP 1000
#define KEEP_MAX  1000000
/* Names in sentences and tables; whole ones stand in JSON. */
#define WHO_NAME_COLUMNS 48

bool section_inside(const struct report *report, uint64_t start_ns, uint64_t end_ns)
{
	return end_ns >= report->from_ns && start_ns <= report->to_ns;
}

uint64_t section_clip(const struct report *report, uint64_t start_ns, uint64_t end_ns)
{
	if (start_ns < report->from_ns)
		start_ns = report->from_ns;
	if (end_ns > report->to_ns)
		end_ns = report->to_ns;
	return end_ns > start_ns ? end_ns - start_ns : 0;
}

size_t section_limit(const struct report *report)
{
	if (report->options->limited)
		return report->options->limit ? report->options->limit : SIZE_MAX;
	return report->options->json ? SIZE_MAX : TEXT_ROWS;
}

size_t section_keep(const struct report *report)
{
	size_t limit = section_limit(report);

	if (!report->options->limited && report->options->json)
		return JSON_KEEP;
	return limit < KEEP_MAX ? limit : KEEP_MAX;
}

void section_failed(struct report *report, int error)
{
	if (error && !report->error)
		report->error = error;
}

char *section_called(char buffer[static SECTION_WHO], const char *process, const char *name)
{
	size_t bytes;

	if (!name)
		name = "";
	bytes = sanitize_prefix(name, WHO_NAME_COLUMNS, NULL);
	snprintf(buffer, SECTION_WHO, "%s%s%.*s%s", process, *name ? " " : "", (int)bytes, name,
		 name[bytes] ? ".." : "");
	return buffer;
}

char *section_who(struct report *report, char buffer[static SECTION_WHO], uint64_t word,
		  uint64_t ts_ns)
{
	buffer[0] = 0;
	if (!word)
		return buffer;
	return section_called(buffer, trace_process_text(report->trace, word),
			      trace_process_name(report->trace, word, ts_ns));
}

const char *section_mfa(struct report *report, uint32_t mfa)
{
	return mfa == RING_NO_INDEX ? "" : trace_mfa(report->trace, mfa);
}

json_t *section_json_text(const char *text)
{
	char *clean;
	json_t *value;

	if (!text)
		return json_null();
	clean = sanitize_new(text, strlen(text), 0);
	value = clean ? json_string(clean) : NULL;
	free(clean);
	return value;
}

json_t *section_json_number(uint64_t number)
{
	return json_integer(number > INT64_MAX ? INT64_MAX : (json_int_t)number);
}

json_t *section_json_process(struct report *report, uint64_t word)
{
	return word ? section_json_text(trace_process_text(report->trace, word)) : json_null();
}

json_t *section_json_mfa(struct report *report, uint32_t mfa)
{
	return mfa == RING_NO_INDEX ? json_null()
				    : section_json_text(trace_mfa(report->trace, mfa));
}

json_t *section_json_quantile(const struct quantile *quantile, bool p90)
{
	json_t *object;

	if (!quantile->count)
		return json_null();
	object = json_pack("{s:o}", "p50", section_json_number(quantile_at(quantile, 500)));
	if (p90)
		json_object_set_new(object, "p90", section_json_number(quantile_at(quantile, 900)));
	json_object_set_new(object, "p99", section_json_number(quantile_at(quantile, 990)));
	json_object_set_new(object, "max", section_json_number(quantile->max));
	return object;
}

json_t *section_json_clean(const json_t *value)
{
	json_t *copy, *item;
	const char *key;
	size_t index;

	switch (json_typeof(value)) {
	case JSON_OBJECT:
		copy = json_object();
		json_object_foreach ((json_t *)value, key, item) {
			char *clean = sanitize_new(key, strlen(key), 0);

			if (clean)
				json_object_set_new(copy, clean, section_json_clean(item));
			free(clean);
		}
		return copy;
	case JSON_ARRAY:
		copy = json_array();
		json_array_foreach (value, index, item)
			json_array_append_new(copy, section_json_clean(item));
		return copy;
	case JSON_STRING:
		return section_json_text(json_string_value(value));
	default:
		return json_deep_copy(value);
	}
}

void section_left_out(FILE *out, size_t shown, size_t all, const char *what)
{
	if (all > shown)
		page_print(out, 2, 2, "... and %s more %s (--limit 0 shows all)",
			   UNITS_COUNT(all - shown), what);
}

void section_own(const struct report *report, FILE *out)
{
	uint64_t own = trace_own_all(report->trace);

	if (own)
		page_print(
			out, 2, 4,
			"%s events in the file are of beamweave's own processes on the node: "
			"'record' "
			"and 'report loss' count them, other reports and exports leave them out.",
			UNITS_COUNT(own));
}

void section_nothing(const struct report *report, FILE *out, enum look look)
{
	const char *what = report->coverage.looks[look].what;
	char fix[COVERAGE_FIX];

	coverage_fix(fix, &report->coverage, look);
	if (report->coverage.looks[look].on)
		page_print(out, 0, 2, "Nothing to show: %s were recorded, but there were none%s.",
			   what, report->whole ? "" : " in this window");
	else
		page_print(out, 0, 2, "Not recorded: %s (%s).%s%s", what,
			   report->coverage.looks[look].why, *fix ? " To have them: " : "", fix);
}
