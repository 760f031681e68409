/* SPDX-License-Identifier: Apache-2.0 */
#include "message.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PENDING_BLOCK 256

/* A message on its way. */
struct pending {
	struct message message;
	uint64_t key; /* of receiver and fingerprint */
	struct pending *older, *newer; /* in the mailbox */
	struct pending *next_same, *last_same; /* of the same key; last_same in the oldest only */
	char *content;
};

struct mailbox {
	struct pending *oldest, *newest;
	struct pending *unran; /* the oldest that its receiver has not run since */
	uint32_t count, from_ports;
	bool fetches; /* a receive was seen */
};

static uint64_t text_key(const char *data, size_t bytes)
{
	uint64_t hash = 0xcbf29ce484222325ULL; /* FNV-1a */
	size_t i;

	for (i = 0; i < bytes; i++)
		hash = (hash ^ (uint8_t)data[i]) * 0x100000001b3ULL;
	return hash | 1;
}

void messages_init(struct messages *messages, const struct timeline_sink *sink,
		   struct processes *processes, struct trace *trace)
{
	*messages = (struct messages){
		.sink = sink,
		.processes = processes,
		.trace = trace,
		.timeout_key = trace ? text_key("timeout", strlen("timeout")) : 0,
	};
}

void messages_free(struct messages *messages)
{
	size_t i;

	for (i = 0; i < messages->block_count; i++)
		free(messages->blocks[i]);
	free(messages->blocks);
	map_free(&messages->heads);
	map_free(&messages->names);
	map_free(&messages->atom_keys);
}

static struct pending *pending_new(struct messages *messages)
{
	struct pending *pending = messages->free;
	size_t i;

	if (!pending) {
		size_t bytes = (messages->block_count + 1) * sizeof(*messages->blocks);
		struct pending *block = malloc(PENDING_BLOCK * sizeof(*block));
		void **blocks = block ? realloc(messages->blocks, bytes) : NULL;

		if (!blocks) {
			free(block);
			return NULL;
		}
		messages->blocks = blocks;
		messages->blocks[messages->block_count++] = block;
		for (i = 0; i < PENDING_BLOCK; i++) {
			block[i].newer = messages->free;
			messages->free = &block[i];
		}
		pending = messages->free;
	}
	messages->free = pending->newer;
	memset(pending, 0, sizeof(*pending));
	return pending;
}

static void message_emit(struct messages *messages, const struct message *message)
{
	if (messages->sink && messages->sink->message)
		messages->sink->message(messages->sink->context, message);
}

static void message_queue_changed(struct messages *messages, struct process *process,
				  uint64_t ts_ns)
{
	struct queue_sample sample = {process->totals.process, ts_ns, process->queued};

	process->totals.queue_end = process->queued;
	if (process->queued > process->totals.queue_max)
		process->totals.queue_max = process->queued;
	if (messages->sink && messages->sink->queue)
		messages->sink->queue(messages->sink->context, &sample);
}

/* Take a message out of its key's list, where it is the oldest but when two keys collide. */
static void pending_unlist(struct messages *messages, struct pending *pending)
{
	struct pending *head = map_get(&messages->heads, pending->key), *before = head;

	if (head == pending) {
		if (!pending->next_same) {
			map_remove(&messages->heads, pending->key);
			return;
		}
		pending->next_same->last_same = pending->last_same;
		/* replaces the key's value: needs no memory */
		map_put(&messages->heads, pending->key, pending->next_same);
		return;
	}
	while (before->next_same != pending)
		before = before->next_same;
	before->next_same = pending->next_same;
	if (head->last_same == pending)
		head->last_same = before;
}

/* Take a message out of everything; it may then be given out and freed. */
static void pending_remove(struct messages *messages, struct process *process,
			   struct pending *pending)
{
	struct mailbox *box = process->mailbox;

	pending_unlist(messages, pending);
	if (box->unran == pending)
		box->unran = pending->newer;
	if (pending->older)
		pending->older->newer = pending->newer;
	else
		box->oldest = pending->newer;
	if (pending->newer)
		pending->newer->older = pending->older;
	else
		box->newest = pending->older;
	box->count--;
	box->from_ports -= process_word_is_port(pending->message.from);
	process->queued = box->count - box->from_ports;
}

static void pending_finish(struct messages *messages, struct pending *pending)
{
	message_emit(messages, &pending->message);
	free(pending->content);
	pending->newer = messages->free;
	messages->free = pending;
}

static void pending_drop(struct messages *messages, struct process *process,
			 struct pending *pending)
{
	pending_remove(messages, process, pending);
	pending_finish(messages, pending);
}

static int atom_key(struct messages *messages, uint32_t atom, uint64_t *key)
{
	void *known = map_get(&messages->atom_keys, atom);
	const char *text;

	if (!messages->trace) {
		*key = atom;
		return 0;
	}
	if (known) {
		*key = (uint64_t)(uintptr_t)known;
		return 0;
	}
	text = trace_atom(messages->trace, atom);
	*key = text_key(text, strlen(text));
	return map_put(&messages->atom_keys, atom, (void *)(uintptr_t)*key);
}

int message_register(struct messages *messages, struct process *process, uint32_t atom)
{
	uint64_t key;
	int err = atom_key(messages, atom, &key);

	return err ? err : map_put(&messages->names, key, process);
}

void message_unregister(struct messages *messages, const struct process *process, uint32_t atom)
{
	uint64_t key;

	if (!atom_key(messages, atom, &key) && map_get(&messages->names, key) == process)
		map_remove(&messages->names, key);
}

int message_name(struct messages *messages, struct process *process, struct text name)
{
	if (!name.bytes || !messages->trace)
		return 0;
	return map_put(&messages->names, text_key(name.data, name.bytes), process);
}

static struct process *message_named(struct messages *messages, uint32_t atom)
{
	struct process *process;
	uint64_t key;

	if (atom_key(messages, atom, &key))
		return NULL;
	process = map_get(&messages->names, key);
	return process && !process->totals.exited_ns ? process : NULL;
}

static uint64_t message_key(uint64_t to, uint64_t fingerprint)
{
	return map_mix(to) ^ fingerprint;
}

static int message_keep(struct messages *messages, struct process *to, const struct event *event,
			const struct message *message)
{
	struct pending *pending, *head;
	struct mailbox *box = to->mailbox;

	if (!box) {
		box = to->mailbox = calloc(1, sizeof(*box));
		if (!box)
			return -ENOMEM;
	}
	if (box->count >= (box->fetches ? MESSAGES_KEPT : MESSAGES_UNSEEN))
		pending_drop(messages, to, box->oldest);
	pending = pending_new(messages);
	if (!pending)
		return -ENOMEM;
	pending->message = *message;
	pending->key = message_key(message->to, message->shape.fingerprint);
	if (event->etf.bytes) {
		pending->content = malloc(event->etf.bytes);
		if (pending->content) {
			memcpy(pending->content, event->etf.data, event->etf.bytes);
			pending->message.content =
				(struct text){pending->content, event->etf.bytes};
		}
	}
	head = map_get(&messages->heads, pending->key);
	if (head) {
		head->last_same->next_same = pending;
		head->last_same = pending;
	} else {
		if (map_put(&messages->heads, pending->key, pending)) {
			pending_finish(messages, pending);
			return -ENOMEM;
		}
		pending->last_same = pending;
	}
	pending->older = box->newest;
	if (box->newest)
		box->newest->newer = pending;
	else
		box->oldest = pending;
	box->newest = pending;
	box->count++;
	box->from_ports += process_word_is_port(message->from);
	to->queued = box->count - box->from_ports;
	if (!pending->message.ran_ns && !box->unran)
		box->unran = pending;
	return 0;
}

int message_send(struct messages *messages, struct process *from, const struct event *event)
{
	const struct ring_send *send = event->send;
	struct message message = {
		.from = from ? from->totals.process : 0,
		.to = send->to,
		.to_name = send->name,
		.sent_ns = event->ts_ns,
		.sent_tid = event->tid,
		.shape = send->shape,
		.noproc = event->kind == RING_SEND_NOPROC,
		.content = event->etf,
	};
	struct process *to = NULL;
	int err;

	if (!message.noproc && send->to && !process_word_is_port(send->to)) {
		to = process_get(messages->processes, send->to, 0);
		if (!to)
			return -ENOMEM;
		if (!to->totals.first_ns)
			to->totals.first_ns = to->totals.last_ns = event->ts_ns;
	} else if (!message.noproc && !send->to && send->name) {
		to = message_named(messages, send->name);
	}
	/* to a port, another node, an unknown name: no `receive` will name it */
	if (!to || to->totals.exited_ns) {
		message_emit(messages, &message);
		return 0;
	}
	message.to = to->totals.process;
	/* it runs already: it need not be scheduled for this message */
	if (to->phase == PROCESS_ON)
		message.ran_ns = event->ts_ns;
	err = message_keep(messages, to, event, &message);
	if (err)
		return err;
	process_sent(to, event->ts_ns, process_word_is_port(message.from));
	message_queue_changed(messages, to, event->ts_ns);
	return 0;
}

static bool message_is_timeout(struct messages *messages, const struct ring_shape *shape)
{
	uint64_t key;

	return shape->type == RING_T_ATOM && messages->timeout_key &&
	       !atom_key(messages, shape->atom[0], &key) && key == messages->timeout_key;
}

int message_receive(struct messages *messages, struct process *to, const struct event *event)
{
	struct mailbox *box = to->mailbox;
	uint64_t key = message_key(to->totals.process, event->receive->shape.fingerprint), stale_ns;
	struct pending *pending = box ? map_get(&messages->heads, key) : NULL;

	/* keys of two receivers may collide */
	while (pending && pending->message.to != to->totals.process)
		pending = pending->next_same;
	if (!pending && message_is_timeout(messages, &event->receive->shape)) {
		process_timed_out(to, event->ts_ns);
		return 0;
	}
	to->totals.receives++;
	to->last_fetched_ns = event->ts_ns;
	if (!pending) {
		struct message message = {
			.to = to->totals.process,
			.fetched_ns = event->ts_ns,
			.fetched_tid = event->tid,
			.shape = event->receive->shape,
			.content = event->etf,
		};

		message_emit(messages, &message);
		return 0;
	}
	box->fetches = true;
	pending->message.fetched_ns = event->ts_ns;
	pending->message.fetched_tid = event->tid;
	stale_ns = pending->message.sent_ns;
	pending_drop(messages, to, pending);
	while (box->oldest && box->oldest->message.sent_ns + MESSAGE_STALE_NS < stale_ns)
		pending_drop(messages, to, box->oldest);
	message_queue_changed(messages, to, event->ts_ns);
	return 0;
}

void message_ran(struct process *process, uint64_t ts_ns)
{
	struct mailbox *box = process->mailbox;
	struct pending *pending;

	if (!box)
		return;
	for (pending = box->unran; pending; pending = pending->newer)
		if (!pending->message.ran_ns)
			pending->message.ran_ns = ts_ns;
	box->unran = NULL;
}

void message_exit(struct messages *messages, struct process *process)
{
	struct mailbox *box = process->mailbox;

	if (!box)
		return;
	while (box->oldest)
		pending_drop(messages, process, box->oldest);
	free(box);
	process->mailbox = NULL;
}
