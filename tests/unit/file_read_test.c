/* SPDX-License-Identifier: Apache-2.0 */
/* The .bwt reader: whole files, cut ones, damaged ones and hostile ones. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "file.h"
#include "file_fixture.h"

/* Ten META chunks of 0, 100, ... 900 bytes and an END: 11 chunks. */
static void ten_chunks(void)
{
	struct file_writer *writer = file_create(path);
	uint8_t payload[900];

	for (unsigned int i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 31);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(file_append(writer, CHUNK_META, i, payload, 100 * i, NULL, 0), 0);
	assert_int_equal(file_close(writer, true), 0);
}

/* Where chunk i of these begins: 64 bytes of header, then 32 and the payload rounded up to 8 each. */
static uint64_t ten_offset(uint32_t chunk)
{
	uint64_t offset = 64;

	for (uint32_t i = 0; i < chunk; i++)
		offset += 32 + (i < 10 ? (100 * i + 7) / 8 * 8 : 0);
	return offset;
}

static void file_store(const void *data, size_t bytes)
{
	FILE *file;

	/* A new file: ext4 writes one that was truncated out to the disk when it is closed. */
	unlink(path);
	file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(data, 1, bytes, file), bytes);
	fclose(file);
}

static void a_whole_file_reads_whole(void **state)
{
	struct file_reader reader;
	uint8_t payload[900];

	(void)state;
	ten_chunks();
	assert_int_equal(file_open(&reader, path), 0);
	assert_int_equal(reader.count, 11);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(reader.chunks[i].header.stream, i);
		assert_int_equal(reader.chunks[i].header.bytes, 100 * i);
		assert_int_equal(reader.chunks[i].offset, ten_offset(i) + 32);
		assert_int_equal(file_read(&reader, &reader.chunks[i], payload), 0);
		for (uint32_t j = 0; j < 100 * i; j++)
			assert_int_equal(payload[j], (uint8_t)(j * 31));
	}
	assert_false(reader.damage.no_end);
	assert_int_equal(reader.damage.damaged_chunks, 0);
	assert_int_equal(reader.damage.skipped_bytes, 0);
	assert_int_equal(reader.damage.truncated_bytes, 0);
	file_reader_close(&reader);
}

static void a_cut_file_reads_up_to_its_last_whole_chunk(void **state)
{
	struct file_reader reader;
	uint8_t *data;
	size_t bytes;

	(void)state;
	ten_chunks();
	data = file_load(path, &bytes);
	assert_int_equal(bytes, ten_offset(11));
	for (size_t cut = 64; cut < bytes; cut++) {
		uint32_t whole = 0;

		/* The padding after a payload may be missing. */
		while (whole < 11 && ten_offset(whole) + 32 + (whole < 10 ? 100 * whole : 0) <= cut)
			whole++;
		file_store(data, cut);
		assert_int_equal(file_open(&reader, path), 0);
		assert_int_equal(reader.count, whole);
		assert_true(reader.damage.no_end);
		assert_int_equal(reader.damage.damaged_chunks, 0);
		assert_int_equal(reader.damage.truncated_bytes,
				 cut > ten_offset(whole) ? cut - ten_offset(whole) : 0);
		file_reader_close(&reader);
	}
	free(data);
}

static void any_turned_bit_costs_one_chunk(void **state)
{
	struct file_reader reader;
	uint8_t *data;
	size_t bytes;

	(void)state;
	ten_chunks();
	data = file_load(path, &bytes);
	for (size_t at = 64; at < bytes; at++) {
		uint32_t chunk = 0;
		bool padding;

		while (ten_offset(chunk + 1) <= at)
			chunk++;
		padding = chunk < 10 && at >= ten_offset(chunk) + 32 + 100 * chunk;
		data[at] ^= (uint8_t)(1 << at % 8);
		file_store(data, bytes);
		data[at] ^= (uint8_t)(1 << at % 8);
		assert_int_equal(file_open(&reader, path), 0);
		assert_int_equal(reader.count, padding ? 11 : 10);
		for (uint32_t i = 0; i < reader.count; i++)
			assert_int_equal(reader.chunks[i].header.number,
					 padding || i < chunk ? i : i + 1);
		if (!padding && chunk < 10) {
			assert_int_equal(reader.damage.damaged_chunks, 1);
			assert_int_equal(reader.damage.skipped_bytes,
					 ten_offset(chunk + 1) - ten_offset(chunk));
		}
		file_reader_close(&reader);
	}
	free(data);
}

static void what_is_no_recording_is_told_from_a_newer_one(void **state)
{
	struct file_reader reader;
	struct file_header header = {.version = FILE_VERSION + 1, .header_bytes = 64};

	(void)state;
	assert_int_equal(file_open(&reader, path), -ENOENT);
	assert_int_equal(file_open(&reader, directory), -EISDIR);
	file_store("", 0);
	assert_int_equal(file_open(&reader, path), -EINVAL);
	file_store(&header, sizeof(header));
	assert_int_equal(file_open(&reader, path), -EINVAL);
	memcpy(header.magic, FILE_MAGIC, 8);
	file_store(&header, sizeof(header) - 1);
	assert_int_equal(file_open(&reader, path), -EINVAL);
	file_store(&header, sizeof(header));
	assert_int_equal(file_open(&reader, path), -EPROTO);
	header.version = FILE_VERSION;
	file_store(&header, sizeof(header));
	assert_int_equal(file_open(&reader, path), 0);
	assert_int_equal(reader.count, 0);
	assert_true(reader.damage.no_end);
	file_reader_close(&reader);
}

static void a_file_that_changes_after_the_index_is_found_out(void **state)
{
	struct file_reader reader;
	uint8_t payload[900];
	uint8_t *data;
	size_t bytes;
	FILE *file;

	(void)state;
	ten_chunks();
	data = file_load(path, &bytes);
	assert_int_equal(file_open(&reader, path), 0);
	file = fopen(path, "r+b");
	fseek(file, (long)ten_offset(5) + 40, SEEK_SET);
	fputc(data[ten_offset(5) + 40] ^ 1, file);
	fclose(file);
	assert_int_equal(file_read(&reader, &reader.chunks[5], payload), -EIO);
	assert_int_equal(file_read(&reader, &reader.chunks[6], payload), 0);
	assert_int_equal(truncate(path, (off_t)ten_offset(6)), 0);
	assert_int_equal(file_read(&reader, &reader.chunks[6], payload), -EIO);
	file_reader_close(&reader);
	free(data);
}

/* Places that look like chunks and are none must not make the search for the next one endless. */
static void a_file_full_of_false_chunks_ends(void **state)
{
	const size_t bytes = 24u << 20;
	uint8_t *data = malloc(bytes);
	struct chunk_header header = {.magic = CHUNK_MAGIC, .type = CHUNK_VM, .bytes = 8u << 20};
	struct file_reader reader;

	(void)state;
	ten_chunks();
	for (size_t at = 0; at + sizeof(header) <= bytes; at += sizeof(header))
		memcpy(data + at, &header, sizeof(header));
	memcpy(data, "BWTRACE1\1\0\0\0\100\0\0\0", 16);
	file_store(data, bytes);
	assert_int_equal(file_open(&reader, path), 0);
	assert_int_equal(reader.count, 0);
	file_reader_close(&reader);
	free(data);
}

static void a_pipe_can_be_read(void **state)
{
	struct file_reader reader;
	char fifo[160];
	uint8_t *data;
	size_t bytes;
	int status;
	pid_t child;

	(void)state;
	ten_chunks();
	data = file_load(path, &bytes);
	snprintf(fifo, sizeof(fifo), "%s/fifo", directory);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	child = fork();
	if (!child) {
		int fd = open(fifo, O_WRONLY);

		_exit(write(fd, data, bytes) != (ssize_t)bytes);
	}
	assert_int_equal(file_open(&reader, fifo), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(reader.count, 11);
	file_reader_close(&reader);
	unlink(fifo);
	free(data);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, directory_make, directory_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_whole_file_reads_whole),
		TEST(a_cut_file_reads_up_to_its_last_whole_chunk),
		TEST(any_turned_bit_costs_one_chunk),
		TEST(what_is_no_recording_is_told_from_a_newer_one),
		TEST(a_file_that_changes_after_the_index_is_found_out),
		TEST(a_file_full_of_false_chunks_ends),
		TEST(a_pipe_can_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
