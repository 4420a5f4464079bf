/* image_view.c - see image_view.h.  Files are a stranger's: no link is followed, and nothing but regular files is
 * opened. */
#include "proc/image/image_view.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"

#define OPAQUE_XATTR "user.overlay.opaque"
#define DEPTH_MAX 300

/* A name in one of the layers. */
struct found {
	char *name;
	size_t rank;                    /* 0: in the topmost layer */
	struct stat st;
};

struct names {
	struct found *list;
	size_t n, cap;
};

static void
names_free(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i].name);
	free(names->list);
}

void
view_free(struct view *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->list[i].path);
	free(v->list);
	for (size_t i = 0; i < v->n_layers; i++)
		closep(&v->tops[i]);
	*v = (struct view){0};
}

static int
open_beneath(int top, const char *path, uint64_t flags)
{
	struct open_how how = { .flags = flags | O_CLOEXEC | O_NOFOLLOW,
	                        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, top, path[0] == '\0' ? "." : path, &how, sizeof(how));

	return fd < 0 ? -errno : fd;
}

/* ---- one folder ---- */

static int
names_add(struct names *names, int dir, const char *name, size_t rank, struct err *err)
{
	struct found f = { .rank = rank };

	if (names->n == names->cap) {
		size_t cap = names->cap > 0 ? 2 * names->cap : 64;
		struct found *list = reallocarray(names->list, cap, sizeof(*list));

		if (list == NULL)
			return err_set(err, ENOMEM, "out of memory");
		names->list = list;
		names->cap = cap;
	}
	if (fstatat(dir, name, &f.st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "cannot look at '%s'", name);
	f.name = strdup(name);
	if (f.name == NULL)
		return err_set(err, ENOMEM, "out of memory");
	names->list[names->n++] = f;
	return 0;
}

static int
list_layer(struct view *v, size_t layer, const char *path, size_t rank, struct names *names, struct err *err)
{
	int fd = open_beneath(v->tops[layer], path, O_RDONLY | O_DIRECTORY);
	OWN(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *d;
	int r = 0;

	if (dir == NULL)
		return err_set(err, fd < 0 ? -fd : ENOMEM, "cannot list '%s': %s", path, strerror(fd < 0 ? -fd : ENOMEM));
	while (r == 0 && (d = readdir(dir)) != NULL)
		if (!tree_is_dots(d->d_name))
			r = names_add(names, fd, d->d_name, rank, err);
	return r;
}

static int
by_name(const void *a, const void *b)
{
	const struct found *one = a, *two = b;
	int order = strcmp(one->name, two->name);

	return order != 0 ? order : one->rank < two->rank ? -1 : one->rank > two->rank;
}

static bool
is_opaque(const struct view *v, size_t layer, const char *path)
{
	OWN(closep) int fd = open_beneath(v->tops[layer], path, O_RDONLY | O_DIRECTORY);
	char value[2];

	return fd >= 0 && fgetxattr(fd, OPAQUE_XATTR, value, sizeof(value)) == 1 && value[0] == 'y';
}

static int
add_entry(struct view *v, char *path, size_t layer, const struct stat *st, struct err *err)
{
	if (v->n == v->cap) {
		size_t cap = v->cap > 0 ? 2 * v->cap : 1024;
		struct view_entry *list = reallocarray(v->list, cap, sizeof(*list));

		if (list == NULL || v->n >= VIEW_ENTRIES_MAX) {
			free(path);
			return list == NULL ? err_set(err, ENOMEM, "out of memory") :
			       err_set(err, E2BIG, "the image has over %d files", VIEW_ENTRIES_MAX);
		}
		v->list = list;
		v->cap = cap;
	}
	v->list[v->n++] = (struct view_entry){ path, layer, *st };
	return 0;
}

/* ---- all of them ---- */

static int visit(struct view *v, const char *path, const size_t *layers, size_t n, int depth, struct err *err);

/* The entries GROUP of N layers, topmost first, that have one name in the folder PATH. */
static int
show_group(struct view *v, const char *path, const struct found *group, size_t n, const size_t *layers, int depth,
           struct err *err)
{
	size_t below[IMAGE_LAYERS_MAX], n_below = 0;
	char *full;
	int r;

	/* The whiteout of a layer. */
	if (S_ISCHR(group->st.st_mode))
		return 0;
	full = path[0] == '\0' ? strdup(group->name) : str_format("%s/%s", path, group->name);
	if (full == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = add_entry(v, full, layers[group->rank], &group->st, err);
	for (size_t i = 0; r == 0 && i < n && S_ISDIR(group[i].st.st_mode); i++) {
		below[n_below++] = layers[group[i].rank];
		if (is_opaque(v, layers[group[i].rank], full))
			break;
	}
	return r < 0 || n_below == 0 ? r : visit(v, full, below, n_below, depth + 1, err);
}

static int
visit(struct view *v, const char *path, const size_t *layers, size_t n, int depth, struct err *err)
{
	OWN(names_free) struct names names = {0};
	int r = depth > DEPTH_MAX ? err_set(err, ELOOP, "its folders are too deep") : 0;

	for (size_t i = 0; r == 0 && i < n; i++)
		r = list_layer(v, layers[i], path, i, &names, err);
	if (r == 0 && names.n > 0)
		qsort(names.list, names.n, sizeof(*names.list), by_name);
	for (size_t i = 0, end; r == 0 && i < names.n; i = end) {
		for (end = i + 1; end < names.n && strcmp(names.list[end].name, names.list[i].name) == 0; end++)
			continue;
		r = show_group(v, path, &names.list[i], end - i, layers, depth, err);
	}
	return r;
}

static int
by_path(const void *a, const void *b)
{
	return strcmp(((const struct view_entry *)a)->path, ((const struct view_entry *)b)->path);
}

int
view_open(struct store *s, const struct store_image *image, size_t n_layers, struct view *v, struct err *err)
{
	size_t layers[IMAGE_LAYERS_MAX], n = 0;
	int r;

	v->image = image;
	for (size_t i = 0; i < n_layers; i++) {
		OWN(freep) char *path = store_layer_path(s, image->config.diff_ids[i]);

		v->tops[i] = path == NULL ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		v->n_layers = i + 1;
		if (v->tops[i] < 0)
			return err_errno(err, "cannot open the layer %s", image->config.diff_ids[i]);
	}
	for (size_t i = n_layers; i-- > 0;) {
		layers[n++] = i;
		if (is_opaque(v, i, ""))
			break;
	}
	r = visit(v, "", layers, n, 0, err);
	if (r == 0 && v->n > 0)
		qsort(v->list, v->n, sizeof(*v->list), by_path);
	return r;
}

int
view_open_file(const struct view *v, const struct view_entry *entry)
{
	return open_beneath(v->tops[entry->layer], entry->path, O_RDONLY | O_NONBLOCK);
}

int
view_read_link(const struct view *v, const struct view_entry *entry, char *ret_target, size_t size)
{
	OWN(closep) int fd = open_beneath(v->tops[entry->layer], entry->path, O_PATH);
	ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", ret_target, size);

	return n < 0 ? -errno : (int)n;
}
