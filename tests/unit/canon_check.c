/* canon_check.c - tests of canon/canon_check. */
#include "canon/canon_check.h"

#include "test.h"

static const struct {
	const char *text;
	bool want;
} cases[] = {
	{ "{}", true },
	{ "{\"a\":1}", true },
	{ "{\"a\":1,\"b\":[],\"c\":{\"d\":null}}", true },
	{ "{\"a\":[1,\"x\",true,false,null,{}]}", true },
	{ "{\"a\":\"\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f/\x7f\xc3\xa9\xf0\x9f\x98\x80\"}", true },
	{ "{\"a\":-1,\"b\":9007199254740991,\"c\":-9007199254740991}", true },
	/* By units of UTF-16 the emoji (d83d...) comes before U+E000. */
	{ "{\"\xf0\x9f\x98\x80\":1,\"\xee\x80\x80\":2}", true },
	{ "{\"\xee\x80\x80\":2,\"\xf0\x9f\x98\x80\":1}", false },
	{ "{\"\\n\":1,\"\\u000b\":2,\"a\":3,\"\xc3\xa9\":4}", true },
	{ "{\"a\":1,\"\\n\":2}", false },
	{ "", false },
	{ "[]", false },
	{ "1", false },
	{ "{", false },
	{ "{\"a\":1", false },
	{ "{\"a\"", false },
	{ "{\"a\":1}x", false },
	{ "{\"a\":1} ", false },
	{ " {\"a\":1}", false },
	{ "{ \"a\":1}", false },
	{ "{\"a\": 1}", false },
	{ "{\"a\":1,}", false },
	{ "{,\"a\":1}", false },
	{ "{\"a\":[,1]}", false },
	{ "{\"a\":[1,]}", false },
	{ "{\"a\":[1 ,2]}", false },
	{ "{\"a\":[1}]", false },
	{ "{\"a\":}", false },
	{ "{\"b\":1,\"a\":2}", false },
	{ "{\"a\":1,\"a\":2}", false },
	{ "{\"ab\":1,\"a\":2}", false },
	{ "{\"a\":{\"y\":1,\"x\":2}}", false },
	{ "{\"a\":01}", false },
	{ "{\"a\":-0}", false },
	{ "{\"a\":1.0}", false },
	{ "{\"a\":1e3}", false },
	{ "{\"a\":+1}", false },
	{ "{\"a\":9007199254740992}", false },
	{ "{\"a\":99999999999999999999}", false },
	{ "{\"a\":\"\\/\"}", false },
	{ "{\"a\":\"\\u0041\"}", false },
	{ "{\"a\":\"\\u000a\"}", false },
	{ "{\"a\":\"\\u000B\"}", false },
	{ "{\"a\":\"\\u0000\"}", false },
	{ "{\"a\":\"\\u001\"}", false },
	{ "{\"a\":\"\x01\"}", false },
	{ "{\"a\":\"\xff\"}", false },
	{ "{\"a\":\"\xed\xa0\x80\"}", false },
	{ "{\"a\":\"\\", false },
	{ "{\"a\":tru}", false },
	{ "{\"a\":nulls}", false },
};

TEST(canon_check_object)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (canon_check_object(cases[i].text, strlen(cases[i].text)) != cases[i].want)
			test_fail(__FILE__, __LINE__, "%s", cases[i].text);
	/* A NUL is in no canonical text. */
	CHECK(!canon_check_object("{\"a\0\":1}", 8));
}

TEST(canon_check_depth)
{
	char text[256] = "{\"a\":";
	size_t at = 5;

	for (int i = 0; i < CANON_CHECK_DEPTH_MAX - 1; i++)
		text[at++] = '[';
	for (int i = 0; i < CANON_CHECK_DEPTH_MAX - 1; i++)
		text[at++] = ']';
	text[at++] = '}';
	CHECK(canon_check_object(text, at));
	at = 5;
	for (int i = 0; i < CANON_CHECK_DEPTH_MAX; i++)
		text[at++] = '[';
	for (int i = 0; i < CANON_CHECK_DEPTH_MAX; i++)
		text[at++] = ']';
	text[at++] = '}';
	CHECK(!canon_check_object(text, at));
}
