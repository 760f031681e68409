/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

/*
 * The kernel types that the probes read, with only the fields that they read: libbpf relocates each
 * access to the running kernel. `make vmlinux` writes the whole of the running kernel's
 * types for reference. A name with ___suffix is another kernel's shape of the type before it.
 */

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;

typedef __u8 u8;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;

typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

enum { false = 0, true = 1 };

/* linux/bpf.h */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_RINGBUF = 27,
};

enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };

enum { BPF_RB_NO_WAKEUP = 1 };

enum bpf_func_id {
	BPF_FUNC_get_current_task_btf = 158,
	BPF_FUNC_task_pt_regs = 175,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pt_regs {
#if defined(__TARGET_ARCH_x86)
	long unsigned int r10, r9, r8, dx, si, di, orig_ax;
	u16 cs;
#elif defined(__TARGET_ARCH_arm64)
	u64 regs[31];
	u64 pstate;
	u64 orig_x0;
	s32 syscallno;
#else
#error "x86 and arm64 are known"
#endif
};

typedef struct {
	int counter;
} atomic_t;

/* ---- Tasks ---- */

struct thread_info {
	u32 cpu;
};

struct cfs_rq {
	int throttle_count;
};

struct sched_entity {
	u64 sum_exec_runtime;
	u64 prev_sum_exec_runtime; /* sum_exec_runtime when it was put on the CPU */
	struct cfs_rq *cfs_rq;
};

struct file;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state;
	void *stack;
	unsigned int flags;
	int prio;
	struct sched_entity se;
	bool throttled;
	int exit_state;
	int pid;
	int tgid;
	struct task_struct *real_parent;
	char comm[16];
	struct files_struct *files;
};

/* Before 5.14. */
struct task_struct___state {
	volatile long state;
};

/* Before 5.16 on x86. */
struct task_struct___cpu {
	unsigned int cpu;
};

/* ---- Files and sockets ---- */

struct inode {
	unsigned short i_mode;
};

struct file {
	struct inode *f_inode;
	void *private_data;
};

struct net;

typedef struct {
	struct net *net;
} possible_net_t;

struct in6_addr {
	union {
		u8 u6_addr8[16];
	} in6_u;
};

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

typedef struct {
	int owned;
} socket_lock_t;

struct sock {
	struct sock_common __sk_common;
	socket_lock_t sk_lock;
	u16 sk_protocol;
	u32 sk_ack_backlog;
};

struct inet_sock {
	__be16 inet_sport;
};

struct socket {
	struct sock *sk;
};

/* ---- Iterators ---- */

struct bpf_iter__task_file {
	struct task_struct *task;
	u32 fd;
	struct file *file;
};

#pragma clang attribute pop

#endif
