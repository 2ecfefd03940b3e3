/*
 * Opens and locks the record beside FILE.  Must never follow a link, use what
 * others may write or block, or remove anything.
 */
#include <sys/stat.h>
#include <sys/types.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../backends/filedir.h"
#include "fencefile.h"
#include "log.h"
#include "timeutil.h"
#include "util.h"

#define SUFFIX		".fence"
/* The signal may come just before the call that it is to interrupt. */
#define NUDGE_EVERY	(20 * NS_PER_MS)

static int
status_of(int error)
{
	switch (error) {
	case EACCES:
	case EPERM:
		return EXIT_DENIED;
	case EAGAIN:		/* no timer */
	case EMFILE:
	case ENOMEM:
		return EXIT_INTERNAL;
	case ENOSPC:
	case EDQUOT:
	case EIO:
	case ENFILE:
	case EBUSY:
	case EINTR:
	case EDEADLK:
		return EXIT_UNAVAILABLE;
	default:
		return EXIT_CONFIG;
	}
}

/* What to do about it, with a semicolon in front; "" when nothing is known. */
static const char *
advice(int error)
{
	switch (error) {
	case EACCES:
	case EPERM:
		return "; run as a user who may";
	case EROFS:
		return "; the record has to be writable, beside the file";
	case ENOSPC:
	case EDQUOT:
		return "; free some space there";
	case EFBIG:
		return "; raise the limit of the file size";
	case EIO:
		return "; look for disk errors in the kernel's log";
	case ENOLCK:
	case EINVAL:
	case EOPNOTSUPP:
		return "; choose a local file system that keeps locks";
	case ENAMETOOLONG:
		return "; choose a name of at most 249 bytes, the record's has "
		    "6 more";
	default:
		return limit_hint(error);
	}
}

int
fencefile_fail(const struct fencefile *f, const char *what, int error)
{
	log_error("fence: cannot %s '%.300s': %s%s", what, f->path,
	    strerror(error), advice(error));
	return status_of(error);
}

static int __attribute__((format(printf, 2, 3)))
refuse(const char *path, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_error("fence: '%.300s' %s", path, text);
	return EXIT_CONFIG;
}

/* Who could replace the record?  Whoever owns the directory owns FILE, too. */
static int
check_dir(int fd, const char *path)
{
	struct stat st;
	const char *fs;

	if (fstat(fd, &st) == -1)
		return refuse(path, "cannot be looked at: %s", strerror(errno));
	if (!filedir_is_trusted(st.st_uid) && !filedir_is_shared(&st))
		return refuse(path, "belongs to uid %u, who could replace the "
		    "record; run as that user, or share the directory with a "
		    "group: chgrp GROUP and chmod 2770", st.st_uid);
	if ((st.st_mode & (S_IWOTH | S_ISVTX)) == S_IWOTH)
		return refuse(path, "has mode %04o: anyone could replace the "
		    "record; run chmod o-w '%.100s'", st.st_mode & 07777, path);
	if ((fs = filedir_network(fd)) != NULL)
		return refuse(path, "is on %s, where locks may not hold for "
		    "other hosts; run fence on the host that has the disk", fs);
	return 0;
}

static int
open_dir(struct fencefile *f)
{
	size_t n = (size_t)(f->name - f->path);
	char *path;
	int status = 0;

	path = n == 0 ? xstrdup(".") : xasprintf("%.*s", (int)n, f->path);
	f->dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->dirfd == -1) {
		log_error("fence: cannot open directory '%.300s': %s%s", path,
		    strerror(errno), errno == ENOENT ? "; make it first" :
		    advice(errno));
		status = status_of(errno);
	} else
		status = check_dir(f->dirfd, path);
	free(path);
	return status;
}

/* Two names for FILE would be two fences. */
static int
check_target(const struct fencefile *f)
{
	char *base = xstrdup(f->name);
	struct stat st;
	int rc;

	base[strlen(base) - strlen(SUFFIX)] = '\0';
	rc = fstatat(f->dirfd, base, &st, AT_SYMLINK_NOFOLLOW);
	free(base);
	if (rc == -1)
		return errno == ENOENT ? 0 : fencefile_fail(f, "look beside",
		    errno);
	if (S_ISLNK(st.st_mode))
		return refuse(f->shown, "is a symbolic link; name the file "
		    "that it points to, as every writer has to");
	if (S_ISDIR(st.st_mode))
		return refuse(f->shown, "is a directory; name a file that "
		    "stands for it, such as '%.100s/.all', which need not "
		    "exist", f->shown);
	if (!S_ISREG(st.st_mode))
		return refuse(f->shown, "is not a regular file; name one that "
		    "stands for it, which need not exist");
	return 0;
}

int
fencefile_init(struct fencefile *f, const char *file)
{
	const char *slash = strrchr(file, '/');
	const char *name = slash == NULL ? file : slash + 1;

	*f = (struct fencefile){ .shown = file, .dirfd = -1, .fd = -1 };
	f->path = xasprintf("%s" SUFFIX, file);
	f->name = f->path + (name - file);
	if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return refuse(file, "is a directory; name a file that stands "
		    "for it, such as '%.100s%s.all', which need not exist",
		    file, *name == '\0' ? "" : "/");
	return 0;
}

/* Why it cannot be opened: mostly what or whose it is. */
static int
open_fail(const struct fencefile *f, int error)
{
	struct stat st;

	if (fstatat(f->dirfd, f->name, &st, AT_SYMLINK_NOFOLLOW) == -1)
		return fencefile_fail(f, error == EACCES || error == EPERM ||
		    error == ENOENT ? "make" : "open", error);
	if (!S_ISREG(st.st_mode))
		return refuse(f->path, "is not a regular file; move it away");
	if (error != EACCES && error != EPERM)
		return fencefile_fail(f, "open", error);
	log_error("fence: cannot open '%.300s', owned by uid %u with mode "
	    "%04o: %s; run as that user, or share it with a group: chgrp GROUP "
	    "and chmod 2770 the directory, chgrp GROUP and chmod 660 it",
	    f->path, st.st_uid, st.st_mode & 07777, strerror(error));
	return EXIT_DENIED;
}

static int
check_file(const struct fencefile *f, const struct stat *dir)
{
	struct stat st;

	if (fstat(f->fd, &st) == -1)
		return fencefile_fail(f, "look at", errno);
	if (!S_ISREG(st.st_mode))
		return refuse(f->path, "is not a regular file; move it away");
	if (!filedir_is_trusted(st.st_uid) &&
	    !(filedir_is_shared(dir) && st.st_gid == dir->st_gid))
		return refuse(f->path, "belongs to uid %u, mode %04o; run as "
		    "that user, or share the directory with a group: chgrp "
		    "GROUP and chmod 2770", st.st_uid, st.st_mode & 07777);
	/* Whoever can open it for reading can block it. */
	if ((st.st_mode & (S_IROTH | S_IWOTH)) != 0)
		return refuse(f->path, "has mode %04o: anyone could %s it; run "
		    "chmod o-rw '%.100s'", st.st_mode & 07777,
		    (st.st_mode & S_IWOTH) != 0 ? "write" : "block", f->path);
	if (st.st_nlink > 1)
		return refuse(f->path, "has a second name; move it away");
	return 0;
}

static void
close_all(struct fencefile *f)
{
	if (f->fd != -1)
		close(f->fd);
	if (f->dirfd != -1)
		close(f->dirfd);
	f->fd = f->dirfd = -1;
}

int
fencefile_open(struct fencefile *f)
{
	struct stat dir;
	int status;

	close_all(f);
	if ((status = open_dir(f)) != 0 || (status = check_target(f)) != 0)
		return status;
	if (fstat(f->dirfd, &dir) == -1)
		return fencefile_fail(f, "look beside", errno);
	f->fd = filedir_open_file(f->dirfd, f->name, true,
	    filedir_is_shared(&dir));
	return f->fd == -1 ? open_fail(f, errno) : check_file(f, &dir);
}

/* 0, or -1 with errno; EAGAIN when somebody else has it. */
static int
take(int fd, int command)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	if (fcntl(fd, command, &all) != -1)
		return 0;
	if (errno == EACCES)
		errno = EAGAIN;
	return -1;
}

static void
nudge(int signo)
{
	(void)signo;		/* it interrupts the call, and that is all */
}

static int
make_nudge(timer_t *timer)
{
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL,
	    .sigev_signo = SIGRTMAX };

	return timer_create(CLOCK_BOOTTIME, &ev, timer);
}

/* The call that blocks, ended by a signal when the time has come. */
static int
wait_for_lock(int fd, int64_t deadline, const timer_t *timer)
{
	struct sigaction old, sa = { .sa_handler = nudge };
	struct itimerspec when = {
		.it_value = { deadline / NS_PER_S, deadline % NS_PER_S },
		.it_interval = { 0, NUDGE_EVERY },
	};
	sigset_t one, saved;
	int rc, error;

	if (timer != NULL) {
		sigemptyset(&one);
		sigaddset(&one, SIGRTMAX);
		sigaction(SIGRTMAX, &sa, &old);
		sigprocmask(SIG_UNBLOCK, &one, &saved);
		timer_settime(*timer, TIMER_ABSTIME, &when, NULL);
	}
	do {
		rc = take(fd, F_OFD_SETLKW);
	} while (rc == -1 && errno == EINTR && now_ns() < deadline);
	error = errno;
	if (timer != NULL) {
		timer_delete(*timer);
		sigprocmask(SIG_SETMASK, &saved, NULL);
		sigaction(SIGRTMAX, &old, NULL);
	}
	errno = error == EINTR ? EAGAIN : error;
	return rc;
}

int
fencefile_lock(struct fencefile *f, int64_t deadline, bool *locked)
{
	int rc = take(f->fd, F_OFD_SETLK);
	bool is_bounded = deadline != TIME_NEVER;
	timer_t timer;

	if (rc == -1 && errno == EAGAIN && now_ns() < deadline) {
		/* Without one it is not known whether the turn would come. */
		if (is_bounded && make_nudge(&timer) == -1)
			return fencefile_fail(f, "wait for", errno);
		rc = wait_for_lock(f->fd, deadline, is_bounded ? &timer : NULL);
	}
	*locked = rc == 0;
	return rc == 0 || errno == EAGAIN ? 0 :
	    fencefile_fail(f, "lock", errno);
}

/*
 * By the whole path: the directory may have been moved away, too.  The number
 * of an open file is not given to another one.
 */
bool
fencefile_is_current(const struct fencefile *f)
{
	struct stat ours, theirs;

	return fstat(f->fd, &ours) == 0 &&
	    lstat(f->path, &theirs) == 0 &&
	    ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

int
fencefile_sync_name(const struct fencefile *f)
{
	return fsync(f->dirfd) == 0 ? 0 :
	    fencefile_fail(f, "sync the directory of", errno);
}

void
fencefile_clear(struct fencefile *f)
{
	close_all(f);
	free(f->path);
	*f = (struct fencefile){ .dirfd = -1, .fd = -1 };
}
