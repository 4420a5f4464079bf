/* base_codec.c - tests of base/codec. */
#include "base/codec.h"

#include <errno.h>

#include "base/buf.h"
#include "test.h"

TEST(codec_hex_round_trip)
{
	static const unsigned char bytes[] = { 0x00, 0x0a, 0xff, 0x7f };
	unsigned char again[sizeof(bytes)];
	char text[9] = "xxxxxxxx";

	codec_hex_digits(bytes, 3, text);
	CHECK_STR(text, "000affxx");
	codec_hex(bytes, sizeof(bytes), text);
	CHECK_STR(text, "000aff7f");
	CHECK(codec_unhex_lower(text, again, 4) && memcmp(again, bytes, 4) == 0);
	CHECK(codec_unhex("000AfF7f...", again, 4) && memcmp(again, bytes, 4) == 0);
}

TEST(codec_unhex_is_strict)
{
	unsigned char bytes[2];

	CHECK(codec_unhex_lower("0aff", bytes, 2) && bytes[0] == 10 && bytes[1] == 255);
	CHECK(!codec_unhex_lower("0aFf", bytes, 2));
	CHECK(!codec_unhex_lower("0a g", bytes, 2));
	CHECK(!codec_unhex_lower("0", bytes, 1));
	CHECK(!codec_unhex("0", bytes, 1));
	CHECK(!codec_unhex("0g", bytes, 1) && !codec_unhex("g0", bytes, 1) && !codec_unhex("@0", bytes, 1));
}

/* The test vectors of RFC 4648, and bytes that need the last two characters of the alphabets. */
static const struct {
	const char *plain, *base64, *url;
} base64_cases[] = {
	{ "", "", "" }, { "f", "Zg==", "Zg" }, { "fo", "Zm8=", "Zm8" }, { "foo", "Zm9v", "Zm9v" },
	{ "foob", "Zm9vYg==", "Zm9vYg" }, { "fooba", "Zm9vYmE=", "Zm9vYmE" },
	{ "foobar", "Zm9vYmFy", "Zm9vYmFy" }, { "\xfb\xff\xbe", "+/++", "-_--" },
};

TEST(codec_base64_round_trip)
{
	for (size_t i = 0; i < ARRAY_LEN(base64_cases); i++) {
		const char *plain = base64_cases[i].plain;
		const char *want[] = { base64_cases[i].base64, base64_cases[i].url };
		size_t len = strlen(plain), n;
		unsigned char bytes[8];
		char text[16];

		for (enum codec_base64 form = CODEC_BASE64; form <= CODEC_BASE64URL; form++) {
			n = codec_base64(form, plain, len, text);
			CHECK_STR(text, want[form]);
			CHECK(n == strlen(want[form]) && n <= CODEC_BASE64_LEN(len));
			CHECK_OK(codec_unbase64(form, text, n, bytes, len, &n));
			CHECK(n == len && memcmp(bytes, plain, n) == 0);
			CHECK(CODEC_BYTES_LEN(strlen(text)) >= len);
		}
	}
}

static const struct {
	enum codec_base64 form;
	const char *text;
} base64_wrong[] = {
	{ CODEC_BASE64, "Zg" }, { CODEC_BASE64, "Zg=" }, { CODEC_BASE64, "Zg===" }, { CODEC_BASE64, "====" },
	{ CODEC_BASE64, "Zh==" }, { CODEC_BASE64, "Zm9=" }, { CODEC_BASE64, "Zm9 " }, { CODEC_BASE64, "Zm9v\n" },
	{ CODEC_BASE64, "-_--" }, { CODEC_BASE64, "Z=9v" }, { CODEC_BASE64, "Z===" },
	{ CODEC_BASE64URL, "Z" }, { CODEC_BASE64URL, "Zg==" }, { CODEC_BASE64URL, "Zh" },
	{ CODEC_BASE64URL, "Zm9" }, { CODEC_BASE64URL, "+/++" }, { CODEC_BASE64URL, "Zm9vZ" },
};

TEST(codec_put_base64_appends)
{
	OWN(buf_free) struct buf b = BUF(9);

	buf_put_text(&b, "=");
	codec_put_base64(&b, "abcd", 4);
	CHECK(!buf_failed(&b) && b.len == 9 && memcmp(b.data, "=YWJjZA==", 9) == 0);
	codec_put_base64(&b, "a", 1);
	CHECK(buf_failed(&b) && b.len == 9);
}

TEST(codec_unbase64_is_strict)
{
	unsigned char bytes[16];
	size_t n = 77;

	for (size_t i = 0; i < ARRAY_LEN(base64_wrong); i++)
		if (codec_unbase64(base64_wrong[i].form, base64_wrong[i].text, strlen(base64_wrong[i].text), bytes,
		                   sizeof(bytes), &n) != -EINVAL)
			test_fail(__FILE__, __LINE__, "'%s' is accepted", base64_wrong[i].text);
	CHECK_ERR(codec_unbase64(CODEC_BASE64, "Zm9v\0\0\0", 8, bytes, sizeof(bytes), &n), EINVAL);
	CHECK_ERR(codec_unbase64(CODEC_BASE64, "Zm9v", 4, bytes, 2, &n), ENOBUFS);
	CHECK_ERR(codec_unbase64(CODEC_BASE64, "Zm8=", 4, bytes, 1, &n), ENOBUFS);
	CHECK(n == 77);
}

TEST(codec_base64_value_of_all_characters)
{
	for (int c = 0; c < 256; c++) {
		int want = -1;

		for (int i = 0; i < 64; i++)
			if (codec_base64_alphabet[0][i] == (char)c || codec_base64_alphabet[1][i] == (char)c)
				want = i;
		CHECK(codec_base64_value((unsigned char)c) == want);
	}
}

TEST(codec_percent_escapes)
{
	char text[4] = "";

	CHECK(codec_percent_byte("%2f", 3) == '/' && codec_percent_byte("%2Fx", 4) == '/');
	CHECK(codec_percent_byte("%2", 2) < 0 && codec_percent_byte("%2g", 3) < 0);
	CHECK(codec_percent_byte("2f", 2) < 0 && codec_percent_byte("", 0) < 0 && codec_percent_byte("%00", 3) == 0);
	CHECK(codec_percent('~', text) == 1 && text[0] == '~');
	CHECK(codec_percent('/', text) == 3);
	CHECK_STR(text, "%2F");
	CHECK(codec_percent(0xff, text) == 3);
	CHECK_STR(text, "%FF");
}

/* The check value of the CRC's catalogues, and the end of a token with a known checksum. */
TEST(codec_crc)
{
	char digits[CODEC_CRC62_LEN + 1] = "";

	CHECK(codec_crc32("123456789", 9) == 0xcbf43926 && codec_crc32("", 0) == 0);
	codec_crc62("", 0, digits);
	CHECK_STR(digits, "000000");
	/* 3421780262 in base 62 */
	codec_crc62("123456789", 9, digits);
	CHECK_STR(digits, "3jZRME");
}
