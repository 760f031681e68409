/* SPDX-License-Identifier: Apache-2.0 */
#include "tracer_port.h"

#include <errno.h>
#include <string.h>

#include <erl_driver.h>

#include "ring.h"
#include "ring_term.h"
#include "session.h"
#include "system.h"

#define NAME_BYTES 256

/*
 * Bytes of a message that are kept, beside what is asked for by --capture: all of an event without
 * content, and as much of a message as its fingerprint looks at.
 */
#define KEPT_BYTES 1024
/* Of these at the end, where {send, ..., To, Time} has what follows the message. */
#define TAIL_BYTES 128

/* So late that events are left out until we have caught up by half. */
#define SHED_NS	   500000000
#define LAG_MAX_NS 3600000000000ll /* later than this is no lateness but a clock of another kind */

/*
 * Bytes that may be queued for the port before the VM calls it busy. No trace event waits for that:
 * it tells beamweave_port how it stands.
 */
#define QUEUE_HIGH_BYTES (256 * 1024)
#define QUEUE_LOW_BYTES	 1024

struct tracer_port {
	ErlDrvPort port;
	uint64_t session; /* its number; 0: not bound */
	bool shedding;
};

static char driver_name[NAME_BYTES] = "beamweave_tracer";
static bool driver_named, driver_locked;

/* ---- Events ---- */

/* How long ago the event happened by its own timestamp, 0 when it has none. */
static uint64_t event_lag_ns(const uint8_t *etf, uint64_t bytes)
{
	int64_t time_ns, lag_ns = 0;

	switch (ring_term_time(etf, bytes, &time_ns)) {
	case RING_TERM_MONOTONIC:
		lag_ns = erl_drv_monotonic_time(ERL_DRV_NSEC) - time_ns;
		break;
	case RING_TERM_SYSTEM:
		lag_ns = erl_drv_monotonic_time(ERL_DRV_NSEC) + erl_drv_time_offset(ERL_DRV_NSEC) -
			 time_ns;
		break;
	case RING_TERM_NO_CLOCK:
		break;
	}
	return lag_ns > 0 && lag_ns < LAG_MAX_NS ? (uint64_t)lag_ns : 0;
}

/*
 * May an event be written that comes now and happened so long ago? Unlike the NIF's it may have
 * happened before the end that has come since.
 */
static bool event_is_in(const struct ring *ring, uint64_t now_ns, uint64_t lag_ns)
{
	const struct ring_control *control = ring->control;

	/* relaxed: as in ring_running() */
	return atomic_load_explicit(&control->run, memory_order_relaxed) != RING_PAUSED &&
	       now_ns < atomic_load_explicit(&control->lease_until_ns, memory_order_relaxed) &&
	       now_ns - lag_ns < atomic_load_explicit(&control->stop_at_ns, memory_order_relaxed);
}

static void event_write(struct ring_writer *writer, const struct session *session, uint64_t now_ns,
			enum ring_kind kind, const uint8_t *etf, uint64_t bytes)
{
	uint32_t kept = KEPT_BYTES, tail = 0, padded;
	struct ring_term *term;
	uint8_t *into;

	if (session->options.capture)
		kept += session->options.capture_bytes;
	if (bytes > kept)
		tail = TAIL_BYTES;
	else
		kept = (uint32_t)bytes;
	padded = (kept + 7) & ~7u;
	term = ring_reserve(writer, now_ns, kind, (uint32_t)sizeof(*term) + padded, 0);
	if (!term)
		return;
	term->h.flags = RING_F_TERM | (tail ? RING_F_CUT : 0);
	term->bytes = kept;
	term->tail_bytes = tail;
	into = (uint8_t *)(term + 1);
	memcpy(into, etf, kept - tail);
	memcpy(into + kept - tail, etf + bytes - tail, tail);
	memset(into + kept, 0, padded - kept);
	ring_commit(writer, &term->h);
}

static void event_take(struct tracer_port *port, const uint8_t *etf, uint64_t bytes)
{
	struct session_thread *thread = session_thread();
	enum ring_kind kind = ring_term_kind(etf, bytes);
	uint64_t now_ns, lag_ns;
	struct session *session;
	struct ring_writer *writer;

	/* Whatever else somebody may send to a port. */
	if (kind == RING_UNKNOWN && !ring_term_is_trace(etf, bytes))
		return;
	session = session_enter(thread, port->session);
	if (!session)
		return;
	now_ns = system_clock_ns();
	lag_ns = event_lag_ns(etf, bytes);
	/* relaxed: a figure for beamweave_port, which looks again soon */
	atomic_store_explicit(&session->port_lag_ns, lag_ns, memory_order_relaxed);
	if (!event_is_in(&session->ring, now_ns, lag_ns))
		goto leave;
	port->shedding = lag_ns > (port->shedding ? SHED_NS / 2 : SHED_NS);
	writer = session_writer_port(thread, session, port->session);
	if (!writer)
		atomic_fetch_add_explicit(&session->ring.control->unclaimed_discarded, 1,
					  memory_order_relaxed);
	else if (port->shedding)
		ring_discard(writer, now_ns, kind);
	else
		event_write(writer, session, now_ns, kind, etf + 1, bytes - 1);
leave:
	session_leave(thread);
}

/* ---- The driver ---- */

static ErlDrvData port_start(ErlDrvPort handle, char *command)
{
	ErlDrvSizeT low = QUEUE_LOW_BYTES, high = QUEUE_HIGH_BYTES;
	struct tracer_port *port = driver_alloc(sizeof(*port));

	(void)command;
	if (!port)
		return ERL_DRV_ERROR_GENERAL;
	*port = (struct tracer_port){.port = handle};
	erl_drv_busy_msgq_limits(handle, &low, &high);
	/* The file may be gone by now, and sessions must stay where they are: never unloaded. */
	if (!driver_locked)
		driver_locked = !driver_lock_driver(handle);
	return (ErlDrvData)port;
}

static void port_stop(ErlDrvData data)
{
	driver_free(data);
}

static void port_output(ErlDrvData data, char *bytes, ErlDrvSizeT count)
{
	struct tracer_port *port = (struct tracer_port *)data;

	if (port->session)
		event_take(port, (const uint8_t *)bytes, count);
}

static int port_bind(struct tracer_port *port, const uint8_t *bytes, ErlDrvSizeT count)
{
	struct session_thread *thread = session_thread();
	struct session *session;
	uint64_t number = 0;

	if (count != sizeof(number))
		return EINVAL;
	if (port->session)
		return EBUSY;
	for (uint32_t i = 0; i < sizeof(number); i++)
		number |= (uint64_t)bytes[i] << (8 * i);
	session = number ? session_enter(thread, number) : NULL;
	if (!session)
		return ENOENT;
	/* relaxed: set before any tracee has this session */
	atomic_store_explicit(&session->port_lag_ns, 0, memory_order_relaxed);
	atomic_store_explicit(&session->counting, true, memory_order_relaxed);
	session->ring.header->vm.port = 1;
	session_leave(thread);
	port->session = number;
	return 0;
}

/* All that came before us is in the ring. */
static int port_flush(struct tracer_port *port)
{
	struct session_thread *thread = session_thread();
	struct session *session = port->session ? session_enter(thread, port->session) : NULL;

	if (!session)
		return ENOENT;
	/* relaxed: as above */
	atomic_store_explicit(&session->port_lag_ns, 0, memory_order_relaxed);
	session_leave(thread);
	port->shedding = false;
	return 0;
}

static ErlDrvSSizeT port_control(ErlDrvData data, unsigned int command, char *bytes,
				 ErlDrvSizeT count, char **answer, ErlDrvSizeT room)
{
	struct tracer_port *port = (struct tracer_port *)data;
	int error;

	switch (command) {
	case TRACER_PORT_BIND:
		error = port_bind(port, (const uint8_t *)bytes, count);
		break;
	case TRACER_PORT_FLUSH:
		error = port_flush(port);
		break;
	default:
		return -1; /* badarg */
	}
	if (!room)
		return 0;
	**answer = (char)error;
	return 1;
}

static ErlDrvEntry driver_entry = {
	.start = port_start,
	.stop = port_stop,
	.output = port_output,
	.driver_name = driver_name,
	.control = port_control,
	.extended_marker = (int)ERL_DRV_EXTENDED_MARKER,
	.major_version = ERL_DRV_EXTENDED_MAJOR_VERSION,
	.minor_version = ERL_DRV_EXTENDED_MINOR_VERSION,
	.driver_flags = ERL_DRV_FLAG_USE_PORT_LOCKING,
};

DRIVER_INIT(beamweave_tracer)
{
	driver_named = true;
	return &driver_entry;
}

void tracer_port_name(const char *name)
{
	size_t bytes = strlen(name) + 1;

	if (driver_named || bytes > sizeof(driver_name))
		return;
	memcpy(driver_name, name, bytes);
}

const char *tracer_port_driver(void)
{
	return driver_locked ? driver_name : NULL;
}
