/*
 * A datagram socket as the system log and the service manager have one: appends
 * what comes to standard output, a line "--" after each datagram.  With -p
 * there is "from PID" in front.  listen [-p] PATH|@NAME
 */
#include <sys/socket.h>
#include <sys/un.h>

#include <err.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void
say_sender(struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct ucred who;

	if (c == NULL || c->cmsg_type != SCM_CREDENTIALS)
		errx(1, "a datagram of nobody");
	memcpy(&who, CMSG_DATA(c), sizeof(who));
	printf("from %ld\n", (long)who.pid);
}

int
main(int argc, char *argv[])
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char buf[65536], control[CMSG_SPACE(sizeof(struct ucred))];
	struct iovec iov = { .iov_base = buf, .iov_len = sizeof(buf) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	const char *path = argv[argc - 1];
	bool has_sender = argc == 3 && strcmp(argv[1], "-p") == 0;
	socklen_t len = sizeof(sun);
	ssize_t n;
	int fd;

	if (argc != 2 + has_sender || strlen(path) >= sizeof(sun.sun_path))
		errx(64, "usage: listen [-p] PATH|@NAME");
	strcpy(sun.sun_path, path);
	if (*path == '@') {
		sun.sun_path[0] = '\0';
		len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
		    strlen(path));
	}
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd == -1 || (has_sender && setsockopt(fd, SOL_SOCKET, SO_PASSCRED,
	    &(int){ 1 }, sizeof(int)) == -1) ||
	    bind(fd, (struct sockaddr *)&sun, len) == -1)
		err(1, "%s", path);
	alarm(300);
	for (;;) {
		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		if ((n = recvmsg(fd, &msg, 0)) <= 0)
			return 0;
		if (has_sender)
			say_sender(&msg);
		fwrite(buf, 1, (size_t)n, stdout);
		printf("\n--\n");
		fflush(stdout);
	}
}
