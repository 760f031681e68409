/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_follow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reorder.h"
#include "trace_private.h"

#define DICT_MAX_BYTES	 (256u << 20)
#define GIVE_BACK_BYTES	 (1u << 20) /* read, before it is given back */
#define GIVE_BACK_ALIGN	 4096u
#define PROCESSES_LEARNT (1u << 18) /* spawns that are remembered: a VM makes them without end */

struct trace_follow {
	struct trace *trace;
	struct reorder reorder;
	uint64_t mark_ns; /* events before it are complete */
	uint64_t position; /* read up to here */
	uint64_t given_back;
	size_t chunk_capacity;
	uint8_t *payload;
	size_t payload_bytes;
	uint8_t *dict; /* entries may lie across chunks */
	uint64_t dict_bytes, dict_capacity, dict_position;
	uint32_t learnt;
	bool unsettled; /* names came */
};

struct trace_follow *trace_follow_open(int fd)
{
	struct trace_follow *follow = calloc(1, sizeof(*follow));

	if (!follow)
		return NULL;
	follow->trace = calloc(1, sizeof(*follow->trace));
	if (!follow->trace)
		goto failed;
	follow->trace->file.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (follow->trace->file.fd < 0)
		goto failed;
	follow->trace->first_ns = UINT64_MAX;
	follow->trace->names = names_new();
	follow->trace->meta = json_object();
	/* The first clock, and the newest. */
	follow->trace->clocks = calloc(2, sizeof(*follow->trace->clocks));
	follow->position = sizeof(struct file_header);
	if (follow->trace->names && follow->trace->meta && follow->trace->clocks)
		return follow;
	errno = ENOMEM;
failed:
	trace_follow_close(follow);
	return NULL;
}

void trace_follow_close(struct trace_follow *follow)
{
	int error = errno;

	if (!follow)
		return;
	reorder_free(&follow->reorder);
	trace_close(follow->trace);
	free(follow->payload);
	free(follow->dict);
	free(follow);
	errno = error;
}

struct trace *trace_follow_trace(struct trace_follow *follow)
{
	return follow->trace;
}

/* ---- Small chunks ---- */

static void clock_take(struct trace_follow *follow, const struct chunk *chunk)
{
	struct trace *trace = follow->trace;
	struct chunk_clock clock;

	if (chunk->header.bytes < sizeof(clock))
		return;
	memcpy(&clock, follow->payload, sizeof(clock));
	if (chunk->header.stream == CLOCK_MARK && clock.monotonic_ns > follow->mark_ns)
		follow->mark_ns = clock.monotonic_ns;
	if (trace->clock_count < 2)
		trace->clocks[trace->clock_count++] = clock;
	else if (clock.monotonic_ns > trace->clocks[1].monotonic_ns)
		trace->clocks[1] = clock;
}

/* The newest list holds. */
static int tasks_take(struct trace_follow *follow, uint32_t bytes)
{
	struct trace *trace = follow->trace;
	size_t count = bytes / sizeof(*trace->tasks);
	struct chunk_task *tasks = count ? malloc(count * sizeof(*tasks)) : NULL;

	if (!tasks)
		return count ? -ENOMEM : 0;
	memcpy(tasks, follow->payload, count * sizeof(*tasks));
	free(trace->tasks);
	trace->tasks = tasks;
	trace->task_count = count;
	return 0;
}

static int dict_take(struct trace_follow *follow, uint32_t bytes)
{
	const struct ring_dict_entry *entry;
	struct chunk_dict head;
	int error = 0;

	if (bytes < sizeof(head))
		return 0;
	memcpy(&head, follow->payload, sizeof(head));
	bytes -= (uint32_t)sizeof(head);
	if (head.offset % RING_DICT_SLOT || head.offset > DICT_MAX_BYTES - bytes)
		return 0;
	if (head.offset + bytes > follow->dict_capacity) {
		uint64_t capacity = (head.offset + bytes) * 2;
		uint8_t *dict = realloc(follow->dict, capacity);

		if (!dict)
			return -ENOMEM;
		memset(dict + follow->dict_capacity, 0, capacity - follow->dict_capacity);
		follow->dict = dict;
		follow->dict_capacity = capacity;
	}
	memcpy(follow->dict + head.offset, follow->payload + sizeof(head), bytes);
	if (head.offset + bytes > follow->dict_bytes)
		follow->dict_bytes = head.offset + bytes;
	while (!error &&
	       ring_dict_next(follow->dict, follow->dict_bytes, &follow->dict_position, &entry)) {
		follow->unsettled |= entry->type == RING_DICT_NAME;
		error = names_add(follow->trace->names, entry);
	}
	return error;
}

/* ---- Threads ---- */

static int loss_take(void *context, const struct loss *loss)
{
	struct trace_follow *follow = context;
	struct event event = {.ts_ns = loss->from_ns, .kind = EVENT_LOSS, .cpu = -1};

	event.ring = loss->ring;
	if (loss->ring < follow->trace->thread_count)
		event.tid = follow->trace->threads[loss->ring].tid;
	event.loss = loss;
	return reorder_push(&follow->reorder, &event, sizeof(*loss));
}

static int threads_grow(struct trace_follow *follow, uint32_t count)
{
	struct trace *trace = follow->trace;
	struct trace_thread *threads;
	struct vm_decoder *decoders;

	if (count <= trace->thread_count)
		return 0;
	threads = realloc(trace->threads, count * sizeof(*threads));
	if (!threads)
		return -ENOMEM;
	trace->threads = threads;
	decoders = realloc(trace->decoders, count * sizeof(*decoders));
	if (!decoders)
		return -ENOMEM;
	trace->decoders = decoders;
	for (uint32_t ring = (uint32_t)trace->thread_count; ring < count; ring++) {
		memset(&threads[ring], 0, sizeof(*threads));
		threads[ring].ring = ring;
		memset(&decoders[ring], 0, sizeof(*decoders));
		decoders[ring].file = &trace->file;
		decoders[ring].ring = ring;
		decoders[ring].origin_ns = trace->clock_count ? trace->clocks[0].monotonic_ns : 0;
		decoders[ring].loss_fn = loss_take;
		decoders[ring].loss_context = follow;
	}
	trace->thread_count = count;
	return 0;
}

static int threads_take(struct trace_follow *follow, uint32_t bytes)
{
	struct trace *trace = follow->trace;
	const size_t entry_bytes = sizeof(struct ring_thread);
	struct chunk_threads head;
	uint32_t count;
	int error;

	if (bytes < sizeof(head))
		return 0;
	memcpy(&head, follow->payload, sizeof(head));
	count = (uint32_t)((bytes - sizeof(head)) / entry_bytes);
	if (count > head.count)
		count = head.count;
	if (head.kinds != RING_KINDS || count > DECODE_THREADS_MAX)
		return 0;
	error = threads_grow(follow, count);
	for (uint32_t ring = 0; ring < count && !error; ring++) {
		struct ring_thread entry;

		memcpy((void *)&entry, follow->payload + sizeof(head) + ring * entry_bytes,
		       entry_bytes);
		trace->threads[ring].role = entry.role;
		trace->threads[ring].number = entry.number;
		if (entry.tid)
			trace->threads[ring].tid = trace_tid(trace, entry.tid);
		trace->decoders[ring].tid = trace->threads[ring].tid;
	}
	return error;
}

/* ---- Chunks ---- */

static int vm_take(struct trace_follow *follow, const struct chunk *chunk)
{
	struct trace *trace = follow->trace;
	uint32_t stream = chunk->header.stream;
	struct chunk_vm head;
	int error;

	if (stream >= DECODE_THREADS_MAX || file_peek(&trace->file, chunk, &head, sizeof(head))) {
		trace->file.damage.damaged_chunks++;
		return 0;
	}
	error = threads_grow(follow, stream + 1);
	if (!error && trace->file.count == follow->chunk_capacity) {
		size_t capacity = follow->chunk_capacity ? follow->chunk_capacity * 2 : 64;
		struct chunk *chunks = realloc(trace->file.chunks, capacity * sizeof(*chunks));

		if (!chunks)
			return -ENOMEM;
		trace->file.chunks = chunks;
		follow->chunk_capacity = capacity;
	}
	if (error)
		return error;
	trace->file.chunks[trace->file.count] = *chunk;
	return vm_decoder_add(&trace->decoders[stream], (uint32_t)trace->file.count++, &head);
}

static int chunk_take(struct trace_follow *follow, const struct chunk *chunk)
{
	struct trace *trace = follow->trace;
	uint32_t bytes = chunk->header.bytes;

	switch (chunk->header.type) {
	case CHUNK_VM:
		return vm_take(follow, chunk);
	case CHUNK_CLOCK:
	case CHUNK_TASKS:
	case CHUNK_DICT:
	case CHUNK_THREADS:
	case CHUNK_VM_INFO:
		break;
	default:
		return 0;
	}
	if (bytes > follow->payload_bytes) {
		uint8_t *payload = realloc(follow->payload, bytes);

		if (!payload)
			return -ENOMEM;
		follow->payload = payload;
		follow->payload_bytes = bytes;
	}
	if (file_read(&trace->file, chunk, follow->payload)) {
		trace->file.damage.damaged_chunks++;
		return 0;
	}
	switch (chunk->header.type) {
	case CHUNK_CLOCK:
		clock_take(follow, chunk);
		return 0;
	case CHUNK_TASKS:
		return tasks_take(follow, bytes);
	case CHUNK_DICT:
		return dict_take(follow, bytes);
	case CHUNK_THREADS:
		return threads_take(follow, bytes);
	default:
		if (bytes < sizeof(trace->vm))
			return 0;
		memcpy(&trace->vm, follow->payload, sizeof(trace->vm));
		trace->vm_known = true;
		names_set_vm(trace->names, &trace->vm);
		return 0;
	}
}

/* ---- Records ---- */

static bool event_teaches(const struct trace_follow *follow, const struct event *event)
{
	switch (event->kind) {
	case RING_SPAWN:
	case RING_SPAWNED:
	case RING_REGISTER:
		return follow->learnt < PROCESSES_LEARNT;
	case RING_UNREGISTER:
	case RING_EXIT:
		return true;
	default:
		return false;
	}
}

static int event_take(struct trace_follow *follow, const struct event *event)
{
	uint32_t bytes = ((const struct ring_record *)event->raw)->bytes;
	int error = 0;

	if (event->flags & RING_F_TERM)
		return 0;
	if (event_teaches(follow, event)) {
		error = names_learn(follow->trace->names, event);
		follow->learnt++;
		follow->unsettled = true;
	}
	return error ? error : reorder_push(&follow->reorder, event, bytes);
}

static int decoder_read(struct trace_follow *follow, struct vm_decoder *decoder)
{
	struct event event;
	int found, error = 0;

	vm_decoder_sort(decoder);
	memset(&event, 0, sizeof(event));
	while (!error && (found = vm_decoder_next(decoder, &event)) > 0) {
		error = event_take(follow, &event);
		memset(&event, 0, sizeof(event));
	}
	if (!error && found < 0)
		error = found;
	/* All of it was decoded; what comes next has chunks of its own. */
	decoder->count = 0;
	decoder->next = 0;
	return error;
}

static void give_back(struct trace_follow *follow)
{
	uint64_t end = follow->position / GIVE_BACK_ALIGN * GIVE_BACK_ALIGN;

	if (end - follow->given_back < GIVE_BACK_BYTES)
		return;
	/* Where the file system cannot, the file stays as it is. */
	fallocate(follow->trace->file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  (off_t)follow->given_back, (off_t)(end - follow->given_back));
	follow->given_back = end;
}

int trace_follow_read(struct trace_follow *follow, bool last)
{
	struct trace *trace = follow->trace;
	struct stat status;
	uint64_t end;
	int error = 0;

	if (fstat(trace->file.fd, &status))
		return -errno;
	end = (uint64_t)status.st_size;
	trace->file.count = 0;
	while (!error && end > follow->position &&
	       end - follow->position >= sizeof(struct chunk_header)) {
		struct chunk chunk = {.offset = follow->position + sizeof(chunk.header)};
		uint64_t span;

		if (pread(trace->file.fd, &chunk.header, sizeof(chunk.header),
			  (off_t)follow->position) != sizeof(chunk.header))
			return -EIO;
		if (chunk.header.magic != CHUNK_MAGIC || chunk.header.bytes > CHUNK_MAX_BYTES)
			return -EBADMSG;
		span = sizeof(chunk.header) + (((uint64_t)chunk.header.bytes + 7) & ~(uint64_t)7);
		if (span > end - follow->position)
			break;
		error = chunk_take(follow, &chunk);
		follow->position += span;
	}
	for (size_t ring = 0; ring < trace->thread_count && !error; ring++)
		error = decoder_read(follow, &trace->decoders[ring]);
	if (follow->unsettled)
		names_settle(trace->names);
	follow->unsettled = false;
	if (last)
		follow->mark_ns = UINT64_MAX;
	give_back(follow);
	return error;
}

bool trace_follow_ready(const struct trace_follow *follow)
{
	uint64_t complete_ns = follow->mark_ns;

	if (complete_ns != UINT64_MAX)
		complete_ns = complete_ns > FOLLOW_GRACE_NS ? complete_ns - FOLLOW_GRACE_NS : 0;
	return follow->reorder.count && follow->reorder.heap[0].event.ts_ns < complete_ns;
}

int trace_follow_next(struct trace_follow *follow, struct event *event)
{
	while (trace_follow_ready(follow)) {
		reorder_pop(&follow->reorder, event);
		if (event->kind == EVENT_LOSS || !names_own(follow->trace->names, event->process))
			return 1;
	}
	return 0;
}
