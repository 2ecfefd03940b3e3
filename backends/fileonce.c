/*
 * The records of --once in the file backend.  A line is
 *	SUM DONE_MS TOKEN PERIOD_MS RAN_MS KEY OWNER HOST
 * with SUM, in hex, over what follows it and the blank.  Lines are appended and
 * synced; when half of a long file is too old, it is written anew.  Must never
 * take a line that it cannot read for one that is not there.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../src/record.h"
#include "fileinfo.h"
#include "fileonce.h"

#define NS_PER_MS	INT64_C(1000000)
#define LINE_SIZE	1024
#define FILE_MAX	(64 << 20)
#define PRUNE_SIZE	65536

struct line {
	int64_t		done_ms;
	uint64_t	token;
	int64_t		period_ms;
	int64_t		ran_ms;
	char		key[LEASERUN_KEY_SIZE];
	char		owner[LEASERUN_OWNER_SIZE];
	char		host[3 * LEASERUN_HOST_SIZE];
};

/* The whole file, in memory. */
struct lines {
	char		*text;		/* owned; NUL-terminated */
	size_t		 size;
	size_t		 whole;		/* up to the last whole line */
};

/* --- One line --- */

/* Words without blanks and control characters; "-" for none. */
static void
encode(const char *from, char *to, size_t size)
{
	size_t used = 0;

	for (; *from != '\0' && used + 4 <= size; from++) {
		if (*from <= ' ' || *from > '~' || *from == '%')
			used += (size_t)snprintf(to + used, size - used,
			    "%%%02X", (unsigned char)*from);
		else
			to[used++] = *from;
	}
	if (used == 0)
		to[used++] = '-';
	to[used] = '\0';
}

static void
decode(const char *from, char *to, size_t size)
{
	unsigned int byte;
	size_t used = 0;
	int n;

	for (; *from != '\0' && used + 1 < size; from++) {
		n = 0;
		if (*from == '%' &&
		    sscanf(from, "%%%2x%n", &byte, &n) == 1 && n == 3 &&
		    byte != 0) {
			to[used++] = (char)byte;
			from += 2;
		} else
			to[used++] = *from;
	}
	to[used] = '\0';
}

/* The line without its newline; false: it is not one of ours. */
static bool
line_read(const char *text, size_t len, struct line *line)
{
	char copy[LINE_SIZE];
	unsigned int sum;
	int start = 0, end = 0;

	/* Not strlen(), which would read the whole file for each line. */
	if (len >= sizeof(copy) || memchr(text, '\0', len) != NULL)
		return false;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (sscanf(copy, "%8x %n", &sum, &start) != 1 || start != 9 ||
	    record_sum(copy + start, len - (size_t)start) != sum)
		return false;
	return sscanf(copy + start, "%" SCNd64 " %" SCNu64 " %" SCNd64 " %"
	    SCNd64 " %240s %231s %194s%n", &line->done_ms, &line->token,
	    &line->period_ms, &line->ran_ms, line->key, line->owner,
	    line->host, &end) == 7 && (size_t)(start + end) == len;
}

static int
line_write(char *text, size_t size, const struct line *line)
{
	char rest[LINE_SIZE];

	snprintf(rest, sizeof(rest), "%" PRId64 " %" PRIu64 " %" PRId64 " %"
	    PRId64 " %s %s %s", line->done_ms, line->token, line->period_ms,
	    line->ran_ms, line->key, line->owner, line->host);
	return snprintf(text, size, "%08x %s\n",
	    record_sum(rest, strlen(rest)), rest);
}

/* --- The file --- */

static enum leaserun_result
load(const struct filedir *dir, int fd, const char *file, struct lines *lines)
{
	struct stat st;
	ssize_t n;

	memset(lines, 0, sizeof(*lines));
	if (fd == -1)
		return LEASERUN_OK;
	if (fstat(fd, &st) == -1)
		return filedir_fail(dir, "look at", file, errno);
	if (st.st_size > FILE_MAX) {
		dir->host->error(dir->host, "'%s/%s' is too large to be read; "
		    "move it away if its keys are of no use any more",
		    dir->path, file);
		return LEASERUN_MISCONFIGURED;
	}
	lines->text = malloc((size_t)st.st_size + 1);
	if (lines->text == NULL)
		return filedir_fail(dir, "read", file, ENOMEM);
	n = pread(fd, lines->text, (size_t)st.st_size, 0);
	if (n == -1) {
		free(lines->text);
		lines->text = NULL;
		return filedir_fail(dir, "read", file, errno);
	}
	lines->size = lines->whole = (size_t)n;
	lines->text[n] = '\0';
	/* An append that was cut off was never confirmed. */
	while (lines->whole > 0 && lines->text[lines->whole - 1] != '\n')
		lines->whole--;
	return LEASERUN_OK;
}

/* A repair that forgets no other key. */
static enum leaserun_result
damaged(const struct filedir *dir, const char *file, const struct lines *lines,
    size_t pos)
{
	size_t i, n = 1;

	for (i = 0; i < pos; i++)
		n += lines->text[i] == '\n';
	dir->host->error(dir->host, "line %zu of '%s/%s' is damaged, so it is "
	    "not known what is done; look at what it says, and remove it: sed "
	    "-i %zud '%s/%s'", n, dir->path, file, n, dir->path, file);
	return LEASERUN_MISCONFIGURED;
}

/*
 * The line at *pos, which moves on.  OK with *found, or MISCONFIGURED: one
 * that is damaged may be the one that matters.
 */
static enum leaserun_result
next(const struct filedir *dir, const char *file, const struct lines *lines,
    size_t *pos, struct line *line, bool *found)
{
	const char *text;
	size_t len;

	*found = *pos < lines->whole;
	if (!*found)
		return LEASERUN_OK;	/* there may be no text at all */
	text = lines->text + *pos;
	len = (size_t)((const char *)memchr(text, '\n', lines->whole - *pos) -
	    text);
	*pos += len + 1;
	if (line_read(text, len, line))
		return LEASERUN_OK;
	return damaged(dir, file, lines, *pos - len - 1);
}

static enum leaserun_result
open_lines(const struct filedir *dir, int dirfd, const char *name, bool make,
    char file[FILEDIR_FILE_SIZE], int *fd, struct lines *lines)
{
	enum leaserun_result result;

	filedir_name(file, name, ".once");
	result = filedir_file(dir, dirfd, file, make, fd);
	if (result != LEASERUN_OK)
		return result;
	result = load(dir, *fd, file, lines);
	if (result != LEASERUN_OK && *fd != -1) {
		close(*fd);
		*fd = -1;
	}
	return result;
}

/* This key, or a later one of the same period. */
static bool
covers(const struct line *line, const char *key, int64_t period_ms)
{
	if (strcmp(line->key, key) == 0)
		return true;
	return period_ms > 0 && line->period_ms == period_ms &&
	    strlen(line->key) == strlen(key) && strcmp(line->key, key) > 0;
}

static enum leaserun_result
find(const struct filedir *dir, const char *file, const struct lines *lines,
    const char *key, int64_t period_ms)
{
	enum leaserun_result result;
	struct line line = { .key = "" };
	bool found = true;
	size_t pos = 0;

	for (;;) {
		result = next(dir, file, lines, &pos, &line, &found);
		if (result != LEASERUN_OK || !found)
			return result;
		if (covers(&line, key, period_ms))
			return LEASERUN_DONE;
	}
}

enum leaserun_result
fileonce_look(const struct filedir *dir, int dirfd,
    const struct leaserun_request *request)
{
	char file[FILEDIR_FILE_SIZE];
	enum leaserun_result result;
	struct lines lines;
	int fd;

	if (request->once_key == NULL)
		return LEASERUN_OK;
	result = open_lines(dir, dirfd, request->name, false, file, &fd,
	    &lines);
	if (result != LEASERUN_OK)
		return result;
	result = find(dir, file, &lines, request->once_key,
	    request->once_period_ns / NS_PER_MS);
	free(lines.text);
	if (fd != -1)
		close(fd);
	return result;
}

/* --- Recording --- */

static int
write_all(int fd, const char *text, size_t len, off_t at)
{
	ssize_t n;

	for (; len > 0; text += n, at += n, len -= (size_t)n) {
		n = pwrite(fd, text, len, at);
		if (n == -1)
			return -1;
	}
	return 0;
}

/*
 * What was cut off goes first; a failure leaves no half line behind.  The
 * directory is synced every time: whoever made or replaced the file may have
 * been killed before that.
 */
static enum leaserun_result
append(const struct filedir *dir, int dirfd, int fd, const char *file,
    const struct lines *lines, const char *text, size_t len)
{
	int error;

	if ((lines->whole == lines->size ||
	    ftruncate(fd, (off_t)lines->whole) == 0) &&
	    write_all(fd, text, len, (off_t)lines->whole) == 0 &&
	    fdatasync(fd) == 0 && fsync(dirfd) == 0)
		return LEASERUN_OK;
	error = errno;
	if (ftruncate(fd, (off_t)lines->whole) == -1)
		dir->host->debug(dir->host, "cannot cut '%s' back: %s", file,
		    strerror(errno));
	return filedir_fail(dir, "write", file, error);
}

/* How many bytes of it are still of use, from *first on. */
static size_t
useful(const struct filedir *dir, const char *file, const struct lines *lines,
    int64_t since_ms, size_t *first)
{
	struct line line = { .key = "" };
	bool found = true;
	size_t pos = 0;

	for (;;) {
		*first = pos;
		if (next(dir, file, lines, &pos, &line, &found) !=
		    LEASERUN_OK || !found || line.done_ms >= since_ms)
			return lines->whole - *first;
	}
}

/* Whole, with another name, and then in its place. */
static int
replace(const struct filedir *dir, int dirfd, const char *name,
    const char *file, const char *text, size_t len)
{
	char new[FILEDIR_FILE_SIZE];
	int fd, rc = 0;

	filedir_name(new, name, ".once-new");
	if (filedir_file(dir, dirfd, new, true, &fd) != LEASERUN_OK)
		return -1;
	if (ftruncate(fd, 0) == -1 || write_all(fd, text, len, 0) == -1 ||
	    fsync(fd) == -1 || renameat(dirfd, new, dirfd, file) == -1 ||
	    fsync(dirfd) == -1)
		rc = -1;
	close(fd);
	return rc;
}

/*
 * Lines are in the order of time, so what is too old is in front.  Nobody holds
 * a lock on this file; it may be replaced.
 */
static void
prune(const struct filedir *dir, int dirfd, const char *name, int64_t keep_ns)
{
	char file[FILEDIR_FILE_SIZE];
	struct lines lines;
	size_t first, left;
	int fd;

	if (open_lines(dir, dirfd, name, false, file, &fd, &lines) !=
	    LEASERUN_OK || fd == -1)
		return;
	left = useful(dir, file, &lines,
	    fileinfo_unix_ms() - keep_ns / NS_PER_MS, &first);
	if (lines.whole >= PRUNE_SIZE && left <= lines.whole / 2 &&
	    replace(dir, dirfd, name, file, lines.text + first, left) == -1)
		dir->host->debug(dir->host, "cannot shorten '%s': %s", file,
		    strerror(errno));
	free(lines.text);
	close(fd);
}

static enum leaserun_result
record(const struct filedir *dir, int dirfd, const struct fileonce *o)
{
	struct line line = { .done_ms = fileinfo_unix_ms(), .token = o->token,
	    .period_ms = o->end->once_period_ns / NS_PER_MS,
	    .ran_ms = o->end->ran_ns / NS_PER_MS };
	char file[FILEDIR_FILE_SIZE], text[LINE_SIZE];
	enum leaserun_result result;
	struct lines lines;
	int fd, len;

	result = open_lines(dir, dirfd, o->name, true, file, &fd, &lines);
	if (result != LEASERUN_OK)
		return result;
	snprintf(line.key, sizeof(line.key), "%s", o->end->once_key);
	snprintf(line.owner, sizeof(line.owner), "%s", o->owner);
	encode(o->host, line.host, sizeof(line.host));
	len = line_write(text, sizeof(text), &line);
	/* A try before this one may have written it already. */
	result = find(dir, file, &lines, line.key, 0);
	if (result == LEASERUN_DONE)
		result = fdatasync(fd) == -1 || fsync(dirfd) == -1 ?
		    filedir_fail(dir, "sync", file, errno) : LEASERUN_OK;
	else if (result == LEASERUN_OK)
		result = append(dir, dirfd, fd, file, &lines, text,
		    (size_t)len);
	close(fd);
	free(lines.text);
	return result;
}

enum leaserun_result
fileonce_record(const struct filedir *dir, const struct fileonce *o)
{
	enum leaserun_result result;
	int dirfd;

	result = filedir_open(dir, FILEDIR_USE, &dirfd);
	if (result != LEASERUN_OK)
		return result;
	result = record(dir, dirfd, o);
	if (result == LEASERUN_OK)
		prune(dir, dirfd, o->name, o->end->once_keep_ns);
	close(dirfd);
	return result;
}

/* --- For people --- */

static void
show(const struct line *line, leaserun_entry_fn *fn, void *arg)
{
	struct leaserun_entry e = { .state = LEASERUN_FREE,
	    .token = line->token, .held_for_ms = -1, .expires_in_ms = -1,
	    .waiting = -1, .has_end = true, .end_ms = line->done_ms,
	    .ran_ms = line->ran_ms };
	char label[LEASERUN_OWNER_SIZE];

	memcpy(e.name, line->key, sizeof(e.name));
	memcpy(e.owner, line->owner, sizeof(e.owner));
	snprintf(label, sizeof(label), "%.*s", (int)strcspn(line->owner, ":"),
	    line->owner);
	decode(label, e.label, sizeof(e.label));
	decode(line->host, e.host, sizeof(e.host));
	fn(arg, &e);
}

/* Newest first, so from the end. */
static enum leaserun_result
show_all(const struct filedir *dir, const char *file,
    const struct lines *lines, leaserun_entry_fn *fn, void *arg)
{
	enum leaserun_result result;
	size_t end = lines->whole, pos;
	struct line line = { .key = "" };
	bool found;

	while (end > 0) {
		for (pos = end - 1; pos > 0 &&
		    lines->text[pos - 1] != '\n'; pos--)
			continue;
		end = pos;
		result = next(dir, file, lines, &pos, &line, &found);
		if (result != LEASERUN_OK || !found)
			return result;
		show(&line, fn, arg);
	}
	return LEASERUN_OK;
}

enum leaserun_result
fileonce_list(void *self, const char *name, int64_t deadline,
    leaserun_entry_fn *fn, void *arg)
{
	const struct filedir *dir = self;
	char file[FILEDIR_FILE_SIZE];
	enum leaserun_result result;
	struct lines lines;
	int dirfd, fd = -1;

	(void)deadline;		/* nothing here waits */
	result = filedir_open(dir, FILEDIR_LOOK, &dirfd);
	if (result != LEASERUN_OK)
		return result;
	filedir_name(file, name, ".once");
	result = filedir_peek(dir, dirfd, file, &fd);
	if (result == LEASERUN_OK)
		result = load(dir, fd, file, &lines);
	if (result == LEASERUN_OK) {
		result = show_all(dir, file, &lines, fn, arg);
		free(lines.text);
	}
	if (fd != -1)
		close(fd);
	if (dirfd != -1)
		close(dirfd);
	return result;
}
