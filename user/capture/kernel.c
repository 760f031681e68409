/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_private.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sched.skel.h"
#include "socket.skel.h"

#define TARGETS_MAX 16384 /* as in bpf/output.bpf.h */

static const char *const probe_names[KERNEL_PROBES] = {
	[KERNEL_SCHED] = "sched",	  [KERNEL_PROCESS] = "process",
	[KERNEL_BLOCKING] = "blocking",	  [KERNEL_SOCKET] = "socket",
	[KERNEL_SOCKET_IO] = "socket_io", [KERNEL_SYSCALL] = "syscall",
};

const char *kernel_probe_name(enum kernel_probe probe)
{
	return (unsigned int)probe < KERNEL_PROBES ? probe_names[probe] : NULL;
}

int kernel_probe_number(const char *name)
{
	int probe;

	for (probe = 0; probe < KERNEL_PROBES; probe++)
		if (!strcmp(name, probe_names[probe]))
			return probe;
	return -1;
}

static uint32_t bit(enum kernel_probe probe)
{
	return 1u << probe;
}

/* Probes that were asked for and may be had as far as the configuration goes. */
static uint32_t probes_allowed(struct kernel *kernel)
{
	const struct kernel_config *config = &kernel->config;
	uint32_t allowed = config->wanted & ~config->without;
	int probe;

	for (probe = 0; probe < KERNEL_PROBES; probe++) {
		char why[WHY_BYTES];

		if (!(config->wanted & config->without & bit(probe)))
			continue;
		snprintf(why, sizeof(why), "left out by --without %s", probe_names[probe]);
		kernel_why_add(kernel, probe, why, "");
	}
	for (probe = KERNEL_PROCESS; probe <= KERNEL_BLOCKING; probe++) {
		if (!(allowed & bit(probe)) || allowed & bit(KERNEL_SCHED))
			continue;
		kernel_why_add(kernel, probe, "it needs the probe sched, which is missing", "");
		allowed &= ~bit(probe);
	}
	return allowed;
}

/* None of `probes` can be had, all for one reason. */
static void all_missing(struct kernel *kernel, uint32_t probes, const char *why, const char *fix)
{
	int probe;

	for (probe = 0; probe < KERNEL_PROBES; probe++)
		if (probes & bit(probe))
			kernel_why_add(kernel, probe, why, fix);
}

static int maps_create(struct kernel *kernel)
{
	int err = kernel_rings_create(&kernel->rings, kernel->config.ring_bytes);

	if (err)
		return err;
	kernel->targets_fd = bpf_map_create(BPF_MAP_TYPE_HASH, "targets", 4, 4, TARGETS_MAX, NULL);
	return kernel->targets_fd < 0 ? -errno : 0;
}

/* The new one comes before the others go, so that nothing of one that stays is missed. */
static int targets_set(struct kernel *kernel, pid_t target)
{
	uint32_t key = (uint32_t)target, next, value = 1;
	bool more;

	if (target && bpf_map_update_elem(kernel->targets_fd, &key, &value, BPF_ANY))
		return -errno;
	more = !bpf_map_get_next_key(kernel->targets_fd, NULL, &next);
	while (more) {
		key = next;
		more = !bpf_map_get_next_key(kernel->targets_fd, &key, &next);
		if (key != (uint32_t)target && bpf_map_delete_elem(kernel->targets_fd, &key) &&
		    errno != ENOENT)
			return -errno;
	}
	return 0;
}

static bool ring_bytes_good(uint32_t bytes)
{
	return !bytes || (bytes >= (uint32_t)sysconf(_SC_PAGESIZE) && bytes <= 1u << 30 &&
			  !(bytes & (bytes - 1)));
}

struct kernel *kernel_open(const struct kernel_config *config)
{
	char why[WHY_BYTES], fix[WHY_BYTES];
	struct kernel *kernel;
	uint32_t allowed;
	int err;

	if (!ring_bytes_good(config->ring_bytes) || config->target < 0 ||
	    config->wanted >> KERNEL_PROBES) {
		errno = EINVAL;
		return NULL;
	}
	kernel = calloc(1, sizeof(*kernel));
	if (!kernel)
		return NULL;
	kernel->config = *config;
	kernel->targets_fd = -1;
	kernel->rings.map_fd = -1;
	kernel->rings.counts_fd = -1;
	kernel_why_listen();
	allowed = probes_allowed(kernel);
	kernel->config.wanted = allowed;
	if (!allowed)
		return kernel;
	kernel->btf = btf__load_vmlinux_btf();
	if (kernel_why_host(kernel->btf, why, fix)) {
		all_missing(kernel, allowed, why, fix);
		goto out;
	}
	err = maps_create(kernel);
	if (!err)
		err = targets_set(kernel, config->target);
	if (err) {
		kernel_rings_destroy(&kernel->rings);
		kernel_why_words("making the rings", err, why, fix);
		all_missing(kernel, allowed, why, fix);
		goto out;
	}
	if (allowed & bit(KERNEL_SCHED))
		kernel_load_sched(kernel);
	if (allowed & (bit(KERNEL_SOCKET) | bit(KERNEL_SOCKET_IO)))
		kernel_load_socket(kernel);
	if (allowed & bit(KERNEL_SYSCALL))
		kernel_load_syscall(kernel);
out:
	btf__free(kernel->btf);
	kernel->btf = NULL;
	return kernel;
}

void kernel_close(struct kernel *kernel)
{
	if (!kernel)
		return;
	kernel_load_destroy(kernel);
	kernel_rings_destroy(&kernel->rings);
	if (kernel->targets_fd >= 0)
		close(kernel->targets_fd);
	free(kernel);
}

uint32_t kernel_enabled(const struct kernel *kernel)
{
	return kernel->enabled;
}

size_t kernel_missing(const struct kernel *kernel, const struct kernel_missing **missing)
{
	*missing = kernel->missing;
	return kernel->missing_count;
}

int kernel_set_target(struct kernel *kernel, pid_t target)
{
	int err;

	if (target < 0)
		return -EINVAL;
	if (kernel->targets_fd < 0)
		return 0;
	if (kernel->sched)
		kernel->sched->bss->follow = false;
	err = targets_set(kernel, target);
	if (!err)
		kernel_load_sockets_existing(kernel);
	return err;
}

size_t kernel_targets(struct kernel *kernel, pid_t *pids, size_t max)
{
	size_t count = 0;
	uint32_t key, next;
	bool more;

	if (kernel->targets_fd < 0)
		return 0;
	more = !bpf_map_get_next_key(kernel->targets_fd, NULL, &next);
	while (more && count < max) {
		key = next;
		/* before the key may go: after one that is gone, the keys begin anew */
		more = !bpf_map_get_next_key(kernel->targets_fd, &key, &next);
		/* the kernel side forgets it too, but not when the interrupt in which it is freed came
		 * over a task that is not traced (probes.h) */
		if (kill((pid_t)key, 0) && errno == ESRCH)
			bpf_map_delete_elem(kernel->targets_fd, &key);
		else
			pids[count++] = (pid_t)key;
	}
	return count;
}

static void vm_set(struct probe_vm *offsets, const struct kernel_vm *vm)
{
	offsets->esdp_current_process = vm->esdp_current_process;
	offsets->process_id = vm->process_id;
	offsets->esdp_current_port = vm->esdp_current_port;
	offsets->port_connected = vm->port_connected;
	/* release: a program that sees it on sees the offsets */
	__atomic_store_n(&offsets->on, vm->esdp_current_process != 0, __ATOMIC_RELEASE);
}

int kernel_set_vm(struct kernel *kernel, const struct kernel_vm *vm)
{
	if (!(kernel->enabled & bit(KERNEL_PROCESS)))
		return -ENODEV;
	kernel->esdp_number = vm->esdp_number;
	vm_set(&kernel->sched->bss->vm_offsets, vm);
	if (kernel->socket)
		vm_set(&kernel->socket->bss->vm_offsets, vm);
	return 0;
}

/*
 * Does the VM's memory say the same number? True when it cannot be read or none is known. A dirty
 * scheduler's number is 0, and its own stands in the next word (struct ErtsSchedulerData_).
 */
static bool number_agrees(const struct kernel *kernel, pid_t tid, uint64_t esdp, uint32_t number)
{
	uint64_t there[2] = {};
	struct iovec local = {there, sizeof(there)};
	struct iovec remote = {(void *)(uintptr_t)(esdp + kernel->esdp_number), sizeof(there)};

	if (!number || !kernel->esdp_number)
		return true;
	if (process_vm_readv(tid, &local, 1, &remote, 1, 0) != sizeof(there))
		return errno != EFAULT;
	return there[there[0] ? 0 : 1] == number;
}

int kernel_set_thread(struct kernel *kernel, pid_t tid, uint64_t esdp, uint32_t number)
{
	struct probe_thread thread = {.esdp = esdp};
	uint32_t key = (uint32_t)tid;

	if (!(kernel->enabled & bit(KERNEL_PROCESS)))
		return -ENODEV;
	if (tid <= 0 || !esdp || esdp % 8 || !number_agrees(kernel, tid, esdp, number))
		return -EINVAL;
	if (bpf_map_update_elem(bpf_map__fd(kernel->sched->maps.threads), &key, &thread, BPF_ANY))
		return -errno;
	return 0;
}

void kernel_stop(struct kernel *kernel)
{
	if (!kernel->link_count)
		return;
	kernel_load_detach(kernel);
	kernel_rings_settle(&kernel->rings);
}
