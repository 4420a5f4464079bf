/* landlock.h - the second layer: what the cell's own mounts already say, said
 * again to the kernel in another way.
 *
 * Everything beneath the cell's root may be read and run, device nodes and /proc
 * may be written as they stand, and only the paths given may be changed.  No device
 * node can be made anywhere.  Signals and abstract sockets stay in the domain: who
 * is to reach the agent's processes must have inherited it.  Rights that this kernel
 * does not know are left out; where there is no Landlock, or one too old to be of
 * use, *ret_fd is -1, and that is success. */
#ifndef CLOISTER_LANDLOCK_H
#define CLOISTER_LANDLOCK_H
#include <stdbool.h>

struct err;

enum landlock_kind {
	LANDLOCK_FILES_TOO,
	LANDLOCK_SCOPES_ONLY,       /* nested profile: file rights would forbid every mount */
	LANDLOCK_SUPERVISOR,        /* no scopes: it signals the cell; and whiteouts, which
	                             * are device nodes in name, can be made */
};

/* The kernel's Landlock ABI, 0 if there is none. */
int landlock_abi(void);
/* WRITABLE: NULL-terminated paths, seen from the current root; those that do not
 * exist are left out.  LANDLOCK_SCOPES_ONLY ignores them.  The caller owns *ret_fd, which is close-on-exec. */
int landlock_make(enum landlock_kind kind, const char *const *writable, int *ret_fd,
                  struct err *err);
/* For a helper that only reads: beneath the NULL-terminated READABLE, and no more; NULL:
 * nothing.  It takes no TCP connections on new ports, and makes none unless it DIALS. */
int landlock_make_reader(const char *const *readable, bool dials, int *ret_fd,
                         struct err *err);
/* Restrict the calling thread; no_new_privs must be set.  FD -1 does nothing. */
int landlock_enforce(int fd, struct err *err);
#endif
