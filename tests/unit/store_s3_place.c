/* store_s3_place.c - tests of the places in S3. */
#include "store/s3_place.h"

#include <errno.h>

#include "base/err.h"
#include "test.h"

static const struct {
	const char *text, *variable;
	const char *bucket, *prefix, *host, *region;
	unsigned port;
	bool is_tls, in_path;
} place_cases[] = {
	{ "s3://box", NULL, "box", "", "s3.us-east-1.amazonaws.com", "us-east-1", 443, true, false },
	{ "s3://box/", NULL, "box", "", "s3.us-east-1.amazonaws.com", "us-east-1", 443, true, false },
	{ "s3://box/a/b/", NULL, "box", "a/b/", "s3.us-east-1.amazonaws.com", "us-east-1", 443, true, false },
	{ "s3://a.dotted.box/a", NULL, "a.dotted.box", "a/", "s3.us-east-1.amazonaws.com", "us-east-1", 443, true, true },
	{ "s3://box", "AWS_REGION=eu-west-1", "box", "", "s3.eu-west-1.amazonaws.com", "eu-west-1", 443, true, false },
	{ "s3://box", "AWS_DEFAULT_REGION=cn-north-1", "box", "", "s3.cn-north-1.amazonaws.com.cn", "cn-north-1", 443, true,
	  false },
	{ "s3://box?region=eu-west-3", "AWS_REGION=eu-west-1", "box", "", "s3.eu-west-3.amazonaws.com", "eu-west-3", 443,
	  true, false },
	{ "s3://box?style=path", NULL, "box", "", "s3.us-east-1.amazonaws.com", "us-east-1", 443, true, true },
	{ "s3://box/p?endpoint=http://127.0.0.1:9000&style=host", NULL, "box", "p/", "127.0.0.1", "us-east-1", 9000, false,
	  false },
	{ "s3://box/p?endpoint=http%3A%2F%2Flocalhost", NULL, "box", "p/", "localhost", "us-east-1", 80, false, true },
	{ "s3://box?endpoint=http://[::1]:81/", NULL, "box", "", "[::1]", "us-east-1", 81, false, true },
	{ "s3://box", "AWS_ENDPOINT_URL=https://Store.example:8443", "box", "", "store.example", "us-east-1", 8443, true, true },
	{ "s3://box", "AWS_ENDPOINT_URL_S3=https://store.example", "box", "", "store.example", "us-east-1", 443, true, true },
	{ "s3://box?endpoint=http://store.example&insecure=yes", NULL, "box", "", "store.example", "us-east-1", 80, false,
	  true },
};

TEST(s3_place_parse)
{
	for (size_t i = 0; i < ARRAY_LEN(place_cases); i++) {
		char *environment[] = { (char *)(uintptr_t)place_cases[i].variable, NULL };
		struct s3_place p;
		struct err err = {0};

		if (s3_place_parse(place_cases[i].text, environment, &p, &err) < 0)
			test_fail(__FILE__, __LINE__, "%s", err.text);
		CHECK_STR(p.bucket, place_cases[i].bucket);
		CHECK_STR(p.prefix, place_cases[i].prefix);
		CHECK_STR(p.host, place_cases[i].host);
		CHECK_STR(p.region, place_cases[i].region);
		CHECK_U64(p.port, place_cases[i].port);
		CHECK(p.is_tls == place_cases[i].is_tls && p.in_path == place_cases[i].in_path);
	}
}

static const struct {
	const char *text;
	int code;
	const char *part;               /* of the sentence */
} refused_cases[] = {
	{ "", EINVAL, "s3://BUCKET" },
	{ "S3://box", EINVAL, "s3://BUCKET" },
	{ "postgres://x", EINVAL, "s3://BUCKET" },
	{ "s3://", EINVAL, "name of a bucket" },
	{ "s3://ab", EINVAL, "name of a bucket" },
	{ "s3://Box", EINVAL, "name of a bucket" },
	{ "s3://user:pass@box", EINVAL, "name of a bucket" },
	{ "s3://b..x", EINVAL, "name of a bucket" },
	{ "s3://box-", EINVAL, "name of a bucket" },
	{ "s3://box//a", EINVAL, "prefix" },
	{ "s3://box/a//b", EINVAL, "prefix" },
	{ "s3://box/../b", EINVAL, "prefix" },
	{ "s3://box/a/.", EINVAL, "prefix" },
	{ "s3://box/a b", EINVAL, "prefix" },
	{ "s3://box/a%2fb", EINVAL, "prefix" },
	{ "s3://box?colour=red", EINVAL, "no option 'colour'" },
	{ "s3://box?region=a&region=b", EINVAL, "twice" },
	{ "s3://box?region=", EINVAL, "'region'" },
	{ "s3://box?region=%0a", EINVAL, "'region'" },
	{ "s3://box?region=a/b", EINVAL, "region" },
	{ "s3://box?style=virtual", EINVAL, "style" },
	{ "s3://box?sse=rot13", EINVAL, "sse" },
	{ "s3://box?sse=AES256&kms_key=k", EINVAL, "sse=aws:kms" },
	{ "s3://box?insecure=no", EINVAL, "insecure" },
	{ "s3://box?endpoint=ftp://x", EINVAL, "https://HOST" },
	{ "s3://box?endpoint=https://x/a", EINVAL, "path" },
	{ "s3://box?endpoint=https://u:p@x", EBADMSG, "endpoint" },
	{ "s3://box?endpoint=http://store.example", EPERM, "no TLS" },
	{ "s3://box?endpoint=http://127.0.0.1.example", EPERM, "no TLS" },
	{ "s3://box?endpoint=http://localhost.example", EPERM, "no TLS" },
};

TEST(s3_place_refused)
{
	for (size_t i = 0; i < ARRAY_LEN(refused_cases); i++) {
		struct s3_place p = { .port = 7 };
		struct err err = {0};
		int r = s3_place_parse(refused_cases[i].text, NULL, &p, &err);

		if (r != -refused_cases[i].code || strstr(err.text, refused_cases[i].part) == NULL)
			test_fail(__FILE__, __LINE__, "'%s': %d, %s", refused_cases[i].text, r, err.text);
		CHECK(p.port == 7);
	}
}

TEST(s3_place_encryption)
{
	struct s3_place p;

	CHECK_OK(s3_place_parse("s3://box?sse=aws:kms&kms_key=arn:aws:kms:eu-west-1:1:key/a", NULL, &p, NULL));
	CHECK_STR(p.sse, "aws:kms");
	CHECK_STR(p.kms_key, "arn:aws:kms:eu-west-1:1:key/a");
	CHECK_OK(s3_place_parse("s3://box?sse=AES256", NULL, &p, NULL));
	CHECK_STR(p.sse, "AES256");
}
