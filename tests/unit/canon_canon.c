/* canon_canon.c - tests of canon/canon: RFC 8785's own examples, and what is refused. */
#include "canon/canon.h"

#include <errno.h>
#include <math.h>

#include "base/buf.h"
#include "base/err.h"
#include "test.h"

/* Appendix B of RFC 8785, and what lies at the edges of the rules. */
static const struct {
	uint64_t bits;
	const char *want;
} number_cases[] = {
	{ 0x0000000000000000, "0" },
	{ 0x8000000000000000, "0" },
	{ 0x0000000000000001, "5e-324" },
	{ 0x8000000000000001, "-5e-324" },
	{ 0x7fefffffffffffff, "1.7976931348623157e+308" },
	{ 0xffefffffffffffff, "-1.7976931348623157e+308" },
	{ 0x4340000000000000, "9007199254740992" },
	{ 0xc340000000000000, "-9007199254740992" },
	{ 0x4430000000000000, "295147905179352830000" },
	{ 0x44b52d02c7e14af5, "9.999999999999997e+22" },
	{ 0x44b52d02c7e14af6, "1e+23" },
	{ 0x44b52d02c7e14af7, "1.0000000000000001e+23" },
	{ 0x444b1ae4d6e2ef4e, "999999999999999700000" },
	{ 0x444b1ae4d6e2ef4f, "999999999999999900000" },
	{ 0x444b1ae4d6e2ef50, "1e+21" },
	{ 0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7" },
	{ 0x3eb0c6f7a0b5ed8d, "0.000001" },
	{ 0x41b3de4355555553, "333333333.3333332" },
	{ 0x41b3de4355555554, "333333333.33333325" },
	{ 0x41b3de4355555555, "333333333.3333333" },
	{ 0x41b3de4355555556, "333333333.3333334" },
	{ 0x41b3de4355555557, "333333333.33333343" },
	{ 0xbecbf647612f3696, "-0.0000033333333333333333" },
	{ 0x43143ff3c1cb0959, "1424953923781206.2" },
	/* powers of two, where the nearest text of fewest digits is another double's */
	{ 0x3d30000000000000, "5.684341886080802e-14" },
	{ 0x4580000000000000, "6.189700196426902e+26" },
	{ 0x3e70000000000000, "5.960464477539063e-8" },
	{ 0x4024000000000000, "10" },
	{ 0x3ff8000000000000, "1.5" },
};

TEST(canon_numbers)
{
	char text[CANON_NUMBER_MAX];
	double number;

	for (size_t i = 0; i < ARRAY_LEN(number_cases); i++) {
		memcpy(&number, &number_cases[i].bits, sizeof(number));
		canon_number(number, text);
		CHECK_STR(text, number_cases[i].want);
		CHECK(strtod(text, NULL) == number);
	}
}

static const struct {
	const char *text, *want;
} put_cases[] = {
	{ "{}", "{}" },
	{ " [ 1 , 2.50 , true , false , null , \"\" ] ", "[1,2.5,true,false,null,\"\"]" },
	/* section 3.2.2 */
	{ "{\"numbers\": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],"
	  "\"string\": \"\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\\"\\/\","
	  "\"literals\": [null, true, false]}",
	  "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],"
	  "\"string\":\"\xe2\x82\xac$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}" },
	/* section 3.2.3: sorted by UTF-16 code units */
	{ "{\"\\u20ac\":1,\"\\r\":2,\"\\ufb33\":3,\"1\":4,\"\\ud83d\\ude00\":5,\"\\u0080\":6,\"\\u00f6\":7}",
	  "{\"\\r\":2,\"1\":4,\"\xc2\x80\":6,\"\xc3\xb6\":7,\"\xe2\x82\xac\":1,"
	  "\"\xf0\x9f\x98\x80\":5,\"\xef\xac\xb3\":3}" },
	{ "{\"b\":{\"z\":1,\"a\":2},\"aa\":[],\"a\":\"\\b\\t\\n\\f\\r\\u0001\\u007f\"}",
	  "{\"a\":\"\\b\\t\\n\\f\\r\\u0001\x7f\",\"aa\":[],\"b\":{\"a\":2,\"z\":1}}" },
};

TEST(canon_puts)
{
	for (size_t i = 0; i < ARRAY_LEN(put_cases); i++) {
		OWN(json_decrefp) json_t *value = json_loads(put_cases[i].text, JSON_DECODE_ANY, NULL);
		OWN(freep) char *text = NULL;
		size_t len;

		CHECK(value != NULL);
		CHECK_OK(canon_dump(value, 4096, &text, &len, NULL));
		CHECK_STR(text, put_cases[i].want);
		CHECK_U64(len, strlen(text));
	}
}

/* Each stands before the next: by UTF-16 code units. */
static const char *const in_order[] = {
	"", "A", "AA", "B", "a", "\xc2\x80", "\xed\x9f\xbf", "\xf0\x90\x80\x80", "\xf0\x9f\x98\x80",
	"\xf4\x8f\xbf\xbf", "\xee\x80\x80", "\xef\xac\xb3", "\xef\xbf\xbd",
};

TEST(canon_compares)
{
	for (size_t i = 0; i < ARRAY_LEN(in_order); i++)
		for (size_t k = 0; k < ARRAY_LEN(in_order); k++) {
			int order = canon_compare(in_order[i], in_order[k]);

			CHECK((order < 0) == (i < k) && (order > 0) == (i > k));
		}
}

TEST(canon_refuses_to_put)
{
	OWN(json_decrefp) json_t *large = json_integer(CANON_INTEGER_MAX + 1), *text = json_string("abc");
	OWN(json_decrefp) json_t *deep = json_array();
	OWN(freep) char *out = NULL;
	size_t len;

	for (int i = 0; i < CANON_DEPTH_MAX; i++) {
		json_t *outer = json_array();

		json_array_append_new(outer, deep);
		deep = outer;
	}
	CHECK_ERR(canon_dump(large, 100, &out, &len, NULL), EINVAL);
	CHECK_ERR(canon_dump(deep, 1000, &out, &len, NULL), EINVAL);
	CHECK_OK(canon_dump(json_array_get(deep, 0), 1000, &out, &len, NULL));
	free(TAKE(out));
	CHECK_ERR(canon_dump(text, 4, &out, &len, NULL), E2BIG);
	CHECK_OK(canon_dump(text, 5, &out, &len, NULL));
}

static const char *const refused[] = {
	"", "{", "{\"a\":1,\"a\":1}", "{\"a\":{\"b\":1,\"b\":2}}", "{}{}", "{} x", "[1,]", "{a:1}",
	"'a'", "\"\\u0000\"", "\"\\ud800\"", "\"\xff\"", "01", "9007199254740992", "1e400", "1e20",
	"-9007199254740992", "99999999999999999999999", "nan", "\"a\nb\"", "\xef\xbb\xbf{}",
};

TEST(canon_reads_strictly)
{
	OWN(json_decrefp) json_t *good = NULL;
	char deep[2 * CANON_DEPTH_MAX + 3];
	struct err err = {0};

	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		json_t *value = NULL;

		if (canon_read(refused[i], strlen(refused[i]), &value, &err) != -EINVAL)
			test_fail(__FILE__, __LINE__, "taken: %s", refused[i]);
		CHECK(value == NULL && err.text[0] != '\0');
	}
	CHECK_OK(canon_read("9007199254740991", 16, &good, &err));
	CHECK(json_integer_value(good) == CANON_INTEGER_MAX);
	memset(deep, '[', CANON_DEPTH_MAX + 1);
	memset(deep + CANON_DEPTH_MAX + 1, ']', CANON_DEPTH_MAX + 1);
	CHECK_ERR(canon_read(deep, 2 * CANON_DEPTH_MAX + 2, &good, NULL), EINVAL);
	json_decref(TAKE(good));
	CHECK_OK(canon_read(deep + 1, 2 * CANON_DEPTH_MAX, &good, NULL));
}

/* [1,1,...] of N values, the list itself included. */
static int
read_many(size_t n)
{
	OWN(json_decrefp) json_t *value = NULL;
	OWN(freep) char *text = malloc(2 * n);

	memset(text, '1', 2 * n);
	for (size_t i = 0; i < 2 * n; i += 2)
		text[i] = i == 0 ? '[' : ',';
	text[2 * n - 2] = ']';
	return canon_read(text, 2 * n - 1, &value, NULL);
}

TEST(canon_reads_no_more_values_than_there_may_be)
{
	OWN(json_decrefp) json_t *value = NULL;
	OWN(freep) char *text = malloc(CANON_VALUES_MAX + 4);

	CHECK_OK(read_many(CANON_VALUES_MAX));
	CHECK_ERR(read_many(CANON_VALUES_MAX + 2), EINVAL);
	/* In a text they are none. */
	memset(text, '[', CANON_VALUES_MAX + 4);
	text[0] = text[CANON_VALUES_MAX + 3] = '"';
	memcpy(text + 1, "\\\"", 2);
	CHECK_OK(canon_read(text, CANON_VALUES_MAX + 4, &value, NULL));
}
