/*
 * The URL and the options of the Postgres backend.  libpq itself reads the URL,
 * services, environment and defaults; touches no network.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgurl.h"

#define DEFAULT_TABLE	"leaserun"
#define IDENTIFIER_MAX	63

static enum leaserun_result
no_memory(const struct leaserun_host *host)
{
	host->error(host, "out of memory");
	return LEASERUN_UNAVAILABLE;
}

/* In a list from libpq; NULL: unset or empty. */
static const PQconninfoOption *
option_of(const PQconninfoOption *info, const char *keyword)
{
	for (; info != NULL && info->keyword != NULL; info++) {
		if (strcmp(info->keyword, keyword) == 0)
			return info->val == NULL || info->val[0] == '\0' ?
			    NULL : info;
	}
	return NULL;
}

static const char *
value_of(const PQconninfoOption *info, const char *keyword)
{
	const PQconninfoOption *option = option_of(info, keyword);

	return option == NULL ? NULL : option->val;
}

const char *
pgurl_value(const struct pgurl *url, const char *keyword)
{
	return value_of(url->info, keyword);
}

/* A text of libpq about a URL may quote the password from it. */
static enum leaserun_result
refuse(const struct leaserun_host *host, const char *url, const char *text)
{
	char line[LEASERUN_ERROR_SIZE];

	snprintf(line, sizeof(line), "%s", text == NULL ? "" : text);
	line[strcspn(line, "\n")] = '\0';
	if (strpbrk(strstr(url, "//"), ":@") != NULL ||
	    strstr(url, "password") != NULL)
		host->error(host, "the backend URL is not one that libpq "
		    "understands (it may hold a password, so no part of it "
		    "is shown); write postgres://user@host:port/database");
	else
		host->error(host, "the backend URL is not one that libpq "
		    "understands: %s; write "
		    "postgres://user@host:port/database", line);
	return LEASERUN_MISCONFIGURED;
}

/*
 * Lets libpq put together what the URL, a service, the environment and its
 * defaults say.  It does so only for a connection, so one is begun with a value
 * that it refuses before it looks at the network.  NULL: something else is
 * wrong, *text says what, if there is memory for it.  With a password it does
 * not look for one, and so does not complain about the file that has them.
 */
static PQconninfoOption *
complete(const char *url, const char *refused, const char *password,
    char **text)
{
	const char *keywords[] = { "dbname", refused,
	    password == NULL ? NULL : "password", NULL };
	const char *values[] = { url, "-", password, NULL };
	PQconninfoOption *info = NULL;
	PGconn *conn;

	*text = NULL;
	conn = PQconnectStartParams(keywords, values, 1);
	if (conn == NULL)
		return NULL;
	if (strstr(PQerrorMessage(conn), refused) != NULL)
		info = PQconninfo(conn);
	else
		*text = strdup(PQerrorMessage(conn));
	PQfinish(conn);
	return info;
}

static char *
copy(const char *text)
{
	return text == NULL ? NULL : strdup(text);
}

/* Takes the next element off a list with commas; NULL: it is empty. */
static const char *
next_element(char **list)
{
	char *element = *list;
	size_t len;

	if (element == NULL)
		return NULL;
	len = strcspn(element, ",");
	*list = element[len] == '\0' ? NULL : element + len + 1;
	element[len] = '\0';
	return len == 0 ? NULL : element;
}

static unsigned int
count_elements(const char *list)
{
	unsigned int n = 1;

	for (; list != NULL && *list != '\0'; list++)
		n += *list == ',';
	return n;
}

/* One port is for all hosts; otherwise the lists have the same length. */
static enum leaserun_result
split_hosts(struct pgurl *url, const struct leaserun_host *host)
{
	static const char *const keywords[] = { "host", "hostaddr", "port" };
	const char *given[3], *port = NULL;
	char *rest[3];
	unsigned int i, n[3];

	for (i = 0; i < 3; i++) {
		given[i] = value_of(url->info, keywords[i]);
		n[i] = count_elements(given[i]);
		url->lists[i] = copy(given[i]);
		rest[i] = url->lists[i];
		if (given[i] != NULL && rest[i] == NULL)
			return no_memory(host);
	}
	url->nhosts = given[1] != NULL ? n[1] : n[0];
	if (url->nhosts > PGURL_HOSTS) {
		host->error(host, "the backend URL names %u hosts; at most %d "
		    "are tried", url->nhosts, PGURL_HOSTS);
		return LEASERUN_MISCONFIGURED;
	}
	if ((given[0] != NULL && n[0] != url->nhosts) ||
	    (n[2] != 1 && n[2] != url->nhosts)) {
		host->error(host, "the backend URL names %u hosts, %u ports "
		    "and %u addresses; give one of each, or one port for all",
		    n[0], n[2], given[1] == NULL ? 0 : n[1]);
		return LEASERUN_MISCONFIGURED;
	}
	for (i = 0; i < url->nhosts; i++) {
		if (i == 0 || n[2] > 1)
			port = next_element(&rest[2]);
		url->hosts[i].name = next_element(&rest[0]);
		url->hosts[i].address = next_element(&rest[1]);
		url->hosts[i].port = port;
	}
	return LEASERUN_OK;
}

/* One part of a name, as SQL wants it quoted. */
static bool
quote(char **to, const char *part, size_t len)
{
	if (len == 0 || len > IDENTIFIER_MAX)
		return false;
	*(*to)++ = '"';
	for (; len > 0; len--, part++) {
		if (*part == '"')
			*(*to)++ = '"';
		*(*to)++ = *part;
	}
	*(*to)++ = '"';
	return true;
}

static void
free_table(struct pgurl *url)
{
	free(url->table);
	free(url->schema);
	free(url->quoted);
	free(url->list);
	url->table = url->schema = url->quoted = url->list = NULL;
	url->name = NULL;
}

/* SCHEMA.TABLE or TABLE, as they are in the catalog. */
static enum leaserun_result
set_table(struct pgurl *url, const struct leaserun_host *host,
    const char *name)
{
	const char *dot = strchr(name, '.');
	size_t len = dot == NULL ? 0 : (size_t)(dot - name);
	char *to;
	bool ok;

	free_table(url);
	to = url->table = malloc(2 * strlen(name) + 6);
	url->list = strdup(name);
	if (to == NULL || url->list == NULL)
		return no_memory(host);
	url->name = url->list;
	ok = strchr(name, '@') == NULL;
	if (dot != NULL) {
		ok = ok && quote(&to, name, len);
		url->schema = strndup(name, len);
		url->quoted = strndup(url->table, (size_t)(to - url->table));
		if (url->schema == NULL || url->quoted == NULL)
			return no_memory(host);
		url->name += len + 1;
		*to++ = '.';
	}
	ok = ok && quote(&to, url->name, strlen(url->name));
	*to = '\0';
	if (ok)
		return LEASERUN_OK;
	host->error(host, "option 'table' is TABLE or SCHEMA.TABLE, each of 1 "
	    "to %d bytes and without '@'", IDENTIFIER_MAX);
	return LEASERUN_MISCONFIGURED;
}

static enum leaserun_result
set_connection(struct pgurl *url, const struct leaserun_host *host,
    const char *value)
{
	static const char *const words[] = { "auto", "keep", "reopen" };
	unsigned int i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i], value) != 0)
			continue;
		url->connection = (enum pgurl_connection)i;
		return LEASERUN_OK;
	}
	host->error(host, "option 'connection' is 'auto', 'keep' or 'reopen', "
	    "not '%s'", value);
	return LEASERUN_MISCONFIGURED;
}

static enum leaserun_result
set_option(struct pgurl *url, const struct leaserun_host *host,
    const struct leaserun_option *option)
{
	if (strcmp(option->key, "table") == 0)
		return set_table(url, host, option->value);
	if (strcmp(option->key, "connection") == 0)
		return set_connection(url, host, option->value);
	host->error(host, "the postgres backend has no option '%s', only "
	    "'table', 'connection' and 'keep'; options of libpq belong into "
	    "the URL",
	    option->key);
	return LEASERUN_MISCONFIGURED;
}

/*
 * The URL to be typed once more, owned by the caller.  Where there may be a
 * password that is not easily told from the rest it is just a word.
 */
static char *
without_password(const char *url)
{
	const char *user = strstr(url, "://") + 3, *at, *colon = NULL;
	size_t n = strcspn(user, "/?#");
	char *copy;

	at = memchr(user, '@', n);
	if (strcasestr(url, "pass") != NULL || strchr(user, '%') != NULL ||
	    strpbrk(url, "\"$`\\'") != NULL ||
	    strchr(at == NULL ? user : at + 1, '@') != NULL)
		return strdup("URL");
	if (at != NULL)
		colon = memchr(user, ':', (size_t)(at - user));
	if (colon == NULL)
		return strdup(url);
	if (asprintf(&copy, "%.*s%s", (int)(colon - url), url, at) == -1)
		return NULL;
	return copy;
}

/* With the table, unless it is the one that is meant without it. */
static char *
init_for(const char *given, const char *table)
{
	bool is_default = strcmp(table, DEFAULT_TABLE) == 0;
	char *url = without_password(given), *command = NULL;
	const char *quote;

	if (url == NULL)
		return NULL;
	/* For a shell. */
	quote = strpbrk(url, "&?*;()<>| ") == NULL ? "" : "\"";
	if (asprintf(&command, "leaserun init --backend %s%s%s%s%s", quote,
	    url, quote, is_default ? "" : " -o table=",
	    is_default ? "" : table) == -1)
		command = NULL;
	free(url);
	return command;
}

/* libpq takes a text without a slash for a list of keywords. */
static bool
is_url(const char *url)
{
	return strncmp(url, "postgres://", 11) == 0 ||
	    strncmp(url, "postgresql://", 13) == 0;
}

/*
 * Of characters that are not encoded libpq may take half a password for a host,
 * and the program may hide less of it than there is.  One '@' more is fine in
 * "host/database?user=me@realm": there no colon is before it.
 */
static bool
is_ambiguous(const char *url)
{
	const char *start = strstr(url, "//") + 2, *at = strrchr(start, '@');
	const char *end = start + strcspn(start, "/?#");

	if (at == NULL || strcspn(start, "@/?#") == (size_t)(at - start))
		return false;
	return at < end || *end != '/' || at < end + strcspn(end, "?") ||
	    memchr(start, ':', (size_t)(at - start)) != NULL;
}

/* One that is no number may be a password whose '@' is missing. */
static enum leaserun_result
check_port(const struct leaserun_host *host, const char *port)
{
	size_t n = port == NULL ? 0 : strspn(port, "0123456789");

	if (port == NULL || (n <= 5 && port[n] == '\0' && atoi(port) > 0 &&
	    atoi(port) <= 65535))
		return LEASERUN_OK;
	host->error(host, "a port in the backend URL is not a number from 1 to "
	    "65535 (it may be a password, so it is not shown); write "
	    "postgres://user@host:port/database");
	return LEASERUN_MISCONFIGURED;
}

/*
 * libpq puts its own default in, which would look for tickets.  The same word
 * counts only where it can be told from that, so not in a service.
 */
static const char *
given_gssencmode(const PQconninfoOption *info, const char *url)
{
	const PQconninfoOption *option = option_of(info, "gssencmode");
	PQconninfoOption *own;
	bool is_default;

	if (option == NULL)
		return NULL;
	if (option->compiled == NULL ||
	    strcmp(option->val, option->compiled) != 0 ||
	    getenv("PGGSSENCMODE") != NULL)
		return option->val;
	own = PQconninfoParse(url, NULL);
	is_default = value_of(own, "gssencmode") == NULL;
	PQconninfoFree(own);
	return is_default ? NULL : option->val;
}

enum leaserun_result
pgurl_parse(struct pgurl *url, const struct leaserun_host *host,
    const struct leaserun_target *target)
{
	enum leaserun_result result;
	PQconninfoOption *info;
	char *text;
	size_t i;

	memset(url, 0, sizeof(*url));
	if (!is_url(target->url)) {
		host->error(host, "the backend URL begins with postgres:// or "
		    "postgresql://, with both slashes");
		return LEASERUN_MISCONFIGURED;
	}
	if (is_ambiguous(target->url)) {
		host->error(host, "in user, password and database '@', '#', "
		    "'?' and '/' are written as %%40, %%23, %%3F and %%2F");
		return LEASERUN_MISCONFIGURED;
	}
	url->info = complete(target->url, "gssencmode", NULL, &text);
	if (url->info == NULL) {
		result = text == NULL ? no_memory(host) :
		    refuse(host, target->url, text);
		free(text);
		return result;
	}
	/* The one value that the first look cannot tell. */
	info = complete(target->url, "sslmode", "-", &text);
	free(text);
	url->gssencmode = copy(given_gssencmode(info, target->url));
	PQconninfoFree(info);
	result = split_hosts(url, host);
	for (i = 0; result == LEASERUN_OK && i < url->nhosts; i++)
		result = check_port(host, url->hosts[i].port);
	if (result == LEASERUN_OK)
		result = set_table(url, host, DEFAULT_TABLE);
	for (i = 0; result == LEASERUN_OK && i < target->noptions; i++)
		result = set_option(url, host, &target->options[i]);
	if (result == LEASERUN_OK && (url->init = init_for(target->url,
	    url->list)) == NULL)
		result = no_memory(host);
	return result;
}

void
pgurl_free(struct pgurl *url)
{
	unsigned int i;

	for (i = 0; i < sizeof(url->lists) / sizeof(url->lists[0]); i++)
		free(url->lists[i]);
	PQconninfoFree(url->info);
	free(url->gssencmode);
	free(url->init);
	free_table(url);
}
