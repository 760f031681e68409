/* SPDX-License-Identifier: Apache-2.0 */
#include "event_record.h"

#include <string.h>

#include "capture.h"
#include "term.h"
#include "vm.h"

/* In the order of struct ring_gc. */
static const char *const gc_names[] = {
	"heap_size",
	"heap_block_size",
	"old_heap_size",
	"old_heap_block_size",
	"stack_size",
	"recent_size",
	"mbuf_size",
	"bin_vheap_size",
	"bin_vheap_block_size",
	"bin_old_vheap_size",
	"bin_old_vheap_block_size",
};

#define GC_FIGURES (sizeof(gc_names) / sizeof(gc_names[0]))
#define GC_LIST	   16

static ERL_NIF_TERM gc_atom[GC_FIGURES];

_Static_assert(sizeof(struct ring_gc) == sizeof(struct ring_record) + 8 * GC_FIGURES,
	       "one name a figure");

static ERL_NIF_TERM atom_extra, atom_undefined;
static ERL_NIF_TERM atom_proc_lib, atom_init_p, atom_gen, atom_init_it, atom_init;

void event_record_init(ErlNifEnv *env)
{
	size_t i;

	for (i = 0; i < GC_FIGURES; i++)
		gc_atom[i] = enif_make_atom(env, gc_names[i]);
	atom_extra = enif_make_atom(env, "extra");
	atom_undefined = enif_make_atom(env, "undefined");
	atom_proc_lib = enif_make_atom(env, "proc_lib");
	atom_init_p = enif_make_atom(env, "init_p");
	atom_gen = enif_make_atom(env, "gen");
	atom_init_it = enif_make_atom(env, "init_it");
	atom_init = enif_make_atom(env, "init");
}

static void *event_reserve(const struct event *e, uint8_t kind, uint32_t bytes)
{
	struct ring_record *record;

	record = ring_reserve(e->writer, e->now_ns, kind, bytes, e->argv[TRACEE]);
	if (record && e->thread->dirty)
		record->flags = RING_F_DIRTY;
	return record;
}

static uint32_t event_mfa(const struct event *e, ERL_NIF_TERM module, ERL_NIF_TERM function,
			  uint32_t arity)
{
	struct ring_dict_mfa text;
	uint32_t index;
	int is_new = 0;

	index = ring_mfa_index(e->ring, TERM_INDEX(module), TERM_INDEX(function), arity, &is_new);
	if (__builtin_expect(!is_new, 1))
		return index;
	text = (struct ring_dict_mfa){
		.module = term_ring_atom(e->env, e->ring, module),
		.function = term_ring_atom(e->env, e->ring, function),
		.arity = arity,
	};
	ring_dict_put(e->ring, RING_DICT_MFA, index, &text, sizeof(text));
	ring_mfa_seen(e->ring, index);
	return index;
}

/* Arity of the third element of an MFA: a number, or a list of arguments, at most 255 long. */
static uint32_t event_arity(const struct event *e, ERL_NIF_TERM arity)
{
	ERL_NIF_TERM head;
	uint32_t count = 0;

	if (TERM_SMALL(arity))
		return (uint32_t)TERM_SMALL_VALUE(arity) & 0xff;
	while (count < 255 && enif_get_list_cell(e->env, arity, &head, &arity))
		count++;
	return count;
}

static bool event_tuple3(const struct event *e, ERL_NIF_TERM term, const ERL_NIF_TERM **mfa)
{
	int arity;

	return enif_get_tuple(e->env, term, &arity, mfa) && arity == 3 && TERM_ATOM((*mfa)[0]) &&
	       TERM_ATOM((*mfa)[1]);
}

/* {M, F, Arity or Args}, or anything else for none. */
static uint32_t event_mfa_term(const struct event *e, ERL_NIF_TERM term)
{
	const ERL_NIF_TERM *mfa;

	if (!event_tuple3(e, term, &mfa))
		return RING_NO_INDEX;
	return event_mfa(e, mfa[0], mfa[1], event_arity(e, mfa[2]));
}

static ERL_NIF_TERM event_extra(const struct event *e)
{
	ERL_NIF_TERM extra;

	return enif_get_map_value(e->env, e->argv[OPTIONS], atom_extra, &extra) ? extra
										: atom_undefined;
}

/* Bytes to reserve behind a fixed part when its term is to be captured. */
static uint32_t capture_room(const struct event *e, uint32_t wanted)
{
	const struct session_options *options = &e->session->options;

	if (!(options->capture & wanted))
		return 0;
	return (uint32_t)((sizeof(struct ring_capture) + options->capture_bytes + 7) & ~7u);
}

/* Write the term behind the fixed part and give back what it did not need. */
static void capture_fill(const struct event *e, struct ring_record *record, uint32_t fixed,
			 ERL_NIF_TERM term)
{
	const struct session_options *options = &e->session->options;
	struct ring_capture *capture = (struct ring_capture *)((uint8_t *)record + fixed);
	uint8_t *etf = (uint8_t *)(capture + 1);
	uint32_t bytes, padded;
	bool cut;

	bytes = capture_term(e->env, term, etf, options->capture_bytes, options->capture_depth,
			     options->redact, &cut);
	padded = (bytes + 7) & ~7u;
	memset(etf + bytes, 0, padded - bytes);
	capture->bytes = bytes;
	capture->reserved = 0;
	record->bytes = (uint16_t)(fixed + sizeof(*capture) + padded);
	record->flags |= (uint8_t)(RING_F_CAPTURE | (cut ? RING_F_CUT : 0));
}

static void event_call(const struct event *e)
{
	uint32_t room = capture_room(e, SESSION_CAPTURE_ARGS);
	const ERL_NIF_TERM *mfa;
	struct ring_call *call;

	if (!event_tuple3(e, e->argv[MESSAGE], &mfa))
		return;
	call = event_reserve(e, RING_CALL, (uint32_t)sizeof(*call) + room);
	if (!call)
		return;
	call->mfa = event_mfa(e, mfa[0], mfa[1], event_arity(e, mfa[2]));
	vm_scan(e->env, e->argv[TRACEE], &call->depth, &call->frame, &call->tail);
	if (room)
		capture_fill(e, &call->h, sizeof(*call), mfa[2]);
	ring_commit(e->writer, &call->h);
}

static void event_return_to(const struct event *e)
{
	struct ring_return_to *back = event_reserve(e, RING_RETURN_TO, sizeof(*back));

	if (!back)
		return;
	back->mfa = event_mfa_term(e, e->argv[MESSAGE]);
	back->depth = vm_depth(e->env, e->argv[TRACEE]);
	ring_commit(e->writer, &back->h);
}

/* return_from, exception_from: {M, F, A} and a value; exit, closed: a reason. */
static void event_value(const struct event *e, uint8_t kind)
{
	bool call = kind == RING_RETURN_FROM || kind == RING_EXCEPTION_FROM;
	ERL_NIF_TERM value = call ? event_extra(e) : e->argv[MESSAGE];
	uint32_t room = capture_room(e, SESSION_CAPTURE_RETURN);
	struct ring_value *record;

	if (!call)
		room = capture_room(e, SESSION_CAPTURE_RETURN | SESSION_CAPTURE_ARGS);
	record = event_reserve(e, kind, (uint32_t)sizeof(*record) + room);
	if (!record)
		return;
	record->mfa = call ? event_mfa_term(e, e->argv[MESSAGE]) : RING_NO_INDEX;
	record->depth = call ? vm_depth(e->env, e->argv[TRACEE]) : RING_NO_DEPTH;
	term_shape(e->env, e->ring, value, &record->shape);
	if (room)
		capture_fill(e, &record->h, sizeof(*record), value);
	ring_commit(e->writer, &record->h);
}

static void event_send(const struct event *e, uint8_t kind)
{
	uint32_t room = capture_room(e, SESSION_CAPTURE_ARGS);
	ERL_NIF_TERM to = event_extra(e);
	const ERL_NIF_TERM *pair;
	struct ring_send *send;
	int arity;

	send = event_reserve(e, kind, (uint32_t)sizeof(*send) + room);
	if (!send)
		return;
	send->to = TERM_PID(to) || TERM_PORT(to) ? to : 0;
	send->name = 0;
	send->reserved = 0;
	if (TERM_ATOM(to))
		send->name = term_ring_atom(e->env, e->ring, to);
	else if (!send->to && enif_get_tuple(e->env, to, &arity, &pair) && arity == 2)
		send->name = term_ring_atom(e->env, e->ring, pair[0]);
	term_shape(e->env, e->ring, e->argv[MESSAGE], &send->shape);
	if (room)
		capture_fill(e, &send->h, sizeof(*send), e->argv[MESSAGE]);
	ring_commit(e->writer, &send->h);
}

static void event_receive(const struct event *e)
{
	uint32_t room = capture_room(e, SESSION_CAPTURE_ARGS);
	struct ring_receive *receive;

	receive = event_reserve(e, RING_RECEIVE, (uint32_t)sizeof(*receive) + room);
	if (!receive)
		return;
	term_shape(e->env, e->ring, e->argv[MESSAGE], &receive->shape);
	if (room)
		capture_fill(e, &receive->h, sizeof(*receive), e->argv[MESSAGE]);
	ring_commit(e->writer, &receive->h);
}

static void event_run(const struct event *e, uint8_t kind)
{
	struct ring_run *run = event_reserve(e, kind, sizeof(*run));

	if (!run)
		return;
	run->mfa = event_mfa_term(e, e->argv[MESSAGE]);
	run->scheduler = e->thread->dirty ? 0 : e->writer->thread->number;
	ring_commit(e->writer, &run->h);
}

static void event_gc(const struct event *e, uint8_t kind)
{
	ERL_NIF_TERM list = e->argv[MESSAGE], head;
	const ERL_NIF_TERM *pair;
	uint64_t *figures;
	struct ring_gc *gc;
	ErlNifUInt64 value;
	uint32_t cells, i;
	int arity;

	gc = event_reserve(e, kind, sizeof(*gc));
	if (!gc)
		return;
	figures = &gc->heap_size;
	memset(figures, 0, GC_FIGURES * sizeof(*figures));
	for (cells = 0; cells < GC_LIST && enif_get_list_cell(e->env, list, &head, &list);
	     cells++) {
		if (!enif_get_tuple(e->env, head, &arity, &pair) || arity != 2 ||
		    !enif_get_uint64(e->env, pair[1], &value))
			continue;
		for (i = 0; i < GC_FIGURES; i++) {
			if (pair[0] == gc_atom[i])
				figures[i] = value;
		}
	}
	ring_commit(e->writer, &gc->h);
}

/* What a process of proc_lib or gen really starts, as proc_lib:translate_initial_call/1 has it. */
static uint32_t spawn_initial(const struct event *e, ERL_NIF_TERM args)
{
	ERL_NIF_TERM arg[8], inner[8], cell;
	uint32_t count = 0, more = 0;

	while (count < 8 && enif_get_list_cell(e->env, args, &arg[count], &args))
		count++;
	if (count != 5 || !TERM_ATOM(arg[2]) || !TERM_ATOM(arg[3]))
		return RING_NO_INDEX;
	if (arg[2] != atom_gen || arg[3] != atom_init_it)
		return event_mfa(e, arg[2], arg[3], event_arity(e, arg[4]));
	/* gen:init_it(GenMod, Starter, Parent, [Name,] Mod, Args, Options) */
	cell = arg[4];
	while (more < 8 && enif_get_list_cell(e->env, cell, &inner[more], &cell))
		more++;
	if ((more == 6 || more == 7) && TERM_ATOM(inner[more - 3]))
		return event_mfa(e, inner[more - 3], atom_init, 1);
	return event_mfa(e, atom_gen, atom_init_it, more);
}

static void event_spawn(const struct event *e, uint8_t kind)
{
	ERL_NIF_TERM extra = event_extra(e);
	const ERL_NIF_TERM *mfa;
	struct ring_spawn *spawn;

	spawn = event_reserve(e, kind, sizeof(*spawn));
	if (!spawn)
		return;
	spawn->other = TERM_PID(e->argv[MESSAGE]) ? e->argv[MESSAGE] : 0;
	spawn->mfa = event_mfa_term(e, extra);
	spawn->initial = RING_NO_INDEX;
	if (event_tuple3(e, extra, &mfa) && mfa[0] == atom_proc_lib && mfa[1] == atom_init_p)
		spawn->initial = spawn_initial(e, mfa[2]);
	ring_commit(e->writer, &spawn->h);
}

static void event_peer(const struct event *e, uint8_t kind)
{
	ERL_NIF_TERM other = e->argv[MESSAGE];
	struct ring_peer *peer = event_reserve(e, kind, sizeof(*peer));

	if (!peer)
		return;
	peer->other = TERM_PID(other) || TERM_PORT(other) ? other : 0;
	ring_commit(e->writer, &peer->h);
}

static void event_name(const struct event *e, uint8_t kind)
{
	struct ring_name *name = event_reserve(e, kind, sizeof(*name));

	if (!name)
		return;
	name->name = term_ring_atom(e->env, e->ring, e->argv[MESSAGE]);
	name->reserved = 0;
	ring_commit(e->writer, &name->h);
}

static void event_port_open(const struct event *e)
{
	ERL_NIF_TERM owner = e->argv[MESSAGE];
	struct ring_port_open *open = event_reserve(e, RING_PORT_OPEN, sizeof(*open));

	if (!open)
		return;
	open->owner = TERM_PID(owner) ? owner : 0;
	open->driver = term_ring_atom(e->env, e->ring, event_extra(e));
	open->reserved = 0;
	ring_commit(e->writer, &open->h);
}

static void event_other(const struct event *e)
{
	struct ring_other *other = event_reserve(e, RING_UNKNOWN, sizeof(*other));

	if (!other)
		return;
	other->tag = term_ring_atom(e->env, e->ring, e->argv[TAG]);
	other->reserved = 0;
	ring_commit(e->writer, &other->h);
}

void event_record(const struct event *e, uint8_t kind)
{
	switch (kind) {
	case RING_CALL:
		event_call(e);
		break;
	case RING_RETURN_TO:
		event_return_to(e);
		break;
	case RING_SEND:
	case RING_SEND_NOPROC:
		event_send(e, kind);
		break;
	case RING_RECEIVE:
		event_receive(e);
		break;
	case RING_IN:
	case RING_OUT:
	case RING_IN_EXITING:
	case RING_OUT_EXITING:
	case RING_OUT_EXITED:
		event_run(e, kind);
		break;
	case RING_GC_MINOR_START:
	case RING_GC_MINOR_END:
	case RING_GC_MAJOR_START:
	case RING_GC_MAJOR_END:
	case RING_GC_MAX_HEAP:
		event_gc(e, kind);
		break;
	case RING_RETURN_FROM:
	case RING_EXCEPTION_FROM:
	case RING_EXIT:
	case RING_PORT_CLOSED:
		event_value(e, kind);
		break;
	case RING_SPAWN:
	case RING_SPAWNED:
		event_spawn(e, kind);
		break;
	case RING_LINK:
	case RING_UNLINK:
	case RING_GETTING_LINKED:
	case RING_GETTING_UNLINKED:
		event_peer(e, kind);
		break;
	case RING_REGISTER:
	case RING_UNREGISTER:
	case RING_PORT_IN:
	case RING_PORT_OUT:
		event_name(e, kind);
		break;
	case RING_PORT_OPEN:
		event_port_open(e);
		break;
	default:
		event_other(e);
	}
}
