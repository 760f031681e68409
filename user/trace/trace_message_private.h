/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TRACE_MESSAGE_PRIVATE_H
#define BEAMWEAVE_TRACE_MESSAGE_PRIVATE_H

/* What the files of trace messages share and nobody else sees. */

#include "trace_message.h"

#define MESSAGE_ELEMENTS_MAX 8

struct message_element {
	struct etf etf; /* ends where the element ends, or what is there of it */
	bool whole;
};

struct message_parts {
	struct message_element elements[MESSAGE_ELEMENTS_MAX];
	uint32_t count;
	struct message_time time;
	uint32_t kind;
	bool extra; /* elements[4] is Extra */
	bool cut;
};

/* The elements of a message, its kind and its time. 0 or -EBADMSG. */
int message_split(const struct message_bytes *bytes, struct message_parts *parts);

#endif
