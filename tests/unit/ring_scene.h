/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RING_SCENE_H
#define BEAMWEAVE_RING_SCENE_H

#include "ring_fixture.h"

/* A session with one writer and one reader. */
struct scene {
	struct ring ring;
	struct ring_writer writer, other;
	struct ring_reader *reader;
	struct notebook *book;
};

static struct scene scene;

static inline void scene_new(enum ring_mode mode, uint32_t subbufs)
{
	struct ring_config config = small_config(mode, subbufs);

	memset(&scene, 0, sizeof(scene));
	session_new(&scene.ring, &config);
	writer_new(&scene.writer, &scene.ring, 1);
	writer_new(&scene.other, &scene.ring, 2);
	scene.reader = ring_reader_new(&scene.ring, 1, 1);
	scene.book = notebook_new();
	assert_non_null(scene.reader);
}

static inline void scene_free(void)
{
	ring_reader_free(scene.reader);
	session_free(&scene.ring);
	notebook_free(scene.book);
}

static inline int64_t drain(void)
{
	return ring_drain(scene.reader, UINT64_MAX, note_fragment, scene.book);
}

static inline struct ring_subbuf *subbuf(uint32_t index)
{
	return (struct ring_subbuf *)(scene.ring.pool + 4096ull * index);
}

/* The numbers that arrived are from..from+count-1, in order. */
static inline void arrived(uint64_t from, uint64_t count)
{
	assert_int_equal(scene.book->numbers, count);
	for (uint64_t i = 0; i < count; i++)
		assert_int_equal(scene.book->number[i], from + i);
}

#endif
