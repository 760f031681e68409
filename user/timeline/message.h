/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_MESSAGE_H
#define BEAMWEAVE_MESSAGE_H

/*
 * Messages: a send and the receiver's `receive` event of a message with the same fingerprint, the oldest
 * first. The `receive` event names no sender and means that the message was moved into the private
 * queue. A send to a registered name goes to whoever has the name then.
 *
 * The VM also reports a timeout of a `receive` as the fetching of the atom `timeout`. Where no such message was
 * sent, it is none: nothing is given out, but it tells that the process had waited.
 *
 * A port is said to send the answers to synchronous calls too, which no process ever fetches: what ports
 * send counts in no queue.
 *
 * A message that was sent and never fetched is given out unmatched when its receiver exits, when a
 * message sent MESSAGE_STALE_NS later was fetched (a fetch takes all there is), when its receiver has
 * MESSAGES_KEPT others waiting (MESSAGES_UNSEEN, while none of its receives was ever seen), or at the end.
 */

#include "process.h"

#define MESSAGE_STALE_NS 1000000000ULL
#define MESSAGES_KEPT	 1000000u
#define MESSAGES_UNSEEN	 4096u

struct pending;

struct messages {
	const struct timeline_sink *sink;
	struct map heads; /* receiver and fingerprint -> oldest struct pending of that sort */
	struct map names; /* name key -> struct process; see message_name_key */
	struct processes *processes;
	struct trace *trace; /* for the text of atoms; NULL: an atom's index is its key */
	struct map atom_keys; /* atom -> key as a pointer */
	uint64_t timeout_key; /* of the atom `timeout`; 0 unknown */
	struct pending *free;
	void **blocks;
	size_t block_count;
};

void messages_init(struct messages *messages, const struct timeline_sink *sink,
		   struct processes *processes, struct trace *trace);
void messages_free(struct messages *messages);
/* RING_SEND, RING_SEND_NOPROC by `from`. Returns 0 or -ENOMEM. */
int message_send(struct messages *messages, struct process *from, const struct event *event);
/* RING_RECEIVE by `to`; counts it as one of its receives. */
int message_receive(struct messages *messages, struct process *to, const struct event *event);
/* `process` begins to run: what was sent to it has now led to that. */
void message_ran(struct process *process, uint64_t ts_ns);
/* RING_REGISTER, RING_UNREGISTER. */
int message_register(struct messages *messages, struct process *process, uint32_t atom);
void message_unregister(struct messages *messages, const struct process *process, uint32_t atom);
/* EVENT_NAME. */
int message_name(struct messages *messages, struct process *process, struct text name);
/* The process is gone, or the recording over: what it has not fetched stays unmatched. */
void message_exit(struct messages *messages, struct process *process);

#endif
