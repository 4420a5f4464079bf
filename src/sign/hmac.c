/* hmac.c - checks and signs by an HMAC template. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/core_names.h>

#include "base/err.h"
#include "base/own.h"
#include "http/json_walk.h"
#include "sign/hmac_view.h"
#include "sign/sign_schemes.h"

static const EVP_MD *
sign_digest_md(enum sign_digest digest)
{
	switch (digest) {
	case SIGN_SHA1:
		return EVP_sha1();
	case SIGN_SHA384:
		return EVP_sha384();
	case SIGN_SHA512:
		return EVP_sha512();
	case SIGN_SHA256:
		break;
	}
	return EVP_sha256();
}

/* The target of writes: the HMAC, or a digest whose result goes into it. */
struct sink {
	EVP_MAC_CTX *mac;
	EVP_MD_CTX *hash;
	const struct hmac_part *in_hash;
	bool failed;
};

static void
sink_free(struct sink *s)
{
	EVP_MAC_CTX_free(s->mac);
	EVP_MD_CTX_free(s->hash);
}

static int
sink_begin(struct sink *s, const EVP_MD *md, const struct scheme_secret *key, struct err *err)
{
	char name[32];
	OSSL_PARAM params[2] = { OSSL_PARAM_END, OSSL_PARAM_END };
	EVP_MAC *mac = EVP_MAC_fetch(NULL, "HMAC", NULL);

	*s = (struct sink){ .mac = mac != NULL ? EVP_MAC_CTX_new(mac) : NULL,
	                    .hash = EVP_MD_CTX_new() };
	EVP_MAC_free(mac);
	snprintf(name, sizeof(name), "%s", EVP_MD_get0_name(md));
	params[0] = OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name, 0);
	if (s->mac == NULL || s->hash == NULL ||
	    EVP_MAC_init(s->mac, key->at, key->len, params) != 1)
		return scheme_failed(err, "compute a signature");
	return 0;
}

static void
sink_put(struct sink *s, struct http_text text)
{
	const unsigned char *at = (const unsigned char *)text.at;

	if (text.len == 0)
		return;
	if (s->in_hash != NULL ? EVP_DigestUpdate(s->hash, at, text.len) != 1
	                       : EVP_MAC_update(s->mac, at, text.len) != 1)
		s->failed = true;
}

static void
sink_put_buf(struct sink *s, struct buf *b)
{
	s->failed = s->failed || buf_failed(b);
	sink_put(s, scheme_text_of(b));
	buf_free(b);
}

static void
sink_hash_begin(struct sink *s, const struct hmac_part *part)
{
	s->in_hash = part;
	if (EVP_DigestInit_ex(s->hash, sign_digest_md(part->digest), NULL) != 1)
		s->failed = true;
}

static void
sink_hash_end(struct sink *s)
{
	enum sign_coding coding = s->in_hash->coding;
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned len = 0;
	struct buf b = BUF(256);

	if (EVP_DigestFinal_ex(s->hash, digest, &len) != 1)
		s->failed = true;
	s->in_hash = NULL;
	scheme_put_coded(&b, coding, digest, len);
	sink_put_buf(s, &b);
}

/* Write TEXT, a query or form, without the parameter whose value is RAW. */
static void
sink_put_without(struct sink *s, struct http_text text, struct http_text raw)
{
	struct scheme_param param;
	struct http_text rest = text;
	const char *end;

	while (raw.at != NULL && scheme_param_next(&rest, &param)) {
		if (param.value.at != raw.at)
			continue;
		end = param.whole.at + param.whole.len;
		if (param.whole.at > text.at)
			sink_put(s, (struct http_text){ text.at,
			         (size_t)(param.whole.at - text.at) - 1 });
		else if (end < text.at + text.len)
			end++;          /* remove the "&" after it instead of the one before */
		sink_put(s, (struct http_text){ end, (size_t)(text.at + text.len - end) });
		return;
	}
	sink_put(s, text);
}

static void
sink_put_target(struct sink *s, const struct hmac_view *v, struct http_text raw)
{
	struct http_text query = scheme_query_of(&v->head);
	struct scheme_param only;
	struct http_text rest = query;

	sink_put(s, scheme_path_of(&v->head));
	if (query.at == NULL)
		return;
	/* If the query is only the signature, there was no query when it was made. */
	if (raw.at != NULL && scheme_param_next(&rest, &only) && only.value.at == raw.at &&
	    rest.len == 0)
		return;
	sink_put(s, scheme_text("?"));
	sink_put_without(s, query, raw);
}

static void
sink_put_url(struct sink *s, const struct hmac_view *v, struct http_text raw)
{
	struct buf b = BUF(HTTP_HOST_MAX + 32);

	buf_put_text(&b, v->head.scheme == HTTP_TLS ? "https://" : "http://");
	scheme_put_authority(&b, &v->head);
	sink_put_buf(s, &b);
	sink_put_target(s, v, raw);
}

struct pair {
	size_t name, value, end;        /* offsets in a buf */
	const struct buf *in;
};

static int
compare_pairs(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	const unsigned char *data = x->in->data;
	size_t x_len = x->value - x->name, y_len = y->value - y->name;
	int r = memcmp(data + x->name, data + y->name, x_len < y_len ? x_len : y_len);

	if (r != 0 || x_len != y_len)
		return r != 0 ? r : x_len < y_len ? -1 : 1;
	x_len = x->end - x->value, y_len = y->end - y->value;
	r = memcmp(data + x->value, data + y->value, x_len < y_len ? x_len : y_len);
	return r != 0 ? r : x_len < y_len ? -1 : x_len > y_len;
}

/* A repeated pair counts once, as in Twilio's own libraries. */
static void
sink_put_sorted(struct sink *s, const struct hmac_view *v)
{
	struct pair pairs[SCHEME_PARAMS_MAX];
	struct http_text rest = v->body;
	struct scheme_param param;
	size_t n = 0;
	OWN(buf_free) struct buf b;

	buf_init(&b, v->body.len + 1);
	while (scheme_is_form(&v->head) && scheme_param_next(&rest, &param)) {
		if (n == SCHEME_PARAMS_MAX) {
			s->failed = true;
			return;
		}
		pairs[n].in = &b;
		pairs[n].name = b.len;
		scheme_put_decoded(&b, param.name, true);
		pairs[n].value = b.len;
		scheme_put_decoded(&b, param.value, true);
		pairs[n++].end = b.len;
	}
	if (buf_failed(&b) || n == 0) {
		s->failed = s->failed || buf_failed(&b);
		return;
	}
	qsort(pairs, n, sizeof(pairs[0]), compare_pairs);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || compare_pairs(&pairs[i - 1], &pairs[i]) != 0)
			sink_put(s, (struct http_text){ (char *)b.data + pairs[i].name,
			                                pairs[i].end - pairs[i].name });
}

/* Whether ITEM is written as a whole number. */
static bool
is_whole(const struct json_walk_item *item)
{
	return item->kind == JSON_WALK_NUMBER && memchr(item->raw.at, '.', item->raw.len) == NULL &&
	       memchr(item->raw.at, 'e', item->raw.len) == NULL &&
	       memchr(item->raw.at, 'E', item->raw.len) == NULL;
}

/* Write a member of a JSON object in the body; a number as its digits. */
static int
sink_put_json(struct sink *s, const struct hmac_view *v, struct http_text name, struct err *err)
{
	OWN(freep) char *text = NULL;
	struct json_walk_item item = {0};
	char key[128];
	size_t len;
	int r = 0;

	if (name.len < sizeof(key)) {
		memcpy(key, name.at, name.len);
		key[name.len] = '\0';
		r = json_walk_member(v->body, key, &item);
	}
	if (r == 1 && is_whole(&item)) {
		sink_put(s, item.raw);
		return 0;
	}
	if (r < 1 || item.kind != JSON_WALK_STRING)
		return err_set(err, ENOENT, "the body has no member '%.*s' that is text or a whole "
		               "number, and there once", (int)name.len, name.at);
	text = malloc(item.raw.len + 1);
	if (text == NULL || json_walk_decode(item.raw, text, item.raw.len, &len) < 0)
		return scheme_failed(err, "read the body");
	sink_put(s, (struct http_text){ text, len });
	return 0;
}

static int
sink_put_place(struct sink *s, const struct hmac_view *v, const struct hmac_place *place,
               const char *what, struct err *err)
{
	struct hmac_spot spot;
	struct buf b;
	int r;

	if (place->kind == HMAC_BODY && !scheme_is_form(&v->head))
		return sink_put_json(s, v, place->name, err);
	r = hmac_get_place(v, place, what, &spot, err);
	if (r < 0)
		return r;
	if (place->kind == HMAC_HEADER || place->kind == HMAC_MEMBER) {
		sink_put(s, spot.raw);
		return 0;
	}
	buf_init(&b, spot.raw.len + 1);
	scheme_put_decoded(&b, spot.raw, true);
	sink_put_buf(s, &b);
	return 0;
}

static int
sink_put_part(struct sink *s, const struct sign_hmac_one *one, const struct hmac_part *part,
              const struct hmac_view *v, const struct sign_key *key, struct err *err)
{
	const struct hmac_place field = { HMAC_HEADER, part->text, { NULL, 0 } };
	const struct hmac_place param = { HMAC_PARAM, part->text, { NULL, 0 } };
	struct http_text raw = { NULL, 0 };
	struct hmac_spot at;
	struct buf b;

	if (one->at.kind == HMAC_PARAM && hmac_find_place(v, &one->at, &at) == 1)
		raw = at.raw;
	switch (part->kind) {
	case HMAC_LITERAL:
		sink_put(s, part->text);
		break;
	case HMAC_METHOD:
		sink_put(s, v->head.method);
		break;
	case HMAC_HOST:
		buf_init(&b, HTTP_HOST_MAX + 16);
		scheme_put_authority(&b, &v->head);
		sink_put_buf(s, &b);
		break;
	case HMAC_PATH:
		sink_put(s, scheme_path_of(&v->head));
		break;
	case HMAC_QUERY:
		sink_put_without(s, scheme_query_of(&v->head), raw);
		break;
	case HMAC_TARGET:
		sink_put_target(s, v, raw);
		break;
	case HMAC_URL:
		sink_put_url(s, v, raw);
		break;
	case HMAC_WHOLE_BODY:
		sink_put_without(s, v->body, raw);
		break;
	case HMAC_ID:
		sink_put(s, key->id);
		break;
	case HMAC_TOKEN:
		sink_put(s, key->token);
		break;
	case HMAC_FORM_SORTED:
		sink_put_sorted(s, v);
		break;
	case HMAC_HASH:
		sink_hash_begin(s, part);
		break;
	case HMAC_HASH_END:
		sink_hash_end(s);
		break;
	case HMAC_TIMESTAMP:
		return sink_put_place(s, v, &one->timestamp, "timestamp", err);
	case HMAC_NONCE:
		return sink_put_place(s, v, &one->nonce, "nonce", err);
	case HMAC_FIELD:
		return sink_put_place(s, v, &field, "field", err);
	case HMAC_PARAMETER:
		return sink_put_place(s, v, &param, "parameter", err);
	}
	return 0;
}

static int
hmac_compute(const struct sign_hmac_one *one, const struct hmac_view *v, const struct sign_key *key,
             const char *whose, unsigned char ret_mac[SIGN_DIGEST_MAX], size_t *ret_len,
             struct err *err)
{
	OWN(scheme_secret_wipe) struct scheme_secret secret = {0};
	OWN(sink_free) struct sink s = {0};
	int r = scheme_secret_read(key->secret, one->template->secret, whose, &secret, err);

	if (r == 0)
		r = sink_begin(&s, sign_digest_md(one->template->digest), &secret, err);
	for (size_t i = 0; r == 0 && i < one->n_parts; i++)
		r = sink_put_part(&s, one, &one->parts[i], v, key, err);
	if (r < 0)
		return r;
	if (s.failed || EVP_MAC_final(s.mac, ret_mac, ret_len, SIGN_DIGEST_MAX) != 1)
		return scheme_failed(err, "compute a signature");
	return 0;
}

static bool
is_signature(const struct sign_hmac_one *one, struct http_text raw, bool param,
             const unsigned char *mac, size_t len)
{
	const char *prefix = one->template->prefix != NULL ? one->template->prefix : "";
	unsigned char got[SIGN_DIGEST_MAX];
	OWN(buf_free) struct buf b = BUF(HTTP_HEAD_MAX);
	struct http_text text;
	size_t got_len;

	if (param)
		scheme_put_decoded(&b, raw, true);
	else
		scheme_put(&b, raw);
	text = scheme_text_of(&b);
	if (buf_failed(&b) || !scheme_begins(text, prefix))
		return false;
	text.at += strlen(prefix);
	text.len -= strlen(prefix);
	return scheme_decode(one->template->signature, text, got, sizeof(got), &got_len) == 0 &&
	       scheme_same_secret(got, got_len, mac, len);
}

static bool
any_member_is(const struct sign_hmac_one *one, const struct hmac_view *v, int field,
              const unsigned char *mac, size_t len)
{
	struct http_text rest = v->head.fields[field].value;
	struct scheme_param member;
	bool right = false;

	while (hmac_next_member(&rest, &member))
		if (scheme_same(member.name, one->at.member))
			right = is_signature(one, member.value, false, mac, len) || right;
	return right;
}

static int
hmac_verify(const struct sign_hmac_one *one, const struct hmac_view *v,
            const struct sign_key *from, struct err *err)
{
	unsigned char mac[SIGN_DIGEST_MAX];
	struct hmac_spot spot;
	size_t len;
	bool right;
	int r = hmac_get_place(v, &one->at, "signature", &spot, err);

	if (r == 0)
		r = hmac_check_place(v, &one->id, "key id", from->id, err);
	if (r == 0)
		r = hmac_check_place(v, &one->token, "token", from->token, err);
	if (r == 0)
		r = hmac_compute(one, v, from, "the placeholder's", mac, &len, err);
	if (r < 0)
		return r;
	right = one->at.kind == HMAC_MEMBER ? any_member_is(one, v, spot.field, mac, len)
	                                    : is_signature(one, spot.raw,
	                                                   one->at.kind == HMAC_PARAM, mac, len);
	return right ? 0 : scheme_wrong(err, one->template->name, one->template->message);
}

static int
hmac_write(const struct sign_hmac_one *one, struct hmac_view *v, const struct sign_key *to,
           struct sign_memory *m, struct err *err)
{
	unsigned char mac[SIGN_DIGEST_MAX];
	OWN(buf_free) struct buf text = BUF(1024);
	size_t len;
	int r = 0;

	if (one->id.kind != HMAC_NOWHERE && to->id.len > 0)
		r = hmac_put_place(v, one, &one->id, to->id, m, err);
	if (r == 0 && one->token.kind != HMAC_NOWHERE && to->token.len > 0)
		r = hmac_put_place(v, one, &one->token, to->token, m, err);
	if (r == 0)
		r = hmac_compute(one, v, to, "the real", mac, &len, err);
	if (r < 0)
		return r;
	buf_put_text(&text, one->template->prefix != NULL ? one->template->prefix : "");
	scheme_put_coded(&text, one->template->signature, mac, len);
	if (buf_failed(&text))
		return scheme_failed(err, "write a signature");
	return hmac_put_place(v, one, &one->at, scheme_text_of(&text), m, err);
}

/* The first signature is required, others are optional. */
static bool
is_there(const struct sign_hmac *hmac, size_t i, const struct hmac_view *v)
{
	struct hmac_spot spot;

	return i == 0 || hmac_find_place(v, &hmac->one[i].at, &spot) > 0;
}

static bool
wants_body(const struct sign_hmac *hmac, const struct http_head *head)
{
	struct hmac_view v = { .head = *head };
	struct hmac_spot spot;

	for (size_t i = 0; i < hmac->n; i++)
		if (hmac->one[i].wants_body || (hmac->one[i].at.kind == HMAC_PARAM &&
		                                hmac_find_place(&v, &hmac->one[i].at, &spot) == 0))
			return head->length != 0;
	return false;
}

static int
hmac_sign(const void *with, const struct sign_key *from, const struct sign_key *to,
          const struct sign_was *was, struct http_head *head, const struct sign_body *body,
          struct sign_memory *m, enum sign_next *ret_next, struct sign_chunks **ret_chunks,
          struct err *err)
{
	const struct sign_was same = { head, body }, *seen = was != NULL ? was : &same;
	const struct sign_hmac *hmac = with;
	struct hmac_view v = { .head = *head }, v_seen = { .head = *seen->head };
	bool there[SIGN_HMAC_ALSO_MAX];
	int r = 0;

	(void)ret_chunks;
	if (hmac == NULL)
		return err_set(err, EINVAL, "an HMAC signature needs a template that says what is "
		               "signed");
	if (body == NULL && wants_body(hmac, head)) {
		*ret_next = SIGN_WANTS_BODY;
		return 0;
	}
	if (body != NULL) {
		v.body = (struct http_text){ body->at, body->len };
		v_seen.body = (struct http_text){ seen->body->at, seen->body->len };
	}
	/* Only the body shows that a form has no signature.  Then it is sent unchanged. */
	if (body != NULL && hmac->one[0].at.kind == HMAC_PARAM &&
	    hmac_find_place(&v_seen, &hmac->one[0].at, &(struct hmac_spot){0}) == 0) {
		*ret_next = SIGN_NOTHING;
		return 0;
	}
	for (size_t i = 0; r == 0 && i < hmac->n; i++) {
		there[i] = is_there(hmac, i, &v_seen);
		if (there[i])
			r = hmac_verify(&hmac->one[i], &v_seen, from, err);
	}
	for (size_t i = 0; r == 0 && i < hmac->n; i++)
		if (there[i])
			r = hmac_write(&hmac->one[i], &v, to, m, err);
	if (r < 0)
		return r;
	if (v.new_body) {
		m->body = (struct sign_body){ v.body.at, v.body.len };
		v.head.length = v.body.len;
	}
	*head = v.head;
	*ret_next = SIGN_DONE;
	return 0;
}

bool
sign_hmac_find(const struct sign_hmac *hmac, const struct http_head *head,
               struct http_text *ret_id)
{
	const struct sign_hmac_one *one = &hmac->one[0];
	struct hmac_view v = { .head = *head };
	struct hmac_spot spot, id;

	if (hmac_find_place(&v, &one->at, &spot) == 0 &&
	    !(one->at.kind == HMAC_PARAM && scheme_is_form(head) && head->length != 0))
		return false;
	if (hmac_find_place(&v, &one->id, &id) == 1)
		*ret_id = id.raw;
	else if (one->id.kind == HMAC_HEADER && one->at.kind == HMAC_PARAM)
		return false;           /* a form for another purpose */
	else
		*ret_id = (struct http_text){ NULL, 0 };
	return true;
}

static bool
hmac_find(const struct http_head *head, struct http_text *ret_id)
{
	struct sign_hmac hmac;

	for (const struct sign_hmac_template *t = sign_hmac_rows; t->name != NULL; t++)
		if (sign_hmac_compile(t, &hmac, NULL) == 0 && sign_hmac_find(&hmac, head, ret_id))
			return true;
	return false;
}

const struct sign_scheme sign_hmac = { .name = "hmac", .find = hmac_find, .sign = hmac_sign };
