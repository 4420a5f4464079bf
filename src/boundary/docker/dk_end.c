/* dk_end.c - ends and clears containers without their supervisors. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup.h"
#include "boundary/docker/dk.h"
#include "cell/cell_steer.h"

#define UNKNOWN_S 60                    /* a younger container may yet get its runtime folder */

static int
read_engine(int entry, char **ret_engine)
{
	return read_file_at(entry, CELL_ENGINE, ENGINE_PATH_MAX, ret_engine, NULL, NULL);
}

/* A group frozen by version 1 dies only when it is thawed.  Podman would remove the container and leave its processes. */
static void
kill_frozen(const char *engine, const char *name)
{
	OWN(cgroup_freep) struct cgroup *group = NULL;
	OWN(closep) int init = -1;
	char id[ENGINE_CONTAINER_LEN + 1];
	unsigned carries = 0;
	pid_t pid;

	if (engine_find_process(engine, name, id, &pid, NULL) <= 0)
		return;
	init = (int)syscall(SYS_pidfd_open, pid, 0);
	/* Only that container's processes are in a group of its name. */
	if (init < 0 || cgroup_adopt(pid, id, &group, &carries, NULL) < 0 || carries == 0)
		return;
	(void)syscall(SYS_pidfd_send_signal, init, SIGKILL, NULL, 0);
	(void)cgroup_freeze(group, false, NULL);
}

static int
remove_container(const char *engine, const char *name, struct err *err)
{
	kill_frozen(engine, name);
	return engine_remove(engine, name, err);
}

/* The container dies, frozen or not.  Its supervisor is spared, because it still has to keep the cell's changes. */
static int
remove_by(int dir, const struct cell_entry *entry, const struct cell_steer_who *who, struct err *err)
{
	OWN(freep) char *engine = NULL;
	char name[DK_NAME_SIZE];
	int r = read_engine(dir, &engine);

	if (r < 0)
		return r;
	r = engine_has(engine, dk_name(name, entry->id), err);
	if (r <= 0)
		return r;
	ns_leave_mark(dir, who);
	r = remove_container(engine, name, err);
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
	return remove_container(engine, dk_name(name, id), NULL) < 0 ? -EBUSY : r;
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
		(void)remove_container(u->of->container->engine, dk_name(name, id), NULL);
}

void
dk_clear_unknown(const struct walls *w, bool (*is_known)(void *arg, const char *id), void *arg)
{
	struct unknown u = { w, is_known, arg, time(NULL) - UNKNOWN_S };
	/* Those of another folder are known there. */
	OWN(freep) char *folder = data_runtime_path(NULL);
	const struct engine_label here = { DK_FOLDER, folder };

	if (folder != NULL)
		(void)engine_list(w->container->engine, DK_LABEL, &here, clear_one, &u, NULL);
	cgroup_clear_forgotten(w->container->own, w->id, is_known, arg);
}
