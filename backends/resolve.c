/*
 * Name lookups, in a short-lived process: getaddrinfo() knows no deadline and
 * may hang for as long as a name server is silent.
 */
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "resolve.h"

/* What the process reports: addresses, or why there are none. */
struct report {
	struct resolve found;
	int		 error;		/* of getaddrinfo() */
};

bool
resolve_is_literal(const char *name)
{
	struct in6_addr address;

	/* A zone makes it no name: fe80::1%eth0. */
	return name[0] == '/' || name[0] == '@' || strchr(name, ':') != NULL ||
	    inet_pton(AF_INET, name, &address) == 1;
}

static void __attribute__((noreturn))
lookup(const char *name, int to, pid_t parent)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	struct report report = { .error = 0 };
	struct resolve *found = &report.found;
	const struct addrinfo *ai;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == -1 || getppid() != parent)
		_exit(1);
	report.error = getaddrinfo(name, NULL, &hints, &list);
	for (ai = report.error == 0 ? list : NULL;
	    ai != NULL && found->n < RESOLVE_MAX; ai = ai->ai_next) {
		if (getnameinfo(ai->ai_addr, ai->ai_addrlen,
		    found->addresses[found->n], RESOLVE_SIZE, NULL, 0,
		    NI_NUMERICHOST) == 0)
			found->n++;
	}
	_exit(write(to, &report, sizeof(report)) == -1);
}

static pid_t
lookup_start(const char *name, int to)
{
	pid_t parent = getpid(), child;
	sigset_t all, before;
	int error;

	/* The keeper's handlers are not for the child: it never unblocks. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	if ((child = fork()) == 0)
		lookup(name, to, parent);
	error = errno;
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return child;
}

/* Not by number alone: a sweep of the keeper may have reaped it. */
static void
lookup_end(pid_t child)
{
	siginfo_t si;

	if (waitid(P_PID, (id_t)child, &si, WEXITED | WNOHANG | WNOWAIT) == 0)
		kill(child, SIGKILL);
	while (waitpid(child, NULL, 0) == -1 && errno == EINTR)
		;
}

/* The report fits into a pipe, so it comes whole or not at all. */
static enum leaserun_result
read_report(const char *name, int from, struct resolve *found, char *why)
{
	struct report report;

	if (read(from, &report, sizeof(report)) != (ssize_t)sizeof(report)) {
		snprintf(why, RESOLVE_WHY_SIZE, "the lookup of host '%s' "
		    "failed", name);
		return LEASERUN_UNAVAILABLE;
	}
	if (report.error != 0 || report.found.n == 0) {
		snprintf(why, RESOLVE_WHY_SIZE, "cannot look up host '%s': %s",
		    name, report.error == 0 ? "no address" :
		    gai_strerror(report.error));
		return LEASERUN_UNAVAILABLE;
	}
	*found = report.found;
	return LEASERUN_OK;
}

enum leaserun_result
resolve(const struct leaserun_host *host, const char *name, int64_t deadline,
    struct resolve *found, char why[RESOLVE_WHY_SIZE])
{
	struct pollfd pfd = { .events = POLLIN };
	enum leaserun_result result;
	int ends[2];
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) == -1) {
		snprintf(why, RESOLVE_WHY_SIZE, "cannot look up host '%s': %s",
		    name, strerror(errno));
		return LEASERUN_UNAVAILABLE;
	}
	child = lookup_start(name, ends[1]);
	close(ends[1]);
	if (child == -1) {
		snprintf(why, RESOLVE_WHY_SIZE, "cannot look up host '%s': no "
		    "process: %s", name, strerror(errno));
		close(ends[0]);
		return LEASERUN_UNAVAILABLE;
	}
	pfd.fd = ends[0];
	result = host->wait(host, &pfd, 1, deadline);
	if (result == LEASERUN_OK && pfd.revents == 0) {
		snprintf(why, RESOLVE_WHY_SIZE, "the lookup of host '%s' takes "
		    "too long; look at the name server", name);
		result = LEASERUN_UNAVAILABLE;
	} else if (result == LEASERUN_OK)
		result = read_report(name, ends[0], found, why);
	lookup_end(child);
	close(ends[0]);
	return result;
}
