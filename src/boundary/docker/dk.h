/* dk.h - a cell whose walls are a container of an engine, Docker's or Podman's.
 *
 * The engine makes the container with no network, no rights and its own limits, and starts cloister-init in it, which
 * waits.  A process of the supervisor's then enters the container's namespaces.  It builds there the file system that
 * every cell has, with the image as its programs, and makes it the container's root.  The network is captured from
 * outside too.  Only then the agent starts.
 *
 * The supervisor gives up the rights to end such a container.  A warden has them: a process that kills it on request,
 * and removes it at the end or once the supervisor is gone. */
#ifndef CLOISTER_DK_H
#define CLOISTER_DK_H
#include <sys/types.h>

#include "boundary/docker/engine.h"
#include "boundary/namespace/ns_plan.h"
#include "boundary/namespace/ns_walls.h"

#define DK_NAME_SIZE 32
#define DK_LABEL "io.cloister.cell"
#define DK_FOLDER "io.cloister.runtime"  /* the label with the runtime folder of its operator */

/* As init sees them, until it has another root. */
#define DK_INIT "/dev/.cloister-init"
#define DK_PORT "/dev/.cloister-port"

struct dk_container {
	const char *engine;             /* its socket; borrowed from the cell's description, or owned by others */
	char name[DK_NAME_SIZE];
	char id[ENGINE_CONTAINER_LEN + 1];
	struct cgroup *own;             /* the warden's group, and the anchor of the egress helpers' */
	int warden;                     /* a socket; -1: none yet */
	pid_t warden_pid;
	int userns;                     /* the container's, if it has one of its own; else -1 */
	uid_t base;                     /* root outside of who is root inside */
};

/* "cloister-ID"; returns NAME. */
const char *dk_name(char name[DK_NAME_SIZE], const char *id);

/* dk_describe.c: the container as the API takes it; the caller owns the text.  APART: Podman gives it a user namespace
 * with ids that nobody else has.  NULL: no memory. */
char *dk_describe(const struct cell_spec *spec, const char *init, const char *port, bool apart);

/* dk_enter.c: builds the cell's file system in the container, and sends what the supervisor keeps to w->channel.
 * Returns once it is done. */
int dk_build(const struct cell_spec *spec, const struct boundary_ground *ground, struct walls *w, struct err *err);
/* Opens a namespace of the container, which must not be the caller's own. */
int dk_open_namespace(pid_t pid, const char *kind, int *ret_fd, struct err *err);

/* dk_warden.c */
int dk_start_warden(struct walls *w, struct err *err);
/* Kills the container; does not wait. */
void dk_warden_kill(const struct walls *w);
/* Removes it, and waits for that: -EBUSY if it is not gone. */
int dk_warden_remove(struct walls *w);

/* dk_end.c, dk_examine.c: see boundary.h. */
int dk_halt(int runtime, const struct cell_entry *entry, int socket, const struct cell_steer_who *who, struct err *err);
int dk_clear(const struct walls *w, int entry, const char *id);
void dk_clear_unknown(const struct walls *w, bool (*is_known)(void *arg, const char *id), void *arg);
void dk_examine(struct findings *f);
int dk_able(bool emulated, struct err *err);
#endif
