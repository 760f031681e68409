/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_SAMPLES_H
#define BEAMWEAVE_SAMPLES_H

/* Counters of the host that stand beside the events: CPU quotas of cgroups, stolen time, our own cost. */

#include <jansson.h>
#include <stdint.h>
#include <sys/types.h>

#include "file.h"

#define SAMPLES_GROUPS 16

/* One group above the target that may have a CPU quota. */
struct samples_group {
	char *path; /* as /proc/PID/cgroup has it, or one above */
	char *folder; /* where its files are */
	bool v1;
	int64_t quota_us; /* -1: none */
	uint64_t period_us;
	uint64_t throttled, throttled_ns; /* since the group exists, at the last reading */
	uint64_t first_throttled, first_throttled_ns; /* at the first one */
};

struct samples {
	struct samples_group groups[SAMPLES_GROUPS];
	size_t count;
	uint64_t steal_ns, first_steal_ns;
	uint64_t cpu_ns, first_cpu_ns; /* our own */
	bool begun;
};

/* Find the groups of a process. */
void samples_open(struct samples *samples, pid_t pid);
void samples_close(struct samples *samples);
/* Read all of it. */
void samples_read(struct samples *samples);
/* Append one CHUNK_SAMPLE each with what was read. */
int samples_write(const struct samples *samples, struct file_writer *writer, uint64_t now_ns);
/* [{"path","quota_us","period_us","throttled","throttled_ns"}]: since the first reading. New. */
json_t *samples_groups_json(const struct samples *samples);

#endif
