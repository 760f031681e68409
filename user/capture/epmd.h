/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_EPMD_H
#define BEAMWEAVE_EPMD_H

/* Which nodes the port mapper of this host knows. */

#include <stddef.h>
#include <stdint.h>

#define EPMD_PORT  4369
#define EPMD_NODES 256

struct epmd_node {
	char alive[256]; /* the name before the @ */
	uint16_t port;
};

/* At most `max` nodes from the epmd at 127.0.0.1. Returns the number or -errno. */
int epmd_nodes(uint16_t epmd_port, struct epmd_node *nodes, size_t max, unsigned int timeout_ms);

#endif
