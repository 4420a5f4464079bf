/* loop_detach.c - tests of loop/detach. */
#include "loop/detach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "test.h"

static const struct {
	const char *keys;
	size_t n;                       /* 0: an error, or none */
	const char *bytes;
} parsed[] = {
	{ "ctrl-p,ctrl-q", 2, "\020\021" },
	{ "CTRL-A,d", 2, "\001d" },
	{ "ctrl-],ctrl-@", 2, "\035\0" },
	{ "none", 0, "" },
	{ "", 0, NULL }, { "ctrl-", 0, NULL }, { "ctrl-pp", 0, NULL }, { "a,", 0, NULL }, { "alt-x", 0, NULL },
	{ "ctrl-1", 0, NULL }, { "a,b,c,d,e,f,g,h,i", 0, NULL },
};

TEST(loop_detach_parse)
{
	for (size_t i = 0; i < ARRAY_LEN(parsed); i++) {
		struct detach d = { .n = 99 };
		struct err err = {0};
		int r = detach_parse(parsed[i].keys, &d, &err);

		CHECK(r == (parsed[i].bytes != NULL ? 0 : -EINVAL));
		CHECK(r < 0 || (d.n == parsed[i].n && memcmp(d.keys, parsed[i].bytes, d.n) == 0));
	}
}

static const struct {
	const char *keys, *in, *out;
	bool leaves;
} cases[] = {
	{ "ctrl-p,ctrl-q", "ls\r", "ls\r", false },
	{ "ctrl-p,ctrl-q", "a\020\021rest", "a", true },
	{ "ctrl-p,ctrl-q", "\020x\021", "\020x\021", false },
	{ "ctrl-p,ctrl-q", "\020\020\021", "\020", true },
	{ "ctrl-p,ctrl-q", "\020\020x", "\020\020x", false },
	{ "ctrl-p,ctrl-q", "\033[A\033", "\033[A\033", false },
	{ "ctrl-a,ctrl-a,d", "\001\001\001d", "\001", true },
	{ "none", "\020\021", "\020\021", false },
	/* As kitty's protocol and modifyOtherKeys send them. */
	{ "ctrl-p,ctrl-q", "a\033[112;5u\033[113;5ux", "a", true },
	{ "ctrl-p,ctrl-q", "\033[27;5;112~\021", "", true },
	{ "ctrl-p,ctrl-q", "\033[112;5u\033[114;5u", "\033[112;5u\033[114;5u", false },
	{ "ctrl-p,ctrl-q", "\033[112;6u\033[113;5u", "\033[112;6u\033[113;5u", false },
};

static void
note(void *arg)
{
	*(bool *)arg = true;
}

/* As one piece, or byte by byte; sequences come whole. */
static void
check(size_t i, bool by_byte)
{
	bool left = false;
	struct detach d = { .leave = note, .arg = &left };
	size_t len = strlen(cases[i].in), n = 0;
	unsigned char *out = malloc(len + DETACH_HELD_MAX);

	CHECK_OK(detach_parse(cases[i].keys, &d, NULL));
	for (size_t at = 0; at < len && !left; at += by_byte ? 1 : len)
		n += detach_filter(&d, (const unsigned char *)cases[i].in + at, by_byte ? 1 : len, out + n);
	CHECK(left == cases[i].leaves);
	CHECK(n == strlen(cases[i].out) && memcmp(out, cases[i].out, n) == 0);
	free(out);
}

TEST(loop_detach)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		check(i, false);
		if (strchr(cases[i].in, '[') == NULL)
			check(i, true);
	}
}

/* A key is held until the next one shows what it is. */
TEST(loop_detach_holds)
{
	bool left = false;
	struct detach d = { .leave = note, .arg = &left };
	unsigned char out[8 + DETACH_HELD_MAX];

	CHECK_OK(detach_parse(DETACH_DEFAULT, &d, NULL));
	CHECK(detach_filter(&d, (const unsigned char *)"\020", 1, out) == 0 && !left);
	CHECK(detach_filter(&d, (const unsigned char *)"n", 1, out) == 2 && memcmp(out, "\020n", 2) == 0);
}
