/* supervisor_own.c - finds the folders of cloister's own that a cell's grants contain. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "cell/cell_dirs.h"
#include "proc/supervisor/supervisor.h"
#include "trust/trust.h"

void
own_paths_free(struct own_paths *own)
{
	for (size_t i = 0; i < own->n; i++)
		free(own->at[i]);
	own->n = 0;
}

struct adding {
	struct own_paths *own;
	const struct cell_spec *spec;
	struct err *err;
};

static bool
is_near(const struct cell_spec *spec, const char *path)
{
	for (size_t i = 0; i < spec->n_grants; i++)
		if (strcmp(spec->grants[i].host, "/") == 0 || tree_is_beneath(path, spec->grants[i].host) ||
		    tree_is_beneath(spec->grants[i].host, path))
			return true;
	for (char **layer = spec->bundle.layers; layer != NULL && *layer != NULL; layer++)
		if (tree_is_beneath(path, *layer) || tree_is_beneath(*layer, path))
			return true;
	return spec->rootfs[0] != '\0' && tree_is_beneath(path, spec->rootfs);
}

/* Adds one of the paths of a folder. */
static int
add_path(void *arg, const char *path)
{
	const struct adding *a = arg;
	struct own_paths *own = a->own;
	int r;

	for (size_t i = 0; i < own->n; i++)
		if (strcmp(own->at[i], path) == 0)
			return 0;
	if (!is_near(a->spec, path))
		return 0;
	r = cell_grants_check(a->spec, path, a->err);
	if (r < 0)
		return r;
	if (own->n == BOUNDARY_HIDDEN_MAX)
		return err_set(a->err, E2BIG, "cloister's own folders are mounted at over %d places that the grants "
		               "contain: grant less", BOUNDARY_HIDDEN_MAX);
	own->at[own->n] = strdup(path);
	return own->at[own->n++] != NULL ? 0 : err_set(a->err, ENOMEM, "out of memory");
}

/* If the agent made the folder, the agent would own it.  So the supervisor makes it first. */
static int
make_folder(const struct cell_spec *spec, const char *path, struct err *err)
{
	OWN(closep) int fd = -1;

	for (size_t i = 0; i < spec->n_grants; i++) {
		const struct cell_grant *grant = &spec->grants[i];

		if (grant->access != CELL_WRITE || access(path, F_OK) == 0 ||
		    !(tree_is_beneath(path, grant->host) || strcmp(grant->host, "/") == 0))
			continue;
		fd = tree_open_made(path, true, "set CLOISTER_DATA_DIR or CLOISTER_STATE_DIR", err);
		return fd < 0 ? fd : 0;
	}
	return 0;
}

int
supervisor_find_own(const struct cell_spec *spec, struct own_paths *own, struct err *err)
{
	OWN(freep) char *runtime = data_runtime_path(err), *data = data_top(NULL);
	OWN(freep) char *state = data_state_path(NULL);
	OWN(trust_mounts_freep) struct trust_mounts *mounts = NULL;
	const char *const configured[] = { runtime, data, state };
	const struct adding a = { .own = own, .spec = spec, .err = err };
	int r = 0;

	if (spec->n_grants == 0 && spec->rootfs[0] == '\0')
		return 0;
	r = trust_mounts_load(&mounts, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(configured); i++) {
		char real[PATH_MAX];

		if (configured[i] == NULL)
			continue;
		r = make_folder(spec, configured[i], err);
		if (r == 0)
			r = cell_grants_check_way(spec, configured[i], err);
		if (r == 0 && realpath(configured[i], real) != NULL)
			r = trust_mounts_each(mounts, real, false, add_path, (void *)(uintptr_t)&a);
	}
	return r;
}
