/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_FANOUT_H
#define BEAMWEAVE_FANOUT_H

/* One timeline, several listeners. */

#include "timeline.h"

#define FANOUT_MAX 12

struct fanout {
	struct timeline_sink sinks[FANOUT_MAX];
	size_t count;
};

/* Room for one more listener, to be filled in; NULL when there is none. */
struct timeline_sink *fanout_add(struct fanout *fanout);
/* The sink that passes everything on to the listeners, in the order in which they were added. */
struct timeline_sink fanout_sink(struct fanout *fanout);

#endif
