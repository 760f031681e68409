/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, strings and binaries of the External Term Format as Erlang text. */
#include "term_private.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void term_stop(struct term *term)
{
	if (!term->stopped)
		text_add(&term->text, "...");
	term->stopped = true;
	term->at = term->end;
}

bool term_has(struct term *term, uint64_t bytes)
{
	if (!term->stopped && (uint64_t)(term->end - term->at) >= bytes)
		return true;
	term_stop(term);
	return false;
}

uint64_t term_number(struct term *term, uint32_t bytes)
{
	uint64_t number = 0;

	while (bytes--)
		number = number << 8 | *term->at++;
	return number;
}

/* ---- Numbers ---- */

void term_big_add(struct term *term, uint32_t bytes)
{
	bool negative;
	unsigned __int128 value = 0;
	char digits[48];
	size_t at = sizeof(digits);

	if (!term_has(term, 1ull + bytes))
		return;
	negative = *term->at++;
	if (negative)
		text_add(&term->text, "-");
	if (bytes > sizeof(value)) {
		text_add(&term->text, "16#");
		for (uint32_t i = bytes; i-- > 0 && !term->text.cut;)
			text_format(&term->text, "%02X", term->at[i]);
		term->at += bytes;
		return;
	}
	for (uint32_t i = bytes; i-- > 0;)
		value = value << 8 | term->at[i];
	term->at += bytes;
	digits[--at] = 0;
	do
		digits[--at] = (char)('0' + (int)(value % 10));
	while (value /= 10);
	text_add(&term->text, digits + at);
}

/* The shortest text that reads back as the same number, with a point in it. */
void term_float_add(struct term *term)
{
	uint64_t bits;
	double value;
	char text[40];

	if (!term_has(term, 8))
		return;
	bits = term_number(term, 8);
	memcpy(&value, &bits, sizeof(value));
	if (!isfinite(value)) {
		text_format(&term->text, "#Float<%016llx>", (unsigned long long)bits);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	if (!strchr(text, '.')) {
		const char *exponent = strchr(text, 'e');
		int whole = exponent ? (int)(exponent - text) : (int)strlen(text);

		text_format(&term->text, "%.*s.0%s", whole, text, text + whole);
	} else {
		text_add(&term->text, text);
	}
}

void term_old_float_add(struct term *term)
{
	char text[32];

	if (!term_has(term, 31))
		return;
	memcpy(text, term->at, 31);
	text[31] = 0;
	term->at += 31;
	text_add_clean(&term->text, text, strlen(text));
}

/* ---- Strings and binaries ---- */

bool term_chars_printable(const uint8_t *data, uint64_t count, uint32_t stride)
{
	for (uint64_t i = 0; i < count; i++) {
		uint8_t byte = data[i * stride];

		if ((byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte >= 0x7f)
			return false;
	}
	return count;
}

void term_chars_add(struct term *term, const uint8_t *data, uint64_t count, uint32_t stride)
{
	text_add(&term->text, "\"");
	for (uint64_t i = 0; i < count && !term->text.cut; i++) {
		switch (data[i * stride]) {
		case '\n':
			text_add(&term->text, "\\n");
			break;
		case '\r':
			text_add(&term->text, "\\r");
			break;
		case '\t':
			text_add(&term->text, "\\t");
			break;
		case '"':
		case '\\':
			text_format(&term->text, "\\%c", data[i * stride]);
			break;
		default:
			text_format(&term->text, "%c", data[i * stride]);
		}
	}
	text_add(&term->text, "\"");
}

static void bytes_list(struct term *term, const uint8_t *data, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes && !term->text.cut; i++)
		text_format(&term->text, "%s%u", i ? "," : "", data[i]);
}

void term_string_add(struct term *term)
{
	uint64_t bytes;

	if (!term_has(term, 2))
		return;
	bytes = term_number(term, 2);
	if (!term_has(term, bytes))
		return;
	if (term_chars_printable(term->at, bytes, 1) && !(term->arguments && term->depth == 1)) {
		term_chars_add(term, term->at, bytes, 1);
	} else {
		text_add(&term->text, "[");
		bytes_list(term, term->at, bytes);
		text_add(&term->text, "]");
	}
	term->at += bytes;
}

void term_binary_add(struct term *term, uint64_t bytes, uint32_t last_bits, const char *end)
{
	if (!term_has(term, bytes))
		return;
	text_add(&term->text, "<<");
	if (last_bits == 8 && term_chars_printable(term->at, bytes, 1)) {
		term_chars_add(term, term->at, bytes, 1);
	} else if (last_bits == 8 || !bytes || last_bits > 8) {
		bytes_list(term, term->at, bytes);
	} else {
		bytes_list(term, term->at, bytes - 1);
		text_format(&term->text, "%s%u:%u", bytes > 1 ? "," : "",
			    term->at[bytes - 1] >> (8 - last_bits), last_bits);
	}
	term->at += bytes;
	text_add(&term->text, end);
}
