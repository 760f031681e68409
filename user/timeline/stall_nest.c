/* SPDX-License-Identifier: Apache-2.0 */
#include "stall_nest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One that is full goes out as it stands: a run of this many stalls begins anew behind them. */
#define HELD_MAX 1024u

struct stall_nest {
	uint32_t holds; /* enum stall_hold, or-ed */
	uint64_t until_ns; /* end of the newest one given out */
	struct stall *held; /* in the order of their ends */
	uint32_t count, room;
};

static void nest_free(struct stall_nest *nest)
{
	free(nest->held);
	free(nest);
}

void stall_nests_free(struct stall_nests *nests)
{
	size_t position = 0;
	struct stall_nest *nest;

	while ((nest = map_next(&nests->threads, &position)))
		nest_free(nest);
	map_free(&nests->threads);
}

/* NULL: no memory. */
static struct stall_nest *nest_get(struct stall_nests *nests, int32_t tid)
{
	struct stall_nest *nest = map_get(&nests->threads, (uint32_t)tid);

	if (nest)
		return nest;
	nest = calloc(1, sizeof(*nest));
	if (nest && map_put(&nests->threads, (uint32_t)tid, nest)) {
		free(nest);
		return NULL;
	}
	return nest;
}

/* Take the time before `from_ns` off, first from what the stall is called after. */
static void stall_clip(struct stall *stall, uint64_t from_ns)
{
	uint64_t cut_ns, part_ns;

	if (stall->start_ns >= from_ns)
		return;
	if (from_ns > stall->end_ns)
		from_ns = stall->end_ns;
	cut_ns = from_ns - stall->start_ns;
	stall->start_ns = from_ns;
	for (int i = -1; i < STALL_CAUSES && cut_ns; i++) {
		uint64_t *part = &stall->part_ns[i < 0 ? (int)stall->cause : i];

		part_ns = *part < cut_ns ? *part : cut_ns;
		*part -= part_ns;
		cut_ns -= part_ns;
	}
}

static void nest_emit(struct stall_nests *nests, struct stall_nest *nest, const struct stall *stall)
{
	struct stall given = *stall;

	stall_clip(&given, nest->until_ns);
	if (given.end_ns <= given.start_ns)
		return;
	nest->until_ns = given.end_ns;
	if (nests->sink && nests->sink->stall)
		nests->sink->stall(nests->sink->context, &given);
}

static void nest_flush(struct stall_nests *nests, struct stall_nest *nest)
{
	for (uint32_t i = 0; i < nest->count; i++)
		nest_emit(nests, nest, &nest->held[i]);
	nest->count = 0;
}

static int nest_hold(struct stall_nests *nests, struct stall_nest *nest, const struct stall *stall)
{
	if (!nest->holds) {
		nest_emit(nests, nest, stall);
		return 0;
	}
	if (nest->count == HELD_MAX)
		nest_flush(nests, nest);
	if (nest->count == nest->room) {
		uint32_t room = nest->room ? 2 * nest->room : 4;
		struct stall *held = realloc(nest->held, room * sizeof(*held));

		if (!held)
			return -ENOMEM;
		nest->held = held;
		nest->room = room;
	}
	nest->held[nest->count++] = *stall;
	return 0;
}

int stall_nest_give(struct stall_nests *nests, const struct stall *stall)
{
	struct stall_nest *nest = nest_get(nests, stall->tid);
	struct stall single = *stall;

	if (!nest)
		return -ENOMEM;
	memset(single.part_ns, 0, sizeof(single.part_ns));
	single.part_ns[stall->cause] = stall->end_ns - stall->start_ns;
	return nest_hold(nests, nest, &single);
}

int stall_nest_begin(struct stall_nests *nests, int32_t tid, enum stall_hold hold)
{
	struct stall_nest *nest = nest_get(nests, tid);

	if (!nest)
		return -ENOMEM;
	/* its end was lost: what it held stands for itself */
	if (nest->holds & hold) {
		nest_flush(nests, nest);
		nest->holds = 0;
	}
	nest->holds |= hold;
	return 0;
}

/* What the thread was in for the longest gives the cause, with the longest stall of that cause for evidence. */
static void stall_settle(struct stall *stall, const struct stall *inner, uint32_t count)
{
	const struct stall *longest = NULL;
	enum stall_cause cause = stall->cause;

	for (int i = 0; i < STALL_CAUSES; i++)
		if (stall->part_ns[i] > stall->part_ns[cause])
			cause = (enum stall_cause)i;
	for (uint32_t i = 0; i < count && cause != stall->cause; i++)
		if (inner[i].cause == cause &&
		    (!longest || inner[i].part_ns[cause] > longest->part_ns[cause]))
			longest = &inner[i];
	if (!longest)
		return;
	stall->cause = cause;
	stall->by_tid = longest->by_tid;
	stall->by_tgid = longest->by_tgid;
	memcpy(stall->by_comm, longest->by_comm, sizeof(stall->by_comm));
	stall->by_ns = longest->by_ns;
	stall->by_count = longest->by_count;
	stall->syscall = longest->syscall;
	stall->syscall_arg = longest->syscall_arg;
	stall->evidence = longest->evidence;
	stall->certain = longest->certain;
}

static uint64_t part_take(struct stall *stall, enum stall_cause cause, uint64_t left_ns,
			  uint64_t ns)
{
	if (ns > left_ns)
		ns = left_ns;
	stall->part_ns[cause] += ns;
	return left_ns - ns;
}

/* Make what is held since its start parts of `whole`. */
static int nest_absorb(struct stall_nests *nests, struct stall_nest *nest,
		       const struct stall *whole, uint64_t on_cpu_ns, uint64_t gc_ns)
{
	struct stall stall = *whole;
	uint32_t first = nest->count;
	uint64_t left_ns;

	memset(stall.part_ns, 0, sizeof(stall.part_ns));
	stall_clip(&stall, nest->until_ns);
	left_ns = stall.end_ns - stall.start_ns;
	while (first && nest->held[first - 1].start_ns >= stall.start_ns)
		first--;
	for (uint32_t i = first; i < nest->count; i++) {
		const struct stall *held = &nest->held[i];
		uint64_t held_ns = held->end_ns - held->start_ns;

		for (int cause = 0; cause < STALL_CAUSES; cause++)
			left_ns = part_take(&stall, (enum stall_cause)cause, left_ns,
					    held->part_ns[cause]);
		/* a collection that is a stall is told by that, the shorter ones by what is left */
		if (held->part_ns[STALL_GC])
			gc_ns = gc_ns > held_ns ? gc_ns - held_ns : 0;
	}
	left_ns = part_take(&stall, STALL_GC, left_ns, gc_ns);
	on_cpu_ns = on_cpu_ns > stall.part_ns[STALL_GC] ? on_cpu_ns - stall.part_ns[STALL_GC] : 0;
	left_ns = part_take(&stall, whole->cause, left_ns, on_cpu_ns);
	part_take(&stall, STALL_UNKNOWN, left_ns, left_ns);
	stall_settle(&stall, nest->held + first, nest->count - first);
	nest->count = first;
	return nest_hold(nests, nest, &stall);
}

int stall_nest_end(struct stall_nests *nests, int32_t tid, enum stall_hold hold,
		   const struct stall *whole, uint64_t on_cpu_ns, uint64_t gc_ns)
{
	struct stall_nest *nest = nest_get(nests, tid);
	int error = 0;

	if (!nest)
		return -ENOMEM;
	if (whole) {
		/* held even when its beginning was not seen, and then given out below */
		nest->holds |= hold;
		error = nest_absorb(nests, nest, whole, on_cpu_ns, gc_ns);
	}
	/* a collection that went on elsewhere is not told here; with the run it is over */
	nest->holds = hold == STALL_HOLD_RUN ? 0 : nest->holds & ~(uint32_t)hold;
	if (!nest->holds)
		nest_flush(nests, nest);
	return error;
}

void stall_nests_finish(struct stall_nests *nests)
{
	size_t position = 0;
	struct stall_nest *nest;

	while ((nest = map_next(&nests->threads, &position)))
		nest_flush(nests, nest);
}
