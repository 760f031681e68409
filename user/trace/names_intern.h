/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_NAMES_INTERN_H
#define BEAMWEAVE_NAMES_INTERN_H

/*
 * Atoms and functions of trace messages, which come as text: they get indices of their own, that
 * names_atom() and names_mfa() know. Memory grows with the number of different ones.
 */

#include "names.h"

struct names_intern;

void names_intern_free(struct names_intern *intern);
/* An atom's index from its UTF-8 text; 0 when there is no room for more. */
uint32_t names_atom_intern(struct names *names, const char *text, uint32_t bytes);
/* A function's index; RING_NO_INDEX when there is no room for more. */
uint32_t names_mfa_intern(struct names *names, uint32_t module, uint32_t function, uint32_t arity);

#endif
