/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_NAMES_H
#define BEAMWEAVE_NAMES_H

/*
 * Words and indices to texts: atoms, functions, processes and ports. Filled from the dictionary and
 * from events before anything is asked; a process's registered name is kept as a history, so that it
 * is right at each moment. Texts live as long as the names.
 */

#include "ring.h"
#include "record.h"
#include "text.h"

struct names;

struct names *names_new(void);
void names_free(struct names *names);

/* How the VM's pid words are to be read; NULL: as OTP 25 makes them. */
void names_set_vm(struct names *names, const struct ring_vm *vm);

/* Port words are made of the ports' numbers, whatever the release. */
void names_set_ports_plain(struct names *names, bool plain);

/* Take one entry of the dictionary. Entries that make no sense are left out. 0 or -ENOMEM. */
int names_add(struct names *names, const struct ring_dict_entry *entry);

/* Take what an event says about names: register, unregister, exit, spawn. 0 or -ENOMEM. */
int names_learn(struct names *names, const struct event *event);
/* After the last of these: put the histories in order. */
void names_settle(struct names *names);

const char *names_process(struct names *names, uint64_t word);
/* The same into a buffer of at least 40 bytes, remembering nothing. Returns the length. */
size_t names_process_put(const struct names *names, uint64_t word, char *buffer, size_t size);
const char *names_registered(const struct names *names, uint64_t word, uint64_t ts_ns);
/* The last one until then, also when it is dropped by then. */
const char *names_registered_last(const struct names *names, uint64_t word, uint64_t ts_ns);
const char *names_initial(struct names *names, uint64_t word);
uint64_t names_parent(const struct names *names, uint64_t word);
bool names_own(const struct names *names, uint64_t word);
const char *names_mfa(struct names *names, uint32_t mfa);
const char *names_atom(const struct names *names, uint32_t atom);
/* What the dictionary says of itself; NULL without. */
const char *names_flags(const struct names *names);
size_t names_notes(const struct names *names, const char *const **notes);

/* Names, initial calls and ports as the dictionary has them with a time: events of their own. */
struct names_moment {
	uint64_t ts_ns;
	uint32_t kind; /* EVENT_NAME, EVENT_INITIAL, EVENT_PORT */
	uint64_t word;
	struct text text;
	const struct ring_dict_port *port;
};
/* In time order after names_settle(). */
size_t names_moments(const struct names *names, const struct names_moment **moments);

#endif
