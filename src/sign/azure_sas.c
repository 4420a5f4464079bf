/* azure_sas.c - see azure_sas.h. */
#include "sign/azure_sas.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"

#define OLDEST "2015-04-05"
#define WITH_RESOURCE "2018-11-09"      /* since then sr and the snapshot are signed */
#define WITH_SCOPE "2020-12-06"         /* since then the encryption scope is signed too */

struct sas {
	struct http_text query;         /* as written */
	struct http_text path;
	struct http_text account;       /* in the host or the path */
	bool in_path;                   /* the account is in the path: an emulator, or an address */
	const char *service;            /* "blob", "file", "queue" or "table" */
};

static struct http_text
value_of(const struct sas *s, const char *name)
{
	struct scheme_param param;

	return scheme_param_find(s->query, name, &param) ? param.value : (struct http_text){ "", 0 };
}

static bool
is_there(const struct sas *s, const char *name)
{
	struct scheme_param param;

	return scheme_param_find(s->query, name, &param);
}

/* The service: from the host's second label, or else from the request. */
static const char *
service_of(const struct sas *s, struct http_text host)
{
	static const char *const names[] = { "blob", "dfs", "file", "queue", "table" };
	const char *dot = memchr(host.at, '.', host.len);
	struct http_text rest = { dot, dot != NULL ? host.len - (size_t)(dot - host.at) : 0 };

	for (size_t i = 0; dot != NULL && i < ARRAY_LEN(names); i++) {
		size_t len = strlen(names[i]);

		if (rest.len > len + 1 && memcmp(rest.at + 1, names[i], len) == 0 &&
		    rest.at[len + 1] == '.')
			return i == 1 ? "blob" : names[i];
	}
	return is_there(s, "tn") ? "table" : is_there(s, "sr") ? "blob" : "queue";
}

static bool
read_sas(const struct http_head *head, struct sas *ret)
{
	struct http_text host = head->host;
	const char *dot = memchr(host.at, '.', host.len), *slash;

	*ret = (struct sas){ .query = scheme_query_of(head), .path = scheme_path_of(head) };
	if (!is_there(ret, "sig") || !is_there(ret, "sv") || is_there(ret, "skoid"))
		return false;
	ret->service = service_of(ret, host);
	ret->account = (struct http_text){ host.at, dot != NULL ? (size_t)(dot - host.at) : host.len };
	/* ACCOUNT.blob.core.windows.net has the account in the host; HOST:PORT/ACCOUNT/... is an
	 * emulator. */
	if (memmem(host.at, host.len, ".core.", 6) != NULL)
		return true;
	slash = ret->path.len > 1 ? memchr(ret->path.at + 1, '/', ret->path.len - 1) : NULL;
	ret->in_path = true;
	ret->account.at = ret->path.at + 1;
	ret->account.len = slash != NULL ? (size_t)(slash - ret->account.at) : ret->path.len - 1;
	return ret->account.len > 0;
}

bool
azure_sas_find(const struct http_head *head, struct http_text *ret_account)
{
	struct sas s;

	if (!read_sas(head, &s))
		return false;
	*ret_account = s.account;
	return true;
}

/* ---- the string to sign --------------------------------------------------------------------- */

static void
put_line(struct buf *b, const struct sas *s, const char *name)
{
	scheme_put_decoded(b, value_of(s, name), true);
	buf_put_text(b, "\n");
}

static void
put_lines(struct buf *b, const struct sas *s, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put_line(b, s, names[i]);
}

static bool
is_since(const struct sas *s, const char *version)
{
	return scheme_compare(value_of(s, "sv"), scheme_text(version)) >= 0;
}

/* How many segments of the path are signed. */
static size_t
depth_of(const struct sas *s)
{
	struct http_text sr = value_of(s, "sr"), depth = value_of(s, "sdd");

	if (http_text_is(sr, "c") || http_text_is(sr, "s"))
		return 1;
	if (http_text_is(sr, "d") && depth.len == 1 && depth.at[0] >= '0' && depth.at[0] <= '9')
		return 1 + (size_t)(depth.at[0] - '0');
	return sr.len == 0 ? 1 : SIZE_MAX;      /* messages follow a queue's name */
}

/* "/blob/ACCOUNT/CONTAINER/NAME", decoded. */
static void
put_resource(struct buf *b, const struct sas *s, struct http_text account)
{
	struct http_text path = s->path;
	size_t skip = s->in_path ? 1 + s->account.len : 0, left = depth_of(s);

	buf_put_text(b, "/");
	buf_put_text(b, s->service);
	buf_put_text(b, "/");
	scheme_put(b, account);
	path.at += skip;
	path.len -= skip;
	if (strcmp(s->service, "table") == 0) {
		struct http_text table = value_of(s, "tn");
		size_t at;

		buf_put_text(b, "/");
		at = b->len;
		scheme_put_decoded(b, table, true);
		for (; !buf_failed(b) && at < b->len; at++)
			if (b->data[at] >= 'A' && b->data[at] <= 'Z')
				b->data[at] |= 0x20;
		return;
	}
	for (size_t i = 1; i < path.len; i++)
		if (path.at[i] == '/' && --left == 0)
			path.len = i;
	scheme_put_decoded(b, path, false);
}

static void
put_account_text(struct buf *b, const struct sas *s, struct http_text account)
{
	static const char *const names[] = { "sp", "ss", "srt", "st", "se", "sip", "spr", "sv" };

	scheme_put(b, account);
	buf_put_text(b, "\n");
	put_lines(b, s, names, ARRAY_LEN(names));
	if (is_since(s, WITH_SCOPE))
		put_line(b, s, "ses");
}

static void
put_service_text(struct buf *b, const struct sas *s, struct http_text account)
{
	static const char *const before[] = { "sp", "st", "se" };
	static const char *const after[] = { "si", "sip", "spr", "sv" };
	static const char *const fields[] = { "rscc", "rscd", "rsce", "rscl", "rsct" };
	static const char *const keys[] = { "spk", "srk", "epk", "erk" };
	bool blob = strcmp(s->service, "blob") == 0;

	put_lines(b, s, before, ARRAY_LEN(before));
	put_resource(b, s, account);
	buf_put_text(b, "\n");
	put_lines(b, s, after, ARRAY_LEN(after));
	if (blob && is_since(s, WITH_RESOURCE)) {
		put_line(b, s, "sr");
		put_line(b, s, "snapshot");
		if (is_since(s, WITH_SCOPE))
			put_line(b, s, "ses");
	}
	if (blob || strcmp(s->service, "file") == 0)
		put_lines(b, s, fields, ARRAY_LEN(fields));
	else if (strcmp(s->service, "table") == 0)
		put_lines(b, s, keys, ARRAY_LEN(keys));
	/* The last line has no line end. */
	if (!buf_failed(b))
		b->len--;
}

static int
sas_signature(const struct sas *s, struct http_text account, const struct scheme_secret *key,
              struct buf *ret_base64, struct err *err)
{
	unsigned char mac[SIGN_DIGEST_MAX];
	OWN(buf_free) struct buf text = BUF(SCHEME_BASE_MAX);
	size_t len;
	int r;

	if (is_there(s, "ss") && is_there(s, "srt"))
		put_account_text(&text, s, account);
	else
		put_service_text(&text, s, account);
	if (buf_failed(&text))
		return err_set(err, EFBIG, "the request is too long to be signed");
	r = scheme_hmac(EVP_sha256(), key, scheme_text_of(&text), mac, &len, err);
	if (r < 0)
		return r;
	scheme_put_coded(ret_base64, SIGN_BASE64, mac, len);
	return buf_failed(ret_base64) ? scheme_failed(err, "write a signature") : 0;
}

/* ---- checking and writing ------------------------------------------------------------------- */

static int
check(const struct sas *s, const struct sign_key *from, bool *ret_ours, struct err *err)
{
	OWN(scheme_secret_wipe) struct scheme_secret key = {0};
	OWN(buf_free) struct buf want = BUF(256), is = BUF(HTTP_HEAD_MAX);
	int r;

	if (!is_since(s, OLDEST))
		return 0;
	r = scheme_secret_read(from->secret, SIGN_BASE64, "the placeholder's", &key, err);
	if (r == 0)
		r = sas_signature(s, s->account, &key, &want, err);
	if (r < 0)
		return r;
	scheme_put_decoded(&is, value_of(s, "sig"), false);
	*ret_ours = !buf_failed(&is) && scheme_same_secret(want.data, want.len, is.data, is.len);
	return 0;
}

/* Report the signature in base64 and as written in the URL, and what stood in its place. */
static int
tell_made(struct sign_memory *m, const struct buf *plain, const struct buf *coded,
          struct http_text was, struct err *err)
{
	OWN(buf_free) struct buf was_plain = BUF(HTTP_HEAD_MAX);
	const struct http_text real[] = { scheme_text_of(plain), scheme_text_of(coded) };
	struct http_text agents[2];
	int r = 0;

	scheme_put_decoded(&was_plain, was, false);
	agents[0] = scheme_text_of(&was_plain);
	agents[1] = was;
	m->n_made = 0;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(real); i++) {
		r = scheme_keep(m, real[i], &m->made[i].real, err);
		if (r == 0)
			r = scheme_keep(m, agents[i], &m->made[i].agents, err);
		if (r == 0)
			m->n_made++;
	}
	return r;
}

/* Write the real key's signature into HEAD. */
static int
write_sas(const struct sas *s, const struct sign_key *to, struct http_head *head,
          struct sign_memory *m, struct err *err)
{
	OWN(scheme_secret_wipe) struct scheme_secret key = {0};
	OWN(buf_free) struct buf plain = BUF(256), coded = BUF(1024), path = BUF(SIGN_MEMORY_MAX);
	struct scheme_cut cut = { value_of(s, "sig"), {0} };
	struct http_text kept;
	int r;

	r = scheme_secret_read(to->secret, SIGN_BASE64, "the real", &key, err);
	if (r == 0)
		r = sas_signature(s, s->account, &key, &plain, err);
	if (r < 0)
		return r;
	scheme_put_encoded(&coded, scheme_text_of(&plain));
	cut.with = scheme_text_of(&coded);
	scheme_splice(&path, head->path, &cut, 1);
	if (buf_failed(&coded) || buf_failed(&path))
		return err_set(err, EFBIG, "the request is too long to be signed");
	r = tell_made(m, &plain, &coded, cut.at, err);
	if (r == 0)
		r = scheme_keep(m, scheme_text_of(&path), &kept, err);
	if (r == 0)
		head->path = kept;
	return r;
}

int
azure_sas_sign(const struct sign_key *from, const struct sign_key *to,
               const struct http_head *was, struct http_head *head, struct sign_memory *m,
               enum sign_next *ret_next, struct err *err)
{
	struct sas s;
	bool ours = false;
	int r;

	if (!read_sas(was, &s))
		return err_set(err, EINVAL, "there is no shared access signature in the request");
	/* The account is in the address, which does not change. */
	if (to->id.len > 0 && !scheme_same(to->id, s.account))
		return err_set(err, EINVAL, "the URL is of the account '%.*s', and the secret is of "
		               "another", (int)s.account.len, s.account.at);
	r = check(&s, from, &ours, err);
	if (r == 0 && !ours) {
		*ret_next = SIGN_NOTHING;
		return 0;
	}
	if (r == 0 && !read_sas(head, &s))
		r = err_set(err, EINVAL, "there is no shared access signature in the request");
	return r == 0 ? write_sas(&s, to, head, m, err) : r;
}
