/* SPDX-License-Identifier: Apache-2.0 */
#include "wait.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void waits_free(struct waits *waits)
{
	free(waits->cpus);
}

/* NULL for a number that no CPU has. -ENOMEM in *err. */
static struct wait_cpu *waits_cpu(struct waits *waits, int32_t cpu, int *err)
{
	size_t count = (size_t)cpu + 1, i;
	struct wait_cpu *cpus;

	if (cpu < 0 || cpu >= WAIT_CPUS_MAX)
		return NULL;
	if (count <= waits->count)
		return &waits->cpus[cpu];
	cpus = realloc(waits->cpus, count * sizeof(*cpus));
	if (!cpus) {
		*err = -ENOMEM;
		return NULL;
	}
	memset(cpus + waits->count, 0, (count - waits->count) * sizeof(*cpus));
	waits->cpus = cpus;
	waits->count = count;
	/* the first of each list points back to where it hangs */
	for (i = 0; i < count; i++)
		if (cpus[i].first)
			cpus[i].first->link = &cpus[i].first;
	return &cpus[cpu];
}

static void wait_link(struct wait_cpu *cpu, struct wait *wait)
{
	wait->next = cpu->first;
	wait->link = &cpu->first;
	if (wait->next)
		wait->next->link = &wait->next;
	cpu->first = wait;
}

static void wait_unlink(struct wait *wait)
{
	if (!wait->link)
		return;
	*wait->link = wait->next;
	if (wait->next)
		wait->next->link = wait->link;
	wait->next = NULL;
	wait->link = NULL;
}

static struct wait_task *wait_task(struct wait *wait, int32_t tid)
{
	struct wait_task *least = wait->tasks;
	uint32_t i;

	for (i = 0; i < WAIT_TASKS; i++) {
		if (wait->tasks[i].tid == tid)
			return &wait->tasks[i];
		if (wait->tasks[i].had_ns < least->had_ns)
			least = &wait->tasks[i];
	}
	wait->other_ns += least->had_ns;
	least->had_ns = 0;
	least->tid = tid;
	wait->count++;
	return least;
}

/* `by` had the CPU from where it is told up to now. */
static void wait_tell(struct wait *wait, const struct wait_task *by, uint64_t ts_ns)
{
	uint64_t had_ns = ts_ns > wait->told_ns ? ts_ns - wait->told_ns : 0;
	struct wait_task *task;

	/* its own coming is not recorded: it waits no more, since nobody knows when */
	if (!had_ns || by->tid == wait->tid)
		return;
	wait->told_ns = ts_ns;
	if (!by->tid) {
		wait->idle_ns += had_ns;
		return;
	}
	task = wait_task(wait, by->tid);
	task->tgid = by->tgid;
	memcpy(task->comm, by->comm, sizeof(task->comm));
	task->had_ns += had_ns;
}

/* A switch during the wait says who is on. */
static bool wait_knows(const struct wait *wait, const struct wait_cpu *cpu)
{
	return cpu->last_ns && cpu->last_ns >= wait->told_ns;
}

int wait_begin(struct waits *waits, struct wait *wait, int32_t tid, int32_t cpu, uint64_t ts_ns)
{
	struct wait_cpu *here;
	int err = 0;

	wait_unlink(wait);
	memset(wait, 0, sizeof(*wait));
	wait->tid = tid;
	wait->cpu = cpu;
	wait->told_ns = ts_ns;
	here = waits_cpu(waits, cpu, &err);
	if (here)
		wait_link(here, wait);
	return err;
}

int wait_move(struct waits *waits, struct wait *wait, int32_t cpu, uint64_t ts_ns)
{
	struct wait_cpu *here;
	int err = 0;

	if (!wait->link || wait->cpu == cpu)
		return 0;
	here = waits_cpu(waits, wait->cpu, &err);
	if (here && wait_knows(wait, here))
		wait_tell(wait, &here->on, ts_ns);
	wait_unlink(wait);
	wait->cpu = cpu;
	if (ts_ns > wait->told_ns)
		wait->told_ns = ts_ns;
	here = waits_cpu(waits, cpu, &err);
	if (here)
		wait_link(here, wait);
	return err;
}

void wait_end(struct waits *waits, struct wait *wait, uint64_t ts_ns,
	      struct thread_interval *interval)
{
	uint64_t length_ns = ts_ns > interval->start_ns ? ts_ns - interval->start_ns : 0;
	const struct wait_task *most = wait->tasks;
	uint64_t told_ns, untold_ns;
	struct wait_cpu *here = NULL;
	uint32_t i;
	int err = 0;

	if (!wait->tid)
		return;
	if (wait->link)
		here = waits_cpu(waits, wait->cpu, &err);
	if (here && wait_knows(wait, here))
		wait_tell(wait, &here->on, ts_ns);
	wait_unlink(wait);
	told_ns = wait->idle_ns + wait->other_ns;
	for (i = 0; i < WAIT_TASKS; i++) {
		told_ns += wait->tasks[i].had_ns;
		if (wait->tasks[i].had_ns > most->had_ns)
			most = &wait->tasks[i];
	}
	untold_ns = length_ns > told_ns ? length_ns - told_ns : 0;
	interval->most_ns = most->had_ns < length_ns ? most->had_ns : length_ns;
	length_ns -= interval->most_ns;
	interval->idle_ns = wait->idle_ns < length_ns ? wait->idle_ns : length_ns;
	interval->most_count = wait->count;
	/* in what is not told nobody can hide who had more */
	interval->most_known = (most->had_ns > wait->idle_ns ? most->had_ns : wait->idle_ns) >
			       untold_ns;
	interval->most_tid = most->tid;
	interval->most_tgid = most->tgid;
	memcpy(interval->most_comm, most->comm, sizeof(interval->most_comm));
	wait->tid = 0;
}

int waits_switch(struct waits *waits, int32_t cpu, const struct probe_switch *record,
		 uint64_t ts_ns)
{
	struct wait_task prev = {.tid = record->prev_tid, .tgid = record->prev_tgid};
	struct wait_cpu *here;
	struct wait *wait;
	int err = 0;

	here = waits_cpu(waits, cpu, &err);
	if (!here)
		return err;
	memcpy(prev.comm, record->prev_comm, sizeof(prev.comm));
	for (wait = here->first; wait; wait = wait->next) {
		/* who leaves did not come: it ran for a while, and the time before is nobody's */
		if (wait_knows(wait, here) && here->on.tid != prev.tid &&
		    ts_ns > wait->told_ns + record->ran_ns)
			wait->told_ns = ts_ns - record->ran_ns;
		wait_tell(wait, &prev, ts_ns);
	}
	here->on.tid = record->next_tid;
	here->on.tgid = record->next_tgid;
	memcpy(here->on.comm, record->next_comm, sizeof(here->on.comm));
	here->last_ns = ts_ns;
	return 0;
}

void waits_lost(struct waits *waits, uint32_t cpu)
{
	if (cpu < waits->count)
		waits->cpus[cpu].last_ns = 0;
}
