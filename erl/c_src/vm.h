/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_VM_H
#define BEAMWEAVE_VM_H

/*
 * What is read of the VM's own structures: the process that an environment stands for, the depth
 * of its stack, the scheduler's data. Offsets stand in one table by OTP release and are used only
 * after a check on a live process, which reads through the kernel so that a wrong offset is an
 * error and not a crash. How many words a return_to frame takes is learned from a known nest of
 * calls, since it depends on the release and on how the VM was started.
 */

#include <stdbool.h>
#include <stdint.h>

#include <erl_nif.h>

#include "ring.h"

#define VM_SCAN_WORDS 64
#define VM_SAMPLES    16

/* Byte offsets; the sources are erl_process.h and erl_nif.c (struct enif_environment_t). */
struct vm_offsets {
	uint32_t release;
	uint16_t env_process;
	uint16_t stop, heap, hend, heap_size, scheduler;
	uint16_t current_process, current_port, number, dirty_number;
	uint32_t stride; /* of the tables of schedulers' data */
	uint16_t port_connected; /* erl_port.h; 0: not tried on this release */
};

struct vm {
	bool process_known; /* the offsets passed their check */
	bool depth_known; /* and the nest gave frame_words and slack */
	struct vm_offsets offset;
	uint32_t frame_words, slack;
	uint32_t address_word; /* of a frame: 0, or 1 when a frame pointer comes first */
	uint64_t return_to; /* return address of a return_to frame */
};

extern struct vm vm;

/* One event of the known nest. */
struct vm_sample {
	uint32_t kind; /* RING_CALL or RING_RETURN_TO */
	uint32_t depth;
	uint64_t words[VM_SCAN_WORDS];
};

static inline uint64_t vm_word(const void *base, uint32_t offset)
{
	return *(const uint64_t *)((const char *)base + offset);
}

/* The process of a real environment, NULL for a phony one or when offsets are not known. */
static inline const void *vm_process(ErlNifEnv *env, uint64_t pid)
{
	const void *process;

	if (!vm.process_known)
		return NULL;
	process = (const void *)vm_word(env, vm.offset.env_process);
	/* The id stands first in the structure; a phony environment's process has none. */
	return process && vm_word(process, 0) == pid ? process : NULL;
}

static inline uint32_t vm_process_depth(const void *process)
{
	return (uint32_t)((vm_word(process, vm.offset.hend) - vm_word(process, vm.offset.stop)) /
			  8);
}

/* Depth of the stack in words, RING_NO_DEPTH when it cannot be known. */
static inline uint32_t vm_depth(ErlNifEnv *env, uint64_t pid)
{
	const void *process;

	if (!vm.depth_known)
		return RING_NO_DEPTH;
	process = vm_process(env, pid);
	return process ? vm_process_depth(process) : RING_NO_DEPTH;
}

/* Depth, nearest return_to frame and tail call of a call event, for struct ring_call. */
void vm_scan(ErlNifEnv *env, uint64_t pid, uint32_t *depth, uint32_t *frame, uint32_t *tail);

/* The scheduler's data and number of the calling thread; both are left alone when unknown. */
void vm_scheduler(ErlNifEnv *env, uint64_t pid, uint64_t *esdp, uint32_t *number);

/*
 * The same for a dirty scheduler's thread, which no process points to: the one of `count` that
 * executes the process. For set-up only. Left alone on releases that do not export their tables.
 */
void vm_dirty_scheduler(const void *process, bool io, uint32_t count, uint64_t *esdp,
			uint32_t *number);

/*
 * Check the offsets for this release on the calling process, which must be in a NIF on normal
 * scheduler `number`. Returns 0, -ENOSYS (a release without offsets), -EPROTO (a check failed), or
 * the error of reading.
 */
int vm_check(ErlNifEnv *env, uint64_t pid, uint32_t release, uint32_t number, uint64_t heap_words);

/* Collect the events of the known nest: forget all, add one. */
void vm_learn_begin(void);
void vm_learn_event(ErlNifEnv *env, uint32_t kind, uint64_t pid);

/*
 * Work out frames from the samples of beamweave_vm's nest; the depths are those that its innermost
 * function saw, with and without tracing. Returns 0, or -EPROTO: durations by depth are off.
 */
int vm_learn_end(uint32_t depth_traced, uint32_t depth_plain);

/* Write what was found to the session's header. */
void vm_publish(struct ring_header *header, uint32_t release, const uint8_t pid_bit[64]);

#endif
