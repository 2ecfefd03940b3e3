/*
 * Starts, finds, signals and kills the processes of a job.  Must never signal
 * a number that was not verified to be a descendant, nor a whole group.
 */
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tree.h"

/* A walk that is longer than this leaves the rest to the next round. */
#define TREE_MAX	16384
#define PATH_ROOM	64
#define DEPTH_MAX	4096
/* The job inherits the hold descriptor here, or higher. */
#define HOLD_FD_MIN	200

static int proc_fd = -1;
static volatile sig_atomic_t busy;

/* The walk: breadth first, so direct children come first. */
static pid_t queue[TREE_MAX];
static size_t queued, direct;

/* Appends text or a number to a path; both keep it terminated. */
static void
put_text(char *path, const char *text)
{
	size_t len = strnlen(path, PATH_ROOM - 1);

	while (*text != '\0' && len < PATH_ROOM - 1)
		path[len++] = *text++;
	path[len] = '\0';
}

static void
put_number(char *path, pid_t number)
{
	char digits[16];
	size_t i = sizeof(digits) - 1;

	digits[i] = '\0';
	do {
		digits[--i] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0 && i > 0);
	put_text(path, digits + i);
}

/* "NUMBER/file", below /proc. */
static int
open_proc(pid_t pid, const char *file, int flags)
{
	char path[PATH_ROOM] = "";

	put_number(path, pid);
	put_text(path, file);
	return openat(proc_fd, path, O_RDONLY | O_CLOEXEC | flags);
}

/* The text of a small file: its length, or -1. */
static ssize_t
read_proc(pid_t pid, const char *file, char *buf, size_t size)
{
	ssize_t n;
	int fd;

	if ((fd = open_proc(pid, file, 0)) == -1)
		return -1;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n >= 0)
		buf[n] = '\0';
	return n;
}

/*
 * Field 3 (state) and 4 (parent) of stat.  The name in field 2 may hold
 * anything, so they are counted from the last bracket.
 */
static bool
read_stat(pid_t pid, char *state, pid_t *parent)
{
	char buf[512], *p;

	if (read_proc(pid, "/stat", buf, sizeof(buf)) <= 0 ||
	    (p = strrchr(buf, ')')) == NULL || strlen(p) < 5)
		return false;
	*state = p[2];
	*parent = (pid_t)strtol(p + 4, NULL, 10);
	return true;
}

char
tree_state(pid_t pid)
{
	char state;
	pid_t parent;

	return proc_fd != -1 && read_stat(pid, &state, &parent) ? state : 0;
}

bool
tree_has_terminal(void)
{
	char buf[512], *p;
	int field;

	if (read_proc(getpid(), "/stat", buf, sizeof(buf)) <= 0 ||
	    (p = strrchr(buf, ')')) == NULL)
		return false;
	for (field = 2; field < 7 && p != NULL; field++)
		p = strchr(p + 1, ' ');
	return p != NULL && strtol(p, NULL, 10) != 0;
}

bool
tree_busy(void)
{
	return busy != 0;
}

static void
enqueue(pid_t pid)
{
	if (pid > 0 && queued < TREE_MAX)
		queue[queued++] = pid;
}

static bool
is_queued(pid_t pid, size_t end)
{
	size_t i;

	for (i = 0; i < end; i++) {
		if (queue[i] == pid)
			return true;
	}
	return false;
}

/* Numbers separated by spaces, read in pieces. */
static void
enqueue_list(int fd)
{
	char buf[4096];
	pid_t pid = 0;
	ssize_t n, i;

	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		for (i = 0; i < n; i++) {
			if (buf[i] >= '0' && buf[i] <= '9') {
				pid = pid * 10 + (buf[i] - '0');
				continue;
			}
			enqueue(pid);
			pid = 0;
		}
	}
	enqueue(pid);
}

/* Calls fn with every numeric entry of a directory of /proc; closes dir. */
static void
each_number(int dir, void (*fn)(pid_t, pid_t), pid_t arg)
{
	union {
		struct dirent64	align;
		char		room[4096];
	} buf;
	const struct dirent64 *d;
	ssize_t n, at;

	while ((n = getdents64(dir, &buf, sizeof(buf))) > 0) {
		for (at = 0; at < n; at += d->d_reclen) {
			d = (const void *)(buf.room + at);
			if (d->d_name[0] >= '1' && d->d_name[0] <= '9')
				fn((pid_t)strtol(d->d_name, NULL, 10), arg);
		}
	}
	close(dir);
}

/* The children that one thread of a process made. */
static void
enqueue_thread(pid_t thread, pid_t pid)
{
	char path[PATH_ROOM] = "/task/";
	int fd;

	put_number(path, thread);
	put_text(path, "/children");
	if ((fd = open_proc(pid, path, 0)) == -1)
		return;
	enqueue_list(fd);
	close(fd);
}

static void
enqueue_if_child(pid_t pid, pid_t wanted)
{
	pid_t parent;
	char state;

	if (read_stat(pid, &state, &parent) && parent == wanted)
		enqueue(pid);
}

/* A kernel without CONFIG_PROC_CHILDREN: look at everyone. */
static void
enqueue_by_scan(pid_t pid)
{
	int dir;

	dir = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir != -1)
		each_number(dir, enqueue_if_child, pid);
}

static void
enqueue_children(pid_t pid)
{
	static int has_list = -1;
	char path[PATH_ROOM] = "/task/";
	int dir;

	if (has_list == -1) {
		put_number(path, getpid());
		put_text(path, "/children");
		dir = open_proc(getpid(), path, 0);
		has_list = dir != -1;
		if (dir != -1)
			close(dir);
	}
	if (!has_list)
		enqueue_by_scan(pid);
	else if (pid == getpid())
		enqueue_thread(pid, pid);	/* we have one thread */
	else if ((dir = open_proc(pid, "/task", O_DIRECTORY)) != -1)
		each_number(dir, enqueue_thread, pid);
}

static bool
is_exempt(const struct tree_exempt *exempt, pid_t pid)
{
	size_t i;

	for (i = 0; exempt != NULL && i < exempt->n; i++) {
		if (exempt->pids[i] == pid)
			return true;
	}
	return false;
}

/* All descendants into the queue; the first `direct' are children. */
static void
walk(const struct tree_exempt *exempt)
{
	size_t i, kept = 0;

	queued = 0;
	enqueue_children(getpid());
	for (i = 0; i < queued; i++) {
		if (!is_exempt(exempt, queue[i]))
			queue[kept++] = queue[i];
	}
	queued = direct = kept;
	for (i = 0; i < queued; i++)
		enqueue_children(queue[i]);
}

/* Whether pid descends from us, by the chain of its parents as it is now. */
static bool
is_descendant(pid_t pid, const struct tree_exempt *exempt)
{
	pid_t self = getpid(), parent;
	int depth;
	char state;

	for (depth = 0; depth < DEPTH_MAX; depth++) {
		if (!read_stat(pid, &state, &parent) || parent <= 0)
			return false;
		if (parent == self)
			return !is_exempt(exempt, pid);
		pid = parent;
	}
	return false;
}

/*
 * A signal to one descendant: 0, or -1 with errno.  A direct child that was
 * not reaped keeps its number.  For others the pidfd is taken first and the
 * descent looked at after it, so a number that was used again is found out.
 * Before Linux 5.3 there is no pidfd: what remains is the moment between look
 * and kill.
 */
static int
signal_one(pid_t pid, bool child, const struct tree_exempt *exempt, int signo,
    bool cont)
{
	int fd, rc = -1, saved;

	if (child) {
		rc = kill(pid, signo);
		if (cont)
			kill(pid, SIGCONT);
		return rc;
	}
	fd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (fd == -1 && errno == ESRCH)
		return -1;
	if (!is_descendant(pid, exempt))
		errno = ESRCH;
	else if (fd == -1) {
		rc = kill(pid, signo);
		if (cont)
			kill(pid, SIGCONT);
	} else {
		rc = (int)syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0);
		if (cont)
			syscall(SYS_pidfd_send_signal, fd, SIGCONT, NULL, 0);
	}
	saved = errno;
	if (fd != -1)
		close(fd);
	errno = saved;
	return rc;
}

void
tree_signal(int signo, bool cont)
{
	size_t i, end, next, pass;

	busy = 1;
	walk(NULL);
	for (i = 0; i < queued; i++)
		signal_one(queue[i], i < direct, NULL, signo, cont);
	/*
	 * Those who were forked while we walked: look again for numbers that
	 * are new, a few times (a job that forks for ever is not caught up
	 * with; SIGKILL will).
	 */
	for (pass = 0; pass < 3; pass++) {
		end = queued;
		enqueue_children(getpid());
		for (i = 0; i < end && queued < TREE_MAX; i++)
			enqueue_children(queue[i]);
		for (i = next = end; i < queued; i++) {
			if (is_queued(queue[i], next))
				continue;
			signal_one(queue[i], false, NULL, signo, cont);
			queue[next++] = queue[i];
		}
		queued = next;
		if (next == end)
			break;
	}
	busy = 0;
}

static uid_t
owner_of(pid_t pid)
{
	char path[PATH_ROOM] = "";
	struct stat st;

	put_number(path, pid);
	return fstatat(proc_fd, path, &st, 0) == 0 ? st.st_uid : (uid_t)-1;
}

size_t
tree_kill(const struct tree_exempt *exempt, struct tree_survivor *survivor)
{
	size_t i;

	survivor->pid = 0;
	busy = 1;
	walk(exempt);
	for (i = 0; i < queued; i++) {
		if (signal_one(queue[i], i < direct, exempt, SIGKILL, false)
		    == 0 || errno != EPERM || survivor->pid != 0)
			continue;
		survivor->pid = queue[i];
		survivor->uid = owner_of(queue[i]);
	}
	busy = 0;
	return queued;
}

ssize_t
tree_children(pid_t *pids, size_t size)
{
	ssize_t n = 0;

	if (proc_fd == -1)
		return -1;
	busy = 1;
	queued = 0;
	enqueue_children(getpid());
	while ((size_t)n < queued && (size_t)n < size) {
		pids[n] = queue[n];
		n++;
	}
	busy = 0;
	return n;
}

bool
tree_example(pid_t guard, pid_t *pid, char *name, size_t size, size_t *count)
{
	size_t i;
	ssize_t n;

	busy = 1;
	queued = 0;
	enqueue_children(guard);
	for (i = 0; i < queued; i++)
		enqueue_children(queue[i]);
	*count = queued;
	*pid = queued > 0 ? queue[0] : 0;
	busy = 0;
	if (*pid == 0)
		return false;
	n = read_proc(*pid, "/comm", name, size);
	if (n > 0 && name[n - 1] == '\n')
		name[n - 1] = '\0';
	return n > 0;
}

/* Whether the numbers in /proc are those of our own pid namespace. */
static bool
is_own_proc(void)
{
	char text[32];
	ssize_t n;

	n = readlinkat(proc_fd, "self", text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	return strtol(text, NULL, 10) == getpid();
}

int
tree_init(void)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == -1)
		return -1;
	if (proc_fd == -1) {
		proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (proc_fd == -1)
			return -1;
	}
	if (faccessat(proc_fd, "self/stat", R_OK, 0) == -1) {
		errno = ENOENT;
		return -1;
	}
	if (!is_own_proc()) {
		errno = ESRCH;
		return -1;
	}
	return 0;
}

/* Between fork and exec: only calls that are safe there. */
static void
exec_command(const struct tree_command *command, pid_t guard, int report)
{
	struct sigaction sa = { .sa_handler = SIG_IGN };
	int error;

	/*
	 * The guard's death takes the command with it.  It may have died
	 * before this was set: then we are someone else's child by now.
	 */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != guard)
		_exit(EXIT_FAILURE);
	if (command->own_group)
		setpgid(0, 0);
	if (command->hold_fd != -1 &&
	    fcntl(command->hold_fd, F_DUPFD, HOLD_FD_MIN) == -1 &&
	    fcntl(command->hold_fd, F_DUPFD, STDERR_FILENO + 1) == -1)
		goto failed;
	if (command->ignore_chld)
		sigaction(SIGCHLD, &sa, NULL);
	sigprocmask(SIG_SETMASK, command->mask, NULL);
	environ = (char **)command->envp;
	execvp(command->argv[0], command->argv);
failed:
	error = errno;
	while (write(report, &error, sizeof(error)) == -1 && errno == EINTR)
		;
	_exit(EXIT_FAILURE);
}

pid_t
tree_spawn(const struct tree_command *command, int *exec_fd)
{
	pid_t pid, guard = getpid();
	int fds[2], saved;

	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) == -1)
		return -1;
	if ((pid = fork()) == 0)
		exec_command(command, guard, fds[1]);
	saved = errno;
	close(fds[1]);
	if (pid == -1) {
		close(fds[0]);
		errno = saved;
		return -1;
	}
	*exec_fd = fds[0];
	return pid;
}

int
tree_exec_result(int exec_fd)
{
	ssize_t n;
	int error;

	do {
		n = read(exec_fd, &error, sizeof(error));
	} while (n == -1 && errno == EINTR);
	if (n == 0)
		return 0;
	if (n == (ssize_t)sizeof(error) && error > 0)
		return error;
	return n == -1 && errno == EAGAIN ? -1 : EIO;
}
