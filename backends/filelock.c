/*
 * Taking, testing and waiting for the lock of a lease.  Must never leave a
 * lock behind that the caller was not told about.
 */
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "filelock.h"

#define BYTE_LEASE	0
#define BYTE_TURN	1

/* Nanoseconds between looks at who has it. */
#define LOOK_FIRST	INT64_C(50000000)
#define LOOK_MAX	INT64_C(10000000000)

/* For F_OFD_GETLK: 1 when another description has the byte.  -1 and errno. */
static int
lock_byte(int fd, int command, int type, off_t byte)
{
	struct flock lock = {
		.l_type = (short)type,
		.l_whence = SEEK_SET,
		.l_start = byte,
		.l_len = 1
	};
	int n;

	while ((n = fcntl(fd, command, &lock)) == -1 && errno == EINTR)
		;
	return n == -1 ? -1 : command == F_OFD_GETLK && lock.l_type != F_UNLCK;
}

enum leaserun_result
filelock_open(struct filelock *lock, const struct filedir *dir, int dirfd,
    const char *name)
{
	lock->dir = dir;
	lock->fd = -1;
	filedir_name(lock->file, name, ".lock");
	return filedir_file(dir, dirfd, lock->file, true, &lock->fd);
}

void
filelock_close(struct filelock *lock)
{
	if (lock->fd != -1)
		close(lock->fd);
	lock->fd = -1;
}

int
filelock_test(int fd, bool *busy, bool *queued)
{
	int lease = lock_byte(fd, F_OFD_GETLK, F_WRLCK, BYTE_LEASE);
	int turn = lock_byte(fd, F_OFD_GETLK, F_WRLCK, BYTE_TURN);

	if (lease == -1 || turn == -1)
		return -1;
	*busy = lease == 1;
	*queued = turn == 1;
	return 0;
}

/*
 * Whoever waits is blocked in a lock call, and the kernel lists these, as in
 * "2: -> OFDLCK ADVISORY  WRITE -1 fe:00:1234 1 1": major and minor number of
 * the device in hexadecimal, then the inode.
 */
int64_t
filelock_waiters(const struct stat *st)
{
	FILE *f = fopen("/proc/locks", "re");
	unsigned int high, low;
	unsigned long inode;
	int64_t n = 0;
	char line[256];
	const char *p;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		p = strstr(line, "-> OFDLCK ");
		if (p != NULL && sscanf(p, "-> %*s %*s %*s %*s %x:%x:%lu",
		    &high, &low, &inode) == 3 && inode == st->st_ino &&
		    makedev(high, low) == st->st_dev)
			n++;
	}
	if (f != NULL)
		fclose(f);
	return n;
}

bool
filelock_is_queued(const struct filelock *lock)
{
	return lock_byte(lock->fd, F_OFD_GETLK, F_WRLCK, BYTE_TURN) == 1;
}

enum leaserun_result
filelock_take(const struct filelock *lock)
{
	if (lock_byte(lock->fd, F_OFD_SETLK, F_WRLCK, BYTE_LEASE) == 0)
		return LEASERUN_OK;
	if (errno == EAGAIN || errno == EACCES)
		return LEASERUN_HELD;
	return filedir_fail(lock->dir, "lock", lock->file, errno);
}

void
filelock_drop(const struct filelock *lock)
{
	lock_byte(lock->fd, F_OFD_SETLK, F_UNLCK, BYTE_LEASE);
	lock_byte(lock->fd, F_OFD_SETLK, F_UNLCK, BYTE_TURN);
}

/* By the whole path: the directory may have been moved away, too. */
enum leaserun_result
filelock_check(const struct filelock *lock)
{
	char path[PATH_MAX];
	struct stat ours, theirs;

	snprintf(path, sizeof(path), "%s/%s", lock->dir->path, lock->file);
	if (fstat(lock->fd, &ours) == -1)
		return filedir_fail(lock->dir, "look at", lock->file, errno);
	if (lstat(path, &theirs) == -1) {
		if (errno == ENOENT || errno == ENOTDIR)
			return LEASERUN_LOST;
		return filedir_fail(lock->dir, "look at", lock->file, errno);
	}
	/* The number of an open file is not given to another one. */
	return ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino ?
	    LEASERUN_OK : LEASERUN_LOST;
}

/*
 * A call that blocks cannot be left at a deadline, so a process of its own
 * makes it.  It shares our description: what it locks is ours, and killing it
 * ends the wait.  Between fork and exit: system calls only.
 */
static void __attribute__((noreturn))
waiter(int fd, int report, pid_t parent)
{
	int error;

	/* When we are killed, what it waits for is nobody's. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 || getppid() != parent)
		_exit(1);
	if (lock_byte(fd, F_OFD_SETLKW, F_WRLCK, BYTE_TURN) == -1 ||
	    lock_byte(fd, F_OFD_SETLKW, F_WRLCK, BYTE_LEASE) == -1) {
		error = errno;
		if (write(report, &error, sizeof(error)) == -1)
			_exit(1);
	}
	_exit(0);
}

static pid_t
waiter_start(int fd, int report)
{
	pid_t parent = getpid(), child;
	sigset_t all, before;
	int error;

	/* The keeper's handlers are not for the child: it never unblocks. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	if ((child = fork()) == 0)
		waiter(fd, report, parent);
	error = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return child;
}

/*
 * Waits for the waiter to end, or ends it.  *ended: it was not us.  The end of
 * file on a pipe tells that it is gone, on any kernel.
 */
static enum leaserun_result
waiter_wait(const struct leaserun_host *host, pid_t child, int report,
    int64_t deadline, const struct filelock_look *look, bool *ended)
{
	struct pollfd pfd = { .fd = report, .events = POLLIN };
	int64_t every = LOOK_FIRST, at;
	enum leaserun_result result;
	siginfo_t si;

	do {
		at = host->now() + every;
		result = host->wait(host, &pfd, 1, at < deadline ? at :
		    deadline);
		every = every * 2 < LOOK_MAX ? every * 2 : LOOK_MAX;
	} while (result == LEASERUN_OK && pfd.revents == 0 &&
	    host->now() < deadline && look->look(look->arg));
	*ended = result == LEASERUN_OK && pfd.revents != 0;
	/* Not by number alone: a sweep of the keeper may have reaped it. */
	if (!*ended && waitid(P_PID, (id_t)child, &si,
	    WEXITED | WNOHANG | WNOWAIT) == 0)
		kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) == -1 && errno == EINTR)
		;
	return result;
}

enum leaserun_result
filelock_wait(const struct filelock *lock, int64_t deadline,
    const struct filelock_look *look)
{
	enum leaserun_result result;
	int report[2], error;
	bool ended;
	pid_t child;

	if (pipe2(report, O_CLOEXEC) == -1)
		return filedir_fail(lock->dir, "wait for", lock->file, errno);
	child = waiter_start(lock->fd, report[1]);
	error = errno;
	close(report[1]);
	if (child == -1) {
		close(report[0]);
		return filedir_fail(lock->dir, "start a process to wait for",
		    lock->file, error);
	}
	result = waiter_wait(lock->dir->host, child, report[0], deadline, look,
	    &ended);
	if (ended && read(report[0], &error, sizeof(error)) > 0)
		result = filedir_fail(lock->dir, "wait for", lock->file, error);
	else if (ended)		/* or killed: only this counts */
		result = filelock_take(lock);
	else if (result == LEASERUN_OK)
		result = LEASERUN_HELD;
	close(report[0]);

	/* A waiter that was killed may have got either of them. */
	if (result == LEASERUN_OK)
		lock_byte(lock->fd, F_OFD_SETLK, F_UNLCK, BYTE_TURN);
	else
		filelock_drop(lock);
	return result;
}
