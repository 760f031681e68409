/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEAMWEAVE_TRACER_PORT_H
#define BEAMWEAVE_TRACER_PORT_H

/*
 * The trace port: a linked-in driver, {tracer, Port}, that puts what OTP sends to a trace port into
 * the ring of the session that it is bound to. It is found in the same library as the tracer's NIF,
 * and shares its sessions.
 *
 * A port is run late: its events wait in a queue of the VM's that nothing throttles. Each event's own
 * timestamp tells how late. See beamweave_port.erl for how the queue is kept short.
 */

#include <stdint.h>

/* port_control/3 commands; the answer is one byte, 0 or a positive errno. */
enum tracer_port_command {
	TRACER_PORT_BIND = 1, /* the session's number, 8 bytes, little-endian; once */
	TRACER_PORT_FLUSH = 2, /* is answered when all that was queued before is in the ring */
};

/*
 * The name that the driver has: that of the file that it is loaded from, without its ending, as
 * erl_ddll demands. To be told before it is loaded; too late or too long it has no effect.
 */
void tracer_port_name(const char *name);

/* Is the driver in the VM for good? Its name, or NULL. */
const char *tracer_port_driver(void);

#endif
