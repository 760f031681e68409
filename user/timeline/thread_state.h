/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_THREAD_STATE_H
#define BEAMWEAVE_THREAD_STATE_H

/* Between thread.c, which keeps the intervals, and thread_events.c, which reads the events. */

#include "thread.h"

/* A time inside the recording. */
uint64_t threads_clamp(const struct threads *threads, uint64_t ts_ns);
/* Close the current interval at `ts_ns`; what began it stays in `now`. */
void thread_cut(struct threads *threads, struct thread *thread, uint64_t ts_ns);
/* Nothing is known of how the current interval began. */
void thread_forget(struct thread_interval *now);
/* Begin a state: unknown, where the records of a CPU on which it may be are missing. */
void thread_enter(struct threads *threads, struct thread *thread, uint64_t ts_ns,
		  enum thread_state state, int32_t cpu);
/* A thread that has become runnable waits for a CPU. Returns 0 or -ENOMEM. */
int thread_wait(struct threads *threads, struct thread *thread, uint64_t ts_ns, int32_t cpu);
/* An event says that the thread was in `was` up to now: so it was since the end of the loss. */
void thread_recover(struct threads *threads, struct thread *thread, uint64_t ts_ns,
		    enum thread_state was, int32_t cpu);
/* It is over, as it seems. */
void thread_gone(struct threads *threads, struct thread *thread, uint64_t ts_ns);
/* But here it is again: an exiting thread may be preempted when it is a zombie already. */
void thread_back(struct thread *thread);

#endif
