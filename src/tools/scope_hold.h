/* scope_hold.h - the scopes of locked tools, as the policy that holds a server's cell while it works for them.
 *
 * Pure. */
#ifndef CLOISTER_TOOLS_SCOPE_HOLD_H
#define CLOISTER_TOOLS_SCOPE_HOLD_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy_tools.h"

struct buf;
struct err;

#define SCOPE_HOLD_MAX (1u << 20)
/* How the reason of a refusal begins; the tool's name follows. */
#define SCOPE_HOLD_BROKEN "annotation broken: outside the scope of "
/* In place of that name. */
#define SCOPE_HOLD_NO_TOOL "any call"
#define SCOPE_HOLD_START "`start`"
/* In place of the list `secrets`: each rule has those that its own `uses` names. */
#define SCOPE_HOLD_OWN_USES "own"

/* Append a policy that allows what the scopes of N TOOLS allow together; 0: nothing.  The requests of each use its own
 * secrets alone; if rules of several fit a request, it uses those of the scope with the most.  A request outside is denied
 * with a reason that begins with "annotation broken".  -ENOENT: one of them has no scope, and the server's own policy
 * holds. */
int scope_hold_put(struct buf *b, const struct policy_tool *const *tools, size_t n, struct err *err);
/* How scopes bound the paths that a server's cell is granted. */
struct scope_hold {
	const struct policy_tool *const *tools;
	size_t n;
	const char *folder, *home;      /* of the operator, for relative paths */
};
enum scope_hold_cover {
	SCOPE_HOLD_ALL,                 /* the scope of a tool has PATH or a folder above it, or does not state paths of
	                                 * this kind */
	SCOPE_HOLD_PART,                /* only paths beneath it */
	SCOPE_HOLD_NONE,
};
/* Whether scopes let a call read or write the absolute PATH.  A scope without `read` bounds no reading; one without
 * `write` allows no writing. */
enum scope_hold_cover scope_hold_reads(const struct scope_hold *hold, const char *path);
enum scope_hold_cover scope_hold_writes(const struct scope_hold *hold, const char *path);
/* Append `watch` to that policy: a write to a path of SERVER's that no scope of HOLD has freezes the cell, and a program
 * that none lists is a breach.  SERVER is NULL for a cell whose grants are those of the scope. */
int scope_hold_put_watch(struct buf *b, const struct scope_hold *hold, const struct policy_tools_server *server,
                         struct err *err);
/* Append POLICY, a server's own, as it bounds a cell that works for the tools of HOLD: of its secrets, those that the
 * scope of one of them names.  All of them, if one has no scope. */
int scope_hold_put_policy(struct buf *b, const struct scope_hold *hold, const char *policy, struct err *err);
/* Append the `secrets` of POLICY that scopes name, as a key of the policy that scope_hold_put() wrote: a cell gets the
 * secrets that all its policies give. */
int scope_hold_put_secrets(struct buf *b, const struct scope_hold *hold, const char *policy, struct err *err);
/* Append the `programs` that scopes list, likewise.  Nothing, if one of them lists none: it may start any. */
int scope_hold_put_programs(struct buf *b, const struct scope_hold *hold, struct err *err);
/* How a cell that works for all of them is held to `programs`. */
enum scope_hold_programs {
	SCOPE_HOLD_PROGRAMS_HELD,       /* to the same list in each scope, or no scope has one */
	SCOPE_HOLD_PROGRAMS_SHARED,     /* to the lists of all of them */
	SCOPE_HOLD_PROGRAMS_ANY,        /* not at all: one of them lists none */
};
enum scope_hold_programs scope_hold_programs(const struct scope_hold *hold);
/* How long the scope lets a call take, in milliseconds; 0: there is no scope. */
uint64_t scope_hold_time(const struct policy_tool *tool);
/* The locked tools of the server.  At most POLICY_TOOLS_LOCKED_MAX. */
size_t scope_hold_tools_of(const struct policy_tools *tools, const char *server,
                           const struct policy_tool *ret_tools[POLICY_TOOLS_LOCKED_MAX]);
#endif
