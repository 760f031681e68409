/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RECORDER_STEPS_H
#define BEAMWEAVE_RECORDER_STEPS_H

/* The parts of recorder_run(), for its own files only. */

#include <signal.h>

#include "recorder.h"

/* One recording on its way. */
struct run {
	struct recorder *recorder;
	const struct recorder_view *view;
	struct fault *fault;
	int signal_fd;
	unsigned int interrupts;
	unsigned int pace_ms;
	uint64_t second; /* that was written last */
	uint64_t looked_ns; /* for the command's VM */
	bool stop_at_once;
	bool vm_settled; /* attached, or it will not be */
	bool told; /* what is on */
};

/* The first reason stays. */
void run_end(struct run *run, enum recorder_end end);

/* ---- recorder_vm.c: the VM's side as it changes ---- */

/* Each returns 0, or -errno with the run's fault when nothing is left to record. */
int run_watch_command(struct run *run);
int run_watch_attach(struct run *run);
/* What the node's side says of itself. */
void run_watch_tracer(struct run *run);

/* ---- recorder.c ---- */

/* A line for the user, by the command's view. */
__attribute__((format(printf, 2, 3))) void recorder_note(const struct recorder_view *view,
							 const char *format, ...);

/* ---- recorder_open.c: everything that a recording needs, in this order ---- */

/* Find the target; make the command's process. `mask`: the signals as they were. */
int recorder_open_target(struct recorder *recorder, const sigset_t *mask, struct fault *fault);
/* Load the probes. Fails when one that was asked for by name is missing. */
int recorder_open_kernel(struct recorder *recorder, struct fault *fault);
/* Create the file and its first chunks; begin to attach. */
int recorder_open_output(struct recorder *recorder, struct fault *fault);
/* Open the session of the VM's own, or begin to attach. */
int recorder_open_vm(struct recorder *recorder, struct fault *fault);
/* The command's VM, when it is there: open it as the target and begin to attach. */
int recorder_open_command_vm(struct recorder *recorder, struct fault *fault);
/* Undo all; the file is removed when `discard`. */
void recorder_close(struct recorder *recorder, bool discard);

/* ---- recorder_write.c: what goes into the file besides drained bytes ---- */

/* Each returns 0 or -errno of the writer. */
/* The first clock, threads, samples and description. */
int recorder_write_begin(struct recorder *recorder);
/* The threads that the target has now. */
int recorder_write_tasks(struct recorder *recorder);
/* All that was recorded before `mark_ns` is in the file: say so, and hand it to the reader. */
int recorder_write_mark(struct recorder *recorder, uint64_t mark_ns);
/* Once a second; some of it every fifth time. */
int recorder_write_second(struct recorder *recorder, uint64_t second);
/* Final counts, the last clock and a true summary. All is tried, the first error returned. */
int recorder_write_end(struct recorder *recorder);
/* Read all counters. */
void recorder_count(struct recorder *recorder);

/* ---- recorder_drain.c ---- */

/* Bytes of a file of limited size that are kept for the last chunks. */
uint64_t recorder_closing_bytes(const struct capture_config *config);
/* Was so little moved that nothing can have been left? */
bool recorder_drained(int64_t moved);
/* Move what is there, as far as --max-size leaves room. Returns bytes moved or -errno of the writer. */
int64_t recorder_drain(struct recorder *recorder, bool rest);
/* The fuller of the two sides, in 1/1000. */
uint32_t recorder_fill(const struct recorder *recorder);
/* Names, threads and the VM's description, as they appear. */
int recorder_follow(struct recorder *recorder);

#endif
