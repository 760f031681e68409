/* SPDX-License-Identifier: Apache-2.0 */
#include "perfetto_sched.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "perfetto_fields.h"
#include "sanitize.h"

#define CPU_LIMIT	  1024u /* the trace processor refuses a file with more */
#define BUNDLE_BYTES	  (32u * 1024)
#define CLONE_THREAD_FLAG 0x10000u
#define FLAG_IRQS_OFF	  0x01u
#define FLAG_HARDIRQ	  0x08u

/* prev_state, as the kernel prints it. */
#define STATE_SLEEPING 0x01u
#define STATE_GONE     0x30u /* dead, zombie */
#define STATE_UNKNOWN  0x1000u /* no kernel of ours prints it: shown as unknown, and counted */

struct sched_cpu {
	struct proto events; /* of the bundle that is being filled */
	uint64_t last_ns; /* of the newest switch */
	uint64_t loss_ns; /* since that switch, 0 none */
	int32_t next_tid, next_prio; /* who came on with it */
	char next_comm[PROBE_COMM + 1];
	bool known; /* there was a switch */
	bool lost; /* to be said in the bundle */
};

struct sched_task {
	int32_t tid, tgid;
	uint64_t waking_ns;
	UT_hash_handle hh;
};

/* One side of a switch. */
struct side {
	int32_t tid, prio;
	const char *comm; /* clean */
};

static void sched_fail(struct perfetto_sched *sched, int error)
{
	if (!sched->error)
		sched->error = error;
}

static void proto_sint(struct proto *proto, uint32_t field, int32_t value)
{
	proto_uint(proto, field, (uint64_t)(int64_t)value);
}

static const char *comm_clean(char buffer[static PROBE_COMM + 1], const char comm[PROBE_COMM])
{
	sanitize_copy(buffer, PROBE_COMM + 1, comm, strnlen(comm, PROBE_COMM));
	return buffer;
}

/* ---- Tasks ---- */

static void tree_write(struct perfetto_sched *sched, uint64_t ts_ns, int32_t tid, int32_t tgid,
		       const char *comm)
{
	struct proto *proto = packet_open(sched->packets, SEQUENCE_KERNEL, ts_ns);

	proto_open(proto, PACKET_PROCESS_TREE);
	proto_open(proto, TREE_PROCESSES);
	proto_sint(proto, TREE_PROCESS_PID, tgid);
	if (tid == tgid) {
		proto_text(proto, TREE_PROCESS_CMDLINE, comm);
		proto_uint(proto, TREE_PROCESS_CMDLINE_IS_COMM, 1);
	}
	proto_close(proto);
	proto_open(proto, TREE_THREADS);
	proto_sint(proto, TREE_THREAD_TID, tid);
	proto_text(proto, TREE_THREAD_NAME, comm);
	proto_sint(proto, TREE_THREAD_TGID, tgid);
	proto_close(proto);
	proto_close(proto);
	packet_close(sched->packets);
}

static struct sched_task *task_find(struct perfetto_sched *sched, int32_t tid)
{
	struct sched_task *task;

	HASH_FIND(hh, sched->tasks, &tid, sizeof(tid), task);
	return task;
}

/* Make a thread known; with `write` the viewer is told, when it is new. */
static void task_note(struct perfetto_sched *sched, uint64_t ts_ns, int32_t tid, int32_t tgid,
		      const char *comm, bool write)
{
	struct sched_task *task;

	if (tid <= 0 || tgid <= 0)
		return;
	task = task_find(sched, tid);
	if (task && task->tgid == tgid)
		return;
	if (!task) {
		task = calloc(1, sizeof(*task));
		if (!task) {
			sched_fail(sched, -ENOMEM);
			return;
		}
		task->tid = tid;
		HASH_ADD(hh, sched->tasks, tid, sizeof(task->tid), task);
	}
	task->tgid = tgid;
	if (write)
		tree_write(sched, ts_ns, tid, tgid, comm);
}

static void task_forget(struct perfetto_sched *sched, int32_t tid)
{
	struct sched_task *task = task_find(sched, tid);

	if (task) {
		HASH_DEL(sched->tasks, task);
		free(task);
	}
}

bool perfetto_sched_knows(struct perfetto_sched *sched, int32_t tid)
{
	return task_find(sched, tid);
}

int32_t perfetto_sched_tgid(struct perfetto_sched *sched, int32_t tid)
{
	const struct sched_task *task = task_find(sched, tid);

	if (task)
		return task->tgid;
	return sched->target_tgid ? sched->target_tgid : tid;
}

/* ---- Bundles ---- */

static void bundle_write(struct perfetto_sched *sched, uint32_t number)
{
	struct sched_cpu *cpu = &sched->cpus[number];
	struct proto *proto;

	if (!cpu->events.used && !cpu->lost)
		return;
	proto = packet_open(sched->packets, SEQUENCE_KERNEL, PACKET_NO_TIME);
	proto_open(proto, PACKET_FTRACE_EVENTS);
	proto_uint(proto, BUNDLE_CPU, number);
	if (cpu->lost)
		proto_uint(proto, BUNDLE_LOST_EVENTS, 1);
	proto_append(proto, cpu->events.data, cpu->events.used);
	proto_close(proto);
	packet_close(sched->packets);
	proto_clear(&cpu->events);
	cpu->lost = false;
}

/* NULL with sched->error, or for a CPU that no viewer takes. */
static struct sched_cpu *cpu_find(struct perfetto_sched *sched, int32_t number)
{
	if (number < 0 || (uint32_t)number >= CPU_LIMIT)
		return NULL;
	if ((uint32_t)number >= sched->cpu_count) {
		uint32_t count = (uint32_t)number + 1;
		struct sched_cpu *cpus = realloc(sched->cpus, count * sizeof(*cpus));

		if (!cpus) {
			sched_fail(sched, -ENOMEM);
			return NULL;
		}
		memset(cpus + sched->cpu_count, 0, (count - sched->cpu_count) * sizeof(*cpus));
		sched->cpus = cpus;
		sched->cpu_count = count;
	}
	return &sched->cpus[number];
}

/* Open an ftrace event; `tid` is who ran. */
static struct proto *ftrace_open(struct perfetto_sched *sched, struct sched_cpu *cpu,
				 uint64_t ts_ns, int32_t tid)
{
	struct proto *proto = &cpu->events;

	proto_open(proto, BUNDLE_EVENT);
	proto_uint(proto, FTRACE_TIMESTAMP, ts_ns + (uint64_t)sched->boot_offset_ns);
	/* An event without it is left out; more bits than a tid has would be another thread. */
	proto_uint(proto, FTRACE_PID, (uint32_t)(tid > 0 ? tid : 0));
	return proto;
}

static void ftrace_close(struct perfetto_sched *sched, struct sched_cpu *cpu)
{
	proto_close(&cpu->events);
	if (cpu->events.error)
		sched_fail(sched, cpu->events.error);
	else if (cpu->events.used >= BUNDLE_BYTES)
		bundle_write(sched, (uint32_t)(cpu - sched->cpus));
}

static void switch_write(struct perfetto_sched *sched, struct sched_cpu *cpu, uint64_t ts_ns,
			 const struct side *prev, uint32_t state, const struct side *next,
			 bool inferred)
{
	struct proto *proto = ftrace_open(sched, cpu, ts_ns, prev->tid);

	/* The kernel's own have none here: so the two can be told apart. */
	if (inferred)
		proto_uint(proto, FTRACE_COMMON_FLAGS, 0);
	proto_open(proto, FTRACE_SCHED_SWITCH);
	proto_text(proto, SWITCH_PREV_COMM, prev->comm);
	proto_sint(proto, SWITCH_PREV_PID, prev->tid);
	proto_sint(proto, SWITCH_PREV_PRIO, prev->prio);
	proto_uint(proto, SWITCH_PREV_STATE, state);
	proto_text(proto, SWITCH_NEXT_COMM, next->comm);
	proto_sint(proto, SWITCH_NEXT_PID, next->tid);
	proto_sint(proto, SWITCH_NEXT_PRIO, next->prio);
	proto_close(proto);
	ftrace_close(sched, cpu);
}

/*
 * The probes record the switches from and to the target's threads only, and of these not quite all, so
 * who leaves now may not be who came on last. The viewer needs an unbroken chain: a switch between the
 * two is put in, at the time since when the one that leaves has been on, where that is known. Else: an
 * idle CPU would have taken the thread that waited at its wake-up, so by then the other task was on;
 * or the earlier task keeps the time up to now. Its state is unknown, and drawn as sleeping. Over a
 * loss it ends at the loss.
 */
static void switch_bridge(struct perfetto_sched *sched, struct sched_cpu *cpu, uint64_t ts_ns,
			  const struct side *leaving, uint32_t ran_ns, int32_t coming_tid)
{
	const struct side before = {cpu->next_tid, cpu->next_prio, cpu->next_comm};
	const struct sched_task *coming = task_find(sched, coming_tid);
	uint32_t state = STATE_SLEEPING;
	uint64_t at_ns = ts_ns;

	if (cpu->loss_ns) {
		at_ns = cpu->loss_ns > cpu->last_ns ? cpu->loss_ns : cpu->last_ns;
		state = STATE_UNKNOWN;
	} else if (ran_ns) {
		at_ns = ts_ns - cpu->last_ns > ran_ns ? ts_ns - ran_ns : cpu->last_ns;
	} else if (!before.tid && coming && coming->waking_ns > cpu->last_ns) {
		at_ns = coming->waking_ns;
	}
	if (at_ns > ts_ns)
		at_ns = ts_ns;
	switch_write(sched, cpu, at_ns, &before, before.tid ? state : 0, leaving, true);
}

static void sched_switch(struct perfetto_sched *sched, const struct event *event)
{
	const struct probe_switch *record = event->sched_switch;
	char prev_comm[PROBE_COMM + 1], next_comm[PROBE_COMM + 1];
	const struct side prev = {record->prev_tid, record->prev_prio,
				  comm_clean(prev_comm, record->prev_comm)};
	const struct side next = {record->next_tid, record->next_prio,
				  comm_clean(next_comm, record->next_comm)};
	struct sched_cpu *cpu = cpu_find(sched, event->cpu);
	struct proto *proto;

	if (!cpu)
		return;
	if (!sched->target_tgid && record->flags & PROBE_PREV_TARGET)
		sched->target_tgid = record->prev_tgid;
	task_note(sched, event->ts_ns, prev.tid, record->prev_tgid, prev.comm, true);
	task_note(sched, event->ts_ns, next.tid, record->next_tgid, next.comm, true);
	if (cpu->known && cpu->next_tid != prev.tid)
		switch_bridge(sched, cpu, event->ts_ns, &prev, record->ran_ns, next.tid);
	switch_write(sched, cpu, event->ts_ns, &prev, record->prev_state, &next, false);
	if (record->prev_state & STATE_GONE && prev.tid > 0) {
		/* Only now is its number free: at its exit it still had this switch before it. */
		proto = ftrace_open(sched, cpu, event->ts_ns, prev.tid);
		proto_open(proto, FTRACE_SCHED_PROCESS_FREE);
		proto_text(proto, SCHED_PROCESS_COMM, prev.comm);
		proto_sint(proto, SCHED_PROCESS_PID, prev.tid);
		proto_close(proto);
		ftrace_close(sched, cpu);
		task_forget(sched, prev.tid);
	}
	cpu->known = true;
	cpu->loss_ns = 0;
	cpu->last_ns = event->ts_ns;
	cpu->next_tid = next.tid;
	cpu->next_prio = next.prio;
	memcpy(cpu->next_comm, next_comm, sizeof(cpu->next_comm));
}

static void sched_waking(struct perfetto_sched *sched, const struct event *event, uint32_t field)
{
	const struct probe_waking *record = event->waking;
	char comm[PROBE_COMM + 1], waker[PROBE_COMM + 1];
	struct sched_cpu *cpu = cpu_find(sched, event->cpu);
	struct sched_task *task = task_find(sched, record->tid);
	struct proto *proto;

	if (!cpu)
		return;
	task_note(sched, event->ts_ns, record->waker_tid, record->waker_tgid,
		  comm_clean(waker, record->waker_comm), true);
	if (task)
		task->waking_ns = event->ts_ns;
	proto = ftrace_open(sched, cpu, event->ts_ns, record->waker_tid);
	/* The idle task wakes nobody by itself: an interrupt did. */
	proto_uint(proto, FTRACE_COMMON_FLAGS,
		   FLAG_IRQS_OFF | (record->waker_tid ? 0 : FLAG_HARDIRQ));
	proto_open(proto, field);
	proto_text(proto, WAKING_COMM, comm_clean(comm, record->comm));
	proto_sint(proto, WAKING_PID, record->tid);
	proto_sint(proto, WAKING_PRIO, record->prio);
	proto_uint(proto, WAKING_SUCCESS, 1);
	proto_sint(proto, WAKING_TARGET_CPU, record->target_cpu);
	proto_close(proto);
	ftrace_close(sched, cpu);
}

static void sched_migrate(struct perfetto_sched *sched, const struct event *event)
{
	const struct probe_migrate *record = event->migrate;
	struct sched_cpu *cpu = cpu_find(sched, event->cpu);
	struct proto *proto;

	if (!cpu)
		return;
	proto = ftrace_open(sched, cpu, event->ts_ns, event->tid);
	proto_open(proto, FTRACE_SCHED_MIGRATE_TASK);
	proto_sint(proto, MIGRATE_PID, record->tid);
	proto_sint(proto, MIGRATE_PRIO, record->prio);
	proto_sint(proto, MIGRATE_ORIG_CPU, record->from_cpu);
	proto_sint(proto, MIGRATE_DEST_CPU, record->to_cpu);
	proto_close(proto);
	ftrace_close(sched, cpu);
}

static void sched_task_event(struct perfetto_sched *sched, const struct event *event)
{
	const struct probe_task *record = event->task;
	const uint32_t kind = event->kind - EVENT_KERNEL;
	char buffer[PROBE_COMM + 1];
	const char *comm = comm_clean(buffer, record->comm);
	struct sched_cpu *cpu = cpu_find(sched, event->cpu);
	struct proto *proto;

	if (!cpu)
		return;
	proto = ftrace_open(sched, cpu, event->ts_ns,
			    kind == PROBE_FORK ? record->parent_tid : record->tid);
	if (kind == PROBE_FORK) {
		proto_open(proto, FTRACE_TASK_NEWTASK);
		proto_sint(proto, NEWTASK_PID, record->tid);
		proto_text(proto, NEWTASK_COMM, comm);
		proto_uint(proto, NEWTASK_CLONE_FLAGS,
			   record->tid == record->tgid ? 0 : CLONE_THREAD_FLAG);
	} else if (kind == PROBE_EXEC) {
		proto_open(proto, FTRACE_TASK_RENAME);
		proto_sint(proto, RENAME_PID, record->tid);
		proto_text(proto, RENAME_NEWCOMM, comm);
	} else {
		proto_open(proto, FTRACE_SCHED_PROCESS_EXIT);
		proto_text(proto, SCHED_PROCESS_COMM, comm);
		proto_sint(proto, SCHED_PROCESS_PID, record->tid);
		proto_sint(proto, SCHED_PROCESS_TGID, record->tgid);
	}
	proto_close(proto);
	ftrace_close(sched, cpu);
	if (kind == PROBE_FORK)
		task_note(sched, event->ts_ns, record->tid, record->tgid, comm, false);
}

void perfetto_sched_begin(struct perfetto_sched *sched, struct packets *packets,
			  struct trace *trace)
{
	const json_t *target = json_object_get(trace_meta(trace), "target");
	json_int_t pid = json_integer_value(json_object_get(target, "pid"));
	const struct chunk_task *tasks;
	size_t count;

	memset(sched, 0, sizeof(*sched));
	sched->packets = packets;
	sched->boot_offset_ns = trace_boot_offset_ns(trace);
	sched->target_tgid = pid > 0 && pid <= INT32_MAX ? (int32_t)pid : 0;
	tasks = trace_tasks(trace, &count);
	for (size_t i = 0; i < count; i++) {
		char comm[sizeof(tasks[i].comm) + 1];

		sanitize_copy(comm, sizeof(comm), tasks[i].comm,
			      strnlen(tasks[i].comm, sizeof(tasks[i].comm)));
		task_note(sched, trace_start_ns(trace), tasks[i].tid, tasks[i].tgid, comm, true);
		if (!sched->target_tgid && tasks[i].tgid > 0)
			sched->target_tgid = tasks[i].tgid;
	}
}

void perfetto_sched_event(struct perfetto_sched *sched, const struct event *event)
{
	switch (event->kind) {
	case EVENT_KERNEL + PROBE_SWITCH:
		sched_switch(sched, event);
		break;
	case EVENT_KERNEL + PROBE_WAKING:
		sched_waking(sched, event, FTRACE_SCHED_WAKING);
		break;
	case EVENT_KERNEL + PROBE_WAKEUP_NEW:
		sched_waking(sched, event, FTRACE_SCHED_WAKEUP_NEW);
		break;
	case EVENT_KERNEL + PROBE_MIGRATE:
		sched_migrate(sched, event);
		break;
	case EVENT_KERNEL + PROBE_FORK:
	case EVENT_KERNEL + PROBE_EXIT:
	case EVENT_KERNEL + PROBE_EXEC:
		sched_task_event(sched, event);
		break;
	}
}

void perfetto_sched_loss(struct perfetto_sched *sched, const struct loss *loss)
{
	struct sched_cpu *cpu;

	if (!loss->kernel || loss->ring > INT32_MAX)
		return;
	cpu = cpu_find(sched, (int32_t)loss->ring);
	if (!cpu)
		return;
	cpu->lost = true;
	if (!cpu->loss_ns)
		cpu->loss_ns = loss->from_ns;
}

int perfetto_sched_end(struct perfetto_sched *sched)
{
	for (uint32_t i = 0; i < sched->cpu_count; i++)
		bundle_write(sched, i);
	return sched->error;
}

void perfetto_sched_free(struct perfetto_sched *sched)
{
	struct sched_task *task, *next;

	for (uint32_t i = 0; i < sched->cpu_count; i++)
		proto_free(&sched->cpus[i].events);
	free(sched->cpus);
	HASH_ITER (hh, sched->tasks, task, next) {
		HASH_DEL(sched->tasks, task);
		free(task);
	}
}
