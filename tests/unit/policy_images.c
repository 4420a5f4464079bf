/* policy_images.c - tests of policy/policy_images. */
#include "policy/policy_images.h"

#include <errno.h>

#include "base/err.h"
#include "policy/policy_yaml.h"
#include "test.h"

static const struct {
	const char *yaml, *text;        /* NULL: refused */
} read_cases[] = {
	{ "{require: digest}", "digest" },
	{ "{require: signature, keys: [/a.pub, /b c.pub]}", "signature:/a.pub,/b c.pub" },
	{ "{require: signature, keys: /a.pub}", "signature:/a.pub" },
	{ "{keys: [/a.pub], require: [digest, signature]}", "digest;signature:/a.pub" },
	{ "{}", NULL }, { "signature", NULL }, { "{require: both}", NULL }, { "{require: []}", NULL },
	{ "{require: signature}", NULL }, { "{require: signature, keys: []}", NULL },
	{ "{require: digest, keys: [/a.pub]}", NULL }, { "{require: signature, keys: [a.pub]}", NULL },
	{ "{require: signature, keys: ['/a,b']}", NULL }, { "{require: signature, keys: ['/a;b']}", NULL },
	{ "{require: signature, keys: [{a: b}]}", NULL }, { "{require: digest, other: x}", NULL },
};

TEST(policy_images_read)
{
	char text[POLICY_IMAGES_TEXT_MAX + 1];

	for (size_t i = 0; i < ARRAY_LEN(read_cases); i++) {
		OWN(node_freep) struct node *root = NULL;
		struct policy_images images = {0}, again;
		struct err err = {0};
		int r;

		CHECK_OK(node_parse("x", read_cases[i].yaml, strlen(read_cases[i].yaml), &root, &err));
		r = policy_images_read(root, &images, &err);
		CHECK((r == 0) == (read_cases[i].text != NULL));
		if (r < 0) {
			CHECK(strncmp(err.text, "x:1:", 4) == 0 && !images.is_set);
			continue;
		}
		CHECK_STR(policy_images_text(&images, text), read_cases[i].text);
		CHECK_OK(policy_images_parse(text, &again, NULL));
		CHECK(memcmp(&images, &again, sizeof(images)) == 0);
	}
}

static const struct {
	const char *one, *two, *both;
} add_cases[] = {
	{ "", "", "" },
	{ "", "digest", "digest" },
	{ "digest", "", "digest" },
	{ "digest", "signature:/a", "digest;signature:/a" },
	{ "signature:/a", "signature:/a", "signature:/a" },
	{ "signature:/a,/b", "signature:/a", "signature:/a,/b;signature:/a" },
	{ "signature:/a;signature:/b", "digest;signature:/b;signature:/c", "digest;signature:/a;signature:/b;signature:/c" },
};

TEST(policy_images_add)
{
	char text[POLICY_IMAGES_TEXT_MAX + 1];

	for (size_t i = 0; i < ARRAY_LEN(add_cases); i++) {
		struct policy_images one, two;

		CHECK_OK(policy_images_parse(add_cases[i].one, &one, NULL));
		CHECK_OK(policy_images_parse(add_cases[i].two, &two, NULL));
		CHECK_OK(policy_images_add(&one, &two, NULL));
		CHECK_STR(policy_images_text(&one, text), add_cases[i].both);
		CHECK(one.is_set == (add_cases[i].both[0] != '\0'));
	}
}

TEST(policy_images_have_a_maximum)
{
	struct policy_images all = {0}, one = {0};
	char text[64];
	int r = 0;

	for (int i = 0; r == 0 && i < 1000; i++) {
		snprintf(text, sizeof(text), "signature:/key-%d", i);
		CHECK_OK(policy_images_parse(text, &one, NULL));
		r = policy_images_add(&all, &one, NULL);
	}
	CHECK_ERR(r, E2BIG);
}

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(policy_images_check_engine)
{
	static const struct { const char *require, *ref; bool is_compared; int error; } cases[] = {
		{ "", "box:1", false, 0 },
		{ "digest", "box:1", false, EPERM },
		{ "digest", "box:1", true, 0 },
		{ "digest", "box@sha256:" HEX, false, 0 },
		{ "digest", "sha256:" HEX, false, 0 },
		{ "digest", "box@sha256:", false, EPERM },
		{ "digest", "box@sha256:" HEX "0", false, EPERM },
		{ "digest", "sha256:" HEX "@1", false, EPERM },
		{ "signature:/a", "box@sha256:" HEX, true, ENOTSUP },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct policy_images images = {0};

		CHECK_OK(policy_images_parse(cases[i].require, &images, NULL));
		CHECK_ERR(policy_images_check_engine(&images, cases[i].ref, cases[i].is_compared, NULL), cases[i].error);
	}
}

TEST(policy_images_check_folder)
{
	static const struct { const char *require; int error; } cases[] = { { "", 0 }, { "digest", EPERM },
		{ "signature:/a", EPERM } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct policy_images images = {0};

		CHECK_OK(policy_images_parse(cases[i].require, &images, NULL));
		CHECK_ERR(policy_images_check_folder(&images, NULL), cases[i].error);
	}
}

TEST(policy_images_parse_is_strict)
{
	static const char *const bad[] = { "signature", "signature:", "signature:a", "signature:/a,", "digests", "digest,x",
		";signature:/a;x", "signature:/a,b", " digest" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct policy_images images = {0};

		CHECK_ERR(policy_images_parse(bad[i], &images, NULL), EINVAL);
		CHECK(!images.is_set);
	}
}
