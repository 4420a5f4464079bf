/* canon_text.c - see canon_text.h. */
#include "canon/canon_text.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/utf8.h"

/* Characters with a short escape, and their escapes. */
static const char codes[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";

size_t
canon_text_plain(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && text[n] >= ' ' && text[n] < 0x7f && text[n] != '"' && text[n] != '\\')
		n++;
	return n;
}

static size_t
read_escape(const char *at, const char *end, uint32_t *ret_code)
{
	const char *name;
	int high, low;

	if (end - at < 2 || at[1] == '\0')
		return 0;
	name = strchr(names, at[1]);
	if (name != NULL) {
		*ret_code = (unsigned char)codes[name - names];
		return 2;
	}
	if (end - at < 6 || memcmp(at, "\\u00", 4) != 0)
		return 0;
	high = at[4] - '0';
	low = at[5] >= 'A' && at[5] <= 'F' ? -1 : codec_hex_value(at[5]);
	if ((high != 0 && high != 1) || low < 0)
		return 0;
	*ret_code = (uint32_t)(high << 4 | low);
	/* Those have short escapes. */
	return *ret_code == 0 || strchr(codes, (int)*ret_code) != NULL ? 0 : 6;
}

size_t
canon_text_next(const char *at, const char *end, uint32_t *ret_code)
{
	if (at < end && *at == '\\')
		return read_escape(at, end, ret_code);
	if (at == end || (unsigned char)*at < 0x20)
		return 0;
	return utf8_next(at, (size_t)(end - at), ret_code);
}

static void
put_escape(struct buf *b, uint32_t code)
{
	const char *named = strchr(codes, (int)code);
	char text[8];
	int n;

	if (named != NULL) {
		buf_put(b, (char[]){ '\\', names[named - codes] }, 2);
		return;
	}
	n = snprintf(text, sizeof(text), "\\u%04x", (unsigned)code);
	buf_put(b, text, (size_t)n);
}

void
canon_text_put(struct buf *b, const char *text, size_t len, bool safe)
{
	uint32_t code;
	size_t n;

	for (; len > 0; text += n, len -= n) {
		n = canon_text_plain(text, len);
		if (n > 0) {
			buf_put(b, text, n);
			continue;
		}
		n = utf8_next(text, len, &code);
		if (n > 0 && code != 0 && (code < ' ' || code == '"' || code == '\\')) {
			put_escape(b, code);
		} else if (n > 0 && code != 0 && !(safe && utf8_is_control(code))) {
			buf_put(b, text, n);
		} else {
			buf_put(b, "\xef\xbf\xbd", 3);
			n = n == 0 ? 1 : n;
		}
	}
}

void
canon_put_string(struct buf *b, const char *text, size_t len)
{
	buf_put(b, "\"", 1);
	canon_text_put(b, text, len, false);
	buf_put(b, "\"", 1);
}
