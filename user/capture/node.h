/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_NODE_H
#define BEAMWEAVE_NODE_H

/*
 * Where the Erlang node of a process can be reached, and with which cookie: from its command line, its
 * environment, epmd and its listening sockets. Call node_find() in the target's network namespace.
 */

#include <netinet/in.h>
#include <stdint.h>

#include "config.h"
#include "target.h"

#define NODE_NAME_BYTES	  512
#define NODE_COOKIE_BYTES 512 /* as ei has it */
#define NODE_ENDPOINTS	  8

/* An address at which the node may listen. */
struct node_endpoint {
	struct sockaddr_storage address;
	socklen_t bytes;
};

struct node {
	char name[NODE_NAME_BYTES]; /* as far as it is known: "shop", "shop@host"; empty: unknown */
	struct node_endpoint endpoints[NODE_ENDPOINTS]; /* the likeliest first */
	size_t endpoint_count;
	bool named; /* it was told to be a node by its command line or environment */
};

/*
 * Find the node of a process. Returns 0, -ENOTCONN (the VM is not distributed), -EPROTONOSUPPORT
 * (TLS), -EACCES (its sockets may not be seen and epmd does not know it), -errno.
 */
int node_find(const struct target *target, uint32_t without, struct node *node,
	      struct fault *fault);

/*
 * The process of a node of this host: "name" or "name@host". Returns 0, -ENOENT, and -ENOTUNIQ when
 * several have that name.
 */
int node_process(const char *name, uint32_t without, pid_t *pid, struct fault *fault);

/* Where a cookie came from: "the command line", "/home/app/.erlang.cookie". */
struct node_cookie {
	char text[NODE_COOKIE_BYTES];
	char from[256];
};

/* The cookie, from `file` when that is given. Wipe it after use. Returns 0 or -errno. */
int node_cookie(const struct target *target, const char *file, struct node_cookie *cookie,
		struct fault *fault);

#endif
