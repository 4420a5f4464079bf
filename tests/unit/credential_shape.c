/* credential_shape.c - tests of credential/shape. */
#include <errno.h>

#include "base/err.h"
#include "credential/shape.h"
#include "test.h"

static const struct {
	const char *shape, *value;
	int fits;
} fit_cases[] = {
	{ "ghp_{w30}{crc62}", "ghp_012345678901234567890123456789" "0pV6Ps", 1 },
	{ "ghp_{w30}{crc62}", "ghp_012345678901234567890123456789" "0pV6P_", 0 },
	{ "sk-ant-{a3-8}-{u80+}", "sk-ant-api03-short", 0 },
	{ "{d8-10}:AA{u5}", "123456789:AAabc-_", 1 },
	{ "{d8-10}:AA{u5}", "1234567:AAabc-_", 0 },
	{ "{u2+}-{d2}", "a-b-c-12", 1 },
	{ "{u2+}-{d2}", "a-b-c-1", 0 },
	{ "{h4}", "abcd", 1 },
	{ "{h4}", "abcD", 0 },
	{ "{h4}", "abcde", 0 },
	{ "AKIA{b16}", "AKIAABCDEFGH234567QR", 1 },
	{ "AKIA{b16}", "AKIAABCDEFGH234567Q1", 0 },
};

TEST(vault_shape_fits)
{
	for (size_t i = 0; i < ARRAY_LEN(fit_cases); i++) {
		struct shape shape, exact;
		size_t n = 0;
		bool fits;

		CHECK_OK(shape_parse(fit_cases[i].shape, &shape, NULL));
		fits = shape_fit(&shape, fit_cases[i].value, strlen(fit_cases[i].value), &exact);
		if (fits != (fit_cases[i].fits != 0))
			test_fail(__FILE__, __LINE__, "%s and %s", fit_cases[i].shape, fit_cases[i].value);
		for (size_t k = 0; fits && k < exact.n; k++) {
			CHECK_U64(exact.items[k].min, exact.items[k].max);
			n += exact.items[k].min;
		}
		CHECK(!fits || n == strlen(fit_cases[i].value));
	}
}

static const struct { const char *shape, *says; } bad_cases[] = {
	{ "", "would be the same" },
	{ "abc", "would be the same" },
	{ "{q4}", "'{q4}' in a shape" },
	{ "{w0}", "'{w0}'" },
	{ "{w4", "'{w4'" },
	{ "{w5-4}", "'{w5-4}'" },
	{ "{w99999}", "'{w99999}'" },
	{ "{", "in a shape" },
	{ "{crc62}", "{crc62} in a shape stands behind" },
	{ "{w29}{crc62}", "{crc62} in a shape stands behind" },
	{ "a b{w4}", "printable" },
	{ "{w4096}{w4096}", "at most 4096" },
};

TEST(vault_shape_refuses)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_cases); i++) {
		struct shape shape;
		struct err err = {0};

		CHECK_ERR(shape_parse(bad_cases[i].shape, &shape, &err), EINVAL);
		if (strstr(err.text, bad_cases[i].says) == NULL)
			test_fail(__FILE__, __LINE__, "%s: %s", bad_cases[i].shape, err.text);
	}
}

/* Such a comparison would take years if every way were tried. */
TEST(vault_shape_is_bounded)
{
	char value[SHAPE_TEXT_MAX];
	struct shape shape, exact;

	memset(value, 'a', sizeof(value));
	CHECK_OK(shape_parse("{w1+}{w1+}{w1+}{w1+}{w1+}{w1+}{w1+}{w1+}!{w1+}", &shape, NULL));
	CHECK(!shape_fit(&shape, value, sizeof(value), &exact));
}

/* As text, literals as they are and items in braces. */
static const char *
guess(const char *value)
{
	static char text[512];
	struct shape s;
	size_t n = 0;

	shape_guess(value, strlen(value), &s);
	if (s.kind != SHAPE_ITEMS)
		return s.kind == SHAPE_JWT ? "jwt" : s.kind == SHAPE_PEM ? "pem" :
		       s.kind == SHAPE_BASE64 ? "base64" : "certificate";
	for (size_t i = 0; i < s.n; i++)
		n += (size_t)(s.items[i].class == 0
		              ? snprintf(text + n, sizeof(text) - n, "%.*s", (int)s.items[i].min, s.items[i].at)
		              : snprintf(text + n, sizeof(text) - n, "{%c%zu}", s.items[i].class,
		                         s.items[i].min));
	return text;
}

static const struct { const char *value, *shape; } guess_cases[] = {
	{ "hunter2", "{a7}" },
	{ "0123456789abcdef0123456789abcdef", "{h32}" },
	{ "sk_live_51HxyzABCDEFGHIJKLMNOPqrstuv", "sk_live_{w28}" },
	{ "glpat-AbCdEfGhIjKlMnOpQrSt", "glpat-{w20}" },
	/* Words that nobody documents may be of the secret. */
	{ "acme-v2-9aBxZ0000111122223333444455556666", "{a4}-{a2}-{w33}" },
	{ "hunter_two_0123456789ABCDEFGHabcdefgh", "{u37}" },
	{ "3fa85f64-5717-4562-b3fc-2c963f66afa6", "{h8}-{d4}-{d4}-{h4}-{h12}" },
	{ "correct-horse-battery-staple", "{a7}-{a5}-{a7}-{a6}" },
	{ "p@ss w0rd!", "{w10}" },
	{ "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "jwt" },
	{ "-----BEGIN RSA PRIVATE KEY-----\nMII", "pem" },
	{ "-----BEGIN CERTIFICATE-----\nMII", "certificate" },
	{ "q83vEjRWeJCrze8SNFZ4kA==", "base64" },
	{ "12345678", "{d8}" },
	{ "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP", "{b32}" },
	/* Too short behind it to be anything but a password. */
	{ "secret-Pa55word", "{a6}-{w8}" },
};

TEST(vault_shape_guesses)
{
	for (size_t i = 0; i < ARRAY_LEN(guess_cases); i++)
		CHECK_STR(guess(guess_cases[i].value), guess_cases[i].shape);
}

TEST(shape_classes_have_their_alphabets)
{
	for (int class = 1; class < 128; class++) {
		const char *alphabet = shape_alphabet((char)class);

		for (int c = 0; c < 256; c++)
			CHECK(shape_class_has((char)class, (unsigned char)c) ==
			      (c != 0 && alphabet != NULL && strchr(alphabet, c) != NULL));
	}
}
