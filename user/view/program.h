/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_PROGRAM_H
#define BEAMWEAVE_PROGRAM_H

/*
 * How the user calls this program, so that the commands that reports name can be pasted: from the
 * tree it is build/beamweave, which no PATH has.
 */

/* Tell argv[0], once, before anything is printed; it must outlive the program. */
void program_set(const char *typed);
/* What was typed where it has a slash, in quotes where a shell needs them; else "beamweave". */
const char *program_name(void);

#endif
