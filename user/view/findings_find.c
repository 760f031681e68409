/* SPDX-License-Identifier: Apache-2.0 */
#include "findings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "gcs.h"
#include "messages.h"
#include "moment.h"
#include "sockets.h"
#include "units.h"

#define WORD_BYTES     8
#define MAILBOX_LEAST  100 /* messages: shorter mailboxes are no finding */
#define MAILBOX_LONG   1000 /* a finding even when it was emptied again */
#define SLOW_CALLS_MAX 3
#define SLOW_TIMES     10 /* a call is slow when it took that many times the median */

/* ---- GC ---- */

/* Processes with long collections beyond those that are told each by itself. */
struct gc_others {
	uint64_t processes, count, total_ns, max_ns, first_ns;
};

static void gcs_more(const struct gc_row *row, struct gc_others *others)
{
	if (!row->long_count)
		return;
	if (!others->processes++ || row->long_first_ns < others->first_ns)
		others->first_ns = row->long_first_ns;
	others->count += row->long_count;
	others->total_ns += row->long_ns;
	if (row->max_ns > others->max_ns)
		others->max_ns = row->max_ns;
}

static void gcs_rest(struct findings *findings, const struct gc_others *others)
{
	struct finding *finding = finding_new(findings, "gc");

	if (!finding)
		return;
	finding->lost_ns = others->total_ns;
	finding->count = others->count;
	finding->max_ns = others->max_ns;
	finding->first_ns = others->first_ns;
	finding->text = finding_text(
		findings,
		"GC of %s other processes: %s collections, %s together, %s at the longest.",
		UNITS_COUNT(others->processes), UNITS_COUNT(others->count),
		UNITS_DURATION(others->total_ns), UNITS_DURATION(others->max_ns));
	finding->next = finding_next(findings, "gc", 0, 0);
}

static size_t gcs_find(struct findings *findings)
{
	struct report *report = findings->report;
	struct gc_row **rows;
	size_t count = gcs_rows(findings->gcs, &rows), found = 0, told = 0;
	struct gc_others rest = {0};

	for (; told < count && found < EACH_MAX; told++) {
		const struct gc_row *row = rows[told];
		char who[SECTION_WHO], *gap, live[64] = "", often[128] = "", ran[96] = "";
		struct finding *finding;

		if (!row->long_count)
			continue;
		finding = finding_new(findings, "gc");
		if (!finding)
			break;
		found++;
		section_who(report, who, row->process, row->last_ns);
		finding->lost_ns = row->long_ns;
		finding->count = row->long_count;
		finding->max_ns = row->max_ns;
		finding->first_ns = row->long_first_ns;
		finding->who = finding_text(findings, "%s", who);
		if (!row->max_open)
			snprintf(live, sizeof(live), ", %s live after it",
				 UNITS_BYTES(row->live_words * WORD_BYTES));
		/* the GC of a thread that was taken off its CPU lasts without costing */
		if (row->max_on_cpu_ns < row->max_ns - row->max_ns / 8)
			snprintf(ran, sizeof(ran), " (%s of it on a CPU)",
				 UNITS_DURATION(row->max_on_cpu_ns));
		if (row->long_count > 1)
			snprintf(often, sizeof(often), " It had %s of %s or longer, %s together.",
				 UNITS_COUNT(row->long_count),
				 UNITS_DURATION(report->options->min_ns),
				 UNITS_DURATION(row->long_ns));
		gap = finding_gap(findings, finding, row->max_at_ns, row->max_at_ns + row->max_ns);
		finding->text = finding_text(
			findings, "%s GC of %s: %s%s%s%s at %s%s.%s%s",
			row->max_major ? "Major" : "Minor", who, row->max_open ? "at least " : "",
			UNITS_DURATION(row->max_ns), ran, live,
			MOMENT_TIME(report->trace, row->max_at_ns),
			row->max_dirty ? ", on a dirty scheduler" : "", often, gap ? gap : "");
		finding->next =
			finding_next(findings, "gc", row->max_at_ns, row->max_at_ns + row->max_ns);
		free(gap);
	}
	for (size_t i = told; i < count; i++)
		gcs_more(rows[i], &rest);
	if (rest.count)
		gcs_rest(findings, &rest);
	free(rows);
	return found;
}

/* ---- Mailboxes ---- */

static bool mailbox_grew(const struct receiver_row *row)
{
	if (row->queue_max < MAILBOX_LEAST)
		return false;
	return row->queue_max >= MAILBOX_LONG ||
	       (row->queue_end > row->queue_start && row->queue_end >= row->queue_max / 2);
}

static void mailboxes_find(struct findings *findings)
{
	struct report *report = findings->report;
	struct receiver_row **rows;
	size_t count = messages_receivers(findings->messages, &rows), found = 0;

	for (size_t i = 0; i < count && found < EACH_MAX; i++) {
		const struct receiver_row *row = rows[i];
		char who[SECTION_WHO], wait[64] = "", tag[128] = "", end[64] = "", *gap;
		struct finding *finding;

		if (!mailbox_grew(row))
			continue;
		finding = finding_new(findings, "mailbox");
		if (!finding)
			break;
		found++;
		section_who(report, who, row->word, row->last_ns);
		finding->lost_ns = row->longest_wait_ns;
		finding->count = row->queue_max;
		finding->max_ns = row->longest_wait_ns;
		finding->first_ns = row->longest_wait_at_ns ? row->longest_wait_at_ns
							    : report->from_ns;
		finding->who = finding_text(findings, "%s", who);
		if (row->queue_end < row->queue_max)
			snprintf(end, sizeof(end), " (%s at the end)", UNITS_COUNT(row->queue_end));
		if (row->longest_wait_ns)
			snprintf(wait, sizeof(wait), " One waited %s to be fetched.",
				 UNITS_DURATION(row->longest_wait_ns));
		if (row->tag_count && row->arrived)
			snprintf(tag, sizeof(tag), " Mostly: %.70s (%u %%).", row->tags[0].tag,
				 (unsigned)(row->tags[0].count * 100 / row->arrived));
		gap = finding_gap(findings, finding, report->from_ns, report->to_ns);
		finding->text =
			finding_text(findings, "Mailbox of %s grew from %s to %s messages%s.%s%s%s",
				     who, UNITS_COUNT(row->queue_start),
				     UNITS_COUNT(row->queue_max), end, wait, tag, gap ? gap : "");
		finding->next = finding_next(findings, "messages", 0, 0);
		free(gap);
	}
	free(rows);
}

/* ---- Calls ---- */

static int slower(const void *a, const void *b)
{
	const struct call_row *left = *(struct call_row *const *)a;
	const struct call_row *right = *(struct call_row *const *)b;

	if (left->durations.max != right->durations.max)
		return left->durations.max < right->durations.max ? 1 : -1;
	return (left->mfa > right->mfa) - (left->mfa < right->mfa);
}

static void calls_find(struct findings *findings)
{
	struct report *report = findings->report;
	struct call_row **rows;
	size_t count = calls_rows(findings->calls, &rows), found = 0;

	if (rows)
		qsort(rows, count, sizeof(*rows), slower);
	for (size_t i = 0; i < count && found < SLOW_CALLS_MAX; i++) {
		const struct call_row *row = rows[i];
		const struct call_slow *slow = &row->slowest[0];
		uint64_t median_ns = quantile_at(&row->durations, 500);
		char times[96] = "", gc[64] = "", *gap;
		const char *mfa = section_mfa(report, row->mfa);
		struct finding *finding;

		if (!row->slow_count || slow->duration_ns < report->options->min_ns)
			break;
		/* a function that always takes that long is no outlier, but the only call is told */
		if (row->durations.count > 1 && slow->duration_ns / SLOW_TIMES < median_ns)
			continue;
		finding = finding_new(findings, "slow_call");
		if (!finding)
			break;
		found++;
		finding->count = 1;
		finding->max_ns = slow->duration_ns;
		/* what it took longer than most; of the only call nothing tells how long it should take */
		if (row->durations.count > 1)
			finding->lost_ns = slow->duration_ns - median_ns;
		finding->first_ns = slow->start_ns;
		finding->certain = slow->certain;
		finding->who = finding_text(findings, "%s", mfa);
		if (row->durations.count > 1)
			snprintf(times, sizeof(times), "; half of its %s calls took %s or less",
				 UNITS_COUNT(row->durations.count), UNITS_DURATION(median_ns));
		if (slow->gc_ns)
			snprintf(gc, sizeof(gc), ", %s of it in GC", UNITS_DURATION(slow->gc_ns));
		gap = finding_gap(findings, finding, slow->start_ns,
				  slow->start_ns + slow->duration_ns);
		finding->text = finding_text(
			findings, "The slowest call of %s took %s%s at %s in %s%s%s.%s", mfa,
			slow->open	 ? "at least "
			: !slow->certain ? "at most "
					 : "",
			UNITS_DURATION(slow->duration_ns),
			MOMENT_TIME(report->trace, slow->start_ns),
			SECTION_NAME(report, slow->process, slow->start_ns), gc, times,
			gap ? gap : "");
		finding->next = finding_next(findings, "calls", slow->start_ns,
					     slow->start_ns + slow->duration_ns);
		free(gap);
	}
	free(rows);
}

/* ---- Sockets ---- */

static void socket_find(struct findings *findings, const struct socket_totals *socket)
{
	struct report *report = findings->report;
	char local[SOCKET_ADDRESS], remote[SOCKET_ADDRESS];
	uint64_t owner = socket->owner ? socket->owner : socket->erlang_port;
	const char *who = SECTION_NAME(report, owner, report->to_ns);
	struct finding *finding;

	socket_address(local, socket->family, socket->local, socket->local_port);
	socket_address(remote, socket->family, socket->remote, socket->remote_port);
	if (socket->accept_wait_ns >= report->options->min_ns) {
		finding = finding_new(findings, "accept_wait");
		if (!finding)
			return;
		finding->lost_ns = finding->max_ns = socket->accept_wait_ns;
		finding->count = 1;
		finding->first_ns = socket->opened_ns;
		finding->text = finding_text(
			findings,
			"A connection to %s waited %s before it was accepted: the "
			"acceptor %s%sdid not get to it.",
			local, UNITS_DURATION(socket->accept_wait_ns), who, *who ? " " : "");
		finding->who = finding_text(findings, "%s", *who ? who : local);
		finding->next = finding_next(findings, "sockets", 0, 0);
	}
	if (socket->retransmits) {
		finding = finding_new(findings, "retransmits");
		if (!finding)
			return;
		finding->count = socket->retransmits;
		finding->first_ns = socket->opened_ns;
		finding->text =
			finding_text(findings,
				     "%s packets from %s to %s were sent again%s%s: the network "
				     "lost them, or the other side was slow.",
				     UNITS_COUNT(socket->retransmits), local, remote,
				     *who ? ", connection of " : "", who);
		finding->who = finding_text(findings, "%s", *who ? who : remote);
		finding->next = finding_next(findings, "sockets", 0, 0);
	}
}

static int worse(const void *a, const void *b)
{
	const struct socket_totals *left = *(const struct socket_totals *const *)a;
	const struct socket_totals *right = *(const struct socket_totals *const *)b;

	if (left->accept_wait_ns != right->accept_wait_ns)
		return left->accept_wait_ns < right->accept_wait_ns ? 1 : -1;
	return left->retransmits < right->retransmits	? 1
	       : left->retransmits > right->retransmits ? -1
							: 0;
}

static void sockets_find(struct findings *findings)
{
	const struct socket_totals *sockets;
	size_t count = sockets_all(findings->sockets, &sockets), bad = 0;
	const struct socket_totals **list = calloc(count + 1, sizeof(*list));

	if (!list) {
		section_failed(findings->report, -ENOMEM);
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (sockets[i].retransmits ||
		    sockets[i].accept_wait_ns >= findings->report->options->min_ns)
			list[bad++] = &sockets[i];
	qsort(list, bad, sizeof(*list), worse);
	for (size_t i = 0; i < bad && i < EACH_MAX; i++)
		socket_find(findings, list[i]);
	free(list);
}

static void loss_find(struct findings *findings)
{
	struct report *report = findings->report;
	struct gap all = gaps_over(&report->gaps, 0, UINT64_MAX);
	struct finding *finding;

	if (!report->gaps.count)
		return;
	finding = finding_new(findings, "loss");
	if (!finding)
		return;
	finding->count = all.count;
	finding->first_ns = all.from_ns;
	finding->text =
		finding_text(findings,
			     "%s events were lost between %s and %s: what happened then is known "
			     "in part only, and counts are too low.",
			     UNITS_COUNT(all.count), MOMENT_TIME(report->trace, all.from_ns),
			     MOMENT_TIME(report->trace, all.to_ns));
	finding->next = finding_next(findings, "loss", 0, 0);
}

static int finding_compare(const void *a, const void *b)
{
	const struct finding *left = a, *right = b;

	if (left->lost_ns != right->lost_ns)
		return left->lost_ns < right->lost_ns ? 1 : -1;
	if (left->max_ns != right->max_ns)
		return left->max_ns < right->max_ns ? 1 : -1;
	if (left->first_ns != right->first_ns)
		return left->first_ns < right->first_ns ? -1 : 1;
	return strcmp(left->cause, right->cause);
}

void findings_find(struct findings *findings)
{
	bool gc_known = gcs_find(findings) > 0;

	findings_stalls(findings, gc_known);
	mailboxes_find(findings);
	calls_find(findings);
	sockets_find(findings);
	loss_find(findings);
	if (findings->count)
		qsort(findings->found, findings->count, sizeof(*findings->found), finding_compare);
}
