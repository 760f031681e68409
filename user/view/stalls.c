/* SPDX-License-Identifier: Apache-2.0 */
#include "stalls_view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "syscalls.h"

#define GROUPS_MAX 4096 /* culprits told apart; the rest of a cause goes together */
#define BURSTS_MAX 65536

void stall_by(struct stalls *stalls, const struct stall *stall, char by[static STALL_BY])
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

enum stall_owner stall_owner(const struct stalls *stalls, const struct stall *stall)
{
	if (stall->cause != STALL_PREEMPTED || stall->by_tgid <= 0)
		return STALL_OWNER_OTHER;
	if (stall->by_tgid == stalls->vm_pid)
		return STALL_OWNER_VM;
	return stall->by_tgid == stalls->recorder_pid ? STALL_OWNER_RECORDER : STALL_OWNER_OTHER;
}

uint64_t stall_ns(const struct stall *stall)
{
	return stall->end_ns > stall->start_ns ? stall->end_ns - stall->start_ns : 0;
}

/* How long the culprit had the CPU; all of the stall where that is not known. */
static uint64_t stall_by_ns(const struct stall *stall)
{
	return stall->cause == STALL_PREEMPTED && stall->by_count ? stall->by_ns : stall_ns(stall);
}

static struct stall_group *group_get(struct stalls *stalls, const struct stall *stall)
{
	struct {
		uint32_t cause, owner;
		char by[STALL_BY];
	} key = {.cause = stall->cause, .owner = stall_owner(stalls, stall)};
	struct stall_group *group;

	_Static_assert(offsetof(struct stall_group, by) == sizeof(key) - STALL_BY,
		       "the key has no hole");
	stall_by(stalls, stall, key.by);
	if (HASH_COUNT(stalls->table) >= GROUPS_MAX)
		memset(key.by, 0, sizeof(key.by));
	/* the key is the whole array: what stands after the final 0 must be 0 too */
	memset(key.by + strlen(key.by), 0, sizeof(key.by) - strlen(key.by));
	HASH_FIND(hh, stalls->table, &key, sizeof(key), group);
	if (group) {
		group->by_many |= group->by_tgid != stall->by_tgid;
		return group;
	}
	group = calloc(1, sizeof(*group));
	if (!group)
		return NULL;
	group->cause = stall->cause;
	group->owner = key.owner;
	memcpy(group->by, key.by, sizeof(key.by));
	group->by_tgid = stall->by_tgid;
	group->first_ns = stall->start_ns;
	group->certain = true;
	HASH_ADD_KEYPTR(hh, stalls->table, &group->cause, sizeof(key), group);
	if (!group->hh.tbl) {
		free(group);
		return NULL;
	}
	return group;
}

/* Stalls come nearly in the order of their ends: one that was part of a run may come after later ones. */
static int burst_add(struct stall_group *group, const struct stall *stall)
{
	struct stall_burst burst = {.start_ns = stall->start_ns,
				    .end_ns = stall->end_ns,
				    .stalls = 1,
				    .thread_bits = 1ULL << ((uint32_t)stall->tid % 64)};
	size_t after = group->burst_count, first;

	while (after && group->bursts[after - 1].start_ns > burst.end_ns)
		after--;
	for (first = after; first && group->bursts[first - 1].end_ns >= burst.start_ns; first--) {
		const struct stall_burst *last = &group->bursts[first - 1];

		if (last->start_ns < burst.start_ns)
			burst.start_ns = last->start_ns;
		if (last->end_ns > burst.end_ns)
			burst.end_ns = last->end_ns;
		burst.stalls += last->stalls;
		burst.thread_bits |= last->thread_bits;
	}
	burst.threads = (uint32_t)__builtin_popcountll(burst.thread_bits);
	if (first == after && group->burst_count == BURSTS_MAX) {
		group->burst_more++;
		return 0;
	}
	if (first == after && group->burst_count == group->burst_room) {
		size_t room = group->burst_room ? group->burst_room * 2 : 4;
		struct stall_burst *grown = realloc(group->bursts, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		group->bursts = grown;
		group->burst_room = room;
	}
	memmove(group->bursts + first + 1, group->bursts + after,
		(group->burst_count - after) * sizeof(*group->bursts));
	group->burst_count = group->burst_count + 1 - (after - first);
	group->bursts[first] = burst;
	return 0;
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

	/* what the recording itself did is nothing to look into */
	if (trace_process_own(stalls->report->trace, stall->process) ||
	    !section_inside(stalls->report, stall->start_ns, stall->end_ns))
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
	group->by_ns += stall_by_ns(stall);
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
	stalls->vm_pid = meta_number(report->trace, "vm.pid");
	stalls->recorder_pid = meta_number(report->trace, "recorder.pid");
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

void stalls_sort(struct stalls *stalls)
{
	if (stalls->count)
		qsort(stalls->longest, stalls->count, sizeof(*stalls->longest), stall_compare);
}

const struct section section_stalls = {.name = "stalls",
				       .about = "scheduler threads kept from their work, by cause",
				       .open = stalls_open,
				       .json = stalls_json,
				       .text = stalls_text,
				       .close = stalls_close};
