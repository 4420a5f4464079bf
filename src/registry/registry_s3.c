/* registry_s3.c - keeps blobs in S3; DATA/registry/blobs then has copies of those that this machine has needed.
 *
 * A blob is in S3 before anything refers to it.  Nothing that comes from there is used before its hash was checked. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "registry/registry_parts.h"

/* Shorter than what is left to a touched blob before anybody may collect it. */
#define KNOWN_MS (3600ll * 1000)
#define KNOWN_MAX (256 * 1024)

bool
registry_is_remote(const struct registry *r)
{
	return r->s3 != NULL;
}

const char *
registry_place(const struct registry *r)
{
	return r->s3 != NULL ? s3_place_text(r->s3) : NULL;
}

uint64_t
registry_patience_ms(const struct registry *r)
{
	return r->s3 != NULL ? s3_stall_s(r->s3) * 1000ull * REGISTRY_PATIENCE : 0;
}

/* ---- what is there ---- */

bool
registry_is_known(struct registry *r, const unsigned char hash[HASH_LEN])
{
	if (io_now_ms() - r->known_since > KNOWN_MS || r->known.n > KNOWN_MAX)
		registry_marks_free(&r->known);
	return registry_marks_has(&r->known, hash);
}

static void
know(struct registry *r, const unsigned char hash[HASH_LEN])
{
	if (r->known.n == 0)
		r->known_since = io_now_ms();
	/* If there is no memory, S3 is asked once more. */
	(void)registry_marks_add(&r->known, hash, NULL);
}

/* ---- whose place it is ---- */

/* A name that the database keeps: every service that uses it has the same. */
static int
read_owner(struct registry *r, unsigned char ret_id[HASH_LEN], struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	unsigned char random[HASH_LEN];
	char hex[HASH_HEX + 1];
	int n;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_errno(err, "cannot get random bytes");
	codec_hex(random, sizeof(random), hex);
	n = db_ask(r->db, &q, err, "SELECT owner FROM places WHERE place = ?", "s", s3_place_text(r->s3));
	n = n == 0 ? db_next(&q, err) : n;
	if (n == 0) {
		db_finish(&q);
		n = db_do(r->db, err, "INSERT INTO places (place, owner) VALUES (?, ?) ON CONFLICT DO NOTHING", "ss",
		          s3_place_text(r->s3), hex);
		n = n < 0 ? n : db_ask(r->db, &q, err, "SELECT owner FROM places WHERE place = ?", "s", s3_place_text(r->s3));
		n = n < 0 ? n : db_next(&q, err);
	}
	if (n < 0)
		return n;
	if (strlen(db_text(&q, 0)) != HASH_HEX || !codec_unhex_lower(db_text(&q, 0), ret_id, HASH_LEN))
		return err_set(err, EUCLEAN, "the database's table 'places' is damaged");
	return 0;
}

/* Another database would remove what this one refers to. */
int
registry_own_place(struct registry *r, struct err *err)
{
	unsigned char id[HASH_LEN];
	int n = r->owns_place ? 0 : read_owner(r, id, err);

	if (n == 0 && !r->owns_place)
		n = s3_own(r->s3, id, err);
	r->owns_place = n == 0;
	return n;
}

/* ---- there ---- */

static int
open_put(int folder, const char *path, const unsigned char hash[HASH_LEN], struct s3_put *ret_put, struct err *err)
{
	struct stat st;

	ret_put->fd = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (ret_put->fd < 0)
		return err_errno(err, "cannot open a blob");
	if (fstat(ret_put->fd, &st) < 0) {
		close(ret_put->fd);
		return err_errno(err, "cannot open a blob");
	}
	ret_put->size = (uint64_t)st.st_size;
	memcpy(ret_put->hash, hash, HASH_LEN);
	return 0;
}

int
registry_open_put(struct registry *r, const unsigned char hash[HASH_LEN], struct s3_put *ret_put, struct err *err)
{
	char path[REGISTRY_BLOB_PATH_MAX];

	registry_blob_path(hash, path);
	return open_put(r->blobs, path, hash, ret_put, err);
}

static int
give_staged(void *arg, size_t i, struct s3_put *ret_put, struct err *err)
{
	struct registry *r = arg;
	const struct registry_staged *staged = &r->staged[i];

	return staged->tmp[0] != '\0' ? open_put(r->tmp, staged->tmp, staged->hash, ret_put, err) :
	       registry_open_put(r, staged->hash, ret_put, err);
}

int
registry_put_staged(struct registry *r, struct err *err)
{
	int n = registry_own_place(r, err);

	n = n == 0 ? s3_put_all(r->s3, r->n_staged, give_staged, r, err) : n;
	if (n < 0)
		return err_wrap(err, "cannot keep blobs in %s", s3_place_text(r->s3));
	for (size_t i = 0; i < r->n_staged; i++)
		know(r, r->staged[i].hash);
	return 0;
}

struct kept {
	struct registry *r;
	const unsigned char *hash;
};

static int
give_kept(void *arg, size_t i, struct s3_put *ret_put, struct err *err)
{
	const struct kept *kept = arg;

	(void)i;
	return registry_open_put(kept->r, kept->hash, ret_put, err);
}

int
registry_touch_s3(struct registry *r, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err)
{
	char path[REGISTRY_BLOB_PATH_MAX];
	struct err why = {0};
	struct stat st;
	int n = registry_own_place(r, &why);

	n = n == 0 ? s3_touch(r->s3, hash, ret_size, &why) : n;

	registry_blob_path(hash, path);
	/* It was put when blobs were not in S3. */
	if (n == -ENOENT && fstatat(r->blobs, path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		n = s3_put_all(r->s3, 1, give_kept, &(struct kept){ r, hash }, &why);
		*ret_size = (uint64_t)st.st_size;
	}
	if (n == 0)
		know(r, hash);
	return n == 0 ? 0 : err_set(err, -n, "%s", why.text);
}

/* ---- and back ---- */

/* FD has what S3 has sent. */
static int
check(struct registry *r, int fd, const unsigned char hash[HASH_LEN], struct err *err)
{
	unsigned char found[HASH_LEN];
	uint64_t size;
	int n;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(err, "cannot read it");
	n = hash_fd(fd, REGISTRY_BLOB_MAX, found, &size, err);
	if (n == 0 && memcmp(found, hash, HASH_LEN) != 0)
		return err_set(err, EUCLEAN, "%s has another content under its name: somebody has changed it there. Nothing of it "
		               "was kept", s3_place_text(r->s3));
	return n;
}

int
registry_verify_s3(struct registry *r, const unsigned char hash[HASH_LEN], struct err *err)
{
	OWN(closep) int fd = openat(r->tmp, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	int n;

	if (fd < 0)
		return err_errno(err, "cannot write to '%s/tmp'", r->path);
	n = s3_get(r->s3, hash, fd, err);
	return n == 0 ? check(r, fd, hash, err) : n;
}

int
registry_fetch_blob(struct registry *r, const unsigned char hash[HASH_LEN], struct err *err)
{
	struct registry_staged *before = r->staged, one = { .tmp = "" };
	size_t n_before = r->n_staged;
	OWN(closep) int fd = -1;
	int n = registry_tmp_name(one.tmp, err);

	if (n < 0)
		return n;
	memcpy(one.hash, hash, HASH_LEN);
	fd = openat(r->tmp, one.tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	if (fd < 0)
		return err_errno(err, "cannot write to '%s/tmp'", r->path);
	n = s3_get(r->s3, hash, fd, err);
	n = n == 0 ? check(r, fd, hash, err) : n;
	if (n == 0 && fsync(fd) < 0)
		n = err_errno(err, "cannot write a blob to the disk");
	if (n < 0) {
		unlinkat(r->tmp, one.tmp, 0);
		return n;
	}
	/* Others that are staged stay so. */
	r->staged = &one;
	r->n_staged = 1;
	r->unsynced[hash[0]] = true;
	n = registry_keep_staged(r, err);
	r->staged = before;
	r->n_staged = n_before;
	return n;
}

/* ---- unused ones ---- */

struct sweep_s3 {
	struct registry *r;
	const struct registry_marks *marks;
	bool dry_run;
	struct registry_collected *collected;
};

static bool
is_old(const struct s3_object *o, int64_t now)
{
	return now - o->modified > (int64_t)(REGISTRY_UNUSED_MS / 1000);
}

/* What somebody refers to is put back: it was removed in the moment in which that began. */
static int
sweep_trash(struct sweep_s3 *s, const struct s3_object *o, int64_t now, struct err *err)
{
	bool used = registry_marks_has(s->marks, o->hash);

	return s->dry_run || (!used && !is_old(o, now)) ? 0 : s3_purge(s->r->s3, o->hash, used, err);
}

static int
sweep_blobs(struct sweep_s3 *s, const struct s3_object *o, int64_t now, struct err *err)
{
	uint64_t size = o->size;
	int n = 0;

	if (registry_marks_has(s->marks, o->hash) || !is_old(o, now))
		return 0;
	if (!s->dry_run)
		n = s3_remove(s->r->s3, o->hash, &size, err);
	/* Somebody was faster. */
	if (n == -EBUSY || n == -ENOENT)
		return 0;
	if (n == 0) {
		s->collected->n++;
		s->collected->bytes += size;
	}
	return n;
}

static int
sweep_all(struct sweep_s3 *s, bool trash, struct err *err)
{
	OWN(freep) struct s3_page *page = calloc(1, sizeof(*page));
	bool goes_on = false;
	int64_t now = 0;
	int n = page == NULL ? err_set(err, ENOMEM, "out of memory") : 0;

	while (n == 0) {
		n = s3_list(s->r->s3, trash, goes_on ? page->last : NULL, page, &now, err);
		for (size_t i = 0; n == 0 && i < page->n; i++)
			n = trash ? sweep_trash(s, &page->at[i], now, err) : sweep_blobs(s, &page->at[i], now, err);
		goes_on = page->more;
		if (n == 0 && !goes_on)
			break;
	}
	return n;
}

int
registry_sweep_s3(struct registry *r, const struct registry_marks *marks, bool dry_run,
                  struct registry_collected *collected, struct err *err)
{
	struct sweep_s3 s = { .r = r, .marks = marks, .dry_run = dry_run, .collected = collected };
	int n = registry_own_place(r, err);

	n = n == 0 ? sweep_all(&s, true, err) : n;

	n = n == 0 ? sweep_all(&s, false, err) : n;
	return n == 0 ? 0 : err_wrap(err, "unused blobs of %s", s3_place_text(r->s3));
}
