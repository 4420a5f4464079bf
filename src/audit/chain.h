/* chain.h - hashes of records: each includes the one before, and all are leaves of a tree.
 *
 * Pure.  A record's hash is SHA-256(0x00 || its line without the newline).  The tree over these
 * hashes is that of RFC 6962 (an inner node is SHA-256(0x01 || left || right)).  Only its complete
 * subtrees are kept, at most one for each bit of the number of records. */
#ifndef CLOISTER_AUDIT_CHAIN_H
#define CLOISTER_AUDIT_CHAIN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUDIT_HASH 32
#define AUDIT_HEX (2 * AUDIT_HASH)
#define AUDIT_PEAKS_MAX 53              /* records are counted to 2^53 - 1, the limit of JSON */

void audit_hash_record(const char *line, size_t len, unsigned char ret_hash[AUDIT_HASH]);

struct audit_tree {
	uint64_t size;
	/* Roots of its complete subtrees, the largest first: as many as SIZE has bits set. */
	unsigned char peak[AUDIT_PEAKS_MAX][AUDIT_HASH];
};
size_t audit_tree_peaks(uint64_t size);
void audit_tree_add(struct audit_tree *t, const unsigned char leaf[AUDIT_HASH]);
/* Without records: SHA-256 of nothing. */
void audit_tree_root(const struct audit_tree *t, unsigned char ret_root[AUDIT_HASH]);

/* The end of a timeline. */
struct audit_chain {
	struct audit_tree tree;         /* .size is the number of the last record */
	unsigned char head[AUDIT_HASH]; /* its hash; zeros before the first */
};
void audit_chain_add(struct audit_chain *c, const char *line, size_t len);

/* A Merkle path from one leaf to the root: the sibling hashes on the way up. */
#define AUDIT_PATH_MAX AUDIT_PEAKS_MAX
struct audit_path {
	uint64_t index;                 /* of the leaf, from 0 */
	struct audit_tree tree;         /* as far as it is built */
	size_t n;
	unsigned char hash[AUDIT_PATH_MAX][AUDIT_HASH];
};
void audit_path_begin(struct audit_path *p, uint64_t index);
void audit_path_add(struct audit_path *p, const unsigned char leaf[AUDIT_HASH]);
/* Ends the leaves: the path is complete, and *ret_root is the root of the tree. */
void audit_path_end(struct audit_path *p, unsigned char ret_root[AUDIT_HASH]);
/* Whether LEAF at INDEX of a tree of SIZE leaves leads over the N hashes to ROOT. */
bool audit_path_leads(const unsigned char leaf[AUDIT_HASH], uint64_t index, uint64_t size,
                      const unsigned char (*hash)[AUDIT_HASH], size_t n,
                      const unsigned char root[AUDIT_HASH]);
#endif
