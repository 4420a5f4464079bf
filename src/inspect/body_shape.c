/* body_shape.c - see body_shape.h: describes values, forms, and headers. */
#include "inspect/body_shape.h"

#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "base/own.h"
#include "base/utf8.h"
#include "inspect/body_shape_parts.h"
#include "inspect/inspect.h"
#include "inspect/secrets_parts.h"

#define RANDOM_LEAST 16                 /* bytes from which a text may look random */
#define LAST_LINE 64                    /* reserved for the last line */

/* ---- lines ---- */

bool
shape_has_room(struct shape *s, size_t count)
{
	if (s->left_out == 0)
		return true;
	s->left_out += count;
	return false;
}

void
shape_line(struct shape *s, size_t depth, const char *line)
{
	size_t n = strlen(line), indent = 2 * depth;

	if (s->left_out > 0 || s->len + indent + n + 1 > INSPECT_SHAPE_MAX - LAST_LINE) {
		s->left_out++;
		return;
	}
	memset(s->text + s->len, ' ', indent);
	memcpy(s->text + s->len + indent, line, n);
	s->len += indent + n;
	s->text[s->len++] = '\n';
}

void
shape_end(struct shape *s, const char *note)
{
	if (note[0] != '\0')
		s->len += (size_t)snprintf(s->text + s->len, LAST_LINE, "... %s\n", note);
	else if (s->left_out > 0)
		s->len += (size_t)snprintf(s->text + s->len, LAST_LINE, "... %zu more\n", s->left_out);
	/* The last line has no line end. */
	s->text[s->len > 0 ? s->len - 1 : 0] = '\0';
}

/* ---- showing a text ---- */

/* Names of credentials of any form. */
static bool
name_tells(const char *name)
{
	static const char *const words[] = { "password", "passwd", "passphrase", "secret", "token",
		"api_key", "apikey", "api-key", "private_key", "privatekey", "credential",
		"authorization", "cookie", "x-auth" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcasestr(name, words[i]) != NULL)
			return true;
	return false;
}

/* Why TEXT is masked, or NULL. */
static const char *
looks_secret(struct http_text text)
{
	struct secrets_scan scan = {0};
	const char *found = text.len > 0 ? secrets_find(&scan, text.at, text.len) : NULL;

	if (found != NULL)
		return found;
	return text.len >= RANDOM_LEAST && memchr(text.at, ' ', text.len) == NULL &&
	       secrets_looks_random((const unsigned char *)text.at, text.len) ? "looks random" : NULL;
}

size_t
shape_cut(struct http_text text, size_t max)
{
	size_t at = 0, n;
	uint32_t code;

	if (text.len <= max)
		return text.len;
	while (at < max) {
		n = utf8_next(text.at + at, text.len - at, &code);
		if (n == 0)
			n = 1;
		/* Escapes of JSON are at most this long. */
		else if (text.at[at] == '\\')
			n = text.at[at + 1] == 'u' ? 6 : 2;
		if (at + n > max)
			break;
		at += n;
	}
	return at;
}

/* What a credential is made of.  An escape of JSON ends it. */
static bool
is_of_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c != '\0' && strchr("_-+=.~", c) != NULL);
}

/* The length of the word at AT, or of an escape or a character that is part of none. */
static size_t
word_at(struct http_text raw, size_t at, bool *ret_is_word)
{
	size_t len = 0;

	while (at + len < raw.len && is_of_word(raw.at[at + len]))
		len++;
	*ret_is_word = len > 0;
	if (len == 0 && raw.at[at] == '\\' && at + 1 < raw.len)
		return raw.at[at + 1] == 'u' ? 6 : 2;
	return len > 0 ? len : 1;
}

/* Write RAW up to SHOWN.  In place of a word that looks random stands its length, which is shorter. */
static void
put_words(char *out, size_t size, struct http_text raw, size_t shown)
{
	size_t n = 0, len;
	bool is_word;

	for (size_t at = 0; at < shown; at += len) {
		len = word_at(raw, at, &is_word);
		if (is_word && len >= RANDOM_LEAST && secrets_looks_random((const unsigned char *)raw.at + at, len))
			n += (size_t)snprintf(out + n, size - n, "(%zu bytes)", len);
		else
			n += (size_t)snprintf(out + n, size - n, "%.*s", (int)(len < shown - at ? len : shown - at), raw.at + at);
	}
	out[n] = '\0';
}

/* A value of a result is prose, in which a credential is one of many words. */
static void
put_quoted(const struct shape *s, char out[SHAPE_VALUE_TEXT], struct http_text raw, size_t shown)
{
	const char *more = shown < raw.len ? "..." : "";
	char words[SHAPE_VALUE_WIDE + 16];

	if (s->value == SHAPE_VALUE_WIDE) {
		put_words(words, sizeof(words), raw, shown);
		snprintf(out, SHAPE_VALUE_TEXT, "\"%s%s\"", words, more);
	} else {
		snprintf(out, SHAPE_VALUE_TEXT, "\"%.*s%s\"", (int)shown, raw.at, more);
	}
}

/* A server chooses the names in its results, and could hide a text from the person who is asked: there, only what is one
 * word is masked by its name. */
static bool
may_hide(const struct shape *s, struct http_text text)
{
	return s->value == SHAPE_VALUE || memchr(text.at, ' ', text.len) == NULL;
}

void
shape_value(const struct shape *s, char out[SHAPE_VALUE_TEXT], const char *name, struct http_text raw,
            struct http_text text, size_t len)
{
	const char *why = looks_secret(text);
	size_t shown = shape_cut(raw, s->value);

	if (why == NULL && len > 0 && name_tells(name) && may_hide(s, text))
		why = "masked by its name";
	if (why != NULL)
		snprintf(out, SHAPE_VALUE_TEXT, "(%.40s, %zu bytes)", why, len);
	else
		put_quoted(s, out, raw, shown);
	if (why == NULL && shown < raw.len)
		snprintf(out + strlen(out), SHAPE_VALUE_TEXT - strlen(out), " (%zu bytes)", len);
}

void
shape_name(char out[SHAPE_NAME_TEXT], struct http_text raw, struct http_text text)
{
	size_t shown = shape_cut(raw, SHAPE_NAME);

	if (text.len >= RANDOM_LEAST && looks_secret(text) != NULL)
		snprintf(out, SHAPE_NAME_TEXT, "(%zu bytes)", text.len);
	else
		snprintf(out, SHAPE_NAME_TEXT, "%.*s%s", (int)shown, raw.at,
		         shown < raw.len ? "..." : "");
}

/* ---- forms ---- */

/* Decode, except for characters that would break a line or are not ASCII. */
static struct http_text
decode(struct http_text in, char out[SHAPE_LOOKED_AT])
{
	size_t n = 0;

	for (size_t i = 0; i < in.len && n < SHAPE_LOOKED_AT - 3; i++) {
		int byte = codec_percent_byte(in.at + i, in.len - i);
		int c = byte >= 0 ? byte : in.at[i] == '+' ? ' ' : (unsigned char)in.at[i];

		if (c >= 0x20 && c < 0x7f)
			out[n++] = (char)c;
		else
			n += codec_percent((unsigned char)c, out + n);
		i += byte >= 0 ? 2 : 0;
	}
	return (struct http_text){ out, n };
}

static void
add_field(struct shape *s, struct http_text field)
{
	const char *equals = memchr(field.at, '=', field.len);
	size_t n = equals == NULL ? field.len : (size_t)(equals - field.at);
	char room[SHAPE_LOOKED_AT], name[SHAPE_NAME_TEXT], value[SHAPE_VALUE_TEXT] = "";
	char line[SHAPE_LINE_TEXT];
	struct http_text text;

	if (!shape_has_room(s, 1))
		return;
	text = decode((struct http_text){ field.at, n }, room);
	shape_name(name, text, text);
	if (equals != NULL) {
		text = decode((struct http_text){ equals + 1, field.len - n - 1 }, room);
		shape_value(s, value, name, text, text, text.len);
	}
	snprintf(line, sizeof(line), "%s%s%s", name, equals != NULL ? " = " : "", value);
	shape_line(s, 0, line);
}

void
body_shape_form(struct http_text form, char ret_shape[INSPECT_SHAPE_MAX])
{
	struct shape s = { .text = ret_shape, .value = SHAPE_VALUE };

	while (form.len > 0) {
		const char *amp = memchr(form.at, '&', form.len);
		size_t n = amp == NULL ? form.len : (size_t)(amp - form.at);

		if (n > 0)
			add_field(&s, (struct http_text){ form.at, n });
		n += amp != NULL;
		form = (struct http_text){ form.at + n, form.len - n };
	}
	shape_end(&s, "");
}

/* ---- headers ---- */

static void
add_header(struct shape *s, const struct http_field *f)
{
	char room[SHAPE_LOOKED_AT], name[SHAPE_NAME_TEXT], value[SHAPE_VALUE_TEXT];
	char line[SHAPE_LINE_TEXT];
	struct http_text text = { room, f->value.len < sizeof(room) ? f->value.len : sizeof(room) };

	if (!shape_has_room(s, 1))
		return;
	/* Replace characters that break a line or are longer than a byte. */
	for (size_t i = 0; i < text.len; i++)
		room[i] = f->value.at[i] >= 0x20 && f->value.at[i] < 0x7f ? f->value.at[i] : '?';
	shape_name(name, f->name, f->name);
	shape_value(s, value, name, text, text, f->value.len);
	snprintf(line, sizeof(line), "%s: %s", name, value);
	shape_line(s, 0, line);
}

void
body_shape_headers(const struct http_head *head, char ret_shape[INSPECT_SHAPE_MAX])
{
	struct shape s = { .text = ret_shape, .value = SHAPE_VALUE };

	for (size_t i = 0; i < head->n_fields; i++)
		add_header(&s, &head->fields[i]);
	shape_end(&s, "");
}
