/*
 * Stands between a client and a server of this host and harms what passes, as
 * a control file tells it at that moment.  Knows no protocol.
 *
 *	wire TARGET_PORT CONTROL
 *
 * Listens on a free port of 127.0.0.1, which it writes to CONTROL.port.  The
 * control file has one line, WORD [ARGUMENT] [match TEXT] [once]:
 *	pass		the same as no file
 *	refuse		closes new connections at once
 *	stall		copies nothing any more, keeps everything open
 *	cut		closes instead of passing on a request
 *	close		passes on a request, closes instead of the answer
 *	drop		passes on a request, swallows the answer
 *	delay MS	passes on the answer so much later
 *	answer FILE	gives the contents of FILE for an answer, and closes
 * With match it does that to requests that contain the text only.  With once
 * the file is renamed to CONTROL.done when it was done.
 */
#include <sys/socket.h>

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAIRS_MAX	512
#define CHUNK		65536
#define TICK_MS		10

enum what { PASS, REFUSE, STALL, CUT, CLOSE, DROP, DELAY, ANSWER };

static const char *const words[] = {
	"pass", "refuse", "stall", "cut", "close", "drop", "delay", "answer"
};

struct order {
	enum what	what;
	char		argument[512];
	char		match[256];
	bool		once;
};

struct pair {
	int		client;		/* -1: no pair */
	int		server;
	bool		matched;	/* by the last request */
	bool		answered;	/* that one, at least in part */
	bool		deaf;		/* the rest of its answer is dropped */
	int64_t		due_ms;		/* held back until then; 0: nothing */
	size_t		len;
	char		held[CHUNK];
};

static struct pair pairs[PAIRS_MAX];
static const char *control;
static struct sockaddr_in target;

static int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Cuts " WORD..." off the end of a line; NULL: it is not there. */
static char *
cut_off(char *line, const char *word)
{
	char *found = strstr(line, word);

	if (found == NULL)
		return NULL;
	*found = '\0';
	return found + strlen(word);
}

static struct order
read_order(void)
{
	struct order order = { .what = PASS };
	char line[1024] = "", *rest;
	size_t i;
	FILE *f;

	if ((f = fopen(control, "re")) == NULL)
		return order;
	if (fgets(line, sizeof(line), f) == NULL)
		line[0] = '\0';
	fclose(f);
	line[strcspn(line, "\n")] = '\0';
	order.once = cut_off(line, " once") != NULL;
	if ((rest = cut_off(line, " match ")) != NULL)
		snprintf(order.match, sizeof(order.match), "%s", rest);
	rest = strchr(line, ' ');
	if (rest != NULL) {
		*rest++ = '\0';
		snprintf(order.argument, sizeof(order.argument), "%s", rest);
	}
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(line, words[i]) == 0)
			order.what = (enum what)i;
	}
	return order;
}

static void
done(const struct order *order)
{
	char path[1024];

	snprintf(path, sizeof(path), "%s.done", control);
	if (order->once)
		rename(control, path);
}

static void
pair_close(struct pair *p)
{
	close(p->client);
	close(p->server);
	p->client = p->server = -1;
	p->due_ms = 0;
}

static bool
send_all(int fd, const char *data, size_t len)
{
	ssize_t n;

	while (len > 0) {
		n = send(fd, data, len, MSG_NOSIGNAL);
		if (n <= 0)
			return false;
		data += n;
		len -= (size_t)n;
	}
	return true;
}

static void
send_file(int fd, const char *path)
{
	char data[CHUNK];
	ssize_t n;
	int in;

	if ((in = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		return;
	while ((n = read(in, data, sizeof(data))) > 0)
		send_all(fd, data, (size_t)n);
	close(in);
}

static void
accept_one(int listener)
{
	struct order order = read_order();
	int i, client, server;

	client = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (client == -1)
		return;
	for (i = 0; i < PAIRS_MAX && pairs[i].client != -1; i++)
		continue;
	server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (i == PAIRS_MAX || (order.what == REFUSE &&
	    order.match[0] == '\0') || connect(server,
	    (struct sockaddr *)&target, sizeof(target)) == -1) {
		close(client);
		close(server);
		if (order.what == REFUSE)
			done(&order);
		return;
	}
	pairs[i].client = client;
	pairs[i].server = server;
	pairs[i].matched = pairs[i].answered = pairs[i].deaf = false;
	pairs[i].due_ms = 0;
}

static void
from_client(struct pair *p, const struct order *order)
{
	char data[CHUNK];
	ssize_t n = recv(p->client, data, sizeof(data), 0);

	if (n <= 0) {
		pair_close(p);
		return;
	}
	if (p->answered)
		p->matched = p->answered = p->deaf = false;
	if (memmem(data, (size_t)n, order->match, strlen(order->match)) !=
	    NULL)
		p->matched = true;
	if (p->matched && (order->what == CUT || order->what == ANSWER)) {
		if (order->what == ANSWER)
			send_file(p->client, order->argument);
		shutdown(p->client, SHUT_WR);
		pair_close(p);
		done(order);
	} else if (!send_all(p->server, data, (size_t)n))
		pair_close(p);
}

static void
from_server(struct pair *p, const struct order *order)
{
	ssize_t n = recv(p->server, p->held, sizeof(p->held), 0);

	if (n <= 0) {
		pair_close(p);
		return;
	}
	p->answered = true;
	if (p->deaf)
		return;
	if (!p->matched || order->what < CLOSE || order->what > DELAY) {
		if (!send_all(p->client, p->held, (size_t)n))
			pair_close(p);
		return;
	}
	if (order->what == CLOSE)
		pair_close(p);
	else if (order->what == DELAY) {
		p->len = (size_t)n;
		p->due_ms = now_ms() + atoi(order->argument);
	} else
		p->deaf = true;
	done(order);
}

static void
send_due(struct pair *p)
{
	if (p->client == -1 || p->due_ms == 0 || now_ms() < p->due_ms)
		return;
	p->due_ms = 0;
	if (!send_all(p->client, p->held, p->len))
		pair_close(p);
}

static void
serve(int listener)
{
	static struct pollfd fds[2 * PAIRS_MAX + 1];
	struct order order;
	bool stalled;
	int i;

	order = read_order();
	stalled = order.what == STALL;
	fds[0] = (struct pollfd){ .fd = listener, .events = POLLIN };
	for (i = 0; i < PAIRS_MAX; i++) {
		fds[2 * i + 1] = (struct pollfd){ .events = POLLIN,
		    .fd = stalled ? -1 : pairs[i].client };
		fds[2 * i + 2] = (struct pollfd){ .events = POLLIN,
		    .fd = stalled || pairs[i].due_ms != 0 ? -1 :
		    pairs[i].server };
	}
	poll(fds, 2 * PAIRS_MAX + 1, TICK_MS);
	/* What was said just before something came counts for it. */
	order = read_order();
	if (fds[0].revents != 0)
		accept_one(listener);
	if (order.what == STALL)
		return;
	for (i = 0; i < PAIRS_MAX; i++) {
		if (fds[2 * i + 1].revents != 0 && pairs[i].client != -1)
			from_client(&pairs[i], &order);
		if (fds[2 * i + 2].revents != 0 && pairs[i].client != -1)
			from_server(&pairs[i], &order);
		send_due(&pairs[i]);
	}
}

static void
write_port(const struct sockaddr_in *addr)
{
	char path[1024], draft[1024];
	FILE *f;

	snprintf(path, sizeof(path), "%s.port", control);
	snprintf(draft, sizeof(draft), "%s.draft", control);
	if ((f = fopen(draft, "we")) == NULL)
		err(1, "%s", draft);
	fprintf(f, "%d\n", ntohs(addr->sin_port));
	if (fclose(f) != 0 || rename(draft, path) == -1)
		err(1, "%s", path);
}

int
main(int argc, char *argv[])
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);
	int i, listener;

	if (argc != 3)
		errx(64, "usage: relay TARGET_PORT CONTROL");
	control = argv[2];
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	target = addr;
	target.sin_port = htons((uint16_t)atoi(argv[1]));
	for (i = 0; i < PAIRS_MAX; i++)
		pairs[i].client = pairs[i].server = -1;
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener == -1 || bind(listener, (struct sockaddr *)&addr,
	    sizeof(addr)) == -1 || listen(listener, 128) == -1 ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) == -1)
		err(1, "cannot listen");
	write_port(&addr);
	for (;;)
		serve(listener);
}
