/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_PERFETTO_FINDING_H
#define BEAMWEAVE_PERFETTO_FINDING_H

/* Stalls by scheduler thread, and the times over which events were lost, by ring. */

#include "perfetto_erlang.h"

/* One of the tracks that stalls or losses of one thread or ring share when they overlap. */
struct finding_lane;

struct perfetto_finding {
	struct perfetto_erlang *erlang;
	struct finding_lane *lanes; /* by the key of their track */
	bool stalls, losses; /* the groups are described */
	uint64_t lost; /* events */
	int error;
};

void perfetto_finding_begin(struct perfetto_finding *finding, struct perfetto_erlang *erlang);
void perfetto_finding_free(struct perfetto_finding *finding);
void perfetto_finding_stall(struct perfetto_finding *finding, const struct stall *stall);
void perfetto_finding_loss(struct perfetto_finding *finding, const struct loss *loss);

#endif
