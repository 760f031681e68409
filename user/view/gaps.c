/* SPDX-License-Identifier: Apache-2.0 */
#include "gaps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* More become one with their neighbour, so that a hostile file cannot fill memory. */
#define GAPS_MAX 65536

static void gap_join(struct gap *gap, const struct gap *other)
{
	if (other->from_ns < gap->from_ns)
		gap->from_ns = other->from_ns;
	if (other->to_ns > gap->to_ns)
		gap->to_ns = other->to_ns;
	gap->count += other->count;
	gap->kernel += other->kernel;
}

int gaps_add(struct gaps *gaps, const struct loss *loss)
{
	struct gap gap = {.from_ns = loss->from_ns,
			  .to_ns = loss->to_ns < loss->from_ns ? loss->from_ns : loss->to_ns,
			  .count = loss->count,
			  .kernel = loss->kernel ? loss->count : 0};
	size_t at = gaps->count, first;

	while (at && gaps->gaps[at - 1].from_ns > gap.to_ns)
		at--;
	/* all from `first` to `at` overlap, or lie so close that they are joined for room */
	for (first = at; first && gaps->gaps[first - 1].to_ns >= gap.from_ns; first--)
		gap_join(&gap, &gaps->gaps[first - 1]);
	if (first == at && gaps->count == GAPS_MAX && first)
		gap_join(&gap, &gaps->gaps[--first]);
	if (first == at) {
		if (gaps->count == gaps->room) {
			size_t room = gaps->room ? gaps->room * 2 : 16;
			struct gap *grown = realloc(gaps->gaps, room * sizeof(*grown));

			if (!grown)
				return -ENOMEM;
			gaps->gaps = grown;
			gaps->room = room;
		}
		memmove(&gaps->gaps[at + 1], &gaps->gaps[at],
			(gaps->count - at) * sizeof(*gaps->gaps));
		gaps->count++;
	} else {
		memmove(&gaps->gaps[first + 1], &gaps->gaps[at],
			(gaps->count - at) * sizeof(*gaps->gaps));
		gaps->count -= at - first - 1;
	}
	gaps->gaps[first] = gap;
	return 0;
}

struct gap gaps_over(const struct gaps *gaps, uint64_t start_ns, uint64_t end_ns)
{
	struct gap over = {.from_ns = UINT64_MAX};
	size_t low = 0, high = gaps->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (gaps->gaps[middle].to_ns <= start_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < gaps->count && gaps->gaps[low].from_ns < end_ns; low++)
		gap_join(&over, &gaps->gaps[low]);
	return over;
}

void gaps_free(struct gaps *gaps)
{
	free(gaps->gaps);
	*gaps = (struct gaps){0};
}
