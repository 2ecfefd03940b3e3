/*
 * Starts, finds, signals and kills the processes of a job.  Must never signal
 * a number that was not verified to be a descendant, nor a whole group.
 */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "filter.h"
#include "proc.h"
#include "timeutil.h"
#include "tree.h"

/* A walk that is longer than this leaves the rest to the next round. */
#define TREE_MAX	16384
#define DEPTH_MAX	4096
#define PRIORITY_MAX	99	/* of a real-time process */
/* The job inherits the hold descriptor here, or higher. */
#define HOLD_FD_MIN	200

static volatile sig_atomic_t busy;

/* The walk: breadth first, so direct children come first. */
static pid_t queue[TREE_MAX];
static size_t queued, direct;
static int64_t walked_at;

bool
tree_busy(void)
{
	return busy != 0;
}

static void
enqueue(pid_t pid)
{
	if (queued < TREE_MAX)
		queue[queued++] = pid;
}

static void
enqueue_children(pid_t pid)
{
	proc_children(pid, enqueue);
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

/* All below root into the queue; the first `direct' are its children. */
static void
walk(pid_t root, const struct tree_exempt *exempt)
{
	size_t i, kept = 0;

	walked_at = now_ns();
	queued = 0;
	enqueue_children(root);
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
		if (!proc_stat(pid, &state, &parent) || parent <= 0)
			return false;
		if (parent == self)
			return !is_exempt(exempt, pid);
		pid = parent;
	}
	return false;
}

/*
 * A process that is older than the walk that listed it is the one that was
 * listed; only a younger one may have taken over its number, and needs the
 * look at its parents, which is long where the tree is deep.
 */
static bool
is_listed(pid_t pid)
{
	int64_t born = proc_born(pid);

	return born >= 0 && born < walked_at - PROC_TICK;
}

static int
open_pidfd(pid_t pid)
{
	errno = ENOSYS;
	return filter_kills_pidfds() ? -1 :
	    (int)syscall(SYS_pidfd_open, pid, 0);
}

/*
 * A signal to one descendant: 0, or -1 with errno.  A direct child that was
 * not reaped keeps its number.  For others the pidfd is taken first and the
 * descent looked at after it, so a number that was used again is found out.
 * Before Linux 5.3, or behind a filter, there is no pidfd: what remains is the
 * moment between look and kill.
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
	fd = open_pidfd(pid);
	if (fd == -1 && errno == ESRCH)
		return -1;
	if (!is_listed(pid) && !is_descendant(pid, exempt))
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
	walk(getpid(), NULL);
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

static bool
is_ordinary(int policy)
{
	return policy == SCHED_OTHER || policy == SCHED_BATCH ||
	    policy == SCHED_IDLE;
}

/*
 * What was killed is gone only when it has had its turn.  Numbers are given out
 * in a circle: that of a thread that is gone since a moment is nobody's yet.
 */
static void
hasten(pid_t thread)
{
	struct sched_param param = { .sched_priority = TREE_GUARD };

	if (!filter_kills_priorities() &&
	    is_ordinary(sched_getscheduler(thread)))
		sched_setscheduler(thread, SCHED_FIFO, &param);
}

size_t
tree_kill(const struct tree_exempt *exempt, struct tree_survivor *survivor)
{
	size_t i, n = 0;

	survivor->pid = 0;
	busy = 1;
	walk(getpid(), exempt);
	for (i = 0; i < queued; i++) {
		if (signal_one(queue[i], i < direct, exempt, SIGKILL, false)
		    == 0)
			queue[n++] = queue[i];
		else if (errno != ESRCH && survivor->pid == 0) {
			survivor->pid = queue[i];
			survivor->uid = proc_owner(queue[i]);
		}
	}
	for (i = 0; i < n; i++)
		proc_threads(queue[i], hasten);
	busy = 0;
	return queued;
}

pid_t
tree_wait(pid_t pid, int *status)
{
	pid_t got;

	do {
		got = waitpid(pid, status, WNOHANG);
	} while (got > 0 && WIFSTOPPED(*status));
	return got;
}

static void
forget(struct tree_exempt *exempt, pid_t pid)
{
	size_t i;

	for (i = 0; i < exempt->n; i++) {
		if (exempt->pids[i] == pid) {
			exempt->pids[i] = exempt->pids[--exempt->n];
			return;
		}
	}
}

bool
tree_reap(struct tree_exempt *exempt)
{
	pid_t pid;
	int status;

	while ((pid = tree_wait(-1, &status)) > 0)
		forget(exempt, pid);
	return pid == -1 && errno == ECHILD;
}

void
tree_reap_exempt(struct tree_exempt *exempt)
{
	size_t i = 0;
	int status;

	while (i < exempt->n) {
		if (tree_wait(exempt->pids[i], &status) == 0)
			i++;
		else
			forget(exempt, exempt->pids[i]);
	}
}

void
tree_spare_zombie(struct tree_exempt *exempt, pid_t child)
{
	int status;

	if (proc_state(child) != 'Z' || is_exempt(exempt, child) ||
	    exempt->n == exempt->room || tree_wait(child, &status) != 0)
		return;
	exempt->pids[exempt->n++] = child;
}

void
tree_reap_strangers(pid_t guard)
{
	size_t i;
	int status;

	busy = 1;
	queued = 0;
	enqueue_children(getpid());
	for (i = 0; i < queued; i++) {
		if (queue[i] != guard && getpgid(queue[i]) != getpgrp())
			tree_wait(queue[i], &status);
	}
	busy = 0;
}

void
tree_spare_children(struct tree_exempt *exempt, pid_t guard,
    bool (*has_ended)(void))
{
	size_t i, kept = 0;
	int status;

	busy = 1;
	queued = 0;
	enqueue_children(getpid());
	/* Not before the look. */
	if (queued == 0 || has_ended())
		goto out;
	for (i = 0; i < queued && kept < exempt->room; i++) {
		if (queue[i] != guard && tree_wait(queue[i], &status) == 0)
			exempt->pids[kept++] = queue[i];
	}
	exempt->n = kept;
out:
	busy = 0;
}

ssize_t
tree_children(pid_t *pids, size_t size)
{
	siginfo_t si;
	ssize_t n = 0;

	/* Mostly there are none, which the kernel says sooner than /proc. */
	if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT | __WALL) ==
	    -1 && errno == ECHILD)
		return 0;
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
tree_example(pid_t root, const struct tree_exempt *exempt, pid_t *pid,
    char *name, size_t size, size_t *count)
{
	busy = 1;
	walk(root, exempt);
	*count = queued;
	*pid = queued > 0 ? queue[0] : 0;
	busy = 0;
	return *pid != 0 && proc_name(*pid, name, size);
}

int
tree_init(void)
{
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == -1) {
		errno = ENOTSUP;
		return -1;
	}
	return proc_init();
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
	execvpe(command->argv[0], command->argv, command->envp);
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
	if ((pid = _Fork()) == 0)
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

void
tree_hurry(enum tree_rank rank)
{
	static bool is_done;
	struct sched_param param;
	struct rlimit limit;
	int policy;

	if (is_done || filter_kills_priorities())
		return;
	is_done = true;
	policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
	if (policy == SCHED_DEADLINE || sched_getparam(0, &param) == -1)
		return;		/* someone knows better */
	/* The job has the priority that we came with, and may never rest. */
	param.sched_priority += (int)rank;
	if (param.sched_priority > PRIORITY_MAX)
		param.sched_priority = PRIORITY_MAX;
	/* What uses up this limit of the job is signalled and killed. */
	if ((getrlimit(RLIMIT_RTTIME, &limit) == -1 ||
	    limit.rlim_cur != RLIM_INFINITY ||
	    sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) ==
	    -1) && is_ordinary(policy))
		setpriority(PRIO_PROCESS, 0, -20);
}

void
tree_drop_hold(int fd)
{
	struct flock all = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

	if (fd != -1)
		fcntl(fd, F_OFD_SETLK, &all);
}
