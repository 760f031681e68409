/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TIMELINE_H
#define BEAMWEAVE_TIMELINE_H

/*
 * The timeline: events in, intervals out. Streaming: an interval is given to the sink when it has
 * ended (or at the end of the recording, `open`), so memory grows with what is alive. Intervals of
 * one thread or process come in order of their ends; of nested calls the inner one first.
 *
 * Views get all that they show from here: they either keep what they aggregate or write it out.
 */

#include "trace.h"

enum thread_state {
	THREAD_RUNNING = 0,
	THREAD_RUNNABLE = 1, /* wants a CPU and has none: woken, preempted or throttled */
	THREAD_SLEEPING = 2, /* interruptible wait */
	THREAD_BLOCKED = 3, /* uninterruptible wait */
	THREAD_STOPPED = 4, /* SIGSTOP, debugger */
	THREAD_UNKNOWN = 5, /* before the first event of it, or over a loss */
};
#define THREAD_STATES 6

struct thread_interval {
	int32_t tid;
	enum thread_state state;
	uint64_t start_ns, end_ns;
	int32_t cpu; /* running: where; otherwise where it left */
	bool open; /* cut by the end of the recording */
	/* of the switch-out that began it, for states other than running */
	bool preempted; /* it was runnable when it was taken off */
	bool throttled, throttle_known;
	int32_t syscall; /* -1 none, -2 unknown */
	uint64_t syscall_arg;
	int32_t by_tid, by_tgid; /* the task that came on instead; 0: idle */
	char by_comm[16];
	bool process_known;
	uint64_t process; /* Erlang process that it was executing; 0 none */
	/* sleeping, blocked -> runnable: who woke it */
	int32_t waker_tid;
	char waker_comm[16];
	/* runnable -> running on the same CPU: the task that left it then; 0: idle, unknown */
	int32_t last_tid, last_tgid;
	char last_comm[16];
	/*
	 * runnable, `most_known`: of the tasks that had the CPU for which it waited, the one that had it
	 * the longest, as it was called last. 0: the CPU was idle for longer.
	 */
	bool most_known;
	int32_t most_tid, most_tgid;
	char most_comm[16];
	uint64_t most_ns, idle_ns;
	uint32_t most_count; /* how many different tasks had it */
};

/* One stretch of a process (or port) on a scheduler, from in to out. */
struct run_interval {
	uint64_t process;
	int32_t tid;
	uint32_t scheduler; /* 0 dirty */
	bool dirty;
	uint64_t start_ns, end_ns;
	uint32_t mfa_in, mfa_out;
	bool exiting, open;
};

enum call_end {
	CALL_RETURNED = 0, /* a return_to or return_from names the end */
	CALL_TAIL = 1, /* replaced by a tail call: that is its end on the stack */
	CALL_EXCEPTION = 2, /* exception_from */
	CALL_UNSEEN = 3, /* found ended when a later event came from further up: an upper bound */
	CALL_EXITED = 4, /* its process exited */
	CALL_OPEN = 5, /* the recording ended first */
	CALL_LOST = 6, /* a loss interval of its process's rings came between */
};

/* "returned", "tail call", ...: for people. */
const char *call_end_text(enum call_end how);

struct call_interval {
	uint64_t id; /* from 1 */
	uint64_t parent; /* id of the traced call that it is nested in, 0 none */
	uint64_t process;
	uint32_t mfa;
	uint32_t caller; /* mfa of the parent, RING_NO_INDEX none */
	uint32_t level; /* nesting, 0 outermost */
	uint64_t start_ns, end_ns;
	enum call_end how;
	bool certain;
	uint64_t gc_ns; /* of it spent in GC */
	struct text arguments, result; /* captures; bytes 0 without */
};

struct gc_interval {
	uint64_t process;
	int32_t tid;
	bool major, dirty, open, failed; /* failed: no end was seen (max_heap_size) */
	uint64_t start_ns, end_ns;
	struct ring_gc before, after; /* after is zero when open or failed */
	uint64_t reclaimed_words;
};

struct message {
	uint64_t from, to; /* words; from 0: the send was not seen */
	uint32_t to_name; /* registered name sent to, 0 */
	uint64_t sent_ns; /* 0 when not seen */
	uint64_t fetched_ns; /* `receive`: moved into the private queue; 0 when not seen */
	uint64_t ran_ns; /* the receiver's first `in` after sent_ns, sent_ns when it ran then; 0 not seen */
	int32_t sent_tid, fetched_tid;
	struct ring_shape shape;
	bool noproc;
	struct text content;
};

/* A moment that is no interval. */
struct instant {
	struct event event; /* spawn, exit, link, register, retransmit, ... */
};

struct socket_totals {
	uint64_t sock; /* kernel identity */
	uint16_t family, protocol, local_port, remote_port;
	uint8_t local[16], remote[16];
	uint64_t erlang_port, owner; /* words, 0 unknown */
	uint8_t state; /* TCP_* */
	uint64_t sent_bytes, received_bytes, sends, receives, retransmits, resets, errors;
	uint64_t opened_ns, closed_ns; /* 0: before, after the recording */
	uint64_t accept_wait_ns; /* listener: longest time from a connection's arrival to its accept */
};

enum stall_cause {
	STALL_PREEMPTED = 0,
	STALL_THROTTLED = 1,
	STALL_STOPPED = 2,
	STALL_SYSCALL = 3,
	STALL_LOCK = 4, /* futex wait by a thread that holds work */
	STALL_BLOCKED = 5, /* uninterruptible: page fault, memory, disk */
	STALL_GC = 6,
	STALL_LONG_RUN = 7,
	STALL_UNKNOWN = 8,
};
#define STALL_CAUSES 9
const char *stall_cause_name(enum stall_cause cause);

/* A scheduler thread that had work did not get on with it. Those of one thread do not overlap. */
struct stall {
	int32_t tid;
	uint32_t role, number;
	uint64_t start_ns, end_ns;
	enum stall_cause cause;
	uint64_t process; /* whose work it was; 0 unknown */
	uint32_t mfa; /* RING_NO_INDEX unknown */
	int32_t by_tid, by_tgid;
	char by_comm[16];
	int32_t syscall;
	uint64_t syscall_arg;
	bool certain;
	const char *evidence; /* constant text */
	/* preempted: for how long of it that task had the CPU, and how many had it; 0 unknown */
	uint64_t by_ns;
	uint32_t by_count;
	/* how its duration is made up, by cause: it is called after the largest part */
	uint64_t part_ns[STALL_CAUSES];
};

struct queue_sample {
	uint64_t process;
	uint64_t ts_ns;
	uint64_t length; /* messages sent and not fetched, as far as seen */
};

/* Callbacks may be NULL. What they point to lives during the call. */
struct timeline_sink {
	void *context;
	void (*thread)(void *context, const struct thread_interval *interval);
	void (*run)(void *context, const struct run_interval *interval);
	void (*call)(void *context, const struct call_interval *interval);
	void (*gc)(void *context, const struct gc_interval *interval);
	void (*message)(void *context, const struct message *message);
	void (*instant)(void *context, const struct instant *instant);
	void (*stall)(void *context, const struct stall *stall);
	void (*loss)(void *context, const struct loss *loss);
	void (*socket)(void *context, const struct socket_totals *totals); /* at the end */
	void (*event)(void *context, const struct event *event); /* each one, first of all */
	void (*queue)(void *context, const struct queue_sample *sample); /* at each change */
};

/* A process's account, as known at the end. */
struct process_totals {
	uint64_t process;
	uint64_t running_ns, runnable_ns, waiting_ns, gc_ns;
	uint64_t calls, sends, receives;
	uint64_t first_ns, last_ns;
	uint64_t parent; /* word, 0 unknown */
	uint32_t initial; /* mfa of its spawn, RING_NO_INDEX unknown */
	uint64_t exited_ns; /* 0: alive */
	uint64_t queue_start, queue_end, queue_max;
};

struct thread_totals {
	int32_t tid;
	uint32_t role, number;
	char comm[16];
	uint64_t state_ns[THREAD_STATES];
	uint64_t working_ns, spinning_ns; /* of running, where the VM side shows it */
	uint64_t switches, preemptions, migrations;
	bool exited;
};

struct timeline;

/* Stalls shorter than min_stall_ns are not made. NULL with errno ENOMEM. */
struct timeline *timeline_new(struct trace *trace, const struct timeline_sink *sink,
			      uint64_t min_stall_ns);
void timeline_free(struct timeline *timeline);
/* Read the whole trace through. Returns 0 or -errno. */
int timeline_run(struct timeline *timeline);
/* Or event by event, and then the end. */
int timeline_feed(struct timeline *timeline, const struct event *event);
int timeline_finish(struct timeline *timeline);

/* After the end. Arrays sorted by id; owned by the timeline. */
size_t timeline_processes(const struct timeline *timeline, const struct process_totals **totals);
size_t timeline_threads(const struct timeline *timeline, const struct thread_totals **totals);

#endif
