/* landlock.h - the second layer: repeats the restrictions of the cell's mounts as a Landlock
 * ruleset.
 *
 * Everything beneath the cell's root may be read and run.  Existing device nodes and /proc may be
 * written; otherwise only the given paths may be changed.  No device node can be made anywhere.
 * Signals and abstract sockets stay in the domain: a process that is to reach the agent's processes
 * must have inherited it.
 *
 * Rights that this kernel does not know are left out.  If there is no Landlock, or only one too old
 * to be of use, *ret_fd is -1, and that is success. */
#ifndef CLOISTER_LANDLOCK_H
#define CLOISTER_LANDLOCK_H
#include <stdbool.h>

struct err;

enum landlock_kind {
	LANDLOCK_FILES_TOO,
	LANDLOCK_SCOPES_ONLY,       /* nested profile: file rights would forbid every mount */
	LANDLOCK_SUPERVISOR,        /* no scopes: it signals the cell; may make whiteouts,
	                             * which are formally device nodes */
};

/* The kernel's Landlock ABI, 0 if there is none. */
int landlock_abi(void);
/* WRITABLE: NULL-terminated paths, seen from the current root; those that do not
 * exist are left out.  LANDLOCK_SCOPES_ONLY ignores them.  The caller owns *ret_fd, which is close-on-exec. */
int landlock_make(enum landlock_kind kind, const char *const *writable, int *ret_fd,
                  struct err *err);
/* For a helper that only reads files beneath READABLE, and makes, changes and removes files and folders
 * beneath WRITABLE, and symbolic links with LINKS.  Both end with NULL, or are NULL: none.  It cannot listen on
 * new TCP ports, and cannot connect unless it DIALS. */
int landlock_make_reader(const char *const *readable, const char *const *writable, bool links, bool dials, int *ret_fd,
                         struct err *err);
/* For a program that reads and runs files beneath READABLE, changes those beneath WRITABLE that exist, and
 * has no network.  Both end with NULL. */
int landlock_make_program(const char *const *readable, const char *const *writable, int *ret_fd,
                          struct err *err);
/* For a program that fills the folder DIR, and reads nothing else: files, folders, links, pipes and whiteouts,
 * but no devices that are dangerous.  *ret_fd is -1 if the kernel cannot allow links between folders. */
int landlock_make_filler(int dir, int *ret_fd, struct err *err);
/* For a cell without namespaces of its own: what it may reach at all.  All lists end with NULL.  The agent reads and runs
 * what is beneath READABLE, reads what is beneath LOOKS, uses the DEVICES, and changes what is beneath WRITABLE, but for
 * device nodes.  Signals stay in the domain.  An agent that IS_AGENT binds and connects nothing, and its abstract sockets stay in the
 * domain.  Otherwise it is the agent's porter, who may also write what it LOOKS at, and remove a folder
 * that lies in FOLDER.  -ENOTSUP if the kernel's
 * Landlock does not do for that. */
struct landlock_cell {
	const char *const *readable, *const *looks, *const *devices, *const *writable;
	const char *folder;
	bool is_agent;
};
int landlock_make_cell(const struct landlock_cell *cell, int *ret_fd, struct err *err);
#define LANDLOCK_LEAST 3                /* truncation */
#define LANDLOCK_HAS_SCOPES 6           /* signals, too */
/* Forbids nothing but to look into processes outside of its domain, in /proc or with ptrace(2), unless they inherit it.
 * -ENOTSUP if the kernel has no Landlock that can do so. */
int landlock_make_apart(int *ret_fd, struct err *err);
/* Forbids to execute any file but those that landlock_allow_execute() adds.  A file in memory can be executed all the same:
 * the kernel does not ask Landlock about it.  -ENOTSUP as above. */
int landlock_make_execute(int *ret_fd, struct err *err);
/* If that fails, the file stays forbidden. */
void landlock_allow_execute(int ruleset, int program);
/* Also lets the ruleset RULESET run and read the file PROGRAM, if it restricts that at all. */
void landlock_allow_program(int ruleset, int program);
/* Restricts the calling thread; no_new_privs must be set.  FD -1 does nothing. */
int landlock_enforce(int fd, struct err *err);
#endif
