/*
 * Sends, receives and checks the messages between keeper and guard.  Must
 * never block, allocate, or let a strange message through.
 */
#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "link.h"

int
link_pair(int fds[2])
{
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC |
	    SOCK_NONBLOCK, 0, fds);
}

int
link_send(int fd, struct link_msg *msg, int pass_fd)
{
	union {
		struct cmsghdr	hdr;
		char		room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = msg, .iov_len = sizeof(*msg) };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	msg->version = LINK_VERSION;
	if (pass_fd != -1) {
		memset(&control, 0, sizeof(control));
		mh.msg_control = &control;
		mh.msg_controllen = sizeof(control);
		control.hdr.cmsg_level = SOL_SOCKET;
		control.hdr.cmsg_type = SCM_RIGHTS;
		control.hdr.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.hdr), &pass_fd, sizeof(int));
	}
	do {
		n = sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (n == -1 && errno == EINTR);
	return n == (ssize_t)sizeof(*msg) ? 0 : -1;
}

static bool
number_fits(const struct link_msg *msg)
{
	switch (msg->type) {
	case LINK_END:
	case LINK_ENDING:
		return (msg->number == SIGTERM || msg->number == SIGKILL) &&
		    msg->reason < END_REASONS;
	case LINK_SIGNAL:
	case LINK_STOPPED:
		return msg->number > 0 && msg->number <= SIGRTMAX;
	case LINK_FAILED:
		return msg->reason < FAILED_KINDS;
	case LINK_ENDED:
		return msg->reason < END_REASONS;
	case LINK_STARTED:
	case LINK_SURVIVOR:
		return msg->pid > 0;
	case LINK_START:
		return msg->token > 0 && msg->ttl_ns >= 0;
	case LINK_COMMAND:
	case LINK_RESUMED:
		return true;
	default:
		return false;
	}
}

static bool
is_valid(const struct link_msg *msg, ssize_t size, bool from_guard)
{
	return size == (ssize_t)sizeof(*msg) && msg->version == LINK_VERSION &&
	    (msg->type >= LINK_STARTED) == from_guard && number_fits(msg);
}

/* The one descriptor of a message; any more are closed. */
static int
take_fd(struct msghdr *mh)
{
	struct cmsghdr *c;
	int fd = -1, each;
	size_t i, n;

	for (c = CMSG_FIRSTHDR(mh); c != NULL; c = CMSG_NXTHDR(mh, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			memcpy(&each, CMSG_DATA(c) + i * sizeof(int),
			    sizeof(int));
			if (fd == -1)
				fd = each;
			else
				close(each);
		}
	}
	return fd;
}

enum link_event
link_recv(int fd, bool from_guard, struct link_msg *msg, int *passed)
{
	union {
		struct cmsghdr	hdr;
		char		room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = msg, .iov_len = sizeof(*msg) };
	struct msghdr mh;
	bool reset = false;
	ssize_t n;

	*passed = -1;
	for (;;) {
		memset(&mh, 0, sizeof(mh));
		mh.msg_iov = &iov;
		mh.msg_iovlen = 1;
		mh.msg_control = &control;
		mh.msg_controllen = sizeof(control);
		n = recvmsg(fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n >= 0)
			break;
		if (errno == EINTR)
			continue;
		if (errno == EAGAIN)
			return LINK_NOTHING;
		/*
		 * A peer that closed with messages of ours unread gives this
		 * once; what it sent last comes with the next call.
		 */
		if (errno != ECONNRESET || reset)
			return LINK_GONE;
		reset = true;
	}
	*passed = take_fd(&mh);
	if (n > 0 && (mh.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0 &&
	    is_valid(msg, n, from_guard) &&
	    (*passed == -1 || msg->type == LINK_START))
		return LINK_GOT;
	if (*passed != -1)
		close(*passed);
	*passed = -1;
	return LINK_GONE;
}
