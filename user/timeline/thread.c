// SPDX-License-Identifier: Apache-2.0
#include "thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "role.h"

/* The kernel's task states in probe_switch.prev_state (include/linux/sched.h). */
#define TASK_SLEEPING  0x01
#define TASK_STOPPED   0x04
#define TASK_TRACED    0x08
#define TASK_DEAD      0x10
#define TASK_ZOMBIE    0x20
#define TASK_IDLE      0x80
#define TASK_PREEMPTED 0x100
#define TASK_REPORT    0xff

/*
 * How long before a switch-out its own waking may have been traced: between the two the sleeper runs
 * a stretch of __schedule() with interrupts off, which a hypervisor may stretch.
 */
#define WAKING_RACE_NS 100000

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
	map_free(&threads->map);
}

static uint64_t threads_clamp(const struct threads *threads, uint64_t ts_ns)
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

/* Close the current interval at `ts_ns`; what began it stays in `now`. */
static void thread_cut(struct threads *threads, struct thread *thread, uint64_t ts_ns)
{
	struct thread_interval *now = &thread->now;

	if (ts_ns < now->start_ns)
		ts_ns = now->start_ns;
	thread_work(thread, ts_ns);
	if (ts_ns > now->start_ns) {
		now->end_ns = ts_ns;
		thread->totals.state_ns[now->state] += ts_ns - now->start_ns;
		if (threads->ended)
			threads->ended(threads->context, thread, now);
	}
	now->start_ns = ts_ns;
	now->waker_tid = 0;
	memset(now->waker_comm, 0, sizeof(now->waker_comm));
}

static void thread_forget(struct thread_interval *now)
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

/* An event says that the thread was in `was` up to now: so it was since the end of the loss. */
static void thread_recover(struct threads *threads, struct thread *thread, uint64_t ts_ns,
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

static void thread_enter(struct threads *threads, struct thread *thread, uint64_t ts_ns,
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

static enum thread_state thread_state_of(uint32_t prev_state)
{
	if (prev_state & TASK_PREEMPTED || !(prev_state & TASK_REPORT))
		return THREAD_RUNNABLE;
	if (prev_state & (TASK_STOPPED | TASK_TRACED))
		return THREAD_STOPPED;
	if (prev_state & (TASK_SLEEPING | TASK_IDLE))
		return THREAD_SLEEPING;
	return THREAD_BLOCKED;
}

static void thread_gone(struct threads *threads, struct thread *thread, uint64_t ts_ns)
{
	thread_cut(threads, thread, ts_ns);
	thread->totals.exited = true;
	map_remove(&threads->map, (uint32_t)thread->totals.tid);
}

/* Its coming has no record, but the kernel tells how long it has run. */
static void thread_came(struct threads *threads, struct thread *thread, const struct event *event,
			uint64_t ts_ns)
{
	uint64_t ran_ns = event->sched_switch->ran_ns, came_ns;

	if (thread->now.state == THREAD_RUNNING || !ran_ns)
		return;
	came_ns = threads_clamp(threads, ran_ns < event->ts_ns ? event->ts_ns - ran_ns : 0);
	thread_cut(threads, thread, came_ns < ts_ns ? came_ns : ts_ns);
	thread_forget(&thread->now);
	thread->now.state = THREAD_RUNNING;
	thread->now.cpu = event->cpu;
	thread->lost = false;
}

static int thread_leave(struct threads *threads, const struct event *event, uint64_t ts_ns)
{
	const struct probe_switch *record = event->sched_switch;
	struct thread *thread = threads_get(threads, record->prev_tid, threads->start_ns);
	enum thread_state state = thread_state_of(record->prev_state);
	struct thread_interval *now;

	if (!thread)
		return -ENOMEM;
	now = &thread->now;
	threads_name(thread, record->prev_comm);
	thread_came(threads, thread, event, ts_ns);
	thread_recover(threads, thread, ts_ns, THREAD_RUNNING, event->cpu);
	thread->totals.switches++;
	if (thread->exiting || record->prev_state & (TASK_DEAD | TASK_ZOMBIE)) {
		thread_gone(threads, thread, ts_ns);
		return 0;
	}
	thread_enter(threads, thread, ts_ns, state, event->cpu);
	thread_forget(now);
	if (record->flags & PROBE_SYSCALL_KNOWN) {
		now->syscall = record->syscall;
		now->syscall_arg = record->syscall_arg;
	}
	/* a thread that yields was not taken off: it had nothing better to do */
	now->preempted = state == THREAD_RUNNABLE && now->syscall != SYS_sched_yield;
	now->throttle_known = record->flags & PROBE_THROTTLE_KNOWN;
	now->throttled = now->throttle_known && now->preempted && record->flags & PROBE_THROTTLED;
	if (now->preempted && !now->throttled)
		thread->totals.preemptions++;
	now->by_tid = record->next_tid;
	now->by_tgid = record->next_tgid;
	if (record->next_tid)
		memcpy(now->by_comm, record->next_comm, sizeof(now->by_comm));
	if (record->flags & PROBE_PROCESS_KNOWN) {
		now->process_known = true;
		now->process = record->process;
	} else if (thread->vm_process) {
		now->process_known = true;
		now->process = thread->vm_process;
	}
	return 0;
}

static int thread_come(struct threads *threads, const struct event *event, uint64_t ts_ns)
{
	const struct probe_switch *record = event->sched_switch;
	struct thread *thread = threads_get(threads, record->next_tid, threads->start_ns);
	struct thread_interval *now;

	if (!thread)
		return -ENOMEM;
	now = &thread->now;
	threads_name(thread, record->next_comm);
	thread_recover(threads, thread, ts_ns, THREAD_RUNNABLE, event->cpu);
	if (now->state == THREAD_SLEEPING && thread->waking_ns &&
	    now->start_ns - thread->waking_ns < WAKING_RACE_NS)
		now->state = THREAD_RUNNABLE;
	thread->waking_ns = 0;
	/* A woken thread waited for the CPU of the one that now leaves it. */
	if (now->state == THREAD_RUNNABLE && !now->preempted && record->prev_tid &&
	    record->prev_tid != record->next_tid) {
		now->by_tid = record->prev_tid;
		now->by_tgid = record->prev_tgid;
		memcpy(now->by_comm, record->prev_comm, sizeof(now->by_comm));
	}
	thread_enter(threads, thread, ts_ns, THREAD_RUNNING, event->cpu);
	thread_forget(now);
	return 0;
}

int threads_switch(struct threads *threads, const struct event *event)
{
	const struct probe_switch *record = event->sched_switch;
	uint64_t ts_ns = threads_clamp(threads, event->ts_ns);
	int err = 0;

	if (record->flags & PROBE_PREV_TARGET && record->prev_tid)
		err = thread_leave(threads, event, ts_ns);
	if (!err && record->flags & PROBE_NEXT_TARGET && record->next_tid)
		err = thread_come(threads, event, ts_ns);
	return err;
}

int threads_waking(struct threads *threads, const struct event *event)
{
	const struct probe_waking *record = event->waking;
	uint64_t ts_ns = threads_clamp(threads, event->ts_ns);
	struct thread *thread = threads_get(threads, record->tid, threads->start_ns);
	struct thread_interval *now;

	if (!thread)
		return -ENOMEM;
	now = &thread->now;
	threads_name(thread, record->comm);
	thread_recover(threads, thread, ts_ns, THREAD_SLEEPING, -1);
	switch (now->state) {
	case THREAD_RUNNING:
		thread->waking_ns = ts_ns;
		return 0;
	case THREAD_RUNNABLE:
		return 0;
	default:
		break;
	}
	now->waker_tid = record->waker_tid;
	memcpy(now->waker_comm, record->waker_comm, sizeof(now->waker_comm));
	thread->waking_ns = 0;
	thread_enter(threads, thread, ts_ns, THREAD_RUNNABLE, now->cpu);
	/* who came on when it went to sleep is not who keeps it waiting now */
	now->preempted = false;
	now->by_tid = 0;
	now->by_tgid = 0;
	memset(now->by_comm, 0, sizeof(now->by_comm));
	return 0;
}

int threads_migrate(struct threads *threads, const struct event *event)
{
	struct thread *thread = map_get(&threads->map, (uint32_t)event->migrate->tid);

	if (thread)
		thread->totals.migrations++;
	return 0;
}

int threads_fork(struct threads *threads, const struct event *event)
{
	const struct probe_task *record = event->task;
	uint64_t ts_ns = threads_clamp(threads, event->ts_ns);
	struct thread *thread = map_get(&threads->map, (uint32_t)record->tid);

	/* A number that is given out again: the old thread's exit was lost. */
	if (thread && thread->known)
		thread_gone(threads, thread, ts_ns);
	thread = threads_get(threads, record->tid, ts_ns);
	if (!thread)
		return -ENOMEM;
	/* One that is in a list of threads, but had no event: it was made now. */
	thread->now.start_ns = ts_ns;
	threads_name(thread, record->comm);
	thread->known = true;
	thread_enter(threads, thread, ts_ns, THREAD_RUNNABLE, event->cpu);
	return 0;
}

int threads_exit(struct threads *threads, const struct event *event)
{
	struct thread *thread = map_get(&threads->map, (uint32_t)event->task->tid);

	/* It runs on until its last switch. */
	if (thread)
		thread->exiting = true;
	return 0;
}

int threads_exec(struct threads *threads, const struct event *event)
{
	struct thread *thread = map_get(&threads->map, (uint32_t)event->task->tid);

	if (thread)
		threads_name(thread, event->task->comm);
	return 0;
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
