/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RECORD_VIEW_H
#define BEAMWEAVE_RECORD_VIEW_H

/* What `beamweave record` tells while it works. All of it goes to standard error. */

#include "recorder.h"

struct record_view {
	const struct capture_config *config;
	bool terminal; /* a progress line may be drawn */
	bool drawn; /* and is */
	uint64_t events, events_ns; /* at the last line, for a rate */
};

void record_view_open(struct record_view *view, const struct capture_config *config);
/* The callbacks for recorder_run(). */
struct recorder_view record_view_callbacks(struct record_view *view);

/* "VERB shop@host (pid 7): calls of 3 functions; ends after 15 s or with Ctrl-C" */
void record_words_print(const struct recorder *recorder, const char *verb, uint64_t max_events);
/* "beamweave: WHY" and, when there is one, the way out on a line of its own. */
void record_fault_print(const struct fault *fault);

#endif
