/* mcp_text.c - converts bytes of agents to JSON, and words of clients to paths. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/own.h"
#include "base/utf8.h"
#include "mcp/mcp_parts.h"

char *
mcp_escape(const char *text, char *out, size_t size)
{
	size_t len = 0;

	for (; *text != '\0' && len + 4 <= size; text++)
		len += codec_percent((unsigned char)*text, out + len);
	out[len] = '\0';
	return out;
}

/* How much of DATA is text; the rest may be the beginning of a character. */
static size_t
text_len(const char *data, size_t len)
{
	size_t at = 0, n;
	uint32_t code;

	while (at < len && data[at] != '\0' && (n = utf8_next(data + at, len - at, &code)) > 0)
		at += n;
	return at;
}

int
mcp_put_bytes(json_t *into, const char *data, size_t len, bool is_cut, size_t *ret_used)
{
	OWN(freep) char *coded = NULL;
	size_t text = text_len(data, len);

	*ret_used = len;
	if (text == len || (is_cut && len - text < 4 && text > 0 && data[text] != '\0')) {
		*ret_used = text;
		return json_object_set_new(into, "text", json_stringn(data, text)) < 0 ? -ENOMEM : 0;
	}
	coded = malloc(CODEC_BASE64_LEN(len) + 1);
	if (coded == NULL)
		return -ENOMEM;
	codec_base64(CODEC_BASE64, data, len, coded);
	return json_object_set_new(into, "base64", json_string(coded)) < 0 ? -ENOMEM : 0;
}

json_t *
mcp_text(const char *data, size_t len)
{
	OWN(buf_free) struct buf b = BUF(3 * len + 1);
	uint32_t code;
	size_t n;

	for (; len > 0; data += n, len -= n) {
		n = *data != '\0' ? utf8_next(data, len, &code) : 0;
		buf_put(&b, n > 0 ? data : "\xef\xbf\xbd", n > 0 ? n : 3);
		n = n > 0 ? n : 1;
	}
	return buf_failed(&b) ? NULL : json_stringn((const char *)b.data, b.len);
}

bool
mcp_field_decode(char *value)
{
	static const char begin[] = "=?base64?", end[] = "?=";
	size_t len = strlen(value), from = sizeof(begin) - 1, n;
	unsigned char out[256];

	if (len < from + 2 || strncmp(value, begin, from) != 0 || strcmp(value + len - 2, end) != 0)
		return true;
	if (codec_unbase64(CODEC_BASE64, value + from, len - from - 2, out, sizeof(out), &n) < 0 || n == 0 ||
	    memchr(out, '\0', n) != NULL)
		return false;
	memcpy(value, out, n);
	value[n] = '\0';
	return true;
}
