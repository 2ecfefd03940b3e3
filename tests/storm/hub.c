/*
 * The network of a storm: takes every frame of each host and hands it to the
 * host that it is for, or does what a network should not.  Where the kernel has
 * no netem, and without rights outside of a namespace.  Must never change a
 * frame, and hands them on in order unless told to lose or to delay them.
 *
 * hub COUNT FIFO	host N is behind the interface `pN', its hardware
 *			address ends with N
 *
 * Orders, lines in the FIFO; A and B are numbers of hosts, or 0 for all:
 *	drop A B	what A sends to B is lost; both ways is two orders
 *	lose A B N	N of 100 frames are
 *	delay A B MS	arrives so much later
 *	reset A B	connections are reset when A sends something to B
 *	heal A B	everything is as it should be again
 */
#include <sys/socket.h>
#include <sys/types.h>

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define HOSTS		64
#define FRAME		(sizeof(struct virtio_net_hdr) + 70000)
#define NS_PER_MS	INT64_C(1000000)
#define BURST		64
#define QUEUE		20000

struct rule {
	int	 lose;		/* of 100 */
	int64_t	 delay;
	bool	 reset;
};

struct frame {
	struct frame *next;
	int64_t	 due;
	int	 to;
	size_t	 len;
	uint8_t	 data[];
};

static struct rule rules[HOSTS + 1][HOSTS + 1];
static struct pollfd ports[HOSTS + 1];	/* 0: the orders */
static int count;
static struct frame *queue;		/* the first is due first */
static size_t queued;

static int64_t
clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static int
open_port(int n)
{
	struct sockaddr_ll addr = {
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
	};
	char name[IF_NAMESIZE];
	int fd, on = 1, size = 4 << 20;

	snprintf(name, sizeof(name), "p%d", n);
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    htons(ETH_P_ALL));
	addr.sll_ifindex = (int)if_nametoindex(name);
	/* The header says which checksums are still to be made. */
	if (fd == -1 || addr.sll_ifindex == 0 || setsockopt(fd, SOL_PACKET,
	    PACKET_VNET_HDR, &on, sizeof(on)) == -1 ||
	    bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == -1)
		err(99, "%s", name);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	return fd;
}

/* A full queue loses frames, as a network does. */
static void
give(int to, const uint8_t *data, size_t len)
{
	ssize_t n = write(ports[to].fd, data, len);

	(void)n;
}

static void
put_off(int to, const uint8_t *data, size_t len, int64_t due)
{
	struct frame *f, **p;

	if (queued == QUEUE || (f = malloc(sizeof(*f) + len)) == NULL)
		return;
	queued++;
	f->due = due;
	f->to = to;
	f->len = len;
	memcpy(f->data, data, len);
	for (p = &queue; *p != NULL && (*p)->due <= due; p = &(*p)->next)
		;
	f->next = *p;
	*p = f;
}

static void
give_due(int64_t now)
{
	struct frame *f;

	while ((f = queue) != NULL && f->due <= now) {
		queue = f->next;
		queued--;
		give(f->to, f->data, f->len);
		free(f);
	}
}

static uint16_t
checksum(const void *data, size_t len, uint32_t sum)
{
	const uint8_t *p = data;
	size_t i;

	for (i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	while (sum >> 16 != 0)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* The answer to a segment of TCP that nobody wants. */
static void
reset(int from, const uint8_t *data, size_t len)
{
	struct {
		struct virtio_net_hdr vnet;
		struct ether_header eth;
		struct iphdr ip;
		struct tcphdr tcp;
	} __attribute__((packed)) r = { .eth.ether_type = htons(ETH_P_IP) };
	const struct ether_header *eth = (const void *)data;
	struct iphdr ip;
	struct tcphdr tcp;
	size_t head;
	uint32_t sum;

	if (len < sizeof(*eth) + sizeof(ip) ||
	    eth->ether_type != htons(ETH_P_IP))
		return;
	memcpy(&ip, eth + 1, sizeof(ip));
	head = sizeof(*eth) + ip.ihl * 4U;
	if (ip.protocol != IPPROTO_TCP || len < head + sizeof(tcp))
		return;
	memcpy(&tcp, data + head, sizeof(tcp));
	if (tcp.rst)
		return;
	memcpy(r.eth.ether_dhost, eth->ether_shost, ETH_ALEN);
	memcpy(r.eth.ether_shost, eth->ether_dhost, ETH_ALEN);
	r.ip = (struct iphdr){
		.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP,
		.tot_len = htons(sizeof(r.ip) + sizeof(r.tcp)),
		.saddr = ip.daddr, .daddr = ip.saddr,
	};
	r.tcp.source = tcp.dest;
	r.tcp.dest = tcp.source;
	r.tcp.doff = 5;
	r.tcp.rst = 1;
	if (tcp.ack)
		r.tcp.seq = tcp.ack_seq;
	else {
		r.tcp.ack = 1;
		r.tcp.ack_seq = htonl(ntohl(tcp.seq) + tcp.syn);
	}
	ip = r.ip;
	r.ip.check = checksum(&ip, sizeof(ip), 0);
	sum = IPPROTO_TCP + (uint32_t)sizeof(tcp) + (ntohl(ip.saddr) >> 16) +
	    (ntohl(ip.saddr) & 0xffff) + (ntohl(ip.daddr) >> 16) +
	    (ntohl(ip.daddr) & 0xffff);
	tcp = r.tcp;
	r.tcp.check = checksum(&tcp, sizeof(tcp), sum);
	give(from, (const uint8_t *)&r, sizeof(r));
}

static void
pass(int from, int to, const uint8_t *data, size_t len)
{
	const struct rule *r = &rules[from][to];
	size_t head = sizeof(struct virtio_net_hdr);

	if (r->reset)
		reset(from, data + head, len - head);
	else if (r->lose > 0 && rand() % 100 < r->lose)
		return;
	else if (r->delay > 0)
		put_off(to, data, len, clock_ns() + r->delay);
	else
		give(to, data, len);
}

static void
take(int from)
{
	static uint8_t data[FRAME];
	struct sockaddr_ll addr;
	const struct ether_header *eth;
	socklen_t size;
	ssize_t n;
	int i, to;

	for (i = 0; i < BURST; i++) {
		size = sizeof(addr);
		n = recvfrom(ports[from].fd, data, sizeof(data), 0,
		    (struct sockaddr *)&addr, &size);
		if (n == -1)
			return;
		eth = (const void *)(data + sizeof(struct virtio_net_hdr));
		if (addr.sll_pkttype == PACKET_OUTGOING ||
		    (size_t)n < sizeof(struct virtio_net_hdr) + sizeof(*eth) ||
		    (eth->ether_type != htons(ETH_P_IP) &&
		    eth->ether_type != htons(ETH_P_ARP)))
			continue;
		to = eth->ether_dhost[ETH_ALEN - 1];
		if ((eth->ether_dhost[0] & 1) == 0) {
			if (to >= 1 && to <= count && to != from)
				pass(from, to, data, (size_t)n);
			continue;
		}
		for (to = 1; to <= count; to++) {
			if (to != from)
				pass(from, to, data, (size_t)n);
		}
	}
}

static void
set(const char *word, struct rule *r, int n)
{
	if (strcmp(word, "heal") == 0)
		*r = (struct rule){ 0 };
	else if (strcmp(word, "drop") == 0)
		r->lose = 100;
	else if (strcmp(word, "lose") == 0)
		r->lose = n;
	else if (strcmp(word, "delay") == 0)
		r->delay = n * NS_PER_MS;
	else if (strcmp(word, "reset") == 0)
		r->reset = true;
	else
		errx(99, "no such order: '%s'", word);
}

static void
obey(const char *line)
{
	char word[16];
	int a, b, n = 0, from, to;

	if (sscanf(line, "%15s %d %d %d", word, &a, &b, &n) < 3 || a < 0 ||
	    b < 0 || a > count || b > count)
		errx(99, "no order: '%s'", line);
	for (from = 1; from <= count; from++) {
		for (to = 1; to <= count; to++) {
			if ((a == 0 || a == from) && (b == 0 || b == to))
				set(word, &rules[from][to], n);
		}
	}
}

static void
take_orders(void)
{
	static char text[4096];
	static size_t len;
	char *end;
	ssize_t n;

	n = read(ports[0].fd, text + len, sizeof(text) - len - 1);
	if (n <= 0)
		return;
	len += (size_t)n;
	text[len] = '\0';
	while ((end = strchr(text, '\n')) != NULL) {
		*end = '\0';
		obey(text);
		len -= (size_t)(end + 1 - text);
		memmove(text, end + 1, len + 1);
	}
}

int
main(int argc, char *argv[])
{
	struct timespec wait;
	int64_t now, left;
	int i;

	if (argc != 3 || (count = atoi(argv[1])) < 1 || count > HOSTS)
		return 99;
	/* Open for writing too, so that it never ends. */
	ports[0].fd = open(argv[2], O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (ports[0].fd == -1)
		err(99, "%s", argv[2]);
	for (i = 1; i <= count; i++)
		ports[i].fd = open_port(i);
	for (i = 0; i <= count; i++)
		ports[i].events = POLLIN;
	for (;;) {
		now = clock_ns();
		give_due(now);
		left = queue == NULL ? 1000 * NS_PER_MS : queue->due - now;
		left = left < 0 ? 0 : left;
		wait.tv_sec = left / (1000 * NS_PER_MS);
		wait.tv_nsec = left % (1000 * NS_PER_MS);
		if (ppoll(ports, (nfds_t)count + 1, &wait, NULL) == -1)
			continue;
		if (ports[0].revents != 0)
			take_orders();
		for (i = 1; i <= count; i++) {
			if (ports[i].revents != 0)
				take(i);
		}
	}
}
