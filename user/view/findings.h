/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_FINDINGS_H
#define BEAMWEAVE_FINDINGS_H

/*
 * Findings: what the sections collected, as sentences ranked by the time lost. Found here
 * (findings_find.c), shown in findings.c.
 */

#include "section.h"

struct finding {
	const char *cause; /* a stall's cause, or "mailbox", "gc", "slow_call", "retransmits", ... */
	char *text; /* one or two sentences */
	uint64_t lost_ns; /* scheduler time, or the time that someone waited; 0: not known */
	uint64_t count, max_ns;
	uint64_t first_ns;
	char *who; /* the culprit, NULL none */
	bool certain;
	char *next; /* the command that shows more */
};

/* The sections that findings are drawn from. */
struct findings {
	struct report *report;
	void *stalls, *calls, *messages, *gcs, *sockets;
	struct finding *found;
	size_t count, room;
};

/* Draw the findings from the sections and rank them; once, after the timeline has run. */
void findings_find(struct findings *findings);

#endif
