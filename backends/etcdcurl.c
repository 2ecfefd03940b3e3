/*
 * How libcurl is set up.  Must never leave it free to follow a redirect, to
 * read a configuration of the user's, to ask the environment for a proxy, or
 * to leave a descriptor for the command.
 */
#include <sys/socket.h>

#include <fcntl.h>
#include <unistd.h>

#include "etcdcurl.h"

#define IDLE_S		60L	/* older connections are not trusted */

/* Curl does not do this for sockets before 8.12. */
static curl_socket_t
open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *addr)
{
	(void)arg;
	(void)purpose;
	return socket(addr->family, addr->socktype | SOCK_CLOEXEC,
	    addr->protocol);
}

/*
 * The library's own pair of descriptors is not close-on-exec.  It gets the
 * numbers that a pair of ours has had just before.
 */
static CURLM *
new_multi(void)
{
	CURLM *multi;
	int fds[2], i;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == -1)
		return curl_multi_init();
	close(fds[0]);
	close(fds[1]);
	multi = curl_multi_init();
	for (i = 0; i < 2; i++) {
		if (fcntl(fds[i], F_GETFD) == 0)
			fcntl(fds[i], F_SETFD, FD_CLOEXEC);
	}
	return multi;
}

static void
set_tls(CURL *easy, const struct etcdhttp_setup *setup)
{
	if (setup->cacert != NULL) {
		curl_easy_setopt(easy, CURLOPT_CAINFO, setup->cacert);
		curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
	}
	if (setup->cert != NULL)
		curl_easy_setopt(easy, CURLOPT_SSLCERT, setup->cert);
	if (setup->key != NULL)
		curl_easy_setopt(easy, CURLOPT_SSLKEY, setup->key);
	curl_easy_setopt(easy, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(easy, CURLOPT_CERTINFO, 1L);
}

static void
set_protocol(CURL *easy, bool tls)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, tls ? "https" : "http");
#else
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS, tls ? CURLPROTO_HTTPS :
	    CURLPROTO_HTTP);
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
	/* Else a name that is slow to resolve holds up the end of a request. */
	curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
}

CURLM *
etcdcurl_multi(void)
{
	CURLM *multi;

	if ((multi = new_multi()) != NULL)
		curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, 2L);
	return multi;
}

CURL *
etcdcurl_easy(const struct etcdhttp_setup *setup)
{
	CURL *easy;

	/* Plain HTTP is spared what TLS needs. */
	if (curl_global_init(setup->tls ? CURL_GLOBAL_SSL :
	    CURL_GLOBAL_NOTHING) != CURLE_OK ||
	    (easy = curl_easy_init()) == NULL)
		return NULL;
	set_protocol(easy, setup->tls);
	if (setup->tls)
		set_tls(easy, setup);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION,
	    (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_PROXY,
	    setup->proxy == NULL ? "" : setup->proxy);
	curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, IDLE_S);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	return easy;
}
