/* SPDX-License-Identifier: Apache-2.0 */
#include "stalls_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "moment.h"
#include "page.h"
#include "syscalls.h"
#include "table.h"
#include "units.h"

const char *stalls_role(uint32_t role)
{
	static const char *const names[] = {"other", "normal", "dirty_cpu", "dirty_io"};

	return role < sizeof(names) / sizeof(names[0]) ? names[role] : "other";
}

char *stalls_thread(char buffer[static 64], uint32_t role, uint32_t number, int32_t tid)
{
	static const char *const names[] = {"thread", "scheduler", "dirty CPU", "dirty IO"};

	if (role > RING_ROLE_OTHER && role <= RING_ROLE_DIRTY_IO && number)
		snprintf(buffer, 64, "%s %u", names[role], number);
	else
		snprintf(buffer, 64, "thread %d", tid);
	return buffer;
}

/* A kernel thread that comes on for microseconds in between is not. */
bool stalls_shared(uint64_t by_ns, uint64_t duration_ns)
{
	return by_ns < duration_ns - duration_ns / 20;
}

void stalls_cause(char *buffer, size_t size, enum stall_cause cause, enum stall_owner owner,
		  bool shared, const char *by)
{
	static const char *const owners[] = {
		[STALL_OWNER_OTHER] = "",
		[STALL_OWNER_VM] = "the VM's ",
		[STALL_OWNER_RECORDER] = "this recording's ",
	};
	static const struct {
		const char *alone, *with;
	} texts[] = {
		[STALL_PREEMPTED] = {"preempted", "preempted by %s"},
		[STALL_THROTTLED] = {"throttled by its cgroup's CPU quota", "throttled by %s"},
		[STALL_STOPPED] = {"stopped (SIGSTOP)", "stopped by %s"},
		[STALL_SYSCALL] = {"blocked in a system call", "blocked in %s"},
		[STALL_LOCK] = {"waited for a lock", "waited for a lock (%s)"},
		[STALL_BLOCKED] = {"blocked in the kernel (disk, memory)",
				   "blocked in the kernel in %s"},
		[STALL_GC] = {"garbage collection", "GC of %s"},
		[STALL_LONG_RUN] = {"one process without a break", "long run of %s"},
		[STALL_UNKNOWN] = {"unknown", "unknown (%s)"},
	};

	if ((size_t)cause >= sizeof(texts) / sizeof(texts[0]))
		cause = STALL_UNKNOWN;
	/* the formats are the constants above, each with one %s */
	if (!by || !*by) {
		snprintf(buffer, size, "%s", texts[cause].alone);
	} else {
		const char *with = cause == STALL_PREEMPTED && shared ? "preempted mostly by %s"
								      : texts[cause].with;
		const char *mark = strstr(with, "%s");

		snprintf(buffer, size, "%.*s%s%s%s", (int)(mark - with), with, owners[owner], by,
			 mark + 2);
	}
}

static json_t *group_json(const struct stall_group *group)
{
	json_t *bursts = json_array();

	for (size_t i = 0; i < group->burst_count; i++)
		json_array_append_new(
			bursts,
			json_pack("{s:o,s:o,s:o,s:o}", "start_ns",
				  section_json_number(group->bursts[i].start_ns), "duration_ns",
				  section_json_number(group->bursts[i].end_ns -
						      group->bursts[i].start_ns),
				  "stalls", section_json_number(group->bursts[i].stalls), "threads",
				  section_json_number(group->bursts[i].threads)));
	return json_pack(
		"{s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:b,s:o}", "cause", stall_cause_name(group->cause),
		"by", section_json_text(*group->by ? group->by : NULL), "count",
		section_json_number(group->durations.count), "total_ns",
		section_json_number(group->durations.sum), "p50_ns",
		section_json_number(quantile_at(&group->durations, 500)), "max_ns",
		section_json_number(group->durations.max), "first_ns",
		section_json_number(group->first_ns), "certain", group->certain, "bursts", bursts);
}

static json_t *detail_json(struct stalls *stalls, const struct stall *stall)
{
	json_t *detail = json_object();
	char by[STALL_BY];

	stall_by(stalls, stall, by);
	if (*by)
		json_object_set_new(detail, "by", section_json_text(by));
	if (stall->cause == STALL_PREEMPTED) {
		json_object_set_new(detail, "by_tid", json_integer(stall->by_tid));
		json_object_set_new(detail, "by_tgid", json_integer(stall->by_tgid));
		json_object_set_new(detail, "by_ns",
				    stall->by_count ? section_json_number(stall->by_ns)
						    : json_null());
		json_object_set_new(detail, "by_count",
				    stall->by_count ? section_json_number(stall->by_count)
						    : json_null());
	}
	if (stall->syscall >= 0) {
		const char *name = syscall_name(stall->syscall);

		json_object_set_new(detail, "syscall", section_json_text(name));
		json_object_set_new(detail, "number", json_integer(stall->syscall));
		json_object_set_new(detail, "argument", section_json_number(stall->syscall_arg));
	}
	return detail;
}

static json_t *parts_json(const struct stall *stall)
{
	json_t *parts = json_array();

	for (int i = 0; i < STALL_CAUSES; i++)
		if (stall->part_ns[i])
			json_array_append_new(parts,
					      json_pack("{s:s,s:o}", "cause",
							stall_cause_name((enum stall_cause)i),
							"duration_ns",
							section_json_number(stall->part_ns[i])));
	return parts;
}

/* " (gc 3.1 ms of it)": the largest part that has another cause, when it is worth a word. */
static void part_print(char *buffer, size_t size, const struct stall *stall)
{
	uint64_t most_ns = stall_ns(stall) / 20;
	int most = -1;

	for (int i = 0; i < STALL_CAUSES; i++) {
		if (i != (int)stall->cause && stall->part_ns[i] > most_ns) {
			most_ns = stall->part_ns[i];
			most = i;
		}
	}
	if (most < 0)
		buffer[0] = 0;
	else
		snprintf(buffer, size, " (%s %s of it)", stall_cause_name((enum stall_cause)most),
			 UNITS_DURATION(most_ns));
}

static json_t *stall_json(struct stalls *stalls, const struct stall *stall)
{
	struct report *report = stalls->report;
	const char *name = trace_process_name(report->trace, stall->process, stall->start_ns);
	struct gap gap = gaps_over(&report->gaps, stall->start_ns, stall->end_ns);
	json_t *object;

	object = json_pack("{s:o,s:o,s:{s:i,s:s,s:o},s:o,s:o,s:o,s:s,s:o}", "start_ns",
			   section_json_number(stall->start_ns), "duration_ns",
			   section_json_number(stall_ns(stall)), "thread", "tid", stall->tid,
			   "role", stalls_role(stall->role), "number",
			   stall->number ? section_json_number(stall->number) : json_null(),
			   "process", section_json_process(report, stall->process), "name",
			   section_json_text(stall->process ? name : NULL), "mfa",
			   section_json_mfa(report, stall->mfa), "cause",
			   stall_cause_name(stall->cause), "detail", detail_json(stalls, stall));
	json_object_set_new(object, "parts", parts_json(stall));
	json_object_set_new(object, "evidence", section_json_text(stall->evidence));
	json_object_set_new(object, "certain", json_boolean(stall->certain && !gap.count));
	return object;
}

json_t *stalls_json(void *state)
{
	struct stalls *stalls = state;
	json_t *groups = json_array(), *list = json_array(), *unseen;
	struct stall_group **sorted;
	size_t count = stalls_groups(stalls, &sorted);

	for (size_t i = 0; i < count && i < section_limit(stalls->report); i++)
		json_array_append_new(groups, group_json(sorted[i]));
	free(sorted);
	stalls_sort(stalls);
	for (size_t i = 0; i < stalls->count; i++)
		json_array_append_new(list, stall_json(stalls, &stalls->longest[i]));
	unseen = json_pack("[s]", SECTION_DEAF ": this version does not look for them");
	return json_pack("{s:o,s:o,s:o,s:o,s:o,s:o}", "groups", groups, "stalls", list,
			 "stalls_left_out", section_json_number(stalls->all - stalls->count),
			 "deaf", json_array(), "not_looked_at", unseen, "min_ns",
			 section_json_number(stalls->report->options->min_ns));
}

static int groups_print(struct stalls *stalls, FILE *out)
{
	static const struct table_column columns[] = {
		{"CAUSE", TABLE_FLEX},	    {"COUNT", TABLE_RIGHT},
		{"BURSTS", TABLE_RIGHT},    {"TOTAL", TABLE_RIGHT},
		{"MEDIAN", TABLE_RIGHT},    {"LONGEST", TABLE_RIGHT},
		{"LONGEST AT", TABLE_LEFT}, {NULL, 0}};
	struct report *report = stalls->report;
	struct table *table = table_new(columns);
	struct stall_group **groups;
	size_t count, limit = section_limit(report);
	int error = table ? 0 : -ENOMEM;

	count = stalls_groups(stalls, &groups);
	for (size_t i = 0; table && i < count && i < limit; i++) {
		const struct stall_group *group = groups[i];
		char cause[160];

		stalls_cause(cause, sizeof(cause), group->cause, (enum stall_owner)group->owner,
			     stalls_shared(group->by_ns, group->durations.sum), group->by);
		table_cell(table, "%s%s", cause, group->certain ? "" : " (likely)");
		table_cell(table, "%s", UNITS_COUNT(group->durations.count));
		table_cell(table, "%s", UNITS_COUNT(group->burst_count + group->burst_more));
		table_cell(table, "%s", UNITS_DURATION(group->durations.sum));
		table_cell(table, "%s", UNITS_DURATION(quantile_at(&group->durations, 500)));
		table_cell(table, "%s", UNITS_DURATION(group->durations.max));
		table_cell(table, "%s", MOMENT_TIME(report->trace, group->longest_ns));
	}
	if (!error)
		error = table_print(table, out, 2);
	section_left_out(out, limit, count, "groups");
	free(groups);
	table_free(table);
	return error;
}

static int longest_print(struct stalls *stalls, FILE *out)
{
	static const struct table_column columns[] = {
		{"START", TABLE_LEFT}, {"DURATION", TABLE_RIGHT},	  {"THREAD", TABLE_LEFT},
		{"CAUSE", TABLE_FLEX}, {"WHOSE WORK WAITED", TABLE_FLEX}, {NULL, 0}};
	struct report *report = stalls->report;
	struct table *table = table_new(columns);
	int error = table ? 0 : -ENOMEM;

	stalls_sort(stalls);
	for (size_t i = 0; table && i < stalls->count; i++) {
		const struct stall *stall = &stalls->longest[i];
		char by[STALL_BY], cause[160], thread[64], part[64];
		const char *mfa = section_mfa(report, stall->mfa);

		stall_by(stalls, stall, by);
		stalls_cause(cause, sizeof(cause), stall->cause, stall_owner(stalls, stall),
			     stall->by_count && stalls_shared(stall->by_ns, stall_ns(stall)), by);
		table_cell(table, "%s", MOMENT_TIME(report->trace, stall->start_ns));
		table_cell(table, "%s%s",
			   gaps_over(&report->gaps, stall->start_ns, stall->end_ns).count ? "~"
											  : "",
			   UNITS_DURATION(stall_ns(stall)));
		table_cell(table, "%s",
			   stalls_thread(thread, stall->role, stall->number, stall->tid));
		part_print(part, sizeof(part), stall);
		table_cell(table, "%s%s%s", cause, stall->certain ? "" : " (likely)", part);
		table_cell(table, "%s%s%s", SECTION_NAME(report, stall->process, stall->start_ns),
			   *mfa ? " in " : "", mfa);
	}
	if (!error)
		error = table_print(table, out, 2);
	section_left_out(out, stalls->count, stalls->all, "stalls");
	table_free(table);
	return error;
}

int stalls_text(void *state, FILE *out)
{
	struct stalls *stalls = state;
	struct report *report = stalls->report;
	int error;

	if (!stalls->all) {
		fputc('\n', out);
		if (report->coverage.looks[LOOK_SCHED].on)
			page_print(out, 0, 2,
				   "No scheduler thread that had work was kept from it for %s or "
				   "longer. Shorter ones: --min 100us",
				   UNITS_DURATION(report->options->min_ns));
		else
			section_nothing(report, out, LOOK_SCHED);
		return 0;
	}
	page_title(out,
		   "Stalls: a scheduler thread had work and did not get on with it (%s or longer). "
		   "TOTAL adds up the threads.",
		   UNITS_DURATION(report->options->min_ns));
	error = groups_print(stalls, out);
	if (error)
		return error;
	page_title(out, "Longest stalls%s",
		   report->gaps.count ? " (~: over a gap in the recording)" : "");
	return longest_print(stalls, out);
}
