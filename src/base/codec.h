/* codec.h - bytes as text: hex, base64, percent escapes; and the checksums that tokens carry.
 *
 * Functions that read text are strict: each value has one text only, apart from the case of hex digits
 * where that is stated. */
#ifndef CLOISTER_CODEC_H
#define CLOISTER_CODEC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* ---- hex ---- */

/* The value of a hex digit in either case, or -1. */
static inline int
codec_hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that the two hex digits at AT stand for, in either case, or -1. */
static inline int
codec_hex_byte(const char *at)
{
	int high = codec_hex_value(at[0]);
	int low = high < 0 ? -1 : codec_hex_value(at[1]);

	return low < 0 ? -1 : high << 4 | low;
}

/* 2 * LEN digits in lower case, and a NUL. */
void codec_hex(const void *data, size_t len, char *ret_text);
/* The same without the NUL. */
void codec_hex_digits(const void *data, size_t len, char *ret_text);
/* Read 2 * LEN digits, in lower case or in either case.  TEXT may go on behind them. */
bool codec_unhex_lower(const char *text, unsigned char *ret_data, size_t len);
bool codec_unhex(const char *text, unsigned char *ret_data, size_t len);

/* ---- base64 ---- */

/* With padding; and for URLs, without. */
enum codec_base64 { CODEC_BASE64, CODEC_BASE64URL };

#define CODEC_BASE64_LEN(n) (((n) + 2) / 3 * 4) /* at most, for N bytes; without a NUL */
#define CODEC_BYTES_LEN(n) (((n) + 3) / 4 * 3)  /* at most, for N characters */

extern const char codec_base64_alphabet[2][65];

/* The value (0 to 63) of a character of either alphabet, or -1. */
static inline int
codec_base64_value(unsigned char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+' || c == '-')
		return 62;
	return c == '/' || c == '_' ? 63 : -1;
}

/* Write LEN bytes as text with a NUL; returns its length. */
size_t codec_base64(enum codec_base64 form, const void *data, size_t len, char *ret_text);
/* The same without the NUL. */
size_t codec_base64_digits(enum codec_base64 form, const void *data, size_t len, char *ret_text);
/* Append it with padding. */
void codec_put_base64(struct buf *b, const void *data, size_t len);
/* Read all of TEXT: no blanks, no foreign characters, no leftover bits.  -EINVAL, or -ENOBUFS if SIZE is
 * too small; then RET_DATA may be partly written. */
int codec_unbase64(enum codec_base64 form, const char *text, size_t len, unsigned char *ret_data,
                   size_t size, size_t *ret_len);

/* ---- percent escapes (RFC 3986) ---- */

/* The byte that "%XY" at AT stands for, or -1 if the LEN bytes there do not begin with an escape. */
static inline int
codec_percent_byte(const char *at, size_t len)
{
	return len > 2 && at[0] == '%' ? codec_hex_byte(at + 1) : -1;
}

/* A letter, a digit or one of "-._~", which need no escape anywhere. */
static inline bool
codec_is_unreserved(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
	       c == '.' || c == '_' || c == '~';
}

/* Write BYTE, escaped in upper case unless it is unreserved; returns the length. */
size_t codec_percent(unsigned char byte, char ret_text[3]);

/* ---- checksums ---- */

#define CODEC_CRC62_LEN 6               /* digits of base 62 that hold 32 bits */

/* The CRC of Ethernet, gzip and PNG, computed bit by bit: inputs are short and rare. */
uint32_t codec_crc32(const void *data, size_t len);
/* The same in six digits of base 62, as GitHub and npm end their tokens; no NUL. */
void codec_crc62(const void *data, size_t len, char ret_digits[CODEC_CRC62_LEN]);
#endif
