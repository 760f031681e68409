/* SPDX-License-Identifier: Apache-2.0 */
#include "messages_view.h"

#include <errno.h>
#include <stdlib.h>

#include "moment.h"
#include "page.h"
#include "table.h"
#include "units.h"

static json_t *name_json(struct report *report, uint64_t word, uint64_t ts_ns)
{
	return word ? section_json_text(trace_process_name(report->trace, word, ts_ns))
		    : json_null();
}

static json_t *pair_json(struct messages *messages, const struct pair_row *pair)
{
	struct report *report = messages->report;
	bool others = pair == &messages->others;
	json_t *object = json_object();

	json_object_set_new(object, "from",
			    others ? json_string("(others)")
				   : section_json_process(report, pair->key.from));
	json_object_set_new(object, "from_name", name_json(report, pair->key.from, pair->last_ns));
	json_object_set_new(object, "to",
			    others ? json_string("(others)")
				   : section_json_process(report, pair->key.to));
	json_object_set_new(object, "to_name",
			    pair->to_name
				    ? section_json_text(trace_atom(report->trace, pair->to_name))
				    : name_json(report, pair->key.to, pair->last_ns));
	json_object_set_new(object, "count", section_json_number(pair->count));
	json_object_set_new(object, "unmatched", section_json_number(pair->unmatched));
	json_object_set_new(object, "no_process", section_json_number(pair->noproc));
	json_object_set_new(object, "fetched_ns", section_json_quantile(&pair->fetched, false));
	json_object_set_new(object, "handled_ns", json_null());
	json_object_set_new(object, "to_run_ns", section_json_quantile(&pair->to_run, false));
	return object;
}

static json_t *senders_json(struct report *report, const struct receiver_row *row)
{
	json_t *list = json_array();

	for (size_t i = 0; i < row->sender_count; i++)
		json_array_append_new(
			list, json_pack("{s:o,s:o,s:o}", "from",
					section_json_process(report, row->senders[i].word), "name",
					name_json(report, row->senders[i].word, row->last_ns),
					"count", section_json_number(row->senders[i].count)));
	if (row->other_senders)
		json_array_append_new(list,
				      json_pack("{s:s,s:n,s:o}", "from", "(others)", "name",
						"count", section_json_number(row->other_senders)));
	return list;
}

static json_t *tags_json(const struct receiver_row *row)
{
	json_t *list = json_array();

	for (size_t i = 0; i < row->tag_count; i++)
		json_array_append_new(list, json_pack("{s:o,s:o}", "tag",
						      section_json_text(row->tags[i].tag), "count",
						      section_json_number(row->tags[i].count)));
	if (row->other_tags)
		json_array_append_new(list, json_pack("{s:s,s:o}", "tag", "(others)", "count",
						      section_json_number(row->other_tags)));
	return list;
}

static json_t *receiver_json(struct report *report, const struct receiver_row *row)
{
	json_t *object = json_object();

	json_object_set_new(object, "process", section_json_process(report, row->word));
	json_object_set_new(object, "name", name_json(report, row->word, row->last_ns));
	json_object_set_new(object, "queue",
			    json_pack("{s:o,s:o,s:o}", "start",
				      section_json_number(row->queue_start), "end",
				      section_json_number(row->queue_end), "max",
				      section_json_number(row->queue_max)));
	json_object_set_new(object, "arrived", section_json_number(row->arrived));
	json_object_set_new(object, "fetched", section_json_number(row->fetched));
	json_object_set_new(object, "handled", json_null());
	json_object_set_new(object, "longest_wait_ns", section_json_number(row->longest_wait_ns));
	json_object_set_new(object, "service_ns", json_null());
	json_object_set_new(object, "by_sender", senders_json(report, row));
	json_object_set_new(object, "by_tag", tags_json(row));
	return object;
}

json_t *messages_json(void *state)
{
	struct messages *messages = state;
	json_t *pair_list = json_array(), *receiver_list = json_array();
	struct receiver_row **receivers;
	struct pair_row **pairs;
	size_t limit = section_limit(messages->report), count;

	count = messages_pairs(messages, &pairs);
	for (size_t i = 0; i < count && i < limit; i++)
		json_array_append_new(pair_list, pair_json(messages, pairs[i]));
	free(pairs);
	count = messages_receivers(messages, &receivers);
	for (size_t i = 0; i < count && i < limit; i++)
		json_array_append_new(receiver_list, receiver_json(messages->report, receivers[i]));
	free(receivers);
	return json_pack("{s:o,s:o,s:o,s:b}", "pairs", pair_list, "receivers", receiver_list,
			 "to_receivers_left_out", section_json_number(messages->receivers_left_out),
			 "recorded", messages->report->coverage.looks[LOOK_MESSAGES].on);
}

static int receivers_print(struct messages *messages, FILE *out)
{
	static const struct table_column columns[] = {
		{"RECEIVER", TABLE_FLEX}, {"START", TABLE_RIGHT},   {"END", TABLE_RIGHT},
		{"MAX", TABLE_RIGHT},	  {"ARRIVED", TABLE_RIGHT}, {"FETCHED", TABLE_RIGHT},
		{"WAIT", TABLE_RIGHT},	  {"MOSTLY", TABLE_FLEX},   {NULL, 0}};
	struct report *report = messages->report;
	struct table *table = table_new(columns);
	struct receiver_row **rows;
	size_t count = messages_receivers(messages, &rows), limit = section_limit(report);
	int error = table ? 0 : -ENOMEM;

	for (size_t i = 0; table && i < count && i < limit; i++) {
		const struct receiver_row *row = rows[i];

		table_cell(table, "%s", SECTION_NAME(report, row->word, row->last_ns));
		table_cell(table, "%s", UNITS_COUNT(row->queue_start));
		table_cell(table, "%s", UNITS_COUNT(row->queue_end));
		table_cell(table, "%s", UNITS_COUNT(row->queue_max));
		table_cell(table, "%s", UNITS_COUNT(row->arrived));
		table_cell(table, "%s", UNITS_COUNT(row->fetched));
		table_cell(table, "%s",
			   row->longest_wait_ns ? UNITS_DURATION(row->longest_wait_ns) : "");
		table_cell(table, "%s", row->tag_count ? row->tags[0].tag : "");
	}
	if (!error)
		error = table_print(table, out, 2);
	section_left_out(out, limit, count, "receivers");
	if (messages->receivers_left_out)
		page_print(out, 2, 2, "... and %s messages to receivers beyond the first 65,536",
			   UNITS_COUNT(messages->receivers_left_out));
	free(rows);
	table_free(table);
	return error;
}

static const char *pair_end(struct messages *messages, const struct pair_row *pair, uint64_t word,
			    char who[static SECTION_WHO])
{
	if (pair == &messages->others)
		return "(others)";
	return word ? section_who(messages->report, who, word, pair->last_ns) : "(not seen)";
}

static int pairs_print(struct messages *messages, FILE *out)
{
	static const struct table_column columns[] = {
		{"FROM", TABLE_FLEX},	    {"TO", TABLE_FLEX},		{"COUNT", TABLE_RIGHT},
		{"UNMATCHED", TABLE_RIGHT}, {"FETCH P50", TABLE_RIGHT}, {"P99", TABLE_RIGHT},
		{"MAX", TABLE_RIGHT},	    {"RAN P99", TABLE_RIGHT},	{NULL, 0}};
	struct report *report = messages->report;
	struct table *table = table_new(columns);
	struct pair_row **pairs;
	size_t count = messages_pairs(messages, &pairs), limit = section_limit(report);
	int error = table ? 0 : -ENOMEM;

	for (size_t i = 0; table && i < count && i < limit; i++) {
		const struct pair_row *pair = pairs[i];
		const struct quantile *fetched = &pair->fetched, *to_run = &pair->to_run;
		uint64_t lost = pair->unmatched + pair->noproc;
		char who[SECTION_WHO];

		table_cell(table, "%s", pair_end(messages, pair, pair->key.from, who));
		if (!pair->key.to && pair->to_name)
			table_cell(table, "%s", trace_atom(report->trace, pair->to_name));
		else
			table_cell(table, "%s", pair_end(messages, pair, pair->key.to, who));
		table_cell(table, "%s", UNITS_COUNT(pair->count));
		table_cell(table, "%s", lost ? UNITS_COUNT(lost) : "");
		table_cell(table, "%s",
			   fetched->count ? UNITS_DURATION(quantile_at(fetched, 500)) : "");
		table_cell(table, "%s",
			   fetched->count ? UNITS_DURATION(quantile_at(fetched, 990)) : "");
		table_cell(table, "%s", fetched->count ? UNITS_DURATION(fetched->max) : "");
		table_cell(table, "%s",
			   to_run->count ? UNITS_DURATION(quantile_at(to_run, 990)) : "");
	}
	if (!error)
		error = table_print(table, out, 2);
	section_left_out(out, limit, count, "pairs");
	free(pairs);
	table_free(table);
	return error;
}

int messages_text(void *state, FILE *out)
{
	struct messages *messages = state;
	struct report *report = messages->report;
	int error;

	if (!messages->count) {
		fputc('\n', out);
		section_nothing(report, out, LOOK_MESSAGES);
		return 0;
	}
	page_title(
		out,
		"Mailboxes, longest first. START, END, MAX: messages sent and not fetched%s. WAIT: "
		"the longest until one was fetched.",
		report->whole ? "" : " (in the whole recording)");
	error = receivers_print(messages, out);
	if (error)
		return error;
	page_title(out,
		   "Messages by sender and receiver, most waiting first. FETCH: from the send "
		   "until the VM moved it to the receiver's own queue. RAN: until the receiver was "
		   "scheduled%s. UNMATCHED: only one end was seen, or there was "
		   "no such process; a port's answers to synchronous calls are received without a "
		   "send that the VM tells of.",
		   report->coverage.looks[LOOK_RUNNING].on ? "" : " (needs record --running)");
	return pairs_print(messages, out);
}
