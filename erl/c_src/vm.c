/* SPDX-License-Identifier: Apache-2.0 */
#include "vm.h"

#include <errno.h>
#include <string.h>

#include "system.h"

struct vm vm;

static const struct vm_offsets offsets[] = {
	{25, 8, 88, 128, 136, 152, 760, 168, 224, 184, 192, 41728, 232},
	{27, 8, 88, 192, 200, 216, 744, 168, 224, 184, 192, 41792, 0},
	{29, 8, 88, 192, 200, 216, 744, 168, 224, 184, 192, 41792, 0},
};

/* The VM's tables, where it exports them (erl_process.c). */
extern const uint64_t erts_aligned_dirty_cpu_scheduler_data
	__attribute__((weak, visibility("default")));
extern const uint64_t erts_aligned_dirty_io_scheduler_data
	__attribute__((weak, visibility("default")));

static struct vm_sample samples[VM_SAMPLES];
static _Atomic uint32_t sample_count;

void vm_scan(ErlNifEnv *env, uint64_t pid, uint32_t *depth, uint32_t *frame, uint32_t *tail)
{
	const void *process = vm.depth_known ? vm_process(env, pid) : NULL;
	const uint64_t *words;
	uint32_t i, last;

	*frame = RING_NO_DEPTH;
	*tail = 2;
	if (!process) {
		*depth = RING_NO_DEPTH;
		return;
	}
	*depth = vm_process_depth(process);
	words = (const uint64_t *)vm_word(process, vm.offset.stop);
	last = *depth < VM_SCAN_WORDS ? *depth : VM_SCAN_WORDS;
	/*
	 * While it calls us for a tail call, the VM hides the return_to frame on top behind the
	 * address below it (fixup_cp_before_trace() in beam_bp.c): then both are the same.
	 */
	i = vm.address_word;
	*tail = i + vm.frame_words < last && words[i] == words[i + vm.frame_words];
	if (*tail) {
		*frame = *depth;
		return;
	}
	for (i++; i < last; i++) {
		if (words[i] == vm.return_to) {
			*frame = *depth - i + vm.address_word;
			return;
		}
	}
}

void vm_scheduler(ErlNifEnv *env, uint64_t pid, uint64_t *esdp, uint32_t *number)
{
	const void *process = vm_process(env, pid);
	uint64_t data;

	if (!process)
		return;
	data = vm_word(process, vm.offset.scheduler);
	/* Only a process that runs on a normal scheduler has one. */
	if (!data || vm_word((const void *)data, vm.offset.current_process) != (uint64_t)process)
		return;
	*esdp = data;
	*number = (uint32_t)vm_word((const void *)data, vm.offset.number);
}

static int peek(uint64_t base, uint32_t offset, uint64_t *word)
{
	return system_peek(base + offset, word, sizeof(*word));
}

void vm_dirty_scheduler(const void *process, bool io, uint32_t count, uint64_t *esdp,
			uint32_t *number)
{
	const uint64_t *table = io ? &erts_aligned_dirty_io_scheduler_data
				   : &erts_aligned_dirty_cpu_scheduler_data;
	uint64_t data, current, found;
	uint32_t i;

	if (!vm.process_known || !table)
		return;
	for (i = 0; i < count; i++) {
		data = *table + (uint64_t)i * vm.offset.stride;
		/* A wrong stride shows in the numbers. */
		if (peek(data, vm.offset.dirty_number, &found) || found != i + 1 ||
		    peek(data, vm.offset.current_process, &current))
			return;
		if (current == (uint64_t)process) {
			*esdp = data;
			*number = i + 1;
			return;
		}
	}
}

static int check(const struct vm_offsets *o, ErlNifEnv *env, uint64_t pid, uint32_t number,
		 uint64_t heap_words)
{
	uint64_t process, id, stop, heap, hend, size, esdp, current, found;
	int rc;

	if ((rc = peek((uint64_t)env, o->env_process, &process)) || (rc = peek(process, 0, &id)) ||
	    (rc = peek(process, o->stop, &stop)) || (rc = peek(process, o->heap, &heap)) ||
	    (rc = peek(process, o->hend, &hend)) || (rc = peek(process, o->heap_size, &size)) ||
	    (rc = peek(process, o->scheduler, &esdp)) ||
	    (rc = peek(esdp, o->current_process, &current)) || (rc = peek(esdp, o->number, &found)))
		return rc;
	if (id != pid || current != process || found != number || size != heap_words)
		return -EPROTO;
	if (heap & 7 || stop & 7 || heap + size * 8 != hend || stop <= heap || stop >= hend)
		return -EPROTO;
	return 0;
}

int vm_check(ErlNifEnv *env, uint64_t pid, uint32_t release, uint32_t number, uint64_t heap_words)
{
	size_t i;
	int rc;

	for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		if (offsets[i].release != release)
			continue;
		rc = check(&offsets[i], env, pid, number, heap_words);
		if (!rc) {
			vm.offset = offsets[i];
			vm.process_known = true;
		}
		return rc;
	}
	return -ENOSYS;
}

void vm_learn_begin(void)
{
	/* relaxed: one process learns, on one thread; the calls in between order it */
	atomic_store_explicit(&sample_count, 0, memory_order_relaxed);
}

void vm_learn_event(ErlNifEnv *env, uint32_t kind, uint64_t pid)
{
	const void *process = vm_process(env, pid);
	struct vm_sample *sample;
	const uint64_t *stop;
	uint32_t index, i;

	if (!process)
		return;
	/* relaxed: a place each */
	index = atomic_fetch_add_explicit(&sample_count, 1, memory_order_relaxed);
	if (index >= VM_SAMPLES)
		return;
	sample = &samples[index];
	sample->kind = kind;
	sample->depth = vm_process_depth(process);
	stop = (const uint64_t *)vm_word(process, vm.offset.stop);
	for (i = 0; i < VM_SCAN_WORDS; i++)
		sample->words[i] = i < sample->depth ? stop[i] : 0;
}

/*
 * The nest, as beamweave_vm calls it: nest(2) calls nest(1) calls nest(0), each in its body; then
 * each returns; then tail(1) calls tail(0) as its last act; then that returns.
 */
enum {
	NEST_2,
	NEST_1,
	NEST_0,
	RETURN_0,
	RETURN_1,
	RETURN_2,
	TAIL_1,
	TAIL_0,
	RETURN_TAIL,
	NEST_SIZE
};

static bool nest_frames(uint32_t frame, uint32_t *slack)
{
	static const uint32_t call[] = {NEST_0, NEST_1, NEST_2, TAIL_1};
	static const uint32_t back[] = {RETURN_0, RETURN_1, RETURN_2, RETURN_TAIL};
	uint32_t i;

	*slack = samples[RETURN_0].depth - samples[NEST_0].depth;
	for (i = 0; i < 4; i++) {
		if (samples[call[i]].kind != RING_CALL || samples[back[i]].kind != RING_RETURN_TO ||
		    samples[back[i]].depth - samples[call[i]].depth != *slack)
			return false;
	}
	return samples[TAIL_0].kind == RING_CALL &&
	       samples[TAIL_0].depth == samples[TAIL_1].depth + frame && *slack < frame;
}

/* Where the frames of the two outer members stand, seen from the innermost. */
static bool nest_address(uint32_t frame, uint32_t *word, uint64_t *address)
{
	const struct vm_sample *inner = &samples[NEST_0];
	uint32_t outer = inner->depth - (samples[NEST_2].depth + frame);
	uint32_t middle = inner->depth - (samples[NEST_1].depth + frame);
	const struct vm_sample *tail = &samples[TAIL_0];
	uint32_t i, seen = 0;

	for (*word = 0; *word < frame && *word < 2; (*word)++) {
		if (outer + *word >= VM_SCAN_WORDS || middle + *word >= VM_SCAN_WORDS)
			return false;
		*address = inner->words[middle + *word];
		if (!*address || *address != inner->words[outer + *word])
			continue;
		for (seen = 0, i = 0; i < VM_SCAN_WORDS; i++)
			seen += inner->words[i] == *address;
		if (seen == 2 && *word + frame < VM_SCAN_WORDS &&
		    tail->words[*word] == tail->words[*word + frame])
			return true;
	}
	return false;
}

int vm_learn_end(uint32_t depth_traced, uint32_t depth_plain)
{
	/* relaxed: as above */
	uint32_t count = atomic_load_explicit(&sample_count, memory_order_relaxed);
	uint32_t frame, slack, word;
	uint64_t address;

	vm.depth_known = false;
	if (count != NEST_SIZE || depth_traced <= depth_plain || (depth_traced - depth_plain) % 3)
		return -EPROTO;
	frame = (depth_traced - depth_plain) / 3;
	if (frame > 4 || !nest_frames(frame, &slack) || !nest_address(frame, &word, &address))
		return -EPROTO;
	vm.frame_words = frame;
	vm.slack = slack;
	vm.address_word = word;
	vm.return_to = address;
	vm.depth_known = true;
	return 0;
}

void vm_publish(struct ring_header *header, uint32_t release, const uint8_t pid_bit[64])
{
	struct ring_vm *out = &header->vm;

	out->otp_release = release;
	memcpy(out->pid_bit, pid_bit, sizeof(out->pid_bit));
	if (vm.process_known) {
		out->esdp_current_process = vm.offset.current_process;
		out->esdp_current_port = vm.offset.current_port;
		out->esdp_number = vm.offset.number;
		out->port_connected = vm.offset.port_connected;
	}
	if (vm.depth_known) {
		out->frame_words = vm.frame_words;
		out->return_slack = vm.slack;
		out->scan = 1;
	}
	/* release: the reader that sees vm_valid sees what was written above */
	__atomic_store_n(&header->vm_valid, 1, __ATOMIC_RELEASE);
}
