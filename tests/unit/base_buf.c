/* base_buf.c - tests of base/buf. */
#include "base/buf.h"

#include <errno.h>

#include "test.h"

TEST(buf_round_trip)
{
	OWN(buf_free) struct buf b;
	OWN(strv_freep) char **v = NULL;
	OWN(freep) char *copy = NULL;
	char *list[] = { (char[]){"one"}, (char[]){""}, (char[]){"three"}, NULL };
	const char *s;
	uint32_t u32;
	uint64_t u64;

	buf_init(&b, 4096);
	buf_put_u32(&b, 0xfedcba98);
	buf_put_u64(&b, UINT64_MAX - 1);
	buf_put_str(&b, "hello");
	buf_put_str(&b, "");
	buf_put_strv(&b, list);
	buf_put_strv(&b, NULL);
	CHECK(!buf_failed(&b));
	CHECK(b.data[0] == 0x98 && b.data[3] == 0xfe);

	CHECK_OK(buf_get_u32(&b, &u32));
	CHECK(u32 == 0xfedcba98);
	CHECK_OK(buf_get_u64(&b, &u64));
	CHECK_U64(u64, UINT64_MAX - 1);
	CHECK_OK(buf_get_str(&b, &s));
	CHECK_STR(s, "hello");
	CHECK_OK(buf_dup_str(&b, &copy));
	CHECK_STR(copy, "");
	CHECK_OK(buf_dup_strv(&b, 3, &v));
	CHECK(strv_len(v) == 3);
	CHECK_STR(v[2], "three");
	strv_free(v);
	v = NULL;
	CHECK_OK(buf_dup_strv(&b, 3, &v));
	CHECK(v != NULL && strv_len(v) == 0);
	CHECK(buf_left(&b) == 0);
}

TEST(buf_has_a_maximum)
{
	OWN(buf_free) struct buf b;

	buf_init(&b, 10);
	buf_put_u64(&b, 1);
	CHECK(!buf_failed(&b));
	buf_put_u32(&b, 1);
	CHECK(buf_failed(&b));
	/* It sticks, even for what would have fitted. */
	buf_put(&b, "x", 1);
	CHECK(buf_failed(&b) && b.len == 8);
	buf_reset(&b);
	CHECK(!buf_failed(&b) && buf_left(&b) == 0);
	buf_put(&b, "0123456789", 10);
	CHECK(!buf_failed(&b) && buf_left(&b) == 10);
	buf_put(&b, "x", 1);
	CHECK(buf_failed(&b));
}

TEST(buf_grows_to_its_maximum)
{
	OWN(buf_free) struct buf b;

	buf_init(&b, 100000);
	for (uint32_t i = 0; i < 25000; i++)
		buf_put_u32(&b, i);
	CHECK(!buf_failed(&b) && b.len == 100000);
	for (uint32_t i = 0, v; i < 25000; i++) {
		CHECK_OK(buf_get_u32(&b, &v));
		CHECK(v == i);
	}
}

TEST(buf_add)
{
	OWN(buf_free) struct buf b;
	unsigned char *at;

	buf_init(&b, 10);
	buf_put(&b, "abc", 3);
	at = buf_add(&b, 7);
	CHECK(at == b.data + 3 && b.len == 10);
	memset(at, 'x', 7);
	CHECK(buf_add(&b, 1) == NULL && buf_failed(&b) && b.len == 10);
	CHECK(memcmp(b.data, "abcxxxxxxx", 10) == 0);
}

TEST(buf_borrowed_is_never_written)
{
	struct buf b;
	const char text[] = "abcd";

	buf_init_borrowed(&b, text, 4);
	buf_put(&b, "x", 1);
	CHECK(buf_failed(&b));
	buf_reset(&b);
	buf_put(&b, "x", 1);
	CHECK(buf_failed(&b));
	CHECK_STR(text, "abcd");
	buf_free(&b);
}

static const struct {
	const char *bytes;
	size_t len;
	int want;
} string_cases[] = {
	{ "\3\0\0\0abc\0",    8, 0        },
	{ "\0\0\0\0\0",       5, 0        },
	{ "",                 0, -EBADMSG },
	{ "\0\0\0",           3, -EBADMSG },
	{ "\0\0\0\0",         4, -EBADMSG },    /* no NUL */
	{ "\3\0\0\0abc",      7, -EBADMSG },
	{ "\3\0\0\0abcd",     8, -EBADMSG },    /* something else for the NUL */
	{ "\3\0\0\0a\0c\0",   8, -EBADMSG },    /* a NUL inside */
	{ "\xff\xff\xff\xff", 4, -EBADMSG },
	{ "\xff\xff\xff\xff" "a\0", 6, -EBADMSG },
};

TEST(buf_get_str_refuses)
{
	const char untouched[] = "untouched";

	for (size_t i = 0; i < ARRAY_LEN(string_cases); i++) {
		/* Exactly as long as the case, for the sanitizer to see. */
		OWN(freep) char *bytes = malloc(string_cases[i].len);
		const char *s = untouched;
		struct buf b;

		memcpy(bytes, string_cases[i].bytes, string_cases[i].len);
		buf_init_borrowed(&b, bytes, string_cases[i].len);
		CHECK(buf_get_str(&b, &s) == string_cases[i].want);
		CHECK((s == untouched) == (string_cases[i].want < 0));
	}
}

TEST(buf_dup_strv_refuses)
{
	static const struct {
		const char *bytes;
		size_t len;
	} cases[] = {
		{ "\1\0\0\0", 4 },
		{ "\xff\xff\xff\xff" "\0\0\0\0\0", 9 },
		{ "\2\0\0\0\0\0\0\0\0", 9 },
		{ "\2\0\0\0\0\0\0\0\0\1\0\0\0\0", 14 },
		{ "\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24 },   /* over max */
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char **v = NULL;
		struct buf b;

		buf_init_borrowed(&b, cases[i].bytes, cases[i].len);
		CHECK_ERR(buf_dup_strv(&b, 3, &v), EBADMSG);
		CHECK(v == NULL);
	}
}

static bool
is_zero(const unsigned char *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (at[i] != 0)
			return false;
	return true;
}

TEST(buf_that_wipes_leaves_nothing_when_reused)
{
	OWN(buf_free) struct buf b;
	unsigned char *data;

	buf_init_secret(&b, 4096);
	buf_put(&b, "secret", 6);
	data = b.data;
	/* Also what was cut off. */
	b.len = 1;
	buf_reset(&b);
	CHECK(b.data == data && is_zero(data, 6));
	memset(buf_add(&b, 1000), 'x', 1000);
	CHECK(b.len == 1000 && b.data[999] == 'x');
	buf_reset(&b);
	CHECK(is_zero(b.data, 1000));
	/* Another buffer keeps its bytes. */
	b.wipes = false;
	buf_put(&b, "plain", 5);
	buf_reset(&b);
	CHECK(memcmp(b.data, "plain", 5) == 0);
}

TEST(buf_puts_texts_without_their_length)
{
	OWN(buf_free) struct buf b = BUF(26);

	buf_put_text(&b, "n=");
	buf_put_text(&b, "");
	buf_put_decimal(&b, UINT64_MAX);
	buf_put_decimal(&b, 0);
	CHECK(!buf_failed(&b) && b.len == 23 && memcmp(b.data, "n=184467440737095516150", 23) == 0);
	buf_put_text(&b, "four");
	CHECK(buf_failed(&b));
}
