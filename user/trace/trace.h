/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TRACE_H
#define BEAMWEAVE_TRACE_H

/*
 * A recording, read: its events in time order, and what it says of itself. Memory is bounded by the
 * number of rings and of names, not by the number of events.
 */

#include <jansson.h>

#include "file.h"
#include "record.h"

struct trace;

/* Open a .bwt file, or what a trace port of OTP wrote (.trc), with its wrapped set. NULL with errno as file_open() gives it. */
struct trace *trace_open(const char *path);
void trace_close(struct trace *trace);

/* The next event. Returns 1, 0 at the end, -errno. */
int trace_next(struct trace *trace, struct event *event);
/* Start again from the first event. */
void trace_rewind(struct trace *trace);

/* The newest META object; never NULL, empty when the file has none. Borrowed. */
const json_t *trace_meta(const struct trace *trace);
/* Is no chunk of the file whole? */
bool trace_empty(const struct trace *trace);
const struct file_damage *trace_damage(const struct trace *trace);
/* The VM as the tracer found it; NULL when it was not attached. */
const struct ring_vm *trace_vm(const struct trace *trace);

/* Did the VM's events come as trace messages (a trace port, an IP port, a .trc file)? */
bool trace_by_message(const struct trace *trace);
/* A file of trace messages that tell no date: what trace_wall_ns() gives counts from 0 then. */
bool trace_dateless(const struct trace *trace);

/* First clock snapshot and last, the recording's ends. */
uint64_t trace_start_ns(const struct trace *trace);
uint64_t trace_end_ns(const struct trace *trace);
/* Wall-clock time (CLOCK_REALTIME ns) of a CLOCK_MONOTONIC time: interpolated between snapshots. */
uint64_t trace_wall_ns(const struct trace *trace, uint64_t ts_ns);
/* CLOCK_BOOTTIME - CLOCK_MONOTONIC at the start. */
int64_t trace_boot_offset_ns(const struct trace *trace);

/* Tasks of the target that existed at the start. */
const struct chunk_task *trace_tasks(const struct trace *trace, size_t *count);

/* Threads of the VM that wrote, by ring index; final counts where the file has them. */
struct trace_thread {
	uint32_t ring;
	int32_t tid; /* initial pid namespace */
	uint32_t role, number; /* enum ring_role */
	uint64_t recorded[RING_KINDS], discarded[RING_KINDS];
	bool counted; /* the counts are final ones */
};
size_t trace_threads(const struct trace *trace, const struct trace_thread **threads);

/* Final counts of the kernel's rings by CPU; count 0 without kernel probes. */
size_t trace_kernel_counts(const struct trace *trace, const struct probe_counts **counts);

/* ---- Names. Texts are terminated by 0, sanitized UTF-8, and live as long as the trace. ---- */

/* "<0.123.0>", "#Port<0.7>", or the word in hex when it is neither. */
const char *trace_process_text(struct trace *trace, uint64_t word);
/* The same into a buffer of at least 40 bytes, remembering nothing. Returns the length. */
size_t trace_process_put(const struct trace *trace, uint64_t word, char *buffer, size_t size);
/* What a process is best called at a moment: its registered name then, else its initial call, else NULL. */
const char *trace_process_name(struct trace *trace, uint64_t word, uint64_t ts_ns);
/* The same for a process that has exited: the last registered name that it had until then. */
const char *trace_process_last_name(struct trace *trace, uint64_t word, uint64_t exited_ns);
const char *trace_process_initial(struct trace *trace, uint64_t word);
/* "mod:fun/arity" or, for an Elixir module, "Mod.fun/arity"; "?" when unknown. */
const char *trace_mfa(struct trace *trace, uint32_t mfa);
/* The text of an atom (table index + 1); "?" when unknown. */
const char *trace_atom(struct trace *trace, uint32_t atom);
/* One of beamweave's own processes? Its events are left out of what trace_next() gives. */
bool trace_process_own(const struct trace *trace, uint64_t word);
/* A captured term as Erlang text, cut at `size` with "..."; returns the length. */
size_t trace_term_text(struct trace *trace, struct text etf, char *buffer, size_t size);
/* The same of a call's arguments: a list that is none of characters, whatever they are. */
size_t trace_arguments_text(struct trace *trace, struct text etf, char *buffer, size_t size);
/* Lines for the user that the tracer left: "3 processes have another tracer (<0.90.0>)". */
size_t trace_notes(const struct trace *trace, const char *const **notes);
/* Who spawned a process, as far as it was seen or asked; 0 unknown. */
uint64_t trace_process_parent(const struct trace *trace, uint64_t word);
/* The trace flags that were on, "call,return_to", as the tracer said last; NULL: it said nothing. */
const char *trace_flags(const struct trace *trace);
/* Names that found no room in the session's dictionary: what they belong to prints as a number. */
uint64_t trace_names_lost(const struct trace *trace);
/* Events of beamweave's own processes by kind, left out of what trace_next() gives. */
uint64_t trace_own_events(const struct trace *trace, enum ring_kind kind);
/* All of them. */
uint64_t trace_own_all(const struct trace *trace);

/*
 * Accounts. For each thread and kind, over the whole file:
 *   recorded == given by trace_next() + own events + unknown kinds + losses "overwritten", "damaged"
 *   discarded == losses "discarded", "dropped by the trace port"
 * when trace_thread.counted. Events of threads that found no entry in the VM's thread table are a
 * loss of ring LOSS_UNCLAIMED and kind RING_UNKNOWN.
 */
#define LOSS_UNCLAIMED 0xffffffffu

/* "ECONNREFUSED"-style and system call names come from elsewhere: syscall_name() in syscalls.h. */

#endif
