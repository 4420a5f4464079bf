/* secrets_table.h - what the scanner of secrets looks for, and where it need not look. */
#ifndef CLOISTER_SECRETS_TABLE_H
#define CLOISTER_SECRETS_TABLE_H
#include <stdint.h>

#include "inspect/secrets_parts.h"

#define ANCHORS_MAX 1024
#define ANCHOR_MAX 14                   /* bytes of it that are compared at first */
#define BUCKETS 10                      /* three times as many bits, of 32 */
#define PAIRS (1 << 14)                 /* of bytes, seven bits each */
#define TRIPLES (1 << 16)               /* of bytes, hashed */
#define HEADS 256

enum anchor_kind { ANCHOR_PLAIN, ANCHOR_BASE64, ANCHOR_ESCAPE };

struct anchor {
	const struct secrets_shape *shape;
	enum anchor_kind kind;
	unsigned char phase;            /* BASE64: where in three bytes the mark begins */
	unsigned char len;
	char text[ANCHOR_MAX];
	short next;                     /* with the same first two bytes; -1 */
};

struct secrets_table {
	/* Three pairs in a row may begin an anchor of those buckets that the low bits of the
	 * first one's entry, the middle ones of the second's and the high ones of the third's
	 * have in common. */
	uint32_t pairs[PAIRS];
	uint64_t triples[TRIPLES / 64]; /* bits: three bytes with which anchors begin */
	struct anchor anchors[ANCHORS_MAX];
	size_t n_anchors;
	short heads[HEADS];
};

/* Made when it is first asked for. */
const struct secrets_table *secrets_table_get(void);

static inline unsigned
secrets_head_of(const unsigned char *p)
{
	return (p[0] * 31u + p[1]) % HEADS;
}

static inline unsigned
secrets_triple_of(uint32_t bytes)
{
	return (bytes & 0xffffff) * 0x9e3779b1u >> 16;
}
#endif
