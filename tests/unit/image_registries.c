/* image_registries.c - tests of image/registries. */
#include "image/registries.h"

#include <errno.h>

#include "base/err.h"
#include "test.h"

TEST(registries_parse)
{
	static const char text[] =
		"registries:\n"
		"  Docker.io: {mirrors: [Mirror.example:5000/hub/x, '[::1]:5000'], ca: /etc/ca.pem, realm: Login.example}\n"
		"  lab:5000: {insecure: true, mirrors: one.example}\n"
		"limits: {blob: 1G, image: 2G}\n";
	OWN(registries_free) struct registries r = {0};
	const struct registries_row *row;

	CHECK_OK(registries_parse("f", text, strlen(text), &r, NULL));
	CHECK(r.n == 2 && r.blob_max == 1ull << 30 && r.image_max == 2ull << 30);
	row = registries_find(&r, "docker.io");
	CHECK(row != NULL && row->n_mirrors == 2 && !row->insecure);
	CHECK_STR(row->mirrors[0], "mirror.example:5000/hub/x");
	CHECK_STR(row->mirrors[1], "[::1]:5000");
	CHECK_STR(row->ca, "/etc/ca.pem");
	CHECK_STR(row->realm, "login.example");
	row = registries_find(&r, "lab:5000");
	CHECK(row != NULL && row->insecure && row->n_mirrors == 1 && row->ca == NULL);
	CHECK(registries_find(&r, "lab") == NULL);
}

TEST(registries_parse_nothing)
{
	OWN(registries_free) struct registries r = {0};

	CHECK_OK(registries_parse("f", "", 0, &r, NULL));
	CHECK(r.n == 0 && registries_find(&r, "a") == NULL);
}

TEST(registries_parse_is_strict)
{
	static const char *const bad[] = { "[]", "x: y", "registries: []", "registries: {a: b}", "registries: {'https://a': {}}",
		"registries: {a/b: {}}", "registries: {a: {mirrors: ['https://b']}}", "registries: {a: {mirrors: [b/../c]}}",
		"registries: {a: {mirrors: [b//c]}}", "registries: {a: {mirrors: [b/C]}}", "registries: {a: {insecure: maybe}}",
		"registries: {a: {ca: ca.pem}}", "registries: {a: {realm: 'b:1'}}", "registries: {a: {realm: b/c}}",
		"registries: {a: {mirrors: [1,2,3,4,5,6,7,8,9]}}", "registries: {a: {other: 1}}", "limits: {blob: x}",
		"limits: {blob: 0}", "limits: {other: 1G}", "registries: {a:0: {}}", "limits: 1" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct registries r = {0};
		struct err err = {0};

		if (registries_parse("f", bad[i], strlen(bad[i]), &r, &err) == 0)
			test_fail(__FILE__, __LINE__, "accepted: %s", bad[i]);
		CHECK(strncmp(err.text, "f:1:", 4) == 0 && r.rows == NULL);
	}
}

TEST(registries_is_name)
{
	static const char *const good[] = { "a", "a.b-c:5000", "[::1]", "[::1]:5000", "127.0.0.1:1" };
	static const char *const bad[] = { "", "a:", "a:0", "a:65536", "a b", "[]", "[::1", "[::1]x", "a@b", "/a", "a/" };

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		CHECK(registries_is_name(good[i], false) && registries_is_name(good[i], true));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		CHECK(!registries_is_name(bad[i], true));
	CHECK(registries_is_name("a/b/c_d", true) && !registries_is_name("a/b", false));
}
