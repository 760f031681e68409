/* SPDX-License-Identifier: Apache-2.0 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* For a hash state on the stack. */
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#define BUFFER_BYTES   (1u << 20)
#define WINDOW_BYTES   (8u << 20) /* written back and dropped from the page cache at a time */
#define ALLOCATE_BYTES (16u << 20) /* disk space is taken in steps of this */

struct file_writer {
	int fd;
	bool stream; /* no seeking, no allocation: a pipe, a device, standard output */
	bool can_allocate;
	bool closing; /* the reserve may be used */
	int broken; /* a stream that took part of its data */
	uint64_t position; /* end of the file as the caller sees it */
	uint64_t flushed; /* where the buffer's first byte goes */
	uint64_t allocated; /* disk space is ours up to here */
	uint64_t reserve;
	uint64_t windows; /* bytes for which write-back was begun */
	uint64_t number;
	uint32_t used; /* bytes in the buffer */
	uint8_t buffer[BUFFER_BYTES];
};

uint64_t chunk_hash(const struct chunk_header *header, const void *head, uint64_t head_bytes,
		    const void *body, uint64_t body_bytes)
{
	XXH64_hash_t seed = XXH3_64bits(header, offsetof(struct chunk_header, hash));
	XXH3_state_t state;

	if (!body_bytes)
		return XXH3_64bits_withSeed(head, head_bytes, seed);
	if (!head_bytes)
		return XXH3_64bits_withSeed(body, body_bytes, seed);
	XXH3_INITSTATE(&state);
	XXH3_64bits_reset_withSeed(&state, seed);
	XXH3_64bits_update(&state, head, head_bytes);
	XXH3_64bits_update(&state, body, body_bytes);
	return XXH3_64bits_digest(&state);
}

static void read_boot_id(uint8_t id[16])
{
	char text[64] = {0};
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	unsigned int byte, digits = 0;

	memset(id, 0, 16);
	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) > 0) {
		for (const char *at = text; *at && digits < 32; at++) {
			if (sscanf((const char[]){*at, 0}, "%x", &byte) != 1)
				continue;
			id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | byte);
			digits++;
		}
	}
	close(fd);
}

/* A FIFO that nobody reads is an error (ENXIO): waiting for a reader could not be interrupted. */
static int stream_open(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	int flags = fd < 0 ? -1 : fcntl(fd, F_GETFL);

	if (flags >= 0)
		fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	return fd;
}

/* Returns the descriptor, or -1 with errno. *stream: it is no regular file of ours. */
static int output_open(const char *path, bool *stream)
{
	struct stat status;
	char *old = NULL;
	int fd;

	*stream = true;
	if (!strcmp(path, "-"))
		return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (!stat(path, &status) && !S_ISREG(status.st_mode))
		return stream_open(path);
	*stream = false;
	if (!lstat(path, &status)) {
		if (asprintf(&old, "%s.old", path) < 0) {
			errno = ENOMEM;
			return -1;
		}
		if (rename(path, old) && errno != ENOENT) {
			free(old);
			return -1;
		}
	}
	/* Not through a link that someone else puts there meanwhile: the directory may be shared. */
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && old) {
		int error = errno;

		rename(old, path);
		errno = error;
	}
	free(old);
	return fd;
}

/* Takes over the descriptor; -1: errno says why there is none. */
static struct file_writer *writer_new(int fd, bool stream)
{
	struct file_header header = {.version = FILE_VERSION, .header_bytes = sizeof(header)};
	struct file_writer *writer = fd < 0 ? NULL : calloc(1, sizeof(*writer));
	struct timespec now;

	if (!writer) {
		int error = errno;

		if (fd >= 0)
			close(fd);
		errno = error;
		return NULL;
	}
	writer->fd = fd;
	writer->stream = stream;
	writer->can_allocate = !writer->stream;
	writer->reserve = writer->stream ? 0 : FILE_RESERVE;
	clock_gettime(CLOCK_MONOTONIC, &now);
	memcpy(header.magic, FILE_MAGIC, sizeof(header.magic));
	header.created_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	read_boot_id(header.boot_id);
	memcpy(writer->buffer, &header, sizeof(header));
	writer->used = sizeof(header);
	writer->position = sizeof(header);
	return writer;
}

struct file_writer *file_create(const char *path)
{
	bool stream;
	int fd = output_open(path, &stream);

	return writer_new(fd, stream);
}

struct file_writer *file_create_on(int fd)
{
	return writer_new(fcntl(fd, F_DUPFD_CLOEXEC, 3), true);
}

/*
 * Make the disk space up to `end`, and the reserve behind it, ours before a byte of it is written.
 * In large steps while there is room, exactly when it gets tight.
 */
static int space_take(struct file_writer *writer, uint64_t end)
{
	uint64_t need = end + (writer->closing ? 0 : writer->reserve);
	int error = 0;

	if (!writer->can_allocate || need <= writer->allocated)
		return 0;
	for (uint64_t step = ALLOCATE_BYTES;; step = 0) {
		do
			error = fallocate(writer->fd, FALLOC_FL_KEEP_SIZE, (off_t)writer->allocated,
					  (off_t)(need + step - writer->allocated))
					? errno
					: 0;
		while (error == EINTR);
		if (!error) {
			writer->allocated = need + step;
			return 0;
		}
		if (!step)
			break;
	}
	if (error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == ENODEV) {
		writer->can_allocate = false;
		return 0;
	}
	return -error;
}

/*
 * Pages behind us are of no use to anyone: begin writing a window out as soon as it is complete,
 * and drop the one before it, which is on the disk by then or soon.
 */
static void pages_give_back(struct file_writer *writer)
{
	while (!writer->stream && writer->flushed - writer->windows >= WINDOW_BYTES) {
		off_t start = (off_t)writer->windows;

		sync_file_range(writer->fd, start, WINDOW_BYTES, SYNC_FILE_RANGE_WRITE);
		if (start) {
			sync_file_range(writer->fd, start - WINDOW_BYTES, WINDOW_BYTES,
					SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
						SYNC_FILE_RANGE_WAIT_AFTER);
			posix_fadvise(writer->fd, start - WINDOW_BYTES, WINDOW_BYTES,
				      POSIX_FADV_DONTNEED);
		}
		writer->windows += WINDOW_BYTES;
	}
}

static ssize_t output_write(struct file_writer *writer, const void *data, size_t bytes)
{
	ssize_t done;

	for (;;) {
		done = writer->stream ? write(writer->fd, data, bytes)
				      : pwrite(writer->fd, data, bytes, (off_t)writer->flushed);
		if (done > 0)
			return done;
		if (!done)
			return -EIO;
		if (errno == EAGAIN) {
			struct pollfd ready = {.fd = writer->fd, .events = POLLOUT};

			poll(&ready, 1, -1);
		} else if (errno != EINTR) {
			return -errno;
		}
	}
}

int file_flush(struct file_writer *writer)
{
	uint32_t done = 0;
	int error = writer->broken;

	while (!error && done < writer->used) {
		ssize_t bytes = output_write(writer, writer->buffer + done, writer->used - done);

		if (bytes < 0) {
			error = (int)bytes;
			break;
		}
		done += (uint32_t)bytes;
		writer->flushed += (uint64_t)bytes;
	}
	memmove(writer->buffer, writer->buffer + done, writer->used - done);
	writer->used -= done;
	pages_give_back(writer);
	return error;
}

static int bytes_put(struct file_writer *writer, const void *data, uint64_t bytes)
{
	const uint8_t *from = data;

	while (bytes) {
		uint32_t room = BUFFER_BYTES - writer->used;
		uint32_t part = bytes < room ? (uint32_t)bytes : room;

		if (part) {
			memcpy(writer->buffer + writer->used, from, part);
			writer->used += part;
			writer->position += part;
			from += part;
			bytes -= part;
		} else {
			int error = file_flush(writer);

			if (error)
				return error;
		}
	}
	return 0;
}

/* Take back what was put since `start`, wherever it is by now. */
static void bytes_take_back(struct file_writer *writer, uint64_t start, int error)
{
	if (start >= writer->flushed) {
		writer->used = (uint32_t)(start - writer->flushed);
	} else if (writer->stream) {
		writer->broken = error;
		writer->used = 0;
	} else {
		writer->used = 0;
		writer->flushed = start;
		if (writer->windows > start)
			writer->windows = start / WINDOW_BYTES * WINDOW_BYTES;
		if (ftruncate(writer->fd, (off_t)start))
			writer->broken = -errno;
		writer->allocated = 0; /* cut away as well */
	}
	writer->position = start;
}

int file_append(struct file_writer *writer, enum chunk_type type, uint32_t stream, const void *head,
		uint32_t head_bytes, const void *body, uint32_t body_bytes)
{
	struct chunk_header header = {.magic = CHUNK_MAGIC,
				      .type = (uint16_t)type,
				      .stream = stream,
				      .number = writer->number};
	static const uint8_t zeros[8];
	uint64_t start = writer->position;
	uint64_t payload = (uint64_t)head_bytes + body_bytes;
	uint64_t padding = -payload & 7;
	int error = writer->broken;

	if (error)
		return error;
	if (payload > CHUNK_MAX_BYTES)
		return -EMSGSIZE;
	error = space_take(writer, start + sizeof(header) + payload + padding);
	if (error)
		return error;
	header.bytes = (uint32_t)payload;
	header.hash = chunk_hash(&header, head, head_bytes, body, body_bytes);

	error = bytes_put(writer, &header, sizeof(header));
	if (!error)
		error = bytes_put(writer, head, head_bytes);
	if (!error)
		error = bytes_put(writer, body, body_bytes);
	if (!error)
		error = bytes_put(writer, zeros, padding);
	if (error)
		bytes_take_back(writer, start, error);
	else
		writer->number++;
	return error;
}

void file_use_reserve(struct file_writer *writer)
{
	writer->closing = true;
}

uint64_t file_bytes(const struct file_writer *writer)
{
	return writer->position;
}

int file_close(struct file_writer *writer, bool whole)
{
	int error = 0, other;

	file_use_reserve(writer);
	if (whole)
		error = file_append(writer, CHUNK_END, 0, NULL, 0, NULL, 0);
	other = file_flush(writer);
	if (!error)
		error = other;
	/* Gives back what was allocated beyond the end. */
	if (!writer->stream && ftruncate(writer->fd, (off_t)writer->flushed) && !error)
		error = -errno;
	if (close(writer->fd) && !error && errno != EINTR)
		error = -errno;
	free(writer);
	return error;
}
