/* SPDX-License-Identifier: Apache-2.0 */
/* The programs: open, configure, load, attach; the next best way when the kernel refuses one. */
#include "kernel_private.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sched.skel.h"
#include "socket.skel.h"
#include "syscall.skel.h"

#define BIT(probe) (1u << (probe))

/* The arguments of a tracepoint; -ENOENT: this kernel has none of that name. */
static int tracepoint_arguments(const struct btf *btf, const char *name)
{
	const struct btf_type *type;
	char typedef_name[64];
	int id;

	snprintf(typedef_name, sizeof(typedef_name), "btf_trace_%s", name);
	id = btf__find_by_name_kind(btf, typedef_name, BTF_KIND_TYPEDEF);
	if (id < 0)
		return -ENOENT;
	type = btf__type_by_id(btf, btf__type_by_id(btf, (uint32_t)id)->type);
	if (!type || !btf_is_ptr(type))
		return -ENOENT;
	type = btf__type_by_id(btf, type->type);
	if (!type || !btf_is_func_proto(type))
		return -ENOENT;
	/* the first is the tracer's own data */
	return btf_vlen(type) - 1;
}

static bool enum_has(const struct btf *btf, const char *enum_name, const char *value_name)
{
	int id = btf__find_by_name_kind(btf, enum_name, BTF_KIND_ENUM);
	const struct btf_type *type;
	uint32_t i;

	if (id < 0)
		return false;
	type = btf__type_by_id(btf, (uint32_t)id);
	for (i = 0; i < btf_vlen(type); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_enum(type)[i].name_off), value_name))
			return true;
	return false;
}

static int maps_share(struct kernel *kernel, struct bpf_map *targets, struct bpf_map *rings,
		      struct bpf_map *counts)
{
	int err = bpf_map__reuse_fd(targets, kernel->targets_fd);

	if (!err)
		err = bpf_map__reuse_fd(rings, kernel->rings.map_fd);
	if (!err)
		err = bpf_map__reuse_fd(counts, kernel->rings.counts_fd);
	return err;
}

/* Returns 0 or -errno. A tracepoint that is not there is -ENOENT. */
static int program_attach(struct kernel *kernel, struct bpf_program *program)
{
	struct bpf_link *link = bpf_program__attach(program);

	if (!link)
		return -errno;
	kernel->links[kernel->link_count++] = link;
	return 0;
}

static void links_destroy(struct kernel *kernel, size_t keep)
{
	while (kernel->link_count > keep)
		bpf_link__destroy(kernel->links[--kernel->link_count]);
}

static bool allowed(const struct kernel *kernel, enum kernel_probe probe)
{
	return kernel->config.wanted & ~kernel->config.without & BIT(probe);
}

static bool old_way(const struct kernel *kernel, enum kernel_probe probe)
{
	return kernel->config.fallback & BIT(probe);
}

/* ---- sched ---- */

struct sched_way {
	bool typed;
	enum probe_registers registers;
	uint32_t stack_top_bytes;
};

static int sched_try(struct kernel *kernel, const struct sched_way *way)
{
	bool blocking = way->registers != PROBE_REGISTERS_NONE;
	struct sched_bpf *sched = sched_bpf__open();
	int err;

	if (!sched)
		return -errno;
	sched->rodata->switch_has_state = !old_way(kernel, KERNEL_SCHED) &&
					  tracepoint_arguments(kernel->btf, "sched_switch") >= 4;
	sched->rodata->throttled_by_queue = old_way(kernel, KERNEL_SCHED);
	sched->rodata->registers_way = way->registers;
	sched->rodata->stack_top_bytes = way->stack_top_bytes;
	sched->rodata->read_process = allowed(kernel, KERNEL_PROCESS);
	sched->bss->follow = kernel->config.follow;
	bpf_program__set_autoload(sched->progs.sched_switch, way->typed);
	bpf_program__set_autoload(sched->progs.sched_waking, way->typed);
	bpf_program__set_autoload(sched->progs.sched_switch_raw, !way->typed);
	bpf_program__set_autoload(sched->progs.sched_waking_raw, !way->typed);
	bpf_program__set_autoload(sched->progs.sched_check, way->typed && blocking);
	bpf_program__set_autoload(sched->progs.sched_check_raw, !way->typed && blocking);
	err = maps_share(kernel, sched->maps.targets, sched->maps.rings, sched->maps.counts);
	if (!err)
		err = sched_bpf__load(sched);
	if (!err && blocking)
		err = kernel_check_blocking(sched, way->typed);
	if (err)
		sched_bpf__destroy(sched);
	else
		kernel->sched = sched;
	return err;
}

/* The best way that this kernel lets pass. Returns 0 or the last error. */
static int sched_load_best(struct kernel *kernel)
{
	static const uint32_t tops[] = {
		16384, /* THREAD_SIZE */
		16384 - 16, /* and TOP_OF_KERNEL_STACK_PADDING with FRED (arch/x86) */
		32768, 65536, /* KASAN, large pages of arm64 */
	};
	bool typed = !old_way(kernel, KERNEL_SCHED);
	bool blocking = allowed(kernel, KERNEL_BLOCKING);
	struct sched_way way = {.typed = typed};
	int err = -ENOENT, blocking_err = -ENOENT;
	size_t i;

	if (blocking && typed && !old_way(kernel, KERNEL_BLOCKING) &&
	    enum_has(kernel->btf, "bpf_func_id", "BPF_FUNC_task_pt_regs")) {
		way.registers = PROBE_REGISTERS_HELPER;
		err = sched_try(kernel, &way);
		blocking_err = err;
	}
	way.registers = PROBE_REGISTERS_COMPUTED;
	for (i = 0; err && blocking && i < sizeof(tops) / sizeof(*tops); i++) {
		way.stack_top_bytes = tops[i];
		err = sched_try(kernel, &way);
		blocking_err = err;
		/* what is refused once is refused at every offset */
		if (err && err != -ENOENT)
			break;
	}
	if (!err) {
		kernel->enabled |= BIT(KERNEL_BLOCKING);
		return 0;
	}
	way.registers = PROBE_REGISTERS_NONE;
	err = sched_try(kernel, &way);
	if (err && typed) {
		way.typed = false;
		err = sched_try(kernel, &way);
	}
	if (!err && blocking) {
		if (blocking_err == -ENOENT)
			kernel_why_add(kernel, KERNEL_BLOCKING,
				       "the saved registers of a blocked thread were not found "
				       "(self-check)",
				       "");
		else
			kernel_why_error(kernel, KERNEL_BLOCKING, "reading saved registers",
					 blocking_err);
	}
	return err;
}

static void sched_lost(struct kernel *kernel, int err)
{
	static const enum kernel_probe parts[] = {KERNEL_PROCESS, KERNEL_BLOCKING};
	size_t i;

	kernel_why_error(kernel, KERNEL_SCHED, "loading the scheduler's probes", err);
	kernel->enabled &= ~(BIT(KERNEL_SCHED) | BIT(KERNEL_PROCESS) | BIT(KERNEL_BLOCKING));
	for (i = 0; i < 2; i++)
		if (allowed(kernel, parts[i]))
			kernel_why_add(kernel, parts[i],
				       "it needs the probe sched, which is missing", "");
	sched_bpf__destroy(kernel->sched);
	kernel->sched = NULL;
}

void kernel_load_sched(struct kernel *kernel)
{
	size_t links_before = kernel->link_count;
	struct sched_bpf *sched;
	size_t i;
	int err;

	err = sched_load_best(kernel);
	if (err) {
		sched_lost(kernel, err);
		return;
	}
	sched = kernel->sched;
	/* threads are followed before anything is said of them */
	struct bpf_program *programs[] = {
		sched->progs.sched_process_free, sched->progs.sched_process_fork,
		sched->progs.sched_process_exit, sched->progs.sched_process_exec,
		sched->progs.sched_wakeup_new,	 sched->progs.sched_migrate_task,
		sched->progs.sched_waking,	 sched->progs.sched_waking_raw,
		sched->progs.sched_switch,	 sched->progs.sched_switch_raw,
	};

	for (i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		if (!bpf_program__autoload(programs[i]))
			continue;
		err = program_attach(kernel, programs[i]);
		if (err) {
			links_destroy(kernel, links_before);
			sched_lost(kernel, err);
			return;
		}
	}
	kernel->enabled |= BIT(KERNEL_SCHED);
	if (allowed(kernel, KERNEL_PROCESS))
		kernel->enabled |= BIT(KERNEL_PROCESS);
}

/* ---- sockets ---- */

static int socket_try(struct kernel *kernel, bool io, bool io_by_calls)
{
	struct socket_bpf *socket = socket_bpf__open();
	int err;

	if (!socket)
		return -errno;
	socket->rodata->record_states = allowed(kernel, KERNEL_SOCKET);
	bpf_program__set_autoload(socket->progs.sock_send, io && !io_by_calls);
	bpf_program__set_autoload(socket->progs.sock_recv, io && !io_by_calls);
	bpf_program__set_autoload(socket->progs.sock_syscall, io && io_by_calls);
	bpf_program__set_autoload(socket->progs.sock_data_ready, io);
	bpf_program__set_autoload(socket->progs.sock_retransmit, allowed(kernel, KERNEL_SOCKET));
	bpf_program__set_autoload(socket->progs.sock_reset_sent, allowed(kernel, KERNEL_SOCKET));
	bpf_program__set_autoload(socket->progs.sock_reset_received,
				  allowed(kernel, KERNEL_SOCKET));
	socket->rodata->read_process = kernel->enabled & BIT(KERNEL_PROCESS);
	err = maps_share(kernel, socket->maps.targets, socket->maps.rings, socket->maps.counts);
	if (!err && kernel->sched)
		err = bpf_map__reuse_fd(socket->maps.threads,
					bpf_map__fd(kernel->sched->maps.threads));
	if (!err)
		err = socket_bpf__load(socket);
	if (err)
		socket_bpf__destroy(socket);
	else
		kernel->socket = socket;
	return err;
}

/* A part of a probe: the rest works without. */
static void part_attach(struct kernel *kernel, enum kernel_probe probe, struct bpf_program *program,
			const char *tracepoint, const char *since)
{
	int err = program_attach(kernel, program);

	if (err == -ENOENT)
		kernel_why_tracepoint(kernel, probe, tracepoint, since);
	else if (err)
		kernel_why_error(kernel, probe, tracepoint, err);
}

static void io_attach(struct kernel *kernel, bool by_calls, bool states)
{
	struct socket_bpf *socket = kernel->socket;
	size_t links_before = kernel->link_count;
	int err;

	if (by_calls) {
		err = program_attach(kernel, socket->progs.sock_syscall);
	} else {
		err = program_attach(kernel, socket->progs.sock_send);
		if (!err)
			err = program_attach(kernel, socket->progs.sock_recv);
	}
	if (err) {
		links_destroy(kernel, links_before);
		kernel_why_error(kernel, KERNEL_SOCKET_IO, "attaching to sends and receives", err);
		return;
	}
	kernel->enabled |= BIT(KERNEL_SOCKET_IO);
	/* without the states a closed socket's address would be taken for the target's for ever */
	if (states)
		part_attach(kernel, KERNEL_SOCKET_IO, socket->progs.sock_data_ready,
			    "sk_data_ready", "6.3");
}

void kernel_load_socket(struct kernel *kernel)
{
	bool state = allowed(kernel, KERNEL_SOCKET), io = allowed(kernel, KERNEL_SOCKET_IO);
	bool by_calls = old_way(kernel, KERNEL_SOCKET_IO) ||
			tracepoint_arguments(kernel->btf, "sock_send_length") < 3 ||
			tracepoint_arguments(kernel->btf, "sock_recv_length") < 3;
	struct socket_bpf *socket;
	bool states;
	int err;

	err = socket_try(kernel, io, by_calls);
	if (err && io && state) {
		kernel_why_error(kernel, KERNEL_SOCKET_IO,
				 "loading the probes of sends and receives", err);
		io = false;
		err = socket_try(kernel, false, false);
	}
	if (err) {
		kernel_why_error(kernel, state ? KERNEL_SOCKET : KERNEL_SOCKET_IO,
				 "loading the sockets' probes", err);
		return;
	}
	socket = kernel->socket;
	err = program_attach(kernel, socket->progs.sock_state);
	states = !err;
	if (state && err) {
		kernel_why_error(kernel, KERNEL_SOCKET, "attaching to socket states", err);
	} else if (state) {
		kernel->enabled |= BIT(KERNEL_SOCKET);
		part_attach(kernel, KERNEL_SOCKET, socket->progs.sock_retransmit,
			    "tcp_retransmit_skb", "4.15");
		part_attach(kernel, KERNEL_SOCKET, socket->progs.sock_reset_sent, "tcp_send_reset",
			    "4.15");
		part_attach(kernel, KERNEL_SOCKET, socket->progs.sock_reset_received,
			    "tcp_receive_reset", "4.15");
	}
	if (io)
		io_attach(kernel, by_calls, states);
	kernel_load_sockets_existing(kernel);
}

void kernel_load_sockets_existing(struct kernel *kernel)
{
	struct bpf_link *link;
	char nothing[64];
	ssize_t got;
	int fd;

	if (!kernel->socket)
		return;
	link = bpf_program__attach(kernel->socket->progs.sock_existing);
	if (!link) {
		kernel_why_error(kernel,
				 allowed(kernel, KERNEL_SOCKET) ? KERNEL_SOCKET : KERNEL_SOCKET_IO,
				 "listing the sockets that exist", -errno);
		return;
	}
	fd = bpf_iter_create(bpf_link__fd(link));
	if (fd >= 0) {
		/* it writes nothing; EAGAIN comes after every million files */
		do {
			got = read(fd, nothing, sizeof(nothing));
		} while (got > 0 || (got < 0 && errno == EAGAIN));
		close(fd);
	}
	bpf_link__destroy(link);
}

/* ---- system calls ---- */

void kernel_load_syscall(struct kernel *kernel)
{
	struct syscall_bpf *syscall = syscall_bpf__open();
	size_t links_before = kernel->link_count;
	int err;

	if (!syscall) {
		kernel_why_error(kernel, KERNEL_SYSCALL, "loading the system calls' probe", -errno);
		return;
	}
	kernel->syscall = syscall;
	err = maps_share(kernel, syscall->maps.targets, syscall->maps.rings, syscall->maps.counts);
	if (!err)
		err = syscall_bpf__load(syscall);
	if (!err)
		err = program_attach(kernel, syscall->progs.syscall_thread_exit);
	if (!err)
		err = program_attach(kernel, syscall->progs.syscall_exit);
	if (!err)
		err = program_attach(kernel, syscall->progs.syscall_enter);
	if (err) {
		links_destroy(kernel, links_before);
		kernel_why_error(kernel, KERNEL_SYSCALL, "loading the system calls' probe", err);
		syscall_bpf__destroy(syscall);
		kernel->syscall = NULL;
		return;
	}
	kernel->enabled |= BIT(KERNEL_SYSCALL);
}

/* ---- all ---- */

static uint64_t object_missed(const struct bpf_object *object)
{
	struct bpf_program *program;
	uint64_t missed = 0;

	bpf_object__for_each_program (program, object) {
		struct bpf_prog_info info = {};
		uint32_t bytes = sizeof(info);
		int fd = bpf_program__fd(program);

		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &bytes))
			missed += info.recursion_misses;
	}
	return missed;
}

uint64_t kernel_missed(const struct kernel *kernel)
{
	uint64_t missed = 0;

	if (kernel->sched)
		missed += object_missed(kernel->sched->obj);
	if (kernel->socket)
		missed += object_missed(kernel->socket->obj);
	if (kernel->syscall)
		missed += object_missed(kernel->syscall->obj);
	return missed;
}

void kernel_load_detach(struct kernel *kernel)
{
	links_destroy(kernel, 0);
}

void kernel_load_destroy(struct kernel *kernel)
{
	links_destroy(kernel, 0);
	sched_bpf__destroy(kernel->sched);
	socket_bpf__destroy(kernel->socket);
	syscall_bpf__destroy(kernel->syscall);
}
