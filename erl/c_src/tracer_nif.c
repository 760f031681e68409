/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The doors of the library into Erlang: module beamweave_tracer. enabled/3 and trace/5 are the
 * erl_tracer behaviour; all else is for the controller. Their meaning stands in
 * erl/src/beamweave_tracer.erl.
 */

#include <errno.h>
#include <string.h>

#include <erl_nif.h>

#include "capture.h"
#include "event.h"
#include "ring.h"
#include "session.h"
#include "system.h"
#include "term.h"
#include "tracer_port.h"
#include "vm.h"

#define PATH_BYTES 4096
#define NAME_BYTES 256

/* Long enough that a dirty call does not end before the next one is taken by another thread. */
#define VISIT_NS 1000000

static ERL_NIF_TERM atom(ErlNifEnv *env, const char *name)
{
	return enif_make_atom(env, name);
}

static ERL_NIF_TERM error(ErlNifEnv *env, int rc)
{
	static const struct {
		int number;
		const char *name;
	} names[] = {
		{EPERM, "eperm"},   {ENOENT, "enoent"},	  {EACCES, "eacces"}, {EEXIST, "eexist"},
		{ENOSPC, "enospc"}, {ENOMEM, "enomem"},	  {EINVAL, "einval"}, {EPROTO, "eproto"},
		{EBUSY, "ebusy"},   {ENODATA, "enodata"}, {ENOSYS, "enosys"}, {EISDIR, "eisdir"},
		{EAGAIN, "eagain"}, {ELOOP, "eloop"},	  {EIO, "eio"},
	};
	ERL_NIF_TERM reason = enif_make_int(env, -rc);
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].number == -rc)
			reason = atom(env, names[i].name);
	}
	return enif_make_tuple2(env, atom(env, "error"), reason);
}

static ERL_NIF_TERM result(ErlNifEnv *env, int rc)
{
	return rc ? error(env, rc) : atom(env, "ok");
}

static uint64_t self_word(ErlNifEnv *env)
{
	ErlNifPid pid;

	return enif_self(env, &pid) ? enif_make_pid(env, &pid) : 0;
}

static bool get_path(ErlNifEnv *env, ERL_NIF_TERM term, char path[PATH_BYTES])
{
	ErlNifBinary binary;

	if (!enif_inspect_binary(env, term, &binary) || binary.size >= PATH_BYTES ||
	    memchr(binary.data, 0, binary.size))
		return false;
	memcpy(path, binary.data, binary.size);
	path[binary.size] = 0;
	return true;
}

/* The session of a controller's call, entered; NULL when it is not open. */
static struct session *enter(ErlNifEnv *env, ERL_NIF_TERM state)
{
	ErlNifUInt64 number;

	if (!enif_get_uint64(env, state, &number) || !number)
		return NULL;
	return session_enter(session_thread(), number);
}

static ERL_NIF_TERM nif_clock(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	(void)argc;
	(void)argv;
	return enif_make_uint64(env, system_clock_ns());
}

static ERL_NIF_TERM nif_word(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	(void)argc;
	if (!TERM_PID(argv[0]) && !TERM_PORT(argv[0]))
		return enif_make_badarg(env);
	return enif_make_uint64(env, argv[0]);
}

static ERL_NIF_TERM nif_open(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct session_options options;
	char path[PATH_BYTES];
	unsigned int redact;
	uint64_t state;
	int rc;

	(void)argc;
	if (!get_path(env, argv[0], path) || !enif_get_uint(env, argv[1], &options.capture) ||
	    !enif_get_uint(env, argv[2], &options.capture_bytes) ||
	    !enif_get_uint(env, argv[3], &options.capture_depth) ||
	    !enif_get_uint(env, argv[4], &redact))
		return enif_make_badarg(env);
	if (options.capture_bytes < CAPTURE_BYTES_MIN)
		options.capture_bytes = CAPTURE_BYTES_MIN;
	if (options.capture_bytes > CAPTURE_BYTES_MAX)
		options.capture_bytes = CAPTURE_BYTES_MAX;
	if (options.capture_depth > CAPTURE_DEPTH_MAX)
		options.capture_depth = CAPTURE_DEPTH_MAX;
	options.redact = redact != 0;
	rc = session_open(path, &options, &state);
	if (rc)
		return error(env, rc);
	return enif_make_tuple2(env, atom(env, "ok"), enif_make_uint64(env, state));
}

static ERL_NIF_TERM nif_close(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	ErlNifUInt64 state;

	(void)argc;
	if (!enif_get_uint64(env, argv[0], &state))
		return enif_make_badarg(env);
	return result(env, session_close(state));
}

static ERL_NIF_TERM nif_create(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct ring_config config = {0};
	ErlNifUInt64 pool, lease;
	char path[PATH_BYTES];
	unsigned int mode;
	uint64_t bytes;
	int rc;

	(void)argc;
	if (!get_path(env, argv[0], path) || !enif_get_uint(env, argv[1], &mode) ||
	    !enif_get_uint64(env, argv[2], &pool) || !enif_get_uint64(env, argv[3], &lease))
		return enif_make_badarg(env);
	config.mode = (enum ring_mode)mode;
	config.pool_bytes = pool;
	rc = session_create(path, &config, lease, &bytes);
	if (rc)
		return error(env, rc);
	return enif_make_tuple2(env, atom(env, "ok"), enif_make_uint64(env, bytes));
}

static ERL_NIF_TERM nif_session_bytes(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct ring_config config = {0};
	ErlNifUInt64 pool;

	(void)argc;
	if (!enif_get_uint64(env, argv[0], &pool))
		return enif_make_badarg(env);
	config.pool_bytes = pool;
	return enif_make_uint64(env, ring_file_bytes(&config));
}

static ERL_NIF_TERM nif_poll(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct session *session = enter(env, argv[0]);
	uint64_t now_ns = system_clock_ns();
	uint32_t reason = RING_END_NONE;
	enum session_live live;
	int64_t credits;

	(void)argc;
	if (!session)
		return error(env, -ENOENT);
	live = session_look(session, now_ns, &reason);
	/* relaxed, both: a figure and a sign of life, nothing hangs on them */
	credits = atomic_load_explicit(&session->ring.control->credits, memory_order_relaxed);
	atomic_store_explicit(&session->ring.control->heartbeat_ns, now_ns, memory_order_relaxed);
	session_leave(session_thread());
	if (live == SESSION_OVER)
		return enif_make_tuple2(env, atom(env, "over"), enif_make_uint(env, reason));
	return enif_make_tuple2(env, atom(env, live == SESSION_PAUSED ? "paused" : "running"),
				enif_make_int64(env, credits));
}

static ERL_NIF_TERM nif_set_tracer(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct session *session;
	unsigned int tracer, reason;

	(void)argc;
	if (!enif_get_uint(env, argv[1], &tracer) || !enif_get_uint(env, argv[2], &reason))
		return enif_make_badarg(env);
	session = enter(env, argv[0]);
	if (!session)
		return error(env, -ENOENT);
	if (tracer == RING_TRACER_ENDED) {
		/* relaxed, both: published with the state below; `live` is a hint to enabled() */
		atomic_store_explicit(&session->live, SESSION_OVER, memory_order_relaxed);
		atomic_store_explicit(&session->ring.control->end_reason, reason,
				      memory_order_relaxed);
	}
	/* release: the reader that sees the state sees its reason and all that was set up */
	atomic_store_explicit(&session->ring.control->tracer, tracer, memory_order_release);
	session_leave(session_thread());
	return atom(env, "ok");
}

static ERL_NIF_TERM nif_set_run(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct session *session;
	unsigned int run;

	(void)argc;
	if (!enif_get_uint(env, argv[1], &run))
		return enif_make_badarg(env);
	session = enter(env, argv[0]);
	if (!session)
		return error(env, -ENOENT);
	/* release: whoever sees the run state sees all that was done before */
	atomic_store_explicit(&session->ring.control->run, run, memory_order_release);
	session_leave(session_thread());
	return atom(env, "ok");
}

static ERL_NIF_TERM nif_set_names(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct session *session;
	ErlNifUInt64 done, total;

	(void)argc;
	if (!enif_get_uint64(env, argv[1], &done) || !enif_get_uint64(env, argv[2], &total))
		return enif_make_badarg(env);
	session = enter(env, argv[0]);
	if (!session)
		return error(env, -ENOENT);
	/* release of the second: who sees the names done sees of how many */
	atomic_store_explicit(&session->ring.control->names_total, total, memory_order_relaxed);
	atomic_store_explicit(&session->ring.control->names_done, done, memory_order_release);
	session_leave(session_thread());
	return atom(env, "ok");
}

static ERL_NIF_TERM nif_put(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct session *session;
	ErlNifBinary payload;
	ErlNifUInt64 key;
	unsigned int type;
	int rc;

	(void)argc;
	if (!enif_get_uint(env, argv[1], &type) || !enif_inspect_binary(env, argv[3], &payload) ||
	    payload.size > UINT16_MAX)
		return enif_make_badarg(env);
	if (TERM_PID(argv[2]) || TERM_PORT(argv[2]))
		key = argv[2];
	else if (!enif_get_uint64(env, argv[2], &key))
		return enif_make_badarg(env);
	session = enter(env, argv[0]);
	if (!session)
		return error(env, -ENOENT);
	rc = ring_dict_put(&session->ring, (enum ring_dict_type)type, key, payload.data,
			   (uint32_t)payload.size);
	session_leave(session_thread());
	return result(env, rc);
}

static ERL_NIF_TERM nif_publish(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct session *session = enter(env, argv[0]);
	struct ring_writer *writer;
	ErlNifUInt64 state = 0;

	(void)argc;
	if (!session)
		return error(env, -ENOENT);
	enif_get_uint64(env, argv[0], &state);
	writer = session_writer(session_thread(), session, state, env, self_word(env));
	session_leave(session_thread());
	return writer ? atom(env, "ok") : error(env, -ENOSPC);
}

/*
 * On a dirty thread. Its environment stands for a shadow of the process; the process's own address
 * came along from the normal scheduler.
 */
static ERL_NIF_TERM visit_dirty(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct session *session = enter(env, argv[0]);
	ErlNifUInt64 state = 0, process = 0;
	unsigned int io = 0, count = 0;
	struct ring_writer *writer;
	uint64_t esdp = 0;
	uint32_t number = 0;

	(void)argc;
	if (!session)
		return error(env, -ENOENT);
	enif_get_uint64(env, argv[0], &state);
	enif_get_uint(env, argv[1], &io);
	enif_get_uint(env, argv[2], &count);
	enif_get_uint64(env, argv[3], &process);
	writer = session_writer(session_thread(), session, state, env, 0);
	if (writer && process)
		vm_dirty_scheduler((const void *)process, io != 0, count, &esdp, &number);
	if (esdp)
		session_set_scheduler(session_thread(), state, esdp, number);
	session_leave(session_thread());
	system_sleep_ns(VISIT_NS);
	return writer ? atom(env, "ok") : error(env, -ENOSPC);
}

static ERL_NIF_TERM nif_publish_dirty(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	const void *process = vm_process(env, self_word(env));
	ERL_NIF_TERM args[4] = {argv[0], argv[1], argv[2], 0};
	unsigned int io;

	(void)argc;
	if (!enif_get_uint(env, argv[1], &io))
		return enif_make_badarg(env);
	args[3] = enif_make_uint64(env, (uint64_t)process);
	return enif_schedule_nif(env, "publish_dirty",
				 io ? ERL_NIF_DIRTY_JOB_IO_BOUND : ERL_NIF_DIRTY_JOB_CPU_BOUND,
				 visit_dirty, 4, args);
}

static ERL_NIF_TERM nif_vm_check(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	unsigned int release, number;
	ErlNifUInt64 heap_words;

	(void)argc;
	if (!enif_get_uint(env, argv[0], &release) || !enif_get_uint(env, argv[1], &number) ||
	    !enif_get_uint64(env, argv[2], &heap_words))
		return enif_make_badarg(env);
	return result(env, vm_check(env, self_word(env), release, number, heap_words));
}

static ERL_NIF_TERM nif_learn_begin(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	(void)argc;
	(void)argv;
	vm_learn_begin();
	return atom(env, "ok");
}

static ERL_NIF_TERM nif_learn_end(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	unsigned int traced, plain;

	(void)argc;
	if (!enif_get_uint(env, argv[0], &traced) || !enif_get_uint(env, argv[1], &plain))
		return enif_make_badarg(env);
	return result(env, vm_learn_end(traced, plain));
}

static ERL_NIF_TERM nif_depth(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	const void *process = vm_process(env, self_word(env));

	(void)argc;
	(void)argv;
	return enif_make_uint(env, process ? vm_process_depth(process) : 0);
}

static ERL_NIF_TERM nif_term_check(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	(void)argc;
	return result(env, term_check(env, argv[0]));
}

static ERL_NIF_TERM nif_vm_publish(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct session *session;
	unsigned int release;
	ErlNifBinary bits;

	(void)argc;
	if (!enif_get_uint(env, argv[1], &release) || !enif_inspect_binary(env, argv[2], &bits) ||
	    bits.size != 64)
		return enif_make_badarg(env);
	session = enter(env, argv[0]);
	if (!session)
		return error(env, -ENOENT);
	vm_publish(session->ring.header, release, bits.data);
	session_leave(session_thread());
	return atom(env, "ok");
}

static ERL_NIF_TERM nif_port_driver(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	const char *name = tracer_port_driver();

	(void)argc;
	(void)argv;
	return name ? enif_make_string(env, name, ERL_NIF_LATIN1) : error(env, -ENOENT);
}

static ERL_NIF_TERM nif_port_lag(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	struct session *session = enter(env, argv[0]);
	uint64_t lag_ns;

	(void)argc;
	if (!session)
		return error(env, -ENOENT);
	/* relaxed: a figure that changes all the time */
	lag_ns = atomic_load_explicit(&session->port_lag_ns, memory_order_relaxed);
	session_leave(session_thread());
	return enif_make_uint64(env, lag_ns);
}

/* Info: {Release, Name of the library's file without its ending}. */
static int load(ErlNifEnv *env, void **data, ERL_NIF_TERM info)
{
	const ERL_NIF_TERM *parts;
	char name[NAME_BYTES];
	unsigned int release;
	int rc, arity;

	(void)data;
	if (!enif_get_tuple(env, info, &arity, &parts) || arity != 2 ||
	    !enif_get_uint(env, parts[0], &release))
		return -EINVAL;
	if (enif_get_string(env, parts[1], name, sizeof(name), ERL_NIF_LATIN1) > 0)
		tracer_port_name(name);
	rc = term_init(env, release);
	if (rc)
		return rc;
	event_init(env);
	session_init();
	return 0;
}

/* The library stays for the life of the VM: a second load of the module finds all as it was. */
static int upgrade(ErlNifEnv *env, void **data, void **old, ERL_NIF_TERM info)
{
	(void)env;
	(void)data;
	(void)old;
	(void)info;
	return 0;
}

static ErlNifFunc functions[] = {
	{"enabled", 3, event_enabled, 0},
	{"trace", 5, event_trace, 0},
	{"clock", 0, nif_clock, 0},
	{"word", 1, nif_word, 0},
	{"open_session", 5, nif_open, ERL_NIF_DIRTY_JOB_IO_BOUND},
	{"close_session", 1, nif_close, 0},
	{"create_session", 4, nif_create, ERL_NIF_DIRTY_JOB_IO_BOUND},
	{"session_bytes", 1, nif_session_bytes, 0},
	{"poll", 1, nif_poll, 0},
	{"set_tracer", 3, nif_set_tracer, 0},
	{"set_run", 2, nif_set_run, 0},
	{"set_names", 3, nif_set_names, 0},
	{"put", 4, nif_put, 0},
	{"publish", 1, nif_publish, 0},
	{"publish_dirty", 3, nif_publish_dirty, 0},
	{"vm_check", 3, nif_vm_check, 0},
	{"vm_publish", 3, nif_vm_publish, 0},
	{"learn_begin", 0, nif_learn_begin, 0},
	{"learn_end", 2, nif_learn_end, 0},
	{"depth", 0, nif_depth, 0},
	{"term_check", 1, nif_term_check, 0},
	{"port_driver", 0, nif_port_driver, 0},
	{"port_lag", 1, nif_port_lag, 0},
};

ERL_NIF_INIT(beamweave_tracer, functions, load, NULL, upgrade, NULL)
