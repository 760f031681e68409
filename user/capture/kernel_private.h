/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_KERNEL_PRIVATE_H
#define BEAMWEAVE_KERNEL_PRIVATE_H

/* What the files of the kernel side share among themselves. */

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "kernel.h"

struct sched_bpf;
struct socket_bpf;
struct syscall_bpf;

#define KERNEL_LINKS   32
#define KERNEL_MISSING 24
#define WHY_BYTES      sizeof(((struct kernel_missing *)0)->why)

/* One CPU's ring. */
struct kernel_ring {
	int fd; /* -1: the CPU is off line */
	struct ring_buffer *manager;
	const unsigned long *consumer, *producer; /* positions, free-running */
};

struct kernel_rings {
	struct kernel_ring *rings; /* by CPU */
	uint32_t cpus;
	uint32_t bytes; /* of each */
	uint32_t next_cpu; /* where the next drain goes on */
	uint32_t fill_permille;
	/* Records taken out of one ring and not passed on yet. */
	uint8_t *buffer;
	uint32_t used, limit;
	uint32_t cpu;
	int map_fd; /* the map of rings */
	int counts_fd;
};

struct kernel {
	struct kernel_config config;
	uint32_t enabled;
	struct kernel_missing missing[KERNEL_MISSING];
	size_t missing_count;
	struct kernel_rings rings;
	int targets_fd;
	struct btf *btf;
	struct sched_bpf *sched;
	struct socket_bpf *socket;
	struct syscall_bpf *syscall;
	struct bpf_link *links[KERNEL_LINKS];
	size_t link_count;
	uint32_t esdp_number; /* offset, for checking threads */
};

/* ---- kernel_why.c: why something is missing ---- */

/* Keeps libbpf quiet and the last thing that it complained of. */
void kernel_why_listen(void);
/* Add a line. The probe stays enabled when only a part of it is missing. */
void kernel_why_add(struct kernel *kernel, enum kernel_probe probe, const char *why,
		    const char *fix);
/* Is there anything that rules out every probe? Fills both texts (of WHY_BYTES) and returns true. */
bool kernel_why_host(const struct btf *btf, char *why, char *fix);
/* Words for an error of bpf(), by what libbpf said last: into both texts, or as a line. */
void kernel_why_words(const char *what, int error, char *why, char *fix);
void kernel_why_error(struct kernel *kernel, enum kernel_probe probe, const char *what, int error);
/* Words for a tracepoint that this kernel lacks; `since`: "6.3". */
void kernel_why_tracepoint(struct kernel *kernel, enum kernel_probe probe, const char *tracepoint,
			   const char *since);

/* ---- kernel_rings.c ---- */

/* A ring of `bytes` (0: the usual) for each CPU on line, and the counters. 0, or -errno and nothing. */
int kernel_rings_create(struct kernel_rings *rings, uint32_t bytes);
/* Free all; harmless on rings that are destroyed already. */
void kernel_rings_destroy(struct kernel_rings *rings);
/* Wait until every program that runs now has ended. */
void kernel_rings_settle(const struct kernel_rings *rings);

/* ---- kernel_load.c ---- */

/* Load and attach what config asks for; sets enabled and missing. */
void kernel_load_sched(struct kernel *kernel);
void kernel_load_socket(struct kernel *kernel);
void kernel_load_syscall(struct kernel *kernel);
/* Tell the socket programs which sockets the targets have. */
void kernel_load_sockets_existing(struct kernel *kernel);
/* Take the programs off their tracepoints. */
void kernel_load_detach(struct kernel *kernel);
/* Take them off and unload them. */
void kernel_load_destroy(struct kernel *kernel);

/* ---- kernel_check.c ---- */

/* Does the loaded program find the system call of a thread that blocks? 0, -ENOENT, -errno. */
int kernel_check_blocking(struct sched_bpf *sched, bool typed);

#endif
