/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a 24-byte record costs in the ring, beyond the clock read that it needs: rounds of both kinds
 * in turn, the median of each, and their difference and ratio. A reader drains between the rounds,
 * not beside them, so that the figure is the writer's own.
 *
 * Usage: ring_bench [ROUNDS]. Exit 0; the figures are for whoever asked.
 */

#include "ring.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define RECORDS	   100000u
#define ROUNDS_MAX 1000u
#define GOAL_NS	   20.0

enum measure { CLOCK, RECORD, RECORD_CHECKED, RECORD_OVERWRITE, MFA, MEASURES };

static const char *const names[MEASURES] = {
	[CLOCK] = "clock read alone",
	[RECORD] = "clock read + record",
	[RECORD_CHECKED] = "clock read + ring_running() + record",
	[RECORD_OVERWRITE] = "clock read + record, overwriting",
	[MFA] = "clock read + MFA index + record",
};

static double rounds_ns[MEASURES][ROUNDS_MAX];
static uint64_t passed_bytes;

static uint64_t now_read(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int fragment_drop(void *context, const struct ring_fragment *fragment)
{
	(void)context;
	passed_bytes += fragment->bytes;
	return 0;
}

static int session_new(struct ring *ring, enum ring_mode mode)
{
	struct ring_config config = {.mode = mode};
	uint64_t bytes = ring_file_bytes(&config);
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (map == MAP_FAILED || ring_create(ring, map, bytes, &config, now_read()))
		return -1;
	atomic_store(&ring->control->lease_until_ns, UINT64_MAX);
	return 0;
}

static inline void record_write(struct ring_writer *writer, uint64_t now_ns, uint32_t mfa)
{
	struct ring_return_to *record =
		ring_reserve(writer, now_ns, RING_RETURN_TO, sizeof(*record), now_ns);

	if (!record)
		return;
	record->mfa = mfa;
	record->depth = 7;
	ring_commit(writer, &record->h);
}

static double round_run(enum measure measure, struct ring_writer *writer)
{
	volatile uint64_t sink = 0;
	uint64_t start_ns = now_read();

	for (uint32_t i = 0; i < RECORDS; i++) {
		uint64_t now_ns = now_read();
		uint32_t mfa = i;
		int is_new;

		if (measure == CLOCK) {
			sink = now_ns;
			continue;
		}
		if (measure == RECORD_CHECKED && !ring_running(writer->ring, now_ns))
			continue;
		if (measure == MFA)
			mfa = ring_mfa_index(writer->ring, 1 + i % 64, 2, 3, &is_new);
		record_write(writer, now_ns, mfa);
	}
	(void)sink;
	return (double)(now_read() - start_ns) / RECORDS;
}

static int by_value(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

int main(int argc, char **argv)
{
	uint32_t rounds = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 100;
	struct ring_writer writer, overwriter;
	struct ring ring, overwritten;
	struct ring_reader *reader;
	double clock_ns;

	if (!rounds || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: ring_bench [ROUNDS]\n");
		return 2;
	}
	if (session_new(&ring, RING_DISCARD) || session_new(&overwritten, RING_OVERWRITE) ||
	    ring_writer_claim(&writer, &ring, 1, RING_ROLE_NORMAL, 1, 0) ||
	    ring_writer_claim(&overwriter, &overwritten, 1, RING_ROLE_NORMAL, 1, 0))
		return 1;
	reader = ring_reader_new(&ring, (uint32_t)getpid(), now_read());
	if (!reader)
		return 1;

	for (uint32_t round = 0; round < rounds; round++) {
		for (int measure = 0; measure < MEASURES; measure++) {
			rounds_ns[measure][round] = round_run(
				measure, measure == RECORD_OVERWRITE ? &overwriter : &writer);
			while (ring_drain(reader, UINT64_MAX, fragment_drop, NULL) > 0)
				;
		}
	}
	for (int measure = 0; measure < MEASURES; measure++)
		qsort(rounds_ns[measure], rounds, sizeof(double), by_value);
	clock_ns = rounds_ns[CLOCK][rounds / 2];
	printf("%-38s %8s %8s %8s\n", "median of rounds", "ns", "-clock", "/clock");
	for (int measure = 0; measure < MEASURES; measure++) {
		double ns = rounds_ns[measure][rounds / 2];

		printf("%-38s %8.2f %8.2f %8.2f\n", names[measure], ns, ns - clock_ns,
		       ns / clock_ns);
	}
	printf("goal: a record in at most the clock read + %.0f ns: %s\n", GOAL_NS,
	       rounds_ns[RECORD][rounds / 2] - clock_ns <= GOAL_NS ? "met" : "missed");
	printf("discarded %" PRIu64 ", read %" PRIu64 " MB\n",
	       (uint64_t)ring.threads[0].discarded[RING_RETURN_TO], passed_bytes >> 20);
	ring_reader_free(reader);
	munmap(ring.map, ring.bytes);
	munmap(overwritten.map, overwritten.bytes);
	return 0;
}
