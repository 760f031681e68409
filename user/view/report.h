/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_REPORT_H
#define BEAMWEAVE_REPORT_H

/* Reports: what a recording says, by sections, as text for people or as JSON for machines. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct trace;
struct section;

struct report_options {
	const struct section *section; /* NULL: findings */
	const char *path; /* as the user typed it: for titles and for the next commands */
	bool json;
	uint64_t from_ns, to_ns; /* a window; 0 and UINT64_MAX: the whole recording */
	uint64_t min_ns; /* shorter stalls, GCs and waits are no findings; 0: 1 ms */
	bool limited; /* `limit` was given */
	size_t limit; /* rows a list; 0: all */
};

/* All sections, ended by NULL. */
const struct section *const *report_sections(void);
/* NULL: no such section. */
const struct section *report_section(const char *name);
const char *report_section_name(const struct section *section);
const char *report_section_about(const struct section *section);

/*
 * Read the whole trace once and print one section. Returns 0 or -errno: -ENOMEM, what reading the trace
 * gave, -EPIPE and the like of `out`. Nothing was printed before a failure of reading.
 */
int report_print(struct trace *trace, const struct report_options *options, FILE *out);

#endif
