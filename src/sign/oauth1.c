/* oauth1.c - OAuth 1.0a (RFC 5849): sorts the parameters of the header, the query and the form into
 * one string to sign. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "sign/scheme_pkey.h"
#include "sign/sign_schemes.h"

static const struct scheme_algorithm algorithms[] = {
	{ "HMAC-SHA1", SCHEME_HMAC, "SHA1", NULL, 0 },
	{ "HMAC-SHA256", SCHEME_HMAC, "SHA256", NULL, 0 },
	{ "HMAC-SHA512", SCHEME_HMAC, "SHA512", NULL, 0 },
	{ "RSA-SHA1", SCHEME_RSA, "SHA1", NULL, 0 },
	{ "RSA-SHA256", SCHEME_RSA, "SHA256", NULL, 0 },
};

enum oauth_source { FROM_HEADER, FROM_QUERY, FROM_FORM, N_SOURCES };
enum oauth_known { IS_OTHER, IS_CONSUMER, IS_TOKEN, IS_SIGNATURE, IS_METHOD, N_KNOWN };

struct oauth_param {
	struct http_text raw;           /* the value, as written at its source */
	struct http_text name, value;   /* encoded as RFC 5849, 3.6 requires */
	enum oauth_source source;
	enum oauth_known known;
};

/* All parameters of a request.  TEXT holds the encoded ones and never moves. */
struct oauth_request {
	struct oauth_param params[SCHEME_PARAMS_MAX];
	size_t n;
	struct http_text sources[N_SOURCES];
	int known[N_KNOWN];             /* index in PARAMS, or -1 */
	struct buf text, scratch;
};

static void
oauth_free(struct oauth_request *o)
{
	buf_free(&o->text);
	buf_free(&o->scratch);
}

static int
oauth_init(struct oauth_request *o, struct err *err)
{
	/* Encoding makes each character at most three. */
	size_t room = 3 * (HTTP_HEAD_MAX + SCHEME_FORM_MAX);

	o->n = 0;
	memset(o->sources, 0, sizeof(o->sources));
	for (int i = 0; i < N_KNOWN; i++)
		o->known[i] = -1;
	buf_init(&o->text, room);
	buf_init(&o->scratch, HTTP_HEAD_MAX + SCHEME_FORM_MAX);
	if (buf_add(&o->text, room) == NULL)
		return scheme_failed(err, "read an OAuth request");
	o->text.len = 0;
	return 0;
}

/* The value of `authorization: OAuth`, after that word. */
static bool
find_header(const struct http_head *head, struct http_text *ret_text)
{
	struct http_text text = http_head_get(head, "authorization");
	struct http_text word = { text.at, text.len < 5 ? text.len : 5 };

	if (text.len < 7 || !http_text_is_nocase(word, "oauth") || text.at[5] != ' ')
		return false;
	*ret_text = (struct http_text){ text.at + 6, text.len - 6 };
	return true;
}

static struct http_text
encode_again(struct oauth_request *o, struct http_text raw, bool plus)
{
	size_t at = o->text.len;

	buf_reset(&o->scratch);
	scheme_put_decoded(&o->scratch, raw, plus);
	scheme_put_encoded(&o->text, scheme_text_of(&o->scratch));
	return (struct http_text){ (const char *)o->text.data + at, o->text.len - at };
}

static enum oauth_known
what_is(struct http_text name)
{
	static const char *const names[N_KNOWN] = {
		[IS_CONSUMER] = "oauth_consumer_key", [IS_TOKEN] = "oauth_token",
		[IS_SIGNATURE] = "oauth_signature", [IS_METHOD] = "oauth_signature_method",
	};

	for (int i = 1; i < N_KNOWN; i++)
		if (http_text_is(name, names[i]))
			return (enum oauth_known)i;
	return IS_OTHER;
}

static int
oauth_add(struct oauth_request *o, enum oauth_source source, struct http_text name,
          struct http_text value, struct err *err)
{
	struct oauth_param *p = &o->params[o->n];

	if (o->n == SCHEME_PARAMS_MAX)
		return err_set(err, E2BIG, "the request has over %d parameters", SCHEME_PARAMS_MAX);
	*p = (struct oauth_param){ .raw = value, .source = source };
	p->name = encode_again(o, name, source != FROM_HEADER);
	p->value = encode_again(o, value, source != FROM_HEADER);
	p->known = what_is(p->name);
	if (buf_failed(&o->text) || buf_failed(&o->scratch))
		return err_set(err, EFBIG, "the request is too long to be signed");
	if (p->known != IS_OTHER && o->known[p->known] >= 0)
		return err_set(err, EINVAL, "the request has '%.*s' twice", (int)p->name.len,
		               p->name.at);
	if (p->known != IS_OTHER)
		o->known[p->known] = (int)o->n;
	o->n++;
	return 0;
}

static struct http_text
skip_blanks(struct http_text text)
{
	while (text.len > 0 && (*text.at == ' ' || *text.at == '\t' || *text.at == ','))
		text.at++, text.len--;
	return text;
}

/* name="value", ... */
static int
add_header(struct oauth_request *o, struct http_text text, struct err *err)
{
	struct http_text name, value;
	const char *quote;
	int r = 0;

	for (text = skip_blanks(text); r == 0 && text.len > 0; text = skip_blanks(text)) {
		const char *equals = memchr(text.at, '=', text.len);
		size_t left = equals != NULL ? text.len - (size_t)(equals - text.at) - 1 : 0;

		quote = left > 1 && equals[1] == '"' ? memchr(equals + 2, '"', left - 1) : NULL;
		if (quote == NULL)
			return err_set(err, EBADMSG, "the OAuth header is not a list of name=\"value\"");
		name = (struct http_text){ text.at, (size_t)(equals - text.at) };
		value = (struct http_text){ equals + 2, (size_t)(quote - equals - 2) };
		text.len -= (size_t)(quote + 1 - text.at);
		text.at = quote + 1;
		if (!http_text_is_nocase(name, "realm"))
			r = oauth_add(o, FROM_HEADER, name, value, err);
	}
	return r;
}

static int
add_params(struct oauth_request *o, enum oauth_source source, struct http_text text,
           struct err *err)
{
	struct scheme_param param;
	int r = 0;

	while (r == 0 && scheme_param_next(&text, &param))
		r = oauth_add(o, source, param.name, param.value, err);
	return r;
}

static int
oauth_read(struct oauth_request *o, const struct http_head *head, const struct sign_body *body,
           struct err *err)
{
	int r = oauth_init(o, err);

	if (r == 0 && find_header(head, &o->sources[FROM_HEADER]))
		r = add_header(o, o->sources[FROM_HEADER], err);
	o->sources[FROM_QUERY] = scheme_query_of(head);
	if (r == 0)
		r = add_params(o, FROM_QUERY, o->sources[FROM_QUERY], err);
	if (r == 0 && body != NULL && scheme_is_form(head)) {
		if (body->len > SCHEME_FORM_MAX)
			return err_set(err, EFBIG, "the form is over %d KiB: OAuth signs all of it",
			               SCHEME_FORM_MAX / 1024);
		o->sources[FROM_FORM] = (struct http_text){ body->at, body->len };
		r = add_params(o, FROM_FORM, o->sources[FROM_FORM], err);
	}
	return r;
}

static bool
oauth_find(const struct http_head *head, struct http_text *ret_id)
{
	struct http_text header, query = scheme_query_of(head);
	struct scheme_param param;
	const char *at;

	*ret_id = (struct http_text){ NULL, 0 };
	if (find_header(head, &header)) {
		at = memmem(header.at, header.len, "oauth_consumer_key=\"", 20);
		if (at != NULL) {
			size_t left = header.len - (size_t)(at + 20 - header.at);
			const char *end = memchr(at + 20, '"', left);

			*ret_id = (struct http_text){ at + 20, end != NULL ? (size_t)(end - at - 20) : 0 };
		}
		return true;
	}
	if (!scheme_param_find(query, "oauth_signature", &param))
		return false;
	if (scheme_param_find(query, "oauth_consumer_key", &param))
		*ret_id = param.value;
	return true;
}

/* ---- the base string ------------------------------------------------------------------ */

static int
compare_params(const void *a, const void *b)
{
	const struct oauth_param *x = *(const struct oauth_param *const *)a;
	const struct oauth_param *y = *(const struct oauth_param *const *)b;
	int r = scheme_compare(x->name, y->name);

	return r != 0 ? r : scheme_compare(x->value, y->value);
}

static void
put_uri(struct buf *b, const struct http_head *head)
{
	buf_put_text(b, head->scheme == HTTP_TLS ? "https://" : "http://");
	scheme_put_authority(b, head);
	scheme_put(b, scheme_path_of(head));
}

/* WITH: encoded values that replace those of the request. */
static int
oauth_base(struct buf *b, struct oauth_request *o, const struct http_head *head,
           const struct http_text with[N_KNOWN], struct err *err)
{
	const struct oauth_param *sorted[SCHEME_PARAMS_MAX] = { NULL };
	size_t n = 0;
	OWN(buf_free) struct buf params = BUF(SCHEME_BASE_MAX);

	buf_reset(&o->scratch);
	for (size_t i = 0; i < o->n; i++) {
		if (with[o->params[i].known].at != NULL)
			o->params[i].value = with[o->params[i].known];
		if (o->params[i].known != IS_SIGNATURE)
			sorted[n++] = &o->params[i];
	}
	qsort(sorted, n, sizeof(void *), compare_params);
	for (size_t i = 0; i < n; i++) {
		buf_put_text(&params, i > 0 ? "&" : "");
		scheme_put(&params, sorted[i]->name);
		buf_put_text(&params, "=");
		scheme_put(&params, sorted[i]->value);
	}
	put_uri(&o->scratch, head);
	scheme_put(b, head->method);
	buf_put_text(b, "&");
	scheme_put_encoded(b, scheme_text_of(&o->scratch));
	buf_put_text(b, "&");
	scheme_put_encoded(b, scheme_text_of(&params));
	if (buf_failed(b) || buf_failed(&params) || buf_failed(&o->scratch))
		return err_set(err, EFBIG, "the request is too long to be signed");
	return 0;
}

/* ---- signatures ------------------------------------------------------------------------ */

static int
find_algorithm(const struct oauth_request *o, const struct scheme_algorithm **ret,
               struct err *err)
{
	int at = o->known[IS_METHOD];

	/* The courier could only compare the placeholder, and the real secret itself would be sent. */
	if (at >= 0 && http_text_is(o->params[at].value, "PLAINTEXT"))
		return err_set(err, ENOTSUP, "PLAINTEXT is no signature but the secret itself: have the "
		               "client use HMAC-SHA1 or HMAC-SHA256");
	for (size_t i = 0; at >= 0 && i < ARRAY_LEN(algorithms); i++) {
		if (http_text_is(o->params[at].value, algorithms[i].name)) {
			*ret = &algorithms[i];
			return 0;
		}
	}
	return err_set(err, ENOTSUP, "the OAuth signature method is none of HMAC-SHA1, "
	               "HMAC-SHA256, HMAC-SHA512, RSA-SHA1 and RSA-SHA256");
}

/* Without a token's secret, an empty one follows "&". */
static int
read_key(const struct scheme_algorithm *algorithm, const struct sign_key *key,
         const char *whose, struct scheme_pkey *ret_key, struct err *err)
{
	struct scheme_secret *secret = &ret_key->secret;
	int r = scheme_pkey_read(algorithm, key->secret, SIGN_RAW, whose, ret_key, err);

	if (r < 0 || algorithm->kind != SCHEME_HMAC ||
	    memchr(secret->at, '&', secret->len) != NULL)
		return r;
	if (secret->len == sizeof(secret->at))
		return err_set(err, EFBIG, "%s secret is over %d bytes", whose, SCHEME_SECRET_MAX);
	secret->at[secret->len++] = '&';
	return 0;
}

static int
oauth_verify(struct oauth_request *o, const struct scheme_algorithm *algorithm,
             const struct http_head *head, const struct sign_key *from, struct err *err)
{
	static const struct http_text as_it_is[N_KNOWN];
	OWN(scheme_pkey_drop) struct scheme_pkey key = {0};
	unsigned char signature[SCHEME_SIGNATURE_MAX];
	OWN(buf_free) struct buf base = BUF(SCHEME_BASE_MAX);
	OWN(buf_free) struct buf text = BUF(HTTP_HEAD_MAX);
	bool right = false;
	size_t len;
	int r;

	r = read_key(algorithm, from, "the placeholder's", &key, err);
	if (r == 0)
		r = oauth_base(&base, o, head, as_it_is, err);
	if (r < 0)
		return r;
	scheme_put_decoded(&text, o->params[o->known[IS_SIGNATURE]].value, false);
	if (scheme_decode(SIGN_BASE64, scheme_text_of(&text), signature, sizeof(signature),
	                  &len) == 0)
		r = scheme_pkey_verify(algorithm, &key, scheme_text_of(&base), signature, len, &right,
		                       err);
	if (r == 0 && !right)
		r = scheme_wrong(err, "OAuth", "the method, the URL, and all parameters of the header, "
		                 "the query and the form");
	return r;
}

static int
oauth_signature(struct oauth_request *o, const struct scheme_algorithm *algorithm,
                const struct http_head *head, const struct sign_key *to,
                const struct http_text with[N_KNOWN], struct buf *ret_text, struct err *err)
{
	OWN(scheme_pkey_drop) struct scheme_pkey key = {0};
	unsigned char signature[SCHEME_SIGNATURE_MAX];
	OWN(buf_free) struct buf base = BUF(SCHEME_BASE_MAX);
	OWN(buf_free) struct buf text = BUF(HTTP_HEAD_MAX);
	size_t len = 0;
	int r;

	r = read_key(algorithm, to, "the real", &key, err);
	if (r == 0)
		r = oauth_base(&base, o, head, with, err);
	if (r == 0)
		r = scheme_pkey_sign(algorithm, &key, scheme_text_of(&base), signature, &len, err);
	if (r < 0)
		return r;
	scheme_put_coded(&text, SIGN_BASE64, signature, len);
	scheme_put_encoded(ret_text, scheme_text_of(&text));
	return buf_failed(&text) || buf_failed(ret_text) ? scheme_failed(err, "write a signature")
	                                                 : 0;
}

/* ---- writing the request ------------------------------------------------------------------ */

static int
compare_cuts(const void *a, const void *b)
{
	const struct scheme_cut *x = a, *y = b;

	return x->at.at < y->at.at ? -1 : x->at.at > y->at.at;
}

/* TEXT, of SOURCE, with its values replaced; TEXT itself if nothing changes. */
static int
rewrite(const struct oauth_request *o, enum oauth_source source, struct http_text text,
        const struct http_text with[N_KNOWN], struct sign_memory *m, struct http_text *ret_text,
        struct err *err)
{
	struct scheme_cut cuts[N_KNOWN];
	OWN(buf_free) struct buf b = {0};
	size_t n = 0;

	for (int i = 1; i < N_KNOWN; i++)
		if (with[i].at != NULL && o->known[i] >= 0 && o->params[o->known[i]].source == source)
			cuts[n++] = (struct scheme_cut){ o->params[o->known[i]].raw, with[i] };
	*ret_text = text;
	if (n == 0)
		return 0;
	qsort(cuts, n, sizeof(cuts[0]), compare_cuts);
	buf_init(&b, SIGN_MEMORY_MAX);
	scheme_splice(&b, text, cuts, n);
	if (buf_failed(&b))
		return err_set(err, EFBIG, "the signed request would be too long");
	return scheme_keep(m, scheme_text_of(&b), ret_text, err);
}

static int
oauth_write(const struct oauth_request *o, struct http_head *head,
            const struct http_text with[N_KNOWN], struct sign_memory *m, struct err *err)
{
	int field = scheme_field_at(head, "authorization");
	struct http_text header = { NULL, 0 }, path, form;
	int r = 0;

	if (o->sources[FROM_HEADER].at != NULL)
		r = rewrite(o, FROM_HEADER, head->fields[field].value, with, m, &header, err);
	if (r == 0)
		r = rewrite(o, FROM_QUERY, head->path, with, m, &path, err);
	if (r == 0)
		r = rewrite(o, FROM_FORM, o->sources[FROM_FORM], with, m, &form, err);
	if (r < 0)
		return r;
	if (header.at != NULL)
		head->fields[field].value = header;
	head->path = path;
	if (form.at != o->sources[FROM_FORM].at) {
		m->body = (struct sign_body){ form.at, form.len };
		head->length = form.len;
	}
	return 0;
}

/* The value of one known parameter must be the placeholder's. */
static int
check_known(struct oauth_request *o, enum oauth_known known, struct http_text want,
            const char *what, struct err *err)
{
	OWN(buf_free) struct buf b = {0};

	if (want.len == 0 || o->known[known] < 0)
		return 0;
	buf_init(&b, HTTP_HEAD_MAX);
	scheme_put_encoded(&b, want);
	if (!buf_failed(&b) && scheme_same_secret(b.data, b.len, o->params[o->known[known]].value.at,
	                                          o->params[o->known[known]].value.len))
		return 0;
	return err_set(err, EKEYREJECTED, "the %s is not the placeholder's", what);
}

/* Afterwards O holds WAS. */
static int
oauth_check(struct oauth_request *o, const struct sign_key *from, const struct sign_was *was,
            const struct scheme_algorithm **ret_algorithm, struct err *err)
{
	int r = oauth_read(o, was->head, was->body, err);

	if (r == 0 && o->known[IS_SIGNATURE] < 0)
		r = err_set(err, EINVAL, "there is no oauth_signature in the request");
	if (r == 0)
		r = check_known(o, IS_CONSUMER, from->id, "consumer key", err);
	if (r == 0)
		r = check_known(o, IS_TOKEN, from->token, "OAuth token", err);
	if (r == 0)
		r = find_algorithm(o, ret_algorithm, err);
	return r == 0 ? oauth_verify(o, *ret_algorithm, was->head, from, err) : r;
}

static int
oauth_resign(struct oauth_request *o, const struct scheme_algorithm *algorithm,
             const struct sign_key *to, struct http_head *head, struct sign_memory *m,
             struct err *err)
{
	OWN(buf_free) struct buf consumer = BUF(HTTP_HEAD_MAX), token = BUF(HTTP_HEAD_MAX),
	                         signature = BUF(HTTP_HEAD_MAX);
	struct http_text with[N_KNOWN] = {0};
	int r;

	scheme_put_encoded(&consumer, to->id);
	scheme_put_encoded(&token, to->token);
	if (to->id.len > 0)
		with[IS_CONSUMER] = scheme_text_of(&consumer);
	if (to->token.len > 0)
		with[IS_TOKEN] = scheme_text_of(&token);
	if (buf_failed(&consumer) || buf_failed(&token))
		return scheme_failed(err, "write a signature");
	r = oauth_signature(o, algorithm, head, to, with, &signature, err);
	with[IS_SIGNATURE] = scheme_text_of(&signature);
	return r == 0 ? oauth_write(o, head, with, m, err) : r;
}

static int
oauth_sign(const void *with, const struct sign_key *from, const struct sign_key *to,
           const struct sign_was *was, struct http_head *head, const struct sign_body *body,
           struct sign_memory *m, enum sign_next *ret_next, struct sign_chunks **ret_chunks,
           struct err *err)
{
	const struct sign_was same = { head, body };
	OWN(freep) struct oauth_request *o = NULL;
	const struct scheme_algorithm *algorithm = NULL;
	int r;

	(void)with, (void)ret_chunks;
	if (body == NULL && scheme_is_form(head) && head->length != 0) {
		*ret_next = SIGN_WANTS_BODY;
		return 0;
	}
	o = malloc(sizeof(*o));
	if (o == NULL)
		return scheme_failed(err, "read an OAuth request");
	r = oauth_check(o, from, was != NULL ? was : &same, &algorithm, err);
	if (r == 0 && was != NULL) {
		oauth_free(o);
		r = oauth_read(o, head, body, err);
	}
	if (r == 0)
		r = oauth_resign(o, algorithm, to, head, m, err);
	oauth_free(o);
	if (r == 0)
		*ret_next = SIGN_DONE;
	return r;
}

const struct sign_scheme sign_oauth1 = {
	.name = "oauth1", .find = oauth_find, .sign = oauth_sign,
};
