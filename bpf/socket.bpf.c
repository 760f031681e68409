/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What happens to the target's internet sockets. */

#include "output.bpf.h"
#include "vm.bpf.h"

#include <bpf/bpf_endian.h>

#define AF_INET	 2
#define AF_INET6 10

/* net/tcp_states.h */
#define TCP_ESTABLISHED 1
#define TCP_SYN_RECV	3
#define TCP_CLOSE	7
#define TCP_LISTEN	10

#define MSG_PEEK     0x2
#define MSG_ERRQUEUE 0x2000

#define S_IFMT	 0170000
#define S_IFSOCK 0140000

#define EINTR	    4
#define ERESTARTSYS 512

const volatile bool record_states = true; /* false: they only keep the set of sockets */

/*
 * The target's sockets by address, so that what happens to them in interrupts is seen. A process
 * with more sockets than this loses sight of those that were quiet longest until they are used.
 */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, u64); /* of whom it was last told whose it is; see sock_erlang() */
} socks SEC(".maps");

struct port {
	u64 net; /* address of the network namespace */
	u32 number;
	u32 reserved;
};

/* Where the target listens; the value is how many of its sockets do. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct port);
	__type(value, u32);
} listeners SEC(".maps");

static __always_inline bool sock_inet(struct sock *sk)
{
	u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	return family == AF_INET || family == AF_INET6;
}

static __always_inline bool sock_known(struct sock *sk)
{
	u64 key = (u64)sk;

	return bpf_map_lookup_elem(&socks, &key);
}

static __always_inline void sock_learn(struct sock *sk)
{
	u64 key = (u64)sk, nobody = 0;

	if (!bpf_map_lookup_elem(&socks, &key))
		bpf_map_update_elem(&socks, &key, &nobody, BPF_ANY);
}

static __always_inline void sock_forget(struct sock *sk)
{
	u64 key = (u64)sk;

	bpf_map_delete_elem(&socks, &key);
}

/*
 * Is it the target that acts on this socket? The current task alone does not tell: an interrupt, and
 * on the loopback device the whole receiving side, runs in the name of whoever was there. But then
 * the socket is not owned by a task: what comes for one that is waits in its backlog.
 */
static __always_inline bool sock_used_by_target(struct sock *sk)
{
	return BPF_CORE_READ(sk, sk_lock.owned) && target_has(bpf_get_current_pid_tgid() >> 32);
}

static __always_inline void port_key(struct port *port, struct sock *sk)
{
	port->net = (u64)BPF_CORE_READ(sk, __sk_common.skc_net.net);
	port->number = BPF_CORE_READ(sk, __sk_common.skc_num);
	port->reserved = 0;
}

static __always_inline bool listener_has(struct sock *sk)
{
	struct port port;

	port_key(&port, sk);
	return bpf_map_lookup_elem(&listeners, &port);
}

static __always_inline void listener_count(struct sock *sk, u32 port_number, int change)
{
	u32 *count, one = 1;
	struct port port;

	port_key(&port, sk);
	port.number = port_number;
	count = bpf_map_lookup_elem(&listeners, &port);
	if (count && change < 0 && *count <= 1)
		bpf_map_delete_elem(&listeners, &port);
	else if (count) /* another CPU may count one of the same port at the same time */
		__sync_fetch_and_add(count, change);
	else if (change > 0)
		bpf_map_update_elem(&listeners, &port, &one, BPF_ANY);
}

/* skc_num is 0 again once a socket is closed, inet_sport is not set yet when it begins to listen. */
static __always_inline u16 sock_local_port(struct sock *sk)
{
	struct inet_sock *inet = (void *)sk;
	u16 port = BPF_CORE_READ(sk, __sk_common.skc_num);

	return port ? port : bpf_ntohs(BPF_CORE_READ(inet, inet_sport));
}

/* The fields that the three socket records have by the same names. */
#define SOCK_DESCRIBE(record, sk)                                                                  \
	do {                                                                                       \
		(record)->sock = (u64)(sk);                                                        \
		(record)->family = BPF_CORE_READ(sk, __sk_common.skc_family);                      \
		(record)->protocol = BPF_CORE_READ(sk, sk_protocol);                               \
		(record)->local_port = sock_local_port(sk);                                        \
		(record)->remote_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));       \
		sock_addresses(sk, (record)->family, (record)->local, (record)->remote);           \
	} while (0)

static __always_inline void sock_addresses(struct sock *sk, u16 family, u8 *local, u8 *remote)
{
	__builtin_memset(local, 0, PROBE_ADDRESS);
	__builtin_memset(remote, 0, PROBE_ADDRESS);
	if (family == AF_INET) {
		bpf_core_read(local, 4, &sk->__sk_common.skc_rcv_saddr);
		bpf_core_read(remote, 4, &sk->__sk_common.skc_daddr);
	} else if (bpf_core_field_exists(sk->__sk_common.skc_v6_daddr)) {
		bpf_core_read(local, 16, &sk->__sk_common.skc_v6_rcv_saddr);
		bpf_core_read(remote, 16, &sk->__sk_common.skc_v6_daddr);
	}
}

static __always_inline void state_record(struct sock *sk, u8 old_state, u8 new_state, s32 tid)
{
	struct probe_sock_state *record;

	if (!record_states)
		return;
	record = record_reserve(bpf_ktime_get_ns(), PROBE_SOCK_STATE, sizeof(*record));
	if (!record)
		return;
	record->tid = tid;
	record->old_state = old_state;
	record->new_state = new_state;
	record->reserved = 0;
	SOCK_DESCRIBE(record, sk);
	record_commit(record);
}

/*
 * Whose socket it is: the thread of the VM that uses it now is executing its port. Told again when the
 * sum of both words is another one.
 */
static __always_inline void sock_erlang(struct sock *sk)
{
	struct probe_sock_erlang *record;
	u64 key = (u64)sk, port, owner = 0, *told;
	u32 tid = bpf_get_current_pid_tgid();

	if (!read_process)
		return;
	told = bpf_map_lookup_elem(&socks, &key);
	if (!told)
		return;
	port_read(tid, &port, &owner);
	if (!port && !*told)
		process_read(tid, &owner);
	if ((!port && !owner) || *told == port + owner)
		return;
	record = record_reserve(bpf_ktime_get_ns(), PROBE_SOCK_ERLANG, sizeof(*record));
	if (!record)
		return;
	record->event.tid = tid;
	record->event.value = BPF_CORE_READ(sk, __sk_common.skc_state);
	record->port = port;
	record->owner = owner;
	SOCK_DESCRIBE(&record->event, sk);
	record_commit(record);
	*told = port + owner;
}

SEC("raw_tp/inet_sock_set_state")
int sock_state(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	u32 old_state = (u32)ctx[1], new_state = (u32)ctx[2];
	bool accepted = old_state == TCP_LISTEN && new_state == TCP_SYN_RECV;
	bool used = sock_used_by_target(sk);

	if (old_state == TCP_CLOSE || accepted) {
		/* a socket's birth: what is known by this address was another one */
		if (!used && !(accepted && listener_has(sk))) {
			sock_forget(sk);
			return 0;
		}
	} else if (!used && !sock_known(sk)) {
		return 0;
	}
	/* before it is forgotten, and told as the same socket */
	if (used && record_states)
		sock_erlang(sk);
	state_record(sk, old_state, new_state, used ? (u32)bpf_get_current_pid_tgid() : 0);
	if (new_state == TCP_CLOSE)
		sock_forget(sk);
	else
		sock_learn(sk);
	if (new_state == TCP_LISTEN)
		listener_count(sk, sock_local_port(sk), 1);
	else if (old_state == TCP_LISTEN && !accepted)
		listener_count(sk, sock_local_port(sk), -1);
	return 0;
}

/* The sockets that the target has already, as records of a state that does not change. */
SEC("iter/task_file")
int sock_existing(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket *socket;
	struct sock *sk;
	u8 state;

	if (!task || !file || !target_has(task->tgid))
		return 0;
	if ((BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return 0;
	socket = BPF_CORE_READ(file, private_data);
	sk = BPF_CORE_READ(socket, sk);
	if (!sk || !sock_inet(sk) || sock_known(sk))
		return 0;
	sock_learn(sk);
	state = BPF_CORE_READ(sk, __sk_common.skc_state);
	if (state == TCP_LISTEN)
		listener_count(sk, sock_local_port(sk), 1);
	state_record(sk, state, state, 0);
	return 0;
}

static __always_inline int event_record(struct sock *sk, u32 kind, u32 value)
{
	struct probe_sock_event *record;

	record = record_reserve(bpf_ktime_get_ns(), kind, sizeof(*record));
	if (!record)
		return 0;
	record->tid = sock_used_by_target(sk) ? (u32)bpf_get_current_pid_tgid() : 0;
	record->value = value;
	SOCK_DESCRIBE(record, sk);
	record_commit(record);
	return 0;
}

SEC("raw_tp/tcp_retransmit_skb")
int sock_retransmit(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];

	if (!sock_known(sk))
		return 0;
	return event_record(sk, PROBE_TCP_RETRANSMIT, BPF_CORE_READ(sk, __sk_common.skc_state));
}

SEC("raw_tp/tcp_send_reset")
int sock_reset_sent(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];

	/* NULL: the answer to a segment for which there is no socket; an abort closes first */
	if (!sk || (!sock_known(sk) && !sock_used_by_target(sk)))
		return 0;
	return event_record(sk, PROBE_TCP_RESET_SENT, BPF_CORE_READ(sk, __sk_common.skc_state));
}

SEC("raw_tp/tcp_receive_reset")
int sock_reset_received(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];

	if (!sock_known(sk))
		return 0;
	return event_record(sk, PROBE_TCP_RESET_RECEIVED, BPF_CORE_READ(sk, __sk_common.skc_state));
}

SEC("raw_tp/sk_data_ready")
int sock_data_ready(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	u32 value = 0;

	if (!sock_known(sk))
		return 0;
	if (BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_LISTEN)
		value = BPF_CORE_READ(sk, sk_ack_backlog);
	return event_record(sk, PROBE_SOCK_DATA_READY, value);
}

static __always_inline int io_record(struct sock *sk, u32 kind, s32 result)
{
	struct probe_sock_io *record;

	if (!sock_inet(sk))
		return 0;
	sock_learn(sk);
	sock_erlang(sk);
	record = record_reserve(bpf_ktime_get_ns(), kind, sizeof(*record));
	if (!record)
		return 0;
	record->tid = (u32)bpf_get_current_pid_tgid();
	/* -ERESTARTSYS and its kin are the kernel's own: a signal came */
	record->result = result <= -ERESTARTSYS ? -EINTR : result;
	SOCK_DESCRIBE(record, sk);
	record_commit(record);
	return 0;
}

/* A peek takes nothing out, and the error queue holds what was sent. */
static __always_inline bool io_counts(u32 flags)
{
	return !(flags & (MSG_PEEK | MSG_ERRQUEUE));
}

/* Once a call of any of the sending kind, 6.3. */
SEC("raw_tp/sock_send_length")
int sock_send(u64 *ctx)
{
	if (!target_has(bpf_get_current_pid_tgid() >> 32))
		return 0;
	return io_record((void *)ctx[0], PROBE_SOCK_SEND, (s32)ctx[1]);
}

SEC("raw_tp/sock_recv_length")
int sock_recv(u64 *ctx)
{
	if (!target_has(bpf_get_current_pid_tgid() >> 32) || !io_counts((u32)ctx[2]))
		return 0;
	return io_record((void *)ctx[0], PROBE_SOCK_RECV, (s32)ctx[1]);
}

/* Before 6.3: the same from the exits of the system calls. */
#if defined(__TARGET_ARCH_x86)
enum io_call {
	IO_READ = 0,
	IO_WRITE = 1,
	IO_READV = 19,
	IO_WRITEV = 20,
	IO_SENDFILE = 40,
	IO_SENDTO = 44,
	IO_RECVFROM = 45,
	IO_SENDMSG = 46,
	IO_RECVMSG = 47,
	IO_RECVMMSG = 299,
	IO_SENDMMSG = 307,
};
#define REGS_CALL(regs)	  ((s32)BPF_CORE_READ(regs, orig_ax))
#define REGS_FIRST(regs)  BPF_CORE_READ(regs, di)
#define REGS_SECOND(regs) BPF_CORE_READ(regs, si)
#define REGS_THIRD(regs)  BPF_CORE_READ(regs, dx)
#define REGS_FOURTH(regs) BPF_CORE_READ(regs, r10)
#else
enum io_call {
	IO_READ = 63,
	IO_WRITE = 64,
	IO_READV = 65,
	IO_WRITEV = 66,
	IO_SENDFILE = 71,
	IO_SENDTO = 206,
	IO_RECVFROM = 207,
	IO_SENDMSG = 211,
	IO_RECVMSG = 212,
	IO_RECVMMSG = 243,
	IO_SENDMMSG = 269,
};
#define REGS_CALL(regs)	  BPF_CORE_READ(regs, syscallno)
#define REGS_FIRST(regs)  BPF_CORE_READ(regs, orig_x0)
#define REGS_SECOND(regs) BPF_CORE_READ(regs, regs[1])
#define REGS_THIRD(regs)  BPF_CORE_READ(regs, regs[2])
#define REGS_FOURTH(regs) BPF_CORE_READ(regs, regs[3])
#endif

/* The socket behind a descriptor of the current task; NULL: it is none. */
static __always_inline struct sock *descriptor_sock(u32 fd)
{
	struct task_struct *task = (void *)bpf_get_current_task();
	struct fdtable *table = BPF_CORE_READ(task, files, fdt);
	struct file **files = BPF_CORE_READ(table, fd);
	struct socket *socket;
	struct file *file;

	if (fd >= BPF_CORE_READ(table, max_fds))
		return NULL;
	if (bpf_probe_read_kernel(&file, sizeof(file), files + fd) || !file)
		return NULL;
	if ((BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return NULL;
	socket = BPF_CORE_READ(file, private_data);
	return BPF_CORE_READ(socket, sk);
}

/* The bytes of sendmmsg() and recvmmsg(), which return a number of messages (struct mmsghdr). */
#define MMSG_MAX       64
#define MMSG_BYTES     64
#define MMSG_LENGTH_AT 56
static __always_inline s32 mmsg_bytes(u64 messages, s32 count)
{
	u32 bytes, sum = 0;
	s32 i;

	for (i = 0; i < MMSG_MAX && i < count; i++) {
		if (bpf_probe_read_user(&bytes, sizeof(bytes),
					(void *)(messages + i * MMSG_BYTES + MMSG_LENGTH_AT)))
			break;
		sum += bytes;
	}
	return sum;
}

SEC("raw_tp/sys_exit")
int sock_syscall(u64 *ctx)
{
	struct pt_regs *regs = (void *)ctx[0];
	u32 kind = PROBE_SOCK_RECV, flags = 0;
	s64 result = (s64)ctx[1];
	struct sock *sk;
	s32 call;

	if (!target_has(bpf_get_current_pid_tgid() >> 32))
		return 0;
	call = REGS_CALL(regs);
	switch (call) {
	case IO_READ:
	case IO_READV:
		break;
	case IO_RECVMSG:
		flags = REGS_THIRD(regs);
		break;
	case IO_RECVFROM:
	case IO_RECVMMSG:
		flags = REGS_FOURTH(regs);
		break;
	case IO_WRITE:
	case IO_WRITEV:
	case IO_SENDFILE:
	case IO_SENDTO:
	case IO_SENDMSG:
	case IO_SENDMMSG:
		kind = PROBE_SOCK_SEND;
		break;
	default:
		return 0;
	}
	if (kind == PROBE_SOCK_RECV && !io_counts(flags))
		return 0;
	sk = descriptor_sock(REGS_FIRST(regs));
	if (!sk)
		return 0;
	if (result > 0 && (call == IO_RECVMMSG || call == IO_SENDMMSG))
		result = mmsg_bytes(REGS_SECOND(regs), (s32)result);
	return io_record(sk, kind, (s32)result);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
