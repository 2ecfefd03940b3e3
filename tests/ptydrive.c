/*
 * A terminal for a test: runs a command as the session leader on a new one.
 * Must never act by itself; the test types, looks and hangs up through files
 * of the working directory:
 *
 *	keys	a FIFO that exists; what is written to it is typed
 *	screen	what the terminal was sent
 *	tty	its name
 *	leader	the pid of the command
 *	ended	`exit N' or `signal N', once the command has ended
 *
 * SIGHUP to this process hangs up.
 */
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct terminal {
	int	master;		/* -1: hung up */
	int	slave;
	int	keys;
	int	screen;
	int	signals;
	pid_t	leader;		/* 0: ended */
};

/* It is whole when it appears. */
static void __attribute__((format(printf, 2, 3)))
write_file(const char *name, const char *fmt, ...)
{
	char temporary[64];
	va_list ap;
	FILE *f;

	snprintf(temporary, sizeof(temporary), ".%s", name);
	f = fopen(temporary, "we");
	if (f == NULL)
		err(1, "%s", temporary);
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	if (fclose(f) == EOF || rename(temporary, name) == -1)
		err(1, "%s", name);
}

static void
terminal_open(struct terminal *t)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	const char *name;

	t->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->master == -1 || grantpt(t->master) == -1 ||
	    unlockpt(t->master) == -1)
		err(1, "no terminal");
	name = ptsname(t->master);
	/* Open before the first look: without a slave it is as if hung up. */
	t->slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->slave == -1 || ioctl(t->slave, TIOCSWINSZ, &size) == -1)
		err(1, "%s", name);
	t->keys = open("keys", O_RDWR | O_CLOEXEC);
	t->screen = open("screen", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
	    0600);
	if (t->keys == -1 || t->screen == -1)
		err(1, "keys or screen");
	write_file("tty", "%s\n", name);
}

static void __attribute__((noreturn))
lead(const struct terminal *t, char *argv[])
{
	sigset_t none;
	int signo;

	/* Whatever the tests were started with. */
	for (signo = 1; signo < NSIG; signo++)
		signal(signo, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (setsid() == -1 || ioctl(t->slave, TIOCSCTTY, 0) == -1 ||
	    dup2(t->slave, 0) == -1 || dup2(t->slave, 1) == -1 ||
	    dup2(t->slave, 2) == -1)
		err(126, "the terminal cannot be used");
	execvp(argv[0], argv);
	err(127, "%s", argv[0]);
}

static void
terminal_start(struct terminal *t, char *argv[])
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGHUP, SIG_DFL);
	signal(SIGCHLD, SIG_DFL);
	t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (t->signals == -1)
		err(1, "signalfd");
	t->leader = fork();
	if (t->leader == -1)
		err(1, "fork");
	if (t->leader == 0)
		lead(t, argv);
	close(t->slave);
	write_file("leader", "%ld\n", (long)t->leader);
}

static void
hang_up(struct terminal *t)
{
	if (t->master != -1)
		close(t->master);
	t->master = -1;
}

static void
read_signals(struct terminal *t)
{
	struct signalfd_siginfo si;
	int status;

	while (read(t->signals, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGHUP)
			hang_up(t);
	}
	if (t->leader == 0 || waitpid(t->leader, &status, WNOHANG) <= 0)
		return;
	t->leader = 0;
	if (WIFSIGNALED(status))
		write_file("ended", "signal %d\n", WTERMSIG(status));
	else
		write_file("ended", "exit %d\n", WEXITSTATUS(status));
}

/* False at the end of file, which is EIO here. */
static bool
copy(int from, int to)
{
	char buf[4096];
	ssize_t done = 0, n, size;

	size = read(from, buf, sizeof(buf));
	if (size <= 0)
		return size == -1 && (errno == EINTR || errno == EAGAIN);
	for (; done < size; done += n) {
		n = write(to, buf + done, (size_t)(size - done));
		if (n == -1)
			return false;
	}
	return true;
}

int
main(int argc, char *argv[])
{
	struct terminal t = { .master = -1 };

	if (argc < 2)
		errx(1, "usage: ptydrive COMMAND [ARG]...");
	terminal_open(&t);
	terminal_start(&t, argv + 1);
	while (t.leader != 0 || t.master != -1) {
		struct pollfd fds[] = {
			{ .fd = t.signals, .events = POLLIN },
			{ .fd = t.master, .events = POLLIN },
			{ .fd = t.master == -1 ? -1 : t.keys,
			    .events = POLLIN },
		};

		if (poll(fds, 3, -1) == -1)
			continue;
		/* What was typed before a hangup comes before it. */
		if (fds[2].revents != 0 && !copy(t.keys, t.master))
			hang_up(&t);
		if (fds[1].revents != 0 && t.master != -1 &&
		    !copy(t.master, t.screen))
			hang_up(&t);
		if (fds[0].revents != 0)
			read_signals(&t);
	}
	return 0;
}
