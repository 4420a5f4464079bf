/* signed.c - finds what signing has changed in a request: signatures by the real key.
 *
 * Anyone can use a signature for what it signs; a presigned URL, until it expires.  So the response
 * is searched for everything that is in the signed request and was not in the agent's, whatever the
 * scheme.  The words of both are compared in order: schemes replace one by one. */
#include <errno.h>
#include <string.h>

#include "base/codec.h"
#include "egress/secrets_parts.h"
#include "sign/scheme_parts.h"

#define WORD_MAX 8192                   /* bytes; only the beginning of a longer word is kept */
#define DIFFER_MAX 1024                 /* words; signing changes a few */

/* A text that is read word by word. */
struct words {
	struct http_text text;
	bool undone;                    /* escapes for URLs are undone */
	size_t pos, len;
	char word[WORD_MAX];
};

/* Characters of base64 and base64url without padding, or their escapes. */
static bool
is_of_word(const struct words *w, unsigned char c)
{
	return (c == '%' && !w->undone) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
	       c == '/' || c == '-' || c == '_';
}

static unsigned char
next_char(struct words *w)
{
	const char *at = w->text.at + w->pos;
	int byte = w->undone ? codec_percent_byte(at, w->text.len - w->pos) : -1;

	if (byte >= 0) {
		w->pos += 3;
		return (unsigned char)byte;
	}
	w->pos++;
	return (unsigned char)*at;
}

/* The next word; false: there is none. */
static bool
next_word(struct words *w)
{
	w->len = 0;
	while (w->pos < w->text.len) {
		unsigned char c = next_char(w);

		if (is_of_word(w, c) && w->len < WORD_MAX)
			w->word[w->len++] = (char)c;
		else if (!is_of_word(w, c) && w->len > 0)
			break;
	}
	return w->len > 0;
}

static bool
is_same(const struct words *a, const struct words *b)
{
	return a->len == b->len && memcmp(a->word, b->word, a->len) == 0;
}

/* A word that only moved was not made by signing. */
static bool
is_known(struct http_text before, const struct words *w)
{
	return before.len > 0 && memmem(before.at, before.len, w->word, w->len) != NULL;
}

static int
compare(struct http_text before, struct http_text after, bool undone, exchange_signed *found, void *arg)
{
	struct words was, is;
	size_t n_differ = 0;
	int r = 0;

	was.text = before;
	is.text = after;
	was.pos = is.pos = 0;
	was.undone = is.undone = undone;
	while (r == 0 && next_word(&is)) {
		bool any = next_word(&was);

		if (is.len < SWAP_NEEDLE_MIN || (any && is_same(&was, &is)))
			continue;
		if (n_differ++ == DIFFER_MAX)
			r = -E2BIG;
		else if (!is_known(before, &is))
			r = found(arg, (struct http_text){ is.word, is.len },
			          (struct http_text){ was.word, any ? was.len : 0 });
	}
	explicit_bzero(is.word, sizeof(is.word));
	return r;
}

int
exchange_compare_texts(struct http_text before, struct http_text after, exchange_signed *found, void *arg)
{
	int r = compare(before, after, true, found, arg);

	/* A server may write escaped text in a form of its own. */
	if (r == 0 && after.len > 0 && memchr(after.at, '%', after.len) != NULL)
		r = compare(before, after, false, found, arg);
	return r;
}

/* The value in BEFORE of the field that is field I of AFTER. */
static struct http_text
value_before(const struct http_head *before, const struct http_head *after, size_t i)
{
	struct http_text name = after->fields[i].name;
	size_t nth = 0;

	for (size_t k = 0; k < i; k++)
		nth += scheme_same(after->fields[k].name, name);
	for (size_t k = 0; k < before->n_fields; k++)
		if (scheme_same(before->fields[k].name, name) && nth-- == 0)
			return before->fields[k].value;
	return (struct http_text){ "", 0 };
}

int
exchange_compare_heads(const struct http_head *before, const struct http_head *after,
                       exchange_signed *found, void *arg)
{
	int r = exchange_compare_texts(before->path, after->path, found, arg);

	for (size_t i = 0; r == 0 && i < after->n_fields; i++) {
		struct http_text was = value_before(before, after, i);

		if (!scheme_same(was, after->fields[i].value))
			r = exchange_compare_texts(was, after->fields[i].value, found, arg);
	}
	return r;
}
