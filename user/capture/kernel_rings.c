/* SPDX-License-Identifier: Apache-2.0 */
/* A ring per CPU: made here, drained without looking into the records. */
#include "kernel_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BUFFER_BYTES (1u << 20)
/* More than any record: the buffer always has room for one when a ring is asked for the next. */
#define RECORD_MAX   256u
#define RING_DEFAULT (4u << 20)

/* "0-3,8" of sysfs: sets online[] and returns 0. */
static int online_read(bool *online, uint32_t cpus)
{
	char text[1024];
	char *at = text;
	size_t bytes;
	FILE *file = fopen("/sys/devices/system/cpu/online", "re");

	if (!file)
		return -errno;
	bytes = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[bytes] = '\0';
	while (*at >= '0' && *at <= '9') {
		unsigned long from = strtoul(at, &at, 10), to = from;

		if (*at == '-')
			to = strtoul(at + 1, &at, 10);
		for (; from <= to && from < cpus; from++)
			online[from] = true;
		if (*at == ',')
			at++;
	}
	return 0;
}

/* Takes a record whole; a negative answer ends the run, this record included in what was taken. */
static int record_take(void *context, void *data, size_t bytes)
{
	struct kernel_rings *rings = context;

	if (bytes <= BUFFER_BYTES - rings->used) {
		memcpy(rings->buffer + rings->used, data, bytes);
		rings->used += (uint32_t)bytes;
	}
	return rings->used + RECORD_MAX > rings->limit ? -ENOSPC : 0;
}

static int ring_create(struct kernel_rings *rings, struct kernel_ring *ring)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *map;

	ring->fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "ring", 0, 0, rings->bytes, NULL);
	if (ring->fd < 0)
		return -errno;
	ring->manager = ring_buffer__new(ring->fd, record_take, rings, NULL);
	if (!ring->manager)
		return -errno;
	map = mmap(NULL, page, PROT_READ, MAP_SHARED, ring->fd, 0);
	if (map == MAP_FAILED)
		return -errno;
	ring->consumer = map;
	map = mmap(NULL, page, PROT_READ, MAP_SHARED, ring->fd, (off_t)page);
	if (map == MAP_FAILED)
		return -errno;
	ring->producer = map;
	return 0;
}

static void ring_destroy(struct kernel_ring *ring)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (ring->consumer)
		munmap((void *)(uintptr_t)ring->consumer, page);
	if (ring->producer)
		munmap((void *)(uintptr_t)ring->producer, page);
	ring_buffer__free(ring->manager);
	if (ring->fd >= 0)
		close(ring->fd);
}

int kernel_rings_create(struct kernel_rings *rings, uint32_t bytes)
{
	LIBBPF_OPTS(bpf_map_create_opts, options);
	int cpus = libbpf_num_possible_cpus();
	bool *online = NULL;
	uint32_t cpu;
	int err = 0;

	rings->map_fd = -1;
	rings->counts_fd = -1;
	rings->bytes = bytes ? bytes : RING_DEFAULT;
	if (cpus < 0)
		return cpus;
	rings->rings = calloc((size_t)cpus, sizeof(*rings->rings));
	rings->buffer = malloc(BUFFER_BYTES);
	online = calloc((size_t)cpus, sizeof(*online));
	if (!rings->rings || !rings->buffer || !online) {
		err = -ENOMEM;
		goto out;
	}
	rings->cpus = (uint32_t)cpus;
	for (cpu = 0; cpu < rings->cpus; cpu++)
		rings->rings[cpu].fd = -1;
	err = online_read(online, rings->cpus);
	for (cpu = 0; !err && cpu < rings->cpus; cpu++) {
		struct kernel_ring *ring = &rings->rings[cpu];

		if (!online[cpu])
			continue;
		err = ring_create(rings, ring);
		if (!err && rings->map_fd < 0) {
			options.inner_map_fd = (uint32_t)ring->fd;
			rings->map_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY_OF_MAPS, "rings", 4, 4,
						       rings->cpus, &options);
			if (rings->map_fd < 0)
				err = -errno;
		}
		if (!err && bpf_map_update_elem(rings->map_fd, &cpu, &ring->fd, BPF_ANY))
			err = -errno;
	}
	if (err)
		goto out;
	rings->counts_fd = bpf_map_create(BPF_MAP_TYPE_PERCPU_ARRAY, "counts", 4,
					  sizeof(struct probe_counts), 1, NULL);
	if (rings->counts_fd < 0)
		err = -errno;
out:
	free(online);
	if (err)
		kernel_rings_destroy(rings);
	return err;
}

void kernel_rings_destroy(struct kernel_rings *rings)
{
	uint32_t cpu;

	for (cpu = 0; cpu < rings->cpus; cpu++)
		ring_destroy(&rings->rings[cpu]);
	free(rings->rings);
	free(rings->buffer);
	if (rings->map_fd >= 0)
		close(rings->map_fd);
	if (rings->counts_fd >= 0)
		close(rings->counts_fd);
	memset(rings, 0, sizeof(*rings));
	rings->map_fd = -1;
	rings->counts_fd = -1;
}

void kernel_rings_settle(const struct kernel_rings *rings)
{
	uint32_t cpu;

	/* an update of a map of maps waits for all programs (maybe_wait_bpf_programs(), 5.0) */
	for (cpu = 0; cpu < rings->cpus; cpu++)
		if (rings->rings[cpu].fd >= 0) {
			bpf_map_update_elem(rings->map_fd, &cpu, &rings->rings[cpu].fd, BPF_ANY);
			return;
		}
}

static void fill_measure(struct kernel_rings *rings)
{
	uint32_t cpu;

	rings->fill_permille = 0;
	for (cpu = 0; cpu < rings->cpus; cpu++) {
		const struct kernel_ring *ring = &rings->rings[cpu];
		uint64_t waiting, permille;

		if (!ring->manager)
			continue;
		/* relaxed: how full it is steers the pace only; no record is read by it. The kernel
		 * moves the one, libbpf the other. */
		waiting = __atomic_load_n(ring->producer, __ATOMIC_RELAXED) -
			  __atomic_load_n(ring->consumer, __ATOMIC_RELAXED);
		permille = waiting * 1000 / rings->bytes;
		if (permille > rings->fill_permille)
			rings->fill_permille = permille > 1000 ? 1000 : (uint32_t)permille;
	}
}

/* Move at most `max_bytes` (but one record at least) into the buffer. Returns whether more waits. */
static bool buffer_fill(struct kernel_rings *rings, uint32_t cpu, uint64_t max_bytes)
{
	rings->cpu = cpu;
	rings->limit = max_bytes < BUFFER_BYTES ? (uint32_t)max_bytes : BUFFER_BYTES;
	return ring_buffer__consume(rings->rings[cpu].manager) < 0;
}

static int buffer_pass(struct kernel_rings *rings, kernel_records_fn fn, void *context,
		       int64_t *total)
{
	int err = fn(context, rings->cpu, rings->buffer, rings->used);

	if (err)
		return err;
	*total += rings->used;
	rings->used = 0;
	return 0;
}

int64_t kernel_drain(struct kernel *kernel, uint64_t max_bytes, kernel_records_fn fn, void *context)
{
	struct kernel_rings *rings = &kernel->rings;
	int64_t total = 0;
	uint32_t turn;
	int err;

	fill_measure(rings);
	if (rings->used) {
		err = buffer_pass(rings, fn, context, &total);
		if (err)
			return err;
	}
	for (turn = 0; turn < rings->cpus; turn++) {
		uint32_t cpu = rings->next_cpu;
		bool more = true;

		while (more && rings->rings[cpu].manager) {
			if ((uint64_t)total >= max_bytes)
				return total;
			more = buffer_fill(rings, cpu, max_bytes - (uint64_t)total);
			if (!rings->used)
				break;
			err = buffer_pass(rings, fn, context, &total);
			if (err)
				return err;
		}
		rings->next_cpu = (cpu + 1) % rings->cpus;
	}
	return total;
}

uint32_t kernel_fill_permille(const struct kernel *kernel)
{
	return kernel->rings.fill_permille;
}

uint32_t kernel_cpus(const struct kernel *kernel)
{
	return kernel->rings.cpus;
}

int kernel_counts(struct kernel *kernel, uint32_t cpu, struct probe_counts *counts)
{
	struct kernel_rings *rings = &kernel->rings;
	struct probe_counts *all;
	uint32_t zero = 0;
	int err = 0;

	_Static_assert(sizeof(*all) % 8 == 0, "the kernel pads values per CPU to 8 bytes");
	if (cpu >= rings->cpus)
		return -EINVAL;
	all = calloc(rings->cpus, sizeof(*all));
	if (!all)
		return -ENOMEM;
	if (bpf_map_lookup_elem(rings->counts_fd, &zero, all))
		err = -errno;
	else
		*counts = all[cpu];
	free(all);
	return err;
}
