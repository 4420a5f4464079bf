/* serve_route.c - paths and queries by patterns. */
#include "serve/route.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "test.h"

static const struct {
	const char *pattern, *path;
	const char *first, *second;     /* NULL: it does not match, "": there is no such part */
} match_cases[] = {
	{ "/v1/cells",              "/v1/cells",            "",     "" },
	{ "/v1/cells",              "/v1/cells/",           NULL,   NULL },
	{ "/v1/cells",              "/v1/cell",             NULL,   NULL },
	{ "/v1/cells",              "/v1",                  NULL,   NULL },
	{ "/v1/cells/{id}",         "/v1/cells/a",          "a",    "" },
	{ "/v1/cells/{id}",         "/v1/cells/",           NULL,   NULL },
	{ "/v1/cells/{id}",         "/v1/cells/a/b",        NULL,   NULL },
	{ "/v1/cells/{id}",         "/v1/cells/a%2Fb",      "a/b",  "" },
	{ "/v1/cells/{id}",         "/v1/cells/a%00b",      NULL,   NULL },
	{ "/v1/cells/{id}",         "/v1/cells/%e4",        NULL,   NULL },
	{ "/v1/cells/{id}",         "/v1/cells/%C3%A4+",    "\xc3\xa4+", "" },
	{ "/v1/cells/{id}",         "/v1/cells/%4",         NULL,   NULL },
	{ "/v1/cells/{id}",         "/v1/cells/%",          NULL,   NULL },
	{ "/v1/cells/{id}",         "/v1/cells/%zz",        NULL,   NULL },
	{ "/v1/x/{a}/y/{b*}",       "/v1/x/1/y/2/3",        "1",    "2/3" },
	{ "/v1/x/{a}/y/{b*}",       "/v1/x/1/y/2%2f/%41",   "1",    "2//A" },
	{ "/v1/x/{a}/y/{b*}",       "/v1/x/1/y/",           NULL,   NULL },
	{ "/v1/x/{a}/y/{b}",        "/v1/x//y/2",           NULL,   NULL },
};

TEST(route_match)
{
	for (size_t i = 0; i < ARRAY_LEN(match_cases); i++) {
		OWN(route_params_free) struct route_params params = {0};
		bool matches = route_match(match_cases[i].pattern, match_cases[i].path, &params);

		CHECK(matches == (match_cases[i].first != NULL));
		if (!matches)
			continue;
		CHECK(strcmp(params.at[0] != NULL ? params.at[0] : "", match_cases[i].first) == 0);
		CHECK(strcmp(params.at[1] != NULL ? params.at[1] : "", match_cases[i].second) == 0);
	}
}

static const struct {
	const char *query, *names;
	int want;
	const char *first, *second;
} query_cases[] = {
	{ "",                   NULL,           0,       "-",    "-" },
	{ "",                   "limit after",  0,       "-",    "-" },
	{ "after=x",            "limit after",  0,       "-",    "x" },
	{ "after=x&limit=3",    "limit after",  0,       "3",    "x" },
	{ "after=&limit",       "limit after",  0,       "",     "" },
	{ "&&limit=1&&",        "limit after",  0,       "1",    "-" },
	{ "after=a%26b+c%2b=d", "limit after",  0,       "-",    "a&b c+=d" },
	{ "x=1",                "limit after",  -EINVAL, NULL,   NULL },
	{ "x=1",                NULL,           -EINVAL, NULL,   NULL },
	{ "limi=1",             "limit after",  -EINVAL, NULL,   NULL },
	{ "limit=1&limit=1",    "limit after",  -EINVAL, NULL,   NULL },
	{ "after=%ff",          "limit after",  -EINVAL, NULL,   NULL },
	{ "after=%0",           "limit after",  -EINVAL, NULL,   NULL },
	{ "after=a%00",         "limit after",  -EINVAL, NULL,   NULL },
	{ "=1",                 "limit after",  -EINVAL, NULL,   NULL },
};

TEST(route_query)
{
	for (size_t i = 0; i < ARRAY_LEN(query_cases); i++) {
		char *values[ROUTE_QUERY_MAX] = {0};
		struct err err = {0};
		int r = route_query(query_cases[i].query, query_cases[i].names, values, &err);

		CHECK(r == query_cases[i].want);
		CHECK((r < 0) == (err.text[0] != '\0'));
		if (r == 0) {
			CHECK(strcmp(values[0] != NULL ? values[0] : "-", query_cases[i].first) == 0);
			CHECK(strcmp(values[1] != NULL ? values[1] : "-", query_cases[i].second) == 0);
		}
		route_query_free(values);
	}
}
