/* workspace_clear.c - applying, third pass: removes applied changes.
 *
 * It compares again, so an entry is removed only if its counterpart exists; only of merged files the
 * passes before know. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "workspace/workspace_parts.h"

static int
fail(const struct walk_node *node, struct err *err)
{
	char shown[WTREE_SHOWN_MAX];

	return err_errno(err, "'%s' is applied, but stays among the changes",
	                 wtree_show(shown, node->path));
}

/* A merged file differs from the cell's.  Some file systems have no modes; everything that could be
 * applied was. */
static bool
is_done(const struct apply *a, const struct walk_node *node)
{
	const struct workspace_change *judged = apply_find_judged(a, node->path);

	if (!node->differs || !apply_settles(node))
		return !node->differs;
	return node->change.mode_only || (judged != NULL && judged->merged && !judged->part);
}

static int
mark_opaque(int dir_changes, const char *name)
{
	OWN(closep) int dir = tree_open_dir(dir_changes, name);

	if (dir < 0) {
		errno = -dir;
		dir = -1;
		return -1;
	}
	return fsetxattr(dir, WTREE_OPAQUE, "y", 1, 0);
}

/* An opaque folder means that everything not in it is removed.  Before anything is taken out of it,
 * whiteouts must express the same by name.  The order of steps keeps the meaning at every moment. */
static int
spell_out(const struct walk_node *node, int dir_changes, int dir_real, struct err *err)
{
	OWN(wtree_names_free) struct wtree_names names = {0};
	struct stat new, old;
	int r = wtree_names_load(dir_real, &names, err);

	for (size_t i = 0; r == 0 && i < names.n; i++) {
		const char *name = names.name[i];

		if (wtree_stat(dir_changes, name, &new) < 0 || wtree_stat(dir_real, name, &old) < 0)
			return fail(node, err);
		if (new.st_mode == 0 && mknodat(dir_changes, name, S_IFCHR | 0600, makedev(0, 0)) < 0)
			return fail(node, err);
		if (S_ISDIR(new.st_mode) && S_ISDIR(old.st_mode) && mark_opaque(dir_changes, name) < 0)
			return fail(node, err);
	}
	if (r == 0 && fremovexattr(dir_changes, WTREE_OPAQUE) < 0 && errno != ENODATA)
		return fail(node, err);
	return r;
}

static int
clear_visit(void *arg, const struct walk_node *node, struct err *err)
{
	int r = apply_stopped(arg, err);

	if (r < 0)
		return r;
	if (S_ISDIR(node->new.st_mode))
		return apply_unlock(node, err);
	if (node->changes >= 0 && is_done(arg, node) &&
	    unlinkat(node->changes, node->name, 0) < 0 && errno != ENOENT)
		return fail(node, err);
	return 0;
}

static int
clear_enter(void *arg, const struct walk_node *node, int dir_changes, int dir_real,
            bool opaque, struct err *err)
{
	(void)arg;
	if (!opaque || dir_changes < 0 || dir_real < 0)
		return 0;
	return spell_out(node, dir_changes, dir_real, err);
}

static int
clear_leave(void *arg, const struct walk_node *node, int dir_changes, int dir_real,
            struct err *err)
{
	int r;

	if (dir_changes < 0 || dir_real < 0)
		return 0;
	r = apply_settles(node) ? apply_set_dir_mode(node, dir_real, node->mode, err) :
	    apply_lock(node, dir_real, err);
	if (r == 0 && is_done(arg, node) && unlinkat(node->changes, node->name, AT_REMOVEDIR) < 0 &&
	    errno != ENOTEMPTY && errno != EEXIST)
		r = fail(node, err);
	return r;
}

const struct walk_hooks apply_clear = {
	.judge = apply_judge, .visit = clear_visit, .enter = clear_enter, .leave = clear_leave
};
