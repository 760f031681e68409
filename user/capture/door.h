/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_DOOR_H
#define BEAMWEAVE_DOOR_H

/*
 * A hidden connection to an Erlang node, over ei. Every wait ends at the door's deadline. One thread
 * uses a door; another may call door_interrupt().
 */

#include <ei.h>
#include <stdbool.h>

#include "fault.h"
#include "node.h"

struct door;

/*
 * Connect to the first endpoint that answers as a node. Returns 0, -ECONNREFUSED (nobody listens),
 * -ETIMEDOUT (the node is deaf), -EACCES (wrong cookie), -ECONNABORTED (it speaks no distribution
 * that we know, or does not let us in), -errno.
 */
int door_open(struct door **door, const struct node *node, const struct node_cookie *cookie,
	      uint64_t deadline_ns, struct fault *fault);
void door_close(struct door *door);
/* A later deadline: CLOCK_MONOTONIC. */
void door_deadline(struct door *door, uint64_t deadline_ns);
/* Make whatever the door waits for fail at once. */
void door_interrupt(struct door *door);

/*
 * Call Module:Function with arguments that are encoded as a list, without a version byte. The result
 * is decoded from reply->buff at *index. Returns 0, -EREMOTEIO (it failed there), -ETIMEDOUT,
 * -ECONNRESET, -errno; `fault` says which.
 */
int door_call(struct door *door, const char *module, const char *function,
	      const ei_x_buff *arguments, ei_x_buff *reply, int *index, struct fault *fault);
/*
 * Send {Tag, Self, Boolean, Boolean} to a registered process that answers as rex does, {rex, Result}:
 * no process of the node takes part but that one. Otherwise as door_call().
 */
int door_ask(struct door *door, const char *name, const char *tag, const bool flags[2],
	     ei_x_buff *reply, int *index, struct fault *fault);
/* The name by which the node knows us. */
const char *door_name(const struct door *door);
#endif
