/* local.c - the target `local`: cells of this machine and user.
 *
 * `cloister run -d --doc` starts a cell.  The cell's entry in the state folder is the claim on its
 * id, and its supervisor holds a lock there while the cell lives. */
#include <limits.h>

#include "base/err.h"
#include "base/exe.h"
#include "base/own.h"
#include "target/local_parts.h"

static int
local_check(struct err *err)
{
	OWN(closep) int state = cell_state_open(true, err);
	char path[PATH_MAX];

	return state < 0 ? state : exe_find_cloister(path, err);
}

const struct target target_local = {
	.name = "local",
	.check = local_check,
	LOCAL_COMMON
};
