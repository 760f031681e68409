/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_GCS_H
#define BEAMWEAVE_GCS_H

/* Garbage collections by process. */

#include "section.h"

struct gc_row {
	uint64_t process;
	uint64_t minor, major, failed;
	uint64_t total_ns, max_ns;
	uint64_t reclaimed_words;
	uint64_t on_cpu_ns; /* of those for which it is known */
	uint64_t on_cpu_unknown; /* of how many it is not known */
	uint64_t last_ns; /* when the last one ended: for its name */
	/* of the longest one */
	uint64_t max_at_ns, live_words;
	uint64_t max_on_cpu_ns; /* UINT64_MAX: not known */
	bool max_major, max_dirty, max_open;
	/* those that cost at least min_ns: on a CPU where that is known, else altogether */
	uint64_t long_count, long_ns, long_first_ns;
	UT_hash_handle hh;
};

/* The processes, most time in GC first; owned by the section. */
size_t gcs_rows(void *state, struct gc_row ***rows);

#endif
