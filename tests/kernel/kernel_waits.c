/* SPDX-License-Identifier: Apache-2.0 */
/* Who has a CPU while the target waits for it. */
#include "harness.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define TURNS 20

struct turns {
	int cpu;
	volatile int ready, stop;
};

/* One of two that take a CPU by turns of 1 ms, so that nobody of lower rank gets it. */
static void turns_run(void *context)
{
	struct sched_param fifo = {.sched_priority = 1};
	struct turns *turns = context;
	int i;

	cpu_pin(turns->cpu);
	CHECK(!sched_setscheduler(0, SCHED_FIFO, &fifo));
	/* the name that it has from now on, not the one with which it came on first */
	prctl(PR_SET_NAME, "turn");
	__atomic_add_fetch(&turns->ready, 1, __ATOMIC_SEQ_CST);
	while (turns->ready < 2)
		usleep(100);
	for (i = 0; i < TURNS; i++) {
		spin_ms(1);
		sched_yield();
	}
}

static void waiter_run(void *context)
{
	struct turns *turns = context;

	cpu_pin(turns->cpu);
	child_step();
	while (!turns->stop)
		;
}

/* What the records say of two that took turns while a third waited. */
struct turns_seen {
	size_t foreign, changes; /* switches without the target; from one of the two to the other */
	uint64_t had_ns[2]; /* from coming on to leaving */
	size_t broken; /* a task leaves that has not come */
};

static void turns_count(struct turns_seen *seen, const struct records *records, pid_t target,
			const struct child turn[2])
{
	int32_t waits = -1, on = -1;
	uint64_t since_ns = 0;
	size_t i, t;

	memset(seen, 0, sizeof(*seen));
	for (i = 0; i < records->count; i++) {
		const struct probe_switch *record = (const void *)records->sorted[i];
		const struct probe_waking *waking = (const void *)record;
		const struct probe_migrate *migrate = (const void *)record;
		bool foreign;

		switch (record->h.kind) {
		case PROBE_WAKING:
			waits = waking->target_cpu;
			continue;
		case PROBE_MIGRATE:
			waits = migrate->to_cpu;
			continue;
		case PROBE_SWITCH:
			break;
		default:
			continue;
		}
		foreign = !(record->flags & (PROBE_PREV_TARGET | PROBE_NEXT_TARGET));
		seen->foreign += foreign;
		if (foreign) {
			CHECK(record->prev_tid != target && record->next_tid != target);
			CHECK(waits == record->h.cpu, "nobody waits for CPU %d", record->h.cpu);
			seen->broken += on >= 0 && record->prev_tid != on;
		}
		for (t = 0; t < 2; t++) {
			if (record->prev_tid != turn[t].pid)
				continue;
			if (on == turn[t].pid)
				seen->had_ns[t] += record->h.ts_ns - since_ns;
			/* before both are ready one may take the CPU from the other, which has no name yet */
			if (record->next_tid == turn[!t].pid)
				seen->changes += !strcmp(record->prev_comm, "turn");
		}
		if (record->next_tid == target) {
			waits = -1;
			on = -1;
			continue;
		}
		if (record->prev_tid == target)
			waits = PREEMPTED(record->prev_state) ? record->h.cpu : -1;
		on = waits == record->h.cpu ? record->next_tid : -1;
		since_ns = record->h.ts_ns;
	}
}

/* While the target waits for a CPU, every change of who has it is recorded; and not when it does not. */
static void turns_scenario(uint32_t fallback, bool moved)
{
	const struct sched_param fifo = {.sched_priority = 1}, other = {};
	struct turns *turns = shared_alloc(sizeof(*turns));
	struct records records = {};
	struct child target, turn[2];
	struct turns_seen seen;
	struct kernel *kernel;
	cpu_set_t set, all;
	int i;

	turns->cpu = cpu_choose();
	CHECK(!sched_getaffinity(0, sizeof(all), &all));
	if (moved && CPU_COUNT(&all) < 2)
		return;
	if (sched_setscheduler(0, SCHED_FIFO, &fifo) || sched_setscheduler(0, SCHED_OTHER, &other))
		test_skip("no real-time scheduling: %s", strerror(errno));
	child_start(&target, waiter_run, turns);
	for (i = 0; i < 2; i++)
		child_start(&turn[i], turns_run, turns);
	kernel = kernel_need(&(struct kernel_config){.wanted = BIT(KERNEL_SCHED),
						     .target = target.pid,
						     .fallback = fallback},
			     BIT(KERNEL_SCHED));
	child_go(&target);
	child_wait_step(&target);
	for (i = 0; i < 2; i++)
		child_go(&turn[i]);
	if (moved) {
		sleep_ms(5);
		set = all;
		CPU_CLR(turns->cpu, &set);
		CHECK(!sched_setaffinity(target.pid, sizeof(set), &set));
	}
	for (i = 0; i < 2; i++)
		child_end(&turn[i]);
	turns->stop = 1;
	child_end(&target);
	kernel_stop(kernel);
	records_drain(&records, kernel);
	records_sort(&records);
	CHECK(!counts_check(kernel, &records));
	turns_count(&seen, &records, target.pid, turn);
	if (moved) {
		CHECK(records.by_kind[PROBE_MIGRATE] >= 1);
	} else {
		/* the first turn is also the last of the other when that was late */
		CHECK(seen.changes >= 2 * TURNS - 3, "%zu of %zu", seen.changes, seen.foreign);
		CHECK(!seen.broken, "%zu", seen.broken);
		/* all of it lay in the wait, but for the time before both were ready */
		for (i = 0; i < 2; i++)
			CHECK(seen.had_ns[i] >= (TURNS - 1) * 1000000ull, "%llu",
			      (unsigned long long)seen.had_ns[i]);
	}
	records_free(&records);
	kernel_close(kernel);
}

static void scenario_turns(void)
{
	turns_scenario(0, false);
	turns_scenario(ALL_PROBES, false);
	turns_scenario(0, true);
}

int main(int argc, char **argv)
{
	static const struct scenario scenarios[] = {
		{"turns", scenario_turns},
	};

	return scenario_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(*scenarios));
}
