/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_QUANTILE_H
#define BEAMWEAVE_QUANTILE_H

/*
 * Percentiles of a stream of durations in bounded memory. Up to QUANTILE_EXACT values are kept as they
 * are; after that they are counted in buckets, 64 to each power of two (as HDR histograms do), at most
 * 15 KiB for any number of values.
 *
 * Error: a percentile is the value of nearest rank or above it, by at most 1/64 of that value (1.6 %),
 * and never above the largest value seen. count, sum, min and max are exact (sum stops at UINT64_MAX).
 */

#include <stdint.h>

#define QUANTILE_EXACT	32
#define QUANTILE_GROUPS 59 /* 0..63, and one for each power of two from 64 on */
#define QUANTILE_SPLIT	64

struct quantile {
	uint64_t count, sum, min, max;
	uint32_t used, room; /* of values */
	uint64_t *values; /* exact, until there are more than QUANTILE_EXACT */
	uint32_t **groups; /* buckets, NULL until then; each group is allocated when it is hit */
};

/* A zeroed struct quantile is empty. Returns 0 or -ENOMEM: the value is then not counted. */
int quantile_add(struct quantile *quantile, uint64_t value);
/* The value of nearest rank at `permille` / 1000 of the count; 0 when empty. */
uint64_t quantile_at(const struct quantile *quantile, uint32_t permille);
/* Frees what it holds and makes it empty. */
void quantile_free(struct quantile *quantile);

#endif
