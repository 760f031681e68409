/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_PERFETTO_SOCKET_H
#define BEAMWEAVE_PERFETTO_SOCKET_H

/*
 * Sockets: a track each with the states of its connection as slices and its troubles as instants, and
 * below it counters of the bytes sent and received since the recording began.
 */

#include "perfetto_packet.h"
#include "trace.h"

struct socket_track;
struct socket_owner;

struct perfetto_socket {
	struct packets *packets;
	struct trace *trace;
	struct socket_track *sockets; /* open ones, by the kernel's address of them */
	struct socket_owner *owners; /* Erlang ports, by the socket's ports */
	uint64_t count; /* sockets seen */
	int error;
};

void perfetto_socket_begin(struct perfetto_socket *socket, struct packets *packets,
			   struct trace *trace);
void perfetto_socket_free(struct perfetto_socket *socket);
/* Socket events and EVENT_PORT; others are ignored. */
void perfetto_socket_event(struct perfetto_socket *socket, const struct event *event);
/* End what is open. Returns 0 or the first error. */
int perfetto_socket_end(struct perfetto_socket *socket, uint64_t end_ns);

#endif
