/*
 * A job for tests that notes every signal that it gets.
 *
 * sigrecord FILE [CHILDREN]
 *
 * Appends `ready PID' when it and its children, which do the same, handle
 * everything that can be handled, and `SIGNAL PID' for each that comes.  Ends
 * when it is killed, or after two minutes.
 */
#include <sys/types.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int out = -1;

static void
say(const char *word, int number)
{
	char line[64];
	int n;

	n = number == 0 ?
	    snprintf(line, sizeof(line), "%s %ld\n", word, (long)getpid()) :
	    snprintf(line, sizeof(line), "%d %ld\n", number, (long)getpid());
	if (write(out, line, (size_t)n) != n)
		_exit(99);
}

static void
on_signal(int signo)
{
	say("", signo);
}

int
main(int argc, char *argv[])
{
	struct sigaction sa = { .sa_flags = SA_RESTART };
	int children = argc > 2 ? atoi(argv[2]) : 0, signo;
	time_t end = time(NULL) + 120;

	if (argc < 2)
		return 99;
	out = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (out == -1)
		return 99;
	sa.sa_handler = on_signal;
	sigfillset(&sa.sa_mask);
	for (signo = 1; signo <= SIGRTMAX; signo++) {
		if (signo != SIGCHLD)
			sigaction(signo, &sa, NULL);
	}
	while (children-- > 0) {
		if (fork() == 0)
			break;
	}
	say("ready", 0);
	while (time(NULL) < end)
		sleep(1);
	return 98;
}
