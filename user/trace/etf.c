/* SPDX-License-Identifier: Apache-2.0 */
#include "etf.h"

#include <string.h>

static uint64_t number_at(const uint8_t *at, uint32_t bytes)
{
	uint64_t number = 0;

	while (bytes--)
		number = number << 8 | *at++;
	return number;
}

static bool has(const struct etf *etf, uint64_t bytes)
{
	return (uint64_t)(etf->end - etf->at) >= bytes;
}

static bool pass(struct etf *etf, uint64_t bytes)
{
	if (!has(etf, bytes))
		return false;
	etf->at += bytes;
	return true;
}

uint8_t etf_tag(const struct etf *etf)
{
	return has(etf, 1) ? *etf->at : 0;
}

/* Bytes of the head and the text of the atom at hand; false when there is none. */
static bool atom_find(const struct etf *etf, uint32_t *head, uint32_t *bytes)
{
	switch (etf_tag(etf)) {
	case ETF_SMALL_ATOM:
	case ETF_SMALL_ATOM_UTF8:
		*head = 2;
		break;
	case ETF_ATOM:
	case ETF_ATOM_UTF8:
		*head = 3;
		break;
	default:
		return false;
	}
	if (!has(etf, *head))
		return false;
	*bytes = (uint32_t)number_at(etf->at + 1, *head - 1);
	return has(etf, (uint64_t)*head + *bytes);
}

static bool atom_pass(struct etf *etf)
{
	uint32_t head, bytes;

	return atom_find(etf, &head, &bytes) && pass(etf, head + bytes);
}

/* ---- Passing over ---- */

/* A head of `width` bytes that counts what follows, taken. */
static bool count_take(struct etf *etf, uint32_t width, uint64_t *count)
{
	if (!has(etf, width))
		return false;
	*count = number_at(etf->at, width);
	etf->at += width;
	return true;
}

static bool counted_pass(struct etf *etf, uint32_t width, uint32_t more)
{
	uint64_t count;

	return count_take(etf, width, &count) && pass(etf, count + more);
}

static bool reference_pass(struct etf *etf, uint32_t creation_bytes)
{
	uint64_t count;

	return count_take(etf, 2, &count) && atom_pass(etf) &&
	       pass(etf, creation_bytes + 4 * count);
}

/* What follows a tag; `inner` is how many terms follow then, that belong to it. */
static bool body_pass(struct etf *etf, uint8_t tag, uint64_t *inner)
{
	*inner = 0;
	switch (tag) {
	case ETF_SMALL_INTEGER:
		return pass(etf, 1);
	case ETF_INTEGER:
		return pass(etf, 4);
	case ETF_NEW_FLOAT:
		return pass(etf, 8);
	case ETF_FLOAT:
		return pass(etf, 31);
	case ETF_NIL:
		return true;
	case ETF_SMALL_ATOM:
	case ETF_SMALL_ATOM_UTF8:
		return counted_pass(etf, 1, 0);
	case ETF_ATOM:
	case ETF_ATOM_UTF8:
	case ETF_STRING:
		return counted_pass(etf, 2, 0);
	case ETF_BINARY:
		return counted_pass(etf, 4, 0);
	case ETF_BIT_BINARY:
	case ETF_LARGE_BIG:
		return counted_pass(etf, 4, 1);
	case ETF_SMALL_BIG:
		return counted_pass(etf, 1, 1);
	case ETF_SMALL_TUPLE:
		return count_take(etf, 1, inner);
	case ETF_LARGE_TUPLE:
		return count_take(etf, 4, inner);
	case ETF_LIST:
		if (!count_take(etf, 4, inner))
			return false;
		++*inner; /* the tail */
		return true;
	case ETF_MAP:
		if (!count_take(etf, 4, inner))
			return false;
		*inner *= 2;
		return true;
	case ETF_PID:
		return atom_pass(etf) && pass(etf, 9);
	case ETF_NEW_PID:
	case ETF_V4_PORT:
		return atom_pass(etf) && pass(etf, 12);
	case ETF_PORT:
	case ETF_REFERENCE:
		return atom_pass(etf) && pass(etf, 5);
	case ETF_NEW_PORT:
		return atom_pass(etf) && pass(etf, 8);
	case ETF_NEW_REFERENCE:
		return reference_pass(etf, 1);
	case ETF_NEWER_REFERENCE:
		return reference_pass(etf, 4);
	case ETF_NEW_FUN:
		/* its size counts itself */
		return has(etf, 4) && number_at(etf->at, 4) >= 4 &&
		       pass(etf, number_at(etf->at, 4));
	case ETF_FUN:
		if (!count_take(etf, 4, inner))
			return false;
		*inner += 4;
		return true;
	case ETF_EXPORT:
		*inner = 3;
		return true;
	default:
		return false;
	}
}

bool etf_skip(struct etf *etf)
{
	struct etf walk = *etf;
	uint64_t left = 1;

	while (left) {
		uint64_t inner;

		/* A term takes a byte at least: no more of them fit than there are bytes. */
		if (!has(&walk, left))
			return false;
		if (!body_pass(&walk, *walk.at++, &inner))
			return false;
		left += inner - 1;
	}
	etf->at = walk.at;
	return true;
}

/* ---- Taking ---- */

bool etf_integer(struct etf *etf, int64_t *value)
{
	uint64_t number = 0;
	uint32_t bytes;

	switch (etf_tag(etf)) {
	case ETF_SMALL_INTEGER:
		if (!has(etf, 2))
			return false;
		*value = etf->at[1];
		etf->at += 2;
		return true;
	case ETF_INTEGER:
		if (!has(etf, 5))
			return false;
		*value = (int32_t)(uint32_t)number_at(etf->at + 1, 4);
		etf->at += 5;
		return true;
	case ETF_SMALL_BIG:
		if (!has(etf, 3) || etf->at[1] > 8 || !has(etf, 3ull + etf->at[1]))
			return false;
		bytes = etf->at[1];
		for (uint32_t i = bytes; i-- > 0;)
			number = number << 8 | etf->at[3 + i];
		if (number > (uint64_t)INT64_MAX)
			return false;
		*value = etf->at[2] ? -(int64_t)number : (int64_t)number;
		etf->at += 3 + bytes;
		return true;
	default:
		return false;
	}
}

bool etf_tuple(struct etf *etf, uint32_t *arity)
{
	uint32_t width = etf_tag(etf) == ETF_SMALL_TUPLE ? 1 : 4;

	if ((etf_tag(etf) != ETF_SMALL_TUPLE && etf_tag(etf) != ETF_LARGE_TUPLE) ||
	    !has(etf, 1 + width))
		return false;
	*arity = (uint32_t)number_at(etf->at + 1, width);
	etf->at += 1 + width;
	return true;
}

bool etf_list(struct etf *etf, uint32_t *count)
{
	if (etf_tag(etf) != ETF_LIST || !has(etf, 5))
		return false;
	*count = (uint32_t)number_at(etf->at + 1, 4);
	etf->at += 5;
	return true;
}

bool etf_atom(struct etf *etf, char text[ETF_ATOM_BYTES], uint32_t *bytes)
{
	uint8_t tag = etf_tag(etf);
	bool latin1 = tag == ETF_ATOM || tag == ETF_SMALL_ATOM;
	uint32_t head, raw, length = 0;

	if (!atom_find(etf, &head, &raw))
		return false;
	for (uint32_t i = 0; i < raw && length + 2 <= ETF_ATOM_BYTES; i++) {
		uint8_t byte = etf->at[head + i];

		if (latin1 && byte >= 0x80) {
			text[length++] = (char)(0xc0 | byte >> 6);
			byte = 0x80 | (byte & 0x3f);
		}
		text[length++] = (char)byte;
	}
	*bytes = length;
	etf->at += head + raw;
	return true;
}

bool etf_is(const struct etf *etf, const char *name)
{
	uint32_t head, bytes;

	return atom_find(etf, &head, &bytes) && bytes == strlen(name) &&
	       !memcmp(etf->at + head, name, bytes);
}

bool etf_binary(struct etf *etf, const uint8_t **data, uint32_t *bytes, uint32_t *tail)
{
	uint32_t head = etf_tag(etf) == ETF_BINARY ? 5 : 6;
	uint32_t length;

	if ((etf_tag(etf) != ETF_BINARY && etf_tag(etf) != ETF_BIT_BINARY) || !has(etf, head))
		return false;
	length = (uint32_t)number_at(etf->at + 1, 4);
	if (!has(etf, (uint64_t)head + length))
		return false;
	*data = etf->at + head;
	*bytes = length;
	*tail = 0;
	if (head == 6 && length && etf->at[5] < 8) {
		*bytes = length - 1;
		*tail = etf->at[5];
	}
	etf->at += head + length;
	return true;
}

/* ---- What belongs to a node ---- */

static bool node_take(struct etf *walk, struct etf_id *id, uint32_t more)
{
	memset(id, 0, sizeof(*id));
	id->node = walk->at;
	if (!atom_pass(walk) || !has(walk, more))
		return false;
	id->node_bytes = (uint32_t)(walk->at - id->node);
	return true;
}

static void creation_take(struct etf *walk, struct etf_id *id, uint32_t bytes)
{
	id->creation = walk->at;
	id->creation_bytes = bytes;
	walk->at += bytes;
}

bool etf_pid(struct etf *etf, struct etf_id *id)
{
	uint32_t creation = etf_tag(etf) == ETF_NEW_PID ? 4 : 1;
	struct etf walk = *etf;

	if ((etf_tag(etf) != ETF_PID && etf_tag(etf) != ETF_NEW_PID) || !walk.at++ ||
	    !node_take(&walk, id, 8 + creation))
		return false;
	id->number = number_at(walk.at, 4);
	id->serial = (uint32_t)number_at(walk.at + 4, 4);
	walk.at += 8;
	creation_take(&walk, id, creation);
	*etf = walk;
	return true;
}

bool etf_port(struct etf *etf, struct etf_id *id)
{
	uint8_t tag = etf_tag(etf);
	uint32_t creation = tag == ETF_PORT ? 1 : 4, width = tag == ETF_V4_PORT ? 8 : 4;
	struct etf walk = *etf;

	if ((tag != ETF_PORT && tag != ETF_NEW_PORT && tag != ETF_V4_PORT) || !walk.at++ ||
	    !node_take(&walk, id, width + creation))
		return false;
	id->number = number_at(walk.at, width);
	walk.at += width;
	creation_take(&walk, id, creation);
	*etf = walk;
	return true;
}

bool etf_reference(struct etf *etf, struct etf_id *id)
{
	uint8_t tag = etf_tag(etf);
	uint32_t creation = tag == ETF_NEWER_REFERENCE ? 4 : 1;
	struct etf walk = *etf;
	uint32_t count;

	if ((tag != ETF_NEW_REFERENCE && tag != ETF_NEWER_REFERENCE) || !has(&walk, 3))
		return false;
	count = (uint32_t)number_at(walk.at + 1, 2);
	walk.at += 3;
	if (!count || !node_take(&walk, id, creation + 4 * count))
		return false;
	creation_take(&walk, id, creation);
	id->number = number_at(walk.at, 4);
	walk.at += 4ull * count;
	*etf = walk;
	return true;
}

bool etf_same_node(const struct etf_id *left, const struct etf_id *right)
{
	return left->node_bytes == right->node_bytes &&
	       !memcmp(left->node, right->node, left->node_bytes) &&
	       left->creation_bytes == right->creation_bytes &&
	       !memcmp(left->creation, right->creation, left->creation_bytes);
}
