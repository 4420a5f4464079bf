/* registry_copy.c - copies the registry to another database, and its blobs to another place.
 *
 * Blobs go through the data folder's blobs/, and their hashes are checked there.  Until the end nothing refers to
 * what was copied: after a failure it is as if nothing had been done, but for blobs that are collected later. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "registry/registry_parts.h"
#include "store/s3_place.h"

#define HASHES_FIRST 1024

struct hashes {
	unsigned char (*at)[HASH_LEN];
	size_t n, cap;
	uint64_t bytes;
};

struct moving {
	struct registry *r;
	struct registry to;             /* R's folders, with the other database or S3 */
	const struct registry_copying *how;
	struct hashes all;
	struct registry_copied *copied;
};

/* ---- which blobs there are ---- */

static int
add_hash(struct hashes *all, const unsigned char hash[HASH_LEN], struct err *err)
{
	if (all->n == all->cap) {
		size_t cap = all->cap == 0 ? HASHES_FIRST : all->cap * 2;
		unsigned char (*more)[HASH_LEN] = realloc(all->at, cap * sizeof(*more));

		if (more == NULL)
			return err_set(err, ENOMEM, "out of memory");
		all->at = more;
		all->cap = cap;
	}
	memcpy(all->at[all->n++], hash, HASH_LEN);
	return 0;
}

static int
list_s3(struct registry *r, struct hashes *all, struct err *err)
{
	OWN(freep) struct s3_page *page = calloc(1, sizeof(*page));
	bool goes_on = false;
	int64_t now;
	int n = page == NULL ? err_set(err, ENOMEM, "out of memory") : 0;

	do {
		n = n == 0 ? s3_list(r->s3, false, goes_on ? page->last : NULL, page, &now, err) : n;
		for (size_t i = 0; n == 0 && i < page->n; i++)
			n = add_hash(all, page->at[i].hash, err);
		goes_on = n == 0 && page->more;
	} while (goes_on);
	return n;
}

static int
list_folder(struct registry *r, unsigned first, struct hashes *all, struct err *err)
{
	char name[3], text[HASH_NAME + 1];
	unsigned char hash[HASH_LEN];
	struct dirent *d;
	int n = 0, fd;

	snprintf(name, sizeof(name), "%02x", first);
	fd = openat(r->blobs, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return 0;
	OWN(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir == NULL)
		return err_errno(err, "cannot read '%s/blobs/%s'", r->path, name);
	while (n == 0 && (d = readdir(dir)) != NULL)
		if (snprintf(text, sizeof(text), HASH_PREFIX "%s%s", name, d->d_name) == HASH_NAME &&
		    hash_parse_name(text, hash))
			n = add_hash(all, hash, err);
	return n;
}

static int
list_all(struct registry *r, struct hashes *all, struct err *err)
{
	int n = 0;

	if (r->s3 != NULL)
		return list_s3(r, all, err);
	for (unsigned i = 0; n == 0 && i < 256; i++)
		n = list_folder(r, i, all, err);
	return n;
}

/* ---- into the folder ---- */

/* Whether blobs/ has it.  -EUCLEAN: with another content. */
static int
has_blob(struct registry *r, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err)
{
	char path[REGISTRY_BLOB_PATH_MAX], name[HASH_NAME + 1];
	unsigned char found[HASH_LEN];
	OWN(closep) int fd = -1;
	int n;

	registry_blob_path(hash, path);
	hash_name(hash, name);
	fd = openat(r->blobs, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot open the blob %s", name);
	n = hash_fd(fd, REGISTRY_BLOB_MAX, found, ret_size, err);
	if (n == 0 && memcmp(hash, found, HASH_LEN) != 0)
		n = err_set(err, EUCLEAN, "the blob '%s/blobs/%s' is damaged: remove it, and register or dispatch again what needs "
		            "it", r->path, path);
	return n < 0 ? n : 1;
}

/* What S3 has is fetched, also if the copy here was damaged. */
static int
bring(struct registry *r, const unsigned char hash[HASH_LEN], uint64_t *ret_size, struct err *err)
{
	char path[REGISTRY_BLOB_PATH_MAX];
	struct err why = {0};
	int n = has_blob(r, hash, ret_size, r->s3 != NULL ? &why : err);

	if (n == 1 || r->s3 == NULL)
		return n == 0 ? err_set(err, EBUSY, "blobs are being removed: try again") : n < 0 ? n : 0;
	registry_blob_path(hash, path);
	if (n == -EUCLEAN && unlinkat(r->blobs, path, 0) < 0)
		return err_errno(err, "cannot remove '%s/blobs/%s', which is damaged", r->path, path);
	n = registry_fetch_blob(r, hash, err);
	n = n == 0 ? has_blob(r, hash, ret_size, err) : n;
	return n < 0 ? n : 0;
}

static int
bring_all(struct moving *m, struct err *err)
{
	uint64_t size = 0;
	int n = list_all(m->r, &m->all, err);

	for (size_t i = 0; n == 0 && i < m->all.n; i++) {
		n = bring(m->r, m->all.at[i], &size, err);
		m->all.bytes += size;
		m->how->show("reading blobs", m->all.bytes, 0);
	}
	return n;
}

/* ---- to S3 ---- */

static int
give(void *arg, size_t i, struct s3_put *ret_put, struct err *err)
{
	struct moving *m = arg;
	int n = registry_open_put(m->r, m->all.at[i], ret_put, err);

	if (n == 0) {
		m->copied->blob_bytes += ret_put->size;
		m->how->show("copying blobs", m->copied->blob_bytes, m->all.bytes);
	}
	return n;
}

static int
send_all(struct moving *m, struct err *err)
{
	int n = registry_own_place(&m->to, err);

	n = n == 0 ? s3_put_all(m->to.s3, m->all.n, give, m, err) : n;
	for (size_t i = 0; n == 0 && i < m->all.n; i++) {
		n = registry_verify_s3(&m->to, m->all.at[i], err);
		m->how->show("reading copied blobs", (i + 1) * m->all.bytes / m->all.n, m->all.bytes);
	}
	return n < 0 ? err_wrap(err, "%s", s3_place_text(m->to.s3)) : 0;
}

static int
move_blobs(struct moving *m, struct err *err)
{
	bool to_folder = strcmp(m->how->blobs, REGISTRY_FOLDER) == 0;
	int n = bring_all(m, err);

	/* What is started from now on is for the other place. */
	if (n == 0 && (to_folder ? unsetenv(S3_VARIABLE) : setenv(S3_VARIABLE, m->how->blobs, 1)) < 0)
		n = err_errno(err, "cannot set a variable");
	n = n == 0 ? s3_open(&m->to.s3, err) : n;
	n = n == 0 && !to_folder ? send_all(m, err) : n;
	m->copied->n_blobs = m->all.n;
	m->copied->blob_bytes = m->all.bytes;
	return n;
}

/* ---- the database ---- */

/* Blobs that stay in S3 are the new database's: the old one is refused from then on. */
static int
hand_over_place(struct moving *m, struct err *err)
{
	OWN(db_finish) struct db_query q = {0};
	const char *place = m->r->s3 == NULL || m->how->blobs != NULL ? NULL : s3_place_text(m->r->s3);
	int n = place == NULL ? 0 : db_ask(m->r->db, &q, err, "SELECT owner FROM places WHERE place = ?", "s", place);

	n = n == 0 && place != NULL ? db_next(&q, err) : n;
	if (n <= 0)
		return n;
	n = db_do(m->to.db, err, "INSERT INTO places (place, owner) VALUES (?, ?)", "ss", place, db_text(&q, 0));
	db_finish(&q);
	n = n < 0 ? n : db_do(m->r->db, err, "DELETE FROM places WHERE place = ?", "s", place);
	return n < 0 ? n : 0;
}

static int
move_rows(struct moving *m, struct err *err)
{
	int n = db_begin(m->to.db, err);

	if (n < 0)
		return n;
	n = registry_check_empty(m->to.db, err);
	n = n == 0 ? registry_copy_rows(m->r->db, m->to.db, m->how->show, m->copied, err) : n;
	n = n == 0 ? hand_over_place(m, err) : n;
	return db_end(m->to.db, n, err);
}

static int
move_all(struct moving *m, struct err *err)
{
	int n = registry_check_over(m->r->db, err);

	n = n == 0 && m->how->store != NULL ? registry_check_empty(m->to.db, err) : n;
	n = n == 0 && m->how->blobs != NULL ? move_blobs(m, err) : n;
	return n == 0 && m->how->store != NULL ? move_rows(m, err) : n;
}

/* Blobs may take longer than other changes are given. */
static int
take_time(struct db *db, struct err *err)
{
	int n = *db_home(db) == '\0' ? 0 : db_do(db, err, "SET LOCAL idle_in_transaction_session_timeout = 0", "");

	return n < 0 ? n : 0;
}

/* Nobody else changes what is copied. */
static int
move_locked(struct moving *m, struct err *err)
{
	bool to_sqlite = strcmp(m->how->store, REGISTRY_SQLITE) == 0;
	int n = registry_open_db(m->r, to_sqlite ? NULL : m->how->store, &m->to.db, err);

	n = n == 0 ? db_begin(m->r->db, err) : n;
	if (n == 0) {
		n = take_time(m->r->db, err);
		n = n == 0 ? db_is_same(m->r->db, m->to.db, err) : n;
		if (n > 0)
			n = err_set(err, EINVAL, "the registry is in '%s' already: this is the database that it is in", m->how->store);
		n = n == 0 ? move_all(m, err) : n;
		n = db_end(m->r->db, n, err);
	}
	db_close(m->to.db);
	return n;
}

/* ---- */

static bool
is_same(const char *a, const char *b)
{
	return a != NULL && strcmp(a, b) == 0;
}

/* An address that is none is found later. */
static bool
is_same_place(const char *a, const char *b)
{
	struct s3_place one, other;

	return a != NULL && s3_place_parse(a, environ, &one, NULL) == 0 && s3_place_parse(b, environ, &other, NULL) == 0 &&
	       s3_place_is_same(&one, &other);
}

static int
check_places(const struct registry_copying *how, struct err *err)
{
	const char *store = registry_store(), *blobs = getenv(S3_VARIABLE);

	if (blobs == NULL || *blobs == '\0')
		blobs = REGISTRY_FOLDER;
	if (is_same(how->store, store != NULL ? store : REGISTRY_SQLITE))
		return err_set(err, EINVAL, "the registry is in '%s' already", how->store);
	if (is_same(how->blobs, blobs) || is_same_place(how->blobs, blobs))
		return err_set(err, EINVAL, "the blobs are in '%s' already", how->blobs);
	return 0;
}

int
registry_copy(struct registry *r, const struct registry_copying *how, struct registry_copied *ret_copied,
              struct err *err)
{
	struct moving m = { .r = r, .how = how, .copied = ret_copied,
		.to = { .folder = r->folder, .blobs = r->blobs, .trees = r->trees, .tmp = r->tmp, .path = r->path,
		        .db = how->store == NULL ? r->db : NULL } };
	int n = check_places(how, err);

	*ret_copied = (struct registry_copied){0};
	if (n == 0)
		n = how->store == NULL ? move_all(&m, err) : move_locked(&m, err);
	s3_close(m.to.s3);
	registry_marks_free(&m.to.known);
	free(m.all.at);
	return n;
}
