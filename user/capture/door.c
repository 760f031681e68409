/* SPDX-License-Identifier: Apache-2.0 */
#include "door.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "reply.h"

#define VERSION_MAGIC 131 /* before every term */
#define PACKET_MAX    (16u << 20)
#define DOOR_NAMES    32

struct door {
	ei_cnode node;
	/* -1: none. Written by the thread that talks, read by the one that interrupts, which shuts the
	 * socket down: atomic so that it sees a whole number; exchanged, so that it is closed once. */
	atomic_int fd;
	/* Set by the one before it reads fd, read by the other after it wrote fd (both sequentially
	 * consistent): one of them sees the other. */
	atomic_bool interrupted;
	uint64_t deadline_ns;
	const struct node_endpoint *endpoint;
	unsigned int writes; /* in the handshake: 1 our name, 2 our answer to the challenge */
	int error; /* the first that a socket call gave */
};

/* ---- Sockets for ei: each waits until the door's deadline, not per call ---- */

static int door_failed(struct door *door, int error)
{
	if (!door->error)
		door->error = error;
	return error;
}

static int door_wait(struct door *door, short events)
{
	struct pollfd ready = {.fd = door->fd, .events = events};

	for (;;) {
		uint64_t now_ns = clock_ns();
		int left_ms = 0, result;

		if (door->interrupted)
			return ECANCELED;
		if (now_ns < door->deadline_ns)
			left_ms = (int)((door->deadline_ns - now_ns) / 1000000 + 1);
		result = poll(&ready, 1, left_ms);
		if (result > 0)
			return 0;
		if (!result)
			return ETIMEDOUT;
		if (errno != EINTR)
			return errno;
	}
}

static int socket_open(void **context, void *setup)
{
	struct door *door = setup;
	int fd = socket(door->endpoint->address.ss_family,
			SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0)
		return door_failed(door, errno);
	/* ei writes a message in two parts; the second would wait for the answer to the first. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	door->fd = fd;
	*context = door;
	return 0;
}

static int socket_close(void *context)
{
	struct door *door = context;
	int fd = atomic_exchange(&door->fd, -1);

	return fd >= 0 && close(fd) ? errno : 0;
}

static int socket_connect(void *context, void *address, int bytes, unsigned int timeout_ms)
{
	struct door *door = context;
	socklen_t size = sizeof(int);
	int error = 0;

	/* ei knows IPv4 addresses only: the endpoint is the address. */
	(void)address, (void)bytes, (void)timeout_ms;
	if (!connect(door->fd, (const struct sockaddr *)&door->endpoint->address,
		     door->endpoint->bytes))
		return 0;
	if (errno != EINPROGRESS)
		return door_failed(door, errno);
	error = door_wait(door, POLLOUT);
	if (!error && getsockopt(door->fd, SOL_SOCKET, SO_ERROR, &error, &size))
		error = errno;
	return error ? door_failed(door, error) : 0;
}

static int socket_write(void *context, const char *data, ssize_t *bytes, unsigned int timeout_ms)
{
	struct door *door = context;
	ssize_t done;
	int error;

	(void)timeout_ms;
	do {
		error = door_wait(door, POLLOUT);
		if (error)
			return door_failed(door, error);
		done = send(door->fd, data, (size_t)*bytes, MSG_NOSIGNAL);
	} while (done < 0 && (errno == EINTR || errno == EAGAIN));
	if (done < 0)
		return door_failed(door, errno);
	door->writes++;
	*bytes = done;
	return 0;
}

static int socket_read(void *context, char *data, ssize_t *bytes, unsigned int timeout_ms)
{
	struct door *door = context;
	ssize_t got;
	int error;

	(void)timeout_ms;
	do {
		error = door_wait(door, POLLIN);
		if (error)
			return door_failed(door, error);
		got = recv(door->fd, data, (size_t)*bytes, 0);
	} while (got < 0 && (errno == EINTR || errno == EAGAIN));
	if (got < 0)
		return door_failed(door, errno);
	if (!got)
		door_failed(door, ECONNRESET);
	*bytes = got;
	return 0;
}

static int socket_header_size(void *context, int *bytes)
{
	(void)context;
	*bytes = 2; /* of packets in the handshake */
	return 0;
}

static int socket_complete(void *context)
{
	(void)context;
	return 0;
}

static int socket_fd(void *context, int *fd)
{
	*fd = ((struct door *)context)->fd;
	return 0;
}

static ei_socket_callbacks door_sockets = {
	.flags = EI_SCLBK_FLG_FULL_IMPL,
	.socket = socket_open,
	.close = socket_close,
	.connect = socket_connect,
	.write = socket_write,
	.read = socket_read,
	.handshake_packet_header_size = socket_header_size,
	.connect_handshake_complete = socket_complete,
	.accept_handshake_complete = socket_complete,
	.get_fd = socket_fd,
};

/* ---- Connecting ---- */

static pthread_once_t ei_once = PTHREAD_ONCE_INIT;

static void ei_begin(void)
{
	ei_init();
}

static int connect_fault(const struct door *door, const struct node *node,
			 const struct node_cookie *cookie, struct fault *fault)
{
	const char *name = *node->name ? node->name : "the node";

	if (door->interrupted)
		return fault_set(fault, -ECANCELED, NULL, "attaching was given up");
	switch (door->error) {
	case ECONNREFUSED:
		return fault_set(fault, -ECONNREFUSED, "is it still running? epmd -names",
				 "%.300s is down: nobody listens at its port", name);
	case ETIMEDOUT:
		return fault_set(fault, -ETIMEDOUT, NULL,
				 "%.300s does not answer (stopped, or too busy)", name);
	case 0:
	case ECONNRESET:
	case EPIPE:
		/* A node that does not like the answer to its challenge closes the connection. */
		if (door->writes >= 2) {
			fault_set(fault, -EACCES, NULL, "%.200s refused the cookie (from %.200s)",
				  name, cookie->from);
			fault_fix(fault, "give the right one in a file: --cookie-file FILE");
			return -EACCES;
		}
		return fault_set(fault, -ECONNABORTED, NULL,
				 "%.300s did not let us in: it speaks another distribution", name);
	default:
		return fault_set(fault, -door->error, NULL, "cannot connect to %.300s: %s", name,
				 strerror(door->error));
	}
}

int door_open(struct door **opened, const struct node *node, const struct node_cookie *cookie,
	      uint64_t deadline_ns, struct fault *fault)
{
	struct in_addr nowhere = {0};
	struct door *door;
	char alive[64], name[80];
	int error = 0;

	*opened = NULL;
	pthread_once(&ei_once, ei_begin);
	door = calloc(1, sizeof(*door));
	if (!door)
		return fault_set(fault, -ENOMEM, NULL, "out of memory");
	door->fd = -1;
	door->deadline_ns = deadline_ns;
	/* One of a few names: each becomes an atom of the node's, which it keeps. */
	snprintf(alive, sizeof(alive), "beamweave_%d", getpid() % DOOR_NAMES);
	snprintf(name, sizeof(name), "%s@localhost", alive);
	if (ei_connect_xinit_ussi(&door->node, "localhost", alive, name, &nowhere, cookie->text,
				  (unsigned int)clock_ns() | 4, &door_sockets, sizeof(door_sockets),
				  door)) {
		door_close(door);
		return fault_set(fault, -EINVAL, NULL, "the cookie is too long");
	}
	*opened = door;
	for (size_t i = 0; i < node->endpoint_count; i++) {
		door->endpoint = &node->endpoints[i];
		door->writes = 0;
		door->error = 0;
		if (ei_xconnect_host_port_tmo(&door->node, &nowhere, 1, 1000) >= 0)
			return 0;
		socket_close(door);
		error = connect_fault(door, node, cookie, fault);
		if (error == -EACCES || error == -ECANCELED || clock_ns() >= deadline_ns)
			break;
	}
	if (!error)
		error = fault_set(fault, -ENOTCONN, NULL, "the node listens nowhere");
	*opened = NULL;
	door_close(door);
	return error;
}

void door_close(struct door *door)
{
	if (!door)
		return;
	if (door->fd >= 0)
		ei_close_connection(door->fd);
	explicit_bzero(&door->node, sizeof(door->node));
	free(door);
}

void door_deadline(struct door *door, uint64_t deadline_ns)
{
	door->deadline_ns = deadline_ns;
}

void door_interrupt(struct door *door)
{
	int fd;

	door->interrupted = true;
	fd = door->fd;
	if (fd >= 0)
		shutdown(fd, SHUT_RDWR);
}

/* ---- Calling ---- */

static int call_fault(const struct door *door, const char *module, const char *function,
		      struct fault *fault)
{
	int error = door->error ? door->error : ECONNRESET;

	if (door->interrupted)
		return fault_set(fault, -ECANCELED, NULL, "attaching was given up");
	if (error == ETIMEDOUT)
		return fault_set(fault, -ETIMEDOUT, NULL,
				 "the node does not answer (stopped, or too busy)");
	return fault_set(fault, -error, NULL, "the connection broke in %s:%s: %s", module, function,
			 strerror(error));
}

/* Exactly `bytes` from the node. Returns 0 or an errno. */
static int bytes_receive(struct door *door, char *data, size_t bytes)
{
	while (bytes) {
		ssize_t got = (ssize_t)bytes;
		int error = socket_read(door, data, &got, 0);

		if (error)
			return error;
		if (!got)
			return ECONNRESET;
		data += got;
		bytes -= (size_t)got;
	}
	return 0;
}

/*
 * One packet of the distribution, checked to be 'p', a control message and at most one term. ei has a
 * function for this, which believes what a packet says of its own length.
 */
static int packet_receive(struct door *door, ei_x_buff *packet, int *payload)
{
	static const char tick[4];
	ssize_t tick_bytes = sizeof(tick);
	uint8_t header[4];
	uint32_t bytes;
	int64_t end;
	int error;

	error = bytes_receive(door, (char *)header, sizeof(header));
	if (error)
		return error;
	bytes = (uint32_t)header[0] << 24 | header[1] << 16 | header[2] << 8 | header[3];
	*payload = 0;
	if (!bytes)
		return socket_write(door, tick, &tick_bytes, 0);
	if (bytes > PACKET_MAX)
		return door_failed(door, EMSGSIZE);
	if ((uint32_t)packet->buffsz < bytes) {
		char *larger = realloc(packet->buff, bytes);

		if (!larger)
			return door_failed(door, ENOMEM);
		packet->buff = larger;
		packet->buffsz = (int)bytes;
	}
	error = bytes_receive(door, packet->buff, bytes);
	if (error)
		return error;
	packet->index = (int)bytes;
	if (bytes < 3 || packet->buff[0] != ERL_PASS_THROUGH ||
	    (uint8_t)packet->buff[1] != VERSION_MAGIC)
		return 0;
	end = term_check(packet->buff, bytes, 2);
	if (end > 0 && end + 1 < (int64_t)bytes && (uint8_t)packet->buff[end] == VERSION_MAGIC &&
	    term_check(packet->buff, bytes, (size_t)end + 1) > 0)
		*payload = (int)end + 1;
	return 0;
}

/* Wait for {rex, Result}; anything else that arrives is not for us. */
static int reply_receive(struct door *door, ei_x_buff *reply, int *index)
{
	for (;;) {
		char atom[MAXATOMLEN_UTF8];
		int arity;

		if (packet_receive(door, reply, index))
			return -EIO;
		if (*index && !ei_decode_tuple_header(reply->buff, index, &arity) && arity == 2 &&
		    !ei_decode_atom_as(reply->buff, index, atom, sizeof(atom), ERLANG_UTF8, NULL,
				       NULL) &&
		    !strcmp(atom, "rex"))
			return 0;
	}
}

/* {badrpc, Reason} becomes a fault. */
static int reply_check(const ei_x_buff *reply, int index, const char *module, const char *function,
		       struct fault *fault)
{
	char atom[MAXATOMLEN_UTF8], reason[300];
	int arity;

	if (ei_decode_tuple_header(reply->buff, &index, &arity) || arity != 2 ||
	    ei_decode_atom_as(reply->buff, &index, atom, sizeof(atom), ERLANG_UTF8, NULL, NULL) ||
	    strcmp(atom, "badrpc"))
		return 0;
	term_text(reply->buff, index, reason, sizeof(reason));
	return fault_set(fault, -EREMOTEIO, NULL, "%s:%s failed on the node: %s", module, function,
			 reason);
}

const char *door_name(const struct door *door)
{
	return door->node.thisnodename;
}

int door_ask(struct door *door, const char *name, const char *tag, const bool flags[2],
	     ei_x_buff *reply, int *index, struct fault *fault)
{
	ei_x_buff message;
	int error;

	if (ei_x_new_with_version(&message))
		return fault_set(fault, -ENOMEM, NULL, "out of memory");
	ei_x_encode_tuple_header(&message, 4);
	ei_x_encode_atom(&message, tag);
	ei_x_encode_pid(&message, ei_self(&door->node));
	ei_x_encode_boolean(&message, flags[0]);
	ei_x_encode_boolean(&message, flags[1]);
	door->error = 0;
	error = ei_reg_send(&door->node, door->fd, (char *)name, message.buff, message.index) < 0 ||
		reply_receive(door, reply, index);
	ei_x_free(&message);
	return error ? call_fault(door, name, tag, fault) : 0;
}

int door_call(struct door *door, const char *module, const char *function,
	      const ei_x_buff *arguments, ei_x_buff *reply, int *index, struct fault *fault)
{
	door->error = 0;
	if (ei_rpc_to(&door->node, door->fd, (char *)module, (char *)function, arguments->buff,
		      arguments->index) < 0 ||
	    reply_receive(door, reply, index))
		return call_fault(door, module, function, fault);
	return reply_check(reply, *index, module, function, fault);
}
