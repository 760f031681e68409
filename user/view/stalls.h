/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_STALLS_H
#define BEAMWEAVE_STALLS_H

/* Stalls grouped by cause and culprit. */

#include "section.h"

/* Stalls of one group that overlap: one stop of the VM stalls all its schedulers in one burst. */
struct stall_burst {
	uint64_t start_ns, end_ns;
	uint32_t stalls;
	uint32_t threads; /* different ones, as far as 64 tell */
	uint64_t thread_bits;
};

#define STALL_BY 96

/* Whose thread took the CPU. */
enum stall_owner {
	STALL_OWNER_OTHER = 0,
	STALL_OWNER_VM = 1, /* another thread of the VM */
	STALL_OWNER_RECORDER = 2, /* the recording itself */
};

struct stall_group {
	enum stall_cause cause;
	uint32_t owner; /* enum stall_owner */
	char by[STALL_BY]; /* the culprit: a task, a system call, a process; "" unknown */
	int32_t by_tgid; /* preempted: the task's process, of the first stall */
	uint64_t process; /* whose work the longest one held up */
	uint32_t mfa;
	struct quantile durations;
	uint64_t first_ns, longest_ns; /* when the first and the longest began */
	uint64_t by_ns; /* preempted: how long the culprit had the CPU, all of it where not known */
	struct stall_burst *bursts;
	size_t burst_count, burst_room;
	uint64_t burst_more; /* stalls in bursts for which there was no room */
	bool by_many; /* by several processes of that name */
	bool certain;
	UT_hash_handle hh;
};

/* The groups, most lost time first; owned by the section. */
size_t stalls_groups(void *state, struct stall_group ***groups);
/* A short name of a thread: "scheduler 1", "dirty CPU 2". */
char *stalls_thread(char buffer[static 64], uint32_t role, uint32_t number, int32_t tid);
/* "normal", "dirty_cpu", "dirty_io", "other" */
const char *stalls_role(uint32_t role);
/* Had others than the culprit a part worth a word of these `duration_ns`? */
bool stalls_shared(uint64_t by_ns, uint64_t duration_ns);
/* "preempted mostly by hog", "stopped (SIGSTOP)": a cause with its culprit, for people. */
void stalls_cause(char *buffer, size_t size, enum stall_cause cause, enum stall_owner owner,
		  bool shared, const char *by);

#endif
