/*
 * Reads and writes the text of a Prometheus textfile.  What is read may have
 * been written by anybody: must never take what it does not understand.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "name.h"
#include "promfile.h"

#define PREFIX		"leaserun_"
#define JOBS_MAX	4096
#define COUNTER_MAX	9007199254740992.0	/* exact in a double */

static const char *
loss_label(unsigned int i)
{
	return loss_name((enum loss_reason)i);
}

static const char *
refusal_label(unsigned int i)
{
	return report_refusal_name((enum report_refusal)i);
}

static const char *
outcome_label(unsigned int i)
{
	return report_outcome_name((enum report_outcome)i);
}

/* In the order of enum prom_value. */
static const struct family {
	const char	*name;
	unsigned int	 first, n;
	const char	*label;		/* the third one; NULL: none */
	const char	*(*value)(unsigned int);
	const char	*help;
} families[] = {
	{ "held", PROM_HELD, 1, NULL, NULL,
	    "Whether a run on this host holds the lease." },
	{ "lease_expiry_timestamp_seconds", PROM_EXPIRY, 1, NULL, NULL,
	    "When the lease ends unless it is renewed." },
	{ "ttl_seconds", PROM_TTL, 1, NULL, NULL,
	    "How long a grant or renewal lasts." },
	{ "last_start_timestamp_seconds", PROM_START, 1, NULL, NULL,
	    "When a run on this host last got the lease." },
	{ "last_end_timestamp_seconds", PROM_END, 1, NULL, NULL,
	    "When the last run on this host ended." },
	{ "last_success_timestamp_seconds", PROM_SUCCESS, 1, NULL, NULL,
	    "When a run on this host last ended with status 0." },
	{ "last_duration_seconds", PROM_DURATION, 1, NULL, NULL,
	    "How long the command of the last run took." },
	{ "last_exit_status", PROM_STATUS, 1, NULL, NULL,
	    "Exit status of leaserun at the end of the last run." },
	{ "last_wait_seconds", PROM_WAIT, 1, NULL, NULL,
	    "How long the last run waited for the lease." },
	{ "longest_renewal_gap_seconds", PROM_GAP, 1, NULL, NULL,
	    "Longest time between confirmations of the lease in the last run, "
	    "to be compared with the ttl." },
	{ "last_skip_timestamp_seconds", PROM_SKIP, 1, NULL, NULL,
	    "When a start on this host last ran nothing." },
	{ "last_skip_held_seconds", PROM_SKIP_HELD, 1, NULL, NULL,
	    "For how long the holder had held the lease at the last skip." },
	{ "renewals_total", PROM_RENEWALS, 1, NULL, NULL,
	    "Renewals that the store confirmed." },
	{ "renewal_failures_total", PROM_FAILURES, 1, NULL, NULL,
	    "Renewals that failed, each attempt counted." },
	{ "takeovers_total", PROM_TAKEOVERS, 1, NULL, NULL,
	    "Leases taken over from a holder that did not release." },
	{ "losses_total", PROM_LOSSES, LOSS_REASONS, "reason", loss_label,
	    "Leases lost, by reason." },
	{ "skips_total", PROM_SKIPS, REFUSALS, "reason", refusal_label,
	    "Starts that ran nothing, by reason." },
	{ "runs_total", PROM_RUNS, OUTCOMES, "outcome", outcome_label,
	    "Runs that got the lease, by outcome." },
};

#define NFAMILIES	(sizeof(families) / sizeof(families[0]))

void
prom_free(struct prom_set *set)
{
	free(set->jobs);
	memset(set, 0, sizeof(*set));
}

struct prom_job *
prom_job(struct prom_set *set, const char *name, const char *backend)
{
	struct prom_job *job, *more;
	size_t i;

	for (i = 0; i < set->n; i++) {
		job = &set->jobs[i];
		if (strcmp(job->name, name) == 0 &&
		    strcmp(job->backend, backend) == 0)
			return job;
	}
	if (set->n == JOBS_MAX || strlen(name) >= sizeof(job->name) ||
	    strlen(backend) >= sizeof(job->backend))
		return NULL;
	if (set->n == set->room) {
		more = realloc(set->jobs,
		    (set->room * 2 + 8) * sizeof(*more));
		if (more == NULL)
			return NULL;
		set->jobs = more;
		set->room = set->room * 2 + 8;
	}
	job = &set->jobs[set->n++];
	memset(job, 0, sizeof(*job));
	strcpy(job->name, name);
	strcpy(job->backend, backend);
	for (i = 0; i < PROM_COUNTERS; i++)
		job->values[i] = NAN;
	return job;
}

/* --- Reading --- */

/* One sample: three labels at most, unescaped in place. */
struct sample {
	char	*name;			/* without the prefix */
	char	*keys[3], *values[3];
	size_t	 n;
	double	 number;
};

static char *
skip_word(char *p)
{
	while (isalnum((unsigned char)*p) || *p == '_')
		p++;
	return p;
}

/* From behind the opening quote; behind the closing one, or NULL. */
static char *
unescape(char *p)
{
	char *out = p;

	for (; *p != '"'; p++) {
		if (*p == '\0')
			return NULL;
		if (*p == '\\') {
			p++;
			if (*p != '\\' && *p != '"' && *p != 'n')
				return NULL;
			*out++ = *p == 'n' ? '\n' : *p;
		} else
			*out++ = *p;
	}
	*out = '\0';
	return p + 1;
}

static bool
parse_labels(char **pp, struct sample *s)
{
	char *p = *pp;

	for (s->n = 0; *p != '}'; s->n++) {
		if (s->n == 3 || (s->n > 0 && *p++ != ','))
			return false;
		s->keys[s->n] = p;
		p = skip_word(p);
		if (p[0] != '=' || p[1] != '"')
			return false;
		*p = '\0';
		s->values[s->n] = p + 2;
		if ((p = unescape(p + 2)) == NULL)
			return false;
	}
	*pp = p + 1;
	return true;
}

static bool
parse_sample(char *line, struct sample *s)
{
	size_t len = strlen(PREFIX);
	char *p, *end;

	if (strncmp(line, PREFIX, len) != 0)
		return false;
	s->name = line + len;
	p = skip_word(s->name);
	if (*p != '{')
		return false;
	*p++ = '\0';
	if (!parse_labels(&p, s) || *p != ' ' ||
	    !(isdigit((unsigned char)p[1]) || p[1] == '-'))
		return false;
	s->number = strtod(p + 1, &end);
	return *end == '\0' && isfinite(s->number);
}

/* The place of the sample, -1: there is none in this version. */
static int
find_value(const struct sample *s)
{
	const struct family *f;
	unsigned int i;

	for (f = families; f < families + NFAMILIES; f++) {
		if (strcmp(f->name, s->name) != 0)
			continue;
		if (f->label == NULL)
			return s->n == 2 ? (int)f->first : -1;
		if (s->n != 3 || strcmp(s->keys[2], f->label) != 0)
			return -1;
		for (i = 0; i < f->n; i++) {
			if (strcmp(f->value(i), s->values[2]) == 0)
				return (int)(f->first + i);
		}
	}
	return -1;
}

static bool
read_line(struct prom_set *set, char *line)
{
	struct prom_job *job;
	struct sample s;
	int at;

	if (*line == '\0')
		return true;
	if (*line == '#')
		return strncmp(line, "# HELP " PREFIX, 7 + strlen(PREFIX)) == 0
		    ||
		    strncmp(line, "# TYPE " PREFIX, 7 + strlen(PREFIX)) == 0;
	if (!parse_sample(line, &s) || s.n < 2 ||
	    strcmp(s.keys[0], "name") != 0 ||
	    strcmp(s.keys[1], "backend") != 0 ||
	    !text_is_clean(s.values[0]) || !text_is_clean(s.values[1]))
		return false;
	if ((at = find_value(&s)) == -1)
		return true;
	if (at >= PROM_COUNTERS && (s.number < 0 || s.number > COUNTER_MAX))
		return false;
	job = prom_job(set, s.values[0], s.values[1]);
	if (job == NULL)
		return false;
	job->values[at] = s.number;
	return true;
}

size_t
prom_read(struct prom_set *set, char *text)
{
	char *line = text, *end;
	size_t n = 1;

	for (; *line != '\0'; line = end + 1, n++) {
		end = strchr(line, '\n');
		if (end == NULL)
			return n;	/* cut off */
		*end = '\0';
		if (!read_line(set, line))
			return n;
	}
	return 0;
}

/* --- Writing --- */

static void
put_label(FILE *f, const char *key, const char *value)
{
	fprintf(f, "%s=\"", key);
	for (; *value != '\0'; value++) {
		if (*value == '\\' || *value == '"')
			putc('\\', f);
		if (*value == '\n')
			fputs("\\n", f);
		else
			putc(*value, f);
	}
	putc('"', f);
}

static void
put_sample(FILE *f, const struct family *family, unsigned int i,
    const struct prom_job *job)
{
	double number = job->values[family->first + i];

	if (isnan(number))
		return;
	fprintf(f, PREFIX "%s{", family->name);
	put_label(f, "name", job->name);
	putc(',', f);
	put_label(f, "backend", job->backend);
	if (family->label != NULL) {
		putc(',', f);
		put_label(f, family->label, family->value(i));
	}
	fprintf(f, "} %.16g\n", number);
}

static bool
has_samples(const struct prom_set *set, const struct family *family)
{
	size_t j;

	for (j = 0; j < set->n; j++) {
		if (!isnan(set->jobs[j].values[family->first]))
			return true;
	}
	return false;
}

bool
prom_write(const struct prom_set *set, FILE *f)
{
	const struct family *family;
	unsigned int i;
	size_t j;

	for (family = families; family < families + NFAMILIES; family++) {
		if (!has_samples(set, family))
			continue;
		fprintf(f, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n",
		    family->name, family->help, family->name,
		    family->first >= PROM_COUNTERS ? "counter" : "gauge");
		for (j = 0; j < set->n; j++) {
			for (i = 0; i < family->n; i++)
				put_sample(f, family, i, &set->jobs[j]);
		}
	}
	return fflush(f) == 0 && ferror(f) == 0;
}
