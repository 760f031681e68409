/* SPDX-License-Identifier: Apache-2.0 */
#include "perfetto_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <uthash.h>

#include "perfetto_erlang.h"

#define NAME_BYTES 256

/* net/tcp_states.h */
enum tcp_state {
	STATE_NONE = 0,
	STATE_SYN_SENT = 2,
	STATE_SYN_RECV = 3,
	STATE_CLOSE = 7,
	STATE_LISTEN = 10,
};

static const char *const state_names[] = {
	"unknown", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2",    "TIME_WAIT",
	"CLOSE",   "CLOSE_WAIT",  "LAST_ACK", "LISTEN",	  "CLOSING",   "NEW_SYN_RECV",
};

/* What all records of sockets say of them. */
struct endpoints {
	uint64_t sock;
	uint16_t family, protocol, local_port, remote_port;
	const uint8_t *local, *remote;
};

struct socket_track {
	uint64_t sock;
	uint64_t number; /* of the socket in this export: an address is used again */
	uint64_t since_ns; /* of its state */
	uint64_t sent_bytes, received_bytes;
	uint8_t state; /* STATE_NONE: not seen */
	bool from_start; /* it was in that state when the recording began */
	uint32_t ports; /* in its name: local << 16 | remote */
	bool described, sent_described, received_described, queue_described;
	UT_hash_handle hh;
};

struct socket_owner {
	uint32_t ports; /* local << 16 | remote */
	uint64_t erlang_port, process;
	UT_hash_handle hh;
};

static const char *state_name(uint8_t state)
{
	return state_names[state < sizeof(state_names) / sizeof(*state_names) ? state : 0];
}

static void address_print(char *out, size_t size, uint16_t family, const uint8_t *address,
			  uint16_t port)
{
	char text[INET6_ADDRSTRLEN] = "?";

	if (family == AF_INET || family == AF_INET6)
		inet_ntop(family, address, text, sizeof(text));
	snprintf(out, size, family == AF_INET6 ? "[%s]:%u" : "%s:%u", text, port);
}

static const struct socket_owner *owner_find(const struct perfetto_socket *socket, uint16_t local,
					     uint16_t remote)
{
	uint32_t ports = (uint32_t)local << 16 | remote;
	struct socket_owner *owner;

	HASH_FIND(hh, socket->owners, &ports, sizeof(ports), owner);
	return owner;
}

static void socket_name(struct perfetto_socket *socket, struct socket_track *track,
			const struct endpoints *ends)
{
	const struct socket_owner *owner = owner_find(socket, ends->local_port, ends->remote_port);
	char local[64], remote[64] = "", label[NAME_BYTES] = "", name[2 * NAME_BYTES];
	const struct track group = {.uuid = track_uuid(TRACK_GROUP, GROUP_SOCKETS),
				    .name = "Sockets",
				    .rank = GROUP_SOCKETS,
				    .ranked = true};
	struct track described = {
		.uuid = track_uuid(TRACK_SOCKET, track->number),
		.parent = group.uuid,
		.name = name,
		.rank = track->number < INT32_MAX ? (int32_t)track->number : INT32_MAX,
	};

	if (!track->described && track->number == 1)
		track_describe(socket->packets, &group);
	address_print(local, sizeof(local), ends->family, ends->local, ends->local_port);
	if (ends->remote_port)
		address_print(remote, sizeof(remote), ends->family, ends->remote,
			      ends->remote_port);
	if (owner) {
		perfetto_process_label(socket->trace, owner->process, trace_end_ns(socket->trace),
				       label, sizeof(label));
		described.description = trace_process_text(socket->trace, owner->erlang_port);
	}
	snprintf(name, sizeof(name), "%s%s%s%s%s", local, *remote ? " - " : "", remote,
		 *label ? " " : "", label);
	track_describe(socket->packets, &described);
	track->described = true;
	track->ports = (uint32_t)ends->local_port << 16 | ends->remote_port;
}

/* One that connects or binds learns its ports later: the newest name holds. */
static void socket_describe(struct perfetto_socket *socket, struct socket_track *track,
			    const struct endpoints *ends)
{
	const uint32_t ports = (uint32_t)ends->local_port << 16 | ends->remote_port;

	if (!track->described || (ports != track->ports && ends->local_port &&
				  (ends->remote_port || !(track->ports & 0xffff))))
		socket_name(socket, track, ends);
}

static void state_write(struct perfetto_socket *socket, const struct socket_track *track,
			uint64_t end_ns, bool open)
{
	uint64_t uuid = track_uuid(TRACK_SOCKET, track->number);
	struct packets *packets = socket->packets;

	if (track->state == STATE_NONE || track->state == STATE_CLOSE)
		return;
	packet_event_open(packets, SEQUENCE_SOCKETS, track->since_ns, MARK_BEGIN, uuid, "socket",
			  state_name(track->state));
	if (track->from_start)
		packet_note_bool(packets, "since before the recording", true);
	if (open)
		packet_note_bool(packets, "its end was not seen", true);
	packet_event_close(packets);
	packet_event_open(packets, SEQUENCE_SOCKETS, end_ns, MARK_END, uuid, NULL, NULL);
	packet_event_close(packets);
}

/* NULL with socket->error. */
static struct socket_track *socket_find(struct perfetto_socket *socket,
					const struct endpoints *ends, uint64_t ts_ns)
{
	struct socket_track *track;

	HASH_FIND(hh, socket->sockets, &ends->sock, sizeof(ends->sock), track);
	/* Its end may have been lost, and the address be another socket's by now. */
	if (track && track->ports >> 16 && ends->local_port &&
	    track->ports >> 16 != ends->local_port) {
		state_write(socket, track, ts_ns > track->since_ns ? ts_ns : track->since_ns, true);
		HASH_DEL(socket->sockets, track);
		free(track);
		track = NULL;
	}
	if (!track) {
		track = calloc(1, sizeof(*track));
		if (!track) {
			socket->error = -ENOMEM;
			return NULL;
		}
		track->sock = ends->sock;
		track->number = ++socket->count;
		HASH_ADD(hh, socket->sockets, sock, sizeof(track->sock), track);
	}
	socket_describe(socket, track, ends);
	return track;
}

static void socket_state(struct perfetto_socket *socket, const struct event *event)
{
	const struct probe_sock_state *record = event->sock_state;
	const struct endpoints ends = {record->sock,	   record->family,	record->protocol,
				       record->local_port, record->remote_port, record->local,
				       record->remote};
	struct socket_track *track = socket_find(socket, &ends, event->ts_ns);
	uint8_t old_state = record->old_state;

	if (!track)
		return;
	/* The recorder lists so the sockets that it finds. */
	if (old_state == record->new_state && track->state != STATE_NONE)
		return;
	/* One that was not made in the recording was in that state when the recording began. */
	if (track->state == STATE_NONE && old_state != STATE_CLOSE && old_state != STATE_SYN_SENT &&
	    old_state != STATE_SYN_RECV) {
		track->state = old_state;
		track->since_ns = trace_start_ns(socket->trace);
		track->from_start = true;
	}
	if (old_state == record->new_state && track->state != STATE_NONE)
		return;
	if (track->since_ns > event->ts_ns)
		track->since_ns = event->ts_ns;
	state_write(socket, track, event->ts_ns, false);
	track->state = record->new_state;
	track->since_ns = event->ts_ns;
	track->from_start = false;
	socket_describe(socket, track, &ends);
	if (track->state == STATE_CLOSE) {
		HASH_DEL(socket->sockets, track);
		free(track);
	}
}

static void counter_write(struct perfetto_socket *socket, const struct socket_track *track,
			  enum track_kind kind, const char *name, bool *described, uint64_t ts_ns,
			  uint64_t value)
{
	const struct track counter = {
		.uuid = track_uuid(kind, track->number),
		.parent = track_uuid(TRACK_SOCKET, track->number),
		.name = name,
		.unit = kind == TRACK_SOCKET_QUEUE ? UNIT_COUNT : UNIT_BYTES,
	};

	if (!*described)
		track_describe(socket->packets, &counter);
	*described = true;
	packet_event_open(socket->packets, SEQUENCE_SOCKETS, ts_ns, MARK_COUNTER, counter.uuid,
			  NULL, NULL);
	packet_value(socket->packets, value < INT64_MAX ? (int64_t)value : INT64_MAX);
	packet_event_close(socket->packets);
}

static void instant_write(struct perfetto_socket *socket, const struct socket_track *track,
			  uint64_t ts_ns, const char *name, int32_t error)
{
	packet_event_open(socket->packets, SEQUENCE_SOCKETS, ts_ns, MARK_INSTANT,
			  track_uuid(TRACK_SOCKET, track->number), "socket", name);
	if (error)
		packet_note_int(socket->packets, "errno", error);
	packet_event_close(socket->packets);
}

static void socket_io(struct perfetto_socket *socket, const struct event *event, bool send)
{
	const struct probe_sock_io *record = event->sock_io;
	const struct endpoints ends = {record->sock,	   record->family,	record->protocol,
				       record->local_port, record->remote_port, record->local,
				       record->remote};
	struct socket_track *track = socket_find(socket, &ends, event->ts_ns);
	uint64_t *bytes;

	if (!track)
		return;
	if (record->result < 0) {
		/* -EAGAIN is how a socket says that there is nothing now. */
		if (record->result != -EAGAIN)
			instant_write(socket, track, event->ts_ns,
				      send ? "send failed" : "receive failed", -record->result);
		return;
	}
	bytes = send ? &track->sent_bytes : &track->received_bytes;
	*bytes += (uint32_t)record->result;
	if (send)
		counter_write(socket, track, TRACK_SOCKET_SENT, "sent", &track->sent_described,
			      event->ts_ns, *bytes);
	else
		counter_write(socket, track, TRACK_SOCKET_RECEIVED, "received",
			      &track->received_described, event->ts_ns, *bytes);
}

static void socket_moment(struct perfetto_socket *socket, const struct event *event)
{
	const struct probe_sock_event *record = event->sock_event;
	const struct endpoints ends = {record->sock,	   record->family,	record->protocol,
				       record->local_port, record->remote_port, record->local,
				       record->remote};
	struct socket_track *track = socket_find(socket, &ends, event->ts_ns);

	if (!track)
		return;
	switch (event->kind) {
	case EVENT_KERNEL + PROBE_TCP_RETRANSMIT:
		instant_write(socket, track, event->ts_ns, "retransmit", 0);
		break;
	case EVENT_KERNEL + PROBE_TCP_RESET_SENT:
		instant_write(socket, track, event->ts_ns, "reset sent", 0);
		break;
	case EVENT_KERNEL + PROBE_TCP_RESET_RECEIVED:
		instant_write(socket, track, event->ts_ns, "reset received", 0);
		break;
	default: /* data is ready: of a listener, connections that wait for their accept */
		if (record->value)
			counter_write(socket, track, TRACK_SOCKET_QUEUE, "accept queue",
				      &track->queue_described, event->ts_ns, record->value);
	}
}

static void socket_owned(struct perfetto_socket *socket, const struct event *event)
{
	const struct ring_dict_port *port = event->port;
	uint32_t ports = (uint32_t)port->local_port << 16 | port->remote_port;
	struct socket_track *track, *next;
	struct socket_owner *owner;

	if (!port->local_port)
		return;
	HASH_FIND(hh, socket->owners, &ports, sizeof(ports), owner);
	if (!owner) {
		owner = calloc(1, sizeof(*owner));
		if (!owner) {
			socket->error = -ENOMEM;
			return;
		}
		owner->ports = ports;
		HASH_ADD(hh, socket->owners, ports, sizeof(owner->ports), owner);
	}
	owner->erlang_port = event->process;
	owner->process = port->owner;
	HASH_ITER (hh, socket->sockets, track, next) {
		const struct endpoints ends = {track->sock,	 port->family,	    0,
					       port->local_port, port->remote_port, port->local,
					       port->remote};

		if (track->ports == ports)
			socket_name(socket, track, &ends);
	}
}

void perfetto_socket_begin(struct perfetto_socket *socket, struct packets *packets,
			   struct trace *trace)
{
	memset(socket, 0, sizeof(*socket));
	socket->packets = packets;
	socket->trace = trace;
}

void perfetto_socket_event(struct perfetto_socket *socket, const struct event *event)
{
	switch (event->kind) {
	case EVENT_KERNEL + PROBE_SOCK_STATE:
		socket_state(socket, event);
		break;
	case EVENT_KERNEL + PROBE_SOCK_SEND:
		socket_io(socket, event, true);
		break;
	case EVENT_KERNEL + PROBE_SOCK_RECV:
		socket_io(socket, event, false);
		break;
	case EVENT_KERNEL + PROBE_TCP_RETRANSMIT:
	case EVENT_KERNEL + PROBE_TCP_RESET_SENT:
	case EVENT_KERNEL + PROBE_TCP_RESET_RECEIVED:
	case EVENT_KERNEL + PROBE_SOCK_DATA_READY:
		socket_moment(socket, event);
		break;
	case EVENT_PORT:
		socket_owned(socket, event);
		break;
	}
}

int perfetto_socket_end(struct perfetto_socket *socket, uint64_t end_ns)
{
	struct socket_track *track, *next;

	HASH_ITER (hh, socket->sockets, track, next)
		state_write(socket, track, end_ns > track->since_ns ? end_ns : track->since_ns,
			    true);
	return socket->error;
}

void perfetto_socket_free(struct perfetto_socket *socket)
{
	struct socket_track *track, *next;
	struct socket_owner *owner, *next_owner;

	HASH_ITER (hh, socket->sockets, track, next) {
		HASH_DEL(socket->sockets, track);
		free(track);
	}
	HASH_ITER (hh, socket->owners, owner, next_owner) {
		HASH_DEL(socket->owners, owner);
		free(owner);
	}
}
