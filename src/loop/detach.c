/* detach.c - see detach.h. */
#include "loop/detach.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"

#define CTRL "ctrl-"

static int
parse_key(const char *word, size_t len, unsigned char *ret_key)
{
	const size_t n = strlen(CTRL);

	if (len == 1 && isprint((unsigned char)word[0])) {
		*ret_key = (unsigned char)word[0];
		return 0;
	}
	if (len != n + 1 || strncasecmp(word, CTRL, n) != 0)
		return -EINVAL;
	*ret_key = (unsigned char)toupper((unsigned char)word[n]);
	if (*ret_key < '@' || *ret_key > '_')
		return -EINVAL;
	*ret_key -= '@';
	return 0;
}

int
detach_parse(const char *text, struct detach *ret_detach, struct err *err)
{
	const char *at = text;
	size_t n = 0;

	if (strcmp(text, "none") == 0) {
		ret_detach->n = 0;
		return 0;
	}
	for (;;) {
		size_t len = strcspn(at, ",");

		if (n == DETACH_KEYS_MAX || parse_key(at, len, &ret_detach->keys[n]) < 0)
			return err_set(err, EINVAL, "'%s' cannot be keys: use up to %d of ctrl-LETTER or one character, "
			               "separated by commas, such as " DETACH_DEFAULT ", or none", text, DETACH_KEYS_MAX);
		n++;
		if (at[len] == '\0')
			break;
		at += len + 1;
	}
	ret_detach->n = n;
	return 0;
}

/* The length of KEY at the beginning of TEXT; 0: it begins with another one. */
static size_t
match_key(unsigned char key, const unsigned char *text, size_t len)
{
	const int code = tolower(key + '@');
	char forms[2][DETACH_KEY_MAX + 1];

	if (len > 0 && text[0] == key)
		return 1;
	if (key >= ' ')
		return 0;
	snprintf(forms[0], sizeof(forms[0]), "\033[%d;5u", code);
	snprintf(forms[1], sizeof(forms[1]), "\033[27;5;%d~", code);
	for (size_t i = 0; i < 2; i++)
		if (len >= strlen(forms[i]) && memcmp(text, forms[i], strlen(forms[i])) == 0)
			return strlen(forms[i]);
	return 0;
}

/* How many of the keys TEXT consists of, from its beginning to its end; -1: something else is in it. */
static int
count_keys(const struct detach *d, const unsigned char *text, size_t len)
{
	size_t at = 0, n = 0;

	while (at < len && n < d->n) {
		size_t found = match_key(d->keys[n], text + at, len - at);

		if (found == 0)
			return -1;
		at += found;
		n++;
	}
	return at == len || n == d->n ? (int)n : -1;
}

size_t
detach_filter(struct detach *d, const unsigned char *in, size_t len, unsigned char *out)
{
	unsigned char text[DETACH_HELD_MAX];
	size_t n = 0;

	if (d->n == 0) {
		memmove(out, in, len);
		return len;
	}
	while (d->n_held > 0 || len > 0) {
		size_t more = len < sizeof(text) - d->n_held ? len : sizeof(text) - d->n_held;
		int keys;

		/* What is held, and the bytes behind it. */
		memcpy(text, d->held, d->n_held);
		memcpy(text + d->n_held, in, more);
		keys = count_keys(d, text, d->n_held + more);
		if (keys == (int)d->n) {
			d->n_held = 0;
			d->leave(d->arg);
			return n;
		}
		if (keys > 0) {
			memcpy(d->held, text, d->n_held + more);
			d->n_held += more;
			return n;
		}
		/* Its first byte is not the first of the keys. */
		out[n++] = text[0];
		if (d->n_held > 0) {
			memmove(d->held, d->held + 1, --d->n_held);
		} else {
			in++;
			len--;
		}
	}
	return n;
}
