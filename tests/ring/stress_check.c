/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what a run of the ring's stress test stored. */

#include "stress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One thread's story, told by what arrived of it. */
struct story {
	uint64_t sequence; /* of the sub-buffer that is being read */
	uint32_t covered; /* bytes of it that were read */
	uint64_t last; /* number of the last record */
	uint64_t arrived[RING_KINDS];
	uint64_t missing[RING_KINDS]; /* numbers passed over, by the kind that they have */
	uint64_t missing_first, missing_last; /* since the sub-buffer was begun; 0 none */
	uint64_t base_ns;
	uint64_t again; /* bytes that came twice */
	struct ring_subbuf header;
	int header_due; /* it is judged when the first record is there */
};

static int failures;

#define CHECK(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition) && failures++ < 20) {                                             \
			fprintf(stderr, "stress_check.c:%d: %s: ", __LINE__, #condition);          \
			fprintf(stderr, __VA_ARGS__);                                              \
			fputc('\n', stderr);                                                       \
		}                                                                                  \
	} while (0)

static uint64_t sum(const uint64_t *counts)
{
	uint64_t total = 0;

	for (int kind = 0; kind < RING_KINDS; kind++)
		total += counts[kind];
	return total;
}

/* The numbers between two records did not arrive. */
static void numbers_miss(struct story *story, uint64_t first, uint64_t end)
{
	for (uint64_t n = first; n < end; n++) {
		story->missing[stress_kind(n)]++;
		if (!story->missing_first)
			story->missing_first = n;
		story->missing_last = n;
	}
}

static void record_check(struct story *story, uint32_t thread, const struct ring_record *record)
{
	const uint64_t *body = (const uint64_t *)(record + 1);
	uint64_t n = record->process;

	CHECK(n > story->last, "thread %u: record %" PRIu64 " after %" PRIu64, thread, n,
	      story->last);
	CHECK(record->bytes == stress_bytes(n), "record %" PRIu64 ": %u bytes", n, record->bytes);
	CHECK(record->kind == stress_kind(n), "record %" PRIu64 ": kind %u", n, record->kind);
	CHECK(story->base_ns + record->delta_ns == stress_time(n), "record %" PRIu64 ": time", n);
	for (uint32_t i = 0; i < (record->bytes - sizeof(*record)) / 8; i++)
		CHECK(body[i] == n * (i + 1), "record %" PRIu64 ": content", n);
	numbers_miss(story, story->last + 1, n);
	story->last = n;
	story->arrived[record->kind]++;
}

/* What a sub-buffer's header must say of the time before it, when nothing is overwritten. */
static void header_check(struct story *story, uint32_t thread, uint64_t first)
{
	const struct ring_subbuf *header = &story->header;

	numbers_miss(story, story->last + 1, first);
	story->last = first - 1;
	for (int kind = 0; kind < RING_KINDS; kind++) {
		CHECK(header->recorded[kind] == story->arrived[kind],
		      "thread %u, sub-buffer %" PRIu64 ", kind %d: recorded %" PRIu64
		      ", arrived %" PRIu64,
		      thread, story->sequence, kind, header->recorded[kind], story->arrived[kind]);
		CHECK(header->discarded[kind] == story->missing[kind],
		      "thread %u, sub-buffer %" PRIu64 ", kind %d: discarded %" PRIu64
		      ", missing %" PRIu64,
		      thread, story->sequence, kind, header->discarded[kind], story->missing[kind]);
	}
	CHECK(header->loss_first_ns ==
		      (story->missing_first ? stress_time(story->missing_first) : 0),
	      "thread %u, sub-buffer %" PRIu64 ": first loss", thread, story->sequence);
	CHECK(header->loss_last_ns == (story->missing_last ? stress_time(story->missing_last) : 0),
	      "thread %u, sub-buffer %" PRIu64 ": last loss", thread, story->sequence);
	story->missing_first = story->missing_last = 0;
}

/* With overwriting: all that did not arrive must be what the header counted beyond what did. */
static void header_check_overwritten(struct story *story, uint32_t thread, uint64_t first)
{
	CHECK(sum(story->header.recorded) + sum(story->header.discarded) == first - 1,
	      "thread %u, sub-buffer %" PRIu64 ": counts to %" PRIu64 ", begins with %" PRIu64,
	      thread, story->sequence, sum(story->header.recorded) + sum(story->header.discarded),
	      first);
	CHECK(sum(story->arrived) <= sum(story->header.recorded),
	      "thread %u: more arrived than recorded", thread);
}

static void fragment_check(struct story *story, const struct stress_log *log, const uint8_t *data,
			   const struct stress_variant *variant)
{
	uint32_t position = 0;

	if (log->sequence != story->sequence) {
		CHECK(log->from == 0, "thread %u: sub-buffer %" PRIu64 " begins at %u", log->thread,
		      log->sequence, log->from);
		if (variant->mode == RING_DISCARD)
			CHECK(log->sequence == story->sequence + 1,
			      "thread %u: sub-buffer %" PRIu64 " after %" PRIu64, log->thread,
			      log->sequence, story->sequence);
		CHECK(log->bytes >= sizeof(story->header), "short header");
		memcpy(&story->header, data, sizeof(story->header));
		CHECK(story->header.sequence == log->sequence &&
			      story->header.thread == log->thread &&
			      story->header.base_ns == log->base_ns,
		      "header and fragment disagree");
		story->sequence = log->sequence;
		story->base_ns = log->base_ns;
		story->covered = position = sizeof(story->header);
		story->header_due = 1;
	}
	CHECK(log->from <= story->covered, "thread %u: sub-buffer %" PRIu64 ": %u bytes, then %u",
	      log->thread, log->sequence, story->covered, log->from);
	CHECK(log->base_ns == story->base_ns, "thread %u: base", log->thread);
	/* A reader died after it had stored these and before it could say so. */
	if (log->from + position < story->covered) {
		story->again += story->covered - log->from - position;
		position = story->covered - log->from;
	}
	while (position < log->bytes) {
		const struct ring_record *record = (const void *)(data + position);

		if (record->bytes < sizeof(*record) || record->bytes > log->bytes - position) {
			CHECK(0, "thread %u: a record of %u bytes", log->thread, record->bytes);
			break;
		}
		if (story->header_due && variant->mode == RING_DISCARD)
			header_check(story, log->thread, record->process);
		else if (story->header_due)
			header_check_overwritten(story, log->thread, record->process);
		story->header_due = 0;
		record_check(story, log->thread, record);
		position += record->bytes;
	}
	if (log->from + log->bytes > story->covered)
		story->covered = log->from + log->bytes;
}

static void thread_check(const struct ring *ring, struct story *story, uint32_t thread,
			 struct stress_shared *shared, const struct stress_variant *variant,
			 uint64_t records)
{
	const struct ring_thread *entry = &ring->threads[thread];
	const struct stress_writer *writer;
	uint64_t recorded[RING_KINDS], discarded[RING_KINDS];

	CHECK(entry->tid >= 1 && entry->tid <= STRESS_THREADS, "tid %u", entry->tid);
	writer = &shared->writers[entry->tid - 1];
	for (int kind = 0; kind < RING_KINDS; kind++) {
		recorded[kind] = atomic_load(&entry->recorded[kind]);
		discarded[kind] = atomic_load(&entry->discarded[kind]);
	}
	if (variant->crash_us) {
		/* The count of a record is stored just before the record is published. */
		CHECK(sum(recorded) - sum(story->arrived) <= 1,
		      "thread %u: recorded %" PRIu64 ", arrived %" PRIu64, thread, sum(recorded),
		      sum(story->arrived));
		return;
	}
	numbers_miss(story, story->last + 1, records + 1);
	CHECK(writer->done, "thread %u did not end", thread);
	CHECK(sum(recorded) + sum(discarded) == records, "thread %u: the sum", thread);
	for (int kind = 0; kind < RING_KINDS; kind++) {
		CHECK(recorded[kind] == writer->recorded[kind], "kind %d: recorded", kind);
		CHECK(discarded[kind] == writer->discarded[kind], "kind %d: discarded", kind);
		if (variant->mode == RING_OVERWRITE)
			continue;
		CHECK(recorded[kind] == story->arrived[kind],
		      "thread %u, kind %d: recorded %" PRIu64 ", arrived %" PRIu64, thread, kind,
		      recorded[kind], story->arrived[kind]);
		CHECK(discarded[kind] == story->missing[kind], "kind %d: missing", kind);
	}
	if (variant->lossless)
		CHECK(!sum(discarded), "thread %u: discarded %" PRIu64, thread, sum(discarded));
	if (variant->handover_us)
		CHECK(!story->again, "thread %u: bytes came twice", thread);
	/* The newest record is what overwriting keeps. */
	if (variant->mode == RING_OVERWRITE && !sum(discarded))
		CHECK(story->arrived[stress_kind(records)] && story->last == records,
		      "thread %u: the last record is %" PRIu64, thread, story->last);
	printf("thread %u: arrived %" PRIu64 ", discarded %" PRIu64 ", overwritten %" PRIu64
	       ", bytes again %" PRIu64 "\n",
	       thread, sum(story->arrived), sum(discarded), sum(recorded) - sum(story->arrived),
	       story->again);
}

static int log_order(const void *a, const void *b)
{
	const struct stress_log *left = a, *right = b;

	if (left->thread != right->thread)
		return left->thread < right->thread ? -1 : 1;
	if (left->sequence != right->sequence)
		return left->sequence < right->sequence ? -1 : 1;
	/* In the order of arrival, which `from` must follow. */
	return left->data < right->data ? -1 : left->data > right->data;
}

int stress_check(const struct ring *ring, struct stress_shared *shared,
		 const struct stress_variant *variant, uint32_t threads, uint64_t records)
{
	static struct story stories[STRESS_THREADS];
	uint64_t newest[STRESS_THREADS] = {0};
	uint64_t count = atomic_load(&shared->log_count);

	for (uint64_t i = 0; i < count; i++) {
		const struct stress_log *log = &shared->log[i];

		if (log->thread >= threads) {
			CHECK(0, "fragment of thread %u", log->thread);
			return 1;
		}
		/* Already the arrival has to be in each thread's order. */
		CHECK(log->sequence >= newest[log->thread],
		      "thread %u: sub-buffer %" PRIu64 " came after %" PRIu64, log->thread,
		      log->sequence, newest[log->thread]);
		newest[log->thread] = log->sequence;
	}
	qsort(shared->log, count, sizeof(*shared->log), log_order);
	for (uint64_t i = 0; i < count; i++)
		fragment_check(&stories[shared->log[i].thread], &shared->log[i],
			       shared->data + shared->log[i].data, variant);
	for (uint32_t i = 0; i < threads; i++)
		thread_check(ring, &stories[i], i, shared, variant, records);
	if (failures)
		fprintf(stderr, "%d failures\n", failures);
	return failures != 0;
}
