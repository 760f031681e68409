/* SPDX-License-Identifier: Apache-2.0 */
#include "live_terms.h"

#include <stdlib.h>

#include "etf.h"
#include "text.h"

#define TAG_VERSION 131

/* A list of bytes that the format keeps as a string: they are arguments all the same. */
static void string_add(struct etf *list, struct text_builder *text)
{
	uint32_t count;

	if (list->end - list->at < 3)
		return;
	count = (uint32_t)list->at[1] << 8 | list->at[2];
	for (uint32_t i = 0; i < count && i < (uint64_t)(list->end - list->at - 3); i++)
		text_format(text, "%s%u", i ? ", " : "", list->at[3 + i]);
}

void live_terms_args(struct trace *trace, const struct event *event, char *args, size_t bytes)
{
	struct etf list = {(const uint8_t *)event->etf.data,
			   (const uint8_t *)event->etf.data + event->etf.bytes};
	struct text_builder text;
	char *term;
	uint32_t count;

	*args = 0;
	term = event->etf.bytes ? malloc(bytes) : NULL;
	if (!term)
		return;
	if (*list.at == TAG_VERSION)
		list.at++;
	text_begin(&text, args, bytes);
	text_add(&text, "(");
	if (etf_tag(&list) == ETF_STRING) {
		string_add(&list, &text);
	} else if (etf_list(&list, &count)) {
		for (uint32_t i = 0; i < count; i++) {
			struct text one = {(const char *)list.at, 0};

			if (!etf_skip(&list))
				break;
			one.bytes = (uint32_t)((const char *)list.at - one.data);
			trace_term_text(trace, one, term, bytes);
			text_add(&text, i ? ", " : "");
			text_add(&text, term);
		}
	} else if (etf_tag(&list) != ETF_NIL) {
		/* It was cut before its first element. */
		text_add(&text, "...");
	}
	text_add(&text, ")");
	text_finish(&text);
	free(term);
}
