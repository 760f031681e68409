/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder_steps.h"

#include <errno.h>

#define CLOSING_BYTES (1u << 20)
#define DRAIN_BYTES   (32u << 20) /* of one side, before the other gets its turn */

static int kernel_store(void *context, uint32_t cpu, const void *records, uint32_t bytes)
{
	return file_append(context, CHUNK_KERNEL, cpu, NULL, 0, records, bytes);
}

uint64_t recorder_closing_bytes(const struct capture_config *config)
{
	return CLOSING_BYTES < config->max_bytes / 8 ? CLOSING_BYTES : config->max_bytes / 8;
}

/* What --max-size leaves for drained bytes: the closing chunks need their part. */
static uint64_t room_bytes(const struct recorder *recorder)
{
	uint64_t max = recorder->config->max_bytes, used = file_bytes(recorder->writer);
	uint64_t margin = recorder_closing_bytes(recorder->config);

	if (!max)
		return DRAIN_BYTES;
	if (used + margin >= max)
		return 0;
	return max - margin - used < DRAIN_BYTES ? max - margin - used : DRAIN_BYTES;
}

int64_t recorder_drain(struct recorder *recorder, bool rest)
{
	int64_t moved = 0, bytes;
	uint64_t room = room_bytes(recorder);

	if (recorder->kernel && room) {
		bytes = kernel_drain(recorder->kernel, room, kernel_store, recorder->writer);
		if (bytes < 0)
			return bytes;
		moved += bytes;
	}
	room = room_bytes(recorder);
	/* In overwrite mode the newest events stay in the ring until the end. */
	if (recorder->rings && room && (rest || recorder->config->mode == RING_DISCARD)) {
		bytes = rings_drain(recorder->rings, recorder->writer, room);
		if (bytes < 0)
			return bytes;
		moved += bytes;
	}
	room = room_bytes(recorder);
	if (recorder->stream && room) {
		bytes = stream_drain(recorder->stream, recorder->writer, room);
		if (bytes < 0)
			return bytes;
		moved += bytes;
	}
	return moved;
}

bool recorder_drained(int64_t moved)
{
	return moved >= 0 && moved < DRAIN_BYTES / 2;
}

uint32_t recorder_fill(const struct recorder *recorder)
{
	uint32_t kernel = recorder->kernel ? kernel_fill_permille(recorder->kernel) : 0;
	uint32_t rings = recorder->rings && recorder->config->mode == RING_DISCARD
				 ? rings_fill_permille(recorder->rings)
				 : 0;

	return kernel > rings ? kernel : rings;
}

static void thread_appeared(void *context, uint32_t tid, uint32_t role, uint32_t number,
			    uint64_t esdp)
{
	struct recorder *recorder = context;
	pid_t ours;

	(void)role;
	recorder->threads_new = true;
	if (!recorder->kernel || !esdp || !recorder->target.pid)
		return;
	ours = target_thread(&recorder->target, (pid_t)tid);
	/* What cannot be told to the kernel side is a switch without its process, and counted so. */
	if (ours)
		kernel_set_thread(recorder->kernel, ours, esdp, number);
}

static void note_appeared(void *context, const char *text)
{
	const struct recorder *recorder = context;

	recorder_note(recorder->view, "%s", text);
}

int recorder_follow(struct recorder *recorder)
{
	int64_t bytes;
	int error;

	if (recorder->stream) {
		bytes = stream_drain_names(recorder->stream, recorder->writer, note_appeared,
					   recorder);
		return bytes < 0 ? (int)bytes : 0;
	}
	if (!recorder->rings)
		return 0;
	if (!recorder->vm_known && rings_vm(recorder->rings, &recorder->vm)) {
		const struct ring_vm *vm = &recorder->vm;
		struct kernel_vm offsets = {.esdp_current_process = vm->esdp_current_process,
					    .esdp_number = vm->esdp_number,
					    .process_id = vm->process_id,
					    .esdp_current_port = vm->esdp_current_port,
					    .port_connected = vm->port_connected};

		recorder->vm_known = true;
		if (recorder->kernel && offsets.esdp_current_process)
			kernel_set_vm(recorder->kernel, &offsets);
		error = file_append(recorder->writer, CHUNK_VM_INFO, 0, vm, sizeof(*vm), NULL, 0);
		if (error)
			return error;
	}
	/* Only then does the kernel side know how to read them. */
	if (recorder->vm_known)
		rings_new_threads(recorder->rings, thread_appeared, recorder);
	bytes = rings_drain_names(recorder->rings, recorder->writer, note_appeared, recorder);
	return bytes < 0 ? (int)bytes : 0;
}
