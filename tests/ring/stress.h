/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_STRESS_H
#define BEAMWEAVE_STRESS_H

/* Between the parts of the ring's stress test: stress.c runs it, stress_check.c judges it. */

#include "ring.h"

#define STRESS_THREADS	 16
#define STRESS_LOG_MAX	 (1u << 20)
#define STRESS_BYTES_MAX 56u

/* What follows from a record's number. */
static inline enum ring_kind stress_kind(uint64_t n)
{
	static const enum ring_kind kinds[] = {RING_CALL, RING_RETURN_TO, RING_SEND, RING_IN,
					       RING_OUT};

	return kinds[n * 7 % 11 % 5];
}

/* Now and then a step that 32 bits of nanoseconds do not hold. */
static inline uint64_t stress_time(uint64_t n)
{
	return 1000000 + n * 100 + n / 30000 * 5000000000ull;
}

static inline uint32_t stress_bytes(uint64_t n)
{
	return 24 + 8 * (uint32_t)(n % 5);
}

struct stress_variant {
	const char *name;
	enum ring_mode mode;
	uint64_t pool_bytes;
	uint64_t burst, pause_us; /* writers pause after so many records */
	uint64_t slow_us; /* the reader takes so long for a fragment */
	unsigned int fail_every; /* the reader's callback fails so often */
	unsigned int kill_us; /* readers live at most so long */
	unsigned int handover_us; /* a successor comes so often */
	unsigned int crash_us; /* the writers' process lives so long */
	int lossless; /* the pool holds all that is written: nothing may be discarded */
	int reader_thread;
};

struct stress_writer {
	uint64_t recorded[RING_KINDS], discarded[RING_KINDS];
	int done;
};

struct stress_log {
	uint32_t thread, from, bytes;
	uint64_t sequence, base_ns, data;
};

/* Survives the readers that are killed. */
struct stress_shared {
	struct stress_writer writers[STRESS_THREADS];
	_Atomic int ended;
	_Atomic uint64_t log_used, log_count;
	uint64_t fn_calls, data_bytes;
	struct stress_log *log;
	uint8_t *data;
};

/* Returns 0 when every record arrived once and in order, or was counted; 1 and messages if not. */
int stress_check(const struct ring *ring, struct stress_shared *shared,
		 const struct stress_variant *variant, uint32_t threads, uint64_t records);

#endif
