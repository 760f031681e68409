/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_REPORT_FEED_H
#define BEAMWEAVE_REPORT_FEED_H

/* What tests of reports share. */

#include <stdlib.h>
#include <string.h>

#include "gaps.h"
#include "page.h"
#include "record.h"
#include "sanitize.h"

/* No line of a text is wider than a page. */
static inline void lines_fit(const char *text)
{
	while (*text) {
		size_t bytes = strcspn(text, "\n");
		char *line = strndup(text, bytes);

		assert_true(sanitize_columns(line) <= PAGE_COLUMNS);
		assert_true(!bytes || line[bytes - 1] != ' ');
		assert_null(strpbrk(line, "\033\r\t"));
		free(line);
		text += bytes + (text[bytes] == '\n');
	}
}

static inline void gap_add(struct gaps *gaps, uint64_t from_ns, uint64_t to_ns, uint64_t count,
			   bool kernel)
{
	struct loss loss = {.from_ns = from_ns, .to_ns = to_ns, .count = count, .kernel = kernel};

	assert_int_equal(gaps_add(gaps, &loss), 0);
}

#endif
