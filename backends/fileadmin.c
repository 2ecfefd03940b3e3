/*
 * init and the floor of the file backend.  Leaves every lease alone.
 */
#include <sys/stat.h>
#include <sys/types.h>

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../src/record.h"
#include "fileadmin.h"
#include "filelock.h"

#define FLOOR_FILE	".floor"
/* An init that is at work; nanoseconds. */
#define INIT_LOOK	INT64_C(10000000)
#define INIT_BOUND	INT64_C(2000000000)

void
filesay(const struct filereport *report, enum leaserun_verdict verdict,
    const char *what, const char *fmt, ...)
{
	char text[LEASERUN_ERROR_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	report->fn(report->arg, verdict, what, text);
}

/* One slot lost may be the one with the highest floor: no guessing. */
static enum leaserun_result
floor_fail(const struct filedir *dir, enum record_state state)
{
	const struct leaserun_host *host = dir->host;

	if (state == RECORD_FOREIGN)
		host->error(host, "'%s/" FLOOR_FILE "' was written by a newer "
		    "version of leaserun; use that version", dir->path);
	else
		host->error(host, "'%s/" FLOOR_FILE "' is damaged; %s"
		    "run 'leaserun init --backend file:%s --raise-token N' "
		    "with N at least the number that was given last",
		    dir->path, state == RECORD_HALF ? "" :
		    "move it away, then ", dir->path);
	return LEASERUN_MISCONFIGURED;
}

static bool
is_init_at_work(const struct filedir *dir, int dirfd)
{
	bool busy = false, queued;
	struct filelock lock;

	if (filelock_open(&lock, dir, dirfd, FLOOR_FILE) != LEASERUN_OK)
		return false;
	filelock_test(lock.fd, &busy, &queued);
	filelock_close(&lock);
	return busy;
}

/* What an init is just about to write is not damaged. */
static enum leaserun_result
read_floor(const struct filedir *dir, int dirfd, int fd, uint64_t *floor)
{
	const struct leaserun_host *host = dir->host;
	int64_t limit = host->now() + INIT_BOUND;
	enum leaserun_result result = LEASERUN_OK;
	struct record record;
	int at_rest = 0;

	while (result == LEASERUN_OK) {
		if (record_read(fd, &record) == -1)
			return filedir_fail(dir, "read", FLOOR_FILE, errno);
		if (record.state == RECORD_GOOD || record.state == RECORD_NEW) {
			*floor = record.number;
			return LEASERUN_OK;
		}
		/* One may have come and gone since. */
		if (at_rest == 2 || host->now() >= limit)
			return floor_fail(dir, record.state);
		at_rest = is_init_at_work(dir, dirfd) ? 0 : at_rest + 1;
		result = host->wait(host, NULL, 0, host->now() + INIT_LOOK);
	}
	return result;
}

enum leaserun_result
fileadmin_floor(const struct filedir *dir, int dirfd, uint64_t *floor)
{
	enum leaserun_result result;
	int fd;

	*floor = 0;
	result = filedir_file(dir, dirfd, FLOOR_FILE, false, &fd);
	if (result != LEASERUN_OK || fd == -1)
		return result;
	result = read_floor(dir, dirfd, fd, floor);
	close(fd);
	return result;
}

/* With the floor's own lock held. */
static enum leaserun_result
raise_locked(const struct filereport *report, int dirfd, uint64_t token)
{
	const struct filedir *dir = report->dir;
	enum leaserun_result result;
	struct record record;
	int fd;

	result = filedir_file(dir, dirfd, FLOOR_FILE, true, &fd);
	if (result != LEASERUN_OK)
		return result;
	if (record_read(fd, &record) == -1) {
		result = filedir_fail(dir, "read", FLOOR_FILE, errno);
		goto out;
	}
	if (record.state == RECORD_DAMAGED || record.state == RECORD_FOREIGN) {
		result = floor_fail(dir, record.state);
		goto out;
	}
	if (record.state != RECORD_HALF && record.number >= token) {
		filesay(report, LEASERUN_NOTE, "token", "the floor is %" PRIu64
		    " already", record.number);
		goto out;
	}
	/* Writing half a record makes it whole, but takes a new number. */
	if (token <= record.number)
		token = record.number + 1;
	if ((record.state == RECORD_NEW && fsync(dirfd) == -1) ||
	    record_write(fd, &record, token, "") == -1) {
		result = filedir_fail(dir, "write", FLOOR_FILE, errno);
		goto out;
	}
	filesay(report, LEASERUN_GOOD, "token", "floor raised: no token up to "
	    "%" PRIu64 " is granted from now on", token);
out:
	close(fd);
	return result;
}

static enum leaserun_result
raise_floor(const struct filereport *report, int dirfd, uint64_t token)
{
	const struct filedir *dir = report->dir;
	enum leaserun_result result;
	struct filelock lock;

	result = filelock_open(&lock, dir, dirfd, FLOOR_FILE);
	if (result != LEASERUN_OK)
		return result;
	result = filelock_take(&lock);
	if (result == LEASERUN_HELD) {
		dir->host->error(dir->host, "another init is at work in '%s'; "
		    "try again", dir->path);
		result = LEASERUN_UNAVAILABLE;
	}
	if (result == LEASERUN_OK)
		result = raise_locked(report, dirfd, token);
	filelock_close(&lock);
	return result;
}

static enum leaserun_result
make_fail(const struct filedir *dir, int error)
{
	if (error != ENOENT)
		return filedir_fail(dir, "make directory", NULL, error);
	dir->host->error(dir->host, "cannot make directory '%s': %s; make its "
	    "parent first", dir->path, strerror(error));
	return LEASERUN_MISCONFIGURED;
}

/* What it would do.  Nothing that is there is changed by init. */
static enum leaserun_result
init_print(const struct filereport *report, bool missing, uint64_t token)
{
	const struct filedir *dir = report->dir;
	enum leaserun_result result = LEASERUN_OK;
	uint64_t floor = 0;
	int fd = -1;

	if (missing)
		filesay(report, LEASERUN_NOTE, "directory", "would make '%s' "
		    "with mode 0700", dir->path);
	else
		result = filedir_open(dir, FILEDIR_USE, &fd);
	if (fd != -1) {
		filesay(report, LEASERUN_GOOD, "directory", "'%s' is there",
		    dir->path);
		result = fileadmin_floor(dir, fd, &floor);
		close(fd);
	}
	if (result == LEASERUN_OK && token > floor)
		filesay(report, LEASERUN_NOTE, "token", "would raise the floor "
		    "to %" PRIu64, token);
	else if (result == LEASERUN_OK && token > 0)
		filesay(report, LEASERUN_NOTE, "token", "the floor is %" PRIu64
		    " already", floor);
	return result;
}

enum leaserun_result
fileadmin_init(void *self, const struct leaserun_init *init, int64_t deadline,
    leaserun_line_fn *fn, void *arg)
{
	const struct filedir *dir = self;
	const struct filereport report = { dir, fn, arg };
	uint64_t token = init->raise_token;
	enum leaserun_result result;
	struct stat st;
	bool missing;
	int fd;

	(void)deadline;		/* nothing here waits */
	if (token >= (uint64_t)LEASERUN_TOKEN_MAX) {
		dir->host->error(dir->host, "above %" PRIu64 " there is no "
		    "token; give a lower number", token);
		return LEASERUN_MISCONFIGURED;
	}
	missing = lstat(dir->path, &st) == -1 && errno == ENOENT;
	if (init->print)
		return init_print(&report, missing, token);
	if (missing && filedir_make(dir->path, dir->is_default) == -1)
		return make_fail(dir, errno);
	result = filedir_open(dir, FILEDIR_MAKE, &fd);
	if (result != LEASERUN_OK)
		return result;
	filesay(&report, LEASERUN_GOOD, "directory", missing ?
	    "made '%s' with mode 0700" : "'%s' is there", dir->path);
	if (token > 0)
		result = raise_floor(&report, fd, token);
	close(fd);
	return result;
}
