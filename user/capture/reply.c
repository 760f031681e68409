/* SPDX-License-Identifier: Apache-2.0 */
#include "reply.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

#define DEPTH_MAX     64
#define REFERENCE_MAX 5 /* words, as ei has it */

/* What is left of the data. A cursor that went wrong stays at its end. */
struct cursor {
	const uint8_t *data;
	size_t bytes, at;
	bool wrong;
};

static uint32_t cursor_number(struct cursor *cursor, size_t bytes)
{
	uint32_t number = 0;

	if (cursor->wrong || cursor->bytes - cursor->at < bytes) {
		cursor->wrong = true;
		return 0;
	}
	while (bytes--)
		number = number << 8 | cursor->data[cursor->at++];
	return number;
}

static void cursor_skip(struct cursor *cursor, uint64_t bytes)
{
	if (cursor->wrong || cursor->bytes - cursor->at < bytes)
		cursor->wrong = true;
	else
		cursor->at += bytes;
}

static void term_walk(struct cursor *cursor, unsigned int depth);

static void terms_walk(struct cursor *cursor, uint64_t count, unsigned int depth)
{
	while (count-- && !cursor->wrong)
		term_walk(cursor, depth);
}

static void atom_walk(struct cursor *cursor)
{
	uint8_t tag = (uint8_t)cursor_number(cursor, 1);

	switch (tag) {
	case ERL_ATOM_EXT:
	case ERL_ATOM_UTF8_EXT:
		cursor_skip(cursor, cursor_number(cursor, 2));
		break;
	case ERL_SMALL_ATOM_EXT:
	case ERL_SMALL_ATOM_UTF8_EXT:
		cursor_skip(cursor, cursor_number(cursor, 1));
		break;
	default:
		cursor->wrong = true;
	}
}

static void reference_walk(struct cursor *cursor, size_t creation_bytes)
{
	uint32_t words = cursor_number(cursor, 2);

	if (words > REFERENCE_MAX)
		cursor->wrong = true;
	atom_walk(cursor);
	cursor_skip(cursor, creation_bytes + 4 * (uint64_t)words);
}

static void term_walk(struct cursor *cursor, unsigned int depth)
{
	size_t start = cursor->at;
	uint8_t tag = (uint8_t)cursor_number(cursor, 1);
	uint64_t count;

	if (cursor->wrong || depth > DEPTH_MAX) {
		cursor->wrong = true;
		return;
	}
	switch (tag) {
	case ERL_SMALL_INTEGER_EXT:
		cursor_skip(cursor, 1);
		break;
	case ERL_INTEGER_EXT:
		cursor_skip(cursor, 4);
		break;
	case ERL_FLOAT_EXT:
		cursor_skip(cursor, 31);
		break;
	case NEW_FLOAT_EXT:
		cursor_skip(cursor, 8);
		break;
	case ERL_ATOM_EXT:
	case ERL_ATOM_UTF8_EXT:
	case ERL_SMALL_ATOM_EXT:
	case ERL_SMALL_ATOM_UTF8_EXT:
		cursor->at = start;
		atom_walk(cursor);
		break;
	case ERL_SMALL_TUPLE_EXT:
		terms_walk(cursor, cursor_number(cursor, 1), depth + 1);
		break;
	case ERL_LARGE_TUPLE_EXT:
		terms_walk(cursor, cursor_number(cursor, 4), depth + 1);
		break;
	case ERL_NIL_EXT:
		break;
	case ERL_STRING_EXT:
		cursor_skip(cursor, cursor_number(cursor, 2));
		break;
	case ERL_LIST_EXT:
		count = cursor_number(cursor, 4);
		terms_walk(cursor, count + 1, depth + 1);
		break;
	case ERL_MAP_EXT:
		count = cursor_number(cursor, 4);
		terms_walk(cursor, 2 * count, depth + 1);
		break;
	case ERL_BINARY_EXT:
		cursor_skip(cursor, cursor_number(cursor, 4));
		break;
	case ERL_BIT_BINARY_EXT:
		count = cursor_number(cursor, 4);
		cursor_skip(cursor, count + 1);
		break;
	case ERL_SMALL_BIG_EXT:
		count = cursor_number(cursor, 1);
		cursor_skip(cursor, count + 1);
		break;
	case ERL_LARGE_BIG_EXT:
		count = cursor_number(cursor, 4);
		cursor_skip(cursor, count + 1);
		break;
	case ERL_PID_EXT:
		atom_walk(cursor);
		cursor_skip(cursor, 9);
		break;
	case ERL_NEW_PID_EXT:
	case ERL_V4_PORT_EXT:
		atom_walk(cursor);
		cursor_skip(cursor, 12);
		break;
	case ERL_PORT_EXT:
		atom_walk(cursor);
		cursor_skip(cursor, 5);
		break;
	case ERL_NEW_PORT_EXT:
		atom_walk(cursor);
		cursor_skip(cursor, 8);
		break;
	case ERL_NEW_REFERENCE_EXT:
		reference_walk(cursor, 1);
		break;
	case ERL_NEWER_REFERENCE_EXT:
		reference_walk(cursor, 4);
		break;
	case ERL_EXPORT_EXT:
		atom_walk(cursor);
		atom_walk(cursor);
		term_walk(cursor, depth + 1);
		break;
	case ERL_NEW_FUN_EXT:
		count = cursor_number(cursor, 4); /* counts itself */
		cursor_skip(cursor, count < 4 ? UINT64_MAX : count - 4);
		break;
	default:
		cursor->wrong = true;
	}
}

int64_t term_check(const char *data, size_t bytes, size_t index)
{
	struct cursor cursor = {.data = (const uint8_t *)data, .bytes = bytes, .at = index};

	if (index > bytes)
		return -EINVAL;
	term_walk(&cursor, 0);
	return cursor.wrong ? -EINVAL : (int64_t)cursor.at;
}

void term_text(const char *data, int index, char *text, size_t bytes)
{
	char *printed = NULL;

	snprintf(text, bytes, "?");
	if (ei_s_print_term(&printed, data, &index) >= 0 && printed)
		snprintf(text, bytes, "%s", printed);
	free(printed);
}

void term_words(const char *data, int *index, char *text, size_t bytes)
{
	int type, size, start = *index;

	*text = 0;
	if (ei_get_type(data, index, &type, &size))
		return;
	if (type == ERL_BINARY_EXT && size >= 0) {
		/* behind the tag and the length */
		snprintf(text, bytes, "%.*s", size, data + start + 5);
		/* cut, or not what it should be: it goes to a terminal */
		utf8_clean(text);
	} else {
		term_text(data, start, text, bytes);
	}
	ei_skip_term(data, index);
}
