/* workspace_look.c - applying, first pass: finds files whose newer contents would be lost, and those
 * that can be merged. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "workspace/workspace_parts.h"

const char *
workspace_left_text(enum workspace_left left)
{
	static const char *const texts[] = {
		[WORKSPACE_LEFT_NOT] = "not left alone",
		[WORKSPACE_LEFT_CONFLICT] = "conflict: the same lines changed here",
		[WORKSPACE_LEFT_NO_BASE] = "it changed here while the cell ran, so it cannot be merged",
		[WORKSPACE_LEFT_KIND] = "it changed here too, and is not text that can be merged",
		[WORKSPACE_LEFT_REMOVED] = "one side removed it, the other changed it",
		[WORKSPACE_LEFT_MODE] = "the folder's mode changed here too",
		[WORKSPACE_LEFT_UNCHOSEN] = "not chosen",
		[WORKSPACE_LEFT_STALE] = "it changed after it was shown: apply again",
	};

	return texts[left];
}

static bool
is_newer(const struct apply *a, const struct stat *st)
{
	return !a->how->force && workspace_is_newer(a->ws, st);
}

/* ---- folders ---- */

/* Whether something in a folder to be removed changed: 1 or 0.  The folder's own ctime means nothing:
 * it changes with the names in it, also in an interrupted removal. */
static int
has_newer(struct apply *a, int real, const char *name, int depth, struct err *err)
{
	OWN(wtree_names_free) struct wtree_names names = {0};
	OWN(closep) int dir = tree_open_dir(real, name);
	char shown[WTREE_SHOWN_MAX];
	struct stat st;
	int r = 0;

	if (dir == -EXDEV)
		return err_set(err, EXDEV, "'%s' is a mount point: it cannot be removed", wtree_show(shown, name));
	if (dir == -EACCES && wtree_stat(real, name, &st) == 0 && is_newer(a, &st))
		return 1;
	if (dir < 0)
		return 0;
	if (depth >= WORKSPACE_DEPTH_MAX)
		return err_set(err, ENAMETOOLONG, "'%s' is more than %d folders deep", wtree_show(shown, name),
		               WORKSPACE_DEPTH_MAX);
	r = wtree_names_load(dir, &names, err);
	for (size_t i = 0; r == 0 && i < names.n; i++) {
		if (wtree_stat(dir, names.name[i], &st) < 0)
			continue;
		if (S_ISDIR(st.st_mode))
			r = has_newer(a, dir, names.name[i], depth + 1, err);
		else if (st.st_mode != 0 && is_newer(a, &st))
			r = 1;
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
	       sx.stx_btime.tv_sec * 1000000000 + sx.stx_btime.tv_nsec > a->ws->since_ns;
}

/* Without access, its contents cannot be compared with the changes. */
static int
judge_locked(const struct walk_node *node, struct err *err)
{
	OWN(wtree_names_free) struct wtree_names names = {0};
	OWN(closep) int dir = tree_open_dir(node->real, node->name);
	OWN(closep) int changes = dir < 0 ? tree_open_dir(node->changes, node->name) : -1;
	int r = changes < 0 ? 0 : wtree_names_load(changes, &names, err);

	return r < 0 ? r : names.n > 0 ? WORKSPACE_LEFT_NO_BASE : WORKSPACE_LEFT_NOT;
}

static int
judge_folder(struct apply *a, const struct walk_node *node, struct err *err)
{
	int r;

	if (!S_ISDIR(node->new.st_mode)) {
		if (is_born_later(a, node))
			return WORKSPACE_LEFT_REMOVED;
		r = has_newer(a, node->real, node->name, 0, err);
		return r == 1 ? WORKSPACE_LEFT_REMOVED : r;
	}
	if (!is_newer(a, &node->old))
		return WORKSPACE_LEFT_NOT;
	r = judge_locked(node, err);
	/* If a folder's mode differs from the one that the cell saw, the operator may have set it.
	 * After an interruption, the ctime is from our own run. */
	return r == 0 && node->differs && node->change.mode_only && !a->again ? WORKSPACE_LEFT_MODE : r;
}

/* ---- files ---- */

void
apply_merge_close(struct workspace_merge *files)
{
	closep(&files->base);
	closep(&files->ours);
	closep(&files->theirs);
	closep(&files->out);
}

int
apply_merge_open(const struct apply *a, const struct walk_node *node, struct workspace_merge *ret_files)
{
	OWN(apply_merge_close) struct workspace_merge files = {
		.path = node->path, .base = -1, .out = -1,
		.ours = wtree_open_file(node->real, node->name),
		.theirs = wtree_open_file(node->changes, node->name),
	};

	if (files.ours < 0 || files.theirs < 0)
		return files.ours < 0 ? files.ours : files.theirs;
	if (node->change.newer && !a->how->force) {
		files.base = a->ws->base > 0 ? wtree_open_file(a->ws->base, node->path) : -ENOENT;
		if (files.base < 0)
			return files.base;
	}
	*ret_files = files;
	files = (struct workspace_merge){ .base = -1, .ours = -1, .theirs = -1, .out = -1 };
	return 0;
}

/* Both sides changed it, or only a part of it is wanted. */
static int
judge_merge(struct apply *a, const struct walk_node *node, bool part, struct err *err)
{
	static const enum workspace_left left[] = {
		[WORKSPACE_MERGED] = WORKSPACE_LEFT_NOT,
		[WORKSPACE_MERGED_MARKED] = WORKSPACE_LEFT_NOT,
		[WORKSPACE_MERGE_CONFLICT] = WORKSPACE_LEFT_CONFLICT,
		[WORKSPACE_MERGE_KIND] = WORKSPACE_LEFT_KIND,
		[WORKSPACE_MERGE_STALE] = WORKSPACE_LEFT_STALE,
	};
	OWN(apply_merge_close) struct workspace_merge files = { .base = -1, .ours = -1, .theirs = -1, .out = -1 };
	struct workspace_change merged = node->change;
	int r;

	if (!S_ISREG(node->new.st_mode) || !S_ISREG(node->old.st_mode) || node->change.in_git)
		return node->new.st_mode == 0 ? WORKSPACE_LEFT_REMOVED : WORKSPACE_LEFT_KIND;
	if (a->how->merge == NULL || apply_merge_open(a, node, &files) < 0)
		return WORKSPACE_LEFT_NO_BASE;
	r = a->how->merge(a->how->arg, &files, err);
	if (r < 0)
		return r;
	if (left[r] != WORKSPACE_LEFT_NOT)
		return (int)left[r];
	merged.merged = files.base >= 0;
	merged.marked = r == WORKSPACE_MERGED_MARKED;
	merged.part = part;
	return walk_list_add(&a->judged, &merged, err);
}

static int
judge_file(struct apply *a, const struct walk_node *node, enum workspace_choice choice, struct err *err)
{
	const bool newer = node->change.newer && !a->how->force;

	if (newer && node->old.st_mode == 0)
		return WORKSPACE_LEFT_REMOVED;
	if (choice != WORKSPACE_TAKE_PART && !newer)
		return WORKSPACE_LEFT_NOT;
	return judge_merge(a, node, choice == WORKSPACE_TAKE_PART, err);
}

static int
judge(struct apply *a, const struct walk_node *node, struct err *err)
{
	enum workspace_choice choice = WORKSPACE_TAKE_ALL;

	if (node->change.held)
		return WORKSPACE_LEFT_NOT;
	if (node->differs && node->chosen && a->how->choose != NULL)
		choice = a->how->choose(a->how->arg, &node->change);
	if (choice == WORKSPACE_TAKE_NONE || choice == WORKSPACE_TAKE_STALE)
		return choice == WORKSPACE_TAKE_NONE ? WORKSPACE_LEFT_UNCHOSEN : WORKSPACE_LEFT_STALE;
	if (S_ISDIR(node->old.st_mode))
		return judge_folder(a, node, err);
	return node->differs ? judge_file(a, node, choice, err) : WORKSPACE_LEFT_NOT;
}

static int
look_judge(void *arg, const struct walk_node *node, struct err *err)
{
	struct workspace_change left = node->change;
	struct apply *a = arg;
	int r = judge(a, node, err), added = 0;

	if (r > 0) {
		left.left = (enum workspace_left)r;
		added = walk_list_add(&a->judged, &left, err);
	}
	return added < 0 ? added : r;
}

static int
look_visit(void *arg, const struct walk_node *node, struct err *err)
{
	struct apply *a = arg;

	if (!node->differs)
		return 0;
	if (a->how->dry_run && node->chosen)
		apply_tell(a, node);
	if (node->chosen && !node->change.held && S_ISREG(node->new.st_mode) &&
	    node->new.st_nlink > 1)
		a->linked += (uint64_t)node->new.st_blocks * 512;
	if (node->chosen && !node->change.held && node->change.in_git && a->how->told_git != NULL)
		return walk_list_add(&a->git, &node->change, err);
	return 0;
}

const struct walk_hooks apply_look = { .judge = look_judge, .visit = look_visit };
