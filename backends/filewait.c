/*
 * Getting a lease that somebody else may have, and saying who that is.  Must
 * never decide by what it says: only the lock tells who has the lease.
 */
#include <string.h>

#include "filelook.h"
#include "fileonce.h"
#include "filewait.h"

/* Nanoseconds between looks at a hold, which may be ended before its time. */
#define HOLD_LOOK	INT64_C(1000000000)

/* Says who has it, once for each holder; false: do not wait. */
static bool
tell_holder(const struct filewait *w)
{
	const struct leaserun_host *host = w->dir->host;
	struct filetold *told = w->told;
	struct leaserun_entry entry;
	struct fileinfo info;

	if (filelook(w->dir, w->dirfd, w->request->name, &info, &entry) !=
	    LEASERUN_OK)
		host->debug(host, "cannot tell who holds '%s'",
		    w->request->name);
	/* Between two holders nobody is recorded: that is no holder. */
	if (told->any && (strcmp(told->owner, entry.owner) == 0 ||
	    (entry.owner[0] == '\0' && entry.state != LEASERUN_UNREADABLE)))
		return told->go_on;
	told->any = true;
	memcpy(told->owner, entry.owner, sizeof(told->owner));
	told->go_on = host->holder(host, &entry);
	return told->go_on;
}

/* Whoever waits for long is told of the next holder, too. */
static bool
look_again(void *arg)
{
	return tell_holder(arg);
}

enum leaserun_result
filewait_lock(struct filewait *w)
{
	const struct filelock_look look = { look_again, w };
	enum leaserun_result result = LEASERUN_HELD;

	if (!filelock_is_queued(w->lock))
		result = filelock_take(w->lock);
	while (result == LEASERUN_HELD) {
		if (fileonce_look(w->dir, w->dirfd, w->request) ==
		    LEASERUN_DONE)
			return LEASERUN_DONE;
		if (!tell_holder(w) || !w->request->wait ||
		    w->dir->host->now() >= w->deadline)
			break;
		result = filelock_wait(w->lock, w->deadline, &look);
	}
	return result;
}

/* Not ended by force, nor by somebody who came and went. */
static bool
is_kept(const struct filewait *w)
{
	struct leaserun_entry entry;
	struct fileinfo info;

	return filelook(w->dir, w->dirfd, w->request->name, &info, &entry) ==
	    LEASERUN_OK && entry.state == LEASERUN_HOLDING;
}

enum leaserun_result
filewait_hold(const struct filewait *w, int64_t until)
{
	const struct leaserun_host *host = w->dir->host;
	enum leaserun_result result;
	int64_t at;

	filelock_drop(w->lock);
	if (!tell_holder(w) || !w->request->wait || host->now() >= w->deadline)
		return LEASERUN_HELD;
	if (until > w->deadline)
		until = w->deadline;
	do {
		at = host->now() + HOLD_LOOK;
		result = host->wait(host, NULL, 0, at < until ? at : until);
	} while (result == LEASERUN_OK && host->now() < until && is_kept(w));
	return result;
}
