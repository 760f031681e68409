/* SPDX-License-Identifier: Apache-2.0 */
#include "findings.h"

#include <stdlib.h>
#include <string.h>

#include "gcs.h"
#include "moment.h"
#include "stalls.h"
#include "units.h"

#define BUSY_ALONE   3 /* tasks that took the CPU that are told each by itself */
#define BUSY_LONG_NS 10000000u /* and any that took it for so long at once */
#define BUSY_NAMED   4 /* of the others, those that are named */

static const struct stall_burst *burst_longest(const struct stall_group *group)
{
	const struct stall_burst *longest = NULL;

	for (size_t i = 0; i < group->burst_count; i++)
		if (!longest || group->bursts[i].end_ns - group->bursts[i].start_ns >
					longest->end_ns - longest->start_ns)
			longest = &group->bursts[i];
	return longest;
}

/* "a scheduler stood still for 31.0 ms at 14:03:05.123456" for the longest one, and how often in all. */
static char *stall_when(struct findings *findings, const struct stall_group *group,
			const struct stall_burst *burst)
{
	const struct report *report = findings->report;
	const char *at = MOMENT_TIME(report->trace, burst->start_ns);
	const char *longest = UNITS_DURATION(burst->end_ns - burst->start_ns);

	if (group->burst_count + group->burst_more == 1)
		return finding_text(findings, "for %s at %s", longest, at);
	return finding_text(findings, "%s times, %s together, %s at the longest (at %s)",
			    UNITS_COUNT(group->burst_count + group->burst_more),
			    UNITS_DURATION(group->durations.sum), longest, at);
}

/* "A scheduler thread was", "2 scheduler threads were" */
static void stall_threads(const struct stall_burst *burst, char *text, size_t size)
{
	if (burst->threads == 1)
		snprintf(text, size, "A scheduler thread was");
	else
		snprintf(text, size, "%u scheduler threads were", burst->threads);
}

/* "'hog' (pid 2000)": the task that took the CPU. */
static void stall_who(const struct stall_group *group, char *who, size_t size)
{
	const char *by = *group->by ? group->by : "?";
	bool shared = stalls_shared(group->by_ns, group->durations.sum);
	const char *mostly = shared ? "Mostly " : "";

	if (group->owner == STALL_OWNER_VM)
		snprintf(who, size, "%snother thread of the VM ('%s')", shared ? "Mostly a" : "A",
			 by);
	else if (group->owner == STALL_OWNER_RECORDER)
		snprintf(who, size, "%shis recording itself ('%s')", shared ? "Mostly t" : "T", by);
	else if (group->by_many)
		snprintf(who, size, "%s'%s' (several processes)", mostly, by);
	else
		snprintf(who, size, "%s'%s' (pid %d)", mostly, by, group->by_tgid);
}

static char *stall_sentence(struct findings *findings, const struct stall_group *group,
			    const char *who, const char *when, const char *threads,
			    const char *victim, const char *in)
{
	switch (group->cause) {
	case STALL_STOPPED:
		return finding_text(findings,
				    "The VM was stopped (SIGSTOP or a debugger) %s. %s held up.",
				    when, threads);
	case STALL_PREEMPTED:
		return finding_text(findings,
				    "%s took the CPU from a scheduler thread that had work, "
				    "%s.%s%s%s",
				    who, when, *victim ? " Waited the longest: " : "", victim,
				    *victim ? "." : "");
	case STALL_THROTTLED:
		return finding_text(
			findings,
			"The container's CPU quota was used up and the kernel held the VM "
			"back (throttling) %s. %s held up.",
			when, threads);
	case STALL_SYSCALL:
		return finding_text(findings, "%s blocked in the system call %s %s.%s%s%s", threads,
				    *group->by ? group->by : "(unknown)", when,
				    *victim ? " It was running " : "", victim, *victim ? "." : "");
	case STALL_LOCK:
		return finding_text(findings,
				    "Scheduler threads with work waited for a lock in the VM %s.",
				    when);
	case STALL_BLOCKED:
		return finding_text(findings,
				    "%s blocked in the kernel%s%s (page fault, memory or disk) %s.",
				    threads, *group->by ? " in " : "", group->by, when);
	case STALL_GC:
		return finding_text(findings, "Garbage collection of %s held a scheduler %s.",
				    victim, when);
	case STALL_LONG_RUN:
		return finding_text(findings, "%s ran without giving its scheduler back%s%s %s.",
				    *victim ? victim : "A process", *in ? ", in " : "", in, when);
	default:
		return finding_text(
			findings,
			"A scheduler thread with work did not get on with it, for a reason "
			"that is not known, %s.",
			when);
	}
}

/* A collection on a dirty scheduler while that thread had the CPU: the same event, seen from its process. */
static char *stall_meanwhile(struct findings *findings, const struct stall_group *group,
			     const struct stall_burst *burst)
{
	struct gc_row **rows;
	size_t count = group->owner == STALL_OWNER_VM ? gcs_rows(findings->gcs, &rows) : 0;
	const struct gc_row *found = NULL;
	char who[SECTION_WHO];

	if (group->owner != STALL_OWNER_VM)
		return finding_text(findings, "%s", "");
	for (size_t i = 0; i < count && strstr(group->by, "dirty_cpu"); i++)
		if (rows[i]->max_dirty && rows[i]->max_at_ns <= burst->start_ns &&
		    rows[i]->max_at_ns + rows[i]->max_ns >= burst->end_ns &&
		    (!found || rows[i]->max_ns > found->max_ns))
			found = rows[i];
	if (found)
		section_who(findings->report, who, found->process, found->last_ns);
	free(rows);
	return found ? finding_text(findings,
				    " Meanwhile a dirty scheduler collected the garbage of %s.",
				    who)
		     : finding_text(findings, "%s", "");
}

static void stall_find(struct findings *findings, const struct stall_group *group)
{
	const struct stall_burst *burst = burst_longest(group);
	char victim[SECTION_WHO], who[STALL_BY + 64], threads[64];
	char *when, *gap, *sentence, *meanwhile;
	struct finding *finding;

	if (!burst)
		return;
	finding = finding_new(findings, stall_cause_name(group->cause));
	if (!finding)
		return;
	finding->lost_ns = group->durations.sum;
	finding->count = group->durations.count;
	finding->max_ns = group->durations.max;
	finding->first_ns = group->first_ns;
	finding->certain = group->certain;
	section_who(findings->report, victim, group->process, group->longest_ns);
	when = stall_when(findings, group, burst);
	stall_threads(burst, threads, sizeof(threads));
	gap = finding_gap(findings, finding, burst->start_ns, burst->end_ns);
	stall_who(group, who, sizeof(who));
	sentence = stall_sentence(findings, group, who, when ? when : "", threads, victim,
				  section_mfa(findings->report, group->mfa));
	meanwhile = stall_meanwhile(findings, group, burst);
	finding->text = finding_text(findings, "%s%s%s", sentence ? sentence : "",
				     meanwhile ? meanwhile : "", gap ? gap : "");
	finding->who = *group->by ? finding_text(findings, "%s", group->by) : NULL;
	finding->next = finding_next(findings, "stalls", burst->start_ns, burst->end_ns);
	free(when);
	free(meanwhile);
	free(gap);
	free(sentence);
}

/* Many tasks that each took the CPU for a little are one finding: the host is busy. */
static void preempted_find(struct findings *findings, struct stall_group *const *groups,
			   size_t count)
{
	struct finding *finding = finding_new(findings, stall_cause_name(STALL_PREEMPTED));
	char names[256] = "";
	size_t used = 0;

	if (!finding)
		return;
	finding->first_ns = UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		const struct stall_group *group = groups[i];

		finding->lost_ns += group->durations.sum;
		finding->count += group->durations.count;
		finding->certain &= group->certain;
		if (group->durations.max > finding->max_ns)
			finding->max_ns = group->durations.max;
		if (group->first_ns < finding->first_ns)
			finding->first_ns = group->first_ns;
		if (i < BUSY_NAMED && used < sizeof(names))
			used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s %s",
						 i ? ", " : "", group->by,
						 UNITS_DURATION(group->durations.sum));
	}
	finding->text =
		finding_text(findings,
			     "%zu other task%s took the CPU from scheduler threads that had work, "
			     "%s times, %s together, %s at the longest: %s%s",
			     count, count == 1 ? "" : "s", UNITS_COUNT(finding->count),
			     UNITS_DURATION(finding->lost_ns), UNITS_DURATION(finding->max_ns),
			     names, count > BUSY_NAMED ? ", ..." : ".");
	finding->next = finding_next(findings, "stalls", 0, 0);
}

void findings_stalls(struct findings *findings, bool gc_known)
{
	struct stall_group **groups;
	size_t count = stalls_groups(findings->stalls, &groups), found = 0, preempting = 0;
	size_t alone = BUSY_ALONE, others = 0;

	for (size_t i = 0; i < count; i++)
		preempting += groups[i]->cause == STALL_PREEMPTED;
	if (preempting == BUSY_ALONE + 1)
		alone = preempting;
	preempting = 0;
	for (size_t i = 0; i < count; i++) {
		struct stall_group *group = groups[i];

		if (group->cause == STALL_PREEMPTED && preempting++ >= alone &&
		    group->durations.max < BUSY_LONG_NS) {
			/* to the front, where all that are left are already told */
			groups[others++] = group;
			continue;
		}
		/* each GC is told by itself, with what it reclaimed */
		if ((group->cause == STALL_GC && gc_known) || found++ >= EACH_MAX)
			continue;
		stall_find(findings, group);
	}
	if (others)
		preempted_find(findings, groups, others);
	free(groups);
}
