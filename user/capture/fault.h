/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_FAULT_H
#define BEAMWEAVE_FAULT_H

/* Why something could not be done, in words that a command prints: nothing below cmd/ prints. */

struct fault {
	int error; /* -errno */
	char why[512]; /* "the node refused the cookie" */
	char fix[768]; /* what to do about it; empty when nothing is known to help */
};

/* Fill in and return `error`. `fix` may be NULL. Control characters in the texts become '?'. */
__attribute__((format(printf, 4, 5))) int fault_set(struct fault *fault, int error, const char *fix,
						    const char *why, ...);
/* Set the fix alone. */
__attribute__((format(printf, 2, 3))) void fault_fix(struct fault *fault, const char *fix, ...);

#endif
