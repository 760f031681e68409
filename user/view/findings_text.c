/* SPDX-License-Identifier: Apache-2.0 */
#include "findings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "moment.h"
#include "program.h"
#include "units.h"

struct finding *finding_new(struct findings *findings, const char *cause)
{
	struct finding *finding;

	if (findings->count == findings->room) {
		size_t room = findings->room ? findings->room * 2 : 16;
		struct finding *grown = realloc(findings->found, room * sizeof(*grown));

		if (!grown) {
			section_failed(findings->report, -ENOMEM);
			return NULL;
		}
		findings->found = grown;
		findings->room = room;
	}
	finding = &findings->found[findings->count++];
	*finding = (struct finding){.cause = cause, .certain = true};
	return finding;
}

char *finding_text(struct findings *findings, const char *format, ...)
{
	va_list arguments;
	char *text = NULL;
	int length;

	va_start(arguments, format);
	length = vasprintf(&text, format, arguments);
	va_end(arguments);
	if (length >= 0)
		return text;
	section_failed(findings->report, -ENOMEM);
	return NULL;
}

/* A path as a shell takes it: as it stands, or in single quotes. */
static void path_quote(char *buffer, size_t size, const char *path)
{
	size_t used = 0;

	if (*path && strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				  "/._-+=:@%") == strlen(path)) {
		snprintf(buffer, size, " %s", path);
		return;
	}
	used += (size_t)snprintf(buffer, size, " '");
	for (; *path && used + 8 < size; path++)
		used += (size_t)snprintf(buffer + used, size - used, *path == '\'' ? "'\\''" : "%c",
					 *path);
	snprintf(buffer + used, size - used, "'");
}

char *finding_next(struct findings *findings, const char *section, uint64_t start_ns,
		   uint64_t end_ns)
{
	const struct report *report = findings->report;
	char path[512] = "", from[MOMENT_TEXT], to[MOMENT_TEXT];

	if (strcmp(report->options->path, "beamweave.bwt") != 0)
		path_quote(path, sizeof(path), report->options->path);
	if (!end_ns)
		return finding_text(findings, "%s report %s%s", program_name(), section, path);
	/* a millisecond of margin, so that the printed times hold the whole of it */
	moment_time(from, report->trace, start_ns > 1000000 ? start_ns - 1000000 : 0);
	moment_time(to, report->trace, end_ns + 2000000);
	from[12] = to[12] = 0; /* HH:MM:SS.mmm */
	return finding_text(findings, "%s report %s%s --from %s --to %s", program_name(), section,
			    path, from, to);
}

char *finding_gap(struct findings *findings, struct finding *finding, uint64_t start_ns,
		  uint64_t end_ns)
{
	const struct report *report = findings->report;
	struct gap gap = gaps_over(&report->gaps, start_ns, end_ns);

	if (!gap.count)
		return finding_text(findings, "%s", "");
	finding->certain = false;
	/* a single gap stands with its times at the head of the report */
	if (report->gaps.count == 1 && !report->options->json)
		return finding_text(findings, " Over the gap: %s events lost.",
				    UNITS_COUNT(gap.count));
	return finding_text(findings, " Over a gap: %s events lost between %s and %s.",
			    UNITS_COUNT(gap.count), MOMENT_TIME(report->trace, gap.from_ns),
			    MOMENT_TIME(report->trace, gap.to_ns));
}
