/* swap_parts.h - declarations shared by the files of swap. */
#ifndef CLOISTER_SWAP_PARTS_H
#define CLOISTER_SWAP_PARTS_H
#include "sign/swap.h"

#define GRAM 4                          /* bytes that are looked up together */
#define STRIDE 4                        /* one lookup per this many bytes */
#define SAMPLED (GRAM + STRIDE - 1)     /* length of a pattern's beginning that always contains a looked-up
                                         * gram */

/* A needle in one form; its bytes are computed when they are compared. */
struct pattern {
	uint16_t needle;
	uint8_t form, phase;            /* PHASE: bytes of the base64 group before it */
	uint32_t len;
};

struct swap_set {
	const struct swap_needle *needles;
	bool coded, echoed;
	uint8_t mark[256];              /* for a byte that begins escapes: its own bit */
	uint8_t marks;                  /* the bits of such bytes that also occur in a needle */
	uint32_t first[257];            /* index of the first pattern with this first byte */
	bool early[256];                /* is among the first bytes of a pattern */
	bool before[256];               /* may share its bits with a needle that follows */
	struct pattern *patterns;       /* sorted by their bytes; all different */
	uint32_t n_patterns;
	uint32_t shortest;              /* length of the shortest pattern */
	unsigned gram_shift;
	uint64_t *grams;                /* a bit for each possible gram */
};

/* Byte I of VALUE in this form.  Past its end, VALUE is padded with "x". */
unsigned char swap_form_byte(enum swap_form form, unsigned phase, struct http_text value,
                             size_t i);
/* The number of bytes that depend on VALUE alone. */
size_t swap_form_len(enum swap_form form, unsigned phase, size_t len);
/* For base64: how many bits of the value are in the digit before these, and in the digit after; 0
 * in other forms. */
unsigned swap_form_before(enum swap_form form, unsigned phase);
unsigned swap_form_behind(enum swap_form form, unsigned phase, size_t len);

static inline uint32_t
swap_gram_slot(const struct swap_set *set, const void *at)
{
	uint32_t w;

	__builtin_memcpy(&w, at, sizeof(w));
	return w * UINT32_C(0x9e3779b1) >> set->gram_shift;
}

/* The lowest bit: whether these bytes may occur in a pattern's beginning. */
static inline uint64_t
swap_gram_bit(const struct swap_set *set, const void *at)
{
	uint32_t slot = swap_gram_slot(set, at);

	return set->grams[slot >> 6] >> (slot & 63);
}

/* Ways to escape a byte. */
enum swap_escape {
	SWAP_BY_PERCENT = 1,            /* %73 */
	SWAP_BY_JSON = 2,               /* \u0073 \/ \n, and in responses \u{73} */
	SWAP_BY_HTML = 4,               /* &#115; &#x73; &amp; */
	SWAP_BY_X = 8,                  /* \x73 */
	SWAP_BY_OCTAL = 16,             /* \163 */
	SWAP_BY_QUOTED = 32,            /* =73 */
};

/* Undo the escape at AT: 1 to 4 bytes.  Returns its length; 1 with AT's own byte if it is none; 0
 * if that depends on bytes still to come. */
size_t swap_unescape(const struct swap_set *set, const unsigned char *at, size_t len, bool last,
                     unsigned char ret[4], size_t *ret_n);
/* The byte that a letter after "\" stands for; 0: none. */
extern const unsigned char swap_short_forms[256];
/* The kind of the escape at AT. */
enum swap_escape swap_escape_of(const unsigned char *at);
/* Set SET's marks, for the escapes that it searches for. */
void swap_escape_marks(struct swap_set *set);

enum swap_found { SWAP_NONE, SWAP_FOUND, SWAP_MORE };

/* A needle at START, or the beginning of one. */
struct swap_hit {
	size_t start, end;
	bool wide_before, wide_behind;  /* the first digit, the last digit, is shared */
	uint32_t pattern;
	uint8_t escapes;                /* enum swap_escape */
	struct swap_walk walk[SWAP_WALKS];
};

/* Find the first needle from FROM on.  LAST: nothing follows, so SWAP_MORE is not returned. */
enum swap_found swap_find(const struct swap_set *set, const unsigned char *at, size_t len,
                          size_t from, bool last, struct swap_hit *ret_hit);
/* Continue HIT's walk with more bytes. */
enum swap_found swap_find_on(const struct swap_set *set, const unsigned char *at, size_t len,
                             bool last, struct swap_hit *hit);

/* Whether NAME contains a needle in any form, in either case, with its escapes undone or not.  All
 * characters other than letters and digits are equal. */
bool swap_find_name(const struct swap_set *set, struct http_text name, size_t *ret_needle,
                    enum swap_form *ret_form);

/* Extend HIT to the base64 digits on both sides that share bits with it, but not before FROM. */
void swap_widen(const struct swap_set *set, const unsigned char *at, size_t len, size_t from,
                struct swap_hit *hit);

/* swap_feed() and swap_finish() in one, on a new stream; nothing is held.  FIRST is the result of
 * swap_find(), or NULL if it was not called. */
int swap_whole(struct swap_stream *s, const void *data, size_t len, const struct swap_hit *first,
               struct err *err);

struct swap_out {
	swap_sink *sink;
	void *arg;
	size_t skip;                    /* bytes of the output that were already passed on */
};
int swap_put(struct swap_out *out, const unsigned char *data, size_t len);
/* Write the replacement of HIT, which is in AT and was widened.  *RET_GROWN is the change in
 * length. */
int swap_render(const struct swap_stream *s, const unsigned char *at,
                const struct swap_hit *hit, struct swap_out *out, int64_t *ret_grown,
                struct err *err);
#endif
