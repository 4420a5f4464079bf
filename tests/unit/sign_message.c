/* sign_message.c - tests of sign/message: RFC 9421's own examples, and what is refused. */
#include <errno.h>

#include "base/err.h"
#include "scheme_keys.h"
#include "scheme_lab.h"
#include "sign/scheme_pkey.h"

/* RFC 9421, B.1 and B.2. */
#define TEST_REQUEST                                                        \
	"POST https://example.com/foo?param=Value&Pet=dog\n"                    \
	"date: Tue, 20 Apr 2021 02:07:55 GMT\n"                                 \
	"content-type: application/json\n"                                      \
	"content-digest: sha-512=:WZDPaVn/7XgHaAy8pmojAkGWoRx2UFChF41A2svX+TaPm+AbwAgBWnrIiYllu7BNNy" \
	"ealdVLvRwEmTHWXvJwew==:\n"                                             \
	"content-length: 18\n"
#define TEST_BODY "\n{\"hello\": \"world\"}"

static const char pss_public[] =
	"-----BEGIN PUBLIC KEY-----\n"
	"MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAr4tmm3r20Wd/PbqvP1s2\n"
	"+QEtvpuRaV8Yq40gjUR8y2Rjxa6dpG2GXHbPfvMs8ct+Lh1GH45x28Rw3Ry53mm+\n"
	"oAXjyQ86OnDkZ5N8lYbggD4O3w6M6pAvLkhk95AndTrifbIFPNU8PPMO7OyrFAHq\n"
	"gDsznjPFmTOtCEcN2Z1FpWgchwuYLPL+Wokqltd11nqqzi+bJ9cvSKADYdUAAN5W\n"
	"Utzdpiy6LbTgSxP7ociU4Tn0g5I6aDZJ7A8Lzo0KSyZYoA485mqcO0GVAdVw9lq4\n"
	"aOT9v6d+nb4bnNkQVklLQ3fVAvJm+xdDOp9LCNCN48V2pnDOkFV6+U9nV5oyc6XI\n"
	"2wIDAQAB\n"
	"-----END PUBLIC KEY-----\n";
static const char ed_rfc[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n"
	"-----END PRIVATE KEY-----\n";
static const char shared_secret[] =
	"uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==";

static const struct {
	const char *input, *signature, *id, *secret, *other;
} published[] = {
	{ "sig-b21=();created=1618884473;keyid=\"test-key-rsa-pss\";nonce=\"b3k2pp5k7z-50gnwp.yemd\"",
	  "sig-b21=:d2pmTvmbncD3xQm8E9ZV2828BjQWGgiwAaw5bAkgibUopemLJcWDy/lkbbHAve4cRAtx31Iq786U7it+"
	  "+wgGxbtRxf8Udx7zFZsckzXaJMkA7ChG52eSkFxykJeNqsrWH5S+oxNFlD4dzVuwe8DhTSja8xxbR/Z2cOGdCbzR7"
	  "2rgFWhzx2VjBqJzsPLMIQKhO4DGezXehhWwE56YCE+O6c0mKZsfxVrogUvA4HELjVKWmAvtl6UnCh8jYzuVG5WSb/"
	  "QEVPnP5TmcAnLH1g+s++v6d4s8m0gCw1fV5/SITLq9mhho8K3+7EPYTU8IU1bLhdxO5Nyt8C8ssinQ98Xw9Q==:",
	  "test-key-rsa-pss", pss_public, rsa_real },
	{ "sig-b22=(\"@authority\" \"content-digest\" \"@query-param\";name=\"Pet\");created=1618884473;"
	  "keyid=\"test-key-rsa-pss\";tag=\"header-example\"",
	  "sig-b22=:LjbtqUbfmvjj5C5kr1Ugj4PmLYvx9wVjZvD9GsTT4F7GrcQEdJzgI9qHxICagShLRiLMlAJjtq6N4CDf"
	  "KtjvuJyE5qH7KT8UCMkSowOB4+ECxCmT8rtAmj/0PIXxi0A0nxKyB09RNrCQibbUjsLS/2YyFYXEu4TRJQzRw1rLE"
	  "uEfY17SARYhpTlaqwZVtR8NV7+4UKkjqpcAoFqWFQh62s7Cl+H2fjBSpqfZUJcsIk4N6wiKYd4je2U/lankenQ99P"
	  "ZfB4jY3I5rSV2DSBVkSFsURIjYErOs0tFTQosMTAoxk//0RoKUqiYY8Bh0aaUEb0rQl3/XaVe4bXTugEjHSw==:",
	  "test-key-rsa-pss", pss_public, rsa_real },
	{ "sig-b23=(\"date\" \"@method\" \"@path\" \"@query\" \"@authority\" \"content-type\" "
	  "\"content-digest\" \"content-length\");created=1618884473;keyid=\"test-key-rsa-pss\"",
	  "sig-b23=:bbN8oArOxYoyylQQUU6QYwrTuaxLwjAC9fbY2F6SVWvh0yBiMIRGOnMYwZ/5MR6fb0Kh1rIRASVxFkeG"
	  "t683+qRpRRU5p2voTp768ZrCUb38K0fUxN0O0iC59DzYx8DFll5GmydPxSmme9v6ULbMFkl+V5B1TP/yPViV7KsLN"
	  "mvKiLJH1pFkh/aYA2HXXZzNBXmIkoQoLd7YfW91kE9o/CCoC1xMy7JA1ipwvKvfrs65ldmlu9bpG6A9BmzhuzF8Ei"
	  "m5f8ui9eH8LZH896+QIF61ka39VBrohr9iyMUJpvRX2Zbhl5ZJzSRxpJyoEZAFL2FUo5fTIztsDZKEgM4cUA==:",
	  "test-key-rsa-pss", pss_public, rsa_real },
	{ "sig-b25=(\"date\" \"@authority\" \"content-type\");created=1618884473;"
	  "keyid=\"test-shared-secret\"",
	  "sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:", "test-shared-secret",
	  shared_secret, "b3RoZXI=" },
	{ "sig-b26=(\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" \"content-length\");"
	  "created=1618884473;keyid=\"test-key-ed25519\"",
	  "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WP"
	  "pBKRCw==:", "test-key-ed25519", ed_rfc, ed_real },
};

static char *
with_signature(const char *request, const char *input, const char *signature, const char *body)
{
	char *text = NULL;

	CHECK(asprintf(&text, "%ssignature-input: %s\nsignature: %s\n%s", request, input, signature,
	               body) > 0);
	return text;
}

static const struct sign_message_options base64_secret = { SIGN_BASE64 };

TEST(message_rfc_examples)
{
	for (size_t i = 0; i < ARRAY_LEN(published); i++) {
		struct sign_key from = sl_key(published[i].id, published[i].secret, "");
		struct sign_key to = sl_key("real", published[i].other, "");
		OWN(freep) char *text = with_signature(TEST_REQUEST, published[i].input,
		                                       published[i].signature, TEST_BODY);
		OWN(sl_request_freep) struct sl_request *r = sl_request(text);
		struct http_text id;

		CHECK(sign_message.find(&r->head, &id) && http_text_is(id, published[i].id));
		if (sl_sign(r, &sign_message, &base64_secret, &from, &to) < 0)
			test_fail(__FILE__, __LINE__, "%s: %s", published[i].input, r->error);
		CHECK(!r->wanted_body);
		CHECK(strstr(sl_field(r, "signature-input"), ";keyid=\"real\"") != NULL);
		CHECK(strstr(sl_field(r, "signature"), "=:") != NULL);
		CHECK_OK(sl_sign(r, &sign_message, &base64_secret, &to,
		                 strncmp(from.secret.at, "-----BEGIN PUB", 14) == 0 ? &to : &from));
	}
	/* Where signatures are always the same, all of it comes back. */
	for (size_t i = 3; i < ARRAY_LEN(published); i++) {
		struct sign_key from = sl_key(published[i].id, published[i].secret, "");
		struct sign_key to = sl_key("a \"b\\", published[i].other, "");
		OWN(freep) char *text = with_signature(TEST_REQUEST, published[i].input,
		                                       published[i].signature, TEST_BODY);

		sl_check_there_and_back(text, &sign_message, &base64_secret, &from, &to);
	}
}

/* Signs BASE, which is what is signed before the parameters, with "pl4ceholder". */
static char *
signed_by_hand(const char *request, const char *params, const char *base, const char *body)
{
	OWN(freep) char *all = NULL, *input = NULL, *signature = NULL;

	CHECK(asprintf(&all, "%s\"@signature-params\": %s", base, params) > 0);
	CHECK(asprintf(&input, "s=%s", params) > 0);
	CHECK(asprintf(&signature, "s=:%s:",
	               sl_hmac(EVP_sha256(), SIGN_BASE64, "pl4ceholder", all)) > 0);
	return with_signature(request, input, signature, body);
}

static const struct {
	const char *request, *params, *base, *body;
} by_hand[] = {
	{ "GET http://www.example.com:8080/path?queryString\n",
	  "(\"@target-uri\" \"@scheme\" \"@authority\" \"@request-target\" \"host\")",
	  "\"@target-uri\": http://www.example.com:8080/path?queryString\n\"@scheme\": http\n"
	  "\"@authority\": www.example.com:8080\n\"@request-target\": /path?queryString\n"
	  "\"host\": www.example.com:8080\n", "" },
	{ "GET https://www.example.com/path\n", "(\"@query\" \"@path\");created=1",
	  "\"@query\": ?\n\"@path\": /path\n", "" },
	/* 2.2.8 */
	{ "GET https://www.example.com/parameters?var=this%20is%20a%20big%0Amultiline%20value&bar="
	  "with+plus+whitespace&fa%C3%A7ade%22%3A%20=something\n",
	  "(\"@query-param\";name=\"var\" \"@query-param\";name=\"bar\" "
	  "\"@query-param\";name=\"fa%C3%A7ade%22%3A%20\")",
	  "\"@query-param\";name=\"var\": this%20is%20a%20big%0Amultiline%20value\n"
	  "\"@query-param\";name=\"bar\": with%20plus%20whitespace\n"
	  "\"@query-param\";name=\"fa%C3%A7ade%22%3A%20\": something\n", "" },
	{ "GET https://www.example.com/?a~=x~*-._y\n", "(\"@query-param\";name=\"a%7E\")",
	  "\"@query-param\";name=\"a%7E\": x%7E*-._y\n", "" },
	/* 2.1 and 2.1.3 */
	{ "GET https://www.example.com/\nexample-header: value, with, lots\nx-empty: \n"
	  "example-header: of, commas\n",
	  "(\"example-header\";bs \"example-header\" \"x-empty\");tag=\"t\";expires=5;b;c=?0",
	  "\"example-header\";bs: :dmFsdWUsIHdpdGgsIGxvdHM=:, :b2YsIGNvbW1hcw==:\n"
	  "\"example-header\": value, with, lots, of, commas\n\"x-empty\": \n", "" },
	/* RFC 9530: another digest beside it is not looked at */
	{ "POST https://www.example.com/\ncontent-digest: unixsum=:AA==:, sha-256=:"
	  "X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:\n",
	  "(\"content-digest\")", "\"content-digest\": unixsum=:AA==:, sha-256=:"
	  "X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:\n", "\n{\"hello\": \"world\"}" },
};

TEST(message_components)
{
	struct sign_key from = sl_key("", "pl4ceholder", ""), to = sl_key("", "real", "");

	for (size_t i = 0; i < ARRAY_LEN(by_hand); i++) {
		OWN(freep) char *text = signed_by_hand(by_hand[i].request, by_hand[i].params,
		                                       by_hand[i].base, by_hand[i].body);

		sl_check_there_and_back(text, &sign_message, NULL, &from, &to);
	}
}

static const struct {
	struct scheme_algorithm algorithm;
	const char *placeholder, *real;
} keys[] = {
	{ { "hmac-sha256", SCHEME_HMAC, "SHA256", NULL, 0 }, "pl4ceholder", "real secret" },
	{ { "rsa-pss-sha512", SCHEME_PSS, "SHA512", NULL, 0 }, rsa_placeholder, rsa_real },
	{ { "rsa-v1_5-sha256", SCHEME_RSA, "SHA256", NULL, 0 }, rsa_placeholder, rsa_real },
	{ { "ecdsa-p256-sha256", SCHEME_EC, "SHA256", "prime256v1", 32 }, ec_placeholder, ec_real },
	{ { "ecdsa-p384-sha384", SCHEME_EC, "SHA384", "secp384r1", 48 }, ec384_placeholder,
	  ec384_real },
	{ { "ed25519", SCHEME_ED, NULL, "ED25519", 0 }, ed_placeholder, ed_real },
};

/* The request that keys[WHICH] signs, saying that its algorithm is ALG, if anything. */
static char *
signed_with(size_t which, const char *alg)
{
	OWN(scheme_pkey_drop) struct scheme_pkey key = {0};
	OWN(freep) char *params = NULL, *base = NULL, *input = NULL, *signature = NULL;
	unsigned char bytes[SCHEME_SIGNATURE_MAX];
	OWN(buf_free) struct buf b;
	size_t len;

	CHECK(asprintf(&params, "(\"@method\");keyid=\"k\"%s%s%s", alg != NULL ? ";alg=\"" : "",
	               alg != NULL ? alg : "", alg != NULL ? "\"" : "") > 0);
	CHECK(asprintf(&base, "\"@method\": GET\n\"@signature-params\": %s", params) > 0);
	CHECK_OK(scheme_pkey_read(&keys[which].algorithm, scheme_text(keys[which].placeholder),
	                          SIGN_RAW, "", &key, NULL));
	CHECK_OK(scheme_pkey_sign(&keys[which].algorithm, &key, scheme_text(base), bytes, &len,
	                          NULL));
	buf_init(&b, 4096);
	scheme_put_coded(&b, SIGN_BASE64, bytes, len);
	CHECK(asprintf(&input, "s=%s", params) > 0);
	CHECK(asprintf(&signature, "s=:%.*s:", (int)b.len, (char *)b.data) > 0);
	return with_signature("GET https://a.example/\n", input, signature, "");
}

TEST(message_algorithms)
{
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		struct sign_key from = sl_key("k", keys[i].placeholder, "");
		struct sign_key to = sl_key("r", keys[i].real, "");

		for (size_t j = 0; j <= ARRAY_LEN(keys); j++) {
			const char *alg = j < ARRAY_LEN(keys) ? keys[j].algorithm.name : NULL;
			OWN(freep) char *text = signed_with(i, alg);
			OWN(sl_request_freep) struct sl_request *r = sl_request(text);

			/* It is what it says it is, or says nothing. */
			if (alg != NULL && i != j) {
				CHECK(sl_sign(r, &sign_message, NULL, &from, &to) < 0);
				continue;
			}
			CHECK_OK(sl_sign(r, &sign_message, NULL, &from, &to));
			CHECK_OK(sl_sign(r, &sign_message, NULL, &to, &to));
			from.id = to.id;
			CHECK_ERR(sl_sign(r, &sign_message, NULL, &from, &to), EKEYREJECTED);
			from.id = scheme_text("k");
		}
	}
}

TEST(message_one_of_several)
{
	struct sign_key from = sl_key("mine", "pl4ceholder", ""), to = sl_key("real", "real", "");
	OWN(freep) char *mine = signed_by_hand("", "(\"@method\");keyid=\"mine\"", "\"@method\": GET\n",
	                                       "");
	OWN(freep) char *text = NULL;
	OWN(sl_request_freep) struct sl_request *r = NULL;

	CHECK(asprintf(&text, "GET https://a.example/\nsignature-input: other=(\"@path\");"
	               "keyid=\"x\",  t=()\nsignature: other=:AAAA:, t=:AA==:;x\n%s", mine) > 0);
	r = sl_request(text);
	CHECK_OK(sl_sign(r, &sign_message, NULL, &from, &to));
	CHECK_STR(sl_field(r, "signature-input"), "other=(\"@path\");keyid=\"x\",  t=()");
	CHECK_STR(sl_field(r, "signature"), "other=:AAAA:, t=:AA==:;x");
	CHECK(http_text_is(r->head.fields[2].value, "s=(\"@method\");keyid=\"real\""));
	CHECK_OK(sl_sign(r, &sign_message, NULL, &to, &from));
	from.id = scheme_text("nobody");
	CHECK_ERR(sl_sign(r, &sign_message, NULL, &from, &to), EKEYREJECTED);
}

TEST(message_refuses)
{
	static const struct {
		const char *input, *why;
	} cases[] = {
		{ "s=(\"@method\" \"@status\")", "\"@status\" is not one of a request" },
		{ "s=(\"@signature-params\")", "\"@signature-params\" is not one of a request" },
		{ "s=(\"x-none\")", "the covered field \"x-none\" is not in the request" },
		{ "s=(\"a\";sf)", "the covered component \"a\" has the parameter 'sf', which is not" },
		{ "s=(\"a\";key=\"k\")", "parameter 'key'" },
		{ "s=(\"@method\";req)", "parameter 'req'" },
		{ "s=(\"a\";tr)", "parameter 'tr'" },
		{ "s=(\"@method\";bs)", "parameter 'bs'" },
		{ "s=(\"@query-param\")", "@query-param has no name" },
		{ "s=(\"@query-param\";name=\"q\")", "\"q\" is there more than once" },
		{ "s=(\"@query-param\";name=\"z\")", "\"z\" is not in the query" },
		{ "s=(\"a\" \"a\")", "a component is there twice" },
		{ "s=(\"a\"  \"@path\")", "a component is no text" },
		{ "s=(\"a\"\"@path\")", "parted by one blank" },
		{ "s=(\"A\")", "not in lower case" },
		{ "s=(a)", "a component is no text" },
		{ "s=(\"a\"", "parted by one blank" },
		{ "s=\"a\"", "no list of components" },
		{ "s", "a label is missing" },
		{ "s=(), s=()", "a label is there twice" },
		{ "s=() x", "something follows" },
		{ "s=();keyid=5", "keyid and alg are texts" },
		{ "s=();keyid=\"a\";keyid=\"b\"", "keyid and alg are texts" },
		{ "s=();alg=\"md5\"", "algorithm is none of" },
		{ "s=(\"signature\")", "covers other signatures" },
		{ "u=()", "Signature has the label 'u' of Signature-Input not" },
		{ "s=();keyid=\"other\"", "HTTP message signature is not the placeholder's" },
		{ "s=(), t=()", "names the placeholder's key" },
	};
	struct sign_key from = sl_key("", "pl4ceholder", ""), to = sl_key("", "real", "");

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(freep) char *text = with_signature("GET https://a.example/?q=1&q=2\na: b\n",
		                                       cases[i].input, "s=:AAAA:", "");
		OWN(sl_request_freep) struct sl_request *r = sl_request(text);

		CHECK(sl_sign(r, &sign_message, NULL, &from, &to) < 0);
		if (strstr(r->error, cases[i].why) == NULL)
			test_fail(__FILE__, __LINE__, "%s: %s", cases[i].input, r->error);
	}
}

TEST(message_digest_is_checked)
{
	static const char digest[] = "content-digest: sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9"
	                             "DBPE=:\n";
	struct sign_key from = sl_key("", "pl4ceholder", ""), to = sl_key("", "real", "");
	OWN(freep) char *request = NULL, *base = NULL, *text = NULL;
	OWN(sl_request_freep) struct sl_request *r = NULL;
	struct sign_body good = { "{\"hello\": \"world\"}", 18 }, bad = { "{\"hello\": \"World\"}", 18 };
	enum sign_next next;
	struct err err = {0};

	CHECK(asprintf(&request, "POST https://a.example/\n%s", digest) > 0);
	CHECK(asprintf(&base, "\"content-digest\": %s", digest + strlen("content-digest: ")) > 0);
	text = signed_by_hand(request, "(\"content-digest\")", base, TEST_BODY);
	r = sl_request(text);
	CHECK_ERR(sign_message.sign(NULL, &from, &to, NULL, &r->head, &bad, &r->m, &next, NULL, &err),
	          EBADMSG);
	CHECK(strstr(err.text, "the body is not the one that the sha-256 of Content-Digest") != NULL);
	CHECK_OK(sign_message.sign(NULL, &from, &to, NULL, &r->head, &good, &r->m, &next, NULL, NULL));
}
