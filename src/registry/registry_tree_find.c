/* registry_tree_find.c - finds the folder of a capability by its hash alone, and checks it.
 *
 * Needs no database. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "canon/hash.h"
#include "registry/registry_tree.h"

static const char *
hex_of(const char *hash)
{
	return hash + strlen(HASH_PREFIX);
}

int
registry_find_tree(const char *hash, char **ret_path, struct err *err)
{
	OWN(closep) int registry = data_folder("registry", false, err);
	OWN(closep) int trees = registry < 0 ? -1 : tree_open_dir(registry, "trees");
	OWN(freep) char *top = data_path("registry/trees", err);
	int r = trees < 0 || faccessat(trees, hex_of(hash), F_OK, AT_SYMLINK_NOFOLLOW) < 0 ?
	        err_set(err, ENOENT, "the capability %s has no folder here: dispatch an agent that has it, "
	                "which makes one", hash) : 0;

	/* Every time: any process with the operator's uid could have changed it. */
	if (r == 0 && registry_check_tree(trees, hex_of(hash), NULL, err) < 0)
		r = err_wrap(err, "'%s/%s' is not what was registered (look at it, then remove it)", top,
		             hex_of(hash));
	if (r < 0)
		return r;
	*ret_path = top == NULL ? NULL : str_format("%s/%s/" REGISTRY_TREE_FILES, top, hex_of(hash));
	return *ret_path == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}
