/* oci.h - a cell whose init runs in a container that an OCI runtime made, in namespaces.
 *
 * The runtime takes init's place in a namespace cell: it is root of that cell's user namespace and nobody
 * outside, has the cell's network, and of the host's files the programs.  The tree that an ordinary cell
 * would have as its root, with the grants and the merged workspaces, is the root of a bundle.  A keeper, the
 * first process of the cell, drives the runtime by its command line as the OCI runtime specification has it:
 * create, state, start, delete.  The container's first process is cloister-init, whose standard input
 * is the agent port.
 *
 * Everything that a runtime makes is in the namespaces and the cgroup of the cell: it ends with the keeper. */
#ifndef CLOISTER_OCI_H
#define CLOISTER_OCI_H
#include <stdbool.h>
#include <stddef.h>

#include "boundary/namespace/ns_plan.h"

/* In the keeper's root, without the first "/". */
#define OCI_TREE "cell"                 /* the container's root */
#define OCI_BUNDLE "bundle"
#define OCI_RUNTIME "runtime"           /* the program */
#define OCI_STATE "run"
#define OCI_NET "/" OCI_STATE "/net"    /* the captured network */
/* In the container's root. */
#define OCI_INIT "run/cloister-init"
#define OCI_SSH "run/cloister"          /* the folder of CELL_NET_SSH_AGENT */

#define OCI_START_MS 60000
#define OCI_END_MS 5000

struct oci_runtime {
	const char *name;               /* as CELL_RUNTIME has it */
	bool is_sandbox;                /* a kernel of its own: the host's does not see the agent's calls */
	bool shows_tree;                /* the bundle's root, with everything that is mounted in it */
	bool keeps_flags;               /* of the root's mount, unless it is to make that read-only */
	/* Options before the command; each list is tried in turn until one can make the container.  NULL ends
	 * a list, and a list without options ends the lists. */
	const char *const (*options)[8];
};

/* What the keeper is given. */
struct oci {
	const struct oci_runtime *runtime;
	const struct cell_spec *agents; /* the cell as it was asked for */
	int program;                    /* a detached mount that only real root can make; -1: by path */
	int init;                       /* cloister-init, to be read */
	int log;                        /* the runtime's standard error */
};

/* oci_runtimes.c */
const struct oci_runtime *oci_find_runtime(const char *kind);
/* Whether init gives the agent its user id, because the container has one user, which is root: an ordinary
 * user's has no other, and a sandbox's file server makes files as root, which no grant of root's cells has. */
bool oci_names_agent(const struct cell_spec *agents);

/* oci_root.c: the container's tree, and the keeper's root around it, which is the root afterwards. */
int oci_build_root(const struct ns_plan *plan, const struct oci *oci, struct err *err);

/* oci_config.c: writes the bundle's config.json into the folder BUNDLE. */
int oci_write_config(const struct ns_plan *plan, const struct oci *oci, int bundle, struct err *err);

/* oci_keeper.c: builds the cell around the calling process, and keeps the container: see ns_inside. */
int oci_build(const struct ns_plan *plan, struct err *err);

/* oci_log.c: the runtime's output.  explain() adds what it has said to ERR. */
int oci_make_log(struct err *err);
void oci_explain(int log, const char *runtime, struct err *err);
#endif
