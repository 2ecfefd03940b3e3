/*
 * The protocol of leaserun, for spin(1): that no two jobs of one name are alive
 * at once, that tokens increase, and that someone gets the lease again.
 *
 * What is modelled
 *   A run: keeper, guard, and a job of one command and one descendant, which
 *   outlives it, is forked at any moment, and heeds SIGTERM or not.  The
 *   deadline page.  The link: what was sent stays in it while the reader is
 *   frozen, with the end of file behind it.  The store.  A request may be late
 *   by any time, so that it comes when it was given up or the run is over; it
 *   may be lost, or its answer alone.  A keeper or a guard may be killed,
 *   frozen and thawed between any two of its steps.  A guard that is killed
 *   closes the link first; only then comes the zombie whose orphans are the
 *   keeper's.
 *   A contender: someone else's run, which asks again and again.  It is the
 *   second run with its inside left out: its job is alive within its lease
 *   only, which is what `covered' proves of the first.
 *   Time is in ticks, and a deadline is what is left of it.  The host counts
 *   every tick; the store's clock may be ahead of it or behind by one tick in
 *   a lease, the rate error of both together that the margin allows for.  Who
 *   is not frozen may be a tick late at what must be in time, and is not
 *   overtaken by the clock in anything else.
 *   The steps are those of keeper.c, job.c, guard.c, store.c and giveback.c,
 *   by the names that they have there.
 *
 * What is not
 *   Keeper and guard both frozen or dead: the promise is for any one fault at
 *   a time.  -DBOTH shows what happens then.  There are FAULTS in all.
 *   A library that blocks counts as a frozen keeper (the handlers of signals.c
 *   are left out), a stopped job as one that does nothing, a store that is
 *   down as one that loses messages.  The store drops nothing that it granted.
 *   --once, --min-hold, --max-run, --leftovers, revoke, and processes that may
 *   not be killed.  The file backend, whose lease is a lock.
 *   Of requests that were given up, one of each kind is on its way.  There are
 *   GRANTS of the lease in all.
 *
 * Mutations, each of which must break a claim
 *   -DFROM_REPLY		the deadline counts from the answer
 *   -DSTALE_DEADLINE	a thawed guard acts on what it read before
 *   -DSTALE_START		it starts a job without a look at the page
 *   -DNO_GUARD_WAIT	end of file is taken for the end of the guard
 *   -DEARLY_RELEASE	the end of the command is taken for that of the job
 *   -DRENEWAL_INSERTS	a renewal makes a lease that is not there
 *   -DNO_MARGIN		the job is killed at the deadline, not before it
 *   -DNO_CHECK		the keeper does not look after a frozen guard
 *   -DLINGER		nor for a while after one has begun to kill
 *   -DNO_EXPIRY		the store keeps a lease that nobody renews
 *   -DBOTH			keeper and guard may be frozen or dead at once
 *
 * Claims are assertions, see below.  -DCOVERED adds the one that the job is
 * within its lease.  -DLIVENESS adds "someone gets the lease
 * again": counted are ticks in which nothing goes wrong, no job is alive and
 * the contender waits.  It rests on time going on, which is that there is no
 * deadlock and no cycle without a tick (-DNP).
 */

#ifndef FAULTS
#define FAULTS		2
#endif
#ifndef GRANTS
#define GRANTS		3
#endif

/* 2 x RENEW_EVERY + GRACE + MARGIN <= TTL */
#define TTL		7
#define RENEW_EVERY	1
#define GRACE		1
#ifdef NO_MARGIN
#define MARGIN		0
#else
#define MARGIN		4
#endif
#define LATE		1	/* who is not frozen, at most */
#define PATIENCE	1	/* of the keeper, after KILL_AT */
#define ATTEMPT		2	/* of one call to the store, at most */
/* With so much left of the lease: */
#define KILL_AT		MARGIN
#define TERM_AT		(MARGIN + GRACE)
#define CHECK_AT	LESS(MARGIN, PATIENCE)
/* The lease runs out, at a slow clock, and the contender asks once a tick. */
#define AGAIN		(TTL + 1)

#define MIN(a, b)	((a) < (b) -> (a) : (b))
#define LESS(a, b)	((a) > (b) -> (a) - (b) : 0)

mtype:keeper_state = { WAITS, GRANTED, STARTS, HOLDS, TAKES_OVER, RELEASES,
	LEFT }
mtype:guard_state = { WAITING, STARTING, RUNNING, ENDING, KILLING, DONE,
	DYING, ZOMBIE }
mtype:call_kind = { NONE, ACQUIRE, RENEW, RELEASE }
mtype:call_place = { NOWHERE, TO_STORE, TO_KEEPER, VANISHED }
mtype:result = { OK, HELD, LOST }

/* The store; the lease is nobody's once nothing is left of it. */
#define NOBODY		0
#define US		1
#define CONTENDER	2
byte holder = NOBODY;
byte left;			/* ticks by its own clock */
byte lease_token;
byte highest;			/* token that was ever granted */
bool odd;			/* its clock was ahead or behind already */

/* The page. */
byte deadline;			/* ticks left */

/* The link to the guard; the other direction is the guard's state. */
bool start;
bool end_now;

/* The keeper, and its call to the store. */
mtype:keeper_state keeper = WAITS;
bool keeper_frozen;
byte token;
bool is_lost;
bool has_asked;			/* in this tick, and it is held */
mtype:call_kind call = NONE;
mtype:call_place place = NOWHERE;
mtype:result answer = OK;
byte age;			/* ticks since t_send */

/* Requests that were given up and are on their way. */
bool late_acquire;
bool late_renew;
bool late_release;

/* The guard. */
mtype:guard_state guard = WAITING;
bool guard_frozen;
byte kill_in;			/* ticks, of ENDING */
#ifdef STALE_DEADLINE
byte seen;
#define READ		seen
#else
#define READ		deadline
#endif

/* The jobs. */
bool command;
bool descendant;
bool other_job;			/* the contender's */
#define ALIVE		(command || descendant)

byte faults;

#ifdef LIVENESS
byte calm;			/* ticks in a row */
bool is_noisy;			/* this tick is not one of them */
#define NOISE		is_noisy = true
#else
#define NOISE		skip
#endif

#define KEEPER_RUNS	(keeper != LEFT && !keeper_frozen)
#define GUARD_GONE	(guard == DYING || guard == ZOMBIE)
#define GUARD_RUNS	(!GUARD_GONE && !guard_frozen)
#define HAS_JOB		(guard == RUNNING || guard == ENDING || \
			    guard == KILLING)

/* ---- claims ---- */

#define no_two_jobs_alive	(!ALIVE || !other_job)
#define covered			(!ALIVE || holder == US)
#define ended_without_need	(deadline > TERM_AT)
#define got_again		(calm <= AGAIN)

#ifdef COVERED
#define CHECK_COVERED	assert(covered)
#else
#define CHECK_COVERED	skip
#endif

/* ---- the store: each is one atomic step there ---- */

inline
issue(who, number)
{
	/* Tokens increase with grants. */
	assert(number > highest);
	highest = number;
	lease_token = number;
	holder = who;
	left = TTL;
	odd = false
}

inline
free()
{
	holder = NOBODY;
	left = 0;
	lease_token = 0;
	odd = false
}

inline
extend()
{
	left = TTL;
	odd = false
}

inline
serve_acquire(result)
{
	if
	:: holder == US ->
		extend();
		result = OK
	:: holder == NOBODY && highest < GRANTS ->
		issue(US, highest + 1);
		result = OK
	:: else ->
		result = HELD
	fi
}

inline
serve_renew(result)
{
	if
	:: holder == US && lease_token == token ->
		extend();
		result = OK
#ifdef RENEWAL_INSERTS
	:: holder == NOBODY ->
		issue(US, token);
		result = OK
#endif
	:: else ->
		result = LOST
	fi
}

inline
serve_release(result)
{
	if
	:: holder == US && lease_token == token ->
		free();
		CHECK_COVERED;
		result = OK
	:: else ->
		result = LOST
	fi
}

/* ---- the keeper ---- */

/* t_send is now.  A pause before the request leaves is a late request. */
inline
ask(what)
{
	call = what;
	place = TO_STORE;
	age = 0
}

inline
call_over()
{
	call = NONE;
	place = NOWHERE;
	answer = OK;
	age = 0
}

/* The request may be on its way still. */
inline
give_up()
{
	late_acquire = late_acquire || (place == TO_STORE && call == ACQUIRE);
	late_renew = late_renew || (place == TO_STORE && call == RENEW);
	late_release = late_release || (place == TO_STORE && call == RELEASE);
	call_over()
}

/* What the store confirmed; the page is never lowered. */
inline
confirm()
{
#ifdef FROM_REPLY
	deadline = TTL;
#else
	deadline = (TTL - age > deadline -> TTL - age : deadline);
#endif
#ifdef STALE_DEADLINE
	seen = (guard_frozen -> seen : deadline);
#endif
	call_over()
}

/* What is in the link is there for the guard to read, then end of file. */
inline
leave()
{
	give_up();
	keeper = LEFT;
	keeper_frozen = false;
	is_lost = false;
	has_asked = false
}

/* A guard that was told nothing, or is frozen, is not waited for. */
inline
dismiss()
{
	guard_frozen = false
}

inline
job_is_over()
{
	give_up();
	if
	:: is_lost ->
		dismiss();
		leave()
	:: else ->
		keeper = RELEASES
	fi
}

inline
on_answer()
{
	if
	:: call == ACQUIRE && answer == OK ->
		confirm();
		keeper = GRANTED
	:: call == ACQUIRE && answer == HELD ->
		call_over();
		has_asked = true
	:: call == RENEW && answer == OK ->
		confirm()
	:: call == RENEW && answer == LOST ->
		call_over();
		is_lost = true;
		end_now = (keeper == HOLDS && !GUARD_GONE)
	:: call == RELEASE ->
		dismiss();
		leave()
	fi
}

/* The link is closed at once, the rest takes its time. */
inline
kill_guard()
{
	guard = DYING;
	guard_frozen = false;
	start = false;
	end_now = false;
	kill_in = 0
}

#define MAY_RENEW	(!is_lost && call == NONE && deadline > 0 && \
			    deadline <= TTL - RENEW_EVERY)
#define IS_FRESH	(deadline >= TERM_AT + RENEW_EVERY)
#define IS_TOO_LATE	(deadline <= TERM_AT || is_lost || GUARD_GONE)
/* The guard is stopped, or does not kill. */
#ifdef LINGER
#define IS_IDLE		(!GUARD_GONE && guard != DONE && guard != KILLING)
#else
#define IS_IDLE		(!GUARD_GONE && guard != DONE && \
			    (guard_frozen || guard != KILLING))
#endif
#ifdef NO_CHECK
#define CHECKS(at)	false
#else
#define CHECKS(at)	(IS_IDLE && (deadline <= at || \
			    (is_lost && guard_frozen)))
#endif

proctype
Keeper()
{
end:	do
	:: d_step { KEEPER_RUNS && place == TO_KEEPER -> on_answer() }
	:: d_step { KEEPER_RUNS && place != TO_KEEPER && age > 0 ->
		give_up() }

	/* store_acquire() */
	:: d_step { KEEPER_RUNS && keeper == WAITS && call == NONE &&
		!has_asked -> ask(ACQUIRE) }

	/* freshen(), start() */
	:: d_step { KEEPER_RUNS && keeper == GRANTED && IS_TOO_LATE ->
		job_is_over() }
	:: d_step { KEEPER_RUNS && keeper == GRANTED && !IS_TOO_LATE &&
		!IS_FRESH && call == NONE -> ask(RENEW) }
	:: d_step { KEEPER_RUNS && keeper == GRANTED && !IS_TOO_LATE &&
		IS_FRESH && call == NONE -> keeper = STARTS }
	:: d_step { KEEPER_RUNS && keeper == STARTS ->
		start = !GUARD_GONE; keeper = HOLDS }

	/* hold(): check_guard(), read_link(), renew() */
	:: d_step { KEEPER_RUNS && keeper == HOLDS && CHECKS(CHECK_AT) ->
		kill_guard(); give_up(); keeper = TAKES_OVER }
	:: d_step { KEEPER_RUNS && keeper == HOLDS && guard == DONE ->
		job_is_over() }
	:: d_step { KEEPER_RUNS && keeper == HOLDS && GUARD_GONE ->
		give_up(); keeper = TAKES_OVER }
	:: d_step { KEEPER_RUNS && keeper == HOLDS && MAY_RENEW ->
		ask(RENEW) }

	/* kill_job(): a zombie's orphans are ours, and ECHILD is the end */
	:: d_step { KEEPER_RUNS && keeper == TAKES_OVER && guard == ZOMBIE &&
		command -> command = false }
	:: d_step { KEEPER_RUNS && keeper == TAKES_OVER && guard == ZOMBIE &&
		!command && descendant -> descendant = false }
	:: d_step { KEEPER_RUNS && keeper == TAKES_OVER && guard == ZOMBIE &&
		!ALIVE -> job_is_over() }
#ifdef NO_GUARD_WAIT
	:: d_step { KEEPER_RUNS && keeper == TAKES_OVER && guard == DYING ->
		job_is_over() }
#endif

	/* giveback() */
	:: d_step { KEEPER_RUNS && keeper == RELEASES && call == NONE &&
		deadline > 0 -> ask(RELEASE) }
	:: d_step { KEEPER_RUNS && keeper == RELEASES &&
		(deadline == 0 || age > 0) -> NOISE; dismiss(); leave() }
	od
}

/* ---- the guard ---- */

inline
start_ending()
{
	guard = ENDING;
	kill_in = MIN(GRACE, LESS(READ, KILL_AT))
}

inline
start_killing()
{
	guard = KILLING;
	kill_in = 0
}

inline
finish()
{
	guard = DONE;
	start = false;
	end_now = false;
	kill_in = 0
}

#ifdef EARLY_RELEASE
#define IS_OVER		!command
#else
#define IS_OVER		!ALIVE
#endif
#ifdef STALE_START
#define MAY_START	true
#else
#define MAY_START	(deadline > TERM_AT)
#endif

proctype
Guard()
{
end:	do
	/* check_deadline(), on the page as it is now */
	:: d_step { GUARD_RUNS && (guard == RUNNING || guard == ENDING) &&
		READ <= KILL_AT ->
		assert(!ended_without_need); start_killing() }
	:: d_step { GUARD_RUNS && guard == RUNNING && READ > KILL_AT &&
		READ <= TERM_AT ->
		assert(!ended_without_need); start_ending() }
	:: d_step { GUARD_RUNS && guard == ENDING && kill_in == 0 ->
		start_killing() }
#ifdef STALE_DEADLINE
	:: d_step { GUARD_RUNS && seen > TERM_AT && seen != deadline ->
		seen = deadline }
#endif

	/* kill_spell(): whom it forked meanwhile is found the next time */
	:: d_step { GUARD_RUNS && guard == KILLING && command ->
		command = false }
	:: d_step { GUARD_RUNS && guard == KILLING && !command &&
		descendant -> descendant = false }

	/* check_children(): ECHILD */
	:: d_step { GUARD_RUNS && HAS_JOB && IS_OVER -> finish() }

	/* read_link() */
	:: d_step { GUARD_RUNS && guard == WAITING && start && MAY_START ->
		start = false; guard = STARTING }
	:: d_step { GUARD_RUNS && guard == WAITING && start && !MAY_START ->
		finish() }
	:: d_step { GUARD_RUNS && guard == STARTING ->
		command = true; guard = RUNNING;
		assert(no_two_jobs_alive) }
	:: d_step { GUARD_RUNS && (guard == RUNNING || guard == ENDING) &&
		end_now -> end_now = false; start_killing() }
	:: d_step { GUARD_RUNS && guard == RUNNING && keeper == LEFT ->
		start_ending() }
	:: d_step { GUARD_RUNS && guard == WAITING && keeper == LEFT &&
		!start -> finish() }
	od
}

/* ---- the jobs ---- */

/* Whatever it likes. */
proctype
Job()
{
end:	do
	:: d_step { command -> command = false }
	:: d_step { command && !descendant -> descendant = true }
	:: d_step { !command && descendant -> descendant = false }
	od
}

/* It ends, and releases or not; or its lease runs out, see Clock(). */
proctype
Contender()
{
end:	do
	:: d_step { holder == NOBODY && highest < GRANTS ->
		issue(CONTENDER, highest + 1); other_job = true;
		assert(no_two_jobs_alive) }
	:: d_step { other_job -> NOISE; other_job = false }
	:: d_step { holder == CONTENDER && !other_job -> free() }
	od
}

/* ---- messages ---- */

inline
serve()
{
	if
	:: call == ACQUIRE ->
		serve_acquire(answer);
		token = (answer == OK -> lease_token : token)
	:: call == RENEW ->
		serve_renew(answer)
	:: call == RELEASE ->
		serve_release(answer)
	fi;
	place = TO_KEEPER
}

#define LATE_ONE	(late_acquire || late_renew || late_release)

proctype
Network()
{
	mtype:result unread = OK;

end:	do
	:: d_step { place == TO_STORE -> serve() }
	:: d_step { place == TO_STORE || place == TO_KEEPER ->
		NOISE; place = VANISHED; answer = OK }
	:: d_step { late_acquire -> NOISE; late_acquire = false;
		serve_acquire(unread); unread = OK }
	:: d_step { late_renew -> NOISE; late_renew = false;
		serve_renew(unread); unread = OK }
	:: d_step { late_release -> NOISE; late_release = false;
		serve_release(unread); unread = OK }
	:: d_step { LATE_ONE -> late_acquire = false; late_renew = false;
		late_release = false }
	od
}

/* ---- what goes wrong ---- */

#ifdef BOTH
#define KEEPER_WELL	true
#define GUARD_WELL	true
#else
#define KEEPER_WELL	KEEPER_RUNS
#define GUARD_WELL	GUARD_RUNS
#endif

proctype
Faults()
{
end:	do
	:: d_step { faults < FAULTS && keeper != LEFT && GUARD_WELL ->
		faults++; NOISE; leave() }
	:: d_step { faults < FAULTS && KEEPER_RUNS && GUARD_WELL ->
		faults++; NOISE; keeper_frozen = true }
	:: d_step { faults < FAULTS && !GUARD_GONE && guard != DONE &&
		KEEPER_WELL -> faults++; NOISE; kill_guard() }
	:: d_step { faults < FAULTS && GUARD_RUNS && guard != DONE &&
		KEEPER_WELL -> faults++; NOISE; guard_frozen = true }
	:: d_step { keeper_frozen -> NOISE; keeper_frozen = false }
	:: d_step { guard_frozen -> NOISE; guard_frozen = false }

	/* The kernel's part of a death: PDEATHSIG, and the orphans move. */
	:: d_step { guard == DYING -> guard = ZOMBIE; command = false }
	od
}

/* ---- time ---- */

/* What who is not frozen does not put off until after the next tick. */
#define GUARD_BUSY	(GUARD_RUNS && ( \
	    ((guard == RUNNING || guard == ENDING) && \
		READ <= LESS(KILL_AT, LATE)) || \
	    (guard == RUNNING && READ <= LESS(TERM_AT, LATE)) || \
	    (guard == ENDING && kill_in == 0) || \
	    guard == KILLING || \
	    guard == STARTING || \
	    (guard == WAITING && start) || \
	    (HAS_JOB && (end_now || IS_OVER)) || \
	    (keeper == LEFT && (guard == RUNNING || guard == WAITING))))
#define KEEPER_BUSY	(KEEPER_RUNS && ( \
	    place == TO_KEEPER || \
	    age >= ATTEMPT || \
	    (keeper == WAITS && call == NONE && !has_asked) || \
	    (keeper == GRANTED && (call == NONE || IS_TOO_LATE)) || \
	    keeper == STARTS || \
	    (keeper == HOLDS && (MAY_RENEW || guard == DONE || \
		GUARD_GONE || CHECKS(LESS(CHECK_AT, LATE)))) || \
	    keeper == TAKES_OVER || \
	    (keeper == RELEASES && call == NONE)))
#ifdef LIVENESS
#define CONTENDER_BUSY	(holder == NOBODY && highest < GRANTS)
#else
#define CONTENDER_BUSY	false
#endif
#define IS_BUSY		(GUARD_BUSY || KEEPER_BUSY || CONTENDER_BUSY || \
			    guard == DYING)
/* Nothing is left of us. */
#define ALL_OVER	(keeper == LEFT && (guard == DONE || \
			    guard == ZOMBIE) && !ALIVE && !LATE_ONE && \
			    holder == NOBODY && highest == GRANTS)

inline
tick_host()
{
	deadline = LESS(deadline, 1);
	kill_in = LESS(kill_in, 1);
	has_asked = false;
#ifdef STALE_DEADLINE
	seen = LESS(seen, 1);
#endif
	age = (call != NONE && age < TTL -> age + 1 : age)
}

inline
tick_store()
{
	if
#ifndef NO_EXPIRY
	:: left > 0 -> left--
#endif
	:: left > 0 && !odd -> odd = true
	:: left > 1 && !odd -> odd = true; left = left - 2
	:: else
	fi;
	if
	:: left == 0 ->
		other_job = false;
		free()
	:: else
	fi
}

#ifdef LIVENESS
inline
count_calm()
{
	if
	:: !is_noisy && highest < GRANTS && !ALIVE && !other_job &&
	    !guard_frozen && !LATE_ONE && place != TO_STORE ->
		calm++;
		assert(got_again)
	:: else ->
		calm = 0
	fi;
	is_noisy = false
}
#endif

proctype
Clock()
{
	do
	:: atomic { !IS_BUSY && !ALL_OVER ->
		tick_host();
#ifdef LIVENESS
		count_calm();
#endif
		tick_store();
		CHECK_COVERED };
progress:	skip
	:: ALL_OVER -> break
	od
}

init {
	atomic {
		run Keeper();
		run Guard();
		run Job();
		run Contender();
		run Network();
		run Faults();
		run Clock()
	}
}
