/*
 * Options, configuration files, environment, and which of them wins.
 */
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "../src/conf.h"
#include "../src/timeutil.h"
#include "tap.h"

#define S	NS_PER_S
#define MS	NS_PER_MS
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static char dir[] = "/tmp/t_conf.XXXXXX";
static char path[64];			/* a file in there */
static struct conf conf;
static struct conf_error err;
static int operands;

/* Whatever is in /etc and at home, it is not for these tests. */
static void
read_no_file(void)
{
	static char empty[64];

	snprintf(empty, sizeof(empty), "%s/empty", dir);
	close(open(empty, O_WRONLY | O_CREAT, 0600));
	setenv("LEASERUN_CONFIG", empty, 1);
}

/* The words of a command line up to NULL; argv[0] names the command. */
static int
load(enum conf_scope scope, const char *const words[])
{
	static char *argv[64];
	int argc = 0;

	/* Not written to: getopt stops at the first operand. */
	for (; words[argc] != NULL && argc < 63; argc++)
		argv[argc] = (char *)(uintptr_t)words[argc];
	argv[argc] = NULL;
	conf_free(&conf);
	memset(&err, 0, sizeof(err));
	operands = -1;
	return conf_load(&conf, scope, argc, argv, &operands, &err);
}

#define LOAD(scope, ...) load(scope, \
	(const char *const[]){ __VA_ARGS__, NULL })
#define RUN(...) LOAD(CONF_RUN, "run", __VA_ARGS__)

/* The last load failed like this. */
static int
failed(int rc, int status, const char *a, const char *b)
{
	if (rc == -1 && err.status == status && strstr(err.text, a) != NULL &&
	    strstr(err.text, b) != NULL && conf.backend == NULL)
		return 1;
	printf("# rc %d, status %d: %s\n", rc, err.status, err.text);
	return 0;
}

static void
write_bytes(const char *text, size_t size, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd == -1 || write(fd, text, size) != (ssize_t)size ||
	    fchmod(fd, mode) == -1)
		printf("Bail out! cannot write %s\n", path);
	close(fd);
}

static void
write_file(const char *text, mode_t mode)
{
	write_bytes(text, strlen(text), mode);
}

/* Writes the file and loads it for a job. */
static int
run_file(const char *text, const char *job)
{
	write_file(text, 0644);
	return RUN("--config", path, job);
}

/* --- values */

static const struct value {
	const char *option;
	const char *value;
	int	 good;
} values[] = {
	{ "--ttl", "2", 1 }, { "--ttl", "2s", 1 }, { "--ttl", "36525d", 1 },
	{ "--ttl", "1999ms", 0 }, { "--ttl", "1", 0 }, { "--ttl", "0", 0 },
	{ "--ttl", "-5", 0 }, { "--ttl", "10x", 0 }, { "--ttl", "", 0 },
	{ "--ttl", "1e12", 0 }, { "--ttl", "36525d1ms", 0 },
	{ "--ttl", "18446744073709551616", 0 }, { "--ttl", "inf", 0 },
	{ "--renew-every", "1ms", 1 }, { "--renew-every", "0", 0 },
	{ "--grace", "0", 1 }, { "--grace", "-1", 0 },
	{ "--wait", "0", 1 }, { "--wait", "inf", 1 }, { "--wait", "1d", 1 },
	{ "--wait", "0.5", 0 }, { "--wait", "-1", 0 }, { "--wait", "INF", 0 },
	{ "--wait", "infinity", 0 },
	{ "--connect-timeout", "1ms", 1 }, { "--connect-timeout", "0", 0 },
	{ "--connect-timeout", "inf", 0 },
	{ "--conflict-exit-code", "0", 1 }, { "-E", "255", 1 },
	{ "-E", "256", 0 }, { "-E", "600", 0 }, { "-E", "-1", 0 },
	{ "-E", "4294967296", 0 }, { "-E", "", 0 }, { "-E", "1x", 0 },
	{ "-E", "+1", 0 }, { "-E", "0x10", 0 },
	{ "--lost-exit-code", "255", 1 }, { "--lost-exit-code", "256", 0 },
	{ "--once", "2024-01-01", 1 }, { "--once", "", 0 },
	{ "--once", "a\nb", 0 },
	{ "--once-per", "1ms", 1 }, { "--once-per", "0", 0 },
	{ "--min-hold", "0", 1 }, { "--min-hold", "x", 0 },
	{ "--max-run", "1ms", 1 }, { "--max-run", "inf", 1 },
	{ "--max-run", "0", 0 },
	{ "--leftovers", "wait", 1 }, { "--leftovers", "kill", 1 },
	{ "--leftovers", "leave", 1 }, { "--leftovers", "Kill", 0 },
	{ "--leftovers", "", 0 },
	{ "--notify", "no", 1 }, { "--notify", "ready", 1 },
	{ "--notify", "status", 1 }, { "--notify", "yes", 0 },
	{ "--notify", "", 0 },
	{ "--token-env", "A", 1 }, { "--token-env", "_a1", 1 },
	{ "--token-env", "", 0 }, { "--token-env", "1a", 0 },
	{ "--token-env", "a-b", 0 }, { "--token-env", "A=B", 0 },
	{ "--token-env", "LEASERUN_FENCE_TOKEN", 0 },
	{ "--owner", "x", 1 }, { "--owner", "\xc3\xa9", 1 },
	{ "--owner", "0123456789012345678901234567890123456789"
	    "012345678901234567890123", 1 },
	{ "--owner", "0123456789012345678901234567890123456789"
	    "0123456789012345678901234", 0 },
	{ "--owner", "", 0 }, { "--owner", "a\tb", 0 },
	{ "--owner", "\xff", 0 },
	{ "--complain-after", "0", 1 }, { "--complain-after", "1d", 1 },
	{ "--complain-after", "inf", 1 }, { "--complain-after", "d", 0 },
	{ "--events", "x", 1 }, { "--events", "", 0 },
	{ "--metrics", "x", 1 }, { "--metrics", "", 0 },
	{ "--log", "stderr", 1 }, { "--log", "syslog", 1 },
	{ "--log", "file", 0 }, { "--log", "", 0 },
	{ "--module-dir", "x", 1 }, { "--module-dir", "", 0 },
	{ "--config", "", 0 },
	{ "--backend", "file:", 1 }, { "-b", "file:/x", 1 },
	{ "--backend", "postgres://db/ops", 1 }, { "--backend", "x9:y", 1 },
	{ "--backend", "", 0 }, { "--backend", "file", 0 },
	{ "--backend", ":x", 0 }, { "--backend", "Postgres://db", 0 },
	{ "--backend", "/var/lib", 0 }, { "--backend", "a-b:c", 0 },
	{ "-o", "a=b", 1 }, { "--option", "a-1=", 1 }, { "-o", "a=b=c", 1 },
	{ "-o", "a", 0 }, { "-o", "=b", 0 }, { "-o", "A=b", 0 },
	{ "-o", "a_b=c", 0 }, { "-o", "", 0 },
};

static void
test_values(void)
{
	const struct value *v;
	char shown[80];
	int rc;

	for (v = values; v < values + COUNT(values); v++) {
		rc = RUN(v->option, v->value, "job");
		snprintf(shown, sizeof(shown), "'%.60s' ", v->value);
		if (strcmp(v->option, "--owner") == 0 || strchr(v->value, '='))
			shown[0] = '\0';
		/* The lease of a second may be too short for the rest. */
		if (v->good)
			ok(rc == 0 || strstr(err.text, "margin") != NULL,
			    "%s '%s' is taken", v->option, v->value);
		else
			ok(failed(rc, 64, shown,
			    "; see 'leaserun run --help'") && strncmp(err.text,
			    "run: --", 7) == 0, "%s is refused", v->option);
	}
}

static void
test_stored(void)
{
	ok(RUN("-t", "90s", "-r", "20s", "-g", "7s", "-w", "5m", "-E", "0",
	    "--lost-exit-code=1", "--connect-timeout", "3s", "--min-hold=50",
	    "--max-run", "1h", "--leftovers", "kill", "--token-env=OUTER",
	    "--owner", "me", "--complain-after", "2h", "--events", "e",
	    "--metrics", "m", "--log", "syslog", "--module-dir", "d", "-b",
	    "x:y", "job") == 0, "everything is given");
	ok(conf.ttl == 90 * S && conf.renew_every == 20 * S &&
	    conf.grace == 7 * S && conf.wait == 300 * S && conf.wait_given &&
	    conf.connect_timeout == 3 * S && conf.min_hold == 50 * S &&
	    conf.max_run == 3600 * S && conf.complain_after == 7200 * S,
	    "durations");
	ok(conf.conflict_exit_code == 0 && conf.lost_exit_code == 1 &&
	    conf.leftovers == LEFTOVERS_KILL, "numbers and words");
	ok(strcmp(conf.token_env, "OUTER") == 0 &&
	    strcmp(conf.owner, "me") == 0 && strcmp(conf.events, "e") == 0 &&
	    strcmp(conf.metrics, "m") == 0 && strcmp(conf.log, "syslog") == 0 &&
	    strcmp(conf.module_dir, "d") == 0 &&
	    strcmp(conf.backend, "x:y") == 0, "texts");
	ok(RUN("-w", "inf", "job") == 0 && conf.wait == TIME_NEVER, "for ever");
	ok(RUN("--once", "k", "job") == 0 && strcmp(conf.once, "k") == 0 &&
	    conf.once_per == 0, "once");
	ok(RUN("--once-per", "1d", "job") == 0 && conf.once == NULL &&
	    conf.once_per == 86400 * S, "once per period");
	ok(failed(RUN("--once", "k", "--once-per", "1d", "job"), 64,
	    "once and once-per", "--help"), "not both");
}

static void
test_defaults(void)
{
	ok(RUN("job") == 0 && operands == 1, "nothing is given");
	ok(conf.ttl == 60 * S && conf.renew_every == 20 * S &&
	    conf.grace == 10 * S && conf.wait == 0 && !conf.wait_given &&
	    conf.connect_timeout == 10 * S && conf.min_hold == 0 &&
	    conf.max_run == TIME_NEVER && conf.complain_after == TIME_NEVER &&
	    conf.once_per == 0, "durations");
	ok(conf.conflict_exit_code == 75 && conf.lost_exit_code == 79 &&
	    conf.leftovers == LEFTOVERS_WAIT &&
	    conf.log_level == LOG_LEVEL_WARNING, "numbers");
	ok(strcmp(conf.backend, "file:") == 0 && conf.noptions == 0 &&
	    strcmp(conf.log, "stderr") == 0 && conf.once == NULL &&
	    conf.token_env == NULL && conf.events == NULL &&
	    conf.metrics == NULL && conf.config == NULL &&
	    conf.module_dir == NULL && !conf.password_in_argv, "texts");
	ok(conf.owner != NULL && conf.owner[0] != '\0' &&
	    strlen(conf.owner) <= 64, "the owner is the host");
	ok(LOAD(CONF_FENCE, "fence", "f") == 0 && conf.wait == 10 * S,
	    "fence waits 10 s");
	ok(LOAD(CONF_REVOKE, "revoke", "n") == 0 && conf.wait == 0 &&
	    !conf.token_given, "revoke does not");
}

/* --- the command line */

static void
test_words(void)
{
	ok(RUN("-vqt5", "a", "-t", "x") == 0 && operands == 2 &&
	    conf.ttl == 5 * S, "options end at the first operand");
	ok(RUN("-t", "5", "--", "-t", "x") == 0 && operands == 4,
	    "or at two dashes");
	ok(RUN("-", "x") == 0 && operands == 1, "one dash is an operand");
	ok(LOAD(CONF_RUN, "run") == 0 && operands == 1, "no operand");
	ok(failed(RUN("--tt", "5", "job"), 64, "'--tt'", "--help"),
	    "abbreviated");
	ok(failed(RUN("--tt=5", "job"), 64, "'--tt'", "--help"),
	    "abbreviated, with a value");
	ok(failed(RUN("--once-p", "5", "job"), 64, "'--once-p'", "--help"),
	    "almost whole");
	ok(failed(RUN("--l", "5", "job"), 64, "'--l'", "--help"),
	    "ambiguous");
	ok(failed(RUN("--verb", "job"), 64, "'--verb'", "--help"),
	    "an abbreviated flag");
	ok(failed(RUN("--bogus=pw", "job"), 64, "unknown option '--bogus'",
	    "--help") && strstr(err.text, "pw") == NULL, "unknown");
	ok(failed(RUN("-vX", "job"), 64, "unknown option '-X'", "--help"),
	    "an unknown letter");
	ok(failed(RUN("-\xc3\xa9", "job"), 64, "'-\xc3\xa9'", "--help"),
	    "not even a letter");
	ok(failed(RUN("--ttl"), 64, "'--ttl'", "--help"), "no value");
	ok(failed(RUN("-v", "-t"), 64, "'-t'", "--help"), "nor here");
	ok(failed(RUN("--quiet=yes", "job"), 64, "'--quiet'", "--help"),
	    "a value too many");
	ok(failed(RUN("--json", "job"), 64, "'--json'", "'leaserun run"),
	    "of another command");
	ok(failed(RUN("--bogus", "-X"), 64, "--bogus", ""),
	    "the first one counts");
	ok(failed(RUN("--backendpostgres://u:pw@db"), 64, "--backend", "")
	    && strstr(err.text, "pw") == NULL, "no password in a message");
	ok(failed(RUN("-b", "HTTP://u:pw@db", "x"), 64, "HTTP://u:***@db", "")
	    && strstr(err.text, "pw") == NULL, "nor in this");
	ok(failed(RUN("-o", "Password=pw", "x"), 64, "'Password'", "") &&
	    strstr(err.text, "pw") == NULL, "nor in that");
}

static void
test_help(void)
{
	ok(RUN("--help") == 0 && conf.help, "--help");
	ok(RUN("-vh", "--bogus") == 0 && conf.help,
	    "nothing behind it is looked at");
	ok(RUN("--ttl", "x", "-h") == 0 && conf.help, "nor any value");
	ok(RUN("--config", "/nonexistent", "-h") == 0 && conf.help,
	    "nor a file");
	ok(failed(RUN("--hel"), 64, "'--hel'", ""), "spelled whole");
	ok(RUN("job", "--help") == 0 && !conf.help, "the command's own");
}

static void
test_levels(void)
{
	ok(RUN("-v", "j") == 0 && conf.log_level == LOG_LEVEL_INFO, "-v");
	ok(RUN("-vv", "j") == 0 && conf.log_level == LOG_LEVEL_DEBUG, "-vv");
	ok(RUN("-vvvvvv", "j") == 0 && conf.log_level == LOG_LEVEL_DEBUG,
	    "no more than that");
	ok(RUN("--verbose", "--verbose", "j") == 0 &&
	    conf.log_level == LOG_LEVEL_DEBUG, "--verbose");
	ok(RUN("-q", "j") == 0 && conf.log_level == LOG_LEVEL_ERROR, "-q");
	ok(RUN("-vq", "j") == 0 && conf.log_level == LOG_LEVEL_ERROR,
	    "the last counts");
	ok(RUN("-qv", "j") == 0 && conf.log_level == LOG_LEVEL_INFO,
	    "this way too");

	write_file("verbose = 2\n", 0644);
	ok(RUN("--config", path, "j") == 0 &&
	    conf.log_level == LOG_LEVEL_DEBUG, "from a file");
	ok(RUN("-v", "--config", path, "j") == 0 &&
	    conf.log_level == LOG_LEVEL_INFO, "-v does not add to it");
	ok(RUN("-q", "--config", path, "j") == 0 &&
	    conf.log_level == LOG_LEVEL_ERROR, "-q wins");
	write_file("quiet = true\n", 0644);
	ok(RUN("-v", "--config", path, "j") == 0 &&
	    conf.log_level == LOG_LEVEL_INFO, "so does -v");
	ok(run_file("quiet = true\nquiet = false\n", "j") == 0 &&
	    conf.log_level == LOG_LEVEL_WARNING, "not quiet");
	ok(run_file("verbose = 2\nquiet = false\n", "j") == 0 &&
	    conf.log_level == LOG_LEVEL_DEBUG, "but as verbose as before");
	ok(failed(run_file("verbose = 3\n", "j"), 78, ":1: verbose: '3'", ""),
	    "not three");
	ok(failed(run_file("quiet = 2\n", "j"), 78, ":1: quiet: '2'", ""),
	    "nor quiet by a number");
}

static void
test_commands(void)
{
	ok(LOAD(CONF_STATUS, "status", "--json", "--once", "-b", "x:y", "n")
	    == 0 && conf.json && conf.list_once && conf.once == NULL &&
	    operands == 5, "status");
	ok(LOAD(CONF_CHECK, "check", "--token", "9223372036854775807", "n")
	    == 0 && conf.token_given && conf.token == INT64_MAX, "check");
	ok(failed(LOAD(CONF_CHECK, "check", "--token", "9223372036854775808"),
	    64, "check: --token: '9223372036854775808'",
	    "9223372036854775807; see 'leaserun check --help'"),
	    "a token too large");
	ok(failed(LOAD(CONF_CHECK, "check", "--token", "0"), 64,
	    "from 1 to", ""), "and one too small");
	ok(LOAD(CONF_REVOKE, "revoke", "--wait", "5s", "--force", "--token=7",
	    "n") == 0 && conf.wait == 5 * S && conf.wait_given &&
	    conf.force && conf.token == 7, "revoke");
	ok(LOAD(CONF_INIT, "init", "--print", "--raise-token", "12", "-o",
	    "a=b") == 0 && conf.print && conf.raise_token == 12 &&
	    !conf.token_given && conf.noptions == 1, "init");
	ok(LOAD(CONF_DOCTOR, "doctor", "--connect-timeout", "1") == 0 &&
	    conf.connect_timeout == S, "doctor");
	ok(LOAD(CONF_FENCE, "fence", "--wait", "0", "--token", "3", "-v", "f")
	    == 0 && conf.wait == 0 && conf.token == 3, "fence");
	ok(failed(LOAD(CONF_FENCE, "fence", "-b", "x:y", "f"), 64, "'-b'",
	    "'leaserun fence --help'"), "fence has no backend");
	ok(failed(LOAD(CONF_STATUS, "status", "--ttl", "5"), 64, "'--ttl'",
	    ""), "status has no ttl");

	write_file("wait = 5m\nttl = 5m\nonce = k\nbackend = x:f\n", 0644);
	ok(LOAD(CONF_REVOKE, "revoke", "--config", path, "n") == 0 &&
	    conf.wait == 0 && !conf.wait_given &&
	    strcmp(conf.backend, "x:f") == 0, "wait in a file is that of run");
	ok(LOAD(CONF_STATUS, "status", "--config", path) == 0 &&
	    !conf.list_once && conf.once == NULL, "once too");
	setenv("LEASERUN_CONFIG", "/nonexistent", 1);
	setenv("LEASERUN_BACKEND", "", 1);
	ok(LOAD(CONF_FENCE, "fence", "f") == 0, "fence reads no file");
	unsetenv("LEASERUN_BACKEND");
	read_no_file();
}

static void
test_options(void)
{
	ok(RUN("-o", "a=1", "-o", "b=2", "-o", "a=3=4", "-o", "ab=", "j") == 0
	    && conf.noptions == 3 && strcmp(conf.options[0].key, "a") == 0 &&
	    strcmp(conf.options[0].value, "3=4") == 0 &&
	    strcmp(conf.options[1].value, "2") == 0 &&
	    strcmp(conf.options[2].key, "ab") == 0 &&
	    strcmp(conf.options[2].value, "") == 0, "a later one replaces");
	ok(RUN("-b", "postgres://u:pw@db", "j") == 0 && conf.password_in_argv,
	    "a password in a URL");
	ok(RUN("-b", "postgres://db?password=pw", "j") == 0 &&
	    conf.password_in_argv, "in its query");
	ok(RUN("-o", "ssl-password=pw", "j") == 0 && conf.password_in_argv,
	    "in an option");
	ok(RUN("-o", "password-file=/x", "j") == 0 && !conf.password_in_argv,
	    "the place of one");
	ok(RUN("-o", "proxy=http://u:pw@h:1", "j") == 0 &&
	    conf.password_in_argv, "in that of a proxy");
	ok(RUN("-b", "postgres://u@db/x?user=a@b", "-o", "a=password", "-o",
	    "file=/a:b@c", "-o", "endpoints=h:1,[::1]:2", "j") == 0 &&
	    !conf.password_in_argv, "none");
	ok(failed(RUN("-o", "a=b\nc=d", "j"), 64, "'a' has a line break", ""),
	    "two lines");
}

/* --- for a leaserun in the job */

static int
hands(char *text, const char *wanted)
{
	int same = wanted == NULL ? text == NULL :
	    text != NULL && strcmp(text, wanted) == 0;

	if (!same)
		printf("# handed on: %s\n", text == NULL ? "nothing" : text);
	free(text);
	return same;
}

static void
test_hand_on(void)
{
	char cwd[400], wanted[2048];

	if (getcwd(cwd, sizeof(cwd)) == NULL)
		printf("Bail out! no working directory\n");
	ok(RUN("j") == 0 && hands(conf_hand_config(&conf), NULL) &&
	    hands(conf_hand_options(&conf), NULL), "nothing to hand on");
	write_file("option { table = a }\n", 0644);
	ok(RUN("--config", path, "-o", "b=1=2", "j") == 0 &&
	    hands(conf_hand_config(&conf), path) &&
	    hands(conf_hand_options(&conf), "table=a\nb=1=2"),
	    "of the file and the command line");
	unlink(path);
	ok(RUN("-o", "password=pw", "-o", "ssl-secret=pw", "-o",
	    "proxy=u:pw@h:1", "-o", "a=b", "-o", "url=x://u:pw@h", "j") == 0 &&
	    hands(conf_hand_options(&conf), "a=b"), "no secret");
	snprintf(wanted, sizeof(wanted), "password-file=%s/pw\ncacert=%s/a/ca\n"
	    "cert=/b\nkey=%s/k\ntable=t\nfile=%s/f\ncert-file=", cwd, cwd, cwd,
	    cwd);
	ok(RUN("-o", "password-file=pw", "-o", "cacert=a/ca", "-o", "cert=/b",
	    "-o", "key=k", "-o", "table=t", "-o", "file=f", "-o", "cert-file=",
	    "j") == 0 && hands(conf_hand_options(&conf), wanted),
	    "with absolute paths");
	write_file("", 0600);
	if (chdir(dir) == -1)
		printf("Bail out! cannot go to %s\n", dir);
	ok(RUN("--config", path + strlen(dir) + 1, "j") == 0 &&
	    hands(conf_hand_config(&conf), path), "a relative file");
	ok(chdir("/") == 0 && RUN("--config", path + 1, "j") == 0 &&
	    hands(conf_hand_config(&conf), path), "from the root");
	if (chdir(cwd) == -1)
		printf("Bail out! cannot go back\n");
	unlink(path);
}

/* The options, as they would be handed on again. */
static int
has_options(const char *wanted)
{
	return hands(conf_hand_options(&conf), wanted);
}

static void
test_taken_options(void)
{
	setenv("LEASERUN_OPTIONS", "b=env\nc=env=1\n", 1);
	ok(RUN("j") == 0 && has_options(NULL), "none without its backend");
	setenv("LEASERUN_BACKEND", "x:env", 1);
	ok(RUN("j") == 0 && has_options("b=env\nc=env=1"), "with it");
	ok(LOAD(CONF_STATUS, "status") == 0 && has_options("b=env\nc=env=1"),
	    "for any command");
	write_file("option { a = file\nb = file }\n"
	    "job j { option { c = block } }\n", 0644);
	ok(RUN("--config", path, "-o", "d=argv", "j") == 0 &&
	    has_options("a=file\nb=env\nc=env=1\nd=argv"),
	    "they beat a file and its block");
	ok(RUN("--config", path, "-o", "b=argv", "j") == 0 &&
	    has_options("a=file\nb=argv\nc=env=1"),
	    "the command line beats them");
	ok(RUN("--config", path, "-b", "x:env", "j") == 0 &&
	    has_options("a=file\nb=file\nc=block"), "none with -b");
	unlink(path);
	setenv("LEASERUN_OPTIONS", "keep=9d\n\na=b", 1);
	ok(RUN("j") == 0 && has_options("a=b") &&
	    conf.once_keep == 9 * 86400 * S, "an empty line, and keep");
	setenv("LEASERUN_OPTIONS", "a=b\nnonsense", 1);
	ok(failed(RUN("j"), 78, "LEASERUN_OPTIONS: line 2: 'nonsense'",
	    "KEY=VALUE"), "malformed");
	ok(RUN("-b", "x:argv", "j") == 0, "and not read");
	setenv("LEASERUN_OPTIONS", "A=b", 1);
	ok(failed(RUN("j"), 78, "LEASERUN_OPTIONS: line 1: 'A'", ""),
	    "no key");
	unsetenv("LEASERUN_BACKEND");
	ok(RUN("j") == 0, "without its backend neither");
	setenv("LEASERUN_OPTIONS", "", 1);
	setenv("LEASERUN_BACKEND", "x:env", 1);
	ok(RUN("j") == 0 && has_options(NULL), "empty");
	unsetenv("LEASERUN_BACKEND");
	unsetenv("LEASERUN_OPTIONS");
}

/* LEASERUN_BACKEND, what a file says, and what becomes of them. */
static const struct known {
	const char	*environment;
	const char	*text;
	const char	*backend;
} known[] = {
	{ "x://u:@h/d", "backend = \"x://u:pw@h/d\"", "x://u:pw@h/d" },
	{ "x://u@h/d", "backend = \"x://u:pw@h/d\"", "x://u:pw@h/d" },
	{ "x://h/d?password=&a=b", "backend = \"x://h/d?password=pw&a=b\"",
	    "x://h/d?password=pw&a=b" },
	{ "x://u:other@h/d", "backend = \"x://u:pw@h/d\"",
	    "x://u:other@h/d" },
	{ "x://u:@h/e", "backend = \"x://u:pw@h/d\"", "x://u:@h/e" },
	{ "x://v:@h/d", "backend = \"x://u:pw@h/d\"", "x://v:@h/d" },
	{ "x://u:@h/d", "backend = \"y://u:pw@h/d\"", "x://u:@h/d" },
	{ "x://u:@h/d", "backend = \"x://h/d\"\njob j { backend = "
	    "\"x://u:pw@h/d\" }", "x://u:pw@h/d" },
	{ "x://u:@h/d", "backend = \"x://h/d\"\njob other { backend = "
	    "\"x://u:pw@h/d\" }", "x://u:pw@h/d" },
	{ "x://u:@h/d", "backend = \"x://u:pw@h/d\"\njob other { backend = "
	    "\"x://u:pw2@h/d\" }", "x://u:pw@h/d" },
	{ "x://u:@h/d", "job other { backend = \"x://v:pw@h/d\" }",
	    "x://u:@h/d" },
	{ "x://", "backend = \"x://u:p@w@h/d\"", "x://u:p@w@h/d" },
};

static void
test_known(void)
{
	const struct known *k;

	for (k = known; k < known + COUNT(known); k++) {
		setenv("LEASERUN_BACKEND", k->environment, 1);
		write_file(k->text, 0600);
		ok(RUN("--config", path, "j") == 0 &&
		    strcmp(conf.backend, k->backend) == 0, "known %d",
		    (int)(k - known));
		ok(RUN("--config", path, "-b", "x:argv", "j") == 0 &&
		    strcmp(conf.backend, "x:argv") == 0, "or -b %d",
		    (int)(k - known));
		unlink(path);
	}
	unsetenv("LEASERUN_BACKEND");
}

/* --- habits */

static void
test_habits(void)
{
	ok(failed(RUN("-n", "j"), 64, "unknown option '-n'; without --wait",
	    "is skipped; see"), "-n");
	ok(failed(RUN("-vn", "j"), 64, "'-n'; without --wait", ""), "-vn");
	ok(failed(RUN("--nonblock", "j"), 64, "'--nonblock'; without", ""),
	    "--nonblock");
	ok(failed(RUN("-x", "j"), 64, "'-x'; each lease is exclusive", ""),
	    "-x");
	ok(failed(RUN("-c", "a", "j"), 64, "'-c'; for a shell",
	    "sh -c 'COMMAND'"), "-c");
	ok(failed(LOAD(CONF_STATUS, "status", "-n"), 64, "option '-n'; see",
	    ""), "of run only");
}

static void
test_schedule(void)
{
	ok(RUN("-t", "2s", "j") == 0 && conf.renew_every == 2 * S / 3 &&
	    conf.grace == 2 * S / 6, "defaults follow the ttl");
	ok(RUN("-t", "10m", "j") == 0 && conf.grace == 10 * S &&
	    conf.renew_every == 200 * S, "grace up to 10 s");
	ok(failed(RUN("-g", "61s", "j"), 64, "run: 2 x renew-every (20s) + "
	    "grace (1m1s) + margin (1s400ms) = 1m42s400ms",
	    "ttl (1m); see 'leaserun run --help'"), "a grace too long");
	ok(failed(RUN("-r", "30s", "j"), 64, "renew-every (30s)", ""),
	    "a heartbeat too slow");
	ok(RUN("-t", "60s", "-r", "20s", "-g", "18600ms", "j") == 0,
	    "an exact fit");
	ok(failed(RUN("-t", "60s", "-r", "20s", "-g", "18601ms", "j"), 64,
	    "1m1ms", ""), "a millisecond too much");
	ok(failed(RUN("-r", "36525d", "-g", "36525d", "j"), 64, "36525d", ""),
	    "no overflow");
	ok(failed(run_file("grace = 2m\n", "j"), 78, "grace (2m)",
	    "configuration: "), "from a file");
	ok(failed(RUN("-t", "50", "--config", path, "j"), 64, "grace (2m)",
	    "--help"), "partly from the command line");
	ok(RUN("-t", "10m", "--config", path, "j") == 0 &&
	    conf.grace == 120 * S, "made good on the command line");
	ok(LOAD(CONF_STATUS, "status", "--config", path) == 0,
	    "of run only");
}

/* --- files and environment */

static void
test_order(void)
{
	write_file("backend = \"x:file\"\nttl = 40\n", 0644);
	ok(RUN("--config", path, "j") == 0 &&
	    strcmp(conf.backend, "x:file") == 0 && conf.ttl == 40 * S,
	    "a file");
	setenv("LEASERUN_BACKEND", "x:env", 1);
	ok(RUN("--config", path, "j") == 0 &&
	    strcmp(conf.backend, "x:env") == 0 && conf.ttl == 40 * S,
	    "the environment wins");
	ok(RUN("--config", path, "-b", "x:argv", "-t", "50", "j") == 0 &&
	    strcmp(conf.backend, "x:argv") == 0 && conf.ttl == 50 * S,
	    "the command line wins");
	setenv("LEASERUN_BACKEND", "", 1);
	ok(failed(RUN("-b", "x:argv", "j"), 78, "LEASERUN_BACKEND", "empty"),
	    "set but empty");
	ok(strstr(err.text, "unset it or give a URL") != NULL,
	    "with a remedy");
	setenv("LEASERUN_BACKEND", "HTTP://u:pw@db", 1);
	ok(failed(RUN("j"), 78, "LEASERUN_BACKEND: 'HTTP://u:***@db' is", "")
	    && strstr(err.text, "pw") == NULL, "not a URL");
	unsetenv("LEASERUN_BACKEND");

	setenv("LEASERUN_CONFIG", path, 1);
	ok(RUN("j") == 0 && conf.ttl == 40 * S, "a file by the environment");
	ok(failed(RUN("--config", "/nonexistent", "j"), 78, "/nonexistent: ",
	    "No such file"), "the one of the command line instead");
	setenv("LEASERUN_CONFIG", "/nonexistent", 1);
	ok(failed(RUN("j"), 78, "/nonexistent", ""), "it must be there");
	ok(RUN("--config", path, "j") == 0, "unless another is asked for");
	setenv("LEASERUN_CONFIG", "", 1);
	ok(failed(RUN("--config", path, "j"), 78, "LEASERUN_CONFIG", "empty; "
	    "unset it or name a file"), "set but empty");
	read_no_file();
	ok(failed(RUN("--ttl", "x", "--config", "/nonexistent", "j"), 64,
	    "--ttl", ""), "usage errors first");
}

static void
test_places(void)
{
	char home[64], config[80];

	snprintf(config, sizeof(config), "%s/.config", dir);
	snprintf(home, sizeof(home), "%s/.config/leaserun.conf", dir);
	mkdir(config, 0700);
	write_file("ttl = 41\n", 0644);
	rename(path, home);

	unsetenv("LEASERUN_CONFIG");
	setenv("HOME", dir, 1);
	ok(RUN("j") == 0 && conf.ttl == 41 * S, "~/.config");
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
	ok(RUN("j") == 0 && conf.ttl == 60 * S, "XDG_CONFIG_HOME instead");
	setenv("XDG_CONFIG_HOME", "", 1);
	ok(RUN("j") == 0 && conf.ttl == 41 * S, "not when it is empty");
	setenv("HOME", "relative", 1);
	setenv("XDG_CONFIG_HOME", "relative", 1);
	ok(RUN("j") == 0 && conf.ttl == 60 * S, "relative ones are ignored");
	setenv("XDG_CONFIG_HOME", config, 1);
	ok(RUN("j") == 0 && conf.ttl == 41 * S, "XDG_CONFIG_HOME");
	write_file("grace = 1\n", 0644);
	ok(RUN("--config", path, "j") == 0 && conf.ttl == 60 * S &&
	    conf.grace == S, "not with --config");
	chmod(home, 0666);
	ok(failed(RUN("j"), 78, "chmod go-w", home), "others may write to it");
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("HOME");
	ok(RUN("j") == 0 && conf.ttl == 60 * S, "no place at all");
	unlink(home);
	rmdir(config);
	read_no_file();
}

static void
test_keys(void)
{
	ok(run_file("backend = postgres://db/ops # unquoted\nttl = 30\n"
	    "renew-every = 5s\ngrace=2s\nwait = inf\nconnect-timeout = 1m\n"
	    "conflict-exit-code = 0\nlost-exit-code = 80\nmin-hold = 1\n"
	    "max-run = 1h\nleftovers = leave\ntoken-env = T\nonce = k\n"
	    "owner = \"a \\\"b\\\"\"\n"
	    "complain-after = 1d\nevents = /e\nmetrics = /m\n"
	    "module-dir = /d\nlog = syslog\nverbose = 1\n", "j") == 0,
	    "all the keys");
	ok(strcmp(conf.backend, "postgres://db/ops") == 0 &&
	    conf.ttl == 30 * S && conf.renew_every == 5 * S &&
	    conf.grace == 2 * S && conf.wait == TIME_NEVER &&
	    conf.connect_timeout == 60 * S && conf.conflict_exit_code == 0 &&
	    conf.lost_exit_code == 80 && conf.min_hold == S &&
	    conf.max_run == 3600 * S && conf.leftovers == LEFTOVERS_LEAVE &&
	    strcmp(conf.token_env, "T") == 0 &&
	    strcmp(conf.once, "k") == 0 &&
	    strcmp(conf.owner, "a \"b\"") == 0 &&
	    conf.complain_after == 86400 * S &&
	    strcmp(conf.events, "/e") == 0 &&
	    strcmp(conf.metrics, "/m") == 0 &&
	    strcmp(conf.module_dir, "/d") == 0 &&
	    strcmp(conf.log, "syslog") == 0 &&
	    conf.log_level == LOG_LEVEL_INFO, "are stored");
	ok(run_file("option {\n table = \"ops.lease\" # c\n cacert = /etc/ca\n"
	    "}\noption { table = t2 }\n", "j") == 0 && conf.noptions == 2 &&
	    strcmp(conf.options[0].key, "table") == 0 &&
	    strcmp(conf.options[0].value, "t2") == 0 &&
	    strcmp(conf.options[1].value, "/etc/ca") == 0, "options");
	ok(RUN("-o", "cacert=/x", "-o", "n=1", "--config", path, "j") == 0 &&
	    conf.noptions == 3 && strcmp(conf.options[0].value, "t2") == 0 &&
	    strcmp(conf.options[1].value, "/x") == 0, "-o replaces one");
	ok(run_file("once = k\n", "j") == 0 && RUN("--once-per", "1d",
	    "--config", path, "j") == 0 && conf.once == NULL &&
	    conf.once_per == 86400 * S, "once-per instead of once");
	ok(run_file("once-per = 1d\njob j { once = k }\n", "j") == 0 &&
	    strcmp(conf.once, "k") == 0 && conf.once_per == 0,
	    "and the other way");
	ok(failed(run_file("once = k\nonce-per = 1d\n", "j"), 78, "exclude",
	    ""), "not both in one place");
	setenv("T_CONF", "x:from-env", 1);
	ok(run_file("backend = \"${T_CONF}\"\n", "j") == 0 &&
	    strcmp(conf.backend, "x:from-env") == 0, "a variable");
	ok(run_file("\n", "j") == 0 && run_file("", "j") == 0 &&
	    run_file("# only\n", "j") == 0, "empty files");
	ok(run_file("ttl = 40\r\ngrace = 1\r\n", "j") == 0 &&
	    conf.ttl == 40 * S && conf.grace == S, "lines of DOS");
	ok(run_file("ttl = 40 // c\n// c\n/* c\n */ grace /* c */ = # c\n 1s",
	    "j") == 0 && conf.ttl == 40 * S && conf.grace == S, "comments");
	ok(run_file("\xef\xbb\xbfttl = 9\r\nowner = \"a\xc2\xa0\"\r\n# \xc2"
	    "\xa0\r\n", "j") == 0 && conf.ttl == 9 * S &&
	    strcmp(conf.owner, "a\xc2\xa0") == 0,
	    "a byte order mark, and lines from elsewhere");
	ok(run_file("\xef\xbb\xbf", "j") == 0, "nothing but the mark");
	ok(run_file("backend = \"x:#a//b/*c\" # 'x\n", "j") == 0 &&
	    strcmp(conf.backend, "x:#a//b/*c") == 0, "none in quotes");
}

static const struct broken {
	const char	*text;
	const char	*a;
	const char	*b;
} broken[] = {
	{ "bogus = 1\n", ":1: ", "unknown key 'bogus'" },
	{ "wait = 10 m\n", ":1: unknown key 'm'", "write wait = 10m" },
	{ "job j { max-run = 1h\n30m }\n", ":2: unknown key '30m'",
	    "write max-run = 1h30m" },
	{ "\n# c\n/* c */\n//c\n\nbogus = 1\n", ":6: ", "'bogus'" },
	{ "ttl = 5\n\nttl = 10x\n", ":3: ttl: '10x' is not a duration", "" },
	{ "/* a\n b */ ttl = 5 /* c */ /* d */\nttl = 1\n", ":3: ttl: '1'",
	    "2s" },
	{ "job j {\n\n bogus = 1 }\n", ":3: ", "'bogus'" },
	{ "job j {\n ttl = 5\n ttl = x }\n", ":3: ttl: 'x'", "" },
	{ "job other {\n ttl = x }\n", ":2: ttl: 'x'", "" },
	{ "job j { job k { } }\n", ":1: ", "'job'" },
	{ "help = true\n", ":1: ", "'help'" },
	{ "config = x\n", ":1: ", "'config'" },
	{ "json = true\n", ":1: ", "'json'" },
	{ "token = 1\n", ":1: ", "'token'" },
	{ "include(\"/etc/passwd\")\n", ":1: ", "'include'" },
	{ "ttl 5\n", ":1: ", "" },
	{ "ttl = \n", ":2: ", "" },
	{ "ttl = { 5 }\n", ":1: ", "" },
	{ "ttl = 5 }\n", ":1: ", "" },
	{ "ttl += 5\n", ":1: '+' ", "quotes" },
	{ "ttl =\n = 5\n", ":2: ", "" },
	{ "=\n", ":1: ", "" },
	{ "\"\" = 1\n", ":1: ", "" },
	{ "job { }\n", ":1: ", "" },
	{ "\njob j {\nttl = 5\n", ":2: a '{' is not closed", "" },
	{ "job j { option {\nttl = 5\n}", ":1: a '{' is not closed", "" },
	{ "owner = 'it''s'\n", ":1: unknown key 's'", "" },
	{ "job report-* { ttl = 5 }\n", ":1: '*' ", "quotes" },
	{ "owner = a+b\n", ":1: '+' ", "quotes" },
	{ "ttl = 5\n/* x\nttl = 6\n", ":2: a comment is not closed", "" },
	{ "\nowner = \"x\nttl = 5\n", ":2: a quote is not closed", "" },
	{ "\nowner = 'x\nttl = 5\n", ":2: a quote is not closed", "" },
	{ "owner = \"a\\0b\"\n", ":1: ", "'\\0'" },
	{ "owner = \"a\\x41\"\n", ":1: ", "'\\x'" },
	{ "owner = \"${A\"\njob j { }\n", ":1: '${'", "'}'" },
	{ "owner = ${A\n}\n", ":1: '${'", "'}'" },
	{ "job a { ttl = 9 }\n\"job=a|ttl\" = 5\n", ":2: ", "'|'" },
	{ "option { a = b }\n\"option|a\" = 5\n", ":2: ", "'|'" },
	{ "option { A = b }\n", ":1: option: 'A'", "KEY=VALUE" },
	{ "option { \"a=b\" = c }\n", ":1: option: ", "'='" },
	{ "option { a }\n", ":1: ", "" },
	{ "option { a { b = c } }\n", ":1: ", "" },
	{ "option \"table\" = \"x\"\n", ":1: ", "" },
	{ "option = a\n", ":1: ", "" },
	{ "backend = postgres://u:p'w@db'\n", ":1: ", "" },
	{ "backend = postgres://u:p w@db\n", ":1: ", "" },
	{ "backend = postgres://u:p w@db w@\n", ":1: ", "quotes" },
	{ "backend = postgres://u:p sEcret x@db\n", ":1: ", "quotes" },
	{ "backend = postgres://u@db\nsecre = t\n", ":2: ", "'secre'" },
	{ "option { password = p sEcret }\n", ":1: ", "quotes" },
	{ "option { password = p\nsEcret }\n", ":2: ", "quotes" },
	{ "job j { option { password = p { sEcret } }\n", ":1: ", "" },
	{ "backend = postgres://db/ops?a=b\n", ":1: unexpected '='",
	    "quotes may be missing" },
	{ "backend = nothing\n", ":1: backend: 'nothing'", "" },
	{ "backend = \"HTTP://u:pw@db\"\n", ":1: backend: 'HTTP://u:***@db'",
	    "" },
	{ "conflict-exit-code = 256\n", ":1: ", "0 to 255" },
	{ "{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{\n", ":1: ", "" },
	{ "\xff\xfe\x80\n", ":1: ", "" },
	{ "\nttl\xc2\xa0= 5\n", ":2: ", "U+00A0, a no-break space" },
	{ "ttl = 5\n\xe2\x80\x8bwait = 5\n", ":2: ", "U+200B" },
	{ "ttl = 5\n\xef\xbb\xbfwait = 5\n", ":2: ", "a byte order mark" },
	{ "\xef\xbb\xbf\xef\xbb\xbfttl = 5\n", ":1: ", "U+FEFF" },
	{ "\xef\xbb\xbfttl = x\n", ":1: ttl: 'x'", "" },
};

static void
test_broken(void)
{
	const struct broken *b;

	for (b = broken; b < broken + COUNT(broken); b++) {
		ok(failed(run_file(b->text, "j"), 78, b->a, b->b) &&
		    strncmp(err.text, path, strlen(path)) == 0 &&
		    strstr(err.text, "w@db") == NULL &&
		    strstr(err.text, "sEcret") == NULL, "broken file %d",
		    (int)(b - broken));
	}
	write_bytes("ttl = 5\0 # x\n", 13, 0644);
	ok(failed(RUN("--config", path, "j"), 78, "NUL", path), "a NUL byte");
}

static void
test_jobs(void)
{
	static const char text[] =
	    "ttl = 40\n"
	    "job \"report-a\" { ttl = 41 grace = 1 option { a = exact } }\n"
	    "job \"report-*\" { ttl = 42 wait = 5 grace = 2 option { a = glob\n"
	    " b = glob } }\n"
	    "job \"*\" { wait = 6 }\n"
	    "job \"report-*\" { min-hold = 7 }\n"
	    "job \"[xy]?\" { wait = 8 }\n"
	    "job \"a\\*b\" { ttl = 43 }\n"
	    "option { a = top c = top }\n"
	    "grace = 3\n";

	ok(run_file(text, "other") == 0 && conf.ttl == 40 * S &&
	    conf.grace == 3 * S && conf.wait == 6 * S && conf.min_hold == 0 &&
	    conf.noptions == 2, "no block but the one for all");
	ok(run_file(text, "report-b") == 0 && conf.ttl == 42 * S &&
	    conf.grace == 2 * S && conf.min_hold == 7 * S, "a glob");
	ok(conf.wait == 6 * S, "a later glob beats an earlier one");
	ok(conf.noptions == 3 && strcmp(conf.options[0].value, "glob") == 0 &&
	    strcmp(conf.options[1].value, "top") == 0 &&
	    strcmp(conf.options[2].value, "glob") == 0, "options of a block");
	ok(run_file(text, "report-a") == 0 && conf.ttl == 41 * S &&
	    conf.grace == S && strcmp(conf.options[0].value, "exact") == 0,
	    "the exact name beats a glob");
	ok(conf.wait == 6 * S && conf.min_hold == 7 * S &&
	    strcmp(conf.options[2].value, "glob") == 0,
	    "which still gives the rest");
	ok(run_file(text, "report-a/b") == 0 && conf.ttl == 42 * S,
	    "a star matches a slash");
	ok(run_file(text, ".report") == 0 && conf.wait == 6 * S,
	    "and a dot in front");
	ok(run_file(text, "x1") == 0 && conf.wait == 8 * S, "other wildcards");
	ok(run_file(text, "report-*") == 0 && conf.ttl == 42 * S,
	    "a name that looks like a pattern");
	ok(run_file("job 'a\\*' { ttl = 43 }", "a\\b") == 0 &&
	    conf.ttl == 43 * S, "a backslash is itself");
	ok(RUN("--config", path, "-t", "44", "--", "a\\b") == 0 &&
	    conf.ttl == 44 * S, "the command line beats a block");

	write_file("job n { backend = x:n }\n", 0644);
	ok(LOAD(CONF_CHECK, "check", "--config", path, "n") == 0 &&
	    strcmp(conf.backend, "x:n") == 0, "check asks the job's store");
	ok(LOAD(CONF_REVOKE, "revoke", "--config", path, "n") == 0 &&
	    strcmp(conf.backend, "x:n") == 0, "so does revoke");
	ok(LOAD(CONF_STATUS, "status", "--config", path, "n") == 0 &&
	    strcmp(conf.backend, "x:n") == 0, "and status of one");
	ok(LOAD(CONF_STATUS, "status", "--config", path, "n", "m") == 0 &&
	    strcmp(conf.backend, "file:") == 0, "not of several");
	ok(LOAD(CONF_INIT, "init", "--config", path) == 0 &&
	    strcmp(conf.backend, "file:") == 0, "nor init");
	setenv("LEASERUN_BACKEND", "x:env", 1);
	ok(RUN("--config", path, "n") == 0 &&
	    strcmp(conf.backend, "x:env") == 0,
	    "the environment beats a block");
	unsetenv("LEASERUN_BACKEND");
}

/* --- rights */

static const struct rights {
	const char	*text;
	mode_t		 mode;
	const char	*message;	/* NULL: taken */
} rights[] = {
	{ "ttl = 5\n", 0644, NULL },
	{ "ttl = 5\n", 0444, NULL },
	{ "ttl = 5\n", 0664, "chmod go-w" },
	{ "ttl = 5\n", 0646, "chmod go-w" },
	{ "ttl = 5\n", 0622, "chmod go-w" },
	{ "backend = \"postgres://u:p-w@db\"\n", 0600, NULL },
	{ "backend = \"postgres://u:p-w@db\"\n", 0640, NULL },
	{ "backend = \"postgres://u:p-w@db\"\n", 0644, "chmod o-r" },
	{ "\nbackend = \"postgres://db?password=p-w\"\n", 0644, ":2: holds" },
	{ "backend = \"postgres://u@db\"\n", 0644, NULL },
	{ "option { password = p-w }\n", 0644, "chmod o-r" },
	{ "option { ssl-secret = p-w }\n", 0604, "chmod o-r" },
	{ "option { password-file = /x }\n", 0644, NULL },
	{ "job j { backend = \"x://u:p-w@db\" }\n", 0644, "chmod o-r" },
	{ "job k { option { password = p-w } }\n", 0644, "chmod o-r" },
};

static void
test_rights(void)
{
	const struct rights *r;
	int rc;

	/* No name that mkdtemp(3) makes has a dash. */
	for (r = rights; r < rights + COUNT(rights); r++) {
		write_file(r->text, r->mode);
		rc = RUN("--config", path, "j");
		if (r->message == NULL)
			ok(rc == 0, "rights %d", (int)(r - rights));
		else
			ok(failed(rc, 78, r->message, path) &&
			    strstr(err.text, "p-w") == NULL, "rights %d",
			    (int)(r - rights));
		unlink(path);
	}
}

static void
test_kinds(void)
{
	char *big = malloc(1024 * 1024 + 1);

	ok(failed(RUN("--config", dir, "j"), 78, "regular", dir),
	    "a directory");
	mkfifo(path, 0600);
	ok(failed(RUN("--config", path, "j"), 78, "regular", path), "a pipe");
	unlink(path);
	ok(failed(RUN("--config", "/dev/null", "j"), 78, "regular", ""),
	    "a device");
	ok(symlink("elsewhere", path) == 0 && failed(RUN("--config", path,
	    "j"), 78, "No such file", path), "a link to nowhere");
	unlink(path);

	memset(big, ' ', 1024 * 1024 + 1);
	memcpy(big, "ttl = 5\n", 8);
	write_bytes(big, 1024 * 1024, 0644);
	ok(RUN("--config", path, "j") == 0 && conf.ttl == 5 * S, "1 MiB");
	write_bytes(big, 1024 * 1024 + 1, 0644);
	ok(failed(RUN("--config", path, "j"), 78, "1 MiB", path),
	    "and a byte");
	memset(big, 'x', 1024 * 1024);
	write_bytes(big, 1024 * 1024, 0644);
	ok(failed(RUN("--config", path, "j"), 78, "unknown key", path),
	    "one very long word");
	/* Of no size, says the kernel, and yet there is something in it. */
	ok(failed(RUN("--config", "/proc/version", "j"), 78, "has grown", ""),
	    "more than there was at first");
	unlink(path);
	free(big);
}

/* Only root can make a file of someone else, and read it as another one. */
static void
test_owners(void)
{
	int status;

	write_file("ttl = 5\n", 0644);
	ok(chown(path, 12345, 0) == 0 && failed(RUN("--config", path, "j"),
	    78, "uid 12345", "chown 0"), "a file of someone else");
	if (fork() == 0)
		_exit(setuid(12345) == -1 || RUN("--config", path, "j") != 0);
	ok(wait(&status) != -1 && status == 0, "which is mine");
	ok(chown(path, 0, 0) == 0 && RUN("--config", path, "j") == 0,
	    "a file of root");
	if (fork() == 0)
		_exit(setuid(12345) == -1 || RUN("--config", path, "j") != 0);
	ok(wait(&status) != -1 && status == 0, "is good for everybody");
	chmod(path, 0600);
	if (fork() == 0)
		_exit(setuid(12345) == -1 || RUN("--config", path, "j") != -1
		    || err.status != 78 ||
		    strstr(err.text, "chmod 640") == NULL);
	ok(wait(&status) != -1 && status == 0, "unless it cannot be read");
	unlink(path);
}

/* --- help */

static const enum conf_scope scopes[] = {
	CONF_RUN, CONF_STATUS, CONF_CHECK, CONF_REVOKE, CONF_INIT,
	CONF_DOCTOR, CONF_FENCE
};

/* What conf_print_options prints, in a file. */
static FILE *
print_options(enum conf_scope scope)
{
	FILE *fp = tmpfile();

	fflush(stdout);
	if (fork() == 0) {
		dup2(fileno(fp), STDOUT_FILENO);
		conf_print_options(scope);
		fflush(stdout);
		_exit(0);
	}
	wait(NULL);
	rewind(fp);
	return fp;
}

static void
test_print(void)
{
	char line[200];
	int bad, ttl = 0, lines;
	size_t i;
	FILE *fp;

	for (i = 0; i < COUNT(scopes); i++) {
		fp = print_options(scopes[i]);
		bad = lines = 0;
		while (fgets(line, sizeof(line), fp) != NULL) {
			lines++;
			if (strlen(line) > 81 || strncmp(line + 6, "--", 2) != 0
			    || strlen(line) < 33 || line[29] != ' ' ||
			    line[30] == ' ')
				bad++;
			ttl += strncmp(line, "  -t, --ttl D    ", 17) == 0;
		}
		ok(bad == 0 && lines > 5, "options of command %zu", i);
		fclose(fp);
	}
	is_int(ttl, 1, "the ttl, once");
}

/* --- whose an option is */

static const char two_stores[] =
    "backend = 'etcd://h' option { user = u keep = 2d }\n"
    "job pg { backend = 'postgres://h' }\n"
    "job 'lite*' { option { a = b } backend = 'file:/x' }\n"
    "job more { option { table = t } }\n";

static const struct whose {
	const char *text;
	const char *job;
	const char *environment;	/* or NULL */
	const char *url;		/* of the command line, or NULL */
	const char *options;		/* that count */
} whose[] = {
	{ two_stores, "j", NULL, NULL, "user=u" },
	{ two_stores, "pg", NULL, NULL, "" },
	{ two_stores, "lite2", NULL, NULL, "a=b" },
	{ two_stores, "more", NULL, NULL, "user=u table=t" },
	{ two_stores, "j", "postgres://h", NULL, "" },
	{ two_stores, "j", "etcds://other", NULL, "user=u" },
	{ two_stores, "j", NULL, "file:/x", "" },
	{ two_stores, "more", NULL, "file:/x", "" },
	{ two_stores, "lite2", "postgres://h", NULL, "" },
	{ two_stores, "pg", NULL, "etcd://other", "user=u" },
	{ two_stores, "j", "file:/x", "etcds://h", "user=u" },
	/* Where no backend is named they are for whichever it is. */
	{ "option { a = b }\n", "j", "etcd://h", NULL, "a=b" },
	{ "option { a = b }\n", "j", NULL, "file:/x", "a=b" },
	{ "option { a = b }\njob j { backend = 'x:' }\n", "j", NULL, NULL,
	    "a=b" },
	/* Below it or above it. */
	{ "option { a = b }\nbackend = 'x:'\n", "j", "y:", NULL, "" },
	{ "backend = 'postgresql://h'\noption { table = t }\n", "j", NULL,
	    "postgres://h", "table=t" },
};

static void
test_whose(void)
{
	const struct whose *w;
	char options[80];
	size_t i, n;

	for (w = whose; w < whose + COUNT(whose); w++) {
		write_file(w->text, 0644);
		if (w->environment != NULL)
			setenv("LEASERUN_BACKEND", w->environment, 1);
		if (w->url != NULL)
			RUN("--config", path, "-b", w->url, w->job);
		else
			RUN("--config", path, w->job);
		unsetenv("LEASERUN_BACKEND");
		options[0] = '\0';
		for (i = 0, n = 0; i < conf.noptions; i++)
			n += (size_t)snprintf(options + n, sizeof(options) - n,
			    "%s%s=%s", i == 0 ? "" : " ", conf.options[i].key,
			    conf.options[i].value);
		is_str(options, w->options, "options of '%s' (%s, %s)", w->job,
		    w->environment == NULL ? "-" : w->environment,
		    w->url == NULL ? "-" : w->url);
	}
	write_file(two_stores, 0644);
	ok(RUN("--config", path, "-o", "user=x", "pg") == 0 &&
	    conf.noptions == 1 && strcmp(conf.options[0].value, "x") == 0 &&
	    conf.once_keep == 2 * 86400 * S,
	    "one of the command line counts, and keep is for all");
	unlink(path);
}

int
main(void)
{
	bool root = geteuid() == 0;

	plan((int)COUNT(values) + 8 + 7 + 20 + 6 + 15 + 13 + 6 + 11 + 11 + 10 +
	    12 + (int)COUNT(broken) + 1 + 18 + (int)COUNT(rights) + 8 +
	    (root ? 5 : 0) + (int)COUNT(scopes) + 1 +
	    (int)COUNT(whose) + 1 + 3 + 6 + 12 + 2 * (int)COUNT(known) + 6);
	unsetenv("HOME");
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("LEASERUN_BACKEND");
	unsetenv("LEASERUN_OPTIONS");
	umask(022);
	if (mkdtemp(dir) == NULL || chmod(dir, 0755) == -1)
		return 1;
	snprintf(path, sizeof(path), "%s/leaserun.conf", dir);
	read_no_file();

	test_values();
	test_stored();
	test_defaults();
	test_words();
	test_help();
	test_levels();
	test_commands();
	test_options();
	test_hand_on();
	test_taken_options();
	test_known();
	test_habits();
	test_schedule();
	test_order();
	test_places();
	test_keys();
	test_broken();
	test_jobs();
	test_rights();
	test_kinds();
	if (root)
		test_owners();
	test_print();
	test_whose();
	conf_free(&conf);
	unlink(getenv("LEASERUN_CONFIG"));
	if (rmdir(dir) == -1)
		printf("# %s: %s\n", dir, strerror(errno));
	return done();
}
