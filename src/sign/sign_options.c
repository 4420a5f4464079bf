/* sign_options.c - see sign_options.h. */
#include "sign/sign_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/text.h"

enum option {
	OPTION_AUDIENCE, OPTION_ALGORITHM, OPTION_KEY_CODING, OPTION_TABLE, OPTION_TEMPLATE,
	OPTION_MESSAGE, OPTION_DIGEST, OPTION_CODING, OPTION_PREFIX, OPTION_AT, OPTION_ID,
	OPTION_TOKEN, OPTION_TIMESTAMP, OPTION_NONCE,
	/* for files made of placeholders */
	OPTION_PROJECT, OPTION_CLIENT_ID, OPTION_PROFILE,
	OPTION_SERVICE, OPTION_REGION,
	OPTIONS
};
static const char *const option_names[OPTIONS] = {
	"audience", "algorithm", "key-coding", "table", "template", "message", "digest", "coding",
	"prefix", "at", "id", "token", "timestamp", "nonce", "project", "client_id",
	"profile", "service", "region",
};

#define BIT(option) (1u << (option))
#define DESCRIBES (BIT(OPTION_MESSAGE) | BIT(OPTION_DIGEST) | BIT(OPTION_CODING) | \
	BIT(OPTION_KEY_CODING) | BIT(OPTION_PREFIX) | BIT(OPTION_AT) | BIT(OPTION_ID) | \
	BIT(OPTION_TOKEN) | BIT(OPTION_TIMESTAMP) | BIT(OPTION_NONCE))

struct reading {
	const char *said[OPTIONS];      /* NULL: not given */
	size_t at[OPTIONS];             /* index of its pair */
	size_t n;
	size_t *which;
	struct err *err;
};

static int read_azure(struct reading *r, struct sign_options *o);
static int read_hmac(struct reading *r, struct sign_options *o);
static int read_jwt(struct reading *r, struct sign_options *o);
static int read_message(struct reading *r, struct sign_options *o);
static int read_nothing(struct reading *r, struct sign_options *o);
static int read_sigv4(struct reading *r, struct sign_options *o);

static const struct scheme {
	const char *name;
	unsigned takes;
	int (*read)(struct reading *r, struct sign_options *o);
} schemes[] = {
	{ "azure-sharedkey", BIT(OPTION_TABLE), read_azure },
	{ "hmac", BIT(OPTION_TEMPLATE) | DESCRIBES, read_hmac },
	{ "jwt", BIT(OPTION_AUDIENCE) | BIT(OPTION_ALGORITHM) | BIT(OPTION_KEY_CODING) |
	  BIT(OPTION_PROJECT) | BIT(OPTION_CLIENT_ID), read_jwt },
	{ "message", BIT(OPTION_KEY_CODING), read_message },
	{ "oauth1", 0, read_nothing },
	{ "sigv4", BIT(OPTION_SERVICE) | BIT(OPTION_REGION) | BIT(OPTION_PROFILE), read_sigv4 },
};

/* ---- words ---- */

/* The index of the word in OPTION.  Errors do not repeat the word: someone may have written a key
 * there by mistake. */
static int
read_word(const struct reading *r, enum option option, const char *const *words,
          const char *all, unsigned *ret_word)
{
	const char *said = r->said[option];

	if (said == NULL)
		return 0;
	for (unsigned i = 0; words[i] != NULL; i++) {
		if (strcmp(words[i], said) == 0) {
			*ret_word = i;
			return 0;
		}
	}
	*r->which = r->at[option];
	return err_set(r->err, EINVAL, "`%s` is %s", option_names[option], all);
}

static int
read_key_coding(const struct reading *r, enum sign_coding *ret_coding)
{
	static const char *const words[] = { "text", "hex", "base64", "base64url", NULL };
	unsigned word = SIGN_RAW;
	int e = read_word(r, OPTION_KEY_CODING, words, "how the secret is written: text, hex, base64 "
	                  "or base64url", &word);

	*ret_coding = (enum sign_coding)word;
	return e;
}

/* ---- schemes ---- */

static int
read_nothing(struct reading *r, struct sign_options *o)
{
	(void)r, (void)o;
	return 0;
}

static int
read_azure(struct reading *r, struct sign_options *o)
{
	static const char *const words[] = { "false", "true", NULL };
	unsigned word = 0;
	int e = read_word(r, OPTION_TABLE, words, "true or false", &word);

	o->azure.table = word == 1;
	o->with = r->said[OPTION_TABLE] != NULL ? &o->azure : NULL;
	return e;
}

static int
read_sigv4(struct reading *r, struct sign_options *o)
{
	o->sigv4 = (struct sigv4_options){ r->said[OPTION_SERVICE], r->said[OPTION_REGION] };
	o->with = &o->sigv4;
	return 0;
}

static int
read_message(struct reading *r, struct sign_options *o)
{
	o->with = &o->message;
	return read_key_coding(r, &o->message.secret);
}

static int
read_jwt(struct reading *r, struct sign_options *o)
{
	static const char *const words[] = { "HS256", "HS384", "HS512", "RS256", "RS384", "RS512",
		"PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", NULL };
	unsigned word = 0;
	int e = read_word(r, OPTION_ALGORITHM, words, "one of HS256 to HS512, RS256 to RS512, PS256 "
	                  "to PS512, ES256 to ES512 and EdDSA", &word);

	o->with = &o->jwt;
	o->jwt.audience = r->said[OPTION_AUDIENCE];
	o->jwt.algorithm = r->said[OPTION_ALGORITHM];
	return e == 0 ? read_key_coding(r, &o->jwt.secret) : e;
}

static int
no_template(struct reading *r, const char *name)
{
	const char *names[64] = { NULL }, *nearest;
	char list[512] = "";

	*r->which = r->at[OPTION_TEMPLATE];
	for (size_t i = 0; sign_hmac_rows[i].name != NULL && i < ARRAY_LEN(names) - 1; i++)
		names[i] = sign_hmac_rows[i].name;
	nearest = text_nearest(name, names);
	if (nearest != NULL)
		return err_set(r->err, EINVAL, "there is no template '%.32s': did you mean '%s'?", name,
		               nearest);
	for (size_t i = 0; names[i] != NULL; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i > 0 ? ", " : "",
		         names[i]);
	return err_set(r->err, EINVAL, "there is no template '%.32s': %s; others are described with "
	               "`message` and `at`", name, list);
}

static int
describe(struct reading *r, struct sign_hmac_template *t)
{
	static const char *const digests[] = { "sha1", "sha256", "sha384", "sha512", NULL };
	static const char *const codings[] = { "hex", "base64", NULL };
	unsigned digest = SIGN_SHA256, coding = 0;
	int e = read_word(r, OPTION_DIGEST, digests, "sha1, sha256, sha384 or sha512", &digest);

	e = e == 0 ? read_word(r, OPTION_CODING, codings, "how the signature is written: hex or base64",
	                       &coding) : e;
	*t = (struct sign_hmac_template){
		.name = "HMAC", .message = r->said[OPTION_MESSAGE], .digest = (enum sign_digest)digest,
		.signature = coding == 0 ? SIGN_HEX : SIGN_BASE64, .prefix = r->said[OPTION_PREFIX],
		.at = r->said[OPTION_AT], .id = r->said[OPTION_ID], .token = r->said[OPTION_TOKEN],
		.timestamp = r->said[OPTION_TIMESTAMP], .nonce = r->said[OPTION_NONCE],
	};
	return e == 0 ? read_key_coding(r, &t->secret) : e;
}

/* A row of the table, or a description, but not parts of both. */
static int
read_hmac(struct reading *r, struct sign_options *o)
{
	const char *name = r->said[OPTION_TEMPLATE];
	const struct sign_hmac_template *t = name != NULL ? sign_hmac_row(name) : &o->template;
	int e;

	if (t == NULL)
		return no_template(r, name);
	for (int i = 0; name != NULL && i < OPTIONS; i++) {
		if (r->said[i] == NULL || i == OPTION_TEMPLATE)
			continue;
		*r->which = r->at[i];
		return err_set(r->err, EINVAL, "the template '%s' says it already: leave out `%s`, or "
		               "describe all of it without `template`", name, option_names[i]);
	}
	if (name == NULL && r->said[OPTION_MESSAGE] == NULL)
		return err_set(r->err, EINVAL, "hmac wants to know what is signed: `with: {template: ...}`, "
		               "or `message` and `at`");
	e = name == NULL ? describe(r, &o->template) : 0;
	if (e < 0)
		return e;
	*r->which = name != NULL ? r->at[OPTION_TEMPLATE] : r->at[OPTION_MESSAGE];
	o->with = &o->hmac;
	return sign_hmac_compile(t, &o->hmac, r->err);
}

/* ---- all schemes ---- */

static int
take_pair(struct reading *r, const struct scheme *scheme, const char *name, const char *value,
          size_t at)
{
	const char *names[OPTIONS + 1] = { NULL }, *nearest;
	size_t n = 0;

	*r->which = at;
	for (int i = 0; i < OPTIONS; i++) {
		if ((scheme->takes & BIT(i)) == 0)
			continue;
		if (strcmp(option_names[i], name) == 0 && r->said[i] == NULL) {
			r->said[i] = value;
			r->at[i] = at;
			return 0;
		}
		names[n++] = option_names[i];
	}
	nearest = text_nearest(name, names);
	if (nearest != NULL && strcmp(nearest, name) != 0)
		return err_set(r->err, EINVAL, "'%s' has no option '%.32s': did you mean '%s'?",
		               scheme->name, name, nearest);
	if (nearest != NULL)
		return err_set(r->err, EINVAL, "the option '%.32s' of '%s' is given twice: remove one", name,
		               scheme->name);
	return err_set(r->err, EINVAL, "'%s' has no option '%.32s'", scheme->name, name);
}

int
sign_options_read(const char *scheme, const char *const *names, const char *const *values,
                  size_t n, struct sign_options *ret_options, size_t *ret_which,
                  struct err *err)
{
	struct reading r = { .n = n, .which = ret_which, .err = err };
	size_t i = 0;
	int e = 0;

	*ret_options = (struct sign_options){ .with = NULL };
	while (i < ARRAY_LEN(schemes) && strcmp(schemes[i].name, scheme) != 0)
		i++;
	if (i == ARRAY_LEN(schemes))
		return 0;
	for (size_t k = 0; e == 0 && k < n; k++)
		e = take_pair(&r, &schemes[i], names[k], values[k], k);
	if (e < 0)
		return e;
	*ret_which = n;
	return schemes[i].read(&r, ret_options);
}
