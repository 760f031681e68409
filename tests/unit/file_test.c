/* SPDX-License-Identifier: Apache-2.0 */
/* The .bwt writer, against a walk over the bytes that knows only the format. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <xxhash.h>

#include "file.h"
#include "file_fixture.h"

/* Walk the chunks by the format alone; returns how many there are. */
static size_t chunks_walk(const uint8_t *data, size_t bytes, uint16_t *last_type)
{
	size_t at = 64, count = 0;

	assert_true(bytes >= 64);
	assert_memory_equal(data, "BWTRACE1", 8);
	while (at < bytes) {
		struct chunk_header header;
		XXH64_hash_t seed;

		assert_int_equal(at % 8, 0);
		assert_true(bytes - at >= sizeof(header));
		memcpy(&header, data + at, sizeof(header));
		assert_int_equal(header.magic, CHUNK_MAGIC);
		assert_int_equal(header.number, count);
		assert_true(bytes - at - sizeof(header) >= header.bytes);
		seed = XXH3_64bits(data + at, 24);
		assert_true(header.hash ==
			    XXH3_64bits_withSeed(data + at + sizeof(header), header.bytes, seed));
		at += sizeof(header) + ((header.bytes + 7u) & ~7u);
		*last_type = header.type;
		count++;
	}
	assert_int_equal(at, bytes);
	return count;
}

static void every_size_is_whole_and_aligned(void **state)
{
	struct file_writer *writer = file_create(path);
	uint8_t payload[100];
	uint16_t type = 0;
	uint8_t *data;
	size_t bytes;

	(void)state;
	assert_non_null(writer);
	for (unsigned int i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7);
	for (unsigned int i = 0; i <= 99; i++)
		assert_int_equal(file_append(writer, CHUNK_VM, i, payload, i / 2, payload + i / 2,
					     i - i / 2),
				 0);
	/* 64 + 100 headers of 32 + payloads of 0..99 rounded up to 8: 8 * (8 * (1+..+12) + 3 * 13) */
	assert_int_equal(file_bytes(writer), 64 + 100 * 32 + 8 * (8 * 78 + 3 * 13));
	assert_int_equal(file_close(writer, true), 0);

	data = file_load(path, &bytes);
	assert_int_equal(bytes, 64 + 101 * 32 + 8 * (8 * 78 + 3 * 13));
	assert_int_equal(chunks_walk(data, bytes, &type), 101);
	assert_int_equal(type, CHUNK_END);
	for (unsigned int i = 0, at = 64; i <= 99; i++) {
		assert_memory_equal(data + at + 32, payload, i);
		at += 32 + ((i + 7) & ~7u);
	}
	free(data);
}

static void chunks_larger_than_the_buffer_are_whole(void **state)
{
	struct file_writer *writer = file_create(path);
	uint8_t *payload = malloc(CHUNK_MAX_BYTES);
	uint16_t type = 0;
	uint8_t *data;
	size_t bytes;

	(void)state;
	for (uint32_t i = 0; i < CHUNK_MAX_BYTES; i++)
		payload[i] = (uint8_t)(i >> 8 ^ i);
	assert_int_equal(file_append(writer, CHUNK_VM, 0, payload, 24, payload, CHUNK_MAX_BYTES),
			 -EMSGSIZE);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(file_append(writer, CHUNK_VM, 0, payload, 24, payload + 24,
					     CHUNK_MAX_BYTES - 24),
				 0);
	assert_int_equal(file_close(writer, false), 0);
	data = file_load(path, &bytes);
	assert_int_equal(chunks_walk(data, bytes, &type), 3);
	assert_int_equal(type, CHUNK_VM);
	assert_memory_equal(data + bytes - CHUNK_MAX_BYTES, payload, CHUNK_MAX_BYTES);
	free(data);
	free(payload);
}

static void flushed_bytes_are_there_before_the_close(void **state)
{
	struct file_writer *writer = file_create(path);
	uint16_t type = 0;
	uint8_t *data;
	size_t bytes;

	(void)state;
	assert_int_equal(file_append(writer, CHUNK_META, 0, "{}", 2, NULL, 0), 0);
	assert_int_equal(file_flush(writer), 0);
	data = file_load(path, &bytes);
	assert_int_equal(chunks_walk(data, bytes, &type), 1);
	free(data);
	assert_int_equal(file_close(writer, true), 0);
}

static void an_old_file_is_kept_as_old(void **state)
{
	char old[160];
	struct stat status;
	uint16_t type = 0;
	uint8_t *data;
	size_t bytes;

	(void)state;
	snprintf(old, sizeof(old), "%s.old", path);
	for (unsigned int i = 1; i <= 2; i++) {
		struct file_writer *writer = file_create(path);

		assert_non_null(writer);
		for (unsigned int j = 0; j < i; j++)
			file_append(writer, CHUNK_META, 0, "{}", 2, NULL, 0);
		assert_int_equal(file_close(writer, false), 0);
	}
	data = file_load(path, &bytes);
	assert_int_equal(chunks_walk(data, bytes, &type), 2);
	free(data);
	data = file_load(old, &bytes);
	assert_int_equal(chunks_walk(data, bytes, &type), 1);
	free(data);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
}

static void what_cannot_be_created_says_why(void **state)
{
	char missing[160];

	(void)state;
	snprintf(missing, sizeof(missing), "%s/none/a.bwt", directory);
	assert_null(file_create(missing));
	assert_int_equal(errno, ENOENT);
	assert_null(file_create(directory));
	assert_int_equal(errno, EISDIR);
}

static void a_device_is_written_to_and_its_error_stays(void **state)
{
	struct file_writer *writer = file_create("/dev/full");

	(void)state;
	assert_non_null(writer);
	assert_int_equal(file_append(writer, CHUNK_META, 0, "{}", 2, NULL, 0), 0);
	assert_int_equal(file_flush(writer), -ENOSPC);
	assert_int_equal(file_close(writer, true), -ENOSPC);
	writer = file_create("/dev/null");
	assert_int_equal(file_append(writer, CHUNK_META, 0, "{}", 2, NULL, 0), 0);
	assert_int_equal(file_close(writer, true), 0);
}

static void a_pipe_gets_the_same_bytes(void **state)
{
	uint8_t *payload = calloc(1, 3000000), *data;
	uint16_t type = 0;
	size_t bytes;
	int fds[2], status;
	pid_t child;

	(void)state;
	memset(payload, 'p', 3000000);
	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (!child) {
		struct file_writer *writer;

		dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		/* A pipe that does not block is waited for. */
		fcntl(STDOUT_FILENO, F_SETFL, fcntl(STDOUT_FILENO, F_GETFL) | O_NONBLOCK);
		writer = file_create("-");
		if (!writer ||
		    file_append(writer, CHUNK_VM, 3, payload, 24, payload + 24, 2999976) ||
		    file_close(writer, true))
			_exit(1);
		_exit(0);
	}
	close(fds[1]);
	data = malloc(4000000);
	bytes = 0;
	for (ssize_t part; (part = read(fds[0], data + bytes, 4000000 - bytes)) > 0;)
		bytes += (size_t)part;
	close(fds[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(bytes, 64 + 32 + 3000000 + 32);
	assert_int_equal(chunks_walk(data, bytes, &type), 2);
	assert_int_equal(type, CHUNK_END);
	free(data);
	free(payload);
}

static void a_closed_pipe_is_an_error_for_good(void **state)
{
	int fds[2], saved = dup(STDOUT_FILENO);
	struct file_writer *writer;

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDOUT_FILENO);
	writer = file_create("-");
	dup2(saved, STDOUT_FILENO);
	close(saved);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(file_append(writer, CHUNK_META, 0, "{}", 2, NULL, 0), 0);
	assert_int_equal(file_flush(writer), -EPIPE);
	assert_int_equal(file_close(writer, true), -EPIPE);
}

/* A disk of 8 MiB runs full: all chunks up to then are whole, and 900,000 bytes of closing fit. */
static void a_full_disk_leaves_room_for_the_closing(void **state)
{
	struct file_writer *writer;
	uint8_t *payload = malloc(1000000), *data;
	uint64_t before;
	uint16_t type = 0;
	size_t bytes, count = 0;
	int error = 0;

	(void)state;
	memset(payload, 'd', 1000000);
	if (mount("none", directory, "tmpfs", 0, "size=8m")) {
		free(payload);
		print_message("# mounting a small tmpfs needs CAP_SYS_ADMIN\n");
		skip();
	}
	writer = file_create(path);
	while (!(error = file_append(writer, CHUNK_VM, 0, payload, 0, payload, 100000)))
		count++;
	before = file_bytes(writer);
	/* 8 MiB less the reserve of 1 MiB hold 73 chunks of 100,032 bytes. */
	assert_int_equal(error, -ENOSPC);
	assert_int_equal(count, 73);
	assert_int_equal(file_append(writer, CHUNK_VM, 0, payload, 0, payload, 100000), -ENOSPC);
	assert_int_equal(file_bytes(writer), before);
	file_use_reserve(writer);
	assert_int_equal(file_append(writer, CHUNK_META, 0, payload, 0, payload, 900000), 0);
	assert_int_equal(file_close(writer, true), 0);
	data = file_load(path, &bytes);
	umount(directory);
	assert_int_equal(chunks_walk(data, bytes, &type), 73 + 2);
	assert_int_equal(type, CHUNK_END);
	free(data);
	free(payload);
}

static void the_disk_space_ahead_is_given_back(void **state)
{
	struct file_writer *writer = file_create(path);
	struct stat status;

	(void)state;
	assert_int_equal(file_append(writer, CHUNK_META, 0, "{}", 2, NULL, 0), 0);
	assert_int_equal(file_close(writer, true), 0);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_size, 64 + 40 + 32);
	assert_true(status.st_blocks * 512 <= 65536);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, directory_make, directory_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_size_is_whole_and_aligned),
		TEST(chunks_larger_than_the_buffer_are_whole),
		TEST(flushed_bytes_are_there_before_the_close),
		TEST(an_old_file_is_kept_as_old),
		TEST(what_cannot_be_created_says_why),
		TEST(a_device_is_written_to_and_its_error_stays),
		TEST(a_pipe_gets_the_same_bytes),
		TEST(a_closed_pipe_is_an_error_for_good),
		TEST(a_full_disk_leaves_room_for_the_closing),
		TEST(the_disk_space_ahead_is_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
