/* SPDX-License-Identifier: Apache-2.0 */
#include "proto.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FLUSH_BYTES   (256u * 1024)
#define VARINT_BYTES  10
#define LENGTH_BYTES  4 /* reserved for a message's length: up to 2^28 - 1 */
#define MESSAGE_LIMIT ((size_t)1 << 28)

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

void proto_init(struct proto *proto, FILE *out)
{
	memset(proto, 0, sizeof(*proto));
	proto->out = out;
}

void proto_free(struct proto *proto)
{
	free(proto->data);
	proto_init(proto, proto->out);
}

void proto_clear(struct proto *proto)
{
	proto->used = 0;
	proto->depth = 0;
}

int proto_flush(struct proto *proto)
{
	if (!proto->error && proto->out && proto->used) {
		errno = 0;
		if (fwrite(proto->data, 1, proto->used, proto->out) != proto->used)
			proto->error = errno ? -errno : -EIO;
		proto->used = 0;
	}
	return proto->error;
}

static bool proto_room(struct proto *proto, size_t bytes)
{
	uint8_t *data;
	size_t room;

	if (proto->error)
		return false;
	if (proto->room - proto->used >= bytes)
		return true;
	if (bytes > MESSAGE_LIMIT || proto->used > MESSAGE_LIMIT) {
		proto->error = -E2BIG;
		return false;
	}
	room = proto->room ? proto->room : 4096;
	while (room - proto->used < bytes)
		room *= 2;
	data = realloc(proto->data, room);
	if (!data) {
		proto->error = -ENOMEM;
		return false;
	}
	proto->data = data;
	proto->room = room;
	return true;
}

static void put_varint(struct proto *proto, uint64_t value)
{
	while (value >= 0x80) {
		proto->data[proto->used++] = (uint8_t)value | 0x80;
		value >>= 7;
	}
	proto->data[proto->used++] = (uint8_t)value;
}

static void put_tag(struct proto *proto, uint32_t field, enum wire_type type)
{
	put_varint(proto, (uint64_t)field << 3 | type);
}

void proto_uint(struct proto *proto, uint32_t field, uint64_t value)
{
	if (!proto_room(proto, 2 * VARINT_BYTES))
		return;
	put_tag(proto, field, WIRE_VARINT);
	put_varint(proto, value);
}

void proto_fixed64(struct proto *proto, uint32_t field, uint64_t value)
{
	if (!proto_room(proto, VARINT_BYTES + sizeof(value)))
		return;
	put_tag(proto, field, WIRE_FIXED64);
	for (unsigned int i = 0; i < sizeof(value); i++)
		proto->data[proto->used++] = (uint8_t)(value >> (8 * i));
}

void proto_bytes(struct proto *proto, uint32_t field, const void *data, size_t bytes)
{
	if (bytes > MESSAGE_LIMIT)
		proto->error = proto->error ? proto->error : -E2BIG;
	if (!proto_room(proto, 2 * VARINT_BYTES + bytes))
		return;
	put_tag(proto, field, WIRE_BYTES);
	put_varint(proto, bytes);
	if (bytes)
		memcpy(proto->data + proto->used, data, bytes);
	proto->used += bytes;
}

void proto_text(struct proto *proto, uint32_t field, const char *text)
{
	proto_bytes(proto, field, text, strlen(text));
}

void proto_append(struct proto *proto, const void *data, size_t bytes)
{
	if (!bytes || !proto_room(proto, bytes))
		return;
	memcpy(proto->data + proto->used, data, bytes);
	proto->used += bytes;
}

void proto_open(struct proto *proto, uint32_t field)
{
	if (proto->depth == PROTO_DEPTH)
		proto->error = proto->error ? proto->error : -EINVAL;
	if (!proto_room(proto, VARINT_BYTES + LENGTH_BYTES))
		return;
	put_tag(proto, field, WIRE_BYTES);
	proto->used += LENGTH_BYTES;
	proto->open[proto->depth++] = proto->used;
}

void proto_close(struct proto *proto)
{
	size_t start, bytes, length_bytes = 1;
	uint8_t *length;

	if (proto->error)
		return;
	if (!proto->depth) {
		proto->error = -EINVAL;
		return;
	}
	start = proto->open[--proto->depth];
	bytes = proto->used - start;
	if (bytes >= MESSAGE_LIMIT) {
		proto->error = -E2BIG;
		return;
	}
	while (bytes >> (7 * length_bytes))
		length_bytes++;
	length = proto->data + start - LENGTH_BYTES;
	/* Most messages are short: moving their few bytes costs less than three more in the file. */
	if (length_bytes < LENGTH_BYTES && bytes < 1024) {
		memmove(length + length_bytes, proto->data + start, bytes);
		proto->used -= LENGTH_BYTES - length_bytes;
	} else {
		length_bytes = LENGTH_BYTES;
	}
	for (size_t i = 0; i < length_bytes; i++)
		length[i] = (uint8_t)((bytes >> (7 * i)) & 0x7f) |
			    (i + 1 < length_bytes ? 0x80 : 0);
	if (!proto->depth && proto->out && proto->used >= FLUSH_BYTES)
		proto_flush(proto);
}
