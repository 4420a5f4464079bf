/* fleet_http.c - see fleet_http.h. */
#include "fleet/fleet_http.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/version.h"
#include "cell/cell_trust.h"
#include "fleet/fleet.h"
#include "http/http_head.h"
#include "loop/loop.h"
#include "trust/trust.h"
#include "upstream/curl_way.h"
#include "upstream/resolve.h"

#define CA_MAX (4u << 20)
#define URL_MAX (FLEET_PATH_MAX + HTTP_HOST_MAX + 64)

struct fleet_http {
	struct loop *loop;
	struct resolver *resolver;
	struct proxies proxies;
	CURLM *multi;                   /* made before the lockdown, which allows no more of what it needs */
	CURL *easy;
	char *own_pem;                  /* authorities of this machine */
	size_t own_pem_len;
	/* The server. */
	char *ca, *cert, *key;
	char host[HTTP_HOST_MAX + 1], where[HTTP_HOST_MAX + 16], socket[108];
	unsigned port;
	bool is_tls;
	int folder;                     /* of the socket, which is found by it after the lockdown; -1: none */
	struct fleet_stream *streams;
};

struct fleet_stream {
	struct fleet_stream *next;
	struct fleet_http *http;
	CURL *easy;
	struct curl_way_lists lists;
	struct curl_slist *lines;
	struct buf got;                 /* a line that is not whole yet */
	bool is_over;
	const struct fleet_stream_handler *handler;
	void *arg;
	char why[CURL_ERROR_SIZE];
};

void
fleet_http_free(struct fleet_http *h)
{
	if (h == NULL)
		return;
	if (h->key != NULL)
		explicit_bzero(h->key, strlen(h->key));
	curl_easy_cleanup(h->easy);
	curl_multi_cleanup(h->multi);
	resolver_free(h->resolver);
	loop_free(h->loop);
	close_fd(&h->folder);
	free(h->own_pem);
	free(h->ca);
	free(h->cert);
	free(h->key);
	free(h);
}

OWN_BY(fleet_http_freep, struct fleet_http *, fleet_http_free)

int
fleet_http_new(struct fleet_http **ret_http, struct err *err)
{
	OWN(fleet_http_freep) struct fleet_http *h = calloc(1, sizeof(*h));
	const char *own = getenv("SSL_CERT_FILE");
	struct buf pem = BUF(CA_MAX);
	int r;

	if (h == NULL)
		return err_set(err, ENOMEM, "out of memory");
	h->folder = -1;
	r = cell_trust_add_host(&pem, own, CA_MAX, err);
	h->own_pem = (char *)pem.data;
	h->own_pem_len = pem.len;
	if (r == 0 && (curl_global_init(CURL_GLOBAL_ALL) != CURLE_OK || (h->multi = curl_multi_init()) == NULL ||
	               (h->easy = curl_easy_init()) == NULL))
		r = err_set(err, ENOMEM, "cannot set up libcurl");
	proxies_load(&h->proxies, environ);
	r = r == 0 ? loop_new(&h->loop, err) : r;
	r = r == 0 ? resolver_new(&h->resolver, err) : r;
	if (r < 0)
		return r;
	resolver_start(h->resolver, h->loop);
	*ret_http = TAKE(h);
	return 0;
}

/* ---- where ---- */

static int
take_socket(struct fleet_http *h, const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	OWN(freep) char *folder = NULL;
	int r;

	if (*path != '/' || slash[1] == '\0' || strlen(slash + 1) >= sizeof(h->socket))
		return err_set(err, EINVAL, "'unix://%.100s' names no socket: write unix:///PATH", path);
	r = trust_path(TRUST_ENGINE, path, err);
	if (r < 0)
		return r;
	folder = slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
	h->folder = folder == NULL ? -1 : open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (h->folder < 0)
		return err_errno(err, "cannot open the folder of the socket '%s'", path);
	snprintf(h->socket, sizeof(h->socket), "%s", slash + 1);
	snprintf(h->where, sizeof(h->where), "%.250s", path);
	return 0;
}

int
fleet_http_to(struct fleet_http *h, const struct fleet_server *s, struct err *err)
{
	static const char unix_scheme[] = "unix://";
	const char *at = strstr(s->url, "://");
	uint16_t port = 0;

	if (strncmp(s->url, unix_scheme, strlen(unix_scheme)) == 0)
		return take_socket(h, s->url + strlen(unix_scheme), err);
	h->is_tls = strncmp(s->url, "https://", 8) == 0;
	if (at == NULL || (!h->is_tls && strncmp(s->url, "http://", 7) != 0) ||
	    http_authority_parse((struct http_text){ at + 3, strcspn(at + 3, "/") }, h->host, &port, NULL) < 0)
		return err_set(err, EINVAL, "'%.200s' is no address of an engine", s->url);
	h->port = port != 0 ? port : h->is_tls ? 443 : 80;
	if (!h->is_tls && !curl_way_is_here(h->host))
		return err_set(err, EPERM, "'%.200s' is another machine, and without TLS anybody could command its engine: use TLS "
		               "(see docs/targets.md)", h->host);
	snprintf(h->where, sizeof(h->where), "%s:%u", h->host, h->port);
	h->ca = s->ca != NULL ? strdup(s->ca) : NULL;
	h->cert = s->cert != NULL ? strdup(s->cert) : NULL;
	h->key = s->key != NULL ? strdup(s->key) : NULL;
	return (s->ca != NULL && h->ca == NULL) || (s->cert != NULL && h->cert == NULL) || (s->key != NULL && h->key == NULL) ?
	       err_set(err, ENOMEM, "out of memory") : 0;
}

bool
fleet_http_is_tls(const struct fleet_http *h)
{
	return h->is_tls;
}

const char *
fleet_http_where(const struct fleet_http *h)
{
	return h->where;
}

/* ---- one request ---- */

void
fleet_reply_free(struct fleet_reply *reply)
{
	buf_free(&reply->body);
}

static size_t
take_body(char *data, size_t size, size_t n, void *arg)
{
	struct fleet_reply *reply = arg;

	buf_put(&reply->body, data, size * n);
	return buf_failed(&reply->body) ? CURL_WRITEFUNC_ERROR : size * n;
}

static void
set_blob(CURL *easy, CURLoption option, const char *pem)
{
	struct curl_blob blob = { .data = (void *)(uintptr_t)pem, .len = strlen(pem), .flags = CURL_BLOB_NOCOPY };

	curl_easy_setopt(easy, option, &blob);
}

static int
add_line(struct curl_slist **lines, const char *line, struct err *err)
{
	struct curl_slist *longer = curl_slist_append(*lines, line);

	if (longer == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*lines = longer;
	return 0;
}

static int
set_lines(CURL *easy, const struct fleet_request *q, struct curl_slist **lines, struct err *err)
{
	char type[128];
	int r = 0;

	snprintf(type, sizeof(type), "Content-Type: %s", q->type != NULL ? q->type : "application/json");
	if (q->body != NULL)
		r = add_line(lines, type, err);
	/* Without a pause before the body. */
	r = r == 0 ? add_line(lines, "Expect:", err) : r;
	for (const char *const *line = q->fields; r == 0 && line != NULL && *line != NULL; line++)
		r = add_line(lines, *line, err);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, *lines);
	return r;
}

static void
set_common(CURL *easy, const struct fleet_request *q, char why[CURL_ERROR_SIZE])
{
	curl_easy_reset(easy);
	curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_USERAGENT, "cloister/" CLOISTER_VERSION);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)FLEET_CONNECT_MS);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(q->ms != 0 ? q->ms : FLEET_REQUEST_MS));
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, q->method);
	if (q->body != NULL) {
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, q->body);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->len);
	}
}

/* To the engine itself. */
static int
set_server(struct fleet_http *h, CURL *easy, const struct fleet_request *q, struct curl_way_lists *lists, struct err *err)
{
	const struct curl_way way = { .resolver = h->resolver, .loop = h->loop, .proxies = &h->proxies };
	char url[URL_MAX];
	bool here, six = strchr(h->host, ':') != NULL;

	if (h->folder >= 0) {
		snprintf(url, sizeof(url), "http://engine%s", q->path);
		curl_easy_setopt(easy, CURLOPT_URL, url);
		curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, h->socket);
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
		curl_way_secure(easy, false, NULL, 0);
		/* The root is another one by now. */
		return fchdir(h->folder) < 0 ? err_errno(err, "cannot go to the folder of '%s'", h->where) : 0;
	}
	snprintf(url, sizeof(url), "%s://%s%s%s:%u%s", h->is_tls ? "https" : "http", six ? "[" : "", h->host, six ? "]" : "",
	         h->port, q->path);
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_way_secure(easy, h->is_tls, h->ca != NULL ? h->ca : h->own_pem, h->ca != NULL ? strlen(h->ca) : h->own_pem_len);
	if (h->cert != NULL)
		set_blob(easy, CURLOPT_SSLCERT_BLOB, h->cert);
	if (h->key != NULL)
		set_blob(easy, CURLOPT_SSLKEY_BLOB, h->key);
	return curl_way_set(&way, easy, h->is_tls, h->host, h->port, lists, &here, err);
}

static int
set_url(struct fleet_http *h, const struct fleet_request *q, struct curl_way_lists *lists, struct err *err)
{
	const struct curl_way way = { .resolver = h->resolver, .loop = h->loop };
	const char *at = strstr(q->url, "://");
	bool is_tls = strncmp(q->url, "https:", 6) == 0, here;
	char host[HTTP_HOST_MAX + 1];
	uint16_t port = 0;

	if (at == NULL || http_authority_parse((struct http_text){ at + 3, strcspn(at + 3, "/?") }, host, &port, NULL) < 0)
		return err_set(err, EINVAL, "'%.200s' is no address", q->url);
	curl_easy_setopt(h->easy, CURLOPT_URL, q->url);
	curl_way_secure(h->easy, is_tls, h->own_pem, h->own_pem_len);
	return curl_way_set(&way, h->easy, is_tls, host, port != 0 ? port : is_tls ? 443 : 80, lists, &here, err);
}

static int
explain(const struct fleet_http *h, const struct fleet_request *q, CURLcode code, const char *why, struct err *err)
{
	char text[FLEET_WHY_MAX];
	const char *where = q->url != NULL ? q->url : h->where;

	fleet_say(text, sizeof(text), *why != '\0' ? why : curl_easy_strerror(code));
	if (code == CURLE_PEER_FAILED_VERIFICATION)
		return err_set(err, EPERM, "the certificate of '%.200s' is not trusted: %.250s", where, text);
	if (code == CURLE_OPERATION_TIMEDOUT)
		return err_set(err, ETIMEDOUT, "'%.200s' does not answer in time", where);
	if (code == CURLE_WRITE_ERROR)
		return err_set(err, EFBIG, "the answer of '%.200s' is over %u MiB", where, FLEET_BODY_MAX >> 20);
	if (h->folder >= 0 && q->url == NULL && code == CURLE_COULDNT_CONNECT)
		return err_set(err, EIO, "cannot reach the engine: nobody answers at the socket '%.200s', or this user may not use it", where);
	return err_set(err, EIO, "cannot reach '%.200s': %.250s", where, text);
}

/* It ended while another one was asked. */
static void
end_stream(void *arg, CURL *easy, CURLcode code)
{
	const struct fleet_http *h = arg;
	struct fleet_stream *s = h->streams;
	long status = 0;

	while (s != NULL && s->easy != easy)
		s = s->next;
	if (s == NULL || s->is_over)
		return;
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	s->is_over = true;
	s->handler->over(s->arg, status, *s->why != '\0' ? s->why : curl_easy_strerror(code));
}

int
fleet_http_ask(struct fleet_http *h, const struct fleet_request *q, struct fleet_reply *ret_reply, struct err *err)
{
	OWN(fleet_reply_free) struct fleet_reply reply = { .body = BUF(FLEET_BODY_MAX) };
	struct curl_way_lists lists = {0};
	struct curl_slist *lines = NULL;
	char why[CURL_ERROR_SIZE] = "";
	CURLcode code = CURLE_OK;
	int r;

	set_common(h->easy, q, why);
	curl_easy_setopt(h->easy, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(h->easy, CURLOPT_WRITEDATA, &reply);
	r = q->url != NULL ? set_url(h, q, &lists, err) : set_server(h, h->easy, q, &lists, err);
	r = r == 0 ? set_lines(h->easy, q, &lines, err) : r;
	if (r == 0 && (code = curl_way_perform(h->multi, h->easy, end_stream, h)) != CURLE_OK)
		r = explain(h, q, code, why, err);
	curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &reply.status);
	for (struct curl_slist *line = lines; line != NULL; line = line->next)
		explicit_bzero(line->data, strlen(line->data));
	/* It refers to what is freed here. */
	curl_easy_reset(h->easy);
	curl_slist_free_all(lines);
	curl_way_free(&lists);
	buf_put(&reply.body, "", 1);
	if (r == 0 && buf_failed(&reply.body))
		r = err_set(err, ENOMEM, "out of memory");
	if (r < 0)
		return r;
	reply.body.len--;
	*ret_reply = reply;
	reply.body = (struct buf){0};
	return 0;
}

int
fleet_http_ask_json(struct fleet_http *h, const char *method, const char *path, json_t *body, long *ret_status,
                    json_t **ret_json, struct err *err)
{
	OWN(fleet_reply_free) struct fleet_reply reply = {0};
	char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
	struct fleet_request q = { .method = method, .path = path, .body = text, .len = text != NULL ? strlen(text) : 0 };
	int r = body != NULL && text == NULL ? err_set(err, ENOMEM, "out of memory") : fleet_http_ask(h, &q, &reply, err);

	if (text != NULL)
		explicit_bzero(text, strlen(text));
	free(text);
	if (r < 0)
		return r;
	*ret_status = reply.status;
	*ret_json = reply.body.len > 0 ? json_loadb((char *)reply.body.data, reply.body.len, JSON_DECODE_ANY, NULL) : NULL;
	return 0;
}

/* ---- answers that do not end ---- */

static size_t
take_lines(char *data, size_t size, size_t n, void *arg)
{
	struct fleet_stream *s = arg;
	size_t at = 0, len;
	char *text, *end;

	buf_put(&s->got, data, size * n);
	if (buf_failed(&s->got))
		return CURL_WRITEFUNC_ERROR;
	for (text = (char *)s->got.data; (end = memchr(text + at, '\n', s->got.len - at)) != NULL; at += len + 1) {
		len = (size_t)(end - text) - at;
		*end = '\0';
		s->handler->line(s->arg, text + at, len);
	}
	memmove(text, text + at, s->got.len - at);
	s->got.len -= at;
	return size * n;
}

void
fleet_stream_close(struct fleet_stream *s)
{
	struct fleet_stream **at;

	if (s == NULL)
		return;
	for (at = &s->http->streams; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	if (s->easy != NULL) {
		(void)curl_multi_remove_handle(s->http->multi, s->easy);
		curl_easy_cleanup(s->easy);
	}
	for (struct curl_slist *line = s->lines; line != NULL; line = line->next)
		explicit_bzero(line->data, strlen(line->data));
	curl_slist_free_all(s->lines);
	curl_way_free(&s->lists);
	buf_free(&s->got);
	free(s);
}

int
fleet_stream_open(struct fleet_http *h, const struct fleet_request *q, const struct fleet_stream_handler *handler, void *arg,
                  struct fleet_stream **ret_stream, struct err *err)
{
	struct fleet_stream *s = calloc(1, sizeof(*s));
	int r;

	if (s == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*s = (struct fleet_stream){ .next = h->streams, .http = h, .easy = curl_easy_init(), .got = BUF(FLEET_BODY_MAX),
		.handler = handler, .arg = arg };
	h->streams = s;
	r = s->easy == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
	if (r == 0) {
		set_common(s->easy, q, s->why);
		curl_easy_setopt(s->easy, CURLOPT_WRITEFUNCTION, take_lines);
		curl_easy_setopt(s->easy, CURLOPT_WRITEDATA, s);
		r = set_server(h, s->easy, q, &s->lists, err);
	}
	r = r == 0 ? set_lines(s->easy, q, &s->lines, err) : r;
	if (r == 0 && curl_multi_add_handle(h->multi, s->easy) != CURLM_OK)
		r = err_set(err, ENOMEM, "out of memory");
	if (r < 0) {
		fleet_stream_close(s);
		return r;
	}
	*ret_stream = s;
	return 0;
}

void
fleet_http_wait(struct fleet_http *h, unsigned ms)
{
	CURLcode code;
	int running;

	if (curl_multi_poll(h->multi, NULL, 0, (int)ms, NULL) == CURLM_OK && curl_multi_perform(h->multi, &running) == CURLM_OK)
		(void)curl_way_is_done(h->multi, NULL, &code, end_stream, h);
}

char *
fleet_http_escape(const char *text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	char *to = malloc(strlen(text) * 3 + 1), *at = to;

	for (; to != NULL && *text != '\0'; text++)
		if (strchr(plain, *text) != NULL)
			*at++ = *text;
		else
			at += snprintf(at, 4, "%%%02X", (unsigned char)*text);
	if (to != NULL)
		*at = '\0';
	return to;
}
