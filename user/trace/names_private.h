/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_NAMES_PRIVATE_H
#define BEAMWEAVE_NAMES_PRIVATE_H

/* What the two files of the names share and nobody else sees. */

#include "names.h"

/* A container that is full is an allocation that failed: it must not end the program. */
#define HASH_NONFATAL_OOM	     1
#define uthash_nonfatal_oom(element) (names_full = true)
extern _Thread_local bool names_full;
#include <uthash.h>

enum change_how {
	CHANGE_ASKED = 0, /* the node said so at this time */
	CHANGE_REGISTER = 1,
	CHANGE_DROP = 2, /* unregister or exit */
	CHANGE_SPAWN = 3, /* the word is a new process's from here on */
};

struct change {
	uint64_t ts_ns;
	uint32_t order;
	uint32_t how;
	const char *text; /* owned by the change when ASKED */
	uint32_t atom;
};

struct atom {
	uint32_t key;
	char *text;
	UT_hash_handle hh;
};

struct function {
	uint32_t key;
	struct ring_dict_mfa mfa;
	char *text; /* made when it is asked for */
	UT_hash_handle hh;
};

struct process {
	uint64_t word;
	uint64_t parent;
	char *text; /* made when it is asked for */
	char *initial; /* from the node, or a port's driver */
	uint32_t spawn_mfa; /* from its spawn */
	bool spawn_translated; /* it is what proc_lib or gen really start */
	bool own;
	struct change *changes;
	uint32_t change_count, change_capacity;
	UT_hash_handle hh;
};

#define OWN_FEW 8

struct names_intern;

struct names {
	struct names_intern *intern; /* names_intern.h; NULL: nothing interned */
	uint64_t own[OWN_FEW]; /* asked for at every event */
	uint32_t own_count; /* of all */
	struct atom *atoms;
	struct function *functions;
	struct process *processes;
	struct ring_vm vm;
	bool vm_known;
	bool ports_plain;
	char *flags;
	char **notes;
	size_t note_count;
	struct names_moment *moments;
	size_t moment_count, moment_capacity;
	uint32_t order;
};

struct process *names_process_find(const struct names *names, uint64_t word);
/* NULL with ENOMEM. */
struct process *names_process_get(struct names *names, uint64_t word);

#endif
