/* base_text.c - tests of base/text and base/utf8. */
#include "base/text.h"

#include <stdint.h>

#include "base/utf8.h"
#include "test.h"

static char *
safe(const char *s, size_t len, bool keep_lines)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	CHECK(out != NULL);
	text_print_safe(out, s, len, keep_lines);
	fclose(out);
	return text;
}

TEST(text_print_safe)
{
	static const struct {
		const char *text;
		bool keep_lines;
		const char *want;
	} cases[] = {
		{ "plain, naïve, 日本, 🙂",   false, "plain, naïve, 日本, 🙂" },
		{ "\x1b[31mred",              false, "\\x1b[31mred" },
		{ "\x1b]0;title\a",           true,  "\\x1b]0;title\\x07" },
		{ "a\nb\tc\rd",               true,  "a\nb\tc\\x0dd" },
		{ "a\nb\tc",                  false, "a\\x0ab\\x09c" },
		{ "\x7f",                     true,  "\\x7f" },
		{ "\xc2\x9b" "31m",           true,  "\\xc2\\x9b31m" },         /* C1 CSI */
		{ "\x9b" "31m",               true,  "\\x9b31m" },
		{ "\xff\xfe",                 false, "\\xff\\xfe" },
		{ "\xc0\x9b",                 false, "\\xc0\\x9b" },            /* overlong ESC */
		{ "\xe0\x80\x9b",             false, "\\xe0\\x80\\x9b" },
		{ "\xed\xa0\x80",             false, "\\xed\\xa0\\x80" },       /* surrogate */
		{ "\xf4\x90\x80\x80",         false, "\\xf4\\x90\\x80\\x80" },  /* past the end */
		{ "\xe2\x82",                 false, "\\xe2\\x82" },            /* cut short */
		{ "\xe2\x82" "x",             false, "\\xe2\\x82x" },
		{ "a\xe2\x80\xae" "b",        true,  "a\\xe2\\x80\\xaeb" },     /* right to left */
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(freep) char *got = safe(cases[i].text, strlen(cases[i].text),
		                            cases[i].keep_lines);

		CHECK_STR(got, cases[i].want);
	}
}

TEST(text_print_safe_shows_nul)
{
	OWN(freep) char *got = safe("a\0b", 3, true);

	CHECK_STR(got, "a\\x00b");
}

TEST(utf8_agrees_with_its_definition)
{
	char bytes[4];
	uint32_t got;
	size_t n;

	for (uint32_t code = 0; code < 0x110000; code++) {
		if (code < 0x80) {
			n = 1, bytes[0] = (char)code;
		} else if (code < 0x800) {
			n = 2, bytes[0] = (char)(0xc0 | code >> 6);
		} else if (code < 0x10000) {
			n = 3, bytes[0] = (char)(0xe0 | code >> 12);
		} else {
			n = 4, bytes[0] = (char)(0xf0 | code >> 18);
		}
		for (size_t i = 1; i < n; i++)
			bytes[i] = (char)(0x80 | (code >> (6 * (n - 1 - i)) & 0x3f));
		if (code >= 0xd800 && code < 0xe000) {
			CHECK(utf8_next(bytes, n, &got) == 0);
			continue;
		}
		CHECK(utf8_next(bytes, n, &got) == n && got == code);
		CHECK(utf8_next(bytes, n - 1, &got) == 0);
	}
}

TEST(text_nearest)
{
	static const char *const commands[] = {
		"run", "ps", "logs", "exec", "stop", "kill", "wait", "diff", "apply",
		"discard", "doctor", "top", NULL
	};
	static const char *const options[] = {
		"--memory", "--cpus", "--pids", "--time", "--disk", "--name", "--hostname", NULL
	};
	static const struct {
		const char *word;
		const char *const *names;
		const char *want;
	} cases[] = {
		{ "rnu",         commands, "run"      },
		{ "log",         commands, "logs"     },
		{ "disacrd",     commands, "discard"  },
		{ "docter",      commands, "doctor"   },
		{ "aply",        commands, "apply"    },
		{ "--mem",       options,  "--memory" },
		{ "--memroy",    options,  "--memory" },
		{ "--cpu",       options,  "--cpus"   },
		{ "-hostname",   options,  "--hostname" },
		{ "dotcor",      commands, "doctor"   },
		{ "nope",        commands, NULL       },
		{ "cat",         commands, NULL       },
		{ "frobnicate",  commands, NULL       },
		{ "r",           commands, NULL       },
		{ "",            commands, NULL       },
		{ "--",          options,  NULL       },
		{ "xyz",         commands, NULL       },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		  commands, NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *got = text_nearest(cases[i].word, cases[i].names);

		CHECK_STR(got != NULL ? got : "(none)",
		          cases[i].want != NULL ? cases[i].want : "(none)");
	}
}

TEST(text_wants_no_colour_in_a_file)
{
	OWN(fclosep) FILE *file = tmpfile();

	CHECK(file != NULL);
	setenv("TERM", "xterm", 1);
	unsetenv("NO_COLOR");
	CHECK(!text_wants_colour(file));
}

TEST(text_wants_colour_on_a_terminal)
{
	OWN(fclosep) FILE *tty = fopen("/dev/ptmx", "r+");

	if (tty == NULL)
		test_skip("no /dev/ptmx");
	setenv("TERM", "xterm", 1);
	unsetenv("NO_COLOR");
	CHECK(text_wants_colour(tty));
	setenv("NO_COLOR", "", 1);
	CHECK(text_wants_colour(tty));
	setenv("NO_COLOR", "1", 1);
	CHECK(!text_wants_colour(tty));
	unsetenv("NO_COLOR");
	setenv("TERM", "dumb", 1);
	CHECK(!text_wants_colour(tty));
}

TEST(text_plural)
{
	CHECK_STR(text_plural(0), "s");
	CHECK_STR(text_plural(1), "");
	CHECK_STR(text_plural(2), "s");
}

TEST(text_take_moves_behind_a_word)
{
	const char text[] = "truefalse", *at = text, *end = text + 6;

	CHECK(!text_take(&at, end, "false") && at == text);
	CHECK(text_take(&at, end, "") && at == text);
	CHECK(text_take(&at, end, "true") && at == text + 4);
	/* The text ends before the word does. */
	CHECK(!text_take(&at, end, "false") && at == text + 4);
	CHECK(text_take(&at, end, "fa") && at == end);
}
