/* SPDX-License-Identifier: Apache-2.0 */
#include "sockets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "page.h"
#include "table.h"
#include "units.h"

struct sockets {
	struct report *report;
	struct socket_totals *sockets;
	size_t count, room;
};

char *socket_address(char buffer[static SOCKET_ADDRESS], uint16_t family, const uint8_t *address,
		     uint16_t port)
{
	char text[INET6_ADDRSTRLEN] = "?";

	if (family == AF_INET || family == AF_INET6)
		inet_ntop(family, address, text, sizeof(text));
	snprintf(buffer, SOCKET_ADDRESS, family == AF_INET6 ? "[%s]:%u" : "%s:%u", text, port);
	return buffer;
}

static const char *family_name(uint16_t family)
{
	return family == AF_INET ? "inet" : family == AF_INET6 ? "inet6" : "other";
}

static const char *state_name(const struct socket_totals *socket)
{
	static const char *const names[] = {NULL,	   "established", "syn_sent",  "syn_recv",
					    "fin_wait1",   "fin_wait2",	  "time_wait", "close",
					    "close_wait",  "last_ack",	  "listen",    "closing",
					    "new_syn_recv"};

	if (socket->protocol && socket->protocol != IPPROTO_TCP)
		return NULL;
	return socket->state < sizeof(names) / sizeof(names[0]) ? names[socket->state] : NULL;
}

static void on_socket(void *context, const struct socket_totals *totals)
{
	struct sockets *sockets = context;
	struct report *report = sockets->report;

	if (!section_inside(report, totals->opened_ns,
			    totals->closed_ns ? totals->closed_ns : UINT64_MAX))
		return;
	if (sockets->count == sockets->room) {
		size_t room = sockets->room ? sockets->room * 2 : 64;
		struct socket_totals *grown = realloc(sockets->sockets, room * sizeof(*grown));

		if (!grown) {
			section_failed(report, -ENOMEM);
			return;
		}
		sockets->sockets = grown;
		sockets->room = room;
	}
	sockets->sockets[sockets->count++] = *totals;
}

static void *sockets_open(struct report *report, struct timeline_sink *sink)
{
	struct sockets *sockets = calloc(1, sizeof(*sockets));

	if (!sockets)
		return NULL;
	sockets->report = report;
	sink->context = sockets;
	sink->socket = on_socket;
	return sockets;
}

static void sockets_close(void *state)
{
	struct sockets *sockets = state;

	free(sockets->sockets);
	free(sockets);
}

static int socket_compare(const void *a, const void *b)
{
	const struct socket_totals *left = a, *right = b;
	uint64_t left_bytes = left->sent_bytes + left->received_bytes;
	uint64_t right_bytes = right->sent_bytes + right->received_bytes;

	if (left_bytes != right_bytes)
		return left_bytes < right_bytes ? 1 : -1;
	if (left->opened_ns != right->opened_ns)
		return left->opened_ns < right->opened_ns ? -1 : 1;
	return (left->sock > right->sock) - (left->sock < right->sock);
}

size_t sockets_all(void *state, const struct socket_totals **list)
{
	struct sockets *sockets = state;

	if (sockets->count)
		qsort(sockets->sockets, sockets->count, sizeof(*sockets->sockets), socket_compare);
	*list = sockets->sockets;
	return sockets->count;
}

static json_t *moment_json(uint64_t ts_ns)
{
	return ts_ns ? section_json_number(ts_ns) : json_null();
}

static json_t *socket_json(struct report *report, const struct socket_totals *socket)
{
	json_t *object = json_object();
	char address[SOCKET_ADDRESS];
	const struct {
		const char *key;
		uint64_t value;
	} numbers[] = {{"sent_bytes", socket->sent_bytes},
		       {"received_bytes", socket->received_bytes},
		       {"sends", socket->sends},
		       {"receives", socket->receives},
		       {"retransmits", socket->retransmits},
		       {"resets", socket->resets},
		       {"errors", socket->errors},
		       {"accept_wait_ns", socket->accept_wait_ns}};

	json_object_set_new(object, "family", json_string(family_name(socket->family)));
	json_object_set_new(object, "protocol", json_integer(socket->protocol));
	json_object_set_new(object, "local",
			    json_string(socket_address(address, socket->family, socket->local,
						       socket->local_port)));
	json_object_set_new(object, "remote",
			    json_string(socket_address(address, socket->family, socket->remote,
						       socket->remote_port)));
	json_object_set_new(object, "erlang_port",
			    section_json_process(report, socket->erlang_port));
	json_object_set_new(object, "owner", section_json_process(report, socket->owner));
	json_object_set_new(object, "owner_name",
			    socket->owner ? section_json_text(trace_process_name(
						    report->trace, socket->owner, report->to_ns))
					  : json_null());
	json_object_set_new(object, "state", section_json_text(state_name(socket)));
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		json_object_set_new(object, numbers[i].key, section_json_number(numbers[i].value));
	json_object_set_new(object, "opened_ns", moment_json(socket->opened_ns));
	json_object_set_new(object, "closed_ns", moment_json(socket->closed_ns));
	return object;
}

static json_t *sockets_json(void *state)
{
	struct sockets *sockets = state;
	const struct socket_totals *list;
	json_t *array = json_array();
	size_t count = sockets_all(sockets, &list);

	for (size_t i = 0; i < count && i < section_limit(sockets->report); i++)
		json_array_append_new(array, socket_json(sockets->report, &list[i]));
	return json_pack("{s:o,s:b}", "sockets", array, "recorded",
			 sockets->report->coverage.looks[LOOK_SOCKET].on ||
				 sockets->report->coverage.looks[LOOK_SOCKET_IO].on);
}

static int sockets_text(void *state, FILE *out)
{
	static const struct table_column columns[] = {
		{"LOCAL", TABLE_FLEX_LATE},   {"REMOTE", TABLE_FLEX_LATE}, {"STATE", TABLE_LEFT},
		{"SENT", TABLE_RIGHT},	      {"RECEIVED", TABLE_RIGHT},   {"RETRANS", TABLE_RIGHT},
		{"ACCEPT WAIT", TABLE_RIGHT}, {"OWNER", TABLE_FLEX},	   {NULL, 0}};
	struct sockets *sockets = state;
	struct report *report = sockets->report;
	const struct socket_totals *list;
	size_t count = sockets_all(sockets, &list), limit = section_limit(report);
	struct table *table;
	int error = 0;

	fputc('\n', out);
	if (!count) {
		section_nothing(report, out, LOOK_SOCKET);
		return 0;
	}
	if (!report->coverage.looks[LOOK_SOCKET_IO].on)
		section_nothing(report, out, LOOK_SOCKET_IO);
	page_print(out, 0, 2, "Sockets, most bytes first%s",
		   report->whole ? ""
				 : " (alive in the window; figures are of the whole recording)");
	table = table_new(columns);
	if (!table)
		return -ENOMEM;
	for (size_t i = 0; i < count && i < limit; i++) {
		const struct socket_totals *socket = &list[i];
		const char *name = state_name(socket);
		char address[SOCKET_ADDRESS];
		uint64_t owner = socket->owner ? socket->owner : socket->erlang_port;

		table_cell(
			table, "%s",
			socket_address(address, socket->family, socket->local, socket->local_port));
		table_cell(table, "%s",
			   socket->remote_port ? socket_address(address, socket->family,
								socket->remote, socket->remote_port)
					       : "");
		table_cell(table, "%s", name ? name : "");
		table_cell(table, "%s", UNITS_BYTES(socket->sent_bytes));
		table_cell(table, "%s", UNITS_BYTES(socket->received_bytes));
		table_cell(table, "%s",
			   socket->retransmits ? UNITS_COUNT(socket->retransmits) : "");
		table_cell(table, "%s",
			   socket->accept_wait_ns ? UNITS_DURATION(socket->accept_wait_ns) : "");
		table_cell(table, "%s", SECTION_NAME(report, owner, report->to_ns));
	}
	error = table_print(table, out, 2);
	section_left_out(out, limit, count, "sockets");
	table_free(table);
	return error;
}

const struct section section_sockets = {.name = "sockets",
					.about = "connections: bytes, retransmits, waits",
					.open = sockets_open,
					.json = sockets_json,
					.text = sockets_text,
					.close = sockets_close};
