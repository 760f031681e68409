/* SPDX-License-Identifier: Apache-2.0 */
/*
 * damage FILE.bwt FLIPS: read a recording with everything done to it that can happen to a file: cut
 * before, at and after every chunk's border, and FLIPS times with one bit turned. Each must read
 * without harm, and all chunks that are whole must be there. Ends with one line of what was done;
 * aborts where something is wrong. For AddressSanitizer and UndefinedBehaviorSanitizer.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "exercise.h"

static uint8_t *data;
static size_t bytes;
static uint64_t random_state = 1;

/* splitmix64 */
static uint64_t random_next(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static void file_load(const char *path)
{
	FILE *file = fopen(path, "rb");

	EXERCISE_WANT(file);
	EXERCISE_WANT(!fseek(file, 0, SEEK_END));
	bytes = (size_t)ftell(file);
	rewind(file);
	data = malloc(bytes);
	EXERCISE_WANT(data && fread(data, 1, bytes, file) == bytes);
	fclose(file);
}

/* How many whole chunks are there, and does the rest of the reader bear it? */
static size_t variant_read(size_t length, struct exercise *exercise)
{
	char path[64];
	struct file_reader reader;
	size_t count;
	int fd = memfd_create("damage", MFD_CLOEXEC);

	EXERCISE_WANT(fd >= 0 && write(fd, data, length) == (ssize_t)length);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	EXERCISE_WANT(!file_open(&reader, path));
	count = reader.count;
	file_reader_close(&reader);
	EXERCISE_WANT(exercise_file(path, exercise));
	close(fd);
	return count;
}

/* By the format alone: where chunk `number` begins; the end of the file after the last. */
static size_t chunk_offset(size_t number)
{
	size_t at = 64;

	while (number-- && at < bytes) {
		struct chunk_header header;

		memcpy(&header, data + at, sizeof(header));
		at += sizeof(header) + ((header.bytes + 7u) & ~7u);
	}
	return at;
}

int main(int argc, char **argv)
{
	size_t chunks = 0, flips, cuts = 0;
	struct exercise whole, exercise;

	if (argc != 3) {
		fputs("usage: damage FILE.bwt FLIPS\n", stderr);
		return 2;
	}
	file_load(argv[1]);
	flips = strtoul(argv[2], NULL, 10);
	while (chunk_offset(chunks) < bytes)
		chunks++;
	EXERCISE_WANT(variant_read(bytes, &whole) == chunks);

	for (size_t i = 0; i <= chunks; i++) {
		for (int off = -1; off <= 1; off++) {
			size_t cut = chunk_offset(i) + (size_t)off;
			/* Without the last byte a chunk is whole if that byte is padding. */
			size_t read;

			if (cut < 64 || cut > bytes)
				continue;
			read = variant_read(cut, &exercise);
			EXERCISE_WANT(off < 0 ? read == i || read + 1 == i : read == i);
			cuts++;
		}
	}
	for (size_t i = 0; i < flips; i++) {
		size_t at = 64 + random_next() % (bytes - 64);
		uint8_t bit = (uint8_t)(1 << random_next() % 8);

		data[at] ^= bit;
		EXERCISE_WANT(variant_read(bytes, &exercise) + 1 >= chunks);
		data[at] ^= bit;
	}
	printf("%zu chunks, %zu cuts, %zu flips, %llu events when whole\n", chunks, cuts, flips,
	       (unsigned long long)whole.events);
	free(data);
	return 0;
}
