/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <errno.h>
#include <stdlib.h>

void processes_free(struct processes *processes)
{
	size_t i;

	for (i = 0; i < processes->count; i++)
		free(processes->all[i]);
	free(processes->all);
	free(processes->totals);
	map_free_values(&processes->rings);
	map_free(&processes->map);
}

static struct process *process_new(struct processes *processes, uint64_t word, uint64_t ts_ns)
{
	struct process *process;

	if (processes->count == processes->capacity) {
		size_t capacity = processes->capacity ? processes->capacity * 2 : 256;
		struct process **all = realloc(processes->all, capacity * sizeof(*all));

		if (!all)
			return NULL;
		processes->all = all;
		processes->capacity = capacity;
	}
	process = calloc(1, sizeof(*process));
	if (!process)
		return NULL;
	if (map_put(&processes->map, word, process)) {
		free(process);
		return NULL;
	}
	processes->all[processes->count++] = process;
	process->port = process_word_is_port(word);
	process->totals.process = word;
	process->totals.initial = RING_NO_INDEX;
	process->totals.first_ns = ts_ns;
	process->totals.last_ns = ts_ns;
	return process;
}

struct process *process_get(struct processes *processes, uint64_t word, uint64_t ts_ns)
{
	struct process *process = map_get(&processes->map, word);

	if (!process)
		return process_new(processes, word, ts_ns);
	if (ts_ns > process->totals.last_ns)
		process->totals.last_ns = ts_ns;
	return process;
}

struct vm_thread *process_ring(struct processes *processes, uint32_t ring, int32_t tid)
{
	struct vm_thread *thread = map_get(&processes->rings, ring);

	if (!thread) {
		thread = calloc(1, sizeof(*thread));
		if (!thread)
			return NULL;
		if (map_put(&processes->rings, ring, thread)) {
			free(thread);
			return NULL;
		}
	}
	thread->tid = tid;
	return thread;
}

static struct process **vm_thread_slot(struct vm_thread *thread, const struct process *process)
{
	return process->port ? &thread->port : &thread->process;
}

/* End the run; `mfa` RING_NO_INDEX when no `out` tells. */
static void process_close(struct processes *processes, struct process *process, uint64_t ts_ns,
			  uint32_t mfa, bool told)
{
	struct vm_thread *thread = map_get(&processes->rings, process->run_ring);
	struct run_interval *run = &process->run;

	if (!told && process->totals.exited_ns && ts_ns > process->totals.exited_ns)
		ts_ns = process->totals.exited_ns;
	run->end_ns = ts_ns > run->start_ns ? ts_ns : run->start_ns;
	run->mfa_out = mfa;
	process->totals.running_ns += run->end_ns - run->start_ns;
	if (thread && *vm_thread_slot(thread, process) == process) {
		*vm_thread_slot(thread, process) = NULL;
		if (!thread->process && !thread->port)
			thread->last_out_ns = run->end_ns;
	}
	process->phase = process->totals.exited_ns ? PROCESS_GONE : PROCESS_OFF;
	process->since_ns = run->end_ns;
	/* sent since the newest fetch: a process that waits has fetched all */
	process->woken_ns = 0;
	if (process->queued && process->last_fetched_ns &&
	    process->last_sent_ns > process->last_fetched_ns)
		process->woken_ns = run->end_ns;
	if (processes->ended)
		processes->ended(processes->context, process, run);
}

/* Has the thread executed something all the time from `since_ns` to now? */
static bool vm_thread_busy(const struct vm_thread *thread, uint64_t since_ns, uint64_t now_ns)
{
	if (thread->busy_since_ns > since_ns)
		return false;
	return thread->process || thread->port ||
	       now_ns - thread->last_out_ns <= SCHEDULER_PAUSE_NS;
}

/* Account for the time since it ran. */
static void process_gap(struct processes *processes, struct process *process, uint64_t ts_ns)
{
	uint64_t gap_ns = ts_ns > process->since_ns ? ts_ns - process->since_ns : 0,
		 runnable_ns = 0;

	if (process->woken_ns) {
		runnable_ns = ts_ns > process->woken_ns ? ts_ns - process->woken_ns : 0;
	} else if (process->run.end_ns - process->run.start_ns >= PREEMPTED_RUN_NS) {
		const struct vm_thread *thread = map_get(&processes->rings, process->run_ring);

		if (thread && vm_thread_busy(thread, process->since_ns, ts_ns))
			runnable_ns = process->guessed_ns = gap_ns;
	}
	if (runnable_ns > gap_ns)
		runnable_ns = gap_ns;
	process->totals.runnable_ns += runnable_ns;
	process->totals.waiting_ns += gap_ns - runnable_ns;
}

void process_in(struct processes *processes, struct process *process, struct vm_thread *thread,
		const struct event *event, uint32_t mfa)
{
	struct process **slot = vm_thread_slot(thread, process);
	uint64_t ts_ns = event->ts_ns;

	if (*slot && *slot != process)
		process_close(processes, *slot, ts_ns, RING_NO_INDEX, false);
	if (process->phase == PROCESS_ON)
		process_close(processes, process, ts_ns, RING_NO_INDEX, false);
	process->guessed_ns = 0;
	if (process->phase == PROCESS_OFF)
		process_gap(processes, process, ts_ns);
	if (!thread->process && !thread->port &&
	    (thread->busy_since_ns == UINT64_MAX || !thread->last_out_ns ||
	     ts_ns - thread->last_out_ns > SCHEDULER_PAUSE_NS))
		thread->busy_since_ns = ts_ns;
	*slot = process;
	process->phase = PROCESS_ON;
	process->since_ns = ts_ns;
	process->run_ring = event->ring;
	process->run = (struct run_interval){
		.process = process->totals.process,
		.tid = event->tid,
		.dirty = event->flags & RING_F_DIRTY,
		.start_ns = ts_ns,
		.mfa_in = mfa,
		.mfa_out = RING_NO_INDEX,
		.exiting = event->kind == RING_IN_EXITING,
	};
	if (event->kind != RING_PORT_IN)
		process->run.scheduler = event->run->scheduler;
}

void process_out(struct processes *processes, struct process *process, struct vm_thread *thread,
		 const struct event *event, uint32_t mfa)
{
	struct process **slot = vm_thread_slot(thread, process);

	/* What else was on this thread has left it unseen. */
	if (*slot && *slot != process)
		process_close(processes, *slot, event->ts_ns, RING_NO_INDEX, false);
	if (event->kind == RING_OUT_EXITED || event->kind == RING_OUT_EXITING)
		process->run.exiting = true;
	if (event->kind == RING_OUT_EXITED && !process->totals.exited_ns)
		process->totals.exited_ns = event->ts_ns;
	if (process->phase == PROCESS_ON) {
		process_close(processes, process, event->ts_ns, mfa, true);
	} else if (process->phase == PROCESS_UNSEEN) {
		process->phase = PROCESS_OFF;
		process->since_ns = event->ts_ns;
	}
	if (event->kind == RING_OUT_EXITED)
		process->phase = PROCESS_GONE;
}

void process_sent(struct process *process, uint64_t ts_ns, bool by_port)
{
	if (process->phase == PROCESS_OFF && !process->woken_ns)
		process->woken_ns = ts_ns;
	if (!by_port)
		process->last_sent_ns = ts_ns;
}

void process_timed_out(struct process *process, uint64_t ts_ns)
{
	if (process->phase != PROCESS_ON || ts_ns - process->since_ns > TIMEOUT_SOON_NS)
		return;
	process->totals.runnable_ns -= process->guessed_ns;
	process->totals.waiting_ns += process->guessed_ns;
	process->guessed_ns = 0;
}

struct process *process_spawn(struct processes *processes, uint64_t child, uint64_t parent,
			      uint32_t initial, uint64_t ts_ns)
{
	struct process *process = map_get(&processes->map, child);

	if (!process || process->totals.exited_ns)
		process = process_new(processes, child, ts_ns);
	if (!process)
		return NULL;
	if (!process->totals.parent)
		process->totals.parent = parent;
	if (process->totals.initial == RING_NO_INDEX)
		process->totals.initial = initial;
	if (process->phase == PROCESS_UNSEEN) {
		process->phase = PROCESS_OFF;
		process->since_ns = ts_ns;
		process->woken_ns = ts_ns;
	}
	return process;
}

void process_exit(struct processes *processes, struct process *process, uint64_t ts_ns)
{
	if (process->totals.exited_ns)
		return;
	if (process->phase == PROCESS_OFF)
		process_gap(processes, process, ts_ns);
	process->totals.exited_ns = ts_ns;
	if (process->phase != PROCESS_ON)
		process->phase = PROCESS_GONE;
}

void process_retire(struct processes *processes, struct process *process, uint64_t ts_ns)
{
	if (process->phase == PROCESS_ON)
		process_close(processes, process, ts_ns, RING_NO_INDEX, false);
}

bool loss_may_hold(const struct loss *loss, const uint8_t *kinds, size_t count)
{
	uint64_t lost = 0, named = 0;
	size_t i;

	for (i = 0; i < RING_KINDS; i++)
		named += loss->counts[i];
	for (i = 0; i < count; i++)
		lost += loss->counts[kinds[i]];
	return lost || !named;
}

void process_loss(struct processes *processes, const struct loss *loss)
{
	static const uint8_t kinds[] = {RING_IN, RING_OUT, RING_IN_EXITING, RING_OUT_EXITING,
					RING_OUT_EXITED};
	struct vm_thread *thread = map_get(&processes->rings, loss->ring);
	struct process *running[2];
	size_t i;

	if (!thread || !loss_may_hold(loss, kinds, sizeof(kinds)))
		return;
	running[0] = thread->port;
	running[1] = thread->process;
	for (i = 0; i < 2; i++) {
		if (!running[i])
			continue;
		process_close(processes, running[i], loss->from_ns, RING_NO_INDEX, false);
		if (running[i]->phase == PROCESS_OFF)
			running[i]->phase = PROCESS_UNSEEN;
	}
	thread->busy_since_ns = UINT64_MAX;
}

void processes_finish(struct processes *processes, uint64_t end_ns)
{
	size_t i;

	for (i = 0; i < processes->count; i++) {
		struct process *process = processes->all[i];

		if (process->phase == PROCESS_ON) {
			process->run.open = !process->totals.exited_ns;
			process_close(processes, process, end_ns, RING_NO_INDEX, false);
		} else if (process->phase == PROCESS_OFF) {
			process_gap(processes, process, end_ns);
		}
	}
}

static int totals_compare(const void *left, const void *right)
{
	const struct process_totals *a = left, *b = right;

	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return a->first_ns < b->first_ns ? -1 : a->first_ns > b->first_ns;
}

int processes_totals(struct processes *processes)
{
	size_t i;

	processes->totals = calloc(processes->count + 1, sizeof(*processes->totals));
	if (!processes->totals)
		return -ENOMEM;
	for (i = 0; i < processes->count; i++)
		if (!processes->all[i]->port)
			processes->totals[processes->totals_count++] = processes->all[i]->totals;
	qsort(processes->totals, processes->totals_count, sizeof(*processes->totals),
	      totals_compare);
	return 0;
}
