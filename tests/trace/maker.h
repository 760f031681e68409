/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TESTS_MAKER_H
#define BEAMWEAVE_TESTS_MAKER_H

/*
 * Recordings made by hand, for tests: the VM's sub-buffers, the dictionary and the kernel's records
 * as the recorder would have stored them. Header only; ends the program when the file cannot be
 * written.
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file.h"
#include "record.h"

#define MAKER __attribute__((unused)) static

#define MAKER_SUBBUF_BYTES 32768

MAKER void maker_append(struct file_writer *file, enum chunk_type type, uint32_t stream,
			const void *head, size_t head_bytes, const void *body, size_t body_bytes)
{
	if (file_append(file, type, stream, head, (uint32_t)head_bytes, body,
			(uint32_t)body_bytes)) {
		perror("maker");
		exit(1);
	}
}

/* Words as OTP 25 makes them. */
MAKER uint64_t maker_pid(uint32_t number, uint32_t serial)
{
	return (uint64_t)number << 32 | serial << 19 | number << 4 | 0x3;
}

MAKER uint64_t maker_port(uint32_t number)
{
	return (uint64_t)number << 32 | number << 4 | 0x7;
}

/* ---- A thread of the VM ---- */

struct maker_ring {
	struct file_writer *file;
	uint32_t ring;
	struct ring_thread entry;
	_Alignas(8) uint8_t subbuf[MAKER_SUBBUF_BYTES];
	uint32_t used, stored; /* bytes written, and of them in the file */
	uint64_t base_ns;
};

MAKER void maker_ring_init(struct maker_ring *maker, struct file_writer *file, uint32_t ring,
			   uint32_t tid, uint32_t role, uint32_t number)
{
	memset(maker, 0, sizeof(*maker));
	maker->file = file;
	maker->ring = ring;
	maker->entry.tid = tid;
	maker->entry.role = role;
	maker->entry.number = number;
}

/* Store what was written since the last time as one chunk. */
MAKER void maker_ring_store(struct maker_ring *maker)
{
	struct chunk_vm head = {.sequence = maker->entry.sequence,
				.base_ns = maker->base_ns,
				.from = maker->stored,
				.bytes = maker->used - maker->stored};

	if (!head.bytes)
		return;
	maker_append(maker->file, CHUNK_VM, maker->ring, &head, sizeof(head),
		     maker->subbuf + maker->stored, head.bytes);
	maker->stored = maker->used;
}

/* Begin a new sub-buffer. */
MAKER void maker_ring_begin(struct maker_ring *maker, uint64_t base_ns)
{
	struct ring_subbuf *header = (struct ring_subbuf *)maker->subbuf;

	maker_ring_store(maker);
	memset(header, 0, sizeof(*header));
	maker->entry.sequence++;
	header->sequence = maker->entry.sequence;
	header->base_ns = base_ns;
	header->thread = maker->ring;
	header->loss_first_ns = maker->entry.loss_first_ns;
	header->loss_last_ns = maker->entry.loss_last_ns;
	memcpy(header->recorded, (void *)maker->entry.recorded, sizeof(header->recorded));
	memcpy(header->discarded, (void *)maker->entry.discarded, sizeof(header->discarded));
	maker->entry.loss_first_ns = 0;
	maker->entry.loss_last_ns = 0;
	maker->used = sizeof(*header);
	maker->stored = 0;
	maker->base_ns = base_ns;
}

/* Count `count` events as discarded between two times. */
MAKER void maker_ring_discard(struct maker_ring *maker, uint32_t kind, uint64_t count,
			      uint64_t first_ns, uint64_t last_ns)
{
	maker->entry.discarded[kind] += count;
	if (!maker->entry.loss_first_ns)
		maker->entry.loss_first_ns = first_ns;
	maker->entry.loss_last_ns = last_ns;
}

/* Room for a record, zeroed but for its header. A full sub-buffer is left for a new one. */
MAKER void *maker_ring_put(struct maker_ring *maker, uint64_t ts_ns, uint32_t kind, size_t bytes,
			   uint64_t process)
{
	struct ring_record *record;

	if (!maker->entry.sequence || maker->used + bytes > MAKER_SUBBUF_BYTES)
		maker_ring_begin(maker, ts_ns);
	record = (struct ring_record *)(maker->subbuf + maker->used);
	memset(record, 0, bytes);
	record->delta_ns = (uint32_t)(ts_ns - maker->base_ns);
	record->kind = (uint8_t)kind;
	record->bytes = (uint16_t)bytes;
	record->process = process;
	maker->used += (uint32_t)bytes;
	maker->entry.recorded[kind]++;
	return record;
}

MAKER struct ring_record *maker_run(struct maker_ring *maker, uint64_t ts_ns, uint32_t kind,
				    uint64_t process, uint32_t mfa)
{
	struct ring_run *run = maker_ring_put(maker, ts_ns, kind, sizeof(*run), process);

	run->mfa = mfa;
	run->scheduler = maker->entry.number;
	return &run->h;
}

MAKER struct ring_record *maker_call(struct maker_ring *maker, uint64_t ts_ns, uint64_t process,
				     uint32_t mfa, uint32_t depth)
{
	struct ring_call *call = maker_ring_put(maker, ts_ns, RING_CALL, sizeof(*call), process);

	call->mfa = mfa;
	call->depth = depth;
	call->frame = RING_NO_DEPTH;
	call->tail = 2;
	return &call->h;
}

MAKER struct ring_record *maker_return_to(struct maker_ring *maker, uint64_t ts_ns,
					  uint64_t process, uint32_t mfa, uint32_t depth)
{
	struct ring_return_to *to =
		maker_ring_put(maker, ts_ns, RING_RETURN_TO, sizeof(*to), process);

	to->mfa = mfa;
	to->depth = depth;
	return &to->h;
}

MAKER struct ring_record *maker_name(struct maker_ring *maker, uint64_t ts_ns, uint32_t kind,
				     uint64_t process, uint32_t atom)
{
	struct ring_name *name = maker_ring_put(maker, ts_ns, kind, sizeof(*name), process);

	name->name = atom;
	return &name->h;
}

/* The THREADS chunk that closes the accounts. */
MAKER void maker_threads(struct file_writer *file, struct maker_ring *const *rings, uint32_t count,
			 uint64_t taken_ns)
{
	struct chunk_threads head = {.count = count, .kinds = RING_KINDS, .taken_ns = taken_ns};
	uint8_t *entries = calloc(count, sizeof(struct ring_thread));

	for (uint32_t i = 0; i < count; i++)
		memcpy(entries + i * sizeof(struct ring_thread), &rings[i]->entry,
		       sizeof(struct ring_thread));
	maker_append(file, CHUNK_THREADS, 0, &head, sizeof(head), entries,
		     count * sizeof(struct ring_thread));
	free(entries);
}

/* ---- The dictionary ---- */

struct maker_dict {
	struct file_writer *file;
	_Alignas(RING_DICT_SLOT) uint8_t bytes[65536];
	uint64_t used, stored;
};

MAKER void maker_dict_put(struct maker_dict *dict, enum ring_dict_type type, uint64_t key,
			  const void *head, size_t head_bytes, const void *tail, size_t tail_bytes)
{
	struct ring_dict_entry *entry = (struct ring_dict_entry *)(dict->bytes + dict->used);
	size_t bytes = head_bytes + tail_bytes;

	entry->type = (uint16_t)type;
	entry->bytes = (uint16_t)bytes;
	entry->key = key;
	if (head_bytes)
		memcpy(entry + 1, head, head_bytes);
	if (tail_bytes)
		memcpy((uint8_t *)(entry + 1) + head_bytes, tail, tail_bytes);
	entry->check = ring_dict_check(entry->type, entry->bytes, key, entry + 1);
	dict->used += (sizeof(*entry) + bytes + RING_DICT_SLOT - 1) & ~(size_t)(RING_DICT_SLOT - 1);
}

MAKER void maker_dict_text(struct maker_dict *dict, enum ring_dict_type type, uint64_t key,
			   const char *text)
{
	maker_dict_put(dict, type, key, text, strlen(text), NULL, 0);
}

MAKER void maker_dict_timed(struct maker_dict *dict, enum ring_dict_type type, uint64_t key,
			    uint64_t ts_ns, const char *text)
{
	maker_dict_put(dict, type, key, &ts_ns, sizeof(ts_ns), text, strlen(text));
}

MAKER void maker_dict_mfa(struct maker_dict *dict, uint32_t index, uint32_t module,
			  uint32_t function, uint32_t arity)
{
	struct ring_dict_mfa mfa = {module, function, arity, 0};

	maker_dict_put(dict, RING_DICT_MFA, index, &mfa, sizeof(mfa), NULL, 0);
}

MAKER void maker_dict_store(struct maker_dict *dict)
{
	struct chunk_dict head = {.offset = dict->stored};

	maker_append(dict->file, CHUNK_DICT, 0, &head, sizeof(head), dict->bytes + dict->stored,
		     dict->used - dict->stored);
	dict->stored = dict->used;
}

/* ---- The VM ---- */

/* OTP 25 as it lays pids out on 64 bits: 15 bits of number above the tag, then 13 of serial. */
MAKER struct ring_vm maker_vm(void)
{
	struct ring_vm vm = {.otp_release = 25, .frame_words = 1};

	memset(vm.pid_bit, 0xff, sizeof(vm.pid_bit));
	for (uint8_t bit = 0; bit < 15; bit++)
		vm.pid_bit[4 + bit] = bit;
	for (uint8_t bit = 0; bit < 13; bit++)
		vm.pid_bit[19 + bit] = 32 + bit;
	return vm;
}

/* ---- A CPU of the kernel ---- */

struct maker_cpu {
	struct file_writer *file;
	uint32_t cpu;
	struct probe_counts counts;
	_Alignas(8) uint8_t bytes[65536];
	size_t used;
};

MAKER void maker_cpu_store(struct maker_cpu *cpu)
{
	if (cpu->used)
		maker_append(cpu->file, CHUNK_KERNEL, cpu->cpu, cpu->bytes, cpu->used, NULL, 0);
	cpu->used = 0;
}

MAKER void *maker_cpu_put(struct maker_cpu *cpu, uint64_t ts_ns, enum probe_kind kind, size_t bytes)
{
	struct probe_header *header;

	if (cpu->used + bytes > sizeof(cpu->bytes))
		maker_cpu_store(cpu);
	header = (struct probe_header *)(cpu->bytes + cpu->used);
	memset(header, 0, bytes);
	header->ts_ns = ts_ns;
	header->kind = (uint16_t)kind;
	header->bytes = (uint16_t)bytes;
	header->cpu = (uint16_t)cpu->cpu;
	cpu->used += bytes;
	cpu->counts.generated[kind]++;
	return header;
}

MAKER void maker_cpu_counts(struct maker_cpu *cpu)
{
	maker_append(cpu->file, CHUNK_COUNTS, cpu->cpu, &cpu->counts, sizeof(cpu->counts), NULL, 0);
}

#endif
