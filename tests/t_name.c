/*
 * Names, and the small helpers for text.
 */
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "../src/name.h"
#include "../src/util.h"
#include "tap.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct pair {
	const char	*name;
	const char	*encoded;
} pairs[] = {
	{ "weekly-digest", "weekly-digest" },
	{ "AZaz09._-", "AZaz09._-" },
	{ "kickoff:ACH", "kickoff%3AACH" },
	{ "a/b c", "a%2Fb%20c" },
	{ ".", "%2E" },
	{ "..", "%2E." },
	{ ".hidden", "%2Ehidden" },
	{ "a.b", "a.b" },
	{ "%", "%25" },
	{ "%2E", "%252E" },
	{ "-x", "-x" },
	{ "~!@#'\"", "%7E%21%40%23%27%22" },
	{ "\xc3\xa9", "%C3%A9" },
	{ "\xe2\x82\xac", "%E2%82%AC" },
	{ "\xf0\x9f\x98\x80", "%F0%9F%98%80" },
	{ "\xc2\xa0", "%C2%A0" },		/* the first after C1 */
	{ "\xed\x9f\xbf", "%ED%9F%BF" },	/* around the surrogates */
	{ "\xee\x80\x80", "%EE%80%80" },
	{ "\xf4\x8f\xbf\xbf", "%F4%8F%BF%BF" },	/* the last of all */
	{ "\xe2\x80\xa8", "%E2%80%A8" },	/* no control */
};

static const char *const unclean[] = {
	"\x01", "a\nb", "\t", "\x1f", "\x7f", "\x1b[31m",
	"\xc2\x80", "\xc2\x9f",			/* C1 */
	"\x80", "\xbf", "\xff", "\xfe",
	"\xc3", "\xe2\x82", "\xf0\x9f\x98",	/* cut */
	"\xc3(", "\xe2(\xa1", "\xf0(\x8c\xbc",
	"\xc0\x80", "\xc0\xaf", "\xc1\xbf",	/* too long a form */
	"\xe0\x80\xaf", "\xe0\x9f\xbf", "\xf0\x80\x80\xaf", "\xf0\x8f\xbf\xbf",
	"\xed\xa0\x80", "\xed\xbf\xbf",		/* surrogates */
	"\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf8\x88\x80\x80\x80",
	"good\xe9", "\xe9good",
};

static const char *const undecodable[] = {
	"", "%", "%2", "%2f", "%GG", "%2G", "a b", "a/b", ".", "..", ".a",
	"%41", "%2D", "a%2E", "%5F", "%00", "%0A", "%C3", "%C2%80", "\xc3\xa9",
	"%E9", "a%", "%ED%A0%80",
};

static void
test_names(void)
{
	char encoded[241], name[241];
	const char *wrong;
	size_t i;

	for (i = 0; i < COUNT(pairs); i++) {
		wrong = name_encode(pairs[i].name, encoded, sizeof(encoded));
		ok(wrong == NULL && strcmp(encoded, pairs[i].encoded) == 0,
		    "%s is encoded", pairs[i].encoded);
		ok(name_decode(pairs[i].encoded, name, sizeof(name)) == 0 &&
		    strcmp(name, pairs[i].name) == 0, "%s is decoded",
		    pairs[i].encoded);
	}
	for (i = 0; i < COUNT(unclean); i++) {
		strcpy(encoded, "untouched");
		ok(!text_is_clean(unclean[i]) && name_encode(unclean[i],
		    encoded, sizeof(encoded)) != NULL &&
		    strcmp(encoded, "untouched") == 0, "unclean: number %zu",
		    i);
	}
	for (i = 0; i < COUNT(undecodable); i++)
		ok(name_decode(undecodable[i], name, sizeof(name)) == -1,
		    "no encoded name: '%s'", undecodable[i]);
	ok(text_is_clean(""), "nothing is clean");
	is_str(name_encode("", encoded, sizeof(encoded)), "is empty",
	    "but no name");
}

static void
test_lengths(void)
{
	char name[300], encoded[241], small[4] = "abc";
	const char *wrong;

	memset(name, 'x', sizeof(name));
	name[240] = '\0';
	ok(name_encode(name, encoded, sizeof(encoded)) == NULL &&
	    strlen(encoded) == 240, "240 bytes fit");
	name[240] = 'x';
	name[241] = '\0';
	wrong = name_encode(name, encoded, sizeof(encoded));
	ok(wrong != NULL && strstr(wrong, "241") != NULL &&
	    strstr(wrong, "240") != NULL, "241 do not, with numbers");
	memset(name, ' ', 80);
	name[80] = '\0';
	ok(name_encode(name, encoded, sizeof(encoded)) == NULL,
	    "80 that take three each fit");
	name[80] = ' ';
	name[81] = '\0';
	wrong = name_encode(name, encoded, sizeof(encoded));
	ok(wrong != NULL && strstr(wrong, "243") != NULL, "81 do not");
	ok(name_encode("abcd", small, sizeof(small)) != NULL, "a small room");
	ok(name_decode("abcd", small, sizeof(small)) == -1, "for both");
	ok(name_decode("abc", small, sizeof(small)) == 0, "and all of it");
}

/* Whatever two bytes a name is made of, it comes back as it was. */
static void
test_round_trips(void)
{
	char name[3] = "", encoded[16], back[16];
	int a, b, bad = 0, taken = 0;

	for (a = 1; a < 256; a++) {
		for (b = 0; b < 256; b++) {
			name[0] = (char)a;
			name[1] = (char)b;
			if (name_encode(name, encoded, sizeof(encoded)) != NULL)
				continue;
			taken++;
			if (name_decode(encoded, back, sizeof(back)) == -1 ||
			    strcmp(back, name) != 0 ||
			    strspn(encoded, "abcdefghijklmnopqrstuvwxyz"
			    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-%")
			    != strlen(encoded) || encoded[0] == '.')
				bad++;
		}
	}
	/* 95 ASCII ones alone and in pairs, U+00A0 to U+07FF. */
	is_int(taken, 95 + 95 * 95 + 0x800 - 0xa0, "as many as there are");
	is_int(bad, 0, "all come back");
}

static const struct redaction {
	const char	*url;
	const char	*shown;
} redactions[] = {
	{ "file:", "file:" },
	{ "file:/srv/a:b@c", "file:/srv/a:b@c" },
	{ "postgres://db/ops", "postgres://db/ops" },
	{ "postgres://cron@db/ops", "postgres://cron@db/ops" },
	{ "postgres://cron@db:5432/ops", "postgres://cron@db:5432/ops" },
	{ "postgres://cron:pw@db/ops", "postgres://cron:***@db/ops" },
	{ "postgres://cron:@db/ops", "postgres://cron:@db/ops" },
	{ "postgres://:pw@db", "postgres://:***@db" },
	{ "postgresql://u:pw@h1:5432,h2:5433/ops?sslmode=require",
	    "postgresql://u:***@h1:5432,h2:5433/ops?sslmode=require" },
	{ "postgres://h1:5432,h2:5433/ops", "postgres://h1:5432,h2:5433/ops" },
	{ "postgres://u:pw@[::1]:5432/ops", "postgres://u:***@[::1]:5432/ops" },
	{ "postgres://u@[::1]:5432/ops", "postgres://u@[::1]:5432/ops" },
	{ "postgres://[fe80::1]/ops", "postgres://[fe80::1]/ops" },
	{ "postgres:///ops?host=/tmp", "postgres:///ops?host=/tmp" },
	{ "postgres://db/ops?user=me@realm",
	    "postgres://db/ops?user=me@realm" },
	{ "postgres://db:5432/ops?user=me%40realm",
	    "postgres://db:5432/ops?user=me%40realm" },
	{ "postgres://db:5432/ops?user=me@realm", "postgres://***" },
	{ "postgres://db/ops?password=pw", "postgres://db/ops?password=***" },
	{ "postgres://db/ops?password=pw&sslmode=require",
	    "postgres://db/ops?password=***&sslmode=require" },
	{ "postgres://db/ops?a=b&sslpassword=pw&PASSWORD=pw",
	    "postgres://db/ops?a=b&sslpassword=***&PASSWORD=***" },
	{ "postgres://db/ops?pass%77ord=pw",
	    "postgres://db/ops?pass%77ord=***" },
	{ "postgres://u:pw@db/ops?password=pw",
	    "postgres://u:***@db/ops?password=***" },
	{ "etcds://u:pw@h1:2379,h2:2379/locks",
	    "etcds://u:***@h1:2379,h2:2379/locks" },
	{ "etcd://h1:2379,h2:2379/locks", "etcd://h1:2379,h2:2379/locks" },
	{ "x://h/p?client_secret=pw&b=c", "x://h/p?client_secret=***&b=c" },
	/* What somebody forgot to encode. */
	{ "postgres://u:pw@pw@db/ops", "postgres://***" },
	{ "postgres://u:pw@h1,u:pw@h2/ops", "postgres://***" },
	{ "postgres://u:a#b@db/ops", "postgres://***" },
	{ "postgres://u:1?a=b@db/ops", "postgres://***" },
	{ "etcd://u:1/b@h1:2379,h2:2379/ops", "etcd://***" },
	{ "postgres://u@v@db/ops", "postgres://***" },
	{ "postgres://db/ops?password=a&b&c=d",
	    "postgres://db/ops?password=***&c=d" },
	{ "", "" },
	{ ":", ":" },
	{ "@", "@" },
	{ "word", "word" },
	{ "word:word", "word:word" },
	{ "10x", "10x" },
};

/* Nothing of "pw" may be left, whatever becomes of the rest. */
static const char *const odd[] = {
	"postgres://u:pw/pw@db/ops", "postgres://u:pw?pw@db/ops",
	"postgres://u:pw#pw@db/ops", "postgres://u:pw:pw@db/ops",
	"postgres://u:pw@db@pw/x@y", "postgres://u:pw?a=pw@db/ops",
	"postgres://u:pw", "postgres://u:pw/ops", "postgres://u:pw@",
	"postgres://:pw@", "postgres:/u:pw@db/ops", "postgres:u:pw@db/ops",
	"u:pw@db/ops", "u:pw@db", "postgres://u:1/pw@db",
	"postgres://u:1#pw@db",
	"postgres://u:1?pw@db", "host=db password=pw dbname=x",
	"host=db user=u password='pw pw'", "postgres://db?x=y?password=pw",
	"postgres://db?x=y#password=pw", "--backend=postgres://u:pw@db",
	"-bpostgres://u:pw@db", "postgres://db?pass%77%6frd=pw",
	"postgres://u:pw@db?password=pw@pw", "postgres://[u:pw@db]:pw@x",
	"postgres://u:pw@db/ops?password=pw?pw", "://u:pw@db",
	"file://u:pw@db", "postgres://a:1,b:pw@db", "password=pw",
	"postgres:////u:pw@db", "postgres://u:1?a=pw@db",
	"postgres://u:1/pw=1@db/x", "postgres://u:1,2#pw@db",
	"postgres://pw@u:1@db", "u@v:pw", "u@v@w:pw",
	"postgres://db?password=1&pw", "postgres://db?password=1&&pw&pw",
};

static void
test_redaction(void)
{
	char *shown;
	size_t i;

	for (i = 0; i < COUNT(redactions); i++) {
		shown = url_redact(redactions[i].url);
		is_str(shown, redactions[i].shown, "shown: %s",
		    redactions[i].shown);
		free(shown);
	}
	for (i = 0; i < COUNT(odd); i++) {
		shown = url_redact(odd[i]);
		ok(shown != NULL && strstr(shown, "pw") == NULL,
		    "odd: %s", odd[i]);
		free(shown);
	}
}

static void
test_numbers(void)
{
	uint64_t n = 42;

	ok(number_parse("0", 255, &n) == 0 && n == 0, "0");
	ok(number_parse("255", 255, &n) == 0 && n == 255, "the largest");
	ok(number_parse("007", 255, &n) == 0 && n == 7, "zeros in front");
	ok(number_parse("18446744073709551615", UINT64_MAX, &n) == 0 &&
	    n == UINT64_MAX, "the largest of all");
	n = 42;
	errno = 0;
	ok(number_parse("256", 255, &n) == -1 && errno == ERANGE, "one more");
	ok(number_parse("18446744073709551616", UINT64_MAX, &n) == -1 &&
	    errno == ERANGE, "overflow");
	ok(number_parse("99999999999999999999999", UINT64_MAX, &n) == -1 &&
	    errno == ERANGE, "more of it");
	ok(number_parse("", 255, &n) == -1 && errno == EINVAL, "nothing");
	ok(number_parse("-1", 255, &n) == -1 && errno == EINVAL, "a sign");
	ok(number_parse("+1", 255, &n) == -1 && errno == EINVAL, "another");
	ok(number_parse(" 1", 255, &n) == -1 && errno == EINVAL, "a space");
	ok(number_parse("1x", 255, &n) == -1 && errno == EINVAL, "a letter");
	ok(number_parse("0x1", 255, &n) == -1 && errno == EINVAL, "hex");
	is_int((intmax_t)n, 42, "nothing is set by what is refused");
}

static void
test_text(void)
{
	char text[8], hex[2][33];

	text_copy(text, sizeof(text), "1234567");
	is_str(text, "1234567", "all of it fits");
	text_copy(text, sizeof(text), "12345678");
	is_str(text, "1234567", "cut");
	text_copy(text, sizeof(text), "123456\xc3\xa9");
	is_str(text, "123456", "in front of a character of two bytes");
	text_copy(text, sizeof(text), "1234\xf0\x9f\x98\x80");
	is_str(text, "1234", "and of four");
	text_copy(text, sizeof(text), "123\xf0\x9f\x98\x80xy");
	is_str(text, "123\xf0\x9f\x98\x80", "behind one");
	text_copy(text, 1, "x");
	is_str(text, "", "no room");

	ok(random_hex(hex[0], 16) == 0 && random_hex(hex[1], 16) == 0 &&
	    strlen(hex[0]) == 32 && strspn(hex[0], "0123456789abcdef") == 32,
	    "32 digits");
	ok(strcmp(hex[0], hex[1]) != 0, "not the same twice");
	is_int((intmax_t)random_below(0), 0, "below nothing");
	is_int((intmax_t)random_below(1), 0, "below one");
}

static void
test_random(void)
{
	int i, seen = 0, bad = 0;
	uint64_t n;

	for (i = 0; i < 1000; i++) {
		n = random_below(10);
		if (n > 9)
			bad++;
		else
			seen |= 1 << n;
	}
	is_int(bad, 0, "below ten");
	is_int(seen, 0x3ff, "all of them");
}

/* In a child, which has none of 0, 1 and 2. */
static void
test_standard(void)
{
	struct stat null, st;
	int fd, status;
	pid_t pid;

	pid = fork();
	if (pid == 0) {
		close(0);
		close(1);
		close(2);
		if (fds_open_standard() == -1 || stat("/dev/null", &null) == -1)
			_exit(1);
		for (fd = 0; fd <= 2; fd++) {
			if (fstat(fd, &st) == -1 || st.st_rdev != null.st_rdev
			    || fcntl(fd, F_GETFD) != 0)
				_exit(2);
		}
		_exit(0);
	}
	ok(waitpid(pid, &status, 0) == pid && status == 0,
	    "missing ones are /dev/null");
	fd = dup(0);
	close(0);
	ok(fds_open_standard() == 0 && fcntl(0, F_GETFD) == 0,
	    "one is missing");
	dup2(fd, 0);
	close(fd);
	ok(fds_open_standard() == 0 && (fd = dup(0)) > 2, "none is missing");
	close(fd);
}

int
main(void)
{
	plan(2 * COUNT(pairs) + COUNT(unclean) + COUNT(undecodable) + 2 + 7 +
	    2 + COUNT(redactions) + COUNT(odd) + 14 + 10 + 2 + 3);
	test_names();
	test_lengths();
	test_round_trips();
	test_redaction();
	test_numbers();
	test_text();
	test_random();
	test_standard();
	return done();
}
