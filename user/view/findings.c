/* SPDX-License-Identifier: Apache-2.0 */
#include "findings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fanout.h"
#include "page.h"
#include "units.h"

#define LOST_COLUMNS 9

static const struct section *const sources[] = {&section_stalls, &section_calls, &section_messages,
						&section_gc, &section_sockets};
#define SOURCES (sizeof(sources) / sizeof(sources[0]))

struct findings_section {
	struct findings findings;
	struct fanout fanout;
	void *states[SOURCES];
	bool found;
};

static void findings_close(void *state)
{
	struct findings_section *section = state;
	struct findings *findings = &section->findings;

	for (size_t i = 0; i < SOURCES; i++)
		if (section->states[i])
			sources[i]->close(section->states[i]);
	for (size_t i = 0; i < findings->count; i++) {
		free(findings->found[i].text);
		free(findings->found[i].who);
		free(findings->found[i].next);
	}
	free(findings->found);
	free(section);
}

static void *findings_open(struct report *report, struct timeline_sink *sink)
{
	struct findings_section *section = calloc(1, sizeof(*section));

	if (!section)
		return NULL;
	section->findings.report = report;
	for (size_t i = 0; i < SOURCES; i++) {
		section->states[i] = sources[i]->open(report, fanout_add(&section->fanout));
		if (!section->states[i]) {
			findings_close(section);
			return NULL;
		}
	}
	section->findings.stalls = section->states[0];
	section->findings.calls = section->states[1];
	section->findings.messages = section->states[2];
	section->findings.gcs = section->states[3];
	section->findings.sockets = section->states[4];
	*sink = fanout_sink(&section->fanout);
	return section;
}

static void findings_draw(struct findings_section *section)
{
	if (!section->found)
		findings_find(&section->findings);
	section->found = true;
}

/* Looks that findings need; those that were not taken are told with their reason. */
static const enum look needed[] = {LOOK_SCHED,	LOOK_PROCESS,	LOOK_BLOCKING,
				   LOOK_SOCKET, LOOK_SOCKET_IO, LOOK_RUNNING,
				   LOOK_GC,	LOOK_MESSAGES,	LOOK_CALLS};
#define NEEDED (sizeof(needed) / sizeof(needed[0]))

static json_t *findings_json(void *state)
{
	struct findings_section *section = state;
	struct report *report = section->findings.report;
	json_t *list = json_array(), *unseen = json_array();
	char fix[COVERAGE_FIX];

	findings_draw(section);
	for (size_t i = 0; i < section->findings.count && i < section_limit(report); i++) {
		const struct finding *finding = &section->findings.found[i];

		json_array_append_new(
			list,
			json_pack("{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:b,s:o}", "cause", finding->cause,
				  "text", section_json_text(finding->text), "lost_ns",
				  section_json_number(finding->lost_ns), "count",
				  section_json_number(finding->count), "max_ns",
				  section_json_number(finding->max_ns), "first_ns",
				  section_json_number(finding->first_ns), "who",
				  section_json_text(finding->who), "certain", finding->certain,
				  "next", section_json_text(finding->next)));
	}
	for (size_t i = 0; i < NEEDED; i++)
		if (!report->coverage.looks[needed[i]].on)
			json_array_append_new(
				unseen,
				json_pack("{s:o,s:o,s:o}", "what",
					  section_json_text(report->coverage.looks[needed[i]].what),
					  "why",
					  section_json_text(report->coverage.looks[needed[i]].why),
					  "fix",
					  section_json_text(coverage_fix(fix, &report->coverage,
									 needed[i]))));
	json_array_append_new(unseen, json_pack("{s:s,s:s,s:n}", "what", SECTION_DEAF, "why",
						"this version does not look for them", "fix"));
	return json_pack("{s:o,s:o}", "findings", list, "not_looked_at", unseen);
}

static void looked_print(const struct report *report, FILE *out)
{
	char text[512] = "";
	size_t used = 0;

	for (size_t i = 0; i < NEEDED; i++)
		if (report->coverage.looks[needed[i]].on && used < sizeof(text))
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 used ? ", " : "",
						 report->coverage.looks[needed[i]].what);
	if (!used) {
		page_print(out, 0, 2, "Nothing was looked at: there is nothing to find.");
		return;
	}
	page_print(out, 0, 2, "Nothing stood out: nothing took %s or longer that should not have.",
		   UNITS_DURATION(report->options->min_ns));
	page_print(out, 0, 2, "Looked at: %s.", text);
}

/* One line for all that was not looked at for one reason. */
static void unseen_print(const struct report *report, FILE *out)
{
	const struct coverage *coverage = &report->coverage;
	bool told[LOOKS] = {false}, title = false;

	for (size_t i = 0; i < NEEDED; i++) {
		const char *why = coverage->looks[needed[i]].why;
		const char *fix = coverage->looks[needed[i]].fix;
		char what[512] = "", options[256] = "";
		size_t used = 0, option_used = 0;

		if (coverage->looks[needed[i]].on || told[needed[i]])
			continue;
		for (size_t k = i; k < NEEDED && used < sizeof(what); k++) {
			const char *option = coverage->looks[needed[k]].option;

			if (coverage->looks[needed[k]].on ||
			    strcmp(coverage->looks[needed[k]].why, why) != 0 ||
			    strcmp(coverage->looks[needed[k]].fix, fix) != 0)
				continue;
			told[needed[k]] = true;
			used += (size_t)snprintf(what + used, sizeof(what) - used, "%s%s",
						 used ? "; " : "", coverage->looks[needed[k]].what);
			if (*option && option_used < sizeof(options))
				option_used += (size_t)snprintf(options + option_used,
								sizeof(options) - option_used,
								" %s", option);
		}
		if (!title)
			page_title(out, "Not looked at:");
		title = true;
		page_print(out, 2, 6, "- %s: %s.%s%s%s", what, why, *fix ? " To have them: " : "",
			   fix, options);
	}
}

static int findings_text(void *state, FILE *out)
{
	struct findings_section *section = state;
	struct report *report = section->findings.report;
	const char *const *notes = NULL;
	size_t count, limit = section_limit(report), note_count;

	findings_draw(section);
	if (report->error)
		return report->error;
	count = section->findings.count;
	fputc('\n', out);
	if (!count)
		looked_print(report, out);
	else
		page_print(out, 0, 2,
			   "What cost time, most first (lost time adds up the threads):");
	for (size_t i = 0; i < count && i < limit; i++) {
		const struct finding *finding = &section->findings.found[i];
		char lost[UNITS_TEXT] = "-";

		if (finding->lost_ns)
			units_duration(lost, finding->lost_ns);
		fputc('\n', out);
		page_print(out, 0, 16, "%3zu. %*s  %s%s", i + 1, LOST_COLUMNS, lost,
			   finding->certain ? "" : "(likely) ", finding->text);
		page_command(out, 16, finding->next ? finding->next : "");
	}
	section_left_out(out, limit, count, "findings");
	unseen_print(report, out);
	page_print(out, 0, 2, "Not looked for by this version: %s.", SECTION_DEAF);
	note_count = trace_notes(report->trace, &notes);
	for (size_t i = 0; i < note_count; i++)
		page_print(out, 0, 2, "Note: %s", notes[i]);
	return 0;
}

const struct section section_findings = {.name = "findings",
					 .about = "what cost time, ranked (the default)",
					 .open = findings_open,
					 .json = findings_json,
					 .text = findings_text,
					 .close = findings_close};
