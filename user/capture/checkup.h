/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_CHECKUP_H
#define BEAMWEAVE_CHECKUP_H

/*
 * What a host and a VM allow, without changing either: each thing that a recording may need, how it is,
 * and the command that mends what is missing. Nothing here prints.
 */

#include "config.h"
#include "fault.h"
#include "target.h"

enum checkup_status {
	CHECKUP_OK = 0,
	CHECKUP_NOTE = 1, /* worth knowing; a recording does not need it */
	CHECKUP_MISSING = 2, /* a recording goes without, or fails */
};

struct checkup_row {
	const char *area; /* "host", "kernel", "vm": a constant */
	const char *what; /* "BTF": a constant */
	enum checkup_status status;
	char detail[512];
	char fix[512]; /* a command, or what to do; "" none is known */
};

#define CHECKUP_ROWS 64

/* What a ring of the usual size takes with its tables. */
#define RING_ROOM_BYTES (100ull << 20)

struct checkup {
	struct checkup_row rows[CHECKUP_ROWS];
	size_t count;
};

/* Append one; more than CHECKUP_ROWS are left out. `fix` may be NULL. */
__attribute__((format(printf, 6, 7))) void checkup_add(struct checkup *checkup, const char *area,
						       const char *what, enum checkup_status status,
						       const char *fix, const char *detail, ...);
/* The same from a fault. */
void checkup_fault(struct checkup *checkup, const char *area, const char *what,
		   enum checkup_status status, const struct fault *fault);

/* The kernel and what this user may do, epmd, shared memory. */
void checkup_host(struct checkup *checkup);
/* Each probe, loaded and attached to `pid` as a recording does, and taken off again at once. */
void checkup_kernel(struct checkup *checkup, pid_t pid, uint32_t without);
/* One VM: its node, cookie, release, tracers, where its library can go, room for the ring, its clock. */
void checkup_vm(struct checkup *checkup, const struct target *target,
		const struct capture_config *config);

/* A VM of this host in a few words: "shop@host, OTP 25, user app". */
#define CHECKUP_VM_BYTES 512
void checkup_vm_text(pid_t pid, char text[static CHECKUP_VM_BYTES]);

#endif
