/* s3_place.c - see s3_place.h. */
#include "store/s3_place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/num.h"
#include "base/own.h"

#define SCHEME "s3://"

bool
s3_is_loopback(const char *host)
{
	const char *dot = strrchr(host, '.');

	return strcmp(host, "localhost") == 0 || (dot != NULL && strcmp(dot, ".localhost") == 0) ||
	       strcmp(host, "[::1]") == 0 ||
	       (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host));
}

/* ---- its parts ---- */

static bool
is_name(const char *text, const char *also)
{
	for (; *text != '\0'; text++)
		if (!(*text >= 'a' && *text <= 'z') && !(*text >= '0' && *text <= '9') && strchr(also, *text) == NULL)
			return false;
	return true;
}

static int
take_bucket(const char *text, size_t len, struct s3_place *p, struct err *err)
{
	if (len >= 3 && len <= S3_BUCKET_MAX) {
		memcpy(p->bucket, text, len);
		if (is_name(p->bucket, "-.") && p->bucket[0] != '-' && p->bucket[0] != '.' &&
		    strchr("-.", p->bucket[len - 1]) == NULL && strstr(p->bucket, "..") == NULL)
			return 0;
	}
	return err_set(err, EINVAL, "'%.*s' is not the name of a bucket: it has 3 to %d of a-z, 0-9, '-' and '.'",
	               (int)(len < 80 ? len : 80), text, S3_BUCKET_MAX);
}

/* Segments of characters that mean the same to every server. */
static int
take_prefix(const char *text, size_t len, struct s3_place *p, struct err *err)
{
	size_t from = 0;

	while (len > 0 && text[len - 1] == '/')
		len--;
	if (len > S3_PREFIX_MAX)
		return err_set(err, ENAMETOOLONG, "the prefix is over %d bytes", S3_PREFIX_MAX);
	for (size_t i = 0; len > 0 && i <= len; i++) {
		if (i < len && codec_is_unreserved((unsigned char)text[i]))
			continue;
		if ((i < len && text[i] != '/') || i == from || (i - from <= 2 && memcmp(text + from, "..", i - from) == 0))
			return err_set(err, EINVAL, "the prefix '%.*s' cannot be used: it has segments of letters, digits and "
			               "'-._~', with one '/' between them", (int)len, text);
		from = i + 1;
	}
	if (len > 0)
		snprintf(p->prefix, sizeof(p->prefix), "%.*s/", (int)len, text);
	return 0;
}

static int
take_endpoint(const char *text, bool insecure, struct s3_place *p, struct err *err)
{
	const char *at = text;
	size_t len;

	p->is_tls = strncmp(text, "https://", 8) == 0;
	if (!p->is_tls && strncmp(text, "http://", 7) != 0)
		return err_set(err, EINVAL, "the endpoint '%.100s' is not an address: write https://HOST[:PORT]", text);
	at += p->is_tls ? 8 : 7;
	len = strcspn(at, "/");
	if (at[len] != '\0' && at[len + 1] != '\0')
		return err_set(err, EINVAL, "the endpoint '%.100s' has a path: write https://HOST[:PORT]", text);
	if (http_authority_parse((struct http_text){ at, len }, p->host, &p->port, err) < 0)
		return err_wrap(err, "the endpoint '%.100s'", text);
	if (p->port == 0)
		p->port = p->is_tls ? 443 : 80;
	if (!p->is_tls && !insecure && !s3_is_loopback(p->host))
		return err_set(err, EPERM, "the endpoint '%.100s' has no TLS, and is not on this machine: use https, or add "
		               "insecure=yes", text);
	return 0;
}

/* ---- options ---- */

struct options {
	char endpoint[HTTP_HOST_MAX + 32], region[S3_REGION_MAX + 1], style[8], sse[16], kms_key[S3_KMS_KEY_MAX + 1];
	char insecure[8], timeout[8];
};

static int
take_value(const char *text, size_t len, char *to, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		int byte = text[i] == '%' ? codec_percent_byte(text + i, len - i) : (unsigned char)text[i];

		if (byte <= ' ' || byte >= 0x7f || n + 1 >= size)
			return -EINVAL;
		to[n++] = (char)byte;
		i += text[i] == '%' ? 2 : 0;
	}
	to[n] = '\0';
	return n > 0 ? 0 : -EINVAL;
}

static int
take_option(const char *text, size_t len, struct options *o, struct err *err)
{
	const struct {
		const char *name;
		char *to;
		size_t size;
	} rows[] = {
		{ "endpoint", o->endpoint, sizeof(o->endpoint) }, { "region", o->region, sizeof(o->region) },
		{ "style", o->style, sizeof(o->style) }, { "sse", o->sse, sizeof(o->sse) },
		{ "kms_key", o->kms_key, sizeof(o->kms_key) }, { "insecure", o->insecure, sizeof(o->insecure) },
		{ "timeout", o->timeout, sizeof(o->timeout) },
	};
	const char *equals = memchr(text, '=', len);
	size_t name = equals != NULL ? (size_t)(equals - text) : len;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		if (strlen(rows[i].name) != name || memcmp(rows[i].name, text, name) != 0)
			continue;
		if (rows[i].to[0] != '\0')
			return err_set(err, EINVAL, "the option '%s' is given twice", rows[i].name);
		if (equals == NULL || take_value(equals + 1, len - name - 1, rows[i].to, rows[i].size) < 0)
			return err_set(err, EINVAL, "the value of '%s' is missing, too long, or has characters that it cannot have",
			               rows[i].name);
		return 0;
	}
	return err_set(err, EINVAL, "there is no option '%.*s': see docs/store.md", (int)(name < 40 ? name : 40), text);
}

static int
take_options(const char *text, struct options *o, struct err *err)
{
	int r = 0;

	while (r == 0 && *text != '\0') {
		size_t len = strcspn(text, "&");

		r = take_option(text, len, o, err);
		text += len + (text[len] == '&');
	}
	return r;
}

/* ---- what the options and the environment mean ---- */

static const char *
variable(char *const *environment, const char *name)
{
	size_t len = strlen(name);

	for (; environment != NULL && *environment != NULL; environment++)
		if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=' && (*environment)[len + 1] != '\0')
			return *environment + len + 1;
	return NULL;
}

static const char *
first(const char *own, char *const *environment, const char *one, const char *other)
{
	const char *value = *own != '\0' ? own : variable(environment, one);

	return value != NULL ? value : variable(environment, other);
}

static int
set_region(const char *region, struct s3_place *p, struct err *err)
{
	region = region != NULL ? region : "us-east-1";
	if (strlen(region) > S3_REGION_MAX || !is_name(region, "-_"))
		return err_set(err, EINVAL, "'%.80s' is not the name of a region", region);
	memcpy(p->region, region, strlen(region) + 1);
	return 0;
}

static int
set_server(const char *endpoint, const char *style, bool insecure, struct s3_place *p, struct err *err)
{
	char amazon[S3_REGION_MAX + 64];
	int r;

	snprintf(amazon, sizeof(amazon), "https://s3.%s.amazonaws.com%s", p->region,
	         strncmp(p->region, "cn-", 3) == 0 ? ".cn" : "");
	r = take_endpoint(endpoint != NULL ? endpoint : amazon, insecure, p, err);
	if (r < 0)
		return r;
	p->is_amazon = strstr(p->host, ".amazonaws.com") != NULL;
	/* No certificate is for a name with more dots than it expects. */
	p->in_path = !p->is_amazon || strchr(p->bucket, '.') != NULL;
	if (*style != '\0' && strcmp(style, "path") != 0 && strcmp(style, "host") != 0)
		return err_set(err, EINVAL, "style=%.20s: it is 'path' or 'host'", style);
	if (*style != '\0')
		p->in_path = strcmp(style, "path") == 0;
	if (!p->in_path && strlen(p->host) + 1 + strlen(p->bucket) > HTTP_HOST_MAX)
		return err_set(err, ENAMETOOLONG, "the bucket and the endpoint are too long for one name: add style=path");
	return 0;
}

static int
set_encryption(const struct options *o, struct s3_place *p, struct err *err)
{
	if (o->sse[0] != '\0' && strcmp(o->sse, "AES256") != 0 && strcmp(o->sse, "aws:kms") != 0)
		return err_set(err, EINVAL, "sse=%s: it is 'AES256' or 'aws:kms'", o->sse);
	if (o->kms_key[0] != '\0' && strcmp(o->sse, "aws:kms") != 0)
		return err_set(err, EINVAL, "kms_key needs sse=aws:kms: add it");
	snprintf(p->sse, sizeof(p->sse), "%.7s", o->sse);
	memcpy(p->kms_key, o->kms_key, sizeof(p->kms_key));
	return 0;
}

static int
parse(const char *text, char *const *environment, struct s3_place *p, struct options *o, struct err *err)
{
	const char *end = strchrnul(text, '?');
	const char *slash = memchr(text, '/', (size_t)(end - text));
	uint64_t seconds = S3_STALL_S;
	int r = take_bucket(text, (size_t)((slash != NULL ? slash : end) - text), p, err);

	if (r == 0 && slash != NULL)
		r = take_prefix(slash + 1, (size_t)(end - slash - 1), p, err);
	if (r == 0 && *end == '?')
		r = take_options(end + 1, o, err);
	if (r == 0 && o->insecure[0] != '\0' && strcmp(o->insecure, "yes") != 0)
		r = err_set(err, EINVAL, "insecure=%s: it can only be 'yes'", o->insecure);
	if (r == 0)
		r = set_region(first(o->region, environment, "AWS_REGION", "AWS_DEFAULT_REGION"), p, err);
	if (r == 0)
		r = set_server(first(o->endpoint, environment, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), o->style,
		               o->insecure[0] != '\0', p, err);
	p->stall_s = S3_STALL_S;
	if (r == 0 && o->timeout[0] != '\0') {
		r = num_parse_count(o->timeout, 1, 3600, &seconds, err);
		r = r < 0 ? err_wrap(err, "timeout=%s", o->timeout) : 0;
		p->stall_s = (unsigned)seconds;
	}
	return r == 0 ? set_encryption(o, p, err) : r;
}

int
s3_place_parse(const char *text, char *const *environment, struct s3_place *ret_place, struct err *err)
{
	struct s3_place p = { .bucket = "" };
	struct options o = { .endpoint = "" };
	int r;

	if (strlen(text) > S3_PLACE_MAX)
		return err_set(err, ENAMETOOLONG, "the place of blobs is over %d bytes", S3_PLACE_MAX);
	if (strncmp(text, SCHEME, strlen(SCHEME)) != 0)
		return err_set(err, EINVAL, "'%.100s' is not a place for blobs: write s3://BUCKET/PREFIX", text);
	r = parse(text + strlen(SCHEME), environment, &p, &o, err);
	if (r < 0)
		return err_wrap(err, "%.100s", text);
	*ret_place = p;
	return 0;
}

/* Amazon has one bucket of a name, in whichever region. */
bool
s3_place_is_same(const struct s3_place *a, const struct s3_place *b)
{
	bool here = s3_is_loopback(a->host) && s3_is_loopback(b->host);
	bool server = (a->is_amazon && b->is_amazon) || ((here || strcasecmp(a->host, b->host) == 0) && a->port == b->port);

	return server && strcmp(a->bucket, b->bucket) == 0 && strcmp(a->prefix, b->prefix) == 0;
}
