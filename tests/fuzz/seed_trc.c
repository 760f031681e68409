/* SPDX-License-Identifier: Apache-2.0 */
/* A few frames of each form, for the fuzzer to begin with: seed_trc FORM > FILE. */
#include <stdlib.h>

#include "../trace/trc_maker.h"

static const char *const tags[] = {"call", "return_to",	     "return_from", "send", "receive",
				   "in",   "gc_minor_end",   "spawn",	    "exit", "register",
				   "open", "getting_linked", "no_such_tag"};

int main(int argc, char **argv)
{
	putchar(argc > 1 ? atoi(argv[1]) : 0);
	for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
		ei_x_buff x;

		trc_message(&x, "trace_ts", 80, tags[i], 6);
		trc_mfa(&x, "lists", "map", 2);
		ei_x_encode_list_header(&x, 2);
		ei_x_encode_tuple_header(&x, 2);
		ei_x_encode_atom(&x, "heap_size");
		ei_x_encode_long(&x, 233);
		ei_x_encode_binary(&x, "content", 7);
		ei_x_encode_empty_list(&x);
		ei_x_encode_longlong(&x, 1000000000ll * (long long)i);
		trc_frame_put(stdout, &x);
		trc_send(&x, 80, 81, (long)i, 1000000000ll * (long long)i + 5);
		trc_frame_put(stdout, &x);
		trc_drop_put(stdout, 3);
	}
	return 0;
}
