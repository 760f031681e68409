/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

void text_begin(struct text_builder *text, char *data, size_t size)
{
	*text = (struct text_builder){.data = data, .size = size};
	data[0] = 0;
}

/* Whole or not at all: no character is ever cut in its middle. */
static void text_put(struct text_builder *text, const char *data, size_t bytes)
{
	if (text->cut)
		return;
	if (bytes >= text->size - text->used) {
		text->cut = true;
		return;
	}
	memcpy(text->data + text->used, data, bytes);
	text->used += bytes;
	text->data[text->used] = 0;
}

size_t text_finish(struct text_builder *text)
{
	if (!text->cut)
		return text->used;
	while (text->used + 4 > text->size) {
		/* Back over a whole character. */
		do
			text->used--;
		while (text->used && ((uint8_t)text->data[text->used] & 0xc0) == 0x80);
	}
	memcpy(text->data + text->used, "...", 4);
	text->used += 3;
	return text->used;
}

void text_add(struct text_builder *text, const char *more)
{
	text_put(text, more, strlen(more));
}

void text_format(struct text_builder *text, const char *format, ...)
{
	size_t room = text->size - text->used;
	va_list arguments;
	int bytes;

	if (text->cut)
		return;
	va_start(arguments, format);
	bytes = vsnprintf(text->data + text->used, room, format, arguments);
	va_end(arguments);
	if (bytes < 0 || (size_t)bytes >= room) {
		text->data[text->used] = 0;
		text->cut = true;
		return;
	}
	text->used += (size_t)bytes;
}

void text_add_clean(struct text_builder *text, const char *data, size_t bytes)
{
	const char *at = data;

	while (bytes && !text->cut) {
		uint32_t code = 0;
		size_t length = utf8_read(at, bytes, &code);

		if (length && !utf8_harmful(code))
			text_put(text, at, length);
		else
			text_put(text, REPLACEMENT, 3);
		at += length ? length : 1;
		bytes -= length ? length : 1;
	}
}

void text_add_json(struct text_builder *text, const char *data, size_t bytes)
{
	const char *at = data;

	while (bytes && !text->cut) {
		uint32_t code = 0;
		size_t length = utf8_read(at, bytes, &code);

		if (!length)
			text_put(text, REPLACEMENT, 3);
		else if (code == '"' || code == '\\')
			text_format(text, "\\%c", (char)code);
		else if (code < 0x20 || code == 0x7f || code == 0x2028 || code == 0x2029)
			text_format(text, "\\u%04x", code);
		else
			text_put(text, at, length);
		at += length ? length : 1;
		bytes -= length ? length : 1;
	}
}

/* ---- Atoms and MFAs ---- */

/* Latin-1 letters count, as in io_lib:write_atom/1. */
static bool letter_lower(uint32_t code)
{
	return (code >= 'a' && code <= 'z') || (code >= 0xdf && code <= 0xff && code != 0xf7);
}

static bool letter_upper(uint32_t code)
{
	return (code >= 'A' && code <= 'Z') || (code >= 0xc0 && code <= 0xde && code != 0xd7);
}

static bool word_reserved(const char *data, size_t bytes)
{
	static const char *const words[] = {
		"after", "and",	 "andalso", "band",   "begin",	 "bnot", "bor", "bsl",	"bsr",
		"bxor",	 "case", "catch",   "cond",   "div",	 "end",	 "fun", "if",	"let",
		"not",	 "of",	 "or",	    "orelse", "receive", "rem",	 "try", "when", "xor"};

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		if (strlen(words[i]) == bytes && !memcmp(words[i], data, bytes))
			return true;
	}
	return false;
}

static bool atom_plain(const char *data, size_t bytes)
{
	const char *at = data;
	size_t rest = bytes;

	if (!bytes || word_reserved(data, bytes))
		return false;
	while (rest) {
		uint32_t code = 0;
		size_t length = utf8_read(at, rest, &code);

		if (!length)
			return false;
		if (!letter_lower(code) &&
		    (rest == bytes || (!letter_upper(code) && !(code >= '0' && code <= '9') &&
				       code != '_' && code != '@')))
			return false;
		at += length;
		rest -= length;
	}
	return true;
}

static void quoted_add(struct text_builder *text, const char *data, size_t bytes, char quote)
{
	const char marks[] = {quote, 0};

	text_add(text, marks);
	while (bytes && !text->cut) {
		const char *end = data;

		while (end < data + bytes && *end != quote && *end != '\\' && *end != '\n')
			end++;
		text_add_clean(text, data, (size_t)(end - data));
		bytes -= (size_t)(end - data);
		data = end;
		if (bytes) {
			const char escaped[] = {'\\', *data == '\n' ? 'n' : *data, 0};

			text_add(text, escaped);
			data++;
			bytes--;
		}
	}
	text_add(text, marks);
}

void text_add_atom(struct text_builder *text, const char *data, size_t bytes)
{
	if (atom_plain(data, bytes))
		text_put(text, data, bytes);
	else
		quoted_add(text, data, bytes, '\'');
}

/* Does an Elixir function's name need no quotes? */
static bool elixir_plain(const char *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		char c = data[i];

		if ((c >= 'a' && c <= 'z') || c == '_' ||
		    (i && ((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))))
			continue;
		if (i && i == bytes - 1 && (c == '!' || c == '?'))
			continue;
		return false;
	}
	return bytes;
}

static const char elixir_prefix[] = "Elixir.";
#define ELIXIR_PREFIX_BYTES (sizeof(elixir_prefix) - 1)

static bool elixir_module(const char *data, size_t bytes)
{
	return bytes > ELIXIR_PREFIX_BYTES && !memcmp(data, elixir_prefix, ELIXIR_PREFIX_BYTES);
}

void text_add_mfa(struct text_builder *text, const char *module, const char *function,
		  uint32_t arity)
{
	if (elixir_module(module, strlen(module))) {
		module += ELIXIR_PREFIX_BYTES;
		text_add_clean(text, module, strlen(module));
		text_add(text, ".");
		if (elixir_plain(function, strlen(function)))
			text_add(text, function);
		else
			quoted_add(text, function, strlen(function), '"');
	} else {
		text_add_atom(text, module, strlen(module));
		text_add(text, ":");
		text_add_atom(text, function, strlen(function));
	}
	text_format(text, "/%u", arity);
}

void text_add_mfa_text(struct text_builder *text, const char *data, size_t bytes)
{
	const char *end = data + bytes;
	bool quoted = bytes && *data == '\'';
	const char *module = data + quoted;

	if (elixir_module(module, (size_t)(end - module))) {
		const char *colon;

		module += ELIXIR_PREFIX_BYTES;
		colon = memchr(module, ':', (size_t)(end - module));
		if (colon && (!quoted || colon[-1] == '\'')) {
			text_add_clean(text, module, (size_t)(colon - quoted - module));
			text_add(text, ".");
			data = colon + 1;
		}
	}
	text_add_clean(text, data, (size_t)(end - data));
}

char *text_clean_copy(const char *data, size_t bytes)
{
	/* A byte becomes at most the three of U+FFFD. */
	size_t size = bytes * 3 + 4;
	char *copy = malloc(size);
	struct text_builder text;
	char *fitting;

	if (!copy)
		return NULL;
	text_begin(&text, copy, size);
	text_add_clean(&text, data, bytes);
	fitting = realloc(copy, text.used + 1);
	return fitting ? fitting : copy;
}
