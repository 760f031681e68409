/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_MESSAGES_VIEW_H
#define BEAMWEAVE_MESSAGES_VIEW_H

/* What the messages section collects (messages.c) and shows (messages_view.c). */

#include "messages.h"

struct pair_key {
	uint64_t from, to;
};

struct pair_row {
	struct pair_key key; /* from 0: the send was not seen */
	uint64_t count, noproc;
	uint64_t unmatched; /* only one of send and fetch was seen */
	uint64_t last_ns;
	uint32_t to_name; /* the registered name that the last one was sent to */
	struct quantile fetched, to_run; /* from the send on */
	UT_hash_handle hh;
};

struct messages {
	struct report *report;
	struct pair_row *pairs;
	struct pair_row others;
	struct receiver_row *receivers;
	uint64_t receivers_left_out; /* messages to receivers beyond the limit */
	uint64_t count;
};

/* Pairs with the longest waits first, others last; a new array. */
size_t messages_pairs(struct messages *messages, struct pair_row ***pairs);

json_t *messages_json(void *state);
int messages_text(void *state, FILE *out);

#endif
