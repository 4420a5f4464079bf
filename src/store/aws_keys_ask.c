/* aws_keys_ask.c - see aws_keys.h: asks services for a key. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "http/http_head.h"
#include "sign/sigv4.h"
#include "store/aws_keys_parts.h"
#include "store/aws_process.h"
#include "store/s3_xml.h"

#define EARLY_S 300                     /* before its end, a key is renewed */
#define AGAIN_S 15
#define TOKEN_S "21600"

OWN_BY(json_freep, json_t *, json_decref)

static const char *
member(json_t *answer, const char *name)
{
	const char *value = json_string_value(json_object_get(answer, name));

	return value != NULL ? value : "";
}

static int
take_answer(struct aws_keys *k, const struct buf *body, long status, struct err *err)
{
	OWN(json_freep) json_t *answer = NULL;
	int r;

	if (status != 200)
		return err_set(err, EIO, "it answers with %ld", status);
	answer = json_loadb((char *)body->data, body->len, 0, NULL);
	/* Programs call the token by its longer name. */
	if (member(answer, "Token")[0] == '\0' && json_is_string(json_object_get(answer, "SessionToken")))
		(void)json_object_set(answer, "Token", json_object_get(answer, "SessionToken"));
	if (member(answer, "AccessKeyId")[0] == '\0' || member(answer, "SecretAccessKey")[0] == '\0')
		return err_set(err, EBADMSG, "its answer has no key");
	r = aws_keys_set_all(k, member(answer, "AccessKeyId"), member(answer, "SecretAccessKey"), member(answer, "Token"), err);
	k->until = s3_time_read(member(answer, "Expiration"));
	k->until = k->until < 0 ? 0 : k->until;
	return r;
}

/* Others renew it. */
static int
read_token(struct aws_keys *k, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len = 0;
	int r = read_file_at(AT_FDCWD, k->token_file, sizeof(k->authorization) - 1, &text, &len, err);

	if (r < 0)
		return r;
	while (len > 0 && strchr(" \t\r\n", text[len - 1]) != NULL)
		text[--len] = '\0';
	r = aws_keys_set(k, k->authorization, sizeof(k->authorization), text, len, "the token", err);
	explicit_bzero(text, len);
	return r;
}

/* ---- the token service ---- */

static int
take_role(struct aws_keys *k, const struct buf *body, long status, struct err *err)
{
	char id[AWS_KEY_ID_MAX + 1], secret[AWS_KEY_SECRET_MAX + 1], token[AWS_KEY_TOKEN_MAX + 1], until[64];
	const char *text = (const char *)body->data;
	struct s3_error said;
	int r;

	if (status != 200) {
		s3_error_read(text, body->len, &said);
		return err_set(err, EACCES, "it answers with %ld %s: %s", status, said.code, said.message);
	}
	if (!s3_word_read(text, body->len, "AccessKeyId", id, sizeof(id)) ||
	    !s3_word_read(text, body->len, "SecretAccessKey", secret, sizeof(secret)) ||
	    !s3_word_read(text, body->len, "SessionToken", token, sizeof(token)))
		return err_set(err, EBADMSG, "its answer has no key");
	r = aws_keys_set_all(k, id, secret, token, err);
	k->until = s3_word_read(text, body->len, "Expiration", until, sizeof(until)) ? s3_time_read(until) : 0;
	k->until = k->until < 0 ? 0 : k->until;
	explicit_bzero(secret, sizeof(secret));
	explicit_bzero(token, sizeof(token));
	return r;
}

static int
role_failed(const struct aws_keys *k, struct err *err)
{
	return err_wrap(err, "the token service for the role '%.100s' ('%.100s')", k->role, k->url);
}

/* AssumeRoleWithWebIdentity: the token is what proves the request, which nobody signs. */
static int
ask_web(struct aws_keys *k, const struct aws_asker *asker, struct err *err)
{
	OWN(buf_free) struct buf body = BUF_SECRET(64 * 1024), url = BUF_SECRET(32 * 1024);
	long status = 0;
	int r = read_token(k, err);

	buf_put_text(&url, k->url);
	buf_put_text(&url, "/?Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
	aws_keys_escape(&url, "&RoleArn=", k->role);
	aws_keys_escape(&url, "&RoleSessionName=", k->session);
	aws_keys_escape(&url, "&WebIdentityToken=", k->authorization);
	buf_put(&url, "", 1);
	if (r == 0 && buf_failed(&url))
		r = err_set(err, EFBIG, "the token is too long");
	if (r == 0)
		r = asker->ask(asker->arg, "GET", (const char *)url.data, (const char *const[]){ NULL }, &body, &status, err);
	r = r == 0 ? take_role(k, &body, status, err) : r;
	return r < 0 ? role_failed(k, err) : 0;
}

static struct http_text
text_of(const char *text)
{
	return (struct http_text){ text, strlen(text) };
}

#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define LINES_MAX 5

/* Lines for a request of PATH to the token service, signed with the base's key; the caller wipes and frees them. */
static int
sign_for_role(const struct aws_keys *k, const char *path, char *lines[LINES_MAX], struct err *err)
{
	const struct sign_key key = { text_of(k->base->id), text_of(k->base->secret), text_of(k->base->token) };
	struct http_head head = { .method = text_of("GET"), .path = text_of(path) };
	char host[HTTP_HOST_MAX + 1], when[32];
	const char *at = strstr(k->url, "://") + 3;
	time_t now = time(NULL);
	uint16_t port = 0;
	struct tm tm;
	int r = http_authority_parse((struct http_text){ at, strcspn(at, "/") }, host, &port, err);

	head.scheme = strncmp(k->url, "https:", 6) == 0 ? HTTP_TLS : HTTP_PLAIN;
	head.host = text_of(host);
	head.port = port != 0 ? port : head.scheme == HTTP_TLS ? 443 : 80;
	strftime(when, sizeof(when), "%Y%m%dT%H%M%SZ", gmtime_r(&now, &tm));
	head.fields[head.n_fields++] = (struct http_field){ text_of("x-amz-content-sha256"), text_of(EMPTY_HASH) };
	head.fields[head.n_fields++] = (struct http_field){ text_of("x-amz-date"), text_of(when) };
	if (key.token.len > 0)
		head.fields[head.n_fields++] = (struct http_field){ text_of("x-amz-security-token"), key.token };
	return r == 0 ? sigv4_sign_lines(&key, k->region, "sts", &head, lines, err) : r;
}

static int
ask_role_once(struct aws_keys *k, const struct aws_asker *asker, struct err *err)
{
	OWN(buf_free) struct buf body = BUF_SECRET(64 * 1024), path = BUF(16 * 1024);
	OWN(freep) char *url = NULL;
	char *lines[LINES_MAX] = { NULL };
	long status = 0;
	int r;

	buf_put_text(&path, "/?Action=AssumeRole&Version=2011-06-15");
	aws_keys_escape(&path, "&RoleArn=", k->role);
	aws_keys_escape(&path, "&RoleSessionName=", k->session);
	if (k->external[0] != '\0')
		aws_keys_escape(&path, "&ExternalId=", k->external);
	buf_put(&path, "", 1);
	r = buf_failed(&path) ? err_set(err, EFBIG, "its name is too long") : sign_for_role(k, (const char *)path.data, lines, err);
	if (r == 0 && (url = str_format("%s%s", k->url, (const char *)path.data)) == NULL)
		r = err_set(err, ENOMEM, "out of memory");
	if (r == 0)
		r = asker->ask(asker->arg, "GET", url, (const char *const[]){ lines[0], lines[1], lines[2], lines[3], lines[4], NULL },
		               &body, &status, err);
	sigv4_lines_free(lines, LINES_MAX);
	return r == 0 ? take_role(k, &body, status, err) : r;
}

/* The base's key may have ended, or been renewed in its file. */
static int
ask_role(struct aws_keys *k, const struct aws_asker *asker, struct err *err)
{
	int r = aws_keys_renew(k->base, asker, false, err);

	r = r == 0 ? ask_role_once(k, asker, err) : r;
	if (r == -EACCES && aws_keys_renew(k->base, asker, true, NULL) == 0)
		r = ask_role_once(k, asker, err);
	return r < 0 ? role_failed(k, err) : 0;
}

/* ---- a login in a browser ---- */

static int
ask_sso(struct aws_keys *k, const struct aws_asker *asker, struct err *err)
{
	OWN(buf_free) struct buf body = BUF_SECRET(64 * 1024);
	OWN(json_freep) json_t *login = NULL, *answer = NULL;
	OWN(freep) char *text = NULL, *line = NULL;
	json_t *key;
	long status = 0;
	size_t len = 0;
	int r = read_file_at(AT_FDCWD, k->token_file, 64 * 1024, &text, &len, err);

	login = r < 0 ? NULL : json_loadb(text, len, 0, NULL);
	if (text != NULL)
		explicit_bzero(text, len);
	if (member(login, "accessToken")[0] == '\0')
		return err_set(err, ENOENT, "nobody has logged in for the profile '%.64s': `aws sso login --profile %.64s`", k->profile,
		               k->profile);
	line = str_format("x-amz-sso_bearer_token: %s", member(login, "accessToken"));
	r = line == NULL ? err_set(err, ENOMEM, "out of memory") :
	    strpbrk(line, "\r\n") != NULL ? err_set(err, EBADMSG, "the token of the login is malformed") :
	    asker->ask(asker->arg, "GET", k->url, (const char *const[]){ line, NULL }, &body, &status, err);
	if (line != NULL)
		explicit_bzero(line, strlen(line));
	answer = r < 0 ? NULL : json_loadb((char *)body.data, body.len, 0, NULL);
	key = json_object_get(answer, "roleCredentials");
	if (r == 0 && status != 200)
		r = err_set(err, EACCES, "it answers with %ld: the login may be over: `aws sso login --profile %.64s`", status,
		            k->profile);
	else if (r == 0 && (member(key, "accessKeyId")[0] == '\0' || member(key, "secretAccessKey")[0] == '\0'))
		r = err_set(err, EBADMSG, "its answer has no key");
	else if (r == 0)
		r = aws_keys_set_all(k, member(key, "accessKeyId"), member(key, "secretAccessKey"), member(key, "sessionToken"), err);
	k->until = (int64_t)json_integer_value(json_object_get(key, "expiration")) / 1000;
	return r < 0 ? err_wrap(err, "the service for logins of the profile '%.64s'", k->profile) : 0;
}

/* ---- containers and machines ---- */

static int
ask_container(struct aws_keys *k, const struct aws_asker *asker, struct err *err)
{
	OWN(buf_free) struct buf body = BUF_SECRET(64 * 1024);
	OWN(freep) char *line = NULL;
	long status = 0;
	int r = k->token_file != NULL ? read_token(k, err) : 0;

	if (r < 0)
		return r;
	if (k->authorization[0] != '\0' && (line = str_format("Authorization: %s", k->authorization)) == NULL)
		r = err_set(err, ENOMEM, "out of memory");
	if (r == 0)
		r = asker->ask(asker->arg, "GET", k->url, (const char *const[]){ line, NULL }, &body, &status, err);
	if (line != NULL)
		explicit_bzero(line, strlen(line));
	r = r == 0 ? take_answer(k, &body, status, err) : r;
	return r < 0 ? err_wrap(err, "the service for the container's key ('%.100s')", k->url) : 0;
}

/* Version 2 alone: it wants a token, which no redirected request can have. */
static int
ask_machine(struct aws_keys *k, const struct aws_asker *asker, struct err *err)
{
	static const char path[] = "/latest/meta-data/iam/security-credentials/";
	OWN(buf_free) struct buf token = BUF_SECRET(4096), role = BUF(256), body = BUF_SECRET(64 * 1024);
	OWN(freep) char *line = NULL, *url = str_format("%s/latest/api/token", k->service);
	long status = 0;
	int r = url == NULL ? err_set(err, ENOMEM, "out of memory") :
		asker->ask(asker->arg, "PUT", url, (const char *const[]){ "X-aws-ec2-metadata-token-ttl-seconds: " TOKEN_S, NULL }, &token,
		               &status, err);

	if (r == 0 && (status != 200 || token.len == 0 || memchr(token.data, '\n', token.len) != NULL))
		r = err_set(err, EIO, "it gives no token (%ld)", status);
	if (r == 0)
		line = str_format("X-aws-ec2-metadata-token: %.*s", (int)token.len, (char *)token.data);
	free(TAKE(url));
	url = str_format("%s%s", k->service, path);
	if (r == 0)
		r = line == NULL || url == NULL ? err_set(err, ENOMEM, "out of memory") :
		    asker->ask(asker->arg, "GET", url, (const char *const[]){ line, NULL }, &role, &status, err);
	if (r == 0 && (status != 200 || role.len == 0))
		r = err_set(err, ENOENT, "the machine has no role (%ld)", status);
	buf_put(&role, "", 1);
	free(TAKE(url));
	if (r == 0 && buf_failed(&role))
		r = err_set(err, EBADMSG, "the name of the machine's role is too long");
	if (r == 0) {
		url = str_format("%s%s%.*s", k->service, path, (int)strcspn((char *)role.data, "\r\n"), (char *)role.data);
		r = url == NULL ? err_set(err, ENOMEM, "out of memory") :
		    asker->ask(asker->arg, "GET", url, (const char *const[]){ line, NULL }, &body, &status, err);
	}
	r = r == 0 ? take_answer(k, &body, status, err) : r;
	return r < 0 ? err_wrap(err, "there is no key to %s in variables or files, and none from the machine's service ('%s')",
	                        k->to, k->service) : 0;
}

/* ---- a program of the operator's ---- */

static int
ask_process(struct aws_keys *k, struct err *err)
{
	OWN(buf_free) struct buf out = BUF_SECRET(AWS_PROCESS_OUT_MAX);
	int r = aws_process_ask(k->process, &out, err);

	r = r == 0 ? take_answer(k, &out, 200, err) : r;
	return r < 0 ? err_wrap(err, "the program of credential_process in the profile '%.64s'", k->profile) : 0;
}

int
aws_keys_renew(struct aws_keys *k, const struct aws_asker *asker, bool anew, struct err *err)
{
	int64_t now = (int64_t)time(NULL);
	int r;

	if (k->from == AWS_KEYS_VARIABLES)
		return anew ? -ENOENT : 0;
	if (k->from == AWS_KEYS_FILE)
		return anew ? aws_keys_read(k, true, err) : 0;
	if (!anew && k->id[0] != '\0' && (k->until == 0 || now < k->until - EARLY_S || now < k->again))
		return 0;
	r = k->from == AWS_KEYS_PROCESS ? ask_process(k, err) : k->from == AWS_KEYS_WEB ? ask_web(k, asker, err) : k->from == AWS_KEYS_ROLE ? ask_role(k, asker, err) :
	    k->from == AWS_KEYS_SSO ? ask_sso(k, asker, err) : k->from == AWS_KEYS_CONTAINER ? ask_container(k, asker, err) : ask_machine(k, asker, err);
	/* As long as the old one is good, there is time to try again. */
	k->again = now + AGAIN_S;
	return r < 0 && !anew && k->id[0] != '\0' && now < k->until ? 0 : r;
}
