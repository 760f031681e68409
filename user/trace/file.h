/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_FILE_H
#define BEAMWEAVE_FILE_H

/*
 * The .bwt file: a header and then chunks, each with a checksum of its own. It is written from front
 * to back without seeking, so that it can be a pipe, and a file cut anywhere reads up to its last
 * whole chunk. Little-endian; chunks start at multiples of 8.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define FILE_MAGIC	"BWTRACE1"
#define FILE_VERSION	1
#define CHUNK_MAGIC	0x4b435742u /* "BWCK" */
#define CHUNK_MAX_BYTES (1u << 24) /* of a payload; more is damage */

struct file_header {
	char magic[8];
	uint32_t version;
	uint32_t header_bytes;
	uint64_t created_ns; /* CLOCK_MONOTONIC */
	uint8_t boot_id[16]; /* clocks of two files compare only when equal */
	uint8_t reserved[24];
};

/* Append-only values. */
enum chunk_type {
	CHUNK_META = 1, /* a JSON object (meta.h); the newest holds */
	CHUNK_VM = 2, /* struct chunk_vm, then bytes of a sub-buffer */
	CHUNK_KERNEL = 3, /* records of probes.h of one CPU, one after the other */
	CHUNK_DICT = 4, /* struct chunk_dict, then bytes of the dictionary */
	CHUNK_THREADS = 5, /* struct chunk_threads, then count of struct ring_thread */
	CHUNK_COUNTS = 6, /* struct probe_counts of one CPU (stream) */
	CHUNK_CLOCK = 7, /* struct chunk_clock */
	CHUNK_TASKS =
		8, /* count of struct chunk_task: threads that exist when the recording starts */
	CHUNK_SAMPLE =
		9, /* struct chunk_sample, then a JSON object: counters that the recorder read */
	CHUNK_END = 10, /* empty: the recording was closed in order */
	CHUNK_VM_INFO = 11, /* struct ring_vm of the session */
	CHUNK_TRC = 12, /* struct chunk_trc, then bytes of OTP's trace-port framing */
};

struct chunk_header {
	uint32_t magic;
	uint16_t type; /* enum chunk_type */
	uint16_t flags; /* 0 */
	uint32_t stream; /* VM: thread index; kernel: CPU; a clock: 0, CLOCK_MARK; else 0 */
	uint32_t bytes; /* of the payload, without the padding to 8 */
	uint64_t number; /* of the chunk in the file, from 0 */
	uint64_t hash; /* XXH3_64bits of the payload, seeded with XXH3 of the fields above */
};

struct chunk_vm {
	uint64_t sequence;
	uint64_t base_ns;
	uint32_t from; /* offset in the sub-buffer; 0: a struct ring_subbuf comes first */
	uint32_t bytes;
};

struct chunk_dict {
	uint64_t offset; /* in the session's dictionary, a multiple of RING_DICT_SLOT */
};

struct chunk_threads {
	uint32_t count;
	uint32_t kinds; /* RING_KINDS */
	uint64_t unclaimed_discarded;
	uint64_t dict_discarded;
	uint64_t taken_ns;
};

/* The stream of a clock chunk: all that was recorded before that time stands before the chunk. */
#define CLOCK_MARK 1

struct chunk_clock {
	uint64_t monotonic_ns, boottime_ns, realtime_ns;
};

struct chunk_task {
	int32_t tid, tgid;
	int32_t ns_tid; /* in the target's pid namespace */
	int32_t state; /* as /proc prints it: 'S', 'R', ...; 0 unknown */
	char comm[16];
};

struct chunk_sample {
	uint64_t ts_ns;
};

/* A frame may lie across two chunks. */
struct chunk_trc {
	uint64_t offset; /* in the stream that the port sent */
	uint64_t received_ns; /* CLOCK_MONOTONIC */
};

_Static_assert(sizeof(struct file_header) == 64, "file header");
_Static_assert(sizeof(struct chunk_header) == 32, "chunk header");
_Static_assert(sizeof(struct chunk_vm) == 24, "vm chunk");
_Static_assert(sizeof(struct chunk_task) == 32, "task");

/* The checksum of a chunk whose header has all its other fields; the payload in two parts. */
uint64_t chunk_hash(const struct chunk_header *header, const void *head, uint64_t head_bytes,
		    const void *body, uint64_t body_bytes);

/* ---- Writing ---- */

struct file_writer;

/*
 * Create `path` ("-" is standard output). A file that is there becomes `path`.old; what is there and
 * is no regular file (a FIFO, a device) is written to as it stands. Mode 0600. Errors: NULL with
 * errno. The data reaches the disk without filling the page cache. Writing to a closed pipe raises
 * SIGPIPE unless the program ignores it.
 */
struct file_writer *file_create(const char *path);
/* The same into an open file that the caller keeps: it is appended to, and read while it grows. */
struct file_writer *file_create_on(int fd);
/*
 * Append a chunk whose payload is given in up to two parts. Returns 0 or -errno (-ENOSPC, -EPIPE):
 * then nothing of this chunk is in the file, all before it is, and it may be tried again. Only a
 * stream that took part of its data stays failed.
 */
int file_append(struct file_writer *writer, enum chunk_type type, uint32_t stream, const void *head,
		uint32_t head_bytes, const void *body, uint32_t body_bytes);
/*
 * A full disk. The writer keeps FILE_RESERVE bytes of the disk allocated beyond the file's end
 * (fallocate), so that -ENOSPC comes while there is still room for what closes a recording: its
 * last META, THREADS, COUNTS, CLOCK and END. file_use_reserve() says that what follows is the
 * closing: it may use the reserve up. File systems without fallocate and streams have no reserve.
 */
#define FILE_RESERVE (1u << 20)
void file_use_reserve(struct file_writer *writer);
/* Hand what is buffered to the kernel. */
int file_flush(struct file_writer *writer);
uint64_t file_bytes(const struct file_writer *writer);
/*
 * Append CHUNK_END when `whole` (from the reserve if need be), flush, close and free the writer.
 * Returns 0 or the first error of these.
 */
int file_close(struct file_writer *writer, bool whole);

/* ---- Reading ---- */

struct chunk {
	struct chunk_header header;
	uint64_t offset; /* of the payload in the file */
};

/* What a damaged file lacks. */
struct file_damage {
	bool no_end; /* the recording was not closed in order */
	uint64_t damaged_chunks; /* checksums that do not match; skipped */
	uint64_t skipped_bytes;
	uint64_t truncated_bytes; /* after the last whole chunk */
	/* found while decoding; known after trace_open() */
	uint64_t damaged_records; /* lengths or contents that make no sense; lost */
	uint64_t unknown_records; /* of kinds that this version does not know; counted, not given */
	uint64_t clamped_records; /* went back in time; given at the time of the one before */
};

struct file_reader {
	int fd;
	uint64_t bytes;
	struct file_header header;
	struct chunk *chunks; /* in file order, all with good checksums */
	size_t count;
	struct file_damage damage;
	bool trc; /* no chunks: the file is what a trace port of OTP wrote (trc.h) */
};

/*
 * Open and index: every chunk's checksum is verified once, here. Memory: 40 bytes a chunk. "-" and
 * pipes are first copied to an unnamed temporary file. Returns 0, -errno, -EINVAL (neither a .bwt nor
 * what a trace port of OTP writes), -EPROTO (a newer version).
 */
int file_open(struct file_reader *reader, const char *path);
/* Read a chunk's payload into `buffer` of at least header.bytes. Returns 0, or -EIO when it changed. */
int file_read(const struct file_reader *reader, const struct chunk *chunk, void *buffer);
/* The first bytes of a payload, unchecked: a hint that file_read() has to confirm. */
int file_peek(const struct file_reader *reader, const struct chunk *chunk, void *buffer,
	      uint32_t bytes);
void file_reader_close(struct file_reader *reader);

#endif
