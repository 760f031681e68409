/* SPDX-License-Identifier: Apache-2.0 */
#include "node.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "epmd.h"

#define SOCKETS_MAX	4096
#define LISTENERS_MAX	64
#define EPMD_TIMEOUT_MS 1000
#define NET_MAX		(64u << 20)
#define VMS_MAX		1024

/* ---- Listening sockets of a process ---- */

struct listeners {
	struct node_endpoint at[LISTENERS_MAX];
	size_t count;
	bool known; /* the process's descriptors could be read */
};

static int number_compare(const void *left, const void *right)
{
	const uint64_t *one = left, *other = right;

	return (*one > *other) - (*one < *other);
}

/* Inodes of its sockets, sorted. Returns the number or -errno. */
static ssize_t socket_inodes(pid_t pid, uint64_t *inodes, size_t max)
{
	struct dirent *entry;
	char path[PATH_MAX];
	size_t count = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	folder = opendir(path);
	if (!folder)
		return -errno;
	while (count < max && (entry = readdir(folder))) {
		char link[64];
		ssize_t bytes = readlinkat(dirfd(folder), entry->d_name, link, sizeof(link) - 1);

		if (bytes <= 0)
			continue;
		link[bytes] = 0;
		if (sscanf(link, "socket:[%" SCNu64 "]", &inodes[count]) == 1)
			count++;
	}
	closedir(folder);
	qsort(inodes, count, sizeof(*inodes), number_compare);
	return (ssize_t)count;
}

/* "0100007F" or 32 digits: words in the host's order, as the kernel prints them. */
static bool address_parse(const char *text, unsigned int port, struct node_endpoint *endpoint)
{
	uint32_t words[4];
	size_t count = strlen(text) / 8;

	memset(endpoint, 0, sizeof(*endpoint));
	if (count != 1 && count != 4)
		return false;
	for (size_t i = 0; i < count; i++)
		if (sscanf(text + 8 * i, "%8" SCNx32, &words[i]) != 1)
			return false;
	if (count == 1) {
		struct sockaddr_in *in = (struct sockaddr_in *)&endpoint->address;

		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)port);
		in->sin_addr.s_addr = words[0] ? words[0] : htonl(INADDR_LOOPBACK);
		endpoint->bytes = sizeof(*in);
	} else {
		struct sockaddr_in6 *in = (struct sockaddr_in6 *)&endpoint->address;

		in->sin6_family = AF_INET6;
		in->sin6_port = htons((uint16_t)port);
		memcpy(&in->sin6_addr, words, sizeof(words));
		if (IN6_IS_ADDR_UNSPECIFIED(&in->sin6_addr))
			in->sin6_addr = in6addr_loopback;
		endpoint->bytes = sizeof(*in);
	}
	return true;
}

static void listeners_add(struct listeners *listeners, pid_t pid, const char *table,
			  const uint64_t *inodes, size_t inode_count)
{
	char path[64], address[64];
	char *text, *line, *rest;

	snprintf(path, sizeof(path), "/proc/%d/net/%s", pid, table);
	text = text_read(path, NET_MAX, NULL);
	if (!text)
		return;
	for (line = strtok_r(text, "\n", &rest); line && listeners->count < LISTENERS_MAX;
	     line = strtok_r(NULL, "\n", &rest)) {
		unsigned int port, state;
		uint64_t inode;

		/* sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode */
		if (sscanf(line, " %*d: %63[0-9A-F]:%x %*s %x %*s %*s %*s %*u %*u %" SCNu64,
			   address, &port, &state, &inode) != 4 ||
		    state != 0x0a || !port || port > UINT16_MAX)
			continue;
		if (!bsearch(&inode, inodes, inode_count, sizeof(*inodes), number_compare))
			continue;
		if (address_parse(address, port, &listeners->at[listeners->count]))
			listeners->count++;
	}
	free(text);
}

static void listeners_find(struct listeners *listeners, pid_t pid)
{
	uint64_t *inodes = calloc(SOCKETS_MAX, sizeof(*inodes));
	ssize_t count = inodes ? socket_inodes(pid, inodes, SOCKETS_MAX) : -ENOMEM;

	memset(listeners, 0, sizeof(*listeners));
	if (count >= 0) {
		listeners->known = true;
		listeners_add(listeners, pid, "tcp", inodes, (size_t)count);
		listeners_add(listeners, pid, "tcp6", inodes, (size_t)count);
	}
	free(inodes);
}

static uint16_t endpoint_port(const struct node_endpoint *endpoint)
{
	return endpoint->address.ss_family == AF_INET6
		       ? ntohs(((const struct sockaddr_in6 *)&endpoint->address)->sin6_port)
		       : ntohs(((const struct sockaddr_in *)&endpoint->address)->sin_port);
}

static const struct node_endpoint *listeners_port(const struct listeners *listeners, uint16_t port)
{
	for (size_t i = 0; i < listeners->count; i++)
		if (endpoint_port(&listeners->at[i]) == port)
			return &listeners->at[i];
	return NULL;
}

/* ---- Names ---- */

/* A flag's argument inside the text of a variable: "-sname shop +P 100". */
static bool flag_in_text(const char *text, const char *flag, char *value, size_t bytes)
{
	size_t length = strlen(flag);

	for (const char *at = text; at && (at = strstr(at, flag)); at += length) {
		if ((at != text && at[-1] != ' ') || at[length] != ' ')
			continue;
		at += length + strspn(at + length, " ");
		snprintf(value, bytes, "%.*s", (int)strcspn(at, " "), at);
		return *value != 0;
	}
	return false;
}

static bool name_by_flags(const struct target *target, char *name, size_t bytes)
{
	static const char *const flags[] = {"-sname", "-name"};
	static const char *const variables[] = {"ERL_AFLAGS", "ERL_FLAGS", "ERL_ZFLAGS"};

	for (size_t i = 0; i < 2; i++) {
		const char *value = target_argument(target, flags[i]);

		/* With "undefined" the node gets its name from the first node that it meets. */
		if (value && strcmp(value, "undefined")) {
			snprintf(name, bytes, "%s", value);
			return true;
		}
	}
	for (size_t i = 0; i < 6; i++) {
		const char *text = target_variable(target, variables[i / 2]);

		if (text && flag_in_text(text, flags[i % 2], name, bytes))
			return true;
	}
	return false;
}

static bool alive_equal(const char *name, const char *alive)
{
	size_t bytes = strcspn(name, "@");

	return strlen(alive) == bytes && !strncmp(name, alive, bytes);
}

static uint16_t epmd_port_of(const char *text)
{
	long port = text ? strtol(text, NULL, 10) : 0;

	return port > 0 && port <= UINT16_MAX ? (uint16_t)port : EPMD_PORT;
}

static void endpoint_add(struct node *node, const struct node_endpoint *endpoint)
{
	if (node->endpoint_count < NODE_ENDPOINTS)
		node->endpoints[node->endpoint_count++] = *endpoint;
}

static void endpoint_add_port(struct node *node, uint16_t port)
{
	struct node_endpoint endpoint = {.bytes = sizeof(struct sockaddr_in)};
	struct sockaddr_in *in = (struct sockaddr_in *)&endpoint.address;

	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	endpoint_add(node, &endpoint);
}

/* What epmd says of this process: the entry with its name, or with one of its ports. */
static void endpoints_by_epmd(const struct target *target, const struct listeners *listeners,
			      struct node *node)
{
	struct epmd_node *known = calloc(EPMD_NODES, sizeof(*known));
	/* The emulator's launcher passes the variable on as this flag, which others may read as well. */
	uint16_t epmd = epmd_port_of(target_argument(target, "-epmd_port"));
	int count = known ? epmd_nodes(epmd, known, EPMD_NODES, EPMD_TIMEOUT_MS) : 0;

	for (int i = 0; i < count; i++) {
		const struct node_endpoint *listener = listeners_port(listeners, known[i].port);
		bool same_name = *node->name && alive_equal(node->name, known[i].alive);

		if (listeners->known ? !listener : !same_name)
			continue;
		if (*node->name && !same_name)
			continue;
		if (!*node->name)
			snprintf(node->name, sizeof(node->name), "%s", known[i].alive);
		if (listener)
			endpoint_add(node, listener);
		else
			endpoint_add_port(node, known[i].port);
		break;
	}
	free(known);
}

int node_find(const struct target *target, uint32_t without, struct node *node, struct fault *fault)
{
	const char *protocol = target_argument(target, "-proto_dist");
	const char *fixed = target_argument(target, "-erl_epmd_port");
	const char *release = target_variable(target, "RELEASE_NODE");
	struct listeners *listeners = malloc(sizeof(*listeners));

	memset(node, 0, sizeof(*node));
	if (!listeners)
		return fault_set(fault, -ENOMEM, NULL, "out of memory");
	if (!(without & WITHOUT_CMDLINE))
		node->named = name_by_flags(target, node->name, sizeof(node->name));
	if (protocol && strcmp(protocol, "inet_tcp") && strcmp(protocol, "inet6_tcp")) {
		free(listeners);
		return fault_set(
			fault, -EPROTONOSUPPORT, NULL,
			"the node's distribution runs over %.60s, which is not spoken here",
			protocol);
	}
	listeners_find(listeners, target->pid);
	if (!(without & WITHOUT_EPMD))
		endpoints_by_epmd(target, listeners, node);
	if (!node->endpoint_count && fixed && epmd_port_of(fixed) != EPMD_PORT)
		endpoint_add_port(node, epmd_port_of(fixed));
	/* epmd does not know it: a node that has a name listens on one of its sockets. */
	if (!node->endpoint_count && (node->named || release || (without & WITHOUT_EPMD)))
		for (size_t i = 0; i < listeners->count; i++)
			endpoint_add(node, &listeners->at[i]);
	if (!*node->name && release)
		snprintf(node->name, sizeof(node->name), "%s", release);
	if (node->endpoint_count) {
		free(listeners);
		return 0;
	}
	if (!listeners->known && !node->named)
		fault_set(fault, -EACCES, "run as root or as the VM's user",
			  "the sockets of process %d may not be seen, and its name is not known",
			  target->pid);
	else
		fault_set(fault, -ENOTCONN, NULL,
			  node->named ? "the node %.300s listens nowhere (yet)"
				      : "the VM is not distributed (no -sname, no -name)%.0s",
			  node->name);
	free(listeners);
	return fault->error;
}

/* ---- From a name to a process ---- */

/* A VM that listens on the port that epmd has for the name. */
static pid_t process_by_epmd(const char *name, const pid_t *pids, size_t count)
{
	struct epmd_node *known = calloc(EPMD_NODES, sizeof(*known));
	struct listeners *listeners = malloc(sizeof(*listeners));
	uint16_t epmd = epmd_port_of(getenv("ERL_EPMD_PORT"));
	pid_t found = 0;
	int nodes = known && listeners ? epmd_nodes(epmd, known, EPMD_NODES, EPMD_TIMEOUT_MS) : 0;

	for (int i = 0; i < nodes && !found; i++) {
		if (!alive_equal(name, known[i].alive))
			continue;
		for (size_t vm = 0; vm < count && !found; vm++) {
			listeners_find(listeners, pids[vm]);
			if (listeners_port(listeners, known[i].port))
				found = pids[vm];
		}
	}
	free(listeners);
	free(known);
	return found;
}

/* Do two node names agree as far as both are given? */
static bool name_matches(const char *wanted, const char *name)
{
	const char *host = strchr(wanted, '@'), *other = strchr(name, '@');
	size_t bytes = strcspn(wanted, "@");

	if (strcspn(name, "@") != bytes || strncmp(wanted, name, bytes))
		return false;
	return !host || !other || !strcmp(host, other);
}

static size_t processes_by_flags(const char *name, const pid_t *pids, size_t count, pid_t *found)
{
	char other[NODE_NAME_BYTES];
	size_t matches = 0;
	struct target vm;
	struct fault none;

	for (size_t i = 0; i < count; i++) {
		if (target_open(&vm, pids[i], false, &none))
			continue;
		if (name_by_flags(&vm, other, sizeof(other)) && name_matches(name, other)) {
			matches++;
			*found = pids[i];
		}
		target_close(&vm);
	}
	return matches;
}

int node_process(const char *name, uint32_t without, pid_t *pid, struct fault *fault)
{
	pid_t *pids = calloc(VMS_MAX, sizeof(*pids));
	size_t count, matches = 0;

	if (!pids)
		return fault_set(fault, -ENOMEM, NULL, "out of memory");
	count = target_find_all(pids, VMS_MAX);
	*pid = 0;
	if (!(without & WITHOUT_CMDLINE))
		matches = processes_by_flags(name, pids, count, pid);
	if (matches != 1 && !(without & WITHOUT_EPMD)) {
		pid_t by_epmd = process_by_epmd(name, pids, count);

		if (by_epmd) {
			*pid = by_epmd;
			matches = 1;
		}
	}
	free(pids);
	if (matches == 1)
		return 0;
	if (matches)
		return fault_set(fault, -ENOTUNIQ, "give the process id: -p PID",
				 "%zu VMs of this host are called %.300s", matches, name);
	return fault_set(fault, -ENOENT, "see the nodes that run: epmd -names; pgrep -a beam",
			 "no node %.300s runs on this host", name);
}
