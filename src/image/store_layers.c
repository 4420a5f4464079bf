/* store_layers.c - layers: unpacked trees that are whole or absent; and which images cells use. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "base/tree.h"
#include "image/store_parts.h"

bool
store_has_layer(const struct store *s, const char *diff_id)
{
	struct stat st;

	return fstatat(s->layers, store_hex(diff_id), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

char *
store_layer_path(const struct store *s, const char *diff_id)
{
	return str_format("%s/layers/%s/%s", s->path, store_hex(diff_id), STORE_LAYER_FS);
}

/* Remove layers/NAME.  Only names of things that are not whole come here. */
static void
remove_layer(const struct store *s, const char *name)
{
	OWN(closep) int dir = tree_open_dir_anyway(s->layers, name);

	if (dir >= 0)
		(void)tree_empty(dir, NULL);
	(void)unlinkat(s->layers, name, AT_REMOVEDIR);
}

int
store_layer_begin(struct store *s, struct store_layer *ret_layer, struct err *err)
{
	struct store_layer layer = { .fs = -1 };
	OWN(closep) int dir = -1;
	int r = store_new_name(layer.name, err);

	if (r < 0)
		return r;
	if (mkdirat(s->layers, layer.name, 0700) < 0)
		return err_errno(err, "cannot make a folder in '%s/layers'", s->path);
	dir = tree_open_dir(s->layers, layer.name);
	if (dir >= 0 && mkdirat(dir, STORE_LAYER_FS, 0755) == 0)
		layer.fs = tree_open_dir(dir, STORE_LAYER_FS);
	if (layer.fs < 0) {
		r = err_errno(err, "cannot make a folder in '%s/layers'", s->path);
		remove_layer(s, layer.name);
		return r;
	}
	*ret_layer = layer;
	return 0;
}

void
store_layer_abort(struct store *s, struct store_layer *layer)
{
	closep(&layer->fs);
	layer->fs = -1;
	remove_layer(s, layer->name);
}

int
store_layer_finish(struct store *s, struct store_layer *layer, const char *diff_id, struct err *err)
{
	int r = 0;

	if (syncfs(layer->fs) < 0)
		r = err_errno(err, "cannot write the layer %s to the disk", diff_id);
	else if (renameat2(s->layers, layer->name, s->layers, store_hex(diff_id), RENAME_NOREPLACE) == 0)
		(void)fsync(s->layers);
	else if (errno != EEXIST)
		r = err_errno(err, "cannot keep the layer %s", diff_id);
	else
		remove_layer(s, layer->name);
	if (r < 0)
		store_layer_abort(s, layer);
	closep(&layer->fs);
	layer->fs = -1;
	return r;
}

/* ---- uses ---- */

int
store_use(struct store *s, const char *digest, int *ret_fd, struct err *err)
{
	OWN(closep) int adding = store_adding(s, err), fd = -1;

	/* A sweep removes the file only while nobody adds. */
	if (adding < 0)
		return adding;
	fd = openat(s->uses, store_hex(digest), O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || flock(fd, LOCK_SH) < 0)
		return err_errno(err, "cannot lock '%s/uses/%s'", s->path, store_hex(digest));
	*ret_fd = TAKE_FD(fd);
	return 0;
}

bool
store_is_used(const struct store *s, const char *digest)
{
	OWN(closep) int fd = openat(s->uses, store_hex(digest), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}
