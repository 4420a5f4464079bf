/* source.h - where acts come from: eBPF with root's rights, notifications of the filter without.
 *
 * A source is made before the process locks itself down, and read from the loop afterwards. */
#ifndef CLOISTER_WITNESS_SOURCE_H
#define CLOISTER_WITNESS_SOURCE_H
#include "base/call.h"
#include "witness/act.h"

struct err;
struct loop;

enum witness_level { WITNESS_OFF, WITNESS_ACTS, WITNESS_FULL };

struct witness_cell {
	enum witness_level level;
	pid_t first;                    /* the cell's first process, as the witness sees it */
	uint64_t pid_namespace;         /* the inode of the cell's pid namespace */
	/* The listener of the agent's filter and its enum filter_profile, if there is one already; borrowed.  -1: see
	 * hear(). */
	int listener;
	/* The paths in the cell whose reading is of interest; ends with NULL.  NULL: none. */
	char *const *grants;
	uint32_t filter;
	struct call_set calls;          /* that the agent's policy takes away */
	bool holds_programs;            /* the policy lists the programs that may be executed */
};

struct witness_taker {
	void (*take)(void *arg, const struct act *act);
	/* Optional, before take(): a process is about to connect from the port LOCAL. */
	void (*connects)(void *arg, uint32_t pid, uint16_t local);
	/* The source has failed for good. */
	void (*failed)(void *arg, const char *why);
	void *arg;
};

struct witness_source {
	const char *name;               /* "ebpf", "notify" */
	/* What it cannot see, for people; ends with NULL. */
	const char *const *unseen;
	/* Whether it works here: 0, or ERR says why not.  Leaves nothing behind. */
	int (*able)(struct err *err);
	/* Does ahead what needs no cell: 0, or ERR says why the source does not work here. */
	int (*prepare)(struct err *err);
	/* Begins; from then on no act is missed unannounced.  -ENOTSUP: it does not work here. */
	int (*open)(const struct witness_cell *cell, void **ret_state, struct err *err);
	/* Called after the lockdown: acts come from now on. */
	int (*watch)(void *state, struct loop *loop, const struct witness_taker *taker, struct err *err);
	/* Reports what is still to be reported: the cell has ended. */
	void (*finish)(void *state);
	/* The agent's filter is loaded: takes LISTENER.  Also after the lockdown.  NULL: the source needs none. */
	int (*hear)(void *state, int listener, uint32_t filter, struct err *err);
	void (*close)(void *state);
};

extern const struct witness_source witness_bpf, witness_notify;
#endif
