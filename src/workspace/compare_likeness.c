/* compare_likeness.c - measures how much of one file is in another, to recognise renamed files. */
#include <errno.h>
#include <stdlib.h>

#include "base/own.h"
#include "workspace/compare.h"

#define PIECE_MAX 64                    /* bytes; a longer line, or a binary file, is several pieces */

struct piece {
	uint64_t hash;
	uint64_t bytes;                 /* of all pieces with this hash */
};
struct pieces {
	struct piece *list;
	size_t n;
};

static void
pieces_free(struct pieces *p)
{
	free(p->list);
}

static size_t
next_piece(struct compare_text text, size_t at, uint64_t *ret_hash)
{
	uint64_t hash = 0xcbf29ce484222325u;
	size_t n = 0;

	while (at + n < text.len && n < PIECE_MAX) {
		hash = (hash ^ (unsigned char)text.at[at + n]) * 0x100000001b3u;
		if (text.at[at + n++] == '\n')
			break;
	}
	*ret_hash = hash;
	return n;
}

static int
by_hash(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;

	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* Sorted, each hash once. */
static int
pieces_of(struct compare_text text, struct pieces *p)
{
	size_t n = 0, len;
	uint64_t hash;

	for (size_t at = 0; at < text.len; at += next_piece(text, at, &hash))
		n++;
	p->list = calloc(n + 1, sizeof(*p->list));
	if (p->list == NULL)
		return -ENOMEM;
	for (size_t at = 0; at < text.len; at += len) {
		len = next_piece(text, at, &hash);
		p->list[p->n++] = (struct piece){ hash, len };
	}
	qsort(p->list, n, sizeof(*p->list), by_hash);
	p->n = 0;
	for (size_t i = 0; i < n; i++) {
		if (p->n > 0 && p->list[p->n - 1].hash == p->list[i].hash)
			p->list[p->n - 1].bytes += p->list[i].bytes;
		else
			p->list[p->n++] = p->list[i];
	}
	return 0;
}

int
compare_likeness(struct compare_text a, struct compare_text b, uint64_t *ret_common)
{
	OWN(pieces_free) struct pieces x = {0};
	OWN(pieces_free) struct pieces y = {0};
	uint64_t common = 0;
	int r = pieces_of(a, &x);

	if (r == 0)
		r = pieces_of(b, &y);
	for (size_t i = 0, j = 0; r == 0 && i < x.n && j < y.n;) {
		const struct piece *p = &x.list[i], *q = &y.list[j];

		if (p->hash == q->hash)
			common += p->bytes < q->bytes ? p->bytes : q->bytes;
		i += p->hash <= q->hash;
		j += q->hash <= p->hash;
	}
	if (r == 0)
		*ret_common = common;
	return r;
}
