/* SPDX-License-Identifier: Apache-2.0 */
/*
 * garble IN OUT SEED: a recording whose content is wrong at random places and whose checksums are right, so
 * that what reads it has to bear it. Some chunks are missing, some stand there twice.
 */
#include <stdio.h>
#include <stdlib.h>

#include "file.h"

static uint64_t seed;

/* splitmix64 */
static uint64_t random_below(uint64_t limit)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return (z ^ z >> 31) % limit;
}

static void payload_garble(uint8_t *payload, uint32_t bytes)
{
	uint64_t places = bytes && random_below(4) ? random_below(1 + bytes / 400 + 2) : 0;

	for (uint64_t i = 0; i < places; i++) {
		uint64_t at = random_below(bytes);

		switch (random_below(4)) {
		case 0:
			payload[at] ^= (uint8_t)(1u << random_below(8));
			break;
		case 1:
			payload[at] = (uint8_t)random_below(256);
			break;
		case 2:
			payload[at] = 0xff;
			break;
		default:
			payload[at] = 0;
			break;
		}
	}
}

int main(int argc, char **argv)
{
	uint8_t *payload = malloc(CHUNK_MAX_BYTES);
	struct file_reader reader;
	struct file_writer *writer;

	if (argc != 4 || !payload || file_open(&reader, argv[1]) ||
	    !(writer = file_create(argv[2]))) {
		fputs("usage: garble IN OUT SEED\n", stderr);
		return 2;
	}
	seed = strtoull(argv[3], NULL, 10);
	for (size_t i = 0; i < reader.count; i++) {
		const struct chunk *chunk = &reader.chunks[i];
		uint64_t times = random_below(60) ? 1 : 2 * random_below(2);

		if (file_read(&reader, chunk, payload))
			return 1;
		if (chunk->header.type != CHUNK_CLOCK)
			payload_garble(payload, chunk->header.bytes);
		while (times--)
			file_append(writer, chunk->header.type, chunk->header.stream, payload,
				    chunk->header.bytes, NULL, 0);
	}
	file_reader_close(&reader);
	free(payload);
	return file_close(writer, true) ? 1 : 0;
}
