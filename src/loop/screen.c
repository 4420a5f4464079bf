/* screen.c - see screen.h. */
#include "loop/screen.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/utf8.h"

/* In the order in which they are set.  WAS: as a terminal begins. */
static const struct {
	unsigned mode;
	bool was;
} modes[] = {
	{ 47, false }, { 1047, false }, { 1049, false },        /* the second screen */
	{ 1, false },                                           /* cursor keys */
	{ 25, true },                                           /* the cursor is visible */
	{ 9, false }, { 1000, false }, { 1002, false }, { 1003, false }, { 1004, false }, { 1005, false },
	{ 1006, false }, { 1015, false }, { 1016, false },      /* the mouse, and the focus */
	{ 2004, false },                                        /* pasting in brackets */
};
_Static_assert(ARRAY_LEN(modes) <= 32, "a bit for each");

/* ---- sequences ---- */

enum part { PART_NONE, PART_TEXT, PART_SEQUENCE };

/* One more byte.  PART_SEQUENCE: .params has what is between "ESC [" and C, the last byte of the sequence. */
static enum part
take(struct screen *s, unsigned char c)
{
	switch (s->state) {
	case SCREEN_TEXT:
		if (c != 033)
			return PART_TEXT;
		s->state = SCREEN_ESCAPE;
		return PART_NONE;
	case SCREEN_ESCAPE:
		s->n_params = 0;
		s->state = c == '[' ? SCREEN_SEQUENCE : strchr("]P^_X", c) != NULL && c != '\0' ? SCREEN_STRING :
		           c == 033 || (c >= ' ' && c <= '/') ? SCREEN_ESCAPE : SCREEN_TEXT;
		return PART_NONE;
	case SCREEN_SEQUENCE:
		if (c >= '@' && c <= '~') {
			s->params[s->n_params] = '\0';
			s->state = SCREEN_TEXT;
			return s->n_params < SCREEN_PARAMS_MAX ? PART_SEQUENCE : PART_NONE;
		}
		if (c == 033)
			s->state = SCREEN_ESCAPE;
		else if (c >= ' ' && s->n_params < SCREEN_PARAMS_MAX)
			s->params[s->n_params++] = (char)c;
		return PART_NONE;
	case SCREEN_STRING:
		s->state = c == 033 ? SCREEN_STRING_ESCAPE : c == '\a' ? SCREEN_TEXT : SCREEN_STRING;
		return PART_NONE;
	case SCREEN_STRING_ESCAPE:
		s->state = c == '\\' ? SCREEN_TEXT : SCREEN_STRING;
		return PART_NONE;
	}
	return PART_NONE;
}

/* ---- modes ---- */

static void
set_mode(struct screen *s, unsigned mode, bool on)
{
	for (size_t i = 0; i < ARRAY_LEN(modes); i++)
		if (modes[i].mode == mode)
			s->modes = on == modes[i].was ? s->modes & ~(1u << i) : s->modes | 1u << i;
}

static void
set_modes(struct screen *s, const char *list, bool on)
{
	char *end;

	for (; isdigit((unsigned char)*list); list = end + (*end == ';')) {
		unsigned long mode = strtoul(list, &end, 10);

		if (mode <= 9999)
			set_mode(s, (unsigned)mode, on);
	}
}

static void
set_keyboard(struct screen *s, char how, unsigned value)
{
	if (how == '>' && s->n_keyboards < SCREEN_KEYBOARDS_MAX)
		s->keyboards[s->n_keyboards++] = value & 31;
	else if (how == '<')
		s->n_keyboards -= value == 0 ? s->n_keyboards > 0 : value < s->n_keyboards ? value : s->n_keyboards;
}

static void
take_sequence(struct screen *s, unsigned char last)
{
	const char *rest = s->params + (s->n_params > 0);
	unsigned value = (unsigned)strtoul(rest, NULL, 10);

	if (s->params[0] == '?' && (last == 'h' || last == 'l'))
		set_modes(s, rest, last == 'h');
	else if (last == 'u' && (s->params[0] == '>' || s->params[0] == '<'))
		set_keyboard(s, s->params[0], value);
	else if (last == 'm' && s->params[0] == '>' && value == 4)
		s->other_keys = strchr(rest, ';') != NULL ? (unsigned)strtoul(strchr(rest, ';') + 1, NULL, 10) & 3 : 0;
}

/* Terminals know the controls from U+0080 to U+009F too: as a character of UTF-8, or as a byte that is none.  Returns the
 * letter that does the same behind an escape; 0: the byte C completes no such control. */
static unsigned char
find_control(struct screen *s, unsigned char c)
{
	const bool continues = (c & 0xc0) == 0x80 && s->more > 0;
	const bool is_control = c >= 0x80 && c <= 0x9f && (continues ? s->lead == 0xc2 : true);

	if (continues)
		s->more--;
	else
		s->more = c >= 0xf0 && c <= 0xf4 ? 3 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xc2 && c < 0xe0 ? 1 : 0;
	if (!continues)
		s->lead = c;
	return is_control ? c - 0x40 : 0;
}

void
screen_watch(struct screen *s, const unsigned char *data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		const unsigned char control = find_control(s, data[i]);

		if (control != 0) {
			(void)take(s, 033);
			(void)take(s, control);
		} else if (take(s, data[i]) == PART_SEQUENCE) {
			take_sequence(s, data[i]);
		}
	}
}

__attribute__((format(printf, 3, 4))) static void
put(char text[SCREEN_MODES_MAX], size_t *n, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	*n += (size_t)vsnprintf(text + *n, SCREEN_MODES_MAX - *n, fmt, ap);
	va_end(ap);
}

static void
put_mode(char text[SCREEN_MODES_MAX], size_t *n, size_t i, bool on)
{
	put(text, n, "\033[?%u%c", modes[i].mode, on ? 'h' : 'l');
}

size_t
screen_restore(const struct screen *s, char ret_text[SCREEN_MODES_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(modes); i++)
		if ((s->modes & 1u << i) != 0)
			put_mode(ret_text, &n, i, !modes[i].was);
	for (size_t i = 0; i < s->n_keyboards; i++)
		put(ret_text, &n, "\033[>%uu", s->keyboards[i]);
	if (s->other_keys > 0)
		put(ret_text, &n, "\033[>4;%um", s->other_keys);
	return n;
}

size_t
screen_reset(const struct screen *s, char ret_text[SCREEN_MODES_MAX])
{
	size_t n = 0;

	if (s->other_keys > 0)
		put(ret_text, &n, "\033[>4m");
	if (s->n_keyboards > 0)
		put(ret_text, &n, "\033[<%zuu", s->n_keyboards);
	put(ret_text, &n, "\033[0m");
	for (size_t i = ARRAY_LEN(modes); i-- > 0; )
		if ((s->modes & 1u << i) != 0)
			put_mode(ret_text, &n, i, modes[i].was);
	return n;
}

/* ---- old output ---- */

/* Moves, clears, scrolls, and sets colours. */
static bool
is_drawing(const struct screen *s, unsigned char last)
{
	/* A control character of 8 bits within the sequence would end it, and begin another. */
	for (size_t i = 0; i < s->n_params; i++)
		if ((unsigned char)s->params[i] > '?')
			return false;
	return (s->n_params == 0 || isdigit((unsigned char)s->params[0]) || s->params[0] == ';' || s->params[0] == ':') &&
	       strchr("@ABCDEFGHIJKLMPSTXZ`adefmr", last) != NULL;
}

/* The length of the character at DATA, or 0 if it does more than to show itself: terminals know the controls from
 * U+0080 to U+009F too, which begin sequences. */
static size_t
count_drawn(const unsigned char *data, size_t len)
{
	uint32_t code;
	size_t n;

	if (data[0] < ' ')
		return data[0] != '\0' && strchr("\b\t\n\r", data[0]) != NULL;
	n = utf8_next((const char *)data, len, &code);
	return n > 0 && (code < 0x7f || code > 0x9f) ? n : 0;
}

size_t
screen_redraw(const unsigned char *data, size_t len, unsigned char *out)
{
	struct screen s = {0};
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		enum part part = take(&s, data[i]);
		size_t drawn;

		if (part == PART_SEQUENCE && is_drawing(&s, data[i])) {
			out[n++] = 033;
			out[n++] = '[';
			for (size_t at = 0; at < s.n_params; at++)
				out[n++] = (unsigned char)s.params[at];
			out[n++] = data[i];
		} else if (part == PART_TEXT && (drawn = count_drawn(data + i, len - i)) > 0) {
			memmove(out + n, data + i, drawn);
			n += drawn;
			i += drawn - 1;
		}
	}
	return n;
}
