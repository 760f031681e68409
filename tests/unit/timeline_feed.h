/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TESTS_TIMELINE_FEED_H
#define BEAMWEAVE_TESTS_TIMELINE_FEED_H

/* A timeline without a recording: events made by hand in, what it gives out kept in arrays. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "timeline.h"

#define FEED_MAX 4096

#define PID(n)	((uint64_t)(n) << 4 | 0x3)
#define PORT(n) ((uint64_t)(n) << 4 | 0x7)

struct feed {
	struct timeline *timeline;
	struct thread_interval threads[FEED_MAX];
	struct run_interval runs[FEED_MAX];
	struct call_interval calls[FEED_MAX];
	struct gc_interval gcs[FEED_MAX];
	struct message messages[FEED_MAX];
	struct stall stalls[FEED_MAX];
	struct socket_totals sockets[FEED_MAX];
	size_t thread_count, run_count, call_count, gc_count, message_count, stall_count,
		socket_count, event_count, instant_count, loss_count;
};

#define FEED_SINK(name, field, type)                                                               \
	static inline void feed_##name(void *context, const type *value)                           \
	{                                                                                          \
		struct feed *feed = context;                                                       \
                                                                                                   \
		feed->field##s[feed->field##_count++ % FEED_MAX] = *value;                         \
	}

FEED_SINK(thread, thread, struct thread_interval)
FEED_SINK(run, run, struct run_interval)
FEED_SINK(call, call, struct call_interval)
FEED_SINK(gc, gc, struct gc_interval)
FEED_SINK(message, message, struct message)
FEED_SINK(stall, stall, struct stall)
FEED_SINK(socket, socket, struct socket_totals)

static inline void feed_event(void *context, const struct event *event)
{
	(void)event;
	((struct feed *)context)->event_count++;
}

static inline void feed_instant(void *context, const struct instant *instant)
{
	(void)instant;
	((struct feed *)context)->instant_count++;
}

static inline void feed_loss(void *context, const struct loss *loss)
{
	(void)loss;
	((struct feed *)context)->loss_count++;
}

static inline struct feed *feed_new(uint64_t min_stall_ns)
{
	struct feed *feed = calloc(1, sizeof(*feed));
	struct timeline_sink sink = {
		.context = feed,
		.thread = feed_thread,
		.run = feed_run,
		.call = feed_call,
		.gc = feed_gc,
		.message = feed_message,
		.stall = feed_stall,
		.socket = feed_socket,
		.event = feed_event,
		.instant = feed_instant,
		.loss = feed_loss,
	};

	assert_non_null(feed);
	feed->timeline = timeline_new(NULL, &sink, min_stall_ns);
	assert_non_null(feed->timeline);
	return feed;
}

static inline void feed_free(struct feed *feed)
{
	timeline_free(feed->timeline);
	free(feed);
}

static inline void feed_give(struct feed *feed, const struct event *event)
{
	assert_int_equal(timeline_feed(feed->timeline, event), 0);
}

/* An event of the VM: thread n writes ring n and has tid 100 + n; dirty ones are 10 and up. */
static inline struct event feed_vm(uint64_t ts_ns, uint32_t kind, uint32_t ring, uint64_t process,
				   const void *record)
{
	return (struct event){
		.ts_ns = ts_ns,
		.kind = kind,
		.cpu = -1,
		.tid = 100 + (int32_t)ring,
		.ring = ring,
		.process = process,
		.flags = ring >= 10 ? RING_F_DIRTY : 0,
		.raw = record,
	};
}

static inline void feed_kernel(struct feed *feed, uint64_t ts_ns, uint32_t kind, int32_t cpu,
			       const void *record)
{
	struct event event = {
		.ts_ns = ts_ns,
		.kind = EVENT_KERNEL + kind,
		.cpu = cpu,
		.ring = (uint32_t)cpu,
		.raw = record,
	};

	feed_give(feed, &event);
}

/* in, out and their like. */
static inline void feed_running(struct feed *feed, uint64_t ts_ns, uint32_t kind, uint32_t ring,
				uint64_t process)
{
	struct ring_run record = {.mfa = 7, .scheduler = ring >= 10 ? 0 : ring};
	struct event event = feed_vm(ts_ns, kind, ring, process, &record);

	feed_give(feed, &event);
}

/* The thread that leaves a CPU and the one that comes; those from 100 on are the target's. */
static inline void feed_switch(struct feed *feed, uint64_t ts_ns, int32_t cpu, int32_t prev,
			       uint32_t prev_state, int32_t next)
{
	struct probe_switch record = {
		.prev_tid = prev,
		.next_tid = next,
		.prev_tgid = prev >= 100 ? 100 : prev,
		.next_tgid = next >= 100 ? 100 : next,
		.prev_state = prev_state,
		.flags = (prev >= 100 ? PROBE_PREV_TARGET : 0) |
			 (next >= 100 ? PROBE_NEXT_TARGET : 0),
		.syscall = -1,
	};

	snprintf(record.prev_comm, sizeof(record.prev_comm), "%d_scheduler", prev - 100);
	snprintf(record.next_comm, sizeof(record.next_comm), "%d_scheduler", next - 100);
	if (prev < 100)
		snprintf(record.prev_comm, sizeof(record.prev_comm), "task%d", prev);
	if (next < 100)
		snprintf(record.next_comm, sizeof(record.next_comm), "task%d", next);
	feed_kernel(feed, ts_ns, PROBE_SWITCH, cpu, &record);
}

static inline void feed_waking(struct feed *feed, uint64_t ts_ns, int32_t tid, int32_t waker)
{
	struct probe_waking record = {.tid = tid, .waker_tid = waker, .waker_comm = "waker"};

	snprintf(record.comm, sizeof(record.comm), "%d_scheduler", tid - 100);
	feed_kernel(feed, ts_ns, PROBE_WAKING, 0, &record);
}

#endif
