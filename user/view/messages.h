/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_MESSAGES_H
#define BEAMWEAVE_MESSAGES_H

/* Messages by sender and receiver, and by receiver with their tags. */

#include "section.h"

#define MESSAGE_TAGS	32
#define MESSAGE_SENDERS 32
#define MESSAGE_TAG	80

struct message_tag {
	char tag[MESSAGE_TAG];
	uint64_t count;
};

struct message_sender {
	uint64_t word;
	uint64_t count;
};

struct receiver_row {
	uint64_t word;
	uint64_t last_ns; /* when it was last seen: for its name */
	uint64_t arrived; /* sent to it, or fetched without a send seen */
	uint64_t fetched;
	uint64_t longest_wait_ns, longest_wait_at_ns; /* until fetched */
	struct message_tag tags[MESSAGE_TAGS];
	size_t tag_count;
	uint64_t other_tags;
	struct message_sender senders[MESSAGE_SENDERS];
	size_t sender_count;
	uint64_t other_senders;
	/* of the whole recording, from the timeline; queue_max 0 when it does not know the process */
	uint64_t queue_start, queue_end, queue_max;
	UT_hash_handle hh;
};

/*
 * The receivers, those with the longest mailboxes first; owned by the section. After the timeline has
 * run.
 */
size_t messages_receivers(void *state, struct receiver_row ***rows);

#endif
