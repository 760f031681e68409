/* SPDX-License-Identifier: Apache-2.0 */
/*
 * invariants FILE.bwt: what must come out the same of a recording and of every export, as JSON:
 *   first_ns, last_ns     of all events
 *   kinds                 {KIND: count} of what is given
 *   gc_ns, run_ns         sums over start/end and in/out pairs, per process in the order of events
 *   sent_bytes, received_bytes   sums of positive results
 *   lost                  {WHY: count}
 *   own                   events of beamweave's own processes, left out
 *   accounts              for each ring: recorded == given + own + unknown + lost, for all kinds
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "trace.h"

struct process {
	uint64_t word;
	uint64_t in_ns, gc_ns; /* when it began; 0 not */
	UT_hash_handle hh;
};

static struct process *processes;

static struct process *process_get(uint64_t word)
{
	struct process *process;

	HASH_FIND(hh, processes, &word, sizeof(word), process);
	if (process)
		return process;
	process = calloc(1, sizeof(*process));
	if (!process)
		exit(1);
	process->word = word;
	HASH_ADD(hh, processes, word, sizeof(word), process);
	return process;
}

static struct {
	uint64_t first_ns, last_ns, gc_ns, run_ns, sent_bytes, received_bytes;
	uint64_t kinds[EVENT_KINDS];
	uint64_t discarded, overwritten, damaged;
	/* by ring and kind: losses of what had been recorded, and of what had not */
	uint64_t lost[256][RING_KINDS], refused[256][RING_KINDS], given[256][RING_KINDS];
} sums;

static void loss_count(const struct loss *loss)
{
	bool refused = !strcmp(loss->why, "discarded");

	if (refused)
		sums.discarded += loss->count;
	else if (!strcmp(loss->why, "overwritten"))
		sums.overwritten += loss->count;
	else
		sums.damaged += loss->count;
	for (int kind = 0; kind < RING_KINDS && !loss->kernel && loss->ring < 256; kind++) {
		if (refused)
			sums.refused[loss->ring][kind] += loss->counts[kind];
		else
			sums.lost[loss->ring][kind] += loss->counts[kind];
	}
}

static void event_count(const struct event *event)
{
	struct process *process;

	if (!sums.first_ns)
		sums.first_ns = event->ts_ns;
	if (event->ts_ns < sums.last_ns) {
		fprintf(stderr, "time goes back at %" PRIu64 "\n", event->ts_ns);
		exit(1);
	}
	sums.last_ns = event->ts_ns;
	sums.kinds[event->kind]++;
	if (event->kind < RING_KINDS && event->ring < 256)
		sums.given[event->ring][event->kind]++;
	switch (event->kind) {
	case RING_IN:
		process_get(event->process)->in_ns = event->ts_ns;
		break;
	case RING_OUT:
		process = process_get(event->process);
		if (process->in_ns)
			sums.run_ns += event->ts_ns - process->in_ns;
		process->in_ns = 0;
		break;
	case RING_GC_MINOR_START:
	case RING_GC_MAJOR_START:
		process_get(event->process)->gc_ns = event->ts_ns;
		break;
	case RING_GC_MINOR_END:
	case RING_GC_MAJOR_END:
		process = process_get(event->process);
		if (process->gc_ns)
			sums.gc_ns += event->ts_ns - process->gc_ns;
		process->gc_ns = 0;
		break;
	case EVENT_KERNEL + PROBE_SOCK_SEND:
		if (event->sock_io->result > 0)
			sums.sent_bytes += (uint64_t)event->sock_io->result;
		break;
	case EVENT_KERNEL + PROBE_SOCK_RECV:
		if (event->sock_io->result > 0)
			sums.received_bytes += (uint64_t)event->sock_io->result;
		break;
	case EVENT_LOSS:
		loss_count(event->loss);
		break;
	default:
		break;
	}
}

/* Own events and unknown kinds are not kept by ring: the accounts are closed over all rings. */
static bool accounts_closed(struct trace *trace)
{
	const struct trace_thread *threads;
	size_t count = trace_threads(trace, &threads);
	uint64_t recorded = 0, explained = trace_damage(trace)->unknown_records;
	bool closed = true;

	for (size_t ring = 0; ring < count && ring < 256; ring++) {
		for (int kind = 0; kind < RING_KINDS; kind++) {
			recorded += threads[ring].recorded[kind];
			explained += sums.given[ring][kind] + sums.lost[ring][kind];
			closed &= threads[ring].discarded[kind] == sums.refused[ring][kind];
		}
	}
	for (int kind = 0; kind < RING_KINDS; kind++)
		explained += trace_own_events(trace, (enum ring_kind)kind);
	return closed && recorded == explained;
}

static void print(struct trace *trace)
{
	uint64_t own = 0;
	const char *separator = "";

	for (int kind = 0; kind < RING_KINDS; kind++)
		own += trace_own_events(trace, (enum ring_kind)kind);
	printf("{\"first_ns\":%" PRIu64 ",\"last_ns\":%" PRIu64 ",\"gc_ns\":%" PRIu64
	       ",\"run_ns\":%" PRIu64 ",\"sent_bytes\":%" PRIu64 ",\"received_bytes\":%" PRIu64
	       ",\"lost\":{\"discarded\":%" PRIu64 ",\"overwritten\":%" PRIu64
	       ",\"damaged\":%" PRIu64 "},\"own\":%" PRIu64 ",\"accounts\":%s,\"kinds\":{",
	       sums.first_ns, sums.last_ns, sums.gc_ns, sums.run_ns, sums.sent_bytes,
	       sums.received_bytes, sums.discarded, sums.overwritten, sums.damaged, own,
	       accounts_closed(trace) ? "true" : "false");
	for (uint32_t kind = 0; kind < EVENT_KINDS; kind++) {
		if (!sums.kinds[kind])
			continue;
		printf("%s\"%s\":%" PRIu64, separator, event_kind_name(kind), sums.kinds[kind]);
		separator = ",";
	}
	puts("}}");
}

int main(int argc, char **argv)
{
	struct trace *trace;
	struct event event;
	struct process *process, *next;
	int found;

	if (argc != 2) {
		fputs("usage: invariants FILE.bwt\n", stderr);
		return 2;
	}
	trace = trace_open(argv[1]);
	if (!trace) {
		perror(argv[1]);
		return 1;
	}
	while ((found = trace_next(trace, &event)) > 0)
		event_count(&event);
	if (!found)
		print(trace);
	trace_close(trace);
	HASH_ITER (hh, processes, process, next) {
		HASH_DEL(processes, process);
		free(process);
	}
	return found ? 1 : 0;
}
