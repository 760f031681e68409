/* SPDX-License-Identifier: Apache-2.0 */
#include "names_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "names_intern.h"

_Thread_local bool names_full;

struct names *names_new(void)
{
	return calloc(1, sizeof(struct names));
}

void names_free(struct names *names)
{
	struct atom *atom, *next_atom;
	struct function *function, *next_function;
	struct process *process, *next_process;

	if (!names)
		return;
	HASH_ITER (hh, names->atoms, atom, next_atom) {
		HASH_DEL(names->atoms, atom);
		free(atom->text);
		free(atom);
	}
	HASH_ITER (hh, names->functions, function, next_function) {
		HASH_DEL(names->functions, function);
		free(function->text);
		free(function);
	}
	HASH_ITER (hh, names->processes, process, next_process) {
		HASH_DEL(names->processes, process);
		free(process->text);
		free(process->initial);
		free(process->changes);
		free(process);
	}
	for (size_t i = 0; i < names->note_count; i++)
		free(names->notes[i]);
	for (size_t i = 0; i < names->moment_count; i++) {
		free((void *)(uintptr_t)names->moments[i].text.data);
		free((void *)(uintptr_t)names->moments[i].port);
	}
	names_intern_free(names->intern);
	free(names->notes);
	free(names->flags);
	free(names->moments);
	free(names);
}

void names_set_vm(struct names *names, const struct ring_vm *vm)
{
	names->vm_known = vm != NULL;
	if (vm)
		names->vm = *vm;
}

void names_set_ports_plain(struct names *names, bool plain)
{
	names->ports_plain = plain;
}

struct process *names_process_find(const struct names *names, uint64_t word)
{
	struct process *process;

	HASH_FIND(hh, names->processes, &word, sizeof(word), process);
	return process;
}

struct process *names_process_get(struct names *names, uint64_t word)
{
	struct process *process = names_process_find(names, word);

	if (process)
		return process;
	process = calloc(1, sizeof(*process));
	if (!process)
		return NULL;
	process->word = word;
	process->spawn_mfa = RING_NO_INDEX;
	names_full = false;
	HASH_ADD(hh, names->processes, word, sizeof(word), process);
	if (!names_full)
		return process;
	free(process);
	return NULL;
}

static int change_add(struct names *names, uint64_t word, const struct change *change)
{
	struct process *process = names_process_get(names, word);

	if (!process)
		return -ENOMEM;
	if (process->change_count == process->change_capacity) {
		uint32_t capacity = process->change_capacity ? process->change_capacity * 2 : 2;
		struct change *changes =
			realloc(process->changes, capacity * sizeof(*process->changes));

		if (!changes)
			return -ENOMEM;
		process->changes = changes;
		process->change_capacity = capacity;
	}
	process->changes[process->change_count] = *change;
	process->changes[process->change_count++].order = names->order++;
	return 0;
}

/* ---- The dictionary ---- */

static int atom_add(struct names *names, uint32_t key, const char *data, size_t bytes)
{
	struct atom *atom;

	HASH_FIND(hh, names->atoms, &key, sizeof(key), atom);
	if (atom)
		return 0; /* two threads found it new at once: the text is the same */
	atom = calloc(1, sizeof(*atom));
	if (!atom)
		return -ENOMEM;
	atom->key = key;
	atom->text = text_clean_copy(data, bytes);
	names_full = false;
	if (atom->text)
		HASH_ADD(hh, names->atoms, key, sizeof(key), atom);
	if (atom->text && !names_full)
		return 0;
	free(atom->text);
	free(atom);
	return -ENOMEM;
}

static int function_add(struct names *names, uint32_t key, const void *payload)
{
	struct function *function;

	HASH_FIND(hh, names->functions, &key, sizeof(key), function);
	if (function)
		return 0;
	function = calloc(1, sizeof(*function));
	if (!function)
		return -ENOMEM;
	function->key = key;
	memcpy(&function->mfa, payload, sizeof(function->mfa));
	names_full = false;
	HASH_ADD(hh, names->functions, key, sizeof(key), function);
	if (!names_full)
		return 0;
	free(function);
	return -ENOMEM;
}

/* Takes over the text and the port, also when it fails. */
static int moment_add(struct names *names, struct names_moment *moment)
{
	if (!moment->text.data)
		goto failed;
	if (names->moment_count == names->moment_capacity) {
		size_t capacity = names->moment_capacity ? names->moment_capacity * 2 : 256;
		struct names_moment *moments =
			realloc(names->moments, capacity * sizeof(*names->moments));

		if (!moments)
			goto failed;
		names->moments = moments;
		names->moment_capacity = capacity;
	}
	moment->text.bytes = (uint32_t)strlen(moment->text.data);
	names->moments[names->moment_count++] = *moment;
	return 0;
failed:
	free((void *)(uintptr_t)moment->text.data);
	free((void *)(uintptr_t)moment->port);
	return -ENOMEM;
}

/* "mod:fun/1" as the node printed it, in our way of printing. */
static char *mfa_copy(const char *data, size_t bytes)
{
	size_t size = bytes * 3 + 4;
	char *copy = malloc(size);
	struct text_builder text;

	if (!copy)
		return NULL;
	text_begin(&text, copy, size);
	text_add_mfa_text(&text, data, bytes);
	return copy;
}

static int initial_set(struct names *names, uint64_t word, const char *text)
{
	struct process *process = names_process_get(names, word);
	char *copy = process ? strdup(text) : NULL;

	if (!copy)
		return -ENOMEM;
	free(process->initial);
	process->initial = copy;
	return 0;
}

static int timed_add(struct names *names, const struct ring_dict_entry *entry, const char *data)
{
	struct names_moment moment = {.word = entry->key};
	size_t bytes = entry->bytes - sizeof(moment.ts_ns);
	struct change change = {.how = CHANGE_ASKED};
	int error;

	memcpy(&moment.ts_ns, data, sizeof(moment.ts_ns));
	data += sizeof(moment.ts_ns);
	if (entry->type == RING_DICT_NAME) {
		moment.kind = EVENT_NAME;
		moment.text.data = text_clean_copy(data, bytes);
		change.text = moment.text.data;
		change.ts_ns = moment.ts_ns;
		error = moment_add(names, &moment);
		return error ? error : change_add(names, entry->key, &change);
	}
	moment.kind = EVENT_INITIAL;
	moment.text.data = mfa_copy(data, bytes);
	error = moment_add(names, &moment);
	return error ? error : initial_set(names, entry->key, moment.text.data);
}

static int port_add(struct names *names, const struct ring_dict_entry *entry, const char *data)
{
	struct names_moment moment = {.word = entry->key, .kind = EVENT_PORT};
	struct ring_dict_port *port = malloc(sizeof(*port));
	int error;

	if (!port)
		return -ENOMEM;
	memcpy(port, data, sizeof(*port));
	moment.ts_ns = port->time_ns;
	moment.port = port;
	moment.text.data = text_clean_copy(data + sizeof(*port), entry->bytes - sizeof(*port));
	error = moment_add(names, &moment);
	if (!error && moment.text.bytes)
		error = initial_set(names, entry->key, moment.text.data);
	return error;
}

static int note_add(struct names *names, const char *data, size_t bytes)
{
	char **notes = realloc(names->notes, (names->note_count + 1) * sizeof(*notes));
	char *copy;

	if (!notes)
		return -ENOMEM;
	names->notes = notes;
	copy = text_clean_copy(data, bytes);
	if (!copy)
		return -ENOMEM;
	names->notes[names->note_count++] = copy;
	return 0;
}

int names_add(struct names *names, const struct ring_dict_entry *entry)
{
	const char *data = (const char *)(entry + 1);
	const size_t time_bytes = sizeof(uint64_t);
	struct process *process;
	char *copy;

	switch (entry->type) {
	case RING_DICT_ATOM:
		return entry->key > UINT32_MAX
			       ? 0
			       : atom_add(names, (uint32_t)entry->key, data, entry->bytes);
	case RING_DICT_MFA:
		return entry->key > UINT32_MAX || entry->bytes < sizeof(struct ring_dict_mfa)
			       ? 0
			       : function_add(names, (uint32_t)entry->key, data);
	case RING_DICT_NAME:
	case RING_DICT_INITIAL:
		return entry->bytes < time_bytes ? 0 : timed_add(names, entry, data);
	case RING_DICT_PORT:
		return entry->bytes < sizeof(struct ring_dict_port) ? 0
								    : port_add(names, entry, data);
	case RING_DICT_OWN:
		process = names_process_get(names, entry->key);
		if (!process)
			return -ENOMEM;
		if (!process->own && names->own_count++ < OWN_FEW)
			names->own[names->own_count - 1] = entry->key;
		process->own = true;
		return 0;
	case RING_DICT_NOTE:
		return entry->bytes < time_bytes
			       ? 0
			       : note_add(names, data + time_bytes, entry->bytes - time_bytes);
	case RING_DICT_FLAGS:
		if (entry->bytes < time_bytes)
			return 0;
		copy = text_clean_copy(data + time_bytes, entry->bytes - time_bytes);
		if (!copy)
			return -ENOMEM;
		free(names->flags);
		names->flags = copy;
		return 0;
	case RING_DICT_PARENT:
		if (entry->bytes < sizeof(uint64_t))
			return 0;
		process = names_process_get(names, entry->key);
		if (process)
			memcpy(&process->parent, data, sizeof(process->parent));
		return process ? 0 : -ENOMEM;
	default:
		return 0;
	}
}

/* ---- Events ---- */

static int spawn_learn(struct names *names, uint64_t child, uint64_t parent, uint64_t ts_ns,
		       const struct ring_spawn *spawn)
{
	struct process *process = names_process_get(names, child);
	struct change change = {.ts_ns = ts_ns, .how = CHANGE_SPAWN};

	if (!process)
		return -ENOMEM;
	process->parent = parent;
	process->spawn_translated = spawn->initial != RING_NO_INDEX;
	process->spawn_mfa = process->spawn_translated ? spawn->initial : spawn->mfa;
	/* Only a word that had a name before can be taken for that process. */
	return process->change_count ? change_add(names, child, &change) : 0;
}

int names_learn(struct names *names, const struct event *event)
{
	struct change change = {.ts_ns = event->ts_ns};
	const struct process *process;

	switch (event->kind) {
	case RING_REGISTER:
		change.how = CHANGE_REGISTER;
		change.atom = event->name->name;
		return change_add(names, event->process, &change);
	case RING_UNREGISTER:
		change.how = CHANGE_DROP;
		change.atom = event->name->name;
		return change_add(names, event->process, &change);
	case RING_EXIT:
		change.how = CHANGE_DROP;
		process = names_process_find(names, event->process);
		/* Most have no name, and need no history. */
		return process && process->change_count ? change_add(names, event->process, &change)
							: 0;
	case RING_SPAWN:
		return spawn_learn(names, event->spawn->other, event->process, event->ts_ns,
				   event->spawn);
	case RING_SPAWNED:
		return spawn_learn(names, event->process, event->spawn->other, event->ts_ns,
				   event->spawn);
	default:
		return 0;
	}
}

static int change_compare(const void *left, const void *right)
{
	const struct change *a = left, *b = right;

	if (a->ts_ns != b->ts_ns)
		return a->ts_ns < b->ts_ns ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static int moment_compare(const void *left, const void *right)
{
	const struct names_moment *a = left, *b = right;

	if (a->ts_ns != b->ts_ns)
		return a->ts_ns < b->ts_ns ? -1 : 1;
	return a->word < b->word ? -1 : a->word > b->word;
}

void names_settle(struct names *names)
{
	struct process *process, *next;

	HASH_ITER (hh, names->processes, process, next) {
		uint32_t kept = 0;

		if (!process->change_count)
			continue;
		qsort(process->changes, process->change_count, sizeof(*process->changes),
		      change_compare);
		for (uint32_t i = 0; i < process->change_count; i++) {
			struct change *change = &process->changes[i];

			/*
			 * The node was asked while the process lost the name: once an event has
			 * dropped it only an event brings it back.
			 */
			if (change->how == CHANGE_ASKED && kept &&
			    process->changes[kept - 1].how == CHANGE_DROP)
				continue;
			process->changes[kept++] = *change;
		}
		process->change_count = kept;
	}
	if (names->moment_count)
		qsort(names->moments, names->moment_count, sizeof(*names->moments), moment_compare);
}
