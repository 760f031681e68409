/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One line a call of a recording, in the order of their ends:
 *   ID PARENT PROCESS MFA LEVEL START_NS END_NS HOW CERTAIN
 * HOW is returned, tail, exception, unseen, exited, open or lost; CERTAIN 1 or 0.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "timeline.h"

static void dump(void *context, const struct call_interval *call)
{
	static const char *const ends[] = {"returned", "tail", "exception", "unseen",
					   "exited",   "open", "lost"};
	struct trace *trace = context;

	printf("%" PRIu64 " %" PRIu64 " %s %s %u %" PRIu64 " %" PRIu64 " %s %d\n", call->id,
	       call->parent, trace_process_text(trace, call->process), trace_mfa(trace, call->mfa),
	       call->level, call->start_ns, call->end_ns, ends[call->how], call->certain);
}

int main(int argc, char **argv)
{
	struct trace *trace = argc == 2 ? trace_open(argv[1]) : NULL;
	struct timeline_sink sink = {.context = trace, .call = dump};
	struct timeline *timeline;
	int err;

	if (!trace) {
		fprintf(stderr, "call_dump: %s\n", argc == 2 ? strerror(errno) : "FILE.bwt wanted");
		return 1;
	}
	timeline = timeline_new(trace, &sink, 1000000);
	err = timeline ? timeline_run(timeline) : -ENOMEM;
	if (err)
		fprintf(stderr, "call_dump: %s\n", strerror(-err));
	timeline_free(timeline);
	trace_close(trace);
	return err ? 1 : 0;
}
