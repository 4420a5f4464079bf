/* members_check.c - checks that a text is the members of one object in canonical form; see
 * members.h. */
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"
#include "canon/canon_text.h"
#include "canon/members.h"

#define NUMBER_DIGITS 16                /* of 2^53-1 */
#define LIST_MAX 4096

struct reader {
	const char *at, *end;
};

static bool
take(struct reader *r, char c)
{
	if (r->at == r->end || *r->at != c)
		return false;
	r->at++;
	return true;
}

static bool
take_string(struct reader *r)
{
	uint32_t code;
	size_t n;

	if (!take(r, '"'))
		return false;
	for (;;) {
		r->at += canon_text_plain(r->at, (size_t)(r->end - r->at));
		if (take(r, '"'))
			return true;
		n = canon_text_next(r->at, r->end, &code);
		/* An escaped control character is harmless. */
		if (n == 0 || (*r->at != '\\' && utf8_is_control(code)))
			return false;
		r->at += n;
	}
}

static bool
take_number(struct reader *r)
{
	const char *first = r->at;
	uint64_t value = 0;

	while (r->at < r->end && *r->at >= '0' && *r->at <= '9' && r->at - first <= NUMBER_DIGITS)
		value = value * 10 + (uint64_t)(*r->at++ - '0');
	return r->at > first && r->at - first <= NUMBER_DIGITS && value <= MEMBERS_NUMBER_MAX &&
	       (*first != '0' || r->at - first == 1);
}

static bool
take_list(struct reader *r)
{
	size_t n = 0;

	if (!take(r, '['))
		return false;
	if (take(r, ']'))
		return true;
	do {
		if (n++ == LIST_MAX || !take_string(r))
			return false;
	} while (take(r, ','));
	return take(r, ']');
}

static bool
take_value(struct reader *r)
{
	if (r->at == r->end)
		return false;
	switch (*r->at) {
	case '"':
		return take_string(r);
	case '[':
		return take_list(r);
	case 't':
		return text_take(&r->at, r->end, "true");
	case 'f':
		return text_take(&r->at, r->end, "false");
	default:
		return take_number(r);
	}
}

/* Keys must be in order: each sorts behind the one before it. */
static bool
take_key(struct reader *r, const char **key, size_t *len)
{
	const char *first;
	size_t n, common;
	int order;

	if (!take(r, '"'))
		return false;
	first = r->at;
	while (r->at < r->end && ((*r->at >= 'a' && *r->at <= 'z') || *r->at == '_' ||
	                          (*r->at >= '0' && *r->at <= '9')))
		r->at++;
	n = (size_t)(r->at - first);
	if (n == 0 || n > MEMBERS_KEY_MAX || !text_take(&r->at, r->end, "\":"))
		return false;
	common = n < *len ? n : *len;
	order = *key == NULL ? 1 : memcmp(first, *key, common);
	if (order < 0 || (order == 0 && n <= *len))
		return false;
	*key = first;
	*len = n;
	return true;
}

bool
members_check(const char *text, size_t len, const char **ret_type, size_t *ret_type_len)
{
	struct reader r = { text, text + len };
	const char *key = NULL, *value;
	size_t key_len = 0, n = 0;
	bool typed = false;

	do {
		if (n++ == MEMBERS_MAX || !take_key(&r, &key, &key_len))
			return false;
		value = r.at;
		if (!take_value(&r))
			return false;
		if (key_len == 4 && memcmp(key, "type", 4) == 0) {
			if (*value != '"')
				return false;
			*ret_type = value + 1;
			*ret_type_len = (size_t)(r.at - value) - 2;
			typed = true;
		}
	} while (take(&r, ','));
	return typed && r.at == r.end;
}

/* Where in TEXT the member WANTED begins, or would: then *ret_value is NULL. */
static const char *
find_member(const char *text, size_t len, const char *wanted, const char **ret_value)
{
	struct reader r = { text, text + len };
	const char *key = NULL, *from;
	size_t key_len = 0, wanted_len = strlen(wanted), common;
	int order;

	*ret_value = NULL;
	for (;;) {
		from = r.at;
		if (!take_key(&r, &key, &key_len))
			return from;
		common = key_len < wanted_len ? key_len : wanted_len;
		order = memcmp(key, wanted, common);
		if (order == 0 && key_len == wanted_len)
			*ret_value = r.at;
		if (order > 0 || (order == 0 && key_len >= wanted_len))
			return from;
		if (!take_value(&r) || !take(&r, ','))
			return r.end;
	}
}

bool
members_find_u64(const char *text, size_t len, const char *key, uint64_t *ret_value)
{
	const char *value;

	(void)find_member(text, len, key, &value);
	if (value == NULL || *value < '0' || *value > '9')
		return false;
	*ret_value = 0;
	for (; value < text + len && *value >= '0' && *value <= '9'; value++)
		*ret_value = *ret_value * 10 + (uint64_t)(*value - '0');
	return true;
}

void
members_add_u64(struct buf *out, const char *text, size_t len, const char *key, uint64_t value)
{
	const char *is_there, *at = find_member(text, len, key, &is_there);
	const size_t before = (size_t)(at - text);

	if (is_there != NULL) {
		buf_put(out, text, len);
		return;
	}
	buf_put(out, text, before);
	buf_put_text(out, before == len ? ",\"" : "\"");
	buf_put_text(out, key);
	buf_put_text(out, "\":");
	buf_put_decimal(out, value < MEMBERS_NUMBER_MAX ? value : MEMBERS_NUMBER_MAX);
	if (before < len)
		buf_put_text(out, ",");
	buf_put(out, at, len - before);
}
