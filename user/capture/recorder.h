/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_RECORDER_H
#define BEAMWEAVE_RECORDER_H

/*
 * The recording: both sides are drained into a file until something ends it. A command fills in a
 * configuration, calls recorder_run() and shows what it is told of.
 */

#include "attach.h"
#include "command.h"
#include "config.h"
#include "kernel.h"
#include "rings.h"
#include "samples.h"

/* Why a recording ended. */
enum recorder_end {
	RECORDER_GOES_ON = 0,
	RECORDER_TIME,
	RECORDER_EVENTS,
	RECORDER_SIZE,
	RECORDER_INTERRUPTED,
	RECORDER_TARGET_ENDED,
	RECORDER_NODE, /* ended from the node */
	RECORDER_TRACER_FAILED,
	RECORDER_DISK_FULL,
	RECORDER_PIPE, /* whoever read our output has gone */
	RECORDER_OUTPUT, /* another error of the output */
};

struct recorder;

/* What a command is told of. Any may be NULL. */
struct recorder_view {
	void *context;
	/* Everything that will be on is on. */
	void (*begun)(void *context, const struct recorder *recorder);
	/* About once a second. */
	void (*progress)(void *context, const struct recorder *recorder);
	/* Something that the user should know, one line. */
	void (*note)(void *context, const char *text);
	/*
	 * With live_fd, after each drain: what was there is in the file, with a CLOCK_MARK. Returns
	 * what ends the recording, RECORDER_GOES_ON otherwise.
	 */
	enum recorder_end (*drained)(void *context, const struct recorder *recorder);
	/* Is the reader behind? Then nothing is drained: what the ring has no room for is counted. */
	bool (*behind)(void *context);
	/* It is over; counts are final. */
	void (*ended)(void *context, const struct recorder *recorder);
};

struct recorder {
	const struct capture_config *config;
	const struct recorder_view *view;
	struct target target; /* pid 0: none (yet) */
	struct command command;
	struct kernel *kernel; /* NULL: not wanted */
	struct attach *attach; /* NULL: not wanted, or a session of the VM's own */
	struct rings session; /* the VM's own */
	struct rings *rings; /* NULL: none (any more) */
	struct stream *stream; /* of the IP trace port, in place of rings; NULL: none */
	struct samples samples;
	struct file_writer *writer;

	bool attached; /* Erlang events come */
	struct fault attach_fault; /* why not; empty: not wanted */
	struct start_info info;
	char node[NODE_NAME_BYTES];
	bool vm_known;
	struct ring_vm vm;

	uint64_t created_ns; /* file made; CLOCK_MONOTONIC */
	uint64_t created_wall_ns;
	uint64_t begun_ns; /* everything is on; 0: not yet */
	uint64_t stopped_ns;
	uint64_t now_ns;
	enum recorder_end end;
	int output_error; /* -errno that ended it */
	bool threads_new; /* since the threads were written */
	bool tracer_confirmed; /* the node's side has ended, by its own word */

	uint64_t recorded, discarded; /* Erlang events so far */
	uint64_t by_kind[RING_KINDS];
	uint64_t kernel_recorded, kernel_discarded;
	uint64_t kernel_by_kind[PROBE_KINDS];
	uint64_t file_bytes;
};

/*
 * Record. Returns 0 when there is a recording that ended as it should, or -errno with a fault: then
 * there is no file (nothing had begun), or it holds what could be had (`*kept`). *status is the
 * command's own exit status, 0 without one.
 */
int recorder_run(const struct capture_config *config, const struct recorder_view *view, int *status,
		 bool *kept, bool *lost, struct fault *fault);

/* "time", "interrupted", ...: as in the recording. */
const char *recorder_end_name(enum recorder_end end);

#endif
