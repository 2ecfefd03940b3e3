/*
 * list and revoke of the file backend.  Must never take a lock: a look would
 * then make a job be skipped.
 */
#include <sys/stat.h>
#include <sys/types.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "filelock.h"
#include "filelook.h"
#include "fileonce.h"

/* More processes than this are not named one by one. */
#define PIDS_MAX	10
#define PATH_SIZE	(PATH_MAX + FILEDIR_FILE_SIZE)

/* Who holds a lock, as far as we may see. */
struct holders {
	char	text[PIDS_MAX * 18 + 10];	/* pids for people; "" */
	bool	has_leaserun;	/* which looks after the others */
};

enum leaserun_result
filelook_record(const struct filedir *dir, const char *file,
    const struct record *record)
{
	const struct leaserun_host *host = dir->host;

	if (record->state == RECORD_FOREIGN) {
		host->error(host, "'%s/%s' was written by a newer version of "
		    "leaserun; use that version", dir->path, file);
		return LEASERUN_MISCONFIGURED;
	}
	if (record->state == RECORD_DAMAGED) {
		host->error(host, "'%s/%s' is damaged, so the next token is "
		    "not known; move it away, then run 'leaserun init "
		    "--backend file:%s --raise-token N' with N at least the "
		    "highest token that the jobs have seen", dir->path, file,
		    dir->path);
		return LEASERUN_MISCONFIGURED;
	}
	return LEASERUN_OK;
}

static enum leaserun_result
look_at_lock(const struct filedir *dir, int dirfd, const char *file,
    struct stat *st, bool *busy, bool *queued)
{
	enum leaserun_result result;
	int fd;

	*busy = *queued = false;
	memset(st, 0, sizeof(*st));
	result = filedir_peek(dir, dirfd, file, &fd);
	if (result != LEASERUN_OK || fd == -1)
		return result;
	if (filelock_test(fd, busy, queued) == -1 || fstat(fd, st) == -1)
		result = filedir_fail(dir, "test the lock of", file, errno);
	close(fd);
	return result;
}

static enum leaserun_result
look_at_record(const struct filedir *dir, int dirfd, const char *file,
    struct fileinfo *info)
{
	enum leaserun_result result;
	int fd;

	result = filedir_peek(dir, dirfd, file, &fd);
	if (result != LEASERUN_OK)
		return result;
	if (fileinfo_read(fd, info) == -1)
		result = filedir_fail(dir, "read", file, errno);
	if (fd != -1)
		close(fd);
	return result;
}

enum leaserun_result
filelook(const struct filedir *dir, int dirfd, const char *name,
    struct fileinfo *info, struct leaserun_entry *entry)
{
	char lock[FILEDIR_FILE_SIZE], token[FILEDIR_FILE_SIZE];
	enum leaserun_result result;
	bool busy, queued;
	struct stat st;

	memset(entry, 0, sizeof(*entry));
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	filedir_name(lock, name, ".lock");
	filedir_name(token, name, ".token");
	result = look_at_lock(dir, dirfd, lock, &st, &busy, &queued);
	if (result == LEASERUN_OK)
		result = look_at_record(dir, dirfd, token, info);
	if (result != LEASERUN_OK)
		return result;
	fileinfo_entry(info, name, busy, dir->host->now(), entry);
	entry->waiting = queued ? filelock_waiters(&st) : 0;
	if (queued && entry->waiting == 0)
		entry->waiting = 1;	/* or more */
	if (busy)
		entry->renewed_ms = (int64_t)st.st_mtim.tv_sec * 1000 +
		    st.st_mtim.tv_nsec / 1000000;
	return filelook_record(dir, token, &info->record);
}

enum leaserun_result
filelook_released(const struct filedir *dir, const struct leaserun_lease *lease)
{
	enum leaserun_result result;
	struct leaserun_entry entry;
	struct fileinfo info;
	int dirfd;

	result = filedir_open(dir, FILEDIR_LOOK, &dirfd);
	if (result != LEASERUN_OK)
		return result;
	result = filelook(dir, dirfd, lease->name, &info, &entry);
	if (dirfd != -1)
		close(dirfd);
	if (result == LEASERUN_OK && (info.released != lease->token ||
	    !fileinfo_is_owner(&info, lease->owner)))
		result = LEASERUN_LOST;
	return result;
}

enum leaserun_result
file_refuses(void *self, const struct leaserun_request *request)
{
	const struct filedir *dir = self;
	enum leaserun_result result = LEASERUN_OK;
	bool busy = false, queued = false;
	char file[FILEDIR_FILE_SIZE];
	struct leaserun_entry entry;
	struct fileinfo info;
	int dirfd, fd = -1;

	if (filedir_open(dir, FILEDIR_USE, &dirfd) != LEASERUN_OK ||
	    dirfd == -1)
		return LEASERUN_OK;
	filedir_name(file, request->name, ".lock");
	if (filedir_file(dir, dirfd, file, false, &fd) == LEASERUN_OK &&
	    fd != -1 && filelock_test(fd, &busy, &queued) == 0 &&
	    (busy || queued))
		result = LEASERUN_HELD;
	if (result == LEASERUN_HELD && fileonce_look(dir, dirfd, request) ==
	    LEASERUN_DONE)
		result = LEASERUN_DONE;
	else if (result == LEASERUN_HELD) {
		filelook(dir, dirfd, request->name, &info, &entry);
		dir->host->holder(dir->host, &entry);
	}
	if (fd != -1)
		close(fd);
	close(dirfd);
	return result;
}

static bool
has_suffix(const char *file, const char *suffix)
{
	size_t len = strlen(file), n = strlen(suffix);

	return len > n && strcmp(file + len - n, suffix) == 0;
}

static bool
is_lease_file(const char *file)
{
	return file[0] != '.' && strlen(file) < FILEDIR_FILE_SIZE &&
	    (has_suffix(file, ".token") || has_suffix(file, ".lock"));
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

/* "1, 2 and more"; "" when there is none that we may see. */
static void
find_holders(const char *path, struct holders *holders)
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
		if (++found > PIDS_MAX)
			continue;
		len += (size_t)snprintf(holders->text + len, size - len,
		    "%s%.16s", len == 0 ? "" : ", ", d->d_name);
	}
	if (found > PIDS_MAX)
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

/*
 * A run holds its lock itself, and so does its guard.  When neither does, but
 * others are seen to, these are of a job that was left alone.  What we may not
 * see proves nothing.
 */
static bool
is_orphaned(const struct filedir *dir, const struct leaserun_entry *entry,
    struct holders *holders)
{
	char path[PATH_SIZE], pid[24];

	if ((entry->state != LEASERUN_BUSY &&
	    entry->state != LEASERUN_REVOKING) || entry->pid <= 0 ||
	    !lock_path(dir, entry->name, path))
		return false;
	snprintf(pid, sizeof(pid), "%" PRId64, entry->pid);
	if (is_holder(pid, path))
		return false;
	find_holders(path, holders);
	return holders->text[0] != '\0' && !holders->has_leaserun;
}

/* One file of the directory; a lock file without a record is a name, too. */
static void
list_file(const struct filedir *dir, int dirfd, const char *file,
    leaserun_entry_fn *fn, void *arg)
{
	char name[LEASERUN_NAME_SIZE], token[FILEDIR_FILE_SIZE];
	size_t len = (size_t)(strrchr(file, '.') - file);
	struct leaserun_entry entry;
	struct holders holders;
	struct fileinfo info;
	struct stat st;

	if (len >= sizeof(name))
		return;
	memcpy(name, file, len);
	name[len] = '\0';
	if (has_suffix(file, ".lock") && fstatat(dirfd,
	    filedir_name(token, name, ".token"), &st, AT_SYMLINK_NOFOLLOW) == 0)
		return;
	/* One that cannot be read must not hide the others. */
	if (filelook(dir, dirfd, name, &info, &entry) != LEASERUN_OK)
		entry.state = LEASERUN_UNREADABLE;
	entry.orphaned = is_orphaned(dir, &entry, &holders);
	fn(arg, &entry);
}

static enum leaserun_result
list_all(const struct filedir *dir, int dirfd, leaserun_entry_fn *fn, void *arg)
{
	char **files;
	int i, n;

	if ((n = filedir_names(dirfd, is_lease_file, &files)) == -1)
		return filedir_fail(dir, "read directory", NULL, errno);
	for (i = 0; i < n; i++) {
		list_file(dir, dirfd, files[i], fn, arg);
		free(files[i]);
	}
	free(files);
	return LEASERUN_OK;
}

enum leaserun_result
filelook_list(void *self, const char *name, int64_t deadline,
    leaserun_entry_fn *fn, void *arg)
{
	const struct filedir *dir = self;
	enum leaserun_result result;
	struct leaserun_entry entry;
	struct holders holders;
	struct fileinfo info;
	int dirfd;

	(void)deadline;		/* nothing here waits */
	result = filedir_open(dir, FILEDIR_LOOK, &dirfd);
	if (result != LEASERUN_OK)
		return result;
	if (name == NULL && dirfd != -1)
		result = list_all(dir, dirfd, fn, arg);
	else if (name != NULL) {
		result = filelook(dir, dirfd, name, &info, &entry);
		if (result == LEASERUN_OK) {
			entry.orphaned = is_orphaned(dir, &entry, &holders);
			fn(arg, &entry);
		}
	}
	if (dirfd != -1)
		close(dirfd);
	return result;
}

/* A lock ends with its processes: all that can be done is to name them. */
static enum leaserun_result
refuse_force(const struct filedir *dir, const char *name)
{
	char path[PATH_SIZE];
	struct holders holders = { .text = "" };

	if (lock_path(dir, name, path))
		find_holders(path, &holders);
	if (holders.text[0] == '\0')
		dir->host->error(dir->host, "a lock ends with its processes, "
		    "and those that hold '%s/%s.lock' cannot be seen from "
		    "here; look for them as root", dir->path, name);
	else
		dir->host->error(dir->host, "a lock ends with its processes, "
		    "and '%s/%s.lock' is held by %s; end these", dir->path,
		    name, holders.text);
	return LEASERUN_MISCONFIGURED;
}

static enum leaserun_result
write_mark(const struct filedir *dir, int dirfd, const struct fileinfo *info,
    const char *name, bool unhold)
{
	enum leaserun_result result;
	char file[FILEDIR_FILE_SIZE];
	int fd;

	filedir_name(file, name, ".token");
	result = filedir_file(dir, dirfd, file, true, &fd);
	if (result != LEASERUN_OK)
		return result;
	if (fileinfo_mark(fd, info, unhold) == -1)
		result = filedir_fail(dir, "write", file, errno);
	close(fd);
	return result;
}

/* Held: asks, unless it is another grant than the one that was meant. */
static enum leaserun_result
revoke_busy(const struct filedir *dir, int dirfd,
    const struct leaserun_revoke *revoke, const struct fileinfo *info,
    struct leaserun_entry *entry)
{
	enum leaserun_result result;
	struct holders holders;

	if (revoke->token != 0 && revoke->token != entry->token)
		return LEASERUN_HELD;
	if (is_orphaned(dir, entry, &holders)) {
		dir->host->error(dir->host, "nobody is there to be asked: the "
		    "run (pid %" PRId64 ") and its guard are gone, and '%s' is "
		    "held by %s, left over from its job; end these",
		    entry->pid, revoke->name, holders.text);
		return LEASERUN_MISCONFIGURED;
	}
	if (revoke->force)
		return refuse_force(dir, revoke->name);
	if (entry->owner[0] == '\0') {
		dir->host->error(dir->host, "the holder of '%s' is not "
		    "recorded yet; try again", revoke->name);
		return LEASERUN_UNAVAILABLE;
	}
	result = write_mark(dir, dirfd, info, revoke->name, false);
	if (result == LEASERUN_OK)
		entry->state = LEASERUN_REVOKING;
	return result;
}

/* Kept by --min-hold: nobody is there to be asked, but it can be freed. */
static enum leaserun_result
revoke_hold(const struct filedir *dir, int dirfd,
    const struct leaserun_revoke *revoke, const struct fileinfo *info,
    struct leaserun_entry *entry)
{
	enum leaserun_result result;

	if (revoke->token != 0 && revoke->token != entry->token)
		return LEASERUN_HELD;
	if (!revoke->force)
		return LEASERUN_OK;
	result = write_mark(dir, dirfd, info, revoke->name, true);
	if (result == LEASERUN_OK)
		entry->state = LEASERUN_FREE;
	return result;
}

enum leaserun_result
filelook_revoke(void *self, const struct leaserun_revoke *revoke,
    int64_t deadline, struct leaserun_entry *out)
{
	const struct filedir *dir = self;
	enum leaserun_result result;
	struct leaserun_entry entry;
	struct fileinfo info;
	int dirfd;

	(void)deadline;
	result = filedir_open(dir, FILEDIR_USE, &dirfd);
	if (result != LEASERUN_OK)
		return result;
	result = filelook(dir, dirfd, revoke->name, &info, &entry);
	if (result == LEASERUN_OK && entry.state == LEASERUN_HOLDING)
		result = revoke_hold(dir, dirfd, revoke, &info, &entry);
	else if (result == LEASERUN_OK && entry.state != LEASERUN_FREE)
		result = revoke_busy(dir, dirfd, revoke, &info, &entry);
	if (dirfd != -1)
		close(dirfd);
	if (result == LEASERUN_OK || result == LEASERUN_HELD)
		*out = entry;
	return result;
}
