/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dictionary and the two tables of words. Runs inside the VM without a libc: nothing here may
 * call anything but memcpy and memset.
 */

#include "ring.h"

#include <errno.h>
#include <string.h>

#define PROBES		64 /* slots looked at before a table counts as full */
#define MFA_FIELD_LIMIT (1u << 28)
#define HASH_MULTIPLIER 0x9e3779b97f4a7c15ull /* 2^64 / golden ratio */

/* ---- Tables ------------------------------------------------------------------------------ */

static uint32_t word_hash(uint64_t word)
{
	return (uint32_t)((word * HASH_MULTIPLIER) >> 32);
}

uint32_t ring_mfa_index(struct ring *ring, uint32_t module, uint32_t function, uint32_t arity,
			int *is_new)
{
	uint64_t key = ((uint64_t)module << 36 | (uint64_t)function << 8 | arity) + 1;
	uint32_t index;

	*is_new = 0;
	if (module >= MFA_FIELD_LIMIT || function >= MFA_FIELD_LIMIT || arity > 255 || !key)
		return RING_NO_INDEX;
	index = word_hash(key) & ring->mfa_mask;
	for (int probe = 0; probe < PROBES; probe++) {
		struct ring_mfa_slot *slot = &ring->mfas[index];
		/* relaxed: a key is all there is to see, and it never changes once it is set */
		uint64_t found = atomic_load_explicit(&slot->key, memory_order_relaxed);

		if (!found && atomic_compare_exchange_strong_explicit(&slot->key, &found, key,
								      memory_order_relaxed,
								      memory_order_relaxed))
			found = key;
		if (found == key) {
			/* acquire: the text stands in the dictionary before our record does */
			*is_new = !atomic_load_explicit(&slot->seen, memory_order_acquire);
			return index;
		}
		index = (index + 1) & ring->mfa_mask;
	}
	return RING_NO_INDEX;
}

void ring_mfa_seen(struct ring *ring, uint32_t index)
{
	/* release: the dictionary's entry is out before the mark */
	if (index <= ring->mfa_mask)
		atomic_store_explicit(&ring->mfas[index].seen, 1, memory_order_release);
}

struct ring_atom_slot *ring_atom_slot(struct ring *ring, uint32_t atom)
{
	uint32_t index = word_hash(atom) & ring->atom_mask;

	if (!atom)
		return NULL;
	for (int probe = 0; probe < PROBES; probe++) {
		struct ring_atom_slot *slot = &ring->atoms[index];
		/* relaxed: as in ring_mfa_index() */
		uint32_t found = atomic_load_explicit(&slot->key, memory_order_relaxed);

		if (!found && atomic_compare_exchange_strong_explicit(&slot->key, &found, atom,
								      memory_order_relaxed,
								      memory_order_relaxed))
			found = atom;
		if (found == atom)
			return slot;
		index = (index + 1) & ring->atom_mask;
	}
	return NULL;
}

void ring_atom_seen(struct ring_atom_slot *slot, uint64_t hash)
{
	/* relaxed: published by the mark */
	atomic_store_explicit(&slot->hash, hash, memory_order_relaxed);
	/* release: the hash and the dictionary's entry are out before the mark */
	atomic_store_explicit(&slot->seen, 1, memory_order_release);
}

/* ---- The check word ---------------------------------------------------------------------- */

/* Over a stream of bytes taken as little-endian words, however it is cut into parts. */
struct check {
	uint64_t state, word;
	uint32_t filled; /* bytes in `word` */
};

static void check_mix(struct check *check, uint64_t word)
{
	check->state = (check->state ^ word) * HASH_MULTIPLIER;
	check->state ^= check->state >> 32;
}

static void check_feed(struct check *check, const void *data, uint32_t bytes)
{
	const uint8_t *next = data;

	while (bytes) {
		if (!check->filled && bytes >= 8) {
			uint64_t word;

			memcpy(&word, next, 8);
			check_mix(check, word);
			next += 8;
			bytes -= 8;
			continue;
		}
		check->word |= (uint64_t)*next++ << (8 * check->filled);
		bytes--;
		if (++check->filled == 8) {
			check_mix(check, check->word);
			check->word = 0;
			check->filled = 0;
		}
	}
}

static void check_start(struct check *check, uint16_t type, uint16_t bytes, uint64_t key)
{
	*check = (struct check){.state = HASH_MULTIPLIER};
	check_mix(check, (uint64_t)type << 32 | bytes);
	check_mix(check, key);
}

static uint32_t check_end(struct check *check)
{
	check_mix(check, check->word);
	return (uint32_t)check->state ? (uint32_t)check->state : 1;
}

uint32_t ring_dict_check(uint16_t type, uint16_t bytes, uint64_t key, const void *payload)
{
	struct check check;

	check_start(&check, type, bytes, key);
	check_feed(&check, payload, bytes);
	return check_end(&check);
}

/* ---- Entries ----------------------------------------------------------------------------- */

/* Reserve slots. Returns their offset, UINT64_MAX when there is no room. */
static uint64_t dict_reserve(struct ring *ring, uint64_t size)
{
	_Atomic uint64_t *tail = &ring->control->dict_tail;
	/* relaxed, here and below: the tail hands out room; each entry publishes itself */
	uint64_t offset = atomic_load_explicit(tail, memory_order_relaxed);

	/* A look first: a full dictionary does not push the tail on for ever. */
	if (offset > ring->dict_bytes || ring->dict_bytes - offset < size)
		return UINT64_MAX;
	offset = atomic_fetch_add_explicit(tail, size, memory_order_relaxed);
	if (offset > ring->dict_bytes || ring->dict_bytes - offset < size ||
	    offset % RING_DICT_SLOT)
		return UINT64_MAX;
	return offset;
}

int ring_dict_put2(struct ring *ring, enum ring_dict_type type, uint64_t key, const void *head,
		   uint32_t head_bytes, const void *tail, uint32_t tail_bytes)
{
	struct ring_dict_entry *entry;
	struct check check;
	uint64_t offset;
	uint32_t bytes;

	if (head_bytes > RING_DICT_PAYLOAD_MAX || tail_bytes > RING_DICT_PAYLOAD_MAX - head_bytes)
		return -EINVAL;
	bytes = head_bytes + tail_bytes;
	offset = dict_reserve(ring, ring_dict_size(bytes));
	if (offset == UINT64_MAX) {
		/* relaxed: a statistic */
		atomic_fetch_add_explicit(&ring->control->dict_discarded, 1, memory_order_relaxed);
		return -ENOSPC;
	}
	RING_TEST_POINT("dict_reserved");
	check_start(&check, (uint16_t)type, (uint16_t)bytes, key);
	check_feed(&check, head, head_bytes);
	check_feed(&check, tail, tail_bytes);

	entry = (struct ring_dict_entry *)(ring->dict + offset);
	entry->type = (uint16_t)type;
	entry->bytes = (uint16_t)bytes;
	entry->key = key;
	if (head_bytes)
		memcpy(entry + 1, head, head_bytes);
	if (tail_bytes)
		memcpy((uint8_t *)(entry + 1) + head_bytes, tail, tail_bytes);
	RING_TEST_POINT("dict_written");
	/* release: whoever finds the check finds the entry */
	atomic_store_explicit(&entry->check, check_end(&check), memory_order_release);
	return 0;
}

int ring_dict_put(struct ring *ring, enum ring_dict_type type, uint64_t key, const void *payload,
		  uint32_t bytes)
{
	return ring_dict_put2(ring, type, key, payload, bytes, NULL, 0);
}

int ring_dict_next(const void *data, uint64_t bytes, uint64_t *position,
		   const struct ring_dict_entry **entry)
{
	const uint8_t *base = data;

	while (*position < bytes && bytes - *position >= sizeof(struct ring_dict_entry)) {
		const struct ring_dict_entry *at = (const void *)(base + *position);
		uint64_t room = bytes - *position - sizeof(*at);
		/* relaxed: a private copy */
		uint32_t check =
			atomic_load_explicit((_Atomic uint32_t *)&at->check, memory_order_relaxed);

		if (check && at->bytes <= RING_DICT_PAYLOAD_MAX && at->bytes <= room &&
		    check == ring_dict_check(at->type, at->bytes, at->key, at + 1)) {
			*position += ring_dict_size(at->bytes);
			*entry = at;
			return 1;
		}
		*position += RING_DICT_SLOT;
	}
	return 0;
}
