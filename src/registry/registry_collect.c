/* registry_collect.c - removes blobs that nothing refers to.
 *
 * A blob exists before anything refers to it, or existed already and is then touched.  So a young
 * blob is left alone.  A process that touches or removes one locks out the other for that moment. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "registry/registry_parts.h"

#define MARKS_FIRST 1024                /* a power of two */

/* ---- marks ---- */

void
registry_marks_free(struct registry_marks *m)
{
	free(m->at);
	*m = (struct registry_marks){0};
}

static bool
is_free(const unsigned char hash[HASH_LEN])
{
	static const unsigned char zero[HASH_LEN];

	return memcmp(hash, zero, HASH_LEN) == 0;
}

/* Its position, or where it would be. */
static size_t
find(const struct registry_marks *m, const unsigned char hash[HASH_LEN])
{
	size_t i;

	memcpy(&i, hash, sizeof(i));
	for (i &= m->cap - 1; !is_free(m->at[i]) && memcmp(m->at[i], hash, HASH_LEN) != 0;)
		i = (i + 1) & (m->cap - 1);
	return i;
}

static int
grow(struct registry_marks *m, struct err *err)
{
	struct registry_marks more = { .cap = m->cap == 0 ? MARKS_FIRST : m->cap * 2 };

	if (m->n >= REGISTRY_MARKS_MAX)
		return err_set(err, E2BIG, "more than %d blobs are in use, so that none are looked for that "
		               "are not", REGISTRY_MARKS_MAX);
	more.at = calloc(more.cap, sizeof(*more.at));
	if (more.at == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < m->cap; i++)
		if (!is_free(m->at[i])) {
			memcpy(more.at[find(&more, m->at[i])], m->at[i], HASH_LEN);
			more.n++;
		}
	free(m->at);
	*m = more;
	return 0;
}

bool
registry_marks_has(const struct registry_marks *m, const unsigned char hash[HASH_LEN])
{
	return m->cap > 0 && !is_free(m->at[find(m, hash)]);
}

int
registry_marks_add(struct registry_marks *m, const unsigned char hash[HASH_LEN], struct err *err)
{
	int r = m->n * 2 >= m->cap ? grow(m, err) : 0;

	if (r == 0 && is_free(m->at[find(m, hash)])) {
		memcpy(m->at[find(m, hash)], hash, HASH_LEN);
		m->n++;
	}
	return r;
}

int
registry_mark_text(struct registry_marks *m, const char *text, size_t len, struct err *err)
{
	const char *end = text + len;
	unsigned char hash[HASH_LEN];
	char name[HASH_NAME + 1];
	int r = 0;

	while (r == 0 && (text = memmem(text, (size_t)(end - text), HASH_PREFIX, strlen(HASH_PREFIX))) !=
	       NULL && (size_t)(end - text) >= HASH_NAME) {
		memcpy(name, text, HASH_NAME);
		name[HASH_NAME] = '\0';
		text += strlen(HASH_PREFIX);
		if (!hash_parse_name(name, hash))
			continue;
		r = registry_marks_add(m, hash, err);
	}
	return r;
}

static int
mark_versions(struct registry *r, struct registry_marks *m, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	int n = db_ask(r->db, &q, err, "SELECT content FROM versions", "");

	while (n == 0 && (n = db_next(&q, err)) > 0)
		n = registry_mark_text(m, db_text(&q, 0), strlen(db_text(&q, 0)), err);
	return n;
}

/* ---- sweeping ---- */

struct sweep {
	const struct registry_collecting *how;
	const struct registry_marks *marks;
	struct timespec before;
	bool counts;                    /* the folder is no copy of what S3 has */
	struct registry_collected *ret;
};

static bool
is_old(const struct sweep *s, const struct stat *st)
{
	return st->st_mtim.tv_sec < s->before.tv_sec ||
	       (st->st_mtim.tv_sec == s->before.tv_sec && st->st_mtim.tv_nsec < s->before.tv_nsec);
}

static void
look_at(struct sweep *s, int folder, const char *first, const char *rest)
{
	char name[HASH_NAME + 1];
	unsigned char hash[HASH_LEN];
	struct stat st;

	if (snprintf(name, sizeof(name), HASH_PREFIX "%s%s", first, rest) != HASH_NAME ||
	    !hash_parse_name(name, hash) ||
	    registry_marks_has(s->marks, hash) ||
	    fstatat(folder, rest, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
	    !is_old(s, &st))
		return;
	if (!s->how->dry_run && unlinkat(folder, rest, 0) < 0)
		return;
	if (s->counts) {
		s->ret->n++;
		s->ret->bytes += (uint64_t)st.st_size;
	}
}

static void
sweep_folder(struct registry *r, struct sweep *s, unsigned first)
{
	char name[3];
	int fd;

	snprintf(name, sizeof(name), "%02x", first);
	fd = openat(r->blobs, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	OWN(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *d;

	if (dir == NULL || flock(r->blobs, LOCK_EX) < 0)
		return;
	while ((d = readdir(dir)) != NULL)
		if (!tree_is_dots(d->d_name))
			look_at(s, fd, name, d->d_name);
	(void)flock(r->blobs, LOCK_UN);
}

int
registry_collect(struct registry *r, const struct registry_collecting *how,
                 struct registry_collected *ret_collected, struct err *err)
{
	OWN(registry_marks_free) struct registry_marks marks = {0};
	struct registry_collected collected = {0};
	struct sweep s = { .how = how, .marks = &marks, .counts = r->s3 == NULL,
	                   .ret = &collected };
	int n = mark_versions(r, &marks, err);

	if (n == 0 && how->more != NULL)
		n = how->more(how->arg, &marks, err);
	if (n < 0)
		return n;
	clock_gettime(CLOCK_REALTIME, &s.before);
	s.before.tv_sec -= (time_t)(REGISTRY_UNUSED_MS / 1000);
	if (r->s3 != NULL)
		n = registry_sweep_s3(r, &marks, how->dry_run, &collected, err);
	if (n < 0)
		return n;
	for (unsigned i = 0; i < 256; i++)
		sweep_folder(r, &s, i);
	*ret_collected = collected;
	return 0;
}
