/* SPDX-License-Identifier: Apache-2.0 */
/* What each of the kernel's events does to a thread's state. */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "thread_state.h"

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
	thread_back(thread);
	threads_name(thread, record->prev_comm);
	thread_came(threads, thread, event, ts_ns);
	thread_recover(threads, thread, ts_ns, THREAD_RUNNING, event->cpu);
	thread->totals.switches++;
	if (record->prev_state & (TASK_DEAD | TASK_ZOMBIE)) {
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
	return thread_wait(threads, thread, ts_ns, event->cpu);
}

/* It waited for the CPU that another task now leaves. */
static void thread_waited(struct thread_interval *now, const struct probe_switch *record,
			  int32_t cpu)
{
	if (!now->preempted) {
		now->by_tid = record->prev_tid;
		now->by_tgid = record->prev_tgid;
		memcpy(now->by_comm, record->prev_comm, sizeof(now->by_comm));
	}
	if (cpu == now->cpu) {
		now->last_tid = record->prev_tid;
		now->last_tgid = record->prev_tgid;
		memcpy(now->last_comm, record->prev_comm, sizeof(now->last_comm));
	}
}

static int thread_come(struct threads *threads, const struct event *event, uint64_t ts_ns)
{
	const struct probe_switch *record = event->sched_switch;
	struct thread *thread = threads_get(threads, record->next_tid, threads->start_ns);
	struct thread_interval *now;

	if (!thread)
		return -ENOMEM;
	now = &thread->now;
	thread_back(thread);
	threads_name(thread, record->next_comm);
	thread_recover(threads, thread, ts_ns, THREAD_RUNNABLE, event->cpu);
	if (now->state == THREAD_SLEEPING && thread->waking_ns &&
	    now->start_ns - thread->waking_ns < WAKING_RACE_NS)
		now->state = THREAD_RUNNABLE;
	thread->waking_ns = 0;
	if (now->state == THREAD_RUNNABLE && record->prev_tid &&
	    record->prev_tid != record->next_tid)
		thread_waited(now, record, event->cpu);
	thread_enter(threads, thread, ts_ns, THREAD_RUNNING, event->cpu);
	thread_forget(now);
	return 0;
}

int threads_switch(struct threads *threads, const struct event *event)
{
	const struct probe_switch *record = event->sched_switch;
	uint64_t ts_ns = threads_clamp(threads, event->ts_ns);
	int err = waits_switch(&threads->waits, event->cpu, record, ts_ns);

	if (!err && record->flags & PROBE_PREV_TARGET && record->prev_tid)
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
	if (thread->totals.exited)
		return 0;
	now = &thread->now;
	threads_name(thread, record->comm);
	thread_recover(threads, thread, ts_ns, THREAD_SLEEPING, -1);
	switch (now->state) {
	case THREAD_RUNNING:
		thread->waking_ns = ts_ns;
		return 0;
	case THREAD_RUNNABLE:
		/* a new thread that is put into a queue */
		return wait_move(&threads->waits, &thread->wait, record->target_cpu, ts_ns);
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
	return thread_wait(threads, thread, ts_ns, record->target_cpu);
}

int threads_migrate(struct threads *threads, const struct event *event)
{
	struct thread *thread = map_get(&threads->map, (uint32_t)event->migrate->tid);

	if (!thread)
		return 0;
	thread->totals.migrations++;
	return wait_move(&threads->waits, &thread->wait, event->migrate->to_cpu,
			 threads_clamp(threads, event->ts_ns));
}

int threads_fork(struct threads *threads, const struct event *event)
{
	const struct probe_task *record = event->task;
	uint64_t ts_ns = threads_clamp(threads, event->ts_ns);
	struct thread *thread = map_get(&threads->map, (uint32_t)record->tid);

	/* A number that is given out again, whether the old thread's end was seen or not. */
	if (thread && thread->known) {
		thread_gone(threads, thread, ts_ns);
		map_remove(&threads->map, (uint32_t)record->tid);
	}
	thread = threads_get(threads, record->tid, ts_ns);
	if (!thread)
		return -ENOMEM;
	/* One that is in a list of threads, but had no event: it was made now. */
	thread->now.start_ns = ts_ns;
	threads_name(thread, record->comm);
	thread->known = true;
	thread_enter(threads, thread, ts_ns, THREAD_RUNNABLE, event->cpu);
	return thread_wait(threads, thread, ts_ns, event->cpu);
}

int threads_exec(struct threads *threads, const struct event *event)
{
	struct thread *thread = map_get(&threads->map, (uint32_t)event->task->tid);

	if (thread)
		threads_name(thread, event->task->comm);
	return 0;
}
