/* message.c - HTTP Message Signatures (RFC 9421) of requests: the new signature covers exactly the
 * components that the client chose. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/err.h"
#include "base/own.h"
#include "sign/message_fields.h"
#include "sign/scheme_pkey.h"
#include "sign/sign_schemes.h"

static const struct scheme_algorithm algorithms[] = {
	{ "hmac-sha256", SCHEME_HMAC, "SHA256", NULL, 0 },
	{ "rsa-pss-sha512", SCHEME_PSS, "SHA512", NULL, 0 },
	{ "rsa-v1_5-sha256", SCHEME_RSA, "SHA256", NULL, 0 },
	{ "ecdsa-p256-sha256", SCHEME_EC, "SHA256", "prime256v1", 32 },
	{ "ecdsa-p384-sha384", SCHEME_EC, "SHA384", "secp384r1", 48 },
	{ "ed25519", SCHEME_ED, NULL, "ED25519", 0 },
};

static bool
message_find(const struct http_head *head, struct http_text *ret_id)
{
	OWN(freep) struct message_inputs *inputs = NULL;

	*ret_id = (struct http_text){ NULL, 0 };
	if (scheme_field_at(head, "signature-input") < 0 || scheme_field_at(head, "signature") < 0)
		return false;
	inputs = malloc(sizeof(*inputs));
	if (inputs != NULL && message_read_inputs(head, inputs, NULL) == 0 &&
	    inputs->list[0].keyid.at != NULL)
		*ret_id = inputs->list[0].keyid;
	return true;
}

/* ---- the signature base -------------------------------------------------------------------- */

/* As application/x-www-form-urlencoded, but with %20 for a space (2.2.8). */
static void
put_form_encoded(struct buf *b, struct http_text text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] == '~')
			buf_put_text(b, "%7E");
		else if (text.at[i] == '*')
			buf_put_text(b, "*");
		else
			scheme_put_encoded(b, (struct http_text){ text.at + i, 1 });
	}
}

static void
put_recoded(struct buf *b, struct http_text raw)
{
	OWN(buf_free) struct buf plain = BUF(HTTP_HEAD_MAX);

	scheme_put_decoded(&plain, raw, true);
	put_form_encoded(b, scheme_text_of(&plain));
}

static int
put_query_param(struct buf *b, const struct http_head *head, struct http_text name,
                struct err *err)
{
	struct http_text rest = scheme_query_of(head);
	struct scheme_param param, found = {0};
	int n = 0;

	while (scheme_param_next(&rest, &param)) {
		OWN(buf_free) struct buf recoded = BUF(3 * HTTP_HEAD_MAX);

		put_recoded(&recoded, param.name);
		if (scheme_same(scheme_text_of(&recoded), name)) {
			found = param;
			n++;
		}
	}
	if (n != 1)
		return err_set(err, EINVAL, "the covered query parameter \"%.*s\" is %s", (int)name.len,
		               name.at, n == 0 ? "not in the query" :
		               "there more than once: cover \"@query\" instead");
	put_recoded(b, found.value);
	return 0;
}

static int
put_derived(struct buf *b, const struct http_head *head, const struct message_component *c,
            struct err *err)
{
	const char *scheme = head->scheme == HTTP_TLS ? "https" : "http";
	struct http_text query = scheme_query_of(head);

	if (http_text_is(c->name, "@method")) {
		scheme_put(b, head->method);
	} else if (http_text_is(c->name, "@target-uri")) {
		buf_put_text(b, scheme);
		buf_put_text(b, "://");
		scheme_put_authority(b, head);
		scheme_put(b, head->path);
	} else if (http_text_is(c->name, "@authority")) {
		scheme_put_authority(b, head);
	} else if (http_text_is(c->name, "@scheme")) {
		buf_put_text(b, scheme);
	} else if (http_text_is(c->name, "@request-target")) {
		scheme_put(b, head->path);
	} else if (http_text_is(c->name, "@path")) {
		scheme_put(b, scheme_path_of(head));
	} else if (http_text_is(c->name, "@query")) {
		buf_put_text(b, "?");
		scheme_put(b, query);
	} else if (http_text_is(c->name, "@query-param")) {
		return put_query_param(b, head, c->query_param, err);
	} else {
		return err_set(err, ENOTSUP, "the covered component \"%.*s\" is not one of a request "
		               "that is supported here", (int)c->name.len, c->name.at);
	}
	return 0;
}

/* One value of a field; several are joined by a comma. */
static void
put_value(struct buf *b, const struct message_component *c, struct http_text value, bool first)
{
	buf_put_text(b, first ? "" : ", ");
	if (!c->bytes) {
		scheme_put(b, value);
		return;
	}
	buf_put_text(b, ":");
	scheme_put_coded(b, SIGN_BASE64, value.at, value.len);
	buf_put_text(b, ":");
}

static int
put_field(struct buf *b, const struct http_head *head, const struct message_component *c,
          struct err *err)
{
	struct http_text value;
	struct http_sent sent;
	bool first = true;

	http_sent_begin(&sent, head, c->name);
	for (; http_sent_next(&sent, &value); first = false)
		put_value(b, c, value, first);
	if (first)
		return err_set(err, EINVAL, "the covered field \"%.*s\" is not in the request, or is "
		               "not sent on as it is", (int)c->name.len, c->name.at);
	return 0;
}

/* The signature base (2.5), which ends with PARAMS. */
static int
message_base(struct buf *b, const struct http_head *head, const struct message_input *input,
             struct http_text params, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < input->n; i++) {
		const struct message_component *c = &input->components[i];

		scheme_put(b, c->raw);
		buf_put_text(b, ": ");
		r = *c->name.at == '@' ? put_derived(b, head, c, err) : put_field(b, head, c, err);
		buf_put_text(b, "\n");
	}
	buf_put_text(b, "\"@signature-params\": ");
	scheme_put(b, params);
	if (r == 0 && buf_failed(b))
		r = err_set(err, EFBIG, "the request is too long to be signed");
	return r;
}

/* ---- choosing the signature ---------------------------------------------------------------- */

static void
put_escaped(struct buf *b, struct http_text text)
{
	for (size_t i = 0; i < text.len; i++) {
		if (text.at[i] == '"' || text.at[i] == '\\')
			buf_put_text(b, "\\");
		buf_put(b, &text.at[i], 1);
	}
}

static int
choose_input(const struct message_inputs *inputs, struct http_text id,
             const struct message_input **ret_input, struct err *err)
{
	const struct message_input *found = NULL;
	OWN(buf_free) struct buf escaped = BUF(HTTP_HEAD_MAX);

	put_escaped(&escaped, id);
	for (size_t i = 0; id.len > 0 && i < inputs->n; i++) {
		if (!scheme_same(inputs->list[i].keyid, scheme_text_of(&escaped)))
			continue;
		if (found != NULL)
			return err_set(err, EINVAL, "two signatures name the placeholder's key");
		found = &inputs->list[i];
	}
	if (found == NULL && inputs->n == 1 && (id.len == 0 || inputs->list[0].keyid.at == NULL))
		found = &inputs->list[0];
	if (found == NULL)
		return err_set(err, EKEYREJECTED, "no signature of the request names the "
		               "placeholder's key in its keyid");
	*ret_input = found;
	return 0;
}

/* A second signature that covers the changed one would become invalid. */
static int
check_others(const struct message_inputs *inputs, struct err *err)
{
	for (size_t i = 0; i < inputs->n; i++)
		for (size_t j = 0; j < inputs->list[i].n; j++)
			if (http_text_is(inputs->list[i].components[j].name, "signature") ||
			    http_text_is(inputs->list[i].components[j].name, "signature-input"))
				return err_set(err, ENOTSUP, "a signature covers other signatures, which "
				               "cannot be made anew one by one");
	return 0;
}

/* A covered Content-Digest must match the body (RFC 9530). */
static int
check_digest(const struct http_head *head, const struct message_input *input,
             const struct sign_body *body, struct err *err)
{
	static const struct {
		const char *name, *digest;
	} known[] = { { "sha-256", "SHA256" }, { "sha-512", "SHA512" } };
	unsigned char want[SIGN_DIGEST_MAX], got[EVP_MAX_MD_SIZE];
	struct http_text base64;
	bool covered = false;
	unsigned len = 0;
	size_t want_len;

	for (size_t i = 0; i < input->n; i++)
		covered = covered || http_text_is(input->components[i].name, "content-digest");
	for (size_t i = 0; body != NULL && covered && i < ARRAY_LEN(known); i++) {
		if (!message_find_bytes(http_head_get(head, "content-digest"), known[i].name, &base64))
			continue;
		if (EVP_Digest(body->at, body->len, got, &len, EVP_get_digestbyname(known[i].digest),
		               NULL) != 1)
			return scheme_failed(err, "check a body's digest");
		if (scheme_decode(SIGN_BASE64, base64, want, sizeof(want), &want_len) < 0 ||
		    !scheme_same_secret(want, want_len, got, len))
			return err_set(err, EBADMSG, "the body is not the one that the %s of "
			               "Content-Digest was made of", known[i].name);
	}
	return 0;
}

/* ---- verifying and signing ------------------------------------------------------------------ */

/* Without `alg`, the key and the signature determine the algorithm. */
static int
message_verify(const struct message_input *input, const struct sign_message_options *options,
               const struct sign_key *from, struct http_text base, struct http_text base64,
               const struct scheme_algorithm **ret_algorithm, struct err *err)
{
	unsigned char signature[SCHEME_SIGNATURE_MAX];
	bool known = false, right = false;
	size_t len;
	int r;

	if (scheme_decode(SIGN_BASE64, base64, signature, sizeof(signature), &len) < 0)
		return scheme_wrong(err, "HTTP message", "the components that it lists");
	for (size_t i = 0; i < ARRAY_LEN(algorithms); i++) {
		OWN(scheme_pkey_drop) struct scheme_pkey key = {0};
		bool named = input->alg.at != NULL;

		if (named && !http_text_is(input->alg, algorithms[i].name))
			continue;
		known = true;
		r = scheme_pkey_read(&algorithms[i], from->secret, options->secret,
		                     "the placeholder's", &key, named ? err : NULL);
		if (r < 0 && named)
			return r;
		if (r == 0)
			r = scheme_pkey_verify(&algorithms[i], &key, base, signature, len, &right, err);
		if (right) {
			*ret_algorithm = &algorithms[i];
			return 0;
		}
	}
	if (!known)
		return err_set(err, ENOTSUP, "the signature's algorithm is none of hmac-sha256, "
		               "rsa-pss-sha512, rsa-v1_5-sha256, ecdsa-p256-sha256, "
		               "ecdsa-p384-sha384 and ed25519");
	return scheme_wrong(err, "HTTP message", "the components that it lists");
}

/* The parameters with the real key's id. */
static int
put_params(struct buf *b, const struct message_input *input, struct http_text id,
           struct err *err)
{
	OWN(buf_free) struct buf escaped = BUF(HTTP_HEAD_MAX);
	struct scheme_cut cut = { input->keyid, { NULL, 0 } };

	put_escaped(&escaped, id);
	cut.with = scheme_text_of(&escaped);
	scheme_splice(b, input->raw, &cut, input->keyid.at != NULL && id.len > 0);
	return buf_failed(b) || buf_failed(&escaped) ? scheme_failed(err, "write a signature") : 0;
}

static int
message_signature(const struct scheme_algorithm *algorithm,
                  const struct sign_message_options *options, const struct sign_key *to,
                  struct http_text base, struct buf *ret_base64, struct err *err)
{
	OWN(scheme_pkey_drop) struct scheme_pkey key = {0};
	unsigned char signature[SCHEME_SIGNATURE_MAX];
	size_t len;
	int r = scheme_pkey_read(algorithm, to->secret, options->secret, "the real", &key, err);

	if (r == 0)
		r = scheme_pkey_sign(algorithm, &key, base, signature, &len, err);
	if (r < 0)
		return r;
	scheme_put_coded(ret_base64, SIGN_BASE64, signature, len);
	return buf_failed(ret_base64) ? scheme_failed(err, "write a signature") : 0;
}

/* FIELD's value with AT replaced by WITH, in M. */
static int
splice_field(const struct http_head *head, int field, struct http_text at,
             struct http_text with, struct sign_memory *m, struct http_text *ret_value,
             struct err *err)
{
	struct scheme_cut cut = { at, with };
	OWN(buf_free) struct buf b = BUF(SIGN_MEMORY_MAX);

	scheme_splice(&b, head->fields[field].value, &cut, 1);
	if (buf_failed(&b))
		return err_set(err, EFBIG, "the signed request would be too long");
	return scheme_keep(m, scheme_text_of(&b), ret_value, err);
}

struct resigner {
	const struct sign_message_options *options;
	const struct sign_key *from, *to;
	struct sign_memory *m;
	struct err *err;
};

static int
message_resign(const struct resigner *s, struct http_head *head,
               const struct message_input *input, const struct scheme_algorithm *algorithm)
{
	OWN(buf_free) struct buf base = BUF(SCHEME_BASE_MAX), params = BUF(HTTP_HEAD_MAX),
	                         new_base64 = BUF(2 * SCHEME_SIGNATURE_MAX);
	struct http_text base64, new_input, new_signature;
	int field = -1, r;

	r = message_find_signature(head, input->label, &field, &base64, s->err);
	if (r == 0)
		r = put_params(&params, input, s->to->id, s->err);
	if (r == 0)
		r = message_base(&base, head, input, scheme_text_of(&params), s->err);
	if (r == 0)
		r = message_signature(algorithm, s->options, s->to, scheme_text_of(&base),
		                      &new_base64, s->err);
	if (r == 0)
		r = splice_field(head, input->field, input->raw, scheme_text_of(&params), s->m,
		                 &new_input, s->err);
	if (r == 0)
		r = splice_field(head, field, base64, scheme_text_of(&new_base64), s->m,
		                 &new_signature, s->err);
	if (r < 0)
		return r;
	head->fields[input->field].value = new_input;
	head->fields[field].value = new_signature;
	return 0;
}

/* Find the signature of WAS that the placeholder's key made. */
static int
message_check(const struct resigner *s, struct message_inputs *inputs, const struct sign_was *was,
              const struct message_input **ret_input,
              const struct scheme_algorithm **ret_algorithm)
{
	OWN(buf_free) struct buf base = BUF(SCHEME_BASE_MAX);
	struct http_text base64 = {0};
	int field = -1, r;

	r = message_read_inputs(was->head, inputs, s->err);
	if (r == 0)
		r = choose_input(inputs, s->from->id, ret_input, s->err);
	if (r == 0)
		r = check_others(inputs, s->err);
	if (r == 0)
		r = check_digest(was->head, *ret_input, was->body, s->err);
	if (r == 0)
		r = message_find_signature(was->head, (*ret_input)->label, &field, &base64, s->err);
	if (r == 0)
		r = message_base(&base, was->head, *ret_input, (*ret_input)->raw, s->err);
	return r < 0 ? r : message_verify(*ret_input, s->options, s->from, scheme_text_of(&base),
	                                  base64, ret_algorithm, s->err);
}

static int
message_sign(const void *with, const struct sign_key *from, const struct sign_key *to,
             const struct sign_was *was, struct http_head *head, const struct sign_body *body,
             struct sign_memory *m, enum sign_next *ret_next, struct sign_chunks **ret_chunks,
             struct err *err)
{
	static const struct sign_message_options defaults = { SIGN_RAW };
	struct resigner s = { with != NULL ? with : &defaults, from, to, m, err };
	OWN(freep) struct message_inputs *inputs = malloc(sizeof(*inputs));
	const struct sign_was same = { head, body };
	const struct scheme_algorithm *algorithm = NULL;
	const struct message_input *input = NULL;
	int r;

	(void)ret_chunks;
	if (inputs == NULL)
		return scheme_failed(err, "read signatures");
	r = message_check(&s, inputs, was != NULL ? was : &same, &input, &algorithm);
	if (r == 0 && was != NULL) {
		r = message_read_inputs(head, inputs, err);
		if (r == 0)
			r = choose_input(inputs, from->id, &input, err);
	}
	if (r == 0)
		r = message_resign(&s, head, input, algorithm);
	if (r == 0)
		*ret_next = SIGN_DONE;
	return r;
}

static int
message_check_key(struct http_text secret, struct err *err)
{
	return scheme_pkey_check(algorithms, ARRAY_LEN(algorithms), secret, err);
}

const struct sign_scheme sign_message = {
	.name = "message", .find = message_find, .sign = message_sign, .check_key = message_check_key,
};
