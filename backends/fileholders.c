/*
 * Which processes have the lock of a lease, as far as we may see them.  Must
 * never wait for any of them.
 */
#include <sys/types.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fileholders.h"

#define PATH_SIZE	(PATH_MAX + FILEDIR_FILE_SIZE)

static bool
has_suffix(const char *line, const char *suffix)
{
	size_t len = strlen(line), n = strlen(suffix);

	return len > n && strcmp(line + len - n, suffix) == 0;
}

/*
 * Does this process have the lease locked?  readlink(2) and not stat(2), which
 * could hang on somebody's dead network mount; fdinfo tells a holder from a
 * waiter, which has the file open, too.
 */
static bool
is_holder(const char *pid, const char *path)
{
	char name[64], line[256];
	struct dirent *d;
	bool found = false;
	ssize_t n;
	FILE *fp;
	DIR *fds;

	snprintf(name, sizeof(name), "/proc/%.16s/fd", pid);
	if ((fds = opendir(name)) == NULL)
		return false;
	while (!found && (d = readdir(fds)) != NULL) {
		char target[PATH_MAX];

		n = readlinkat(dirfd(fds), d->d_name, target, sizeof(target));
		if (n < 0 || (size_t)n != strlen(path) ||
		    memcmp(target, path, (size_t)n) != 0)
			continue;
		snprintf(name, sizeof(name), "/proc/%.16s/fdinfo/%.16s", pid,
		    d->d_name);
		if ((fp = fopen(name, "re")) == NULL)
			continue;
		/* lock: 1: OFDLCK ADVISORY WRITE -1 fe:00:42 0 0 */
		while (!found && fgets(line, sizeof(line), fp) != NULL)
			found = strncmp(line, "lock:", 5) == 0 &&
			    has_suffix(line, " 0 0\n");
		fclose(fp);
	}
	closedir(fds);
	return found;
}

/*
 * A guard has its name for everyone to see.  A keeper whose name is not
 * recorded yet runs the same program as we do.
 */
static bool
is_leaserun(const char *pid)
{
	char name[64], line[32] = "", theirs[PATH_MAX], ours[PATH_MAX];
	ssize_t n;
	FILE *fp;

	snprintf(name, sizeof(name), "/proc/%.16s/exe", pid);
	n = readlink(name, theirs, sizeof(theirs));
	if (n > 0 && readlink("/proc/self/exe", ours, sizeof(ours)) == n &&
	    memcmp(theirs, ours, (size_t)n) == 0)
		return true;
	snprintf(name, sizeof(name), "/proc/%.16s/comm", pid);
	if ((fp = fopen(name, "re")) == NULL)
		return false;
	if (fgets(line, sizeof(line), fp) == NULL)
		line[0] = '\0';
	fclose(fp);
	return strcmp(line, "leaserun-guard\n") == 0;
}

static void
find(const char *path, struct fileholders *holders)
{
	const size_t size = sizeof(holders->text);
	size_t len = 0, found = 0;
	struct dirent *d;
	DIR *proc;

	holders->text[0] = '\0';
	holders->has_leaserun = false;
	if ((proc = opendir("/proc")) == NULL)
		return;
	while ((d = readdir(proc)) != NULL) {
		if (strspn(d->d_name, "0123456789") != strlen(d->d_name) ||
		    !is_holder(d->d_name, path))
			continue;
		holders->has_leaserun |= is_leaserun(d->d_name);
		if (++found > FILEHOLDERS_MAX)
			continue;
		len += (size_t)snprintf(holders->text + len, size - len,
		    "%s%.16s", len == 0 ? "" : ", ", d->d_name);
	}
	if (found > FILEHOLDERS_MAX)
		snprintf(holders->text + len, size - len, " and more");
	closedir(proc);
}

/* The path of a lock file as /proc shows it. */
static bool
lock_path(const struct filedir *dir, const char *name, char path[PATH_SIZE])
{
	char file[FILEDIR_FILE_SIZE];
	size_t len;

	if (realpath(dir->path, path) == NULL)
		return false;
	len = strlen(path);
	snprintf(path + len, PATH_SIZE - len, "/%s", filedir_name(file, name,
	    ".lock"));
	return true;
}

/* Of somebody else: what it has open is not for us to see, nor its guard. */
static bool
is_hidden(int64_t pid)
{
	return kill((pid_t)pid, 0) == -1 && errno == EPERM;
}

void
fileholders_find(const struct filedir *dir, const char *name,
    struct fileholders *holders)
{
	char path[PATH_SIZE];

	holders->text[0] = '\0';
	holders->has_leaserun = false;
	if (lock_path(dir, name, path))
		find(path, holders);
}

bool
fileholders_orphaned(const struct filedir *dir,
    const struct leaserun_entry *entry, struct fileholders *holders)
{
	char path[PATH_SIZE], pid[24];

	if ((entry->state != LEASERUN_BUSY &&
	    entry->state != LEASERUN_REVOKING) || entry->pid <= 0 ||
	    !lock_path(dir, entry->name, path))
		return false;
	snprintf(pid, sizeof(pid), "%" PRId64, entry->pid);
	if (is_holder(pid, path) || is_hidden(entry->pid))
		return false;
	find(path, holders);
	return holders->text[0] != '\0' && !holders->has_leaserun;
}
