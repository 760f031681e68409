/* SPDX-License-Identifier: Apache-2.0 */
/* From the parts of a trace message to the record that the tracer in the VM would have written. */
#include "trace_message_private.h"

#include <errno.h>
#include <string.h>

#include "names_intern.h"

/* ---- Words and indices ---- */

struct decode {
	struct names *names;
	const struct ring_vm *vm;
	struct etf_id self; /* of the tracee: what is of its node is local */
	const struct message_parts *parts;
};

static bool pid_bits_known(const struct ring_vm *vm)
{
	for (uint32_t bit = 0; vm && bit < 64; bit++) {
		if (vm->pid_bit[bit] < 64 && vm->pid_bit[bit])
			return true;
	}
	return false;
}

uint64_t message_pid_word(const struct ring_vm *vm, uint32_t number, uint32_t serial)
{
	uint64_t data = (uint64_t)serial << 32 | number, word = 0x3;

	if (!pid_bits_known(vm))
		return word | (uint64_t)(number & 0x7fff) << 4 | (uint64_t)(serial & 0x1fff) << 19;
	for (uint32_t bit = 4; bit < 64; bit++) {
		if (vm->pid_bit[bit] < 64)
			word |= (data >> vm->pid_bit[bit] & 1) << bit;
	}
	return word;
}

/* The word of a local pid or port; 0 for anything else, as the tracer in the VM has it. */
static uint64_t decode_word(const struct decode *decode, struct etf etf)
{
	struct etf_id id;

	if (etf_pid(&etf, &id))
		return etf_same_node(&id, &decode->self)
			       ? message_pid_word(decode->vm, (uint32_t)id.number, id.serial)
			       : 0;
	if (etf_port(&etf, &id) && etf_same_node(&id, &decode->self))
		return (id.number & 0x0fffffffffffffffull) << 4 | 0x7;
	return 0;
}

static uint64_t decode_pid(const struct decode *decode, struct etf etf)
{
	uint8_t tag = etf_tag(&etf);

	return tag == ETF_PID || tag == ETF_NEW_PID ? decode_word(decode, etf) : 0;
}

static uint32_t decode_atom(const struct decode *decode, struct etf *etf)
{
	char text[ETF_ATOM_BYTES];
	uint32_t bytes;

	return etf_atom(etf, text, &bytes) ? names_atom_intern(decode->names, text, bytes) : 0;
}

/* A number, or a list of arguments, at most 255 long. */
static uint32_t decode_arity(struct etf etf)
{
	int64_t number;
	uint32_t count;

	if (etf_integer(&etf, &number))
		return (uint32_t)number & 0xff;
	if (etf_list(&etf, &count))
		return count < 255 ? count : 255;
	if (etf_tag(&etf) == ETF_STRING && etf.end - etf.at >= 3) {
		count = (uint32_t)etf.at[1] << 8 | etf.at[2];
		return count < 255 ? count : 255;
	}
	return 0;
}

/* {M, F, Arity or Args}: `rest` is where the third stands. */
static uint32_t decode_mfa(const struct decode *decode, struct etf etf, struct etf *rest)
{
	uint32_t arity, module, function;

	*rest = (struct etf){etf.end, etf.end};
	if (!etf_tuple(&etf, &arity) || arity != 3)
		return RING_NO_INDEX;
	module = decode_atom(decode, &etf);
	function = decode_atom(decode, &etf);
	if (!module || !function)
		return RING_NO_INDEX;
	*rest = etf;
	return names_mfa_intern(decode->names, module, function, decode_arity(etf));
}

static struct etf part(const struct decode *decode, uint32_t index)
{
	static const uint8_t nothing;

	if (index < decode->parts->count)
		return decode->parts->elements[index].etf;
	return (struct etf){&nothing, &nothing};
}

static struct text part_text(struct etf etf)
{
	return (struct text){(const char *)etf.at, (uint32_t)(etf.end - etf.at)};
}

/* ---- Kinds ---- */

static void call_decode(const struct decode *decode, struct ring_call *call, struct event *event)
{
	struct etf args;

	call->mfa = decode_mfa(decode, part(decode, 3), &args);
	call->depth = RING_NO_DEPTH;
	call->frame = RING_NO_DEPTH;
	call->tail = 2;
	/* With the flag `arity` there is a number instead of them. */
	if (etf_tag(&args) == ETF_LIST || etf_tag(&args) == ETF_STRING || etf_tag(&args) == ETF_NIL)
		event->etf = part_text(args);
}

static void value_decode(const struct decode *decode, struct ring_value *value, struct event *event)
{
	struct etf term = part(decode, decode->parts->extra ? 4 : 3), rest;

	value->mfa = decode->parts->extra ? decode_mfa(decode, part(decode, 3), &rest)
					  : RING_NO_INDEX;
	value->depth = RING_NO_DEPTH;
	message_shape(term, decode->names, &value->shape);
	event->etf = part_text(term);
}

static void send_decode(const struct decode *decode, struct ring_send *send, struct event *event)
{
	struct etf to = part(decode, 4);
	uint32_t arity;

	send->to = decode_word(decode, to);
	if (!send->to && (!etf_tuple(&to, &arity) || arity == 2))
		send->name = decode_atom(decode, &to);
	message_shape(part(decode, 3), decode->names, &send->shape);
	event->etf = part_text(part(decode, 3));
}

static void run_decode(const struct decode *decode, struct ring_run *run)
{
	struct etf id = part(decode, 4), rest;
	int64_t scheduler;

	run->mfa = decode_mfa(decode, part(decode, 3), &rest);
	if (etf_integer(&id, &scheduler) && scheduler > 0 && scheduler < 65536)
		run->scheduler = (uint32_t)scheduler;
}

static void gc_decode(const struct decode *decode, struct ring_gc *gc)
{
	/* In the order of struct ring_gc. */
	static const char *const names[] = {"heap_size",
					    "heap_block_size",
					    "old_heap_size",
					    "old_heap_block_size",
					    "stack_size",
					    "recent_size",
					    "mbuf_size",
					    "bin_vheap_size",
					    "bin_vheap_block_size",
					    "bin_old_vheap_size",
					    "bin_old_vheap_block_size"};
	struct etf list = part(decode, 3);
	uint64_t *figures = &gc->heap_size;
	uint32_t count = 0, arity;

	_Static_assert(sizeof(*gc) == sizeof(gc->h) + sizeof(names), "a name a figure");
	if (!etf_list(&list, &count))
		return;
	for (uint32_t i = 0; i < count && i < 64; i++) {
		struct etf pair = list, value;
		int64_t number;

		if (!etf_skip(&list))
			return;
		if (!etf_tuple(&pair, &arity) || arity != 2)
			continue;
		value = pair;
		if (!etf_skip(&value) || !etf_integer(&value, &number) || number < 0)
			continue;
		for (size_t name = 0; name < sizeof(names) / sizeof(names[0]); name++) {
			if (etf_is(&pair, names[name]))
				figures[name] = (uint64_t)number;
		}
	}
}

/* The elements of a list of at most `max`; 0 when there are more, or it is not whole. */
static uint32_t list_split(struct etf list, struct etf *elements, uint32_t max)
{
	uint32_t count;

	if (!etf_list(&list, &count) || count > max)
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		elements[i] = list;
		if (!etf_skip(&list))
			return 0;
	}
	return count;
}

/* What a process of proc_lib or gen really starts, as proc_lib:translate_initial_call/1 has it. */
static uint32_t spawn_initial(const struct decode *decode, struct etf args)
{
	struct etf arg[8], inner[8], atom;
	uint32_t module, function, more;

	if (list_split(args, arg, 8) != 5)
		return RING_NO_INDEX;
	if (etf_is(&arg[2], "gen") && etf_is(&arg[3], "init_it")) {
		/* gen:init_it(GenMod, Starter, Parent, [Name,] Mod, Args, Options) */
		more = list_split(arg[4], inner, 8);
		atom = more == 6 || more == 7 ? inner[more - 3] : args;
		module = decode_atom(decode, &atom);
		if (module)
			return names_mfa_intern(decode->names, module,
						names_atom_intern(decode->names, "init", 4), 1);
	}
	module = decode_atom(decode, &arg[2]);
	function = decode_atom(decode, &arg[3]);
	if (!module || !function)
		return RING_NO_INDEX;
	return names_mfa_intern(decode->names, module, function, decode_arity(arg[4]));
}

static void spawn_decode(const struct decode *decode, struct ring_spawn *spawn)
{
	struct etf mfa = part(decode, 4), args;
	uint32_t arity;

	spawn->other = decode_pid(decode, part(decode, 3));
	spawn->mfa = decode_mfa(decode, mfa, &args);
	spawn->initial = RING_NO_INDEX;
	if (!etf_tuple(&mfa, &arity) || arity != 3 || !etf_is(&mfa, "proc_lib") || !etf_skip(&mfa))
		return;
	if (etf_is(&mfa, "init_p"))
		spawn->initial = spawn_initial(decode, args);
}

static void other_decode(const struct decode *decode, struct ring_other *other)
{
	struct etf tag = part(decode, 0);

	if (!etf_is(&tag, "seq_trace"))
		tag = part(decode, 2);
	other->tag = decode_atom(decode, &tag);
}

static void kind_decode(const struct decode *decode, union message_record *record,
			struct event *event)
{
	struct etf third = part(decode, 3), rest;

	switch (event->kind) {
	case RING_CALL:
		call_decode(decode, &record->call, event);
		break;
	case RING_RETURN_TO:
		record->return_to.mfa = decode_mfa(decode, third, &rest);
		record->return_to.depth = RING_NO_DEPTH;
		break;
	case RING_RETURN_FROM:
	case RING_EXCEPTION_FROM:
	case RING_EXIT:
	case RING_PORT_CLOSED:
		value_decode(decode, &record->value, event);
		break;
	case RING_SEND:
	case RING_SEND_NOPROC:
		send_decode(decode, &record->send, event);
		break;
	case RING_RECEIVE:
		message_shape(third, decode->names, &record->receive.shape);
		event->etf = part_text(third);
		break;
	case RING_IN:
	case RING_OUT:
	case RING_IN_EXITING:
	case RING_OUT_EXITING:
	case RING_OUT_EXITED:
		run_decode(decode, &record->run);
		break;
	case RING_GC_MINOR_START:
	case RING_GC_MINOR_END:
	case RING_GC_MAJOR_START:
	case RING_GC_MAJOR_END:
	case RING_GC_MAX_HEAP:
		gc_decode(decode, &record->gc);
		break;
	case RING_SPAWN:
	case RING_SPAWNED:
		spawn_decode(decode, &record->spawn);
		break;
	case RING_LINK:
	case RING_UNLINK:
	case RING_GETTING_LINKED:
	case RING_GETTING_UNLINKED:
		record->peer.other = decode_word(decode, third);
		break;
	case RING_REGISTER:
	case RING_UNREGISTER:
	case RING_PORT_IN:
	case RING_PORT_OUT:
		record->name.name = decode_atom(decode, &third);
		break;
	case RING_PORT_OPEN:
		record->port_open.owner = decode_pid(decode, third);
		third = part(decode, 4);
		record->port_open.driver = decode_atom(decode, &third);
		break;
	default:
		other_decode(decode, &record->other);
	}
}

int message_decode(const struct message_bytes *bytes, struct names *names, const struct ring_vm *vm,
		   union message_record *record, struct event *event)
{
	struct message_parts parts;
	struct decode decode = {.names = names, .vm = vm, .parts = &parts};
	struct etf tracee;
	int error = message_split(bytes, &parts);

	if (error)
		return error;
	memset(record, 0, sizeof(*record));
	event->kind = parts.kind;
	event->process = 0;
	event->flags = parts.cut ? RING_F_CUT : 0;
	event->raw = record;
	event->etf = (struct text){"", 0};
	tracee = part(&decode, 1);
	if (!etf_is(&parts.elements[0].etf, "seq_trace") &&
	    (etf_pid(&tracee, &decode.self) || etf_port(&tracee, &decode.self)))
		event->process = decode_word(&decode, part(&decode, 1));
	kind_decode(&decode, record, event);
	if (event->etf.bytes)
		event->flags |= RING_F_CAPTURE;
	record->h.kind = (uint8_t)event->kind;
	record->h.flags = event->flags;
	record->h.bytes = sizeof(record->h);
	record->h.process = event->process;
	return 0;
}
