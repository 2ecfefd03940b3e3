/*
 * The record of a name in the file backend, and of a fence, as anyone may have
 * written it.  The first byte says which checksums are put right, without which
 * no input would get far.  A number that is read is never one that is passed
 * by, and what is written on top of it is read again.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "../backends/fileinfo.h"
#include "fuzz.h"

#define RECORD_SIZE	8192

/* As record.c has it. */
struct block {
	char		magic[8];
	uint32_t	version;
	uint32_t	head_sum;
	uint64_t	number;
	char		text[RECORD_TEXT_SIZE];
	uint32_t	sum;
	uint32_t	unused;
};

static const size_t places[] = { 0, 4096, 2048, 6144 };

static void
put_right(uint8_t *file, size_t at)
{
	struct block b;

	memcpy(&b, file + at, sizeof(b));
	memcpy(b.magic, "leaserun", sizeof(b.magic));
	b.head_sum = record_sum(&b, offsetof(struct block, head_sum));
	b.sum = record_sum(&b, offsetof(struct block, text) +
	    strnlen(b.text, sizeof(b.text)));
	memcpy(file + at, &b, sizeof(b));
}

static void
check_written(int fd)
{
	struct record r, again;
	uint64_t number;

	fuzz_check(record_read(fd, &r) == 0);
	number = record_next(&r, 0);
	fuzz_check(number == 0 || number > r.number);
	if (number == 0 || record_write(fd, &r, number, "text\n") == -1)
		return;
	fuzz_check(record_read(fd, &again) == 0);
	fuzz_check(again.state == RECORD_GOOD && again.number == number &&
	    strcmp(again.text, "text\n") == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct leaserun_request request = {
		.name = "job", .owner = "a:0", .label = "a", .host = "b",
		.pid = 1, .ttl_ns = 1,
	};
	static uint8_t file[RECORD_SIZE];
	struct fuzz f = { data, size };
	uint8_t right = fuzz_byte(&f);
	struct leaserun_entry e;
	struct fileinfo info;
	size_t i, n = 0;
	int fd;

	/* In pieces, so that a short input reaches all of them. */
	memset(file, 0, sizeof(file));
	for (i = 0; i < 4 && f.size > 0; i++) {
		n = f.size < sizeof(struct block) ? f.size :
		    sizeof(struct block);
		memcpy(file + places[i], f.data, n);
		f.data += n;
		f.size -= n;
		if ((right >> i & 1) != 0)
			put_right(file, places[i]);
	}
	fd = fuzz_file(file, (right & 0x40) != 0 ? 4096 + n : sizeof(file));
	fuzz_check(fileinfo_read(fd, &info) == 0);
	fileinfo_entry(&info, "job", (right & 0x10) != 0, 1, &e);
	fuzz_entry(NULL, &e);
	fileinfo_previous(&info, "job", 1, &e);
	fuzz_entry(NULL, &e);
	fuzz_check(fileinfo_hold_left(&info, 1) >= 0);
	if ((right & 0x20) != 0 && record_next(&info.record, 7) != 0)
		fuzz_check(fileinfo_grant(fd, &info, record_next(&info.record,
		    7), &request, 1) == 0 && fileinfo_read(fd, &info) == 0 &&
		    fileinfo_is_owner(&info, "a:0"));
	check_written(fd);
	close(fd);
	return 0;
}
