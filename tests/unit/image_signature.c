/* image_signature.c - tests of image/signature and image/signature_doc. */
#include "image/signature.h"

#include <errno.h>

#include "base/codec.h"
#include "base/err.h"
#include "image/signature_doc.h"
#include "test.h"

#define DIGEST "sha256:abababababababababababababababababababababababababababababababab"
#define OTHER "sha256:cdababababababababababababababababababababababababababababababab"
#define PAYLOAD(reference, digest, type) \
	"{\"critical\":{\"identity\":{\"docker-reference\":\"" reference "\"},\"image\":" \
	"{\"docker-manifest-digest\":\"" digest "\"},\"type\":\"" type "\"},\"optional\":null}"
#define COSIGN "cosign container image signature"

static const char payload[] = PAYLOAD("docker.io/library/debian", DIGEST, COSIGN);

/* Keys, and their signatures of PAYLOAD by openssl(1). */
static const struct {
	const char *key, *signature;
} signed_cases[] = {
	{ /* p256 */
	  "-----BEGIN PUBLIC KEY-----\n"
	  "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEP7QgTMwPEOnuZTa6VK+5loAJSjsn\n"
	  "FNTg5KiG0OUpq6BTtZPorNsbGQGSnYPMpQOfuBul7dtv8T2UVqiKhwsRxw==\n"
	  "-----END PUBLIC KEY-----\n",
	  "MEUCIQCLYFWiPrIkxTXhhHcra0tpMQz/1Fpg5sjJBX+CFKGsYQIgGiyqNXOvTmg3qLJqgurJpRbHmQKQoowbNrzFL9"
	  "iIZqw=" },
	{ /* ed25519 */
	  "-----BEGIN PUBLIC KEY-----\n"
	  "MCowBQYDK2VwAyEAbCZQap+rhFJnZAeFPagsfy3uiy0GAIEK9GCcJIqjskk=\n"
	  "-----END PUBLIC KEY-----\n",
	  "aKbxiRsy6iCpakEUO8h85rjdZQrtICItJbJttjuCHP0NAEj5fJXHf6+sADShSCa6lxW5C7OVnl2bOiQ88is9DA==" },
	{ /* rsa */
	  "-----BEGIN PUBLIC KEY-----\n"
	  "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEAyAqsKqGnEdZVIqlz7UxR\n"
	  "x47T8vjDTVkSM1bS32U/6uwUm4CtQsx4OY+HFJTecQWfLy/RVrREE/x4tpH0cXdt\n"
	  "FbwkeNFsYNG/C4vxPgi7/tBW4VO290PAbO0VG6HDTpo/KaSgZ8NwR6wsS+l5Pctp\n"
	  "8CD4OiN83rGUhW9N0FoCycTcMxmsT2qpxCWNEiBCLz+dIjvOcu3m1+lfYW+84lMu\n"
	  "Ve1TZlgIXFZWSvGzotrSAcb87Thz/k9zjvdho6cL/1V3CaCQlG8NJk8XcmHTtwjq\n"
	  "CCBK7QWzacmjNbwZxNTjxHW6Ijz80RaRHDcv/RZfZtcucIJrUoqqNR3fehEZlnpP\n"
	  "kwIDAQAB\n"
	  "-----END PUBLIC KEY-----\n",
	  "sG+W3NNOm8hlWIKuYnCAA3y91ef/m0HtOVmMkw7V3R0jA+m8SPahs9V7MDpZEDovoHurSVSN3WtBMkRy3I9bM6uKN/"
	  "tH4htMw/osr8Skv1UXwPubG+iQnY4MwIF7eHYwUtUI/PEdZbOyZ4oknvKBbWnGaLn1w/ExhKQjfNKq6bym2ZHZap2Z"
	  "xxb43JmNhgOy4Zv0Y0PA9i3+M4JXZh5gMe4823DvM/PHhGJtzZ2tTp/PMsmw7sTMhKKpIIFmKwRqFyqU8Oh12+emWj"
	  "ETR4td7ir7BFW2jPUC1KLw4YotZAP3EsdXhpGDmEVvfgK+0shDk+KIOBrGsvUIyvsESbv6kQ==" },
};

/* A curve that is not used for images. */
static const char strange_key[] =
	  "-----BEGIN PUBLIC KEY-----\n"
	  "MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAEk1rkC9EaHlQ+TYuIWfCsW+hQS6p1HQJF\n"
	  "gWYwKcM+T9Fm2cgZ5LXYEMsI32IUFBh8SM/yLdVYFlgxC1PwaOJsgg==\n"
	  "-----END PUBLIC KEY-----\n";

TEST(signature_is_by)
{
	for (size_t i = 0; i < ARRAY_LEN(signed_cases); i++) {
		OWN(signature_key_freep) struct signature_key *key = NULL;
		const char *text = signed_cases[i].signature;
		unsigned char bytes[SIGNATURE_MAX];
		char changed[sizeof(payload)];
		size_t n;

		CHECK_OK(signature_read_key(signed_cases[i].key, strlen(signed_cases[i].key), &key, NULL));
		CHECK_OK(codec_unbase64(CODEC_BASE64, text, strlen(text), bytes, sizeof(bytes), &n));
		CHECK(signature_is_by(key, payload, strlen(payload), bytes, n));
		CHECK(!signature_is_by(key, payload, strlen(payload) - 1, bytes, n));
		CHECK(!signature_is_by(key, payload, strlen(payload), bytes, n - 1));
		CHECK(!signature_is_by(key, payload, strlen(payload), bytes, 0));
		memcpy(changed, payload, sizeof(payload));
		changed[20] ^= 1;
		CHECK(!signature_is_by(key, changed, strlen(changed), bytes, n));
		bytes[n / 2] ^= 1;
		CHECK(!signature_is_by(key, payload, strlen(payload), bytes, n));
	}
}

TEST(signature_of_another_key)
{
	for (size_t i = 0; i < ARRAY_LEN(signed_cases); i++) {
		OWN(signature_key_freep) struct signature_key *key = NULL;
		const char *text = signed_cases[(i + 1) % ARRAY_LEN(signed_cases)].signature;
		unsigned char bytes[SIGNATURE_MAX];
		size_t n;

		CHECK_OK(signature_read_key(signed_cases[i].key, strlen(signed_cases[i].key), &key, NULL));
		CHECK_OK(codec_unbase64(CODEC_BASE64, text, strlen(text), bytes, sizeof(bytes), &n));
		CHECK(!signature_is_by(key, payload, strlen(payload), bytes, n));
	}
}

TEST(signature_read_key_is_strict)
{
	static const char *const bad[] = { "", "x", "-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----\n", strange_key };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct signature_key *key = NULL;

		CHECK_ERR(signature_read_key(bad[i], strlen(bad[i]), &key, NULL), EINVAL);
		CHECK(key == NULL);
	}
}

static const struct {
	const char *payload, *repository, *tag;
	int want;
} payload_cases[] = {
	{ payload, "docker.io/library/debian", NULL, 0 },
	{ PAYLOAD("index.docker.io/library/debian", DIGEST, COSIGN), "docker.io/library/debian", NULL, 0 },
	{ PAYLOAD("docker.io/library/debian:12", DIGEST, COSIGN), "docker.io/library/debian", "12", 0 },
	{ PAYLOAD("docker.io/library/debian:11", DIGEST, COSIGN), "docker.io/library/debian", "12", EPERM },
	{ PAYLOAD("docker.io/library/debian:12", DIGEST, COSIGN), "docker.io/library/debian", NULL, EPERM },
	{ PAYLOAD("r.example/a@" DIGEST, DIGEST, COSIGN), "r.example/a", "12", 0 },
	{ PAYLOAD("r.example/a@" OTHER, DIGEST, COSIGN), "r.example/a", "12", EPERM },
	{ PAYLOAD("r.example/a", DIGEST, COSIGN), "r.example/ab", NULL, EPERM },
	{ PAYLOAD("r.example/ab", DIGEST, COSIGN), "r.example/a", NULL, EPERM },
	{ PAYLOAD("library/debian", DIGEST, COSIGN), "docker.io/library/debian", NULL, EPERM },
	{ PAYLOAD("", DIGEST, COSIGN), "r.example/a", NULL, EPERM },
	{ PAYLOAD("r.example/a", OTHER, COSIGN), "r.example/a", NULL, EPERM },
	{ PAYLOAD("r.example/a", "", COSIGN), "r.example/a", NULL, EPERM },
	{ PAYLOAD("r.example/a", DIGEST, "other"), "r.example/a", NULL, EBADMSG },
	{ PAYLOAD("r.example/a\\u0000", DIGEST, COSIGN), "r.example/a", NULL, EBADMSG },
	{ "{}", "r.example/a", NULL, EBADMSG }, { "", "r.example/a", NULL, EBADMSG }, { "[]", "r.example/a", NULL, EBADMSG },
	{ "{\"critical\":{\"type\":\"" COSIGN "\"}}", "r.example/a", NULL, EPERM },
};

TEST(signature_check_payload)
{
	for (size_t i = 0; i < ARRAY_LEN(payload_cases); i++)
		if (signature_check_payload(payload_cases[i].payload, strlen(payload_cases[i].payload), DIGEST,
		                            payload_cases[i].repository, payload_cases[i].tag, NULL) != -payload_cases[i].want)
			test_fail(__FILE__, __LINE__, "%s for %s", payload_cases[i].payload, payload_cases[i].repository);
}

#define LAYER(type, size, signature) "{\"mediaType\":\"" type "\",\"digest\":\"" DIGEST "\",\"size\":" size \
	",\"annotations\":{\"" SIGNATURE_ANNOTATION "\":\"" signature "\"}}"

TEST(signatures_parse)
{
	static const char text[] = "{\"layers\":[" LAYER("x", "3", "YWJj") "," LAYER(SIGNATURE_MEDIA_TYPE, "3", "YWJj") ","
		LAYER(SIGNATURE_MEDIA_TYPE, "99999999", "YWJj") "," LAYER(SIGNATURE_MEDIA_TYPE, "3", "!") ",1]}";
	OWN(signatures_free) struct signatures s = {0};

	CHECK_OK(signatures_parse(text, strlen(text), &s, NULL));
	CHECK(s.n == 1 && s.list[0].size == 3 && s.list[0].len == 3 && memcmp(s.list[0].bytes, "abc", 3) == 0);
	CHECK_STR(s.list[0].digest, DIGEST);
	CHECK_ERR(signatures_parse("{}", 2, &s, NULL), EBADMSG);
}

TEST(signatures_parse_referrers)
{
	static const char text[] = "{\"manifests\":[{\"artifactType\":\"x\",\"digest\":\"" DIGEST "\"},"
		"{\"artifactType\":\"" SIGNATURE_ARTIFACT "\",\"digest\":\"../x\"},"
		"{\"artifactType\":\"" SIGNATURE_ARTIFACT "\",\"digest\":\"" OTHER "\"}]}";
	char digests[SIGNATURES_MAX][HASH_NAME + 1];

	CHECK(signatures_parse_referrers(text, strlen(text), digests, NULL) == 1);
	CHECK_STR(digests[0], OTHER);
	CHECK_ERR(signatures_parse_referrers("[]", 2, digests, NULL), EBADMSG);
}

TEST(signatures_are_kept)
{
	struct signature list[2] = { { .bytes = "xyz", .len = 3, .size = 5 }, { .bytes = "a", .len = 1 } };
	struct signatures one = { list, 2 };
	OWN(signatures_free) struct signatures again = {0};
	OWN(freep) char *text = NULL;

	list[0].payload = strdup("hello");
	CHECK_OK(signatures_write(&one, &text, NULL));
	free(list[0].payload);
	CHECK_OK(signatures_read(text, strlen(text), &again, NULL));
	CHECK(again.n == 1 && again.list[0].size == 5 && again.list[0].len == 3);
	CHECK(memcmp(again.list[0].payload, "hello", 5) == 0 && memcmp(again.list[0].bytes, "xyz", 3) == 0);
	CHECK_ERR(signatures_read("[{}]", 4, &again, NULL), EBADMSG);
}
