/* docker.c - the target `docker`: cells of this machine and user whose walls are containers of an engine.
 *
 * The cell document names the boundary, so a cell is started, followed and ended as on the target `local`. */
#include "base/err.h"
#include "boundary/boundary.h"
#include "target/local_parts.h"

static int
docker_check(struct err *err)
{
	int r = boundary_docker.able(false, err);

	return r < 0 ? err_wrap(err, "the target docker") : target_local.check(err);
}

const struct target target_docker = {
	.name = TARGET_DOCKER,
	.check = docker_check,
	LOCAL_COMMON
};
