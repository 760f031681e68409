/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: files of any content through the whole reader. Checksums would stop nearly all of them at
 * the door, so an input is a list of chunks {type 1, stream 1, bytes 2, payload}, which get headers
 * with good checksums here, and entries of the dictionary their check words. An input that begins with
 * the file's magic is taken as it stands.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "../trace/exercise.h"

#define CHUNKS_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes);

static void put(int fd, const void *data, size_t bytes)
{
	EXERCISE_WANT(write(fd, data, bytes) == (ssize_t)bytes);
}

/* Give every place that could be an entry the check word that it would have. */
static void dict_mend(uint8_t *payload, size_t bytes)
{
	const size_t head = sizeof(struct chunk_dict);

	for (size_t at = head; at + sizeof(struct ring_dict_entry) <= bytes;) {
		struct ring_dict_entry entry;
		uint32_t check;
		size_t size;

		memcpy(&entry, payload + at, sizeof(entry));
		size = sizeof(entry) + entry.bytes;
		if (at + size <= bytes) {
			check = ring_dict_check(entry.type, entry.bytes, entry.key,
						payload + at + sizeof(entry));
			memcpy(payload + at, &check, sizeof(check));
		}
		at += (size + RING_DICT_SLOT - 1) & ~(size_t)(RING_DICT_SLOT - 1);
	}
}

static void chunk_put(int fd, uint64_t number, uint8_t type, uint8_t stream, const uint8_t *data,
		      size_t bytes)
{
	struct chunk_header header = {.magic = CHUNK_MAGIC,
				      .type = type,
				      .stream = stream,
				      .bytes = (uint32_t)bytes,
				      .number = number};
	static const uint8_t zeros[8];
	uint8_t *payload = malloc(bytes + 1);

	EXERCISE_WANT(payload);
	memcpy(payload, data, bytes);
	if (type == CHUNK_DICT)
		dict_mend(payload, bytes);
	header.hash = chunk_hash(&header, payload, bytes, NULL, 0);
	put(fd, &header, sizeof(header));
	put(fd, payload, bytes);
	put(fd, zeros, -bytes & 7);
	free(payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
	struct file_header header = {.version = FILE_VERSION, .header_bytes = sizeof(header)};
	struct exercise exercise;
	char path[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	EXERCISE_WANT(fd >= 0);
	if (bytes >= 8 && !memcmp(input, FILE_MAGIC, 8)) {
		put(fd, input, bytes);
	} else {
		memcpy(header.magic, FILE_MAGIC, sizeof(header.magic));
		put(fd, &header, sizeof(header));
		for (uint64_t number = 0; bytes >= 4 && number < CHUNKS_MAX; number++) {
			size_t length = input[2] | (size_t)input[3] << 8;

			if (length > bytes - 4)
				length = bytes - 4;
			chunk_put(fd, number, input[0], input[1], input + 4, length);
			input += 4 + length;
			bytes -= 4 + length;
		}
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	exercise_file(path, &exercise);
	close(fd);
	return 0;
}
