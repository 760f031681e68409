/* SPDX-License-Identifier: Apache-2.0 */
/* Atoms and functions that came as text in trace messages and not with the VM's own indices. */
#include "names_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "names_intern.h"

/* Beside the VM's atom indices, which have 26 bits. */
#define ATOM_FIRST 0x40000000u
#define ATOM_MAX   (1u << 24)
/* Beside the indices of the ring's MFA table, and within what is kept by index above us. */
#define MFA_FIRST (1u << 20)
#define MFA_MAX	  (1u << 22)

struct interned_atom {
	uint32_t key;
	uint32_t bytes;
	char *text;
	UT_hash_handle hh;
};

struct mfa_key {
	uint32_t module, function, arity;
};

struct interned_mfa {
	struct mfa_key mfa;
	uint32_t key;
	UT_hash_handle hh;
};

struct names_intern {
	struct interned_atom *atoms;
	struct interned_mfa *functions;
	uint32_t atom_count, mfa_count;
};

void names_intern_free(struct names_intern *intern)
{
	struct interned_atom *atom, *next_atom;
	struct interned_mfa *function, *next_function;

	if (!intern)
		return;
	HASH_ITER (hh, intern->atoms, atom, next_atom) {
		HASH_DEL(intern->atoms, atom);
		free(atom->text);
		free(atom);
	}
	HASH_ITER (hh, intern->functions, function, next_function) {
		HASH_DEL(intern->functions, function);
		free(function);
	}
	free(intern);
}

static struct names_intern *intern_get(struct names *names)
{
	if (!names->intern)
		names->intern = calloc(1, sizeof(*names->intern));
	return names->intern;
}

static int entry_add(struct names *names, uint16_t type, uint64_t key, const void *payload,
		     uint16_t bytes)
{
	_Alignas(8) uint8_t buffer[sizeof(struct ring_dict_entry) + 1024];
	struct ring_dict_entry *entry = (struct ring_dict_entry *)buffer;

	memset(entry, 0, sizeof(*entry));
	entry->type = type;
	entry->bytes = bytes;
	entry->key = key;
	memcpy(entry + 1, payload, bytes);
	return names_add(names, entry);
}

uint32_t names_atom_intern(struct names *names, const char *text, uint32_t bytes)
{
	struct names_intern *intern = intern_get(names);
	struct interned_atom *atom = NULL;

	if (!intern || bytes > 1024)
		return 0;
	HASH_FIND(hh, intern->atoms, text, bytes, atom);
	if (atom)
		return atom->key;
	if (intern->atom_count == ATOM_MAX)
		return 0;
	atom = calloc(1, sizeof(*atom));
	if (!atom)
		return 0;
	atom->text = malloc(bytes + 1);
	atom->bytes = bytes;
	atom->key = ATOM_FIRST + intern->atom_count;
	if (!atom->text)
		goto failed;
	memcpy(atom->text, text, bytes);
	if (entry_add(names, RING_DICT_ATOM, atom->key, text, (uint16_t)bytes))
		goto failed;
	names_full = false;
	HASH_ADD_KEYPTR(hh, intern->atoms, atom->text, atom->bytes, atom);
	if (names_full)
		goto failed;
	intern->atom_count++;
	return atom->key;
failed:
	free(atom->text);
	free(atom);
	return 0;
}

uint32_t names_mfa_intern(struct names *names, uint32_t module, uint32_t function, uint32_t arity)
{
	struct ring_dict_mfa text = {.module = module, .function = function, .arity = arity};
	struct mfa_key key = {module, function, arity};
	struct names_intern *intern = intern_get(names);
	struct interned_mfa *found = NULL;

	if (!intern)
		return RING_NO_INDEX;
	HASH_FIND(hh, intern->functions, &key, sizeof(key), found);
	if (found)
		return found->key;
	if (intern->mfa_count == MFA_MAX - MFA_FIRST)
		return RING_NO_INDEX;
	found = calloc(1, sizeof(*found));
	if (!found)
		return RING_NO_INDEX;
	found->mfa = key;
	found->key = MFA_FIRST + intern->mfa_count;
	if (entry_add(names, RING_DICT_MFA, found->key, &text, sizeof(text)))
		goto failed;
	names_full = false;
	HASH_ADD(hh, intern->functions, mfa, sizeof(key), found);
	if (names_full)
		goto failed;
	intern->mfa_count++;
	return found->key;
failed:
	free(found);
	return RING_NO_INDEX;
}
