/* members.c - writes members; see members.h. */
#include "canon/members.h"

#include <assert.h>
#include <string.h>

#include "canon/canon_text.h"

void
members_init(struct members *m, size_t max)
{
	m->n = 0;
	buf_init(&m->text, max);
}

void
members_free(struct members *m)
{
	m->n = 0;
	buf_free(&m->text);
}

void
members_reset(struct members *m)
{
	m->n = 0;
	buf_reset(&m->text);
}

bool
members_failed(const struct members *m)
{
	return buf_failed(&m->text);
}

/* ---- texts ---- */

void
members_escape(struct buf *b, const char *text, size_t len, size_t max)
{
	canon_text_put(b, text, len > max ? max : len, true);
	if (len > max)
		buf_put(b, "...", 3);
}

static void
put_string(struct buf *b, const char *text, size_t len, size_t max)
{
	buf_put(b, "\"", 1);
	members_escape(b, text, len, max);
	buf_put(b, "\"", 1);
}

/* ---- members ---- */

static void
begin(struct members *m, const char *key)
{
	size_t len = strlen(key);

	assert(m->n < MEMBERS_MAX && len <= MEMBERS_KEY_MAX);
	m->at[m->n] = (struct member){ (uint32_t)m->text.len, (uint32_t)len, 0 };
	buf_put(&m->text, "\"", 1);
	buf_put(&m->text, key, len);
	buf_put(&m->text, "\":", 2);
}

static void
end(struct members *m)
{
	m->at[m->n].len = (uint32_t)m->text.len - m->at[m->n].at;
	m->n++;
}

void
members_text(struct members *m, const char *key, const char *text, size_t len, size_t max)
{
	begin(m, key);
	put_string(&m->text, text, len, max);
	end(m);
}

void
members_str(struct members *m, const char *key, const char *text)
{
	if (text != NULL && text[0] != '\0')
		members_text(m, key, text, strlen(text), MEMBERS_STR_MAX);
}

void
members_u64(struct members *m, const char *key, uint64_t value)
{
	char digits[24], *at = digits + sizeof(digits);

	begin(m, key);
	if (value > MEMBERS_NUMBER_MAX)
		value = MEMBERS_NUMBER_MAX;
	do
		*--at = (char)('0' + value % 10);
	while ((value /= 10) > 0);
	buf_put(&m->text, at, (size_t)(digits + sizeof(digits) - at));
	end(m);
}

void
members_bool(struct members *m, const char *key, bool value)
{
	members_raw(m, key, value ? "true" : "false", value ? 4 : 5);
}

void
members_list(struct members *m, const char *key, const char *const *texts, size_t n, size_t max)
{
	begin(m, key);
	buf_put(&m->text, "[", 1);
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			buf_put(&m->text, ",", 1);
		put_string(&m->text, texts[i], strlen(texts[i]), max);
	}
	buf_put(&m->text, "]", 1);
	end(m);
}

void
members_raw(struct members *m, const char *key, const void *value, size_t len)
{
	begin(m, key);
	buf_put(&m->text, value, len);
	end(m);
}

void
members_copy(struct members *m, const struct members *from, size_t n)
{
	members_reset(m);
	if (n == 0)
		return;
	buf_put(&m->text, from->text.data, from->at[n - 1].at + from->at[n - 1].len);
	memcpy(m->at, from->at, n * sizeof(m->at[0]));
	m->n = n;
}

/* ---- sorted ---- */

/* Keys are ASCII, so byte order is the order of RFC 8785. */
static bool
comes_before(const struct members *m, const struct member *a, const struct member *b)
{
	const unsigned char *text = m->text.data;
	size_t len = a->key_len < b->key_len ? a->key_len : b->key_len;
	int order = memcmp(text + a->at + 1, text + b->at + 1, len);

	return order < 0 || (order == 0 && a->key_len < b->key_len);
}

void
members_put(const struct members *m, struct buf *out)
{
	uint8_t order[MEMBERS_MAX];

	if (members_failed(m)) {
		out->failed = true;
		return;
	}
	for (size_t i = 0; i < m->n; i++) {
		size_t k = i;

		for (; k > 0 && comes_before(m, &m->at[i], &m->at[order[k - 1]]); k--)
			order[k] = order[k - 1];
		order[k] = (uint8_t)i;
	}
	for (size_t i = 0; i < m->n; i++) {
		if (i > 0)
			buf_put(out, ",", 1);
		buf_put(out, m->text.data + m->at[order[i]].at, m->at[order[i]].len);
	}
}

void
members_put_object(const struct members *m, struct buf *out)
{
	buf_put(out, "{", 1);
	members_put(m, out);
	buf_put(out, "}", 1);
}
