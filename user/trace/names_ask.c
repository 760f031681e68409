/* SPDX-License-Identifier: Apache-2.0 */
/* Asking for names, once they are settled. */
#include "names_private.h"

#include <stdlib.h>
#include <string.h>

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
	const struct process *process = names_process_find(names, word);
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

const char *names_registered_last(const struct names *names, uint64_t word, uint64_t ts_ns)
{
	const struct process *process = names_process_find(names, word);

	for (uint32_t i = process ? process->change_count : 0; i-- > 0;) {
		const struct change *change = &process->changes[i];

		if (change->ts_ns > ts_ns)
			continue;
		/* What stands before a spawn was another process's. */
		if (change->how == CHANGE_SPAWN)
			return NULL;
		if (change->how != CHANGE_DROP || change->atom)
			return change_name(names, change);
	}
	/* The VM drops a name after the exit that it tells of. */
	return names_registered(names, word, ts_ns);
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
	} else if (tag == TAG_PORT && names->ports_plain) {
		text_format(&text, "#Port<0.%llu>", (unsigned long long)(word >> 4));
	} else if (tag == TAG_PORT && (!names->vm_known || names->vm.otp_release <= 25)) {
		text_format(&text, "#Port<0.%u>", (uint32_t)(word >> 4 & 0xfffffff));
	} else {
		text_format(&text, "0x%llx", (unsigned long long)word);
	}
	return text_finish(&text);
}

const char *names_process(struct names *names, uint64_t word)
{
	struct process *process = names_process_get(names, word);
	char buffer[48];

	if (process && !process->text) {
		names_process_put(names, word, buffer, sizeof(buffer));
		process->text = strdup(buffer);
	}
	return process && process->text ? process->text : "?";
}

const char *names_initial(struct names *names, uint64_t word)
{
	const struct process *process = names_process_find(names, word);

	if (!process)
		return NULL;
	if (process->spawn_mfa != RING_NO_INDEX && (process->spawn_translated || !process->initial))
		return names_mfa(names, process->spawn_mfa);
	return process->initial;
}

uint64_t names_parent(const struct names *names, uint64_t word)
{
	const struct process *process = names_process_find(names, word);

	return process ? process->parent : 0;
}

bool names_own(const struct names *names, uint64_t word)
{
	const struct process *process;

	if (names->own_count > OWN_FEW) {
		process = names_process_find(names, word);
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
