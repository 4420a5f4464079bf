/* plan_files.c - keeps trees of files by their SHA-256, and makes them again. */
#include "plan/plan_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "base/tree.h"

#define DEPTH_MAX 256
#define MODE_DIGITS 6
#define PART "part"                     /* a file of DATA that is being written */
#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static void
hex_of(const unsigned char hash[HASH_LEN], char ret_hash[HASH_HEX + 1])
{
	codec_hex(hash, HASH_LEN, ret_hash);
}

/* ---- files ---- */

int
plan_keep_file(int data, int fd, char ret_hash[HASH_HEX + 1], struct err *err)
{
	OWN(closep) int out = openat(data, PART, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	unsigned char hash[HASH_LEN];
	uint64_t size;
	int r;

	if (out < 0)
		return err_errno(err, "cannot write a file of the plan");
	r = hash_copy(fd, out, PLAN_FILE_MAX, hash, &size, err);
	if (r < 0)
		return err_wrap(err, "cannot copy a file to the plan");
	hex_of(hash, ret_hash);
	return renameat(data, PART, data, ret_hash) < 0 ? err_errno(err, "cannot write a file of the plan") : 0;
}

static int
keep_bytes(int data, const void *bytes, size_t len, char ret_hash[HASH_HEX + 1], struct err *err)
{
	OWN(closep) int out = -1;
	unsigned char hash[HASH_LEN];
	int r;

	hash_of(bytes, len, hash);
	hex_of(hash, ret_hash);
	if (data < 0)
		return 0;
	out = openat(data, PART, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = out < 0 ? err_errno(err, "cannot write a file of the plan") : write_all(out, bytes, len, err);
	return r == 0 && renameat(data, PART, data, ret_hash) < 0 ? err_errno(err, "cannot write a file of the plan") : r;
}

int
plan_open_file(int data, const char *hash, struct err *err)
{
	OWN(closep) int fd = openat(data, hash, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return err_errno(err, "cannot open '%.64s' of the plan's files", hash);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, EBADMSG, "'%.64s' of the plan's files is not a file", hash);
	return TAKE_FD(fd);
}

static int
changed(const char *hash, struct err *err)
{
	return err_set(err, EBADMSG, "'%.64s' of the plan's files was changed: its bytes have another SHA-256", hash);
}

int
plan_check_file(int data, const char *hash, struct err *err)
{
	OWN(closep) int fd = plan_open_file(data, hash, err);
	unsigned char digest[HASH_LEN];
	char hex[HASH_HEX + 1];
	uint64_t size;
	int r = fd < 0 ? fd : hash_fd(fd, PLAN_FILE_MAX, digest, &size, err);

	if (r < 0)
		return r;
	hex_of(digest, hex);
	return strcmp(hex, hash) == 0 ? 0 : changed(hash, err);
}

/* All of a listing or a link's target, compared with its name; the caller owns *ret_text. */
static int
read_checked(int data, const char *hash, size_t max, char **ret_text, size_t *ret_len, struct err *err)
{
	OWN(closep) int fd = plan_open_file(data, hash, err);
	OWN(freep) char *text = NULL;
	unsigned char digest[HASH_LEN];
	char hex[HASH_HEX + 1];
	int r = fd < 0 ? fd : read_whole(fd, max, &text, ret_len, err);

	if (r < 0)
		return r;
	hash_of(text, *ret_len, digest);
	hex_of(digest, hex);
	if (strcmp(hex, hash) != 0)
		return changed(hash, err);
	*ret_text = TAKE(text);
	return 0;
}

/* ---- listings ---- */

static int
malformed(struct plan_listing *l, const char *why, struct err *err)
{
	return err_set(err, EBADMSG, "entry %zu of a listing of the plan %s", l->n + 1, why);
}

static bool
path_ok(const char *path, size_t len)
{
	size_t n;

	if (len == 0 || len >= PLAN_PATH_MAX)
		return false;
	for (const char *part = path;; part += n + 1) {
		n = strcspn(part, "/");
		if (n == 0 || n > PLAN_NAME_MAX || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.'))
			return false;
		if (part[n] == '\0')
			return true;
	}
}

static bool
mode_ok(mode_t mode)
{
	return (mode & ~(mode_t)S_IFMT & ~(mode_t)0777) == 0 && (S_ISREG(mode) || S_ISLNK(mode) || S_ISDIR(mode));
}

int
plan_next_entry(struct plan_listing *l, struct plan_entry *ret_entry, struct err *err)
{
	const size_t head = MODE_DIGITS + 1 + HASH_HEX + 1, left = (size_t)(l->end - l->at);
	const char *nul, *at = l->at;
	struct plan_entry e = {0};

	if (left == 0)
		return 0;
	nul = left <= head ? NULL : memchr(at + head, '\0', left - head);
	if (nul == NULL || at[MODE_DIGITS] != ' ' || at[head - 1] != ' ')
		return malformed(l, "is cut off, or malformed", err);
	if (l->n >= PLAN_ENTRIES_MAX)
		return malformed(l, "is too many", err);
	for (size_t i = 0; i < MODE_DIGITS; i++) {
		if (at[i] < '0' || at[i] > '7')
			return malformed(l, "has no mode", err);
		e.mode = e.mode * 8 + (mode_t)(at[i] - '0');
	}
	memcpy(e.hash, at + MODE_DIGITS + 1, HASH_HEX);
	if (strspn(e.hash, "0123456789abcdef") != HASH_HEX || !mode_ok(e.mode))
		return malformed(l, "has no proper mode or hash", err);
	e.path = at + head;
	if (!path_ok(e.path, (size_t)(nul - e.path)))
		return malformed(l, "has a path that is too long, or leads out of its folder", err);
	if (l->last != NULL && strcmp(l->last, e.path) >= 0)
		return malformed(l, "is there twice, or not in its place", err);
	l->last = e.path;
	l->at = nul + 1;
	l->n++;
	*ret_entry = e;
	return 1;
}

/* ---- walking a tree ---- */

struct kept {
	char *path;
	char hash[HASH_HEX + 1];
	mode_t mode;
};
struct keeping {
	bool folders;
	int data;
	struct kept *at;
	size_t n, room;
	uint64_t bytes;
	char path[PLAN_PATH_MAX];
	struct err *err;
};

static void
keeping_free(struct keeping *k)
{
	for (size_t i = 0; i < k->n; i++)
		free(k->at[i].path);
	free(k->at);
}

static int
failed(struct keeping *k, int code)
{
	char shown[128];

	errno = code;
	snprintf(shown, sizeof(shown), "%.120s", k->path);
	for (char *p = shown; *p != '\0'; p++)
		*p = *p < ' ' || *p == 0x7f ? '?' : *p;
	return err_errno(k->err, "cannot read '%s'", shown);
}

static int
add(struct keeping *k, mode_t mode, const char *hash)
{
	struct kept *more;

	if (k->n == k->room) {
		k->room = k->room == 0 ? 256 : 2 * k->room;
		more = reallocarray(k->at, k->room, sizeof(*more));
		if (more == NULL)
			return err_set(k->err, ENOMEM, "out of memory");
		k->at = more;
	}
	if (k->n >= PLAN_ENTRIES_MAX)
		return err_set(k->err, E2BIG, "a tree of a plan has at most %d files", PLAN_ENTRIES_MAX);
	more = &k->at[k->n];
	more->path = strdup(k->path);
	if (more->path == NULL)
		return err_set(k->err, ENOMEM, "out of memory");
	more->mode = mode;
	memcpy(more->hash, hash, sizeof(more->hash));
	k->n++;
	return 0;
}

static int keep_folder(struct keeping *k, int dir, size_t len, unsigned depth);

static int
keep_file(struct keeping *k, int dir, const char *name, const struct stat *st)
{
	OWN(closep) int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	unsigned char digest[HASH_LEN];
	char hash[HASH_HEX + 1];
	uint64_t size;
	struct stat now;
	int r;

	if (fd < 0 || fstat(fd, &now) < 0 || !S_ISREG(now.st_mode))
		return failed(k, fd < 0 ? errno : EINVAL);
	k->bytes += (uint64_t)now.st_size;
	if ((uint64_t)now.st_size > PLAN_FILE_MAX || k->bytes > PLAN_TREE_MAX)
		return failed(k, EFBIG);
	if (k->data >= 0) {
		r = plan_keep_file(k->data, fd, hash, k->err);
	} else {
		r = hash_fd(fd, PLAN_FILE_MAX, digest, &size, k->err);
		hex_of(digest, hash);
	}
	return r < 0 ? r : add(k, S_IFREG | (st->st_mode & 0777), hash);
}

static int
keep_link(struct keeping *k, int dir, const char *name)
{
	char target[PLAN_PATH_MAX], hash[HASH_HEX + 1];
	ssize_t n = readlinkat(dir, name, target, sizeof(target));
	int r;

	if (n < 0 || (size_t)n == sizeof(target))
		return failed(k, n < 0 ? errno : ENAMETOOLONG);
	r = keep_bytes(k->data, target, (size_t)n, hash, k->err);
	return r < 0 ? r : add(k, S_IFLNK, hash);
}

static int
keep_entry(struct keeping *k, int dir, const char *name, size_t len, unsigned depth)
{
	size_t n = strlen(name), at = len + (len > 0);
	OWN(closep) int sub = -1;
	char hash[HASH_HEX + 1];
	struct stat st;
	int r = 0;

	if (at + n + 1 > sizeof(k->path) || depth > DEPTH_MAX)
		return failed(k, ENAMETOOLONG);
	if (len > 0)
		k->path[len] = '/';
	memcpy(k->path + at, name, n + 1);
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return failed(k, errno);
	if (S_ISREG(st.st_mode))
		return keep_file(k, dir, name, &st);
	if (S_ISLNK(st.st_mode))
		return keep_link(k, dir, name);
	if (!S_ISDIR(st.st_mode))
		return failed(k, EINVAL);
	sub = tree_open_dir(dir, name);
	if (sub < 0)
		return failed(k, -sub);
	if (k->folders) {
		r = keep_bytes(k->data, "", 0, hash, k->err);
		r = r == 0 ? add(k, S_IFDIR | (st.st_mode & 0777), hash) : r;
	}
	return r < 0 ? r : keep_folder(k, sub, at + n, depth + 1);
}

static int
keep_folder(struct keeping *k, int dir, size_t len, unsigned depth)
{
	OWN(closedirp) DIR *list = tree_list(dir);
	const struct dirent *d;
	int r = list == NULL ? failed(k, errno) : 0;

	while (r == 0 && (errno = 0, d = readdir(list)) != NULL) {
		if (!tree_is_dots(d->d_name))
			r = keep_entry(k, dir, d->d_name, len, depth);
		k->path[len] = '\0';
	}
	return r == 0 && errno != 0 ? failed(k, errno) : r;
}

static int
compare(const void *a, const void *b)
{
	return strcmp(((const struct kept *)a)->path, ((const struct kept *)b)->path);
}

int
plan_keep_tree(int root, bool folders, int data, char ret_hash[HASH_HEX + 1], struct err *err)
{
	OWN(keeping_free) struct keeping k = { .folders = folders, .data = data, .err = err };
	OWN(buf_free) struct buf listing = BUF(PLAN_LISTING_MAX);
	int r = keep_folder(&k, root, 0, 0);

	if (r < 0)
		return r;
	if (k.n > 0)
		qsort(k.at, k.n, sizeof(*k.at), compare);
	for (size_t i = 0; i < k.n; i++) {
		char mode[MODE_DIGITS + 2];

		snprintf(mode, sizeof(mode), "%06o ", (unsigned)k.at[i].mode & 0777777);
		buf_put_text(&listing, mode);
		buf_put_text(&listing, k.at[i].hash);
		buf_put_text(&listing, " ");
		buf_put(&listing, k.at[i].path, strlen(k.at[i].path) + 1);
	}
	return buf_failed(&listing) ? err_set(err, E2BIG, "the listing of a tree is over %zu MiB", PLAN_LISTING_MAX >> 20) :
	       keep_bytes(data, listing.len > 0 ? listing.data : (const void *)"", listing.len, ret_hash, err);
}

/* ---- checking ---- */

int
plan_check_tree(int data, const char *hash, struct err *err)
{
	OWN(freep) char *text = NULL;
	struct plan_listing l = {0};
	struct plan_entry e;
	size_t len;
	int r = read_checked(data, hash, PLAN_LISTING_MAX, &text, &len, err);

	if (r < 0)
		return r;
	l.at = text;
	l.end = text + len;
	while ((r = plan_next_entry(&l, &e, err)) == 1) {
		r = S_ISDIR(e.mode) ? 0 : plan_check_file(data, e.hash, err);
		if (r == -ENOENT)
			return err_set(err, EBADMSG, "'%.64s' is missing among the plan's files", e.hash);
		if (r < 0)
			return r;
	}
	return r;
}

/* ---- making a tree ---- */

/* The folder that has PATH, which is made; *ret_name is the last part. */
static int
open_parent(int to, const char *path, const char **ret_name, struct err *err)
{
	OWN(closep) int dir = fcntl(to, F_DUPFD_CLOEXEC, 3);
	const char *slash;

	for (const char *part = path; dir >= 0 && (slash = strchr(part, '/')) != NULL; part = slash + 1) {
		char name[PLAN_NAME_MAX + 1];
		int next;

		memcpy(name, part, (size_t)(slash - part));
		name[slash - part] = '\0';
		if (mkdirat(dir, name, 0755) < 0 && errno != EEXIST)
			return err_errno(err, "cannot make a folder");
		next = tree_open_dir(dir, name);
		if (next < 0)
			return err_set(err, EBADMSG, "a listing of the plan has a path through something that is no folder");
		close(dir);
		dir = next;
	}
	*ret_name = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
	return dir < 0 ? err_errno(err, "cannot open a folder") : TAKE_FD(dir);
}

static int
make_file(int data, const struct plan_entry *e, int dir, const char *name, struct err *err)
{
	OWN(closep) int in = plan_open_file(data, e->hash, err), out = -1;
	unsigned char digest[HASH_LEN];
	char hex[HASH_HEX + 1];
	uint64_t size;
	int r;

	if (in < 0)
		return in;
	out = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return err_errno(err, "cannot make a file of the plan");
	r = hash_copy(in, out, PLAN_FILE_MAX, digest, &size, err);
	if (r < 0)
		return r;
	hex_of(digest, hex);
	if (strcmp(hex, e->hash) != 0)
		return changed(e->hash, err);
	return fchmod(out, e->mode & 0777) < 0 ? err_errno(err, "cannot make a file of the plan") : 0;
}

static int
make_link(int data, const struct plan_entry *e, int dir, const char *name, struct err *err)
{
	OWN(freep) char *target = NULL;
	size_t len;
	int r = read_checked(data, e->hash, PLAN_PATH_MAX - 1, &target, &len, err);

	if (r < 0)
		return r;
	if (len == 0 || strlen(target) != len)
		return err_set(err, EBADMSG, "'%.64s' of the plan's files is not the target of a link", e->hash);
	return symlinkat(target, dir, name) < 0 ? err_errno(err, "cannot make a link of the plan") : 0;
}

/* Links come after all files, so that no path leads through one; modes of folders come last. */
enum pass { PASS_FILES, PASS_LINKS, PASS_MODES, PASSES };

static int
make_entry(int data, const struct plan_entry *e, int to, enum pass pass, struct err *err)
{
	const char *name = NULL;
	OWN(closep) int dir = -1, own = -1;

	if ((pass == PASS_LINKS) != S_ISLNK(e->mode) || (pass == PASS_MODES && !S_ISDIR(e->mode)))
		return 0;
	dir = open_parent(to, e->path, &name, err);
	if (dir < 0)
		return dir;
	if (pass == PASS_LINKS)
		return make_link(data, e, dir, name, err);
	if (pass == PASS_FILES && S_ISREG(e->mode))
		return make_file(data, e, dir, name, err);
	if (pass == PASS_FILES)
		return mkdirat(dir, name, 0700) < 0 && errno != EEXIST ? err_errno(err, "cannot make a folder of the plan") : 0;
	own = tree_open_dir(dir, name);
	return own < 0 || fchmod(own, (e->mode & 0777) | 0700) < 0 ? err_set(err, EBADMSG, "a listing of the plan has a folder that "
	                                                                    "is something else, too") : 0;
}

int
plan_make_tree(int data, const char *hash, int to, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	int r = read_checked(data, hash, PLAN_LISTING_MAX, &text, &len, err);

	for (enum pass pass = 0; r == 0 && pass < PASSES; pass++) {
		struct plan_listing l = { .at = text, .end = text + len };
		struct plan_entry e;

		while (r == 0 && (r = plan_next_entry(&l, &e, err)) == 1)
			r = make_entry(data, &e, to, pass, err);
	}
	return r;
}
