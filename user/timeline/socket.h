/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_SOCKET_H
#define BEAMWEAVE_SOCKET_H

/*
 * Totals of each kernel socket, with the Erlang port that the VM's thread was executing when it used the
 * socket; where that is not known, the one that has the same local port, remote port and remote address. The kernel's identity of a closed socket is given to the next one: a socket that was closed
 * and is opened again is another. Closed ones beyond SOCKETS_CLOSED are given out before the end.
 *
 * A connection waits to be accepted from its arrival (established, or its first data when that came
 * later) until the first byte goes through it: an upper bound, kept at its listener.
 */

#include "map.h"
#include "timeline.h"

#define SOCKETS_CLOSED 4096u

struct socket;
struct socket_port;

struct sockets {
	const struct timeline_sink *sink;
	struct map map; /* identity -> struct socket */
	struct map listeners; /* local port -> struct socket that listens there */
	struct map ports; /* key of the addresses -> struct socket_port */
	struct socket *closed_first, *closed_last;
	uint32_t closed;
};

void sockets_free(struct sockets *sockets);
/* PROBE_SOCK_*, PROBE_TCP_*, EVENT_PORT. Returns 0 or -ENOMEM. */
int sockets_event(struct sockets *sockets, const struct event *event);
/* Gives out every socket. */
void sockets_finish(struct sockets *sockets);

#endif
