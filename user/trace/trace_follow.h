/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TRACE_FOLLOW_H
#define BEAMWEAVE_TRACE_FOLLOW_H

/*
 * A recording that is still being written, read along: the events of the VM in time order, each as
 * soon as none can come before it. That is told by the marks in the file (CLOCK_MARK). What was read
 * is given back to the system, so that neither the file nor we grow with time.
 */

#include "trace.h"

/* A record is written this long after its time was taken, at most; later ones come out of order. */
#define FOLLOW_GRACE_NS 10000000ull

struct trace_follow;

/* `fd` is an unnamed file of ours that only grows; it stays the caller's. NULL with errno. */
struct trace_follow *trace_follow_open(int fd);
void trace_follow_close(struct trace_follow *follow);

/* Take in what was appended. `last`: nothing comes any more, all is complete. 0 or -errno. */
int trace_follow_read(struct trace_follow *follow, bool last);
/* The next complete event, valid until the next call; of kernel events only losses. 1 or 0. */
int trace_follow_next(struct trace_follow *follow, struct event *event);

/* Has it a complete event? */
bool trace_follow_ready(const struct trace_follow *follow);

/* For names and times of these events. Borrowed; trace_next() is not for it. */
struct trace *trace_follow_trace(struct trace_follow *follow);

#endif
