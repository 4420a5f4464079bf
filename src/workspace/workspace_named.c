/* workspace_named.c - see workspace_named.h.
 *
 * Git runs the programs that its configuration names, wherever they are: hooks, filters, drivers,
 * helpers.  The configuration is the host's, because an agent's is held back.  It is parsed here
 * and not by git, because git would obey it. */
#include "workspace/workspace_named.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "trust/trust.h"
#include "workspace/git_config.h"
#include "workspace/worktree.h"

#define CONFIG_MAX (1 << 20)
#define LINK_MAX_BYTES 8192
#define INCLUDES_MAX 10                 /* nested, as in git */

/* The kind of a value: a path; the path of another configuration; a command; a command behind '!';
 * or a command that only a person starts. */
enum kind { A_PATH, A_CONFIG, A_COMMAND, A_SHELL, AN_ALIAS };

/* With subsections, in any of them; "*" is every key. */
static const struct {
	const char *section, *key;
	enum kind kind;
} keys[] = {
	{ "core", "hookspath", A_PATH }, { "init", "templatedir", A_PATH },
	{ "include", "path", A_CONFIG }, { "includeif", "path", A_CONFIG },
	{ "core", "fsmonitor", A_COMMAND }, { "core", "sshcommand", A_COMMAND },
	{ "core", "editor", A_COMMAND }, { "core", "pager", A_COMMAND },
	{ "core", "askpass", A_COMMAND }, { "core", "gitproxy", A_COMMAND },
	{ "core", "alternaterefscommand", A_COMMAND }, { "sequence", "editor", A_COMMAND },
	{ "pager", "*", A_COMMAND }, { "interactive", "difffilter", A_COMMAND },
	{ "filter", "clean", A_COMMAND }, { "filter", "smudge", A_COMMAND },
	{ "filter", "process", A_COMMAND }, { "diff", "command", A_COMMAND },
	{ "diff", "textconv", A_COMMAND }, { "diff", "external", A_COMMAND },
	{ "merge", "driver", A_COMMAND }, { "hook", "command", A_COMMAND },
	{ "difftool", "cmd", A_COMMAND }, { "difftool", "path", A_COMMAND },
	{ "mergetool", "cmd", A_COMMAND }, { "mergetool", "path", A_COMMAND },
	{ "gpg", "program", A_COMMAND }, { "gpg", "defaultkeycommand", A_COMMAND },
	{ "credential", "helper", A_COMMAND }, { "remote", "uploadpack", A_COMMAND },
	{ "remote", "receivepack", A_COMMAND }, { "trailer", "command", A_COMMAND },
	{ "trailer", "cmd", A_COMMAND }, { "tar", "command", A_COMMAND },
	{ "alias", "*", AN_ALIAS }, { "submodule", "update", A_SHELL },
};

/* ---- the list ---- */

void
workspace_named_free(struct workspace_named *named)
{
	for (size_t i = 0; i < named->n; i++)
		free(named->list[i].path);
	free(named->list);
	*named = (struct workspace_named){0};
}

enum held
named_match(const struct workspace_named *named, const char *path, enum held best)
{
	for (size_t i = 0; named != NULL && i < named->n && best != HELD_YES; i++) {
		const struct workspace_name *name = &named->list[i];
		enum held m = name->file ? held_match_file(name->path, path) :
		              held_match(name->path, path);

		if (m > best)
			best = m;
	}
	return best;
}

static int
list_add(struct workspace_named *named, const char *path, bool file, struct err *err)
{
	struct workspace_name *more;

	for (size_t i = 0; i < named->n; i++)
		if (strcmp(named->list[i].path, path) == 0) {
			named->list[i].file = named->list[i].file && file;
			return 0;
		}
	if (named->n == WORKSPACE_NAMED_MAX) {
		if (named->why.code == 0)
			(void)err_set(&named->why, E2BIG, "configuration names over %d paths of the "
			              "workspace", WORKSPACE_NAMED_MAX);
		return 0;
	}
	more = reallocarray(named->list, named->n + 1, sizeof(*more));
	if (more == NULL)
		return err_errno(err, "cannot list the paths that configuration names");
	named->list = more;
	more[named->n] = (struct workspace_name){ .path = strdup(path), .file = file };
	return more[named->n++].path != NULL ? 0 : err_errno(err, "cannot list the paths that "
	                                                     "configuration names");
}

/* ---- one path ---- */

struct adding {
	struct workspace_named *named;
	const char *top;                /* the workspace's */
	bool file;                      /* as in struct workspace_name */
	struct err *err;
};

/* A link on the way counts too: another link in its place could lead elsewhere. */
static int
add_step(void *arg, const char *at, int found)
{
	const struct adding *a = arg;
	size_t len = strlen(a->top);

	if (found <= 0 || !tree_is_beneath(at, a->top) || at[len] == '\0')
		return 0;
	return list_add(a->named, at + len + 1, a->file, a->err);
}

/* ALL: add it even if the whole workspace is beneath it. */
static int
add_path(struct adding *a, const char *path, bool all)
{
	size_t len = strlen(a->top);
	char end[PATH_MAX];
	int r = tree_follow(path, add_step, a, end);

	if (r < 0)              /* the path leads nowhere */
		return r == -ENOMEM ? r : 0;
	if (tree_is_beneath(end, a->top) && end[len] != '\0')
		return list_add(a->named, end + len + 1, a->file, a->err);
	return all && tree_is_beneath(a->top, end) ? list_add(a->named, "", false, a->err) : 0;
}

/* The canonical path of an open folder. */
static int
find_path(int dir, char ret_path[PATH_MAX], struct err *err)
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	n = readlink(link, ret_path, PATH_MAX - 1);
	if (n < 0)
		return err_errno(err, "cannot find out where the workspace is");
	ret_path[strncmp(ret_path, "/", (size_t)n) == 0 ? 0 : n] = '\0';
	return 0;
}

int
workspace_named_add(struct workspace_named *named, int real, const char *path, struct err *err)
{
	char top[PATH_MAX];
	struct adding a = { .named = named, .top = top, .err = err };
	int r = find_path(real, top, err);

	return r < 0 ? r : add_path(&a, path, false);
}

/* ---- a configuration ---- */

struct config {
	struct adding *adding;
	const char *top;                /* the base of relative paths */
	const char *file;
	int depth;
};

static int read_config(struct adding *a, const char *top, const char *file, int depth);

static char *
join(const char *folder, const char *path)
{
	const char *home = getenv("HOME");

	if (path[0] == '/')
		return strdup(path);
	if (strncmp(path, "~/", 2) == 0 && home != NULL)
		return str_format("%s/%s", home, path + 2);
	return str_format("%s/%s", folder, path);
}

static int
out_of_memory(const struct config *c)
{
	return err_set(c->adding->err, ENOMEM, "out of memory");
}

static int
add_value(const struct config *c, const char *value, bool all)
{
	OWN(freep) char *path = join(c->top, value);

	return path == NULL ? out_of_memory(c) : add_path(c->adding, path, all);
}

/* Any word of a command may be the program that it runs; the whole may be a path with blanks. */
static int
add_command(const struct config *c, const char *value)
{
	OWN(freep) char *words = strdup(value);
	char *rest = NULL;
	int r;

	if (words == NULL)
		return out_of_memory(c);
	r = add_value(c, value, false);
	for (char *word = strtok_r(words, TRUST_BETWEEN_WORDS, &rest); r == 0 && word != NULL;
	     word = strtok_r(NULL, TRUST_BETWEEN_WORDS, &rest))
		r = word[0] == '-' ? 0 : add_value(c, word, false);
	return r;
}

/* These programs run commands from files that are not held (Makefile, package.json) or, for git,
 * from no file in their arguments.  A plain word behind them is a target or a path to examine, not
 * a folder to run something from. */
static bool
takes_targets(const char *word, size_t len)
{
	static const char *const tools[] = { "make", "gmake", "npm", "yarn", "pnpm", "cargo", "go", "git" };

	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		if (strlen(tools[i]) == len && memcmp(tools[i], word, len) == 0)
			return true;
	return false;
}

/* A command that a person starts by its short name.  A program or a target that it names is a file,
 * never a folder.  Any other word may be a folder to run something from. */
static int
add_alias(const struct config *c, const char *value)
{
	enum { BEGINS, HAS_TARGETS, HAS_WORDS } at = BEGINS;
	int r = add_value(c, value, false);
	size_t len;

	for (value++; r == 0 && *value != '\0'; value += len) {
		OWN(freep) char *word = NULL;

		len = strcspn(value, TRUST_BETWEEN_WORDS);
		if (len == 0) {
			len = 1;
			if (strchr(";|&(\n", *value) != NULL || (*value == '{' && value[1] == ' '))
				at = BEGINS;
			else if (*value != ' ' && *value != '\t')
				at = HAS_WORDS;
			continue;
		}
		word = strndup(value, len);
		if (word == NULL)
			return out_of_memory(c);
		if (word[0] == '-')
			at = HAS_WORDS;
		c->adding->file = at == BEGINS || (at == HAS_TARGETS && strchr(word, '/') == NULL);
		if (word[0] != '-')
			r = add_value(c, word, false);
		c->adding->file = false;
		if (at == BEGINS)
			at = takes_targets(value, len) ? HAS_TARGETS : HAS_WORDS;
	}
	return r;
}

static int
add_config(const struct config *c, const char *value)
{
	OWN(freep) char *folder = strndup(c->file, (size_t)(strrchr(c->file, '/') - c->file));
	OWN(freep) char *path = folder == NULL ? NULL : join(folder, value);
	int r = path == NULL ? out_of_memory(c) : add_path(c->adding, path, false);

	return r < 0 || c->depth == INCLUDES_MAX ? r :
	       read_config(c->adding, c->top, path, c->depth + 1);
}

static int
take_value(void *arg, const char *section, const char *key, const char *value)
{
	const struct config *c = arg;

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (strcmp(keys[i].section, section) != 0 || value[0] == '\0' ||
		    (strcmp(keys[i].key, key) != 0 && strcmp(keys[i].key, "*") != 0))
			continue;
		if (keys[i].kind == A_PATH)
			return add_value(c, value, true);
		if (keys[i].kind == A_CONFIG)
			return add_config(c, value);
		if (keys[i].kind == AN_ALIAS)
			return value[0] == '!' ? add_alias(c, value) : 0;
		return keys[i].kind == A_COMMAND || value[0] == '!' ? add_command(c, value) : 0;
	}
	return 0;
}

static int
read_config(struct adding *a, const char *top, const char *file, int depth)
{
	struct config c = { .adding = a, .top = top, .file = file, .depth = depth };
	OWN(freep) char *text = NULL;
	struct err why = {0};
	size_t len;
	int r = read_file_at(AT_FDCWD, file, CONFIG_MAX, &text, &len, &why);

	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r == 0 && (r = git_config_each(text, len, take_value, &c, &why)) == -EINVAL)
		(void)err_wrap(&why, "'%s'", file);
	if (r == -ENOMEM)
		return err_set(a->err, ENOMEM, "out of memory");
	if (r < 0 && a->named->why.code == 0)
		a->named->why = why;
	return 0;
}

/* ---- a repository ---- */

static int
read_both(struct adding *a, const char *top, const char *common, const char *git)
{
	OWN(freep) char *config = str_format("%s/config", common);
	OWN(freep) char *own = str_format("%s/config.worktree", git);
	int r;

	if (config == NULL || own == NULL)
		return err_set(a->err, ENOMEM, "out of memory");
	r = read_config(a, top, config, 0);
	return r < 0 ? r : read_config(a, top, own, 0);
}

/* GIT is the git directory of a worktree or submodule, which may share another's. */
static int
look_behind_link(struct adding *a, const char *top, const char *git)
{
	OWN(freep) char *file = str_format("%s/commondir", git);
	OWN(freep) char *text = NULL;
	OWN(freep) char *common = NULL;

	if (file == NULL)
		return err_set(a->err, ENOMEM, "out of memory");
	if (read_file_at(AT_FDCWD, file, LINK_MAX_BYTES, &text, NULL, NULL) < 0)
		return read_both(a, top, git, git);
	text[strcspn(text, "\n")] = '\0';
	common = join(git, text);
	return common == NULL ? err_set(a->err, ENOMEM, "out of memory") :
	       read_both(a, top, common, git);
}

static int
look_at_top(struct adding *a, const char *top)
{
	OWN(freep) char *git = str_format("%s/.git", top);
	OWN(freep) char *text = NULL;
	OWN(freep) char *led = NULL;
	const char *link;
	struct stat st;

	if (git == NULL)
		return err_set(a->err, ENOMEM, "out of memory");
	if (stat(git, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return read_both(a, top, git, git);
	if (!S_ISREG(st.st_mode) || read_file_at(AT_FDCWD, git, LINK_MAX_BYTES, &text, NULL, NULL) < 0)
		return 0;
	link = worktree_parse_link(text);
	led = link == NULL ? NULL : join(top, link);
	return led == NULL ? 0 : look_behind_link(a, top, led);
}

int
named_look(struct workspace_named *named, int real, int dir, bool it_is_git_dir, bool above,
           struct err *err)
{
	char top[PATH_MAX], at[PATH_MAX], *slash;
	struct adding a = { .named = named, .top = top, .err = err };
	struct err why = {0};
	int r = find_path(real, top, err);

	if (r < 0 || (!above && faccessat(dir, ".git", F_OK, AT_SYMLINK_NOFOLLOW) < 0))
		return r;
	/* An agent can make the path too long. */
	if (find_path(dir, at, &why) < 0) {
		if (named->why.code == 0)
			named->why = why;
		return 0;
	}
	r = it_is_git_dir ? read_both(&a, at, at, at) : look_at_top(&a, at);
	while (r == 0 && above && (slash = strrchr(at, '/')) != NULL) {
		*slash = '\0';
		r = look_at_top(&a, at);
	}
	return r;
}
