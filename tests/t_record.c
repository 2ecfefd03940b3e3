/*
 * The record: whatever happens to the file, no number comes twice, and what
 * cannot be known is an error.
 */
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../src/record.h"
#include "tap.h"

#define SIZE		8192
#define BLOCK		992
#define TEXT_AT		24
#define MAX		((uint64_t)INT64_MAX)

static const off_t slot_at[2] = { 0, 4096 };

/* A file with its contents as they were at one moment. */
struct image {
	unsigned char	bytes[SIZE];
	size_t		size;
};

static int fd = -1;

static void
save(struct image *image)
{
	struct stat st;

	if (fstat(fd, &st) == -1 || st.st_size > SIZE ||
	    pread(fd, image->bytes, SIZE, 0) != st.st_size)
		abort();
	image->size = (size_t)st.st_size;
	memset(image->bytes + image->size, 0, SIZE - image->size);
}

static void
load(const struct image *image)
{
	if (ftruncate(fd, 0) == -1 ||
	    pwrite(fd, image->bytes, image->size, 0) != (ssize_t)image->size)
		abort();
}

static void
load_text(const char *bytes, size_t size)
{
	if (ftruncate(fd, 0) == -1 ||
	    pwrite(fd, bytes, size, 0) != (ssize_t)size)
		abort();
}

static struct record
get(void)
{
	struct record record;

	if (record_read(fd, &record) == -1)
		abort();
	return record;
}

static enum record_state
state(void)
{
	return get().state;
}

/* An empty file, then these numbers one after the other. */
static void
fill(uint64_t first, unsigned int n)
{
	struct record record;
	char text[32];

	if (ftruncate(fd, 0) == -1)
		abort();
	for (record = get(); n > 0; n--, first++) {
		snprintf(text, sizeof(text), "text of %" PRIu64, first);
		if (record_write(fd, &record, first, text) == -1)
			abort();
	}
}

/* The first byte of the text. */
static void
damage(int slot)
{
	if (pwrite(fd, "?", 1, slot_at[slot] + TEXT_AT) != 1)
		abort();
}

static uint64_t
unix_ms(void)
{
	return (uint64_t)time(NULL) * 1000;
}

static void
test_new(void)
{
	struct record record;
	uint64_t next;

	load_text("", 0);
	record = get();
	ok(record.state == RECORD_NEW && record.number == 0 &&
	    record.slot == -1 && record.text[0] == '\0', "an empty file");
	next = record_next(&record, 0);
	ok(next + 1000 > unix_ms() && next < unix_ms() + 2000,
	    "begins with the Unix time in milliseconds");
	is_int((intmax_t)record_next(&record, MAX - 5), (intmax_t)(MAX - 4),
	    "but above a floor");
	is_int(record_write(fd, &record, next, "first"), 0, "first write");
	ok(record.state == RECORD_GOOD && record.number == next &&
	    strcmp(record.text, "first") == 0, "is in the struct");
	record = get();
	ok(record.state == RECORD_GOOD && record.number == next &&
	    strcmp(record.text, "first") == 0, "and in the file");
	is_int((intmax_t)record_next(&record, 0), (intmax_t)next + 1,
	    "then it counts by one");
	damage(0);
	is_int(state(), RECORD_HALF, "one slot lost");
	load_text("", 0);
	fill(next, 1);
	damage(1);
	ok(get().number == next, "both slots have the first number");
}

static void
test_good(void)
{
	struct record record;
	uint64_t i, bad = 0;

	fill(100, 1);
	record = get();
	for (i = 101; i < 200; i++) {
		if (record_write(fd, &record, i, "x") == -1 ||
		    record.number != i || get().number != i ||
		    get().slot != record.slot || get().state != RECORD_GOOD)
			bad++;
	}
	is_int((intmax_t)bad, 0, "a hundred writes");
	i = (uint64_t)record.slot;
	record_write(fd, &record, 200, "y");
	ok((uint64_t)record.slot == 1 - i, "the slots take turns");
	is_int((intmax_t)record_next(&record, 0), 201, "one more");
	is_int((intmax_t)record_next(&record, 200), 201, "a floor below it");
	is_int((intmax_t)record_next(&record, 201), 202, "a floor above it");
	record_write(fd, &record, 5000, "jump");
	is_int((intmax_t)record_next(&record, 0), 5001, "after a jump");
}

static void
test_refused(void)
{
	char text[RECORD_TEXT_SIZE + 1];
	struct record record;
	struct image before, after;

	fill(10, 3);
	save(&before);
	record = get();
	errno = 0;
	ok(record_write(fd, &record, 12, "") == -1 && errno == EINVAL,
	    "the same number again");
	ok(record_write(fd, &record, 11, "") == -1, "a lower number");
	ok(record_write(fd, &record, MAX + 1, "") == -1, "one too large");
	memset(text, 'x', sizeof(text));
	text[RECORD_TEXT_SIZE] = '\0';
	ok(record_write(fd, &record, 13, text) == -1 && errno == EINVAL,
	    "a text too long");
	save(&after);
	ok(memcmp(&before, &after, sizeof(before)) == 0, "nothing was written");
	text[RECORD_TEXT_SIZE - 1] = '\0';
	ok(record_write(fd, &record, 13, text) == 0 &&
	    strcmp(get().text, text) == 0, "the longest text");
	damage(0);
	damage(1);
	record = get();
	ok(record_write(fd, &record, MAX, "") == -1 && errno == EINVAL,
	    "a damaged record is not written");
}

static void
test_half(void)
{
	struct record record;
	int slot, bad = 0;

	for (slot = 0; slot < 2; slot++) {
		fill(100, 3);
		damage(slot);
		record = get();
		bad += record.state != RECORD_HALF || record.slot != 1 - slot ||
		    record_next(&record, 0) <= 102;
		bad += record_next(&record, 0) != record.number + 2;
		/* The lost number may have been the floor's next. */
		bad += record_next(&record, 900) != 902;
		bad += record_write(fd, &record, 200, "repaired") == -1;
		bad += record.state != RECORD_GOOD || state() != RECORD_GOOD ||
		    get().number != 200;
		damage(slot);
		bad += get().number != 200;
		is_int(bad, 0, "slot %d damaged: the other, +2, repaired",
		    slot);
	}
}

static void
test_damaged(void)
{
	static const struct {
		const char	*what;
		const char	*bytes;
		size_t		 size;
	} junk[] = {
		{ "a digit", "4", 1 },
		{ "digits and zeros", "41\0\0\0", 5 },
		{ "a negative number", "-5", 2 },
		{ "a huge number", "99999999999999999999", 20 },
		{ "a line from elsewhere", "42\r\n", 4 },
		{ "our magic alone", "leaserun", 8 },
	};
	struct image image;
	struct record record;
	size_t i;

	for (i = 0; i < sizeof(junk) / sizeof(junk[0]); i++) {
		load_text(junk[i].bytes, junk[i].size);
		record = get();
		ok(record.state == RECORD_DAMAGED &&
		    record_next(&record, 0) == 0, "%s", junk[i].what);
	}
	fill(100, 3);
	damage(0);
	damage(1);
	record = get();
	ok(record.state == RECORD_DAMAGED && record.slot == -1 &&
	    record.number == 0 && record_next(&record, 7) == 0,
	    "both slots damaged");
	memset(&image, 0, sizeof(image));
	image.size = SIZE;
	load(&image);
	is_int(state(), RECORD_DAMAGED, "nothing but zeros in full size");
	for (i = 0; i < SIZE; i++)
		image.bytes[i] = (unsigned char)random();
	load(&image);
	for (i = 1; i < 1280; i++) {
		if (pwrite(fd, image.bytes, SIZE, (off_t)(i * SIZE)) != SIZE)
			abort();
	}
	is_int(state(), RECORD_DAMAGED, "10 MB of noise");
}

/* A bit that flips costs the slot, or says nothing. */
static void
test_flips(void)
{
	struct image image, flipped;
	int half = 0, same = 0;
	struct record record;
	size_t i, slot;

	fill(100, 3);
	save(&image);
	for (slot = 0; slot < 2; slot++) {
		for (i = 0; i < BLOCK * 8; i++) {
			flipped = image;
			flipped.bytes[(size_t)slot_at[slot] + i / 8] ^=
			    (unsigned char)(1 << i % 8);
			load(&flipped);
			record = get();
			if (record.state == RECORD_HALF)
				half += record_next(&record, 0) > 102;
			else if (record.state == RECORD_GOOD)
				same += record.number == 102 &&
				    strcmp(record.text, "text of 102") == 0;
		}
	}
	is_int(half + same, 2 * BLOCK * 8, "no bit that flips does harm");
	is_int(half, 2 * 8 * (TEXT_AT + (int)sizeof("text of 102") + 4),
	    "any in head, number, text and sum is noticed");
}

/* Cut short anywhere: never good with a lower number, never new but at 0. */
static void
test_truncated(void)
{
	int empty = 0, unsafe = 0;
	struct record record;
	struct image image;
	size_t size, full;
	unsigned int n;

	for (n = 1; n <= 3; n++) {
		fill(100, n);
		save(&image);
		full = image.size;
		for (size = 0; size < full; size++) {
			image.size = size;
			load(&image);
			record = get();
			if (record.state == RECORD_NEW)
				empty += size == 0 ? 1 : 1000;
			else if (record.state != RECORD_DAMAGED &&
			    record_next(&record, 0) <= 100 + n - 1)
				unsafe++;
		}
	}
	is_int(empty, 3, "cut short it is new at length 0 alone");
	is_int(unsafe, 0, "and never gives a number twice");
}

/* CRC-32C by the book. */
static uint32_t
checksum(const void *data, size_t size)
{
	const unsigned char *p = data;
	uint32_t sum = UINT32_MAX;
	int bit;

	while (size-- > 0) {
		sum ^= *p++;
		for (bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ (sum & 1 ? 0x82f63b78 : 0);
	}
	return ~sum;
}

/* What a later program would write; 16 bytes of it never change. */
static void
test_foreign(void)
{
	struct head {
		char		magic[8];
		uint32_t	version;
		uint32_t	sum;
	} head = {
		.magic = { 'l', 'e', 'a', 's', 'e', 'r', 'u', 'n' },
		.version = 2
	};
	struct record record;
	int slot;

	head.sum = checksum(&head, offsetof(struct head, sum));
	for (slot = 0; slot < 2; slot++) {
		fill(100, 3);
		if (pwrite(fd, &head, sizeof(head), slot_at[slot]) !=
		    sizeof(head))
			abort();
		record = get();
		ok(record.state == RECORD_FOREIGN && record.number == 0 &&
		    record_next(&record, 0) == 0, "slot %d of a newer version",
		    slot);
		ok(record_write(fd, &record, MAX, "") == -1 && errno == EINVAL,
		    "is not written over");
	}
}

/* What a power cut may leave of a write behind its first `done' bytes. */
enum rest {
	REST_OLD,		/* what was there before */
	REST_ZERO,
	REST_NOISE,
	REST_SHORT,		/* the file ends there, if it was growing */
	NRESTS
};

static void
tear(struct image *to, const struct image *old, const struct image *new,
    size_t from, size_t done, enum rest rest)
{
	size_t i, at = from + done, end = from + BLOCK;

	*to = *old;
	memcpy(to->bytes + from, new->bytes + from, done);
	for (i = at; rest != REST_OLD && i < end; i++)
		to->bytes[i] = rest == REST_NOISE ? (unsigned char)random() : 0;
	to->size = old->size < end ? end : old->size;
	if (rest == REST_SHORT && old->size < end)
		to->size = old->size < at ? at : old->size;
}

/* How many prefixes of the write lead to a number at or below `granted'. */
static int
torn(const struct image *old, const struct image *new, off_t from,
    uint64_t granted, bool may_be_new)
{
	struct record record;
	struct image image;
	size_t done;
	int rest, bad = 0;

	for (done = 0; done <= BLOCK; done++) {
		for (rest = 0; rest < NRESTS; rest++) {
			tear(&image, old, new, (size_t)from, done,
			    (enum rest)rest);
			load(&image);
			record = get();
			if (record_next(&record, 0) <= granted ||
			    (record.state == RECORD_NEW && !may_be_new))
				bad++;
			/* And it can be used at once; a sample, as it syncs. */
			else if (done % 62 == 0 && (record_write(fd, &record,
			    record_next(&record, 0), "next") == -1 ||
			    state() != RECORD_GOOD))
				bad++;
		}
	}
	return bad;
}

static void
test_torn(void)
{
	struct image old, first, new;
	uint64_t number;
	struct record record;

	/* A GOOD record: one write, into either slot. */
	for (number = 102; number < 104; number++) {
		fill(100, (unsigned int)(number - 100));
		save(&old);
		record = get();
		record_write(fd, &record, number, "new");
		save(&new);
		is_int(torn(&old, &new, slot_at[record.slot], number - 1,
		    false), 0, "a write into slot %d torn anywhere",
		    record.slot);
	}

	/* A HALF record, 102 lost: the damaged slot first, then the other. */
	fill(100, 3);
	damage(1);
	save(&old);
	record = get();
	record_write(fd, &record, 103, "new");
	save(&new);
	is_int(torn(&old, &new, slot_at[1], 102, false), 0,
	    "the first half of a repair torn");
	first = old;
	memcpy(first.bytes + slot_at[1], new.bytes + slot_at[1], BLOCK);
	is_int(torn(&first, &new, slot_at[0], 103, false), 0,
	    "the second half of a repair torn");

	/* A NEW one: slot 1 first, and no number was used before. */
	memset(&old, 0, sizeof(old));
	fill(100, 1);
	save(&new);
	is_int(torn(&old, &new, slot_at[1], 0, true), 0,
	    "the first write of all torn");
	first = old;
	memcpy(first.bytes + slot_at[1], new.bytes + slot_at[1], BLOCK);
	first.size = (size_t)slot_at[1] + BLOCK;
	is_int(torn(&first, &new, slot_at[0], 100, false), 0,
	    "its second half torn");
}

/* What a process killed at any moment leaves. */
static void
test_killed(void)
{
	uint64_t granted = 0, last, bad = 0;
	char file[] = "killed.XXXXXX";
	struct record record;
	int i, log, status;
	pid_t child;

	load_text("", 0);
	if ((log = mkstemp(file)) == -1)
		abort();
	unlink(file);
	for (i = 0; i < 100; i++) {
		if ((child = fork()) == 0) {
			for (record = get();; record = get()) {
				last = record_next(&record, 0);
				/* The job uses it, once it is written. */
				if (record_write(fd, &record, last, "") == -1 ||
				    pwrite(log, &last, sizeof(last), 0) == -1)
					_exit(1);
			}
		}
		usleep((useconds_t)random() % 3000);
		kill(child, SIGKILL);
		waitpid(child, &status, 0);
		if (pread(log, &last, sizeof(last), 0) == sizeof(last)) {
			bad += last < granted;
			granted = last;
		}
		record = get();
		bad += record_next(&record, 0) <= granted ||
		    !WIFSIGNALED(status);
	}
	is_int((intmax_t)bad, 0, "killed 100 times (last %" PRIu64 ")",
	    granted);
	close(log);
}

/* Writes with room for `limit' bytes of file: 0, or the errno. */
static int
write_limited(rlim_t limit, uint64_t number)
{
	struct rlimit before, small;
	struct record record;
	int error = 0;

	record = get();
	if (getrlimit(RLIMIT_FSIZE, &before) == -1)
		abort();
	small = before;
	small.rlim_cur = limit;
	if (setrlimit(RLIMIT_FSIZE, &small) == -1)
		abort();
	if (record_write(fd, &record, number, "limited") == -1)
		error = errno;
	if (setrlimit(RLIMIT_FSIZE, &before) == -1)
		abort();
	return error;
}

static void
test_full(void)
{
	int bad = 0, full = -1, saved = fd;
	struct record record;
	rlim_t limit;

	signal(SIGXFSZ, SIG_IGN);
	for (limit = 0; limit < SIZE; limit += 64) {
		load_text("", 0);
		if (write_limited(limit, 100) == 0)
			bad++;		/* it never has its full size */
		record = get();
		if (record.state != RECORD_NEW && record.state != RECORD_HALF &&
		    record.state != RECORD_GOOD)
			bad++;
		if (record_write(fd, &record, 200, "") == -1 ||
		    state() != RECORD_GOOD)
			bad++;
	}
	is_int(bad, 0, "no room for a new record: an error, then usable");

	for (bad = 0, limit = 0; limit < SIZE; limit += 64) {
		fill(100, 2);		/* the next one goes into slot 1 */
		if (write_limited(limit, 102) == 0)
			bad += limit < 4096 + BLOCK;
		else
			bad += limit >= 4096 + BLOCK;
		record = get();
		bad += record.number < 101 || record_next(&record, 0) < 102;
	}
	is_int(bad, 0, "no room for the next number: the last one stays");

	if ((full = open("/dev/full", O_RDWR | O_CLOEXEC)) != -1) {
		fd = full;
		record = get();
		errno = 0;
		ok(record_write(fd, &record, 1, "") == -1 && errno == ENOSPC &&
		    record.number == 0, "a full disk");
		fd = saved;
		close(full);
	} else
		ok(0, "no /dev/full");
}

static void
test_unusable(void)
{
	int saved = fd, bad = 0, readonly;
	char text[RECORD_TEXT_SIZE];
	struct record record, good;
	char path[64];

	fill(100, 1);
	good = get();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	readonly = open(path, O_RDONLY | O_CLOEXEC);
	bad += record_read(readonly, &record) == -1 || record.number != 100;
	bad += record_write(readonly, &record, 101, "") != -1;
	is_int(bad, 0, "a descriptor that is read only");
	close(readonly);

	fd = -1;
	ok(record_read(-1, &record) == -1 && errno == EBADF, "no descriptor");
	ok(record_write(-1, &good, 101, "") == -1 && errno == EBADF &&
	    good.number == 100, "and the struct stays as it was");
	ok(record_note_read(-1, 0, text) == -1 &&
	    record_note_write(-1, 0, "") == -1, "nor for a note");
	fd = saved;
}

static void
test_overflow(void)
{
	struct record record;

	fill(MAX - 2, 2);
	record = get();
	is_int((intmax_t)record_next(&record, 0), INT64_MAX, "the last number");
	is_int(record_write(fd, &record, MAX, "last"), 0, "is written");
	is_int((intmax_t)get().number, INT64_MAX, "and read");
	is_int((intmax_t)record_next(&record, 0), 0, "then there is none");
	is_int((intmax_t)record_next(&record, UINT64_MAX), 0,
	    "nor above a floor that is out of range");
	fill(MAX - 1, 1);
	damage(0);
	record = get();
	is_int((intmax_t)record_next(&record, 0), 0, "nor two further on");
	fill(1, 1);
	record = get();
	is_int((intmax_t)record_next(&record, MAX), 0, "nor above the highest");
	load_text("", 0);
	record = get();
	is_int((intmax_t)record_next(&record, MAX), 0, "nor for a new record");
}

static void
test_notes(void)
{
	char text[RECORD_TEXT_SIZE], longest[RECORD_TEXT_SIZE + 1];
	struct record record;
	int note, bad = 0;

	load_text("", 0);
	for (note = 0; note < 2; note++)
		bad += record_note_read(fd, note, text) == -1 ||
		    text[0] != '\0';
	is_int(bad, 0, "no note in an empty file");

	fill(100, 2);
	for (note = 0; note < 2; note++)
		bad += record_note_read(fd, note, text) == -1 ||
		    text[0] != '\0';
	is_int(bad, 0, "nor in a new record");
	bad += record_note_write(fd, 0, "how it ended") == -1;
	bad += record_note_write(fd, 1, "please end") == -1;
	bad += record_note_read(fd, 0, text) == -1 ||
	    strcmp(text, "how it ended") != 0;
	bad += record_note_read(fd, 1, text) == -1 ||
	    strcmp(text, "please end") != 0;
	is_int(bad, 0, "two notes");
	record = get();
	ok(record.state == RECORD_GOOD && record.number == 101 &&
	    strcmp(record.text, "text of 101") == 0, "leave the slots alone");
	record_write(fd, &record, 102, "");
	record_write(fd, &record, 103, "");
	bad += record_note_read(fd, 0, text) == -1 ||
	    strcmp(text, "how it ended") != 0;
	is_int(bad, 0, "and are left alone by them");

	memset(longest, 'n', sizeof(longest));
	longest[RECORD_TEXT_SIZE] = '\0';
	ok(record_note_write(fd, 0, longest) == -1 && errno == EINVAL,
	    "a note too long");
	longest[RECORD_TEXT_SIZE - 1] = '\0';
	ok(record_note_write(fd, 0, longest) == 0 &&
	    record_note_read(fd, 0, text) == 0 && strcmp(text, longest) == 0,
	    "the longest note");
	if (pwrite(fd, "?", 1, 2048 + TEXT_AT) != 1)
		abort();
	ok(record_note_read(fd, 0, text) == 0 && text[0] == '\0' &&
	    state() == RECORD_GOOD, "a damaged note is none");
	ok(record_note_read(fd, 2, text) == -1 && errno == EINVAL &&
	    record_note_read(fd, -1, text) == -1 &&
	    record_note_write(fd, 2, "") == -1, "there are two");
}

/* A slot is no note and a note is no slot, wherever they are copied. */
static void
test_mixed_up(void)
{
	char block[BLOCK], text[RECORD_TEXT_SIZE];

	fill(100, 2);
	record_note_write(fd, 0, "note");
	if (pread(fd, block, BLOCK, 0) != BLOCK ||
	    pwrite(fd, block, BLOCK, 6144) != BLOCK)
		abort();
	ok(record_note_read(fd, 1, text) == 0 && text[0] == '\0',
	    "a slot in the place of a note");
	if (pread(fd, block, BLOCK, 2048) != BLOCK ||
	    pwrite(fd, block, BLOCK, 0) != BLOCK)
		abort();
	is_int(state(), RECORD_HALF, "a note in the place of a slot");
}

static void
test_repeat(void)
{
	struct record record;
	int slot;

	fill(100, 0);
	record = get();
	is_int(record_repeat(fd, &record), -1, "nothing to repeat");
	fill(100, 1);
	record = get();
	ok(record.is_double, "the first write is a double one");
	for (slot = 0; slot < 2; slot++) {
		fill(100, 3);
		record = get();
		ok(!record.is_double, "a later one is not");
		is_int(record_repeat(fd, &record), 0, "repeated");
		ok(record.is_double, "and it says so");
		record = get();
		ok(record.is_double && record.number == 102 &&
		    strcmp(record.text, "text of 102") == 0,
		    "both slots have it");
		damage(slot);
		record = get();
		ok(record.state == RECORD_HALF && record.number == 102 &&
		    !record.is_double, "slot %d may be lost then", slot);
		is_int(record_repeat(fd, &record), 0, "repaired");
		is_int(state(), RECORD_GOOD, "it is good again");
	}
}

int
main(void)
{
	char file[] = "record.XXXXXX";

	plan(90);
	srandom(1);
	if ((fd = mkstemp(file)) == -1)
		abort();
	unlink(file);
	test_new();
	test_good();
	test_refused();
	test_half();
	test_damaged();
	test_flips();
	test_truncated();
	test_foreign();
	test_torn();
	test_killed();
	test_full();
	test_unusable();
	test_overflow();
	test_notes();
	test_mixed_up();
	test_repeat();
	close(fd);
	return done();
}
