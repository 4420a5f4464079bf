/* unpack_path.c - the paths of a layer's entries. */
#include <errno.h>

#include "base/err.h"
#include "proc/unpack/unpack.h"
#include "test.h"

static const struct {
	const char *text;
	enum unpack_kind kind;
	const char *path, *name;
	size_t parent;
} good[] = {
	{ "a", UNPACK_ENTRY, "a", "a", 0 },
	{ "./a", UNPACK_ENTRY, "a", "a", 0 },
	{ "/a", UNPACK_ENTRY, "a", "a", 0 },
	{ "//a///b/./c//", UNPACK_ENTRY, "a/b/c", "c", 3 },
	{ "...", UNPACK_ENTRY, "...", "...", 0 },
	{ "..a/b..", UNPACK_ENTRY, "..a/b..", "b..", 3 },
	{ "", UNPACK_TOP, "", "", 0 },
	{ "./", UNPACK_TOP, "", "", 0 },
	{ "/", UNPACK_TOP, "", "", 0 },
	{ "././.", UNPACK_TOP, "", "", 0 },
	{ ".wh.a", UNPACK_WHITEOUT, ".wh.a", "a", 0 },
	{ "d/.wh.a", UNPACK_WHITEOUT, "d/.wh.a", "a", 1 },
	{ "d/.wh.a/", UNPACK_WHITEOUT, "d/.wh.a", "a", 1 },
	{ ".wh....", UNPACK_WHITEOUT, ".wh....", "...", 0 },
	{ ".wh..wh..opq", UNPACK_OPAQUE, ".wh..wh..opq", ".wh..wh..opq", 0 },
	{ "d/.wh..wh..opq", UNPACK_OPAQUE, "d/.wh..wh..opq", ".wh..wh..opq", 1 },
	{ ".wh..wh.plnk", UNPACK_IGNORED, ".wh..wh.plnk", ".wh..wh.plnk", 0 },
	{ ".wh..wh.", UNPACK_IGNORED, ".wh..wh.", ".wh..wh.", 0 },
	{ ".wha", UNPACK_ENTRY, ".wha", ".wha", 0 },
	{ "\xff\xfe", UNPACK_ENTRY, "\xff\xfe", "\xff\xfe", 0 },
};

TEST(unpack_path_parse)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct unpack_path p;

		CHECK_OK(unpack_path_parse(good[i].text, &p, NULL));
		CHECK(p.kind == good[i].kind);
		CHECK_STR(p.text, good[i].path);
		CHECK_STR(p.name, good[i].name);
		CHECK_U64(p.parent, good[i].parent);
	}
}

TEST(unpack_path_refuses)
{
	static const char *const bad[] = { "..", "../a", "a/..", "a/../b", "/..", "./../a", "a/./../..", ".wh.", ".wh..", ".wh...",
		"a/.wh.", "a/.wh...", ".wh.a/b", "a/.wh.b/c", ".wh..wh..opq/a", ".wh..wh.plnk/a" };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = {0};
		struct unpack_path p;

		if (unpack_path_parse(bad[i], &p, &err) != -EBADMSG || err.text[0] == '\0')
			test_fail(__FILE__, __LINE__, "'%s' is accepted", bad[i]);
	}
}

/* N times TEXT. */
static char *
repeat(const char *text, size_t n)
{
	char *all = malloc(n * strlen(text) + 1);

	CHECK(all != NULL);
	for (size_t i = 0; i < n; i++)
		memcpy(all + i * strlen(text), text, strlen(text) + 1);
	return all;
}

TEST(unpack_path_bounds)
{
	static const struct {
		const char *text;
		size_t times;
		int want;
	} cases[] = {
		{ "a", NAME_MAX, 0 }, { "a", NAME_MAX + 1, -EBADMSG }, { "a/", UNPACK_DEPTH_MAX, 0 },
		{ "a/", UNPACK_DEPTH_MAX + 1, -EBADMSG }, { "./", 100000, 0 }, { "///", 100000, 0 },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/", 63, 0 },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/", 64, -EBADMSG },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(freep) char *text = repeat(cases[i].text, cases[i].times);
		struct unpack_path p;

		if (unpack_path_parse(text, &p, NULL) != cases[i].want)
			test_fail(__FILE__, __LINE__, "%zu times '%s'", cases[i].times, cases[i].text);
	}
}
