/* SPDX-License-Identifier: Apache-2.0 */
#include "epmd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

#define ANSWER_MAX 65536

static int64_t clock_ms(void)
{
	return (int64_t)(clock_ns() / 1000000);
}

static int socket_wait(int fd, short events, int64_t deadline_ms)
{
	struct pollfd ready = {.fd = fd, .events = events};
	int64_t left;
	int result;

	do {
		left = deadline_ms - clock_ms();
		result = poll(&ready, 1, left > 0 ? (int)left : 0);
	} while (result < 0 && errno == EINTR);
	if (result < 0)
		return -errno;
	return result ? 0 : -ETIMEDOUT;
}

static int epmd_connect(uint16_t port, int64_t deadline_ms)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons(port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(int);
	int error = 0, fd;

	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	error = -errno;
	if (error == -EINPROGRESS) {
		error = socket_wait(fd, POLLOUT, deadline_ms);
		if (!error && (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) || error))
			error = -(error ? error : errno);
		if (!error)
			return fd;
	}
	close(fd);
	return error;
}

/* "name NAME at port PORT\n", one line a node. */
static int nodes_parse(char *text, struct epmd_node *nodes, size_t max)
{
	size_t count = 0;
	char *line, *rest;

	for (line = strtok_r(text, "\n", &rest); line && count < max;
	     line = strtok_r(NULL, "\n", &rest)) {
		unsigned int port;

		if (sscanf(line, "name %255s at port %u", nodes[count].alive, &port) == 2 && port &&
		    port <= UINT16_MAX)
			nodes[count++].port = (uint16_t)port;
	}
	return (int)count;
}

int epmd_nodes(uint16_t epmd_port, struct epmd_node *nodes, size_t max, unsigned int timeout_ms)
{
	/* NAMES_REQ: a length and the letter; answered by epmd's own port and the text, then closed. */
	static const uint8_t request[] = {0, 1, 'n'};
	int64_t deadline_ms = clock_ms() + timeout_ms;
	char *answer = NULL;
	size_t used = 0;
	int result, fd;

	fd = epmd_connect(epmd_port, deadline_ms);
	if (fd < 0)
		return fd;
	answer = malloc(ANSWER_MAX + 1);
	if (!answer) {
		result = -ENOMEM;
		goto out;
	}
	if (send(fd, request, sizeof(request), MSG_NOSIGNAL) != sizeof(request)) {
		result = -EIO;
		goto out;
	}
	while (used < ANSWER_MAX) {
		ssize_t got;

		result = socket_wait(fd, POLLIN, deadline_ms);
		if (result)
			goto out;
		got = recv(fd, answer + used, ANSWER_MAX - used, 0);
		if (got < 0 && errno != EINTR && errno != EAGAIN) {
			result = -errno;
			goto out;
		}
		if (!got)
			break;
		if (got > 0)
			used += (size_t)got;
	}
	answer[used] = 0;
	result = used > 4 ? nodes_parse(answer + 4, nodes, max) : 0;
out:
	free(answer);
	close(fd);
	return result;
}
