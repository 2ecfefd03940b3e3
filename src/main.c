/*
 * Finds the command and runs it.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fence.h"
#include "log.h"
#include "query.h"
#include "run.h"
#include "util.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unknown"
#endif

static const struct command {
	const char	*name;
	int		(*fn)(int, char *[]);
	const char	*args;
	const char	*help;
} commands[] = {
	{ "run", cmd_run, "[OPTION]... NAME [--] COMMAND [ARG]...",
	    "run a command while holding a lease" },
	{ "status", cmd_status, "[OPTION]... [NAME]...",
	    "who holds what, and how the last run ended" },
	{ "check", cmd_check, "[OPTION]... NAME",
	    "whether a token is still the holder's" },
	{ "revoke", cmd_revoke, "[OPTION]... NAME",
	    "ask the holder to end" },
	{ "init", cmd_init, "[OPTION]...", "prepare the store" },
	{ "doctor", cmd_doctor, "[OPTION]...",
	    "look for what is wrong with the store" },
	{ "fence", cmd_fence, "[OPTION]... FILE [--] COMMAND [ARG]...",
	    "run a command unless a later holder has written" },
};

#define NCOMMANDS	(sizeof(commands) / sizeof(commands[0]))

static int
print_help(void)
{
	size_t i;

	printf("usage: leaserun COMMAND [OPTION]... [ARG]...\n\n"
	    "Runs a command under a lease, so that of all who start the same "
	    "job, one runs it.\n\n");
	for (i = 0; i < NCOMMANDS; i++)
		printf("  leaserun %s %s\n      %s\n", commands[i].name,
		    commands[i].args, commands[i].help);
	printf("\n  leaserun COMMAND --help     the options of one command\n"
	    "  leaserun --version\n\n"
	    "The manual: leaserun(1), leaserun.conf(5), leaserun-events(5), "
	    "leaserun-etcd(7),\nleaserun-fencing(7), leaserun-migrating(7), "
	    "leaserun-postgres(7),\nleaserun-scaling(7), "
	    "leaserun-tutorial(7).\n");
	return EXIT_OK;
}

static const struct command *
find_command(const char *name)
{
	size_t i;

	for (i = 0; i < NCOMMANDS; i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

/* Output that nobody received is not a success. */
static int
finish_output(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	if (status == EXIT_OK) {
		log_error("cannot write to standard output");
		status = EXIT_UNRECORDED;
	}
	return status;
}

int
main(int argc, char *argv[])
{
	const struct command *command;
	char word[WORD_SIZE];

	if (fds_open_standard() == -1) {
		log_error("cannot open /dev/null in place of a missing "
		    "standard descriptor");
		return EXIT_INTERNAL;
	}
	if (argc < 2) {
		log_error("a command is missing; see 'leaserun --help'");
		return EXIT_USAGE;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
		return finish_output(print_help());
	if (strcmp(argv[1], "--version") == 0) {
		printf("leaserun %s\n", PACKAGE_VERSION);
		return finish_output(EXIT_OK);
	}
	if (argv[1][0] == '-') {
		log_error("'%s' is not a command; options come after it: "
		    "leaserun run %s; see 'leaserun --help'",
		    word_shown(argv[1], word), word);
		return EXIT_USAGE;
	}
	command = find_command(argv[1]);
	if (command == NULL) {
		log_error("'%s' is not a command; see 'leaserun --help'",
		    word_shown(argv[1], word));
		return EXIT_USAGE;
	}
	return finish_output(command->fn(argc - 1, argv + 1));
}
