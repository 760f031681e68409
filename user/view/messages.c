/* SPDX-License-Identifier: Apache-2.0 */
#include "messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "messages_view.h"

#define PAIRS_MAX     65536 /* told apart; the rest is one pair of others */
#define RECEIVERS_MAX 65536

static void tag_text(struct report *report, const struct ring_shape *shape,
		     char tag[static MESSAGE_TAG])
{
	static const char *const types[] = {
		"(other)", "",	      "(tuple)",     "(list)", "(binary)", "(integer)", "(pid)",
		"(map)",   "(float)", "(reference)", "(port)", "(fun)",	   "[]"};
	const char *type = shape->type < sizeof(types) / sizeof(types[0]) ? types[shape->type]
									  : "(other)";

	if (shape->atom[0] && shape->atom[1])
		snprintf(tag, MESSAGE_TAG, "%.38s %.38s", trace_atom(report->trace, shape->atom[0]),
			 trace_atom(report->trace, shape->atom[1]));
	else if (shape->atom[0])
		snprintf(tag, MESSAGE_TAG, "%.70s", trace_atom(report->trace, shape->atom[0]));
	else if (shape->type == RING_T_TUPLE)
		snprintf(tag, MESSAGE_TAG, "(tuple of %u)", shape->arity);
	else
		snprintf(tag, MESSAGE_TAG, "%s", type);
}

static void tag_count(struct report *report, struct receiver_row *row,
		      const struct ring_shape *shape)
{
	char tag[MESSAGE_TAG];

	tag_text(report, shape, tag);
	for (size_t i = 0; i < row->tag_count; i++) {
		if (!strcmp(row->tags[i].tag, tag)) {
			row->tags[i].count++;
			return;
		}
	}
	if (row->tag_count == MESSAGE_TAGS) {
		row->other_tags++;
		return;
	}
	memcpy(row->tags[row->tag_count].tag, tag, sizeof(tag));
	row->tags[row->tag_count++].count = 1;
}

static void sender_count(struct receiver_row *row, uint64_t word)
{
	for (size_t i = 0; i < row->sender_count; i++) {
		if (row->senders[i].word == word) {
			row->senders[i].count++;
			return;
		}
	}
	if (row->sender_count == MESSAGE_SENDERS)
		row->other_senders++;
	else
		row->senders[row->sender_count++] = (struct message_sender){word, 1};
}

static struct pair_row *pair_get(struct messages *messages, uint64_t from, uint64_t to)
{
	struct pair_key key = {from, to};
	struct pair_row *row;

	HASH_FIND(hh, messages->pairs, &key, sizeof(key), row);
	if (row)
		return row;
	if (HASH_COUNT(messages->pairs) >= PAIRS_MAX)
		return &messages->others;
	row = calloc(1, sizeof(*row));
	if (!row)
		return NULL;
	row->key = key;
	HASH_ADD(hh, messages->pairs, key, sizeof(row->key), row);
	if (!row->hh.tbl) {
		free(row);
		return NULL;
	}
	return row;
}

static struct receiver_row *receiver_get(struct messages *messages, uint64_t word)
{
	struct receiver_row *row;

	HASH_FIND(hh, messages->receivers, &word, sizeof(word), row);
	if (row)
		return row;
	if (HASH_COUNT(messages->receivers) >= RECEIVERS_MAX) {
		messages->receivers_left_out++;
		return NULL;
	}
	row = calloc(1, sizeof(*row));
	if (!row) {
		section_failed(messages->report, -ENOMEM);
		return NULL;
	}
	row->word = word;
	HASH_ADD(hh, messages->receivers, word, sizeof(row->word), row);
	if (!row->hh.tbl) {
		free(row);
		section_failed(messages->report, -ENOMEM);
		return NULL;
	}
	return row;
}

static void receiver_add(struct messages *messages, const struct message *message, uint64_t seen_ns)
{
	struct receiver_row *row = receiver_get(messages, message->to);
	uint64_t wait_ns;

	if (!row)
		return;
	row->last_ns = seen_ns;
	row->arrived++;
	tag_count(messages->report, row, &message->shape);
	sender_count(row, message->from);
	if (!message->fetched_ns)
		return;
	row->fetched++;
	if (!message->sent_ns || message->fetched_ns < message->sent_ns)
		return;
	wait_ns = message->fetched_ns - message->sent_ns;
	if (wait_ns > row->longest_wait_ns) {
		row->longest_wait_ns = wait_ns;
		row->longest_wait_at_ns = message->sent_ns;
	}
}

static void on_message(void *context, const struct message *message)
{
	struct messages *messages = context;
	struct report *report = messages->report;
	uint64_t first_ns = message->sent_ns ? message->sent_ns : message->fetched_ns;
	uint64_t last_ns = message->fetched_ns ? message->fetched_ns : first_ns;
	struct pair_row *pair;
	int error = 0;

	if (!section_inside(report, first_ns, last_ns))
		return;
	messages->count++;
	pair = pair_get(messages, message->from, message->to);
	if (!pair) {
		section_failed(report, -ENOMEM);
		return;
	}
	pair->count++;
	pair->last_ns = last_ns;
	pair->to_name = message->to_name;
	if (message->noproc)
		pair->noproc++;
	else if (!message->sent_ns || !message->fetched_ns)
		pair->unmatched++;
	if (message->sent_ns && message->fetched_ns >= message->sent_ns)
		error = quantile_add(&pair->fetched, message->fetched_ns - message->sent_ns);
	if (!error && message->sent_ns && message->ran_ns >= message->sent_ns)
		error = quantile_add(&pair->to_run, message->ran_ns - message->sent_ns);
	section_failed(report, error);
	if (message->to && !message->noproc && !trace_process_own(report->trace, message->to))
		receiver_add(messages, message, last_ns);
}

static void *messages_open(struct report *report, struct timeline_sink *sink)
{
	struct messages *messages = calloc(1, sizeof(*messages));

	if (!messages)
		return NULL;
	messages->report = report;
	sink->context = messages;
	sink->message = on_message;
	return messages;
}

static void messages_close(void *state)
{
	struct messages *messages = state;
	struct pair_row *pair, *next_pair;
	struct receiver_row *receiver, *next_receiver;

	HASH_ITER (hh, messages->pairs, pair, next_pair) {
		HASH_DEL(messages->pairs, pair);
		quantile_free(&pair->fetched);
		quantile_free(&pair->to_run);
		free(pair);
	}
	HASH_ITER (hh, messages->receivers, receiver, next_receiver) {
		HASH_DEL(messages->receivers, receiver);
		free(receiver);
	}
	quantile_free(&messages->others.fetched);
	quantile_free(&messages->others.to_run);
	free(messages);
}

/* Most first. */
static int tag_compare(const void *a, const void *b)
{
	const struct message_tag *left = a, *right = b;

	return left->count < right->count ? 1 : left->count > right->count ? -1 : 0;
}

static int sender_compare(const void *a, const void *b)
{
	const struct message_sender *left = a, *right = b;

	return left->count < right->count ? 1 : left->count > right->count ? -1 : 0;
}

static int receiver_compare(const void *a, const void *b)
{
	const struct receiver_row *left = *(struct receiver_row *const *)a;
	const struct receiver_row *right = *(struct receiver_row *const *)b;

	if (left->queue_max != right->queue_max)
		return left->queue_max < right->queue_max ? 1 : -1;
	if (left->arrived != right->arrived)
		return left->arrived < right->arrived ? 1 : -1;
	return (left->word > right->word) - (left->word < right->word);
}

static void queue_fill(const struct report *report, struct receiver_row *row)
{
	const struct process_totals *totals;
	size_t low = 0, high = report->timeline ? timeline_processes(report->timeline, &totals) : 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (totals[middle].process < row->word) {
			low = middle + 1;
		} else if (totals[middle].process > row->word) {
			high = middle;
		} else {
			row->queue_start = totals[middle].queue_start;
			row->queue_end = totals[middle].queue_end;
			row->queue_max = totals[middle].queue_max;
			return;
		}
	}
}

size_t messages_receivers(void *state, struct receiver_row ***rows)
{
	struct messages *messages = state;
	struct receiver_row *row, *next;
	size_t count = 0;

	*rows = calloc(HASH_COUNT(messages->receivers) + 1, sizeof(**rows));
	if (!*rows) {
		section_failed(messages->report, -ENOMEM);
		return 0;
	}
	HASH_ITER (hh, messages->receivers, row, next) {
		queue_fill(messages->report, row);
		qsort(row->tags, row->tag_count, sizeof(*row->tags), tag_compare);
		qsort(row->senders, row->sender_count, sizeof(*row->senders), sender_compare);
		(*rows)[count++] = row;
	}
	qsort(*rows, count, sizeof(**rows), receiver_compare);
	return count;
}

static int pair_compare(const void *a, const void *b)
{
	const struct pair_row *left = *(struct pair_row *const *)a;
	const struct pair_row *right = *(struct pair_row *const *)b;

	if (left->fetched.sum != right->fetched.sum)
		return left->fetched.sum < right->fetched.sum ? 1 : -1;
	if (left->count != right->count)
		return left->count < right->count ? 1 : -1;
	return memcmp(&left->key, &right->key, sizeof(left->key));
}

size_t messages_pairs(struct messages *messages, struct pair_row ***pairs)
{
	struct pair_row *row, *next;
	size_t count = 0;

	*pairs = calloc(HASH_COUNT(messages->pairs) + 2, sizeof(**pairs));
	if (!*pairs) {
		section_failed(messages->report, -ENOMEM);
		return 0;
	}
	HASH_ITER (hh, messages->pairs, row, next)
		(*pairs)[count++] = row;
	qsort(*pairs, count, sizeof(**pairs), pair_compare);
	if (messages->others.count)
		(*pairs)[count++] = &messages->others;
	return count;
}

const struct section section_messages = {.name = "messages",
					 .about = "messages by sender and receiver, mailboxes",
					 .open = messages_open,
					 .json = messages_json,
					 .text = messages_text,
					 .close = messages_close};
