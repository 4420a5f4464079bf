/* canon_members.c - tests of canon/members. */
#include "canon/members.h"

#include "test.h"

static const char *
escaped(const char *text, size_t len, size_t max)
{
	static struct buf b;

	buf_free(&b);
	buf_init(&b, 4096);
	members_escape(&b, text, len, max);
	buf_put(&b, "", 1);
	CHECK(!buf_failed(&b));
	return (const char *)b.data;
}

TEST(canon_members_escapes)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "",                     "" },
		{ "plain /path?x=1",      "plain /path?x=1" },
		{ "\"\\/",                "\\\"\\\\/" },
		{ "\b\t\n\f\r\x1b[0m",    "\\b\\t\\n\\f\\r\\u001b[0m" },
		/* RFC 8785 wants these as they are, and a terminal must not have them. */
		{ "\x7f",                 "\xef\xbf\xbd" },
		{ "\xc2\x9b\xe2\x80\xae", "\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xf3\xa0\x81\x81",     "\xef\xbf\xbd" },
		{ "na\xc3\xafve",         "na\xc3\xafve" },
		{ "a\xff\xc0\x80",        "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_STR(escaped(cases[i].text, strlen(cases[i].text), 1024), cases[i].want);
	CHECK_STR(escaped("a\0b", 3, 1024), "a\xef\xbf\xbd" "b");
	CHECK_STR(escaped("abcdef", 6, 3), "abc...");
	/* What is cut in the middle of a character is not one. */
	CHECK_STR(escaped("a\xc3\xaf", 3, 2), "a\xef\xbf\xbd...");
}

TEST(canon_members_are_sorted)
{
	static const char *const list[] = { "x", "\n" };
	OWN(members_free) struct members m, copy;
	OWN(buf_free) struct buf out;

	members_init(&m, 4096);
	members_init(&copy, 4096);
	buf_init(&out, 4096);
	members_text(&m, "type", "http", 4, 100);
	members_u64(&m, "b", 0);
	members_u64(&m, "ab", UINT64_MAX);
	members_bool(&m, "a", true);
	members_copy(&copy, &m, m.n);
	members_list(&m, "a_b", list, 2, 100);
	members_list(&m, "none", NULL, 0, 100);
	members_raw(&m, "z", "{}", 2);
	members_put_object(&m, &out);
	buf_put(&out, "", 1);
	CHECK_STR((char *)out.data, "{\"a\":true,\"a_b\":[\"x\",\"\\n\"],\"ab\":9007199254740991,\"b\":0,"
	          "\"none\":[],\"type\":\"http\",\"z\":{}}");
	buf_reset(&out);
	members_u64(&copy, "count", 3);
	members_put(&copy, &out);
	buf_put(&out, "", 1);
	CHECK_STR((char *)out.data, "\"a\":true,\"ab\":9007199254740991,\"b\":0,\"count\":3,"
	          "\"type\":\"http\"");
}

TEST(canon_members_check)
{
	static const char *const good[] = {
		"\"type\":\"x\"",
		"\"a\":0,\"b\":9007199254740991,\"type\":\"dns\",\"z\":true",
		"\"a\":[],\"b\":[\"x\",\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\"],\"type\":\"\"",
		"\"a\":false,\"a_1\":\"na\xc3\xafve \xef\xbf\xbd\",\"ab\":1,\"type\":\"x\"",
	};
	static const char *const bad[] = {
		"", "{", "\"", "\"type\"", "\"type\":", "\"type\":1", "\"type\":[\"x\"]",
		"\"a\":1",                                      /* no type */
		"\"type\":\"x\",", "\"type\":\"x\"}", "\"type\":\"x\" ", " \"type\":\"x\"",
		"\"type\":\"x\",\"a\":1",                       /* not sorted */
		"\"type\":\"x\",\"type\":\"y\"",                /* twice */
		"\"A\":1,\"type\":\"x\"", "\"a-b\":1,\"type\":\"x\"", "\"\":1,\"type\":\"x\"",
		"\"a\":01,\"type\":\"x\"", "\"a\":-1,\"type\":\"x\"", "\"a\":1.5,\"type\":\"x\"",
		"\"a\":1e3,\"type\":\"x\"", "\"a\":9007199254740992,\"type\":\"x\"",
		"\"a\":99999999999999999999999999,\"type\":\"x\"", "\"a\":,\"type\":\"x\"",
		"\"a\":null,\"type\":\"x\"", "\"a\":{},\"type\":\"x\"", "\"a\":truer,\"type\":\"x\"",
		"\"a\":[1],\"type\":\"x\"", "\"a\":[\"x\",],\"type\":\"x\"", "\"a\":[\"x\"",
		"\"a\":[[\"x\"]],\"type\":\"x\"",
		"\"type\":\"\\/\"", "\"type\":\"\\u0000\"", "\"type\":\"\\u000a\"", "\"type\":\"\\u001F\"", "\"type\":\"\\u0041\"",
		"\"type\":\"\\u2028\"", "\"type\":\"\\x\"", "\"type\":\"\\", "\"type\":\"\\u00",
		"\"type\":\"\n\"", "\"type\":\"\x7f\"", "\"type\":\"\xc2\x9b\"", "\"type\":\"\xff\"",
		"\"type\":\"\xe2\x80\xae\"",
		"\"a2345678901234567890123456789012x\":1,\"type\":\"x\"",
	};
	const char *type;
	size_t len;

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		CHECK(members_check(good[i], strlen(good[i]), &type, &len));
	CHECK(members_check(good[1], strlen(good[1]), &type, &len) && len == 3 &&
	      memcmp(type, "dns", 3) == 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!members_check(bad[i], strlen(bad[i]), &type, &len));
	/* A NUL is no end. */
	CHECK(!members_check("\"type\":\"x\0\"", 11, &type, &len));
	CHECK(!members_check("\"type\":\"x\"\0", 11, &type, &len));
}

TEST(canon_members_add)
{
	static const struct {
		const char *text, *key, *want;
	} cases[] = {
		{ "\"type\":\"x\"", "pid", "\"pid\":7,\"type\":\"x\"" },
		{ "\"type\":\"x\"", "zone", "\"type\":\"x\",\"zone\":7" },
		{ "\"a\":1,\"path\":\"\\\"pid\\\":3,\",\"q\":[\"pid\"],\"type\":\"x\"", "pid",
		  "\"a\":1,\"path\":\"\\\"pid\\\":3,\",\"pid\":7,\"q\":[\"pid\"],\"type\":\"x\"" },
		/* A key that begins like it comes behind it, or before. */
		{ "\"pi\":1,\"pids\":2,\"type\":\"x\"", "pid", "\"pi\":1,\"pid\":7,\"pids\":2,\"type\":\"x\"" },
		{ "\"pid\":3,\"type\":\"x\"", "pid", "\"pid\":3,\"type\":\"x\"" },
	};
	const char *type;
	size_t len;
	uint64_t n;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(buf_free) struct buf out = BUF(4096);

		members_add_u64(&out, cases[i].text, strlen(cases[i].text), cases[i].key, 7);
		CHECK(members_check((char *)out.data, out.len, &type, &len));
		buf_put(&out, "", 1);
		CHECK_STR((char *)out.data, cases[i].want);
	}
	CHECK(members_find_u64("\"a\":1,\"b\":22,\"type\":\"x\"", 24, "b", &n) && n == 22);
	CHECK(!members_find_u64("\"a\":1,\"b\":22,\"type\":\"x\"", 24, "type", &n));
	CHECK(!members_find_u64("\"a\":1,\"b\":22,\"type\":\"x\"", 24, "c", &n));
}
