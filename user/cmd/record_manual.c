/* SPDX-License-Identifier: Apache-2.0 */
#include "record_manual.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "embedded.h"
#include "program.h"
#include "target.h"

#define LIBRARY "beamweave_tracer.so"

/* Directory of the .beam files, path of the library. */
struct code {
	char ebin[PATH_MAX];
	char library[PATH_MAX];
};

static bool code_at(struct code *code, const char *ebin, const char *library)
{
	char beam[PATH_MAX + 32];

	snprintf(beam, sizeof(beam), "%s/beamweave.beam", ebin);
	if (access(beam, R_OK) || access(library, R_OK))
		return false;
	snprintf(code->ebin, sizeof(code->ebin), "%s", ebin);
	snprintf(code->library, sizeof(code->library), "%s", library);
	return true;
}

/* Beside the program in its source tree, or where it was installed. */
static bool code_installed(struct code *code)
{
	char program[PATH_MAX], ebin[PATH_MAX + 64], library[PATH_MAX + 64];
	ssize_t bytes = readlink("/proc/self/exe", program, sizeof(program) - 1);
	char *slash;

	if (bytes <= 0)
		return false;
	program[bytes] = 0;
	slash = strrchr(program, '/');
	if (!slash)
		return false;
	*slash = 0;
	snprintf(ebin, sizeof(ebin), "%s/ebin", program);
	snprintf(library, sizeof(library), "%s/" LIBRARY, program);
	if (code_at(code, ebin, library))
		return true;
	slash = strrchr(program, '/');
	if (!slash)
		return false;
	*slash = 0;
	snprintf(ebin, sizeof(ebin), "%s/lib/beamweave/ebin", program);
	snprintf(library, sizeof(library), "%s/lib/beamweave/priv/" LIBRARY, program);
	return code_at(code, ebin, library);
}

static int file_put(int directory_fd, const char *name, const unsigned char *data, size_t bytes)
{
	int error = 0, fd;

	unlinkat(directory_fd, name, 0);
	fd = openat(directory_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	while (bytes && !error) {
		ssize_t done = write(fd, data, bytes);

		if (done < 0) {
			error = errno == EINTR ? 0 : -errno;
			continue;
		}
		data += done;
		bytes -= (size_t)done;
	}
	if (fchmod(fd, 0644) && !error)
		error = -errno;
	close(fd);
	return error;
}

/* The program was copied by itself: what it holds is put into a folder of ours, which stays. */
static bool code_unpack(struct code *code)
{
	struct stat status;
	char path[PATH_MAX], library[PATH_MAX + 64];
	int error = 0, fd;

	snprintf(path, sizeof(path), "/tmp/beamweave-%s-%u", BEAMWEAVE_VERSION, geteuid());
	if (mkdir(path, 0755) && errno != EEXIST)
		return false;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return false;
	/* Somebody else's folder would have somebody else's code in it. */
	if (fstat(fd, &status) || status.st_uid != geteuid() || (status.st_mode & 022))
		error = -EPERM;
	for (size_t i = 0; i < embedded_count && !error; i++)
		error = file_put(fd, embedded_files[i].name, embedded_files[i].data,
				 embedded_files[i].bytes);
	close(fd);
	snprintf(library, sizeof(library), "%s/" LIBRARY, path);
	return !error && code_at(code, path, library);
}

/* Another root directory than ours: our paths are not its paths. */
static bool in_container(pid_t pid)
{
	struct target target;
	struct fault fault;
	bool other;

	if (!pid || target_open(&target, pid, false, &fault))
		return false;
	other = target.root_fd >= 0 && !target.same_root;
	target_close(&target);
	return other;
}

void record_manual_print(pid_t pid)
{
	struct code code;

	if (!code_installed(&code) && !code_unpack(&code)) {
		fputs("  its own shell can start a recording, with beamweave's OTP application in "
		      "its code path:\n    beamweave:start(#{}).\n",
		      stderr);
		return;
	}
	fprintf(stderr,
		"  to record Erlang events all the same, type in its shell%s:\n"
		"    code:add_pathz(\"%s\"), application:set_env(beamweave, library, \"%s\"), "
		"beamweave:start(#{events => [messages, running, gc]}).\n"
		"  and here, with the path that it returns:\n"
		"    %s record --session PATH\n",
		in_container(pid) ? " (in a container: copy both into it before)" : "", code.ebin,
		code.library, program_name());
}
