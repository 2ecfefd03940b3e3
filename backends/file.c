/*
 * The file backend: the leases of one host, kept by the kernel.  Must never
 * unlink or rename a lock, nor grant a token that is not on the disk.
 *
 * It is also the shortest way to see what a backend does: read it from the top
 * to the table of functions at the end.  Beside it are
 *	fileurl.c	from a URL to a directory
 *	filedir.c	opening the directory and its files safely
 *	filelock.c	NAME.lock: the lock that is the lease, and its queue
 *	filewait.c	getting it, and saying who has it meanwhile
 *	fileinfo.c	NAME.token: the last token, and who got it
 *	fileonce.c	NAME.once: which keys of --once are done
 *	filelook.c	list and revoke
 *	fileadmin.c	init
 *	filedoctor.c	doctor
 * A lock is kept by every process that inherited its descriptor, so a lease
 * outlives a keeper and a guard that were killed; there is nothing to expire.
 */
#include <sys/stat.h>
#include <sys/types.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "fileadmin.h"
#include "filedir.h"
#include "filedoctor.h"
#include "fileinfo.h"
#include "filelock.h"
#include "filelook.h"
#include "fileonce.h"
#include "fileurl.h"
#include "filewait.h"

/* How often a lock file may be replaced while we lock it. */
#define REPLACED_MAX	10

/* A lease that we hold or are about to. */
struct held {
	struct held	*next;
	char		name[LEASERUN_NAME_SIZE];
	char		owner[LEASERUN_OWNER_SIZE];
	uint64_t	token;
	struct filelock	lock;
	int		token_fd;
	char		host[LEASERUN_HOST_SIZE];
	struct filetold	told;
};

static const struct leaserun_end never_ran;

/* Comes first: list, revoke, init and doctor know nothing but the directory. */
struct file {
	struct filedir	dir;
	struct held	*held;		/* all of them */
};

/*
 * open and close: where it is.  Nothing is touched yet.
 */

static void
held_clear(struct held *held)
{
	filelock_close(&held->lock);
	if (held->token_fd != -1)
		close(held->token_fd);
	held->token_fd = -1;
}

static void
held_remove(struct file *self, struct held *held)
{
	struct held **at = &self->held;

	while (*at != held)
		at = &(*at)->next;
	*at = held->next;
	held_clear(held);
	free(held);
}

static void
file_close(void *arg)
{
	struct file *self = arg;

	while (self->held != NULL)
		held_remove(self, self->held);
	free(self->dir.path);
	free(self);
}

static enum leaserun_result
file_open(const struct leaserun_host *host,
    const struct leaserun_target *target, void **out, unsigned int *endpoints)
{
	enum leaserun_result result;
	struct file *self;

	if ((self = calloc(1, sizeof(*self))) == NULL) {
		host->error(host, "out of memory");
		return LEASERUN_UNAVAILABLE;
	}
	self->dir.host = host;
	if ((result = fileurl_parse(&self->dir, target)) != LEASERUN_OK) {
		file_close(self);
		return result;
	}
	*out = self;
	*endpoints = 1;
	return LEASERUN_OK;
}

/*
 * acquire: lock, read the record, write the record.
 */

static struct held *
held_find(const struct file *self, const char *name, const char *owner)
{
	struct held *held;

	for (held = self->held; held != NULL; held = held->next) {
		if (strcmp(held->name, name) == 0 &&
		    strcmp(held->owner, owner) == 0)
			return held;
	}
	return NULL;
}

static struct held *
held_new(struct file *self, const char *name, const char *owner)
{
	struct held *held;

	if ((held = calloc(1, sizeof(*held))) == NULL)
		return NULL;
	snprintf(held->name, sizeof(held->name), "%s", name);
	snprintf(held->owner, sizeof(held->owner), "%s", owner);
	held->lock.fd = held->token_fd = -1;
	held->next = self->held;
	self->held = held;
	return held;
}

/* Who had it before us; under the lock. */
static enum leaserun_result
read_token(const struct file *self, struct held *held, int dirfd,
    struct fileinfo *info)
{
	const struct filedir *dir = &self->dir;
	enum leaserun_result result;
	char file[FILEDIR_FILE_SIZE];

	filedir_name(file, held->name, ".token");
	result = filedir_file(dir, dirfd, file, true, &held->token_fd);
	if (result != LEASERUN_OK)
		return result;
	if (fileinfo_read(held->token_fd, info) == -1)
		return filedir_fail(dir, "read", file, errno);
	return filelook_record(dir, file, &info->record);
}

/* A floor that was raised while the token was written counts as well. */
static enum leaserun_result
grant_token(const struct file *self, struct held *held, int dirfd,
    struct fileinfo *info, const struct leaserun_request *request,
    struct leaserun_grant *grant)
{
	const struct filedir *dir = &self->dir;
	enum leaserun_result result;
	char file[FILEDIR_FILE_SIZE];
	uint64_t floor, token;

	filedir_name(file, held->name, ".token");
	result = fileadmin_floor(dir, dirfd, &floor);
	while (result == LEASERUN_OK && floor >= grant->token) {
		if ((token = record_next(&info->record, floor)) == 0) {
			dir->host->error(dir->host, "'%s/%s' has used up its "
			    "tokens; choose another name", dir->path, file);
			return LEASERUN_MISCONFIGURED;
		}
		grant->token = token;
		if (fileinfo_grant(held->token_fd, info, token, request,
		    grant->sent_ns) == -1)
			return filedir_fail(dir, "write", file, errno);
		result = fileadmin_floor(dir, dirfd, &floor);
	}
	return result;
}

/* The token counts from the moment it is on the disk. */
static enum leaserun_result
write_token(const struct file *self, struct held *held, int dirfd,
    struct fileinfo *info, const struct leaserun_request *request,
    struct leaserun_grant *grant)
{
	const struct filedir *dir = &self->dir;
	struct leaserun_grant out = { .hold_fd = held->lock.fd };
	enum leaserun_result result;

	out.sent_ns = dir->host->now();
	/*
	 * A grant of our own that failed half-way is no takeover.  Neither is
	 * it ours already: it may be in the cache and not on the disk.
	 */
	out.took_over = !fileinfo_is_released(info) &&
	    !fileinfo_is_owner(info, request->owner);
	if (out.took_over)
		fileinfo_previous(info, held->name, out.sent_ns, &out.previous);

	/* A power cut must not take the whole file back. */
	if (info->record.state == RECORD_NEW && fsync(dirfd) == -1)
		return filedir_fail(dir, "sync directory", NULL, errno);
	result = grant_token(self, held, dirfd, info, request, &out);
	if (result != LEASERUN_OK) {
		/* What is there of it must not look like a run that died. */
		if (out.token != 0)
			fileinfo_end(held->token_fd, info, out.token,
			    &never_ran);
		return result;
	}
	futimens(held->lock.fd, NULL);	/* the first heartbeat */
	held->token = out.token;
	snprintf(held->host, sizeof(held->host), "%s", request->host);
	*grant = out;
	return LEASERUN_OK;
}

/* One round; *again: it came to nothing, but for no lasting reason. */
static enum leaserun_result
acquire_once(const struct file *self, struct held *held,
    const struct leaserun_request *request, int64_t deadline,
    struct leaserun_grant *grant, bool *again)
{
	const struct filedir *dir = &self->dir;
	struct filewait wait = { dir, -1, &held->lock, request, deadline,
	    &held->told };
	enum leaserun_result result;
	struct fileinfo info;
	int64_t left;
	int dirfd;

	*again = false;
	result = filedir_open(dir, FILEDIR_MAKE, &dirfd);
	if (result != LEASERUN_OK)
		return result;
	wait.dirfd = dirfd;
	result = filelock_open(&held->lock, dir, dirfd, held->name);
	if (result == LEASERUN_OK)
		result = filewait_lock(&wait);
	if (result != LEASERUN_OK)
		goto out;
	result = filelock_check(&held->lock);
	if (result != LEASERUN_OK) {
		*again = result == LEASERUN_LOST;
		goto out;
	}
	result = read_token(self, held, dirfd, &info);
	if (result == LEASERUN_OK)
		result = fileonce_look(dir, dirfd, request);
	if (result != LEASERUN_OK)
		goto out;
	left = fileinfo_hold_left(&info, dir->host->now());
	if (left > 0 && (fileinfo_is_released(&info) ||
	    !fileinfo_is_owner(&info, request->owner))) {
		result = filewait_hold(&wait, dir->host->now() + left);
		*again = result == LEASERUN_OK;
		goto out;
	}
	result = write_token(self, held, dirfd, &info, request, grant);
out:
	close(dirfd);
	return result;
}

static enum leaserun_result
file_acquire(void *arg, const struct leaserun_request *request,
    int64_t deadline, struct leaserun_grant *grant)
{
	struct file *self = arg;
	const struct leaserun_host *host = self->dir.host;
	enum leaserun_result result;
	struct held *held;
	int replaced = 0;
	bool again;

	/* The same owner again: it wants to know what it has. */
	if ((held = held_find(self, request->name, request->owner)) != NULL) {
		*grant = (struct leaserun_grant){
			.token = held->token,
			.sent_ns = host->now(),
			.hold_fd = held->lock.fd
		};
		return LEASERUN_OK;
	}
	if ((held = held_new(self, request->name, request->owner)) == NULL) {
		host->error(host, "out of memory");
		return LEASERUN_UNAVAILABLE;
	}
	do {
		held_clear(held);
		result = acquire_once(self, held, request, deadline, grant,
		    &again);
		replaced += result == LEASERUN_LOST;
	} while (again && replaced < REPLACED_MAX);
	if (result == LEASERUN_LOST) {
		host->error(host, "'%s/%s.lock' is replaced again and again; "
		    "find out by whom", self->dir.path, request->name);
		result = LEASERUN_UNAVAILABLE;
	}
	if (result != LEASERUN_OK)
		held_remove(self, held);
	return result;
}

/*
 * renew and release: of what we hold, and only while it is ours.
 */

/* OK, LOST with *loss, or it cannot be told. */
static enum leaserun_result
still_ours(const struct held *held, enum leaserun_loss *loss)
{
	enum leaserun_result result;
	struct fileinfo info;

	/* Someone who inherited the descriptor may have unlocked it. */
	result = filelock_take(&held->lock);
	if (result == LEASERUN_HELD) {
		*loss = LEASERUN_LOSS_TAKEN;
		return LEASERUN_LOST;
	}
	if (result == LEASERUN_OK) {
		*loss = LEASERUN_LOSS_DELETED;
		result = filelock_check(&held->lock);
	}
	/* It may even have come and gone, and we have its lock again. */
	if (result == LEASERUN_OK &&
	    fileinfo_read(held->token_fd, &info) == 0 &&
	    info.record.number > held->token) {
		*loss = LEASERUN_LOSS_TAKEN;
		result = LEASERUN_LOST;
	}
	return result;
}

/* For people and for the mark; the lease itself is the lock. */
static bool
heartbeat(const struct file *self, const struct held *held)
{
	const struct leaserun_host *host = self->dir.host;
	struct fileinfo info;

	if (futimens(held->lock.fd, NULL) == -1)
		host->debug(host, "cannot set the time of '%s.lock': %s",
		    held->name, strerror(errno));
	if (fileinfo_read(held->token_fd, &info) == -1) {
		host->debug(host, "cannot read '%s.token': %s", held->name,
		    strerror(errno));
		return false;
	}
	return info.revoked && info.record.number == held->token &&
	    fileinfo_is_owner(&info, held->owner);
}

static enum leaserun_result
file_renew(void *arg, const struct leaserun_lease *lease, int64_t deadline,
    struct leaserun_renewal *renewal)
{
	struct file *self = arg;
	enum leaserun_loss loss = LEASERUN_LOSS_EXPIRED;
	enum leaserun_result result = LEASERUN_LOST;
	int64_t sent = self->dir.host->now();
	struct held *held;

	(void)deadline;		/* nothing here waits */
	held = held_find(self, lease->name, lease->owner);
	if (held != NULL && held->token == lease->token)
		result = still_ours(held, &loss);
	if (result == LEASERUN_LOST)
		renewal->loss = loss;
	if (result != LEASERUN_OK)
		return result;
	*renewal = (struct leaserun_renewal){
		.sent_ns = sent,
		.revoke = heartbeat(self, held)
	};
	return LEASERUN_OK;
}

/*
 * Notes the end, unless the note is the next holder's already, and unlocks for
 * all who inherited the descriptor: a daemon left behind keeps nothing.
 */
static enum leaserun_result
give_back(struct file *self, struct held *held,
    const struct leaserun_end *end)
{
	const struct fileonce once = { held->name, held->owner, held->token,
	    held->host, end };
	const struct leaserun_host *host = self->dir.host;
	enum leaserun_result result;
	enum leaserun_loss loss;
	struct fileinfo info;

	result = still_ours(held, &loss);
	/* What cannot be recorded is not over yet. */
	if (result != LEASERUN_LOST && end->once_key != NULL &&
	    (result = fileonce_record(&self->dir, &once)) != LEASERUN_OK)
		return result;
	if (result != LEASERUN_LOST) {
		if (fileinfo_read(held->token_fd, &info) == -1 ||
		    fileinfo_end(held->token_fd, &info, held->token, end) == -1)
			host->debug(host, "cannot note the end in '%s.token': "
			    "%s", held->name, strerror(errno));
		result = LEASERUN_OK;
	}
	filelock_drop(&held->lock);
	held_remove(self, held);
	return result;
}

static enum leaserun_result
file_release(void *arg, const struct leaserun_lease *lease,
    const struct leaserun_end *end, int64_t deadline)
{
	struct file *self = arg;
	struct held *held;

	(void)deadline;
	held = held_find(self, lease->name, lease->owner);
	/* A release whose answer was lost is repeated; the record tells. */
	if (held == NULL || held->token != lease->token)
		return filelook_released(&self->dir, lease);
	return give_back(self, held, end);
}

/* An acquisition that failed holds nothing; one that did not is given back. */
static enum leaserun_result
file_abandon(void *arg, const char *name, const char *owner, int64_t deadline)
{
	struct file *self = arg;
	struct held *held;

	(void)deadline;
	if ((held = held_find(self, name, owner)) != NULL)
		give_back(self, held, &never_ran);
	return LEASERUN_OK;
}

const struct leaserun_backend file_backend = {
	.size = sizeof(struct leaserun_backend),
	.version = LEASERUN_BACKEND_VERSION,
	.name = "file",
	.open = file_open,
	.close = file_close,
	.acquire = file_acquire,
	.abandon = file_abandon,
	.renew = file_renew,
	.release = file_release,
	/* For people, and for any process. */
	.list = filelook_list,
	.revoke = filelook_revoke,
	.init = fileadmin_init,
	.doctor = filedoctor,
	.list_once = fileonce_list,
};
