/* worker_pack_end.c - makes the objects of a change part of the state. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <nettle/sha1.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/io.h"
#include "base/tree.h"
#include "proc/state/worker_pack.h"

#define VERSION 2                       /* of packs, and of their indexes */
#define INDEX_MAGIC 0xff744f63u
#define BEYOND 0x80000000u                 /* an offset beyond 31 bits is in a second table */
#define FANOUT 256

/* ---- the pack ---- */

static void
put_be32(struct buf *b, uint32_t v)
{
	v = htobe32(v);
	buf_put(b, &v, sizeof(v));
}

static void
make_header(unsigned char header[PACK_HEADER], uint32_t n)
{
	const uint32_t numbers[] = { htobe32(VERSION), htobe32(n) };

	memcpy(header, "PACK", 4);
	memcpy(header + 4, numbers, sizeof(numbers));
}

static int
hash_file(struct pack *p, unsigned char ret_sum[SHA1_DIGEST_SIZE], struct err *err)
{
	unsigned char piece[PACK_PIECE];
	struct sha1_ctx sha;
	ssize_t n;

	sha1_init(&sha);
	for (off_t at = 0; (n = pread(p->fd, piece, sizeof(piece), at)) > 0; at += n)
		sha1_update(&sha, (size_t)n, piece);
	sha1_digest(&sha, SHA1_DIGEST_SIZE, ret_sum);
	return n < 0 ? err_errno(err, "cannot read the state's new objects") : 0;
}

/* All its bytes are on the disk then. */
static int
complete_pack(struct pack *p, unsigned char ret_sum[SHA1_DIGEST_SIZE], struct err *err)
{
	unsigned char header[PACK_HEADER];
	int r = 0;

	make_header(header, p->n);
	if (p->written == 0)
		memcpy(p->held.data, header, sizeof(header));
	else if (pwrite(p->fd, header, sizeof(header), 0) != sizeof(header))
		return err_errno(err, "cannot write the state's objects");
	r = worker_pack_flush(p, err);
	r = r == 0 ? hash_file(p, ret_sum, err) : r;
	r = r == 0 ? write_all(p->fd, ret_sum, SHA1_DIGEST_SIZE, err) : r;
	return r == 0 && fsync(p->fd) < 0 ? err_errno(err, "cannot write the state's objects") : r;
}

/* ---- its index ---- */

static int
by_id(const void *a, const void *b)
{
	return git_oid_cmp(&((const struct packed *)a)->id, &((const struct packed *)b)->id);
}

/* ALL is sorted. */
static void
make_index(const struct pack *p, const unsigned char pack_sum[SHA1_DIGEST_SIZE], struct buf *b)
{
	unsigned char sum[SHA1_DIGEST_SIZE];
	uint32_t n = 0, far = 0;
	struct sha1_ctx sha;

	put_be32(b, INDEX_MAGIC);
	put_be32(b, VERSION);
	for (unsigned first = 0; first < FANOUT; first++) {
		while (n < p->n && p->all[n].id.id[0] == first)
			n++;
		put_be32(b, n);
	}
	for (uint32_t i = 0; i < p->n; i++)
		buf_put(b, p->all[i].id.id, SHA1_DIGEST_SIZE);
	for (uint32_t i = 0; i < p->n; i++)
		put_be32(b, p->all[i].crc);
	for (uint32_t i = 0; i < p->n; i++)
		put_be32(b, p->all[i].at < BEYOND ? (uint32_t)p->all[i].at : BEYOND | far++);
	for (uint32_t i = 0; i < p->n; i++) {
		const uint64_t at = htobe64(p->all[i].at);

		if (p->all[i].at >= BEYOND)
			buf_put(b, &at, sizeof(at));
	}
	buf_put(b, pack_sum, SHA1_DIGEST_SIZE);
	sha1_init(&sha);
	sha1_update(&sha, b->len, b->data);
	sha1_digest(&sha, sizeof(sum), sum);
	buf_put(b, sum, sizeof(sum));
}

static int
write_index(struct pack *p, const unsigned char pack_sum[SHA1_DIGEST_SIZE], struct err *err)
{
	OWN(buf_free) struct buf b = BUF(4096 + (size_t)p->n * (SHA1_DIGEST_SIZE + 16));
	OWN(closep) int fd = worker_pack_create(p, PACK_INDEX_END, err);

	if (fd < 0)
		return fd;
	qsort(p->all, p->n, sizeof(*p->all), by_id);
	make_index(p, pack_sum, &b);
	if (buf_failed(&b))
		return err_set(err, ENOMEM, "out of memory");
	if (write_all(fd, b.data, b.len, err) < 0)
		return -err->code;
	return fsync(fd) < 0 ? err_errno(err, "cannot write an index of the state's objects") : 0;
}

/* ---- large objects ---- */

/* Its path. */
static void
name_large(const struct pack *p, char ret_path[128])
{
	snprintf(ret_path, 128, WORKER_OBJECTS "/%s", p->name);
}

git_odb *
worker_pack_large(struct worker *w, struct err *err)
{
	git_odb_backend *loose = NULL, *seen = NULL;
	struct pack *p = w->pack;
	char path[128];
	int r = worker_pack_begin(p, err);

	if (r < 0 || p->large != NULL)
		return r < 0 ? NULL : p->large;
	name_large(p, path);
	if (mkdir(path, 0755) < 0) {
		(void)err_errno(err, "cannot make a folder for the state's objects");
		return NULL;
	}
	if (git_odb_new(&p->large) == 0 && git_odb_backend_loose(&loose, path, WORKER_LEVEL, 1, 0755, 0444) == 0 &&
	    git_odb_add_backend(p->large, loose, 1) == 0 && git_odb_backend_loose(&seen, path, WORKER_LEVEL, 1, 0755, 0444) == 0 &&
	    git_odb_add_backend(w->odb, seen, 1) == 0)
		return p->large;
	(void)worker_git_error(err, "cannot open the state's objects");
	return NULL;
}

static int
move_objects(int from, int to, struct err *err)
{
	OWN(closedirp) DIR *list = tree_list(from);
	const struct dirent *entry;

	if (list == NULL)
		return err_errno(err, "cannot list the state's new objects");
	while ((entry = readdir(list)) != NULL)
		if (!tree_is_dots(entry->d_name) && renameat(from, entry->d_name, to, entry->d_name) < 0)
			return err_errno(err, "cannot keep the state's new objects");
	return fsync(to) < 0 ? err_errno(err, "cannot keep the state's new objects") : 0;
}

/* Each is on the disk already. */
static int
keep_large(struct pack *p, struct err *err)
{
	OWN(closep) int objects = open(WORKER_OBJECTS, O_RDONLY | O_DIRECTORY | O_CLOEXEC), from = -1;
	OWN(closedirp) DIR *list = NULL;
	const struct dirent *entry;
	int r = 0;

	from = tree_open_dir(objects, p->name);
	list = from < 0 ? NULL : tree_list(from);
	if (list == NULL)
		return err_errno(err, "cannot list the state's new objects");
	while (r == 0 && (entry = readdir(list)) != NULL) {
		OWN(closep) int in = -1, out = -1;

		if (tree_is_dots(entry->d_name))
			continue;
		if (mkdirat(objects, entry->d_name, 0755) < 0 && errno != EEXIST)
			return err_errno(err, "cannot keep the state's new objects");
		in = tree_open_dir(from, entry->d_name);
		out = tree_open_dir(objects, entry->d_name);
		r = in < 0 || out < 0 ? err_set(err, EIO, "cannot keep the state's new objects") : move_objects(in, out, err);
	}
	return r == 0 && fsync(objects) < 0 ? err_errno(err, "cannot keep the state's new objects") : r;
}

static void
drop_large(struct pack *p)
{
	OWN(closep) int objects = p->large == NULL ? -1 : open(WORKER_OBJECTS, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;

	fd = objects < 0 ? -1 : tree_open_dir(objects, p->name);
	if (fd >= 0 && tree_empty(fd, NULL) == 0)
		(void)unlinkat(objects, p->name, AT_REMOVEDIR);
	git_odb_free(p->large);
	p->large = NULL;
}

/* ---- all ---- */

static int
name_pack(struct pack *p, const unsigned char sum[SHA1_DIGEST_SIZE], struct err *err)
{
	OWN(closep) int dir = open(PACK_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	static const char *const ends[][2] = { { PACK_END, ".pack" }, { PACK_INDEX_END, ".idx" } };     /* in this order */
	char from[PACK_NAME_MAX], to[PACK_NAME_MAX + 8];

	memcpy(p->kept, "pack-", 5);
	codec_hex(sum, SHA1_DIGEST_SIZE, p->kept + 5);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		snprintf(from, sizeof(from), "%s%s", p->name, ends[i][0]);
		snprintf(to, sizeof(to), "%s%s", p->kept, ends[i][1]);
		if (dir < 0 || renameat(dir, from, dir, to) < 0)
			return err_errno(err, "cannot keep the state's new objects");
	}
	return fsync(dir) < 0 ? err_errno(err, "cannot keep the state's new objects") : 0;
}

static int
keep_pack(struct pack *p, struct err *err)
{
	unsigned char sum[SHA1_DIGEST_SIZE];
	int r = complete_pack(p, sum, err);

	r = r == 0 ? write_index(p, sum, err) : r;
	return r == 0 ? name_pack(p, sum, err) : r;
}

void
worker_pack_drop(struct worker *w)
{
	static const char *const ends[] = { PACK_INDEX_END, PACK_END };
	char path[128];

	for (size_t i = 0; w->pack->cleaned && i < ARRAY_LEN(ends); i++) {
		snprintf(path, sizeof(path), PACK_FOLDER "/%s%s", w->pack->name, ends[i]);
		(void)unlink(path);
	}
	drop_large(w->pack);
	worker_pack_reset(w->pack);
}

int
worker_pack_keep(struct worker *w, struct err *err)
{
	struct pack *p = w->pack;
	int r = p->large != NULL ? keep_large(p, err) : 0;

	if (r == 0 && p->n > 0)
		r = keep_pack(p, err);
	worker_pack_drop(w);
	return r;
}

int
worker_write(struct worker *w, const void *data, size_t len, git_object_t type, git_oid *ret_id, struct err *err)
{
	git_odb *large;

	if (git_odb_hash(ret_id, data, len, type) < 0)
		return worker_git_error(err, "cannot write a file");
	/* Otherwise libgit2 would list all packs again for each new file. */
	if (worker_pack_find(w->pack, ret_id) != NULL || git_odb_exists_ext(w->odb, ret_id, GIT_ODB_LOOKUP_NO_REFRESH))
		return 0;
	if (len <= WORKER_WHOLE_MAX || type != GIT_OBJECT_BLOB)
		return worker_pack_put(w->pack, ret_id, data, len, type, err);
	large = worker_pack_large(w, err);
	if (large == NULL)
		return -err->code;
	return git_odb_write(ret_id, large, data, len, type) == 0 ? 0 : worker_git_error(err, "cannot write a file");
}

bool
worker_pack_sum(const struct worker *w, const git_oid *id, unsigned char ret_sum[HASH_LEN])
{
	const struct packed *o = worker_pack_find(w->pack, id);

	if (o == NULL || o->type != GIT_OBJECT_BLOB)
		return false;
	memcpy(ret_sum, o->sum, HASH_LEN);
	return true;
}
