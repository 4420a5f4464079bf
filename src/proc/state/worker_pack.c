/* worker_pack.c - collects the objects of one change, and writes them as one pack.
 *
 * As loose objects, a thousand small files are a thousand files and renames.  libgit2's own packs would compare each object
 * with its neighbours, and then inflate and hash all of them again.  Here an object is deflated once, and written once.
 *
 * Files that are too large for memory are loose objects, in a folder of their own until the change is complete.
 *
 * Order: the large objects, the bytes of the pack and its index are on the disk before they have their names, the index last:
 * git looks for that.  Anything else is what a crash left.  The caller has the state's lock; but a worker whose caller was killed
 * may live for a moment longer than that lock, and then finds its files gone. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Newer versions of libgit2 declare git_error_set_str() there. */
#if __has_include(<git2/sys/errors.h>)
#include <git2/sys/errors.h>
#endif

#include "base/codec.h"
#include "base/io.h"
#include "base/tree.h"
#include "proc/state/worker_pack.h"

#define OBJECT_HEADER 16                /* bytes before those of an object, at most */
#define HELD_MAX ((size_t)8 << 20)      /* bytes in memory, and the object that passes it */
#define OBJECT_MOST ((size_t)1 << 30)
#define OBJECTS_MOST 8000000
#define OLD_SECONDS 3600

/* ---- the table ---- */

static uint32_t *
slot_of(const struct pack *p, const git_oid *id)
{
	uint32_t at;

	memcpy(&at, id->id, sizeof(at));
	for (at %= p->n_slots; p->slots[at] != 0 && !git_oid_equal(&p->all[p->slots[at] - 1].id, id);)
		at = at + 1 == p->n_slots ? 0 : at + 1;
	return &p->slots[at];
}

const struct packed *
worker_pack_find(const struct pack *p, const git_oid *id)
{
	uint32_t slot = p->n == 0 ? 0 : *slot_of(p, id);

	return slot == 0 ? NULL : &p->all[slot - 1];
}

/* Room for one more.  At most half of the slots are taken. */
static int
grow(struct pack *p, struct err *err)
{
	uint32_t cap = p->cap == 0 ? 1024 : p->cap * 2;
	struct packed *all;
	uint32_t *slots;

	if (p->n < p->cap)
		return 0;
	if (p->n >= OBJECTS_MOST)
		return err_set(err, E2BIG, "a change has over %d files and folders", OBJECTS_MOST);
	all = realloc(p->all, cap * sizeof(*all));
	p->all = all != NULL ? all : p->all;
	slots = all == NULL ? NULL : calloc(2 * (size_t)cap, sizeof(*slots));
	if (slots == NULL)
		return err_set(err, ENOMEM, "out of memory");
	free(p->slots);
	p->slots = slots;
	p->n_slots = 2 * cap;
	p->cap = cap;
	for (uint32_t i = 0; i < p->n; i++)
		*slot_of(p, &p->all[i].id) = i + 1;
	return 0;
}

/* ---- what a crash left ---- */

static void
remove_temporary(int dir, const char *name)
{
	OWN(closep) int fd = tree_open_dir(dir, name);

	if (fd >= 0 && tree_empty(fd, NULL) == 0)
		(void)unlinkat(dir, name, AT_REMOVEDIR);
	else
		(void)unlinkat(dir, name, 0);
}

/* A pack gets its index at once, or never: but another worker may be just about to. */
static bool
has_no_index(int dir, const char *name)
{
	size_t len = strlen(name);
	char index[NAME_MAX + 8];
	struct stat st;

	if (len < 5 || strcmp(name + len - 5, ".pack") != 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    st.st_mtime > time(NULL) - OLD_SECONDS)
		return false;
	snprintf(index, sizeof(index), "%.*s.idx", (int)(len - 5), name);
	return faccessat(dir, index, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static void
clean(const char *folder)
{
	OWN(closep) int dir = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN(closedirp) DIR *list = dir < 0 ? NULL : tree_list(dir);
	const struct dirent *entry;

	while (list != NULL && (entry = readdir(list)) != NULL)
		if (strncmp(entry->d_name, PACK_TEMPORARY, strlen(PACK_TEMPORARY)) == 0 || has_no_index(dir, entry->d_name))
			remove_temporary(dir, entry->d_name);
}

/* A worker that is being killed may still have its own: names differ. */
int
worker_pack_begin(struct pack *p, struct err *err)
{
	unsigned char random[8];

	if (p->cleaned)
		return 0;
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_errno(err, "cannot choose a name");
	snprintf(p->name, sizeof(p->name), PACK_TEMPORARY);
	codec_hex(random, sizeof(random), p->name + strlen(PACK_TEMPORARY));
	clean(WORKER_OBJECTS);
	clean(PACK_FOLDER);
	p->cleaned = true;
	return 0;
}

/* ---- writing ---- */

int
worker_pack_create(const struct pack *p, const char *end, struct err *err)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), PACK_FOLDER "/%s%s", p->name, end);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	return fd < 0 ? err_errno(err, "cannot make a file for the state's objects") : fd;
}

int
worker_pack_flush(struct pack *p, struct err *err)
{
	int r;

	if (p->fd == 0) {
		r = worker_pack_create(p, PACK_END, err);
		if (r < 0)
			return r;
		p->fd = r;
	}
	r = write_all(p->fd, p->held.data, p->held.len, err);
	p->written += p->held.len;
	buf_reset(&p->held);
	return r < 0 ? err_wrap(err, "cannot write the state's objects") : 0;
}

static size_t
put_header(unsigned char *at, git_object_t type, uint64_t size)
{
	size_t n = 0;

	at[n] = (unsigned char)((unsigned)type << 4 | (size & 15));
	for (size >>= 4; size > 0; size >>= 7) {
		at[n++] |= 0x80;
		at[n] = size & 0x7f;
	}
	return n + 1;
}

static int
begin_deflate(struct pack *p, struct err *err)
{
	if (p->deflates ? deflateReset(&p->deflate) != Z_OK : deflateInit(&p->deflate, WORKER_LEVEL) != Z_OK)
		return err_set(err, ENOMEM, "out of memory");
	p->deflates = true;
	return 0;
}

/* Its bytes behind those of the others. */
static int
append(struct pack *p, struct packed *o, const void *data, struct err *err)
{
	unsigned char nothing = 0, *to;
	size_t most, n, was = p->held.len;
	int r = begin_deflate(p, err);

	if (r < 0)
		return r;
	most = deflateBound(&p->deflate, (uLong)o->size) + OBJECT_HEADER;
	to = buf_add(&p->held, most);
	if (to == NULL)
		return err_set(err, ENOMEM, "out of memory");
	n = put_header(to, o->type, o->size);
	p->deflate.next_in = o->size == 0 ? &nothing : data;
	p->deflate.avail_in = (uInt)o->size;
	p->deflate.next_out = to + n;
	p->deflate.avail_out = (uInt)(most - n);
	if (deflate(&p->deflate, Z_FINISH) != Z_STREAM_END)
		return err_set(err, EIO, "cannot compress a file");
	n = most - p->deflate.avail_out;
	p->held.len = was + n;
	o->at = p->written + was;
	o->crc = (uint32_t)crc32(0, to, (uInt)n);
	return p->held.len < HELD_MAX ? 0 : worker_pack_flush(p, err);
}

int
worker_pack_put(struct pack *p, const git_oid *id, const void *data, size_t len, git_object_t type, struct err *err)
{
	struct packed o = { .type = type, .size = len };
	int r = worker_pack_begin(p, err);

	r = r == 0 ? grow(p, err) : r;
	if (r < 0 || *slot_of(p, id) != 0)
		return r;
	if (len > OBJECT_MOST)
		return err_set(err, EFBIG, "a folder has too many files");
	if (p->written == 0 && p->held.len == 0)
		(void)buf_add(&p->held, PACK_HEADER);
	git_oid_cpy(&o.id, id);
	if (type == GIT_OBJECT_BLOB)
		hash_of(data, len, o.sum);
	r = append(p, &o, data, err);
	if (r < 0)
		return r;
	p->all[p->n++] = o;
	*slot_of(p, id) = p->n;
	return 0;
}

/* ---- reading ---- */

/* Bytes of the pack from AT on: *RET_N of them, at most a piece. */
static const unsigned char *
peek(const struct pack *p, uint64_t at, unsigned char piece[PACK_PIECE], size_t *ret_n)
{
	uint64_t left = at < p->written ? p->written - at : p->written + p->held.len - at;
	ssize_t n;

	*ret_n = left < PACK_PIECE ? (size_t)left : PACK_PIECE;
	if (at >= p->written)
		return p->held.data + (at - p->written);
	n = pread(p->fd, piece, *ret_n, (off_t)at);
	*ret_n = n < 0 ? 0 : (size_t)n;
	return piece;
}

/* TO has room for its size. */
static bool
inflate_object(const struct pack *p, const struct packed *o, unsigned char *to)
{
	unsigned char piece[PACK_PIECE], header[OBJECT_HEADER];
	uint64_t at = o->at + put_header(header, o->type, o->size);
	z_stream z = { .next_out = to, .avail_out = (uInt)o->size };
	int r = inflateInit(&z);
	size_t n = 1;

	while (r == Z_OK && n > 0) {
		z.next_in = peek(p, at, piece, &n);
		z.avail_in = (uInt)n;
		at += n;
		r = inflate(&z, Z_NO_FLUSH);
	}
	(void)inflateEnd(&z);
	return r == Z_STREAM_END && z.total_out == o->size;
}

/* ---- libgit2's view of it ---- */

static int
backend_read(void **ret_data, size_t *ret_len, git_object_t *ret_type, git_odb_backend *backend, const git_oid *id)
{
	const struct pack *p = (const struct pack *)backend;
	const struct packed *o = worker_pack_find(p, id);
	unsigned char *data = o == NULL ? NULL : git_odb_backend_data_alloc(backend, (size_t)o->size + 1);

	if (o == NULL)
		return GIT_ENOTFOUND;
	if (data == NULL || !inflate_object(p, o, data)) {
		git_odb_backend_data_free(backend, data);
		return GIT_ERROR;
	}
	data[o->size] = '\0';
	*ret_data = data;
	*ret_len = (size_t)o->size;
	*ret_type = o->type;
	return 0;
}

static int
backend_read_header(size_t *ret_len, git_object_t *ret_type, git_odb_backend *backend, const git_oid *id)
{
	const struct packed *o = worker_pack_find((const struct pack *)backend, id);

	if (o == NULL)
		return GIT_ENOTFOUND;
	*ret_len = (size_t)o->size;
	*ret_type = o->type;
	return 0;
}

static int
backend_exists(git_odb_backend *backend, const git_oid *id)
{
	return worker_pack_find((const struct pack *)backend, id) != NULL;
}

static int
backend_write(git_odb_backend *backend, const git_oid *id, const void *data, size_t len, git_object_t type)
{
	struct err err = {0};

	if (worker_pack_put((struct pack *)backend, id, data, len, type, &err) == 0)
		return 0;
	git_error_set_str(GIT_ERROR_ODB, err.text);
	return GIT_ERROR;
}

static void
backend_free(git_odb_backend *backend)
{
	free(backend);
}

void
worker_pack_reset(struct pack *p)
{
	close_fd(&p->fd);
	buf_free(&p->held);
	p->held = BUF(HELD_MAX + OBJECT_MOST + (OBJECT_MOST >> 8));
	free(p->all);
	free(p->slots);
	p->all = NULL;
	p->slots = NULL;
	p->n = p->cap = p->n_slots = 0;
	p->written = 0;
}

struct pack *
worker_pack_new(struct err *err)
{
	struct pack *p = calloc(1, sizeof(*p));

	if (p == NULL || git_odb_init_backend(&p->backend, GIT_ODB_BACKEND_VERSION) < 0) {
		free(p);
		(void)err_set(err, ENOMEM, "out of memory");
		return NULL;
	}
	worker_pack_reset(p);
	p->backend.read = backend_read;
	p->backend.read_header = backend_read_header;
	p->backend.exists = backend_exists;
	p->backend.write = backend_write;
	p->backend.free = backend_free;
	return p;
}
