/* placeholder_text.c - makes placeholders by items, in base64 and as JWTs.
 *
 * It needs no JSON library, and is also used for tokens that a server issues while a cell runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "vault/placeholder_parts.h"
#include "vault/seal.h"

#define TRIES 64                        /* until it shares nothing with the real value */
#define CHECKED 30                      /* characters that {crc62} covers */
#define JWT_HEAD_MAX 1024               /* of a token, searched for its algorithm */
#define JWT_SIGNATURE_MAX 1024

/* ---- items ---- */

struct dice {
	unsigned char bytes[256];
	size_t left;
};

/* One of N, with equal probability. */
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

/* Each item gets its minimum number of characters; the shape fitted a value or was guessed. */
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
			codec_crc62(out + at - CHECKED, CHECKED, out + at);
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

/* Whether A contains a part of B, or all of B if B is short. */
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

/* Literals inside, such as the mark in the middle of OpenAI's keys, are common to all.  So each run
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

int
placeholder_by_items(const struct shape *shape, const struct guard *real, char **ret_text,
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

int
placeholder_base64(const struct guard *real, char **ret_text, struct err *err)
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
		codec_base64(CODEC_BASE64, random, bytes, text);
		if (!shares(text, real->len, real->at, real->len)) {
			*ret_text = TAKE(text);
			return 0;
		}
	}
	return err_set(err, EINVAL, "the value is too short for a placeholder that differs from it");
}

/* ---- JWT ---- */

int
placeholder_jwt(const char *alg, int64_t expires, size_t n_signature, char **ret_text,
                struct err *err)
{
	unsigned char random[16];
	OWN(freep) unsigned char *signature = malloc(n_signature + 1);
	OWN(freep) char *head = str_format("{\"alg\":\"%s\",\"typ\":\"JWT\"}", alg), *claims = NULL;
	OWN(freep) char *text = malloc(2 * n_signature + 1024);
	char jti[33], exp[48] = "";
	size_t n;
	int r = seal_random(random, sizeof(random), err);

	codec_hex(random, sizeof(random), jti);
	/* Clients check whether it has expired. */
	if (expires > 0)
		snprintf(exp, sizeof(exp), ",\"exp\":%lld", (long long)expires);
	claims = str_format("{\"iss\":\"cloister\",\"sub\":\"placeholder\",\"jti\":\"%s\"%s}", jti, exp);
	if (signature == NULL || head == NULL || claims == NULL || text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = r == 0 ? seal_random(signature, n_signature, err) : r;
	if (r < 0)
		return r;
	n = codec_base64(CODEC_BASE64URL, head, strlen(head), text);
	text[n++] = '.';
	n += codec_base64(CODEC_BASE64URL, claims, strlen(claims), text + n);
	text[n++] = '.';
	codec_base64(CODEC_BASE64URL, signature, n_signature, text + n);
	*ret_text = TAKE(text);
	return 0;
}

/* ---- any kind ---- */

/* The number of random characters. */
static size_t
chance_of(const struct shape *shape)
{
	size_t n = 0;

	for (size_t i = 0; i < shape->n; i++)
		n += shape->items[i].class != 0 ? shape->items[i].min : 0;
	return n;
}

/* Lengthen the last random item, so that there are enough random characters. */
static void
lengthen(struct shape *shape)
{
	size_t chance = chance_of(shape), last = shape->n;

	if (chance >= PLACEHOLDER_MIN)
		return;
	while (last > 0 && shape->items[last - 1].class == 0)
		last--;
	if (last == 0) {
		*shape = (struct shape){ .n = 1, .items = { { 'w', NULL, PLACEHOLDER_MIN, PLACEHOLDER_MIN } } };
		return;
	}
	shape->items[last - 1].min += PLACEHOLDER_MIN - chance;
	shape->items[last - 1].max = shape->items[last - 1].min;
}

void
placeholder_choose(const struct policy_list *shapes, const struct guard *real,
                   struct shape *ret_shape)
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
	if (ret_shape->kind == SHAPE_ITEMS)
		lengthen(ret_shape);
}

/* ---- tokens ---- */

/* Find the value of "alg" in the head of a JWT: a word; otherwise a default is used. */
static void
find_algorithm(const char *at, size_t len, char ret_alg[33])
{
	unsigned char plain[JWT_HEAD_MAX];
	const char *alg, *end;
	size_t n;

	memcpy(ret_alg, "RS256", sizeof("RS256"));
	if (codec_unbase64(CODEC_BASE64URL, at, len, plain, sizeof(plain), &n) < 0)
		return;
	alg = memmem(plain, n, "\"alg\"", 5);
	if (alg == NULL)
		return;
	end = (const char *)plain + n;
	for (alg += 5; alg < end && (*alg == ' ' || *alg == ':'); alg++)
		;
	if (alg == end || *alg++ != '"')
		return;
	len = 0;
	while (alg + len < end && len < 32 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwx"
	       "yz0123456789-", alg[len]) != NULL && alg[len] != '\0')
		len++;
	if (len > 0 && alg + len < end && alg[len] == '"') {
		memcpy(ret_alg, alg, len);
		ret_alg[len] = '\0';
	}
}

int
placeholder_mint_token(const struct policy_list *shapes, const struct guard *real,
                       uint64_t expires, char **ret_text, struct err *err)
{
	const char *first = memchr(real->at, '.', real->len);
	struct shape shape;
	char alg[33];
	size_t n;

	placeholder_choose(shapes, real, &shape);
	if (shape.kind == SHAPE_JWT && first != NULL) {
		const char *last = memrchr(real->at, '.', real->len);

		n = (size_t)(real->at + real->len - last) * 3 / 4;
		find_algorithm(real->at, (size_t)(first - real->at), alg);
		return placeholder_jwt(alg, (int64_t)expires, n > JWT_SIGNATURE_MAX ? JWT_SIGNATURE_MAX : n,
		                       ret_text, err);
	}
	if (shape.kind == SHAPE_BASE64 && real->len <= SHAPE_TEXT_MAX && real->len > PLACEHOLDER_MIN)
		return placeholder_base64(real, ret_text, err);
	/* Whatever its definition gives, the placeholder must be found, and match nothing else. */
	if (shape.kind != SHAPE_ITEMS || chance_of(&shape) < PLACEHOLDER_MIN)
		shape = (struct shape){ .n = 1, .items = { { 'w', NULL, 64, 64 } } };
	return placeholder_by_items(&shape, real, ret_text, err);
}
