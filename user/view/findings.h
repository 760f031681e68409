/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_FINDINGS_H
#define BEAMWEAVE_FINDINGS_H

/*
 * Findings: what the sections collected, as sentences ranked by the time lost. Found in
 * findings_stalls.c and findings_find.c with the words of findings_text.c, shown in findings.c.
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

#define EACH_MAX 10 /* findings of one kind */

/* ---- For those that find ---- */

/* An empty one to fill in; NULL without memory. Its texts are freed with the findings. */
struct finding *finding_new(struct findings *findings, const char *cause);
/* A new text; NULL without memory, which is noted. */
char *finding_text(struct findings *findings, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The command that shows a stretch of the recording; end 0: all of it. */
char *finding_next(struct findings *findings, const char *section, uint64_t start_ns,
		   uint64_t end_ns);
/*
 * What has to be said of a figure that reaches over a gap, and the finding is then not certain; "" when
 * it does not.
 */
char *finding_gap(struct findings *findings, struct finding *finding, uint64_t start_ns,
		  uint64_t end_ns);
/* The stalls' findings; those of GC are left out when each GC is told by itself. */
void findings_stalls(struct findings *findings, bool gc_known);

/* Draw the findings from the sections and rank them; once, after the timeline has run. */
void findings_find(struct findings *findings);

#endif
