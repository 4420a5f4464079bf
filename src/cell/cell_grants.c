/* cell_grants.c - decides which of cloister's own files may be granted to a cell. */
#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "base/data.h"
#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "cell/cell_dirs.h"

/* homes/PROFILE/PROJECT/PATH: an agent's own.  REST is the path in the data folder. */
static bool
is_home(const char *rest)
{
	int left = 3;

	if (!tree_is_beneath(rest, DATA_HOMES))
		return false;
	for (; *rest != '\0'; rest++)
		left -= *rest == '/';
	return left <= 0;
}

/* states/NAME/tree/COMMIT: the files of a state's commit, or a part of them. */
static bool
is_state(const char *rest)
{
	static const char states[] = "states/";
	const char *tree = strncmp(rest, states, sizeof(states) - 1) == 0 ? strchr(rest + sizeof(states) - 1, '/') : NULL;

	return tree != NULL && strncmp(tree, "/tree/", 6) == 0 && tree[6] != '\0';
}

/* Root's data and state are in one folder. */
static bool
is_lent(const struct cell_grant *grant, const char *own)
{
	static const char *const lent[] = { "registry/trees", "dispatches", "tools" };
	const char *rest = grant->host + strlen(own);

	if (*rest++ != '/')
		return false;
	if (is_home(rest))
		return true;
	if (grant->access == CELL_WRITE)
		return false;
	if (grant->volume)
		return strncmp(rest, "volumes/trees/", sizeof("volumes/trees/") - 1) == 0;
	if (grant->state && is_state(rest))
		return true;
	for (size_t i = 0; i < ARRAY_LEN(lent); i++)
		if (strncmp(rest, lent[i], strlen(lent[i])) == 0 && rest[strlen(lent[i])] == '/')
			return true;
	return false;
}

static bool
is_in(const char *path, const char *folder)
{
	return strcmp(folder, "/") == 0 || tree_is_beneath(path, folder);
}

int
cell_grants_check(const struct cell_spec *spec, const char *own, struct err *err)
{
	if (own != NULL && spec->rootfs[0] != '\0' && tree_is_beneath(own, spec->rootfs))
		return err_set(err, EPERM, "'%s' cannot be the root file system: cloister keeps its own "
		               "records in '%s'", spec->rootfs, own);
	for (char **layer = spec->bundle.layers; own != NULL && layer != NULL && *layer != NULL; layer++)
		if (is_in(own, *layer) || tree_is_beneath(*layer, own))
			return err_set(err, EPERM, "'%s' cannot be a layer of a container: cloister keeps its own records in '%s'",
			               *layer, own);
	for (size_t i = 0; own != NULL && i < spec->n_grants; i++) {
		const struct cell_grant *grant = &spec->grants[i];

		if (tree_is_beneath(grant->host, own) && !is_lent(grant, own))
			return err_set(err, EPERM, "'%s' cannot be granted: cloister keeps its own records "
			               "there", grant->host);
		/* In its own mount namespace the agent could move the folder that holds the cover. */
		if (spec->profile == CELL_PROFILE_NESTED && grant->access == CELL_WRITE && is_in(own, grant->host))
			return err_set(err, EPERM, "'%s' cannot be granted for writing with --profile nested: cloister "
			               "keeps its own records in '%s'; grant it as ro or overlay, or a folder "
			               "beside that", grant->host, own);
	}
	return 0;
}

struct looking {
	const struct cell_spec *spec;
	struct err *err;
};

static int
look_at_step(void *arg, const char *at, int found)
{
	const struct looking *l = arg;

	for (size_t i = 0; found > 0 && i < l->spec->n_grants; i++)
		if (l->spec->grants[i].access == CELL_WRITE && is_in(at, l->spec->grants[i].host))
			return err_set(l->err, EPERM, "'%s' cannot be granted for writing: by the link '%s' cloister "
			               "finds its own records; grant it as ro or overlay, or a folder beside that",
			               l->spec->grants[i].host, at);
	return 0;
}

int
cell_grants_check_way(const struct cell_spec *spec, const char *path, struct err *err)
{
	const struct looking l = { .spec = spec, .err = err };
	char end[PATH_MAX];
	int r = tree_follow(path, look_at_step, (void *)(uintptr_t)&l, end);

	return r == -EPERM ? r : 0;
}
