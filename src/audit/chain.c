/* chain.c - see chain.h. */
#include "audit/chain.h"

#include <string.h>

#include "canon/hash.h"

void
audit_hash_record(const char *line, size_t len, unsigned char ret_hash[AUDIT_HASH])
{
	struct hash h;

	hash_begin(&h);
	hash_add(&h, "", 1);
	hash_add(&h, line, len);
	hash_end(&h, ret_hash);
}

/* RET may be one of the two. */
static void
hash_node(const unsigned char left[AUDIT_HASH], const unsigned char right[AUDIT_HASH],
          unsigned char ret[AUDIT_HASH])
{
	struct hash h;

	hash_begin(&h);
	hash_add(&h, "\1", 1);
	hash_add(&h, left, AUDIT_HASH);
	hash_add(&h, right, AUDIT_HASH);
	hash_end(&h, ret);
}

/* ---- the tree ---- */

size_t
audit_tree_peaks(uint64_t size)
{
	return (size_t)__builtin_popcountll(size);
}

void
audit_tree_add(struct audit_tree *t, const unsigned char leaf[AUDIT_HASH])
{
	size_t n = audit_tree_peaks(t->size);
	unsigned char hash[AUDIT_HASH];

	memcpy(hash, leaf, AUDIT_HASH);
	/* Like adding one to a number: each bit that carries joins two subtrees. */
	for (uint64_t carry = t->size; carry & 1; carry >>= 1)
		hash_node(t->peak[--n], hash, hash);
	memcpy(t->peak[n], hash, AUDIT_HASH);
	t->size++;
}

void
audit_tree_root(const struct audit_tree *t, unsigned char ret_root[AUDIT_HASH])
{
	size_t n = audit_tree_peaks(t->size);
	struct hash h;

	if (n == 0) {
		hash_begin(&h);
		hash_end(&h, ret_root);
		return;
	}
	memcpy(ret_root, t->peak[--n], AUDIT_HASH);
	while (n > 0)
		hash_node(t->peak[--n], ret_root, ret_root);
}

void
audit_chain_add(struct audit_chain *c, const char *line, size_t len)
{
	audit_hash_record(line, len, c->head);
	audit_tree_add(&c->tree, c->head);
}

/* ---- paths ---- */

void
audit_path_begin(struct audit_path *p, uint64_t index)
{
	*p = (struct audit_path){ .index = index };
}

static void
path_put(struct audit_path *p, const unsigned char hash[AUDIT_HASH])
{
	memcpy(p->hash[p->n++], hash, AUDIT_HASH);
}

void
audit_path_add(struct audit_path *p, const unsigned char leaf[AUDIT_HASH])
{
	struct audit_tree *t = &p->tree;
	size_t n = audit_tree_peaks(t->size);
	unsigned char hash[AUDIT_HASH];
	uint64_t first = t->size, width = 1;    /* of the right half of the joined subtree */

	memcpy(hash, leaf, AUDIT_HASH);
	for (uint64_t carry = t->size; carry & 1; carry >>= 1) {
		n--;
		if (p->index >= first && p->index < first + width)
			path_put(p, t->peak[n]);
		else if (p->index >= first - width && p->index < first)
			path_put(p, hash);
		hash_node(t->peak[n], hash, hash);
		first -= width;
		width *= 2;
	}
	memcpy(t->peak[n], hash, AUDIT_HASH);
	t->size++;
}

void
audit_path_end(struct audit_path *p, unsigned char ret_root[AUDIT_HASH])
{
	const struct audit_tree *t = &p->tree;
	size_t n = audit_tree_peaks(t->size);
	uint64_t first, rest = t->size;         /* FIRST: of the subtree in *ret_root */

	if (n == 0) {
		audit_tree_root(t, ret_root);
		return;
	}
	memcpy(ret_root, t->peak[--n], AUDIT_HASH);
	first = t->size - (rest & -rest);
	rest &= rest - 1;
	for (; n > 0; rest &= rest - 1) {
		n--;
		if (p->index >= first)
			path_put(p, t->peak[n]);
		else if (p->index >= first - (rest & -rest))
			path_put(p, ret_root);
		first -= rest & -rest;
		hash_node(t->peak[n], ret_root, ret_root);
	}
}

/* RFC 9162, 2.1.3.2. */
bool
audit_path_leads(const unsigned char leaf[AUDIT_HASH], uint64_t index, uint64_t size,
                 const unsigned char (*hash)[AUDIT_HASH], size_t n,
                 const unsigned char root[AUDIT_HASH])
{
	unsigned char at[AUDIT_HASH];
	uint64_t last = size - 1;

	if (index >= size)
		return false;
	memcpy(at, leaf, AUDIT_HASH);
	for (size_t i = 0; i < n; i++) {
		if (last == 0)
			return false;
		if ((index & 1) || index == last) {
			hash_node(hash[i], at, at);
			while (!(index & 1) && index != 0) {
				index >>= 1;
				last >>= 1;
			}
		} else {
			hash_node(at, hash[i], at);
		}
		index >>= 1;
		last >>= 1;
	}
	return last == 0 && memcmp(at, root, AUDIT_HASH) == 0;
}
