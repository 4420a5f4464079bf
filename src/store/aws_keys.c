/* aws_keys.c - see aws_keys.h.
 *
 * The order is that of Amazon's own clients. */
#include "store/aws_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "http/http_head.h"
#include "store/s3_place.h"
#include "store/s3_xml.h"
#include "trust/trust.h"

#define FILE_SIZE_MAX (256 * 1024)
#define EARLY_S 300                     /* before its end, a key is renewed */
#define AGAIN_S 15
#define CONTAINER "http://169.254.170.2"
#define MACHINE "http://169.254.169.254"
#define TOKEN_S "21600"

OWN_BY(json_freep, json_t *, json_decref)

static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && *value != '\0' ? value : NULL;
}

void
aws_keys_wipe(struct aws_keys *k)
{
	explicit_bzero(k->id, sizeof(k->id));
	explicit_bzero(k->secret, sizeof(k->secret));
	explicit_bzero(k->token, sizeof(k->token));
	explicit_bzero(k->authorization, sizeof(k->authorization));
}

/* A key goes into a header field. */
static int
set(const struct aws_keys *k, char *to, size_t size, const char *value, size_t len, const char *what, struct err *err)
{
	if (len >= size)
		return err_set(err, EFBIG, "%s of the key to %s is too long", what, k->to);
	for (size_t i = 0; i < len; i++)
		if (value[i] <= ' ' || value[i] >= 0x7f)
			return err_set(err, EINVAL, "%s of the key to %s has a character that it cannot have", what, k->to);
	memcpy(to, value, len);
	to[len] = '\0';
	return 0;
}

static int
set_all(struct aws_keys *k, const char *id, const char *secret, const char *token, struct err *err)
{
	int r = set(k, k->id, sizeof(k->id), id, strlen(id), "the id", err);

	r = r == 0 ? set(k, k->secret, sizeof(k->secret), secret, strlen(secret), "the secret", err) : r;
	return r == 0 ? set(k, k->token, sizeof(k->token), token, strlen(token), "the session token", err) : r;
}

/* ---- a file ---- */

static char *
file_path(void)
{
	const char *named = variable("AWS_SHARED_CREDENTIALS_FILE"), *home = variable("HOME");

	return named != NULL ? strdup(named) : home != NULL ? str_format("%s/.aws/credentials", home) : NULL;
}

struct line {
	const char *at;
	size_t len;
};

static struct line
trim(const char *from, const char *to)
{
	while (from < to && strchr(" \t\r", *from) != NULL)
		from++;
	while (to > from && strchr(" \t\r", to[-1]) != NULL)
		to--;
	return (struct line){ from, (size_t)(to - from) };
}

static bool
is(struct line l, const char *word)
{
	return l.len == strlen(word) && memcmp(l.at, word, l.len) == 0;
}

static int
take_setting(struct aws_keys *k, struct line l, struct err *err)
{
	const char *equals = memchr(l.at, '=', l.len);
	struct line name, value;

	if (equals == NULL)
		return 0;
	name = trim(l.at, equals);
	value = trim(equals + 1, l.at + l.len);
	if (is(name, "aws_access_key_id"))
		return set(k, k->id, sizeof(k->id), value.at, value.len, "the id", err);
	if (is(name, "aws_secret_access_key"))
		return set(k, k->secret, sizeof(k->secret), value.at, value.len, "the secret", err);
	if (is(name, "aws_session_token"))
		return set(k, k->token, sizeof(k->token), value.at, value.len, "the session token", err);
	return 0;
}

static int
read_text(struct aws_keys *k, const char *text, size_t len, struct err *err)
{
	bool inside = false, found = false;
	int r = 0;

	for (const char *at = text, *next; r == 0 && at < text + len; at = next + 1) {
		struct line l;

		next = memchr(at, '\n', (size_t)(text + len - at));
		next = next != NULL ? next : text + len;
		l = trim(at, next);
		if (l.len == 0 || *l.at == '#' || *l.at == ';')
			continue;
		if (*l.at == '[') {
			inside = l.at[l.len - 1] == ']' && is(trim(l.at + 1, l.at + l.len - 1), k->profile);
			found = found || inside;
		} else if (inside) {
			r = take_setting(k, l, err);
		}
	}
	if (r == 0 && (!found || k->id[0] == '\0' || k->secret[0] == '\0'))
		return err_set(err, ENOENT, "'%s' has %s '%.64s'%s", k->file, found ? "no key in the profile" : "no profile",
		               k->profile, found ? ": it needs aws_access_key_id and aws_secret_access_key" : "");
	return r < 0 ? err_wrap(err, "'%s'", k->file) : 0;
}

/* AGAIN: its folder is all that is seen here now, and was checked when the file was first read. */
static int
read_keys(struct aws_keys *k, bool again, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len = 0;
	int r = again ? read_file_at(AT_FDCWD, k->file, FILE_SIZE_MAX, &text, &len, err) :
	        trust_read(TRUST_SECRET_FILE, k->file, FILE_SIZE_MAX, &text, &len, err);

	k->token[0] = '\0';
	if (r < 0)
		return r;
	r = read_text(k, text, len, err);
	explicit_bzero(text, len);
	return r;
}

/* ---- where it comes from ---- */

/* Who may get a token over plain HTTP: the machine itself, and the services of Amazon's container platforms. */
static bool
is_near(const char *url)
{
	static const char *const near[] = { "http://169.254.170.2", "http://169.254.170.23", "http://[fd00:ec2::23]" };
	char host[HTTP_HOST_MAX + 1];
	const char *at = strstr(url, "://");
	size_t len = at != NULL ? strcspn(at + 3, "/?#") : 0;
	uint16_t port;

	for (size_t i = 0; i < ARRAY_LEN(near); i++)
		if (strncmp(url, near[i], strlen(near[i])) == 0 && strchr("/:", url[strlen(near[i])]) != NULL)
			return true;
	return at != NULL && http_authority_parse((struct http_text){ at + 3, len }, host, &port, NULL) == 0 &&
	       s3_is_loopback(host);
}

static int
find_container(struct aws_keys *k, const char *relative, const char *full, struct err *err)
{
	const char *token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");

	k->from = AWS_KEYS_CONTAINER;
	k->token_file = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
	if (snprintf(k->url, sizeof(k->url), "%s%s", relative != NULL ? CONTAINER : "", relative != NULL ? relative : full) >=
	    (int)sizeof(k->url) || (relative != NULL && *relative != '/'))
		return err_set(err, EINVAL, "AWS_CONTAINER_CREDENTIALS_%s_URI is malformed", relative != NULL ? "RELATIVE" : "FULL");
	if (strncmp(k->url, "https://", 8) != 0 && !is_near(k->url))
		return err_set(err, EPERM, "AWS_CONTAINER_CREDENTIALS_FULL_URI leads to another machine without TLS: '%.100s'",
		               k->url);
	return token == NULL ? 0 : set(k, k->authorization, sizeof(k->authorization), token, strlen(token), "the token", err);
}

/* Amazon's token service gives a role for a token of somebody whom it trusts. */
static int
find_web(struct aws_keys *k, const char *file, const char *role, struct err *err)
{
	const char *own = variable("AWS_ENDPOINT_URL_STS"), *region = variable("AWS_REGION");
	const char *session = variable("AWS_ROLE_SESSION_NAME");
	int n;

	k->from = AWS_KEYS_WEB;
	k->token_file = file;
	k->role = role;
	k->session = session != NULL ? session : "cloister";
	region = region != NULL ? region : variable("AWS_DEFAULT_REGION");
	n = own != NULL ? snprintf(k->url, sizeof(k->url), "%s", own) :
	    snprintf(k->url, sizeof(k->url), "https://sts.%s%samazonaws.com", region != NULL ? region : "", region != NULL ? "." : "");
	if (n >= (int)sizeof(k->url) || strpbrk(k->url, "?# \t\n@") != NULL)
		return err_set(err, EINVAL, "AWS_ENDPOINT_URL_STS or AWS_REGION is malformed");
	return strncmp(k->url, "https://", 8) == 0 || is_near(k->url) ? 0 :
	       err_set(err, EPERM, "AWS_ENDPOINT_URL_STS leads to another machine without TLS: '%.100s'", k->url);
}

static int
find_machine(struct aws_keys *k, struct err *err)
{
	const char *disabled = variable("AWS_EC2_METADATA_DISABLED"), *service;

	if (disabled != NULL && strcasecmp(disabled, "true") == 0)
		return err_set(err, ENOENT, "there is no key to %s: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write "
		               "~/.aws/credentials", k->to);
	service = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
	k->from = AWS_KEYS_MACHINE;
	snprintf(k->service, sizeof(k->service), "%s", service != NULL ? service : MACHINE);
	if (k->service[strlen(k->service) - 1] == '/')
		k->service[strlen(k->service) - 1] = '\0';
	return strncmp(k->service, "http://", 7) == 0 ? 0 :
	       err_set(err, EINVAL, "AWS_EC2_METADATA_SERVICE_ENDPOINT is not an address: '%.100s'", k->service);
}

int
aws_keys_find(struct aws_keys *k, struct err *err)
{
	const char *id = variable("AWS_ACCESS_KEY_ID"), *secret = variable("AWS_SECRET_ACCESS_KEY");
	const char *profile = variable("AWS_PROFILE"), *token = variable("AWS_SESSION_TOKEN");
	const char *relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	const char *web = variable("AWS_WEB_IDENTITY_TOKEN_FILE"), *role = variable("AWS_ROLE_ARN");

	if (id != NULL || secret != NULL) {
		if (id == NULL || secret == NULL)
			return err_set(err, EINVAL, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY need each other: set both");
		return set_all(k, id, secret, token != NULL ? token : "", err);
	}
	if (web != NULL && role != NULL && profile == NULL)
		return find_web(k, web, role, err);
	k->file = file_path();
	k->profile = profile != NULL ? profile : "default";
	if (k->file != NULL && (profile != NULL || access(k->file, F_OK) == 0)) {
		k->from = AWS_KEYS_FILE;
		return read_keys(k, false, err);
	}
	if (relative != NULL || full != NULL)
		return find_container(k, relative, full, err);
	return find_machine(k, err);
}

char *
aws_keys_folder(const struct aws_keys *k)
{
	const char *path = k->from == AWS_KEYS_FILE ? k->file : k->from == AWS_KEYS_CONTAINER || k->from == AWS_KEYS_WEB ?
	                   k->token_file : NULL;
	const char *slash = path != NULL ? strrchr(path, '/') : NULL;

	return slash == NULL || slash == path ? NULL : str_format("%.*s", (int)(slash - path), path);
}

/* ---- services ---- */

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
	if (member(answer, "AccessKeyId")[0] == '\0' || member(answer, "SecretAccessKey")[0] == '\0')
		return err_set(err, EBADMSG, "its answer has no key");
	r = set_all(k, member(answer, "AccessKeyId"), member(answer, "SecretAccessKey"), member(answer, "Token"), err);
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
	r = set(k, k->authorization, sizeof(k->authorization), text, len, "the token", err);
	explicit_bzero(text, len);
	return r;
}

static void
put_escaped(struct buf *b, const char *name, const char *value)
{
	char escaped[3];

	buf_put_text(b, name);
	for (; *value != '\0'; value++)
		buf_put(b, escaped, codec_percent((unsigned char)*value, escaped));
}

/* AssumeRoleWithWebIdentity: the token is what proves the request, which nobody signs. */
static int
ask_web(struct aws_keys *k, const struct aws_asker *asker, struct err *err)
{
	OWN(buf_free) struct buf body = BUF_SECRET(64 * 1024), url = BUF_SECRET(32 * 1024);
	char id[AWS_KEY_ID_MAX + 1], secret[AWS_KEY_SECRET_MAX + 1], token[AWS_KEY_TOKEN_MAX + 1], until[64];
	struct s3_error said;
	const char *text;
	long status = 0;
	int r = read_token(k, err);

	buf_put_text(&url, k->url);
	buf_put_text(&url, "/?Action=AssumeRoleWithWebIdentity&Version=2011-06-15");
	put_escaped(&url, "&RoleArn=", k->role);
	put_escaped(&url, "&RoleSessionName=", k->session);
	put_escaped(&url, "&WebIdentityToken=", k->authorization);
	buf_put(&url, "", 1);
	if (r == 0 && buf_failed(&url))
		r = err_set(err, EFBIG, "the token is too long");
	if (r == 0)
		r = asker->ask(asker->arg, "GET", (const char *)url.data, (const char *const[]){ NULL }, &body, &status, err);
	text = (const char *)body.data;
	if (r == 0 && status != 200) {
		s3_error_read(text, body.len, &said);
		r = err_set(err, EACCES, "it answers with %ld %s: %s", status, said.code, said.message);
	} else if (r == 0 && (!s3_word_read(text, body.len, "AccessKeyId", id, sizeof(id)) ||
	                      !s3_word_read(text, body.len, "SecretAccessKey", secret, sizeof(secret)) ||
	                      !s3_word_read(text, body.len, "SessionToken", token, sizeof(token)))) {
		r = err_set(err, EBADMSG, "its answer has no key");
	} else if (r == 0) {
		r = set_all(k, id, secret, token, err);
		k->until = s3_word_read(text, body.len, "Expiration", until, sizeof(until)) ? s3_time_read(until) : 0;
		k->until = k->until < 0 ? 0 : k->until;
	}
	explicit_bzero(secret, sizeof(secret));
	explicit_bzero(token, sizeof(token));
	return r < 0 ? err_wrap(err, "the token service for the role '%.100s' ('%.100s')", k->role, k->url) : 0;
}

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

int
aws_keys_renew(struct aws_keys *k, const struct aws_asker *asker, bool anew, struct err *err)
{
	int64_t now = (int64_t)time(NULL);
	int r;

	if (k->from == AWS_KEYS_VARIABLES)
		return anew ? -ENOENT : 0;
	if (k->from == AWS_KEYS_FILE)
		return anew ? read_keys(k, true, err) : 0;
	if (!anew && k->id[0] != '\0' && (k->until == 0 || now < k->until - EARLY_S || now < k->again))
		return 0;
	r = k->from == AWS_KEYS_WEB ? ask_web(k, asker, err) :
	    k->from == AWS_KEYS_CONTAINER ? ask_container(k, asker, err) : ask_machine(k, asker, err);
	/* As long as the old one is good, there is time to try again. */
	k->again = now + AGAIN_S;
	return r < 0 && !anew && k->id[0] != '\0' && now < k->until ? 0 : r;
}
