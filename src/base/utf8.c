/* utf8.c - see utf8.h. */
#include "base/utf8.h"

size_t
utf8_next(const char *s, size_t len, uint32_t *ret_code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)s;
	uint32_t code;
	size_t n;

	if (len == 0)
		return 0;
	if (p[0] < 0x80)
		n = 1, code = p[0];
	else if ((p[0] & 0xe0) == 0xc0)
		n = 2, code = p[0] & 0x1f;
	else if ((p[0] & 0xf0) == 0xe0)
		n = 3, code = p[0] & 0x0f;
	else if ((p[0] & 0xf8) == 0xf0)
		n = 4, code = p[0] & 0x07;
	else
		return 0;
	if (n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	*ret_code = code;
	return n;
}

bool
utf8_is_control(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) ||
	       code == 0x00ad || code == 0x061c || code == 0x115f || code == 0x180e ||
	       code == 0x3164 || (code >= 0x200b && code <= 0x200f) ||
	       (code >= 0x2060 && code <= 0x2064) || (code >= 0xfe00 && code <= 0xfe0d) ||
	       (code >= 0xe0100 && code <= 0xe01ef) ||
	       (code >= 0x2028 && code <= 0x202e) ||
	       (code >= 0x2066 && code <= 0x2069) ||
	       code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb) ||
	       (code >= 0xe0000 && code <= 0xe007f);
}
