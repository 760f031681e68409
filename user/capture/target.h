/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TARGET_H
#define BEAMWEAVE_TARGET_H

/*
 * A process that runs an Erlang VM, as /proc shows it. Everything that it says of itself (command
 * line, environment, root directory) is its own choice and not trusted.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "fault.h"
#include "file.h"

struct target {
	pid_t pid; /* in our pid namespace */
	pid_t ns_pid; /* in its own */
	int pidfd; /* -1: the kernel has none */
	int root_fd; /* its root directory; -1: not permitted */
	uint64_t start_ticks; /* tells a process from a later one with its number */
	uid_t uid;
	gid_t gid;
	bool same_root; /* it has our root directory */
	bool other_netns;
	char *command_line; /* arguments, each ended by 0 */
	size_t command_line_bytes;
	char *environment; /* likewise; NULL: not permitted */
	size_t environment_bytes;
	char otp_release[16]; /* by its files; empty: unknown */
};

/* Returns 0, -ESRCH (no such process), -ENOEXEC (no Erlang VM), -errno; the reason in `fault`. */
int target_open(struct target *target, pid_t pid, bool use_pidfd, struct fault *fault);
void target_close(struct target *target);
/* Has the process ended? */
bool target_ended(const struct target *target);
/* Is `pid` an Erlang VM? By the name of its executable. */
bool target_is_vm(pid_t pid);

/* The argument after `flag` among the VM's flags ("-sname"), the first one given. NULL: none. */
const char *target_argument(const struct target *target, const char *flag);
/* The value of a variable of its environment. NULL: none, or it may not be read. */
const char *target_variable(const struct target *target, const char *name);

/*
 * Open a path as the target sees it; no link leads out of its root. Flags and mode as in open(2).
 * Returns a descriptor or -errno.
 */
int target_file_open(const struct target *target, const char *path, int flags, mode_t mode);

/*
 * Move the calling thread, and no other, into the target's network namespace, where its sockets and its
 * epmd are. Returns 0, at once where it has ours, or -errno.
 */
int target_network_enter(const struct target *target, struct fault *fault);

/* A thread of the target by its number in the target's pid namespace; 0: none. */
pid_t target_thread(const struct target *target, pid_t ns_tid);
/* All threads now: *tasks is to be freed. Returns the number or -errno. */
ssize_t target_threads(const struct target *target, struct chunk_task **tasks);

/* Every Erlang VM that can be seen, at most `max`. */
size_t target_find_all(pid_t *pids, size_t max);

/* Whole text of a file of at most `max` bytes, with a 0 behind it; NULL with errno. To be freed. */
char *text_read(const char *path, size_t max, size_t *bytes);

#endif
