/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libFuzzer: trace messages of any content through the whole reader, as a file of a trace port, as the
 * same bytes in chunks, and as records of a ring. The first byte of an input says which.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "../trace/exercise.h"
#include "../trace/maker.h"

#define CHUNK_BYTES 37

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes);

static void chunks_put(struct file_writer *file, const uint8_t *input, size_t bytes)
{
	struct chunk_trc head = {.received_ns = 1000000};

	for (; bytes; head.offset += CHUNK_BYTES, head.received_ns += 1000) {
		size_t part = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;

		maker_append(file, CHUNK_TRC, 0, &head, sizeof(head), input, (uint32_t)part);
		input += part;
		bytes -= part;
	}
}

/* Each frame of the input a record, whatever its first byte and its length say. */
static void records_put(struct file_writer *file, const uint8_t *input, size_t bytes)
{
	struct maker_ring *const rings[] = {calloc(1, sizeof(struct maker_ring))};
	uint64_t ts_ns = 1000000;

	EXERCISE_WANT(rings[0]);
	maker_ring_init(rings[0], file, 0, 77, RING_ROLE_NORMAL, 1);
	while (bytes > 6) {
		size_t size = (size_t)input[3] << 8 | input[4];
		struct ring_term *term;

		size = size < bytes - 6 ? size : bytes - 6;
		size = size < 8192 ? size : 8192;
		term = maker_ring_put(rings[0], ts_ns += 500, input[5] % RING_KINDS,
				      (sizeof(*term) + size + 7) & ~(size_t)7, 0);
		term->h.flags = RING_F_TERM;
		term->bytes = (uint32_t)size;
		term->tail_bytes = input[1];
		memcpy(term + 1, input + 6, size);
		input += 6 + size;
		bytes -= 6 + size;
	}
	maker_ring_store(rings[0]);
	maker_threads(file, rings, 1, ts_ns);
	free(rings[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t bytes)
{
	struct exercise exercise;
	struct file_writer *file;
	char path[64];
	int fd;

	if (bytes < 2)
		return 0;
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	EXERCISE_WANT(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (*input % 3) {
		char name[] = "/tmp/bwt_fuzz_XXXXXX";
		int made = mkstemp(name);

		EXERCISE_WANT(made >= 0);
		close(made);
		unlink(name);
		file = file_create(name);
		EXERCISE_WANT(file);
		if (*input % 3 == 1)
			chunks_put(file, input + 1, bytes - 1);
		else
			records_put(file, input + 1, bytes - 1);
		EXERCISE_WANT(!file_close(file, true));
		exercise_file(name, &exercise);
		unlink(name);
	} else {
		EXERCISE_WANT(write(fd, input + 1, bytes - 1) == (ssize_t)bytes - 1);
		exercise_file(path, &exercise);
	}
	close(fd);
	return 0;
}
