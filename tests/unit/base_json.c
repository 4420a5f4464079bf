/* base_json.c - tests of base/json. */
#include "base/json.h"

#include "test.h"

static char *text;
static size_t size;

static void
check_written(struct json *w, const char *want)
{
	fclose(w->out);
	CHECK_STR(text, want);
	free(TAKE(text));
}

TEST(json_values_and_commas)
{
	struct json w = { .out = open_memstream(&text, &size) };

	json_open(&w, NULL, '{');
	json_str(&w, "s", "x");
	json_u64(&w, "u", UINT64_MAX);
	json_raw(&w, "r", "%.2f", 0.5);
	json_open(&w, "list", '[');
	json_bool(&w, NULL, true);
	json_bool(&w, NULL, false);
	json_open(&w, NULL, '{');
	json_close(&w, '}');
	json_close(&w, ']');
	json_open(&w, "none", '[');
	json_close(&w, ']');
	json_none(&w, "n");
	json_str(&w, "z", NULL);
	json_close(&w, '}');
	check_written(&w, "{\"s\":\"x\",\"u\":18446744073709551615,\"r\":0.50,"
	              "\"list\":[true,false,{}],\"none\":[],"
	              "\"n\":null,\"z\":null}");
}

TEST(json_escapes)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "",                     "\"\"" },
		{ "naïve 🙂",             "\"naïve 🙂\"" },
		{ "\"\\/",                "\"\\\"\\\\/\"" },
		{ "\b\f\n\r\t",           "\"\\b\\f\\n\\r\\t\"" },
		{ "\x01\x1b[0m\x7f",      "\"\\u0001\\u001b[0m\\u007f\"" },
		{ "\xc2\x9b",             "\"\\u009b\"" },
		{ "\xe2\x80\xae",         "\"\\u202e\"" },
		{ "\xf3\xa0\x81\x81",     "\"\\udb40\\udc41\"" },
		{ "a\xff" "b\xc0\x80",    "\"a\xef\xbf\xbd" "b\xef\xbf\xbd\xef\xbf\xbd\"" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct json w = { .out = open_memstream(&text, &size) };

		json_str(&w, NULL, cases[i].text);
		check_written(&w, cases[i].want);
	}
}

TEST(json_escapes_keys)
{
	struct json w = { .out = open_memstream(&text, &size) };

	json_open(&w, NULL, '{');
	json_bool(&w, "a\"b", true);
	json_close(&w, '}');
	check_written(&w, "{\"a\\\"b\":true}");
}
