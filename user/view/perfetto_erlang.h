/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_PERFETTO_ERLANG_H
#define BEAMWEAVE_PERFETTO_ERLANG_H

/*
 * What the VM did, as tracks.
 *
 * A process has a track with its stretches on schedulers (named by the scheduler) and on them, as instants, what it sent, fetched, spawned. Calls
 * do not nest in these stretches: a call may last over many of them. So they stand on a track of their
 * own below, with the garbage collections, which do nest in calls: a process that is collected makes
 * no call. A counter shows how many messages wait. A scheduler's thread shows the same stretches, named by the process.
 *
 * A call's BEGIN is written when it is called and its END when the timeline knows how it ended, so that
 * of calls that begin in one nanosecond the outer one comes first; every other interval is written
 * whole at its end.
 */

#include "perfetto_packet.h"
#include "perfetto_sched.h"
#include "timeline.h"

struct erlang_process;
struct erlang_thread;

/* A call whose BEGIN waits until everything that ended at the same moment is written. */
struct erlang_pending {
	uint64_t process, ts_ns;
	uint32_t mfa;
	bool is;
};

struct perfetto_erlang {
	struct packets *packets;
	struct trace *trace;
	struct perfetto_sched *sched; /* tells a thread's process */
	struct erlang_process *processes; /* by word */
	struct erlang_thread *threads; /* by tid */
	struct erlang_pending pending;
	uint64_t flows; /* ids used */
	bool ports; /* their group is described */
	int error;
};

void perfetto_erlang_begin(struct perfetto_erlang *erlang, struct packets *packets,
			   struct trace *trace, struct perfetto_sched *sched);
void perfetto_erlang_free(struct perfetto_erlang *erlang);
/* Before the timeline is fed with the event. */
void perfetto_erlang_event(struct perfetto_erlang *erlang, const struct event *event);
/* Before the timeline is told of the end. */
void perfetto_erlang_flush(struct perfetto_erlang *erlang);
/* After it: end what is still open at `end_ns`. Returns 0 or the first error. */
int perfetto_erlang_end(struct perfetto_erlang *erlang, uint64_t end_ns);

void perfetto_erlang_run(struct perfetto_erlang *erlang, const struct run_interval *run);
void perfetto_erlang_call(struct perfetto_erlang *erlang, const struct call_interval *call);
void perfetto_erlang_gc(struct perfetto_erlang *erlang, const struct gc_interval *gc);
void perfetto_erlang_message(struct perfetto_erlang *erlang, const struct message *message);
void perfetto_erlang_queue(struct perfetto_erlang *erlang, const struct queue_sample *sample);
void perfetto_erlang_instant(struct perfetto_erlang *erlang, const struct instant *instant);

/* The uuid of a thread's, a process's or a port's track, described when it is new; 0: no memory. */
uint64_t perfetto_erlang_track(struct perfetto_erlang *erlang, uint64_t word, uint64_t ts_ns);
uint64_t perfetto_erlang_mailbox(struct perfetto_erlang *erlang, uint64_t word, uint64_t ts_ns);
uint64_t perfetto_erlang_thread(struct perfetto_erlang *erlang, int32_t tid);
/* The process has a new name: its track is called by the newest. */
void perfetto_erlang_rename(struct perfetto_erlang *erlang, uint64_t word, uint64_t ts_ns);

/* Annotations of the event that is open; without an MFA or a term none. */
void perfetto_note_process(struct perfetto_erlang *erlang, const char *key, uint64_t word,
			   uint64_t ts_ns);
void perfetto_note_mfa(struct perfetto_erlang *erlang, const char *key, uint32_t mfa);
void perfetto_note_term(struct perfetto_erlang *erlang, const char *key, struct text etf);
void perfetto_note_arguments(struct perfetto_erlang *erlang, struct text etf);

/* "scheduler 1", "dirty IO scheduler 2", "thread 1234" into `buffer`; returns it. */
const char *perfetto_thread_label(char *buffer, size_t size, uint32_t role, uint32_t number,
				  int32_t tid);
/* "<0.123.0> name" into `buffer`; returns it. */
const char *perfetto_process_label(struct trace *trace, uint64_t word, uint64_t ts_ns, char *buffer,
				   size_t size);

#endif
