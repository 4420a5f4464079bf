/* base_num.c - tests of base/num. */
#include "base/num.h"

#include <errno.h>

#include "base/err.h"
#include "test.h"

#define UNTOUCHED 4242

static const struct num_case {
	const char *text;
	uint64_t want;
	int r;
} count_cases[] = {
	{ "2",                    2,         0 },
	{ "007",                  7,         0 },
	{ "100",                  100,       0 },
	{ "1",                    UNTOUCHED, -ERANGE },
	{ "101",                  UNTOUCHED, -ERANGE },
	{ "99999999999999999999", UNTOUCHED, -ERANGE },
	{ "",                     UNTOUCHED, -EINVAL },
	{ "-3",                   UNTOUCHED, -EINVAL },
	{ "+3",                   UNTOUCHED, -EINVAL },
	{ " 3",                   UNTOUCHED, -EINVAL },
	{ "3 ",                   UNTOUCHED, -EINVAL },
	{ "0x10",                 UNTOUCHED, -EINVAL },
	{ "3k",                   UNTOUCHED, -EINVAL },
}, size_cases[] = {
	{ "0",                    0,                      0 },
	{ "4096",                 4096,                   0 },
	{ "17B",                  17,                     0 },
	{ "1K",                   1024,                   0 },
	{ "512M",                 UINT64_C(512) << 20,    0 },
	{ "4g",                   UINT64_C(4) << 30,      0 },
	{ "4GB",                  UINT64_C(4) << 30,      0 },
	{ "2TiB",                 UINT64_C(2) << 40,      0 },
	{ "18446744073709551615", UINT64_MAX,             0 },
	{ "16777215T",            UINT64_C(16777215) << 40, 0 },
	{ "18446744073709551616", UNTOUCHED, -ERANGE },
	{ "16777216T",            UNTOUCHED, -ERANGE },
	{ "",                     UNTOUCHED, -EINVAL },
	{ "G",                    UNTOUCHED, -EINVAL },
	{ "-1G",                  UNTOUCHED, -EINVAL },
	{ "1.5G",                 UNTOUCHED, -EINVAL },
	{ "1iB",                  UNTOUCHED, -EINVAL },
	{ "1Gi",                  UNTOUCHED, -EINVAL },
	{ "1GiBs",                UNTOUCHED, -EINVAL },
	{ "1 G",                  UNTOUCHED, -EINVAL },
	{ "1P",                   UNTOUCHED, -EINVAL },
	{ "1KK",                  UNTOUCHED, -EINVAL },
}, duration_cases[] = {
	{ "0",                    0,         0 },
	{ "90",                   90000,     0 },
	{ "90s",                  90000,     0 },
	{ "250ms",                250,       0 },
	{ "5m",                   300000,    0 },
	{ "1h30m",                5400000,   0 },
	{ "2d",                   172800000, 0 },
	{ "1d2h3m4s5ms",          93784005,  0 },
	{ "90m",                  5400000,   0 },
	{ "213503982334d",        UINT64_C(213503982334) * 86400000, 0 },
	{ "213503982335d",        UNTOUCHED, -ERANGE },
	{ "213503982334d24h",     UNTOUCHED, -ERANGE },
	{ "99999999999999999999", UNTOUCHED, -ERANGE },
	{ "1h99999999999999999999s", UNTOUCHED, -ERANGE },
	{ "",                     UNTOUCHED, -EINVAL },
	{ "s",                    UNTOUCHED, -EINVAL },
	{ "1h30",                 UNTOUCHED, -EINVAL },
	{ "30m1h",                UNTOUCHED, -EINVAL },
	{ "1m1m",                 UNTOUCHED, -EINVAL },
	{ "1w",                   UNTOUCHED, -EINVAL },
	{ "1 h",                  UNTOUCHED, -EINVAL },
	{ "1.5h",                 UNTOUCHED, -EINVAL },
	{ "-5s",                  UNTOUCHED, -EINVAL },
	{ "5sec",                 UNTOUCHED, -EINVAL },
}, milli_cases[] = {
	{ "0",                    0,         0 },
	{ "2",                    2000,      0 },
	{ "0.5",                  500,       0 },
	{ "1.25",                 1250,      0 },
	{ "1.005",                1005,      0 },
	{ "18446744073709551.615", UINT64_MAX, 0 },
	{ "18446744073709551.616", UNTOUCHED, -ERANGE },
	{ "18446744073709552",    UNTOUCHED, -ERANGE },
	{ "",                     UNTOUCHED, -EINVAL },
	{ ".5",                   UNTOUCHED, -EINVAL },
	{ "5.",                   UNTOUCHED, -EINVAL },
	{ "1.0005",               UNTOUCHED, -EINVAL },
	{ "1.5.5",                UNTOUCHED, -EINVAL },
	{ "1,5",                  UNTOUCHED, -EINVAL },
	{ "-1",                   UNTOUCHED, -EINVAL },
};

static int
parse_count(const char *text, uint64_t *ret_n, struct err *err)
{
	return num_parse_count(text, 2, 100, ret_n, err);
}

static void
check_cases(const struct num_case *cases, size_t n,
            int (*parse)(const char *, uint64_t *, struct err *))
{
	for (size_t i = 0; i < n; i++) {
		struct err err = {0};
		uint64_t got = UNTOUCHED;

		if (parse(cases[i].text, &got, &err) != cases[i].r || got != cases[i].want)
			test_fail(__FILE__, __LINE__, "'%s' gives %llu, error %d (%s)",
			          cases[i].text, (unsigned long long)got, err.code, err.text);
		CHECK((cases[i].r < 0) == (err.text[0] != '\0'));
		CHECK(parse(cases[i].text, &got, NULL) == cases[i].r);
	}
}

TEST(num_parse_count)
{
	check_cases(count_cases, ARRAY_LEN(count_cases), parse_count);
}

TEST(num_parse_size)
{
	check_cases(size_cases, ARRAY_LEN(size_cases), num_parse_size);
}

TEST(num_parse_duration)
{
	check_cases(duration_cases, ARRAY_LEN(duration_cases), num_parse_duration);
}

TEST(num_parse_milli)
{
	check_cases(milli_cases, ARRAY_LEN(milli_cases), num_parse_milli);
}

TEST(num_explains_valid_values)
{
	struct err err = {0};
	uint64_t n;

	num_parse_size("lots", &n, &err);
	CHECK_STR(err.text, "'lots' is not a size such as 512M or 4G");
	num_parse_duration("soon", &n, &err);
	CHECK_STR(err.text, "'soon' is not a time such as 90s, 30m or 1h30m");
	num_parse_count("many", 1, 9, &n, &err);
	CHECK_STR(err.text, "'many' is not a number");
	num_parse_count("10", 1, 9, &n, &err);
	CHECK_STR(err.text, "'10' is not from 1 to 9");
	num_parse_size("99999999T", &n, &err);
	CHECK_STR(err.text, "'99999999T' is too large");
}

TEST(num_format_size)
{
	static const struct {
		uint64_t bytes;
		const char *want;
	} cases[] = {
		{ 0, "0B" }, { 1023, "1023B" }, { 1024, "1K" }, { 1536, "1.5K" },
		{ 1025, "1K" }, { 10 * 1024 + 512, "11K" }, { 10 * 1024 + 511, "10K" },
		{ 10188, "9.9K" }, { 10200, "10K" },
		{ 1024 * 1024 - 1, "1M" }, { UINT64_C(512) << 20, "512M" },
		{ UINT64_C(3) << 29, "1.5G" }, { UINT64_C(4) << 30, "4G" },
		{ UINT64_MAX, "16777216T" },
	};
	char text[NUM_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_STR(num_format_size(text, cases[i].bytes), cases[i].want);
}

TEST(num_format_age)
{
	static const struct {
		uint64_t ms;
		const char *want;
	} cases[] = {
		{ 0, "<1s" }, { 999, "<1s" }, { 1000, "1s" }, { 1999, "1s" }, { 200400, "3m20s" },
	};
	char text[NUM_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_STR(num_format_age(text, cases[i].ms), cases[i].want);
}

TEST(num_format_duration)
{
	static const struct {
		uint64_t ms;
		const char *want;
	} cases[] = {
		{ 0, "0ms" }, { 250, "250ms" }, { 999, "999ms" }, { 1000, "1s" },
		{ 12345, "12s" }, { 60000, "1m" }, { 200000, "3m20s" }, { 185000, "3m05s" },
		{ 7500000, "2h05m" }, { 3600000, "1h" }, { 3659999, "1h" },
		{ UINT64_C(4) * 86400000, "4d" }, { UINT64_C(29) * 3600000, "1d05h" },
		{ UINT64_MAX, "213503982334d14h" },
	};
	char text[NUM_TEXT_MAX];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK_STR(num_format_duration(text, cases[i].ms), cases[i].want);
}
