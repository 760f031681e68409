/* SPDX-License-Identifier: Apache-2.0 */
#include "start.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "embedded.h"
#include "place.h"
#include "reply.h"

#define TRACER_MODULE  "beamweave_tracer"
#define TRACER_LIBRARY "beamweave_tracer.so"
#define MD5_BYTES      16
#define PAUSE_MS       20
#define PURGE_TRIES    25
#define ENDING_TRIES   75

static void pause_ms(unsigned int ms)
{
	struct timespec time = {.tv_nsec = (long)ms * 1000000};

	nanosleep(&time, NULL);
}

static const struct embedded *embedded_find(const char *name)
{
	for (size_t i = 0; i < embedded_count; i++)
		if (!strcmp(embedded_files[i].name, name))
			return &embedded_files[i];
	return NULL;
}

/* Module:Function(Atom), the answer in `reply`. */
static int call_atom(struct door *door, const char *module, const char *function, const char *atom,
		     ei_x_buff *reply, int *index, struct fault *fault)
{
	ei_x_buff arguments;
	int error;

	if (ei_x_new(&arguments))
		return -ENOMEM;
	ei_x_encode_list_header(&arguments, 1);
	ei_x_encode_atom(&arguments, atom);
	ei_x_encode_empty_list(&arguments);
	error = door_call(door, module, function, &arguments, reply, index, fault);
	ei_x_free(&arguments);
	return error;
}

static bool reply_is(const ei_x_buff *reply, int index, const char *atom)
{
	char text[MAXATOMLEN_UTF8];

	return !ei_decode_atom_as(reply->buff, &index, text, sizeof(text), ERLANG_UTF8, NULL,
				  NULL) &&
	       !strcmp(text, atom);
}

static bool reply_md5(const ei_x_buff *reply, int index, uint8_t md5[MD5_BYTES])
{
	int type, size;
	long bytes;

	return !ei_get_type(reply->buff, &index, &type, &size) && type == ERL_BINARY_EXT &&
	       size == MD5_BYTES && !ei_decode_binary(reply->buff, &index, md5, &bytes);
}

/* code:Function(Binary) or code:load_binary(Module, Name, Binary). */
static int call_code(struct door *door, const char *module, const struct embedded *file,
		     ei_x_buff *reply, int *index, struct fault *fault)
{
	ei_x_buff arguments;
	int error;

	if (ei_x_new(&arguments))
		return -ENOMEM;
	ei_x_encode_list_header(&arguments, module ? 3 : 1);
	if (module) {
		ei_x_encode_atom(&arguments, module);
		ei_x_encode_string(&arguments, file->name);
	}
	ei_x_encode_binary(&arguments, file->data, (int)file->bytes);
	ei_x_encode_empty_list(&arguments);
	error = door_call(door, "code", module ? "load_binary" : "module_md5", &arguments, reply,
			  index, fault);
	ei_x_free(&arguments);
	return error;
}

/* 1: the node has this very code, 0: it has none or another. */
static int module_current(struct door *door, const char *module, const struct embedded *file,
			  ei_x_buff *reply, struct fault *fault)
{
	uint8_t ours[MD5_BYTES], its[MD5_BYTES];
	int error, index;

	/* Asking a module that is not loaded could load another one from the node's path. */
	error = call_atom(door, "erlang", "module_loaded", module, reply, &index, fault);
	if (error || !reply_is(reply, index, "true"))
		return error;
	error = call_atom(door, module, "module_info", "md5", reply, &index, fault);
	if (error || !reply_md5(reply, index, its))
		return error;
	error = call_code(door, NULL, file, reply, &index, fault);
	if (error || !reply_md5(reply, index, ours))
		return error;
	return !memcmp(ours, its, MD5_BYTES);
}

/* Code of an earlier recording: what ran it may need a moment to end. */
static int module_purge(struct door *door, const char *module, ei_x_buff *reply,
			struct fault *fault)
{
	int error, index;

	for (int tries = 0; tries < PURGE_TRIES; tries++) {
		error = call_atom(door, "code", "soft_purge", module, reply, &index, fault);
		if (error || reply_is(reply, index, "true"))
			return error;
		pause_ms(PAUSE_MS);
	}
	/* The loading says that it cannot be. */
	return 0;
}

static int module_load(struct door *door, const char *module, const struct embedded *file,
		       ei_x_buff *reply, struct fault *fault)
{
	char reason[300], tag[MAXATOMLEN_UTF8];
	int error, index, arity;

	error = module_purge(door, module, reply, fault);
	if (!error)
		error = call_code(door, module, file, reply, &index, fault);
	if (error)
		return error;
	if (!ei_decode_tuple_header(reply->buff, &index, &arity) && arity == 2 &&
	    !ei_decode_atom_as(reply->buff, &index, tag, sizeof(tag), ERLANG_UTF8, NULL, NULL)) {
		if (!strcmp(tag, "module"))
			return 0;
		term_text(reply->buff, index, reason, sizeof(reason));
	} else {
		snprintf(reason, sizeof(reason), "an answer that makes no sense");
	}
	return fault_set(fault, -ENOEXEC, NULL, "the node cannot load %s: %s", module, reason);
}

static int library_write(const struct place *place, const struct embedded *library)
{
	const uint8_t *at = library->data;

	for (size_t left = library->bytes; left;) {
		ssize_t done = write(place->fd, at, left);

		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			at += done;
			left -= (size_t)done;
		}
	}
	return 0;
}

static int library_tell(struct door *door, const char *path, ei_x_buff *reply, struct fault *fault)
{
	ei_x_buff arguments;
	int error, index;

	if (ei_x_new(&arguments))
		return -ENOMEM;
	ei_x_encode_list_header(&arguments, 3);
	ei_x_encode_atom(&arguments, "beamweave");
	ei_x_encode_atom(&arguments, "library");
	ei_x_encode_string(&arguments, path);
	ei_x_encode_empty_list(&arguments);
	error = door_call(door, "application", "set_env", &arguments, reply, &index, fault);
	ei_x_free(&arguments);
	return error;
}

/* The tracer loads its library while it is loaded itself; then the file is needed no more. */
static int tracer_load(struct door *door, const struct target *target, const struct embedded *file,
		       ei_x_buff *reply, struct fault *fault)
{
	const struct embedded *library = embedded_find(TRACER_LIBRARY);
	struct place place = PLACE_NONE;
	unsigned int nth = 0;
	int error;

	if (!library)
		return fault_set(fault, -ENOENT, NULL, "this program holds no tracer");
	do {
		error = place_create(&place, target, PLACE_LIBRARY, 0, &nth, fault);
		if (error)
			return error;
		error = library_write(&place, library);
		if (!error)
			error = place_give(&place, target, 0500);
		if (error)
			fault_set(fault, error, NULL, "cannot write the tracer to the VM's %s: %s",
				  place.path, strerror(-error));
		if (!error)
			error = library_tell(door, place.path, reply, fault);
		if (!error)
			error = module_load(door, TRACER_MODULE, file, reply, fault);
		place_remove(&place);
	} while (error == -ENOEXEC || error == -ENOSPC || error == -EPERM);
	return error;
}

/* Does a controller run there? One that is ending is given time to: it takes its modules along. */
static int controller_running(struct door *door, ei_x_buff *reply, struct fault *fault)
{
	int index, error;

	for (int tries = 0; tries < ENDING_TRIES; tries++) {
		error = call_atom(door, "erlang", "whereis", "beamweave_controller", reply, &index,
				  fault);
		if (error || reply_is(reply, index, "undefined"))
			return error;
		pause_ms(PAUSE_MS);
	}
	return 1;
}

struct loading {
	struct door *door;
	const struct target *target;
	ei_x_buff reply;
	bool running; /* somebody uses the code that is there */
};

static int file_load(struct loading *loading, const struct embedded *file, struct fault *fault)
{
	char module[64];
	int error;

	snprintf(module, sizeof(module), "%.*s", (int)strcspn(file->name, "."), file->name);
	error = module_current(loading->door, module, file, &loading->reply, fault);
	if (error)
		return error < 0 ? error : 0;
	if (loading->running)
		return fault_set(fault, -EBUSY,
				 "wait for it to end, or stop it on the node: beamweave:stop().",
				 "another version of beamweave is recording this VM");
	if (!strcmp(module, TRACER_MODULE))
		return tracer_load(loading->door, loading->target, file, &loading->reply, fault);
	return module_load(loading->door, module, file, &loading->reply, fault);
}

int start_load(struct door *door, const struct target *target, bool native, struct fault *fault)
{
	struct loading loading = {.door = door, .target = target};
	int error;

	if (ei_x_new(&loading.reply))
		return -ENOMEM;
	error = controller_running(door, &loading.reply, fault);
	loading.running = error > 0;
	if (error > 0)
		error = 0;
	/* What the tracer calls while it is loaded comes before it, what calls the tracer after it. */
	for (int users = 0; users < 2; users++) {
		for (size_t i = 0; i < embedded_count && !error; i++) {
			const struct embedded *file = &embedded_files[i];
			const char *end = strstr(file->name, ".beam");
			bool user = !strcmp(file->name, "beamweave.beam") ||
				    !strcmp(file->name, "beamweave_controller.beam") ||
				    !strcmp(file->name, TRACER_MODULE ".beam");

			if (!native && !strcmp(file->name, TRACER_MODULE ".beam"))
				continue;
			if (end && !strcmp(end, ".beam") && user == (users != 0))
				error = file_load(&loading, file, fault);
		}
	}
	ei_x_free(&loading.reply);
	return error;
}
