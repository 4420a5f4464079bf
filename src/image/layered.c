/* layered.c - see layered.h. */
#include "image/layered.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/tree.h"

void
layered_close(struct layered_file *f)
{
	for (size_t i = 0; i < f->n_dirs; i++)
		close(f->dirs[i]);
	free(f->dirs);
	free(f->name);
	closep(&f->parent);
	*f = LAYERED_FILE;
}

static bool
is_whiteout(const struct layered *t, const struct stat *st)
{
	return !t->plain && S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static bool
is_opaque(const struct layered *t, int dir)
{
	char value;

	return !t->plain && fgetxattr(dir, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
}

static int
open_beneath(int dir, const char *name, int flags)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_NOFOLLOW | O_CLOEXEC),
	                        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV };

	return (int)syscall(SYS_openat2, dir, name, &how, sizeof(how));
}

/* Takes DIR. */
static int
add_dir(struct layered_file *f, int dir)
{
	int *more = reallocarray(f->dirs, f->n_dirs + 1, sizeof(*more));

	if (more == NULL) {
		close(dir);
		return -ENOMEM;
	}
	f->dirs = more;
	more[f->n_dirs++] = dir;
	return 0;
}

/* What the layer whose folder is DIR says about NAME: 1: look further down; 0: that is all. */
static int
look_in(const struct layered *t, int dir, const char *name, struct layered_file *f)
{
	struct stat st;
	int inner, r;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 1 : -errno;
	if (is_whiteout(t, &st))
		return 0;
	if (!S_ISDIR(st.st_mode)) {
		if (f->n_dirs > 0)
			return 0;
		f->st = st;
		f->parent = fcntl(dir, F_DUPFD_CLOEXEC, 0);
		f->name = strdup(name);
		return f->parent < 0 || f->name == NULL ? -ENOMEM : 0;
	}
	inner = open_beneath(dir, name, O_RDONLY | O_DIRECTORY);
	if (inner < 0)
		return -errno;
	if (f->n_dirs == 0)
		f->st = st;
	r = add_dir(f, inner);
	return r < 0 ? r : !is_opaque(t, inner);
}

int
layered_child(const struct layered *t, const struct layered_file *dir, const char *name,
              struct layered_file *ret_file)
{
	OWN(layered_close) struct layered_file f = LAYERED_FILE;
	int r = 1;

	for (size_t i = 0; r == 1 && i < dir->n_dirs; i++)
		r = look_in(t, dir->dirs[i], name, &f);
	if (r < 0)
		return r;
	if (f.n_dirs == 0 && f.parent < 0)
		return -ENOENT;
	*ret_file = f;
	f = LAYERED_FILE;
	return 0;
}

int
layered_top(const struct layered *t, struct layered_file *ret_file, struct err *err)
{
	OWN(layered_close) struct layered_file f = LAYERED_FILE;

	f.st = (struct stat){ .st_mode = S_IFDIR | 0755 };
	for (size_t i = t->n; i-- > 0;) {
		int dir = openat(t->folders[i], ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (dir < 0 || (f.n_dirs == 0 && fstat(dir, &f.st) < 0))
			return err_errno(err, "cannot open a layer");
		if (add_dir(&f, dir) < 0)
			return err_set(err, ENOMEM, "out of memory");
	}
	*ret_file = f;
	f = LAYERED_FILE;
	return 0;
}

/* ---- paths ---- */

struct walk {
	const struct layered *t;
	struct layered_file at;
	bool missing;                   /* there is nothing at PATH any more */
	char *rest;                     /* still to be resolved */
	char path[PATH_MAX];
	unsigned links;
};

static void
walk_free(struct walk *w)
{
	layered_close(&w->at);
	free(w->rest);
}

static int
append_name(char path[PATH_MAX], const char *name, size_t len)
{
	const size_t have = strlen(path);

	if (have + len + 2 > PATH_MAX)
		return -ENAMETOOLONG;
	snprintf(path + have, PATH_MAX - have, "%s%.*s", have > 0 ? "/" : "", (int)len, name);
	return 0;
}

/* Begins at the top again with PREFIX, which has no links, and REST. */
static int
restart(struct walk *w, const char *prefix, const char *target, const char *rest)
{
	char *all = str_format("%s/%s/%s", prefix, target, rest);

	if (all == NULL)
		return -ENOMEM;
	free(w->rest);
	w->rest = all;
	layered_close(&w->at);
	w->path[0] = '\0';
	w->missing = false;
	return layered_top(w->t, &w->at, NULL);
}

/* PATH without its last part, and REST behind it. */
static int
go_up(struct walk *w, const char *rest)
{
	char up[PATH_MAX], *slash;

	memcpy(up, w->path, sizeof(up));
	slash = strrchr(up, '/');
	*(slash != NULL ? slash : up) = '\0';
	return restart(w, up, "", rest);
}

static int
follow_link(struct walk *w, const struct layered_file *link, const char *rest)
{
	OWN(freep) char *target = layered_link(link);
	char prefix[PATH_MAX];

	if (target == NULL)
		return -errno;
	if (++w->links > LAYERED_LINKS_MAX)
		return -ELOOP;
	memcpy(prefix, target[0] == '/' ? "" : w->path, target[0] == '/' ? 1 : sizeof(prefix));
	return restart(w, prefix, target, rest);
}

static int
step_into(struct walk *w, const char *name, size_t len, const char *rest, bool follow)
{
	OWN(layered_close) struct layered_file next = LAYERED_FILE;
	OWN(freep) char *copy = strndup(name, len), *behind = strdup(rest);
	int r = copy == NULL || behind == NULL ? -ENOMEM : 0;

	if (r == 0 && !w->missing && w->at.n_dirs == 0 && w->t->n > 0)
		return -ENOTDIR;
	if (r == 0 && !w->missing)
		r = layered_child(w->t, &w->at, copy, &next);
	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0 && !w->missing && S_ISLNK(next.st.st_mode) && (follow || behind[strspn(behind, "/")] != '\0'))
		return follow_link(w, &next, behind);
	w->missing = w->missing || r == -ENOENT;
	layered_close(&w->at);
	w->at = next;
	next = LAYERED_FILE;
	r = append_name(w->path, copy, len);
	memmove(w->rest, behind, strlen(behind) + 1);
	return r;
}

static int
step(struct walk *w, bool follow)
{
	const char *name = w->rest + strspn(w->rest, "/");
	const size_t len = strcspn(name, "/");

	if (len == 1 && name[0] == '.') {
		memmove(w->rest, name + 1, strlen(name + 1) + 1);
		return 0;
	}
	if (len == 2 && name[0] == '.' && name[1] == '.') {
		OWN(freep) char *rest = strdup(name + 2);

		return rest == NULL ? -ENOMEM : go_up(w, rest);
	}
	return step_into(w, name, len, name + len, follow);
}

int
layered_find(const struct layered *t, const char *path, bool follow, char ret_path[PATH_MAX],
             struct layered_file *ret_file)
{
	OWN(walk_free) struct walk w = { .t = t, .at = LAYERED_FILE };
	int r = restart(&w, "", "", path);

	while (r == 0 && w.rest[strspn(w.rest, "/")] != '\0')
		r = step(&w, follow);
	if (r < 0)
		return r;
	memcpy(ret_path, w.path, PATH_MAX);
	if (w.missing)
		return -ENOENT;
	if (ret_file != NULL) {
		*ret_file = w.at;
		w.at = LAYERED_FILE;
	}
	return 0;
}

/* ---- contents ---- */

static int
by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
list_one(int folder, char ***names, size_t *n, struct err *err)
{
	OWN(closedirp) DIR *dir = tree_list(folder);
	struct dirent *d;

	if (dir == NULL)
		return err_errno(err, "cannot list a folder");
	while ((d = readdir(dir)) != NULL) {
		char **more;

		if (tree_is_dots(d->d_name))
			continue;
		if (*n >= LAYERED_ENTRIES_MAX)
			return err_set(err, E2BIG, "a folder has over %d entries", LAYERED_ENTRIES_MAX);
		/* Powers of two. */
		more = (*n & (*n - 1)) != 0 ? *names : reallocarray(*names, *n == 0 ? 1 : 2 * *n, sizeof(*more));
		if (more == NULL)
			return err_set(err, ENOMEM, "out of memory");
		*names = more;
		more[*n] = strdup(d->d_name);
		if (more[*n] == NULL)
			return err_set(err, ENOMEM, "out of memory");
		(*n)++;
	}
	return 0;
}

void
layered_free_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

int
layered_list(const struct layered_file *dir, char ***ret_names, size_t *ret_n, struct err *err)
{
	char **names = NULL;
	size_t n = 0, kept = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < dir->n_dirs; i++)
		r = list_one(dir->dirs[i], &names, &n, err);
	if (r < 0) {
		layered_free_names(names, n);
		return r;
	}
	if (n > 0)
		qsort(names, n, sizeof(*names), by_bytes);
	for (size_t i = 0; i < n; i++) {
		if (kept > 0 && strcmp(names[kept - 1], names[i]) == 0)
			free(names[i]);
		else
			names[kept++] = names[i];
	}
	*ret_names = names;
	*ret_n = kept;
	return 0;
}

int
layered_read(const struct layered_file *f)
{
	int fd = open_beneath(f->parent, f->name, O_RDONLY | O_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

char *
layered_link(const struct layered_file *f)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(f->parent, f->name, target, sizeof(target) - 1);

	if (n < 0)
		return NULL;
	target[n] = '\0';
	return strdup(target);
}
