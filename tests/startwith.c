/*
 * Executes a program in a process state that a shell cannot make.  For tests.
 *
 * startwith [OPTION]... PROGRAM [ARG]...
 *	-c FD		closed
 *	-i SIGNAL	ignored
 *	-d SIGNAL	default
 *	-b SIGNAL	blocked
 *	-k		all descriptors above 2 closed
 *	-l COUNT	the limit of descriptors
 *	-n COUNT	so many open descriptors more
 *	-p FIFO		with one child more, which ends when that does
 *	-r WHAT		`kill' refused as by a security module; `subreaper',
 *			PR_SET_CHILD_SUBREAPER, as by the profile of a container
 *	-r deadly	killed for pidfd_open and for priorities of its own
 *	-s		in a new session
 *	-t		traced by its parent, which has not asked for it
 *	-w FILE		executed in a child; then FILE has `exited N', `killed
 *			N' or `dumped N', and FILE.pid its number before
 */
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOAD(field)	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, \
			    offsetof(struct seccomp_data, field))
#define LENGTH(array)	(sizeof(array) / sizeof((array)[0]))
/* When it is not this value, so many instructions are left out. */
#define UNLESS(value, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, n)
#define ANSWER(what)	BPF_STMT(BPF_RET | BPF_K, what)

/* Also those of the C library, which it does not let anyone touch. */
static void
reset_signal(int signo)
{
	unsigned long zero[8] = { 0 };	/* as the kernel has it, or longer */

	if (signo != SIGKILL && signal(signo, SIG_DFL) == SIG_ERR &&
	    syscall(SYS_rt_sigaction, signo, zero, NULL, 8) == -1)
		err(99, "signal %d", signo);
}

static void
more_descriptors(int count)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == -1)
		err(99, "getrlimit");
	if (limit.rlim_cur < (rlim_t)count + 64) {
		limit.rlim_cur = (rlim_t)count + 64;
		if (limit.rlim_max < limit.rlim_cur)
			limit.rlim_max = limit.rlim_cur;
		if (setrlimit(RLIMIT_NOFILE, &limit) == -1)
			err(99, "setrlimit");
	}
	while (count-- > 0) {
		if (open("/dev/null", O_RDONLY) == -1)
			err(99, "/dev/null");
	}
}

static void
limit_descriptors(int count)
{
	struct rlimit limit = { (rlim_t)count, (rlim_t)count };

	if (setrlimit(RLIMIT_NOFILE, &limit) == -1)
		err(99, "setrlimit");
}

static void
refuse(const char *what)
{
	static struct sock_filter kills[] = {
		LOAD(nr),
		UNLESS(SYS_kill, 1),
		ANSWER(SECCOMP_RET_ERRNO | EACCES),
		UNLESS(SYS_pidfd_send_signal, 1),
		ANSWER(SECCOMP_RET_ERRNO | EACCES),
		ANSWER(SECCOMP_RET_ALLOW),
	};
	static struct sock_filter subreaper[] = {
		LOAD(nr),
		UNLESS(SYS_prctl, 3),
		LOAD(args[0]),
		UNLESS(PR_SET_CHILD_SUBREAPER, 1),
		ANSWER(SECCOMP_RET_ERRNO | EPERM),
		ANSWER(SECCOMP_RET_ALLOW),
	};
	static struct sock_filter deadly[] = {
		LOAD(nr),
		UNLESS(SYS_pidfd_open, 1),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
		UNLESS(SYS_sched_setscheduler, 1),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
		UNLESS(SYS_setpriority, 1),
		ANSWER(SECCOMP_RET_KILL_PROCESS),
		ANSWER(SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { LENGTH(kills), kills };

	if (strcmp(what, "subreaper") == 0) {
		program.len = LENGTH(subreaper);
		program.filter = subreaper;
	} else if (strcmp(what, "deadly") == 0) {
		program.len = LENGTH(deadly);
		program.filter = deadly;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == -1 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == -1)
		err(99, "seccomp");
}

static void
one_child(const char *fifo)
{
	char byte;
	int fd;

	if ((fd = open(fifo, O_RDONLY)) == -1)
		err(99, "%s", fifo);
	if (fork() == 0) {
		while (read(fd, &byte, 1) > 0)
			continue;
		_exit(3);
	}
	close(fd);
}

/* Written under another name, so that whoever sees it sees all of it. */
static void
put(const char *path, const char *suffix, const char *word, int number)
{
	char draft[4096], name[4096];
	FILE *f;

	snprintf(draft, sizeof(draft), "%s%s.draft", path, suffix);
	snprintf(name, sizeof(name), "%s%s", path, suffix);
	if ((f = fopen(draft, "we")) == NULL)
		err(99, "%s", draft);
	fprintf(f, "%s%d\n", word, number);
	if (fclose(f) != 0 || rename(draft, name) == -1)
		err(99, "%s", name);
}

/* Returns in the child. */
static void
watch(const char *path)
{
	int status;
	pid_t pid;

	if ((pid = fork()) == -1)
		err(99, "fork");
	if (pid == 0)
		return;
	put(path, ".pid", "", pid);
	while (waitpid(pid, &status, 0) == -1) {
		if (errno != EINTR)
			err(99, "waitpid");
	}
	if (WIFEXITED(status))
		put(path, "", "exited ", WEXITSTATUS(status));
	else
		put(path, "", WCOREDUMP(status) ? "dumped " : "killed ",
		    WTERMSIG(status));
	exit(0);
}

int
main(int argc, char *argv[])
{
	sigset_t blocked;
	int c;

	sigemptyset(&blocked);
	while ((c = getopt(argc, argv, "+b:c:d:i:kl:n:p:r:stw:")) != -1) {
		switch (c) {
		case 'b':
			sigaddset(&blocked, atoi(optarg));
			break;
		case 'c':
			close(atoi(optarg));
			break;
		case 'd':
			reset_signal(atoi(optarg));
			break;
		case 'i':
			signal(atoi(optarg), SIG_IGN);
			break;
		case 'k':
			if (syscall(SYS_close_range, 3, ~0U, 0) == -1)
				err(99, "close_range");
			break;
		case 'l':
			limit_descriptors(atoi(optarg));
			break;
		case 'n':
			more_descriptors(atoi(optarg));
			break;
		case 'p':
			one_child(optarg);
			break;
		case 'r':
			refuse(optarg);
			break;
		case 's':
			if (setsid() == -1)
				err(99, "setsid");
			break;
		case 't':
			if (ptrace(PTRACE_TRACEME, 0, 0, 0) == -1)
				err(99, "ptrace");
			break;
		case 'w':
			watch(optarg);
			break;
		default:
			return 99;
		}
	}
	if (optind >= argc)
		return 99;
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	execvp(argv[optind], argv + optind);
	err(99, "%s", argv[optind]);
}
