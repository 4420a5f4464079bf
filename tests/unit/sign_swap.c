/* sign_swap.c - tests of sign/swap: forms, lengths, verdicts, what is held back. */
#include <errno.h>

#include "base/err.h"
#include "swap_lab.h"

#define FAKE "tok_AAAAbbbb/cc+dd"
#define REAL "tok_ZZZZyyyy/xx+ww"

/* ---- forms ---- */

static const struct {
	enum swap_place place;
	const char *in, *want;
} form_cases[] = {
	{ SWAP_BODY, "", "" },
	{ SWAP_BODY, "nothing of it", "nothing of it" },
	{ SWAP_BODY, FAKE, REAL },
	{ SWAP_BODY, "a" FAKE FAKE "z", "a" REAL REAL "z" },
	{ SWAP_BODY, "tok_AAAAbbbb/cc+d", "tok_AAAAbbbb/cc+d" },
	{ SWAP_BODY, "tok_AAAAtok_AAAAbbbb/cc+dd", "tok_AAAA" REAL },
	/* As it was written there. */
	{ SWAP_BODY, "k=tok_AAAAbbbb%2Fcc%2Bdd&", "k=tok_ZZZZyyyy%2Fxx%2Bww&" },
	{ SWAP_BODY, "k=%74ok_AAAAbbbb%2fcc%2bdd&", "k=%74ok_ZZZZyyyy%2Fxx%2Bww&" },
	{ SWAP_BODY, "tok_%41AAAbbbb/cc+d%64", "%74%6Fk_ZZZZyyyy/xx+ww" },
	{ SWAP_BODY, "%74%6f%6b%5f%41%41%41%41%62%62%62%62%2f%63%63%2b%64%64",
	             "%74%6F%6B%5F%5A%5A%5A%5A%79%79%79%79%2F%78%78%2B%77%77" },
	{ SWAP_BODY, "\"tok_AAAAbbbb\\/cc+dd\"", "\"tok_ZZZZyyyy\\/xx+ww\"" },
	{ SWAP_BODY, "\"tok_AAAA\\u0062bbb\\/cc\\u002Bdd\"",
	             "\"\\u0074\\u006Fk_ZZZZyyyy\\/xx+ww\"" },
	{ SWAP_QUERY, "?k=" FAKE, "?k=" REAL },
	{ SWAP_BODY_JSON, "{\"k\":\"" FAKE "\"}", "{\"k\":\"" REAL "\"}" },
	/* Escapes that are none, or of something else. */
	{ SWAP_BODY, "tok_%4gAAAbbbb/cc+dd", "tok_%4gAAAbbbb/cc+dd" },
	{ SWAP_BODY, "tok_AAAAbbbb%2", "tok_AAAAbbbb%2" },
	{ SWAP_BODY, "tok_AAAAbbbb%2Fcc%2Bd%65", "tok_AAAAbbbb%2Fcc%2Bd%65" },
	{ SWAP_BODY, "tok_AAAAbbbb\\\\/cc+dd", "tok_AAAAbbbb\\\\/cc+dd" },
	{ SWAP_BODY, "%%74ok_AAAAbbbb/cc+dd", "%%74ok_ZZZZyyyy/xx+ww" },
	/* Not looked for in this set. */
	{ SWAP_BODY, "dG9rX0FBQUFiYmJiL2NjK2Rk", "dG9rX0FBQUFiYmJiL2NjK2Rk" },
};

TEST(swap_forms)
{
	static const struct swap_needle needles[] = { { { FAKE, 18 }, { REAL, 18 } } };
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, 0);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();

	for (size_t i = 0; i < ARRAY_LEN(form_cases); i++)
		for (size_t step = 1; step < 80; step++) {
			const char *in = form_cases[i].in;

			CHECK_OK(swap_lab_run(lab, set, form_cases[i].place, SWAP_SAME_LENGTH, in,
			                      strlen(in), step));
			CHECK_STR(swap_lab_text(lab), form_cases[i].want);
			CHECK(lab->stream.grown == 0);
			CHECK_U64(lab->stream.n_replaced, lab->n_seen);
		}
}

/* As a server may write what it was sent; what is put in is written so as well, where it fits. */
static const struct {
	const char *in, *want;
} echoed_cases[] = {
	{ "tok_AAAAbbbb&#47;cc&#43;dd", "&#x00074;ok_ZZZZyyyy/xx+ww" },
	{ "tok_AAAAbbbb&sol;cc&plus;dd", "&#x000074;ok_ZZZZyyyy/xx+ww" },
	{ "tok_AAAAbbbb&#x2F;cc+dd", "&#x74;ok_ZZZZyyyy/xx+ww" },
	{ "tok_AAAAbbbb/cc&#43;dd", "xxxxxxxxxxxxxxxxxxxxxx" },
	{ "\\x74ok_AAAAbbbb\\x2Fcc\\x2bdd", "\\x74\\x6F\\x6B_ZZZZyyyy/xx+ww" },
	{ "tok_AAAAbbbb\\/cc\\x2bdd", "xxxxxxxxxxxxxxxxxxxxxx" },
	{ "\\u{74}ok_AAAAbbbb/cc\\u{2B}dd", "\\u0074\\u006Fk_ZZZZyyyy/xx+ww" },
	{ "\\164ok_AAAAbbbb\\057cc+dd", "\\164\\157k_ZZZZyyyy/xx+ww" },
	{ "a TOK_AAAABBBB/CC+DD z", "a TOK_ZZZZYYYY/XX+WW z" },
	{ "TOK_AAAABBBB&#x2F;CC+DD", "&#x54;OK_ZZZZYYYY/XX+WW" },
	{ "tok_aaaabbbb/cc%2Bdd", "tok_zzzzyyyy/xx%2Bww" },
	{ "tok_aaaaBBBB/cc+dd", "tok_aaaaBBBB/cc+dd" },
	{ "tok=5FAAAAbbbb/cc=2bdd", "=74=6Fk_ZZZZyyyy/xx+ww" },
	{ "tok_AAAAb=\r\nbbb/cc=\n+d=\r\n=64", "=74=6F=6B=5F=5AZZZyyyy/xx+ww" },
	{ "tok_AAAAb=\nbbb/cc+dd=\nz", "=74ok_ZZZZyyyy/xx+ww=\nz" },
	/* Escapes that are none, or of something else. */
	{ "tok_AAAAb=\n=\nbbb/cc+dd", "tok_AAAAb=\n=\nbbb/cc+dd" },
	{ "tok_AAAAb=\rbbb/cc+dd", "tok_AAAAb=\rbbb/cc+dd" },
	{ "tok=5gAAAAbbbb/cc+dd", "tok=5gAAAAbbbb/cc+dd" },
	{ "\\16ok_AAAAbbbb/cc+dd", "\\16ok_AAAAbbbb/cc+dd" },
	{ "\\564ok_AAAAbbbb/cc+dd", "\\564ok_AAAAbbbb/cc+dd" },
	{ "tok_AAAAbbbb\\x2gcc+dd", "tok_AAAAbbbb\\x2gcc+dd" },
	{ "tok_AAAAbbbb\\u{}cc+dd", "tok_AAAAbbbb\\u{}cc+dd" },
	{ "tok_AAAAbbbb&#47cc+dd", "tok_AAAAbbbb&#47cc+dd" },
	{ "tok_AAAAbbbb&#x;cc+dd", "tok_AAAAbbbb&#x;cc+dd" },
	{ "tok_AAAAbbbb&#000000047;cc+dd", "tok_AAAAbbbb&#000000047;cc+dd" },
	{ "tok_AAAAbbbb&solo;cc+dd", "tok_AAAAbbbb&solo;cc+dd" },
	{ "a&amp;tok_AAAAbbbb/cc+dd", "a&amp;" REAL },
};

TEST(swap_echoed)
{
	static const struct swap_needle needles[] = { { { FAKE, 18 }, { REAL, 18 } } };
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, SWAP_CODED | SWAP_ECHOED);
	OWN(swap_set_freep) struct swap_set *others = set_of(needles, 1, SWAP_CODED);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();

	for (size_t i = 0; i < ARRAY_LEN(echoed_cases); i++)
		for (size_t step = 1; step < 120; step++) {
			const char *in = echoed_cases[i].in;

			CHECK_OK(swap_lab_run(lab, set, SWAP_BODY, SWAP_FIT_LENGTH, in, strlen(in), step));
			CHECK_STR(swap_lab_text(lab), echoed_cases[i].want);
			if (strstr(in, FAKE) != NULL)
				continue;
			CHECK_OK(swap_lab_run(lab, others, SWAP_BODY, SWAP_FIT_LENGTH, in, strlen(in), step));
			CHECK_STR(swap_lab_text(lab), in);
		}
}

/* As JavaScript's and Python's strings have it. */
TEST(swap_echoed_quote)
{
	static const struct swap_needle needles[] = { { { "tok'AAAAbbbb/cc+dd", 18 }, { REAL, 18 } } };
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, SWAP_CODED | SWAP_ECHOED);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	static const char in[] = "'tok\\'AAAAbbbb/cc+dd' 'tok\\'AAAA'";

	for (size_t step = 1; step < sizeof(in); step++) {
		CHECK_OK(swap_lab_run(lab, set, SWAP_BODY, SWAP_FIT_LENGTH, in, strlen(in), step));
		CHECK(strstr(swap_lab_text(lab), "AAAAbbbb") == NULL);
		CHECK(strstr(swap_lab_text(lab), " 'tok\\'AAAA'") != NULL);
	}
}

/* In either order of bytes, in pieces of any size. */
TEST(swap_utf16)
{
	static const struct swap_needle needles[] = { { { FAKE, 18 }, { REAL, 18 } } };
	static const enum swap_place places[] = { SWAP_BODY, SWAP_BODY_JSON, SWAP_BODY_FORM };
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, SWAP_CODED | SWAP_ECHOED);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	static const char from[] = "{\"k\":\"" FAKE "\"}", to[] = "{\"k\":\"" REAL "\"}";
	char in[2 * sizeof(from)] = {0}, want[2 * sizeof(to)] = {0};

	for (size_t order = 0; order < 2; order++) {
		for (size_t i = 0; i < sizeof(from); i++) {
			in[2 * i + order] = from[i];
			in[2 * i + 1 - order] = '\0';
			want[2 * i + order] = to[i];
			want[2 * i + 1 - order] = '\0';
		}
		for (size_t step = 1; step < sizeof(in); step++) {
			CHECK_OK(swap_lab_run(lab, set, places[step % 3], SWAP_FIT_LENGTH, in, sizeof(in), step));
			CHECK(lab->out.len == sizeof(want) && memcmp(lab->out.data, want, sizeof(want)) == 0);
		}
	}
}

/* Around a needle, and as what stands there. */
TEST(swap_finds_among_others)
{
	static char many[256][24], withs[256][24];
	static struct swap_needle needles[256];
	OWN(swap_set_freep) struct swap_set *set = NULL;
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();

	for (int i = 0; i < 256; i++) {
		snprintf(many[i], sizeof(many[i]), "sk-test-%08x-%d", i * 2654435761u, i);
		snprintf(withs[i], sizeof(withs[i]), "SK-REAL-%08x-%d", i * 2654435761u, i);
		needles[i] = (struct swap_needle){ text_of(many[i]), text_of(withs[i]) };
	}
	set = set_of(needles, 256, SWAP_CODED);
	for (int i = 0; i < 256; i++)
		for (size_t before = 0; before < 40; before++) {
			static const char around[] = "%.*s\"%.24s\" and so on, for more than a group";
			static const char dashes[] = "------------------------------------------";
			char in[256], want[256];

			snprintf(in, sizeof(in), around, (int)before, dashes, many[i]);
			snprintf(want, sizeof(want), around, (int)before, dashes, withs[i]);
			CHECK_OK(swap_lab_run(lab, set, SWAP_BODY, SWAP_SAME_LENGTH, in, strlen(in), 999));
			CHECK_STR(swap_lab_text(lab), want);
			CHECK_U64(lab->n_seen, 1);
			CHECK_U64(lab->seen[0].needle, (uint64_t)i);
		}
}

TEST(swap_longest)
{
	static const struct swap_needle needles[] = {
		{ { "abcdefgh", 8 }, { "1", 1 } }, { { "abcdefghijkl", 12 }, { "2", 1 } },
		{ { "abcdefgh", 8 }, { "3", 1 } }, { { "efghijkl", 8 }, { "4", 1 } },
	};
	static const char *const cases[][2] = {
		{ "abcdefgh", "1" }, { "abcdefghijk", "1ijk" }, { "abcdefghijkl", "2" },
		{ "abcdefghijkL", "1ijkL" }, { "abcdefgefghijkl", "abcdefg4" },
		{ "abcdefghabcdefghijkl", "12" }, { "abcdabcdefghijk%6c", "abcd2" },
	};
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 4, 0);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t step = 1; step < 24; step++) {
			CHECK_OK(swap_lab_run(lab, set, SWAP_BODY, SWAP_ANY_LENGTH, cases[i][0],
			                      strlen(cases[i][0]), step));
			CHECK_STR(swap_lab_text(lab), cases[i][1]);
			CHECK(lab->stream.grown ==
			      (int64_t)strlen(cases[i][1]) - (int64_t)strlen(cases[i][0]));
		}
}

/* What is looked for has characters that escapes are made of, blanks, and others. */
TEST(swap_odd_needles)
{
	static const char lines[] = "-----BEGIN\nline\\one\n\"two\"\n", *key = "caf\303\251\360\237\230\200 plus";
	const struct swap_needle needles[] = {
		{ { "p%41ss\\nword", 12 }, { "real%word01", 11 } },
		{ { lines, sizeof(lines) - 1 }, { "-----END\nof\\all\n\"that\"\n", 23 } },
		{ text_of(key), text_of("q+r s") },
	};
	static const struct {
		enum swap_place place;
		const char *in, *want;
	} cases[] = {
		{ SWAP_HEADER, "p%41ss\\nword", "real%word01" },
		{ SWAP_BODY, "p%2541ss%5Cnword", "real%25word01" },
		{ SWAP_BODY_JSON, "p%41ss\\\\nword", "real%word01" },
		{ SWAP_BODY_JSON, "-----BEGIN\\nline\\\\one\\n\\\"two\\\"\\n",
		                  "-----END\\nof\\\\all\\n\\\"that\\\"\\n" },
		{ SWAP_BODY, "caf\303\251\360\237\230\200 plus", "q+r s" },
		{ SWAP_BODY_JSON, "caf\\u00e9\\ud83d\\ude00 plus", "q+r s" },
		{ SWAP_BODY_FORM, "a=caf%C3%A9%F0%9F%98%80+plus&b=1", "a=q%2Br+s&b=1" },
		{ SWAP_BODY_FORM, "a=caf%C3%A9%F0%9F%98%80%20plus", "a=q%2Br%20s" },
	};
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, ARRAY_LEN(needles), 0);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t step = 1; step < 50; step++) {
			CHECK_OK(swap_lab_run(lab, set, cases[i].place, SWAP_ANY_LENGTH, cases[i].in,
			                      strlen(cases[i].in), step));
			CHECK_STR(swap_lab_text(lab), cases[i].want);
		}
}

/* What ends in the middle of a character is not there. */
TEST(swap_whole_characters)
{
	static const struct swap_needle needles[] = { { { "abcdefg\303", 8 }, { "", 0 } },
	                                              { { "abcdefg\303\251h", 10 }, { "", 0 } } };
	static const char *const cases[][2] = {
		{ "abcdefg\\u00e9", "abcdefg\\u00e9" }, { "abcdefg\\u00e9h", "" },
		{ "abcdefg%C3%A9h", "" }, { "abcdefg%C3x", "x" }, { "abcdefg\303\251", "\251" },
	};
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 2, 0);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (size_t step = 1; step < 16; step++) {
			CHECK_OK(swap_lab_run(lab, set, SWAP_BODY, SWAP_ANY_LENGTH, cases[i][0],
			                      strlen(cases[i][0]), step));
			CHECK_STR(swap_lab_text(lab), cases[i][1]);
		}
}

/* ---- lengths ---- */

static const struct {
	enum swap_place place;
	const char *find, *with, *in;
	const char *any, *same, *fit;   /* SAME: NULL if it cannot be */
} length_cases[] = {
	{ SWAP_BODY, "findfind", "long-with", "<findfind>", "<long-with>", NULL, "<long-wit>" },
	{ SWAP_BODY, "findfind", "short", "<findfind>", "<short>", NULL, "<shortxxx>" },
	{ SWAP_BODY, "findfind", "", "<findfind>", "<>", NULL, "<xxxxxxxx>" },
	{ SWAP_BODY, "findfind", "with_it", "%66indfind", "with_it", NULL, "%77ith_itx" },
	{ SWAP_BODY, "findfind", "with_i", "%66indfind", "%77%69th_i", "%77%69th_i", "%77ith_ixx" },
	{ SWAP_QUERY, "findfind", "with&it=", "findfind", "with%26it%3D", NULL, "xxxxxxxx" },
	{ SWAP_QUERY, "findfind", "with&it=", "f%69ndfi%6ed", "with%26it%3D", "with%26it%3D",
	  "with%26it%3D" },
	{ SWAP_PATH, "1234:abcd", "5678:efgh", "/bot1234:abcd/", "/bot5678:efgh/",
	  "/bot5678:efgh/", "/bot5678:efgh/" },
	{ SWAP_BODY_JSON, "findfind", "with\"it\\", "findfind", "with\\\"it\\\\", NULL, "xxxxxxxx" },
	{ SWAP_BODY_JSON, "findfind", "with\"it\\", "f\\u0069ndfind", "with\\\"it\\\\", NULL,
	  "xxxxxxxxxxxxx" },
	{ SWAP_BODY_JSON, "findfind", "with\"/it", "f\\u0069ndfind", "with\\u0022/it",
	  "with\\u0022/it", "with\\u0022/it" },
	{ SWAP_BODY_JSON, "fi/dfi/d", "/with/it", "fi\\/dfi\\/d", "\\/with\\/it", "\\/with\\/it",
	  "\\/with\\/it" },
	{ SWAP_BODY_JSON, "findfind", "wi\001h_it_", "find\\u0066ind", "wi\\u0001h_it_",
	  "wi\\u0001h_it_", "wi\\u0001h_it_" },
	{ SWAP_BODY_FORM, "find it now", " b_c_d_e_ff", "f%69nd+it+now", "%20b_c_d_e_ff",
	  "%20b_c_d_e_ff", "%20b_c_d_e_ff" },
};

TEST(swap_lengths)
{
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	struct err err;

	for (size_t i = 0; i < ARRAY_LEN(length_cases); i++) {
		const char *in = length_cases[i].in;
		struct swap_needle needle = { text_of(length_cases[i].find),
		                              text_of(length_cases[i].with) };
		OWN(swap_set_freep) struct swap_set *set = set_of(&needle, 1, 0);
		enum swap_place place = length_cases[i].place;
		int r;

		CHECK_OK(swap_lab_run(lab, set, place, SWAP_ANY_LENGTH, in, strlen(in), 5));
		CHECK_STR(swap_lab_text(lab), length_cases[i].any);
		CHECK(lab->stream.grown == (int64_t)lab->out.len - (int64_t)strlen(in));
		CHECK_OK(swap_lab_run(lab, set, place, SWAP_FIT_LENGTH, in, strlen(in), 5));
		CHECK_STR(swap_lab_text(lab), length_cases[i].fit);
		lab->err = &err;
		err = (struct err){0};
		r = swap_lab_run(lab, set, place, SWAP_SAME_LENGTH, in, strlen(in), 5);
		lab->err = NULL;
		if (length_cases[i].same == NULL) {
			CHECK_ERR(r, EMSGSIZE);
			CHECK(strstr(err.text, "length") != NULL);
		} else {
			CHECK_OK(r);
			CHECK_STR(swap_lab_text(lab), length_cases[i].same);
		}
	}
}

TEST(swap_lengths_in_codes)
{
	static const struct swap_needle needles[] = { { { "findfind", 8 }, { "with-it", 7 } } };
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, SWAP_CODED);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	static const char base64[] = "<ZmluZGZpbmQ=>", hex[] = "<66696E6466696E64>";

	/* What follows would not be what it was. */
	CHECK_ERR(swap_lab_run(lab, set, SWAP_BODY, SWAP_ANY_LENGTH, base64, 14, 14), EMSGSIZE);
	CHECK_OK(swap_lab_run(lab, set, SWAP_BODY, SWAP_FIT_LENGTH, base64, 14, 14));
	CHECK_STR(swap_lab_text(lab), "<d2l0aC1pdHg=>");
	CHECK_OK(swap_lab_run(lab, set, SWAP_BODY, SWAP_ANY_LENGTH, hex, 18, 18));
	CHECK_STR(swap_lab_text(lab), "<776974682D6974>");
	CHECK_ERR(swap_lab_run(lab, set, SWAP_BODY, SWAP_SAME_LENGTH, hex, 18, 18), EMSGSIZE);
	CHECK_OK(swap_lab_run(lab, set, SWAP_BODY, SWAP_FIT_LENGTH, hex, 18, 18));
	CHECK_STR(swap_lab_text(lab), "<776974682D697478>");
}

/* ---- verdicts ---- */

TEST(swap_verdicts)
{
	static const struct swap_needle needles[] = { { { FAKE, 18 }, { REAL, 18 } } };
	static const char in[] = "<" FAKE "> \"tok_AAAAbbbb\\/cc+dd\" %74ok_AAAAbbbb%2fcc%2bdd.";
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, 0);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();

	lab->verdict = SWAP_LEAVE;
	for (size_t step = 1; step < sizeof(in); step++) {
		CHECK_OK(swap_lab_run(lab, set, SWAP_BODY, SWAP_SAME_LENGTH, in, strlen(in), step));
		CHECK_STR(swap_lab_text(lab), in);
		CHECK_U64(lab->n_seen, 3);
		CHECK(lab->stream.n_replaced == 0 && lab->stream.n_seen == 3);
		CHECK(lab->seen[0].at == 1 && lab->seen[0].len == 18 && lab->seen[0].form == SWAP_RAW &&
		      !lab->seen[0].percent && !lab->seen[0].json);
		CHECK(lab->seen[1].at == 22 && lab->seen[1].len == 19 && lab->seen[1].json);
		CHECK(lab->seen[2].at == 43 && lab->seen[2].len == 24 && lab->seen[2].percent &&
		      !lab->seen[2].json && lab->seen[2].place == SWAP_BODY);
	}
	lab->verdict = SWAP_STOP;
	for (size_t step = 1; step < sizeof(in); step++) {
		CHECK_ERR(swap_lab_run(lab, set, SWAP_BODY, SWAP_SAME_LENGTH, in, strlen(in), step),
		          EACCES);
		/* Nothing of it was let go. */
		CHECK(lab->out.len <= 1);
	}
}

/* ---- what is held back ---- */

static const struct {
	const char *in;
	size_t held;
} held_cases[] = {
	{ "data: {\"a\": 1}\n\n", 0 }, { "x", 0 }, { "t", 1 }, { "xxxxxxxxto", 2 }, { "tok_AAAA", 8 },
	{ "tok_AAAAb", 9 }, { "tok_AAAAx", 0 }, { "tok_AAAAbbbb/cc+dd", 0 }, { "a%", 1 },
	{ "a%7", 2 }, { "a%75", 0 }, { "a%74", 3 }, { "tok\\u00", 7 }, { "tok\\", 4 },
	{ "100 % ", 0 }, { "ttttttttttttttttttttttttttttttttttttttttttttttttttttttttt", 1 },
};

TEST(swap_holds_only_beginnings)
{
	static const struct swap_needle needles[] = { { { FAKE, 18 }, { REAL, 18 } } };
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, 0);

	for (size_t i = 0; i < ARRAY_LEN(held_cases); i++) {
		OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
		const char *in = held_cases[i].in;

		lab->stream = (struct swap_stream){ .set = set, .judge = swap_lab_judge,
			.sink = swap_lab_sink, .arg = lab };
		CHECK_OK(swap_feed(&lab->stream, in, strlen(in), NULL));
		CHECK_U64(lab->out.len, strlen(in) - held_cases[i].held);
	}
}

TEST(swap_lets_go)
{
	static const struct swap_needle needles[] = { { { FAKE, 18 }, { "tok_placeholder+00", 18 } } };
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, SWAP_CODED);
	static const char in[] = "ab" FAKE "yz dG9rX0FBQUFiYmJiL2NjK2Rk tok_AAAAbbbb yzyzyz";
	static const char want[] = "abtok_placeholder+00yz dG9rX3BsYWNlaG9sZGVyKzAw tok_AAAAbbbb yzyzyz";

	for (size_t at = 1; at < sizeof(in) - 1; at++) {
		OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
		size_t gone;

		lab->stream = (struct swap_stream){ .set = set, .lengths = SWAP_FIT_LENGTH,
			.judge = swap_lab_judge, .sink = swap_lab_sink, .arg = lab };
		CHECK_OK(swap_feed(&lab->stream, in, at, NULL));
		CHECK_OK(swap_let_go(&lab->stream));
		CHECK_OK(swap_let_go(&lab->stream));
		gone = lab->out.len;
		CHECK(gone == at || gone + 25 - SWAP_GONE_MAX >= at);
		for (size_t i = at; i < sizeof(in) - 1; i += 3)
			CHECK_OK(swap_feed(&lab->stream, in + i,
			                   sizeof(in) - 1 - i < 3 ? sizeof(in) - 1 - i : 3, NULL));
		CHECK_OK(swap_finish(&lab->stream, NULL));
		CHECK_U64(lab->out.len, sizeof(in) - 1);
		CHECK_U64(lab->n_seen, 2);
		/* Up to the border it may be as it came; behind it nothing is. */
		CHECK(memcmp(swap_lab_text(lab) + gone, want + gone, sizeof(want) - 1 - gone) == 0);
	}
}

static void
count_missed(void *arg)
{
	struct swap_lab *lab = arg;

	lab->n_missed++;
}

/* What is held back for being a needle's beginning, and is none, was perhaps guessed. */
TEST(swap_reports_guesses)
{
	static const struct swap_needle needles[] = { { { FAKE, 18 }, { "tok_placeholder+00", 18 } } };
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, SWAP_CODED);
	static const struct { const char *held, *rest; size_t missed; } cases[] = {
		{ "ab tok_", "!", 0 }, { "ab tok_AAA", "!", 0 }, { "ab tok_AAAA", "!", 1 },
		{ "ab tok_AAAAbbbb/cc+d", "!", 1 }, { "ab tok_AAAA", "", 1 }, { "ab tok_A\\u0041AA", "!", 1 },
		{ "dG9rX0FBQUF", "!", 1 }, { "746f6b5f41414141", "!", 1 }, { "746f6b5f4141", "!", 0 },
		{ "ab tok_AAAA", "bbbb/cc+dd", 0 }, { "ab tok_AAAA!", "tok_AAAA", 1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();

		lab->stream = (struct swap_stream){ .set = set, .lengths = SWAP_FIT_LENGTH,
			.judge = swap_lab_judge, .sink = swap_lab_sink, .arg = lab, .missed = count_missed };
		CHECK_OK(swap_feed(&lab->stream, cases[i].held, strlen(cases[i].held), NULL));
		CHECK_OK(swap_feed(&lab->stream, cases[i].rest, strlen(cases[i].rest), NULL));
		swap_free(&lab->stream);
		CHECK_U64(lab->n_missed, cases[i].missed);
	}
}

/* As much goes on, whatever it is; and in the end the same. */
TEST(swap_holds_steady)
{
	static const struct swap_needle needles[] = { { { FAKE, 18 }, { "tok_placeholder+00", 18 } } };
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, SWAP_CODED);
	static const char *const ends[] = { "tok_AAAAbbbb", "tok_AAAAbbbx", "yyyyyyyyyyyd" };
	static const bool on = true;
	static char text[5000];
	size_t gone[ARRAY_LEN(ends)] = {0};

	memset(text, '.', sizeof(text) - 1);
	memcpy(text + 2000, FAKE, 18);
	for (size_t step = 1; step < 3000; step = step * 3 + 1)
		for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
			OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();

			lab->stream = (struct swap_stream){ .set = set, .lengths = SWAP_FIT_LENGTH,
				.judge = swap_lab_judge, .sink = swap_lab_sink, .arg = lab, .steady = &on };
			for (size_t at = 0; at < sizeof(text) - 1; at += step)
				CHECK_OK(swap_feed(&lab->stream, text + at, sizeof(text) - 1 - at < step ?
				                   sizeof(text) - 1 - at : step, NULL));
			CHECK_OK(swap_feed(&lab->stream, ends[i], 12, NULL));
			CHECK_OK(swap_let_go(&lab->stream));
			gone[i] = lab->out.len;
			CHECK_U64(gone[i], gone[0]);
			CHECK_OK(swap_finish(&lab->stream, NULL));
			CHECK_U64(lab->out.len, sizeof(text) - 1 + 12);
			CHECK_U64(lab->n_seen, 1);
			CHECK(memcmp(swap_lab_text(lab) + 2000, "tok_placeholder+00", 18) == 0);
		}
}

/* A gigabyte would do as well: what is held does not grow. */
TEST(swap_memory_is_flat)
{
	static char big[SWAP_NEEDLE_MAX];
	struct swap_needle needle = { { big, sizeof(big) }, { REAL, 18 } };
	OWN(swap_set_freep) struct swap_set *set = NULL;
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();

	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)('a' + lab_random(26));
	set = set_of(&needle, 1, SWAP_CODED);
	lab->stream = (struct swap_stream){ .set = set, .lengths = SWAP_FIT_LENGTH,
		.judge = swap_lab_judge, .sink = swap_lab_sink, .arg = lab };
	for (int i = 0; i < 40; i++) {
		/* All but its end, byte by byte at the border. */
		CHECK_OK(swap_feed(&lab->stream, big, sizeof(big) - 2000, NULL));
		for (size_t k = sizeof(big) - 2000; k < sizeof(big) - 1; k++)
			CHECK_OK(swap_feed(&lab->stream, big + k, 1, NULL));
		CHECK(lab->stream.n_held >= sizeof(big) - 1);
		CHECK(lab->stream.cap <= 2 * sizeof(big));
		if (i % 2 == 1)
			CHECK_OK(swap_feed(&lab->stream, big + sizeof(big) - 1, 1, NULL));
	}
	CHECK_OK(swap_finish(&lab->stream, NULL));
	CHECK_U64(lab->n_seen, 20);
	CHECK_U64(lab->out.len, 40 * sizeof(big) - 20);
}

/* ---- sets ---- */

TEST(swap_set_limits)
{
	static struct swap_needle many[SWAP_NEEDLES_MAX + 1];
	static char big[SWAP_NEEDLE_MAX + 1];
	struct swap_set *set = NULL;
	struct err err = {0};

	many[0] = (struct swap_needle){ { "1234567", 7 }, { "", 0 } };
	CHECK_ERR(swap_set_new(many, 1, 0, &set, &err), EINVAL);
	CHECK(strstr(err.text, "1234567") == NULL);
	many[0] = (struct swap_needle){ { big, sizeof(big) }, { "", 0 } };
	CHECK_ERR(swap_set_new(many, 1, 0, &set, &err), EINVAL);
	many[0] = (struct swap_needle){ { big, 8 }, { big, sizeof(big) } };
	CHECK_ERR(swap_set_new(many, 1, 0, &set, &err), EINVAL);
	CHECK_ERR(swap_set_new(many, SWAP_NEEDLES_MAX + 1, 0, &set, &err), E2BIG);
	CHECK(set == NULL);
	CHECK_OK(swap_set_new(many, 0, SWAP_CODED, &set, &err));
	swap_set_free(set);
	swap_set_free(NULL);
}

TEST(swap_body_places)
{
	static const struct {
		const char *type;
		enum swap_place place;
	} cases[] = {
		{ "", SWAP_BODY }, { "text/plain", SWAP_BODY }, { "application/json", SWAP_BODY_JSON },
		{ "Application/JSON ; charset=utf-8", SWAP_BODY_JSON }, { "json", SWAP_BODY },
		{ "application/problem+json", SWAP_BODY_JSON }, { "text/xjson", SWAP_BODY },
		{ "application/x-www-form-urlencoded", SWAP_BODY_FORM },
		{ "application/x-www-form-urlencoded;charset=utf-8", SWAP_BODY_FORM },
		{ "application/x-www-form-urlencodedx", SWAP_BODY },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		CHECK(swap_body_place(text_of(cases[i].type)) == cases[i].place);
	CHECK(swap_body_place((struct http_text){ NULL, 0 }) == SWAP_BODY);
}
