/* SPDX-License-Identifier: Apache-2.0 */
/* A child serves one connection over loopback and counts; the records must count the same. */
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

struct served {
	int family;
	bool linger; /* close with a reset */
	bool wait; /* for a go between accept and the rest */
	volatile uint16_t port, client_port;
	volatile uint64_t received, sent, receives, sends;
};

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static socklen_t address_make(union address *address, int family, uint16_t port)
{
	memset(address, 0, sizeof(*address));
	address->any.sa_family = (sa_family_t)family;
	if (family == AF_INET) {
		address->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		address->v4.sin_port = htons(port);
		return sizeof(address->v4);
	}
	address->v6.sin6_addr = in6addr_loopback;
	address->v6.sin6_port = htons(port);
	return sizeof(address->v6);
}

static uint16_t port_of(int fd)
{
	union address address;
	socklen_t bytes = sizeof(address);

	CHECK(!getsockname(fd, &address.any, &bytes));
	/* the port stands at the same place in both */
	return ntohs(address.v4.sin_port);
}

static void count_receive(struct served *served, ssize_t bytes)
{
	served->receives++;
	if (bytes > 0)
		served->received += (uint64_t)bytes;
}

static void count_send(struct served *served, ssize_t bytes)
{
	CHECK(bytes > 0);
	served->sends++;
	served->sent += (uint64_t)bytes;
}

/* Every way of sending that Erlang's drivers have, and a few more. */
static void answer(struct served *served, int fd)
{
	char text[5000] = "answer";
	struct iovec parts[2] = {{text, 1000}, {text, 2000}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	struct mmsghdr messages[2] = {{.msg_hdr = message}, {.msg_hdr = message}};

	count_send(served, write(fd, text, sizeof(text)));
	count_send(served, writev(fd, parts, 2));
	count_send(served, send(fd, text, 17, 0));
	count_send(served, sendmsg(fd, &message, 0));
	/* two messages are two sends inside the kernel, and one call from outside */
	CHECK(sendmmsg(fd, messages, 2, 0) == 2);
	served->sends += 2;
	served->sent += 6000;
}

static void served_run(void *context)
{
	struct served *served = context;
	struct linger linger = {.l_onoff = 1};
	union address address;
	socklen_t bytes = address_make(&address, served->family, 0);
	int listener, fd, turn = 0;
	struct iovec part;
	char buffer[3000];
	ssize_t got = 1;

	listener = socket(served->family, SOCK_STREAM, 0);
	if (listener < 0 || bind(listener, &address.any, bytes) || listen(listener, 5))
		_exit(1);
	served->port = port_of(listener);
	child_step();
	fd = accept(listener, NULL, NULL);
	if (served->wait) {
		child_step();
		child_pause();
	}
	/* a peek leaves the bytes there: it must not count */
	CHECK(recv(fd, buffer, 100, MSG_PEEK) > 0);
	part = (struct iovec){buffer, sizeof(buffer)};
	while (got > 0) {
		struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

		switch (turn++ % 4) {
		case 0:
			got = read(fd, buffer, sizeof(buffer));
			break;
		case 1:
			got = recv(fd, buffer, 700, 0);
			break;
		case 2:
			got = recvmsg(fd, &message, 0);
			break;
		case 3:
			got = readv(fd, &part, 1);
			break;
		}
		count_receive(served, got);
	}
	if (served->linger) {
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	} else if (!got) {
		answer(served, fd);
	}
	close(fd);
	close(listener);
	child_step();
	child_pause();
}

static int client_connect(struct served *served)
{
	union address address;
	socklen_t bytes = address_make(&address, served->family, served->port);
	int fd = socket(served->family, SOCK_STREAM, 0);

	CHECK(fd >= 0 && !connect(fd, &address.any, bytes), "%s", strerror(errno));
	served->client_port = port_of(fd);
	return fd;
}

/* What the records say of the connection, the accepted socket and the listener. */
struct said {
	uint64_t received, sent, receives, sends, peer_errors;
	uint64_t connection; /* identity of the accepted socket */
	bool listening, listening_ended, accepted, established, closed, existed;
	uint64_t ready, ready_listener, reset_sent, reset_received;
	bool strangers;
};

static void said_state(struct said *said, const struct served *served,
		       const struct probe_sock_state *record)
{
	uint8_t loopback4[16] = {127, 0, 0, 1}, loopback6[16] = {[15] = 1};
	const uint8_t *loopback = served->family == AF_INET ? loopback4 : loopback6;

	if (record->family != served->family || record->local_port != served->port) {
		said->strangers = true;
		return;
	}
	CHECK(record->protocol == IPPROTO_TCP);
	CHECK(!memcmp(record->local, loopback, 16));
	if (record->old_state == record->new_state && record->old_state == TCP_ESTABLISHED) {
		said->existed = true;
		said->connection = record->sock;
	}
	if (record->new_state == TCP_LISTEN && record->remote_port == 0)
		said->listening = true;
	if (record->old_state == TCP_LISTEN && record->new_state == TCP_CLOSE)
		said->listening_ended = true;
	if (record->old_state == TCP_LISTEN && record->new_state == TCP_SYN_RECV) {
		said->accepted = true;
		said->connection = record->sock;
	}
	if (record->old_state == TCP_SYN_RECV && record->new_state == TCP_ESTABLISHED) {
		said->established = true;
		CHECK(record->sock == said->connection);
		CHECK(record->remote_port == served->client_port);
		CHECK(!memcmp(record->remote, loopback, 16));
	}
	if (record->new_state == TCP_CLOSE && record->sock == said->connection)
		said->closed = true;
}

static void said_io(struct said *said, const struct served *served,
		    const struct probe_sock_io *record, pid_t tid)
{
	if (record->tid != tid || record->local_port != served->port ||
	    record->remote_port != served->client_port) {
		said->strangers = true;
		return;
	}
	CHECK(!said->connection || record->sock == said->connection);
	if (record->result < 0) {
		said->peer_errors++;
	} else if (record->h.kind == PROBE_SOCK_SEND) {
		said->sends++;
		said->sent += (uint64_t)record->result;
	} else {
		said->receives++;
		said->received += (uint64_t)record->result;
	}
}

static void said_all(struct said *said, const struct served *served, struct records *records,
		     pid_t tid)
{
	size_t i;

	memset(said, 0, sizeof(*said));
	records_sort(records);
	for (i = 0; i < records->count; i++) {
		const struct probe_sock_event *event = (const void *)records->sorted[i];

		switch (event->h.kind) {
		case PROBE_SOCK_STATE:
			said_state(said, served, (const void *)event);
			break;
		case PROBE_SOCK_SEND:
		case PROBE_SOCK_RECV:
			said_io(said, served, (const void *)event, tid);
			break;
		case PROBE_SOCK_DATA_READY:
			if (event->sock == said->connection)
				said->ready++;
			else if (!event->remote_port && event->value <= 1)
				/* 0: it was accepted on another CPU before this was read */
				said->ready_listener++;
			break;
		case PROBE_TCP_RESET_SENT:
			said->reset_sent++;
			break;
		case PROBE_TCP_RESET_RECEIVED:
			said->reset_received++;
			break;
		}
	}
}

#define SOCKET_PROBES (BIT(KERNEL_SOCKET) | BIT(KERNEL_SOCKET_IO))

static struct kernel *socket_kernel(pid_t target, uint32_t fallback)
{
	return kernel_need(&(struct kernel_config){.wanted = SOCKET_PROBES,
						   .target = target,
						   .fallback = fallback},
			   SOCKET_PROBES);
}

/* The child receives 100,003 bytes and sends what answer() sends; the test is the peer. */
static void bytes_scenario(int family, uint32_t fallback)
{
	struct served *served = shared_alloc(sizeof(*served));
	struct records records = {};
	struct kernel *kernel;
	struct child child;
	struct said said;
	char *bytes = calloc(1, 100003);
	uint64_t got = 0;
	ssize_t part;
	int fd;

	served->family = family;
	child_start(&child, served_run, served);
	kernel = socket_kernel(child.pid, fallback);
	child_go(&child);
	child_wait_step(&child);
	fd = client_connect(served);
	CHECK(send(fd, bytes, 100003, 0) == 100003);
	CHECK(!shutdown(fd, SHUT_WR));
	while ((part = read(fd, bytes, 100003)) > 0)
		got += (uint64_t)part;
	CHECK(!part);
	close(fd);
	child_wait_step(&child);
	sleep_ms(20);
	kernel_stop(kernel);
	child_go(&child);
	child_end(&child);
	records_drain(&records, kernel);
	CHECK(!counts_check(kernel, &records));
	said_all(&said, served, &records, child.pid);
	CHECK(served->received == 100003 && served->sent == got);
	CHECK(said.received == 100003, "%llu", (unsigned long long)said.received);
	CHECK(said.receives == served->receives);
	CHECK(said.sent == got, "%llu of %llu", (unsigned long long)said.sent,
	      (unsigned long long)got);
	CHECK(said.sends == served->sends - (fallback ? 1 : 0));
	CHECK(said.listening && said.listening_ended && said.accepted && said.established);
	CHECK(said.closed && !said.strangers && !said.peer_errors);
	CHECK(said.ready >= 1 && said.ready_listener == 1, "%llu %llu",
	      (unsigned long long)said.ready, (unsigned long long)said.ready_listener);
	free(bytes);
	records_free(&records);
	kernel_close(kernel);
}

static bool ipv6_there(void)
{
	union address address;
	socklen_t bytes = address_make(&address, AF_INET6, 0);
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	bool there = fd >= 0 && !bind(fd, &address.any, bytes);

	if (fd >= 0)
		close(fd);
	return there;
}

static void scenario_bytes(void)
{
	bytes_scenario(AF_INET, 0);
	if (ipv6_there())
		bytes_scenario(AF_INET6, 0);
}

static void scenario_bytes_fallback(void)
{
	bytes_scenario(AF_INET, BIT(KERNEL_SOCKET_IO));
}

/* One side closes with data unread or with a linger time of 0, the other one sees the reset. */
static void scenario_reset(void)
{
	int by_child;

	for (by_child = 0; by_child < 2; by_child++) {
		struct served *served = shared_alloc(sizeof(*served));
		struct linger linger = {.l_onoff = 1};
		struct records records = {};
		struct kernel *kernel;
		struct child child;
		struct said said;
		int fd;

		served->family = AF_INET;
		served->linger = by_child;
		child_start(&child, served_run, served);
		kernel = socket_kernel(child.pid, 0);
		child_go(&child);
		child_wait_step(&child);
		fd = client_connect(served);
		CHECK(send(fd, "hello", 5, 0) == 5);
		if (by_child)
			CHECK(!shutdown(fd, SHUT_WR));
		else
			CHECK(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
		if (by_child)
			child_wait_step(&child);
		sleep_ms(20);
		close(fd);
		if (!by_child)
			child_wait_step(&child);
		sleep_ms(20);
		kernel_stop(kernel);
		child_go(&child);
		child_end(&child);
		records_drain(&records, kernel);
		CHECK(!counts_check(kernel, &records));
		said_all(&said, served, &records, child.pid);
		CHECK(said.reset_sent == (by_child ? 1 : 0), "%d", by_child);
		CHECK(said.reset_received == (by_child ? 0 : 1), "%d", by_child);
		CHECK(said.received == 5 && said.closed && !said.strangers);
		records_free(&records);
		kernel_close(kernel);
	}
}

/* The connection is older than the recording. */
static void scenario_existing(void)
{
	struct served *served = shared_alloc(sizeof(*served));
	struct records records = {};
	struct kernel *kernel;
	struct child child;
	struct said said;
	int fd;

	served->family = AF_INET;
	served->wait = true;
	child_start(&child, served_run, served);
	child_go(&child);
	child_wait_step(&child);
	fd = client_connect(served);
	child_wait_step(&child);
	kernel = socket_kernel(child.pid, 0);
	child_go(&child);
	CHECK(send(fd, "hello", 5, 0) == 5);
	CHECK(!shutdown(fd, SHUT_WR));
	child_wait_step(&child);
	close(fd);
	sleep_ms(20);
	kernel_stop(kernel);
	child_go(&child);
	child_end(&child);
	records_drain(&records, kernel);
	CHECK(!counts_check(kernel, &records));
	said_all(&said, served, &records, child.pid);
	CHECK(said.existed && said.listening && said.listening_ended && !said.accepted);
	CHECK(said.received == 5 && said.sent == served->sent && said.closed && !said.strangers);
	records_free(&records);
	kernel_close(kernel);
}

#define DATAGRAMS 10

static void datagrams_run(void *context)
{
	struct served *served = context;
	char bytes[2][2000];
	struct iovec parts[2] = {{bytes[0], 2000}, {bytes[1], 2000}};
	struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &parts[0], .msg_iovlen = 1}},
				      {.msg_hdr = {.msg_iov = &parts[1], .msg_iovlen = 1}}};
	union address address;
	socklen_t size = address_make(&address, AF_INET, 0);
	int fd = socket(AF_INET, SOCK_DGRAM, 0), i;

	CHECK(fd >= 0 && !bind(fd, &address.any, size));
	served->port = port_of(fd);
	child_step();
	for (i = 0; i < DATAGRAMS; i++) {
		ssize_t got = recvfrom(fd, bytes[0], 2000, 0, &address.any, &size);

		count_receive(served, got);
		CHECK(sendto(fd, bytes[0], (size_t)got, 0, &address.any, size) == got);
		served->sent += (uint64_t)got;
	}
	child_step();
	child_pause();
	CHECK(recvmmsg(fd, messages, 2, 0, NULL) == 2);
	served->received += messages[0].msg_len + messages[1].msg_len;
	CHECK(recv(fd, bytes[0], 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
}

static void datagrams_scenario(uint32_t fallback)
{
	struct served *served = shared_alloc(sizeof(*served));
	uint64_t received = 0, sent = 0, again = 0, expected = 0;
	struct records records = {};
	struct kernel *kernel;
	union address address;
	char bytes[2000] = {};
	struct child child;
	socklen_t size;
	size_t i;
	int fd;

	child_start(&child, datagrams_run, served);
	kernel = socket_kernel(child.pid, fallback);
	child_go(&child);
	child_wait_step(&child);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	size = address_make(&address, AF_INET, served->port);
	CHECK(!connect(fd, &address.any, size));
	for (i = 0; i < DATAGRAMS; i++) {
		CHECK(send(fd, bytes, 100 + i, 0) == (ssize_t)(100 + i));
		CHECK(recv(fd, bytes, sizeof(bytes), 0) == (ssize_t)(100 + i));
		expected += 100 + i;
	}
	child_wait_step(&child);
	CHECK(send(fd, bytes, 1001, 0) == 1001 && send(fd, bytes, 77, 0) == 77);
	child_go(&child);
	child_end(&child);
	close(fd);
	kernel_stop(kernel);
	records_drain(&records, kernel);
	CHECK(!counts_check(kernel, &records));
	records_sort(&records);
	for (i = 0; i < records.count; i++) {
		const struct probe_sock_io *record = (const void *)records.sorted[i];
		bool send = record->h.kind == PROBE_SOCK_SEND;

		CHECK(record->local_port == served->port && record->protocol == IPPROTO_UDP);
		if (record->h.kind != PROBE_SOCK_RECV && !send)
			continue;
		CHECK(record->tid == child.pid);
		if (record->result == -EAGAIN)
			again++;
		else
			*(send ? &sent : &received) += (uint64_t)record->result;
	}
	CHECK(sent == expected && sent == served->sent);
	CHECK(received == expected + 1078 && received == served->received);
	CHECK(again == 1 && records.by_kind[PROBE_SOCK_DATA_READY] >= DATAGRAMS);
	records_free(&records);
	kernel_close(kernel);
}

static void scenario_datagrams(void)
{
	datagrams_scenario(0);
	datagrams_scenario(BIT(KERNEL_SOCKET_IO));
}

int main(int argc, char **argv)
{
	static const struct scenario scenarios[] = {
		{"bytes", scenario_bytes},	   {"bytes_fallback", scenario_bytes_fallback},
		{"reset", scenario_reset},	   {"existing", scenario_existing},
		{"datagrams", scenario_datagrams},
	};

	return scenario_main(argc, argv, scenarios, sizeof(scenarios) / sizeof(*scenarios));
}
