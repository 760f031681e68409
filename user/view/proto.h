/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_PROTO_H
#define BEAMWEAVE_PROTO_H

/*
 * A streaming encoder for protocol buffers: fields go straight into one buffer, a nested message's
 * length is patched in when it ends. With a file behind it the buffer is written out between
 * top-level fields, so that memory follows the largest message and not the output.
 *
 * Errors stick: after the first one nothing more is encoded, and proto_flush() tells it.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PROTO_DEPTH 8

struct proto {
	uint8_t *data;
	size_t used, room;
	FILE *out; /* NULL: the buffer only grows */
	int error; /* 0 or -errno */
	unsigned int depth;
	size_t open[PROTO_DEPTH]; /* where the messages that are open begin, after their length */
};

/* Nothing is allocated yet. */
void proto_init(struct proto *proto, FILE *out);
void proto_free(struct proto *proto);
/* Forget what is encoded and not written. */
void proto_clear(struct proto *proto);
/* Write out everything. Only between top-level fields. Returns 0 or the first error. */
int proto_flush(struct proto *proto);

/* A varint field: uint32, uint64, int32, int64 (negative ones sign-extended), bool, enum. */
void proto_uint(struct proto *proto, uint32_t field, uint64_t value);
void proto_fixed64(struct proto *proto, uint32_t field, uint64_t value);
void proto_bytes(struct proto *proto, uint32_t field, const void *data, size_t bytes);
void proto_text(struct proto *proto, uint32_t field, const char *text);
/* Fields that are encoded already. */
void proto_append(struct proto *proto, const void *data, size_t bytes);
/* A nested message. */
void proto_open(struct proto *proto, uint32_t field);
void proto_close(struct proto *proto);

#endif
