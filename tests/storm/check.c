/*
 * Reads the history of a storm (tests/storm/record.c) and says what in it was
 * against the promises: `violation: ' lines, then figures, one a line.  Exits 1
 * if there was a violation, 2 if the history cannot be read.  Must believe
 * nothing but the history.
 *
 * check FILE
 *
 * Besides the lines of the recorder, the storm writes:
 *	NS storm STORE TTL GRACE BOUND SLACK	first; times in ms, STORE is
 *		`other' where the statuses and the fence are not leaserun's
 *	NS watch NAME		has a job at all times when it is calm
 *	NS fault WHO KIND	and NS heal WHO KIND, where it lasts; WHO is a
 *		contender, a NAME, `store', `net' or `host'
 *	NS grant NAME TOKEN WHO		of the events of leaserun
 *	NS ran WHO PID		the same: its command had been started
 *	NS calm, NS rough	from, to: nothing is wrong
 *	NS left PID COMMAND	a process that should not be there at the end
 *	NS value FILE VALUE	of a register, at the end
 *	NS over			last
 *
 * Two jobs of a name at a time are allowed where the design says so, and are
 * counted apart:
 *	frozen	keeper and guard of the older one were, `both' or `pause', until
 *		at most SLACK before its last sign
 *	dropped	the store forgot a lease: a fault of kind `drop-...', at most a
 *		TTL ago; the older one's next heartbeat finds it
 *	starved	nobody was run for as long as the two were together, as the
 *		pulse of the recorder says
 * A name without a job in a calm is counted apart, too, if the machine did not
 * run the pulse for a tenth of that time: then it ran no store either.
 */
#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS		9
#define MS		INT64_C(1000000)
#define NEVER		INT64_MAX
#define BUCKETS		65536
#define STATUSES	256
#define STARVED		(100 * MS)
#define STARVED_PART	10		/* percent of a time */

enum exit_kind { NOT_ENDED, BY_CODE, BY_SIGNAL };

struct run {
	struct run *next;		/* of the bucket */
	char	*id, *who, *name, *pid;
	char	*key;			/* of --once, or NULL */
	bool	 has_max_run, has_started;
	int64_t	 begin, end;
	enum exit_kind kind;
	int	 number;
	int	 status;		/* of the command, -1: not told */
	int64_t	 started;		/* 0: it did not tell */
};

struct job {
	struct job *next;		/* of the bucket */
	char	*name, *who, *run;
	uint64_t token;
	int64_t	 first, last;		/* signs of life */
	bool	 has_started, is_granted;
};

struct fault {
	char	*who, *kind;
	int64_t	 from, to;		/* NEVER: not over */
};

struct gap {
	int64_t	 from, to;
};

struct write {
	struct write *next;		/* of the bucket */
	char	*file, *value;		/* that was read, or written */
	unsigned read, written;		/* how often */
	bool	 is_last;
};

/* A command that may have been killed before it could tell. */
struct ran {
	char	*who, *pid;
};

struct watch {
	char	*name;
	int64_t	 sign;			/* the last one */
	uint64_t token;			/* the highest */
};

struct line {
	int64_t	 ns;
	size_t	 at;			/* in the file */
	char	*text;
};

static struct line *lines;
static struct run *runs[BUCKETS], **all_runs;
static struct job *jobs[BUCKETS], **all_jobs;
static struct write *writes[BUCKETS];
static struct fault *faults;
static struct gap *gaps;
static struct ran *rans;
static struct watch *watches;
static size_t n_lines, n_runs, n_jobs, n_faults, n_gaps, n_rans, n_watches;

static bool is_ours, is_over, is_calm;
static int64_t ttl, bound, slack, grace, calm_since;
static char *store;
static unsigned long violations, members, ticks, left, grants;
static unsigned long codes[STATUSES], signals[STATUSES];
static unsigned long overlaps, frozen, dropped, starved;
static int64_t frozen_ns, dropped_ns, starved_ns, takeover, calm_takeover;
static unsigned long takeovers, calms, idle_starved;

static void __attribute__((format(printf, 1, 2)))
violation(const char *fmt, ...)
{
	va_list ap;

	violations++;
	printf("violation: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
}

/* --- Memory --- */

static void *
xcalloc(size_t size)
{
	void *p = calloc(1, size);

	if (p == NULL)
		err(2, NULL);
	return p;
}

/* Room for one more. */
static void *
grow(void *array, size_t n, size_t size)
{
	if ((n & (n - 1)) != 0)
		return array;
	if ((array = realloc(array, (n == 0 ? 1 : n * 2) * size)) == NULL)
		err(2, NULL);
	return array;
}

static size_t
hash(const char *a, const char *b)
{
	size_t h = 5381;

	for (; *a != '\0'; a++)
		h = h * 33 + (uint8_t)*a;
	for (; *b != '\0'; b++)
		h = h * 33 + (uint8_t)*b;
	return h % BUCKETS;
}

static struct run *
find_run(const char *id)
{
	struct run *r;

	for (r = runs[hash(id, "")]; r != NULL; r = r->next) {
		if (strcmp(r->id, id) == 0)
			return r;
	}
	return NULL;
}

static struct run *
need_run(const char *id, const char *line)
{
	struct run *r = find_run(id);

	if (r == NULL)
		errx(2, "no begin of this run: %s", line);
	return r;
}

/* Made when it is new. */
static struct job *
get_job(char *name, const char *token)
{
	struct job **bucket = &jobs[hash(name, token)], *j;
	uint64_t number = strtoull(token, NULL, 10);

	for (j = *bucket; j != NULL; j = j->next) {
		if (j->token == number && strcmp(j->name, name) == 0)
			return j;
	}
	j = xcalloc(sizeof(*j));
	*j = (struct job){ .next = *bucket, .name = name, .token = number,
	    .first = NEVER, .last = -1 };
	*bucket = j;
	all_jobs = grow(all_jobs, n_jobs, sizeof(struct job *));
	all_jobs[n_jobs++] = j;
	return j;
}

static struct write *
get_write(char *file, char *value)
{
	struct write **bucket = &writes[hash(file, value)], *w;

	for (w = *bucket; w != NULL; w = w->next) {
		if (strcmp(w->file, file) == 0 && strcmp(w->value, value) == 0)
			return w;
	}
	w = xcalloc(sizeof(*w));
	*w = (struct write){ .next = *bucket, .file = file, .value = value };
	*bucket = w;
	return w;
}

/* --- The lines --- */

static struct watch *
find_watch(const char *name)
{
	size_t i;

	for (i = 0; i < n_watches; i++) {
		if (strcmp(watches[i].name, name) == 0)
			return &watches[i];
	}
	return NULL;
}

/* How long the pulse was not run. */
static int64_t
gap_sum(int64_t from, int64_t to)
{
	int64_t sum = 0;
	size_t i;

	for (i = 0; i < n_gaps; i++) {
		if (gaps[i].to > from && gaps[i].from < to)
			sum += gaps[i].to - gaps[i].from;
	}
	return sum;
}

/* Nobody had the name for so long, which was calm to the end. */
static void
check_pause(const struct watch *w, int64_t ns)
{
	int64_t since = w->sign > calm_since ? w->sign : calm_since;

	if (!is_calm || ns - since <= bound)
		return;
	if (gap_sum(since, ns) * 100 >= (ns - since) * STARVED_PART)
		idle_starved++;
	else
		violation("no job of '%s' for %" PRId64 " ms in a calm, until %"
		    PRId64, w->name, (ns - since) / MS, ns);
}

static void
note_sign(struct job *j, int64_t ns)
{
	struct watch *w = find_watch(j->name);
	int64_t since;

	if (ns < j->first)
		j->first = ns;
	if (ns > j->last)
		j->last = ns;
	if (w == NULL)
		return;
	check_pause(w, ns);
	if (w->sign != 0 && j->token > w->token) {
		takeovers++;
		if (ns - w->sign > takeover)
			takeover = ns - w->sign;
		since = w->sign > calm_since ? w->sign : calm_since;
		if (is_calm && ns - since > calm_takeover)
			calm_takeover = ns - since;
	}
	w->sign = ns;
	if (j->token > w->token)
		w->token = j->token;
}

static void
set_calm(bool calm, int64_t ns)
{
	size_t i;

	for (i = 0; i < n_watches; i++)
		check_pause(&watches[i], ns);
	calms += calm;
	is_calm = calm;
	calm_since = ns;
}

static void
on_begin(char *word[], int64_t ns)
{
	struct run *r = xcalloc(sizeof(*r));
	size_t h = hash(word[3], "");
	char *flag, *flags = word[5];

	*r = (struct run){ .next = runs[h], .id = word[3], .who = word[2],
	    .name = word[4], .begin = ns, .end = NEVER, .status = -1 };
	while ((flag = strsep(&flags, ",")) != NULL) {
		if (strncmp(flag, "once=", 5) == 0)
			r->key = flag + 5;
		else if (strcmp(flag, "max-run") == 0)
			r->has_max_run = true;
	}
	runs[h] = r;
	all_runs = grow(all_runs, n_runs, sizeof(struct run *));
	all_runs[n_runs++] = r;
}

static void
on_exit_of(struct run *r, char *word[], int64_t ns)
{
	r->end = ns;
	r->kind = strcmp(word[4], "code") == 0 ? BY_CODE : BY_SIGNAL;
	r->number = atoi(word[5]) & 0xff;
	r->pid = word[6];
	if (r->kind == BY_CODE)
		codes[r->number]++;
	else
		signals[r->number]++;
}

static void
on_start(char *word[], int64_t ns, const char *line)
{
	struct run *r = need_run(word[5], line);
	struct job *j = get_job(word[2], word[3]);

	if (j->has_started)
		violation("token %" PRIu64 " of '%s' was granted twice, runs "
		    "%s and %s", j->token, j->name, j->run, r->id);
	if (r->has_started)
		violation("run %s started its command twice", r->id);
	j->has_started = r->has_started = true;
	j->run = word[5];
	j->who = word[6];
	r->started = ns;
	note_sign(j, ns);
}

/* Told by leaserun itself, also when the command was not started. */
static void
on_grant(char *word[])
{
	struct job *j = get_job(word[2], word[3]);

	grants++;
	if (j->is_granted)
		violation("token %" PRIu64 " of '%s' was granted twice, the "
		    "second time to %s", j->token, j->name, word[4]);
	j->is_granted = true;
}

static void
on_ran(char *word[])
{
	rans = grow(rans, n_rans, sizeof(*rans));
	rans[n_rans++] = (struct ran){ .who = word[2], .pid = word[3] };
}

static void
on_alive(char *word[], int64_t ns)
{
	struct job *j = get_job(word[2], word[3]);

	if (j->who == NULL) {
		j->run = word[5];
		j->who = word[6];
	}
	/* Not a sign for those who wait for one. */
	if (ns < j->first)
		j->first = ns;
	if (ns > j->last)
		j->last = ns;
}

static void
on_fault(char *word[], int64_t ns)
{
	faults = grow(faults, n_faults, sizeof(*faults));
	faults[n_faults++] = (struct fault){ .who = word[2], .kind = word[3],
	    .from = ns, .to = NEVER };
}

static void
on_heal(char *word[], int64_t ns, const char *line)
{
	size_t i;

	for (i = n_faults; i-- > 0;) {
		if (strcmp(faults[i].who, word[2]) == 0 &&
		    strcmp(faults[i].kind, word[3]) == 0) {
			faults[i].to = ns;
			return;
		}
	}
	errx(2, "nothing to heal: %s", line);
}

static void
on_storm(char *word[])
{
	store = word[2];
	is_ours = strcmp(store, "other") != 0 && strcmp(store, "flock") != 0 &&
	    strcmp(store, "etcdctl") != 0;
	ttl = atoll(word[3]) * MS;
	grace = atoll(word[4]) * MS;
	bound = atoll(word[5]) * MS;
	slack = atoll(word[6]) * MS;
}

static void
on_watch(char *word[])
{
	watches = grow(watches, n_watches, sizeof(*watches));
	watches[n_watches++] = (struct watch){ .name = word[2] };
}

static void
on_gap(char *word[], int64_t ns)
{
	gaps = grow(gaps, n_gaps, sizeof(*gaps));
	gaps[n_gaps++] = (struct gap){ ns - atoll(word[2]) * MS, ns };
}

/* WORD in LINE has so many words. */
static bool
is_line(char *word[], int n, const char *text, int want, const char *line)
{
	if (strcmp(word[1], text) != 0)
		return false;
	if (n != want)
		errx(2, "not %d words: %s", want, line);
	return true;
}

static void
take(struct line *l)
{
	char *word[WORDS + 1] = { NULL }, *rest = l->text, *p, whole[512];
	int n = 0;

	snprintf(whole, sizeof(whole), "%s", l->text);
	while (n <= WORDS && (p = strsep(&rest, " ")) != NULL)
		word[n++] = p;
	if (n < 2)
		errx(2, "not a line of a history: %s", whole);
	if (is_line(word, n, "tick", 5, whole)) {
		ticks++;
		note_sign(get_job(word[2], word[3]), l->ns);
	} else if (is_line(word, n, "member", 6, whole)) {
		members++;
		note_sign(get_job(word[2], word[3]), l->ns);
	} else if (is_line(word, n, "gone", 5, whole))
		note_sign(get_job(word[2], word[3]), l->ns);
	else if (is_line(word, n, "start", 8, whole))
		on_start(word, l->ns, whole);
	else if (is_line(word, n, "end", 7, whole)) {
		note_sign(get_job(word[2], word[3]), l->ns);
		need_run(word[5], whole)->status = atoi(word[6]);
	} else if (is_line(word, n, "alive", 7, whole))
		on_alive(word, l->ns);
	else if (is_line(word, n, "did", 8, whole)) {
		note_sign(get_job(word[2], word[3]), l->ns);
		get_write(word[5], word[6])->read++;
		get_write(word[5], word[7])->written++;
	} else if (is_line(word, n, "begin", 6, whole))
		on_begin(word, l->ns);
	else if (is_line(word, n, "exit", 7, whole))
		on_exit_of(need_run(word[3], whole), word, l->ns);
	else if (is_line(word, n, "fault", 4, whole))
		on_fault(word, l->ns);
	else if (is_line(word, n, "heal", 4, whole))
		on_heal(word, l->ns, whole);
	else if (is_line(word, n, "grant", 5, whole))
		on_grant(word);
	else if (is_line(word, n, "ran", 4, whole))
		on_ran(word);
	else if (is_line(word, n, "calm", 2, whole))
		set_calm(true, l->ns);
	else if (is_line(word, n, "rough", 2, whole))
		set_calm(false, l->ns);
	else if (is_line(word, n, "gap", 3, whole))
		on_gap(word, l->ns);
	else if (is_line(word, n, "watch", 3, whole))
		on_watch(word);
	else if (is_line(word, n, "storm", 7, whole))
		on_storm(word);
	else if (is_line(word, n, "left", 4, whole)) {
		left++;
		violation("process %s, %s, is left", word[2], word[3]);
	} else if (is_line(word, n, "value", 4, whole))
		get_write(word[2], word[3])->is_last = true;
	else if (is_line(word, n, "over", 2, whole)) {
		set_calm(false, l->ns);
		is_over = true;
	} else
		errx(2, "not a line of a history: %s", whole);
}

/* Whoever was stopped between clock and write comes late in the file. */
static int
compare_lines(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return x->ns != y->ns ? (x->ns > y->ns) - (x->ns < y->ns) :
	    (x->at > y->at) - (x->at < y->at);
}

static void
read_history(const char *path)
{
	char *text = NULL, *end;
	size_t size = 0;
	ssize_t n;
	FILE *f;

	if ((f = fopen(path, "re")) == NULL)
		err(2, "%s", path);
	while ((n = getline(&text, &size, f)) > 0) {
		if (text[n - 1] != '\n')
			errx(2, "half a line: %s", text);
		text[n - 1] = '\0';
		lines = grow(lines, n_lines, sizeof(*lines));
		lines[n_lines].text = strdup(text);
		errno = 0;
		lines[n_lines].ns = strtoll(text, &end, 10);
		lines[n_lines].at = n_lines;
		if (lines[n_lines].text == NULL || *end != ' ' || errno != 0)
			errx(2, "not a line of a history: %s", text);
		n_lines++;
	}
	free(text);
	fclose(f);
}

/* --- Overlaps and tokens --- */

/* Keeper and guard of the run were frozen then, and their job died in time. */
static bool
was_frozen(const struct job *j, int64_t from, int64_t to)
{
	const struct fault *f;
	size_t i;

	for (i = 0; i < n_faults && j->who != NULL; i++) {
		f = &faults[i];
		if ((strcmp(f->kind, "both") == 0 ||
		    strcmp(f->kind, "pause") == 0) &&
		    strcmp(f->who, j->who) == 0 && f->from <= from &&
		    f->to != NEVER && to <= f->to + slack)
			return true;
	}
	return false;
}

static bool
was_dropped(int64_t from, int64_t to)
{
	const struct fault *f;
	int64_t end;
	size_t i;

	for (i = 0; i < n_faults; i++) {
		f = &faults[i];
		end = f->to == NEVER ? f->from : f->to;
		if (strncmp(f->kind, "drop-", 5) == 0 && f->from <= from &&
		    from <= end + ttl + slack && to - from <= ttl + slack)
			return true;
	}
	return false;
}

static bool
was_starved(int64_t from, int64_t to)
{
	int64_t sum = gap_sum(from - 1000 * MS, to);

	return sum >= STARVED && sum >= to - from;
}

static void
count(unsigned long *n, int64_t *longest, int64_t ns)
{
	(*n)++;
	if (ns > *longest)
		*longest = ns;
}

/* True if the design leaves that open. */
static bool
is_allowed(const struct job *j, int64_t from, int64_t to)
{
	if (!is_ours)
		return false;
	if (was_frozen(j, from, to))
		count(&frozen, &frozen_ns, to - from);
	else if (was_dropped(from, to))
		count(&dropped, &dropped_ns, to - from);
	else if (was_starved(from, to))
		count(&starved, &starved_ns, to - from);
	else
		return false;
	return true;
}

static int
compare_jobs(const void *a, const void *b)
{
	const struct job *x = *(struct job *const *)a;
	const struct job *y = *(struct job *const *)b;
	int names = strcmp(x->name, y->name);

	return names != 0 ? names : (x->token > y->token) -
	    (x->token < y->token);
}

/* OLD has the lower token, so it is to be gone before YOUNG begins. */
static void
check_pair(const struct job *old, const struct job *young)
{
	if (old->last < young->first ||
	    is_allowed(old, young->first, old->last))
		return;
	overlaps++;
	if (old->has_started && old->first > young->first)
		violation("tokens of '%s' went back: %" PRIu64 " (run %s) "
		    "started at %" PRId64 ", %" PRIu64 " (run %s) before that",
		    old->name, old->token, old->run, old->first, young->token,
		    young->run);
	else
		violation("two jobs of '%s': token %" PRIu64 " (%s) is alive %"
		    PRId64 " ms after %" PRIu64 " (%s) has begun at %" PRId64,
		    old->name, old->token, old->who == NULL ? "?" : old->who,
		    (old->last - young->first) / MS, young->token,
		    young->who == NULL ? "?" : young->who, young->first);
}

static void
check_jobs(void)
{
	struct job *old;
	size_t i, k;

	qsort(all_jobs, n_jobs, sizeof(struct job *), compare_jobs);
	for (i = 0; i < n_jobs; i++) {
		old = all_jobs[i];
		for (k = i + 1; k < n_jobs && strcmp(all_jobs[k]->name,
		    old->name) == 0; k++)
			check_pair(old, all_jobs[k]);
	}
}

/* --- Exit statuses and keys --- */

/* One of these faults, a list with blanks around each, hit the run. */
static bool
was_hit(const struct run *r, const char *kinds)
{
	const struct fault *f;
	char kind[64];
	size_t i;

	for (i = 0; i < n_faults; i++) {
		f = &faults[i];
		snprintf(kind, sizeof(kind), " %s ", f->kind);
		if (strcmp(f->who, r->who) == 0 && strstr(kinds, kind) &&
		    f->from <= r->end && (f->to == NEVER ? f->from : f->to) >=
		    r->begin)
			return true;
	}
	return false;
}

/* Something was wrong that this run could notice. */
static bool
was_rough(const struct run *r)
{
	const struct fault *f;
	size_t i;

	for (i = 0; i < n_faults; i++) {
		f = &faults[i];
		if ((strcmp(f->who, r->who) == 0 ||
		    strcmp(f->who, r->name) == 0 ||
		    strcmp(f->who, "store") == 0 ||
		    strcmp(f->who, "net") == 0 ||
		    strcmp(f->who, "host") == 0) && f->from <= r->end &&
		    (f->to == NEVER ? f->from : f->to) + ttl + slack >=
		    r->begin)
			return true;
	}
	for (i = 0; i < n_gaps; i++) {
		if (gaps[i].to - gaps[i].from >= STARVED &&
		    gaps[i].to >= r->begin && gaps[i].from <= r->end)
			return true;
	}
	return false;
}

static bool
may_have_code(const struct run *r)
{
	switch (r->number) {
	case 0:
		return r->has_started ? r->status == 0 : r->key != NULL;
	case 69:
		return !r->has_started && was_rough(r);
	case 70:
		return was_hit(r, " kill-guard ");
	case 74:
		return r->key != NULL && r->status == 0 && was_rough(r);
	case 75:
		return !r->has_started;
	case 79:
		return r->has_started && was_rough(r);
	case 124:
		return r->has_started && r->has_max_run;
	case 143:
		return !r->has_started && was_hit(r, " term ");
	default:
		return r->has_started && r->status == r->number;
	}
}

static bool
may_have_signal(const struct run *r)
{
	switch (r->number) {
	case 9:
		return was_hit(r, " kill-keeper crash kill-command ");
	case 15:
		return r->has_started && was_hit(r, " term ");
	default:
		return false;
	}
}

static void
check_start(struct run *r)
{
	size_t i;

	for (i = 0; i < n_rans && r->pid != NULL; i++) {
		if (strcmp(rans[i].who, r->who) == 0 &&
		    strcmp(rans[i].pid, r->pid) == 0)
			r->has_started = true;
	}
}

static void
check_run(const struct run *r)
{
	if (r->kind == NOT_ENDED) {
		if (is_over)
			violation("run %s of %s has not ended", r->id, r->who);
	} else if (is_ours && !(r->kind == BY_CODE ? may_have_code(r) :
	    may_have_signal(r)))
		violation("run %s of %s, '%s', ended with %s %d; its command "
		    "%s, status %d", r->id, r->who, r->name,
		    r->kind == BY_CODE ? "status" : "signal", r->number,
		    r->has_started ? "was started" : "was not started",
		    r->status);
}

static bool
is_done(const struct run *r)
{
	return r->key != NULL && r->has_started && r->kind == BY_CODE &&
	    r->number == 0;
}

/* Once it is done, no run of the key starts its command. */
static unsigned long
check_keys(void)
{
	const struct run *a, *b;
	unsigned long keys = 0;
	size_t i, k;

	for (i = 0; i < n_runs; i++) {
		a = all_runs[i];
		if (!is_done(a))
			continue;
		keys++;
		for (k = 0; k < n_runs; k++) {
			b = all_runs[k];
			if (b == a || b->key == NULL || !b->has_started ||
			    strcmp(a->key, b->key) != 0 ||
			    strcmp(a->name, b->name) != 0)
				continue;
			if (b->started == 0)
				continue;
			if (b->started > a->end)
				violation("key '%s' of '%s' was done by run %s,"
				    " and run %s started", a->key, a->name,
				    a->id, b->id);
			else if (is_done(b) && k > i)
				violation("key '%s' of '%s' was done by runs "
				    "%s and %s", a->key, a->name, a->id, b->id);
		}
	}
	return keys;
}

/* --- Registers --- */

struct tally {
	unsigned long written, forks, unread, unknown;
};

/*
 * Each value is read for at most one write.  One that nobody read is lost,
 * unless it is the last, or was read by a write whose end was not told, since
 * the writer was killed: its value is one that nobody is known to have written.
 */
static void
tally(struct tally *t, const char *prefix)
{
	const struct write *w;
	size_t i;

	for (i = 0; i < BUCKETS; i++) {
		for (w = writes[i]; w != NULL; w = w->next) {
			if (strncmp(w->file, prefix, strlen(prefix)) != 0)
				continue;
			t->written += w->written;
			if (w->read > 1)
				t->forks += w->read - 1;
			if (w->read == 0 && w->written > 0 && !w->is_last)
				t->unread++;
			if (w->written == 0 && strcmp(w->value, "0") != 0)
				t->unknown++;
		}
	}
}

static unsigned long
lost(const struct tally *t)
{
	unsigned long unread = t->unread > t->unknown ?
	    t->unread - t->unknown : 0;

	return t->forks > unread ? t->forks : unread;
}

/* --- Figures --- */

static void
print_faults(void)
{
	size_t i, k;
	unsigned long n;

	for (i = 0; i < n_faults; i++) {
		for (k = 0; k < i && strcmp(faults[k].kind, faults[i].kind) !=
		    0; k++)
			;
		if (k < i)
			continue;
		for (n = 0; k < n_faults; k++)
			n += strcmp(faults[k].kind, faults[i].kind) == 0;
		printf("fault.%s %lu\n", faults[i].kind, n);
	}
}

static void
print_statuses(void)
{
	int i;

	for (i = 0; i < STATUSES; i++) {
		if (codes[i] > 0)
			printf("status.%d %lu\n", i, codes[i]);
	}
	for (i = 0; i < STATUSES; i++) {
		if (signals[i] > 0)
			printf("status.signal-%d %lu\n", i, signals[i]);
	}
}

static void
print_figures(unsigned long keys, const struct tally *open,
    const struct tally *fenced)
{
	unsigned long started = 0;
	size_t i;

	for (i = 0; i < n_jobs; i++)
		started += all_jobs[i]->has_started;
	printf("store %s\n", store);
	printf("seconds %" PRId64 "\n", n_lines == 0 ? 0 :
	    (lines[n_lines - 1].ns - lines[0].ns) / (1000 * MS));
	printf("runs %zu\nstarted %lu\ngranted %lu\nprocesses %lu\n", n_runs,
	    started, grants, members);
	printf("ticks %lu\nfaults %zu\n", ticks, n_faults);
	print_faults();
	print_statuses();
	printf("overlaps %lu\n", overlaps);
	printf("overlaps.frozen %lu\noverlaps.frozen-longest-ms %" PRId64 "\n",
	    frozen, frozen_ns / MS);
	printf("overlaps.dropped %lu\noverlaps.dropped-longest-ms %" PRId64
	    "\n", dropped, dropped_ns / MS);
	printf("overlaps.starved %lu\noverlaps.starved-longest-ms %" PRId64
	    "\n", starved, starved_ns / MS);
	printf("writes.open %lu\nlost.open %lu\n", open->written, lost(open));
	printf("writes.fenced %lu\nlost.fenced %lu\n", fenced->written,
	    lost(fenced));
	printf("keys %lu\nleft %lu\n", keys, left);
	printf("takeovers %lu\ntakeover-longest-ms %" PRId64 "\n"
	    "takeover-calm-longest-ms %" PRId64 "\n", takeovers,
	    takeover / MS, calm_takeover / MS);
	printf("calms %lu\nidle.starved %lu\n", calms, idle_starved);
	printf("violations %lu\n", violations);
}

int
main(int argc, char *argv[])
{
	struct tally open = { 0 }, fenced = { 0 };
	unsigned long keys;
	size_t i;

	if (argc != 2)
		errx(2, "usage: check FILE");
	read_history(argv[1]);
	qsort(lines, n_lines, sizeof(*lines), compare_lines);
	for (i = 0; i < n_lines; i++)
		take(&lines[i]);
	if (store == NULL || !is_over)
		errx(2, "'%s' is not a whole history", argv[1]);
	check_jobs();
	for (i = 0; i < n_runs; i++) {
		check_start(all_runs[i]);
		check_run(all_runs[i]);
	}
	keys = check_keys();
	tally(&open, "open.");
	tally(&fenced, "fenced.");
	if (lost(&fenced) > 0)
		violation("%lu updates of a fenced register are lost",
		    lost(&fenced));
	print_figures(keys, &open, &fenced);
	return violations > 0;
}
