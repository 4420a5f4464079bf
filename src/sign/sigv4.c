/* sigv4.c - SigV4 and its relatives: checks a request with one key and signs it with
 * another. */
#include "sign/sigv4.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "sign/sign_chunks.h"

#define UNSIGNED "UNSIGNED-PAYLOAD"
#define STREAMING "STREAMING-"

/* ---- state of one request ----------------------------------------------------------------- */

struct job {
	const struct sigv4_row *row;
	const struct sign_key *from, *to;
	struct sign_memory *m;
	struct sigv4_claim claim;
	struct sigv4_query query;       /* of the current head */
	struct sigv4_key from_key, to_key;
	struct http_text hash;          /* of the body, or the word in its place */
	char hash_hex[SIGV4_HEX_LEN];
	unsigned ways;
	bool chunks, trailers;
};

static void
job_close(struct job *job)
{
	sigv4_key_close(&job->from_key);
	sigv4_key_close(&job->to_key);
}

/* The name of the field with the session token, or of the parameter after its prefix: S3 Express
 * has its own. */
static const char *
token_field(const struct job *job)
{
	return http_text_is(job->claim.service, "s3express") ? "x-amz-s3session-token" :
		job->row->token;
}

static const char *
token_suffix(const struct job *job)
{
	return http_text_is(job->claim.service, "s3express") ? "S3session-Token" : "Security-Token";
}

/* ---- the body's hash ---------------------------------------------------------------------- */

static int
hash_bytes(struct job *job, const void *data, size_t len, struct err *err)
{
	unsigned char hash[SIGV4_HASH_LEN];

	if (EVP_Digest(data, len, hash, NULL, EVP_sha256(), NULL) != 1)
		return err_set(err, EIO, "cannot hash the body: SHA-256 fails");
	codec_hex_digits(hash, sizeof(hash), job->hash_hex);
	job->hash = (struct http_text){ job->hash_hex, sizeof(job->hash_hex) };
	return 0;
}

/* A declared hash is signed as it is: the service compares it with the body. */
static int
take_declared(struct job *job, struct http_text declared, struct err *err)
{
	job->hash = declared;
	if ((job->row->flags & SIGV4_HASHED_WORD) != 0 && http_text_is(declared, UNSIGNED))
		return hash_bytes(job, UNSIGNED, sizeof(UNSIGNED) - 1, err);
	if (declared.len < sizeof(STREAMING) - 1 ||
	    memcmp(declared.at, STREAMING, sizeof(STREAMING) - 1) != 0 ||
	    http_text_is(declared, "STREAMING-UNSIGNED-PAYLOAD-TRAILER"))
		return 0;
	job->trailers = http_text_is(declared, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER");
	job->chunks = job->trailers || http_text_is(declared, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
	if (!job->chunks || job->claim.presigned || (job->row->flags & SIGV4_CHUNKS) == 0)
		return err_set(err, ENOTSUP, "the body is signed in pieces in a way that is not known "
		               "here: let the client send its hash, or UNSIGNED-PAYLOAD");
	return 0;
}

/* 1: the body is needed. */
static int
find_hash(struct job *job, const struct http_head *head, const struct sign_body *body,
          struct err *err)
{
	const struct sigv4_row *row = job->row;
	const struct sigv4_param *p = NULL;
	int at = -1;

	if (row->hash != NULL && sigv4_field_find(head, row->hash, &at, err) < 0)
		return -EBADMSG;
	if (at >= 0)
		return take_declared(job, head->fields[at].value, err);
	if (job->claim.presigned) {
		p = sigv4_param_find(row, &job->query, "Content-Sha256");
		if (p != NULL)
			return take_declared(job, p->value, err);
	}
	if ((row->flags & SIGV4_UNSIGNED_BODY) != 0 ||
	    (job->claim.presigned && sigv4_is_s3(&job->claim))) {
		job->hash = (struct http_text){ UNSIGNED, sizeof(UNSIGNED) - 1 };
		return 0;
	}
	if (head->length == 0)
		return hash_bytes(job, "", 0, err);
	return body == NULL ? 1 : hash_bytes(job, body->at, body->len, err);
}

/* ---- checking ------------------------------------------------------------------------------- */

/* The string to sign: the label, the time, the scope, and the canonical request's hash. */
static int
text_to_sign(const struct job *job, const struct http_head *head, struct http_text fields,
             unsigned ways, char ret_text[SIGV4_TO_SIGN_MAX], size_t *ret_len, struct err *err)
{
	const struct sigv4_row *row = job->row;
	const struct sigv4_claim *claim = &job->claim;
	const struct sigv4_canon canon = {
		.row = row, .head = head, .query = &job->query, .fields = fields, .hash = job->hash,
		.presigned = claim->presigned, .ways = ways,
		.once = (row->flags & SIGV4_TWICE) == 0 || sigv4_is_s3(claim),
	};
	char hex[SIGV4_HEX_LEN];
	int n, r;

	r = sigv4_canon_hash(&canon, hex, err);
	if (r < 0)
		return r;
	if (row->n_scope == 0)
		n = snprintf(ret_text, SIGV4_TO_SIGN_MAX, "%s\n%.*s", row->label, SIGV4_HEX_LEN, hex);
	else
		n = snprintf(ret_text, SIGV4_TO_SIGN_MAX, "%s\n%.*s\n%.*s\n%.*s", row->label,
		             (int)claim->time.len, claim->time.at, (int)claim->scope.len,
		             claim->scope.at, SIGV4_HEX_LEN, hex);
	assert(n > 0 && n < SIGV4_TO_SIGN_MAX);
	*ret_len = (size_t)n;
	return 0;
}

/* Step through the interpretations that make a difference for this request. */
static bool
next_way(const struct job *job, const struct http_head *head, unsigned *way)
{
	for (unsigned next = *way == 0 ? 1 : *way << 1; next <= SIGV4_LAST_WAY; next <<= 1) {
		bool differs = false;

		if (next == SIGV4_PLUS_IS_SPACE)
			differs = job->query.n > 0 && memchr(head->path.at, '+', head->path.len) != NULL;
		else if (next == SIGV4_TOKEN_APART)
			differs = job->claim.presigned &&
				sigv4_param_find(job->row, &job->query, "Security-Token") != NULL;
		else if (next == SIGV4_VALUES_AS_IS)
			differs = (job->row->flags & SIGV4_LOWER_VALUES) != 0;
		else
			differs = (job->row->flags & SIGV4_TWICE) != 0 && !sigv4_is_s3(&job->claim) &&
				memmem(head->path.at, head->path.len, "//", 2) != NULL;
		if (differs) {
			*way = next;
			return true;
		}
	}
	return false;
}

static int
check_signature(struct job *job, const struct http_head *head, struct err *err)
{
	char text[SIGV4_TO_SIGN_MAX];
	unsigned way = 0;
	size_t len;
	int r;

	do {
		r = text_to_sign(job, head, job->claim.fields, way, text, &len, err);
		if (r < 0)
			return r;
		if (sigv4_key_fits(&job->from_key, text, len, job->claim.signature)) {
			job->ways = way;
			return 0;
		}
	} while (next_way(job, head, &way));
	return err_set(err, EACCES, "the request's signature is wrong: it was made with another "
	               "secret, or of another method, path, query, field or body hash than were sent");
}

static bool
same_secret(struct http_text a, struct http_text b)
{
	return a.len == b.len && (a.len == 0 || CRYPTO_memcmp(a.at, b.at, a.len) == 0);
}

/* The session token in the request must be the placeholder's, or absent if that has none. */
static int
check_token(const struct job *job, bool found, struct http_text token, struct err *err)
{
	if (!found && job->from->token.len > 0)
		return err_set(err, EACCES, "the request is signed without the session token that goes "
		               "with its key");
	if (found && !same_secret(token, job->from->token))
		return err_set(err, EACCES, "the request's session token is not the one that goes with "
		               "its key");
	if (job->to->token.len > 0 && job->row->token == NULL)
		return err_set(err, EINVAL, "%s has no session tokens, but the secret has one",
		               job->row->label);
	return 0;
}

static bool
list_has(struct http_text list, const char *name)
{
	const char *at = list.at, *end = at + list.len, *next;

	for (; at < end; at = next + 1) {
		next = memchr(at, ';', (size_t)(end - at));
		if (next == NULL)
			next = end;
		if (http_text_is((struct http_text){ at, (size_t)(next - at) }, name))
			return true;
	}
	return false;
}

static int
check_claim(const struct job *job, struct err *err)
{
	const struct sigv4_claim *claim = &job->claim;

	if (!same_secret(claim->id, job->from->id))
		return err_set(err, EACCES, "the request is signed with another key than this one");
	if ((job->row->flags & SIGV4_REGION_SET) != 0 &&
	    (claim->presigned ? sigv4_param_find(job->row, &job->query, "Region-Set") == NULL :
	     !list_has(claim->fields, "x-amz-region-set")))
		return err_set(err, EBADMSG, "the signature does not cover a region set");
	return 0;
}

/* ---- signing: the fields -------------------------------------------------------------------- */

static int
put_copy(struct job *job, struct http_text text, struct http_text *ret_text, struct err *err)
{
	char *at = sigv4_room(job->m, text.len, err);

	if (at == NULL)
		return -EMSGSIZE;
	if (text.len > 0)
		memcpy(at, text.at, text.len);
	*ret_text = (struct http_text){ at, text.len };
	return 0;
}

struct text_out {
	char *at;
	size_t len;
};

static void
add(struct text_out *out, struct http_text text)
{
	if (text.len > 0)
		memcpy(out->at + out->len, text.at, text.len);
	out->len += text.len;
}

static void
add_word(struct text_out *out, const char *word)
{
	add(out, (struct http_text){ word, strlen(word) });
}

static void
add_listed(struct text_out *list, struct http_text name)
{
	if (list->len > 0)
		add_word(list, ";");
	add(list, name);
}

/* LIST with NAME inserted in order, or without it. */
static int
change_list(struct job *job, struct http_text list, const char *name, bool join,
            struct http_text *ret_list, struct err *err)
{
	const struct http_text joining = { name, strlen(name) };
	const char *at = list.at, *end = at + list.len, *next;
	struct text_out out = { .at = sigv4_room(job->m, list.len + joining.len + 1, err) };

	if (out.at == NULL)
		return -EMSGSIZE;
	for (; at < end; at = next + 1) {
		struct http_text word;

		next = memchr(at, ';', (size_t)(end - at));
		if (next == NULL)
			next = end;
		word = (struct http_text){ at, (size_t)(next - at) };
		if (join && strncmp(name, at, word.len) < 0) {
			add_listed(&out, joining);
			join = false;
		}
		if (!http_text_is(word, name))
			add_listed(&out, word);
	}
	if (join)
		add_listed(&out, joining);
	*ret_list = (struct http_text){ out.at, out.len };
	return 0;
}

/* The real token replaces the other, is added, or is removed. */
static int
change_token_field(struct job *job, struct http_head *head, struct http_text *fields,
                   struct err *err)
{
	const char *name = token_field(job);
	struct http_text was = {0};
	int at = -1, r = 0;

	if (name != NULL)
		r = sigv4_field_find(head, name, &at, err);
	if (r == 0 && at >= 0)
		was = head->fields[at].value;
	if (r == 0)
		r = check_token(job, at >= 0, was, err);
	if (r < 0 || (at < 0 && job->to->token.len == 0))
		return r;
	if (job->to->token.len == 0) {
		memmove(&head->fields[at], &head->fields[at + 1],
		        (head->n_fields - (size_t)at - 1) * sizeof(head->fields[0]));
		head->n_fields--;
		return list_has(*fields, name) ? change_list(job, *fields, name, false, fields, err) : 0;
	}
	if (at < 0) {
		if (head->n_fields == HTTP_FIELDS_MAX)
			return err_set(err, EMSGSIZE, "the request has too many fields to add a session token");
		at = (int)head->n_fields++;
		head->fields[at].name = (struct http_text){ name, strlen(name) };
		if ((job->row->flags & SIGV4_TOKEN_UNSIGNED) == 0)
			r = change_list(job, *fields, name, true, fields, err);
	}
	return r < 0 ? r : put_copy(job, job->to->token, &head->fields[at].value, err);
}

static int
sign_fields(struct job *job, struct http_head *head, char ret_signature[SIGV4_SIGNATURE_MAX],
            struct err *err)
{
	const struct sigv4_claim *claim = &job->claim;
	const char *sep = claim->tight ? "," : ", ";
	struct http_text fields = claim->fields;
	char text[SIGV4_TO_SIGN_MAX], *out;
	size_t len, size;
	int at = -1, n, r;

	r = change_token_field(job, head, &fields, err);
	if (r == 0)
		r = text_to_sign(job, head, fields, job->ways, text, &len, err);
	if (r == 0)
		r = sigv4_key_sign(&job->to_key, text, len, ret_signature, &len, err);
	if (r == 0)
		r = sigv4_field_find(head, "authorization", &at, err);
	if (r < 0)
		return r;
	size = strlen(job->row->label) + job->to->id.len + claim->scope.len + fields.len + len + 64;
	out = sigv4_room(job->m, size, err);
	if (out == NULL)
		return -EMSGSIZE;
	n = snprintf(out, size, "%s Credential=%.*s%s%.*s%sSignedHeaders=%.*s%sSignature=%.*s",
	             job->row->label, (int)job->to->id.len, job->to->id.at,
	             claim->scope.len > 0 ? "/" : "", (int)claim->scope.len, claim->scope.at, sep,
	             (int)fields.len, fields.at, sep, (int)len, ret_signature);
	assert(n > 0 && (size_t)n < size && at >= 0);
	head->fields[at].value = (struct http_text){ out, (size_t)n };
	return 0;
}

/* ---- signing: the query --------------------------------------------------------------------- */

static void
add_encoded(struct text_out *url, struct http_text text)
{
	for (size_t i = 0; i < text.len; i++)
		url->len += codec_percent((unsigned char)text.at[i], url->at + url->len);
}

static void
add_name(struct text_out *url, const struct sigv4_row *row, const char *suffix, bool *first)
{
	add_word(url, *first ? "?" : "&");
	*first = false;
	add_word(url, row->query);
	add_word(url, suffix);
	add_word(url, "=");
}

/* Write the path and query with the key's id and token, but without a signature. */
static void
write_url(const struct job *job, const struct http_head *head, struct text_out *url)
{
	const struct sigv4_query *query = &job->query;
	const struct sigv4_param *id = sigv4_param_find(job->row, query, "Credential");
	const struct sigv4_param *signature = sigv4_param_find(job->row, query, "Signature");
	const struct sigv4_param *token = sigv4_param_find(job->row, query, token_suffix(job));
	const char *mark = memchr(head->path.at, '?', head->path.len);
	bool first = true;

	add(url, (struct http_text){ head->path.at, (size_t)(mark - head->path.at) });
	for (size_t i = 0; i < query->n; i++) {
		const struct sigv4_param *p = &query->params[i];

		if (p == signature || p == token)
			continue;
		if (p == id) {
			add_name(url, job->row, "Credential", &first);
			add_encoded(url, job->to->id);
			add_word(url, "%2F");
			add_encoded(url, job->claim.scope);
			continue;
		}
		add_word(url, first ? "?" : "&");
		first = false;
		/* With its "=" if it had one. */
		add(url, (struct http_text){ p->name.at,
			(size_t)(p->value.at + p->value.len - p->name.at) });
	}
	if (job->to->token.len > 0) {
		add_name(url, job->row, token_suffix(job), &first);
		add_encoded(url, job->to->token);
	}
}

static int
sign_url(struct job *job, struct http_head *head, struct err *err)
{
	const struct sigv4_param *token = sigv4_param_find(job->row, &job->query, token_suffix(job));
	char text[SIGV4_TO_SIGN_MAX], signature[SIGV4_SIGNATURE_MAX];
	struct http_text was = {0};
	struct text_out url = {0};
	bool first = false;
	size_t len;
	int r = 0;

	if (token != NULL)
		r = sigv4_decode(job->m, token->value, &was, err);
	if (r == 0)
		r = check_token(job, token != NULL, was, err);
	if (r < 0)
		return r;
	url.at = sigv4_room(job->m, head->path.len + SIGV4_SIGNATURE_MAX + 64 +
	                    3 * (job->to->id.len + job->claim.scope.len + job->to->token.len), err);
	if (url.at == NULL)
		return -EMSGSIZE;
	write_url(job, head, &url);
	head->path = (struct http_text){ url.at, url.len };
	r = sigv4_query_read(head->path, &job->query, err);
	if (r == 0)
		r = text_to_sign(job, head, job->claim.fields, job->ways, text, &len, err);
	if (r == 0)
		r = sigv4_key_sign(&job->to_key, text, len, signature, &len, err);
	if (r < 0)
		return r;
	add_name(&url, job->row, "Signature", &first);
	add(&url, (struct http_text){ signature, len });
	head->path.len = url.len;
	return 0;
}

/* ---- the whole request ------------------------------------------------------------------------ */

static int
start_chunks(const struct job *job, const char *to_signature, struct sign_chunks **ret_chunks,
             struct err *err)
{
	const struct sign_chunks_start start = {
		.trailers = job->trailers, .time = job->claim.time, .scope = job->claim.scope,
		.from_key = job->from_key.hmac, .to_key = job->to_key.hmac,
		.from_signature = job->claim.signature.at, .to_signature = to_signature,
	};

	return sign_chunks_new(&start, ret_chunks, err);
}

/* Whether WAS is signed with the placeholder.  1: the body is needed. */
static int
check(struct job *job, const struct sign_was *was, struct err *err)
{
	int r = sigv4_query_read(was->head->path, &job->query, err);

	if (r == 0)
		r = sigv4_claim_read(job->row, was->head, &job->query, job->m, &job->claim, err);
	if (r == 0)
		r = check_claim(job, err);
	if (r == 0)
		r = find_hash(job, was->head, was->body, err);
	if (r != 0)
		return r;
	r = sigv4_key_open(job->row, job->from, job->claim.scope, &job->from_key, err);
	return r == 0 ? check_signature(job, was->head, err) : r;
}

/* HEAD is changed only on success. */
static int
run(struct job *job, const struct sign_was *was, struct http_head *head,
    const struct sign_body *body, enum sign_next *ret_next, struct sign_chunks **ret_chunks,
    struct err *err)
{
	char signature[SIGV4_SIGNATURE_MAX];
	struct http_head next;
	int r = check(job, was, err);

	if (r != 0) {
		if (r > 0)
			*ret_next = SIGN_WANTS_BODY;
		return r < 0 ? r : 0;
	}
	r = sigv4_key_open(job->row, job->to, job->claim.scope, &job->to_key, err);
	if (r == 0)
		r = sigv4_query_read(head->path, &job->query, err);
	if (r == 0)
		r = find_hash(job, head, body, err);
	if (r < 0)
		return r;
	next = *head;
	r = job->claim.presigned ? sign_url(job, &next, err) :
		sign_fields(job, &next, signature, err);
	if (r == 0 && job->chunks)
		r = start_chunks(job, signature, ret_chunks, err);
	if (r == 0) {
		*head = next;
		job->m->h1_only = list_has(job->claim.fields, "transfer-encoding");
		*ret_next = job->chunks ? SIGN_WANTS_CHUNKS : SIGN_DONE;
	}
	return r;
}

int
sigv4_sign_row(const struct sigv4_row *row, const struct sign_key *from,
               const struct sign_key *to, const struct sign_was *was,
               struct http_head *head, const struct sign_body *body, struct sign_memory *m,
               enum sign_next *ret_next, struct sign_chunks **ret_chunks, struct err *err)
{
	const struct sign_was same = { head, body };
	struct job job = { .row = row, .from = from, .to = to, .m = m };
	int r;

	if (to->id.len == 0 || to->id.len > SIGV4_ID_MAX)
		return err_set(err, EINVAL, "the secret for %s has no key id, or one that is too long",
		               row->label);
	r = run(&job, was != NULL ? was : &same, head, body, ret_next, ret_chunks, err);
	job_close(&job);
	return r;
}
