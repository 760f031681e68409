/* SPDX-License-Identifier: Apache-2.0 */
#include "stall.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "gc.h"

void stalls_free(struct stalls *stalls)
{
	map_free_values(&stalls->bursts);
	map_free_values(&stalls->runs);
	stall_nests_free(&stalls->nests);
}

const char *stall_cause_name(enum stall_cause cause)
{
	static const char *const names[] = {
		[STALL_PREEMPTED] = "preempted",
		[STALL_THROTTLED] = "throttled",
		[STALL_STOPPED] = "stopped",
		[STALL_SYSCALL] = "syscall",
		[STALL_LOCK] = "lock",
		[STALL_BLOCKED] = "blocked",
		[STALL_GC] = "gc",
		[STALL_LONG_RUN] = "long_run",
		[STALL_UNKNOWN] = "unknown",
	};

	return (size_t)cause < sizeof(names) / sizeof(names[0]) ? names[cause] : "unknown";
}

/* System calls in which a scheduler without work waits for some. */
static bool syscall_waits(int32_t number)
{
	switch (number) {
	case SYS_futex:
	case SYS_epoll_pwait:
	case SYS_ppoll:
	case SYS_pselect6:
#ifdef SYS_epoll_wait
	case SYS_epoll_wait:
#endif
#ifdef SYS_poll
	case SYS_poll:
#endif
#ifdef SYS_select
	case SYS_select:
#endif
#ifdef SYS_epoll_pwait2
	case SYS_epoll_pwait2:
#endif
		return true;
	default:
		return false;
	}
}

/* Kernel threads come on often, but for microseconds; nothing but their names tells them. */
static bool task_is_brief(const char comm[16])
{
	static const char *const names[] = {"rcu_",	 "kworker/", "ksoftirqd/", "migration/",
					    "kcompactd", "irq/",     "cpuhp/",	   "kdamond"};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(comm, names[i], strlen(names[i])))
			return true;
	return false;
}

/*
 * Where it is not known for how long each task had the CPU (older recordings): the one that came on,
 * or, after a kernel thread, the one that was on when the thread came back. Only where both are the same
 * is it certain.
 */
static void stall_guess(const struct thread_interval *interval, struct stall *stall)
{
	bool last = interval->last_tid && task_is_brief(interval->by_comm) &&
		    !task_is_brief(interval->last_comm);

	stall->by_tid = last ? interval->last_tid : interval->by_tid;
	stall->by_tgid = last ? interval->last_tgid : interval->by_tgid;
	memcpy(stall->by_comm, last ? interval->last_comm : interval->by_comm,
	       sizeof(stall->by_comm));
	if (interval->preempted && interval->last_tid && interval->last_tid != interval->by_tid) {
		stall->certain = false;
		stall->evidence =
			"taken off the CPU while it could run; more than one task came on";
	}
}

/* Which task kept it off. */
static void stall_culprit(const struct thread_interval *interval, struct stall *stall)
{
	if (!interval->most_known) {
		stall_guess(interval, stall);
		return;
	}
	stall->by_tid = interval->most_tid;
	stall->by_tgid = interval->most_tgid;
	memcpy(stall->by_comm, interval->most_comm, sizeof(stall->by_comm));
	stall->by_ns = interval->most_ns;
	stall->by_count = interval->most_count;
}

/* Could run and did not: why. */
static void stall_runnable(const struct thread_interval *interval, struct stall *stall)
{
	bool idle = interval->most_known && interval->idle_ns > interval->most_ns;
	bool several = interval->most_known && interval->most_count > 1;

	if (interval->throttled) {
		stall->cause = STALL_THROTTLED;
		stall->evidence = "its control group's CPU quota was used up";
	} else if (interval->preempted && !idle) {
		stall->cause = STALL_PREEMPTED;
		stall->evidence = several ? "taken off the CPU while it could run; several tasks "
					    "had the CPU, this one the longest"
					  : "taken off the CPU while it could run; another task "
					    "came on";
	} else if (interval->preempted) {
		stall->cause = STALL_UNKNOWN;
		stall->evidence =
			"taken off the CPU while it could run, but the CPU was idle most of "
			"the time: a CPU quota or the host may have held it back";
		stall->certain = false;
	} else if (interval->most_known ? !idle : interval->by_tid) {
		stall->cause = STALL_PREEMPTED;
		stall->evidence =
			several ? "woken, but its CPU was taken; several tasks had it, this "
				  "one the longest"
				: "woken, but its CPU was taken";
		stall->certain = true;
	} else {
		stall->cause = STALL_UNKNOWN;
		stall->evidence = "woken, but came on late to an idle CPU: the host may have "
				  "taken the CPU away";
		stall->certain = false;
	}
}

/* Cause and evidence of a time off the CPU. False: the thread had nothing to do. */
static bool stall_classify(const struct thread *thread, const struct thread_interval *interval,
			   struct stall *stall)
{
	bool executes = interval->process_known && interval->process;

	stall->certain = executes;
	switch (interval->state) {
	case THREAD_RUNNABLE:
		/* a dirty scheduler that executes nothing, or one that yields, spins: no work waits */
		if (!executes && (thread->totals.role != RING_ROLE_NORMAL ||
				  interval->syscall == SYS_sched_yield))
			return false;
		stall_runnable(interval, stall);
		return true;
	case THREAD_STOPPED:
		stall->cause = STALL_STOPPED;
		stall->evidence = "stopped by a signal or a debugger";
		stall->certain = true;
		return executes || thread->totals.role == RING_ROLE_NORMAL;
	case THREAD_BLOCKED:
		/* no VM makes this call: it is the recording's own, when its session is opened */
		if (interval->syscall == SYS_membarrier)
			return false;
		stall->cause = STALL_BLOCKED;
		stall->evidence =
			"in an uninterruptible wait of the kernel (page fault, memory, disk)";
		return true;
	case THREAD_SLEEPING:
		break;
	default:
		return false;
	}
	if (interval->syscall == SYS_futex && executes) {
		stall->cause = STALL_LOCK;
		stall->evidence = "waited for a lock while it was executing a process";
		return true;
	}
	if (interval->syscall >= 0 && (executes || !syscall_waits(interval->syscall))) {
		stall->cause = STALL_SYSCALL;
		stall->evidence =
			executes ? "waited in a system call while it was executing a process"
				 : "waited in a system call that no idle scheduler makes";
		return true;
	}
	if (executes) {
		stall->cause = STALL_UNKNOWN;
		stall->evidence = "slept while it was executing a process";
		stall->certain = false;
		return true;
	}
	return false;
}

static bool thread_is_scheduler(const struct thread *thread)
{
	return thread->totals.role >= RING_ROLE_NORMAL && thread->totals.role <= RING_ROLE_DIRTY_IO;
}

static int stall_take(struct stalls *stalls, const struct stall *stall)
{
	struct stall_burst *burst = map_get(&stalls->bursts, (uint32_t)stall->tid);
	uint64_t duration_ns = stall->end_ns - stall->start_ns;
	uint32_t i;
	int error = 0;

	if (!burst) {
		burst = calloc(1, sizeof(*burst));
		if (!burst)
			return -ENOMEM;
		if (map_put(&stalls->bursts, (uint32_t)stall->tid, burst)) {
			free(burst);
			return -ENOMEM;
		}
	}
	if (burst->cause != stall->cause || burst->by_tgid != stall->by_tgid ||
	    stall->start_ns > burst->last_ns + BURST_GAP_NS) {
		burst->count = 0;
		burst->made = false;
		burst->total_ns = 0;
		burst->cause = stall->cause;
		burst->by_tgid = stall->by_tgid;
	}
	burst->last_ns = stall->end_ns;
	burst->total_ns += duration_ns;
	if (!burst->made && burst->total_ns < stalls->min_ns && burst->count < BURST_MAX) {
		burst->held[burst->count++] = *stall;
		return 0;
	}
	burst->made = true;
	for (i = 0; i < burst->count && !error; i++)
		error = stall_nest_give(&stalls->nests, &burst->held[i]);
	burst->count = 0;
	return error ? error : stall_nest_give(&stalls->nests, stall);
}

int stall_thread(struct stalls *stalls, const struct thread *thread,
		 const struct thread_interval *interval)
{
	uint64_t duration_ns = interval->end_ns - interval->start_ns;
	struct stall stall = {
		.tid = interval->tid,
		.role = thread->totals.role,
		.number = thread->totals.number,
		.start_ns = interval->start_ns,
		.end_ns = interval->end_ns,
		.process = interval->process_known ? interval->process : 0,
		.mfa = RING_NO_INDEX,
		.syscall = interval->syscall,
		.syscall_arg = interval->syscall_arg,
	};

	if (!stalls->sink || !stalls->sink->stall || !thread_is_scheduler(thread))
		return 0;
	if (duration_ns < stalls->min_ns / BURST_SHARE || !stall_classify(thread, interval, &stall))
		return 0;
	/* short and doubtful: most likely a scheduler that spins while it looks for work */
	if (!stall.certain && duration_ns < stalls->min_ns)
		return 0;
	if (stall.cause == STALL_PREEMPTED)
		stall_culprit(interval, &stall);
	return stall_take(stalls, &stall);
}

int stall_run_begins(struct stalls *stalls, const struct threads *threads,
		     const struct process *process, const struct event *event)
{
	struct stall_mark *mark = map_get(&stalls->runs, (uint32_t)event->tid);

	if (!mark) {
		mark = calloc(1, sizeof(*mark));
		if (!mark)
			return -ENOMEM;
		if (map_put(&stalls->runs, (uint32_t)event->tid, mark)) {
			free(mark);
			return -ENOMEM;
		}
	}
	mark->running_ns = threads_running_ns(threads, event->tid, event->ts_ns);
	mark->gc_ns = gc_total_ns(process, event->ts_ns);
	return stall_nest_begin(&stalls->nests, event->tid, STALL_HOLD_RUN);
}

int stall_gc_begins(struct stalls *stalls, int32_t tid)
{
	return stall_nest_begin(&stalls->nests, tid, STALL_HOLD_GC);
}

int stall_run(struct stalls *stalls, const struct threads *threads, const struct process *process,
	      const struct run_interval *run)
{
	const struct stall_mark *mark = map_get(&stalls->runs, (uint32_t)run->tid);
	const struct thread *thread = map_get(&threads->map, (uint32_t)run->tid);
	uint64_t least_ns = stalls->min_ns > LONG_RUN_NS ? stalls->min_ns : LONG_RUN_NS;
	uint64_t on_cpu_ns = run->end_ns - run->start_ns, gc_ns = 0, own_ns;
	bool dirty = run->dirty || (thread && thread->totals.role > RING_ROLE_NORMAL);
	const struct stall stall = {
		.tid = run->tid,
		.role = RING_ROLE_NORMAL,
		.number = run->scheduler,
		.start_ns = run->start_ns,
		.end_ns = run->end_ns,
		.cause = STALL_LONG_RUN,
		.process = run->process,
		.mfa = run->mfa_out != RING_NO_INDEX ? run->mfa_out : run->mfa_in,
		.syscall = -2,
		.certain = thread && !run->open,
		.evidence = "one process kept the scheduler for itself from `in` to `out`",
	};

	uint64_t running_ns = threads_running_ns(threads, run->tid, run->end_ns);
	bool is_stall;

	/* without the kernel side the whole run counts */
	if (mark && thread && thread->known)
		on_cpu_ns = running_ns > mark->running_ns ? running_ns - mark->running_ns : 0;
	if (mark)
		gc_ns = gc_total_ns(process, run->end_ns) - mark->gc_ns;
	own_ns = on_cpu_ns > gc_ns ? on_cpu_ns - gc_ns : 0;
	is_stall = mark && !dirty && run->scheduler && own_ns >= least_ns;
	return stall_nest_end(&stalls->nests, run->tid, STALL_HOLD_RUN, is_stall ? &stall : NULL,
			      on_cpu_ns, gc_ns);
}

int stall_gc(struct stalls *stalls, const struct thread *thread, const struct gc_interval *gc,
	     uint32_t mfa)
{
	bool dirty = gc->dirty || (thread && thread->totals.role > RING_ROLE_NORMAL);
	bool is_stall = !dirty && gc->end_ns - gc->start_ns >= stalls->min_ns;
	const struct stall stall = {
		.tid = gc->tid,
		.role = RING_ROLE_NORMAL,
		.number = thread ? thread->totals.number : 0,
		.start_ns = gc->start_ns,
		.end_ns = gc->end_ns,
		.cause = STALL_GC,
		.process = gc->process,
		.mfa = mfa,
		.syscall = -2,
		.certain = !gc->open && !gc->failed,
		.evidence = "collected a process's garbage; no other process could run there",
	};

	return stall_nest_end(&stalls->nests, gc->tid, STALL_HOLD_GC, is_stall ? &stall : NULL,
			      UINT64_MAX, 0);
}

void stalls_finish(struct stalls *stalls)
{
	stall_nests_finish(&stalls->nests);
}
