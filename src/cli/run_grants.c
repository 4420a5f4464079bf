/* run_grants.c - -w and -v: the host paths that a cell is given, and where. */
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
#include "cli/run.h"
#include "trust/trust.h"
#include "vault/vault.h"
#include "workspace/worktree.h"

/* Beneath these the cell has entries of its own that a grant would break. */
static const char *const kept[] = { "/proc", "/sys", "/dev" };

int
run_check_inside(const char *path, struct err *err)
{
	if (path[0] != '/' || strcmp(path, "/") == 0)
		return err_set(err, EINVAL, "'%s' is not a valid path in the cell: give an absolute "
		               "path other than '/'", path);
	for (const char *part = path; (part = strchr(part, '/')) != NULL;) {
		size_t len = strcspn(++part, "/");

		if (len > NAME_MAX || (len == 1 && part[0] == '.') ||
		    (len == 2 && part[0] == '.' && part[1] == '.') || (len == 0 && part[0] != '\0'))
			return err_set(err, EINVAL, "'%s' is not a plain path: remove '.', '..' "
			               "and '//'", path);
	}
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (tree_is_beneath(path, kept[i]))
			return err_set(err, EINVAL, "'%s' cannot be granted: the cell has its own %s", path,
			               kept[i]);
	return 0;
}

/* The vault's key may be beside it. */
static int
check_vault(const char *real, struct err *err)
{
	OWN(freep) char *path = vault_path(NULL), *vault = path == NULL ? NULL : realpath(path, NULL);

	if (vault == NULL || (!tree_is_beneath(vault, real) && !tree_is_beneath(real, vault)))
		return 0;
	return err_set(err, EPERM, "'%s' cannot be granted: it would give away the vault of secrets "
	               "('%s'); name folders beside the vault", real, vault);
}

static struct cell_grant *
new_grant(struct run *run)
{
	struct cell_spec *spec = &run->spec;

	if (spec->grants == NULL)
		spec->grants = calloc(CELL_GRANTS_MAX, sizeof(*spec->grants));
	if (spec->grants == NULL || spec->n_grants == CELL_GRANTS_MAX)
		return NULL;
	return &spec->grants[spec->n_grants];
}

static int
add_grant(struct run *run, const char *host, const char *cell, enum cell_access access,
          struct cell_grant **ret_grant, struct err *err)
{
	struct cell_grant *grant = new_grant(run);
	OWN(freep) char *real = NULL, *inside = NULL;
	char end[PATH_MAX];
	struct stat st;
	size_t len;
	int r;

	if (grant == NULL)
		return err_set(err, E2BIG, "there are more than %d grants", CELL_GRANTS_MAX);
	if (stat(host, &st) < 0)
		return err_errno(err, "cannot grant '%s'", host);
	/* Through a link, an agent could choose what is granted.  The path that was checked is granted, and is mounted
	 * only if there is no link in it by then. */
	r = trust_follow(TRUST_GRANT, host, end, err);
	if (r < 0)
		return r;
	real = strdup(end);
	if (real == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (cell == NULL && strcmp(real, "/") == 0)
		return err_set(err, EINVAL, "'%s' is the whole machine and cannot be granted: name a "
		               "folder in it", host);
	r = check_vault(real, err);
	if (r == 0)
		r = run_check_inside(cell != NULL ? cell : real, err);
	if (r < 0)
		return r;
	inside = strdup(cell != NULL ? cell : real);
	if (inside == NULL)
		return err_set(err, ENOMEM, "out of memory");
	len = strlen(inside);
	if (len > 1 && inside[len - 1] == '/')
		inside[len - 1] = '\0';
	for (size_t i = 0; i < run->spec.n_grants; i++)
		if (strcmp(run->spec.grants[i].cell, inside) == 0)
			return err_set(err, EEXIST, "'%s' is granted twice", inside);
	grant->cell = TAKE(inside);
	grant->host = TAKE(real);
	grant->access = access;
	run->spec.n_grants++;
	if (ret_grant != NULL)
		*ret_grant = grant;
	return 0;
}

int
run_grant_volume(struct run *run, struct volume_use *use, const char *cell, const char *cache, struct err *err)
{
	struct cell_grant *grant = new_grant(run);

	if (grant == NULL)
		return err_set(err, E2BIG, "there are more than %d grants", CELL_GRANTS_MAX);
	for (size_t i = 0; i < run->spec.n_grants; i++)
		if (strcmp(run->spec.grants[i].cell, cell) == 0)
			return err_set(err, EEXIST, "'%s' is granted twice", cell);
	*grant = (struct cell_grant){ .cell = strdup(cell),
		.access = use->out != NULL || cache != NULL ? CELL_VOLUME : CELL_READ, .volume = true, .size = use->size,
		.entries = use->entries, .cache = cache != NULL ? strdup(cache) : NULL };
	/* The caller mounts it without following links. */
	grant->host = realpath(use->tree, NULL);
	run->spec.n_grants++;
	if (grant->cell == NULL || grant->host == NULL || (cache != NULL && grant->cache == NULL))
		return err_errno(err, "cannot find the files of the volume");
	grant->out = use->out == NULL ? NULL : realpath(use->out, NULL);
	return use->out != NULL && grant->out == NULL ? err_errno(err, "cannot find the folder for changes of the volume") : 0;
}

/* Cuts ":SUFFIX" off TEXT if it ends so. */
static bool
cut_suffix(char *text, const char *suffix)
{
	size_t len = strlen(text), end = strlen(suffix);

	if (len <= end + 1 || text[len - end - 1] != ':' || strcmp(text + len - end, suffix) != 0)
		return false;
	text[len - end - 1] = '\0';
	return true;
}

/* A linked worktree's git folder is elsewhere: without it, git does not work. */
static int
add_git_folder(struct run *run, const char *workspace, enum cell_access access,
               struct err *err)
{
	OWN(freep) char *common = NULL;
	struct cell_grant *grant;
	int r;

	r = worktree_find_common(workspace, &common, err);
	if (r < 0 || common == NULL || tree_is_beneath(common, workspace))
		return r;
	r = add_grant(run, common, NULL, access, &grant, err);
	if (r < 0)
		return r;
	grant->workspace = grant->git_dir = true;
	/* The granted path must be the checked one, even if somebody changes it meanwhile. */
	if (strcmp(grant->host, common) != 0)
		return err_set(err, EAGAIN, "the git folder '%s' was moved meanwhile: try again", common);
	return 0;
}

int
run_grant_workspace(struct run *run, const char *dir, enum cell_access access, struct err *err)
{
	struct cell_grant *grant;
	struct stat st;
	char *cwd;
	int r;

	if (stat(dir, &st) < 0)
		return err_errno(err, "cannot use '%s' as a workspace", dir);
	if (!S_ISDIR(st.st_mode))
		return err_set(err, ENOTDIR, "cannot use '%s' as a workspace: it is not a folder", dir);
	if (faccessat(AT_FDCWD, dir, R_OK | X_OK, AT_EACCESS) < 0)
		return err_errno(err, "cannot use '%s' as a workspace", dir);
	r = add_grant(run, dir, NULL, access, &grant, err);
	if (r < 0)
		return r;
	grant->workspace = true;
	if (!run->has_workspace) {
		/* The command starts in the first. */
		cwd = strdup(grant->cell);
		if (cwd == NULL)
			return err_set(err, ENOMEM, "out of memory");
		free(run->spec.cwd);
		run->spec.cwd = cwd;
		run->has_workspace = true;
	}
	return add_git_folder(run, grant->host, access, err);
}

int
run_add_workspace(struct run *run, const char *text, struct err *err)
{
	OWN(freep) char *dir = strdup(text);
	enum cell_access access = CELL_OVERLAY;
	struct stat st;
	char *colon;

	if (dir == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (cut_suffix(dir, "rw"))
		access = CELL_WRITE;
	else if (cut_suffix(dir, "ro"))
		access = CELL_READ;
	else
		(void)cut_suffix(dir, "overlay");
	colon = strrchr(dir, ':');
	if (colon != NULL && strchr(colon, '/') == NULL && stat(dir, &st) < 0 && errno == ENOENT)
		return err_set(err, EINVAL, "-w '%s' is not DIR[:MODE]: there is no mode '%s'; "
		               "use overlay, rw or ro", text, colon + 1);
	return run_grant_workspace(run, dir, access, err);
}

int
run_grant_path(struct run *run, const char *host, const char *cell, enum cell_access access,
               struct err *err)
{
	struct stat st;

	if (access == CELL_OVERLAY && stat(host, &st) == 0 && !S_ISDIR(st.st_mode))
		return err_set(err, ENOTDIR, "'%s' cannot be an overlay: it is not a folder", host);
	return add_grant(run, host, cell, access, NULL, err);
}

int
run_add_volume(struct run *run, const char *text, struct err *err)
{
	OWN(freep) char *host = strdup(text);
	enum cell_access access = CELL_WRITE;
	char *colon;

	if (host == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (cut_suffix(host, "ro"))
		access = CELL_READ;
	else if (cut_suffix(host, "overlay"))
		access = CELL_OVERLAY;
	else
		(void)cut_suffix(host, "rw");
	colon = strrchr(host, ':');
	if (colon != NULL && colon[1] != '/')
		return err_set(err, EINVAL, "-v '%s' is not HOST[:CELL][:MODE], with an absolute path "
		               "CELL and a MODE of ro, rw or overlay", text);
	if (colon != NULL)
		*colon = '\0';
	return run_grant_path(run, host, colon != NULL ? colon + 1 : NULL, access, err);
}
