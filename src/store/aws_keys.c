/* aws_keys.c - see aws_keys.h.
 *
 * The order is that of Amazon's own clients. */
#include "store/aws_keys_parts.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "http/http_head.h"
#include "store/aws_process.h"
#include "store/aws_profile.h"
#include "store/s3_place.h"

#define CONTAINER "http://169.254.170.2"
#define MACHINE "http://169.254.169.254"

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
	close_fd(&k->process);
	free(TAKE(k->token_file));
	free(TAKE(k->file));
	free(TAKE(k->config));
	if (k->base != NULL)
		aws_keys_wipe(k->base);
	free(TAKE(k->base));
}

/* A key goes into a header field. */
int
aws_keys_set(const struct aws_keys *k, char *to, size_t size, const char *value, size_t len, const char *what, struct err *err)
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

int
aws_keys_set_all(struct aws_keys *k, const char *id, const char *secret, const char *token, struct err *err)
{
	int r = aws_keys_set(k, k->id, sizeof(k->id), id, strlen(id), "the id", err);

	r = r == 0 ? aws_keys_set(k, k->secret, sizeof(k->secret), secret, strlen(secret), "the secret", err) : r;
	return r == 0 ? aws_keys_set(k, k->token, sizeof(k->token), token, strlen(token), "the session token", err) : r;
}

void
aws_keys_escape(struct buf *b, const char *name, const char *value)
{
	char escaped[3];

	buf_put_text(b, name);
	for (; *value != '\0'; value++)
		buf_put(b, escaped, codec_percent((unsigned char)*value, escaped));
}

/* TEXT may be NULL. */
static int
copy(char **ret_text, const char *text, struct err *err)
{
	*ret_text = text != NULL ? strdup(text) : NULL;
	return text != NULL && *ret_text == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}

/* ---- files ---- */

static int
take_profile(struct aws_keys *k, const struct aws_profile *p, struct err *err)
{
	if (p->id[0] == '\0' || p->secret[0] == '\0')
		return err_set(err, ENOENT, "'%s' has %s '%.64s'%s", k->file, p->found ? "no key in the profile" : "no profile",
		               k->profile, p->found ? ": it needs aws_access_key_id and aws_secret_access_key" : "");
	return aws_keys_set_all(k, p->id, p->secret, p->token, err);
}

/* AGAIN: its folder is all that is seen here now, and was checked when the file was first read. */
int
aws_keys_read(struct aws_keys *k, bool again, struct err *err)
{
	OWN(aws_profile_wipe) struct aws_profile p = {0};
	int r = aws_profile_read(k->file, again ? NULL : k->config, k->profile, again, &p, err);

	k->token[0] = '\0';
	return r < 0 ? r : take_profile(k, &p, err);
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
	if (copy(&k->token_file, variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"), err) < 0)
		return -ENOMEM;
	if (snprintf(k->url, sizeof(k->url), "%s%s", relative != NULL ? CONTAINER : "", relative != NULL ? relative : full) >=
	    (int)sizeof(k->url) || (relative != NULL && *relative != '/'))
		return err_set(err, EINVAL, "AWS_CONTAINER_CREDENTIALS_%s_URI is malformed", relative != NULL ? "RELATIVE" : "FULL");
	if (strncmp(k->url, "https://", 8) != 0 && !is_near(k->url))
		return err_set(err, EPERM, "AWS_CONTAINER_CREDENTIALS_FULL_URI leads to another machine without TLS: '%.100s'",
		               k->url);
	return token == NULL ? 0 : aws_keys_set(k, k->authorization, sizeof(k->authorization), token, strlen(token), "the token", err);
}

/* Amazon's token service, in REGION unless a variable says so; NULL: the one for all. */
static int
find_sts(struct aws_keys *k, const char *region, struct err *err)
{
	const char *own = variable("AWS_ENDPOINT_URL_STS"), *said = variable("AWS_REGION");
	int n;

	said = said != NULL ? said : variable("AWS_DEFAULT_REGION");
	region = said != NULL ? said : region;
	n = own != NULL ? snprintf(k->url, sizeof(k->url), "%s", own) :
	    snprintf(k->url, sizeof(k->url), "https://sts.%s%samazonaws.com", region != NULL ? region : "", region != NULL ? "." : "");
	if (n >= (int)sizeof(k->url) || strpbrk(k->url, "?# \t\n@") != NULL)
		return err_set(err, EINVAL, "AWS_ENDPOINT_URL_STS or AWS_REGION is malformed");
	snprintf(k->region, sizeof(k->region), "%s", region != NULL ? region : "us-east-1");
	if (k->url[strlen(k->url) - 1] == '/')
		k->url[strlen(k->url) - 1] = '\0';
	return strncmp(k->url, "https://", 8) == 0 || is_near(k->url) ? 0 :
	       err_set(err, EPERM, "AWS_ENDPOINT_URL_STS leads to another machine without TLS: '%.100s'", k->url);
}

/* It gives a role for a token of somebody whom it trusts. */
static int
find_web(struct aws_keys *k, const char *file, const char *role, const char *session, struct err *err)
{
	const char *said = variable("AWS_ROLE_SESSION_NAME");

	k->from = AWS_KEYS_WEB;
	snprintf(k->role, sizeof(k->role), "%s", role);
	snprintf(k->session, sizeof(k->session), "%s", said != NULL ? said : *session != '\0' ? session : "cloister");
	return copy(&k->token_file, file, err) < 0 ? -ENOMEM : find_sts(k, NULL, err);
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

/* ---- profiles ---- */

/* A key of the profile's own, which counts first, or a program that prints it. */
static int
find_key(struct aws_keys *k, const struct aws_profile *p, struct err *err)
{
	k->from = AWS_KEYS_FILE;
	if (p->process[0] == '\0' || p->id[0] != '\0' || p->secret[0] != '\0')
		return take_profile(k, p, err);
	k->from = AWS_KEYS_PROCESS;
	return aws_process_start(p->process, &k->process, err) < 0 ? err_wrap(err, "the profile '%.64s'", k->profile) : 0;
}

/* Who takes the role of profile P. */
static int
find_base(struct aws_keys *k, const struct aws_profile *p, struct err *err)
{
	struct aws_keys *base = calloc(1, sizeof(*base));
	const char *full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");

	if (base == NULL)
		return err_set(err, ENOMEM, "out of memory");
	k->base = base;
	base->to = k->to;
	if (p->source[0] != '\0') {
		OWN(aws_profile_wipe) struct aws_profile source = {0};
		int r = aws_profile_read(k->file, k->config, p->source, false, &source, err);

		snprintf(base->profile, sizeof(base->profile), "%s", p->source);
		if (r == 0 && (copy(&base->file, k->file, err) < 0 || copy(&base->config, k->config, err) < 0))
			r = -ENOMEM;
		if (r == 0 && source.role[0] != '\0' && strcmp(p->source, k->profile) != 0)
			return err_set(err, ENOTSUP, "the profile '%.64s' takes the role of '%.64s', which has a role_arn itself: roles "
			               "behind each other are not taken", k->profile, p->source);
		return r == 0 ? find_key(base, &source, err) : r;
	}
	if (strcmp(p->service, "EcsContainer") == 0)
		return find_container(base, variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), full != NULL ? full : "", err);
	if (strcmp(p->service, "Ec2InstanceMetadata") == 0)
		return find_machine(base, err);
	return err_set(err, EINVAL, "the profile '%.64s' has a role_arn: it needs source_profile, web_identity_token_file, or "
	               "credential_source = EcsContainer or Ec2InstanceMetadata", k->profile);
}

static int
find_role(struct aws_keys *k, const struct aws_profile *p, struct err *err)
{
	const char *said = variable("AWS_ROLE_SESSION_NAME");
	int r;

	if (p->web_token[0] != '\0')
		return find_web(k, p->web_token, p->role, p->session, err);
	k->from = AWS_KEYS_ROLE;
	snprintf(k->role, sizeof(k->role), "%s", p->role);
	snprintf(k->session, sizeof(k->session), "%s", said != NULL ? said : p->session[0] != '\0' ? p->session : "cloister");
	snprintf(k->external, sizeof(k->external), "%s", p->external);
	r = find_sts(k, p->region[0] != '\0' ? p->region : NULL, err);
	return r < 0 ? r : find_base(k, p, err);
}

/* Whoever has logged in with `aws sso login` has left a token. */
static int
find_sso(struct aws_keys *k, const struct aws_profile *p, struct err *err)
{
	const char *own = variable("AWS_ENDPOINT_URL_SSO"), *home = variable("HOME"), *name = p->sso[0] != '\0' ? p->sso : p->sso_url;
	unsigned char hash[EVP_MAX_MD_SIZE];
	char hex[2 * EVP_MAX_MD_SIZE + 1], host[256];
	unsigned len = 0;
	OWN(buf_free) struct buf url = BUF(sizeof(k->url));

	k->from = AWS_KEYS_SSO;
	if (home == NULL || *name == '\0' || p->sso_region[0] == '\0' || p->sso_role[0] == '\0')
		return err_set(err, EINVAL, "the profile '%.64s' needs sso_session or sso_start_url, sso_region, sso_account_id and "
		               "sso_role_name", k->profile);
	if (EVP_Digest(name, strlen(name), hash, &len, EVP_sha1(), NULL) != 1)
		return err_set(err, EIO, "OpenSSL cannot hash here");
	codec_hex(hash, len, hex);
	k->token_file = str_format("%s/.aws/sso/cache/%s.json", home, hex);
	snprintf(host, sizeof(host), "https://portal.sso.%s.amazonaws.com", p->sso_region);
	buf_put_text(&url, own != NULL ? own : host);
	buf_put_text(&url, "/federation/credentials");
	aws_keys_escape(&url, "?role_name=", p->sso_role);
	aws_keys_escape(&url, "&account_id=", p->sso_account);
	buf_put(&url, "", 1);
	if (k->token_file == NULL || buf_failed(&url))
		return err_set(err, ENOMEM, "out of memory");
	snprintf(k->url, sizeof(k->url), "%s", (const char *)url.data);
	return strncmp(k->url, "https://", 8) == 0 || is_near(k->url) ? 0 :
	       err_set(err, EPERM, "AWS_ENDPOINT_URL_SSO leads to another machine without TLS: '%.100s'", k->url);
}

/* 1: there is no profile, and none was asked for. */
static int
find_profile(struct aws_keys *k, const char *said, struct err *err)
{
	OWN(aws_profile_wipe) struct aws_profile p = {0};
	bool has_file;
	int r;

	k->file = aws_profile_keys_path();
	k->config = aws_profile_config_path();
	snprintf(k->profile, sizeof(k->profile), "%s", said != NULL ? said : "default");
	has_file = k->file != NULL && access(k->file, F_OK) == 0;
	if (k->file == NULL && k->config == NULL)
		return 1;
	r = aws_profile_read(k->file, k->config, k->profile, false, &p, err);
	if (r < 0)
		return r;
	if (p.role[0] != '\0')
		return find_role(k, &p, err);
	if (p.sso_account[0] != '\0')
		return find_sso(k, &p, err);
	/* A configuration without a key is for other things. */
	if (said == NULL && !has_file && p.id[0] == '\0' && p.process[0] == '\0')
		return 1;
	return find_key(k, &p, err);
}

int
aws_keys_find(struct aws_keys *k, struct err *err)
{
	const char *id = variable("AWS_ACCESS_KEY_ID"), *secret = variable("AWS_SECRET_ACCESS_KEY");
	const char *profile = variable("AWS_PROFILE"), *token = variable("AWS_SESSION_TOKEN");
	const char *relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	const char *full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	const char *web = variable("AWS_WEB_IDENTITY_TOKEN_FILE"), *role = variable("AWS_ROLE_ARN");
	int r;

	if (id != NULL || secret != NULL) {
		if (id == NULL || secret == NULL)
			return err_set(err, EINVAL, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY need each other: set both");
		return aws_keys_set_all(k, id, secret, token != NULL ? token : "", err);
	}
	if (web != NULL && role != NULL && profile == NULL)
		return find_web(k, web, role, "", err);
	r = find_profile(k, profile, err);
	if (r <= 0)
		return r;
	if (relative != NULL || full != NULL)
		return find_container(k, relative, full, err);
	return find_machine(k, err);
}

char *
aws_keys_folder(const struct aws_keys *k)
{
	const char *path = k->from == AWS_KEYS_FILE ? k->file : k->token_file;
	const char *slash = path != NULL ? strrchr(path, '/') : NULL;

	if (k->from == AWS_KEYS_ROLE)
		return aws_keys_folder(k->base);
	if (k->from == AWS_KEYS_PROCESS)
		return NULL;
	return slash == NULL || slash == path ? NULL : str_format("%.*s", (int)(slash - path), path);
}
