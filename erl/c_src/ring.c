/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ring's set-up, for both sides. Runs inside the VM too, without a libc: nothing here may call
 * anything but memcpy and memset.
 */

#include "ring.h"

#include <errno.h>
#include <string.h>

#define PAGE_BYTES 4096u

#ifdef RING_TEST
void (*ring_test_hook)(const char *point);
#endif

static uint64_t page_align(uint64_t bytes)
{
	return (bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
}

static int power_of_two_within(uint64_t n, uint64_t low, uint64_t high)
{
	return n >= low && n <= high && !(n & (n - 1));
}

/* The header that a configuration leads to: the only place where the layout is worked out. */
static int layout_make(struct ring_header *header, const struct ring_config *config)
{
	uint64_t pool_bytes = config->pool_bytes ? config->pool_bytes : 64ull << 20;
	uint64_t offset = PAGE_BYTES;

	memset(header, 0, sizeof(*header));
	header->magic = RING_MAGIC;
	header->version = RING_VERSION;
	header->mode = config->mode;
	header->subbuf_bytes = config->subbuf_bytes ? config->subbuf_bytes : 32u << 10;
	header->thread_max = config->thread_max ? config->thread_max : 256;
	header->mfa_slots = config->mfa_slots ? config->mfa_slots : 1u << 16;
	header->atom_slots = config->atom_slots ? config->atom_slots : 1u << 17;
	header->dict_bytes = config->dict_bytes ? config->dict_bytes : 16ull << 20;

	if (header->mode != RING_DISCARD && header->mode != RING_OVERWRITE)
		return -EINVAL;
	if (!power_of_two_within(header->subbuf_bytes, 4096, 65536))
		return -EINVAL;
	if (pool_bytes / header->subbuf_bytes < 2 || pool_bytes / header->subbuf_bytes > 1u << 20)
		return -EINVAL;
	if (header->thread_max > 1u << 16)
		return -EINVAL;
	if (!power_of_two_within(header->mfa_slots, 64, 1u << 24) ||
	    !power_of_two_within(header->atom_slots, 64, 1u << 26))
		return -EINVAL;
	if (header->dict_bytes < PAGE_BYTES || header->dict_bytes > 1ull << 32 ||
	    header->dict_bytes % PAGE_BYTES)
		return -EINVAL;
	header->subbuf_count = (uint32_t)(pool_bytes / header->subbuf_bytes);

	header->control_offset = offset;
	offset += page_align(sizeof(struct ring_control));
	header->thread_offset = offset;
	offset += page_align((uint64_t)header->thread_max * sizeof(struct ring_thread));
	header->meta_offset = offset;
	offset += page_align((uint64_t)header->subbuf_count * sizeof(struct ring_meta));
	header->mfa_offset = offset;
	offset += page_align((uint64_t)header->mfa_slots * sizeof(struct ring_mfa_slot));
	header->atom_offset = offset;
	offset += page_align((uint64_t)header->atom_slots * sizeof(struct ring_atom_slot));
	header->dict_offset = offset;
	offset += header->dict_bytes;
	header->pool_offset = offset;
	offset += (uint64_t)header->subbuf_count * header->subbuf_bytes;
	header->bytes = offset;
	return 0;
}

static void view_make(struct ring *ring, void *map, const struct ring_header *header)
{
	uint8_t *base = map;

	ring->map = base;
	ring->bytes = header->bytes;
	ring->mode = (enum ring_mode)header->mode;
	ring->subbuf_bytes = header->subbuf_bytes;
	ring->subbuf_count = header->subbuf_count;
	ring->thread_max = header->thread_max;
	ring->mfa_mask = header->mfa_slots - 1;
	ring->atom_mask = header->atom_slots - 1;
	ring->dict_bytes = header->dict_bytes;
	ring->header = map;
	ring->control = (struct ring_control *)(base + header->control_offset);
	ring->threads = (struct ring_thread *)(base + header->thread_offset);
	ring->meta = (struct ring_meta *)(base + header->meta_offset);
	ring->mfas = (struct ring_mfa_slot *)(base + header->mfa_offset);
	ring->atoms = (struct ring_atom_slot *)(base + header->atom_offset);
	ring->dict = base + header->dict_offset;
	ring->pool = base + header->pool_offset;
}

uint64_t ring_file_bytes(const struct ring_config *config)
{
	struct ring_header header;

	return layout_make(&header, config) ? 0 : header.bytes;
}

int ring_create(struct ring *ring, void *map, uint64_t map_bytes, const struct ring_config *config,
		uint64_t now_ns)
{
	struct ring_header header;
	struct ring_control *control;
	int err = layout_make(&header, config);

	if (err)
		return err;
	if (map_bytes < header.bytes || (uintptr_t)map % RING_CACHE_LINE)
		return -EINVAL;
	view_make(ring, map, &header);

	control = ring->control;
	/* relaxed, here and below: nobody else has the memory yet */
	atomic_store_explicit(&control->stop_at_ns, UINT64_MAX, memory_order_relaxed);
	atomic_store_explicit(&control->credits, INT64_MAX, memory_order_relaxed);
	atomic_store_explicit(&control->credit_block, 1024, memory_order_relaxed);
	for (uint32_t i = 0; i + 1 < ring->subbuf_count; i++)
		atomic_store_explicit(&ring->meta[i].next, i + 2, memory_order_relaxed);
	atomic_store_explicit(&control->free_top, 1, memory_order_relaxed);

	header.created_ns = now_ns;
	header.magic = 0;
	memcpy(ring->header, &header, sizeof(header));
	/* release: whoever finds the magic finds all of the above */
	__atomic_store_n(&ring->header->magic, RING_MAGIC, __ATOMIC_RELEASE);
	return 0;
}

static int bytes_equal(const void *a, const void *b, size_t bytes)
{
	const uint8_t *left = a, *right = b;
	uint8_t differ = 0;

	for (size_t i = 0; i < bytes; i++)
		differ |= left[i] ^ right[i];
	return !differ;
}

int ring_open(struct ring *ring, void *map, uint64_t map_bytes)
{
	struct ring_header header, expected;
	struct ring_config config;

	if (map_bytes < PAGE_BYTES || (uintptr_t)map % RING_CACHE_LINE)
		return -EINVAL;
	/* acquire: pairs with the release at the end of ring_create() */
	if (__atomic_load_n((uint64_t *)map, __ATOMIC_ACQUIRE) != RING_MAGIC)
		return -EINVAL;
	memcpy(&header, map, sizeof(header));
	/* What is checked below must be what was copied: no second read of the shared header. */
	__asm__ volatile("" : : "r"(&header) : "memory");
	if (header.version != RING_VERSION)
		return -EPROTO;

	config = (struct ring_config){
		.mode = (enum ring_mode)header.mode,
		.pool_bytes = (uint64_t)header.subbuf_count * header.subbuf_bytes,
		.subbuf_bytes = header.subbuf_bytes,
		.thread_max = header.thread_max,
		.mfa_slots = header.mfa_slots,
		.atom_slots = header.atom_slots,
		.dict_bytes = header.dict_bytes,
	};
	if (layout_make(&expected, &config))
		return -EINVAL;
	/* This version has one layout for given sizes: no offset of the file's is believed. */
	expected.reserved = header.reserved;
	if (!bytes_equal(&expected, &header, offsetof(struct ring_header, created_ns)) ||
	    expected.bytes > map_bytes)
		return -EINVAL;
	view_make(ring, map, &expected);
	return 0;
}
