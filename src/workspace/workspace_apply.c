/* workspace_apply.c - applies changes to the workspace in three passes: look, write, clear. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "workspace/workspace_parts.h"

/* ---- named paths -------------------------------------------------------------- */

struct choices {
	struct walk_choice *list;
	size_t n;
};

static void
choices_free(struct choices *c)
{
	for (size_t i = 0; i < c->n; i++)
		free(c->list[i].path);
	free(c->list);
}

/* "./a//b/" becomes "a/b", in place. */
static int
tidy_path(char *path, struct err *err)
{
	char shown[WTREE_SHOWN_MAX], *out = path, *in = path;
	size_t len;

	if (*in == '/')
		return err_set(err, EINVAL, "'%s' must be relative to the workspace",
		               wtree_show(shown, path));
	for (; *in != '\0'; in += len + (in[len] == '/')) {
		len = strcspn(in, "/");
		if (len == 0 || (len == 1 && in[0] == '.'))
			continue;
		if (len == 2 && in[0] == '.' && in[1] == '.')
			return err_set(err, EINVAL, "a path to apply must have no '..' in it");
		if (out > path)
			*out++ = '/';
		memmove(out, in, len);
		out += len;
		if (in[len] == '\0')
			break;
	}
	*out = '\0';
	return 0;
}

static int
choices_make(char *const *paths, struct choices *ret, struct err *err)
{
	size_t n = 0;
	int r = 0;

	while (paths != NULL && paths[n] != NULL)
		n++;
	if (n == 0)
		return 0;
	ret->list = calloc(n, sizeof(*ret->list));
	if (ret->list == NULL)
		return err_errno(err, "cannot apply");
	for (; r == 0 && ret->n < n; ret->n++) {
		ret->list[ret->n].path = strdup(paths[ret->n]);
		if (ret->list[ret->n].path == NULL)
			return err_errno(err, "cannot apply");
		r = tidy_path(ret->list[ret->n].path, err);
	}
	return r;
}

static int
choices_check(const struct choices *c, struct err *err)
{
	char shown[WTREE_SHOWN_MAX];

	for (size_t i = 0; i < c->n; i++)
		if (!c->list[i].seen)
			return err_set(err, ENOENT, "the workspace has no changes at '%s'",
			               wtree_show(shown, c->list[i].path));
	return 0;
}

/* ---- shared by the three passes ----------------------------------------------- */

static int
by_path(const void *a, const void *b)
{
	const struct workspace_change *x = a, *y = b;

	return strcmp(x->path, y->path);
}

const struct workspace_change *
apply_find_judged(const struct apply *a, const char *path)
{
	const struct workspace_change key = { .path = path }, *last;

	if (a->judged.n == 0)
		return NULL;
	if (a->sorted)
		return bsearch(&key, a->judged.change, a->judged.n, sizeof(key), by_path);
	last = &a->judged.change[a->judged.n - 1];
	return strcmp(last->path, path) == 0 ? last : NULL;
}

int
apply_judge(void *arg, const struct walk_node *node, struct err *err)
{
	const struct workspace_change *found = apply_find_judged(arg, node->path);

	(void)err;
	return found == NULL ? WORKSPACE_LEFT_NOT : (int)found->left;
}

int
apply_stopped(const struct apply *a, struct err *err)
{
	if (a->how->stop != NULL && *a->how->stop)
		return err_set(err, EINTR, "interrupted: apply again to complete it");
	return 0;
}

void
apply_tell(struct apply *a, const struct walk_node *node)
{
	const struct workspace_change *found = apply_find_judged(a, node->path);
	struct workspace_change told = node->change;

	if (told.left == WORKSPACE_LEFT_UNCHOSEN)
		return;
	if (told.held)
		a->held++;
	else
		a->applied++;
	told.merged = found != NULL && found->merged;
	told.part = found != NULL && found->part;
	told.marked = found != NULL && found->marked;
	if (a->how->told != NULL)
		a->how->told(a->how->arg, &told, !told.held);
}

void
apply_drop_temporary(int real, const char *tmp)
{
	if (unlinkat(real, tmp, 0) < 0 && errno == EISDIR)
		(void)unlinkat(real, tmp, AT_REMOVEDIR);
}

int
apply_sweep(const struct apply *a, int real, struct err *err)
{
	struct stat only = { .st_ino = a->removing }, st;

	apply_drop_temporary(real, a->tmp);
	if (wtree_stat(real, a->tmp, &st) < 0 || st.st_mode == 0)
		return 0;
	only.st_dev = st.st_dev;        /* device numbers may change with a reboot */
	return wtree_remove(real, a->tmp, &only, err);
}

/* An attribute of the changes while they are being applied.  A run that finds it continues an
 * interrupted one.  Its value names the folder that was being removed. */
#define APPLYING "user.cloister.applying"

int
apply_note_removal(const struct apply *a, const struct walk_node *node, struct err *err)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)node->old.st_ino);

	return fsetxattr(a->changes, APPLYING, text, (size_t)n, 0) < 0 ? apply_fail(node, err) : 0;
}

static void
find_interrupted(struct apply *a)
{
	char text[32] = "";

	a->again = fgetxattr(a->changes, APPLYING, text, sizeof(text) - 1) >= 0;
	a->removing = (ino_t)strtoull(text, NULL, 10);
}

int
apply_fail(const struct walk_node *node, struct err *err)
{
	char shown[WTREE_SHOWN_MAX];

	return err_errno(err, "cannot apply '%s'", wtree_show(shown, node->path));
}

bool
apply_settles(const struct walk_node *node)
{
	return node->chosen && !node->change.held;
}

static bool
is_locked(const struct walk_node *node)
{
	return S_ISDIR(node->old.st_mode) && (node->old.st_mode & 0700) != 0700 &&
	       geteuid() != 0 && node->old.st_uid == geteuid();
}

int
apply_unlock(const struct walk_node *node, struct err *err)
{
	if (is_locked(node) && fchmodat(node->real, node->name,
	                                (node->old.st_mode & 07777) | 0700, AT_SYMLINK_NOFOLLOW) < 0)
		return apply_fail(node, err);
	return 0;
}

int
apply_lock(const struct walk_node *node, int dir_real, struct err *err)
{
	if (dir_real >= 0 && is_locked(node) && fchmod(dir_real, node->old.st_mode & 07777) < 0)
		return apply_fail(node, err);
	return 0;
}

int
apply_set_dir_mode(const struct walk_node *node, int dir_real, mode_t mode, struct err *err)
{
	struct stat st;

	if (fstat(dir_real, &st) < 0)
		return apply_fail(node, err);
	mode |= st.st_mode & 06000;
	if ((st.st_mode & 07777) != mode && fchmod(dir_real, mode) < 0)
		return apply_fail(node, err);
	return 0;
}

/* ---- all passes ------------------------------------------------------------------- */

static int
name_temporary(const char *cell, char tmp[NAME_MAX + 1], struct err *err)
{
	int n = snprintf(tmp, NAME_MAX + 1, ".cloister-%s.tmp", cell);

	if (n < 0 || n > NAME_MAX || strchr(tmp, '/') != NULL)
		return err_set(err, EINVAL, "'%s' is not a cell", cell);
	return 0;
}

static int
check_linked(const struct apply *a, struct err *err)
{
	char all[NUM_TEXT_MAX], most[NUM_TEXT_MAX];

	if (a->how->linked_max == 0 || a->how->force || a->linked <= a->how->linked_max)
		return 0;
	num_format_size(all, a->linked);
	num_format_size(most, a->how->linked_max);
	return err_set(err, EFBIG, "hard links would become separate files of %s in all, more than the "
	               "cell's whole disk (%s): name the paths to apply, or use --force", all, most);
}

/* Must be called before the refs change. */
static int
tell_git(const struct workspace *ws, const struct apply *a, struct err *err)
{
	struct workspace_git *sums = NULL;
	size_t n = 0;
	int r = a->git.n == 0 ? 0 : workspace_git_sum(ws, a->git.change, a->git.n, &sums, &n, err);

	for (size_t i = 0; i < n; i++)
		a->how->told_git(a->how->arg, &sums[i]);
	workspace_git_free(sums, n);
	return r;
}

static int
run_pass(const struct workspace *ws, const struct walk_hooks *hooks, struct apply *a,
         const struct choices *choices, struct err *err)
{
	struct walk walk = { .ws = ws, .hooks = hooks, .arg = a, .choices = choices->list,
	                     .n_choices = choices->n, .strict = true };

	return walk_run(&walk, err);
}

static int
apply_locked(const struct workspace *ws, struct apply *a, const struct choices *choices,
             struct err *err)
{
	int r;

	find_interrupted(a);
	r = run_pass(ws, &apply_look, a, choices, err);
	if (r == 0)
		r = choices_check(choices, err);
	if (a->judged.n > 0)
		qsort(a->judged.change, a->judged.n, sizeof(*a->judged.change), by_path);
	a->sorted = true;
	if (r == 0)
		r = check_linked(a, err);
	if (r == 0)
		r = tell_git(ws, a, err);
	if (r < 0 || a->how->dry_run)
		return r;
	if (!a->again && fsetxattr(ws->changes, APPLYING, "", 0, 0) < 0)
		return err_errno(err, "cannot mark the changes as being applied");
	r = apply_sweep(a, ws->real, err);
	if (r == 0)
		r = run_pass(ws, &apply_write, a, choices, err);
	if (r < 0)
		return r;
	/* Sync first: only changes that are on the disk may be removed here. */
	if (syncfs(ws->real) < 0)
		return err_errno(err, "cannot write the workspace to its disk");
	r = run_pass(ws, &apply_clear, a, choices, err);
	if (r == 0)
		(void)fremovexattr(ws->changes, APPLYING);
	return r;
}

int
workspace_apply_changes(const struct workspace *ws, const struct workspace_apply *how,
                        size_t *ret_applied, size_t *ret_held, struct err *err)
{
	OWN(choices_free) struct choices choices = {0};
	struct apply a = { .how = how, .ws = ws, .changes = ws->changes };
	int r = name_temporary(how->cell, a.tmp, err);

	if (r == 0)
		r = choices_make(how->paths, &choices, err);
	if (r < 0)
		return r;
	if (flock(ws->changes, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ?
		       err_set(err, EBUSY, "these changes are being applied already") :
		       err_errno(err, "cannot lock the changes");
	r = apply_locked(ws, &a, &choices, err);
	flock(ws->changes, LOCK_UN);
	workspace_changes_free(a.git.change);
	workspace_changes_free(a.judged.change);
	if (r == 0) {
		*ret_applied = a.applied;
		*ret_held = a.held;
	}
	return r;
}

static int
sweep_enter(void *arg, const struct walk_node *node, int dir_changes, int dir_real,
            bool opaque, struct err *err)
{
	(void)node, (void)dir_changes, (void)opaque;
	return dir_real < 0 ? 0 : apply_sweep(arg, dir_real, err);
}

int
workspace_apply_undo_temporary(const struct workspace *ws, const char *cell,
                               struct err *err)
{
	static const struct walk_hooks hooks = { .enter = sweep_enter };
	struct apply a = { .ws = ws, .changes = ws->changes };
	struct walk walk = { .ws = ws, .hooks = &hooks, .arg = &a };
	int r = name_temporary(cell, a.tmp, err);

	find_interrupted(&a);
	if (r == 0)
		r = apply_sweep(&a, ws->real, err);
	return r < 0 ? r : walk_run(&walk, err);
}
