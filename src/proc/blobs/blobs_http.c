/* blobs_http.c - sends one signed request to the server, again and again if need be, and explains what it answers. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/version.h"
#include "proc/blobs/blobs_proc.h"
#include "sign/sigv4.h"

#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define PLAIN_CONNECT_MS 1000
#define PLAIN_MS 3000

/* ---- making one ---- */

void
exchange_begin(struct exchange *x, const struct blobs *b, const char *method, const char *key, const char *query,
               const char *doing)
{
	*x = (struct exchange){ .method = method, .doing = doing, .body = BUF(S3_XML_MAX) };
	snprintf(x->path, sizeof(x->path), "%s%s%s%s%s%s", b->place.in_path ? "/" : "", b->place.in_path ? b->place.bucket : "",
	         key[0] != '\0' || !b->place.in_path ? "/" : "", key, query[0] != '\0' ? "?" : "", query);
}

void
exchange_free(struct exchange *x)
{
	buf_free(&x->body);
}

static struct http_text
text_of(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

void
exchange_field(struct exchange *x, const char *name, const char *value)
{
	if (x->n_fields < BLOBS_FIELDS_MAX)
		x->fields[x->n_fields++] = (struct http_field){ text_of(name), text_of(value) };
}

/* ---- its signature ---- */

static int
add_line(struct curl_slist **lines, const char *name, const char *value, struct err *err)
{
	OWN(freep) char *line = str_format("%s: %s", name, value);
	struct curl_slist *longer = line != NULL ? curl_slist_append(*lines, line) : NULL;

	if (line != NULL)
		explicit_bzero(line, strlen(line));
	if (longer == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*lines = longer;
	return 0;
}

static int
sign(const struct blobs *b, const struct http_head *head, struct curl_slist **lines, struct err *err)
{
	const struct sign_key key = { text_of(b->keys.id), text_of(b->keys.secret), text_of(b->keys.token) };
	char authorization[SIGV4_AUTHORIZATION_MAX], name[64];
	OWN(freep) char *value = NULL;
	int r = sigv4_sign_fresh(&key, b->place.region, "s3", head, authorization, err);

	for (size_t i = 0; r == 0 && i < head->n_fields; i++) {
		snprintf(name, sizeof(name), "%.*s", (int)head->fields[i].name.len, head->fields[i].name.at);
		free(value);
		value = str_format("%.*s", (int)head->fields[i].value.len, head->fields[i].value.at);
		r = value == NULL ? err_set(err, ENOMEM, "out of memory") : add_line(lines, name, value, err);
	}
	return r == 0 ? add_line(lines, "authorization", authorization, err) : r;
}

static int
make_head(const struct blobs *b, const struct exchange *x, const char *method, struct curl_slist **lines, struct err *err)
{
	struct http_head head = { .method = text_of(method), .host = text_of(b->host), .path = text_of(x->path),
	                          .port = b->place.port, .scheme = b->place.is_tls ? HTTP_TLS : HTTP_PLAIN };
	char when[32], range[48];
	time_t now = time(NULL) + b->apart;
	struct tm tm;
	int r = 0;

	strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	for (size_t i = 0; i < x->n_fields; i++)
		if (!b->no_condition || !http_text_is(x->fields[i].name, "if-none-match"))
			head.fields[head.n_fields++] = x->fields[i];
	head.fields[head.n_fields++] = (struct http_field){ text_of("x-amz-date"), text_of(when) };
	head.fields[head.n_fields++] = (struct http_field){ text_of("x-amz-content-sha256"),
	                                                    text_of(x->payload[0] != '\0' ? x->payload : EMPTY_HASH) };
	if (b->keys.token[0] != '\0')
		head.fields[head.n_fields++] = (struct http_field){ text_of("x-amz-security-token"), text_of(b->keys.token) };
	r = sign(b, &head, lines, err);
	/* The server may take other fields that are not signed; these mean nothing to it. */
	if (r == 0 && strcmp(method, "POST") == 0)
		r = add_line(lines, "content-type", "application/xml", err);
	snprintf(range, sizeof(range), "bytes=%" PRIu64 "-", x->at);
	if (r == 0 && strcmp(method, x->method) != 0)
		return add_line(lines, "range", "bytes=0-0", err);
	return r == 0 && x->at > 0 ? add_line(lines, "range", range, err) : r;
}

/* ---- bodies ---- */

static size_t
give_body(char *data, size_t size, size_t n, void *arg)
{
	struct exchange *x = arg;
	uint64_t left = x->length - x->sent;
	ssize_t got;

	n = size * n < left ? size * n : (size_t)left;
	if (x->data != NULL) {
		memcpy(data, (const char *)x->data + x->sent, n);
		x->sent += n;
		return n;
	}
	got = n == 0 ? 0 : pread(x->from, data, n, (off_t)(x->offset + x->sent));
	if (got < 0 || (got == 0 && n > 0)) {
		(void)err_set(&x->err, EIO, "cannot read the blob: %s", got < 0 ? strerrordesc_np(errno) : "it became shorter");
		return CURL_READFUNC_ABORT;
	}
	x->sent += (uint64_t)got;
	return (size_t)got;
}

static int
seek_body(void *arg, curl_off_t offset, int origin)
{
	struct exchange *x = arg;

	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > x->length)
		return CURL_SEEKFUNC_FAIL;
	x->sent = (uint64_t)offset;
	return CURL_SEEKFUNC_OK;
}

static bool
is_content(const struct exchange *x)
{
	return x->to > 0 && (x->status == 200 || x->status == 206);
}

/* Of an answer in several tries the server sends the rest, or all of it again. */
static int
begin_content(struct exchange *x)
{
	uint64_t rest;

	if (x->status == 200)
		x->at = 0;
	if (x->status == 206 && x->begun != x->at)
		return err_set(&x->err, EBADMSG, "the server sends another part of the blob than it was asked for");
	rest = x->max - x->at;
	if (x->size != UINT64_MAX && x->size > rest)
		return err_set(&x->err, EFBIG, "the object has %" PRIu64 " bytes, and a blob has at most %" PRIu64,
		               x->at + x->size, x->max);
	return 0;
}

static size_t
take_body(char *data, size_t size, size_t n, void *arg)
{
	struct exchange *x = arg;
	size_t done = 0;

	n *= size;
	if (!is_content(x)) {
		/* Nobody reads more of a page that some proxy has written. */
		buf_put(&x->body, data, n);
		return buf_failed(&x->body) ? CURL_WRITEFUNC_ERROR : n;
	}
	if (x->sent++ == 0 && begin_content(x) < 0)
		return CURL_WRITEFUNC_ERROR;
	if (n > x->max - x->at) {
		(void)err_set(&x->err, EFBIG, "the object has more than %" PRIu64 " bytes", x->max);
		return CURL_WRITEFUNC_ERROR;
	}
	while (done < n) {
		ssize_t put = pwrite(x->to, data + done, n - done, (off_t)x->at);

		if (put < 0 && errno != EINTR) {
			(void)err_errno(&x->err, "cannot write a blob that was fetched");
			return CURL_WRITEFUNC_ERROR;
		}
		done += put > 0 ? (size_t)put : 0;
		x->at += put > 0 ? (uint64_t)put : 0;
	}
	return n;
}

static void
forget_answer(struct exchange *x)
{
	x->status = 0;
	x->size = x->begun = UINT64_MAX;
	x->date = x->modified = -1;
	x->retry_after_ms = 0;
	x->etag[0] = x->region[0] = '\0';
	x->error = (struct s3_error){ .code = "" };
	buf_reset(&x->body);
}

static size_t
take_head(char *line, size_t size, size_t n, void *arg)
{
	struct exchange *x = arg;
	char value[256];
	uint64_t seconds;

	n *= size;
	if (n > 12 && strncmp(line, "HTTP/", 5) == 0) {
		forget_answer(x);
		x->status = strtol(line + strcspn(line, " \r"), NULL, 10);
	} else if (curl_way_field(line, n, "content-length", value, sizeof(value)))
		(void)num_parse_count(value, 0, INT64_MAX, &x->size, NULL);
	else if (curl_way_field(line, n, "date", value, sizeof(value)))
		x->date = s3_time_read(value);
	else if (curl_way_field(line, n, "last-modified", value, sizeof(value)))
		x->modified = s3_time_read(value);
	else if (curl_way_field(line, n, "etag", value, sizeof(value)))
		snprintf(x->etag, sizeof(x->etag), "%.*s", (int)strcspn(value, "<>&"), value);
	else if (curl_way_field(line, n, "x-amz-bucket-region", value, sizeof(value)))
		snprintf(x->region, sizeof(x->region), "%.*s", (int)strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-"), value);
	else if (curl_way_field(line, n, "retry-after", value, sizeof(value))) {
		if (num_parse_count(value, 0, BLOBS_PAUSE_MAX_MS / 1000, &seconds, NULL) == 0)
			x->retry_after_ms = (int64_t)seconds * 1000;
	} else if (curl_way_field(line, n, "content-range", value, sizeof(value)) && strncmp(value, "bytes ", 6) == 0) {
		value[6 + strspn(value + 6, "0123456789")] = '\0';
		(void)num_parse_count(value + 6, 0, INT64_MAX, &x->begun, NULL);
	}
	return n;
}

/* ---- one try ---- */

/* The handle has gone: there is nobody to work for. */
static void
leave_if_alone(const struct blobs *b)
{
	struct pollfd p = { .fd = b->channel };

	if (poll(&p, 1, 0) > 0 && (p.revents & (POLLHUP | POLLERR)) != 0)
		_exit(0);
}

static CURLcode
await(const struct blobs *b)
{
	struct curl_waitfd channel = { .fd = b->channel };
	CURLMsg *message = NULL;
	int running = 1, left;

	while (message == NULL) {
		if (curl_multi_perform(b->multi, &running) != CURLM_OK)
			return CURLE_FAILED_INIT;
		message = curl_multi_info_read(b->multi, &left);
		if (message == NULL && (running == 0 || curl_multi_poll(b->multi, &channel, 1, 1000, NULL) != CURLM_OK))
			return CURLE_FAILED_INIT;
		leave_if_alone(b);
	}
	return message->data.result;
}

static void
set_method(CURL *easy, const char *method, struct exchange *x)
{
	if (strcmp(method, "HEAD") == 0) {
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
	} else if (strcmp(method, "GET") != 0) {
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
		if (x->length > 0 || strcmp(method, "DELETE") != 0) {
			curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
			curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)x->length);
		}
	}
	curl_easy_setopt(easy, CURLOPT_READFUNCTION, give_body);
	curl_easy_setopt(easy, CURLOPT_READDATA, x);
	curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, seek_body);
	curl_easy_setopt(easy, CURLOPT_SEEKDATA, x);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, x);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_head);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, x);
}

static void
set_common(const struct blobs *b, const char *url, char why[CURL_ERROR_SIZE], int64_t ms)
{
	curl_easy_setopt(b->easy, CURLOPT_URL, url);
	curl_easy_setopt(b->easy, CURLOPT_PATH_AS_IS, 1L);
	curl_easy_setopt(b->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(b->easy, CURLOPT_USERAGENT, "cloister/" CLOISTER_VERSION);
	curl_easy_setopt(b->easy, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(b->easy, CURLOPT_CONNECTTIMEOUT, (long)BLOBS_CONNECT_S);
	curl_easy_setopt(b->easy, CURLOPT_LOW_SPEED_LIMIT, (long)BLOBS_SLOW);
	curl_easy_setopt(b->easy, CURLOPT_LOW_SPEED_TIME, (long)b->place.stall_s);
	curl_easy_setopt(b->easy, CURLOPT_TIMEOUT_MS, (long)(ms > 1 ? ms : 1));
	curl_easy_setopt(b->easy, CURLOPT_BUFFERSIZE, 256L * 1024);
	curl_easy_setopt(b->easy, CURLOPT_UPLOAD_BUFFERSIZE, 256L * 1024);
}

/* Returns a negative value if it cannot be sent at all. */
static int
send_once(struct blobs *b, struct exchange *x, const char *method, CURLcode *ret_code, char why[CURL_ERROR_SIZE],
          struct err *err)
{
	const struct curl_way way = { .resolver = b->resolver, .loop = b->loop, .proxies = &b->proxies };
	struct curl_way_lists lists = {0};
	struct curl_slist *lines = NULL;
	char url[BLOBS_PATH_MAX + sizeof(b->host) + 32];
	bool here;
	int r;

	snprintf(url, sizeof(url), "%s://%s:%u%s", b->place.is_tls ? "https" : "http", b->host, b->place.port, x->path);
	curl_easy_reset(b->easy);
	why[0] = '\0';
	x->sent = 0;
	forget_answer(x);
	set_common(b, url, why, b->deadline - io_now_ms());
	set_method(b->easy, method, x);
	curl_way_secure(b->easy, b->place.is_tls, b->pem, b->pem_len);
	r = make_head(b, x, method, &lines, err);
	if (r == 0) {
		r = curl_way_set(&way, b->easy, b->place.is_tls, b->host, b->place.port, &lists, &here, err);
		/* A name that nobody can look up at the moment. */
		*ret_code = CURLE_COULDNT_RESOLVE_HOST;
		r = r == -EHOSTUNREACH ? 1 : r;
	}
	if (r == 0) {
		curl_easy_setopt(b->easy, CURLOPT_HTTPHEADER, lines);
		r = curl_multi_add_handle(b->multi, b->easy) == CURLM_OK ? 0 : err_set(err, ENOMEM, "out of memory");
		if (r == 0)
			*ret_code = await(b);
		(void)curl_multi_remove_handle(b->multi, b->easy);
	}
	for (struct curl_slist *line = lines; line != NULL; line = line->next)
		explicit_bzero(line->data, strlen(line->data));
	curl_slist_free_all(lines);
	curl_way_free(&lists);
	return r < 0 ? r : 0;
}

/* ---- what an answer means ---- */

enum verdict { GOOD, MISSING, THERE, AGAIN, LATER, ANEW, HOPELESS };

static bool
is_code(const struct exchange *x, const char *words)
{
	const char *at = x->error.code[0] != '\0' ? strstr(words, x->error.code) : NULL;
	size_t len = strlen(x->error.code);

	return at != NULL && (at == words || at[-1] == ' ') && (at[len] == '\0' || at[len] == ' ');
}

static enum verdict
judge(struct blobs *b, struct exchange *x)
{
	if (x->status >= 300 || s3_is_error((char *)x->body.data, x->body.len))
		s3_error_read((char *)x->body.data, x->body.len, &x->error);
	if (x->status < 300 && x->error.code[0] == '\0')
		return GOOD;
	if (x->status < 300 || x->status == 429 || x->status == 408 ||
	    is_code(x, "SlowDown RequestTimeout InternalError ServiceUnavailable OperationAborted ConditionalRequestConflict"))
		return LATER;
	if (is_code(x, "ExpiredToken InvalidToken TokenRefreshRequired"))
		return ANEW;
	if (x->status == 501 && !b->no_condition) {
		for (size_t i = 0; i < x->n_fields; i++)
			if (http_text_is(x->fields[i].name, "if-none-match")) {
				b->no_condition = true;
				return AGAIN;
			}
	}
	if (x->status >= 500 && x->status != 501)
		return LATER;
	/* The server has nothing behind what is there. */
	if (x->status == 416 && x->at > 0) {
		x->at = 0;
		return LATER;
	}
	return x->status == 412 ? THERE : x->status == 404 && !is_code(x, "NoSuchBucket NoSuchUpload") ? MISSING : HOPELESS;
}

static int
explain_denied(const struct blobs *b, const struct exchange *x, struct err *err)
{
	long long apart = x->date >= 0 ? (long long)time(NULL) - x->date : 0;

	if (is_code(x, "InvalidAccessKeyId"))
		return err_set(err, EACCES, "'%s' does not know the key '%.64s'", b->host, b->keys.id);
	if (is_code(x, "SignatureDoesNotMatch"))
		return err_set(err, EACCES, "'%s' says that the secret of the key '%.64s' is another one", b->host, b->keys.id);
	if (is_code(x, "RequestTimeTooSkewed RequestExpired"))
		return err_set(err, EACCES, "this machine's clock and that of '%s' differ by %lld s: set the clock, with NTP for one",
		               b->host, apart < 0 ? -apart : apart);
	if (is_code(x, "ExpiredToken InvalidToken TokenRefreshRequired"))
		return err_set(err, EACCES, "the key '%.64s' has expired or its session token is wrong: give a new one", b->keys.id);
	return err_set(err, EACCES, "'%s' denies the key '%.64s' %s on %s%s%s%s", b->host, b->keys.id, x->doing, b->place_text,
	               x->error.message[0] != '\0' ? " (" : "", x->error.message, x->error.message[0] != '\0' ? ")" : "");
}

static int
explain_status(const struct blobs *b, const struct exchange *x, struct err *err)
{
	const char *region = x->region[0] != '\0' ? x->region : x->error.region;

	if (is_code(x, "NoSuchBucket"))
		return err_set(err, ENODEV, "there is no bucket '%s' at '%s': create it, or change %s", b->place.bucket,
		               b->host, S3_VARIABLE);
	if (x->status == 404)
		return err_set(err, ENOENT, "there is no such blob in %s", b->place_text);
	if (x->status == 412)
		return err_set(err, EEXIST, "the blob is there already");
	if ((x->status == 301 || x->status == 307 || x->status == 400 || x->status == 403) && region[0] != '\0' &&
	    strcmp(region, b->place.region) != 0)
		return err_set(err, EINVAL, "the bucket '%s' is in the region '%s', not in '%s': add region=%s to %s, or set "
		               "AWS_REGION", b->place.bucket, region, b->place.region, region, S3_VARIABLE);
	if (x->status == 401 || x->status == 403 || is_code(x, "ExpiredToken InvalidToken TokenRefreshRequired"))
		return explain_denied(b, x, err);
	return err_set(err, EIO, "'%s' answers with %ld%s%s%s%s", b->host, x->status, x->error.code[0] != '\0' ? " " : "",
	               x->error.code, x->error.message[0] != '\0' ? ": " : "", x->error.message);
}

static int
explain_curl(const struct blobs *b, CURLcode code, const char *why, struct err *err)
{
	long proxy = 0;

	curl_easy_getinfo(b->easy, CURLINFO_HTTP_CONNECTCODE, &proxy);
	if (proxy >= 400)
		return err_set(err, EACCES, "the proxy does not connect to '%s': it answers with %ld", b->host, proxy);
	if (code == CURLE_PEER_FAILED_VERIFICATION)
		return err_set(err, EPERM, "the certificate of '%s' is not trusted: %.300s (AWS_CA_BUNDLE names authorities of your "
		               "own)", b->host, why);
	if (code == CURLE_SSL_CONNECT_ERROR)
		return err_set(err, EPROTO, "'%s' does not speak TLS as it should: %.200s", b->host, why);
	if (code == CURLE_OPERATION_TIMEDOUT)
		return err_set(err, ETIMEDOUT, "'%s' does not answer, or hardly moves a byte", b->host);
	if (code == CURLE_COULDNT_RESOLVE_HOST && err->code != 0)
		return -err->code;
	return err_set(err, EIO, "cannot reach '%s': %.300s", b->host, why[0] != '\0' ? why : curl_easy_strerror(code));
}

/* ---- services of the machine ---- */

static size_t
take_plain(char *data, size_t size, size_t n, void *arg)
{
	struct buf *body = arg;

	buf_put(body, data, size * n);
	return buf_failed(body) ? CURL_WRITEFUNC_ERROR : size * n;
}

/* An aws_asker. */
static int
ask_plain(void *arg, const char *method, const char *url, const char *const *fields, struct buf *body, long *ret_status,
          struct err *err)
{
	struct blobs *b = arg;
	struct curl_slist *lines = NULL;
	char why[CURL_ERROR_SIZE] = "";
	CURLcode code;
	int r = 0;

	curl_easy_reset(b->easy);
	set_common(b, url, why, PLAIN_MS);
	curl_easy_setopt(b->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)PLAIN_CONNECT_MS);
	curl_easy_setopt(b->easy, CURLOPT_PROXY, "");
	curl_easy_setopt(b->easy, CURLOPT_CUSTOMREQUEST, method);
	curl_easy_setopt(b->easy, CURLOPT_WRITEFUNCTION, take_plain);
	curl_easy_setopt(b->easy, CURLOPT_WRITEDATA, body);
	curl_way_secure(b->easy, strncmp(url, "https:", 6) == 0, b->pem, b->pem_len);
	for (; r == 0 && *fields != NULL; fields++) {
		struct curl_slist *longer = curl_slist_append(lines, *fields);

		r = longer == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
		lines = longer != NULL ? longer : lines;
	}
	curl_easy_setopt(b->easy, CURLOPT_HTTPHEADER, lines);
	if (r == 0 && curl_multi_add_handle(b->multi, b->easy) != CURLM_OK)
		r = err_set(err, ENOMEM, "out of memory");
	if (r == 0) {
		code = await(b);
		(void)curl_multi_remove_handle(b->multi, b->easy);
		if (code != CURLE_OK)
			r = err_set(err, EIO, "%s", why[0] != '\0' ? why : curl_easy_strerror(code));
		curl_easy_getinfo(b->easy, CURLINFO_RESPONSE_CODE, ret_status);
	}
	curl_slist_free_all(lines);
	return r;
}

static int
renew_keys(struct blobs *b, bool anew, struct err *err)
{
	return aws_keys_renew(&b->keys, &(struct aws_asker){ ask_plain, b }, anew, err);
}

/* ---- until it is answered ---- */

static void
pause_for(const struct blobs *b, const struct exchange *x, unsigned n)
{
	struct pollfd p = { .fd = b->channel };
	int64_t most = (int64_t)200 << (n < 10 ? n : 10), until;
	uint16_t noise = 0;

	most = most < BLOBS_PAUSE_MAX_MS ? most : BLOBS_PAUSE_MAX_MS;
	/* So that many clients do not come back at once. */
	(void)!getrandom(&noise, sizeof(noise), 0);
	most = most / 2 + noise % (most / 2);
	most = most > x->retry_after_ms ? most : x->retry_after_ms + noise % 64;
	until = io_now_ms() + most;
	while (io_now_ms() < until) {
		(void)poll(&p, 1, (int)(until - io_now_ms()) + 1);
		leave_if_alone(b);
	}
}

/* An answer to HEAD has no body that would tell why. */
static void
ask_why(struct blobs *b, struct exchange *x)
{
	char why[CURL_ERROR_SIZE];
	CURLcode code;

	if (strcmp(x->method, "HEAD") != 0 || x->status < 300)
		return;
	if (send_once(b, x, "GET", &code, why, NULL) == 0 && code == CURLE_OK && x->status >= 300)
		s3_error_read((char *)x->body.data, x->body.len, &x->error);
}

static enum verdict
try_once(struct blobs *b, struct exchange *x, struct err *err)
{
	char why[CURL_ERROR_SIZE];
	enum verdict v;
	CURLcode code;

	if (renew_keys(b, false, err) < 0 || send_once(b, x, x->method, &code, why, err) < 0)
		return HOPELESS;
	if (x->err.code != 0) {
		*err = x->err;
		return HOPELESS;
	}
	if (code != CURLE_OK) {
		(void)explain_curl(b, code, why, err);
		return curl_way_may_retry(code) ? LATER : HOPELESS;
	}
	/* A body without a byte. */
	if (is_content(x) && x->sent == 0 && begin_content(x) < 0) {
		*err = x->err;
		return HOPELESS;
	}
	v = judge(b, x);
	if (v == HOPELESS)
		ask_why(b, x);
	if (v == HOPELESS && is_code(x, "ExpiredToken InvalidToken TokenRefreshRequired"))
		v = ANEW;
	/* Signed anew with the server's time, as Amazon's own clients do: this machine's clock was set, or is wrong. */
	if (v == HOPELESS && is_code(x, "RequestTimeTooSkewed RequestExpired") && x->date > 0 && !x->is_timed) {
		b->apart = (time_t)x->date - time(NULL);
		x->is_timed = true;
		v = AGAIN;
	}
	if (v != GOOD)
		(void)explain_status(b, x, err);
	return v;
}

enum blobs_next
exchange_run(struct blobs *b, struct exchange *x, struct err *err)
{
	unsigned tries = 0, renewed = 0;
	uint64_t before = 0;
	enum verdict v;

	for (;;) {
		struct err why = {0};

		v = try_once(b, x, &why);
		if (v == ANEW && (renewed++ > 0 || renew_keys(b, true, NULL) < 0))
			v = HOPELESS;
		if (v == LATER) {
			tries = x->at > before ? 1 : tries + 1;
			before = x->at;
			if (tries >= BLOBS_TRIES || io_now_ms() >= b->deadline) {
				v = HOPELESS;
				ask_why(b, x);
				if (x->error.code[0] != '\0')
					(void)explain_status(b, x, &why);
			}
		}
		if (v == GOOD)
			return BLOBS_OK;
		if (v == MISSING || v == THERE || v == HOPELESS) {
			if (err != NULL)
				*err = why;
			return v == MISSING ? BLOBS_MISSING : v == THERE ? BLOBS_THERE : BLOBS_FAIL;
		}
		if (v == LATER)
			pause_for(b, x, tries);
	}
}
