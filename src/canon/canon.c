/* canon.c - see canon.h. */
#include "canon/canon.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/canon_text.h"

/* UTF-8 sorts by code points.  UTF-16 differs in one case: characters of two units (UTF-8 F0 and
 * up) begin with D800 to DBFF, and so sort before E000 to FFFF (EE, EF). */
int
canon_compare(const char *a, const char *b)
{
	unsigned char x, y;

	while (*a != '\0' && *a == *b)
		a++, b++;
	x = (unsigned char)*a;
	y = (unsigned char)*b;
	if (x >= 0xf0 && (y == 0xee || y == 0xef))
		return -1;
	if (y >= 0xf0 && (x == 0xee || x == 0xef))
		return 1;
	return (int)x - (int)y;
}

/* ---- writing ---- */

static int
put_number(struct buf *b, json_t *value, struct err *err)
{
	char text[CANON_NUMBER_MAX];
	json_int_t n = json_integer_value(value);

	if (json_is_integer(value)) {
		if (n > CANON_INTEGER_MAX || n < -CANON_INTEGER_MAX)
			return err_set(err, EINVAL, "the number %" JSON_INTEGER_FORMAT " is too large to be "
			               "exact: write it as text", n);
		snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, n);
	} else {
		if (!isfinite(json_real_value(value)))
			return err_set(err, EINVAL, "a number is not finite");
		canon_number(json_real_value(value), text);
	}
	buf_put_text(b, text);
	return 0;
}

static int put_value(struct buf *b, json_t *value, unsigned depth, struct err *err);

static int
compare_names(const void *a, const void *b)
{
	return canon_compare(*(const char *const *)a, *(const char *const *)b);
}

static int
put_object(struct buf *b, json_t *value, unsigned depth, struct err *err)
{
	size_t n = json_object_size(value), i = 0;
	OWN(freep) const char **names = calloc(n + 1, sizeof(*names));
	const char *name;
	json_t *member;
	int r = 0;

	if (names == NULL)
		return err_set(err, ENOMEM, "out of memory");
	json_object_foreach(value, name, member)
		names[i++] = name;
	qsort(names, n, sizeof(*names), compare_names);
	buf_put(b, "{", 1);
	for (i = 0; r == 0 && i < n; i++) {
		if (i > 0)
			buf_put(b, ",", 1);
		canon_put_string(b, names[i], strlen(names[i]));
		buf_put(b, ":", 1);
		r = put_value(b, json_object_get(value, names[i]), depth, err);
	}
	buf_put(b, "}", 1);
	return r;
}

static int
put_array(struct buf *b, json_t *value, unsigned depth, struct err *err)
{
	int r = 0;

	buf_put(b, "[", 1);
	for (size_t i = 0; r == 0 && i < json_array_size(value); i++) {
		if (i > 0)
			buf_put(b, ",", 1);
		r = put_value(b, json_array_get(value, i), depth, err);
	}
	buf_put(b, "]", 1);
	return r;
}

static int
put_value(struct buf *b, json_t *value, unsigned depth, struct err *err)
{
	if (depth == CANON_DEPTH_MAX && (json_is_object(value) || json_is_array(value)))
		return err_set(err, EINVAL, "this is nested more than %d deep", CANON_DEPTH_MAX);
	switch (json_typeof(value)) {
	case JSON_OBJECT:
		return put_object(b, value, depth + 1, err);
	case JSON_ARRAY:
		return put_array(b, value, depth + 1, err);
	case JSON_STRING:
		canon_put_string(b, json_string_value(value), json_string_length(value));
		return 0;
	case JSON_INTEGER:
	case JSON_REAL:
		return put_number(b, value, err);
	default:
		buf_put_text(b, json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null");
		return 0;
	}
}

int
canon_put(struct buf *b, json_t *value, struct err *err)
{
	int r = put_value(b, value, 0, err);

	if (r == 0 && buf_failed(b))
		return err_set(err, E2BIG, "this is over %zu bytes as canonical JSON", b->max);
	return r;
}

int
canon_dump(json_t *value, size_t max, char **ret_text, size_t *ret_len, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(max + 1);
	int r;

	r = canon_put(&b, value, err);
	buf_put(&b, "", 1);
	if (r < 0)
		return r;
	if (buf_failed(&b))
		return err_set(err, E2BIG, "this is over %zu bytes as canonical JSON", max);
	*ret_len = b.len - 1;
	*ret_text = (char *)TAKE(b.data);
	return 0;
}

/* ---- reading ---- */

static int
check(json_t *value, unsigned depth, struct err *err)
{
	json_int_t n = json_integer_value(value);
	const char *name;
	json_t *member;
	int r = 0;

	if (json_is_integer(value) && (n > CANON_INTEGER_MAX || n < -CANON_INTEGER_MAX))
		return err_set(err, EINVAL, "the number %" JSON_INTEGER_FORMAT " is too large to be "
		               "exact: write it as text", n);
	if (json_is_real(value) && fabs(json_real_value(value)) > CANON_INTEGER_MAX)
		return err_set(err, EINVAL, "the number %g is too large to be exact: write it as text",
		               json_real_value(value));
	if (!json_is_object(value) && !json_is_array(value))
		return 0;
	if (depth == CANON_DEPTH_MAX)
		return err_set(err, EINVAL, "this is nested more than %d deep", CANON_DEPTH_MAX);
	for (size_t i = 0; r == 0 && i < json_array_size(value); i++)
		r = check(json_array_get(value, i), depth + 1, err);
	json_object_foreach(value, name, member)
		r = r == 0 ? check(member, depth + 1, err) : r;
	return r;
}

/* Checked before values are created: "[[],[],..." takes fifty times its length. */
static bool
has_too_many(const char *text, size_t len)
{
	bool quoted = false;
	size_t n = 1;

	for (size_t i = 0; i < len && n <= CANON_VALUES_MAX; i++) {
		if (quoted && text[i] == '\\')
			i++;
		else if (text[i] == '"')
			quoted = !quoted;
		else if (!quoted)
			n += text[i] == ',' || text[i] == '[' || text[i] == '{';
	}
	return n > CANON_VALUES_MAX;
}

/* Jansson's texts end with "near 'TOKEN'".  That of a repeated key is the key, in quotes. */
static int
refuse_text(const json_error_t *why, struct err *err)
{
	const char *key = strstr(why->text, "near '");

	if (json_error_code(why) == json_error_out_of_memory)
		return err_set(err, ENOMEM, "out of memory");
	if (json_error_code(why) == json_error_duplicate_key && key != NULL)
		return err_set(err, EINVAL, "line %d, column %d: the key %.*s is given twice: remove one",
		               why->line, why->column, (int)strcspn(key + 6, "'"), key + 6);
	return err_set(err, EINVAL, "line %d, column %d: this is not JSON: %s", why->line, why->column,
	               why->text);
}

int
canon_read(const char *text, size_t len, json_t **ret_value, struct err *err)
{
	OWN(json_decrefp) json_t *value = NULL;
	json_error_t why;
	int r;

	if (has_too_many(text, len))
		return err_set(err, EINVAL, "this has more than %d values", CANON_VALUES_MAX);
	value = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
	if (value == NULL)
		return refuse_text(&why, err);
	r = check(value, 0, err);
	if (r < 0)
		return r;
	*ret_value = TAKE(value);
	return 0;
}

json_t *
canon_value(const char *text, size_t len)
{
	json_t *value = NULL;

	(void)canon_read(text, len, &value, NULL);
	return value;
}
