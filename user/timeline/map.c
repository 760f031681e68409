/* SPDX-License-Identifier: Apache-2.0 */
#include "map.h"

#include <errno.h>
#include <stdlib.h>

#define MAP_FIRST_SLOTS 64

static void map_place(struct map *map, uint64_t key, void *value)
{
	size_t i = map_mix(key) & map->mask;

	while (map->slots[i].value && map->slots[i].key != key)
		i = (i + 1) & map->mask;
	if (!map->slots[i].value)
		map->used++;
	map->slots[i] = (struct map_slot){key, value};
}

static int map_grow(struct map *map)
{
	size_t count = map->slots ? (map->mask + 1) * 2 : MAP_FIRST_SLOTS, i;
	struct map bigger = {calloc(count, sizeof(*bigger.slots)), count - 1, 0};

	if (!bigger.slots)
		return -ENOMEM;
	for (i = 0; map->slots && i <= map->mask; i++)
		if (map->slots[i].value)
			map_place(&bigger, map->slots[i].key, map->slots[i].value);
	free(map->slots);
	*map = bigger;
	return 0;
}

int map_put(struct map *map, uint64_t key, void *value)
{
	/* at most two thirds full: probes stay short */
	if (!map->slots || (map->used + 1) * 3 > (map->mask + 1) * 2) {
		int err = map_grow(map);

		if (err)
			return err;
	}
	map_place(map, key, value);
	return 0;
}

void *map_remove(struct map *map, uint64_t key)
{
	size_t hole, i;
	void *value;

	if (!map->slots)
		return NULL;
	for (hole = map_mix(key) & map->mask; map->slots[hole].value; hole = (hole + 1) & map->mask)
		if (map->slots[hole].key == key)
			break;
	value = map->slots[hole].value;
	if (!value)
		return NULL;
	/* Move up what would be cut off from its home slot by the hole. */
	for (i = (hole + 1) & map->mask; map->slots[i].value; i = (i + 1) & map->mask) {
		size_t home = map_mix(map->slots[i].key) & map->mask;

		if (((i - home) & map->mask) >= ((i - hole) & map->mask)) {
			map->slots[hole] = map->slots[i];
			hole = i;
		}
	}
	map->slots[hole].value = NULL;
	map->used--;
	return value;
}

void *map_next(const struct map *map, size_t *position)
{
	while (map->slots && *position <= map->mask) {
		void *value = map->slots[(*position)++].value;

		if (value)
			return value;
	}
	return NULL;
}

void map_free(struct map *map)
{
	free(map->slots);
	*map = (struct map){0};
}

void map_free_values(struct map *map)
{
	size_t position = 0;
	void *value;

	while ((value = map_next(map, &position)))
		free(value);
	map_free(map);
}
