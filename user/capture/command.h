/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_COMMAND_H
#define BEAMWEAVE_COMMAND_H

/* A command that is started to be recorded. */

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "fault.h"

struct command {
	pid_t pid; /* 0: none */
	int go_fd; /* closing it without a byte makes the child give up; -1: it was let go */
	int error_fd; /* what exec said, closed by a successful one */
	bool ended;
	int status; /* as wait gives it */
};

/* Make the process; it waits. `mask` is what its signals are to be blocked with. */
int command_prepare(struct command *command, char **arguments, const sigset_t *mask,
		    struct fault *fault);
/* Let it run. Returns 0 or what exec said. */
int command_go(struct command *command, char **arguments, struct fault *fault);
/* Has it ended? */
bool command_ended(struct command *command);
/* Wait for its end; a child that was never let go gives up. */
void command_wait(struct command *command);
/* The status to end with ourselves: the command's own, or 128 and the signal that ended it. */
int command_exit_status(const struct command *command);
/* The Erlang VM among it and its descendants; 0: none yet. */
pid_t command_find_vm(const struct command *command);

#endif
