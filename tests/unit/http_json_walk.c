/* http_json_walk.c - tests of http/json_walk. */
#include "http/json_walk.h"

#include <errno.h>

#include <jansson.h>

#include "canon/canon_text.h"
#include "test.h"

static struct http_text
text_of(const char *s)
{
	return (struct http_text){ s, strlen(s) };
}

/* What a walk tells: each item as "depth name kind raw". */
static int
tell(const char *json, char *out, size_t size)
{
	struct json_walk_item item;
	struct json_walk w;
	size_t len = 0;
	int r;

	json_walk_begin(&w, text_of(json));
	while ((r = json_walk_next(&w, &item)) == 1)
		len += (size_t)snprintf(out + len, size - len, "%zu %.*s%s%c %.*s|", item.depth,
		                        (int)item.name.len, item.name.at != NULL ? item.name.at : "",
		                        item.name.at != NULL ? "=" : "", "{[^snt#0"[item.kind],
		                        (int)item.raw.len, item.raw.at);
	return r;
}

TEST(json_walk_items)
{
	char told[512] = "";

	CHECK(tell(" {\"a\\n\": [1, -2.5e+3, \"x\\\"y\"], \"b\": {}, \"\": null}\n", told,
	           sizeof(told)) == 0);
	CHECK_STR(told, "0 { {|1 a\\n=[ [|2 n 1|2 n -2.5e+3|2 s x\\\"y|1 ^ [1, -2.5e+3, \"x\\\"y\"]|"
	          "1 b={ {|1 ^ {}|1 =0 null|0 ^ {\"a\\n\": [1, -2.5e+3, \"x\\\"y\"], \"b\": {}, "
	          "\"\": null}|");
	told[0] = '\0';
	CHECK(tell("true", told, sizeof(told)) == 0);
	CHECK_STR(told, "0 t true|");
}

/* jansson is of the same opinion about all of them. */
TEST(json_walk_takes)
{
	static const struct {
		const char *text;
		bool good;
	} cases[] = {
		{ "{}", true }, { "[]", true }, { "0", true }, { "-0", true }, { "\"\"", true },
		{ "[1,2]", true }, { " [ 1 , 2 ] ", true }, { "1e5", true }, { "1E-5", true },
		{ "0.5", true }, { "\"\\u0041\\b\\f\\n\\r\\t\\/\\\\\\\"\"", true },
		{ "\"\\ud83d\\ude00\"", true }, { "\"\x7f\xf0\x9f\x98\x80\"", true },
		{ "", false }, { " ", false }, { "[1,]", false }, { "[,1]", false }, { "[1 2]", false },
		{ "{,}", false }, { "{\"a\":1,}", false }, { "{\"a\"}", false }, { "{a:1}", false },
		{ "{1:1}", false }, { "{\"a\":}", false }, { "[}", false }, { "{]", false },
		{ "[", false }, { "{\"a\":1", false }, { "[]]", false }, { "1 1", false },
		{ "01", false }, { "-", false }, { "1.", false }, { ".5", false }, { "+1", false },
		{ "1e", false }, { "1e+", false }, { "0x1", false }, { "NaN", false }, { "tru", false },
		{ "True", false }, { "nul", false }, { "'a'", false }, { "\"", false }, { "\"a", false },
		{ "\"\\\"", false }, { "\"\\", false }, { "\"\\x\"", false }, { "\"\\u12\"", false },
		{ "\"\\u00g0\"", false }, { "\"\\u0000\"", false }, { "\"\\ud83d\"", false },
		{ "\"\\ud83dx\"", false }, { "\"\\ud83d\\u0041\"", false }, { "\"\\ude00\"", false },
		{ "\"\t\"", false }, { "\"\n\"", false }, { "\"\xff\"", false }, { "\"\xc0\xaf\"", false },
		{ "\"\xed\xa0\x80\"", false }, { "\"\xc3\"", false }, { "\xef\xbb\xbf{}", false },
		{ "\v[]", false }, { "[] // x", false }, { "/**/[]", false },
	};
	char told[512];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_t *json = json_loadb(cases[i].text, strlen(cases[i].text), JSON_DECODE_ANY, NULL);
		int r = tell(cases[i].text, told, sizeof(told));

		if (r != (cases[i].good ? 0 : -EBADMSG) || (json != NULL) != cases[i].good)
			test_fail(__FILE__, __LINE__, "'%s': %d, and jansson says %d", cases[i].text, r,
			          json != NULL);
		json_decref(json);
	}
}

TEST(json_walk_is_bounded)
{
	char deep[2 * (JSON_WALK_DEPTH_MAX + 1) + 1] = "", told[16 * 1024];

	memset(deep, '[', JSON_WALK_DEPTH_MAX);
	memset(deep + JSON_WALK_DEPTH_MAX, ']', JSON_WALK_DEPTH_MAX);
	CHECK(tell(deep, told, sizeof(told)) == 0);
	memset(deep, '[', JSON_WALK_DEPTH_MAX + 1);
	CHECK_ERR(tell(deep, told, sizeof(told)), E2BIG);
}

TEST(json_walk_strings)
{
	static const char raw[] = "a\\u00e9\\ud83d\\ude00\\n\\/\\\"\xc3\xa9";
	static const char want[] = "a\xc3\xa9\xf0\x9f\x98\x80\n/\"\xc3\xa9";
	char out[32];
	OWN(buf_free) struct buf b;
	size_t len;

	CHECK(json_walk_decode(text_of(raw), out, sizeof(out), &len) == 0);
	CHECK(len == strlen(want) && memcmp(out, want, len) == 0);
	CHECK_ERR(json_walk_decode(text_of(raw), out, len - 1, &len), ENOBUFS);
	CHECK(json_walk_is(text_of(raw), want));
	CHECK(!json_walk_is(text_of(raw), "a\xc3\xa9\xf0\x9f\x98\x80\n/\""));
	CHECK(!json_walk_is(text_of("ab"), "abc") && !json_walk_is(text_of("abc"), "ab"));
	CHECK(json_walk_is(text_of("\\u0061b"), "ab") && json_walk_is(text_of(""), ""));
	buf_init(&b, 64);
	/* The text that canon writes is read as the same. */
	canon_text_put(&b, "a\"\\\n\x1f\xc3\xa9/", 8, false);
	CHECK(json_walk_is((struct http_text){ (char *)b.data, b.len }, "a\"\\\n\x1f\xc3\xa9/"));
	buf_put(&b, "", 1);
	CHECK_STR((char *)b.data, "a\\\"\\\\\\n\\u001f\xc3\xa9/");
}

TEST(json_walk_member)
{
	static const struct {
		const char *json, *name;
		int want;
		const char *raw;
	} cases[] = {
		{ "{\"alg\":\"RS256\",\"kid\":\"x\"}", "kid", 1, "x" },
		{ "{\"al\\u0067\":\"RS256\"}", "alg", 1, "RS256" },
		{ "{\"aud\":[\"a\",{\"aud\":1}],\"b\":2}", "aud", 1, "[\"a\",{\"aud\":1}]" },
		{ "{\"a\":{},\"b\":[]}", "a", 1, "{}" },
		{ "{\"x\":{\"alg\":1}}", "alg", 0, NULL },
		{ "{}", "alg", 0, NULL },
		{ "{\"alg\":1,\"alg\":1}", "alg", -EEXIST, NULL },
		{ "{\"alg\":{},\"\\u0061lg\":1}", "alg", -EEXIST, NULL },
		{ "[\"alg\"]", "alg", -EINVAL, NULL },
		{ "\"alg\"", "alg", -EINVAL, NULL },
		{ "{\"alg\":1", "alg", -EBADMSG, NULL },
		{ "{\"alg\":1}}", "alg", -EBADMSG, NULL },
		{ "", "alg", -EBADMSG, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json_walk_item item = {0};
		int r = json_walk_member(text_of(cases[i].json), cases[i].name, &item);

		if (r != cases[i].want)
			test_fail(__FILE__, __LINE__, "%s: %d", cases[i].json, r);
		CHECK(r < 1 || http_text_is(item.raw, cases[i].raw));
		CHECK(r == 1 || item.raw.at == NULL);
	}
}
