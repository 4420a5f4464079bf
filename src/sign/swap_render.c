/* swap_render.c - writes a replacement in the same form as the match. */
#include <errno.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "sign/swap_parts.h"

#define PIECE 512                       /* bytes written at once */
#define TRIED 4                         /* short escapes to try: five of them equal a long one */

#define ZEROS_MAX 5                     /* before a character's number in HTML: leading zeros have no effect */

enum style { STYLE_PLAIN, STYLE_PERCENT, STYLE_JSON, STYLE_HTML, STYLE_X, STYLE_OCTAL,
             STYLE_QUOTED };
/* The escape that can represent any byte. */
static const struct { const char *head, *end; size_t len; } longs[] = {
	[STYLE_PLAIN] = { "", "", 1 },
	[STYLE_PERCENT] = { "%", "", 3 },
	[STYLE_JSON] = { "\\u00", "", 6 },
	[STYLE_HTML] = { "&#x", ";", 6 },
	[STYLE_X] = { "\\x", "", 4 },
	[STYLE_OCTAL] = { "\\", "", 4 },
	[STYLE_QUOTED] = { "=", "", 3 },
};

struct render {
	enum style style;
	enum swap_form form;
	unsigned phase;
	struct http_text with;
	size_t n;                       /* bytes to write, before escaping */
	bool plain[256];                /* with STYLE_PERCENT: needs no escape */
	/* Unnecessary escapes, to keep the length. */
	size_t n_long;                  /* for bytes that would be plain */
	size_t n_longer;                /* instead of short ones */
	size_t n_slash;                 /* \/ */
	size_t n_zeros;                 /* in the first of these, in HTML */
};

static enum style
style_of(enum swap_place place, enum swap_form form, const struct swap_hit *hit)
{
	/* Its zero bytes cannot be escaped. */
	if (form == SWAP_UTF16)
		return STYLE_PLAIN;
	if ((hit->escapes & SWAP_BY_PERCENT) != 0)
		return STYLE_PERCENT;
	if ((hit->escapes & SWAP_BY_HTML) != 0)
		return STYLE_HTML;
	if ((hit->escapes & SWAP_BY_X) != 0)
		return STYLE_X;
	if ((hit->escapes & SWAP_BY_OCTAL) != 0)
		return STYLE_OCTAL;
	if ((hit->escapes & SWAP_BY_QUOTED) != 0)
		return STYLE_QUOTED;
	if ((hit->escapes & SWAP_BY_JSON) != 0)
		return STYLE_JSON;
	switch (place) {
	case SWAP_PATH:
	case SWAP_QUERY:
	case SWAP_BODY_FORM:
		return STYLE_PERCENT;
	case SWAP_BODY_JSON:
		return STYLE_JSON;
	default:
		return STYLE_PLAIN;
	}
}

/* Bytes that were plain in the match may be plain again: its writer knew what the place accepts. */
static void
learn_plain(struct render *w, const struct swap_set *set, const unsigned char *at,
            const struct swap_hit *hit)
{
	unsigned char bytes[4];
	size_t used, n;

	for (unsigned c = 0; c < 256; c++)
		w->plain[c] = codec_is_unreserved((unsigned char)c);
	for (size_t i = hit->start; i < hit->end; i += used) {
		used = swap_unescape(set, at + i, hit->end - i, true, bytes, &n);
		if (used == 1 && bytes[0] != '%')
			w->plain[bytes[0]] = true;
	}
	/* A plus was a blank. */
	w->plain['+'] = w->plain['+'] && w->form != SWAP_PLUS;
}

static unsigned char
next_byte(const struct render *w, size_t i)
{
	return swap_form_byte(w->form, w->phase, w->with, i);
}

/* The letter after the backslash, or 0. */
static char
short_escape(unsigned char c)
{
	switch (c) {
	case '"': return '"';
	case '\\': return '\\';
	case '\b': return 'b';
	case '\f': return 'f';
	case '\n': return 'n';
	case '\r': return 'r';
	case '\t': return 't';
	default: return 0;
	}
}

static bool
must_escape(const struct render *w, size_t i, unsigned char c)
{
	switch (w->style) {
	case STYLE_PLAIN:
		break;
	case STYLE_PERCENT:
		return !w->plain[c] &&
		       !(w->form == SWAP_PLUS && i < w->with.len && w->with.at[i] == ' ');
	case STYLE_JSON:
		return c < 0x20 || c == '"' || c == '\\';
	case STYLE_X:
	case STYLE_OCTAL:
		return c < 0x20 || c == '"' || c == '\'' || c == '\\';
	case STYLE_QUOTED:
		return c < 0x20 || c == '=' || c > 0x7e;
	case STYLE_HTML:
		return c == '&' || c == '<' || c == '>' || c == '"' || c == '\'';
	}
	return false;
}

/* ---- the length ---- */

struct counts {
	size_t needed;                  /* extra bytes for necessary escapes */
	size_t ascii;                   /* plain bytes that may be escaped as well */
	size_t slashes, shorts;
};

static struct counts
count(const struct render *w)
{
	struct counts k = {0};

	for (size_t i = 0; i < w->n; i++) {
		unsigned char c = next_byte(w, i);

		if (!must_escape(w, i, c)) {
			k.slashes += c == '/';
			k.ascii += c < 0x80 || w->style == STYLE_PERCENT;
		} else if (w->style == STYLE_JSON && short_escape(c) != 0) {
			k.needed++;
			k.shorts++;
		} else {
			k.needed += longs[w->style].len - 1;
		}
	}
	return k;
}

/* Add MORE bytes by long escapes alone. */
static bool
fill_long(struct render *w, const struct counts *k, size_t more)
{
	size_t each = longs[w->style].len - 1, rest;

	if (more == 0)
		return true;
	if (each == 0)
		return false;
	w->n_long = more / each < k->ascii ? more / each : k->ascii;
	rest = more - w->n_long * each;
	if (w->style != STYLE_HTML)
		return rest == 0;
	w->n_zeros = rest;
	return rest <= ZEROS_MAX && (w->n_long > 0 || k->needed > 0);
}

/* Reach MORE bytes beyond the unescaped length.  False: impossible. */
static bool
fill(struct render *w, const struct counts *k, size_t more)
{
	size_t rest = more - k->needed, each = longs[STYLE_JSON].len - 1;

	if (more < k->needed)
		return false;
	if (w->style != STYLE_JSON)
		return fill_long(w, k, rest);
	for (size_t longer = 0; longer <= TRIED && longer <= k->shorts; longer++)
		for (size_t slash = 0; slash <= TRIED && slash <= k->slashes; slash++) {
			size_t part = longer * (each - 1) + slash;

			if (part > rest || (rest - part) % each != 0 ||
			    (rest - part) / each > k->ascii - slash)
				continue;
			w->n_longer = longer;
			w->n_slash = slash;
			w->n_long = (rest - part) / each;
			return true;
		}
	return false;
}

/* ---- writing ---- */

struct piece {
	unsigned char text[PIECE];
	size_t len;
	struct swap_out *out;
	int r;
};

static void
put_bytes(struct piece *p, const void *data, size_t len)
{
	if (p->len + len > sizeof(p->text)) {
		if (p->r >= 0)
			p->r = swap_put(p->out, p->text, p->len);
		p->len = 0;
	}
	memcpy(p->text + p->len, data, len);
	p->len += len;
}

static int
put_end(struct piece *p)
{
	if (p->r >= 0 && p->len > 0)
		p->r = swap_put(p->out, p->text, p->len);
	explicit_bzero(p->text, sizeof(p->text));
	return p->r < 0 ? p->r : 0;
}

static void
put_long(struct piece *p, struct render *w, unsigned char c)
{
	static const char hex[] = "0123456789ABCDEF";
	char digits[2] = { hex[c >> 4], hex[c & 15] };
	char octal[3] = { (char)('0' + (c >> 6)), (char)('0' + (c >> 3 & 7)), (char)('0' + (c & 7)) };

	put_bytes(p, longs[w->style].head, strlen(longs[w->style].head));
	for (; w->n_zeros > 0; w->n_zeros--)
		put_bytes(p, "0", 1);
	if (w->style == STYLE_OCTAL)
		put_bytes(p, octal, sizeof(octal));
	else
		put_bytes(p, digits, sizeof(digits));
	put_bytes(p, longs[w->style].end, strlen(longs[w->style].end));
}

static void
put_byte(struct piece *p, struct render *w, size_t i)
{
	unsigned char c = next_byte(w, i);
	char two[2] = { '\\', short_escape(c) };

	if (must_escape(w, i, c)) {
		if (w->style != STYLE_JSON || two[1] == 0 || w->n_longer > 0) {
			w->n_longer -= w->style == STYLE_JSON && two[1] != 0;
			put_long(p, w, c);
		} else {
			put_bytes(p, two, 2);
		}
	} else if (c == '/' && w->n_slash > 0) {
		w->n_slash--;
		put_bytes(p, "\\/", 2);
	} else if (w->n_long > 0 && (c < 0x80 || w->style == STYLE_PERCENT)) {
		w->n_long--;
		/* A plus that stands for a blank. */
		put_long(p, w, w->form == SWAP_PLUS && c == '+' ? ' ' : c);
	} else {
		put_bytes(p, &c, 1);
	}
}

/* The digit before or after: only the bits of the value change. */
static void
put_shared(struct piece *p, const struct render *w, unsigned char was, size_t find_len,
           bool is_before)
{
	unsigned bits = is_before ? swap_form_before(w->form, w->phase)
	                          : swap_form_behind(w->form, w->phase, find_len);
	unsigned v = (unsigned)codec_base64_value(was), mask = (1u << bits) - 1, byte;
	unsigned char c;

	byte = swap_form_byte(SWAP_RAW, 0, w->with, is_before ? 0 : find_len - 1);
	if (is_before)
		v = (v & ~mask) | byte >> (8 - bits);
	else
		v = (v & ~(mask << (6 - bits))) | (byte & mask) << (6 - bits);
	c = (unsigned char)codec_base64_alphabet[w->form == SWAP_BASE64URL][v & 63];
	put_bytes(p, &c, 1);
}

static int
put_filled(struct piece *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		put_bytes(p, "x", 1);
	return put_end(p);
}

/* In most places a value is written as itself.  False: it needs more than that. */
static bool
render_as_is(const struct swap_stream *s, const struct swap_hit *hit, struct swap_out *out,
             int64_t *ret_grown, int *ret_r)
{
	const struct pattern *pattern = &s->set->patterns[hit->pattern];
	struct http_text with = s->set->needles[pattern->needle].with;
	size_t len = hit->end - hit->start;

	if (pattern->form != SWAP_RAW || style_of(s->place, pattern->form, hit) != STYLE_PLAIN ||
	    (s->lengths != SWAP_ANY_LENGTH && with.len != len))
		return false;
	*ret_grown = (int64_t)with.len - (int64_t)len;
	*ret_r = swap_put(out, (const unsigned char *)with.at, with.len);
	return true;
}

static int
render(const struct swap_stream *s, const unsigned char *at, const struct swap_hit *hit,
       struct swap_out *out, int64_t *ret_grown, struct err *err)
{
	const struct pattern *pattern = &s->set->patterns[hit->pattern];
	const struct swap_needle *needle = &s->set->needles[pattern->needle];
	bool fits = s->lengths == SWAP_FIT_LENGTH;
	size_t len = hit->end - hit->start, wide = (size_t)hit->wide_before + hit->wide_behind;
	struct render w = { .style = style_of(s->place, pattern->form, hit), .form = pattern->form,
		.phase = pattern->phase, .with = needle->with };
	struct piece p = { .out = out };
	struct counts k;

	if (fits && w.with.len > needle->find.len)
		w.with.len = needle->find.len;
	if ((w.form == SWAP_BASE64 || w.form == SWAP_BASE64URL) && !fits &&
	    w.with.len != needle->find.len)
		return err_set(err, EMSGSIZE, "a credential of another length cannot be put into the "
		               "middle of base64");
	w.n = swap_form_len(w.form, w.phase, fits ? needle->find.len : w.with.len);
	if (w.style == STYLE_PERCENT)
		learn_plain(&w, s->set, at, hit);
	k = count(&w);
	if (len - wide < w.n || !fill(&w, &k, len - wide - w.n)) {
		if (fits)
			return put_filled(&p, len);
		if (s->lengths == SWAP_SAME_LENGTH)
			return err_set(err, EMSGSIZE, "a credential of another length would change the "
			               "length that was declared");
		w.n_long = w.n_longer = w.n_slash = w.n_zeros = 0;
		*ret_grown = (int64_t)(w.n + k.needed) - (int64_t)(len - wide);
	}
	if (hit->wide_before)
		put_shared(&p, &w, at[hit->start], needle->find.len, true);
	for (size_t i = 0; i < w.n; i++)
		put_byte(&p, &w, i);
	if (hit->wide_behind)
		put_shared(&p, &w, at[hit->end - 1], needle->find.len, false);
	return put_end(&p);
}

int
swap_render(const struct swap_stream *s, const unsigned char *at, const struct swap_hit *hit,
            struct swap_out *out, int64_t *ret_grown, struct err *err)
{
	int r;

	return render_as_is(s, hit, out, ret_grown, &r) ? r :
		render(s, at, hit, out, ret_grown, err);
}
