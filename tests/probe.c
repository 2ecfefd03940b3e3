/*
 * A job for tests that shows how long each of its processes lived: appends
 * lines to a file, all with the fence token and CLOCK_BOOTTIME, and starts the
 * kinds of processes that are hard to end.  Must never outlive two minutes.
 *
 * probe FILE [WORD]...
 *	ticks=N		the command ends after N ticks; default: never
 *	exit=N		with this status
 *	every=MS	between ticks, 10
 *	tree		also a child, one in a session of its own, and an orphan
 *			in a session of its own
 *	live=N		these end after N ticks; default: never
 *	frozen		also a child that has stopped itself
 *	deep=N		also N generations, each the child of the one before
 *	wide=N		also N children, each with WIDE children
 *	chain		also an orphan that is replaced by a new one at once
 *	pause=MS	or after so long: of those that are over and that nobody
 *			reaps the machine takes a few thousand each second
 *	brood		also a child that has a new child every 2 ms
 *	ignore		TERM is noted, and everyone goes on
 *	cleanup=MS	TERM is noted, and the command ends so much later with 0
 *	stop		the command stops itself after its first tick
 *	uid=N		becomes this user first
 *
 *	start TOKEN NS PID		the command
 *	member TOKEN NS PID KIND	everyone else, and never the command
 *	tick TOKEN NS PID
 *	term TOKEN NS PID		TERM has come
 *	end TOKEN NS PID		the command, of itself
 *	alive TOKEN NS PID		someone of another token is still there
 */
#include <sys/types.h>

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS	INT64_C(1000000)
#define NS_PER_S	INT64_C(1000000000)
#define LIFE		(120 * NS_PER_S)
#define WIDE		100

static int out = -1;
static const char *token;
static int64_t end_at;
static volatile int64_t leave_at;	/* 0: not told to */

static long deep, wide, ticks = -1, live = -1, every = 10, cleanup = -1,
    pause_ms;

static int64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* One write each, so lines of several processes do not mix. */
static void
say(const char *word, pid_t pid, const char *kind)
{
	char line[128];
	int n;

	n = snprintf(line, sizeof(line), "%s %s %" PRId64 " %ld%s%s\n", word,
	    token, now_ns(), (long)pid, *kind == '\0' ? "" : " ", kind);
	if (write(out, line, (size_t)n) != n)
		_exit(99);
}

static void
nap(int64_t ns)
{
	struct timespec ts;

	ts.tv_sec = ns / NS_PER_S;
	ts.tv_nsec = ns % NS_PER_S;
	nanosleep(&ts, NULL);
}

static void
on_term(int signo)
{
	(void)signo;
	say("term", getpid(), "");
	if (cleanup >= 0 && leave_at == 0)
		leave_at = now_ns() + cleanup * NS_PER_MS;
}

static void
handle_term(void)
{
	struct sigaction sa = { .sa_flags = SA_RESTART };

	sa.sa_handler = on_term;
	sigaction(SIGTERM, &sa, NULL);
}

/* n < 0: until someone ends it. */
static void
tick(long n)
{
	while (n != 0 && now_ns() < end_at) {
		say("tick", getpid(), "");
		nap(every * NS_PER_MS);
		if (leave_at != 0 && now_ns() >= leave_at)
			return;
		if (n > 0)
			n--;
	}
}

static void
member(const char *kind)
{
	say("member", getpid(), kind);
	tick(live);
	_exit(0);
}

static void
descend(void)
{
	while (deep-- > 0) {
		if (fork() != 0)
			member("deep");
	}
	member("deepest");
}

static void
spread(void)
{
	int i;

	for (i = 0; i < WIDE; i++) {
		if (fork() == 0)
			member("leaf");
	}
	member("wide");
}

/* Everyone lives for a moment; there is always one. */
static void
chain(void)
{
	say("member", getpid(), "chain");
	while (now_ns() < end_at) {
		if (fork() != 0)
			_exit(0);
		setsid();
		say("tick", getpid(), "");
		nap(pause_ms * NS_PER_MS);
	}
	_exit(0);
}

static void
brood(void)
{
	signal(SIGCHLD, SIG_IGN);
	say("member", getpid(), "brood");
	while (now_ns() < end_at) {
		if (fork() == 0) {
			tick(5);
			_exit(0);
		}
		nap(2 * NS_PER_MS);
	}
	_exit(0);
}

static void
plant_tree(void)
{
	pid_t pid;

	if (fork() == 0)
		member("child");
	if (fork() == 0) {
		setsid();
		member("session");
	}
	if (fork() == 0) {
		setsid();
		pid = fork();
		if (pid == 0)
			member("orphan");
		_exit(0);
	}
}

static void
frozen(void)
{
	say("member", getpid(), "frozen");
	say("tick", getpid(), "");
	raise(SIGSTOP);
	tick(live);
	_exit(0);
}

/* Field 3 of stat, and 22 in nanoseconds; false: no such process. */
static bool
look(long pid, char *state, int64_t *born)
{
	char path[64], text[1024], *p;
	int field;
	FILE *f;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
	if ((f = fopen(path, "re")) == NULL)
		return false;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	if ((p = strrchr(text, ')')) == NULL)
		return false;
	*state = p[2];
	for (field = 2; field < 22 && p != NULL; field++)
		p = strchr(p + 1, ' ');
	if (p == NULL)
		return false;
	*born = strtoll(p, NULL, 10) * (NS_PER_S / sysconf(_SC_CLK_TCK));
	return true;
}

/* Nobody of an earlier run may be there when a later one has begun. */
static void
look_for_others(const char *path)
{
	char line[256], word[16], whose[32], state;
	int64_t noted, born;
	long pid;
	FILE *f;

	if ((f = fopen(path, "re")) == NULL)
		_exit(99);
	while (fgets(line, sizeof(line), f) != NULL) {
		if (sscanf(line, "%15s %31s %" SCNd64 " %ld", word, whose,
		    &noted, &pid) != 4 || strcmp(whose, token) == 0 ||
		    (strcmp(word, "start") != 0 && strcmp(word, "member") != 0))
			continue;
		/* Born later: its number was used again. */
		if (look(pid, &state, &born) && state != 'Z' && state != 'X' &&
		    born <= noted)
			say("alive", (pid_t)pid, "");
	}
	fclose(f);
}

static bool
number(const char *word, const char *key, long *value)
{
	size_t n = strlen(key);

	if (strncmp(word, key, n) != 0 || word[n] != '=')
		return false;
	*value = strtol(word + n + 1, NULL, 10);
	return true;
}

int
main(int argc, char *argv[])
{
	bool has_tree = false, has_chain = false, has_brood = false;
	bool has_frozen = false, ignores = false, stops = false;
	long status = 0, uid = -1;
	int i;

	if (argc < 2)
		return 99;
	for (i = 2; i < argc; i++) {
		if (strcmp(argv[i], "tree") == 0)
			has_tree = true;
		else if (strcmp(argv[i], "frozen") == 0)
			has_frozen = true;
		else if (strcmp(argv[i], "chain") == 0)
			has_chain = true;
		else if (strcmp(argv[i], "brood") == 0)
			has_brood = true;
		else if (strcmp(argv[i], "ignore") == 0)
			ignores = true;
		else if (strcmp(argv[i], "stop") == 0)
			stops = true;
		else if (!number(argv[i], "ticks", &ticks) &&
		    !number(argv[i], "deep", &deep) &&
		    !number(argv[i], "wide", &wide) &&
		    !number(argv[i], "live", &live) &&
		    !number(argv[i], "every", &every) &&
		    !number(argv[i], "pause", &pause_ms) &&
		    !number(argv[i], "exit", &status) &&
		    !number(argv[i], "cleanup", &cleanup) &&
		    !number(argv[i], "uid", &uid))
			return 99;
	}
	if ((token = getenv("LEASERUN_FENCE_TOKEN")) == NULL)
		token = "0";
	end_at = now_ns() + LIFE;
	out = open(argv[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
	if (out == -1 || (uid != -1 && setresuid((uid_t)uid, (uid_t)uid,
	    (uid_t)uid) == -1))
		return 99;
	if (ignores || cleanup >= 0)
		handle_term();
	say("start", getpid(), "");
	look_for_others(argv[1]);
	if (has_tree)
		plant_tree();
	if (has_frozen && fork() == 0)
		frozen();
	if (deep-- > 0 && fork() == 0)
		descend();
	while (wide-- > 0) {
		if (fork() == 0)
			spread();
	}
	if (has_chain && fork() == 0)
		chain();
	if (has_brood && fork() == 0)
		brood();
	if (stops) {
		say("tick", getpid(), "");
		raise(SIGSTOP);
	}
	tick(ticks);
	say("end", getpid(), "");
	/* What a sanitizer does at the end does not like signals. */
	_exit((int)status);
}
