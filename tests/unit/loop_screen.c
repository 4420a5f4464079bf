/* loop_screen.c - tests of loop/screen. */
#include "loop/screen.h"

#include <string.h>

#include "test.h"

static const struct {
	const char *out, *restore, *reset;
} followed[] = {
	{ "plain", "", "\033[0m" },
	{ "\033[?1049h\033[?25lx", "\033[?1049h\033[?25l", "\033[0m\033[?25h\033[?1049l" },
	{ "\033[?1049h\033[?1049l", "", "\033[0m" },
	{ "\033[?2004;1006h", "\033[?1006h\033[?2004h", "\033[0m\033[?2004l\033[?1006l" },
	{ "\033[>1u\033[>5u\033[<u", "\033[>1u", "\033[<1u\033[0m" },
	{ "\033[>4;2m", "\033[>4;2m", "\033[>4m\033[0m" },
	{ "\033[>4;2m\033[>4m", "", "\033[0m" },
	/* Not in a string, and none that is too long. */
	{ "\033]0;\033[?25l\007", "", "\033[0m" },
	{ "\033[?25l\033[?0000000000000000000000000000000000025h", "\033[?25l", "\033[0m\033[?25h" },
	{ "\033[<99u", "", "\033[0m" },
	/* Controls of 8 bits, in UTF-8 and as bytes; not within other characters. */
	{ "\302\233?25l\233?1049h", "\033[?1049h\033[?25l", "\033[0m\033[?25h\033[?1049l" },
	{ "\342\231\233?25lx\303\233?25l", "", "\033[0m" },
	{ "\302\2350;\033[?25l\302\234\033[?2004h", "\033[?2004h", "\033[0m\033[?2004l" },
};

TEST(loop_screen_modes)
{
	for (size_t i = 0; i < ARRAY_LEN(followed); i++) {
		struct screen s = {0};
		char text[SCREEN_MODES_MAX];

		for (const char *c = followed[i].out; *c != '\0'; c++)
			screen_watch(&s, (const unsigned char *)c, 1);
		CHECK(screen_restore(&s, text) == strlen(followed[i].restore));
		CHECK(memcmp(text, followed[i].restore, strlen(followed[i].restore)) == 0);
		CHECK(screen_reset(&s, text) == strlen(followed[i].reset));
		CHECK(memcmp(text, followed[i].reset, strlen(followed[i].reset)) == 0);
	}
}

/* The longest text there is. */
TEST(loop_screen_modes_fit)
{
	static const char *const all = "\033[?47;1047;1049;1;9h\033[?25l\033[?1000;1002;1003;1004;1005h"
		"\033[?1006;1015;1016;2004h\033[>4;3m";
	struct screen s = {0};
	char text[SCREEN_MODES_MAX];

	screen_watch(&s, (const unsigned char *)all, strlen(all));
	for (int i = 0; i < 20; i++)
		screen_watch(&s, (const unsigned char *)"\033[>31u", 6);
	CHECK(screen_restore(&s, text) < SCREEN_MODES_MAX && screen_reset(&s, text) < SCREEN_MODES_MAX);
}

static const struct {
	const char *in, *out;
} redrawn[] = {
	{ "a\r\nb\tc\b", "a\r\nb\tc\b" },
	{ "\033[1;31mred\033[0m\033[2J\033[3;4H", "\033[1;31mred\033[0m\033[2J\033[3;4H" },
	/* Questions, modes, titles and the bell. */
	{ "\033[6n\033[c\033[?u\033[>c\033]11;?\007\033[?1049h\033P+q\033\\\007\005x", "x" },
	{ "\033(B\033=y", "y" },
	/* The same by controls of 8 bits, in UTF-8 and as bytes: a question, the clipboard, and within a sequence. */
	{ "\302\2336n\302\23552;c;eA==\302\234z", "6n52;c;eA==z" },
	{ "\2336n\23552;c;eA==\234z", "6n52;c;eA==z" },
	{ "\033[1\302\2330Az", "z" },
	{ "\303\251\342\202\254\033[1mx\342\202", "\303\251\342\202\254\033[1mx" },
};

TEST(loop_screen_redraw)
{
	for (size_t i = 0; i < ARRAY_LEN(redrawn); i++) {
		unsigned char out[128];
		size_t n = screen_redraw((const unsigned char *)redrawn[i].in, strlen(redrawn[i].in), out);

		CHECK(n == strlen(redrawn[i].out) && memcmp(out, redrawn[i].out, n) == 0);
	}
}
