/* sign_options.c - tests of sign/sign_options. */
#include "sign/sign_options.h"

#include <errno.h>

#include "base/err.h"
#include "scheme_lab.h"

#define PAIRS_MAX 12

/* "name=value|name=value" taken apart, until the next one is. */
static size_t
pairs_of(const char *text, const char *names[PAIRS_MAX], const char *values[PAIRS_MAX])
{
	static char copy[512];
	char *rest = NULL;
	size_t n = 0;

	CHECK((size_t)snprintf(copy, sizeof(copy), "%s", text) < sizeof(copy));
	for (char *one = strtok_r(copy, "|", &rest); one != NULL; one = strtok_r(NULL, "|", &rest)) {
		char *equals = strchr(one, '=');

		CHECK(equals != NULL && n < PAIRS_MAX);
		*equals = '\0';
		names[n] = one;
		values[n++] = equals + 1;
	}
	return n;
}

static int
read_options(const char *scheme, const char *text, struct sign_options *o, size_t *ret_which,
             struct err *err)
{
	const char *names[PAIRS_MAX], *values[PAIRS_MAX];
	size_t n = pairs_of(text, names, values);

	return sign_options_read(scheme, names, values, n, o, ret_which, err);
}

TEST(sign_options_reads)
{
	struct sign_options o;
	size_t which = 0;

	CHECK_OK(read_options("jwt", "audience=https://a|algorithm=ES256|key-coding=base64url", &o, &which,
	                      NULL));
	CHECK(o.with == &o.jwt && o.jwt.secret == SIGN_BASE64URL);
	CHECK_STR(o.jwt.audience, "https://a");
	CHECK_STR(o.jwt.algorithm, "ES256");
	CHECK_OK(read_options("jwt", "", &o, &which, NULL));
	CHECK(o.jwt.audience == NULL && o.jwt.algorithm == NULL && o.jwt.secret == SIGN_RAW);
	CHECK_OK(read_options("azure-sharedkey", "", &o, &which, NULL));
	CHECK(o.with == NULL);
	CHECK_OK(read_options("azure-sharedkey", "table=true", &o, &which, NULL));
	CHECK(o.with == &o.azure && o.azure.table);
	CHECK_OK(read_options("message", "key-coding=hex", &o, &which, NULL));
	CHECK(o.with == &o.message && o.message.secret == SIGN_HEX);
	CHECK_OK(read_options("hmac", "template=kraken", &o, &which, NULL));
	CHECK(o.with == &o.hmac && o.hmac.one[0].template == sign_hmac_row("kraken"));
	CHECK_OK(read_options("oauth1", "", &o, &which, NULL));
	CHECK_OK(read_options("sigv4", "service=s3|region=eu-*", &o, &which, NULL));
	CHECK(o.with == &o.sigv4);
	CHECK_STR(o.sigv4.service, "s3");
	CHECK_STR(o.sigv4.region, "eu-*");
	/* What does not sign is not looked at. */
	CHECK_OK(read_options("swap", "region=x|anything=y", &o, &which, NULL));
	CHECK(o.with == NULL);
}

TEST(sign_options_describe)
{
	struct sign_key from = sl_key("pl4ce", "cGw0Y2Vob2xkZXI=", "");
	struct sign_key to = sl_key("real-id", "cmVhbA==", "");
	OWN(sl_request_freep) struct sl_request *r = NULL;
	OWN(freep) char *text = NULL, *want = NULL;
	struct sign_options o;
	struct err err = {0};
	size_t which = 0;

	if (read_options("hmac", "message={method}{target}{timestamp}{sha256.hex:{body}}|digest=sha512|"
	                 "coding=base64|key-coding=base64|prefix=v1 |at=header:X-Sig|id=header:X-Key|"
	                 "timestamp=header:X-Time", &o, &which, &err) < 0)
		test_fail(__FILE__, __LINE__, "%s", err.text);
	CHECK(asprintf(&text, "POST https://a.example/x?y=1\nx-key: pl4ce\nx-time: 17\nx-sig: v1 %s\n\nhi",
	               sl_hmac(EVP_sha512(), SIGN_BASE64, "pl4ceholder", "POST/x?y=117"
	                       "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4")) > 0);
	r = sl_request(text);
	CHECK_OK(sl_sign(r, &sign_hmac, o.with, &from, &to));
	CHECK(asprintf(&want, "v1 %s", sl_hmac(EVP_sha512(), SIGN_BASE64, "real", "POST/x?y=117"
	               "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4")) > 0);
	CHECK_STR(sl_field(r, "x-sig"), want);
	CHECK_STR(sl_field(r, "x-key"), "real-id");
}

TEST(sign_options_refuses)
{
	static const struct {
		const char *scheme, *text;
		size_t which;
		const char *why;
	} cases[] = {
		{ "jwt", "algorithm=RS256|audiance=x", 1, "did you mean 'audience'?" },
		{ "jwt", "region=x", 0, "'jwt' has no option 'region'" },
		{ "jwt", "audience=x|audience=y", 1, "the option 'audience' of 'jwt' is given twice" },
		{ "jwt", "algorithm=none", 0, "`algorithm` is one of HS256" },
		{ "jwt", "key-coding=s3cret-canary", 0, "how the secret is written" },
		{ "sigv4", "regoin=x", 0, "did you mean 'region'?" },
		{ "oauth1", "template=x", 0, "has no option 'template'" },
		{ "azure-sharedkey", "table=yes", 0, "true or false" },
		{ "hmac", "", 0, "what is signed" },
		{ "hmac", "digest=sha256", 1, "what is signed" },
		{ "hmac", "template=krakn", 0, "did you mean 'kraken'?" },
		{ "hmac", "template=nothing-like-it", 0, "github, stripe," },
		{ "hmac", "template=kraken|digest=sha256", 1, "leave out `digest`" },
		{ "hmac", "at=header:x|message={bdy}", 1, "is '{body}' meant?" },
		{ "hmac", "message={body}", 0, "where the signature stands" },
		{ "hmac", "message={body}|at=cookie:x", 0, "place 'cookie:x' is not known" },
		{ "hmac", "message={timestamp}|at=header:x", 0, "where the timestamp stands" },
		{ "hmac", "message={body}|at=header:x|digest=md5", 2, "sha1, sha256, sha384 or sha512" },
		{ "hmac", "message={body}|at=header:x|coding=base32", 2, "hex or base64" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct sign_options o;
		struct err err = {0};
		size_t which = 99;

		CHECK(read_options(cases[i].scheme, cases[i].text, &o, &which, &err) < 0);
		if (strstr(err.text, cases[i].why) == NULL || which != cases[i].which ||
		    strstr(err.text, "canary") != NULL)
			test_fail(__FILE__, __LINE__, "%s %s: %zu: %s", cases[i].scheme, cases[i].text, which,
			          err.text);
	}
}
