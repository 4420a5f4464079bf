/* git_pack.c - reads a pack as it comes in: gitformat-pack(5). */
#include "inspect/git.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/own.h"
#include "inspect/inspect.h"

#define PIECE (16 * 1024)
#define OBJECTS_MAX 50000000

enum object_type { OBJECT_COMMIT = 1, OBJECT_TREE, OBJECT_BLOB, OBJECT_TAG,
                   OBJECT_OFS_DELTA = 6, OBJECT_REF_DELTA };
enum state { IN_HEADER, IN_TYPE, IN_OFFSET, IN_BASE, IN_DATA, IN_TRAILER };

struct git_pack {
	struct git_commits *commits;
	size_t n_id;
	bool secrets;
	const char *secret;

	enum state state;
	unsigned char head[GIT_ID_MAX]; /* of the pack, or the id of a base */
	size_t n_head;
	uint64_t offset;                /* of the next byte */
	uint32_t left;                  /* objects */
	uint64_t inflated;
	bool past_commits;

	/* the current object */
	uint64_t object_at;
	enum object_type type;
	unsigned shift;
	uint64_t size, got;             /* as announced, and so far */
	uint64_t base_offset;
	const unsigned char *base;      /* for a delta, if it is a known commit */
	size_t n_base;
	unsigned char *content;         /* the kept part of it, SIZE bytes, or NULL */
	struct secrets_scan scan;
	z_stream zlib;
	unsigned char piece[PIECE];
};

struct git_pack *
git_pack_new(struct git_commits *commits, size_t n_id, bool secrets)
{
	struct git_pack *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return NULL;
	p->commits = commits;
	p->n_id = n_id;
	p->secrets = secrets;
	if (inflateInit(&p->zlib) != Z_OK) {
		free(p);
		return NULL;
	}
	return p;
}

void
git_pack_free(struct git_pack *p)
{
	if (p == NULL)
		return;
	inflateEnd(&p->zlib);
	free(p->content);
	free(p);
}

bool
git_pack_is_complete(const struct git_pack *p)
{
	return p->state == IN_TRAILER;
}

bool
git_pack_is_past_commits(const struct git_pack *p)
{
	return p->past_commits;
}

const char *
git_pack_secret(const struct git_pack *p)
{
	return p->secret;
}

/* ---- deltas ---- */

struct delta { const unsigned char *at, *end; };

static bool
delta_size(struct delta *d, size_t *ret_size)
{
	uint64_t size = 0;

	for (unsigned shift = 0; d->at < d->end && shift < 35; shift += 7) {
		unsigned char c = *d->at++;

		size |= (uint64_t)(c & 127) << shift;
		if (c < 128) {
			*ret_size = (size_t)size;
			return size <= GIT_OBJECT_MAX;
		}
	}
	return false;
}

/* Read the bytes of a number that BITS announce, the lowest first. */
static bool
delta_number(struct delta *d, unsigned bits, unsigned n, size_t *ret_number)
{
	size_t number = 0;

	for (unsigned i = 0; i < n; i++) {
		if ((bits >> i & 1) == 0)
			continue;
		if (d->at == d->end)
			return false;
		number |= (size_t)*d->at++ << (8 * i);
	}
	*ret_number = number;
	return true;
}

/* One instruction: copy from the base, or from the delta itself. */
static bool
delta_step(struct delta *d, const unsigned char *base, size_t n_base,
           const unsigned char **ret_from, size_t *ret_n)
{
	unsigned char op = *d->at++;
	size_t from, n;

	if ((op & 128) == 0) {
		*ret_from = d->at;
		*ret_n = op;
		if (op == 0 || (size_t)(d->end - d->at) < op)
			return false;
		d->at += op;
		return true;
	}
	if (!delta_number(d, op & 15, 4, &from) || !delta_number(d, op >> 4 & 7, 3, &n))
		return false;
	n = n == 0 ? 0x10000 : n;
	if (from > n_base || n > n_base - from)
		return false;
	*ret_from = base + from;
	*ret_n = n;
	return true;
}

unsigned char *
git_delta_apply(const unsigned char *base, size_t n_base, const unsigned char *delta,
                size_t n_delta, size_t *ret_len)
{
	struct delta d = { delta, delta + n_delta };
	OWN(freep) unsigned char *out = NULL;
	size_t source, size, done = 0;

	if (!delta_size(&d, &source) || !delta_size(&d, &size) || source != n_base)
		return NULL;
	out = malloc(size + 1);
	while (out != NULL && d.at < d.end) {
		const unsigned char *from;
		size_t n;

		if (!delta_step(&d, base, n_base, &from, &n) || n > size - done)
			return NULL;
		memcpy(out + done, from, n);
		done += n;
	}
	if (out == NULL || done != size)
		return NULL;
	*ret_len = size;
	return TAKE(out);
}

/* ---- objects ---- */

static int
begin_data(struct git_pack *p)
{
	bool keep = p->type == OBJECT_COMMIT || p->base != NULL;

	p->past_commits = p->past_commits || !keep;
	p->state = IN_DATA;
	p->got = 0;
	p->scan.n_tail = 0;
	if (p->size > GIT_INFLATED_MAX - p->inflated)
		return -EBADMSG;
	if (keep && p->size <= GIT_OBJECT_MAX)
		p->content = malloc(p->size + 1);
	return inflateReset(&p->zlib) == Z_OK ? 0 : -EBADMSG;
}

static void
end_object(struct git_pack *p)
{
	unsigned char *content = TAKE(p->content);
	size_t len = (size_t)p->size;

	if (content != NULL && p->base != NULL) {
		unsigned char *made = git_delta_apply(p->base, p->n_base, content, len, &len);

		free(content);
		content = made;
	}
	if (content != NULL)
		git_commits_add(p->commits, p->object_at, content, len);
	p->base = NULL;
	p->left--;
	p->state = p->left > 0 ? IN_TYPE : IN_TRAILER;
}

/* Take as much of the object as *data has; both are advanced. */
static int
take_data(struct git_pack *p, const unsigned char **data, size_t *len)
{
	unsigned take = *len > UINT32_MAX ? UINT32_MAX : (unsigned)*len;
	size_t n;
	int r;

	p->zlib.next_in = (unsigned char *)(uintptr_t)*data;
	p->zlib.avail_in = take;
	p->zlib.next_out = p->piece;
	p->zlib.avail_out = PIECE;
	r = inflate(&p->zlib, Z_NO_FLUSH);
	if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
		return -EBADMSG;
	n = PIECE - p->zlib.avail_out;
	take -= p->zlib.avail_in;
	if (n > p->size - p->got || (n == 0 && take == 0 && r != Z_STREAM_END))
		return -EBADMSG;
	if (p->content != NULL)
		memcpy(p->content + p->got, p->piece, n);
	if (p->secrets && p->secret == NULL)
		p->secret = secrets_find(&p->scan, p->piece, n);
	p->got += n;
	p->inflated += n;
	p->offset += take;
	*data += take;
	*len -= take;
	if (r != Z_STREAM_END)
		return 0;
	if (p->got != p->size)
		return -EBADMSG;
	end_object(p);
	return 0;
}

static int
begin_base(struct git_pack *p)
{
	p->n_head = 0;
	p->base_offset = 0;
	p->shift = 0;
	switch (p->type) {
	case OBJECT_COMMIT:
	case OBJECT_TREE:
	case OBJECT_BLOB:
	case OBJECT_TAG:
		return begin_data(p);
	case OBJECT_OFS_DELTA:
		p->state = IN_OFFSET;
		return 0;
	case OBJECT_REF_DELTA:
		p->state = IN_BASE;
		return 0;
	default:
		return -EBADMSG;
	}
}

static int
take_type(struct git_pack *p, unsigned char c)
{
	if (p->shift == 0) {
		p->object_at = p->offset - 1;
		p->type = c >> 4 & 7;
		p->size = c & 15;
		p->shift = 4;
	} else {
		if (p->shift > 39)
			return -EBADMSG;
		p->size |= (uint64_t)(c & 127) << p->shift;
		p->shift += 7;
	}
	return c < 128 ? begin_base(p) : 0;
}

static int
take_offset(struct git_pack *p, unsigned char c)
{
	if (p->n_head++ > 8)
		return -EBADMSG;
	p->base_offset = p->base_offset << 7 | (c & 127);
	if (c >= 128) {
		p->base_offset++;
		return 0;
	}
	if (p->base_offset == 0 || p->base_offset > p->object_at)
		return -EBADMSG;
	p->n_head = 0;
	p->base = git_commits_at(p->commits, p->object_at - p->base_offset, &p->n_base);
	return begin_data(p);
}

static int
take_base(struct git_pack *p, unsigned char c)
{
	p->head[p->n_head++] = c;
	if (p->n_head < p->n_id)
		return 0;
	p->n_head = 0;
	p->base = git_commits_by_id(p->commits, p->head, &p->n_base);
	return begin_data(p);
}

static uint32_t
get_u32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int
take_header(struct git_pack *p, unsigned char c)
{
	uint32_t version;

	p->head[p->n_head++] = c;
	if (p->n_head < 12)
		return 0;
	version = get_u32(p->head + 4);
	p->left = get_u32(p->head + 8);
	p->n_head = 0;
	p->shift = 0;
	if (memcmp(p->head, "PACK", 4) != 0 || version < 2 || version > 3 ||
	    p->left > OBJECTS_MAX)
		return -EBADMSG;
	p->state = p->left > 0 ? IN_TYPE : IN_TRAILER;
	return 0;
}

static int
take_byte(struct git_pack *p, unsigned char c)
{
	p->offset++;
	switch (p->state) {
	case IN_HEADER:
		return take_header(p, c);
	case IN_TYPE:
		return take_type(p, c);
	case IN_OFFSET:
		return take_offset(p, c);
	case IN_BASE:
		return take_base(p, c);
	default:
		return -EBADMSG;
	}
}

int
git_pack_feed(struct git_pack *p, const unsigned char *data, size_t len)
{
	int r = 0;

	while (len > 0 && r == 0 && p->state != IN_TRAILER) {
		if (p->state == IN_DATA) {
			r = take_data(p, &data, &len);
		} else {
			r = take_byte(p, *data++);
			len--;
		}
	}
	return r;
}
