/*
 * A network that can be told to fail.  Forwards TCP connections to a server on
 * the loopback, or to several in turn, as a proxy does; its port is written to
 * PORTFILE.
 *
 *	relay PORTFILE CONTROL LOG SERVERPORT...
 *
 * CONTROL is read again before each step; it holds one of
 *	pass			(also without a file)
 *	stall			nothing is forwarded, nothing is closed
 *	drop			requests are forwarded, answers are thrown away
 *	close			connections are closed, new ones at once
 *	reset			the same with RST
 *	delay MS		each chunk is forwarded so much later
 *	lose TEXT		a request that contains TEXT is forwarded, and
 *				when its answer comes the connection is reset
 *	swallow TEXT		such a one is forwarded, its answer thrown away
 *	cut TEXT		such a one is not, its connection is closed
 *	answer FILE [TEXT]	nor here, with the contents of FILE for an
 *				answer; without TEXT any request
 *	forget MS		what was idle for so long is never forwarded
 *				again, nor closed; new connections work
 *	forget-at TEXT		the same for a connection from the request on
 *				that contains TEXT
 * With -once behind the word it is done to the first of those; the file is
 * then renamed to CONTROL.done.  LOG gets a line for each connection that was
 * treated so.
 */
#include <sys/socket.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAIRS	1000
#define CHUNK	65536
#define TICK_MS	5

enum mode { PASS, STALL, DROP, CLOSE, RESET, DELAY, LOSE, SWALLOW, CUT, ANSWER,
    FORGET, FORGET_AT };

static const char *const words[] = { "pass", "stall", "drop", "close", "reset",
    "delay", "lose", "swallow", "cut", "answer", "forget", "forget-at" };

/* One direction; `data' waits until `due'. */
struct way {
	int		from, to;
	char		*data;
	size_t		len;
	int64_t		due_ms;
};

struct pair {
	struct way	 out, back;	/* out.from is the client */
	bool		 doomed;	/* its next answer is lost */
	bool		 deaf;		/* all of it is swallowed */
	bool		 answered;	/* the last request, at least in part */
	bool		 forgotten;	/* by the network */
	int64_t		 used_ms;	/* something went through it */
};

static struct pair pairs[PAIRS];
static unsigned int npairs;
static const char *control_path, *log_path;
static enum mode mode;
static char argument[512];
static bool once;
static char **server_ports;
static int nservers, turn;

static void
die(const char *what)
{
	perror(what);
	exit(1);
}

static int64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void
note(const char *what)
{
	int fd = open(log_path, O_WRONLY | O_APPEND | O_CREAT, 0644);
	char done[4096];

	if (fd == -1 || dprintf(fd, "%s\n", what) < 0)
		die(log_path);
	close(fd);
	snprintf(done, sizeof(done), "%s.done", control_path);
	if (once && rename(control_path, done) == 0)
		mode = PASS;
}

static void
read_control(void)
{
	char line[600] = "pass", word[16];
	FILE *f = fopen(control_path, "r");
	size_t i, len;

	if (f != NULL) {
		if (fgets(line, sizeof(line), f) == NULL)
			line[0] = '\0';
		fclose(f);
	}
	line[strcspn(line, "\n")] = '\0';
	argument[0] = '\0';
	if (sscanf(line, "%15s %511[^\n]", word, argument) < 1)
		return;		/* half written */
	len = strlen(word);
	once = len > 5 && strcmp(word + len - 5, "-once") == 0;
	if (once)
		word[len - 5] = '\0';
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i], word) == 0)
			mode = (enum mode)i;
	}
}

static int
socket_to(int port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
	    .sin_port = htons((uint16_t)port),
	    .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd == -1 || connect(fd, (struct sockaddr *)&sin,
	    sizeof(sin)) == 0)
		return fd;
	close(fd);
	return -1;
}

static int
listen_on_any(const char *file)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
	    .sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char name[4096];
	FILE *f;

	if (fd == -1 || bind(fd, (struct sockaddr *)&sin, len) == -1 ||
	    listen(fd, 512) == -1 ||
	    getsockname(fd, (struct sockaddr *)&sin, &len) == -1)
		die("listen");
	snprintf(name, sizeof(name), "%s.new", file);
	if ((f = fopen(name, "w")) == NULL ||
	    fprintf(f, "%d\n", ntohs(sin.sin_port)) < 0 || fclose(f) != 0 ||
	    rename(name, file) == -1)
		die(file);
	return fd;
}

static void
end(struct pair *p, bool reset)
{
	struct linger linger = { 1, 0 };

	if (reset)
		setsockopt(p->out.from, SOL_SOCKET, SO_LINGER, &linger,
		    sizeof(linger));
	close(p->out.from);
	close(p->out.to);
	free(p->out.data);
	free(p->back.data);
	*p = pairs[--npairs];
}

static void
welcome(int listener)
{
	struct pair *p = &pairs[npairs];
	int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC), server;

	if (client == -1)
		return;
	server = npairs == PAIRS || mode == CLOSE || mode == RESET ? -1 :
	    socket_to(atoi(server_ports[turn++ % nservers]));
	if (server == -1) {
		close(client);
		return;
	}
	memset(p, 0, sizeof(*p));
	p->out.from = p->back.to = client;
	p->out.to = p->back.from = server;
	p->used_ms = now_ms();
	npairs++;
}

static bool
contains(const char *data, size_t len, const char *text)
{
	return memmem(data, len, text, strlen(text)) != NULL;
}

static void
forget(struct pair *p)
{
	note("forgotten");
	p->forgotten = true;
	p->out.len = p->back.len = 0;
}

static void
answer(const struct pair *p)
{
	char path[512], data[CHUNK];
	ssize_t n;
	int in;

	snprintf(path, sizeof(path), "%.*s", (int)strcspn(argument, " "),
	    argument);
	if ((in = open(path, O_RDONLY | O_CLOEXEC)) == -1)
		die(path);
	while ((n = read(in, data, sizeof(data))) > 0) {
		if (send(p->out.from, data, (size_t)n, MSG_NOSIGNAL) != n)
			break;
	}
	close(in);
	shutdown(p->out.from, SHUT_WR);
}

/* A request has come.  False: the connection is over. */
static bool
ask(struct pair *p, const struct way *w)
{
	const char *text = argument;

	if (mode == ANSWER)
		text += strcspn(text, " ") + (strchr(text, ' ') != NULL);
	if (p->answered)
		p->answered = p->deaf = false;
	if (mode < LOSE || mode == FORGET || !contains(w->data, w->len, text))
		return true;
	if (mode == LOSE)
		p->doomed = true;
	else if (mode == SWALLOW)
		p->deaf = true;
	else if (mode == FORGET_AT)
		forget(p);
	else {
		if (mode == ANSWER)
			answer(p);
		note(mode == ANSWER ? "answered" : "cut");
		return false;
	}
	return true;
}

/* The same for what comes back. */
static bool
reply(struct pair *p, struct way *w)
{
	if (p->doomed) {
		note("lost");
		return false;
	}
	if (mode == DROP || p->deaf) {
		w->len = 0;
		if (mode == DROP || !p->answered)
			note("dropped");
	}
	p->answered = true;
	return true;
}

/* False: the connection is over. */
static bool
take(struct pair *p, struct way *w)
{
	ssize_t n;

	if (w->data == NULL && (w->data = malloc(CHUNK)) == NULL)
		die("malloc");
	n = recv(w->from, w->data, CHUNK, MSG_DONTWAIT);
	if (n == -1 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	p->used_ms = now_ms();
	w->len = (size_t)n;
	w->due_ms = mode == DELAY ? now_ms() + atoi(argument) : 0;
	return w == &p->out ? ask(p, w) : reply(p, w);
}

static bool
give(struct way *w)
{
	size_t done = 0;
	ssize_t n;

	if (w->len == 0 || now_ms() < w->due_ms)
		return true;
	while (done < w->len) {
		n = send(w->to, w->data + done, w->len - done, MSG_NOSIGNAL);
		if (n == -1)
			return false;
		done += (size_t)n;
	}
	w->len = 0;
	return true;
}

static bool
step(struct pair *p, short out, short back)
{
	if (mode == CLOSE || mode == RESET)
		return false;
	if (mode == FORGET && !p->forgotten &&
	    now_ms() - p->used_ms >= atoi(argument))
		forget(p);
	if (mode == STALL || p->forgotten)
		return true;
	if ((out != 0 && p->out.len == 0 && !take(p, &p->out)) ||
	    (back != 0 && p->back.len == 0 && !take(p, &p->back)))
		return false;
	return give(&p->out) && give(&p->back);
}

/* Nothing is to be read in this direction. */
static bool
is_quiet(const struct pair *p, const struct way *w)
{
	return mode == STALL || p->forgotten || w->len > 0;
}

int
main(int argc, char *argv[])
{
	static struct pollfd fds[2 * PAIRS + 1];
	unsigned int i, n;
	int listener;

	if (argc < 5)
		return 2;
	control_path = argv[2];
	log_path = argv[3];
	server_ports = &argv[4];
	nservers = argc - 4;
	listener = listen_on_any(argv[1]);
	for (;;) {
		n = npairs;
		fds[0] = (struct pollfd){ .fd = listener, .events = POLLIN };
		for (i = 0; i < n; i++) {
			fds[2 * i + 1] = (struct pollfd){
				.fd = is_quiet(&pairs[i], &pairs[i].out) ? -1 :
				    pairs[i].out.from, .events = POLLIN };
			fds[2 * i + 2] = (struct pollfd){
				.fd = is_quiet(&pairs[i], &pairs[i].back) ? -1 :
				    pairs[i].back.from, .events = POLLIN };
		}
		poll(fds, 2 * n + 1, TICK_MS);
		read_control();
		/* From the end, since one that is over is replaced by it. */
		for (i = n; i-- > 0;)
			if (!step(&pairs[i], fds[2 * i + 1].revents,
			    fds[2 * i + 2].revents))
				end(&pairs[i], mode == RESET ||
				    pairs[i].doomed);
		if (fds[0].revents != 0)
			welcome(listener);
	}
}
