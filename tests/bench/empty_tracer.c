/* SPDX-License-Identifier: Apache-2.0 */
/* The floor: a tracer that says yes and records nothing. */
#include <erl_nif.h>

static ERL_NIF_TERM atom_trace, atom_ok;

static ERL_NIF_TERM enabled(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	(void)env;
	(void)argc;
	(void)argv;
	return atom_trace;
}

static ERL_NIF_TERM trace(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[])
{
	(void)env;
	(void)argc;
	(void)argv;
	return atom_ok;
}

static int load(ErlNifEnv *env, void **data, ERL_NIF_TERM info)
{
	(void)data;
	(void)info;
	atom_trace = enif_make_atom(env, "trace");
	atom_ok = enif_make_atom(env, "ok");
	return 0;
}

static ErlNifFunc functions[] = {
	{"enabled", 3, enabled, 0},
	{"trace", 5, trace, 0},
};

ERL_NIF_INIT(empty_tracer, functions, load, NULL, NULL, NULL)
