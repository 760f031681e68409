/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_START_H
#define BEAMWEAVE_START_H

/* What is done on a node through the door: our modules are loaded, the controller is started. */

#include <stdbool.h>

#include "config.h"
#include "door.h"
#include "target.h"

/* The node as it says itself. */
struct start_info {
	char node[NODE_NAME_BYTES];
	char otp_release[16];
	long schedulers, dirty_cpu_schedulers, dirty_io_schedulers;
	long processes;
	long functions; /* that the call specs matched, by the controller; -1 unknown */
};

/* Ask the node for what is in start_info, but for functions. Returns 0 or -errno with the fault. */
int start_look(struct door *door, struct start_info *info, struct fault *fault);
/* Has the node's boot ended? 1, 0, or -errno with the fault. */
int start_booted(struct door *door, struct fault *fault);
/*
 * Load our modules where the node has not the same ones, the tracer's library by a file that is gone
 * again afterwards, and only with `native`. Returns 0 or -errno (-EBUSY: another version is recording).
 */
int start_load(struct door *door, const struct target *target, bool native, struct fault *fault);

#define START_WORDS_BYTES 64

/* OTP's IP trace port, as it listens now. */
struct start_port {
	uint16_t port;
	uint8_t words[START_WORDS_BYTES]; /* that it sends first, and last */
	long words_bytes;
};

/* Open the IP trace port on the node. Returns 0, -ENOENT (no runtime_tools), -EBUSY, -errno. */
int start_port(struct door *door, const struct capture_config *config, struct start_port *port,
	       struct fault *fault);
/*
 * Start the controller on a session. Returns 0, -EBUSY (someone else traces: `fault` says who),
 * -ENOENT (a spec or process that is not there), -errno.
 */
int start_run(struct door *door, const struct capture_config *config, const char *session,
	      struct start_info *info, struct fault *fault);

#endif
