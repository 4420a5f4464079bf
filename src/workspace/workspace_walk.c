/* workspace_walk.c - see workspace_walk.h. */
#include "workspace/workspace_walk.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "workspace/workspace_held.h"
#include "workspace/workspace_named.h"
#include "workspace/workspace_worktree.h"

/* A folder of the changes and its counterpart in the workspace. */
struct place {
	int changes, real;              /* -1: there is none */
	bool opaque;                    /* names only in REAL are removed */
	bool blocked;                   /* a held change would have to be applied first, */
	enum workspace_left left;       /* and it is held for this reason */
	bool released;                  /* beneath a held path that was named */
	bool completes;                 /* these names turn existing parts into a git directory */
	const struct held_git *git;     /* git directories around this folder, or itself */
	struct held_git is_git;         /* memory for GIT */
	int depth;
};

enum choice { CHOICE_NO, CHOICE_ABOVE, CHOICE_IN, CHOICE_EXACT };

static enum choice
choose(const struct walk *walk, const char *path)
{
	enum choice best = walk->choices == NULL ? CHOICE_IN : CHOICE_NO, one;
	size_t len = strlen(path), clen;

	for (size_t i = 0; i < walk->n_choices; i++) {
		struct walk_choice *c = &walk->choices[i];

		clen = strlen(c->path);
		one = CHOICE_NO;
		if (strcmp(c->path, path) == 0) {
			c->seen = true;
			one = CHOICE_EXACT;
		} else if (clen == 0 || (clen < len && path[clen] == '/' &&
		                         strncmp(c->path, path, clen) == 0)) {
			one = CHOICE_IN;
		} else if (clen > len && c->path[len] == '/' && strncmp(c->path, path, len) == 0) {
			one = CHOICE_ABOVE;
		}
		if (one > best)
			best = one;
	}
	return best;
}

/* ---- differences ------------------------------------------------------------- */

static int
same_link(const struct walk_node *node)
{
	char a[PATH_MAX], b[PATH_MAX];
	ssize_t n = readlinkat(node->changes, node->name, a, sizeof(a)), m;

	if (n < 0)
		return -errno;
	m = readlinkat(node->real, node->name, b, sizeof(b));
	return n == m && memcmp(a, b, (size_t)n) == 0;
}

/* Also sets the new mode. */
static int
same_file(struct walk_node *node)
{
	OWN(closep) int a = wtree_open_file(node->changes, node->name);
	OWN(closep) int b = -1;

	if (a < 0)
		return a;
	node->mode = wtree_mode(a, &node->new);
	if (!S_ISREG(node->old.st_mode) || node->old.st_size != node->new.st_size)
		return 0;
	b = wtree_open_file(node->real, node->name);
	/* Its mode keeps its owner out, perhaps through us: compare times, which applying sets too. */
	if (b == -EACCES)
		return node->old.st_mtim.tv_sec == node->new.st_mtim.tv_sec &&
		       node->old.st_mtim.tv_nsec == node->new.st_mtim.tv_nsec;
	return b < 0 ? 0 : wtree_same_data(a, b, (uint64_t)node->new.st_size);
}

static mode_t
kept_bits(mode_t type)
{
	return S_ISDIR(type) ? 01777 : 0777;
}

/* Whether contents and type are equal; for a removal, whether it is gone. */
static int
is_same(struct walk_node *node)
{
	if (node->new.st_mode == 0)
		return node->old.st_mode == 0;
	if (S_ISREG(node->new.st_mode))
		return same_file(node);
	if ((node->new.st_mode & S_IFMT) != (node->old.st_mode & S_IFMT))
		return 0;
	return S_ISLNK(node->new.st_mode) ? same_link(node) : 1;
}

/* Whether somebody changed or removed the workspace's file since the cell started.  A file that is
 * gone is known if its base was kept. */
static bool
is_newer(const struct workspace *ws, const struct walk_node *node)
{
	OWN(closep) int base = -1;

	if (node->old.st_mode != 0)
		return workspace_is_newer(ws, &node->old);
	if (ws->base > 0 && S_ISREG(node->new.st_mode))
		base = wtree_open_file(ws->base, node->path);
	return base >= 0;
}

static int
compare(const struct workspace *ws, struct walk_node *node)
{
	struct workspace_change *c = &node->change;
	bool same_mode;
	int same = is_same(node);

	if (same < 0)
		return same;
	same_mode = node->new.st_mode == 0 || S_ISLNK(node->new.st_mode) ||
	            node->mode == (node->old.st_mode & kept_bits(node->new.st_mode));
	node->differs = !same || !same_mode;
	*c = (struct workspace_change){
		.path = node->path,
		.kind = node->new.st_mode == 0 ? WORKSPACE_DELETED :
		        node->old.st_mode == 0 ? WORKSPACE_ADDED : WORKSPACE_MODIFIED,
		.type = (node->new.st_mode != 0 ? node->new.st_mode : node->old.st_mode) & S_IFMT,
		.old_mode = node->old.st_mode,
		.size = S_ISREG(node->new.st_mode) ? (uint64_t)node->new.st_size : 0,
		.mode_only = same && !same_mode,
		.newer = !same && is_newer(ws, node),
	};
	if (node->new.st_mode != 0)
		c->mode = c->type | (S_ISLNK(c->type) ? 0777 : node->mode);
	return 0;
}

/* ---- held changes ------------------------------------------------------------ */

static bool
is_part_of_git_dir(const char *name)
{
	return strcmp(name, "HEAD") == 0 || strcmp(name, "objects") == 0 ||
	       strcmp(name, "refs") == 0;
}

static bool
is_held(const struct walk_node *node, const struct place *at, enum held match, bool in_git)
{
	mode_t new = node->new.st_mode, old = node->old.st_mode;

	if (at->blocked || match == HELD_YES)
		return true;
	/* A folder in which programs look for such files is removed, or is not a folder. */
	if (match == HELD_AROUND && (!S_ISDIR(new) || (old != 0 && !S_ISDIR(old))))
		return true;
	/* Git creates no links there; one could lead to hooks or config elsewhere. */
	if (in_git && S_ISLNK(new))
		return true;
	return at->completes && old == 0 && is_part_of_git_dir(node->name);
}

/* Whether NAME will exist. */
static bool
merged_has(const struct place *at, const char *name)
{
	struct stat st;

	if (wtree_stat(at->changes, name, &st) < 0)
		return false;
	if (st.st_mode != 0)
		return !wtree_is_whiteout(&st);
	return !at->opaque && wtree_stat(at->real, name, &st) == 0 && st.st_mode != 0;
}

/* Git treats any folder that looks like a repository as one, whatever its name. */
static bool
looks_like_git_dir(const struct place *at)
{
	return merged_has(at, "HEAD") &&
	       (merged_has(at, "objects") || merged_has(at, "commondir"));
}

static int
find_git_dir(struct walk *walk, struct place *at, struct err *err)
{
	const struct place now = { .changes = -1, .real = at->real };
	size_t len = walk->path.len;
	bool in_git;
	int r = 0;

	if (!looks_like_git_dir(at))
		return 0;
	at->is_git = (struct held_git){ .base = len == 0 ? 0 : len + 1, .outer = at->git };
	/* Config and hooks may have been applied before this was a repository, unless they are held
	 * here anyway. */
	if (!looks_like_git_dir(&now) && (merged_has(&now, "config") || merged_has(&now, "hooks") ||
	                                  merged_has(&now, "commondir"))) {
		r = wtree_path_push(&walk->path, "config", err);
		if (r == 0)
			at->completes = held_path(walk->path.text, at->git, &in_git) != HELD_YES;
		wtree_path_pop(&walk->path, len);
	}
	at->git = &at->is_git;
	return r;
}

/* ---- the walk ----------------------------------------------------------------- */

static int
fail(const struct walk_node *node, int code, struct err *err)
{
	char shown[WTREE_SHOWN_MAX];

	wtree_show(shown, node->path);
	if (code == EXDEV)
		return err_set(err, code, "'%s' is a mount point in the workspace: name the paths "
		               "to apply, without it", shown);
	errno = code;
	return err_errno(err, "cannot compare '%s'", shown);
}

static int walk_place(struct walk *walk, struct place *at, struct err *err);

/* Descend into a folder of the changes (DIR) or, if DIR is -1, into one that is removed. */
static int
descend(struct walk *walk, const struct place *at, const struct walk_node *node, int dir,
        bool blocked, bool released, struct err *err)
{
	OWN(closep) int real = -1;
	struct place sub = { .changes = dir, .real = -1, .git = at->git,
	                     .blocked = blocked, .left = blocked ? node->change.left : WORKSPACE_LEFT_NOT,
	                     .released = released, .depth = at->depth + 1,
	                     .opaque = at->opaque || dir < 0 || wtree_is_opaque(dir) };
	char shown[WTREE_SHOWN_MAX];
	int r = 0;

	if (sub.depth > WORKSPACE_DEPTH_MAX)
		return err_set(err, ENAMETOOLONG, "'%s' is more than %d folders deep",
		               wtree_show(shown, node->path), WORKSPACE_DEPTH_MAX);
	if (at->real >= 0)
		real = tree_open_dir(at->real, node->name);
	if (real == -EXDEV ? walk->strict : real == -EMFILE || real == -ENFILE || real == -EIO)
		return fail(node, -real, err);
	sub.real = real < 0 ? -1 : real;
	if (walk->only_replaced && sub.real < 0)
		return 0;
	r = find_git_dir(walk, &sub, err);
	if (r == 0 && walk->ws->named != NULL && sub.real >= 0)
		r = named_look(walk->ws->named, walk->ws->real, sub.real, false, false, err);
	if (r == 0 && walk->hooks->enter != NULL)
		r = walk->hooks->enter(walk->arg, node, dir, sub.real, sub.opaque, err);
	if (r == 0)
		r = walk_place(walk, &sub, err);
	if (r == 0 && walk->hooks->leave != NULL)
		r = walk->hooks->leave(walk->arg, node, dir, sub.real, err);
	return r;
}

/* Whether only the mode of a folder that exists is left alone. */
static bool
is_mode_left(const struct walk_node *node)
{
	return S_ISDIR(node->old.st_mode) &&
	       (node->change.left == WORKSPACE_LEFT_MODE || node->change.left == WORKSPACE_LEFT_UNCHOSEN ||
	        node->change.left == WORKSPACE_LEFT_STALE);
}

static int
walk_node(struct walk *walk, const struct place *at, struct walk_node *node,
          enum choice choice, struct err *err)
{
	OWN(closep) int dir = -1;
	bool named = choice == CHOICE_EXACT, in_git = false, released;
	enum held match = HELD_NO;
	int r = 0;

	if (S_ISDIR(node->new.st_mode)) {
		dir = tree_open_dir(at->changes, node->name);
		if (dir < 0)
			return fail(node, -dir, err);
		node->mode = wtree_mode(dir, &node->new);
	}
	/* Only a folder can be on the way to a choice. */
	if (choice == CHOICE_ABOVE && dir < 0 &&
	    !(node->new.st_mode == 0 && S_ISDIR(node->old.st_mode)))
		return 0;
	if (walk->hooks->visit == NULL)
		return dir < 0 ? 0 : descend(walk, at, node, dir, false, false, err);
	r = compare(walk->ws, node);
	if (r < 0)
		return fail(node, -r, err);

	if (node->differs || named)
		match = held_path(node->path, at->git, &in_git);
	if (match != HELD_NO && workspace_adds_worktree(walk->ws, node, in_git))
		match = HELD_NO;
	if (node->differs || named)
		match = named_match(walk->ws->named, node->path, match);
	released = at->released || (named && match == HELD_YES);
	node->chosen = choice >= CHOICE_IN;
	node->change.in_git = at->git != NULL;
	node->change.git_base = at->git != NULL ? at->git->base : 0;
	node->change.held = node->differs && is_held(node, at, match, in_git) &&
	                    (at->blocked || !(named || at->released));
	/* The folder itself is held, not only its contents: a file there would have to be removed
	 * first, or its mere existence would have an effect. */
	node->blocks = at->blocked || (node->change.held && dir >= 0 &&
	                               !S_ISDIR(node->old.st_mode) &&
	                               (node->old.st_mode != 0 || match != HELD_YES));

	node->change.left = at->left;
	if (walk->hooks->judge != NULL && !at->blocked && (node->differs || dir >= 0))
		r = walk->hooks->judge(walk->arg, node, err);
	if (r > 0) {
		node->change.left = (enum workspace_left)r;
		node->change.held = node->differs;
		node->blocks = node->blocks || (dir >= 0 && !is_mode_left(node));
		r = 0;
	}

	if (r == 0 && (node->chosen || dir >= 0))
		r = walk->hooks->visit(walk->arg, node, err);
	if (r < 0 || (dir < 0 && choice != CHOICE_ABOVE))
		return r;
	return descend(walk, at, node, dir, node->blocks, released, err);
}

static int
walk_name(struct walk *walk, const struct place *at, const char *name, struct err *err)
{
	struct walk_node node = { .name = name, .changes = at->changes, .real = at->real };
	size_t len = walk->path.len;
	enum choice choice;
	bool special;
	int r = 0;

	if (++walk->entries > WORKSPACE_ENTRIES_MAX)
		return err_set(err, E2BIG, "more than %d changed files", WORKSPACE_ENTRIES_MAX);
	r = wtree_path_push(&walk->path, name, err);
	if (r < 0)
		return r;
	node.path = walk->path.text;
	choice = choose(walk, node.path);
	if (choice != CHOICE_NO) {
		r = wtree_stat(at->changes, name, &node.new);
		if (r == 0)
			r = wtree_stat(at->real, name, &node.old);
		if (r < 0)
			r = fail(&node, -r, err);
		if (wtree_is_whiteout(&node.new))
			node.new.st_mode = 0;
		/* The collector never creates these types. */
		special = node.new.st_mode != 0 && !S_ISREG(node.new.st_mode) &&
		          !S_ISDIR(node.new.st_mode) && !S_ISLNK(node.new.st_mode);
		if (r == 0 && !special)
			r = walk_node(walk, at, &node, choice, err);
	}
	wtree_path_pop(&walk->path, len);
	return r;
}

static int
walk_place(struct walk *walk, struct place *at, struct err *err)
{
	OWN(wtree_names_free) struct wtree_names new = {0}, old = {0};
	char shown[WTREE_SHOWN_MAX];
	size_t i = 0, j = 0;
	const char *name;
	int r = 0, order;

	if (at->changes >= 0)
		r = wtree_names_load(at->changes, &new, err);
	if (r == 0 && at->opaque && at->real >= 0)
		r = wtree_names_load(at->real, &old, err);
	if (r < 0 && walk->path.len > 0)
		(void)err_wrap(err, "'%s'", wtree_show(shown, walk->path.text));
	while (r == 0 && (i < new.n || j < old.n)) {
		order = i == new.n ? 1 : j == old.n ? -1 : strcmp(new.name[i], old.name[j]);
		name = order <= 0 ? new.name[i] : old.name[j];
		i += order <= 0;
		j += order >= 0;
		r = walk_name(walk, at, name, err);
	}
	return r;
}

int
walk_run(struct walk *walk, struct err *err)
{
	struct place top = { .changes = walk->ws->changes, .real = walk->ws->real };
	int r = 0;

	walk->entries = 0;
	for (size_t i = 0; i < walk->n_choices; i++)
		walk->choices[i].seen = walk->choices[i].path[0] == '\0';
	if (walk->ws->git_dir)
		top.git = &top.is_git;
	else
		r = find_git_dir(walk, &top, err);
	if (r == 0 && walk->ws->named != NULL)
		r = named_look(walk->ws->named, top.real, top.real, walk->ws->git_dir, true, err);
	if (r == 0)
		r = walk_place(walk, &top, err);
	wtree_path_free(&walk->path);
	return r;
}
