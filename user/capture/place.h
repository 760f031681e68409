/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_PLACE_H
#define BEAMWEAVE_PLACE_H

/*
 * Files that are put where a target can see them: created below its root, given to its user, and
 * removed by whoever put them there, or, when that is killed before it could, by a process that
 * lives as long as they have a name.
 */

#include <limits.h>

#include "config.h"
#include "target.h"

struct place {
	int directory_fd; /* -1: nothing was placed */
	int keeper_fd; /* -1: none; closing it makes the keeper remove the file */
	pid_t keeper; /* a process that removes the file when we are killed */
	int fd;
	char name[NAME_MAX + 1]; /* in the directory */
	char path[PATH_MAX]; /* as the target sees it */
};

enum place_kind {
	PLACE_SESSION, /* shared memory */
	PLACE_LIBRARY, /* has to be mapped executable */
};

#define PLACE_NONE ((struct place){.directory_fd = -1, .keeper_fd = -1, .fd = -1})

/*
 * Create a new file of a kind in the first directory that can be used for it, from the *nth on (0 at
 * first); *nth becomes the number behind it, for another try. Returns 0, -ENOENT (there are no more),
 * or what the last directory said.
 */
int place_create(struct place *place, const struct target *target, enum place_kind kind,
		 uint32_t without, unsigned int *nth, struct fault *fault);
/* Hand the file to the target's user, who gets `mode` on it. */
int place_give(const struct place *place, const struct target *target, mode_t mode);
/* An existing file, by the path that a person typed: our root's. To be removed later. */
int place_open(struct place *place, const char *path, struct fault *fault);
/* Remove the name, keep the file: it is gone when the last who has it open or mapped lets go. */
void place_unlink(struct place *place);
/* Remove the file and close it. Harmless when nothing was placed. */
void place_remove(struct place *place);
/* Close without removing. */
void place_close(struct place *place);

#endif
