// SPDX-License-Identifier: Apache-2.0
#include "names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A container that is full is an allocation that failed: it must not end the program. */
#define uthash_fatal(message)	     (names_full = true)
#define HASH_NONFATAL_OOM	     1
#define uthash_nonfatal_oom(element) (names_full = true)
static _Thread_local bool names_full;
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

struct names {
	uint64_t own[OWN_FEW]; /* asked for at every event */
	uint32_t own_count; /* of all */
	struct atom *atoms;
	struct function *functions;
	struct process *processes;
	struct ring_vm vm;
	bool vm_known;
	char *flags;
	char **notes;
	size_t note_count;
	struct names_moment *moments;
	size_t moment_count, moment_capacity;
	uint32_t order;
};

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

static struct process *process_find(const struct names *names, uint64_t word)
{
	struct process *process;

	HASH_FIND(hh, names->processes, &word, sizeof(word), process);
	return process;
}

/* NULL with ENOMEM. */
static struct process *process_get(struct names *names, uint64_t word)
{
	struct process *process = process_find(names, word);

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
	struct process *process = process_get(names, word);

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
	struct process *process = process_get(names, word);
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
		process = process_get(names, entry->key);
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
		process = process_get(names, entry->key);
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
	struct process *process = process_get(names, child);
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
		process = process_find(names, event->process);
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

/* ---- Asking ---- */

const char *names_atom(const struct names *names, uint32_t atom)
{
	struct atom *found;

	HASH_FIND(hh, names->atoms, &atom, sizeof(atom), found);
	return found ? found->text : "?";
}

static const char *change_name(const struct names *names, const struct change *change)
{
	return change->how == CHANGE_ASKED ? change->text : names_atom(names, change->atom);
}

const char *names_registered(const struct names *names, uint64_t word, uint64_t ts_ns)
{
	const struct process *process = process_find(names, word);
	uint32_t low = 0, high;
	const struct change *change;

	if (!process || !process->change_count)
		return NULL;
	high = process->change_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (process->changes[middle].ts_ns <= ts_ns)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low) {
		/* Before the first that is known: what was asked, or is dropped, was so before. */
		change = &process->changes[0];
		if (change->how == CHANGE_ASKED || (change->how == CHANGE_DROP && change->atom))
			return change_name(names, change);
		return NULL;
	}
	change = &process->changes[low - 1];
	if (change->how == CHANGE_ASKED || change->how == CHANGE_REGISTER)
		return change_name(names, change);
	return NULL;
}

/* Words of OTP 25, 64 bits: the low four bits tag, 28 bits of number and serial above them. */
#define TAG_MASK 0xfu
#define TAG_PID	 0x3u
#define TAG_PORT 0x7u

static uint64_t pid_bits(const struct ring_vm *vm, uint64_t word, bool *known)
{
	uint64_t bits = 0;

	*known = false;
	for (uint32_t bit = 0; bit < 64; bit++) {
		if (vm->pid_bit[bit] >= 64)
			continue;
		bits |= (word >> bit & 1) << vm->pid_bit[bit];
		*known |= vm->pid_bit[bit] != 0;
	}
	return bits;
}

size_t names_process_put(const struct names *names, uint64_t word, char *buffer, size_t size)
{
	uint32_t tag = word & TAG_MASK;
	struct text_builder text;
	bool known = false;
	uint64_t bits = 0;

	text_begin(&text, buffer, size);
	if (tag == TAG_PID) {
		if (names->vm_known)
			bits = pid_bits(&names->vm, word, &known);
		if (known)
			text_format(&text, "<0.%u.%u>", (uint32_t)bits, (uint32_t)(bits >> 32));
		else if (!names->vm_known || names->vm.otp_release <= 25)
			text_format(&text, "<0.%u.%u>", (uint32_t)(word >> 4 & 0x7fff),
				    (uint32_t)(word >> 19 & 0x1fff));
		else
			text_format(&text, "0x%llx", (unsigned long long)word);
	} else if (tag == TAG_PORT && (!names->vm_known || names->vm.otp_release <= 25)) {
		text_format(&text, "#Port<0.%u>", (uint32_t)(word >> 4 & 0xfffffff));
	} else {
		text_format(&text, "0x%llx", (unsigned long long)word);
	}
	return text_finish(&text);
}

const char *names_process(struct names *names, uint64_t word)
{
	struct process *process = process_get(names, word);
	char buffer[48];

	if (process && !process->text) {
		names_process_put(names, word, buffer, sizeof(buffer));
		process->text = strdup(buffer);
	}
	return process && process->text ? process->text : "?";
}

const char *names_initial(struct names *names, uint64_t word)
{
	const struct process *process = process_find(names, word);

	if (!process)
		return NULL;
	if (process->spawn_mfa != RING_NO_INDEX && (process->spawn_translated || !process->initial))
		return names_mfa(names, process->spawn_mfa);
	return process->initial;
}

uint64_t names_parent(const struct names *names, uint64_t word)
{
	const struct process *process = process_find(names, word);

	return process ? process->parent : 0;
}

bool names_own(const struct names *names, uint64_t word)
{
	const struct process *process;

	if (names->own_count > OWN_FEW) {
		process = process_find(names, word);
		return process && process->own;
	}
	for (uint32_t i = 0; i < names->own_count; i++) {
		if (names->own[i] == word)
			return true;
	}
	return false;
}

const char *names_mfa(struct names *names, uint32_t mfa)
{
	struct function *function;
	struct text_builder text;
	char buffer[2048];

	HASH_FIND(hh, names->functions, &mfa, sizeof(mfa), function);
	if (!function)
		return "?";
	if (!function->text) {
		text_begin(&text, buffer, sizeof(buffer));
		text_add_mfa(&text, names_atom(names, function->mfa.module),
			     names_atom(names, function->mfa.function), function->mfa.arity);
		text_finish(&text);
		function->text = strdup(buffer);
	}
	return function->text ? function->text : "?";
}

const char *names_flags(const struct names *names)
{
	return names->flags;
}

size_t names_notes(const struct names *names, const char *const **notes)
{
	*notes = (const char *const *)names->notes;
	return names->note_count;
}

size_t names_moments(const struct names *names, const struct names_moment **moments)
{
	*moments = names->moments;
	return names->moment_count;
}
