/*
 * Two checksummed slots written in turn, and two notes beside them.  Never
 * guesses: the number is the highest one that was synced, or an error.
 */
#include <sys/stat.h>
#include <sys/types.h>

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "record.h"

#define RECORD_SIZE	8192
#define RECORD_VERSION	1
#define NUMBER_MAX	((uint64_t)INT64_MAX)

static const char magic[8] = { 'l', 'e', 'a', 's', 'e', 'r', 'u', 'n' };

/* A slot and its neighbour in time never share a block of the file system. */
static const off_t slot_at[2] = { 0, 4096 };
static const off_t note_at[2] = { 2048, 6144 };

/*
 * One slot or note.  The first 16 bytes mean the same in every version, so that
 * a newer file is told from a damaged one.
 */
struct block {
	char		magic[8];
	uint32_t	version;
	uint32_t	head_sum;	/* of magic and version */
	uint64_t	number;		/* 0 in a note */
	char		text[RECORD_TEXT_SIZE];
	uint32_t	sum;		/* of all above, text up to its NUL */
	uint32_t	unused;
};

_Static_assert(sizeof(struct block) == 992, "the layout on disk");

enum block_state {
	BLOCK_GOOD,
	BLOCK_DAMAGED,		/* or never written */
	BLOCK_FOREIGN
};

/* Four bits at a time. */
uint32_t
record_sum(const void *data, size_t size)
{
	static const uint32_t table[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1,
		0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
		0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
		0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	const unsigned char *p = data;
	uint32_t sum = UINT32_MAX;
	size_t i;

	for (i = 0; i < size; i++) {
		sum ^= p[i];
		sum = table[sum & 15] ^ (sum >> 4);
		sum = table[sum & 15] ^ (sum >> 4);
	}
	return ~sum;
}

/* What comes behind the text is zero and says nothing. */
static uint32_t
block_sum(const struct block *b)
{
	return record_sum(b, offsetof(struct block, text) +
	    strnlen(b->text, sizeof(b->text)));
}

static void
block_make(struct block *b, uint64_t number, const char *text)
{
	memset(b, 0, sizeof(*b));
	memcpy(b->magic, magic, sizeof(b->magic));
	b->version = RECORD_VERSION;
	b->head_sum = record_sum(b, offsetof(struct block, head_sum));
	b->number = number;
	memcpy(b->text, text, strlen(text));
	b->sum = block_sum(b);
}

static enum block_state
block_check(const struct block *b)
{
	if (memcmp(b->magic, magic, sizeof(magic)) != 0 ||
	    b->head_sum != record_sum(b, offsetof(struct block, head_sum)))
		return BLOCK_DAMAGED;
	if (b->version != RECORD_VERSION)
		return BLOCK_FOREIGN;
	if (b->sum != block_sum(b) ||
	    b->number > NUMBER_MAX ||
	    memchr(b->text, '\0', sizeof(b->text)) == NULL)
		return BLOCK_DAMAGED;
	return BLOCK_GOOD;
}

/* What lies behind the end of the file reads as zero.  -1 and errno. */
static int
block_read(int fd, off_t at, struct block *b)
{
	char *p = (char *)b;
	size_t done = 0;
	ssize_t n;

	memset(b, 0, sizeof(*b));
	while (done < sizeof(*b)) {
		n = pread(fd, p + done, sizeof(*b) - done, at + (off_t)done);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1) {
			memset(b, 0, sizeof(*b));
			return -1;
		}
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return 0;
}

static int
block_write(int fd, off_t at, const struct block *b)
{
	const char *p = (const char *)b;
	size_t done = 0;
	ssize_t n;

	while (done < sizeof(*b)) {
		n = pwrite(fd, p + done, sizeof(*b) - done, at + (off_t)done);
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return -1;
		if (n == 0) {
			errno = EIO;
			return -1;
		}
		done += (size_t)n;
	}
	return 0;
}

/*
 * The first write of all fills slot 1, then slot 0, and makes the file full
 * size last.  A short file without a trace in slot 0 is thus one whose first
 * write was cut off: no number of it was ever used.
 */
static int
never_written(int fd, const struct block *slot0, bool *never)
{
	static const struct block zero;
	struct stat st;

	if (fstat(fd, &st) == -1)
		return -1;
	*never = (st.st_size == 0 || st.st_size >= slot_at[1]) &&
	    st.st_size < RECORD_SIZE &&
	    memcmp(slot0, &zero, sizeof(zero)) == 0;
	return 0;
}

int
record_read(int fd, struct record *record)
{
	enum block_state state[2] = { BLOCK_DAMAGED, BLOCK_DAMAGED };
	struct block slot[2];
	int i, best, error = 0;
	bool never;

	for (i = 0; i < 2; i++) {
		/* A bad sector is a damaged slot, if the other reads. */
		if (block_read(fd, slot_at[i], &slot[i]) == -1)
			error = errno;
		state[i] = block_check(&slot[i]);
		if (state[i] == BLOCK_GOOD && slot[i].number == 0)
			state[i] = BLOCK_DAMAGED;
	}
	memset(record, 0, sizeof(*record));
	record->slot = -1;

	/* The newer version may have counted on in its slot. */
	if (state[0] == BLOCK_FOREIGN || state[1] == BLOCK_FOREIGN) {
		record->state = RECORD_FOREIGN;
		return 0;
	}
	if (state[0] == BLOCK_DAMAGED && state[1] == BLOCK_DAMAGED) {
		if (error != 0) {
			errno = error;
			return -1;
		}
		if (never_written(fd, &slot[0], &never) == -1)
			return -1;
		record->state = never ? RECORD_NEW : RECORD_DAMAGED;
		return 0;
	}
	best = state[0] == BLOCK_DAMAGED || (state[1] == BLOCK_GOOD &&
	    slot[1].number > slot[0].number);
	record->state = state[0] == state[1] ? RECORD_GOOD : RECORD_HALF;
	record->is_double = record->state == RECORD_GOOD &&
	    slot[0].number == slot[1].number;
	record->slot = best;
	record->number = slot[best].number;
	memcpy(record->text, slot[best].text, sizeof(record->text));
	return 0;
}

int
record_write(int fd, struct record *record, uint64_t number, const char *text)
{
	struct block b;
	int slot = record->slot == 1 ? 0 : 1;

	if (record->state == RECORD_DAMAGED ||
	    record->state == RECORD_FOREIGN ||
	    number <= record->number || number > NUMBER_MAX ||
	    strlen(text) >= sizeof(b.text)) {
		errno = EINVAL;
		return -1;
	}
	block_make(&b, number, text);
	if (block_write(fd, slot_at[slot], &b) == -1 || fdatasync(fd) == -1)
		return -1;
	record->number = number;
	record->slot = slot;
	record->is_double = false;
	memcpy(record->text, b.text, sizeof(record->text));
	/* Not before the sync: one slot must be good at any moment. */
	return record->state == RECORD_GOOD ? 0 : record_repeat(fd, record);
}

int
record_repeat(int fd, struct record *record)
{
	struct block b;

	if (record->slot == -1) {
		errno = EINVAL;
		return -1;
	}
	block_make(&b, record->number, record->text);
	/* What stands may be in the cache alone. */
	if (fdatasync(fd) == -1 ||
	    block_write(fd, slot_at[1 - record->slot], &b) == -1 ||
	    ftruncate(fd, RECORD_SIZE) == -1 || fdatasync(fd) == -1)
		return -1;
	record->state = RECORD_GOOD;
	record->is_double = true;
	return 0;
}

/* 0 when the clock is before 1970. */
static uint64_t
unix_ms(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_REALTIME, &ts) == -1 || ts.tv_sec < 0)
		return 0;
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

uint64_t
record_next(const struct record *record, uint64_t floor)
{
	uint64_t base = record->number, step = 1;

	switch (record->state) {
	case RECORD_NEW:
		if ((base = unix_ms()) > floor)
			return base;
		break;
	case RECORD_GOOD:
		break;
	case RECORD_HALF:
		/*
		 * The lost slot held at most one more than the larger of this
		 * number and the floor at that time, which never goes down.
		 */
		step = 2;
		break;
	default:
		return 0;
	}
	if (base < floor)
		base = floor;
	return base > NUMBER_MAX - step ? 0 : base + step;
}

int
record_note_read(int fd, int note, char text[RECORD_TEXT_SIZE])
{
	struct block b;

	if (note < 0 || note > 1) {
		errno = EINVAL;
		return -1;
	}
	if (block_read(fd, note_at[note], &b) == -1)
		return -1;
	if (block_check(&b) != BLOCK_GOOD || b.number != 0)
		b.text[0] = '\0';
	memcpy(text, b.text, RECORD_TEXT_SIZE);
	return 0;
}

int
record_note_write(int fd, int note, const char *text)
{
	struct block b;
	struct stat st;

	if (note < 0 || note > 1 || strlen(text) >= sizeof(b.text)) {
		errno = EINVAL;
		return -1;
	}
	/* A note alone would make what was never written look damaged. */
	if (fstat(fd, &st) == -1)
		return -1;
	if (st.st_size < slot_at[1]) {
		errno = ENODATA;
		return -1;
	}
	block_make(&b, 0, text);
	return block_write(fd, note_at[note], &b);
}
