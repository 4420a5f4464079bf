/* placeholder.c - mints text: by items, base64 and JWTs. */
#include "vault/placeholder.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "vault/seal.h"
#include "vault/shape.h"

#define TRIES 64                        /* until it shares nothing with the real one */
#define CHECKED 30                      /* characters that a {crc62} is the checksum of */
#define JWT_PART_MAX (16 * 1024)

void
placeholder_free(struct placeholder *p)
{
	for (size_t i = 0; i < SECRET_FIELDS; i++)
		free(p->field[i]);
	*p = (struct placeholder){0};
}

/* ---- items ---- */

struct dice {
	unsigned char bytes[256];
	size_t left;
};

/* One of N, each as likely as the others. */
static int
roll(struct dice *d, size_t n, size_t *ret_one, struct err *err)
{
	unsigned char byte;
	int r;

	do {
		if (d->left == 0) {
			r = seal_random(d->bytes, sizeof(d->bytes), err);
			if (r < 0)
				return r;
			d->left = sizeof(d->bytes);
		}
		byte = d->bytes[--d->left];
	} while (byte >= 256 - 256 % n);
	*ret_one = byte % n;
	return 0;
}

/* As many characters as the items say at least, which fitted a value or was guessed. */
static int
mint_items(const struct shape *shape, char *out, struct err *err)
{
	struct dice dice = { .left = 0 };
	size_t at = 0, one;
	int r;

	for (size_t i = 0; i < shape->n; i++) {
		const struct shape_item *item = &shape->items[i];
		const char *alphabet = shape_alphabet(item->class);

		if (item->class == 'c')
			checksum_crc62(out + at - CHECKED, CHECKED, out + at);
		else if (item->class == 0)
			memcpy(out + at, item->at, item->min);
		for (size_t k = 0; alphabet != NULL && k < item->min; k++) {
			r = roll(&dice, strlen(alphabet), &one, err);
			if (r < 0)
				return r;
			out[at + k] = alphabet[one];
		}
		at += item->min;
	}
	out[at] = '\0';
	return 0;
}

/* Whether A has a part of B in it, or all of it where B is short. */
static bool
shares(const char *a, size_t n, const char *b, size_t m)
{
	if (n == m && memcmp(a, b, n) == 0)
		return true;
	for (size_t i = 0; i + PLACEHOLDER_PART <= n; i++)
		if (memmem(b, m, a + i, PLACEHOLDER_PART) != NULL)
			return true;
	return false;
}

/* Literals within, such as the mark in the middle of OpenAI's keys, are everybody's: each run
 * between them is compared by itself. */
static bool
shares_items(const struct shape *shape, const char *minted, const struct guard *real)
{
	size_t at = 0;

	for (size_t i = 0; i < shape->n; at += shape->items[i++].min) {
		const struct shape_item *item = &shape->items[i];

		if (item->class != 0 && (item->min >= PLACEHOLDER_PART ?
		    shares(minted + at, item->min, real->at, real->len) : false))
			return true;
	}
	return strlen(minted) == real->len && memcmp(minted, real->at, real->len) == 0;
}

static int
mint_by_items(const struct shape *shape, const struct guard *real, char **ret_text,
              struct err *err)
{
	OWN(freep) char *text = malloc(SHAPE_TEXT_MAX + 1);
	int r;

	if (text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (int i = 0; i < TRIES; i++) {
		r = mint_items(shape, text, err);
		if (r < 0)
			return r;
		if (!shares_items(shape, text, real)) {
			*ret_text = TAKE(text);
			return 0;
		}
	}
	return err_set(err, EINVAL, "the value is too short for a placeholder that differs from it");
}

/* ---- base64 ---- */

static int
mint_base64(const struct guard *real, char **ret_text, struct err *err)
{
	size_t pad = real->len >= 2 ? (real->at[real->len - 1] == '=') + (real->at[real->len - 2] == '=')
	                            : 0;
	size_t bytes = real->len / 4 * 3 - pad;
	OWN(freep) unsigned char *random = NULL;
	OWN(freep) char *text = NULL;
	int r = -EAGAIN;

	if (real->len % 4 != 0 || real->len < 4)
		return err_set(err, EINVAL, "the value is not base64");
	random = malloc(bytes);
	text = malloc(real->len + 1);
	if (random == NULL || text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (int i = 0; i < TRIES; i++) {
		r = seal_random(random, bytes, err);
		if (r < 0)
			return r;
		EVP_EncodeBlock((unsigned char *)text, random, (int)bytes);
		if (!shares(text, real->len, real->at, real->len)) {
			*ret_text = TAKE(text);
			return 0;
		}
	}
	return err_set(err, EINVAL, "the value is too short for a placeholder that differs from it");
}

/* ---- JWT ---- */

static size_t
base64url(const void *data, size_t len, char *out)
{
	size_t n = (size_t)EVP_EncodeBlock((unsigned char *)out, data, (int)len);

	while (n > 0 && out[n - 1] == '=')
		n--;
	out[n] = '\0';
	for (size_t i = 0; i < n; i++)
		out[i] = out[i] == '+' ? '-' : out[i] == '/' ? '_' : out[i];
	return n;
}

/* A part of a JWT as JSON; NULL if it is none. */
static json_t *
part_of(const char *at, size_t len)
{
	OWN(freep) unsigned char *bytes = NULL;
	OWN(freep) char *text = NULL;
	size_t padded = (len + 3) / 4 * 4;
	json_t *json;
	int n;

	if (len == 0 || len > JWT_PART_MAX)
		return NULL;
	text = malloc(padded + 1);
	bytes = malloc(padded);
	if (text == NULL || bytes == NULL)
		return NULL;
	for (size_t i = 0; i < padded; i++)
		text[i] = i >= len ? '=' : at[i] == '-' ? '+' : at[i] == '_' ? '/' : at[i];
	n = EVP_DecodeBlock(bytes, (unsigned char *)text, (int)padded);
	json = n > 0 ? json_loadb((char *)bytes, (size_t)n - (padded - len), 0, NULL) : NULL;
	explicit_bzero(text, padded);
	explicit_bzero(bytes, padded);
	return json;
}

static int
write_jwt(const char *alg, json_int_t expires, size_t n_signature, char **ret_text,
          struct err *err)
{
	unsigned char random[16];
	OWN(freep) unsigned char *signature = malloc(n_signature + 1);
	OWN(freep) char *head = str_format("{\"alg\":\"%s\",\"typ\":\"JWT\"}", alg), *claims = NULL;
	OWN(freep) char *text = malloc(2 * n_signature + 1024);
	char jti[33], exp[48] = "";
	size_t n;
	int r = seal_random(random, sizeof(random), err);

	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(jti + 2 * i, 3, "%02x", random[i]);
	/* Clients look whether it has ended. */
	if (expires > 0)
		snprintf(exp, sizeof(exp), ",\"exp\":%lld", (long long)expires);
	claims = str_format("{\"iss\":\"cloister\",\"sub\":\"placeholder\",\"jti\":\"%s\"%s}", jti, exp);
	if (signature == NULL || head == NULL || claims == NULL || text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = r == 0 ? seal_random(signature, n_signature, err) : r;
	if (r < 0)
		return r;
	n = base64url(head, strlen(head), text);
	text[n++] = '.';
	n += base64url(claims, strlen(claims), text + n);
	text[n++] = '.';
	base64url(signature, n_signature, text + n);
	*ret_text = TAKE(text);
	return 0;
}

static int
mint_jwt(const struct guard *real, char **ret_text, struct err *err)
{
	const char *first = memchr(real->at, '.', real->len);
	const char *second = first != NULL ? strchr(first + 1, '.') : NULL;
	json_t *head = NULL, *claims = NULL;
	const char *alg;
	int r;

	if (second == NULL)
		return err_set(err, EINVAL, "the value is not a JWT");
	head = part_of(real->at, (size_t)(first - real->at));
	claims = part_of(first + 1, (size_t)(second - first - 1));
	alg = json_string_value(json_object_get(head, "alg"));
	/* What it says goes into text as it is. */
	if (alg == NULL || strlen(alg) > 32 || strspn(alg, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn"
	    "opqrstuvwxyz0123456789-") != strlen(alg))
		r = err_set(err, EINVAL, "the value is not a JWT");
	else
		r = write_jwt(alg, json_integer_value(json_object_get(claims, "exp")),
		              strlen(second + 1) * 3 / 4, ret_text, err);
	json_decref(head);
	json_decref(claims);
	return r;
}

/* ---- any ---- */

/* How many of its characters are drawn. */
static size_t
chance_of(const struct shape *shape)
{
	size_t n = 0;

	for (size_t i = 0; i < shape->n; i++)
		n += shape->items[i].class != 0 ? shape->items[i].min : 0;
	return n;
}

/* The shape that fits; of those that are words, what is there is taken for granted. */
static void
choose(const struct policy_list *shapes, const struct guard *real, struct shape *ret_shape)
{
	struct shape shape;

	for (size_t i = 0; shapes != NULL && i < shapes->n; i++) {
		if (shape_parse(shapes->at[i], &shape, NULL) < 0)
			continue;
		if (shape.kind != SHAPE_ITEMS) {
			*ret_shape = shape;
			return;
		}
		if (shape_fit(&shape, real->at, real->len, ret_shape))
			return;
	}
	shape_guess(real->at, real->len, ret_shape);
	if (ret_shape->kind == SHAPE_ITEMS && chance_of(ret_shape) < PLACEHOLDER_MIN)
		*ret_shape = (struct shape){ .n = 1, .items = { { 'w', NULL, PLACEHOLDER_MIN,
		                                                  PLACEHOLDER_MIN } } };
}

int
placeholder_mint_text(const struct policy_list *shapes, const struct guard *real, char **ret_text,
                      struct err *err)
{
	struct shape shape;

	choose(shapes, real, &shape);
	switch (shape.kind) {
	case SHAPE_JWT:
		return mint_jwt(real, ret_text, err);
	case SHAPE_PEM:
		return placeholder_mint_pem(real, ret_text, err);
	case SHAPE_BASE64:
		return mint_base64(real, ret_text, err);
	case SHAPE_CERTIFICATE:
		return placeholder_mint_certificate(ret_text, err);
	default:
		return mint_by_items(&shape, real, ret_text, err);
	}
}

/* Each of the two by itself. */
static int
mint_pair(const struct secret *s, const struct guard *real, char **ret_text, struct err *err)
{
	const char *mark = memchr(real->at, '&', real->len);
	size_t n = mark != NULL ? (size_t)(mark - real->at) : real->len;
	const struct { const char *at; size_t len; } halves[] = { { real->at, n },
		{ real->at + n + 1, mark != NULL ? real->len - n - 1 : 0 } };
	OWN(freep) char *first = NULL, *second = NULL;
	char **const minted[] = { &first, &second };
	int r = 0;

	if (mark == NULL)
		return placeholder_mint_text(&s->shapes[SECRET_SECRET], real, ret_text, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(halves); i++) {
		OWN(guard_free) struct guard half = {0};

		if (halves[i].len == 0)
			continue;
		r = guard_copy(&half, halves[i].at, halves[i].len, err);
		r = r == 0 ? placeholder_mint_text(&s->shapes[SECRET_SECRET], &half, minted[i], err) : r;
	}
	if (r < 0)
		return r;
	*ret_text = str_format("%s&%s", first != NULL ? first : "", second != NULL ? second : "");
	return *ret_text != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

static int
copy_id(const struct secret *s, const struct secret_values *real, char **ret_id, struct err *err)
{
	const struct guard *id = &real->field[SECRET_ID];

	if (id->len == 0 && *s->id == '\0')
		return 0;
	*ret_id = id->len > 0 ? strndup(id->at, id->len) : strdup(s->id);
	return *ret_id != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

int
placeholder_mint(const struct secret *s, const struct secret_values *real,
                 struct placeholder *ret_placeholder, struct err *err)
{
	OWN(placeholder_free) struct placeholder p = {0};
	OWN(guard_free) struct guard said = {0};
	int r = 0;

	if (strcmp(s->scheme->name, "mtls") == 0)
		r = placeholder_check_pair(&real->field[SECRET_SECRET], err);
	for (size_t f = 0; r == 0 && f < SECRET_FIELDS; f++) {
		const struct guard *value = &real->field[f];

		if (f == SECRET_ID && !s->scheme->mints_id) {
			r = copy_id(s, real, &p.field[f], err);
			continue;
		}
		if (f == SECRET_ID && value->len == 0 && *s->id != '\0') {
			r = guard_copy(&said, s->id, strlen(s->id), err);
			value = &said;
		}
		if (r == 0 && value->len > 0 && f == SECRET_SECRET && s->scheme->pair)
			r = mint_pair(s, value, &p.field[f], err);
		else if (r == 0 && value->len > 0)
			r = placeholder_mint_text(&s->shapes[f], value, &p.field[f], err);
	}
	if (r < 0)
		return err_wrap(err, "no placeholder for '%s'", s->name);
	*ret_placeholder = p;
	p = (struct placeholder){0};
	return 0;
}
