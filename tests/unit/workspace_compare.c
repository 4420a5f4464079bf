/* workspace_compare.c - tests of unified diffs; fuzz_compare.c has what holds of all of them. */
#include "workspace/compare.h"

#include "base/buf.h"
#include "test.h"

static const struct {
	const char *old, *new, *hunks;
} cases[] = {
	{ "", "", "" },
	{ "a\n", "a\n", "" },
	{ "", "a\n", "@@ -0,0 +1 @@\n+a\n" },
	{ "a\nb\n", "", "@@ -1,2 +0,0 @@\n-a\n-b\n" },
	{ "a\nb", "a\nb\n", "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n" },
	{ "1\n2\n3\n4\n5\n", "1\n2\n3\n4\n5\n6\n", "@@ -3,3 +3,4 @@\n 3\n 4\n 5\n+6\n" },
	/* A block that repeats is the last of them. */
	{ "{\n}\nz\n", "{\n}\n{\n}\nz\n", "@@ -1,3 +1,5 @@\n {\n }\n+{\n+}\n z\n" },
	/* Six lines between two changes are one hunk, seven are two. */
	{ "a\n1\n2\n3\n4\n5\n6\nb\n", "A\n1\n2\n3\n4\n5\n6\nB\n",
	  "@@ -1,8 +1,8 @@\n-a\n+A\n 1\n 2\n 3\n 4\n 5\n 6\n-b\n+B\n" },
	{ "a\n1\n2\n3\n4\n5\n6\n7\nb\n", "A\n1\n2\n3\n4\n5\n6\n7\nB\n",
	  "@@ -1,4 +1,4 @@\n-a\n+A\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+B\n" },
	{ "a\nb\nc\na\nb\nb\na\n", "c\nb\na\nb\na\nc\n",
	  "@@ -1,7 +1,6 @@\n-a\n-b\n c\n-a\n b\n+a\n b\n a\n+c\n" },
};

static int
gather(void *arg, const char *data, size_t len)
{
	buf_put(arg, data, len);
	return 0;
}

static struct compare_text
text_of(const char *s)
{
	return (struct compare_text){ s, strlen(s) };
}

TEST(compare_texts)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(buf_free) struct buf hunks;
		struct compare_count count;

		buf_init(&hunks, 4096);
		CHECK_OK(compare_texts(text_of(cases[i].old), text_of(cases[i].new), gather, &hunks, &count));
		buf_put(&hunks, "", 1);
		CHECK_STR((char *)hunks.data, cases[i].hunks);
	}
}

static int
refuse(void *arg, const char *data, size_t len)
{
	(void)data;
	(void)len;
	++*(int *)arg;
	return -5;
}

TEST(compare_ends_on_request)
{
	struct compare_count count;
	int n = 0;

	CHECK_U64((uint64_t)-compare_texts(text_of("a\n"), text_of("b\n"), refuse, &n, &count), 5);
	CHECK_U64((uint64_t)n, 1);
}

/* Nothing in common and everything in another order, 200,000 lines: no time that grows with the square. */
TEST(compare_large)
{
	const size_t n = 200000;
	OWN(buf_free) struct buf old, new;
	struct compare_count count;
	char line[32];

	for (int shuffled = 0; shuffled < 2; shuffled++) {
		buf_init(&old, 1 << 24);
		buf_init(&new, 1 << 24);
		for (size_t i = 0; i < n; i++) {
			snprintf(line, sizeof(line), "%zu\n", i);
			buf_put(&old, line, strlen(line));
			snprintf(line, sizeof(line), "%s%zu\n", shuffled ? "" : "-", shuffled ? i * 77773 % n : i);
			buf_put(&new, line, strlen(line));
		}
		CHECK_OK(compare_texts((struct compare_text){ (char *)old.data, old.len },
		                       (struct compare_text){ (char *)new.data, new.len }, NULL, NULL, &count));
		CHECK_U64(count.added, count.removed);
		CHECK(count.added <= n && (shuffled || count.added == n));
		buf_free(&old);
		buf_free(&new);
	}
}

TEST(compare_binary)
{
	static char text[COMPARE_SNIFF + 1];

	memset(text, 'x', sizeof(text));
	CHECK(!compare_is_binary("", 0));
	CHECK(!compare_is_binary(text, sizeof(text)));
	text[COMPARE_SNIFF] = '\0';
	CHECK(!compare_is_binary(text, sizeof(text)));
	text[COMPARE_SNIFF - 1] = '\0';
	CHECK(compare_is_binary(text, sizeof(text)));
}
