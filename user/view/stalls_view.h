/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_STALLS_VIEW_H
#define BEAMWEAVE_STALLS_VIEW_H

/* What the stalls section collects (stalls.c) and shows (stalls_view.c). */

#include "stalls.h"

struct stalls {
	struct report *report;
	int64_t vm_pid, recorder_pid; /* -1 unknown */
	struct stall_group *table;
	struct stall *longest; /* a heap, the shortest on top */
	size_t count, room, all;
};

/* Its duration, 0 when it ends before it starts. */
uint64_t stall_ns(const struct stall *stall);
/* The culprit of a stall: a task, a system call or a process; "" unknown. */
void stall_by(struct stalls *stalls, const struct stall *stall, char by[static STALL_BY]);
/* Whose thread took the CPU? */
enum stall_owner stall_owner(const struct stalls *stalls, const struct stall *stall);
/* Bring the longest ones into order. */
void stalls_sort(struct stalls *stalls);

json_t *stalls_json(void *state);
int stalls_text(void *state, FILE *out);

#endif
