/* SPDX-License-Identifier: Apache-2.0 */
#include "socket.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* TCP_* of net/tcp_states.h. */
#define STATE_ESTABLISHED  1
#define STATE_SYN_RECV	   3
#define STATE_CLOSE	   7
#define STATE_LISTEN	   10
#define STATE_NEW_SYN_RECV 12

struct socket {
	struct socket_totals totals;
	bool arrived; /* by a listener; no byte has gone through it */
	uint64_t arrived_ns;
	bool data_waits; /* its first data has arrived since */
	bool linked; /* in the list of closed ones */
	bool listens; /* in the table of listeners, */
	uint16_t listen_port; /* by this port */
	struct socket *next;
};

struct socket_port {
	uint64_t port, owner;
};

void sockets_free(struct sockets *sockets)
{
	struct socket *socket;
	size_t position = 0;

	while ((socket = map_next(&sockets->map, &position)))
		if (!socket->linked)
			free(socket);
	while ((socket = sockets->closed_first)) {
		sockets->closed_first = socket->next;
		free(socket);
	}
	map_free(&sockets->map);
	map_free(&sockets->listeners);
	map_free_values(&sockets->ports);
}

/* The remote address as one word; IPv4 the same in both of its forms. */
static uint64_t address_word(uint16_t family, const uint8_t address[16])
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	uint64_t high, low;
	uint32_t four;

	if (family == 2 || !memcmp(address, mapped, sizeof(mapped))) {
		memcpy(&four, address + (family == 2 ? 0 : 12), 4);
		return four;
	}
	memcpy(&high, address, 8);
	memcpy(&low, address + 8, 8);
	return high || low ? map_mix(high) ^ low : 0;
}

static uint64_t port_key(uint16_t local_port, uint16_t remote_port, uint64_t address)
{
	return map_mix(address) ^ ((uint64_t)local_port << 16 | remote_port);
}

static void socket_emit(struct sockets *sockets, struct socket *socket)
{
	struct socket_totals *totals = &socket->totals;
	const struct socket_port *port =
		map_get(&sockets->ports, port_key(totals->local_port, totals->remote_port,
						  address_word(totals->family, totals->remote)));

	/* Addresses are used again: what the VM's thread said while it used the socket is surer. */
	if (port && (!totals->erlang_port || totals->erlang_port == port->port)) {
		totals->erlang_port = port->port;
		if (!totals->owner)
			totals->owner = port->owner;
	}
	if (sockets->sink && sockets->sink->socket)
		sockets->sink->socket(sockets->sink->context, totals);
}

static void socket_unlisten(struct sockets *sockets, struct socket *socket)
{
	if (socket->listens && map_get(&sockets->listeners, socket->listen_port) == socket)
		map_remove(&sockets->listeners, socket->listen_port);
	socket->listens = false;
}

static int socket_listen(struct sockets *sockets, struct socket *socket)
{
	socket_unlisten(sockets, socket);
	socket->listens = true;
	socket->listen_port = socket->totals.local_port;
	return map_put(&sockets->listeners, socket->listen_port, socket);
}

static void socket_drop(struct sockets *sockets, struct socket *socket)
{
	socket_emit(sockets, socket);
	socket_unlisten(sockets, socket);
	if (map_get(&sockets->map, socket->totals.sock) == socket)
		map_remove(&sockets->map, socket->totals.sock);
	free(socket);
}

static void socket_closed(struct sockets *sockets, struct socket *socket)
{
	if (socket->linked)
		return;
	socket->linked = true;
	if (sockets->closed_last)
		sockets->closed_last->next = socket;
	else
		sockets->closed_first = socket;
	sockets->closed_last = socket;
	if (++sockets->closed <= SOCKETS_CLOSED)
		return;
	socket = sockets->closed_first;
	sockets->closed_first = socket->next;
	sockets->closed--;
	socket_drop(sockets, socket);
}

static struct socket *socket_get(struct sockets *sockets, uint64_t sock, bool fresh)
{
	struct socket *socket = map_get(&sockets->map, sock);

	if (socket && !(fresh && socket->totals.closed_ns))
		return socket;
	socket = calloc(1, sizeof(*socket));
	if (!socket)
		return NULL;
	if (map_put(&sockets->map, sock, socket)) {
		free(socket);
		return NULL;
	}
	socket->totals.sock = sock;
	return socket;
}

/* The kinds of records share these fields, under the same names. */
#define SOCKET_ADDRESS(socket, record)                                                             \
	socket_address(&(socket)->totals, (record)->family, (record)->protocol,                    \
		       (record)->local_port, (record)->remote_port, (record)->local,               \
		       (record)->remote)

static void socket_address(struct socket_totals *totals, uint16_t family, uint16_t protocol,
			   uint16_t local_port, uint16_t remote_port, const uint8_t local[16],
			   const uint8_t remote[16])
{
	if (family)
		totals->family = family;
	if (protocol)
		totals->protocol = protocol;
	/* a socket that is being closed has lost its addresses: keep those it had */
	if (local_port) {
		totals->local_port = local_port;
		memcpy(totals->local, local, 16);
	}
	if (remote_port) {
		totals->remote_port = remote_port;
		memcpy(totals->remote, remote, 16);
	}
}

static int socket_state(struct sockets *sockets, const struct event *event)
{
	const struct probe_sock_state *record = event->sock_state;
	struct socket *socket = socket_get(sockets, record->sock, true);
	bool passive = record->old_state == STATE_SYN_RECV ||
		       record->old_state == STATE_NEW_SYN_RECV;

	if (!socket)
		return -ENOMEM;
	SOCKET_ADDRESS(socket, record);
	socket->totals.state = record->new_state;
	if (record->old_state == STATE_CLOSE && record->new_state != STATE_CLOSE &&
	    !socket->totals.opened_ns)
		socket->totals.opened_ns = event->ts_ns;
	if (record->new_state == STATE_LISTEN)
		return socket_listen(sockets, socket);
	if (record->new_state == STATE_ESTABLISHED && passive) {
		if (!socket->totals.opened_ns)
			socket->totals.opened_ns = event->ts_ns;
		socket->arrived = true;
		socket->arrived_ns = event->ts_ns;
	}
	/* equal states: a socket that was there when the recording began */
	if (record->new_state == STATE_CLOSE && record->old_state != STATE_CLOSE) {
		socket->totals.closed_ns = event->ts_ns;
		socket_closed(sockets, socket);
	}
	return 0;
}

static void socket_accepted(struct sockets *sockets, struct socket *socket, uint64_t ts_ns)
{
	struct socket *listener;

	if (!socket->arrived)
		return;
	socket->arrived = false;
	listener = map_get(&sockets->listeners, socket->totals.local_port);
	if (listener && ts_ns - socket->arrived_ns > listener->totals.accept_wait_ns)
		listener->totals.accept_wait_ns = ts_ns - socket->arrived_ns;
}

static int socket_io(struct sockets *sockets, const struct event *event)
{
	const struct probe_sock_io *record = event->sock_io;
	struct socket *socket = socket_get(sockets, record->sock, false);
	struct socket_totals *totals;

	if (!socket)
		return -ENOMEM;
	totals = &socket->totals;
	SOCKET_ADDRESS(socket, record);
	socket_accepted(sockets, socket, event->ts_ns);
	if (record->result < 0) {
		/* nothing to read or no room is no error */
		if (record->result != -EAGAIN)
			totals->errors++;
		return 0;
	}
	if (event->kind == EVENT_KERNEL + PROBE_SOCK_SEND) {
		totals->sends++;
		totals->sent_bytes += (uint32_t)record->result;
	} else {
		totals->receives++;
		totals->received_bytes += (uint32_t)record->result;
	}
	return 0;
}

static int socket_other(struct sockets *sockets, const struct event *event)
{
	const struct probe_sock_event *record = event->sock_event;
	struct socket *socket = socket_get(sockets, record->sock, false);

	if (!socket)
		return -ENOMEM;
	SOCKET_ADDRESS(socket, record);
	switch (event->kind - EVENT_KERNEL) {
	case PROBE_TCP_RETRANSMIT:
		socket->totals.retransmits++;
		break;
	case PROBE_TCP_RESET_SENT:
	case PROBE_TCP_RESET_RECEIVED:
		socket->totals.resets++;
		break;
	case PROBE_SOCK_DATA_READY:
		if (socket->arrived && !socket->data_waits) {
			socket->data_waits = true;
			socket->arrived_ns = event->ts_ns;
		}
		break;
	case PROBE_SOCK_ERLANG:
		/* a port says more than the process that a socket was used by */
		if (event->sock_erlang->port || !socket->totals.erlang_port) {
			socket->totals.erlang_port = event->sock_erlang->port;
			if (event->sock_erlang->owner)
				socket->totals.owner = event->sock_erlang->owner;
		}
		break;
	default:
		break;
	}
	return 0;
}

static int socket_erlang(struct sockets *sockets, const struct event *event)
{
	const struct ring_dict_port *record = event->port;
	uint64_t key = port_key(record->local_port, record->remote_port,
				address_word(record->family, record->remote));
	struct socket_port *port;
	int err;

	if (!record->family || !record->local_port)
		return 0;
	port = map_get(&sockets->ports, key);
	if (!port) {
		port = calloc(1, sizeof(*port));
		if (!port)
			return -ENOMEM;
		err = map_put(&sockets->ports, key, port);
		if (err) {
			free(port);
			return err;
		}
	}
	port->port = event->process;
	port->owner = record->owner;
	return 0;
}

int sockets_event(struct sockets *sockets, const struct event *event)
{
	switch (event->kind) {
	case EVENT_KERNEL + PROBE_SOCK_STATE:
		return socket_state(sockets, event);
	case EVENT_KERNEL + PROBE_SOCK_SEND:
	case EVENT_KERNEL + PROBE_SOCK_RECV:
		return socket_io(sockets, event);
	case EVENT_PORT:
		return socket_erlang(sockets, event);
	default:
		return socket_other(sockets, event);
	}
}

void sockets_finish(struct sockets *sockets)
{
	struct socket *socket;
	size_t position = 0;

	while ((socket = sockets->closed_first)) {
		sockets->closed_first = socket->next;
		socket_drop(sockets, socket);
	}
	sockets->closed_last = NULL;
	sockets->closed = 0;
	while ((socket = map_next(&sockets->map, &position)))
		socket_emit(sockets, socket);
}
