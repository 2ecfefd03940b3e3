/*
 * The table of keys, and --help out of it.  Must never hold what a value means:
 * that is in confvalue.c.
 */
#include <stdio.h>
#include <string.h>

#include "confkeys.h"
#include "timeutil.h"

#define STORE	(CONF_RUN | CONF_STATUS | CONF_CHECK | CONF_REVOKE | \
		CONF_INIT | CONF_DOCTOR)
#define ALL	(STORE | CONF_FENCE)
#define NOT_RUN	(ALL & ~CONF_RUN)
#define AT(f)	offsetof(struct conf, f)
#define MS	NS_PER_MS
#define FOREVER	DURATION_MAX
#define TOKENS	LEASERUN_TOKEN_MAX

/* The order is that of --help.  Help texts are at most 48 bytes long. */
const struct key conf_keys[] = {
	{ "backend", 'b', "URL", STORE, true, KEY_BACKEND, AT(backend),
	    0, 0, "store: file:, postgres://, etcd:// (file:)" },
	{ "option", 'o', "KEY=VALUE", STORE, true, KEY_OPTION, AT(options),
	    0, 0, "an option of the backend, repeatable" },
	{ "ttl", 't', "D", CONF_RUN, true, KEY_DURATION, AT(ttl),
	    2 * NS_PER_S, FOREVER,
	    "how long a grant or renewal lasts (60s)" },
	{ "renew-every", 'r', "D", CONF_RUN, true, KEY_DURATION,
	    AT(renew_every), MS, FOREVER, "heartbeat (a third of the ttl)" },
	{ "grace", 'g', "D", CONF_RUN, true, KEY_DURATION, AT(grace),
	    0, FOREVER, "from SIGTERM to SIGKILL (10s, at most ttl/6)" },
	{ "wait", 'w', "D", CONF_RUN, true, KEY_WAIT, AT(wait),
	    0, FOREVER, "wait for the lease at most D, or inf (0)" },
	{ "connect-timeout", 0, "D", STORE, true, KEY_DURATION,
	    AT(connect_timeout), MS, FOREVER,
	    "how long a store is tried that fails (10s)" },
	{ "conflict-exit-code", 'E', "N", CONF_RUN, true, KEY_INT,
	    AT(conflict_exit_code), 0, 255, "status when held elsewhere (75)" },
	{ "lost-exit-code", 0, "N", CONF_RUN, true, KEY_INT,
	    AT(lost_exit_code), 0, 255, "status when the lease was lost (79)" },
	{ "once", 0, "KEY", CONF_RUN, true, KEY_ONCE, AT(once),
	    0, 0, "run once for this key, if it succeeds" },
	{ "once-per", 0, "D", CONF_RUN, true, KEY_DURATION, AT(once_per),
	    MS, FOREVER, "run once in each period, if it succeeds" },
	{ "min-hold", 0, "D", CONF_RUN, true, KEY_DURATION, AT(min_hold),
	    0, FOREVER, "keep the lease at least this long (0)" },
	{ "max-run", 0, "D", CONF_RUN, true, KEY_LIMIT, AT(max_run),
	    MS, FOREVER, "end a job that runs longer, status 124 (inf)" },
	{ "leftovers", 0, "HOW", CONF_RUN, true, KEY_LEFTOVERS,
	    AT(leftovers), 0, 0,
	    "what outlives it: wait, kill or leave (wait)" },
	{ "token-env", 0, "VAR", CONF_RUN, true, KEY_VARIABLE, AT(token_env),
	    0, 0, "also export the token under this name" },
	{ "owner", 0, "TEXT", CONF_RUN, true, KEY_OWNER, AT(owner),
	    0, 0, "label shown to others (the host name)" },
	{ "complain-after", 0, "D", CONF_RUN, true, KEY_LIMIT,
	    AT(complain_after), 0, FOREVER,
	    "warn when blocked longer by one holder (inf)" },
	{ "events", 0, "FILE", CONF_RUN, true, KEY_TEXT, AT(events),
	    0, 0, "append events as JSON lines" },
	{ "metrics", 0, "FILE", CONF_RUN, true, KEY_TEXT, AT(metrics),
	    0, 0, "keep metrics in a Prometheus textfile" },
	{ "notify", 0, "HOW", CONF_RUN, true, KEY_NOTIFY, AT(notify),
	    0, 0, "tell systemd: no, ready or status (no)" },

	{ "json", 0, NULL, CONF_STATUS, false, KEY_FLAG, AT(json),
	    0, 0, "print JSON" },
	{ "once", 0, NULL, CONF_STATUS, false, KEY_FLAG, AT(list_once),
	    0, 0, "list which keys are done" },
	{ "token", 0, "N", CONF_CHECK | CONF_FENCE, false, KEY_TOKEN,
	    AT(token), 1, TOKENS, "the token ($LEASERUN_FENCE_TOKEN)" },
	{ "token", 0, "N", CONF_REVOKE, false, KEY_TOKEN, AT(token),
	    1, TOKENS, "only when held under this token" },
	{ "wait", 'w', "D", CONF_REVOKE, false, KEY_WAIT, AT(wait),
	    0, FOREVER, "wait for the release at most D, or inf" },
	{ "wait", 'w', "D", CONF_FENCE, false, KEY_WAIT, AT(wait),
	    0, FOREVER, "wait for its turn at most D, or inf (10s)" },
	{ "force", 0, NULL, CONF_REVOKE, false, KEY_FLAG, AT(force),
	    0, 0, "free it at once: two may run for a while" },
	{ "print", 0, NULL, CONF_INIT, false, KEY_FLAG, AT(print),
	    0, 0, "change nothing, show what would be done" },
	{ "raise-token", 0, "N", CONF_INIT, false, KEY_NUMBER,
	    AT(raise_token), 1, TOKENS,
	    "grant no token at or below N from now on" },

	{ "module-dir", 0, "DIR", STORE, true, KEY_TEXT, AT(module_dir),
	    0, 0, "where backend modules are looked for" },
	{ "config", 0, "FILE", STORE, false, KEY_TEXT, AT(config),
	    0, 0, "read this file instead of the usual ones" },
	{ "log", 0, "TARGET", ALL, true, KEY_LOG, AT(log),
	    0, 0, "stderr or syslog (stderr)" },
	{ "verbose", 'v', NULL, ALL, true, KEY_VERBOSE, AT(log_level),
	    0, 2, "say more; twice for debugging" },
	{ "quiet", 'q', NULL, ALL, true, KEY_QUIET, AT(log_level),
	    0, 0, "errors only" },
	{ "help", 'h', NULL, ALL, false, KEY_FLAG, AT(help),
	    0, 0, "print this" },
	{ NULL, 0, NULL, 0, false, KEY_TEXT, 0, 0, 0, NULL }
};

_Static_assert(sizeof(conf_keys) / sizeof(conf_keys[0]) <= KEYS_MAX,
    "KEYS_MAX");

const struct key *
key_of_command(enum conf_scope scope, const char *name, size_t len)
{
	const struct key *key;

	for (key = conf_keys; key->name != NULL; key++) {
		if ((key->scope & scope) != 0 &&
		    strncmp(key->name, name, len) == 0 &&
		    key->name[len] == '\0')
			return key;
	}
	return NULL;
}

const struct key *
key_of_file(const char *name)
{
	const struct key *key;

	for (key = conf_keys; key->name != NULL; key++) {
		if (key->in_file && strcmp(key->name, name) == 0)
			return key;
	}
	return NULL;
}

void
conf_print_options(enum conf_scope scope)
{
	const struct key *key;
	int width;

	for (key = conf_keys; key->name != NULL; key++) {
		if ((key->scope & scope) == 0)
			continue;
		if (key->letter != 0)
			printf("  -%c, ", key->letter);
		else
			printf("      ");
		width = printf("--%s%s%s", key->name,
		    key->arg == NULL ? "" : " ",
		    key->arg == NULL ? "" : key->arg);
		printf("%*s%s\n", width < 24 ? 24 - width : 1, "", key->help);
	}
}
