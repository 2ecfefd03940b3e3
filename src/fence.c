/*
 * `leaserun fence': compares a token with the highest one that FILE has seen,
 * and runs a command under the same lock.  Must never run it with a lower one,
 * nor before a higher one is on the disk.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "fence.h"
#include "fencefile.h"
#include "leave.h"
#include "log.h"
#include "passthru.h"
#include "record.h"
#include "timeutil.h"
#include "util.h"

/* How often the record may be replaced while we lock it. */
#define REPLACED_MAX	10

struct fence {
	struct conf	conf;
	const char	*shown;		/* FILE */
	char		**argv;		/* the command */
	struct fencefile file;
};

static int
print_help(void)
{
	printf("usage: leaserun fence [OPTION]... FILE [--] COMMAND [ARG]...\n"
	    "\nRuns the command unless a later holder has written: FILE.fence "
	    "keeps the highest\ntoken seen.  One command at a time; the others "
	    "wait.\n\n");
	conf_print_options(CONF_FENCE);
	printf("\nExit status: the command's; 64 usage, 69 the record cannot "
	    "be written, 70\ninternal, 75 a later holder has written, or the "
	    "wait ran out, 77 no rights, 78\nFILE or its record cannot be "
	    "used, 126 cannot be executed, 127 not found.\nSee leaserun(1) and "
	    "leaserun-fencing(7).\n");
	return EXIT_OK;
}

static int
usage_error(const char *what, const char *word)
{
	char shown[WORD_SIZE];

	log_error("fence: %s%s%s%s; see 'leaserun fence --help'", what,
	    word == NULL ? "" : " '", word == NULL ? "" :
	    word_shown(word, shown), word == NULL ? "" : "'");
	return EXIT_USAGE;
}

/* FILE [--] COMMAND [ARG]...; only FILE may stand before a `--'. */
static int
read_operands(struct fence *f, int argc, char *argv[], int first)
{
	int i;

	if (first >= argc)
		return usage_error("the file is missing", NULL);
	if (operand_is_forgotten(argc, argv, first))
		return usage_error("the file is missing in front of '--'; "
		    "write FILE -- COMMAND", NULL);
	f->shown = argv[first];
	if (*f->shown == '\0')
		return usage_error("the file is empty", NULL);
	first++;
	if (first < argc && argv[first][0] == '-' &&
	    strcmp(argv[first], "--") != 0)
		return usage_error("options come before the file, or write "
		    "FILE -- COMMAND:", argv[first]);
	for (i = first + 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0 &&
		    strcmp(argv[first], "--") != 0)
			return usage_error("one word is the file, write FILE "
			    "-- COMMAND; before '--' there is also",
			    argv[first]);
	}
	if (first < argc && strcmp(argv[first], "--") == 0)
		first++;
	if (first >= argc)
		return usage_error("the command is missing after", f->shown);
	if (argv[first][0] == '\0')
		return usage_error("the command is empty after", f->shown);
	f->argv = argv + first;
	return 0;
}

static int
read_token(struct fence *f)
{
	const char *text = getenv("LEASERUN_FENCE_TOKEN");

	if (f->conf.token_given)
		return 0;
	if (text == NULL)
		return usage_error("no token: give --token, or run it inside a "
		    "job (LEASERUN_FENCE_TOKEN)", NULL);
	if (number_parse(text, LEASERUN_TOKEN_MAX, &f->conf.token) == -1 ||
	    f->conf.token == 0)
		return usage_error("give --token, or run it inside a job: "
		    "LEASERUN_FENCE_TOKEN is not a token:", text);
	return 0;
}

/* Both numbers, and no way around. */
static int
stale(const struct fence *f, uint64_t highest)
{
	log_error("fence: '%.300s': token %" PRIu64 " is stale: %" PRIu64
	    " has written; the command was not started, end the job",
	    f->shown, f->conf.token, highest);
	return EXIT_HELD;
}

/*
 * Without the lock what is there is at most too low: enough to refuse at once,
 * and to tell who has the lock.
 */
static uint64_t
highest_so_far(const struct fence *f)
{
	struct record record;

	if (record_read(f->file.fd, &record) == -1)
		return 0;
	return record.number;
}

static int
busy(const struct fence *f)
{
	uint64_t highest = highest_so_far(f);
	char waited[32];

	if (highest > f->conf.token)
		return stale(f, highest);
	duration_format(f->conf.wait, waited, sizeof(waited));
	log_error("fence: '%.300s': token %" PRIu64 " is in progress, token %"
	    PRIu64 " waited %s for its turn; the command was not started, see "
	    "--wait, and who has '%.300s' open: fuser", f->shown, highest,
	    f->conf.token, waited, f->file.path);
	return EXIT_HELD;
}

static int
take_turn(struct fence *f)
{
	int64_t deadline = f->conf.wait == TIME_NEVER ? TIME_NEVER :
	    time_add(now_ns(), f->conf.wait);
	uint64_t highest;
	int status, tries;
	bool locked;

	for (tries = 0; tries < REPLACED_MAX; tries++) {
		if ((status = fencefile_open(&f->file)) != 0)
			return status;
		if ((highest = highest_so_far(f)) > f->conf.token)
			return stale(f, highest);
		status = fencefile_lock(&f->file, deadline, &locked);
		if (status != 0)
			return status;
		if (!locked)
			return busy(f);
		if (fencefile_is_current(&f->file))
			return 0;
	}
	log_error("fence: '%.300s' is replaced again and again; find out by "
	    "whom", f->file.path);
	return EXIT_UNAVAILABLE;
}

static int
unreadable(const struct fence *f, enum record_state state)
{
	if (state == RECORD_FOREIGN)
		log_error("fence: '%.300s' was written by a newer leaserun; "
		    "use that", f->file.path);
	else
		log_error("fence: '%.300s' is damaged: the highest token is "
		    "not known; stop the writers, move it away, find the "
		    "highest token that has written, and set it: leaserun "
		    "fence --token N '%.300s' -- true", f->file.path, f->shown);
	return EXIT_CONFIG;
}

/*
 * Under the lock.  The number stands in both places before the command runs:
 * tokens have gaps, so of a damaged one nobody could say what it was.
 */
static int
compare(struct fence *f)
{
	const struct fencefile *file = &f->file;
	struct record record;
	int status;

	if (record_read(file->fd, &record) == -1)
		return fencefile_fail(file, "read", errno);
	if (record.state == RECORD_DAMAGED || record.state == RECORD_FOREIGN)
		return unreadable(f, record.state);
	if (record.number > f->conf.token)
		return stale(f, record.number);
	if (record.state == RECORD_HALF)
		log_warning("fence: one copy in '%.300s' was damaged, it is "
		    "written anew", file->path);
	if (record.state == RECORD_NEW &&
	    (status = fencefile_sync_name(file)) != 0)
		return status;
	if (record.number < f->conf.token &&
	    record_write(file->fd, &record, f->conf.token, "") == -1)
		return fencefile_fail(file, "write", errno);
	if (!record.is_double && record_repeat(file->fd, &record) == -1)
		return fencefile_fail(file, "write", errno);
	return 0;
}

static int
fence(struct fence *f)
{
	int status;

	passthru_init();
	if ((status = fencefile_init(&f->file, f->shown)) == 0 &&
	    (status = take_turn(f)) == 0)
		status = compare(f);
	if (status == 0) {
		log_info("fence: '%.300s': token %" PRIu64 ", running '%s'",
		    f->shown, f->conf.token, f->argv[0]);
		/* We keep the lock as well, until the command has ended. */
		leave(passthru_run(f->argv, f->file.fd));
	}
	fencefile_clear(&f->file);
	return status;
}

int
cmd_fence(int argc, char *argv[])
{
	struct fence f = { .shown = NULL };
	struct conf_error err;
	int first, status;

	if (conf_load(&f.conf, CONF_FENCE, argc, argv, &first, &err) == -1) {
		log_error("%s", err.text);
		return err.status;
	}
	log_open(f.conf.log == NULL ? "stderr" : f.conf.log, f.conf.log_level);
	if (f.conf.help)
		status = print_help();
	else if ((status = read_operands(&f, argc, argv, first)) == 0 &&
	    (status = read_token(&f)) == 0)
		status = fence(&f);
	conf_free(&f.conf);
	return status;
}
