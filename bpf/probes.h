/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef BEAMWEAVE_PROBES_H
#define BEAMWEAVE_PROBES_H

/*
 * What the kernel programs and user space share: the records of the per-CPU rings, which are also
 * the format of kernel records in a file, and the maps' contents. Fixed-width types only; the
 * includer brings them (vmlinux.h or stdint.h). Append-only. Times are CLOCK_MONOTONIC nanoseconds.
 */

#define PROBE_COMM    16
#define PROBE_ADDRESS 16

/* Values are stored in files: never change one, only add. */
enum probe_kind {
	PROBE_SWITCH = 1, /* struct probe_switch */
	PROBE_WAKING = 2, /* struct probe_waking */
	PROBE_MIGRATE = 3, /* struct probe_migrate */
	PROBE_FORK = 4, /* struct probe_task: a thread of the target was made */
	PROBE_EXIT = 5, /* struct probe_task */
	PROBE_SOCK_STATE = 6, /* struct probe_sock_state */
	PROBE_SOCK_SEND = 7, /* struct probe_sock_io */
	PROBE_SOCK_RECV = 8, /* struct probe_sock_io */
	PROBE_TCP_RETRANSMIT = 9, /* struct probe_sock_event */
	PROBE_TCP_RESET_SENT = 10, /* struct probe_sock_event */
	PROBE_TCP_RESET_RECEIVED = 11, /* struct probe_sock_event */
	PROBE_SYSCALL = 12, /* struct probe_syscall */
	PROBE_WAKEUP_NEW = 13, /* struct probe_waking */
	PROBE_EXEC = 14, /* struct probe_task */
	PROBE_SOCK_DATA_READY = 15, /* struct probe_sock_event: data or a connection arrived */
	PROBE_SOCK_ERLANG = 16, /* struct probe_sock_erlang: whose socket it is */
};

struct probe_header {
	__u64 ts_ns;
	__u16 kind; /* enum probe_kind */
	__u16 bytes; /* the whole record */
	__u16 cpu;
	__u16 reserved;
};

enum probe_switch_flag {
	PROBE_PREV_TARGET = 1, /* the task that leaves is a thread of the target */
	PROBE_NEXT_TARGET = 2,
	PROBE_THROTTLED = 4, /* task_struct.throttled of the task that leaves */
	PROBE_THROTTLE_KNOWN = 8, /* the kernel has that field */
	PROBE_PROCESS_KNOWN = 16, /* `process` was read; 0 then means that none was executing */
	PROBE_SYSCALL_KNOWN = 32, /* `syscall` was read */
};

/*
 * sched_switch where one of the two tasks belongs to the target; or neither does, and then a thread of it
 * waits for this CPU meanwhile.
 */
struct probe_switch {
	struct probe_header h;
	__s32 prev_tid, next_tid; /* global pid numbers of the initial namespace */
	__s32 prev_tgid, next_tgid;
	__u32 prev_state; /* as the tracepoint prints it: 0 runnable, 1 S, 2 D, 4 T, ...; 0x100 preempted */
	__u32 flags; /* enum probe_switch_flag */
	__s32 syscall; /* in which the leaving thread is blocked; -1: none */
	__s32 prev_prio;
	__s32 next_prio;
	__u32 ran_ns; /* CPU time of the leaving task since it came on: at most 2^32 - 1; see below */
	__u64 syscall_arg; /* its first argument: mostly the descriptor */
	__u64 process; /* word of the Erlang process that the leaving thread was executing */
	char prev_comm[PROBE_COMM], next_comm[PROBE_COMM];
};

/* sched_waking or sched_wakeup_new of a thread of the target. */
struct probe_waking {
	struct probe_header h;
	__s32 tid; /* who is woken */
	__s32 waker_tid, waker_tgid;
	__s32 target_cpu;
	__s32 prio;
	__u32 reserved;
	char waker_comm[PROBE_COMM];
	char comm[PROBE_COMM];
};

struct probe_migrate {
	struct probe_header h;
	__s32 tid;
	__s32 from_cpu, to_cpu;
	__s32 prio;
};

struct probe_task {
	struct probe_header h;
	__s32 tid, tgid;
	__s32 parent_tid;
	__u32 reserved;
	char comm[PROBE_COMM];
};

/* A socket is known by its address in the kernel, which is an identity only. */
struct probe_sock_state {
	struct probe_header h;
	__u64 sock;
	__s32 tid; /* current task; 0 in interrupts of others */
	__u16 family; /* AF_INET, AF_INET6 */
	__u16 protocol; /* IPPROTO_TCP, ... */
	__u16 local_port, remote_port; /* host order */
	__u8 old_state, new_state; /* TCP_* of net/tcp_states.h */
	__u16 reserved;
	__u8 local[PROBE_ADDRESS], remote[PROBE_ADDRESS]; /* IPv4 in the first 4 */
};

struct probe_sock_io {
	struct probe_header h;
	__u64 sock;
	__s32 tid;
	__s32 result; /* bytes, or -errno */
	__u16 family;
	__u16 protocol;
	__u16 local_port, remote_port;
	__u8 local[PROBE_ADDRESS], remote[PROBE_ADDRESS];
};

struct probe_sock_event {
	struct probe_header h;
	__u64 sock;
	__s32 tid;
	__u32 value; /* retransmit: TCP state; data_ready: accept queue length of a listener, else 0 */
	__u16 family;
	__u16 protocol;
	__u16 local_port, remote_port;
	__u8 local[PROBE_ADDRESS], remote[PROBE_ADDRESS];
};

/*
 * Who used a socket, as the VM's own thread says at that moment: at the first use, and when the port
 * or its owner has changed. Without a port (a socket of a NIF) at the first use only.
 */
struct probe_sock_erlang {
	struct probe_sock_event event; /* value: the TCP state */
	__u64 port; /* word of the Erlang port that was executing; 0: none */
	__u64 owner; /* word of the port's owner, without a port of the process; 0: unknown */
};

/* One system call of a thread of the target, from enter to exit. */
struct probe_syscall {
	struct probe_header h; /* ts_ns: the exit */
	__u64 enter_ns;
	__s32 tid;
	__s32 number;
	__s64 result;
	__u64 args[6];
};

/*
 * Counters of records that found no room, per CPU and kind. `generated` counts every record that was
 * tried: generated == recorded + discarded.
 */
#define PROBE_KINDS 32
struct probe_counts {
	__u64 generated[PROBE_KINDS];
	__u64 discarded[PROBE_KINDS];
	__u64 loss_first_ns, loss_last_ns;
	__u64 process_read_failed; /* the Erlang process could not be read */
	__u64 process_mismatch; /* what was read does not look like one */
};

/* How to read the Erlang process that a thread executes: value of the map of tids. */
struct probe_thread {
	__u64 esdp; /* address of the scheduler's data; 0: none */
};

/*
 * More about the records:
 * - PROBE_SOCK_STATE with old_state == new_state: a socket that was there when the recording began.
 * - PROBE_SOCK_SEND and PROBE_SOCK_RECV: one a call, of internet sockets. A peek is no receive. What
 *   sendfile and splice move from a socket, and before 6.5 onto one, is not among them.
 * - probe_task.parent_tid: who made it (fork), the process that its parent is in (exit), the tid that
 *   the thread had until now (exec).
 * - probe_syscall.result: -512 to -516 are the kernel's own: a signal interrupted the call.
 */

/*
 * Not every switch has a record: there are tasks whose leaving the kernel does not trace (seen on a
 * 6.18: the threads of pid 1), and with it the coming of whoever follows. So a thread may be seen to
 * leave twice in a row. probe_switch.ran_ns tells how long before ts_ns it came, at the latest; 0:
 * unknown, or a real-time thread.
 *
 * Of the switches between two tasks that are not the target's those are recorded that happen while a thread
 * of the target waits for the CPU: from its preemption, its waking or its migration to there, until it
 * comes on, is migrated away, or the CPU has nothing to do (the thread is throttled). So who had the CPU
 * meanwhile is known without a gap. Not so on a CPU beyond the 1024th, or for a ninth thread that
 * waits for the same. The name of the task that leaves is newer than the one that it came on with.
 */

/* Where the saved registers of a thread that blocks are found. */
enum probe_registers {
	PROBE_REGISTERS_NONE = 0,
	PROBE_REGISTERS_HELPER = 1, /* bpf_task_pt_regs(), 5.15 */
	PROBE_REGISTERS_COMPUTED = 2, /* below the top of its stack */
};

/* What the loading process saw of itself; see kernel_check.c. */
struct probe_check {
	__u64 arg;
	__s32 number;
	__s32 tid, tgid; /* in the initial pid namespace */
	__u32 seen;
};

/* Where a process and a port are found from a thread's esdp. */
struct probe_vm {
	__u32 esdp_current_process, process_id;
	__u32 on;
	__u32 esdp_current_port; /* 0: unknown */
	__u32 port_connected; /* 0: unknown */
	__u32 reserved;
};

_Static_assert(sizeof(struct probe_header) == 16, "header");
_Static_assert(sizeof(struct probe_switch) == 104, "switch");
_Static_assert(sizeof(struct probe_waking) == 72, "waking");
_Static_assert(sizeof(struct probe_migrate) == 32, "migrate");
_Static_assert(sizeof(struct probe_task) == 48, "task");
_Static_assert(sizeof(struct probe_sock_state) == 72, "socket state");
_Static_assert(sizeof(struct probe_sock_io) == 72, "socket io");
_Static_assert(sizeof(struct probe_sock_event) == 72, "socket event");
_Static_assert(sizeof(struct probe_sock_erlang) == 88, "socket of Erlang");
_Static_assert(sizeof(struct probe_syscall) == 88, "system call");

#endif
