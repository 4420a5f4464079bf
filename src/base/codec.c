/* codec.c - see codec.h. */
#include "base/codec.h"

#include <errno.h>

#include "base/buf.h"

/* ---- hex ---- */

static const char codec_lower[] = "0123456789abcdef";

void
codec_hex_digits(const void *data, size_t len, char *ret_text)
{
	const unsigned char *at = data;

	for (size_t i = 0; i < len; i++) {
		*ret_text++ = codec_lower[at[i] >> 4];
		*ret_text++ = codec_lower[at[i] & 15];
	}
}

void
codec_hex(const void *data, size_t len, char *ret_text)
{
	codec_hex_digits(data, len, ret_text);
	ret_text[2 * len] = '\0';
}

/* The value of a lower-case digit plus one; 0 for other characters.  A long timeline has many. */
static const unsigned char codec_lower_value[256] = {
	['0'] = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ['a'] = 11, 12, 13, 14, 15, 16,
};

bool
codec_unhex_lower(const char *text, unsigned char *ret_data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned high = codec_lower_value[(unsigned char)text[2 * i]];
		unsigned low = high == 0 ? 0 : codec_lower_value[(unsigned char)text[2 * i + 1]];

		if (low == 0)
			return false;
		ret_data[i] = (unsigned char)((high - 1) << 4 | (low - 1));
	}
	return true;
}

bool
codec_unhex(const char *text, unsigned char *ret_data, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		int byte = codec_hex_byte(text + 2 * i);

		if (byte < 0)
			return false;
		ret_data[i] = (unsigned char)byte;
	}
	return true;
}

/* ---- base64 ---- */

const char codec_base64_alphabet[2][65] = {
	[CODEC_BASE64] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
	[CODEC_BASE64URL] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
};

size_t
codec_base64_digits(enum codec_base64 form, const void *data, size_t len, char *ret_text)
{
	const char *alphabet = codec_base64_alphabet[form];
	const unsigned char *at = data;
	char *to = ret_text;

	for (size_t i = 0; i < len; i += 3) {
		size_t have = len - i < 3 ? len - i : 3;
		uint32_t bits = (uint32_t)at[i] << 16;

		bits |= have > 1 ? (uint32_t)at[i + 1] << 8 : 0;
		bits |= have > 2 ? (uint32_t)at[i + 2] : 0;
		for (size_t j = 0; j < 4; j++)
			if (j <= have)
				*to++ = alphabet[bits >> (18 - 6 * j) & 63];
			else if (form == CODEC_BASE64)
				*to++ = '=';
	}
	return (size_t)(to - ret_text);
}

size_t
codec_base64(enum codec_base64 form, const void *data, size_t len, char *ret_text)
{
	size_t n = codec_base64_digits(form, data, len, ret_text);

	ret_text[n] = '\0';
	return n;
}

void
codec_put_base64(struct buf *b, const void *data, size_t len)
{
	unsigned char *at = buf_add(b, CODEC_BASE64_LEN(len));

	if (at != NULL)
		codec_base64_digits(CODEC_BASE64, data, len, (char *)at);
}

int
codec_unbase64(enum codec_base64 form, const char *text, size_t len, unsigned char *ret_data,
               size_t size, size_t *ret_len)
{
	const char *alphabet = codec_base64_alphabet[form];
	uint32_t bits = 0;
	size_t n = 0;

	if (form == CODEC_BASE64) {
		if (len % 4 != 0)
			return -EINVAL;
		for (int i = 0; i < 2 && len > 0 && text[len - 1] == '='; i++)
			len--;
	}
	if (len % 4 == 1)
		return -EINVAL;
	if (len / 4 * 3 + (len % 4 > 0 ? len % 4 - 1 : 0) > size)
		return -ENOBUFS;
	for (size_t i = 0; i < len; i++) {
		int value = codec_base64_value((unsigned char)text[i]);

		if (value < 0 || alphabet[value] != text[i])
			return -EINVAL;
		bits = bits << 6 | (uint32_t)value;
		if (i % 4 > 0)
			ret_data[n++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
	}
	/* Leftover bits of the last character must be 0: each value has only one text. */
	if ((len % 4 == 2 && (bits & 15) != 0) || (len % 4 == 3 && (bits & 3) != 0))
		return -EINVAL;
	*ret_len = n;
	return 0;
}

/* ---- percent escapes ---- */

size_t
codec_percent(unsigned char byte, char ret_text[3])
{
	static const char upper[] = "0123456789ABCDEF";

	if (codec_is_unreserved(byte)) {
		ret_text[0] = (char)byte;
		return 1;
	}
	ret_text[0] = '%';
	ret_text[1] = upper[byte >> 4];
	ret_text[2] = upper[byte & 15];
	return 3;
}

/* ---- checksums ---- */

uint32_t
codec_crc32(const void *data, size_t len)
{
	const unsigned char *at = data;
	uint32_t crc = 0xffffffff;

	for (size_t i = 0; i < len; i++) {
		crc ^= at[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (0xedb88320 & -(crc & 1));
	}
	return ~crc;
}

void
codec_crc62(const void *data, size_t len, char ret_digits[CODEC_CRC62_LEN])
{
	static const char digits[] =
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	uint32_t crc = codec_crc32(data, len);

	for (int i = CODEC_CRC62_LEN - 1; i >= 0; i--) {
		ret_digits[i] = digits[crc % 62];
		crc /= 62;
	}
}
