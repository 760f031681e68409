/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captured terms as Erlang text. The External Term Format is read here and not by ei, whose decoders
 * take no length: they would read beyond what a hostile file holds.
 */
#include "term_private.h"
#include "trace_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ei.h>

#define DEPTH_MAX 64

/* Tags that OTP 25's ei does not name. */
#define TAG_VERSION    131
#define TAG_NEW_FLOAT  70
#define TAG_BIT_BINARY 77
#define TAG_V4_PORT    120
#define TAG_EXPORT     113
#define TAG_NEW_FUN    112

static void term_print(struct term *term);

/* ---- Atoms ---- */

/* An atom at `at`, without taking it. Returns the bytes that it takes, 0 when it is none. */
static uint32_t atom_find(const uint8_t *at, const uint8_t *end, const char **data, uint32_t *bytes,
			  bool *latin1)
{
	uint32_t head;

	if (end - at < 3)
		return 0;
	switch (*at) {
	case ERL_SMALL_ATOM_EXT:
	case ERL_SMALL_ATOM_UTF8_EXT:
		head = 2;
		*bytes = at[1];
		break;
	case ERL_ATOM_EXT:
	case ERL_ATOM_UTF8_EXT:
		head = 3;
		*bytes = (uint32_t)at[1] << 8 | at[2];
		break;
	default:
		return 0;
	}
	if (*bytes > end - at - head)
		return 0;
	*latin1 = *at == ERL_SMALL_ATOM_EXT || *at == ERL_ATOM_EXT;
	*data = (const char *)at + head;
	return head + *bytes;
}

/* The text of the atom at hand in UTF-8, taken. Returns false when there is none. */
static bool atom_take(struct term *term, char *buffer, size_t size, size_t *length)
{
	const char *data = NULL;
	uint32_t bytes = 0, taken;
	bool latin1 = false;

	if (term->stopped)
		return false;
	taken = atom_find(term->at, term->end, &data, &bytes, &latin1);
	if (!taken) {
		/* An empty atom of two bytes at the very end. */
		if (term->end - term->at == 2 && !term->at[1] &&
		    (*term->at == ERL_SMALL_ATOM_EXT || *term->at == ERL_SMALL_ATOM_UTF8_EXT)) {
			term->at += 2;
			*length = 0;
			return true;
		}
		term_stop(term);
		return false;
	}
	term->at += taken;
	*length = 0;
	for (uint32_t i = 0; i < bytes && *length + 2 < size; i++) {
		uint8_t byte = (uint8_t)data[i];

		if (latin1 && byte >= 0x80) {
			buffer[(*length)++] = (char)(0xc0 | byte >> 6);
			byte = 0x80 | (byte & 0x3f);
		}
		buffer[(*length)++] = (char)byte;
	}
	return true;
}

static void atom_print(struct term *term)
{
	char buffer[1024];
	size_t length;

	if (!atom_take(term, buffer, sizeof(buffer), &length))
		return;
	if (length == 4 && !memcmp(buffer, "$cut", 4))
		text_add(&term->text, "...");
	else
		text_add_atom(&term->text, buffer, length);
}

/* An unsigned number of up to 64 bits at `at`. Returns the bytes that it takes, 0 when it is none. */
static uint32_t word_find(const uint8_t *at, const uint8_t *end, uint64_t *word)
{
	*word = 0;
	if (end - at >= 2 && *at == ERL_SMALL_INTEGER_EXT) {
		*word = at[1];
		return 2;
	}
	if (end - at >= 5 && *at == ERL_INTEGER_EXT && at[1] < 0x80) {
		for (int i = 1; i <= 4; i++)
			*word = *word << 8 | at[i];
		return 5;
	}
	if (end - at >= 3 && *at == ERL_SMALL_BIG_EXT && at[1] <= 8 && !at[2] &&
	    end - at - 3 >= at[1]) {
		for (int i = at[1]; i-- > 0;)
			*word = *word << 8 | at[3 + i];
		return 3u + at[1];
	}
	return 0;
}

/* ---- What stands for a term that was not encoded ---- */

/* {'$pid', Word} and its kin: returns false when the tuple is an ordinary one. */
static bool stand_in_print(struct term *term, uint64_t arity)
{
	const uint8_t *at = term->at;
	const char *name = NULL;
	char buffer[64];
	uint32_t bytes = 0, taken;
	bool latin1;
	uint64_t word;

	taken = atom_find(at, term->end, &name, &bytes, &latin1);
	if (!taken || arity < 2 || arity > 3 || !bytes || *name != '$')
		return false;
	at += taken;
	if (arity == 3) {
		uint64_t size = 0;
		struct term binary = *term;

		if (bytes != 4 || memcmp(name, "$cut", 4) || term->end - at < 5 ||
		    *at != ERL_BINARY_EXT)
			return false;
		binary.at = at + 1;
		size = term_number(&binary, 4);
		if ((uint64_t)(term->end - binary.at) < size)
			return false;
		taken = word_find(binary.at + size, term->end, &word);
		if (!taken)
			return false;
		snprintf(buffer, sizeof(buffer), "...>>(%llu bytes)", (unsigned long long)word);
		term->at = binary.at;
		term_binary_add(term, size, 8, buffer);
		term->at += taken;
		return true;
	}
	taken = word_find(at, term->end, &word);
	if (!taken)
		return false;
	if ((bytes == 4 && !memcmp(name, "$pid", 4)) || (bytes == 5 && !memcmp(name, "$port", 5))) {
		names_process_put(term->names, word, buffer, sizeof(buffer));
		text_add(&term->text, buffer);
	} else if (bytes == 4 && !memcmp(name, "$ref", 4)) {
		text_format(&term->text, "#Ref<%llx>", (unsigned long long)word);
	} else if (bytes == 4 && !memcmp(name, "$fun", 4)) {
		text_format(&term->text, "#Fun<%llx>", (unsigned long long)word);
	} else if (bytes == 4 && !memcmp(name, "$cut", 4)) {
		text_format(&term->text, "...(%llu more)", (unsigned long long)word);
	} else {
		return false;
	}
	term->at = at + taken;
	return true;
}

/* ---- Compound terms ---- */

/* May there be so many terms in what is left? Each takes a byte at least. */
static bool count_fits(struct term *term, uint64_t count)
{
	if (!term->stopped && (uint64_t)(term->end - term->at) >= count)
		return true;
	term_stop(term);
	return false;
}

static void tuple_print(struct term *term, uint64_t arity)
{
	if (!count_fits(term, arity) || stand_in_print(term, arity))
		return;
	text_add(&term->text, "{");
	for (uint64_t i = 0; i < arity && !term->stopped && !term->text.cut; i++) {
		if (i)
			text_add(&term->text, ",");
		term_print(term);
	}
	text_add(&term->text, "}");
}

/*
 * Captures hold every list element by element; one of characters is a text all the same, as Erlang prints
 * it.
 */
static bool list_is_text(const struct term *term, uint64_t count)
{
	if ((term->arguments && term->depth == 1) || count > (uint64_t)(term->end - term->at) / 2 ||
	    2 * count + 1 > (uint64_t)(term->end - term->at) || term->at[2 * count] != ERL_NIL_EXT)
		return false;
	for (uint64_t i = 0; i < count; i++)
		if (term->at[2 * i] != ERL_SMALL_INTEGER_EXT)
			return false;
	return term_chars_printable(term->at + 1, count, 2);
}

static void list_print(struct term *term, uint64_t count)
{
	if (!count_fits(term, count))
		return;
	if (list_is_text(term, count)) {
		term_chars_add(term, term->at + 1, count, 2);
		term->at += 2 * count + 1;
		return;
	}
	text_add(&term->text, "[");
	for (uint64_t i = 0; i < count && !term->stopped && !term->text.cut; i++) {
		if (i)
			text_add(&term->text, ",");
		term_print(term);
	}
	if (!term->stopped && !term->text.cut) {
		if (term_has(term, 1) && *term->at == ERL_NIL_EXT) {
			term->at++;
		} else if (!term->stopped) {
			text_add(&term->text, "|");
			term_print(term);
		}
	}
	text_add(&term->text, "]");
}

static void map_print(struct term *term, uint64_t count)
{
	if (!count_fits(term, 2 * count))
		return;
	text_add(&term->text, "#{");
	for (uint64_t i = 0; i < count && !term->stopped && !term->text.cut; i++) {
		if (i)
			text_add(&term->text, ",");
		term_print(term);
		if (term->stopped)
			break;
		text_add(&term->text, " => ");
		term_print(term);
	}
	text_add(&term->text, "}");
}

/* ---- What belongs to a node ---- */

/* "<node.1.2>": the node and the numbers that name it there; the creation is left out. */
static void node_thing_print(struct term *term, const char *open, uint32_t numbers,
			     uint32_t number_bytes, uint32_t creation_bytes)
{
	char node[1024];
	size_t length;

	if (!atom_take(term, node, sizeof(node), &length) ||
	    !term_has(term, (uint64_t)numbers * number_bytes + creation_bytes))
		return;
	text_add(&term->text, open);
	text_add_clean(&term->text, node, length);
	for (uint32_t i = 0; i < numbers && !term->text.cut; i++)
		text_format(&term->text, ".%llu",
			    (unsigned long long)term_number(term, number_bytes));
	text_add(&term->text, ">");
	if (!term->text.cut)
		term->at += creation_bytes;
}

static void reference_print(struct term *term, uint32_t creation_bytes)
{
	char node[1024];
	uint64_t count;
	size_t length;

	if (!term_has(term, 2))
		return;
	count = term_number(term, 2);
	if (!atom_take(term, node, sizeof(node), &length) ||
	    !term_has(term, creation_bytes + 4 * count))
		return;
	term->at += creation_bytes;
	text_add(&term->text, "#Ref<");
	text_add_clean(&term->text, node, length);
	for (uint64_t i = 0; i < count && !term->text.cut; i++)
		text_format(&term->text, ".%u", (uint32_t)term_number(term, 4));
	text_add(&term->text, ">");
}

static void fun_print(struct term *term)
{
	const uint8_t *start = term->at;
	char module[1024];
	uint64_t bytes, index;
	size_t length;

	/* size 4, arity 1, uniq 16, index 4, free variables 4, module, ... */
	if (!term_has(term, 29))
		return;
	bytes = term_number(term, 4);
	if (bytes < 29 || bytes > (uint64_t)(term->end - start)) {
		term_stop(term);
		return;
	}
	term->at += 17;
	index = term_number(term, 4);
	term->at += 4;
	if (!atom_take(term, module, sizeof(module), &length))
		return;
	text_add(&term->text, "#Fun<");
	text_add_clean(&term->text, module, length);
	text_format(&term->text, ".%u>", (uint32_t)index);
	term->at = start + bytes;
}

static void export_print(struct term *term)
{
	text_add(&term->text, "fun ");
	term_print(term);
	text_add(&term->text, ":");
	term_print(term);
	text_add(&term->text, "/");
	term_print(term);
}

/* ---- Any term ---- */

static void term_print_tag(struct term *term, uint8_t tag)
{
	switch (tag) {
	case ERL_SMALL_INTEGER_EXT:
		if (term_has(term, 1))
			text_format(&term->text, "%u", *term->at++);
		break;
	case ERL_INTEGER_EXT:
		if (term_has(term, 4))
			text_format(&term->text, "%d", (int32_t)(uint32_t)term_number(term, 4));
		break;
	case ERL_SMALL_BIG_EXT:
		if (term_has(term, 1))
			term_big_add(term, (uint32_t)term_number(term, 1));
		break;
	case ERL_LARGE_BIG_EXT:
		if (term_has(term, 4))
			term_big_add(term, (uint32_t)term_number(term, 4));
		break;
	case TAG_NEW_FLOAT:
		term_float_add(term);
		break;
	case ERL_FLOAT_EXT:
		term_old_float_add(term);
		break;
	case ERL_SMALL_TUPLE_EXT:
		if (term_has(term, 1))
			tuple_print(term, term_number(term, 1));
		break;
	case ERL_LARGE_TUPLE_EXT:
		if (term_has(term, 4))
			tuple_print(term, term_number(term, 4));
		break;
	case ERL_NIL_EXT:
		text_add(&term->text, "[]");
		break;
	case ERL_STRING_EXT:
		term_string_add(term);
		break;
	case ERL_LIST_EXT:
		if (term_has(term, 4))
			list_print(term, term_number(term, 4));
		break;
	case ERL_MAP_EXT:
		if (term_has(term, 4))
			map_print(term, term_number(term, 4));
		break;
	case ERL_BINARY_EXT:
		if (term_has(term, 4))
			term_binary_add(term, term_number(term, 4), 8, ">>");
		break;
	case TAG_BIT_BINARY:
		if (term_has(term, 5)) {
			uint64_t bytes = term_number(term, 4);

			term_binary_add(term, bytes, (uint32_t)term_number(term, 1), ">>");
		}
		break;
	case ERL_PID_EXT:
		node_thing_print(term, "<", 2, 4, 1);
		break;
	case ERL_NEW_PID_EXT:
		node_thing_print(term, "<", 2, 4, 4);
		break;
	case ERL_PORT_EXT:
		node_thing_print(term, "#Port<", 1, 4, 1);
		break;
	case ERL_NEW_PORT_EXT:
		node_thing_print(term, "#Port<", 1, 4, 4);
		break;
	case TAG_V4_PORT:
		node_thing_print(term, "#Port<", 1, 8, 4);
		break;
	case ERL_REFERENCE_EXT:
		node_thing_print(term, "#Ref<", 1, 4, 1);
		break;
	case ERL_NEW_REFERENCE_EXT:
		reference_print(term, 1);
		break;
	case ERL_NEWER_REFERENCE_EXT:
		reference_print(term, 4);
		break;
	case TAG_NEW_FUN:
		fun_print(term);
		break;
	case TAG_EXPORT:
		export_print(term);
		break;
	default:
		/* Also RECORD_EXT of OTP 29: how long it is is not known here. */
		term_stop(term);
	}
}

static void term_print(struct term *term)
{
	if (term->text.cut || !term_has(term, 1))
		return;
	switch (*term->at) {
	case ERL_ATOM_EXT:
	case ERL_SMALL_ATOM_EXT:
	case ERL_ATOM_UTF8_EXT:
	case ERL_SMALL_ATOM_UTF8_EXT:
		atom_print(term);
		return;
	}
	if (term->depth == DEPTH_MAX) {
		term_stop(term);
		return;
	}
	term->depth++;
	term_print_tag(term, *term->at++);
	term->depth--;
}

static size_t text_print(struct trace *trace, struct text etf, bool arguments, char *buffer,
			 size_t size)
{
	struct term term = {.names = trace->names, .arguments = arguments};

	text_begin(&term.text, buffer, size);
	term.at = (const uint8_t *)etf.data;
	term.end = term.at + etf.bytes;
	if (etf.bytes && *term.at == TAG_VERSION)
		term.at++;
	if (etf.bytes)
		term_print(&term);
	return text_finish(&term.text);
}

size_t trace_term_text(struct trace *trace, struct text etf, char *buffer, size_t size)
{
	return text_print(trace, etf, false, buffer, size);
}

size_t trace_arguments_text(struct trace *trace, struct text etf, char *buffer, size_t size)
{
	return text_print(trace, etf, true, buffer, size);
}
