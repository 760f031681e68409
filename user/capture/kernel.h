/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_KERNEL_H
#define BEAMWEAVE_KERNEL_H

/*
 * The kernel side of a capture: loads the probes that this kernel and this user may have, drains their
 * per-CPU rings. What cannot be had is listed with its reason; nothing here prints.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/types.h>

#include "probes.h"

/* Probes by themselves. Each may be missing. */
enum kernel_probe {
	KERNEL_SCHED =
		0, /* sched_switch, sched_waking, sched_wakeup_new, sched_migrate_task, fork, exit */
	KERNEL_PROCESS = 1, /* the Erlang process at switch-out */
	KERNEL_BLOCKING = 2, /* the system call in which a thread blocks, at switch-out */
	KERNEL_SOCKET = 3, /* state changes, retransmits, resets */
	KERNEL_SOCKET_IO = 4, /* bytes sent and received */
	KERNEL_SYSCALL = 5, /* every system call of the target, enter to exit */
};
#define KERNEL_PROBES 6

/* "sched", "process", "blocking", "socket", "socket_io", "syscall": as in --without and in reports. */
const char *kernel_probe_name(enum kernel_probe probe);
/* -1: no such name. */
int kernel_probe_number(const char *name);

struct kernel_config {
	uint32_t wanted; /* bits 1 << enum kernel_probe */
	uint32_t without; /* the same: act as if the kernel refused them */
	pid_t target; /* tgid in our pid namespace; children are followed while `follow` */
	bool follow;
	uint32_t ring_bytes; /* per CPU; 0: 4 MiB; a power of two */
	uint32_t fallback; /* bits: take an older kernel's way even where the newer one is there */
};

/* A probe that is enabled can be on the list too: then a part of it is missing, which `why` names. */
struct kernel_missing {
	enum kernel_probe probe;
	char why[160]; /* "CAP_BPF or CAP_SYS_ADMIN is missing" */
	char fix[160]; /* "run as root, or: setcap cap_bpf,cap_perfmon+ep beamweave"; empty when nothing helps */
};

struct kernel;

/* Load and attach what can be had. Never fails for a missing probe: NULL only for ENOMEM, EINVAL. */
struct kernel *kernel_open(const struct kernel_config *config);
/* Detach, unload and free; NULL is harmless. What was not drained is gone. */
void kernel_close(struct kernel *kernel);

/* Bits 1 << enum kernel_probe. */
uint32_t kernel_enabled(const struct kernel *kernel);
/* Sets *missing to the list, which lives as long as `kernel`; returns its length. */
size_t kernel_missing(const struct kernel *kernel, const struct kernel_missing **missing);

/* Replace the set of targets, and follow no children any more. Returns 0 or -errno. */
int kernel_set_target(struct kernel *kernel, pid_t target);
/* Every process that is followed now; for -- COMMAND. Returns the number. */
size_t kernel_targets(struct kernel *kernel, pid_t *pids, size_t max);

/* How to read the Erlang process in the VM's threads. Offsets of struct ring_vm. */
struct kernel_vm {
	uint32_t esdp_current_process, esdp_number, process_id;
	uint32_t esdp_current_port, port_connected; /* 0: unknown */
};
/* From now on read them. Returns 0, or -ENODEV: the probe "process" is not enabled. */
int kernel_set_vm(struct kernel *kernel, const struct kernel_vm *vm);
/*
 * A thread of the VM: `tid` in our pid namespace, the address of its scheduler's data, and the
 * scheduler's number (0 unknown), which is checked against the VM's memory. Returns 0, -EINVAL (the
 * check failed: it is not read), -ENODEV, -errno.
 */
int kernel_set_thread(struct kernel *kernel, pid_t tid, uint64_t esdp, uint32_t number);

/*
 * Pass on what the rings hold: whole records of one CPU, one after the other, in a private buffer that
 * is valid during the call. Returns bytes passed, or -errno of the callback, which then loses nothing.
 */
typedef int (*kernel_records_fn)(void *context, uint32_t cpu, const void *records, uint32_t bytes);
int64_t kernel_drain(struct kernel *kernel, uint64_t max_bytes, kernel_records_fn fn,
		     void *context);
/* The fullest ring at the last drain, in 1/1000. */
uint32_t kernel_fill_permille(const struct kernel *kernel);

/* CPUs that may ever be there: `cpu` below is less. */
uint32_t kernel_cpus(const struct kernel *kernel);
/* The counters of one CPU as they are now. Returns 0, -EINVAL, -ENOMEM, -errno. */
int kernel_counts(struct kernel *kernel, uint32_t cpu, struct probe_counts *counts);

/*
 * Runs of probes that the kernel left out because the same probe was running on that CPU. They stand in
 * no other count: it is an upper bound, since they need not have been the target's.
 */
uint64_t kernel_missed(const struct kernel *kernel);

/* Detach all probes; what is in the rings can still be drained. */
void kernel_stop(struct kernel *kernel);

#endif
