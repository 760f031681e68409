/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_SOCKETS_H
#define BEAMWEAVE_SOCKETS_H

/* The target's sockets. */

#include "section.h"

#define SOCKET_ADDRESS 64

/* All sockets that the timeline gave, most bytes first; owned by the section. */
size_t sockets_all(void *state, const struct socket_totals **sockets);
/* "127.0.0.1:4000", "[::1]:4000"; a port of 0 is "*". */
char *socket_address(char buffer[static SOCKET_ADDRESS], uint16_t family, const uint8_t *address,
		     uint16_t port);

#endif
