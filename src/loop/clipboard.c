/* clipboard.c - see clipboard.h.
 *
 * Follows the usual parser of terminals: control characters within a sequence are executed or
 * ignored and do not end it, except CAN and SUB, which cancel it. */
#include "loop/clipboard.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define BEL 0x07
#define CAN 0x18
#define SUB 0x1a
#define ESC 0x1b
#define DEL 0x7f
/* C1 control characters in UTF-8: 0xc2 and one of these. */
#define C1 0xc2
#define C1_DCS 0x90
#define C1_OSC 0x9d
#define C1_ST 0x9c
#define NUMBER_MAX 9999                 /* no sequence has a larger one */

static bool
is_ignored(unsigned char c)
{
	return c == DEL || (c < ' ' && c != BEL && c != CAN && c != SUB && c != ESC);
}

/* Write the held bytes of a sequence that is not for the clipboard. */
static size_t
release(const struct clipboard *c, unsigned char *out)
{
	char number[16] = "";
	size_t n = 0, len;

	out[n++] = c->is_c1 ? C1 : ESC;
	out[n++] = c->is_c1 ? C1_OSC : ']';
	len = c->digits == 0 ? 0 : (size_t)snprintf(number, sizeof(number), "%u", c->number);
	memcpy(out + n, number, len);
	return n + len;
}

static void
begin(struct clipboard *c, bool is_c1)
{
	*c = (struct clipboard){ .state = CLIPBOARD_NUMBER, .is_c1 = is_c1 };
}

/* Outside of any held sequence. */
static size_t
take_text(struct clipboard *c, unsigned char byte, unsigned char *out)
{
	c->state = byte == ESC ? CLIPBOARD_ESCAPE : byte == C1 ? CLIPBOARD_C1 : CLIPBOARD_TEXT;
	if (c->state != CLIPBOARD_TEXT)
		return 0;
	out[0] = byte;
	return 1;
}

/* BYTE completes the introducer of a device control string. */
static size_t
begin_string(struct clipboard *c, unsigned char byte, unsigned char *out)
{
	c->state = CLIPBOARD_STRING;
	out[0] = byte;
	return 1;
}

static size_t
take_escape(struct clipboard *c, unsigned char byte, unsigned char *out)
{
	if (byte == ']') {
		begin(c, false);
		return 0;
	}
	if (is_ignored(byte) || byte == BEL) {
		out[0] = byte;                  /* executed at once; the sequence goes on */
		return 1;
	}
	out[0] = ESC;
	return 1 + (byte == 'P' ? begin_string(c, byte, out + 1) : take_text(c, byte, out + 1));
}

static size_t
take_c1(struct clipboard *c, unsigned char byte, unsigned char *out)
{
	if (byte == C1_OSC) {
		begin(c, true);
		return 0;
	}
	out[0] = C1;
	return 1 + (byte == C1_DCS ? begin_string(c, byte, out + 1) : take_text(c, byte, out + 1));
}

/* In a device control string, which ends with ST or is cancelled. */
static size_t
take_string(struct clipboard *c, unsigned char byte, unsigned char *out)
{
	size_t n = 0;

	if (c->state == CLIPBOARD_STRING_ESCAPE && byte != '\\') {
		c->is_string = true;
		c->state = byte == ESC ? CLIPBOARD_DROP_ESCAPE : CLIPBOARD_DROP;
		return 0;
	}
	if (c->state == CLIPBOARD_STRING_C1 && byte == C1_OSC) {
		c->is_string = true;
		c->state = CLIPBOARD_DROP;
		return 0;
	}
	if (c->state == CLIPBOARD_STRING_ESCAPE || (c->state == CLIPBOARD_STRING_C1 && byte == C1_ST)) {
		out[0] = c->state == CLIPBOARD_STRING_C1 ? C1 : ESC;
		out[1] = byte;
		c->state = CLIPBOARD_TEXT;
		return 2;
	}
	/* Half a character at the end of one string could become a control with the next string. */
	if (c->state == CLIPBOARD_STRING_C1 && (byte & 0xc0) == 0x80)
		out[n++] = C1;
	c->state = byte == ESC ? CLIPBOARD_STRING_ESCAPE : byte == C1 ? CLIPBOARD_STRING_C1 :
	           byte == CAN || byte == SUB ? CLIPBOARD_TEXT : CLIPBOARD_STRING;
	if (byte != ESC && byte != C1)
		out[n++] = byte;
	return n;
}

/* The rest of a dropped string: only its end is written. */
static size_t
take_dropped_string(struct clipboard *c, unsigned char byte, unsigned char *out)
{
	bool ends = (c->state == CLIPBOARD_DROP_ESCAPE && byte == '\\') ||
	            (c->state == CLIPBOARD_DROP_C1 && byte == C1_ST);

	if (!ends && byte != CAN && byte != SUB) {
		c->state = byte == ESC ? CLIPBOARD_DROP_ESCAPE : byte == C1 ? CLIPBOARD_DROP_C1 : CLIPBOARD_DROP;
		return 0;
	}
	*c = (struct clipboard){0};
	out[0] = ends ? ESC : byte;
	out[1] = '\\';
	return ends ? 2 : 1;
}

static size_t
take_number(struct clipboard *c, unsigned char byte, unsigned char *out)
{
	size_t n;

	if (is_ignored(byte))
		return 0;
	if (byte >= '0' && byte <= '9' && c->number <= NUMBER_MAX / 10) {
		c->number = c->number * 10 + (unsigned)(byte - '0');
		c->digits = 1;
		return 0;
	}
	if (c->digits > 0 && (c->number == 52 || c->number == 5522) && !(byte >= '0' && byte <= '9')) {
		c->state = byte == BEL || byte == CAN || byte == SUB ? CLIPBOARD_TEXT :
		           byte == ESC ? CLIPBOARD_DROP_ESCAPE : byte == C1 ? CLIPBOARD_DROP_C1 : CLIPBOARD_DROP;
		return 0;
	}
	n = release(c, out);
	return n + take_text(c, byte, out + n);
}

/* In a sequence that sets the clipboard. */
static size_t
take_dropped(struct clipboard *c, unsigned char byte, unsigned char *out)
{
	if (c->state == CLIPBOARD_DROP_ESCAPE && byte != '\\') {
		/* Another sequence began. */
		c->state = CLIPBOARD_ESCAPE;
		return take_escape(c, byte, out);
	}
	if (c->state == CLIPBOARD_DROP_ESCAPE || byte == BEL || byte == CAN || byte == SUB ||
	    (c->state == CLIPBOARD_DROP_C1 && byte == C1_ST))
		c->state = CLIPBOARD_TEXT;
	else if (c->state == CLIPBOARD_DROP_C1 && byte == C1_OSC)
		begin(c, true);
	else
		c->state = byte == ESC ? CLIPBOARD_DROP_ESCAPE : byte == C1 ? CLIPBOARD_DROP_C1 : CLIPBOARD_DROP;
	return 0;
}

size_t
clipboard_filter(struct clipboard *c, const unsigned char *in, size_t len, unsigned char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		switch (c->state) {
		case CLIPBOARD_TEXT:   n += take_text(c, in[i], out + n); break;
		case CLIPBOARD_ESCAPE: n += take_escape(c, in[i], out + n); break;
		case CLIPBOARD_C1:     n += take_c1(c, in[i], out + n); break;
		case CLIPBOARD_NUMBER: n += take_number(c, in[i], out + n); break;
		case CLIPBOARD_STRING:
		case CLIPBOARD_STRING_ESCAPE:
		case CLIPBOARD_STRING_C1:
			n += take_string(c, in[i], out + n);
			break;
		default:
			n += c->is_string ? take_dropped_string(c, in[i], out + n) : take_dropped(c, in[i], out + n);
			break;
		}
	}
	return n;
}
