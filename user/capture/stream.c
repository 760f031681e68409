/* SPDX-License-Identifier: Apache-2.0 */
#include "stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "ring_term.h"

#define NAME	  "beamweave_ip"
#define SECOND_NS 1000000000ull
/* At the end the node's side waits for all that the VM has queued for the port. */
#define ANSWER_NS   (60 * SECOND_NS)
#define ASK_MS	    1000
#define ASK_SOON_MS 10
#define ENTRIES_MAX (64u << 20) /* that wait for the recorder */
#define READ_BYTES  (256u << 10)
#define FRAME_HEAD  5u
#define OP_DROPPED  1
/* So much of a message tells its kind: a process with a long node name may stand before the tag. */
#define PEEK_BYTES 1100u
/* Do not wake up for each event. */
#define LOW_WATER_BYTES	 (32 << 10)
#define ENTRY_HEAD_BYTES 10u /* type and key, as beamweave_ip has them */

struct stream {
	int fd;
	struct start_port port;

	/* Of the recorder alone. */
	uint8_t *buffer; /* READ_BYTES and what is undecided of the last read */
	size_t undecided;
	uint64_t skip; /* of the frame at hand, in the bytes to come */
	uint64_t offset; /* in the stream, of what is stored */
	bool ended; /* its last words came, or the connection's end */
	bool odd; /* what comes are no frames: stored, not counted */
	struct rings_counts counts;
	uint64_t dict_offset;

	/* Set by the recorder, seen by the thread that asks, which looks before each question; they
	 * order nothing. */
	atomic_bool stop;
	atomic_bool words_seen;

	pthread_mutex_t mutex; /* for all below: written by the thread that asks */
	pthread_cond_t changed; /* the recorder wants an answer at once */
	uint8_t *entries; /* struct ring_dict_entry, one after the other */
	size_t entry_bytes, entry_capacity;
	uint32_t tracer, reason;
	bool served; /* nothing more will be told */
};

/* ---- Connecting ---- */

static int connect_wait(int fd, short events, uint64_t deadline_ns)
{
	struct pollfd ready = {.fd = fd, .events = events};

	for (;;) {
		uint64_t now_ns = clock_ns();
		int result = poll(&ready, 1,
				  now_ns < deadline_ns ? (int)((deadline_ns - now_ns) / 1000000 + 1)
						       : 0);

		if (result > 0)
			return 0;
		if (!result)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
}

static int socket_connect(int fd, uint16_t port, uint64_t deadline_ns)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons(port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(int);
	int error;

	if (!connect(fd, (const struct sockaddr *)&address, sizeof(address)))
		return 0;
	if (errno != EINPROGRESS)
		return -errno;
	error = connect_wait(fd, POLLOUT, deadline_ns);
	if (error)
		return error;
	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) ? -errno : -error;
}

/* The first frame holds what only we were told. Returns 0, -EBUSY, -errno. */
static int words_read(int fd, const struct start_port *port, uint64_t deadline_ns)
{
	uint8_t frame[FRAME_HEAD + START_WORDS_BYTES];
	size_t wanted = FRAME_HEAD + (size_t)port->words_bytes;

	for (size_t have = 0; have < wanted;) {
		int error = connect_wait(fd, POLLIN, deadline_ns);
		ssize_t got;

		if (error)
			return error;
		got = recv(fd, frame + have, wanted - have, 0);
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		/* Whoever comes second is accepted and closed. */
		if (!got || (got < 0 && errno == ECONNRESET))
			return -EBUSY;
		if (got < 0)
			return -errno;
		have += (size_t)got;
	}
	return memcmp(frame + FRAME_HEAD, port->words, (size_t)port->words_bytes) ? -EBUSY : 0;
}

int stream_open(struct stream **opened, const struct start_port *port, uint64_t deadline_ns,
		struct fault *fault)
{
	struct stream *stream = calloc(1, sizeof(*stream));
	int low = LOW_WATER_BYTES, error;

	*opened = NULL;
	if (!stream)
		return fault_set(fault, -ENOMEM, NULL, "out of memory");
	pthread_mutex_init(&stream->mutex, NULL);
	pthread_cond_init(&stream->changed, NULL);
	stream->port = *port;
	stream->buffer = malloc(READ_BYTES + FRAME_HEAD + PEEK_BYTES);
	stream->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	error = !stream->buffer ? -ENOMEM : stream->fd < 0 ? -errno : 0;
	if (!error)
		error = socket_connect(stream->fd, port->port, deadline_ns);
	if (!error)
		error = words_read(stream->fd, port, deadline_ns);
	if (error) {
		stream_close(stream);
		if (error == -EBUSY)
			return fault_set(fault, error, "try again, and see who connects to ports",
					 "somebody else connected to the VM's IP trace port before "
					 "us");
		return fault_set(fault, error, NULL, "cannot connect to the VM's IP trace port: %s",
				 strerror(-error));
	}
	setsockopt(stream->fd, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof(low));
	*opened = stream;
	return 0;
}

void stream_close(struct stream *stream)
{
	if (!stream)
		return;
	if (stream->fd >= 0)
		close(stream->fd);
	pthread_cond_destroy(&stream->changed);
	pthread_mutex_destroy(&stream->mutex);
	free(stream->entries);
	free(stream->buffer);
	free(stream);
}

/* ---- Asking ---- */

/* One entry as it stands in a dictionary; with the mutex held. */
static int entry_add(struct stream *stream, const uint8_t *told, size_t bytes)
{
	struct ring_dict_entry *entry;
	uint16_t payload = (uint16_t)(bytes - ENTRY_HEAD_BYTES);
	size_t size = ring_dict_size(payload);

	if (size > ENTRIES_MAX - stream->entry_bytes)
		return -ENOSPC;
	if (stream->entry_bytes + size > stream->entry_capacity) {
		size_t capacity = stream->entry_capacity * 2 + size + 4096;
		uint8_t *entries = realloc(stream->entries, capacity);

		if (!entries)
			return -ENOMEM;
		stream->entries = entries;
		stream->entry_capacity = capacity;
	}
	entry = (struct ring_dict_entry *)(stream->entries + stream->entry_bytes);
	memset(entry, 0, size);
	memcpy(&entry->type, told, sizeof(entry->type));
	memcpy(&entry->key, told + sizeof(entry->type), sizeof(entry->key));
	entry->bytes = payload;
	memcpy(entry + 1, told + ENTRY_HEAD_BYTES, payload);
	/* relaxed: nobody else sees it before the mutex is given back */
	atomic_init(&entry->check, ring_dict_check(entry->type, payload, entry->key, entry + 1));
	stream->entry_bytes += size;
	return 0;
}

/* {Tracer, Reason, [Entry]}. Returns the number of entries or -EBADMSG. */
static int answer_take(struct stream *stream, const char *data, int index)
{
	unsigned long tracer, reason;
	int arity, count = 0;

	if (ei_decode_tuple_header(data, &index, &arity) || arity != 3 ||
	    ei_decode_ulong(data, &index, &tracer) || ei_decode_ulong(data, &index, &reason) ||
	    ei_decode_list_header(data, &index, &count))
		return -EBADMSG;
	pthread_mutex_lock(&stream->mutex);
	for (int i = 0; i < count; i++) {
		int type, size;

		if (ei_get_type(data, &index, &type, &size) || type != ERL_BINARY_EXT ||
		    size < (int)ENTRY_HEAD_BYTES ||
		    size > (int)(RING_DICT_PAYLOAD_MAX + ENTRY_HEAD_BYTES))
			break;
		/* behind the tag and the length */
		entry_add(stream, (const uint8_t *)data + index + 5, (size_t)size);
		index += 5 + size;
	}
	stream->tracer = (uint32_t)tracer;
	stream->reason = (uint32_t)reason;
	pthread_mutex_unlock(&stream->mutex);
	return count;
}

/* Until the next question is due. */
static void ask_wait(struct stream *stream, unsigned int ms)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&stream->mutex);
	if (ms <= ASK_SOON_MS || !stream->stop)
		pthread_cond_timedwait(&stream->changed, &stream->mutex, &until);
	pthread_mutex_unlock(&stream->mutex);
}

void stream_serve(struct stream *stream, struct door *door)
{
	struct fault fault = {0};
	ei_x_buff reply;
	int error = ei_x_new(&reply) ? -ENOMEM : 0;

	while (!error) {
		bool flags[2] = {stream->stop, stream->words_seen};
		int index, count;

		door_deadline(door, clock_ns() + ANSWER_NS);
		error = door_ask(door, NAME, "take", flags, &reply, &index, &fault);
		if (error)
			break;
		count = answer_take(stream, reply.buff, index);
		if (count < 0 || (!count && stream_tracer(stream) == RING_TRACER_ENDED))
			break;
		ask_wait(stream, count || flags[0] || stream->words_seen ? ASK_SOON_MS : ASK_MS);
	}
	ei_x_free(&reply);
	pthread_mutex_lock(&stream->mutex);
	stream->served = true;
	pthread_mutex_unlock(&stream->mutex);
}

static void ask_now(struct stream *stream)
{
	pthread_mutex_lock(&stream->mutex);
	pthread_cond_signal(&stream->changed);
	pthread_mutex_unlock(&stream->mutex);
}

void stream_stop(struct stream *stream)
{
	stream->stop = true;
	ask_now(stream);
}

bool stream_over(struct stream *stream)
{
	bool served;

	pthread_mutex_lock(&stream->mutex);
	served = stream->served && !stream->entry_bytes;
	pthread_mutex_unlock(&stream->mutex);
	return served && stream->ended;
}

uint32_t stream_tracer(struct stream *stream)
{
	uint32_t tracer;

	pthread_mutex_lock(&stream->mutex);
	tracer = stream->tracer;
	pthread_mutex_unlock(&stream->mutex);
	return tracer;
}

uint32_t stream_end_reason(struct stream *stream)
{
	uint32_t reason;

	pthread_mutex_lock(&stream->mutex);
	reason = stream->reason;
	pthread_mutex_unlock(&stream->mutex);
	return reason;
}

/* ---- The stream ---- */

static uint32_t number_at(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static bool words_here(const struct stream *stream, const uint8_t *body, uint32_t size)
{
	return size == (uint32_t)stream->port.words_bytes &&
	       !memcmp(body, stream->port.words, size);
}

/* Count the frames that begin in these bytes. Returns up to where it is clear what they are. */
static size_t frames_count(struct stream *stream, const uint8_t *data, size_t bytes)
{
	size_t at = 0;

	for (;;) {
		size_t part = stream->skip < bytes - at ? (size_t)stream->skip : bytes - at;
		uint32_t size, peek;
		enum ring_kind kind;

		at += part;
		stream->skip -= part;
		if (stream->odd)
			return bytes;
		if (bytes - at < FRAME_HEAD)
			return at;
		size = number_at(data + at + 1);
		if (data[at] == OP_DROPPED) {
			stream->counts.discarded += size;
			stream->skip = FRAME_HEAD;
			continue;
		}
		if (data[at] > OP_DROPPED) {
			stream->odd = true;
			continue;
		}
		peek = size < PEEK_BYTES ? size : PEEK_BYTES;
		if (bytes - at - FRAME_HEAD < peek)
			return at;
		if (words_here(stream, data + at + FRAME_HEAD, size)) {
			stream->ended = true;
			stream->words_seen = true;
			return at;
		}
		kind = ring_term_kind(data + at + FRAME_HEAD, peek);
		stream->counts.by_kind[kind]++;
		stream->counts.recorded++;
		stream->skip = FRAME_HEAD + (uint64_t)size;
	}
}

/* Store from the buffer; what stays is moved to its front. */
static int bytes_store(struct stream *stream, struct file_writer *writer, size_t bytes, size_t have,
		       uint64_t received_ns)
{
	struct chunk_trc head = {.offset = stream->offset, .received_ns = received_ns};
	int error = 0;

	if (bytes)
		error = file_append(writer, CHUNK_TRC, 0, &head, sizeof(head), stream->buffer,
				    (uint32_t)bytes);
	stream->offset += bytes;
	stream->undecided = have - bytes;
	memmove(stream->buffer, stream->buffer + bytes, stream->undecided);
	return error;
}

/* The connection's end: what is there of a frame is stored as it is. */
static int64_t bytes_end(struct stream *stream, struct file_writer *writer)
{
	size_t rest = stream->undecided;

	stream->ended = true;
	return bytes_store(stream, writer, rest, rest, clock_ns());
}

int stream_fd(const struct stream *stream)
{
	return stream->ended ? -1 : stream->fd;
}

int64_t stream_drain(struct stream *stream, struct file_writer *writer, uint64_t max_bytes)
{
	uint64_t moved = 0;

	while (!stream->ended && moved < max_bytes) {
		size_t room = max_bytes - moved < READ_BYTES ? (size_t)(max_bytes - moved)
							     : READ_BYTES;
		ssize_t got = recv(stream->fd, stream->buffer + stream->undecided, room, 0);
		size_t have, clear;
		int error;

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && errno == EAGAIN)
			break;
		if (got <= 0) {
			int64_t end = bytes_end(stream, writer);

			return end < 0 ? end : (int64_t)moved;
		}
		have = stream->undecided + (size_t)got;
		clear = frames_count(stream, stream->buffer, have);
		error = bytes_store(stream, writer, clear, have, clock_ns());
		if (error)
			return error;
		moved += (uint64_t)got;
	}
	if (stream->words_seen)
		ask_now(stream);
	return (int64_t)moved;
}

int64_t stream_drain_names(struct stream *stream, struct file_writer *writer, rings_note_fn note,
			   void *context)
{
	uint8_t *entries;
	size_t bytes;
	int error;

	pthread_mutex_lock(&stream->mutex);
	entries = stream->entries;
	bytes = stream->entry_bytes;
	stream->entries = NULL;
	stream->entry_bytes = 0;
	stream->entry_capacity = 0;
	pthread_mutex_unlock(&stream->mutex);
	error = rings_write_names(writer, entries, bytes, stream->dict_offset, note, context);
	stream->dict_offset += bytes;
	free(entries);
	return error ? error : (int64_t)bytes;
}

void stream_counts(const struct stream *stream, struct rings_counts *counts)
{
	*counts = stream->counts;
}
