/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "program.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *about;
} commands[] = {
	{"record", cmd_record, "record an Erlang VM and its kernel side into a file"},
	{"trace", cmd_trace, "print calls, messages and more as they happen, one line each"},
	{"report", cmd_report, "say what a recording shows: findings first"},
	{"export", cmd_export, "turn a recording into a Perfetto trace, JSON lines or text"},
	{"doctor", cmd_doctor,
	 "say what this host and a VM allow, and how to mend what is missing"},
};

#define COMMANDS (sizeof(commands) / sizeof(*commands))

static void usage_print(FILE *out)
{
	fprintf(out,
		"Usage: beamweave COMMAND [OPTION...]\n\n"
		"Records what an Erlang VM does and what Linux does to its threads, on one clock, "
		"and says\nwhy something was late.\n\nCommands:\n");
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].about);
	fprintf(out, "\nExamples:\n"
		     "  beamweave record -n NODE                    record a node of this host for "
		     "30 s\n"
		     "  beamweave report                            what was found\n"
		     "  beamweave export --to perfetto              a picture of it\n"
		     "\n`beamweave COMMAND --help` tells more.\n");
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;

	program_set(argv[0]);
	if (!name) {
		usage_print(stderr);
		return CMD_USAGE;
	}
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help")) {
		usage_print(stdout);
		return CMD_DONE;
	}
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		printf("beamweave %s\n", BEAMWEAVE_VERSION);
		return CMD_DONE;
	}
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	fprintf(stderr, "beamweave: there is no command '%.60s': see beamweave --help\n", name);
	return CMD_USAGE;
}
