/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fanout.h"
#include "moment.h"
#include "page.h"
#include "program.h"
#include "section.h"
#include "units.h"

#define DEFAULT_MIN_NS 1000000

static const struct section *const sections[] = {&section_findings,
						 &section_summary,
						 &section_stalls,
						 &section_calls,
						 &section_messages,
						 &section_gc,
						 &section_sockets,
						 &section_threads,
						 &section_processes,
						 &section_loss,
						 NULL};

const struct section *const *report_sections(void)
{
	return sections;
}

const struct section *report_section(const char *name)
{
	for (size_t i = 0; sections[i]; i++)
		if (!strcmp(sections[i]->name, name))
			return sections[i];
	return NULL;
}

const char *report_section_name(const struct section *section)
{
	return section->name;
}

const char *report_section_about(const struct section *section)
{
	return section->about;
}

/* The collector of what every section shows: counts by kind and the gaps. */

static void on_event(void *context, const struct event *event)
{
	struct report *report = context;

	if (event->kind >= EVENT_KINDS)
		return;
	report->all_kinds[event->kind]++;
	if (section_inside(report, event->ts_ns, event->ts_ns))
		report->kinds[event->kind]++;
}

static void on_loss(void *context, const struct loss *loss)
{
	struct report *report = context;

	if (section_inside(report, loss->from_ns, loss->to_ns))
		section_failed(report, gaps_add(&report->gaps, loss));
}

static void damage_print(const struct report *report, FILE *out)
{
	const struct file_damage *damage = trace_damage(report->trace);
	const char *unclosed =
		damage->no_end ? " It was not closed in order: its last moments may be missing."
			       : "";
	char chunks[128] = "", cut[128] = "";

	if (damage->damaged_chunks)
		snprintf(chunks, sizeof(chunks),
			 " Chunks skipped as damaged: %s (%s). What was in them is lost.",
			 UNITS_COUNT(damage->damaged_chunks), UNITS_BYTES(damage->skipped_bytes));
	else if (damage->skipped_bytes)
		snprintf(chunks, sizeof(chunks), " %s of damage were skipped.",
			 UNITS_BYTES(damage->skipped_bytes));
	if (damage->truncated_bytes)
		snprintf(cut, sizeof(cut), " It is cut off: %s after its last whole chunk.",
			 UNITS_BYTES(damage->truncated_bytes));
	if (*unclosed || *chunks || *cut)
		page_print(out, 0, 2, "DAMAGED FILE:%s%s%s", unclosed, chunks, cut);
}

static void gaps_print(const struct report *report, FILE *out)
{
	const struct gaps *gaps = &report->gaps;
	struct gap all = gaps_over(gaps, 0, UINT64_MAX);
	char many[64] = "";

	if (!gaps->count)
		return;
	if (gaps->count > 1)
		snprintf(many, sizeof(many), " in %s gaps", UNITS_COUNT(gaps->count));
	page_print(out, 0, 2,
		   "OVER A GAP: %s events lost%s between %s and %s. Figures that reach over it are "
		   "too low. See: %s report loss",
		   UNITS_COUNT(all.count), many, MOMENT_TIME(report->trace, all.from_ns),
		   MOMENT_TIME(report->trace, all.to_ns), program_name());
}

static void header_print(const struct report *report, FILE *out)
{
	const char *node = meta_string(report->trace, "vm.node");
	const char *release = meta_string(report->trace, "vm.otp_release");
	int64_t pid = meta_number(report->trace, "vm.pid");
	int64_t number = meta_number(report->trace, "vm.otp_release");
	const struct ring_vm *vm = trace_vm(report->trace);
	char date[MOMENT_TEXT], when[160], who[192] = "", otp[48] = "";

	if (release)
		snprintf(otp, sizeof(otp), ", OTP %.32s", release);
	else if (number > 0 || (vm && vm->otp_release))
		snprintf(otp, sizeof(otp), ", OTP %lld",
			 number > 0 ? (long long)number : (long long)vm->otp_release);
	if (node && pid > 0)
		snprintf(who, sizeof(who), " %.100s (pid %lld%s),", node, (long long)pid, otp);
	else if (node)
		snprintf(who, sizeof(who), " %.100s%s,", node, otp);
	else if (pid > 0)
		snprintf(who, sizeof(who), " pid %lld%s,", (long long)pid, otp);
	snprintf(when, sizeof(when), "%s to %s (%s)",
		 moment_date(date, report->trace, report->start_ns),
		 MOMENT_SECONDS(report->trace, report->end_ns),
		 UNITS_DURATION(report->end_ns - report->start_ns));
	/* on two lines when one is too short for it */
	page_print(out, 0, 2, "%s:%s%s%s", report->options->path, who,
		   strlen(report->options->path) + strlen(who) + strlen(when) + 2 > page_columns()
			   ? "\n"
			   : " ",
		   when);
	if (!report->whole)
		page_print(out, 0, 2, "Only from %s to %s (%s of it)",
			   MOMENT_TIME(report->trace, report->from_ns),
			   MOMENT_TIME(report->trace, report->to_ns),
			   UNITS_DURATION(report->to_ns - report->from_ns));
	damage_print(report, out);
	gaps_print(report, out);
}

static json_t *damage_json(const struct report *report)
{
	const struct file_damage *damage = trace_damage(report->trace);

	if (!damage->no_end && !damage->damaged_chunks && !damage->skipped_bytes &&
	    !damage->truncated_bytes)
		return json_null();
	return json_pack("{s:b,s:o,s:o,s:o}", "no_end", damage->no_end, "damaged_chunks",
			 section_json_number(damage->damaged_chunks), "skipped_bytes",
			 section_json_number(damage->skipped_bytes), "truncated_bytes",
			 section_json_number(damage->truncated_bytes));
}

static int out_error(void)
{
	return errno ? -errno : -EIO;
}

static int json_print(struct report *report, const struct section *section, void *state, FILE *out)
{
	json_t *root, *gaps = json_array(), *body = section->json(state);
	int error = 0;

	for (size_t i = 0; i < report->gaps.count; i++)
		json_array_append_new(
			gaps, json_pack("{s:o,s:o,s:o}", "from_ns",
					section_json_number(report->gaps.gaps[i].from_ns), "to_ns",
					section_json_number(report->gaps.gaps[i].to_ns), "count",
					section_json_number(report->gaps.gaps[i].count)));
	root = json_pack("{s:i,s:s,s:o,s:{s:o,s:o},s:o,s:o}", "schema", 1, "section", section->name,
			 "file", section_json_text(report->options->path), "window", "from_ns",
			 section_json_number(report->from_ns), "to_ns",
			 section_json_number(report->to_ns), "damage", damage_json(report), "gaps",
			 gaps);
	if (!root || !body || json_object_update(root, body) ||
	    json_dumpf(root, out, JSON_INDENT(2)) || fputc('\n', out) == EOF)
		error = ferror(out) ? out_error() : -ENOMEM;
	json_decref(body);
	json_decref(root);
	return error;
}

static void window_set(struct report *report)
{
	const struct report_options *options = report->options;

	report->start_ns = trace_start_ns(report->trace);
	report->end_ns = trace_end_ns(report->trace);
	if (report->end_ns < report->start_ns)
		report->end_ns = report->start_ns;
	report->from_ns = report->start_ns;
	report->to_ns = report->end_ns;
	if (options->from_ns > report->from_ns)
		report->from_ns = options->from_ns < report->end_ns ? options->from_ns
								    : report->end_ns;
	if (options->to_ns < report->to_ns)
		report->to_ns = options->to_ns > report->from_ns ? options->to_ns : report->from_ns;
	report->whole = report->from_ns == report->start_ns && report->to_ns == report->end_ns;
}

int report_print(struct trace *trace, const struct report_options *given, FILE *out)
{
	struct report_options options = *given;
	struct report report = {.trace = trace, .options = &options};
	const struct section *section = options.section ? options.section : &section_findings;
	struct fanout fanout = {0};
	struct timeline_sink *base = fanout_add(&fanout), sink;
	struct timeline *timeline = NULL;
	void *state;
	int error;

	if (!options.min_ns)
		options.min_ns = DEFAULT_MIN_NS;
	window_set(&report);
	*base = (struct timeline_sink){.context = &report, .event = on_event, .loss = on_loss};
	state = section->open(&report, fanout_add(&fanout));
	if (!state) {
		error = -ENOMEM;
		goto cleanup;
	}
	sink = fanout_sink(&fanout);
	timeline = timeline_new(trace, &sink, options.min_ns);
	if (!timeline) {
		error = -errno;
		goto cleanup;
	}
	error = timeline_run(timeline);
	if (!error)
		error = report.error;
	if (error)
		goto cleanup;
	report.timeline = timeline;
	coverage_fill(&report.coverage, trace, report.all_kinds);
	errno = 0;
	if (options.json) {
		error = json_print(&report, section, state, out);
	} else {
		header_print(&report, out);
		error = section->text(state, out);
	}
	/* a long report meets a full disk before its end */
	if (!error && (fflush(out) || ferror(out)))
		error = out_error();
cleanup:
	if (state)
		section->close(state);
	timeline_free(timeline);
	gaps_free(&report.gaps);
	return error;
}
