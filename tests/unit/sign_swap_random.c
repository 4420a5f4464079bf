/* sign_swap_random.c - tests of sign/swap against a slow finder written apart from it, on
 * random needles and texts of few characters. */
#include <ctype.h>

#include "base/codec.h"
#include "swap_lab.h"

#define TEXT_MAX 400
#define NEEDLES 6

/* ---- a finder that tries everything ---- */

/* What is undone; only in answers: what is behind ECHOED. */
enum { PERCENT = 1, BACKSLASH = 2, HTML = 4, QUOTED = 8, ECHOED = 16, ALL = 31 };

/* What is not ASCII is tested elsewhere: here it is nothing that a needle has. */
static char
ascii(unsigned long c)
{
	return (char)(c < 0x80 ? c : 0xff);
}

static size_t
slow_html(const char *at, size_t len, char *ret)
{
	static const char *const names[] = { "&amp;&", "&quot;\"", "&sol;/", "&percnt;%", "&equals;=", "&bsol;\\",
		"&plus;+" };
	char text[16] = {0}, digits[9];
	int n = 0;

	memcpy(text, at, len < sizeof(text) - 1 ? len : sizeof(text) - 1);
	if (sscanf(text, "&#%8[0-9];%n", digits, &n) == 1 && n > 0) {
		*ret = ascii(strtoul(digits, NULL, 10));
		return strtoul(digits, NULL, 10) <= 0x10ffff ? (size_t)n : 0;
	}
	if ((sscanf(text, "&#x%8[0-9a-fA-F];%n", digits, &n) == 1 ||
	     sscanf(text, "&#X%8[0-9a-fA-F];%n", digits, &n) == 1) && n > 0) {
		*ret = ascii(strtoul(digits, NULL, 16));
		return strtoul(digits, NULL, 16) <= 0x10ffff ? (size_t)n : 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t size = strlen(names[i]) - 1;

		*ret = names[i][size];
		if (strncmp(text, names[i], size) == 0)
			return size;
	}
	return 0;
}

static size_t
slow_quoted(const char *at, size_t len, char *ret)
{
	char text[16] = {0}, digits[3];
	size_t skip;
	int n = 0;

	memcpy(text, at, len < sizeof(text) - 1 ? len : sizeof(text) - 1);
	skip = strncmp(text, "=\r\n", 3) == 0 ? 3 : strncmp(text, "=\n", 2) == 0 ? 2 : 0;
	if (sscanf(text + skip, "=%2[0-9a-fA-F]%n", digits, &n) == 1 && n == 3) {
		*ret = (char)strtoul(digits, NULL, 16);
		return skip + 3;
	}
	*ret = text[skip];
	return skip > 0 && len > skip && text[skip] != '=' ? skip + 1 : 0;
}

static size_t
slow_backslash(const char *at, size_t len, char *ret)
{
	char text[16] = {0}, digits[9];
	int n = 0;

	memcpy(text, at, len < sizeof(text) - 1 ? len : sizeof(text) - 1);
	if (sscanf(text, "\\x%2[0-9a-fA-F]%n", digits, &n) == 1 && n == 4) {
		*ret = (char)strtoul(digits, NULL, 16);
		return 4;
	}
	if (sscanf(text, "\\%3[0-7]%n", digits, &n) == 1 && n == 4) {
		*ret = (char)strtoul(digits, NULL, 8);
		return 4;
	}
	n = 0;
	if (sscanf(text, "\\u{%8[0-9a-fA-F]}%n", digits, &n) == 1 && n > 0 && strtoul(digits, NULL, 16) <= 0x10ffff) {
		*ret = ascii(strtoul(digits, NULL, 16));
		return (size_t)n;
	}
	return 0;
}

/* The byte that an escape at AT stands for; returns its length, or 0. */
static size_t
slow_unescape(const char *at, size_t len, unsigned how, char *ret)
{
	bool percent = (how & PERCENT) != 0, json = (how & BACKSLASH) != 0;
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char hex[5] = {0};

	if (percent && len >= 3 && at[0] == '%' && codec_hex_value(at[1]) >= 0 &&
	    codec_hex_value(at[2]) >= 0) {
		memcpy(hex, at + 1, 2);
		*ret = (char)strtoul(hex, NULL, 16);
		return 3;
	}
	if ((how & HTML) != 0 && (how & ECHOED) != 0 && at[0] == '&')
		return slow_html(at, len, ret);
	if ((how & QUOTED) != 0 && (how & ECHOED) != 0 && at[0] == '=')
		return slow_quoted(at, len, ret);
	if (!json || len < 2 || at[0] != '\\')
		return 0;
	if ((how & ECHOED) != 0 && (at[1] == 'x' || (at[1] >= '0' && at[1] <= '3') ||
	                            (len > 2 && at[1] == 'u' && at[2] == '{')))
		return slow_backslash(at, len, ret);
	if ((how & ECHOED) != 0 && at[1] == '\'') {
		*ret = '\'';
		return 2;
	}
	for (size_t i = 0; from[i] != '\0'; i++)
		if (at[1] == from[i]) {
			*ret = to[i];
			return 2;
		}
	if (len < 6 || at[1] != 'u')
		return 0;
	for (size_t i = 2; i < 6; i++)
		if (codec_hex_value(at[i]) < 0)
			return 0;
	memcpy(hex, at + 2, 4);
	*ret = ascii(strtoul(hex, NULL, 16));
	return 6;
}

/* How long NEEDLE is as it is written at AT; 0 if it is not there. */
static size_t
slow_match(struct http_text needle, const char *at, size_t len, unsigned how)
{
	size_t pos = 0;

	for (size_t i = 0; i < needle.len; i++) {
		char c = '\0';
		size_t n = pos < len ? slow_unescape(at + pos, len - pos, how, &c) : 0;

		if (pos == len)
			return 0;
		if (n == 0) {
			c = at[pos];
			n = 1;
		}
		if (c != needle.at[i])
			return 0;
		pos += n;
	}
	return pos;
}

enum { AS_IS, UPPER, LOWER, UTF16, N_FORMS };

/* All of a needle, as one writes it without escapes; returns the length. */
static size_t
slow_form(struct http_text needle, unsigned form, char *ret)
{
	size_t n = 0;

	for (size_t i = 0; i < needle.len; i++) {
		if (form == UTF16 && i > 0)
			ret[n++] = '\0';
		ret[n++] = (char)(form == UPPER ? toupper((unsigned char)needle.at[i]) :
		                  form == LOWER ? tolower((unsigned char)needle.at[i]) : needle.at[i]);
	}
	return n;
}

/* The longest of N needles at AT: how much of it that is. */
static size_t
slow_longest(const struct swap_needle *needles, size_t n, unsigned flags, const char *at, size_t len)
{
	size_t best = 0;

	for (size_t i = 0; i < n; i++)
		for (unsigned how = 16; how-- > 0;) {
			unsigned echoed = (flags & SWAP_ECHOED) != 0 ? ECHOED : 0;

			for (unsigned form = 0; form < (echoed != 0 ? N_FORMS : 1); form++) {
				char text[64];
				struct http_text needle = { text, slow_form(needles[i].find, form, text) };
				size_t used = slow_match(needle, at, len, how | echoed);

				best = used > best ? used : best;
			}
		}
	return best;
}

/* ---- random needles and texts ---- */

static void
random_text(char *text, size_t len, const char *alphabet)
{
	for (size_t i = 0; i < len; i++)
		text[i] = alphabet[lab_random((uint32_t)strlen(alphabet))];
}

/* Needles, written in some way, with something between them. */
static size_t
random_stream(char *text, const struct swap_needle *needles, size_t n, const char *alphabet)
{
	size_t len = 0;

	while (len < TEXT_MAX - 200) {
		char form[64];
		struct http_text find = needles[lab_random((uint32_t)n)].find;
		struct http_text needle = { form, slow_form(find, lab_random(2) == 0 ? lab_random(N_FORMS) : AS_IS, form) };
		size_t between = lab_random(12), part = lab_random(4) == 0 ? lab_random(8) : needle.len;

		random_text(text + len, between, alphabet);
		len += between;
		for (size_t i = 0; i < part && len < TEXT_MAX - 10; i++) {
			unsigned c = (unsigned char)needle.at[i];

			switch (lab_random(20)) {
			case 0:
				len += (size_t)snprintf(text + len, 8, "%%%02x", c);
				break;
			case 1:
				len += (size_t)snprintf(text + len, 8, "\\u%04X", c);
				break;
			case 2:
				if (c == '\\' || c == '/')
					text[len++] = '\\';
				text[len++] = (char)c;
				break;
			case 3:
				len += (size_t)snprintf(text + len, 9, lab_random(2) ? "&#%u;" : "&#0%u;", c);
				break;
			case 4:
				len += (size_t)snprintf(text + len, 8, lab_random(2) ? "&#x%x;" : "&#X%X;", c);
				break;
			case 5:
				len += (size_t)snprintf(text + len, 9, c == '&' ? "&amp;" : c == '/' ? "&sol;" :
				                        c == '=' ? "&equals;" : "%c", c);
				break;
			case 8:
				len += (size_t)snprintf(text + len, 9, lab_random(2) ? "=%02X" : "=\r\n=%02x", c);
				break;
			case 9:
				len += (size_t)snprintf(text + len, 9, lab_random(2) ? "=\n%c" : "=\r\n%c", c);
				break;
			case 6:
				len += (size_t)snprintf(text + len, 8, lab_random(2) ? "\\x%02x" : "\\x%02X", c);
				break;
			case 7:
				len += (size_t)snprintf(text + len, 8, lab_random(2) ? "\\%03o" : "\\u{%x}", c);
				break;
			default:
				text[len++] = (char)c;
			}
		}
	}
	return len;
}

static void
check_stream(struct swap_lab *lab, const struct swap_set *set, unsigned flags,
             const struct swap_needle *needles, size_t n, const char *text, size_t len)
{
	size_t at = 0, n_seen = 0, used;

	CHECK_OK(swap_lab_run(lab, set, SWAP_BODY, SWAP_ANY_LENGTH, text, len, 0));
	while (at < len) {
		used = slow_longest(needles, n, flags, text + at, len - at);
		if (used == 0) {
			at++;
			continue;
		}
		if (n_seen == lab->n_seen || lab->seen[n_seen].at != at || lab->seen[n_seen].len != used)
			test_fail(__FILE__, __LINE__, "%zu: not seen at %zu: %.*s", n_seen, at, (int)len, text);
		n_seen++;
		at += used;
	}
	if (n_seen != lab->n_seen)
		test_fail(__FILE__, __LINE__, "%zu seen, not %zu: %.*s", lab->n_seen, n_seen, (int)len, text);
}

TEST(swap_random)
{
	static const char *const alphabets[] = { "ab", "ab/4", "ab%6\\u01", "abcdefghijklmnop%\\\"",
		"ab&#9;x", "aAbB/-", "ab\\x6{}1u", "ab\\'", "ab=/&6\\",
		"ab=1\r\n" };
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	char texts[NEEDLES][16], text[TEXT_MAX];

	for (int i = 0; i < 9000; i++) {
		OWN(swap_set_freep) struct swap_set *set = NULL;
		const char *alphabet = alphabets[(size_t)i % ARRAY_LEN(alphabets)];
		unsigned flags = i % 4 == 0 ? 0 : SWAP_ECHOED;
		struct swap_needle needles[NEEDLES];
		size_t n = 1 + lab_random(NEEDLES);

		for (size_t k = 0; k < n; k++) {
			size_t len = 8 + lab_random(8);

			random_text(texts[k], len, alphabet);
			needles[k] = (struct swap_needle){ { texts[k], len }, { "*", 1 } };
		}
		set = set_of(needles, n, flags);
		check_stream(lab, set, flags, needles, n, text, random_stream(text, needles, n, alphabet));
	}
}

/* ---- cut in any way ---- */

TEST(swap_cut_anywhere)
{
	OWN(swap_lab_freep) struct swap_lab *whole = swap_lab_new(), *cut = swap_lab_new();
	static const char alphabet[] = "abAB%6\\u01+/=Q&#;";
	char texts[NEEDLES][16], text[TEXT_MAX];

	for (int i = 0; i < 6000; i++) {
		OWN(swap_set_freep) struct swap_set *set = NULL;
		enum swap_lengths lengths = i % 2 == 0 ? SWAP_ANY_LENGTH : SWAP_FIT_LENGTH;
		struct swap_needle needles[NEEDLES];
		size_t n = 1 + lab_random(NEEDLES), len;

		for (size_t k = 0; k < n; k++) {
			random_text(texts[k], sizeof(texts[k]), alphabet);
			needles[k] = (struct swap_needle){ { texts[k], 8 + lab_random(8) }, { "", 0 } };
			needles[k].with = lengths == SWAP_FIT_LENGTH ? text_of("=ab%")
				: (struct http_text){ "????????????????", needles[k].find.len };
		}
		set = set_of(needles, n, i % 3 == 0 ? SWAP_CODED : SWAP_CODED | SWAP_ECHOED);
		len = random_stream(text, needles, n, alphabet);
		CHECK_OK(swap_lab_run(whole, set, SWAP_BODY, lengths, text, len, len));
		CHECK_OK(swap_lab_run(cut, set, SWAP_BODY, lengths, text, len, 0));
		CHECK_U64(cut->n_seen, whole->n_seen);
		for (size_t k = 0; k < cut->n_seen; k++)
			CHECK(cut->seen[k].at == whole->seen[k].at && cut->seen[k].len == whole->seen[k].len &&
			      cut->seen[k].needle == whole->seen[k].needle);
		CHECK_STR(swap_lab_text(cut), swap_lab_text(whole));
		CHECK(cut->stream.grown == whole->stream.grown);
		CHECK(lengths == SWAP_ANY_LENGTH || cut->out.len == len);
	}
}

/* ---- nothing is left ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/* DATA in base64, without padding; returns the length. */
static size_t
slow_base64(const char *data, size_t len, bool url, char *out)
{
	uint32_t bits = 0;
	unsigned n = 0;
	size_t at = 0;

	for (size_t i = 0; i < len || n > 0;) {
		while (n < 6) {
			bits = bits << 8 | (i < len ? (unsigned char)data[i] : 0);
			n += 8;
			i++;
		}
		n -= 6;
		unsigned v = bits >> n & 63;

		out[at++] = v < 62 ? digits[v] : v == 62 ? "+-"[url] : "/_"[url];
		if (i >= len && 6 * at >= 8 * len)
			break;
	}
	return at;
}

/* REAL with something around it, in the form that HOW says. */
static size_t
write_form(char *out, struct http_text real, unsigned how)
{
	char text[64];
	size_t before = how % 3, len = before + real.len + lab_random(3), n = 0;

	random_text(text, sizeof(text), digits);
	memcpy(text + before, real.at, real.len);
	switch (how / 3 % 14) {
	case 0:
		return slow_base64(text, len, false, out);
	case 1:
		return slow_base64(text, len, true, out);
	case 2:
	case 3:
		for (size_t i = 0; i < len; i++)
			n += (size_t)snprintf(out + n, 3, how / 3 % 14 == 2 ? "%02x" : "%02X",
			                      (unsigned char)text[i]);
		return n;
	case 4:
		for (size_t i = 0; i < len; i++)
			n += (size_t)snprintf(out + n, 8, lab_random(2) ? "%c" : "%%%02X",
			                      (unsigned char)text[i]);
		return n;
	case 5:
		for (size_t i = 0; i < len; i++)
			n += (size_t)snprintf(out + n, 8, lab_random(2) || (unsigned char)text[i] > 127 ? "%c" : "\\u%04x",
			                      (unsigned char)text[i]);
		return n;
	case 6:
		for (size_t i = 0; i < len; i++)
			n += (size_t)snprintf(out + n, 8, lab_random(2) || (unsigned char)text[i] > 127 ? "%c" :
			                      lab_random(2) ? "&#%d;" : "&#x%X;", (unsigned char)text[i]);
		return n;
	case 7:
	case 8:
		for (size_t i = 0; i < len; i++)
			n += (size_t)snprintf(out + n, 8, lab_random(2) ? "%c" : how / 3 % 14 == 7 ? "\\x%02x" : "\\%03o",
			                      (unsigned char)text[i]);
		return n;
	case 12:
		/* What is not ASCII is not looked for so. */
		for (size_t i = 0; i < real.len && (real.at[i] & 0x80) == 0; i++)
			if (i + 1 == real.len)
				return slow_form(real, UTF16, out);
		memcpy(out, text, len);
		return len;
	case 9:
	case 10:
		memcpy(out, text, len);
		slow_form(real, how / 3 % 14 == 9 ? UPPER : LOWER, out + before);
		return len;
	case 11:
		for (size_t i = 0; i < len; i++)
			n += (size_t)snprintf(out + n, 8, text[i] == '=' || lab_random(3) == 0 ? "=%02X" :
			                      lab_random(3) == 0 ? "=\r\n%c" : "%c", (unsigned char)text[i]);
		return n;
	default:
		memcpy(out, text, len);
		return len;
	}
}

static size_t
unescape_all(const char *in, size_t len, char *out)
{
	size_t n = 0, used;

	for (size_t i = 0; i < len; i += used) {
		used = slow_unescape(in + i, len - i, ALL, &out[n]);
		if (used == 0) {
			out[n] = in[i];
			used = 1;
		}
		n++;
	}
	return n;
}

/* Whether REAL, or most of it, is in TEXT in any form. */
static bool
is_in(const char *text, size_t len, struct http_text real)
{
	char form[256], padded[64] = "..";

	for (unsigned how = 0; how < N_FORMS; how++)
		if (memmem(text, len, form, slow_form(real, how, form)) != NULL)
			return true;
	for (unsigned how = 0; how < 2; how++) {
		size_t n = 0;

		for (size_t i = 0; i < real.len; i++)
			n += (size_t)snprintf(form + n, 3, how == 0 ? "%02x" : "%02X", (unsigned char)real.at[i]);
		if (memmem(text, len, form, n) != NULL)
			return true;
		for (size_t phase = 0; phase < 3; phase++) {
			memcpy(padded + phase, real.at, real.len);
			n = slow_base64(padded, phase + real.len, how == 1, form);
			/* Without the digits that hang on what is beside it. */
			if (memmem(text, len, form + 2 * (phase > 0) + (phase > 1), n - 4) != NULL)
				return true;
		}
	}
	return false;
}

TEST(swap_scrubs)
{
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	static const char chars[] = "abcdefghABCDEFGH0123/+-_ ?&=\"\303\251";
	char reals[NEEDLES][24], text[4096], plain[4096];

	for (int i = 0; i < 3000; i++) {
		OWN(swap_set_freep) struct swap_set *set = NULL;
		struct swap_needle needles[NEEDLES];
		size_t n = 1 + lab_random(NEEDLES), len = 0, n_written = 0;

		for (size_t k = 0; k < n; k++) {
			random_text(reals[k], sizeof(reals[k]), chars);
			needles[k] = (struct swap_needle){ { reals[k], 8 + lab_random(16) },
				text_of("0123456789012345678901234567890") };
			needles[k].with.len = lab_random(24);
		}
		set = set_of(needles, n, SWAP_CODED | SWAP_ECHOED);
		while (len < 1000) {
			len += write_form(text + len, needles[lab_random((uint32_t)n)].find, lab_random(42));
			text[len++] = " \"=.\n"[lab_random(5)];
			n_written++;
		}
		CHECK_OK(swap_lab_run(lab, set, SWAP_BODY, SWAP_FIT_LENGTH, text, len, 0));
		CHECK_U64(lab->out.len, len);
		CHECK_U64(lab->n_seen, n_written);
		for (size_t k = 0; k < n; k++) {
			CHECK(!is_in((char *)lab->out.data, len, needles[k].find));
			CHECK(!is_in(plain, unescape_all((char *)lab->out.data, len, plain),
			             needles[k].find));
		}
	}
}

/* In base64 what stands around it stays, to the bit. */
TEST(swap_base64_keeps_the_rest)
{
	static const struct swap_needle needles[] = { { { "real-key-0123456", 16 },
	                                               { "fake_KEY.6543210", 16 } } };
	OWN(swap_set_freep) struct swap_set *set = set_of(needles, 1, SWAP_CODED);
	OWN(swap_lab_freep) struct swap_lab *lab = swap_lab_new();
	char plain[64], in[128], want[128];
	size_t n, len;

	for (size_t before = 0; before < 12; before++)
		for (size_t behind = 0; behind < 6; behind++)
			for (size_t step = 1; step < 48; step++) {
				len = before + 16 + behind;
				for (size_t i = 0; i < len; i++)
					plain[i] = (char)(0x91 * i + 7);
				memcpy(plain + before, needles[0].find.at, 16);
				n = slow_base64(plain, len, before % 2 == 1, in);
				memcpy(plain + before, needles[0].with.at, 16);
				CHECK_U64(slow_base64(plain, len, before % 2 == 1, want), n);
				CHECK_OK(swap_lab_run(lab, set, SWAP_BODY, SWAP_SAME_LENGTH, in, n, step));
				CHECK_U64(lab->n_seen, 1);
				CHECK(lab->out.len == n && memcmp(lab->out.data, want, n) == 0);
			}
}
