/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "proto.h"

#define assert_encoded(proto, ...)                                                                 \
	do {                                                                                       \
		const uint8_t expected[] = {__VA_ARGS__};                                          \
		assert_int_equal((proto)->error, 0);                                               \
		assert_int_equal((proto)->used, sizeof(expected));                                 \
		assert_memory_equal((proto)->data, expected, sizeof(expected));                    \
	} while (0)

/* The worked examples of the encoding's own documentation: 150 and "testing". */
static void varint_and_text(void **state)
{
	struct proto proto;

	(void)state;
	proto_init(&proto, NULL);
	proto_uint(&proto, 1, 150);
	proto_text(&proto, 2, "testing");
	assert_encoded(&proto, 0x08, 0x96, 0x01, 0x12, 0x07, 't', 'e', 's', 't', 'i', 'n', 'g');
	proto_free(&proto);
}

static void numbers_at_their_limits(void **state)
{
	struct proto proto;

	(void)state;
	proto_init(&proto, NULL);
	proto_uint(&proto, 15, 0);
	proto_uint(&proto, 16, 127);
	proto_uint(&proto, 2047, 128);
	assert_encoded(&proto, 0x78, 0x00, 0x80, 0x01, 0x7f, 0xf8, 0x7f, 0x80, 0x01);
	proto_clear(&proto);
	/* -1 as an int64: ten bytes */
	proto_uint(&proto, 1, (uint64_t)(int64_t)-1);
	assert_encoded(&proto, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01);
	proto_clear(&proto);
	proto_fixed64(&proto, 47, 0x0102030405060708);
	assert_encoded(&proto, 0xf9, 0x02, 8, 7, 6, 5, 4, 3, 2, 1);
	proto_free(&proto);
}

static void nested_messages_have_their_lengths(void **state)
{
	struct proto proto;

	(void)state;
	proto_init(&proto, NULL);
	proto_open(&proto, 3);
	proto_uint(&proto, 1, 150);
	proto_open(&proto, 2);
	proto_close(&proto);
	proto_open(&proto, 2);
	proto_uint(&proto, 1, 1);
	proto_close(&proto);
	proto_close(&proto);
	assert_encoded(&proto, 0x1a, 0x09, 0x08, 0x96, 0x01, 0x12, 0x00, 0x12, 0x02, 0x08, 0x01);
	proto_free(&proto);
}

/* Lengths of one, two, three and four bytes; each varint may be padded, its value may not differ. */
static void lengths_of_every_size(void **state)
{
	static const size_t sizes[] = {0,    1,	    127,   128,	    1023,    1024,
				       4096, 16383, 16384, 2097151, 2097152, 5000000};
	struct proto proto;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		uint8_t *body = calloc(1, sizes[i] + 1);
		size_t length = 0, at = 1;

		memset(body, 0xa5, sizes[i]);
		proto_init(&proto, NULL);
		proto_open(&proto, 1);
		proto_append(&proto, body, sizes[i]);
		proto_close(&proto);
		assert_int_equal(proto.error, 0);
		assert_int_equal(proto.data[0], 0x0a);
		for (unsigned int shift = 0;; shift += 7) {
			length |= (size_t)(proto.data[at] & 0x7f) << shift;
			if (!(proto.data[at++] & 0x80))
				break;
		}
		assert_int_equal(length, sizes[i]);
		assert_int_equal(proto.used, at + sizes[i]);
		assert_memory_equal(proto.data + at, body, sizes[i]);
		proto_free(&proto);
		free(body);
	}
}

/* What stands in the file is what a buffer alone would hold, and the buffer stays small. */
static void a_long_stream_goes_to_the_file(void **state)
{
	char *file = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&file, &bytes);
	struct proto streamed, whole;

	(void)state;
	proto_init(&streamed, out);
	proto_init(&whole, NULL);
	for (unsigned int i = 0; i < 200000; i++) {
		struct proto *both[] = {&streamed, &whole};

		for (size_t k = 0; k < 2; k++) {
			proto_open(both[k], 1);
			proto_uint(both[k], 8, i);
			proto_text(both[k], 2, "an event");
			proto_close(both[k]);
		}
	}
	assert_true(streamed.room <= 1u << 20);
	assert_int_equal(proto_flush(&streamed), 0);
	fclose(out);
	assert_int_equal(bytes, whole.used);
	assert_memory_equal(file, whole.data, bytes);
	proto_free(&streamed);
	proto_free(&whole);
	free(file);
}

static void errors_stick(void **state)
{
	FILE *full = fopen("/dev/full", "w");
	struct proto proto;

	(void)state;
	proto_init(&proto, NULL);
	proto_close(&proto);
	assert_int_equal(proto.error, -EINVAL);
	proto_uint(&proto, 1, 1);
	assert_int_equal(proto.used, 0);
	assert_int_equal(proto_flush(&proto), -EINVAL);
	proto_free(&proto);

	proto_init(&proto, NULL);
	for (unsigned int i = 0; i <= PROTO_DEPTH; i++)
		proto_open(&proto, 1);
	assert_int_equal(proto.error, -EINVAL);
	proto_free(&proto);

	assert_non_null(full);
	setvbuf(full, NULL, _IONBF, 0);
	proto_init(&proto, full);
	proto_uint(&proto, 1, 1);
	assert_int_equal(proto_flush(&proto), -ENOSPC);
	assert_int_equal(proto_flush(&proto), -ENOSPC);
	proto_free(&proto);
	fclose(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(varint_and_text),
		cmocka_unit_test(numbers_at_their_limits),
		cmocka_unit_test(nested_messages_have_their_lengths),
		cmocka_unit_test(lengths_of_every_size),
		cmocka_unit_test(a_long_stream_goes_to_the_file),
		cmocka_unit_test(errors_stick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
