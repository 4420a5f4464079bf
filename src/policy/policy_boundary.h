/* policy_boundary.h - which boundary a cell gets, and which OCI runtime: the names, and what several sources
 * make together.
 *
 * An option or an agent asks for a boundary; policies demand one.  A demand is a minimum.  A runtime belongs to
 * the boundary beside it: a stronger boundary replaces both.  Pure: only the caller knows the machine.
 * docs/boundaries.md explains the words. */
#ifndef CLOISTER_POLICY_BOUNDARY_H
#define CLOISTER_POLICY_BOUNDARY_H
#include <stdbool.h>

struct err;
struct node;

#define BOUNDARY_DEFAULT "namespace"
#define BOUNDARY_OCI "oci"
#define BOUNDARY_GVISOR "gvisor"
#define BOUNDARY_MICROVM "microvm"
#define BOUNDARY_DOCKER "docker"        /* beside the others: no stronger than the default */
#define BOUNDARY_PROCESS "process"      /* weaker than all others */
#define BOUNDARY_STREAM "stream"        /* in the mutant build alone */

#define POLICY_BOUNDARY_STRONGEST "strongest"   /* a word in the place of a name */

/* In order of strength; the default is first, and NULL ends the list. */
extern const char *const policy_boundary_names[];
/* -EINVAL, with an error that lists the names, if there is no such kind. */
int policy_boundary_check_name(const char *name, struct err *err);

#define POLICY_RUNTIME_MAX 255

/* What one source asks for.  All zero: nothing. */
struct policy_boundary {
	bool is_set;
	bool strongest;                 /* the strongest kind that this machine can run */
	unsigned least;                 /* the weakest kind that will do: an index of the names */
	bool by_process;                /* BOUNDARY_PROCESS.  Who asks gets it; as a demand, all kinds will do */
	bool by_engine;                 /* BOUNDARY_DOCKER, which is as strong as the default; only who asks has it */
	char runtime[POLICY_RUNTIME_MAX + 1];   /* the OCI runtime, a name or an absolute path; "": any */
};

/* A name, "strongest", or "strongest,NAME" where NAME will do, too. */
int policy_boundary_parse(const char *text, struct policy_boundary *ret_boundary, struct err *err);
/* The same from YAML: the text, or a list of its words. */
int policy_boundary_read(const struct node *node, struct policy_boundary *ret_boundary, struct err *err);
/* Whether B is a boundary that an OCI runtime makes. */
bool policy_boundary_has_runtime(const struct policy_boundary *b);
/* Adds the OCI runtime TEXT, a name or an absolute path, to B, which must be a boundary that has one. */
int policy_boundary_add_runtime(struct policy_boundary *b, const char *text, struct err *err);
/* The same from YAML. */
int policy_boundary_read_runtime(const struct node *node, struct policy_boundary *b, struct err *err);
/* Whether TEXT can be a runtime at all. */
int policy_runtime_check(const char *text, struct err *err);
#define POLICY_BOUNDARY_TEXT_MAX 31
/* As policy_boundary_parse() takes it; returns TEXT. */
const char *policy_boundary_text(const struct policy_boundary *b, char text[POLICY_BOUNDARY_TEXT_MAX + 1]);

/* Add a policy's DEMAND to *ALL: both hold.  Two runtimes of the same boundary are an error. */
int policy_boundary_raise(struct policy_boundary *all, const struct policy_boundary *demand, struct err *err);
/* Refuse what is ASKED for if it is weaker than DEMANDED on any machine, or another runtime of the same
 * boundary.  BY names who asks. */
int policy_boundary_check(const struct policy_boundary *asked, const char *by,
                          const struct policy_boundary *demanded, struct err *err);

/* 0 if this machine can run the strongest kind.  1 if it cannot, with an error that explains what is
 * missing.  Negative if that is not known. */
typedef int policy_boundary_can(void *arg, struct err *err);
/* The kind that a cell gets, as *ret_name.  Calls CAN at most once, and only if the cell may get the
 * strongest kind.  The result is 1 if it gets a weaker one because this machine cannot: then ERR has
 * CAN's error. */
int policy_boundary_resolve(const struct policy_boundary *asked, const char *by,
                            const struct policy_boundary *demanded, policy_boundary_can *can, void *arg,
                            const char **ret_name, struct err *err);
/* The runtime of a cell whose boundary became NAME, as *ret_runtime, which is of ASKED or DEMANDED; "": any. */
int policy_boundary_runtime(const struct policy_boundary *asked, const char *by,
                            const struct policy_boundary *demanded, const char *name, const char **ret_runtime,
                            struct err *err);
#endif
