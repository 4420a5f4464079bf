/* workspace_look.c - applying, first pass: finds files whose newer contents would be lost. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "workspace/workspace_parts.h"

static bool
is_newer(const struct apply *a, const struct stat *st)
{
	int64_t ns = (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;

	return !a->how->force && ns > a->how->since_ns;
}

static void
add_conflict(struct apply *a, const char *path)
{
	if (a->conflicts < WORKSPACE_CONFLICTS_TOLD)
		wtree_show(a->conflict[a->conflicts], path);
	a->conflicts++;
}

/* A folder to be removed.  Its own ctime means nothing: it changes with the names in it, also in an
 * interrupted removal. */
static int
look_into_removed(struct apply *a, int real, const char *name, struct wtree_path *path,
                  int depth, struct err *err)
{
	OWN(wtree_names_free) struct wtree_names names = {0};
	OWN(closep) int dir = tree_open_dir(real, name);
	char shown[WTREE_SHOWN_MAX];
	size_t len = path->len;
	struct stat st;
	int r = 0;

	if (dir == -EXDEV)
		return err_set(err, EXDEV, "'%s' is a mount point: it cannot be removed",
		               wtree_show(shown, path->text));
	if (dir == -EACCES && wtree_stat(real, name, &st) == 0 && is_newer(a, &st))
		add_conflict(a, path->text);
	if (dir < 0)
		return 0;
	if (depth >= WORKSPACE_DEPTH_MAX)
		return err_set(err, ENAMETOOLONG, "'%s' is more than %d folders deep",
		               wtree_show(shown, path->text), WORKSPACE_DEPTH_MAX);
	r = wtree_names_load(dir, &names, err);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		r = wtree_path_push(path, names.name[i], err);
		if (r == 0 && wtree_stat(dir, names.name[i], &st) == 0) {
			if (S_ISDIR(st.st_mode))
				r = look_into_removed(a, dir, names.name[i], path, depth + 1, err);
			else if (st.st_mode != 0 && is_newer(a, &st))
				add_conflict(a, path->text);
		}
		wtree_path_pop(path, len);
	}
	return r;
}

/* Whether the folder did not exist when the cell started, even if it is still empty. */
static bool
is_born_later(const struct apply *a, const struct walk_node *node)
{
	struct statx sx;

	return !a->how->force &&
	       statx(node->real, node->name, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &sx) == 0 &&
	       (sx.stx_mask & STATX_BTIME) != 0 &&
	       sx.stx_btime.tv_sec * 1000000000 + sx.stx_btime.tv_nsec > a->how->since_ns;
}

static int
look_visit(void *arg, const struct walk_node *node, struct err *err)
{
	OWN(wtree_path_free) struct wtree_path path = {0};
	struct apply *a = arg;
	mode_t old = node->old.st_mode;
	int r = 0;

	if (!node->differs)
		return 0;
	if (a->how->dry_run && node->chosen)
		apply_tell(a, node);
	if (node->chosen && !node->change.held && S_ISREG(node->new.st_mode) &&
	    node->new.st_nlink > 1)
		a->linked += (uint64_t)node->new.st_blocks * 512;
	if (node->chosen && !node->change.held && node->change.in_git && a->how->told_git != NULL)
		r = walk_list_add(&a->git, &node->change, err);
	if (r < 0 || node->change.held || old == 0)
		return r;
	/* If a folder's mode differs from the one that the cell saw, the operator may have set it.
	 * After an interruption, the ctime is from our own run. */
	if (S_ISDIR(old) && node->change.mode_only && !a->again && is_newer(a, &node->old))
		add_conflict(a, node->path);
	if (node->change.mode_only)
		return 0;
	if (!S_ISDIR(old)) {
		if (is_newer(a, &node->old))
			add_conflict(a, node->path);
		return 0;
	}
	r = wtree_path_push(&path, node->path, err);
	if (r == 0 && is_born_later(a, node))
		add_conflict(a, node->path);
	return r < 0 ? r : look_into_removed(a, node->real, node->name, &path, 0, err);
}

static int
look_enter(void *arg, const struct walk_node *node, int dir_changes, int dir_real,
           bool opaque, struct err *err)
{
	OWN(wtree_names_free) struct wtree_names names = {0};
	struct apply *a = arg;
	int r;

	(void)opaque;
	if (dir_real >= 0 || dir_changes < 0 || !S_ISDIR(node->old.st_mode) ||
	    !is_newer(a, &node->old))
		return 0;
	/* Without access, its contents cannot be compared with the changes. */
	r = wtree_names_load(dir_changes, &names, err);
	if (r == 0 && names.n > 0)
		add_conflict(a, node->path);
	return r;
}

const struct walk_hooks apply_look = { .visit = look_visit, .enter = look_enter };
