/* SPDX-License-Identifier: Apache-2.0 */
#include "quantile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SPLIT_BITS 6

_Static_assert(1 << SPLIT_BITS == QUANTILE_SPLIT, "buckets of a power of two");

static void bucket_of(uint64_t value, uint32_t *group, uint32_t *slot)
{
	uint32_t top;

	if (value < QUANTILE_SPLIT) {
		*group = 0;
		*slot = (uint32_t)value;
		return;
	}
	top = 63 - (uint32_t)__builtin_clzll(value);
	*group = top - SPLIT_BITS + 1;
	*slot = (uint32_t)(value >> (top - SPLIT_BITS)) & (QUANTILE_SPLIT - 1);
}

/* The largest value that falls into a bucket. */
static uint64_t bucket_ceiling(uint32_t group, uint32_t slot)
{
	uint32_t shift;

	if (!group)
		return slot;
	shift = group - 1;
	return ((uint64_t)(QUANTILE_SPLIT + slot) << shift) + ((1ULL << shift) - 1);
}

static int bucket_count(struct quantile *quantile, uint64_t value)
{
	uint32_t group, slot;

	bucket_of(value, &group, &slot);
	if (!quantile->groups[group]) {
		quantile->groups[group] = calloc(QUANTILE_SPLIT, sizeof(uint32_t));
		if (!quantile->groups[group])
			return -ENOMEM;
	}
	/* A full bucket stays full: ranks above it come out too high, never the count. */
	if (quantile->groups[group][slot] != UINT32_MAX)
		quantile->groups[group][slot]++;
	return 0;
}

static void groups_free(struct quantile *quantile)
{
	if (quantile->groups)
		for (uint32_t i = 0; i < QUANTILE_GROUPS; i++)
			free(quantile->groups[i]);
	free(quantile->groups);
	quantile->groups = NULL;
}

/* From exact values to buckets; on failure nothing has changed. */
static int quantile_spill(struct quantile *quantile)
{
	quantile->groups = calloc(QUANTILE_GROUPS, sizeof(*quantile->groups));
	if (!quantile->groups)
		return -ENOMEM;
	for (uint32_t i = 0; i < quantile->used; i++) {
		if (bucket_count(quantile, quantile->values[i])) {
			groups_free(quantile);
			return -ENOMEM;
		}
	}
	free(quantile->values);
	quantile->values = NULL;
	quantile->used = quantile->room = 0;
	return 0;
}

static int value_keep(struct quantile *quantile, uint64_t value)
{
	if (quantile->used == quantile->room) {
		uint32_t room = quantile->room ? quantile->room * 2 : 4;
		uint64_t *grown = realloc(quantile->values, room * sizeof(*grown));

		if (!grown)
			return -ENOMEM;
		quantile->values = grown;
		quantile->room = room;
	}
	quantile->values[quantile->used++] = value;
	return 0;
}

int quantile_add(struct quantile *quantile, uint64_t value)
{
	int error = 0;

	if (!quantile->groups && quantile->used == QUANTILE_EXACT)
		error = quantile_spill(quantile);
	if (!error)
		error = quantile->groups ? bucket_count(quantile, value)
					 : value_keep(quantile, value);
	if (error)
		return error;
	if (!quantile->count || value < quantile->min)
		quantile->min = value;
	if (value > quantile->max)
		quantile->max = value;
	quantile->count++;
	if (__builtin_add_overflow(quantile->sum, value, &quantile->sum))
		quantile->sum = UINT64_MAX;
	return 0;
}

static int value_compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

uint64_t quantile_at(const struct quantile *quantile, uint32_t permille)
{
	uint64_t rank, seen = 0;

	if (!quantile->count)
		return 0;
	/* split so that no count overflows; nearest rank: the least one that covers the share */
	rank = quantile->count / 1000 * permille + (quantile->count % 1000 * permille + 999) / 1000;
	if (rank < 1)
		rank = 1;
	if (rank > quantile->count)
		rank = quantile->count;
	if (!quantile->groups) {
		uint64_t sorted[QUANTILE_EXACT];

		memcpy(sorted, quantile->values, quantile->used * sizeof(*sorted));
		qsort(sorted, quantile->used, sizeof(*sorted), value_compare);
		return sorted[rank - 1];
	}
	for (uint32_t group = 0; group < QUANTILE_GROUPS; group++) {
		if (!quantile->groups[group])
			continue;
		for (uint32_t slot = 0; slot < QUANTILE_SPLIT; slot++) {
			seen += quantile->groups[group][slot];
			if (seen >= rank) {
				uint64_t value = bucket_ceiling(group, slot);

				return value < quantile->max ? value : quantile->max;
			}
		}
	}
	return quantile->max;
}

void quantile_free(struct quantile *quantile)
{
	free(quantile->values);
	groups_free(quantile);
	*quantile = (struct quantile){0};
}
