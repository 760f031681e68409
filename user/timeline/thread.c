/* SPDX-License-Identifier: Apache-2.0 */
#include "thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "role.h"
#include "thread_state.h"

#define LOST_CPUS_MAX 4096

void threads_init(struct threads *threads, uint64_t start_ns, uint64_t end_ns,
		  thread_ended_fn ended, void *context)
{
	*threads = (struct threads){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.ended = ended,
		.context = context,
	};
}

void threads_free(struct threads *threads)
{
	size_t i;

	for (i = 0; i < threads->count; i++)
		free(threads->all[i]);
	free(threads->all);
	free(threads->lost_until_ns);
	waits_free(&threads->waits);
	map_free(&threads->map);
}

uint64_t threads_clamp(const struct threads *threads, uint64_t ts_ns)
{
	if (ts_ns < threads->start_ns)
		return threads->start_ns;
	return ts_ns > threads->end_ns ? threads->end_ns : ts_ns;
}

struct thread *threads_get(struct threads *threads, int32_t tid, uint64_t ts_ns)
{
	struct thread *thread = map_get(&threads->map, (uint32_t)tid);

	if (thread)
		return thread;
	if (threads->count == threads->capacity) {
		size_t capacity = threads->capacity ? threads->capacity * 2 : 64;
		struct thread **all = realloc(threads->all, capacity * sizeof(*all));

		if (!all)
			return NULL;
		threads->all = all;
		threads->capacity = capacity;
	}
	thread = calloc(1, sizeof(*thread));
	if (!thread)
		return NULL;
	if (map_put(&threads->map, (uint32_t)tid, thread)) {
		free(thread);
		return NULL;
	}
	threads->all[threads->count++] = thread;
	thread->totals.tid = tid;
	thread->now.tid = tid;
	thread->now.state = THREAD_UNKNOWN;
	thread->now.start_ns = threads_clamp(threads, ts_ns);
	thread->now.cpu = -1;
	thread->now.syscall = -2;
	thread->worked_ns = thread->now.start_ns;
	return thread;
}

int threads_role(struct threads *threads, int32_t tid, uint32_t role, uint32_t number)
{
	struct thread *thread = threads_get(threads, tid, threads->start_ns);

	if (!thread)
		return -ENOMEM;
	thread->totals.role = role;
	thread->totals.number = number;
	return 0;
}

void threads_name(struct thread *thread, const char comm[16])
{
	uint32_t role, number;

	if (!comm[0] || !memcmp(thread->totals.comm, comm, 16))
		return;
	memcpy(thread->totals.comm, comm, 16);
	thread->totals.comm[15] = 0;
	if (thread->totals.role == RING_ROLE_OTHER && !role_of_name(comm, &role, &number)) {
		thread->totals.role = role;
		thread->totals.number = number;
	}
}

/* Working time is running time in which the VM shows a process or port on the thread. */
static void thread_work(struct thread *thread, uint64_t ts_ns)
{
	if (ts_ns <= thread->worked_ns)
		return;
	if (thread->vm_busy && thread->now.state == THREAD_RUNNING) {
		uint64_t from_ns = thread->now.start_ns > thread->worked_ns ? thread->now.start_ns
									    : thread->worked_ns;

		thread->totals.working_ns += ts_ns - from_ns;
	}
	thread->worked_ns = ts_ns;
}

void thread_cut(struct threads *threads, struct thread *thread, uint64_t ts_ns)
{
	struct thread_interval *now = &thread->now;

	if (ts_ns < now->start_ns)
		ts_ns = now->start_ns;
	thread_work(thread, ts_ns);
	wait_end(&threads->waits, &thread->wait, ts_ns, now);
	if (ts_ns > now->start_ns) {
		now->end_ns = ts_ns;
		thread->totals.state_ns[now->state] += ts_ns - now->start_ns;
		if (threads->ended)
			threads->ended(threads->context, thread, now);
	}
	now->start_ns = ts_ns;
	now->waker_tid = 0;
	memset(now->waker_comm, 0, sizeof(now->waker_comm));
	now->last_tid = 0;
	now->last_tgid = 0;
	memset(now->last_comm, 0, sizeof(now->last_comm));
	now->most_known = false;
	now->most_tid = 0;
	now->most_tgid = 0;
	memset(now->most_comm, 0, sizeof(now->most_comm));
	now->most_ns = 0;
	now->most_count = 0;
	now->idle_ns = 0;
}

void thread_forget(struct thread_interval *now)
{
	now->preempted = false;
	now->throttled = false;
	now->throttle_known = false;
	now->syscall = -2;
	now->syscall_arg = 0;
	now->by_tid = 0;
	now->by_tgid = 0;
	memset(now->by_comm, 0, sizeof(now->by_comm));
	now->process_known = false;
	now->process = 0;
}

static uint64_t threads_lost_until(const struct threads *threads, int32_t cpu)
{
	return cpu >= 0 && (size_t)cpu < threads->lost_cpus ? threads->lost_until_ns[cpu] : 0;
}

void thread_recover(struct threads *threads, struct thread *thread, uint64_t ts_ns,
		    enum thread_state was, int32_t cpu)
{
	uint64_t until_ns = threads_clamp(threads, threads->lost_until_max_ns);

	thread->known = true;
	if (thread->now.state != THREAD_UNKNOWN || !thread->lost || ts_ns < until_ns)
		return;
	if (until_ns > thread->now.start_ns)
		thread_cut(threads, thread, until_ns);
	thread->now.state = was;
	thread->now.cpu = cpu;
	thread->lost = false;
}

void thread_enter(struct threads *threads, struct thread *thread, uint64_t ts_ns,
		  enum thread_state state, int32_t cpu)
{
	thread_cut(threads, thread, ts_ns);
	thread->now.cpu = cpu;
	/* While a CPU's records are missing, only what runs on another CPU stays known. */
	if (ts_ns < threads->lost_until_max_ns &&
	    (state != THREAD_RUNNING || ts_ns < threads_lost_until(threads, cpu))) {
		thread->lost = true;
		state = THREAD_UNKNOWN;
	} else {
		thread->lost = false;
	}
	thread->now.state = state;
}

int thread_wait(struct threads *threads, struct thread *thread, uint64_t ts_ns, int32_t cpu)
{
	if (thread->now.state != THREAD_RUNNABLE)
		return 0;
	return wait_begin(&threads->waits, &thread->wait, thread->now.tid, cpu, ts_ns);
}

void thread_gone(struct threads *threads, struct thread *thread, uint64_t ts_ns)
{
	if (thread->totals.exited)
		return;
	thread_cut(threads, thread, ts_ns);
	thread->now.state = THREAD_UNKNOWN;
	thread->totals.exited = true;
}

void thread_back(struct thread *thread)
{
	if (!thread->totals.exited)
		return;
	thread->totals.exited = false;
	thread_forget(&thread->now);
}

int threads_loss(struct threads *threads, const struct loss *loss)
{
	uint64_t from_ns = threads_clamp(threads, loss->from_ns), kinds = 0;
	size_t i;

	for (i = 0; i < RING_KINDS; i++)
		kinds += loss->counts[i];
	/* Where the kinds are known and none of them moves a thread, its states stand. */
	if (kinds && !loss->counts[PROBE_SWITCH] && !loss->counts[PROBE_WAKING] &&
	    !loss->counts[PROBE_WAKEUP_NEW] && !loss->counts[PROBE_EXIT])
		return 0;
	if (loss->ring >= LOST_CPUS_MAX || loss->to_ns <= loss->from_ns)
		return 0;
	if (loss->ring >= threads->lost_cpus) {
		size_t count = loss->ring + 1;
		uint64_t *lost = realloc(threads->lost_until_ns, count * sizeof(*lost));

		if (!lost)
			return -ENOMEM;
		memset(lost + threads->lost_cpus, 0, (count - threads->lost_cpus) * sizeof(*lost));
		threads->lost_until_ns = lost;
		threads->lost_cpus = count;
	}
	waits_lost(&threads->waits, loss->ring);
	if (threads->lost_until_ns[loss->ring] < loss->to_ns)
		threads->lost_until_ns[loss->ring] = loss->to_ns;
	if (threads->lost_until_max_ns < loss->to_ns)
		threads->lost_until_max_ns = loss->to_ns;
	for (i = 0; i < threads->count; i++) {
		struct thread *thread = threads->all[i];

		if (thread->totals.exited)
			continue;
		if (thread->now.state == THREAD_RUNNING && thread->now.cpu != (int32_t)loss->ring)
			continue;
		thread->lost = true;
		if (thread->now.state == THREAD_UNKNOWN)
			continue;
		thread_enter(threads, thread, from_ns, THREAD_UNKNOWN, thread->now.cpu);
		thread_forget(&thread->now);
	}
	return 0;
}

int threads_vm(struct threads *threads, int32_t tid, uint64_t process, bool busy, uint64_t ts_ns)
{
	struct thread *thread = threads_get(threads, tid, threads->start_ns);

	if (!thread)
		return -ENOMEM;
	ts_ns = threads_clamp(threads, ts_ns);
	thread_work(thread, ts_ns);
	if (!thread->vm_seen) {
		thread->vm_seen = true;
		thread->vm_base_ns = thread->totals.state_ns[THREAD_RUNNING];
		if (thread->now.state == THREAD_RUNNING)
			thread->vm_base_ns += ts_ns - thread->now.start_ns;
	}
	thread->vm_process = process;
	thread->vm_busy = busy;
	return 0;
}

uint64_t threads_running_ns(const struct threads *threads, int32_t tid, uint64_t ts_ns)
{
	const struct thread *thread = map_get(&threads->map, (uint32_t)tid);
	uint64_t running_ns;

	if (!thread)
		return 0;
	running_ns = thread->totals.state_ns[THREAD_RUNNING];
	if (thread->now.state == THREAD_RUNNING && ts_ns > thread->now.start_ns)
		running_ns += ts_ns - thread->now.start_ns;
	return running_ns;
}

void threads_finish(struct threads *threads)
{
	size_t i;

	for (i = 0; i < threads->count; i++) {
		struct thread *thread = threads->all[i];
		struct thread_totals *totals = &thread->totals;

		if (!totals->exited) {
			thread->now.open = true;
			thread_cut(threads, thread, threads->end_ns);
		}
		if (thread->vm_seen && totals->state_ns[THREAD_RUNNING] >= thread->vm_base_ns) {
			uint64_t shown_ns = totals->state_ns[THREAD_RUNNING] - thread->vm_base_ns;

			totals->spinning_ns =
				shown_ns > totals->working_ns ? shown_ns - totals->working_ns : 0;
		}
	}
}

static int totals_compare(const void *left, const void *right)
{
	const struct thread_totals *a = left, *b = right;

	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

struct thread_totals *threads_totals(const struct threads *threads)
{
	struct thread_totals *totals = calloc(threads->count + 1, sizeof(*totals));
	size_t i;

	if (!totals)
		return NULL;
	for (i = 0; i < threads->count; i++)
		totals[i] = threads->all[i]->totals;
	qsort(totals, threads->count, sizeof(*totals), totals_compare);
	return totals;
}

/*
 * What a thread was in when it was listed, if it is a state in which it stays: its first event ends
 * it. A runnable one may run or wait for a CPU.
 */
static enum thread_state task_state(const struct chunk_task *task)
{
	switch (task->state) {
	case 'S':
	case 'I':
		return THREAD_SLEEPING;
	case 'D':
		return THREAD_BLOCKED;
	case 'T':
	case 't':
		return THREAD_STOPPED;
	default:
		return THREAD_UNKNOWN;
	}
}

int threads_known(struct threads *threads, const struct trace *trace)
{
	const struct trace_thread *vm_threads;
	const struct chunk_task *tasks;
	size_t count, i;

	tasks = trace_tasks(trace, &count);
	for (i = 0; i < count; i++) {
		struct thread *thread = threads_get(threads, tasks[i].tid, threads->start_ns);

		if (!thread)
			return -ENOMEM;
		threads_name(thread, tasks[i].comm);
		thread->now.state = task_state(&tasks[i]);
	}
	count = trace_threads(trace, &vm_threads);
	for (i = 0; i < count; i++) {
		if (vm_threads[i].tid <= 0)
			continue;
		if (threads_role(threads, vm_threads[i].tid, vm_threads[i].role,
				 vm_threads[i].number))
			return -ENOMEM;
	}
	return 0;
}
