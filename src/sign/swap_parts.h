/* swap_parts.h - what the files of swap share. */
#ifndef CLOISTER_SWAP_PARTS_H
#define CLOISTER_SWAP_PARTS_H
#include "sign/swap.h"

#define GRAM 4                          /* bytes that are looked up together */
#define STRIDE 4                        /* every so many */
#define SAMPLED (GRAM + STRIDE - 1)     /* a pattern's beginning, of which one is met */

/* A needle in one form; its bytes are worked out when they are compared. */
struct pattern {
	uint16_t needle;
	uint8_t form, phase;            /* PHASE: bytes of base64's group before it */
	uint32_t len;
};

struct swap_set {
	const struct swap_needle *needles;
	bool coded, echoed;
	uint8_t mark[256];              /* of a byte that begins escapes: a bit of its own */
	uint8_t marks;                  /* those that are in a needle, too */
	uint32_t first[257];            /* where patterns with this first byte begin */
	bool early[256];                /* is among the first bytes of a pattern */
	bool before[256];               /* may share its bits with a needle that follows */
	struct pattern *patterns;       /* sorted by their bytes; no two are the same */
	uint32_t n_patterns;
	uint32_t shortest;              /* of the patterns: its length */
	unsigned gram_shift;
	uint64_t *grams;                /* a bit for each that may be met */
};

extern const char swap_digits[2][65];   /* of base64 and base64url */
/* The value of a digit of either, or -1. */
int swap_digit_value(unsigned char c);

/* Byte I of VALUE in this form; past VALUE's end it is filled up with "x". */
unsigned char swap_form_byte(enum swap_form form, unsigned phase, struct http_text value,
                             size_t i);
/* How many bytes there are that hang on VALUE alone. */
size_t swap_form_len(enum swap_form form, unsigned phase, size_t len);
/* Of a value in base64, how many of its bits are in the digit before those, and in the one
 * behind them; 0 in other forms. */
unsigned swap_form_before(enum swap_form form, unsigned phase);
unsigned swap_form_behind(enum swap_form form, unsigned phase, size_t len);

static inline uint32_t
swap_gram_slot(const struct swap_set *set, const void *at)
{
	uint32_t w;

	__builtin_memcpy(&w, at, sizeof(w));
	return w * UINT32_C(0x9e3779b1) >> set->gram_shift;
}

/* In the lowest bit: whether these may be met at a pattern's beginning. */
static inline uint64_t
swap_gram_bit(const struct swap_set *set, const void *at)
{
	uint32_t slot = swap_gram_slot(set, at);

	return set->grams[slot >> 6] >> (slot & 63);
}

/* How a byte may be written that is not written as itself. */
enum swap_escape {
	SWAP_BY_PERCENT = 1,            /* %73 */
	SWAP_BY_JSON = 2,               /* \u0073 \/ \n, and in answers \u{73} */
	SWAP_BY_HTML = 4,               /* &#115; &#x73; &amp; */
	SWAP_BY_X = 8,                  /* \x73 */
	SWAP_BY_OCTAL = 16,             /* \163 */
	SWAP_BY_QUOTED = 32,            /* =73 */
};

/* What the escape at AT stands for: 1 to 4 bytes.  Returns how long it is; 1 with AT's own
 * byte if it is none; 0 if that hangs on what follows. */
size_t swap_unescape(const struct swap_set *set, const unsigned char *at, size_t len, bool last,
                     unsigned char ret[4], size_t *ret_n);
/* Of which kind the escape at AT is, which is one. */
enum swap_escape swap_escape_of(const unsigned char *at);
/* Set SET's marks: of what is looked for in its sort of text. */
void swap_escape_marks(struct swap_set *set);

enum swap_found { SWAP_NONE, SWAP_FOUND, SWAP_MORE };

/* A needle at START, or a beginning of one. */
struct swap_hit {
	size_t start, end;
	bool wide_before, wide_behind;  /* the first digit, the last, is shared */
	uint32_t pattern;
	uint8_t escapes;                /* enum swap_escape */
	struct swap_walk walk[SWAP_WALKS];
};

/* The first needle from FROM on.  LAST: nothing follows, and there is no SWAP_MORE. */
enum swap_found swap_find(const struct swap_set *set, const unsigned char *at, size_t len,
                          size_t from, bool last, struct swap_hit *ret_hit);
/* Go on with HIT's walk: there is more. */
enum swap_found swap_find_on(const struct swap_set *set, const unsigned char *at, size_t len,
                             bool last, struct swap_hit *hit);

/* Whether a needle in any form is in NAME, in either case and with its escapes undone or not; all but
 * letters and digits is the same. */
bool swap_find_name(const struct swap_set *set, struct http_text name, size_t *ret_needle,
                    enum swap_form *ret_form);

/* Take in the digits on both sides that share their bits with what was found in base64,
 * but none before FROM. */
void swap_widen(const struct swap_set *set, const unsigned char *at, size_t len, size_t from,
                struct swap_hit *hit);

/* As swap_feed() and swap_finish() in one, on a stream that has had nothing: nothing is held.
 * FIRST: what swap_find() found in it, or NULL if it was not asked. */
int swap_whole(struct swap_stream *s, const void *data, size_t len, const struct swap_hit *first,
               struct err *err);

struct swap_out {
	swap_sink *sink;
	void *arg;
	size_t skip;                    /* of what is put out: it is gone already */
};
int swap_put(struct swap_out *out, const unsigned char *data, size_t len);
/* What is to be in the place of HIT, which is in AT and was widened.  *RET_GROWN is how much
 * longer that is. */
int swap_render(const struct swap_stream *s, const unsigned char *at,
                const struct swap_hit *hit, struct swap_out *out, int64_t *ret_grown,
                struct err *err);
#endif
