/*
 * The contract between leaserun and a store of leases.
 *
 * A backend is one struct of functions.  The file backend is part of the
 * program; every other one is a shared object in the module directory, named
 * after its URL scheme (postgres.so serves postgres:// and whatever else is
 * installed under a link to it), that exports exactly one symbol:
 * leaserun_backend.
 *
 * A backend runs in the keeper process only, in one thread.  It may block as
 * long as the deadline it was given, it may be killed or stopped at any
 * moment, and it may crash: the guard ends the job in time whatever it does.
 * It must never
 *   - fork, except for a process that is gone before the call returns,
 *   - install signal handlers or change the signal mask on return,
 *   - write to descriptors 0, 1 and 2, or leave a descriptor of its own
 *     without close-on-exec (the hold descriptor of a grant excepted),
 *   - put a password into a log line or an error text.
 *
 * Times: every *_ns is CLOCK_BOOTTIME in nanoseconds, as host->now() gives it;
 * every *_ms with "unix" in its comment is the store's wall clock, for people
 * to read, and decides nothing on this side.
 */
#ifndef LEASERUN_BACKEND_H
#define LEASERUN_BACKEND_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The promise to whoever builds a module.  The version is raised only when
 * something here changes its meaning; program and module must then be of the
 * same version.  Within a version any module works with any program, older or
 * newer, because there are two kinds of structs and no others:
 *
 * Those that begin with `size' and `version': leaserun_backend, of the module,
 * and leaserun_host, of the program.  New members are added at their end.  The
 * reader goes by `size': what lies beyond it is not there.  The program copies
 * of a backend what both know, the rest is NULL and means what is written at
 * the member; a module asks LEASERUN_HOST_HAS() before it uses a service that
 * version 1 did not begin with.
 *
 * All others, whoever makes them.  Their size and the place of every member
 * stay.  New members are taken from `reserved', where 0 means that nothing is
 * said, as before.  So whoever makes one sets `reserved' to 0, and who reads
 * one ignores it; an output that is filled in member by member was zeroed by
 * the program.  leaserun_option and struct pollfd never change.
 *
 * Enumerations: a result, state or verdict is never added.  A loss may be; one
 * that is unknown is a loss all the same.
 */
#define LEASERUN_BACKEND_VERSION	1

/* Whether the program has a service that is newer than the version. */
#define LEASERUN_HOST_HAS(host, member)					\
	((host)->size >= offsetof(struct leaserun_host, member) +	\
	    sizeof((host)->member))

/* Sizes include the terminating NUL. */
#define LEASERUN_NAME_SIZE	241	/* an encoded name */
#define LEASERUN_LABEL_SIZE	65	/* who runs it, for people: UTF-8 */
#define LEASERUN_OWNER_SIZE	232	/* encoded label ':' 32 hex digits */
#define LEASERUN_HOST_SIZE	65
#define LEASERUN_KEY_SIZE	241	/* a --once key, encoded like a name */
#define LEASERUN_ERROR_SIZE	512

/* The largest token: shells and SQL bigint compare it without surprise. */
#define LEASERUN_TOKEN_MAX	INT64_MAX

/*
 * What every call answers.  "Held", "lost" and "cannot tell" are three
 * different things: a call that does not know says UNAVAILABLE, which is never
 * read as any of the others.  The numbers are part of the contract.
 */
enum leaserun_result {
	LEASERUN_OK = 0,
	LEASERUN_HELD = 1,		/* someone else has it */
	LEASERUN_LOST = 2,		/* the store says: not yours (final) */
	LEASERUN_DONE = 3,		/* the --once key is recorded */
	LEASERUN_INTERRUPTED = 4,	/* host->wait() said so */
	LEASERUN_UNAVAILABLE = 5,	/* no answer, or none that tells */
	LEASERUN_DENIED = 6,		/* authentication, rights */
	LEASERUN_MISCONFIGURED = 7	/* no table, bad option, bad record */
};

/* Why a lease was lost, beside LEASERUN_LOST. */
enum leaserun_loss {
	LEASERUN_LOSS_NONE = 0,
	LEASERUN_LOSS_EXPIRED = 1,	/* it ran out, nobody took it yet */
	LEASERUN_LOSS_TAKEN = 2,	/* another holder has it now */
	LEASERUN_LOSS_DELETED = 3,	/* its row, key or file is gone */
	LEASERUN_LOSS_FORCED = 4	/* freed by revoke --force */
};

/*
 * What a store knows about one name.  Absent strings are empty; so are owner,
 * label and host of a FREE one.  Label and host are text from elsewhere and may
 * be anything: whoever prints them checks them first.
 */
enum leaserun_state {
	LEASERUN_FREE = 0,
	LEASERUN_BUSY = 1,		/* held */
	LEASERUN_HOLDING = 2,		/* ended, kept by --min-hold */
	LEASERUN_REVOKING = 3,		/* held, and asked to end */
	LEASERUN_UNREADABLE = 4		/* list() of all names goes on */
};

struct leaserun_entry {
	char		name[LEASERUN_NAME_SIZE];	/* encoded */
	enum leaserun_state state;
	char		owner[LEASERUN_OWNER_SIZE];	/* the identity */
	char		label[LEASERUN_LABEL_SIZE];
	char		host[LEASERUN_HOST_SIZE];
	int64_t		pid;		/* 0: unknown; for people only */
	uint64_t	token;		/* of the last grant; 0: never one */
	int64_t		acquired_ms;	/* unix; 0: unknown */
	int64_t		renewed_ms;	/* unix; 0: unknown */
	int64_t		expires_ms;	/* unix; 0: does not expire */
	int64_t		held_for_ms;	/* by the store's clock; -1: unknown */
	int64_t		expires_in_ms;	/* by the store's clock; -1: never */
	int64_t		waiting;	/* waiters; -1: the store cannot tell */
	bool		unclean;	/* nobody holds it, and the last holder
					 * did not release */
	bool		has_end;	/* how the last finished run ended: */
	int		end_status;	/* exit status, 128+N for a signal */
	int64_t		end_ms;		/* unix */
	int64_t		ran_ms;
	bool		orphaned;	/* held, but only by processes of a job
					 * whose leaserun is gone: nobody is
					 * there to be asked */
	uint64_t	reserved[32];
};

/* What the keeper wants when it acquires. */
struct leaserun_request {
	const char	*name;		/* encoded */
	const char	*owner;		/* fresh for every acquisition */
	const char	*label;
	const char	*host;
	int64_t		pid;
	int64_t		ttl_ns;		/* asked; whole milliseconds */
	int64_t		min_hold_ns;	/* 0: none; kept from the grant on */
	const char	*once_key;	/* encoded; NULL: none */
	int64_t		once_period_ns;	/* 0: the key stands for itself; else
					 * the keys of this period sort as
					 * their times do */
	bool		wait;		/* false: answer HELD at once */
	int64_t		answer_ns;	/* a server that has not answered one
					 * request for so long is UNAVAILABLE,
					 * however late the deadline is */
	uint64_t	reserved[8];
};

/* What the store granted. */
struct leaserun_grant {
	uint64_t	token;		/* > every token granted before */
	int64_t		sent_ns;	/* taken before the granting request */
	int64_t		ttl_ns;		/* granted; 0: does not expire */
	int		hold_fd;	/* -1, or a descriptor that keeps the
					 * lease while a process has it open:
					 * owned by the backend, duplicated to
					 * the guard and the job */
	bool		took_over;	/* the last holder did not release */
	struct leaserun_entry previous;	/* who that was, if took_over */
	uint64_t	reserved[8];
};

/* What identifies a lease that we hold. */
struct leaserun_lease {
	const char	*name;		/* encoded */
	const char	*owner;
	uint64_t	token;
	int64_t		ttl_ns;		/* asked */
	uint64_t	reserved[8];
};

struct leaserun_renewal {
	int64_t		sent_ns;	/* taken before the request */
	int64_t		ttl_ns;		/* granted; 0: does not expire */
	bool		revoke;		/* someone asked us to end */
	enum leaserun_loss loss;	/* with LEASERUN_LOST */
	uint64_t	reserved[8];
};

/* How the run ended, for the record. */
struct leaserun_end {
	int		status;		/* exit status, 128+N for a signal */
	int64_t		ran_ns;
	bool		ran;		/* false: the command never started */
	const char	*once_key;	/* record it in the same step; NULL */
	int64_t		once_period_ns;
	int64_t		once_keep_ns;	/* records that are older may go */
	uint64_t	reserved[8];
};

/*
 * Services of the program.  The pointer stays valid until close().
 */
struct leaserun_host {
	uint32_t	size;		/* of this struct */
	uint32_t	version;	/* LEASERUN_BACKEND_VERSION */
	void		*keeper;	/* not for backends */

	/* The one clock. */
	int64_t	(*now)(void);

	/*
	 * Waits until one of n (at most 14, or none) descriptors is ready, the
	 * absolute time deadline_ns is reached (INT64_MAX: never), or the
	 * keeper has something more important to do.  OK: revents are filled
	 * in, all zero when the deadline came.  INTERRUPTED: clean up and
	 * return that from the call; the keeper repeats the call if it still
	 * wants it.  Every wait of a backend goes through here.
	 */
	enum leaserun_result (*wait)(const struct leaserun_host *,
	    struct pollfd *, unsigned int n, int64_t deadline_ns);

	/*
	 * acquire() says who holds the name each time it has asked the store,
	 * before it answers HELD or waits.  False: do not wait, return HELD.
	 */
	bool	(*holder)(const struct leaserun_host *,
	    const struct leaserun_entry *);

	/* Debug lines only; results and error texts are how a backend talks. */
	void	(*debug)(const struct leaserun_host *, const char *fmt, ...)
	    __attribute__((format(printf, 2, 3)));

	/*
	 * Sets the text that goes with a result other than OK: what failed,
	 * then what to do next; lower case, one line, no full stop.
	 */
	void	(*error)(const struct leaserun_host *, const char *fmt, ...)
	    __attribute__((format(printf, 2, 3)));

	/* A random number below limit, for jitter. */
	uint64_t (*random)(uint64_t limit);
};

/* One option given with -o; both strings live as long as the backend. */
struct leaserun_option {
	const char	*key;
	const char	*value;
};

/* Where the store is. */
struct leaserun_target {
	const char	*url;		/* whole, with the scheme; may hold a
					 * password */
	const struct leaserun_option *options;
	size_t		noptions;
	uint64_t	reserved[8];
};

/*
 * One line of `init' or `doctor': a check, how it went, what to do.  Without
 * `what' the text is printed as it is, for someone to copy: SQL.
 */
enum leaserun_verdict {
	LEASERUN_GOOD = 0,
	LEASERUN_NOTE = 1,
	LEASERUN_WARN = 2,
	LEASERUN_BAD = 3
};

typedef void leaserun_entry_fn(void *arg, const struct leaserun_entry *);
typedef void leaserun_line_fn(void *arg, enum leaserun_verdict,
    const char *what, const char *text);

struct leaserun_revoke {
	const char	*name;		/* encoded */
	uint64_t	token;		/* 0: whoever holds it */
	bool		force;		/* free it at once */
	uint64_t	reserved[8];
};

struct leaserun_init {
	bool		print;		/* change nothing, say what would be */
	uint64_t	raise_token;	/* 0, or: no token at or below this is
					 * granted from now on; at
					 * LEASERUN_TOKEN_MAX MISCONFIGURED */
	uint64_t	reserved[8];
};

/*
 * The functions.  `self' is what open() made.  Every call that may block takes
 * an absolute deadline_ns and returns by then; one that cannot (a name lookup
 * inside a library) is cut short by the keeper, which then exits.
 *
 * All but open() may answer INTERRUPTED, UNAVAILABLE, DENIED and
 * MISCONFIGURED; other answers are listed.  Outputs are written on OK only,
 * unless said otherwise.  All up to doctor() are required.
 */
struct leaserun_backend {
	uint32_t	size;		/* of this struct */
	uint32_t	version;	/* LEASERUN_BACKEND_VERSION */
	const char	*name;		/* "file", "postgres"... */

	/*
	 * Checks URL and options, allocates *self.  No network, no waiting, no
	 * change to the store.  *endpoints: how many servers one attempt may
	 * have to try (at least 1).  MISCONFIGURED, DENIED.  On anything but
	 * OK nothing is left allocated.
	 */
	enum leaserun_result (*open)(const struct leaserun_host *,
	    const struct leaserun_target *, void **self,
	    unsigned int *endpoints);

	/*
	 * Frees self.  Never blocks: no polite goodbye.  Asks the store for
	 * nothing; a lease that lives by a descriptor may end with it.
	 */
	void	(*close)(void *self);

	/*
	 * Takes the lease: OK, HELD, DONE.  One atomic step at the store
	 * checks that the name is free, issues the token and records the
	 * holder; a live lease of our own owner id is extended and returned as
	 * the grant, with its token and with sent_ns of this call.  With
	 * request->wait it waits until the deadline for the holder to go; HELD
	 * when it did not.
	 * UNAVAILABLE, INTERRUPTED: it may or may not have been granted; the
	 * keeper repeats the call with the same owner, or calls abandon().
	 * The once key is looked up while the lease is held (and may be looked
	 * up before, where it is final); DONE leaves nothing held.  With a
	 * period a key that is later counts, too, and MISCONFIGURED is a clock
	 * here that differs from the store's by more than a tenth of it.
	 */
	enum leaserun_result (*acquire)(void *self,
	    const struct leaserun_request *, int64_t deadline_ns,
	    struct leaserun_grant *);

	/*
	 * Gives up an acquisition of unknown outcome, by owner id alone.  OK
	 * also when there was nothing.
	 */
	enum leaserun_result (*abandon)(void *self, const char *name,
	    const char *owner, int64_t deadline_ns);

	/*
	 * Confirms that the lease is still ours and extends it.  Conditional on
	 * owner id and token; never creates or takes a lease.  OK, LOST
	 * (renewal->loss is set).  One attempt, all of it by the deadline.
	 */
	enum leaserun_result (*renew)(void *self, const struct leaserun_lease *,
	    int64_t deadline_ns, struct leaserun_renewal *);

	/*
	 * Gives the lease back, conditional on owner id and token, and records
	 * the end and the once key in the same atomic step.  OK, LOST.
	 * Repeating it after a lost answer is OK, as far as the store can tell.
	 * A command that never ran leaves no min-hold and the last end as it
	 * was.
	 */
	enum leaserun_result (*release)(void *self,
	    const struct leaserun_lease *, const struct leaserun_end *,
	    int64_t deadline_ns);

	/*
	 * Calls fn for the given name (known or not: an unknown one is FREE
	 * with token 0), or for every name with name == NULL.  Takes nothing,
	 * changes nothing.
	 */
	enum leaserun_result (*list)(void *self, const char *name,
	    int64_t deadline_ns, leaserun_entry_fn *fn, void *arg);

	/*
	 * Asks the holder to end, or with force frees the name, a min-hold
	 * included.  OK: asked, freed, or there was nobody to ask (FREE,
	 * HOLDING).  HELD: held, or kept by a min-hold, under another token.
	 * *entry is written on both: who held it when the call came; REVOKING
	 * once it is asked.
	 * A name that nobody knows stays unknown.
	 */
	enum leaserun_result (*revoke)(void *self,
	    const struct leaserun_revoke *, int64_t deadline_ns,
	    struct leaserun_entry *entry);

	/*
	 * Prepares the store; reports each step with fn.  Repeatable.  What
	 * makes sure of raise_token may go on for seconds after the deadline.
	 */
	enum leaserun_result (*init)(void *self, const struct leaserun_init *,
	    int64_t deadline_ns, leaserun_line_fn *fn, void *arg);

	/* Looks at everything that could be wrong; reports with fn. */
	enum leaserun_result (*doctor)(void *self, int64_t deadline_ns,
	    leaserun_line_fn *fn, void *arg);

	/*
	 * --once records of a name, newest first: entry fields owner, label,
	 * host, token, end_ms and ran_ms; key is passed in entry->name.  NULL
	 * in a backend that keeps no such records: a request with a once key
	 * is then refused before it is made.
	 */
	enum leaserun_result (*list_once)(void *self, const char *name,
	    int64_t deadline_ns, leaserun_entry_fn *fn, void *arg);
};

/* What a module exports. */
extern const struct leaserun_backend leaserun_backend;

#endif
