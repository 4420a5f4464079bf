/* dk_end.c - ends and clears containers without their supervisors. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/docker/dk.h"
#include "cell/cell_steer.h"

#define UNKNOWN_S 60                    /* a younger container may yet get its runtime folder */

static int
read_engine(int entry, char **ret_engine)
{
	return read_file_at(entry, CELL_ENGINE, ENGINE_PATH_MAX, ret_engine, NULL, NULL);
}

/* The engine kills the container, frozen or not.  Its supervisor is spared, because it still has to keep the cell's
 * changes. */
static int
remove_by(int dir, const struct cell_entry *entry, const struct cell_steer_who *who, struct err *err)
{
	OWN(freep) char *engine = NULL, *groups = NULL;
	char name[DK_NAME_SIZE];
	int r = read_engine(dir, &engine);

	if (r < 0)
		return r;
	r = engine_has(engine, dk_name(name, entry->id), err);
	if (r <= 0)
		return r;
	ns_leave_mark(dir, who);
	r = engine_remove(engine, name, err);
	return r < 0 ? r : 1;
}

int
dk_halt(int runtime, const struct cell_entry *entry, int socket, const struct cell_steer_who *who, struct err *err)
{
	OWN(closep) int dir = openat(runtime, entry->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int r = dir < 0 ? -ENOENT : remove_by(dir, entry, who, err);

	/* There is no container yet, or none any more. */
	return r == -ENOENT ? ns_halt(runtime, entry, socket, who, err) : r;
}

int
dk_clear(const struct walls *w, int entry, const char *id)
{
	OWN(freep) char *engine = NULL;
	char name[DK_NAME_SIZE];
	int r = ns_clear(NULL, entry, id);

	(void)w;
	if (read_engine(entry, &engine) < 0)
		return r;
	return engine_remove(engine, dk_name(name, id), NULL) < 0 ? -EBUSY : r;
}

struct unknown {
	const struct walls *of;
	bool (*is_known)(void *arg, const char *id);
	void *arg;
	time_t before;
};

static void
clear_one(void *arg, const char *id, int64_t created_s)
{
	const struct unknown *u = arg;
	char name[DK_NAME_SIZE];

	if (cell_id_ok(id) && created_s < u->before && strcmp(id, u->of->id) != 0 && !u->is_known(u->arg, id))
		(void)engine_remove(u->of->container->engine, dk_name(name, id), NULL);
}

void
dk_clear_unknown(const struct walls *w, bool (*is_known)(void *arg, const char *id), void *arg)
{
	struct unknown u = { w, is_known, arg, time(NULL) - UNKNOWN_S };

	(void)engine_list(w->container->engine, DK_LABEL, clear_one, &u, NULL);
	cgroup_clear_forgotten(w->container->own, w->id, is_known, arg);
}
