/* login_http.c - one request to an authorization server, and the browser's way back. */
#include "proc/lock/login_http.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/version.h"
#include "canon/canon.h"
#include "image/challenge.h"
#include "loop/loop.h"
#include "upstream/address.h"
#include "upstream/curl_way.h"
#include "upstream/resolve.h"

#define HEAD_MAX 16384                  /* of the browser's request */
#define HEAD_MS 3000

struct login_http {
	CURL *easy;
	CURLM *multi;                   /* made before the lockdown: it has a socket of its own */
	struct loop *loop;
	struct resolver *resolver;
	struct curl_blob pem;
};

int
login_http_new(const char *pem, size_t len, struct login_http **ret_http, struct err *err)
{
	struct login_http *h = calloc(1, sizeof(*h));
	int r;

	if (h == NULL || curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK || (h->easy = curl_easy_init()) == NULL ||
	    (h->multi = curl_multi_init()) == NULL) {
		free(h);
		return err_set(err, ENOMEM, "cannot set up libcurl");
	}
	h->pem = (struct curl_blob){ .data = (void *)(uintptr_t)pem, .len = len, .flags = CURL_BLOB_NOCOPY };
	r = loop_new(&h->loop, err);
	r = r == 0 ? resolver_new(&h->resolver, err) : r;
	if (r < 0)
		return r;
	resolver_start(h->resolver, h->loop);
	*ret_http = h;
	return 0;
}

void
login_answer_free(struct login_answer *a)
{
	json_decref(a->document);
	a->document = NULL;
}

/* ---- names ---- */

static bool
is_inside(const struct address *a)
{
	return address_judge(a, NULL) != ADDRESS_PUBLIC;
}

/* Only the MCP server's own host, which the operator named, may be in a private network. */
static int
check_inside(const struct oauth *o, const struct challenge_url *to, bool inside, struct err *err)
{
	struct challenge_url own;

	if (inside && (challenge_parse_url(o->resource, &own) < 0 || strcmp(own.host, to->host) != 0))
		return err_set(err, EPERM, "the server leads to a private address: '%s'", to->host);
	return 0;
}

/* libcurl gets the addresses, so that it asks nobody itself. */
static int
resolve(struct login_http *h, const struct oauth *o, const struct challenge_url *to, struct curl_slist **ret_line,
        struct err *err)
{
	OWN(buf_free) struct buf line = BUF(4096);
	struct address literal;
	bool inside;
	int r;

	if (o->is_here)
		return 0;
	if (address_parse(to->host, &literal))
		return check_inside(o, to, is_inside(&literal), err);
	r = resolver_line(h->resolver, h->loop, to->host, to->port, &line, is_inside, &inside, err);
	r = r < 0 ? r : check_inside(o, to, inside, err);
	if (r < 0)
		return r;
	*ret_line = curl_slist_append(NULL, (char *)line.data);
	return *ret_line != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

/* ---- a request ---- */

struct taking {
	struct buf body;
	struct login_answer *answer;
};

static size_t
take_body(char *data, size_t size, size_t n, void *arg)
{
	struct taking *t = arg;

	buf_put(&t->body, data, size * n);
	return buf_failed(&t->body) ? CURL_WRITEFUNC_ERROR : size * n;
}

static size_t
take_field(char *line, size_t size, size_t n, void *arg)
{
	static const char name[] = "www-authenticate:";
	struct taking *t = arg;

	n *= size;
	if (n > sizeof(name) && strncasecmp(line, name, sizeof(name) - 1) == 0 && n < LOGIN_FIELD_MAX)
		snprintf(t->answer->challenge, sizeof(t->answer->challenge), "%.*s", (int)strcspn(line + sizeof(name) - 1, "\r\n"),
		         line + sizeof(name) - 1);
	return n;
}

static void
set_options(struct login_http *h, struct taking *t, const char *url, const char *body, struct curl_slist *fields,
            struct curl_slist *addresses)
{
	curl_easy_reset(h->easy);
	curl_easy_setopt(h->easy, CURLOPT_URL, url);
	curl_easy_setopt(h->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(h->easy, CURLOPT_TIMEOUT, (long)LOGIN_REQUEST_S);
	curl_easy_setopt(h->easy, CURLOPT_PROTOCOLS_STR, strncmp(url, "https:", 6) == 0 ? "https" : "http");
	curl_easy_setopt(h->easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(h->easy, CURLOPT_PROXY, "");
	curl_easy_setopt(h->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(h->easy, CURLOPT_CAINFO, NULL);
	curl_easy_setopt(h->easy, CURLOPT_CAPATH, NULL);
	curl_easy_setopt(h->easy, CURLOPT_CAINFO_BLOB, &h->pem);
	curl_easy_setopt(h->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(h->easy, CURLOPT_USERAGENT, "cloister/" CLOISTER_VERSION);
	curl_easy_setopt(h->easy, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(h->easy, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(h->easy, CURLOPT_HEADERFUNCTION, take_field);
	curl_easy_setopt(h->easy, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(h->easy, CURLOPT_HTTPHEADER, fields);
	curl_easy_setopt(h->easy, CURLOPT_RESOLVE, addresses);
	if (body != NULL)
		curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, body);
}

static int
perform(struct login_http *h, const struct challenge_url *to, struct taking *t, struct err *err)
{
	CURLcode code = curl_way_perform(h->multi, h->easy, NULL, NULL);

	curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &t->answer->status);
	return code == CURLE_OK ? 0 : err_set(err, EIO, "cannot reach %s: %s", to->host, curl_easy_strerror(code));
}

int
login_http_ask(struct login_http *h, const struct oauth *o, const char *url, const char *type, const char *body,
               struct login_answer *ret_answer, struct err *err)
{
	struct taking t = { .body = BUF(LOGIN_ANSWER_MAX), .answer = ret_answer };
	struct curl_slist *addresses = NULL, *fields = NULL;
	OWN(freep) char *line = type != NULL ? str_format("Content-Type: %s", type) : NULL;
	struct challenge_url to;
	int r;

	*ret_answer = (struct login_answer){0};
	if (!oauth_is_usable(o, url) || challenge_parse_url(url, &to) < 0)
		return err_set(err, EPERM, "an address of the server may not be used");
	fields = curl_slist_append(NULL, "Accept: application/json");
	if (line != NULL)
		fields = curl_slist_append(fields, line);
	r = resolve(h, o, &to, &addresses, err);
	if (r == 0) {
		set_options(h, &t, url, body, fields, addresses);
		r = perform(h, &to, &t, err);
	}
	curl_slist_free_all(fields);
	curl_slist_free_all(addresses);
	if (r == 0 && t.body.len > 0)
		ret_answer->document = canon_value((const char *)t.body.data, t.body.len);
	explicit_bzero(t.body.data, t.body.data != NULL ? t.body.len : 0);
	buf_free(&t.body);
	return r;
}

/* ---- the browser ---- */

static void
say(int fd, unsigned status, const char *text)
{
	char answer[512];
	int n = snprintf(answer, sizeof(answer), "HTTP/1.1 %u %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
	                 "Content-Length: %zu\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n%s", status,
	                 status == 200 ? "OK" : "Not Found", strlen(text), text);

	(void)write_all(fd, answer, (size_t)n, NULL);
}

/* The head of a request, or 0. */
static size_t
read_head(int fd, char *head, size_t size)
{
	const int64_t deadline = io_now_ms() + HEAD_MS;
	size_t len = 0;

	while (len < size - 1 && io_is_readable(fd, deadline)) {
		ssize_t n = read(fd, head + len, size - 1 - len);

		if (n <= 0)
			return 0;
		len += (size_t)n;
		head[len] = '\0';
		if (strstr(head, "\r\n\r\n") != NULL)
			return len;
	}
	return 0;
}

static bool
take_callback(int fd, struct buf *b)
{
	static const char wanted[] = "GET /callback?";
	char head[HEAD_MAX];
	const size_t len = read_head(fd, head, sizeof(head));

	if (len == 0 || strlen(head) != len || strncmp(head, wanted, sizeof(wanted) - 1) != 0) {
		say(fd, 404, "There is nothing here.\n");
		return false;
	}
	buf_put(b, head + sizeof(wanted) - 1, strcspn(head + sizeof(wanted) - 1, " \r\n"));
	buf_put(b, "", 1);
	say(fd, 200, "You can close this page: cloister has the answer.\n");
	return !buf_failed(b);
}

int
login_await_browser(int listener, struct buf *b, struct err *err)
{
	const int64_t deadline = io_now_ms() + LOGIN_BROWSER_MS;

	while (io_is_readable(listener, deadline)) {
		OWN(closep) int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

		if (fd >= 0 && take_callback(fd, b))
			return 0;
	}
	return err_set(err, ETIMEDOUT, "nobody logged in within %d minutes", LOGIN_BROWSER_MS / 60000);
}
