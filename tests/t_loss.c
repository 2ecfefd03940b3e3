/*
 * Tests of src/loss.c and of the pauses in src/account.c: which reason is told
 * for what a store says, and what counts as a pause of our own.
 */
#include <string.h>

#include "../src/account.h"
#include "../src/loss.h"
#include "../src/timeutil.h"
#include "tap.h"

#define TERM_AT	(100 * NS_PER_S)

static const struct {
	const char	*what;
	enum leaserun_loss loss;
	bool		 is_early, is_paused;
	enum loss_reason reason;
} cases[] = {
	{ "expired in time", LEASERUN_LOSS_EXPIRED, false, false,
	    LOSS_EXPIRED },
	{ "expired too early", LEASERUN_LOSS_EXPIRED, true, false,
	    LOSS_CLOCK },
	{ "expired after a pause", LEASERUN_LOSS_EXPIRED, false, true,
	    LOSS_OWN_PAUSE },
	{ "taken early", LEASERUN_LOSS_TAKEN, true, false, LOSS_TAKEN_OVER },
	{ "taken late", LEASERUN_LOSS_TAKEN, false, false, LOSS_TAKEN_OVER },
	{ "taken after a pause", LEASERUN_LOSS_TAKEN, false, true,
	    LOSS_OWN_PAUSE },
	{ "deleted", LEASERUN_LOSS_DELETED, true, false, LOSS_DELETED },
	{ "deleted after a pause", LEASERUN_LOSS_DELETED, false, true,
	    LOSS_DELETED },
	{ "forced", LEASERUN_LOSS_FORCED, true, false, LOSS_FORCED },
	{ "forced after a pause", LEASERUN_LOSS_FORCED, false, true,
	    LOSS_FORCED },
	{ "no reason", LEASERUN_LOSS_NONE, true, false, LOSS_UNKNOWN },
	{ "a reason of later", (enum leaserun_loss)99, true, false,
	    LOSS_UNKNOWN },
};

#define NCASES	(sizeof(cases) / sizeof(cases[0]))

static bool
are_distinct(void)
{
	enum loss_reason a, b;

	for (a = 0; a < LOSS_REASONS; a++) {
		for (b = 0; b < a; b++) {
			if (strcmp(loss_name(a), loss_name(b)) == 0 ||
			    strcmp(loss_text(a), loss_text(b)) == 0)
				return false;
		}
	}
	return true;
}

/* To sleep until `at', and to wake at `now'. */
static int64_t
pause_of(int64_t at, int64_t now)
{
	struct report report = { .socket = -1 };
	struct account account;

	account_init(&account, &report);
	account_confirm(&account, NS_PER_S, TERM_AT);
	account_woke(&account, at, now, TERM_AT);
	return account_pause(&account);
}

static bool
is_forgotten(void)
{
	struct report report = { .socket = -1 };
	struct account account;

	account_init(&account, &report);
	account_woke(&account, NS_PER_S, TERM_AT + NS_PER_S, TERM_AT);
	account_confirm(&account, TERM_AT, TERM_AT);
	return account_pause(&account) == 0;
}

int
main(void)
{
	size_t i;

	plan((int)NCASES + 7);
	for (i = 0; i < NCASES; i++)
		ok(loss_by_store(cases[i].loss, cases[i].is_early,
		    cases[i].is_paused) == cases[i].reason, "%s",
		    cases[i].what);
	ok(are_distinct(), "names and texts are distinct");
	ok(pause_of(TERM_AT - NS_PER_S, TERM_AT + NS_PER_S) == 2 * NS_PER_S,
	    "a sleep that lasted past the time is a pause");
	ok(pause_of(TERM_AT - 10 * NS_PER_S, TERM_AT - NS_PER_S) == 0,
	    "one that was over in time is none");
	ok(pause_of(TERM_AT, TERM_AT + NS_PER_S / 4) == 0,
	    "a busy machine is none");
	ok(pause_of(TIME_NEVER, TERM_AT + NS_PER_S) == 0,
	    "a sleep without an end is none");
	ok(pause_of(TERM_AT + 2 * NS_PER_S, TERM_AT + NS_PER_S) == 0,
	    "being woken before the end is none");
	ok(is_forgotten(), "a renewal makes up for it");
	return done();
}
