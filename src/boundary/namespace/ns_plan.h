/* ns_plan.h - what the parts of the namespace boundary tell one another.
 *
 * The supervisor prepares a plan, clones a child into the new namespaces, and
 * the child builds the cell from it and becomes init. */
#ifndef CLOISTER_NS_PLAN_H
#define CLOISTER_NS_PLAN_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "boundary/boundary.h"

struct err;

/* The scratch space stands where /tmp will; a folder of its own on top of it hides
 * it.  (To unmount it instead would cost a wait for every processor.) */
#define NS_SCRATCH "tmp"
#define NS_RANGE_FIRST 0x70000000u      /* beyond what distributions hand out */
#define NS_RANGE_SIZE 0x10000u

struct ns_plan {
	const struct cell_spec *spec;
	const struct boundary_ground *ground;
	bool range;                     /* ids mapped to an own range (real root only) */
	uid_t base;                     /* the range's first id */
	int channel;                    /* the child's end */
	int init_exe;
	/* Grants that only real root could prepare: detached, id-mapped mounts; -1
	 * where the child opens the path itself. */
	int grants[CELL_GRANTS_MAX];
	uint16_t not_in[CELL_GRANTS_MAX];       /* a bit for each of ground->hidden that the grant
	                                         * does not bring, because it is on another mount */
	int rootfs;                     /* likewise */
	int changes;                    /* likewise, the folder that keeps changes */
};

/* ns_ids.c: who is who on both sides. */
void ns_choose_ids(struct ns_plan *plan);
bool ns_has_range(void);                /* whether this process is real root */
int ns_write_maps(const struct ns_plan *plan, pid_t child, struct err *err);
/* Detached mounts of the grants, with their owners shown as the agent. */
int ns_prepare_grants(struct ns_plan *plan, struct err *err);

/* ns_child.c: the child, from clone to init.  Never returns. */
_Noreturn void ns_child_run(struct ns_plan *plan);

/* ns_root.c: the cell's file system; called in the child, leaves it inside the
 * new root.  The scratch space and the overlays' upper folders are told to the
 * supervisor. */
int ns_build_root(const struct ns_plan *plan, struct err *err);
/* ns_cover.c: hide cloister's own folders in grant I, for good. */
int ns_cover_own(const struct ns_plan *plan, int root, size_t i, struct err *err);
bool ns_keeps_changes(void);            /* see boundary.h */
/* Tell the supervisor of a folder: INIT_SCRATCH, or INIT_UPPER of GRANT. */
int ns_send_folder(const struct ns_plan *plan, uint32_t type, size_t grant, int folder,
                   struct err *err);

/* ns_net.c: capture, with a policy; in the child, which is root of its network namespace.
 * The gate's sockets are told to the supervisor. */
int ns_make_net(const struct ns_plan *plan, struct err *err);
/* Without a policy: loopback, and a resolver's socket, which is told to the supervisor. */
int ns_make_no_net(const struct ns_plan *plan, struct err *err);
/* Capture without a gate, to see whether it can be done: 0 or a negative errno. */
int ns_try_net(bool *ret_ipv6);

/* ns_etc.c: the generated /etc in the folder ROOT. */
int ns_make_etc(int root, const struct cell_spec *spec, struct err *err);

/* ns_home.c: the files of the agent's home, before any grant is attached. */
int ns_make_home(int root, const struct cell_spec *spec, struct err *err);

/* ns_trust.c: the cell's certificate authority in its /etc; with a policy only. */
extern const char *const ns_trust_folders[];    /* beneath /etc; ends with NULL */
int ns_make_trust(int root, const struct ns_plan *plan, struct err *err);

/* ns_ssh.c: what ssh needs in the folder ROOT, which is the working folder: the keys of hosts,
 * and the socket of an agent, which is told to the supervisor.  With known_hosts only. */
int ns_make_ssh(int root, const struct ns_plan *plan, struct err *err);

/* ns_mount.c: small steps. */
#define NS_QUIET (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
/* A new file system, detached; OPTIONS are pairs of key and
 * value (NULL for a flag), ended by NULL. */
int ns_new_fs(const char *type, const char *const *options, unsigned attrs,
              struct err *err);
/* A detached copy of the mounts at a path; no link in it is followed. */
int ns_copy_tree(int dir, const char *path, struct err *err);
int ns_set_attrs(int mount, unsigned attrs, bool below_too, struct err *err);
int ns_attach(int mount, int dir, const char *path, struct err *err);
/* The mounts at FROM, restricted by ATTRS, at the existing DIR/PATH. */
int ns_bind(int from_dir, const char *from, int dir, const char *path, unsigned attrs,
            struct err *err);
/* Open PATH beneath ROOT as the cell will see it, links included: a descriptor, or -1 and errno. */
int ns_open_inside(int root, const char *path);
/* Open PATH beneath ROOT as the cell will see it, links included, making missing
 * folders (a file for the last part when FILE) on the cell's own file systems only.
 * What is made in the scratch space belongs to OWNER; with -1, to whoever makes it. */
int ns_make_target(int root, const char *path, bool file, uid_t owner, struct err *err);
#endif
