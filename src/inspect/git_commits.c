/* git_commits.c - keeps the commits of a pack, and finds descendants. */
#include "inspect/git.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"

struct commit {
	uint64_t offset;
	unsigned char id[GIT_ID_MAX];
	unsigned char *content;
	size_t len;
	bool seen;                      /* by the current walk */
};

struct git_commits {
	size_t n_id;
	struct commit *at;              /* by offset */
	size_t n, cap;
	uint32_t *by_id;                /* index + 1; a power of two, twice CAP */
	size_t kept;
};

struct git_commits *
git_commits_new(size_t n_id)
{
	struct git_commits *c = calloc(1, sizeof(*c));

	if (c != NULL)
		c->n_id = n_id;
	return c;
}

void
git_commits_free(struct git_commits *c)
{
	if (c == NULL)
		return;
	for (size_t i = 0; i < c->n; i++)
		free(c->at[i].content);
	free(c->at);
	free(c->by_id);
	free(c);
}

/* ---- finding ---- */

/* An id is a hash already. */
static uint32_t *
slot_of(const struct git_commits *c, const unsigned char *id)
{
	size_t mask = 2 * c->cap - 1, i;
	uint32_t start;

	memcpy(&start, id, sizeof(start));
	for (i = start & mask; c->by_id[i] != 0; i = (i + 1) & mask)
		if (memcmp(c->at[c->by_id[i] - 1].id, id, c->n_id) == 0)
			break;
	return &c->by_id[i];
}

static struct commit *
find(const struct git_commits *c, const unsigned char *id)
{
	uint32_t i = c->cap == 0 ? 0 : *slot_of(c, id);

	return i == 0 ? NULL : &c->at[i - 1];
}

const unsigned char *
git_commits_by_id(const struct git_commits *c, const unsigned char *id, size_t *ret_len)
{
	const struct commit *commit = find(c, id);

	if (commit == NULL)
		return NULL;
	*ret_len = commit->len;
	return commit->content;
}

const unsigned char *
git_commits_at(const struct git_commits *c, uint64_t offset, size_t *ret_len)
{
	size_t low = 0, high = c->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (c->at[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == c->n || c->at[low].offset != offset)
		return NULL;
	*ret_len = c->at[low].len;
	return c->at[low].content;
}

/* ---- adding ---- */

static bool
grow(struct git_commits *c)
{
	size_t cap = c->cap == 0 ? 64 : 2 * c->cap;
	struct commit *at = realloc(c->at, cap * sizeof(*at));
	uint32_t *by_id = calloc(2 * cap, sizeof(*by_id));

	if (at != NULL)
		c->at = at;
	if (at == NULL || by_id == NULL) {
		free(by_id);
		return false;
	}
	free(c->by_id);
	c->by_id = by_id;
	c->cap = cap;
	for (size_t i = 0; i < c->n; i++)
		*slot_of(c, c->at[i].id) = (uint32_t)i + 1;
	return true;
}

static bool
hash_commit(const struct git_commits *c, const unsigned char *content, size_t len,
            unsigned char id[GIT_ID_MAX])
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	char head[32];
	int n = snprintf(head, sizeof(head), "commit %zu", len);
	bool good = context != NULL &&
	            EVP_DigestInit_ex(context, c->n_id == 20 ? EVP_sha1() : EVP_sha256(), NULL) == 1 &&
	            EVP_DigestUpdate(context, head, (size_t)n + 1) == 1 &&
	            EVP_DigestUpdate(context, content, len) == 1 &&
	            EVP_DigestFinal_ex(context, id, NULL) == 1;

	EVP_MD_CTX_free(context);
	return good;
}

void
git_commits_add(struct git_commits *c, uint64_t offset, unsigned char *content, size_t len)
{
	OWN(freep) unsigned char *own = content;
	unsigned char id[GIT_ID_MAX] = {0};
	uint32_t *slot;

	if (c->n >= GIT_COMMITS_MAX || len > GIT_KEPT_MAX - c->kept ||
	    (c->n == c->cap && !grow(c)) || !hash_commit(c, content, len, id))
		return;
	slot = slot_of(c, id);
	c->at[c->n] = (struct commit){ .offset = offset, .content = TAKE(own), .len = len };
	memcpy(c->at[c->n].id, id, sizeof(id));
	c->kept += len;
	c->n++;
	if (*slot == 0)
		*slot = (uint32_t)c->n;
}

/* ---- descendants ---- */

static bool
read_id(const unsigned char *text, size_t n_id, unsigned char id[GIT_ID_MAX])
{
	for (size_t i = 0; i < n_id; i++) {
		int high = git_id_digit(text[2 * i]), low = git_id_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		id[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}

/* Read the line "WORD id\n" at *POS, which is advanced. */
static bool
read_line(const struct git_commits *c, const struct commit *commit, size_t *pos,
          const char *word, unsigned char id[GIT_ID_MAX])
{
	size_t n = strlen(word), len = n + 2 * c->n_id + 1;
	const unsigned char *line = commit->content + *pos;

	if (commit->len - *pos < len || memcmp(line, word, n) != 0 || line[len - 1] != '\n' ||
	    !read_id(line + n, c->n_id, id))
		return false;
	*pos += len;
	return true;
}

struct queue { struct commit **at; size_t n, cap; };

static void
enqueue(struct queue *q, struct commit *commit)
{
	if (commit == NULL || commit->seen || q->n == q->cap)
		return;
	commit->seen = true;
	q->at[q->n++] = commit;
}

bool
git_commits_descends(struct git_commits *c, const unsigned char *new, const unsigned char *old)
{
	OWN(freep) struct commit **room = calloc(c->n + 1, sizeof(struct commit *));
	struct queue q = { room, 0, c->n };
	unsigned char id[GIT_ID_MAX];

	if (memcmp(new, old, c->n_id) == 0)
		return true;
	if (room == NULL)
		return false;
	for (size_t i = 0; i < c->n; i++)
		c->at[i].seen = false;
	enqueue(&q, find(c, new));
	for (size_t i = 0; i < q.n; i++) {
		size_t pos = 0;

		if (!read_line(c, q.at[i], &pos, "tree ", id))
			continue;
		while (read_line(c, q.at[i], &pos, "parent ", id)) {
			if (memcmp(id, old, c->n_id) == 0)
				return true;
			enqueue(&q, find(c, id));
		}
	}
	return false;
}
