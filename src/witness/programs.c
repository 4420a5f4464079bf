/* programs.c - see programs.h. */
#include "witness/programs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"

#define PIECE (128 * 1024)

struct known {
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified, changed;
	unsigned char hash[HASH_LEN];
	bool is_set;
};

struct programs {
	struct known known[PROGRAMS_KNOWN_MAX];
	int64_t left;                   /* bytes that may be read, as of AT_MS */
	uint64_t at_ms;
	unsigned char piece[PIECE];
};

struct programs *
programs_new(uint64_t now_ms)
{
	struct programs *p = calloc(1, sizeof(*p));

	if (p != NULL) {
		p->left = PROGRAMS_BURST_MAX;
		p->at_ms = now_ms;
	}
	return p;
}

void
programs_free(struct programs *p)
{
	free(p);
}

static bool
is_same(const struct known *k, const struct stat *st)
{
	return k->is_set && k->device == st->st_dev && k->inode == st->st_ino && k->size == st->st_size &&
	       memcmp(&k->modified, &st->st_mtim, sizeof(k->modified)) == 0 &&
	       memcmp(&k->changed, &st->st_ctim, sizeof(k->changed)) == 0;
}

static void
remember(struct known *k, const struct stat *st, const unsigned char hash[HASH_LEN])
{
	*k = (struct known){ .device = st->st_dev, .inode = st->st_ino, .size = st->st_size, .modified = st->st_mtim,
	                     .changed = st->st_ctim, .is_set = true };
	memcpy(k->hash, hash, HASH_LEN);
}

static void
fill(struct programs *p, uint64_t now_ms)
{
	uint64_t passed = now_ms > p->at_ms ? now_ms - p->at_ms : 0;

	/* More than this is never missing. */
	if (passed > 10000)
		passed = 10000;
	p->left += (int64_t)(passed * PROGRAMS_SECOND_MAX / 1000);
	if (p->left > (int64_t)PROGRAMS_BURST_MAX)
		p->left = PROGRAMS_BURST_MAX;
	p->at_ms = now_ms;
}

static const char *
read_all(struct programs *p, int fd, off_t size, unsigned char ret_hash[HASH_LEN])
{
	struct hash h;
	off_t at = 0;
	ssize_t n;

	hash_begin(&h);
	while (at < size) {
		n = pread(fd, p->piece, PIECE, at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return "its file cannot be read";
		hash_add(&h, p->piece, (size_t)n);
		at += n;
	}
	hash_end(&h, ret_hash);
	return NULL;
}

const char *
programs_hash(struct programs *p, int fd, uint64_t now_ms, unsigned char ret_hash[HASH_LEN])
{
	struct stat st, after;
	struct known *k;
	const char *why;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return "it is no file";
	k = &p->known[((uint64_t)st.st_ino * 2654435761u ^ (uint64_t)st.st_dev) % PROGRAMS_KNOWN_MAX];
	if (is_same(k, &st)) {
		memcpy(ret_hash, k->hash, HASH_LEN);
		return NULL;
	}
	if ((uint64_t)st.st_size > PROGRAMS_FILE_MAX)
		return "its file is over 512 MiB";
	fill(p, now_ms);
	if (p->left <= 0)
		return "too many bytes of programs were read in this second";
	p->left -= st.st_size;
	why = read_all(p, fd, st.st_size, ret_hash);
	if (why != NULL)
		return why;
	if (fstat(fd, &after) < 0)
		return "its file cannot be read";
	remember(k, &st, ret_hash);
	if (!is_same(k, &after)) {
		k->is_set = false;
		return "its file changed while it was read";
	}
	return NULL;
}
