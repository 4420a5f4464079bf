/* secrets_table.h - the texts that the secrets scanner searches for, and a filter that skips bytes. */
#ifndef CLOISTER_SECRETS_TABLE_H
#define CLOISTER_SECRETS_TABLE_H
#include <stdint.h>

#include "inspect/secrets_parts.h"

#define ANCHORS_MAX 1024
#define ANCHOR_MAX 14                   /* bytes of it that are compared at first */
#define BUCKETS 10                      /* three bits of 32 for each */
#define PAIRS (1 << 14)                 /* of bytes, seven bits each */
#define TRIPLES (1 << 16)               /* of bytes, hashed */
#define HEADS 256

enum anchor_kind { ANCHOR_PLAIN, ANCHOR_BASE64, ANCHOR_ESCAPE };

struct anchor {
	const struct secrets_shape *shape;
	enum anchor_kind kind;
	unsigned char phase;            /* BASE64: offset of the mark in a group of three bytes */
	unsigned char len;
	char text[ANCHOR_MAX];
	short next;                     /* anchor with the same hash of its first two bytes; -1 */
};

struct secrets_table {
	/* Three successive pairs may begin an anchor in certain buckets.  These are the buckets
	 * common to the low bits of the first pair's entry, the middle bits of the second's, and
	 * the high bits of the third's. */
	uint32_t pairs[PAIRS];
	uint64_t triples[TRIPLES / 64]; /* bits: the first three bytes of anchors */
	struct anchor anchors[ANCHORS_MAX];
	size_t n_anchors;
	short heads[HEADS];
};

/* Made at the first call. */
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
