/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_ATTACH_H
#define BEAMWEAVE_ATTACH_H

/*
 * Getting into a VM, in a thread of its own: a node that does not answer must not keep the kernel side
 * from being drained.
 */

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "node.h"
#include "rings.h"
#include "start.h"
#include "stream.h"
#include "target.h"

#define ATTACH_DEADLINE_NS 5000000000ull

enum attach_state {
	ATTACH_WORKING = 0,
	ATTACH_DONE = 1, /* the controller runs */
	ATTACH_FAILED = 2, /* attach_fault() says why */
};

struct attach;

/*
 * Begin to attach. With `boot` the node may still have to come up: it is waited for as long as that
 * is likely. The target and the configuration must outlive it. NULL with errno.
 */
struct attach *attach_begin(const struct capture_config *config, const struct target *target,
			    bool boot);
enum attach_state attach_state(struct attach *attach);
const struct fault *attach_fault(const struct attach *attach);
/* The session, as soon as it is there: drain it from then on, whatever comes after. NULL: not yet. */
struct rings *attach_rings(struct attach *attach);
/* With the IP trace port the stream is there in place of a session, when the state is ATTACH_DONE. */
struct stream *attach_stream(struct attach *attach);
/* Valid when the state is ATTACH_DONE; parts of it also when it failed. */
const struct start_info *attach_info(const struct attach *attach);
const struct node *attach_node(const struct attach *attach);
/* Give up what is still going on. */
void attach_cancel(struct attach *attach);
/* Wait for the thread, close the session (its file is removed), free. */
void attach_end(struct attach *attach);

#endif
