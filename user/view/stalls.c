// SPDX-License-Identifier: Apache-2.0
#include "stalls.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "moment.h"
#include "page.h"
#include "syscalls.h"
#include "table.h"
#include "units.h"

#define GROUPS_MAX 4096 /* culprits told apart; the rest of a cause goes together */
#define BURSTS_MAX 65536

struct stalls {
	struct report *report;
	struct stall_group *table;
	struct stall *longest; /* a heap, the shortest on top */
	size_t count, room, all;
};

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

void stalls_cause(char *buffer, size_t size, enum stall_cause cause, const char *by)
{
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
		const char *mark = strstr(texts[cause].with, "%s");

		snprintf(buffer, size, "%.*s%s%s", (int)(mark - texts[cause].with),
			 texts[cause].with, by, mark + 2);
	}
}

static void stall_by(struct stalls *stalls, const struct stall *stall, char by[static STALL_BY])
{
	struct report *report = stalls->report;
	const char *name;

	by[0] = 0;
	switch (stall->cause) {
	case STALL_PREEMPTED:
		snprintf(by, STALL_BY, "%.16s", stall->by_comm);
		break;
	case STALL_SYSCALL:
	case STALL_BLOCKED:
		name = stall->syscall >= 0 ? syscall_name(stall->syscall) : NULL;
		if (name)
			snprintf(by, STALL_BY, "%s", name);
		else if (stall->syscall >= 0)
			snprintf(by, STALL_BY, "system call %d", stall->syscall);
		break;
	case STALL_GC:
	case STALL_LONG_RUN:
		if (!stall->process)
			break;
		name = trace_process_name(report->trace, stall->process, stall->start_ns);
		snprintf(by, STALL_BY, "%s",
			 name ? name : trace_process_text(report->trace, stall->process));
		break;
	default:
		break;
	}
}

static struct stall_group *group_get(struct stalls *stalls, const struct stall *stall)
{
	struct {
		uint32_t cause;
		char by[STALL_BY];
	} key = {.cause = stall->cause};
	struct stall_group *group;

	_Static_assert(offsetof(struct stall_group, by) == sizeof(key.cause),
		       "the key has no hole");
	stall_by(stalls, stall, key.by);
	if (HASH_COUNT(stalls->table) >= GROUPS_MAX)
		memset(key.by, 0, sizeof(key.by));
	/* the key is the whole array: what stands after the final 0 must be 0 too */
	memset(key.by + strlen(key.by), 0, sizeof(key.by) - strlen(key.by));
	HASH_FIND(hh, stalls->table, &key, sizeof(key), group);
	if (group)
		return group;
	group = calloc(1, sizeof(*group));
	if (!group)
		return NULL;
	group->cause = stall->cause;
	memcpy(group->by, key.by, sizeof(key.by));
	group->by_tid = stall->by_tid;
	group->first_ns = stall->start_ns;
	group->certain = true;
	HASH_ADD_KEYPTR(hh, stalls->table, &group->cause, sizeof(key), group);
	if (!group->hh.tbl) {
		free(group);
		return NULL;
	}
	return group;
}

/* Stalls come in order of their ends, so only the newest bursts can overlap with one. */
static int burst_add(struct stall_group *group, const struct stall *stall)
{
	struct stall_burst burst = {.start_ns = stall->start_ns,
				    .end_ns = stall->end_ns,
				    .stalls = 1,
				    .thread_bits = 1ULL << ((uint32_t)stall->tid % 64)};

	while (group->burst_count &&
	       group->bursts[group->burst_count - 1].end_ns >= burst.start_ns) {
		const struct stall_burst *last = &group->bursts[--group->burst_count];

		if (last->start_ns < burst.start_ns)
			burst.start_ns = last->start_ns;
		if (last->end_ns > burst.end_ns)
			burst.end_ns = last->end_ns;
		burst.stalls += last->stalls;
		burst.thread_bits |= last->thread_bits;
	}
	burst.threads = (uint32_t)__builtin_popcountll(burst.thread_bits);
	if (group->burst_count == BURSTS_MAX) {
		group->burst_more++;
		return 0;
	}
	if (group->burst_count == group->burst_room) {
		size_t room = group->burst_room ? group->burst_room * 2 : 4;
		struct stall_burst *grown = realloc(group->bursts, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		group->bursts = grown;
		group->burst_room = room;
	}
	group->bursts[group->burst_count++] = burst;
	return 0;
}

static uint64_t stall_ns(const struct stall *stall)
{
	return stall->end_ns > stall->start_ns ? stall->end_ns - stall->start_ns : 0;
}

static void heap_sink(struct stall *heap, size_t count, size_t at)
{
	for (;;) {
		size_t child = 2 * at + 1;
		struct stall swap;

		if (child >= count)
			return;
		if (child + 1 < count && stall_ns(&heap[child + 1]) < stall_ns(&heap[child]))
			child++;
		if (stall_ns(&heap[at]) <= stall_ns(&heap[child]))
			return;
		swap = heap[at];
		heap[at] = heap[child];
		heap[child] = swap;
		at = child;
	}
}

/* Keep the longest ones. */
static int longest_add(struct stalls *stalls, const struct stall *stall)
{
	stalls->all++;
	if (stalls->count == section_keep(stalls->report)) {
		if (!stalls->count || stall_ns(stall) <= stall_ns(&stalls->longest[0]))
			return 0;
		stalls->longest[0] = *stall;
		heap_sink(stalls->longest, stalls->count, 0);
		return 0;
	}
	if (stalls->count == stalls->room) {
		size_t room = stalls->room ? stalls->room * 2 : 64;
		struct stall *grown = realloc(stalls->longest, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		stalls->longest = grown;
		stalls->room = room;
	}
	stalls->longest[stalls->count++] = *stall;
	for (size_t at = stalls->count - 1; at; at = (at - 1) / 2) {
		struct stall *child = &stalls->longest[at],
			     *parent = &stalls->longest[(at - 1) / 2];
		struct stall swap = *child;

		if (stall_ns(parent) <= stall_ns(child))
			break;
		*child = *parent;
		*parent = swap;
	}
	return 0;
}

static void on_stall(void *context, const struct stall *stall)
{
	struct stalls *stalls = context;
	struct stall_group *group;

	if (!section_inside(stalls->report, stall->start_ns, stall->end_ns))
		return;
	group = group_get(stalls, stall);
	if (!group) {
		section_failed(stalls->report, -ENOMEM);
		return;
	}
	if (!group->durations.count || stall_ns(stall) > group->durations.max) {
		group->longest_ns = stall->start_ns;
		group->process = stall->process;
		group->mfa = stall->mfa;
	}
	if (stall->start_ns < group->first_ns)
		group->first_ns = stall->start_ns;
	group->certain &= stall->certain;
	section_failed(stalls->report, quantile_add(&group->durations, stall_ns(stall)));
	section_failed(stalls->report, burst_add(group, stall));
	section_failed(stalls->report, longest_add(stalls, stall));
}

static void *stalls_open(struct report *report, struct timeline_sink *sink)
{
	struct stalls *stalls = calloc(1, sizeof(*stalls));

	if (!stalls)
		return NULL;
	stalls->report = report;
	sink->context = stalls;
	sink->stall = on_stall;
	return stalls;
}

static void stalls_close(void *state)
{
	struct stalls *stalls = state;
	struct stall_group *group, *next;

	HASH_ITER (hh, stalls->table, group, next) {
		HASH_DEL(stalls->table, group);
		quantile_free(&group->durations);
		free(group->bursts);
		free(group);
	}
	free(stalls->longest);
	free(stalls);
}

static int group_compare(const void *a, const void *b)
{
	const struct stall_group *left = *(struct stall_group *const *)a;
	const struct stall_group *right = *(struct stall_group *const *)b;

	if (left->durations.sum != right->durations.sum)
		return left->durations.sum < right->durations.sum ? 1 : -1;
	return (left->first_ns > right->first_ns) - (left->first_ns < right->first_ns);
}

size_t stalls_groups(void *state, struct stall_group ***groups)
{
	struct stalls *stalls = state;
	struct stall_group *group, *next;
	size_t count = 0;

	*groups = calloc(HASH_COUNT(stalls->table) + 1, sizeof(**groups));
	if (!*groups) {
		section_failed(stalls->report, -ENOMEM);
		return 0;
	}
	HASH_ITER (hh, stalls->table, group, next)
		(*groups)[count++] = group;
	qsort(*groups, count, sizeof(**groups), group_compare);
	return count;
}

static int stall_compare(const void *a, const void *b)
{
	const struct stall *left = a, *right = b;

	if (stall_ns(left) != stall_ns(right))
		return stall_ns(left) < stall_ns(right) ? 1 : -1;
	if (left->start_ns != right->start_ns)
		return left->start_ns < right->start_ns ? -1 : 1;
	return (left->tid > right->tid) - (left->tid < right->tid);
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
	}
	if (stall->syscall >= 0) {
		const char *name = syscall_name(stall->syscall);

		json_object_set_new(detail, "syscall", section_json_text(name));
		json_object_set_new(detail, "number", json_integer(stall->syscall));
		json_object_set_new(detail, "argument", section_json_number(stall->syscall_arg));
	}
	return detail;
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
	/* one cause a stall so far: its part is the whole */
	json_object_set_new(object, "parts",
			    json_pack("[{s:s,s:o}]", "cause", stall_cause_name(stall->cause),
				      "duration_ns", section_json_number(stall_ns(stall))));
	json_object_set_new(object, "evidence", section_json_text(stall->evidence));
	json_object_set_new(object, "certain", json_boolean(stall->certain && !gap.count));
	return object;
}

static json_t *stalls_json(void *state)
{
	struct stalls *stalls = state;
	json_t *groups = json_array(), *list = json_array(), *unseen;
	struct stall_group **sorted;
	size_t count = stalls_groups(stalls, &sorted);

	for (size_t i = 0; i < count && i < section_limit(stalls->report); i++)
		json_array_append_new(groups, group_json(sorted[i]));
	free(sorted);
	if (stalls->count)
		qsort(stalls->longest, stalls->count, sizeof(*stalls->longest), stall_compare);
	for (size_t i = 0; i < stalls->count; i++)
		json_array_append_new(list, stall_json(stalls, &stalls->longest[i]));
	unseen = json_pack("[s]", "deaf intervals: this version does not look for them");
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

		stalls_cause(cause, sizeof(cause), group->cause, group->by);
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

	if (stalls->count)
		qsort(stalls->longest, stalls->count, sizeof(*stalls->longest), stall_compare);
	for (size_t i = 0; table && i < stalls->count; i++) {
		const struct stall *stall = &stalls->longest[i];
		char by[STALL_BY], cause[160], thread[64];
		const char *mfa = section_mfa(report, stall->mfa);

		stall_by(stalls, stall, by);
		stalls_cause(cause, sizeof(cause), stall->cause, by);
		table_cell(table, "%s", MOMENT_TIME(report->trace, stall->start_ns));
		table_cell(table, "%s%s",
			   gaps_over(&report->gaps, stall->start_ns, stall->end_ns).count ? "~"
											  : "",
			   UNITS_DURATION(stall_ns(stall)));
		table_cell(table, "%s",
			   stalls_thread(thread, stall->role, stall->number, stall->tid));
		table_cell(table, "%s%s", cause, stall->certain ? "" : " (likely)");
		table_cell(table, "%s%s%s", SECTION_NAME(report, stall->process, stall->start_ns),
			   *mfa ? " in " : "", mfa);
	}
	if (!error)
		error = table_print(table, out, 2);
	section_left_out(out, stalls->count, stalls->all, "stalls");
	table_free(table);
	return error;
}

static int stalls_text(void *state, FILE *out)
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

const struct section section_stalls = {.name = "stalls",
				       .about = "scheduler threads kept from their work, by cause",
				       .open = stalls_open,
				       .json = stalls_json,
				       .text = stalls_text,
				       .close = stalls_close};
