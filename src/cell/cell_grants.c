/* cell_grants.c - which of cloister's own files a cell may be given. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "cell/cell_dirs.h"

/* Root's data and state are in one folder. */
static bool
is_lent(const struct cell_grant *grant, const char *own)
{
	static const char *const lent[] = { "registry/trees", "dispatches" };
	const char *rest = grant->host + strlen(own);

	if (grant->access == CELL_WRITE || *rest++ != '/')
		return false;
	for (size_t i = 0; i < ARRAY_LEN(lent); i++)
		if (strncmp(rest, lent[i], strlen(lent[i])) == 0 && rest[strlen(lent[i])] == '/')
			return true;
	return false;
}

int
cell_grants_check(const struct cell_spec *spec, const char *own, struct err *err)
{
	if (own != NULL && spec->rootfs[0] != '\0' && tree_is_beneath(own, spec->rootfs))
		return err_set(err, EPERM, "'%s' cannot be the root file system: cloister keeps its own "
		               "records in '%s'", spec->rootfs, own);
	for (size_t i = 0; own != NULL && i < spec->n_grants; i++)
		if (tree_is_beneath(spec->grants[i].host, own) && !is_lent(&spec->grants[i], own))
			return err_set(err, EPERM, "'%s' cannot be granted: cloister keeps its own records "
			               "there", spec->grants[i].host);
	return 0;
}
