/*
 * The metrics' text: what is written is read again, and nothing else is; and
 * which reason is given for a loss.
 */
#include <math.h>
#include <stdlib.h>

#include "../src/loss.h"
#include "../src/promfile.h"
#include "tap.h"

#define SAMPLE	"leaserun_held{name=\"a\",backend=\"file:\"} 1\n"

/* The line that is refused; 0: none. */
static size_t
read_text(struct prom_set *set, const char *text)
{
	char *copy = strdup(text);
	size_t line;

	memset(set, 0, sizeof(*set));
	line = prom_read(set, copy);
	free(copy);
	return line;
}

static void
check_refused(const char *text, size_t line, const char *what)
{
	struct prom_set set;

	is_int((intmax_t)read_text(&set, text), (intmax_t)line, "%s", what);
	prom_free(&set);
}

static void
test_refused(void)
{
	check_refused("", 0, "an empty file");
	check_refused(SAMPLE, 0, "a sample");
	check_refused("leaserun_held{name=\"a\",backend=\"file:\"} 1", 1,
	    "a line without its end");
	check_refused(SAMPLE "node_load1 0.3\n", 2, "another's metric");
	check_refused("# HELP node_load1 x\n", 1, "another's help");
	check_refused("# leaserun\n", 1, "a comment");
	check_refused("leaserun_held 1\n", 1, "no labels");
	check_refused("leaserun_held{} 1\n", 1, "empty labels");
	check_refused("leaserun_held{name=\"a\"} 1\n", 1, "no backend");
	check_refused("leaserun_held{backend=\"b\",name=\"a\"} 1\n", 1,
	    "labels in another order");
	check_refused("leaserun_held{name=\"a\\\",backend=\"b\"} 1\n", 1,
	    "an escaped quote at the end");
	check_refused("leaserun_held{name=\"a\\x\",backend=\"b\"} 1\n", 1,
	    "an unknown escape");
	check_refused("leaserun_held{name=\"a\",backend=\"b\"} NaN\n", 1,
	    "not a number");
	check_refused("leaserun_held{name=\"a\",backend=\"b\"} 1e999\n", 1,
	    "infinity");
	check_refused("leaserun_held{name=\"a\",backend=\"b\"} 1 2\n", 1,
	    "a time");
	check_refused("leaserun_held{name=\"a\",backend=\"b\"}\n", 1,
	    "no value");
	check_refused("leaserun_held{name=\"a\n", 1, "cut off in a label");
	check_refused("leaserun_held{name=\"\xff\",backend=\"b\"} 1\n", 1,
	    "not UTF-8");
	check_refused("leaserun_renewals_total{name=\"a\",backend=\"b\"} -1\n",
	    1, "a counter below 0");
	check_refused("leaserun_renewals_total{name=\"a\",backend=\"b\"} "
	    "1e300\n", 1, "a counter that cannot count");
	check_refused("leaserun_new_total{name=\"a\",backend=\"b\"} 1\n", 0,
	    "a metric of another version");
	check_refused("leaserun_runs_total{name=\"a\",backend=\"b\","
	    "outcome=\"new\"} 1\n", 0, "an outcome of another version");
}

static void
test_round(void)
{
	static const char name[] = "a \"b\\ \xc3\xa9 {x=\"y\"} 7";
	struct prom_set set = { NULL, 0, 0 }, again;
	struct prom_job *job, *other;
	char *text = NULL;
	size_t size, i;
	FILE *f;

	job = prom_job(&set, name, "file:/a b");
	for (i = 0; i < PROM_VALUES; i++)
		job->values[i] = i == PROM_EXPIRY ? NAN : 1e9 + (double)i / 8;
	prom_job(&set, "other", "file:/a b");
	f = open_memstream(&text, &size);
	ok(prom_write(&set, f), "it is written");
	fclose(f);
	is_int((intmax_t)read_text(&again, text), 0, "it is read");
	is_int((intmax_t)again.n, 2, "both jobs");
	job = prom_job(&set, name, "file:/a b");
	other = prom_job(&again, name, "file:/a b");
	is_int((intmax_t)again.n, 2, "found by name and backend");
	for (i = 0; i < PROM_VALUES; i++) {
		if (job->values[i] != other->values[i] &&
		    !(isnan(job->values[i]) && isnan(other->values[i])))
			break;
	}
	is_int((intmax_t)i, PROM_VALUES, "the same values");
	ok(prom_job(&again, name, "x")->values[PROM_RUNS] == 0,
	    "another backend is another job");
	free(text);
	prom_free(&set);
	prom_free(&again);
}

/* Every cut of a file is refused or is a shorter file: never a crash. */
static void
test_cuts(void)
{
	struct prom_set set = { NULL, 0, 0 }, again;
	char *text = NULL;
	size_t size, cut, bad = 0;
	FILE *f;

	prom_job(&set, "a\\\"b", "file:");
	f = open_memstream(&text, &size);
	prom_write(&set, f);
	fclose(f);
	for (cut = size; cut-- > 0;) {
		text[cut] = '\0';
		if ((read_text(&again, text) == 0) !=
		    (cut == 0 || text[cut - 1] == '\n'))
			bad++;
		prom_free(&again);
	}
	is_int((intmax_t)bad, 0, "whole lines only");
	free(text);
	prom_free(&set);
}

static void
test_losses(void)
{
	static const struct {
		enum leaserun_loss loss;
		bool	early, paused;
		const char *name;
	} cases[] = {
		{ LEASERUN_LOSS_EXPIRED, true, false, "clock" },
		{ LEASERUN_LOSS_EXPIRED, false, false, "expired" },
		{ LEASERUN_LOSS_EXPIRED, false, true, "own_pause" },
		{ LEASERUN_LOSS_TAKEN, true, false, "taken_over" },
		{ LEASERUN_LOSS_TAKEN, false, false, "taken_over" },
		{ LEASERUN_LOSS_TAKEN, false, true, "own_pause" },
		{ LEASERUN_LOSS_DELETED, true, true, "deleted" },
		{ LEASERUN_LOSS_FORCED, true, true, "forced" },
		{ LEASERUN_LOSS_NONE, true, false, "unknown" },
	};
	enum loss_reason r, other;
	size_t i, same = 0;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		is_str(loss_name(loss_by_store(cases[i].loss, cases[i].early,
		    cases[i].paused)), cases[i].name, "loss %d early %d paused "
		    "%d", cases[i].loss, cases[i].early, cases[i].paused);
	for (r = 0; r < LOSS_REASONS; r++) {
		for (other = 0; other < r; other++)
			same += strcmp(loss_name(r), loss_name(other)) == 0 ||
			    strcmp(loss_text(r), loss_text(other)) == 0;
	}
	is_int((intmax_t)same, 0, "no two reasons alike");
}

int
main(void)
{
	plan(22 + 6 + 1 + 10);
	test_refused();
	test_round();
	test_cuts();
	test_losses();
	return done();
}
