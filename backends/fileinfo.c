/*
 * The texts in a record of the file backend: one "key value" a line, a value
 * without control characters.  Must never trust what it reads.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fileinfo.h"

#define NOTE_END	0
#define NOTE_MARK	1

#define NS_PER_MS	INT64_C(1000000)

/* Sums of two numbers up to here do not overflow. */
#define NUMBER_MAX	(INT64_MAX / 2)

struct text {
	char	buf[RECORD_TEXT_SIZE];
	size_t	len;
};

static bool
is_plain(const char *value, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++) {
		if ((unsigned char)value[i] < ' ' || value[i] == 0x7f)
			return false;
	}
	return true;
}

/* What does not fit or could not be read back is left out: unknown. */
static void
put(struct text *text, const char *key, const char *value)
{
	size_t room = sizeof(text->buf) - text->len;
	int n;

	if (!is_plain(value, strlen(value)))
		return;
	n = snprintf(text->buf + text->len, room, "%s %s\n", key, value);
	if (n > 0 && (size_t)n < room)
		text->len += (size_t)n;
	text->buf[text->len] = '\0';
}

static void
put_number(struct text *text, const char *key, int64_t number)
{
	char value[24];

	snprintf(value, sizeof(value), "%" PRId64, number);
	put(text, key, value);
}

/* "" and false when it is missing, does not fit or is not plain. */
static bool
get(const char *text, const char *key, char *value, size_t size)
{
	size_t keylen = strlen(key), len;
	const char *line, *end;

	value[0] = '\0';
	for (line = text; (end = strchr(line, '\n')) != NULL; line = end + 1) {
		if (strncmp(line, key, keylen) != 0 || line[keylen] != ' ')
			continue;
		line += keylen + 1;
		len = (size_t)(end - line);
		if (len == 0 || len >= size || !is_plain(line, len))
			return false;
		memcpy(value, line, len);
		value[len] = '\0';
		return true;
	}
	return false;
}

/* 0 and false when it is missing, not digits alone, or larger than max. */
static bool
get_number(const char *text, const char *key, int64_t max, int64_t *number)
{
	char value[24];
	int64_t n = 0;
	size_t i;

	*number = 0;
	if (!get(text, key, value, sizeof(value)))
		return false;
	for (i = 0; value[i] != '\0'; i++) {
		if (value[i] < '0' || value[i] > '9' ||
		    __builtin_mul_overflow(n, INT64_C(10), &n) ||
		    __builtin_add_overflow(n, (int64_t)(value[i] - '0'), &n) ||
		    n > max)
			return false;
	}
	*number = n;
	return true;
}

int64_t
fileinfo_unix_ms(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_REALTIME, &ts) == -1)
		return 0;
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / NS_PER_MS;
}

/* "" when there is none to read. */
static void
boot_id(char boot[FILEINFO_BOOT_SIZE])
{
	ssize_t n = 0;
	int fd;

	fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd != -1) {
		n = read(fd, boot, FILEINFO_BOOT_SIZE - 1);
		close(fd);
	}
	boot[n > 0 ? n : 0] = '\0';
}

static void
parse_grant(const char *text, struct fileinfo *info)
{
	get(text, "owner", info->owner, sizeof(info->owner));
	get(text, "label", info->label, sizeof(info->label));
	get(text, "host", info->host, sizeof(info->host));
	get(text, "boot", info->boot, sizeof(info->boot));
	get_number(text, "pid", INT32_MAX, &info->pid);
	get_number(text, "acquired-ms", NUMBER_MAX, &info->acquired_ms);
	get_number(text, "acquired-ns", NUMBER_MAX, &info->acquired_ns);
	get_number(text, "hold-ns", NUMBER_MAX, &info->hold_ns);
}

static void
parse_end(const char *text, struct fileinfo *info)
{
	int64_t n;

	get_number(text, "released", INT64_MAX, &n);
	info->released = (uint64_t)n;
	info->has_end = get_number(text, "status", 255, &n);
	info->end_status = (int)n;
	get_number(text, "ended-ms", NUMBER_MAX, &info->end_ms);
	get_number(text, "ran-ms", NUMBER_MAX, &info->ran_ms);
	if (get_number(text, "unhold", 1, &n) && n == 1)
		info->unheld = fileinfo_is_released(info);
}

/* A mark for somebody else, or for an earlier grant, is no mark. */
static void
parse_mark(const char *text, struct fileinfo *info)
{
	char owner[LEASERUN_OWNER_SIZE];
	int64_t token, unhold;

	if (!get(text, "owner", owner, sizeof(owner)) ||
	    !get_number(text, "token", INT64_MAX, &token) ||
	    !fileinfo_is_owner(info, owner) ||
	    (uint64_t)token != info->record.number)
		return;
	info->revoked = true;
	if (get_number(text, "unhold", 1, &unhold) && unhold == 1)
		info->unheld = true;
}

int
fileinfo_read(int fd, struct fileinfo *info)
{
	char text[RECORD_TEXT_SIZE];
	int tries = 0;

	memset(info, 0, sizeof(*info));
	if (fd == -1) {
		info->record.slot = -1;
		return 0;
	}
	/* Damage may be no more than a holder that is writing just now. */
	do {
		if (record_read(fd, &info->record) == -1)
			return -1;
	} while (info->record.state != RECORD_GOOD &&
	    info->record.state != RECORD_NEW && ++tries < 3);
	parse_grant(info->record.text, info);
	/* A note that cannot be read is no note. */
	if (record_note_read(fd, NOTE_END, text) == 0)
		parse_end(text, info);
	if (record_note_read(fd, NOTE_MARK, text) == 0)
		parse_mark(text, info);
	return 0;
}

int
fileinfo_grant(int fd, struct fileinfo *info, uint64_t token,
    const struct leaserun_request *request, int64_t now)
{
	char boot[FILEINFO_BOOT_SIZE];
	struct text text = { .len = 0 };

	boot_id(boot);
	put(&text, "owner", request->owner);
	put(&text, "label", request->label);
	put(&text, "host", request->host);
	put_number(&text, "pid", request->pid);
	put_number(&text, "acquired-ms", fileinfo_unix_ms());
	put_number(&text, "acquired-ns", now);
	put(&text, "boot", boot);
	if (request->min_hold_ns > 0)
		put_number(&text, "hold-ns", request->min_hold_ns);
	return record_write(fd, &info->record, token, text.buf);
}

int
fileinfo_end(int fd, const struct fileinfo *info, uint64_t token,
    const struct leaserun_end *end)
{
	struct text text = { .len = 0 };
	bool ran = end->ran;

	put_number(&text, "released", (int64_t)token);
	/* What never started has to hold nobody else back... */
	if (!ran)
		put_number(&text, "unhold", 1);
	/* ...and leaves the last real end in its place. */
	if (ran || info->has_end) {
		put_number(&text, "status",
		    ran ? end->status : info->end_status);
		put_number(&text, "ended-ms",
		    ran ? fileinfo_unix_ms() : info->end_ms);
		put_number(&text, "ran-ms",
		    ran ? end->ran_ns / NS_PER_MS : info->ran_ms);
	}
	return record_note_write(fd, NOTE_END, text.buf);
}

int
fileinfo_mark(int fd, const struct fileinfo *info, bool unhold)
{
	struct text text = { .len = 0 };

	put(&text, "owner", info->owner);
	put_number(&text, "token", (int64_t)info->record.number);
	if (unhold)
		put_number(&text, "unhold", 1);
	return record_note_write(fd, NOTE_MARK, text.buf);
}

bool
fileinfo_is_released(const struct fileinfo *info)
{
	/* Higher, if the slot of the last grant was damaged after its end. */
	return info->released >= info->record.number;
}

bool
fileinfo_is_owner(const struct fileinfo *info, const char *owner)
{
	return info->owner[0] != '\0' && strcmp(info->owner, owner) == 0;
}

/*
 * How long ago the grant was; by the wall clock after a reboot, or where two
 * containers count their boot time differently.  Negative when that clock went
 * back; INT64_MIN when nothing is known.
 */
static int64_t
age_ns(const struct fileinfo *info, int64_t now)
{
	char boot[FILEINFO_BOOT_SIZE];
	int64_t ms;

	boot_id(boot);
	if (boot[0] != '\0' && strcmp(boot, info->boot) == 0 &&
	    info->acquired_ns <= now)
		return now - info->acquired_ns;
	ms = fileinfo_unix_ms() - info->acquired_ms;
	if (info->acquired_ms == 0 || ms > NUMBER_MAX / NS_PER_MS ||
	    ms < -NUMBER_MAX / NS_PER_MS)
		return INT64_MIN;
	return ms * NS_PER_MS;
}

int64_t
fileinfo_hold_left(const struct fileinfo *info, int64_t now)
{
	int64_t age, hold = info->hold_ns;

	if (hold == 0 || info->unheld)
		return 0;
	/* A clock that went back may prolong a hold, but not for ever. */
	age = age_ns(info, now);
	if (age < -hold || age >= hold)
		return 0;
	return age < 0 ? hold : hold - age;
}

void
fileinfo_previous(const struct fileinfo *info, const char *name, int64_t now,
    struct leaserun_entry *entry)
{
	int64_t age;

	memset(entry, 0, sizeof(*entry));
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	memcpy(entry->owner, info->owner, sizeof(entry->owner));
	memcpy(entry->label, info->label, sizeof(entry->label));
	memcpy(entry->host, info->host, sizeof(entry->host));
	entry->pid = info->pid;
	entry->token = info->record.number;
	entry->acquired_ms = info->acquired_ms;
	entry->held_for_ms = (age = age_ns(info, now)) < 0 ? -1 :
	    age / NS_PER_MS;
	entry->expires_in_ms = -1;
	entry->waiting = -1;
	entry->has_end = info->has_end;
	entry->end_status = info->end_status;
	entry->end_ms = info->end_ms;
	entry->ran_ms = info->ran_ms;
}

/* Nobody, or somebody whose grant is not recorded yet. */
static void
forget_holder(struct leaserun_entry *entry)
{
	entry->owner[0] = '\0';
	entry->label[0] = '\0';
	entry->host[0] = '\0';
	entry->pid = 0;
	entry->acquired_ms = 0;
	entry->held_for_ms = -1;
}

void
fileinfo_entry(const struct fileinfo *info, const char *name, bool busy,
    int64_t now, struct leaserun_entry *entry)
{
	bool released = fileinfo_is_released(info);
	int64_t left;

	fileinfo_previous(info, name, now, entry);
	if (busy)
		entry->state = info->revoked && !released ?
		    LEASERUN_REVOKING : LEASERUN_BUSY;
	else if ((left = fileinfo_hold_left(info, now)) > 0) {
		/* Nobody runs; what is told of is the grant that holds it. */
		entry->state = LEASERUN_HOLDING;
		entry->pid = 0;
		entry->expires_in_ms = left / NS_PER_MS;
		entry->expires_ms = fileinfo_unix_ms() + entry->expires_in_ms;
	}
	entry->unclean = !busy && entry->token != 0 && !released;
	if (busy ? released : entry->state == LEASERUN_FREE)
		forget_holder(entry);
}
