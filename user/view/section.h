/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_SECTION_H
#define BEAMWEAVE_SECTION_H

/*
 * What a section of a report is: a collector that listens to the timeline, and two ways to show what it
 * collected. Sections keep what they aggregate, never the events.
 */

#include <stdio.h>

/* A table that cannot grow leaves the new element out, with hh.tbl NULL, instead of ending the program. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "coverage.h"
#include "gaps.h"
#include "quantile.h"
#include "report.h"
#include "timeline.h"

/* What this version does not look for. */
#define SECTION_DEAF "deaf intervals (input waited and no scheduler worked)"

/* What all sections share. */
struct report {
	struct trace *trace;
	const struct report_options *options;
	const struct timeline *timeline; /* its totals, once it has run */
	uint64_t start_ns, end_ns; /* of the recording */
	uint64_t from_ns, to_ns; /* the window asked for, inside it */
	bool whole; /* the window is the whole recording */
	uint64_t kinds[EVENT_KINDS]; /* events in the window */
	uint64_t all_kinds[EVENT_KINDS]; /* in the whole recording: what it looked at */
	struct gaps gaps; /* that touch the window */
	struct coverage coverage;
	int error; /* the first -ENOMEM of a collector: the report is then not printed */
};

struct section {
	const char *name;
	const char *about; /* for the help: a few words */
	/* Start collecting: fills in the callbacks that it needs. NULL without memory. */
	void *(*open)(struct report *report, struct timeline_sink *sink);
	/* The section's keys; a new reference, NULL without memory. */
	json_t *(*json)(void *state);
	int (*text)(void *state, FILE *out);
	void (*close)(void *state);
};

extern const struct section section_findings, section_summary, section_stalls, section_calls,
	section_messages, section_gc, section_sockets, section_threads, section_processes,
	section_loss;

/* ---- Helpers that sections share ---- */

#define SECTION_WHO 160

/* Does an interval touch the window? */
bool section_inside(const struct report *report, uint64_t start_ns, uint64_t end_ns);
/* The part of an interval inside the window. */
uint64_t section_clip(const struct report *report, uint64_t start_ns, uint64_t end_ns);
/* Rows to show of a list of aggregates. */
size_t section_limit(const struct report *report);
/* Single intervals to keep for a list. */
size_t section_keep(const struct report *report);
/* Note a failure; the first one stands. */
void section_failed(struct report *report, int error);

/* "<0.123.0> name"; the process alone when it has none. */
char *section_called(char buffer[static SECTION_WHO], const char *process, const char *name);
/* "<0.123.0> name" as it was called at a moment; "" for 0. */
char *section_who(struct report *report, char buffer[static SECTION_WHO], uint64_t word,
		  uint64_t ts_ns);
#define SECTION_NAME(report, word, ts_ns)                                                          \
	section_who((report), (char[SECTION_WHO]){0}, (word), (ts_ns))
/* An MFA's text, "" for RING_NO_INDEX. */
const char *section_mfa(struct report *report, uint32_t mfa);

/* Values for JSON; new references. NULL text and word 0 become null. */
json_t *section_json_text(const char *text);
json_t *section_json_number(uint64_t number);
json_t *section_json_process(struct report *report, uint64_t word);
json_t *section_json_mfa(struct report *report, uint32_t mfa);
/* {"p50","p90","p99","max"} of those named by `keys`; null when nothing was counted. */
json_t *section_json_quantile(const struct quantile *quantile, bool p90);

/* A copy of an object of META with all its texts sanitized. */
json_t *section_json_clean(const json_t *value);

/* "3 more are left out: --limit 0 shows all" */
void section_left_out(FILE *out, size_t shown, size_t all, const char *what);
/* Events in the file that are beamweave's own: no other figure has them. Nothing without any. */
void section_own(const struct report *report, FILE *out);
/* Why there is nothing, and what to record. */
void section_nothing(const struct report *report, FILE *out, enum look look);

#endif
