/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_LIVE_H
#define BEAMWEAVE_LIVE_H

/* Events as lines while they happen: calls with their arguments, and what they returned after how long. */

#include "sink.h"
#include "trace.h"

enum live_format {
	LIVE_TEXT = 0,
	LIVE_COLOUR = 1,
	LIVE_JSON = 2, /* as export's JSON lines, with duration_ns at a call's end */
};

struct live;

/* NULL with ENOMEM. Both are borrowed. */
struct live *live_new(struct trace *trace, struct sink *sink, enum live_format format);
void live_free(struct live *live);
/* A process has ended: its calls never return. */
void live_forget(struct live *live, uint64_t process);
/* Put an event's line into the sink. False: it has none, and does not count. */
bool live_event(struct live *live, const struct event *event);

#endif
