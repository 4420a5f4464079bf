/* pull_http.c - sends one request with libcurl, and decides what its answer means.
 *
 * Redirects are followed here, not by libcurl: the login stays with the host that it is for, and nobody leads
 * from TLS to plain HTTP. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/version.h"
#include "loop/loop.h"
#include "proc/pull/pull.h"

/* ---- the way to the server ---- */

/* Only a registry on this machine leads to other servers on it. */
static int
lead(struct pull *p, struct pull_exchange *x, const struct challenge_url *to, struct err *err)
{
	const struct curl_way way = { .resolver = p->resolver, .loop = p->loop, .proxies = &p->proxies };
	struct pull_source *source = x->source;
	bool here;
	int r = curl_way_set(&way, x->easy, to->is_tls, to->host, to->port, &x->lists, &here, err);

	if (r < 0)
		return r;
	if (strcmp(to->host, source->origin.host) == 0)
		source->is_here = here;
	else if (here && !source->is_here)
		return err_set(err, EPERM, "the registry leads to this machine itself ('%s')", to->host);
	return 0;
}

/* ---- the answer ---- */

static void
forget_answer(struct pull_exchange *x)
{
	x->status = 0;
	x->type[0] = x->digest[0] = x->asks[0] = x->location[0] = '\0';
	x->length = x->starts_at = UINT64_MAX;
	x->retry_after = UINT64_MAX;
	x->n_said = 0;
	x->received = 0;
	x->has_begun = false;
	x->err = (struct err){0};
}

static size_t
take_head(char *line, size_t size, size_t n, void *arg)
{
	struct pull_exchange *x = arg;
	char value[CHALLENGE_FIELD_MAX + 1];
	size_t used;

	n *= size;
	/* An answer before the last one: "100 Continue". */
	if (n > 5 && strncmp(line, "HTTP/", 5) == 0)
		forget_answer(x);
	else if (curl_way_field(line, n, "content-type", value, sizeof(value)))
		snprintf(x->type, sizeof(x->type), "%.*s", (int)strcspn(value, "; \t"), value);
	else if (curl_way_field(line, n, "docker-content-digest", value, sizeof(value)))
		snprintf(x->digest, sizeof(x->digest), "%.*s", (int)sizeof(x->digest) - 1, value);
	else if (curl_way_field(line, n, "location", x->location, sizeof(x->location)))
		;
	else if (curl_way_field(line, n, "content-length", value, sizeof(value)))
		(void)num_parse_count(value, 0, INT64_MAX, &x->length, NULL);
	else if (curl_way_field(line, n, "retry-after", value, sizeof(value)))
		(void)num_parse_count(value, 0, PULL_WAIT_MAX_S, &x->retry_after, NULL);
	else if (curl_way_field(line, n, "content-range", value, sizeof(value)) && strncasecmp(value, "bytes ", 6) == 0) {
		value[6 + strspn(value + 6, "0123456789")] = '\0';
		(void)num_parse_count(value + 6, 0, INT64_MAX, &x->starts_at, NULL);
	} else if (curl_way_field(line, n, "www-authenticate", value, sizeof(value))) {
		used = strlen(x->asks);
		snprintf(x->asks + used, sizeof(x->asks) - used, "%s%s", used > 0 ? ", " : "", value);
	}
	return n;
}

/* The server's range may be another one than we asked for. */
static int
begin_body(struct pull_exchange *x)
{
	uint64_t rest = x->body_max - x->from;

	x->has_begun = true;
	if (x->status == 206 && x->starts_at != x->from)
		return err_set(&x->err, EBADMSG, "the server sends another part of it than was asked for");
	if (x->status == 200 && x->from != 0)
		x->from = 0;
	if (x->length != UINT64_MAX && x->length > (x->from == 0 ? x->body_max : rest))
		return err_set(&x->err, EFBIG, "the server sends %" PRIu64 " bytes, which is more than the %" PRIu64
		               " that it may have", x->length, x->from == 0 ? x->body_max : rest);
	return x->begin != NULL ? x->begin(x->arg, &x->err) : 0;
}

static size_t
take_body(char *data, size_t size, size_t n, void *arg)
{
	struct pull_exchange *x = arg;

	n *= size;
	if (x->status == 0)
		curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &x->status);
	if (x->status != 200 && x->status != 206) {
		size_t room = sizeof(x->said) - x->n_said;

		memcpy(x->said + x->n_said, data, n < room ? n : room);
		x->n_said += n < room ? n : room;
		/* Nobody reads the rest of an error. */
		x->received += n;
		return x->received > 1024 * 1024 ? CURL_WRITEFUNC_ERROR : n;
	}
	if (!x->has_begun && begin_body(x) < 0)
		return CURL_WRITEFUNC_ERROR;
	if (n > x->body_max - x->from - x->received) {
		(void)err_set(&x->err, EFBIG, "the server sends more than %" PRIu64 " bytes", x->body_max);
		return CURL_WRITEFUNC_ERROR;
	}
	x->received += n;
	return x->take == NULL || x->take(x->arg, data, n, &x->err) == 0 ? n : CURL_WRITEFUNC_ERROR;
}

/* ---- the request ---- */

static bool
is_at_home(const struct pull_exchange *x, const struct challenge_url *to)
{
	const struct challenge_url *home = &x->source->origin;

	return to->is_tls == home->is_tls && to->port == home->port && strcmp(to->host, home->host) == 0;
}

static int
add_head(struct pull_exchange *x, const char *name, const char *value, struct err *err)
{
	OWN(freep) char *line = str_format("%s: %s", name, value);
	struct curl_slist *longer = line != NULL ? curl_slist_append(x->head, line) : NULL;

	if (line != NULL)
		explicit_bzero(line, strlen(line));
	if (longer == NULL)
		return err_set(err, ENOMEM, "out of memory");
	x->head = longer;
	return 0;
}

static int
make_head(struct pull *p, struct pull_exchange *x, const struct challenge_url *to, struct err *err)
{
	OWN(freep) char *login = NULL;
	char range[48];
	int r = 0;

	if (x->accept != NULL)
		r = add_head(x, "Accept", x->accept, err);
	if (r == 0 && x->login != NULL)
		r = add_head(x, "Authorization", x->login, err);
	if (r == 0 && !x->is_token && is_at_home(x, to)) {
		r = pull_authorization(p, x->source, &login, err);
		x->sent_with = x->source->n_tokens;
		if (r == 0 && login != NULL)
			r = add_head(x, "Authorization", login, err);
	}
	if (login != NULL)
		explicit_bzero(login, strlen(login));
	snprintf(range, sizeof(range), "bytes=%" PRIu64 "-", x->from);
	if (r == 0 && x->from > 0)
		r = add_head(x, "Range", range, err);
	return r;
}

static void
set_limits(struct pull_exchange *x)
{
	curl_easy_setopt(x->easy, CURLOPT_CONNECTTIMEOUT, (long)PULL_CONNECT_S);
	curl_easy_setopt(x->easy, CURLOPT_LOW_SPEED_LIMIT, (long)PULL_SLOW);
	curl_easy_setopt(x->easy, CURLOPT_LOW_SPEED_TIME, (long)x->stall_s);
	curl_easy_setopt(x->easy, CURLOPT_BUFFERSIZE, 256L * 1024);
	if (!x->is_large)
		curl_easy_setopt(x->easy, CURLOPT_TIMEOUT, (long)PULL_DOCUMENT_S);
}

int
pull_send(struct pull *p, CURLM *multi, struct pull_exchange *x, struct err *err)
{
	struct challenge_url to;
	int r;

	if (challenge_parse_url(x->url, &to) < 0)
		return err_set(err, EINVAL, "'%.200s' is not an address", x->url);
	forget_answer(x);
	x->stall_s = x->stall_s != 0 ? x->stall_s : p->stall_s;
	x->why[0] = '\0';
	x->code = CURLE_OK;
	x->easy = curl_easy_init();
	if (x->easy == NULL)
		return err_set(err, ENOMEM, "out of memory");
	curl_easy_setopt(x->easy, CURLOPT_URL, x->url);
	curl_easy_setopt(x->easy, CURLOPT_NOBODY, x->is_head ? 1L : 0L);
	if (x->form != NULL)
		curl_easy_setopt(x->easy, CURLOPT_POSTFIELDS, x->form);
	curl_easy_setopt(x->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(x->easy, CURLOPT_USERAGENT, "cloister/" CLOISTER_VERSION);
	curl_easy_setopt(x->easy, CURLOPT_ERRORBUFFER, x->why);
	curl_easy_setopt(x->easy, CURLOPT_HEADERFUNCTION, take_head);
	curl_easy_setopt(x->easy, CURLOPT_HEADERDATA, x);
	curl_easy_setopt(x->easy, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(x->easy, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(x->easy, CURLOPT_PRIVATE, x);
	set_limits(x);
	curl_way_secure(x->easy, to.is_tls, x->source->pem, x->source->pem_len);
	r = make_head(p, x, &to, err);
	r = r == 0 ? lead(p, x, &to, err) : r;
	if (r == 0) {
		curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->head);
		if (curl_multi_add_handle(multi, x->easy) != CURLM_OK)
			r = err_set(err, ENOMEM, "out of memory");
	}
	if (r < 0)
		pull_drop(multi, x);
	return r;
}

void
pull_drop(CURLM *multi, struct pull_exchange *x)
{
	if (x->easy != NULL) {
		(void)curl_multi_remove_handle(multi, x->easy);
		curl_easy_cleanup(x->easy);
	}
	curl_slist_free_all(x->head);
	curl_way_free(&x->lists);
	x->easy = NULL;
	x->head = NULL;
}

/* ---- what an answer means ---- */

static bool
is_redirect(long status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* The address that LOCATION means, seen from the exchange's own. */
static int
join(const struct pull_exchange *x, char ret_url[PULL_URL_MAX + 1])
{
	CURLU *url = curl_url();
	char *text = NULL;
	int r = -EBADMSG;

	if (url != NULL && curl_url_set(url, CURLUPART_URL, x->url, 0) == CURLUE_OK &&
	    curl_url_set(url, CURLUPART_URL, x->location, CURLU_URLENCODE) == CURLUE_OK &&
	    curl_url_set(url, CURLUPART_FRAGMENT, NULL, 0) == CURLUE_OK &&
	    curl_url_get(url, CURLUPART_URL, &text, 0) == CURLUE_OK && strlen(text) <= PULL_URL_MAX) {
		memcpy(ret_url, text, strlen(text) + 1);
		r = 0;
	}
	curl_free(text);
	curl_url_cleanup(url);
	return r;
}

static enum pull_next
follow(struct pull_exchange *x, struct err *err)
{
	const struct challenge_url *home = &x->source->origin;
	char url[PULL_URL_MAX + 1];
	struct challenge_url to;

	if (x->is_token || x->form != NULL) {
		(void)err_set(err, EPERM, "the token server redirects, and a login is not passed on");
		return PULL_FAILED;
	}
	if (++x->redirects > PULL_REDIRECTS_MAX) {
		(void)err_set(err, ELOOP, "the registry redirects more than %d times", PULL_REDIRECTS_MAX);
		return PULL_FAILED;
	}
	if (join(x, url) < 0 || challenge_parse_url(url, &to) < 0) {
		(void)err_set(err, EBADMSG, "the registry redirects to '%.200s', which is not an address", x->location);
		return PULL_FAILED;
	}
	if (!to.is_tls && home->is_tls) {
		(void)err_set(err, EPERM, "the registry redirects from TLS to plain HTTP ('%.200s')", url);
		return PULL_FAILED;
	}
	if (curl_way_is_here(to.host) && !x->source->is_here) {
		(void)err_set(err, EPERM, "the registry redirects to this machine itself ('%.200s')", url);
		return PULL_FAILED;
	}
	snprintf(x->url, sizeof(x->url), "%s", url);
	return PULL_AGAIN;
}

static enum pull_next
explain_curl(const struct pull_exchange *x, CURLcode code, struct err *err)
{
	const char *host = x->source->name;

	if (x->err.code != 0) {
		*err = x->err;
		return PULL_FAILED;
	}
	if (x->proxy_status >= 400) {
		(void)err_set(err, EACCES, "the proxy does not connect to '%s': it answers with %ld", host, x->proxy_status);
		return PULL_FAILED;
	}
	if (code == CURLE_PEER_FAILED_VERIFICATION)
		(void)err_set(err, EPERM, "the certificate of '%s' is not trusted: %.300s", host, x->why);
	else if (code == CURLE_SSL_CONNECT_ERROR)
		(void)err_set(err, EPROTO, "'%s' does not speak TLS as it should (%.200s); one without TLS needs `insecure: true` "
		              "in registries.yaml", host, x->why);
	else if (code == CURLE_OPERATION_TIMEDOUT)
		(void)err_set(err, ETIMEDOUT, "'%s' does not answer, or sends next to nothing", host);
	else
		(void)err_set(err, EIO, "'%s': %.300s", host, x->why[0] != '\0' ? x->why : curl_easy_strerror(code));
	return curl_way_may_retry(code) ? PULL_RETRY : PULL_FAILED;
}

/* The first message in {"errors": [{"message": ...}]}, as far as it can be printed. */
static void
quote_error(const struct pull_exchange *x, char ret_text[256])
{
	static const char mark[] = "\"message\":\"";
	const char *at = memmem(x->said, x->n_said, mark, sizeof(mark) - 1);
	size_t n = 0;

	ret_text[0] = '\0';
	if (at == NULL)
		return;
	for (at += sizeof(mark) - 1; at < x->said + x->n_said && *at != '"' && n < 200; at++)
		ret_text[n++] = (char)(*at >= ' ' && *at < 0x7f ? *at : '?');
	ret_text[n] = '\0';
}

static enum pull_next
explain_status(const struct pull_exchange *x, struct err *err)
{
	char said[256];

	quote_error(x, said);
	if (x->status == 404 || x->status == 405) {
		(void)err_set(err, ENOENT, "'%s' has nothing by that name%s%s", x->source->name, said[0] != '\0' ? ": " : "",
		              said);
		return PULL_MISSING;
	}
	(void)err_set(err, x->status == 401 || x->status == 403 ? EACCES : EIO, "'%s' answers with %ld%s%s%s",
	              x->source->name, x->status, said[0] != '\0' ? ": " : "", said,
	              x->status == 401 || x->status == 403 ? "; a login may be needed (skopeo login, podman login or "
	              "docker login)" : "");
	return x->status == 429 || x->status == 408 || (x->status >= 500 && x->status != 501) ? PULL_RETRY : PULL_FAILED;
}

enum pull_next
pull_finish(struct pull *p, CURLM *multi, struct pull_exchange *x, CURLcode code, struct err *err)
{
	curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &x->status);
	/* A body without a byte. */
	if (code == CURLE_OK && (x->status == 200 || x->status == 206) && !x->has_begun && !x->is_head &&
	    begin_body(x) < 0)
		code = CURLE_WRITE_ERROR;
	x->code = code;
	curl_easy_getinfo(x->easy, CURLINFO_HTTP_CONNECTCODE, &x->proxy_status);
	pull_drop(multi, x);
	if (code != CURLE_OK)
		return explain_curl(x, code, err);
	if (x->status == 200 || x->status == 206 || x->source->answers_only)
		return PULL_DONE;
	if (is_redirect(x->status) && x->location[0] != '\0')
		return follow(x, err);
	if (x->status == 401 && !x->is_token && x->redirects == 0 && x->logins++ < 2)
		return pull_authorize(p, x, err) < 0 ? PULL_FAILED : PULL_AGAIN;
	/* The server has nothing behind what we have. */
	if (x->status == 416 && x->from > 0) {
		x->from = 0;
		return PULL_AGAIN;
	}
	return explain_status(x, err);
}

/* ---- small requests ---- */

unsigned
pull_weight(const struct pull_exchange *x)
{
	return x->code == CURLE_OPERATION_TIMEDOUT ? 2 : 1;
}

int64_t
pull_pause(const struct pull_exchange *x, unsigned n)
{
	static const int64_t pauses[] = { 250, 1000, 3000, 8000 };
	int64_t pause = pauses[n <= ARRAY_LEN(pauses) ? n - 1 : ARRAY_LEN(pauses) - 1];
	uint16_t noise = 0;

	/* That one has waited long enough. */
	if (x->code == CURLE_OPERATION_TIMEDOUT)
		return pauses[0];
	/* So that many clients do not come back at once. */
	(void)!getrandom(&noise, sizeof(noise), 0);
	pause += noise % (pause / 4);
	return x->retry_after <= PULL_WAIT_MAX_S ? (int64_t)x->retry_after * 1000 + noise % 64 : pause;
}

static CURLcode
await(CURLM *multi)
{
	CURLMsg *message = NULL;
	int running = 1, left;

	while (message == NULL) {
		if (curl_multi_perform(multi, &running) != CURLM_OK)
			return CURLE_FAILED_INIT;
		message = curl_multi_info_read(multi, &left);
		if (message == NULL && (running == 0 || curl_multi_poll(multi, NULL, 0, 1000, NULL) != CURLM_OK))
			return CURLE_FAILED_INIT;
	}
	return message->data.result;
}

enum pull_next
pull_exchange(struct pull *p, struct pull_exchange *x, struct err *err)
{
	enum pull_next next = PULL_AGAIN;
	unsigned tries = 0;

	while (next == PULL_AGAIN || next == PULL_RETRY) {
		tries += next == PULL_RETRY ? pull_weight(x) : 0;
		if (tries >= PULL_TRIES || (next == PULL_RETRY && x->code == CURLE_COULDNT_CONNECT))
			return next;
		if (next == PULL_RETRY) {
			pull_progress_retry(p->progress, tries, err->text);
			usleep((useconds_t)pull_pause(x, tries) * 1000);
		}
		next = pull_send(p, p->small, x, err) < 0 ? PULL_FAILED :
		       pull_finish(p, p->small, x, await(p->small), err);
	}
	return next;
}

struct document {
	struct buf *body;
};

static int
take_document(void *arg, const void *data, size_t len, struct err *err)
{
	struct document *d = arg;

	buf_put(d->body, data, len);
	return buf_failed(d->body) ? err_set(err, EFBIG, "the answer is over %zu bytes", d->body->max) : 0;
}

/* A try that broke off has left its beginning. */
static int
begin_document(void *arg, struct err *err)
{
	struct document *d = arg;

	(void)err;
	buf_reset(d->body);
	return 0;
}

enum pull_next
pull_fetch(struct pull *p, struct pull_source *source, const char *path, const char *accept, bool is_head,
           struct pull_exchange *x, struct buf *body, struct err *err)
{
	struct document d = { body };
	int n;

	*x = (struct pull_exchange){ .source = source, .accept = accept, .is_head = is_head, .take = take_document,
	                             .begin = begin_document, .arg = &d, .body_max = body != NULL ? body->max : 0 };
	n = snprintf(x->url, sizeof(x->url), "%s%s", source->base, path);
	if (n < 0 || (size_t)n >= sizeof(x->url)) {
		(void)err_set(err, ENAMETOOLONG, "the address is too long");
		return PULL_FAILED;
	}
	return pull_exchange(p, x, err);
}
