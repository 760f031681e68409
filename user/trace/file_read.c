/* SPDX-License-Identifier: Apache-2.0 */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trc.h"

#define SCAN_BYTES (1u << 20)

/*
 * Hostile files: every place that looks like a chunk costs the hashing of up to CHUNK_MAX_BYTES. What
 * the search for whole chunks after a damage may hash altogether, beyond the file's own size.
 */
#define SEARCH_FACTOR 8
#define SEARCH_BYTES  (256u << 20)

/* What the index keeps beside the reader while it runs. */
struct index_scan {
	struct file_reader *reader;
	size_t capacity;
	uint8_t *payload; /* of one chunk, as large as the largest so far */
	uint32_t payload_bytes;
	uint8_t *window; /* for the search */
	uint64_t search_budget;
};

static int bytes_read(int fd, void *buffer, uint64_t bytes, uint64_t offset)
{
	uint8_t *to = buffer;

	while (bytes) {
		ssize_t done = pread(fd, to, bytes, (off_t)offset);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		if (!done)
			return -EIO; /* it became shorter */
		to += done;
		bytes -= (uint64_t)done;
		offset += (uint64_t)done;
	}
	return 0;
}

static uint64_t chunk_span(const struct chunk_header *header)
{
	return sizeof(*header) + (((uint64_t)header->bytes + 7) & ~(uint64_t)7);
}

/* Could these bytes at `offset` be a chunk that lies whole in the file? The padding may be missing. */
static bool chunk_plausible(const struct file_reader *reader, const struct chunk_header *header,
			    uint64_t offset)
{
	return header->magic == CHUNK_MAGIC && header->bytes <= CHUNK_MAX_BYTES &&
	       reader->bytes - offset - sizeof(*header) >= header->bytes;
}

/* Returns 1 when a whole chunk with a good checksum stands at `offset`, 0 when not, or -errno. */
static int chunk_check(struct index_scan *scan, uint64_t offset, struct chunk_header *header)
{
	struct file_reader *reader = scan->reader;
	int error;

	if (reader->bytes - offset < sizeof(*header))
		return 0;
	error = bytes_read(reader->fd, header, sizeof(*header), offset);
	if (error)
		return error;
	if (!chunk_plausible(reader, header, offset))
		return 0;
	if (header->bytes > scan->payload_bytes) {
		uint8_t *payload = realloc(scan->payload, header->bytes);

		if (!payload)
			return -ENOMEM;
		scan->payload = payload;
		scan->payload_bytes = header->bytes;
	}
	error = bytes_read(reader->fd, scan->payload, header->bytes, offset + sizeof(*header));
	if (error)
		return error;
	return chunk_hash(header, scan->payload, header->bytes, NULL, 0) == header->hash;
}

static int chunk_keep(struct index_scan *scan, const struct chunk_header *header, uint64_t offset)
{
	struct file_reader *reader = scan->reader;

	if (reader->count == scan->capacity) {
		size_t capacity = scan->capacity ? scan->capacity * 2 : 1024;
		struct chunk *chunks = realloc(reader->chunks, capacity * sizeof(*chunks));

		if (!chunks)
			return -ENOMEM;
		reader->chunks = chunks;
		scan->capacity = capacity;
	}
	reader->chunks[reader->count].header = *header;
	reader->chunks[reader->count].offset = offset + sizeof(*header);
	reader->count++;
	return 0;
}

/*
 * Where the file next has data, at `from` or later: a chunk does not begin in a hole, and reading
 * holes of a sparse file would take as long as reading what they claim to hold.
 */
static uint64_t hole_skip(const struct file_reader *reader, uint64_t from)
{
	off_t data = lseek(reader->fd, (off_t)from, SEEK_DATA);

	if (data < 0)
		return errno == ENXIO ? reader->bytes : from;
	/* it may have grown since we asked for its size */
	if ((uint64_t)data >= reader->bytes)
		return reader->bytes;
	return (uint64_t)data > from ? (uint64_t)data & ~(uint64_t)7 : from;
}

/*
 * The next whole chunk after a damage, at `from` or later. Returns 1 and its place, 0 when there is
 * none, or -errno.
 */
static int chunk_search(struct index_scan *scan, uint64_t from, uint64_t *found,
			struct chunk_header *header)
{
	struct file_reader *reader = scan->reader;

	if (!scan->window)
		scan->window = malloc(SCAN_BYTES);
	if (!scan->window)
		return -ENOMEM;
	while (reader->bytes - (from = hole_skip(reader, from)) >= sizeof(*header)) {
		uint64_t bytes = reader->bytes - from;
		uint64_t at;
		int error;

		if (bytes > SCAN_BYTES)
			bytes = SCAN_BYTES;
		error = bytes_read(reader->fd, scan->window, bytes, from);
		if (error)
			return error;
		for (at = 0; bytes - at >= sizeof(*header); at += 8) {
			memcpy(header, scan->window + at, sizeof(*header));
			if (!chunk_plausible(reader, header, from + at))
				continue;
			if (scan->search_budget < header->bytes)
				return 0;
			scan->search_budget -= header->bytes;
			error = chunk_check(scan, from + at, header);
			if (error < 0)
				return error;
			if (error) {
				*found = from + at;
				return 1;
			}
		}
		from += at;
	}
	return 0;
}

/* Account for the bytes between two whole chunks; the gap in the numbers says how many are missing. */
static void damage_count(struct file_reader *reader, uint64_t bytes, uint64_t expected,
			 uint64_t number)
{
	uint64_t missing = number > expected ? number - expected : 1;

	if (missing > bytes / sizeof(struct chunk_header))
		missing = 1;
	reader->damage.damaged_chunks += missing;
	reader->damage.skipped_bytes += bytes;
}

/* What follows the last whole chunk: damaged chunks as long as their ends are in the file, then a cut. */
static int tail_count(struct file_reader *reader, uint64_t offset)
{
	struct chunk_header header;

	while (reader->bytes - offset >= sizeof(header)) {
		int error = bytes_read(reader->fd, &header, sizeof(header), offset);
		uint64_t span;

		if (error)
			return error;
		if (!chunk_plausible(reader, &header, offset))
			break;
		span = chunk_span(&header);
		if (span > reader->bytes - offset)
			span = reader->bytes - offset;
		reader->damage.damaged_chunks++;
		reader->damage.skipped_bytes += span;
		offset += span;
	}
	reader->damage.truncated_bytes = reader->bytes - offset;
	return 0;
}

static int chunks_index(struct index_scan *scan)
{
	struct file_reader *reader = scan->reader;
	uint64_t offset = reader->header.header_bytes;
	uint64_t expected = 0;

	while (offset < reader->bytes) {
		struct chunk_header header;
		int found = chunk_check(scan, offset, &header);

		if (!found) {
			uint64_t damaged = offset;

			found = chunk_search(
				scan, offset + 8 < reader->bytes ? offset + 8 : reader->bytes,
				&offset, &header);
			if (!found)
				return tail_count(reader, damaged);
			if (found > 0)
				damage_count(reader, offset - damaged, expected, header.number);
		}
		if (found < 0)
			return found;
		found = chunk_keep(scan, &header, offset);
		if (found)
			return found;
		expected = header.number + 1;
		offset += chunk_span(&header);
	}
	return 0;
}

/* Does what was spooled so far still look like a recording? What never ends would fill the disk. */
static bool spool_plausible(int fd, uint64_t bytes)
{
	const size_t magic = sizeof(FILE_MAGIC) - 1;
	uint8_t begin[TRC_BEGIN_BYTES];
	ssize_t found;

	if (bytes < sizeof(begin))
		return true;
	found = pread(fd, begin, sizeof(begin), 0);
	return found == (ssize_t)sizeof(begin) &&
	       (!memcmp(begin, FILE_MAGIC, magic) || trc_begins(begin, sizeof(begin)));
}

/* Copy what cannot be read at will to where it can. Returns a descriptor or -errno. */
static int pipe_spool(int from)
{
	char name[] = "/var/tmp/beamweave_XXXXXX";
	uint8_t *buffer = malloc(SCAN_BYTES);
	uint64_t total = 0;
	ssize_t bytes = 0;
	int fd = -1, error = 0;

	if (!buffer)
		return -ENOMEM;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0) {
		error = -errno;
		goto cleanup;
	}
	unlink(name);
	while ((bytes = read(from, buffer, SCAN_BYTES)) != 0) {
		ssize_t done = 0;

		if (bytes < 0 && errno != EINTR) {
			error = -errno;
			goto cleanup;
		}
		while (done < bytes) {
			ssize_t part = write(fd, buffer + done, (size_t)(bytes - done));

			if (part < 0 && errno != EINTR) {
				error = -errno;
				goto cleanup;
			}
			done += part > 0 ? part : 0;
		}
		total += (uint64_t)done;
		if (!spool_plausible(fd, total)) {
			error = -EINVAL;
			goto cleanup;
		}
	}
cleanup:
	free(buffer);
	if (error && fd >= 0)
		close(fd);
	return error ? error : fd;
}

/* Returns a descriptor of a file that can be read at any place, or -errno. */
static int input_open(const char *path)
{
	int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
				   : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	struct stat status = {0};
	int spool;

	if (fd < 0)
		return -errno;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode))
		return fd;
	spool = S_ISDIR(status.st_mode) ? -EISDIR : pipe_spool(fd);
	close(fd);
	return spool;
}

/* Is it no recording of ours, but what a trace port of OTP writes? */
static bool trc_look(struct file_reader *reader)
{
	uint8_t begin[TRC_BEGIN_BYTES];
	size_t bytes = reader->bytes < sizeof(begin) ? reader->bytes : sizeof(begin);

	reader->trc = !bytes_read(reader->fd, begin, bytes, 0) && trc_begins(begin, bytes);
	return reader->trc;
}

int file_open(struct file_reader *reader, const char *path)
{
	struct index_scan scan = {.reader = reader};
	struct stat status;
	int error;

	memset(reader, 0, sizeof(*reader));
	reader->fd = input_open(path);
	if (reader->fd < 0)
		return reader->fd;
	if (fstat(reader->fd, &status)) {
		error = -errno;
		goto cleanup;
	}
	reader->bytes = (uint64_t)status.st_size;
	if (trc_look(reader))
		return 0;
	error = -EINVAL;
	if (reader->bytes < sizeof(reader->header))
		goto cleanup;
	error = bytes_read(reader->fd, &reader->header, sizeof(reader->header), 0);
	if (error)
		goto cleanup;
	if (memcmp(reader->header.magic, FILE_MAGIC, sizeof(reader->header.magic))) {
		error = -EINVAL;
		goto cleanup;
	}
	if (reader->header.version != FILE_VERSION) {
		error = -EPROTO;
		goto cleanup;
	}
	/* A longer header of the same version would have to keep the chunks aligned. */
	if (reader->header.header_bytes < sizeof(reader->header) ||
	    reader->header.header_bytes > 4096 || reader->header.header_bytes % 8)
		reader->header.header_bytes = sizeof(reader->header);
	scan.search_budget = reader->bytes * SEARCH_FACTOR + SEARCH_BYTES;
	error = chunks_index(&scan);
	reader->damage.no_end = !reader->count ||
				reader->chunks[reader->count - 1].header.type != CHUNK_END;
cleanup:
	free(scan.payload);
	free(scan.window);
	if (error)
		file_reader_close(reader);
	return error;
}

int file_read(const struct file_reader *reader, const struct chunk *chunk, void *buffer)
{
	if (bytes_read(reader->fd, buffer, chunk->header.bytes, chunk->offset))
		return -EIO;
	/* The file may have changed under us since the index was made. */
	if (chunk_hash(&chunk->header, buffer, chunk->header.bytes, NULL, 0) != chunk->header.hash)
		return -EIO;
	return 0;
}

int file_peek(const struct file_reader *reader, const struct chunk *chunk, void *buffer,
	      uint32_t bytes)
{
	if (bytes > chunk->header.bytes)
		return -EIO;
	return bytes_read(reader->fd, buffer, bytes, chunk->offset);
}

void file_reader_close(struct file_reader *reader)
{
	if (reader->fd >= 0)
		close(reader->fd);
	free(reader->chunks);
	memset(reader, 0, sizeof(*reader));
	reader->fd = -1;
}
