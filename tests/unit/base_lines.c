/* base_lines.c - tests of base/lines. */
#include "base/lines.h"

#include "test.h"

TEST(lines_diff)
{
	static const struct { const char *old, *new, *want; } cases[] = {
		{ "a\nb\n",                "a\nb\n",                "" },
		{ "",                      "",                      "" },
		{ "",                      "a\n",                   "@@ 1\n+a\n" },
		{ "a\n",                   "",                      "@@ 1\n-a\n" },
		{ "a",                     "a\n",                   "" },
		{ "1\n2\n3\n4\n5\n6\n",    "1\n2\n3\nx\n5\n6\n",    "@@ 2\n 2\n 3\n-4\n+x\n 5\n 6\n" },
		/* What is far apart is told apart, what is close is not. */
		{ "a\n1\n2\n3\n4\n5\nb\n", "A\n1\n2\n3\n4\n5\nB\n",
		  "@@ 1\n-a\n+A\n 1\n 2\n@@ 5\n 4\n 5\n-b\n+B\n" },
		{ "a\n1\n2\n3\n4\nb\n",    "A\n1\n2\n3\n4\nB\n",    "@@ 1\n-a\n+A\n 1\n 2\n 3\n 4\n-b\n+B\n" },
		/* The rule in front, although the next one is like it. */
		{ "v\n- a\n- b\n",         "v\n- b\n- a\n- b\n",    "@@ 1\n v\n+- b\n - a\n - b\n" },
		{ "x\na\nb\ny\n",          "x\nb\na\ny\n",          "@@ 1\n x\n-a\n b\n+a\n y\n" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(buf_free) struct buf b;

		buf_init(&b, 4096);
		lines_diff(&b, cases[i].old, strlen(cases[i].old), cases[i].new, strlen(cases[i].new));
		buf_put(&b, "", 1);
		CHECK(!buf_failed(&b));
		CHECK_STR((char *)b.data, cases[i].want);
	}
}
