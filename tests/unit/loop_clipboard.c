/* loop_clipboard.c - tests of loop/clipboard. */
#include "loop/clipboard.h"

#include <stdlib.h>
#include <string.h>

#include "test.h"

static const struct {
	const char *in, *out;
} cases[] = {
	{ "plain text\r\n", "plain text\r\n" },
	{ "a\033]52;c;aGk=\007b", "ab" },
	{ "a\033]52;c;aGk=\033\\b", "ab" },
	{ "a\xc2\x9d" "52;c;aGk=\xc2\x9c" "b", "ab" },
	{ "a\033]0052;c;aGk=\007b", "ab" },
	{ "a\033]5\0012;c;aGk=\007b", "ab" },
	{ "a\033\001]52;c;aGk=\007b", "a\001b" },
	{ "a\033]5522;type=write\007b", "ab" },
	{ "a\033]52\007b", "ab" },
	/* Wrapped for tmux and screen, also in two parts. */
	{ "a\033Ptmux;\033\033]52;c;aGk=\007\033\\b", "a\033Ptmux;\033\\b" },
	{ "a\033P\033]5\033\\\033P2;c;aGk=\007\033\\b", "a\033P\033\\\033P2;c;aGk=\007\033\\b" },
	{ "a\033P\033\033\\\033P]52;c;aGk=\007\033\\b", "a\033P\033\\\033P]52;c;aGk=\007\033\\b" },
	{ "a\xc2\x90\xc2\x9d" "5\xc2\x9c\033P2;c;aGk=\033\\b", "a\xc2\x90\033\\\033P2;c;aGk=\033\\b" },
	{ "a\033P\xc2\xc2\033\\\033P\x9d" "52;c;aGk=\033\\b", "a\033P\033\\\033P\x9d" "52;c;aGk=\033\\b" },
	{ "a\033P\033[31m\030b", "a\033P\030b" },
	/* Pictures and questions stay. */
	{ "\033Pq#0;2;0;0;0\xc2\xa7~-\033\\b", "\033Pq#0;2;0;0;0\xc2\xa7~-\033\\b" },
	{ "\033P+q544e\xc2\x9c" "b", "\033P+q544e\xc2\x9c" "b" },
	/* One ends, the next begins. */
	{ "\033]52;c;aGk=\033]52;c;aGk=\007x", "x" },
	{ "\033]52;c;\xc2\x9d" "52;c;aGk=\007x", "x" },
	{ "\033]52;c;aGk=\030x", "x" },
	/* Others stay. */
	{ "\033]0;title\007b", "\033]0;title\007b" },
	{ "\033]8;;https://x\033\\link", "\033]8;;https://x\033\\link" },
	{ "\033]520;x\007", "\033]520;x\007" },
	{ "\033]152;x\007", "\033]152;x\007" },
	{ "\033]552299;x\007", "\033]552299;x\007" },
	{ "\033];x\007", "\033];x\007" },
	{ "\033[31mred\033[0m", "\033[31mred\033[0m" },
	{ "\xc2\xa7 \xe2\x80\x9d", "\xc2\xa7 \xe2\x80\x9d" },
	{ "]52;c;aGk=", "]52;c;aGk=" },
};

/* In pieces of STEP bytes, each in a place of its own size. */
static void
check_in_steps(const char *in, const char *want, size_t step)
{
	struct clipboard c = {0};
	size_t len = strlen(in), n = 0;
	unsigned char *out = malloc(len + CLIPBOARD_HELD_MAX);

	CHECK(out != NULL);
	for (size_t at = 0; at < len; at += step) {
		size_t part = len - at < step ? len - at : step;

		n += clipboard_filter(&c, (const unsigned char *)in + at, part, out + n);
	}
	CHECK(n == strlen(want) && memcmp(out, want, n) == 0);
	free(out);
}

TEST(loop_clipboard)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t step = 1; step <= 16; step++)
			check_in_steps(cases[i].in, cases[i].out, step);
}
