/*
 * A command for the tests on a terminal: writes down every signal it gets,
 * with its sender.  Must never end or stop but as told.
 *
 *	ttyjob [-s] [-x STATUS] FILE
 *
 * FILE gets a line `ready PID PARENT GROUP', then one for each signal: its
 * name and `kernel' or the sender's pid.  SIGUSR2 ends it with STATUS (0).
 * -s: stop signals have their usual effect.
 */
#include <err.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* In one piece, since the test reads along. */
static void
put_line(int fd, const char *line)
{
	size_t len = strlen(line);

	if (write(fd, line, len) != (ssize_t)len)
		err(1, "write");
}

/* Those that a terminal, or a test, sends. */
static const struct {
	int		 number;
	const char	*name;
} names[] = {
	{ SIGHUP, "HUP" }, { SIGINT, "INT" }, { SIGQUIT, "QUIT" },
	{ SIGUSR1, "USR1" }, { SIGUSR2, "USR2" }, { SIGTERM, "TERM" },
	{ SIGCHLD, "CHLD" }, { SIGCONT, "CONT" }, { SIGTSTP, "TSTP" },
	{ SIGTTIN, "TTIN" }, { SIGTTOU, "TTOU" }, { SIGWINCH, "WINCH" }
};

static void
put_signal(int fd, const siginfo_t *si)
{
	char line[64], name[16], sender[16];
	size_t i;

	snprintf(name, sizeof(name), "RTMIN+%d", si->si_signo - SIGRTMIN);
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (names[i].number == si->si_signo)
			snprintf(name, sizeof(name), "%s", names[i].name);
	}
	if (si->si_code == SI_KERNEL)
		snprintf(sender, sizeof(sender), "kernel");
	else
		snprintf(sender, sizeof(sender), "%ld", (long)si->si_pid);
	snprintf(line, sizeof(line), "%s %s\n", name, sender);
	put_line(fd, line);
}

int
main(int argc, char *argv[])
{
	bool stops = false;
	int fd, opt, status = 0;
	char line[64];
	siginfo_t si;
	sigset_t set;

	while ((opt = getopt(argc, argv, "sx:")) != -1) {
		if (opt == 's')
			stops = true;
		else if (opt == 'x')
			status = atoi(optarg);
		else
			return 64;
	}
	if (optind != argc - 1)
		errx(64, "usage: ttyjob [-s] [-x STATUS] FILE");
	sigfillset(&set);
	if (stops) {
		sigdelset(&set, SIGTSTP);
		sigdelset(&set, SIGTTIN);
		sigdelset(&set, SIGTTOU);
	}
	sigprocmask(SIG_SETMASK, &set, NULL);
	fd = open(argv[optind], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
	    0600);
	if (fd == -1)
		err(1, "%s", argv[optind]);
	snprintf(line, sizeof(line), "ready %ld %ld %ld\n", (long)getpid(),
	    (long)getppid(), (long)getpgrp());
	put_line(fd, line);
	for (;;) {
		if (sigwaitinfo(&set, &si) == -1)
			continue;
		put_signal(fd, &si);
		if (si.si_signo == SIGUSR2)
			return status;
	}
}
