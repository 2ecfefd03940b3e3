/*
 * check, revoke, init and doctor.  Must never take a lease, and never trust
 * what a store says more than to print it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "holder.h"
#include "log.h"
#include "query.h"
#include "timeutil.h"
#include "util.h"

#define LINE_SIZE	1024
#define REVOKE_POLL	(100 * NS_PER_MS)
#define REVOKE_LOOK	NS_PER_S	/* the last look, at the limit */

/* --- check --- */

static void
keep_entry(void *arg, const struct leaserun_entry *entry)
{
	*(struct leaserun_entry *)arg = *entry;
}

static int
wanted_token(struct ask *q, const char *command, bool required)
{
	const char *text = getenv("LEASERUN_FENCE_TOKEN");

	if (q->conf.token_given || !required)
		return 0;
	if (text == NULL) {
		log_error("%s: no token: give --token, or run it inside a job "
		    "(LEASERUN_FENCE_TOKEN)", command);
		return EXIT_USAGE;
	}
	if (number_parse(text, LEASERUN_TOKEN_MAX, &q->conf.token) == -1) {
		log_error("%s: LEASERUN_FENCE_TOKEN '%s' is not a token",
		    command, text);
		return EXIT_USAGE;
	}
	return 0;
}

/* The token came from a job that holds something else. */
static bool
is_inner(const struct ask *q)
{
	const char *name = getenv("LEASERUN_NAME");

	return !q->conf.token_given && name != NULL &&
	    strcmp(name, q->names[0]) != 0;
}

/* Why the token is not the holder's. */
static void
explain(const struct leaserun_entry *entry, char *text, size_t size)
{
	if (entry->token == 0 && entry->state == LEASERUN_FREE)
		snprintf(text, size, "the store knows no lease of this name");
	else if (entry->state == LEASERUN_FREE)
		snprintf(text, size, "free, last token %" PRIu64,
		    entry->token);
	else if (entry->state == LEASERUN_HOLDING)
		snprintf(text, size, "ended, token %" PRIu64 " is kept by "
		    "--min-hold", entry->token);
	else if (!holder_is_known(entry))
		snprintf(text, size, "held by somebody who is not recorded "
		    "yet");
	else
		snprintf(text, size, "held with %" PRIu64, entry->token);
}

static int
check(struct ask *q, const char *name)
{
	struct leaserun_entry entry = { .state = LEASERUN_FREE };
	enum leaserun_result result;
	char found[64];
	int wrong;

	if ((wrong = wanted_token(q, "check", true)) != 0)
		return wrong;
	result = ask_list(q, name, false, keep_entry, &entry);
	if (result != LEASERUN_OK)
		return ask_failed(q, result);
	/* Of one that is not recorded yet the token is the last one's. */
	if ((entry.state == LEASERUN_BUSY ||
	    entry.state == LEASERUN_REVOKING) && holder_is_known(&entry) &&
	    entry.token == q->conf.token)
		return EXIT_OK;
	explain(&entry, found, sizeof(found));
	log_warning("'%s': token %" PRIu64 " is not the holder's (%s)%s",
	    q->names[0], q->conf.token, found, is_inner(q) ?
	    "; LEASERUN_FENCE_TOKEN is of another lease, give --token" : "");
	return EXIT_HELD;
}

int
cmd_check(int argc, char *argv[])
{
	return ask(CONF_CHECK, argc, argv, 1, 1, check);
}

/* --- revoke --- */

/* Until the holder that was asked is gone, whoever comes after it. */
static int
wait_for_release(struct ask *q, const char *name, uint64_t token)
{
	int64_t limit = time_add(now_ns(), q->conf.wait), deadline;
	struct leaserun_entry entry = { .state = LEASERUN_FREE };
	enum leaserun_result result;
	bool is_heard = false;

	for (;;) {
		deadline = time_earlier(ask_deadline(q),
		    time_later(limit, time_add(now_ns(), REVOKE_LOOK)));
		result = q->plugin.ops->list(q->plugin.self, name, deadline,
		    keep_entry, &entry);
		is_heard = is_heard || result == LEASERUN_OK;
		if (result != LEASERUN_OK && (result != LEASERUN_UNAVAILABLE ||
		    (now_ns() >= limit && !is_heard)))
			return ask_failed(q, result);
		if (result == LEASERUN_OK && (entry.token != token ||
		    entry.state == LEASERUN_FREE ||
		    entry.state == LEASERUN_HOLDING))
			return EXIT_OK;
		if (now_ns() >= limit)
			break;
		ask_wait(&q->plugin.host, NULL, 0, time_add(now_ns(),
		    REVOKE_POLL));
	}
	log_error("'%s' is still held with token %" PRIu64 "; its holder ends "
	    "with its next heartbeat, see 'leaserun status'", q->names[0],
	    token);
	return EXIT_HELD;
}

/* A name that was misspelled is not held either. */
static int
not_held(struct ask *q, const char *name, bool is_kept)
{
	struct leaserun_entry entry = { .state = LEASERUN_FREE };
	char *store = ask_store(q);

	printf("'%s' is not held in %s%s\n", q->names[0], store,
	    is_kept ? ", only kept by --min-hold; --force ends that" : "");
	free(store);
	/* Where that cannot be told it is not said. */
	if (!is_kept && ask_list(q, name, false, keep_entry, &entry) ==
	    LEASERUN_OK &&
	    entry.state == LEASERUN_FREE && entry.token == 0)
		printf("a lease of that name was never granted there; see "
		    "'leaserun status'\n");
	return EXIT_OK;
}

/* By somebody of whom the token tells. */
static bool
is_holder(const struct leaserun_entry *entry)
{
	return (entry->state == LEASERUN_BUSY ||
	    entry->state == LEASERUN_REVOKING) && holder_is_known(entry);
}

/*
 * The first request may have been done without an answer, and the name be
 * somebody else's by now, who is not to end for it: what was seen before it is
 * who is meant.
 */
static enum leaserun_result
send_again(struct ask *q, struct leaserun_revoke *request,
    const struct leaserun_entry *seen, int64_t deadline,
    struct leaserun_entry *entry)
{
	bool is_meant = request->token == 0 || request->token == seen->token;
	bool is_ours = is_meant && (is_holder(seen) ||
	    (seen->state == LEASERUN_HOLDING && request->force));
	enum leaserun_result result;

	if (seen->state == LEASERUN_FREE || holder_is_known(seen))
		request->token = is_meant ? seen->token : request->token;
	result = q->plugin.ops->revoke(q->plugin.self, request, deadline,
	    entry);
	if (is_ours && (result == LEASERUN_HELD || (result == LEASERUN_OK &&
	    entry->state == LEASERUN_FREE))) {
		*entry = *seen;
		if (!request->force)
			entry->state = LEASERUN_REVOKING;
		return LEASERUN_OK;
	}
	/* Whether the one who came meanwhile was asked, nobody knows. */
	if (result == LEASERUN_HELD && !q->conf.token_given)
		return LEASERUN_UNAVAILABLE;
	return result;
}

static enum leaserun_result
send_revoke(struct ask *q, const char *name, struct leaserun_entry *entry)
{
	struct leaserun_revoke request = { .name = name,
	    .token = q->conf.token, .force = q->conf.force };
	struct leaserun_entry seen = { .state = LEASERUN_FREE };
	int64_t deadline = ask_deadline(q);
	enum leaserun_result result;

	result = q->plugin.ops->list(q->plugin.self, name, deadline,
	    keep_entry, &seen);
	if (result == LEASERUN_UNAVAILABLE &&
	    !ask_again(q, result, deadline))
		return result;
	result = q->plugin.ops->revoke(q->plugin.self, &request, deadline,
	    entry);
	if (seen.token == 0 || !ask_again(q, result, deadline))
		return result;
	return send_again(q, &request, &seen, deadline, entry);
}

static int
ask_to_end(struct ask *q, const char *name)
{
	struct leaserun_entry entry = { .state = LEASERUN_FREE };
	enum leaserun_result result;

	result = send_revoke(q, name, &entry);
	if (result == LEASERUN_HELD) {
		log_error("'%s' is held with token %" PRIu64 ", not %" PRIu64
		    "; nothing was done", q->names[0], entry.token,
		    q->conf.token);
		return EXIT_HELD;
	}
	if (result != LEASERUN_OK)
		return ask_failed(q, result);
	if (entry.state == LEASERUN_FREE ||
	    (entry.state == LEASERUN_HOLDING && !q->conf.force))
		return not_held(q, name, entry.state == LEASERUN_HOLDING);
	if (entry.state == LEASERUN_HOLDING) {
		printf("'%s': the --min-hold of token %" PRIu64 " is ended\n",
		    q->names[0], entry.token);
		return EXIT_OK;
	}
	if (q->conf.force) {
		printf("'%s' is freed; two may run until the holder's next "
		    "heartbeat\n", q->names[0]);
		return EXIT_OK;
	}
	printf("'%s': asked the holder of token %" PRIu64 " to end\n",
	    q->names[0], entry.token);
	if (!q->conf.wait_given)
		return EXIT_OK;
	fflush(stdout);
	return wait_for_release(q, name, entry.token);
}

int
cmd_revoke(int argc, char *argv[])
{
	return ask(CONF_REVOKE, argc, argv, 1, 1, ask_to_end);
}

/* --- init and doctor --- */

static void
print_line(void *arg, enum leaserun_verdict verdict, const char *what,
    const char *text)
{
	static const char *const words[] = { "ok", "note", "warning", "bad" };
	enum leaserun_verdict *worst = arg;
	char line[LINE_SIZE];

	if ((size_t)verdict >= sizeof(words) / sizeof(words[0]))
		verdict = LEASERUN_BAD;		/* no such thing */
	if (what == NULL)	/* to be copied as it is */
		printf("%s\n", text);
	else {
		/* It may have the name of a file, or what a server says. */
		text_copy(line, sizeof(line), text);
		text_escape(line);
		printf("%-8s %s: %s\n", words[verdict], what, line);
	}
	if (verdict > *worst)
		*worst = verdict;
}

static int
init(struct ask *q, const char *name)
{
	struct leaserun_init request = { .print = q->conf.print,
	    .raise_token = q->conf.raise_token };
	enum leaserun_verdict worst = LEASERUN_GOOD;
	enum leaserun_result result;

	(void)name;
	result = q->plugin.ops->init(q->plugin.self, &request,
	    ask_deadline(q), print_line, &worst);
	return result == LEASERUN_OK ? EXIT_OK : ask_failed(q, result);
}

int
cmd_init(int argc, char *argv[])
{
	return ask(CONF_INIT, argc, argv, 0, 0, init);
}

static int
doctor(struct ask *q, const char *name)
{
	enum leaserun_verdict worst = LEASERUN_GOOD;
	enum leaserun_result result;

	(void)name;
	result = q->plugin.ops->doctor(q->plugin.self, ask_deadline(q),
	    print_line, &worst);
	if (result != LEASERUN_OK)
		return ask_failed(q, result);
	return worst == LEASERUN_BAD ? EXIT_CONFIG : EXIT_OK;
}

int
cmd_doctor(int argc, char *argv[])
{
	return ask(CONF_DOCTOR, argc, argv, 0, 0, doctor);
}
