/*
 * A datagram socket as the system log has one: appends what comes to standard
 * output, a line "--" after each datagram.  listen PATH
 */
#include <sys/socket.h>
#include <sys/un.h>

#include <err.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int
main(int argc, char *argv[])
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	char buf[65536];
	ssize_t n;
	int fd;

	if (argc != 2 || strlen(argv[1]) >= sizeof(sun.sun_path))
		errx(64, "usage: listen PATH");
	strcpy(sun.sun_path, argv[1]);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd == -1 || bind(fd, (struct sockaddr *)&sun, sizeof(sun)) == -1)
		err(1, "%s", argv[1]);
	alarm(60);
	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		fwrite(buf, 1, (size_t)n, stdout);
		printf("\n--\n");
		fflush(stdout);
	}
	return 0;
}
