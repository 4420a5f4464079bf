/* store_url.c - tests of what is shown of a store's address. */
#include "store/store_url.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "test.h"

static const struct {
	const char *url, *shown;
	bool has_password, is_good;
} cases[] = {
	{ "postgres://db.example.com/name", "postgres://db.example.com/name", false, true },
	{ "postgres://me@db/name", "postgres://db/name", false, true },
	{ "postgres://me:cAnary@db:5433/name?sslmode=require", "postgres://db:5433/name", true, true },
	{ "postgres://me:cAn?ary@db/name", "postgres://db/name", true, true },
	{ "postgres://me:?cAnary@db/name?a=b", "postgres://db/name", true, true },
	{ "postgres://me:cAn?a=b&c@db", "postgres://db", true, true },
	{ "postgres://me:cAn@ary@db/name", "postgres://db/name", true, false },
	{ "postgres://me:cAn/ary@db/name", "postgres://db/name", false, false },
	{ "postgres://db/name?password=cAnary", "postgres://db/name", true, true },
	{ "postgres://db/name?sslmode=require&p%61ssword=cAnary", "postgres://db/name", true, true },
	{ "postgres://db/name?sslpassword=cAnary", "postgres://db/name", true, true },
	{ "postgres://me@db?user=a@b&p%61sswor%64=cAnary", "postgres://db", true, true },
	{ "postgres://db/name?application_name=a@b", "postgres://db/name", false, true },
	{ "postgres://me@a:1,b:2/name", "postgres://a:1,b:2/name", false, true },
	{ "postgres:///name?host=/run/postgresql", "postgres:///name", false, true },
	{ "s3://bucket/a/b/?endpoint=http://me:cAnary@127.0.0.1:9", "s3://bucket/a/b", false, true },
	{ "postgres://", "postgres://", false, true },
	{ "", "", false, true },
};

TEST(store_url)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(freep) char *shown = store_url_shown(cases[i].url);
		struct err err = {0};

		CHECK(strcmp(shown, cases[i].shown) == 0);
		CHECK(strstr(shown, "cAn") == NULL && strstr(shown, "ary") == NULL);
		CHECK(store_url_has_password(cases[i].url) == cases[i].has_password);
		CHECK((store_url_check(cases[i].url, &err) == 0) == cases[i].is_good);
		CHECK(strstr(err.text, "cAn") == NULL);
		CHECK(!store_url_is_plain(cases[i].url) || strncmp(cases[i].url, "postgres", 8) != 0 ||
		      strstr(cases[i].url, "cAn") == NULL);
	}
}
