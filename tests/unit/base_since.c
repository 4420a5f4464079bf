/* base_since.c - tests of base/since and base/format. */
#include "base/since.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/own.h"
#include "base/format.h"
#include "test.h"

#define NOW 1800000000000ULL            /* 2027-01-15T08:00:00Z */

static const struct {
	const char *text;
	uint64_t want;                  /* 0: an error */
} times[] = {
	{ "10m", NOW - 600000 }, { "2h", NOW - 7200000 }, { "1h30m", NOW - 5400000 }, { "90", NOW - 90000 },
	{ "2027-01-15T07:00:00Z", NOW - 3600000 }, { "2027-01-15T07:00:00.5Z", NOW - 3599500 },
	{ "2027-01-15T07:00:00.0256789Z", NOW - 3599975 },
	{ "2027-01-15 07:00:00z", NOW - 3600000 }, { "2027-01-15T08:00:00+01:00", NOW - 3600000 },
	{ "2027-01-15T02:30:00-05:30", NOW }, { "2027-01-15", NOW - 8 * 3600000 },
	{ "", 0 }, { "yesterday", 0 }, { "2027-01-15T07:00:00", 0 }, { "2027-01-15T07:00:00+1", 0 }, { "2027-13-01", 0 },
	{ "-5m", 0 }, { "2027-01-15T07:00:00Zx", 0 },
};

TEST(base_since)
{
	CHECK(setenv("TZ", "UTC", 1) == 0);
	tzset();
	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		struct err err = {0};
		uint64_t ms = 0;
		int r = since_parse(times[i].text, NOW, &ms, &err);

		CHECK(r == (times[i].want != 0 ? 0 : -EINVAL));
		CHECK(r < 0 || ms == times[i].want);
	}
}

TEST(base_since_format)
{
	char text[SINCE_TEXT_MAX];

	since_format(NOW + 7, text);
	CHECK(strcmp(text, "2027-01-15T08:00:00.007Z") == 0);
}

static const struct {
	const char *template, *want;    /* NULL: an error */
} formats[] = {
	{ "{cell} {state}", "abc running\n" }, { "{id}", "abc\n" }, { "{command}", "sh -c x\n" }, { "{a.b}", "1\n" },
	{ "{none}|{name}|{empty}", "-|-|-\n" }, { "{{cell}} {policy}", "{cell} true\n" }, { "a\\tb", "a\tb\n" },
	{ "{evil}", "\\x1b[2J\n" }, { "{a}", "{\"b\":1}\n" },
	{ "{cell", NULL }, { "{}", NULL },
};

TEST(base_format)
{
	json_t *object = json_pack("{s:s, s:s, s:[s,s,s], s:n, s:[], s:b, s:s, s:{s:i}}", "cell", "abc", "state", "running",
		"command", "sh", "-c", "x", "name", "empty", "policy", 1, "evil", "\033[2J", "a", "b", 1);

	for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
		OWN(freep) char *text = NULL;
		struct err err = {0};
		size_t len;
		FILE *out = open_memstream(&text, &len);

		CHECK(format_check(formats[i].template, &err) == (formats[i].want != NULL ? 0 : -EINVAL));
		if (formats[i].want != NULL)
			format_print(out, formats[i].template, object);
		fclose(out);
		CHECK(formats[i].want == NULL || strcmp(text, formats[i].want) == 0);
	}
	json_decref(object);
}
