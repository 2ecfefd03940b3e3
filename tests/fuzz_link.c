/*
 * A message on the link, of any size and content and with descriptors: taken
 * in one direction at most, with numbers that are in their range; and no
 * descriptor is lost.
 */
#include <sys/socket.h>

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "../src/link.h"
#include "fuzz.h"

#define FDS_MAX	4

static void
send_raw(int fd, const uint8_t *data, size_t size, unsigned int nfds)
{
	union {
		struct cmsghdr	hdr;
		char		room[CMSG_SPACE(FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data,
	    .iov_len = size };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fds[FDS_MAX] = { fd, fd, fd, fd };

	memset(&control, 0, sizeof(control));
	if (nfds > 0) {
		mh.msg_control = &control;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		control.hdr.cmsg_level = SOL_SOCKET;
		control.hdr.cmsg_type = SCM_RIGHTS;
		control.hdr.cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(&control.hdr), fds, nfds * sizeof(int));
	}
	fuzz_check(sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) ==
	    (ssize_t)size);
}

static bool
receive(int fd, bool from_guard, size_t sent)
{
	struct link_msg msg;
	enum link_event event;
	int passed;

	event = link_recv(fd, from_guard, &msg, &passed);
	fuzz_check(event != LINK_NOTHING);
	fuzz_check(passed == -1 || (event == LINK_GOT &&
	    msg.type == LINK_START));
	if (passed != -1)
		close(passed);
	if (event != LINK_GOT)
		return false;
	fuzz_check(sent == sizeof(msg));
	fuzz_check(msg.version == LINK_VERSION);
	fuzz_check((msg.type >= LINK_STARTED) == from_guard);
	if (msg.type == LINK_SIGNAL || msg.type == LINK_STOPPED)
		fuzz_check(msg.number > 0 && msg.number <= SIGRTMAX);
	if (msg.type == LINK_END || msg.type == LINK_ENDING ||
	    msg.type == LINK_ENDED)
		fuzz_check(msg.reason < END_REASONS);
	return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz f = { data, size };
	unsigned int nfds = fuzz_byte(&f) % (FDS_MAX + 1);
	int fds[2], next;
	bool by_keeper, by_guard;

	if (f.size == 0 || f.size > 65536)
		return 0;
	fuzz_check(link_pair(fds) == 0);
	send_raw(fds[0], f.data, f.size, nfds);
	send_raw(fds[0], f.data, f.size, nfds);
	by_keeper = receive(fds[1], true, f.size);
	by_guard = receive(fds[1], false, f.size);
	fuzz_check(!by_keeper || !by_guard);
	next = dup(fds[0]);
	fuzz_check(next == fds[1] + 1 || next < fds[1]);
	close(next);
	close(fds[0]);
	close(fds[1]);
	return 0;
}
