/* ns_plan.h - the plan that the parts of the namespace boundary share.
 *
 * The supervisor prepares a plan and clones a child into the new namespaces.  The child builds the
 * cell from the plan and becomes init. */
#ifndef CLOISTER_NS_PLAN_H
#define CLOISTER_NS_PLAN_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "boundary/boundary.h"
#include "confine/filter.h"
#include "confine/mounts.h"

struct cgroup;
struct err;

#define NS_RANGE_FIRST 0x70000000u      /* beyond the ranges that distributions assign */
#define NS_RANGE_SIZE 0x10000u

struct ns_plan;

/* What runs in the namespaces instead of init, and has init within it: a virtual machine, or the keeper of a
 * container. */
struct ns_inside {
	bool is_container;
	/* Builds the rest of the cell around the calling process, and becomes what runs in it: see
	 * ns_build(). */
	int (*build)(const struct ns_plan *plan, struct err *err);
	/* Sends what init's side needs to know first.  STREAM is the supervisor's end.  NULL: there is no
	 * init, and the walls get no port. */
	int (*greet)(const struct ns_plan *plan, int stream, struct err *err);
	void *arg;                      /* the maker's own */
	int64_t until_ms;               /* of io_now_ms(): init is ready by then, or the start has failed */
	/* In walls that have waited: builds the part that depends on the cell, in a process of its own, and
	 * becomes that.  Returns only with an error.  Otherwise NULL. */
	int (*join)(const struct ns_plan *plan, struct err *err);
};

struct ns_plan {
	const struct cell_spec *spec;
	const struct ns_inside *inside; /* NULL: init itself */
	const struct boundary_ground *ground;
	const struct cgroup *cgroup;    /* the cell's */
	bool pids_limited;              /* it limits processes */
	bool range;                     /* the cell has an id range of its own (real root only) */
	uid_t base;                     /* the range's first id */
	int channel;                    /* the child's end; -1 in a virtual machine */
	int stream;                     /* init's end of a byte stream, or -1: init gets CHANNEL */
	int init_exe;
	int forker;                     /* in the guest of a machine that can be copied: init's end of a socket; else 0 */
	int *ssh;                       /* where the SSH agent's socket is put for init, which gets STREAM; or NULL */
	/* Grants that only real root can prepare: detached, id-mapped mounts; -1 if the child opens
	 * the path itself. */
	int grants[CELL_GRANTS_MAX];
	uint16_t not_in[CELL_GRANTS_MAX];       /* a bit for each of ground->hidden that the grant
	                                         * lacks, because it is on another mount */
	int rootfs;                     /* likewise */
	int layers[CELL_LAYERS_MAX];    /* likewise, of an image */
	bool keeps_proc;                /* the /proc of the namespaces that it is in stays */
	bool notifies;                  /* the agent's filter does; known once the network has been joined */
	bool has_etc;                   /* the generated /etc is in the root file system already */
	int changes;                    /* likewise, for the folder that keeps changes */
	pid_t mapper;                   /* a dead process that made an id map; 0: none */
	int bundle, scratch;            /* likewise, for a container: its root, and the scratch space */
};

/* ns_ids.c: user and group ids inside and outside the cell. */
void ns_choose_ids(struct ns_plan *plan);
bool ns_has_range(void);                /* whether this process is real root */
int ns_write_maps(const struct ns_plan *plan, pid_t child, struct err *err);
/* There are no mounts in it yet. */
void ns_clear_plan(struct ns_plan *plan);
/* Detached mounts of the layers of an image, with their owners as the cell has them. */
int ns_prepare_layers(struct ns_plan *plan, struct err *err);
/* Waits for the end of *MAPPER, if there is one. */
void ns_reap_mapper(pid_t *mapper);
/* Detached mounts of the grants, with their owners shown as the agent. */
int ns_prepare_grants(struct ns_plan *plan, struct err *err);

/* ns_child.c: the child, from clone to init.  Never returns. */
_Noreturn void ns_child_run(struct ns_plan *plan);
/* ns_wait.c: a process that enters the namespaces of waiting walls, whose first process is INIT, and calls
 * inside->join().  Never returns. */
_Noreturn void ns_join_run(struct ns_plan *plan, int userns, int netns, pid_t init);
/* From here on the calling process has the ids of root in its namespaces. */
int ns_become_inner_root(const struct ns_plan *plan, struct err *err);
/* Reports why the cell could not be made, and ends. */
_Noreturn void ns_child_fail(const struct ns_plan *plan, const struct err *err);
/* Builds the cell around the calling process, from its kernel settings on, and becomes init.  Returns
 * only with an error. */
int ns_build(const struct ns_plan *plan, struct err *err);
/* The steps of it that another kind of walls needs too. */
int ns_set_kernel(const struct ns_plan *plan, struct err *err);
int ns_join_net(const struct ns_plan *plan, bool *ret_notifies, struct err *err);
/* Threads included.  With a virtual machine, the monitor's and the file server's: the guest limits the
 * agent's. */
uint64_t ns_most_processes(const struct cell_spec *spec);
int ns_set_limits(const struct ns_plan *plan, struct err *err);
/* The agent's filter, and where it may always write; ends with NULL. */
enum filter_profile ns_choose_filter(const struct cell_spec *spec);
extern const char *const ns_writable[];
/* ns_rlimits.c: sets the resource limits of the calling process: MOST processes of its user.  SPARES: its user is
 * the operator, to whom it leaves some descriptors. */
int ns_limit_self(uint64_t most, bool spares, bool notifies, struct err *err);
/* The same for the limits of an engine's container. */
int ns_limit_as_bundle(const struct cell_bundle *bundle, struct err *err);
int ns_drop_everything(const struct ns_plan *plan, struct err *err);

/* ns_root.c: builds the cell's file system.  Called in the child, which is inside the new root
 * afterwards.  Sends the scratch space and the overlays' upper folders to the supervisor. */
int ns_build_root(const struct ns_plan *plan, struct err *err);
/* The steps of it.  ROOT is mounted over "/" and the working folder; it has at most SIZE bytes. */
int ns_begin_root(const char *size, bool is_image, int *ret_root, struct err *err);
/* And /etc.  With an image, *root becomes another. */
int ns_show_programs(const struct ns_plan *plan, int *root, struct err *err);
int ns_show_host(int root, struct err *err);    /* the host's programs alone */
int ns_make_dev(int root, struct err *err);
int ns_make_devices(int root, struct err *err); /* /dev alone */
int ns_make_proc(const struct ns_plan *plan, int root, struct err *err);
/* The same in two steps: a /proc that is mounted nowhere, and its place in ROOT, which is the working folder. */
int ns_new_proc(const struct ns_plan *plan, struct err *err);
int ns_attach_proc(const struct ns_plan *plan, int proc, int root, struct err *err);
/* Path I of those that it masks, without the first "/"; NULL: there are no more. */
const char *ns_masked(size_t i);
/* /tmp, /var/tmp, /dev/shm and the agent's home. */
int ns_make_scratch(const struct ns_plan *plan, int root, int *ret_scratch, struct err *err);
int ns_new_scratch(const struct ns_plan *plan, struct err *err);        /* a detached mount */
int ns_attach_grants(const struct ns_plan *plan, int root, int scratch, struct err *err);
int ns_enter_root(int root, struct err *err);
/* Detaches the root that was begun last, which is the working folder, from "/", where another one is to be
 * begun.  ns_enter_root() detaches what is mounted on top at "/", and that has to be the host's tree. */
int ns_leave_tree(struct err *err);
int ns_pivot(int root, struct err *err);        /* leaves the host's tree and detaches it */
/* ns_entries.c: whether the entry NAME of a root file system is shown as it is, if it is a folder or a link.
 * Cloister provides the others itself, or a cell has none; /etc is beneath cloister's own files. */
bool ns_is_programs(const char *name);
/* Where the parts of an image are mounted meanwhile.  It is a folder of the host's that a cell's child does not
 * need, and goes with the host's tree. */
#define NS_IMAGE_PARTS "/sys"
/* ns_image.c: the first makes room for the layers of an image in ROOT, and makes *root the folder for the files
 * above them.  The second makes *root the root of the cell: the layers with those files on top.  In both, *root is
 * the working folder afterwards.  The third makes /dev read-only, once it is complete. */
int ns_begin_image(int *root, struct err *err);
int ns_compose_image(const struct ns_plan *plan, int *root, struct err *err);
int ns_seal_image(int root, struct err *err);
/* ns_build.c: makes *root, which has no /etc yet, the root of a cell that makes a layer.  It has everything then. */
int ns_build_image_root(const struct ns_plan *plan, int *root, struct err *err);
/* For other processes: makes the merged LAYERS, the lowest first, the working folder.  Needs a mount namespace of
 * its own. */
int ns_enter_layers(char **layers, struct err *err);
/* ns_cover.c: hides cloister's own folders in grant I, for good. */
int ns_cover_own(const struct ns_plan *plan, int root, size_t i, struct err *err);
/* Sends descriptors to the supervisor: INIT_SCRATCH, INIT_UPPER or INIT_SSH.  NUMBER is the
 * first field of INIT_UPPER. */
int ns_send_fds(const struct ns_plan *plan, uint32_t type, uint32_t number, const int *fds, size_t n_fds,
                struct err *err);

/* ns_bundle.c: the file system of a container.  The first prepares what only real root can: LAYERS are
 * id-mapped mounts, which are used up.  The second is ns_build_root() for it. */
int ns_prepare_bundle(struct ns_plan *plan, const int *layers, struct err *err);
int ns_build_bundle(const struct ns_plan *plan, struct err *err);

/* ns_etc.c: makes the generated /etc in ROOT, which is the working folder and has no mounts yet. */
int ns_make_etc(int root, const struct cell_spec *spec, struct err *err);
/* Writes the names of hosts and of the resolver over those of the folder ETC. */
int ns_replace_names(int etc, const struct cell_spec *spec, struct err *err);

/* ns_home.c: makes the files of the agent's home, before any grant is attached. */
int ns_make_home(int root, const struct cell_spec *spec, struct err *err);
/* The same in the folder HOME; AGENT owns them. */
int ns_fill_home(int home, const struct cell_spec *spec, uid_t agent, struct err *err);

/* ns_trust.c: the cell's certificate authority in its /etc; with a policy only. */
extern const char *const ns_trust_folders[];    /* beneath /etc; ends with NULL */
int ns_make_trust(int root, const struct ns_plan *plan, struct err *err);
/* The parts of it: waits at PIPE for the authority, which was begun before the cell; opens the bundle that
 * the cell's own programs have in their /etc (-1: none); and writes the authority's certificate into the new file CA, and all
 * that the cell trusts into BUNDLE, with what SYSTEM (-1: nothing) has. */
#define NS_SUBJECT_HASH 8
int ns_await_trust(int pipe, char ret_hash[NS_SUBJECT_HASH + 1], struct err *err);
int ns_open_bundle(const struct ns_plan *plan);
/* The same for the files of an ETC that has them, which get another authority. */
int ns_renew_trust(int etc, const struct boundary_trust *trust, int system, struct err *err);
int ns_write_trust(const struct boundary_trust *trust, int ca, int bundle, int system, struct err *err);

/* ns_ssh.c: makes what ssh needs in the folder ROOT, which is the working folder: the keys of
 * hosts, and the socket of an agent, which is sent to the supervisor or kept for init: see plan->ssh.
 * Only with known_hosts. */
int ns_make_ssh(int root, const struct ns_plan *plan, struct err *err);
#endif
