/* hmac_template.c - compiles HMAC templates: parses messages and places. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "sign/sign_hmac.h"

#define WORD_MAX 64

static const struct {
	const char *name;
	enum hmac_part_kind kind;
} part_names[] = {
	{ "method", HMAC_METHOD },     { "host", HMAC_HOST },
	{ "path", HMAC_PATH },         { "query", HMAC_QUERY },
	{ "target", HMAC_TARGET },     { "url", HMAC_URL },
	{ "body", HMAC_WHOLE_BODY },   { "timestamp", HMAC_TIMESTAMP },
	{ "nonce", HMAC_NONCE },       { "id", HMAC_ID },
	{ "token", HMAC_TOKEN },       { "form:sorted", HMAC_FORM_SORTED },
};

static const char *const digest_names[] = { "sha1", "sha256", "sha384", "sha512" };

struct reader {
	const char *text, *at;
	struct sign_hmac_one *out;
	bool in_hash;
	struct err *err;
};

static int
reader_add(struct reader *r, struct hmac_part part)
{
	if (r->out->n_parts == SIGN_HMAC_PARTS_MAX)
		return err_set(r->err, E2BIG, "the message has over %d parts", SIGN_HMAC_PARTS_MAX);
	r->out->parts[r->out->n_parts++] = part;
	return 0;
}

static size_t
column(const struct reader *r, const char *at)
{
	return (size_t)(at - r->text) + 1;
}

static int
unknown_part(struct reader *r, const char *word)
{
	static const char *const names[] = { "method", "host", "path", "query", "target", "url",
		"body", "timestamp", "nonce", "id", "token", "header:", "param:", "form:sorted",
		"sha1:", "sha256:", "sha384:", "sha512:", NULL };
	const char *near = text_nearest(word, names);

	if (near != NULL)
		return err_set(r->err, EINVAL, "there is no part '{%s}' (character %zu of the "
		               "message): is '{%s}' meant?", word, column(r, r->at), near);
	return err_set(r->err, EINVAL, "there is no part '{%s}' (character %zu of the message): "
	               "parts are method, host, path, query, target, url, body, timestamp, nonce, "
	               "id, token, header:NAME, param:NAME, form:sorted and sha256:...", word,
	               column(r, r->at));
}

/* Parse "sha256:" or "sha256.hex:" at AT.  Returns its length, or 0. */
static size_t
read_hash(const char *at, struct hmac_part *ret)
{
	static const struct {
		const char *name;
		enum sign_coding coding;
	} codings[] = { { ":", SIGN_RAW }, { ".hex:", SIGN_HEX }, { ".base64:", SIGN_BASE64 } };

	for (size_t i = 0; i < ARRAY_LEN(digest_names); i++) {
		size_t len = strlen(digest_names[i]);

		if (strncmp(at, digest_names[i], len) != 0)
			continue;
		for (size_t j = 0; j < ARRAY_LEN(codings); j++) {
			size_t more = strlen(codings[j].name);

			if (strncmp(at + len, codings[j].name, more) != 0)
				continue;
			*ret = (struct hmac_part){ .kind = HMAC_HASH, .digest = (enum sign_digest)i,
			                           .coding = codings[j].coding };
			return len + more;
		}
	}
	return 0;
}

static int
read_named(struct reader *r, const char *word, size_t len)
{
	struct hmac_part part = { .kind = HMAC_FIELD };
	size_t skip = 0;

	for (size_t i = 0; i < ARRAY_LEN(part_names); i++) {
		if (strcmp(word, part_names[i].name) == 0) {
			part.kind = part_names[i].kind;
			return reader_add(r, part);
		}
	}
	if (strncmp(word, "header:", 7) == 0)
		skip = 7;
	else if (strncmp(word, "param:", 6) == 0)
		skip = 6, part.kind = HMAC_PARAMETER;
	if (skip == 0)
		return unknown_part(r, word);
	if (len == skip)
		return err_set(r->err, EINVAL, "'{%s}' (character %zu of the message) has no name",
		               word, column(r, r->at));
	part.text = (struct http_text){ r->at + 1 + skip, len - skip };
	return reader_add(r, part);
}

/* At "{": a part in braces, or the beginning of a digest. */
static int
read_part(struct reader *r)
{
	struct hmac_part hash;
	size_t len = read_hash(r->at + 1, &hash);
	char word[WORD_MAX];
	int result;

	if (len > 0) {
		if (r->in_hash)
			return err_set(r->err, EINVAL, "a digest within a digest (character %zu of the "
			               "message) is not known", column(r, r->at));
		r->in_hash = true;
		r->at += 1 + len;
		return reader_add(r, hash);
	}
	len = strcspn(r->at + 1, "{}");
	if (r->at[1 + len] != '}')
		return err_set(r->err, EINVAL, "the brace at character %zu of the message is not "
		               "closed: write '{{' for a brace itself", column(r, r->at));
	if (len >= sizeof(word))
		return err_set(r->err, EINVAL, "the part at character %zu of the message is too long",
		               column(r, r->at));
	memcpy(word, r->at + 1, len);
	word[len] = '\0';
	result = read_named(r, word, len);
	r->at += len + 2;
	return result;
}

static int
read_close(struct reader *r)
{
	if (!r->in_hash)
		return err_set(r->err, EINVAL, "the brace at character %zu of the message closes "
		               "nothing: write '}}' for a brace itself", column(r, r->at));
	r->in_hash = false;
	r->at++;
	return reader_add(r, (struct hmac_part){ .kind = HMAC_HASH_END });
}

static int
read_message(struct reader *r)
{
	int result = 0;
	size_t len;

	while (result == 0 && *r->at != '\0') {
		len = strcspn(r->at, "{}");
		/* In a digest, the first of two closing braces ends it, and the second ends an
		 * outer one. */
		if (len == 0 && r->at[0] == r->at[1] && !(r->at[0] == '}' && r->in_hash)) {
			result = reader_add(r, (struct hmac_part){ HMAC_LITERAL, { r->at, 1 }, 0, 0 });
			r->at += 2;
		} else if (len > 0) {
			result = reader_add(r, (struct hmac_part){ HMAC_LITERAL, { r->at, len }, 0, 0 });
			r->at += len;
		} else {
			result = *r->at == '{' ? read_part(r) : read_close(r);
		}
	}
	if (result == 0 && r->in_hash)
		result = err_set(r->err, EINVAL, "the digest in the message is not closed");
	return result;
}

/* A copy of its own, so that a checker of templates needs no cryptography. */
static struct http_text
text_of(const char *s)
{
	return (struct http_text){ s, strlen(s) };
}

static int
read_place(const char *what, const char *text, struct hmac_place *ret, struct err *err)
{
	static const struct {
		const char *name;
		enum hmac_place_kind kind;
	} kinds[] = { { "header:", HMAC_HEADER }, { "param:", HMAC_PARAM }, { "body:", HMAC_BODY } };
	const char *colon;

	*ret = (struct hmac_place){ .kind = HMAC_NOWHERE };
	if (text == NULL)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (strncmp(text, kinds[i].name, strlen(kinds[i].name)) == 0) {
			ret->kind = kinds[i].kind;
			ret->name = text_of(text + strlen(kinds[i].name));
		}
	}
	if (ret->kind == HMAC_NOWHERE || ret->name.len == 0)
		return err_set(err, EINVAL, "the %s's place '%s' is not known: write 'header:NAME', "
		               "'header:NAME:MEMBER', 'param:NAME' or 'body:NAME'", what, text);
	colon = ret->kind == HMAC_HEADER ? strchr(ret->name.at, ':') : NULL;
	if (colon == NULL)
		return 0;
	ret->kind = HMAC_MEMBER;
	ret->member = text_of(colon + 1);
	ret->name.len = (size_t)(colon - ret->name.at);
	if (ret->name.len == 0 || ret->member.len == 0)
		return err_set(err, EINVAL, "the %s's place '%s' lacks a name", what, text);
	return 0;
}

static int
read_places(const struct sign_hmac_template *t, struct sign_hmac_one *out, struct err *err)
{
	int r = read_place("signature", t->at, &out->at, err);

	if (r == 0)
		r = read_place("key id", t->id, &out->id, err);
	if (r == 0)
		r = read_place("token", t->token, &out->token, err);
	if (r == 0)
		r = read_place("timestamp", t->timestamp, &out->timestamp, err);
	if (r == 0)
		r = read_place("nonce", t->nonce, &out->nonce, err);
	if (r < 0)
		return r;
	if (out->at.kind == HMAC_NOWHERE || out->at.kind == HMAC_BODY)
		return err_set(err, EINVAL, "it has to be said where the signature stands: "
		               "'header:NAME', 'header:NAME:MEMBER' or 'param:NAME'");
	if (out->id.kind == HMAC_BODY || out->token.kind == HMAC_BODY)
		return err_set(err, EINVAL, "a key id or token is replaced in headers and "
		               "parameters only: 'header:NAME' or 'param:NAME'");
	return 0;
}

/* Check that every part has a place, and find out whether the body is needed. */
static int
check_parts(struct sign_hmac_one *out, struct err *err)
{
	bool signs = false;

	for (size_t i = 0; i < out->n_parts; i++) {
		const struct hmac_part *part = &out->parts[i];

		signs = signs || (part->kind != HMAC_LITERAL && part->kind != HMAC_HASH &&
		                  part->kind != HMAC_HASH_END);
		if (part->kind == HMAC_TIMESTAMP && out->timestamp.kind == HMAC_NOWHERE)
			return err_set(err, EINVAL, "the message has a {timestamp}, and it is not said "
			               "where the timestamp stands");
		if (part->kind == HMAC_NONCE && out->nonce.kind == HMAC_NOWHERE)
			return err_set(err, EINVAL, "the message has a {nonce}, and it is not said where "
			               "the nonce stands");
		if (part->kind == HMAC_WHOLE_BODY || part->kind == HMAC_FORM_SORTED)
			out->wants_body = true;
	}
	if (!signs)
		return err_set(err, EINVAL, "the message has no part of the request in it, such as "
		               "{body}");
	if (out->nonce.kind == HMAC_BODY || out->timestamp.kind == HMAC_BODY)
		out->wants_body = true;
	return 0;
}

static int
compile_one(const struct sign_hmac_template *t, struct sign_hmac_one *out, struct err *err)
{
	struct reader reader = { t->message, t->message, out, false, err };
	int r;

	*out = (struct sign_hmac_one){ .template = t };
	if (t->message == NULL || t->message[0] == '\0')
		return err_set(err, EINVAL, "there is no message");
	if (strlen(t->message) > SIGN_HMAC_TEMPLATE_MAX)
		return err_set(err, EFBIG, "the message is over %d characters", SIGN_HMAC_TEMPLATE_MAX);
	if (t->signature != SIGN_HEX && t->signature != SIGN_BASE64)
		return err_set(err, EINVAL, "a signature is written in hex or base64");
	r = read_message(&reader);
	if (r == 0)
		r = read_places(t, out, err);
	return r == 0 ? check_parts(out, err) : r;
}

int
sign_hmac_compile(const struct sign_hmac_template *t, struct sign_hmac *ret_hmac,
                  struct err *err)
{
	struct sign_hmac hmac = {0};
	int r;

	for (; t != NULL; t = t->also) {
		if (hmac.n == SIGN_HMAC_ALSO_MAX)
			return err_set(err, E2BIG, "over %d signatures in one template",
			               SIGN_HMAC_ALSO_MAX);
		r = compile_one(t, &hmac.one[hmac.n++], err);
		if (r < 0)
			return err_wrap(err, "the HMAC template '%s'", t->name != NULL ? t->name : "");
	}
	if (hmac.n == 0)
		return err_set(err, EINVAL, "there is no HMAC template");
	*ret_hmac = hmac;
	return 0;
}
