/*
 * list and revoke of the file backend.  Must never take a lock: a look would
 * then make a job be skipped.
 */
#include <sys/stat.h>
#include <sys/types.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "fileholders.h"
#include "filelock.h"
#include "filelook.h"
#include "fileonce.h"

#define RECORDED_POLL	INT64_C(20000000)	/* nanoseconds */

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
	entry->state = LEASERUN_UNREADABLE;
	entry->held_for_ms = entry->expires_in_ms = -1;
	filedir_name(lock, name, ".lock");
	filedir_name(token, name, ".token");
	result = look_at_lock(dir, dirfd, lock, &st, &busy, &queued);
	if (result == LEASERUN_OK)
		result = look_at_record(dir, dirfd, token, info);
	/* It may be of somebody who came between the two looks. */
	if (result == LEASERUN_OK && !busy && !fileinfo_is_released(info))
		result = look_at_lock(dir, dirfd, lock, &st, &busy, &queued);
	if (result != LEASERUN_OK)
		return result;
	fileinfo_entry(info, name, busy, dir->host->now(), entry);
	entry->waiting = queued ? filelock_waiters(&st) : 0;
	if (queued && entry->waiting == 0)
		entry->waiting = 1;	/* or more */
	if (busy && entry->owner[0] != '\0')
		entry->renewed_ms = (int64_t)st.st_mtim.tv_sec * 1000 +
		    st.st_mtim.tv_nsec / 1000000;
	result = filelook_record(dir, token, &info->record);
	if (result != LEASERUN_OK)
		entry->state = LEASERUN_UNREADABLE;
	return result;
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
is_lease_file(const char *file)
{
	const char *dot = strrchr(file, '.');

	return dot != NULL && file[0] != '.' &&
	    strlen(file) < FILEDIR_FILE_SIZE &&
	    (strcmp(dot, ".token") == 0 || strcmp(dot, ".lock") == 0);
}

/* One file of the directory; a lock file without a record is a name, too. */
static void
list_file(const struct filedir *dir, int dirfd, const char *file,
    leaserun_entry_fn *fn, void *arg)
{
	char name[LEASERUN_NAME_SIZE], token[FILEDIR_FILE_SIZE];
	size_t len = (size_t)(strrchr(file, '.') - file);
	struct leaserun_entry entry;
	struct fileholders holders;
	struct fileinfo info;
	struct stat st;

	if (len >= sizeof(name))
		return;
	memcpy(name, file, len);
	name[len] = '\0';
	if (strcmp(file + len, ".lock") == 0 && fstatat(dirfd,
	    filedir_name(token, name, ".token"), &st, AT_SYMLINK_NOFOLLOW) == 0)
		return;
	/* One that cannot be read must not hide the others. */
	filelook(dir, dirfd, name, &info, &entry);
	entry.orphaned = fileholders_orphaned(dir, &entry, &holders);
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
	struct fileholders holders;
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
			entry.orphaned = fileholders_orphaned(dir, &entry,
			    &holders);
			fn(arg, &entry);
		}
	}
	if (dirfd != -1)
		close(dirfd);
	return result;
}

/*
 * Between the lock and its record nobody knows who is to be asked; that is a
 * moment, unless the taker was stopped just there.
 */
static enum leaserun_result
look_until_recorded(const struct filedir *dir, int dirfd, const char *name,
    int64_t deadline, struct fileinfo *info, struct leaserun_entry *entry)
{
	const struct leaserun_host *host = dir->host;
	enum leaserun_result result;

	do {
		result = filelook(dir, dirfd, name, info, entry);
	} while (result == LEASERUN_OK && entry->state == LEASERUN_BUSY &&
	    entry->owner[0] == '\0' && host->now() < deadline &&
	    host->wait(host, NULL, 0, host->now() + RECORDED_POLL) ==
	    LEASERUN_OK);
	return result;
}

/* A lock ends with its processes: all that can be done is to name them. */
static enum leaserun_result
refuse_force(const struct filedir *dir, const char *name)
{
	struct fileholders holders;

	fileholders_find(dir, name, &holders);
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
	struct fileholders holders;

	if (entry->owner[0] == '\0' && !revoke->force) {
		dir->host->error(dir->host, "who holds '%s' is not recorded "
		    "yet; try again, or see who that is with --force",
		    revoke->name);
		return LEASERUN_UNAVAILABLE;
	}
	if (revoke->token != 0 && revoke->token != entry->token)
		return LEASERUN_HELD;
	if (fileholders_orphaned(dir, entry, &holders)) {
		dir->host->error(dir->host, "nobody is there to be asked: the "
		    "run (pid %" PRId64 ") and its guard are gone, and '%s' is "
		    "held by %s, left over from its job; end these",
		    entry->pid, revoke->name, holders.text);
		return LEASERUN_MISCONFIGURED;
	}
	if (revoke->force)
		return refuse_force(dir, revoke->name);
	result = write_mark(dir, dirfd, info, revoke->name, false);
	if (result == LEASERUN_OK)
		entry->state = LEASERUN_REVOKING;
	return result;
}

/* Kept by --min-hold: nobody is there to be asked, but it can be freed. */
static enum leaserun_result
revoke_hold(const struct filedir *dir, int dirfd,
    const struct leaserun_revoke *revoke, const struct fileinfo *info,
    const struct leaserun_entry *entry)
{
	if (revoke->token != 0 && revoke->token != entry->token)
		return LEASERUN_HELD;
	return revoke->force ? write_mark(dir, dirfd, info, revoke->name, true)
	    : LEASERUN_OK;
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

	result = filedir_open(dir, FILEDIR_USE, &dirfd);
	if (result != LEASERUN_OK)
		return result;
	if (revoke->force)
		result = filelook(dir, dirfd, revoke->name, &info, &entry);
	else
		result = look_until_recorded(dir, dirfd, revoke->name,
		    deadline, &info, &entry);
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
