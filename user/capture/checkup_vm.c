/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <ei.h>

#include "attach.h"
#include "checkup.h"
#include "clock.h"
#include "door.h"
#include "node.h"
#include "place.h"
#include "reply.h"
#include "start.h"

#define MB	   1000000ull
#define TEXT_BYTES 512

/* ---- What the node says ---- */

/* Module:Function(Atoms...) as Erlang text. False: it could not be asked. */
static bool node_ask(struct door *door, const char *module, const char *function,
		     const char *const *atoms, char text[static TEXT_BYTES])
{
	ei_x_buff arguments, reply;
	struct fault fault;
	int index = 0;
	bool answered = false;
	long count = 0;

	*text = 0;
	if (ei_x_new(&arguments))
		return false;
	if (ei_x_new(&reply)) {
		ei_x_free(&arguments);
		return false;
	}
	while (atoms[count])
		count++;
	if (count)
		ei_x_encode_list_header(&arguments, count);
	for (long i = 0; i < count; i++)
		ei_x_encode_atom(&arguments, atoms[i]);
	ei_x_encode_empty_list(&arguments);
	if (!door_call(door, module, function, &arguments, &reply, &index, &fault)) {
		term_text(reply.buff, index, text, TEXT_BYTES);
		answered = true;
	}
	ei_x_free(&arguments);
	ei_x_free(&reply);
	return answered;
}

#define ATOMS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void vm_backends(struct checkup *checkup, struct door *door, const struct start_info *info)
{
	int release = atoi(info->otp_release);
	char flavor[TEXT_BYTES];

	node_ask(door, "erlang", "system_info", ATOMS("emu_flavor"), flavor);
	if (release < 25)
		checkup_add(checkup, "vm", "OTP", CHECKUP_MISSING, "run OTP 25 or newer",
			    "OTP %.15s is older than 25", info->otp_release);
	else
		checkup_add(
			checkup, "vm", "OTP", CHECKUP_OK, NULL,
			"OTP %.15s (%.20s), %ld schedulers, %ld processes; tracers: nif, port%s",
			info->otp_release, flavor, info->schedulers, info->processes,
			release >= 27 ? ", and trace sessions of their own" : "");
}

/* On OTP 25 a process has one tracer: whoever has it keeps others out. */
static void vm_tracers(struct checkup *checkup, struct door *door)
{
	char tracer[TEXT_BYTES], ours[TEXT_BYTES];

	node_ask(door, "erlang", "whereis", ATOMS("beamweave_controller"), ours);
	if (*ours && strcmp(ours, "undefined"))
		checkup_add(checkup, "vm", "recording", CHECKUP_MISSING,
			    "wait for its end, or in the VM's shell: beamweave:stop()",
			    "beamweave records this VM already (%.60s)", ours);
	node_ask(door, "erlang", "trace_info", ATOMS("new_processes", "tracer"), tracer);
	if (!*tracer)
		return;
	if (!strcmp(tracer, "{tracer, []}"))
		checkup_add(checkup, "vm", "tracer", CHECKUP_OK, NULL,
			    "no other tool traces new processes");
	else
		checkup_add(checkup, "vm", "tracer", CHECKUP_MISSING,
			    "end the other tool, in the VM's shell: dbg:stop()",
			    "new processes have a tracer already: %.200s", tracer);
}

static void vm_clock(struct checkup *checkup, struct door *door)
{
	char source[TEXT_BYTES];

	if (!node_ask(door, "erlang", "system_info", ATOMS("os_monotonic_time_source"), source))
		return;
	if (strstr(source, "CLOCK_MONOTONIC"))
		checkup_add(checkup, "vm", "clock", CHECKUP_OK, NULL,
			    "CLOCK_MONOTONIC, as the kernel's events");
	else
		checkup_add(checkup, "vm", "clock", CHECKUP_NOTE, NULL,
			    "its own time is of another clock; events are stamped with "
			    "CLOCK_MONOTONIC: %.200s",
			    source);
}

static void vm_node(struct checkup *checkup, const struct target *target,
		    const struct capture_config *config)
{
	struct node *node = calloc(1, sizeof(*node));
	struct node_cookie cookie = {0};
	struct start_info info;
	struct door *door = NULL;
	struct fault fault = {0};

	if (!node)
		return;
	if (node_find(target, config->without, node, &fault)) {
		if (!*fault.fix)
			fault_fix(&fault,
				  "in the VM's shell: beamweave:start(#{}), then: beamweave record "
				  "--session PATH");
		checkup_fault(checkup, "vm", "node", CHECKUP_MISSING, &fault);
		goto cleanup;
	}
	checkup_add(checkup, "vm", "node", CHECKUP_OK, NULL, "%.300s, distribution over TCP",
		    *node->name ? node->name : "(its name is told when it is asked)");
	if (node_cookie(target, config->cookie_file, &cookie, &fault)) {
		checkup_fault(checkup, "vm", "cookie", CHECKUP_MISSING, &fault);
		goto cleanup;
	}
	if (door_open(&door, node, &cookie, clock_ns() + ATTACH_DEADLINE_NS, &fault)) {
		checkup_fault(checkup, "vm", fault.error == -EACCES ? "cookie" : "connection",
			      CHECKUP_MISSING, &fault);
		goto cleanup;
	}
	checkup_add(checkup, "vm", "cookie", CHECKUP_OK, NULL, "accepted, from %.200s",
		    cookie.from);
	if (start_look(door, &info, &fault)) {
		checkup_fault(checkup, "vm", "connection", CHECKUP_MISSING, &fault);
		goto cleanup;
	}
	vm_backends(checkup, door, &info);
	vm_tracers(checkup, door);
	vm_clock(checkup, door);
cleanup:
	door_close(door);
	explicit_bzero(&cookie, sizeof(cookie));
	free(node);
}

/* ---- What its surroundings allow ---- */

static void vm_places(struct checkup *checkup, const struct target *target, uint32_t without)
{
	static const struct {
		enum place_kind kind;
		const char *what;
	} wanted[] = {{PLACE_LIBRARY, "library"}, {PLACE_SESSION, "ring"}};

	for (size_t i = 0; i < 2; i++) {
		struct statvfs file_system;
		struct place place = PLACE_NONE;
		struct fault fault = {0};
		unsigned int nth = 0;

		if (place_create(&place, target, wanted[i].kind, without, &nth, &fault)) {
			checkup_fault(checkup, "vm", wanted[i].what, CHECKUP_MISSING, &fault);
			continue;
		}
		if (fstatvfs(place.fd, &file_system))
			memset(&file_system, 0, sizeof(file_system));
		place.path[strlen(place.path) - strlen(place.name) - 1] = 0;
		if (wanted[i].kind == PLACE_SESSION &&
		    (uint64_t)file_system.f_bavail * file_system.f_bsize < RING_ROOM_BYTES)
			checkup_add(checkup, "vm", wanted[i].what, CHECKUP_MISSING,
				    "beamweave record --buffer-size 8M ..., or more room: mount -o "
				    "remount,size=1G /dev/shm",
				    "%.200s has %llu MB left, the ring wants %llu MB", place.path,
				    (unsigned long long)(file_system.f_bavail *
							 file_system.f_bsize / MB),
				    RING_ROOM_BYTES / MB);
		else
			checkup_add(checkup, "vm", wanted[i].what, CHECKUP_OK, NULL,
				    "can go to its %.200s, %llu MB left there", place.path,
				    (unsigned long long)(file_system.f_bavail *
							 file_system.f_bsize / MB));
		place_remove(&place);
	}
}

/* A time namespace shifts CLOCK_MONOTONIC for those in it. */
static void vm_time(struct checkup *checkup, const struct target *target)
{
	struct stat ours, its;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/time", target->pid);
	if (stat(path, &its) || stat("/proc/self/ns/time", &ours) || its.st_ino == ours.st_ino)
		return;
	checkup_add(checkup, "vm", "time namespace", CHECKUP_MISSING,
		    "record in it: nsenter -t PID -T beamweave record -p PID",
		    "the VM has a time namespace of its own: its clock is not ours");
}

struct vm_check {
	struct checkup *checkup;
	const struct target *target;
	const struct capture_config *config;
};

static void *vm_thread(void *context)
{
	struct vm_check *check = context;
	struct fault fault;

	if (target_network_enter(check->target, &fault))
		checkup_fault(check->checkup, "vm", "network", CHECKUP_MISSING, &fault);
	else
		vm_node(check->checkup, check->target, check->config);
	return NULL;
}

void checkup_vm(struct checkup *checkup, const struct target *target,
		const struct capture_config *config)
{
	struct vm_check check = {checkup, target, config};
	pthread_t thread;

	/* A thread of its own may enter the VM's network namespace and is gone afterwards. */
	if (!pthread_create(&thread, NULL, vm_thread, &check))
		pthread_join(thread, NULL);
	vm_places(checkup, target, config->without);
	vm_time(checkup, target);
}
