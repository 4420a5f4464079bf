/* placeholder.c - makes the placeholder that a secret's scheme needs. */
#include "vault/placeholder.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "sign/sign.h"
#include "vault/placeholder_parts.h"

#define JWT_PART_MAX (16 * 1024)

void
placeholder_free(struct placeholder *p)
{
	for (size_t i = 0; i < SECRET_FIELDS; i++)
		free(p->field[i]);
	*p = (struct placeholder){0};
}

/* ---- JWT ---- */

/* A part of a JWT as JSON; NULL: it is not JSON. */
static json_t *
part_of(const char *at, size_t len)
{
	OWN(freep) unsigned char *bytes = NULL;
	json_t *json = NULL;
	size_t n;

	if (len == 0 || len > JWT_PART_MAX)
		return NULL;
	bytes = malloc(CODEC_BYTES_LEN(len));
	if (bytes == NULL)
		return NULL;
	if (codec_unbase64(CODEC_BASE64URL, at, len, bytes, CODEC_BYTES_LEN(len), &n) == 0)
		json = json_loadb((char *)bytes, n, 0, NULL);
	explicit_bzero(bytes, CODEC_BYTES_LEN(len));
	return json;
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
	/* The name is inserted into text unchanged. */
	if (alg == NULL || strlen(alg) > 32 || strspn(alg, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmn"
	    "opqrstuvwxyz0123456789-") != strlen(alg))
		r = err_set(err, EINVAL, "the value is not a JWT");
	else
		r = placeholder_jwt(alg, json_integer_value(json_object_get(claims, "exp")),
		                    strlen(second + 1) * 3 / 4, ret_text, err);
	json_decref(head);
	json_decref(claims);
	return r;
}

/* ---- any kind ---- */

int
placeholder_mint_text(const struct policy_list *shapes, const struct guard *real, char **ret_text,
                      struct err *err)
{
	struct shape shape;

	placeholder_choose(shapes, real, &shape);
	switch (shape.kind) {
	case SHAPE_JWT:
		return mint_jwt(real, ret_text, err);
	case SHAPE_PEM:
		return placeholder_mint_pem(real, ret_text, err);
	case SHAPE_BASE64:
		return placeholder_base64(real, ret_text, err);
	case SHAPE_CERTIFICATE:
		return placeholder_mint_certificate(ret_text, err);
	default:
		return placeholder_by_items(&shape, real, ret_text, err);
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
	const struct sign_scheme *scheme = sign_scheme_find(s->scheme->name);
	OWN(placeholder_free) struct placeholder p = {0};
	OWN(guard_free) struct guard said = {0};
	int r = 0;

	if (strcmp(s->scheme->name, "mtls") == 0)
		r = placeholder_check_pair(&real->field[SECRET_SECRET], err);
	else if (scheme != NULL && scheme->check_key != NULL && real->field[SECRET_SECRET].len > 0)
		r = scheme->check_key((struct http_text){ real->field[SECRET_SECRET].at,
		                                          real->field[SECRET_SECRET].len }, err);
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
