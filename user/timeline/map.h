/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_MAP_H
#define BEAMWEAVE_MAP_H

/*
 * A table from 64-bit keys to pointers: open addressing, linear probing, deletion without tombstones.
 * One lookup touches one or two cache lines, which is what each event costs.
 */

#include <stddef.h>
#include <stdint.h>

struct map_slot {
	uint64_t key;
	void *value; /* NULL: empty */
};

/* All zero is an empty map. */
struct map {
	struct map_slot *slots;
	size_t mask; /* slots - 1, 0 without slots */
	size_t used;
};

/* Spread a key over all 64 bits. */
static inline uint64_t map_mix(uint64_t key)
{
	key ^= key >> 33;
	key *= 0xff51afd7ed558ccdULL;
	key ^= key >> 33;
	key *= 0xc4ceb9fe1a85ec53ULL;
	return key ^ key >> 33;
}

/* The value of a key, NULL when there is none. */
static inline void *map_get(const struct map *map, uint64_t key)
{
	size_t i;

	if (!map->slots)
		return NULL;
	for (i = map_mix(key) & map->mask; map->slots[i].value; i = (i + 1) & map->mask)
		if (map->slots[i].key == key)
			return map->slots[i].value;
	return NULL;
}

/* Set the value (not NULL) of a key. Returns 0 or -ENOMEM. */
int map_put(struct map *map, uint64_t key, void *value);
/* Take a key out; returns its value or NULL. */
void *map_remove(struct map *map, uint64_t key);
/* The next value in no order; *position starts at 0. NULL at the end. The map must not change meanwhile. */
void *map_next(const struct map *map, size_t *position);
/* Frees the table, not the values. */
void map_free(struct map *map);
/* Frees the table and the values, each by free(). */
void map_free_values(struct map *map);

#endif
