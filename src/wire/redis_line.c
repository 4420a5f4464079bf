/* redis_line.c - inline commands, split into words as servers do: by blanks, and with two kinds of
 * quotes. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "wire/redis_parts.h"

/* A line while it is split.  A word is never longer than its quoted form, so it is written over it. */
struct line {
	char *at, *end, *out;
};

static char
unescape(char c)
{
	switch (c) {
	case 'n': return '\n';
	case 'r': return '\r';
	case 't': return '\t';
	case 'b': return '\b';
	case 'a': return '\a';
	default: return c;
	}
}

/* Starts after the opening quote.  False: the quote does not end, or not at the end of a word. */
static bool
take_quoted(struct line *l, char quote)
{
	while (l->at < l->end) {
		char c = *l->at++;

		if (c == quote)
			return l->at == l->end || isspace((unsigned char)*l->at);
		if (c == '\\' && quote == '"' && l->end - l->at >= 3 && l->at[0] == 'x' &&
		    codec_hex_byte(l->at + 1) >= 0) {
			*l->out++ = (char)codec_hex_byte(l->at + 1);
			l->at += 3;
		} else if (c == '\\' && quote == '"' && l->at < l->end) {
			*l->out++ = unescape(*l->at++);
		} else if (c == '\\' && quote == '\'' && l->at < l->end && *l->at == '\'') {
			*l->out++ = *l->at++;
		} else {
			*l->out++ = c;
		}
	}
	return false;
}

static bool
take_word(struct line *l)
{
	while (l->at < l->end && strchr(" \n\r\t", *l->at) == NULL) {
		char c = *l->at++;

		/* The closing quote also ends the word. */
		if (c == '"' || c == '\'')
			return take_quoted(l, c);
		*l->out++ = c;
	}
	return true;
}

/* The number of words; -1: the line cannot be split. */
static int
split(char *text, size_t len, struct redis_text words[REDIS_WORDS_MAX])
{
	struct line l = { text, text + len, text };
	int n = 0;

	/* Servers would stop at a NUL. */
	if (len > 0 && memchr(text, '\0', len) != NULL)
		return -1;
	for (;;) {
		char *begin = l.out;

		while (l.at < l.end && isspace((unsigned char)*l.at))
			l.at++;
		if (l.at == l.end)
			return n;
		if (n == REDIS_WORDS_MAX || !take_word(&l))
			return -1;
		words[n++] = (struct redis_text){ begin, (size_t)(l.out - begin) };
	}
}

static void
put_head(struct buf *b, char kind, size_t n)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "%c%zu\r\n", kind, n);

	buf_put(b, text, (size_t)len);
}

static void
put_word(struct buf *b, struct redis_text word)
{
	put_head(b, '$', word.len);
	buf_put(b, word.at, word.len);
	buf_put(b, "\r\n", 2);
}

static struct redis_text
text_of(const char *text)
{
	return (struct redis_text){ text, strlen(text) };
}

/* The line is complete. */
static int
end_line(struct redis_reader *r, struct redis_text *ret_piece, struct redis_login *ret_login,
         struct err *err)
{
	struct redis_text words[REDIS_WORDS_MAX];
	int n = split((char *)r->held.data, r->held.len, words);

	if (n < 0)
		return err_set(err, EBADMSG, "a line with a Redis command cannot be taken apart");
	r->state = REDIS_START;
	/* Servers skip an empty line, too. */
	if (n == 0) {
		buf_reset(&r->held);
		return REDIS_MORE;
	}
	r->given = true;
	if (redis_login_find(words, (size_t)n, ret_login))
		return REDIS_LOGIN;
	buf_reset(&r->coded);
	put_head(&r->coded, '*', (size_t)n);
	for (int i = 0; i < n; i++)
		put_word(&r->coded, words[i]);
	if (buf_failed(&r->coded))
		return err_set(err, EBADMSG, "a line with a Redis command is too long");
	*ret_piece = (struct redis_text){ (char *)r->coded.data, r->coded.len };
	return REDIS_PASS;
}

int
redis_read_line(struct redis_reader *r, const unsigned char *data, size_t len, size_t *used,
                struct redis_text *ret_piece, struct redis_login *ret_login, struct err *err)
{
	const unsigned char *from = data + *used;
	const unsigned char *end = memchr(from, '\n', len - *used);
	size_t n = (end == NULL ? len - *used : (size_t)(end - from));

	if (r->held.len + n > REDIS_LINE_MAX)
		return err_set(err, EBADMSG, "a line with a Redis command is too long");
	buf_put(&r->held, from, n);
	if (buf_failed(&r->held))
		return err_set(err, ENOMEM, "there is no memory for a Redis command");
	*used += n + (end != NULL);
	return end == NULL ? REDIS_MORE : end_line(r, ret_piece, ret_login, err);
}

/* ---- logins ---- */

static bool
is_word(struct redis_text text, const char *word)
{
	return text.len == strlen(word) && strncasecmp(text.at, word, text.len) == 0;
}

static bool
find_options(const struct redis_text *words, size_t n, struct redis_login *l)
{
	bool has_auth = false;

	for (size_t i = 0; i < n; ) {
		if (is_word(words[i], "AUTH") && n - i >= 3 && !has_auth) {
			l->user = words[i + 1];
			l->password = words[i + 2];
			l->has_user = has_auth = true;
			i += 3;
		} else if (is_word(words[i], "SETNAME") && n - i >= 2 && !l->has_name) {
			l->name = words[i + 1];
			l->has_name = true;
			i += 2;
		} else {
			return false;
		}
	}
	return has_auth;
}

bool
redis_login_find(const struct redis_text *words, size_t n, struct redis_login *ret_login)
{
	struct redis_login l = {0};

	if (is_word(words[0], "AUTH") && (n == 2 || n == 3)) {
		l.has_user = n == 3;
		l.user = words[1];
		l.password = words[n - 1];
		if (n == 2)
			l.user = (struct redis_text){0};
	} else if (is_word(words[0], "HELLO") && n >= 5 && n <= REDIS_LOGIN_WORDS) {
		l.is_hello = true;
		l.version = words[1];
		if (!find_options(words + 2, n - 2, &l))
			return false;
	} else {
		return false;
	}
	*ret_login = l;
	return true;
}

void
redis_login_write(struct buf *b, const struct redis_login *login, const struct redis_text *user,
                  struct redis_text password)
{
	if (!login->is_hello) {
		put_head(b, '*', user != NULL ? 3 : 2);
		put_word(b, text_of("AUTH"));
		if (user != NULL)
			put_word(b, *user);
		put_word(b, password);
		return;
	}
	put_head(b, '*', login->has_name ? 7 : 5);
	put_word(b, text_of("HELLO"));
	put_word(b, login->version);
	put_word(b, text_of("AUTH"));
	put_word(b, user != NULL ? *user : text_of("default"));
	put_word(b, password);
	if (login->has_name) {
		put_word(b, text_of("SETNAME"));
		put_word(b, login->name);
	}
}

void
redis_put_error(struct buf *b, const char *code, const char *text)
{
	buf_put(b, "-", 1);
	buf_put_text(b, code);
	buf_put(b, " ", 1);
	buf_put(b, text, strcspn(text, "\r\n"));
	buf_put(b, "\r\n", 2);
}

/* ---- between processes ---- */

static void
put_bytes(struct buf *b, struct redis_text text)
{
	buf_put_u32(b, (uint32_t)text.len);
	buf_put(b, text.at, text.len);
}

static int
get_bytes(struct buf *b, struct redis_text *ret_text)
{
	uint32_t len;

	if (buf_get_u32(b, &len) < 0 || len > buf_left(b))
		return -EBADMSG;
	*ret_text = (struct redis_text){ (const char *)b->data + b->pos, len };
	b->pos += len;
	return 0;
}

void
redis_login_encode(struct buf *b, const struct redis_login *l)
{
	buf_put_u32(b, (l->is_hello ? REDIS_LOGIN_HELLO : 0) | (l->has_user ? REDIS_LOGIN_USER : 0) |
	               (l->has_name ? REDIS_LOGIN_NAME : 0));
	put_bytes(b, l->version);
	put_bytes(b, l->user);
	put_bytes(b, l->password);
	put_bytes(b, l->name);
}

int
redis_login_decode(struct buf *b, struct redis_login *ret_login)
{
	struct redis_login l = {0};
	uint32_t flags;

	if (b->len > REDIS_LOGIN_MAX || buf_get_u32(b, &flags) < 0 ||
	    flags > (REDIS_LOGIN_HELLO | REDIS_LOGIN_USER | REDIS_LOGIN_NAME) ||
	    get_bytes(b, &l.version) < 0 || get_bytes(b, &l.user) < 0 ||
	    get_bytes(b, &l.password) < 0 || get_bytes(b, &l.name) < 0 || buf_left(b) != 0)
		return -EBADMSG;
	l.is_hello = (flags & REDIS_LOGIN_HELLO) != 0;
	l.has_user = (flags & REDIS_LOGIN_USER) != 0;
	l.has_name = (flags & REDIS_LOGIN_NAME) != 0;
	if ((!l.has_user && l.user.len > 0) || (!l.has_name && l.name.len > 0) ||
	    (!l.is_hello && (l.version.len > 0 || l.has_name)) || (l.is_hello && !l.has_user))
		return -EBADMSG;
	*ret_login = l;
	return 0;
}
