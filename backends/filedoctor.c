/*
 * doctor of the file backend: looks for everything that could be wrong, with
 * scratch files of its own.  Must never touch a lease.
 */
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/vfs.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fileadmin.h"
#include "filedoctor.h"
#include "fileinfo.h"
#include "filelock.h"

#define DOCTOR_FILE	".doctor"

#define SYNC_TRIES	5

/* Slower than this, and every start of a job is felt. */
#define SYNC_SLOW_NS	INT64_C(100000000)

/* With less, the next new names will not fit. */
#define FREE_BYTES	(UINT64_C(1) << 20)
#define FREE_FILES	100

static void
check_directory(const struct filereport *report, const struct stat *st)
{
	const char *path = report->dir->path;
	unsigned int mode = st->st_mode & 07777;

	if (mode & S_IWOTH)
		filesay(report, LEASERUN_WARN, "directory", "'%s', mode %04o: "
		    "others can make a lock file before you do and so stop the "
		    "job; choose a directory of your own", path, mode);
	else if (mode & S_IWGRP)
		filesay(report, LEASERUN_NOTE, "directory", "'%s', owner uid "
		    "%u, mode %04o: %s group %u", path, st->st_uid, mode,
		    mode & S_ISGID ? "shared with" : "run chmod g+s to share "
		    "the files with", st->st_gid);
	else
		filesay(report, LEASERUN_GOOD, "directory", "'%s', owner uid "
		    "%u, mode %04o", path, st->st_uid, mode);
}

static void
check_file_system(const struct filereport *report, int dirfd)
{
	const char *name = filedir_network(dirfd);
	struct statfs fs;

	filesay(report, LEASERUN_NOTE, "scope", "excludes jobs of this host "
	    "only; for a fleet choose another backend");
	if (fstatfs(dirfd, &fs) == -1)
		return;
	if (name != NULL) {
		filesay(report, LEASERUN_WARN, "file system", "%s: locks may "
		    "not hold for other hosts, or at all", name);
		return;
	}
	switch ((uint32_t)fs.f_type) {
	case 0x01021994:	/* tmpfs */
	case 0x858458f6:	/* ramfs */
		filesay(report, LEASERUN_WARN, "file system", "in memory: "
		    "after a reboot only the clock keeps tokens from going "
		    "back");
		break;
	case 0x794c7630:	/* overlayfs */
		filesay(report, LEASERUN_NOTE, "file system", "overlay: locks "
		    "and tokens end with the container, and others do not see "
		    "them");
		break;
	default:
		filesay(report, LEASERUN_GOOD, "file system", "local (type "
		    "0x%x)", (unsigned int)fs.f_type);
		break;
	}
}

static void
check_space(const struct filereport *report, int dirfd)
{
	struct statvfs fs;
	uint64_t bytes;
	bool low;

	if (fstatvfs(dirfd, &fs) == -1)
		return;
	bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	/* Some file systems do not count files. */
	low = bytes < FREE_BYTES ||
	    (fs.f_files > 0 && fs.f_favail < FREE_FILES);
	filesay(report, low ? LEASERUN_WARN : LEASERUN_GOOD, "space", "%" PRIu64
	    " MB and %ju files free%s", bytes >> 20, (uintmax_t)fs.f_favail,
	    low ? "; new names will not fit" : "");
}

/* Takes the lock of a scratch file and tests it from outside. */
static enum leaserun_result
check_lock(const struct filereport *report, int dirfd)
{
	bool busy = false, queued;
	enum leaserun_result result;
	struct filelock lock;
	int fd = -1;

	result = filelock_open(&lock, report->dir, dirfd, DOCTOR_FILE);
	if (result != LEASERUN_OK)
		return result;
	result = filelock_take(&lock);
	if (result == LEASERUN_HELD) {
		filesay(report, LEASERUN_NOTE, "lock", "not tried: another "
		    "doctor is at work");
		result = LEASERUN_OK;
	} else if (result == LEASERUN_OK) {
		result = filedir_peek(report->dir, dirfd, lock.file, &fd);
		if (result != LEASERUN_OK)
			goto out;
		if (filelock_test(fd, &busy, &queued) == -1)
			result = filedir_fail(report->dir, "test the lock of",
			    lock.file, errno);
		else
			filesay(report, busy ? LEASERUN_GOOD : LEASERUN_BAD,
			    "lock", busy ? "works" : "was taken, but nobody "
			    "sees it; choose a local file system that keeps "
			    "locks");
	}
out:
	if (fd != -1)
		close(fd);
	filelock_close(&lock);
	return result;
}

/* What the token costs each start. */
static enum leaserun_result
check_sync(const struct filereport *report, int dirfd)
{
	const struct leaserun_host *host = report->dir->host;
	int64_t start, took, best = INT64_MAX, worst = 0;
	enum leaserun_result result;
	char block[1024];
	int fd, i;

	result = filedir_file(report->dir, dirfd, DOCTOR_FILE, true, &fd);
	if (result != LEASERUN_OK)
		return result;
	for (i = 0; i < SYNC_TRIES && result == LEASERUN_OK; i++) {
		memset(block, i, sizeof(block));
		start = host->now();
		if (pwrite(fd, block, sizeof(block), 0) != sizeof(block) ||
		    fdatasync(fd) == -1)
			result = filedir_fail(report->dir, "write",
			    DOCTOR_FILE, errno);
		took = host->now() - start;
		best = took < best ? took : best;
		worst = took > worst ? took : worst;
	}
	close(fd);
	if (result == LEASERUN_OK)
		filesay(report, worst > SYNC_SLOW_NS ? LEASERUN_WARN :
		    LEASERUN_GOOD, "sync", "%.2f to %.2f ms to write a token",
		    (double)best / 1e6, (double)worst / 1e6);
	return result;
}

/* In a directory like /tmp, this sysctl is what keeps planted files out. */
static void
check_protected(const struct filereport *report, const struct stat *st)
{
	char value = '?';
	int fd;

	if ((st->st_mode & (S_ISVTX | S_IWOTH)) != (S_ISVTX | S_IWOTH))
		return;
	fd = open("/proc/sys/fs/protected_regular", O_RDONLY | O_CLOEXEC);
	if (fd != -1) {
		if (read(fd, &value, 1) != 1)
			value = '?';
		close(fd);
	}
	filesay(report, LEASERUN_NOTE, "sysctl", "fs.protected_regular is %c; "
	    "files that others have planted are refused in any case", value);
}

static bool
is_token_file(const char *file)
{
	const char *dot = strrchr(file, '.');

	return file[0] != '.' && dot != NULL && strcmp(dot, ".token") == 0;
}

/* *good is left alone when there is something to say. */
static void
check_record(const struct filereport *report, int dirfd, const char *file,
    int *good)
{
	struct fileinfo info;
	int fd;

	if (filedir_peek(report->dir, dirfd, file, &fd) != LEASERUN_OK ||
	    fileinfo_read(fd, &info) == -1)
		filesay(report, LEASERUN_BAD, "record", "cannot read '%s'; "
		    "'leaserun status' with its name tells why", file);
	else if (info.record.state == RECORD_HALF)
		filesay(report, LEASERUN_WARN, "record", "'%s' is half "
		    "damaged; the next grant repairs it", file);
	else if (info.record.state == RECORD_DAMAGED)
		filesay(report, LEASERUN_BAD, "record", "'%s' is damaged; move "
		    "it away, then run init with --raise-token", file);
	else if (info.record.state == RECORD_FOREIGN)
		filesay(report, LEASERUN_BAD, "record", "'%s' was written by a "
		    "newer version of leaserun; use that version", file);
	else
		(*good)++;
	if (fd != -1)
		close(fd);
}

static enum leaserun_result
check_records(const struct filereport *report, int dirfd)
{
	enum leaserun_result result;
	char **files;
	int i, n, good = 0;
	uint64_t floor;

	if ((n = filedir_names(dirfd, is_token_file, &files)) == -1)
		return filedir_fail(report->dir, "read directory", NULL, errno);
	for (i = 0; i < n; i++) {
		check_record(report, dirfd, files[i], &good);
		free(files[i]);
	}
	free(files);
	filesay(report, LEASERUN_GOOD, "records", "%d of %d in order", good, n);
	result = fileadmin_floor(report->dir, dirfd, &floor);
	if (result == LEASERUN_OK && floor > 0)
		filesay(report, LEASERUN_NOTE, "floor", "no token up to %"
		    PRIu64 " is granted", floor);
	return result;
}

enum leaserun_result
filedoctor(void *self, int64_t deadline, leaserun_line_fn *fn, void *arg)
{
	const struct filedir *dir = self;
	const struct filereport report = { dir, fn, arg };
	enum leaserun_result result;
	struct stat st;
	int fd;

	(void)deadline;		/* nothing here waits but for the disk */
	result = filedir_open(dir, FILEDIR_USE, &fd);
	if (result != LEASERUN_OK)
		return result;
	if (fd == -1) {
		filesay(&report, LEASERUN_NOTE, "directory", "'%s' is not "
		    "there yet; the first run makes it", dir->path);
		return LEASERUN_OK;
	}
	if (fstat(fd, &st) == -1) {
		result = filedir_fail(dir, "look at directory", NULL, errno);
		goto out;
	}
	check_directory(&report, &st);
	check_protected(&report, &st);
	check_file_system(&report, fd);
	check_space(&report, fd);
	result = check_lock(&report, fd);
	if (result == LEASERUN_OK)
		result = check_sync(&report, fd);
	if (result == LEASERUN_OK)
		result = check_records(&report, fd);
out:
	close(fd);
	return result;
}
