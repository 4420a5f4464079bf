/* data.h - the operator's data folder: what is kept when no cell runs.
 *
 *   CLOISTER_DATA_DIR, or as root /var/lib/cloister, or $XDG_DATA_HOME/cloister, or
 *   ~/.local/share/cloister */
#ifndef CLOISTER_DATA_H
#define CLOISTER_DATA_H
#include <stdbool.h>

struct err;

/* Its parts: every NAME below is one of them, or in one. */
struct data_part {
	const char *name, *what;        /* WHAT is in it, for people */
};
extern const struct data_part data_parts[];     /* ends with a NULL name */

/* The path of the folder itself; otherwise as data_path(). */
char *data_top(struct err *err);
/* The path of NAME in it, whether it is there or not; the caller owns it.  NULL: there is
 * no home to keep it in. */
char *data_path(const char *name, struct err *err);
/* The folder NAME in it: a descriptor.  Without MAKE -ENOENT where there is none.  Refused
 * if others could so much as look into it. */
int data_folder(const char *name, bool make, struct err *err);

/* Where the state folder is, whether it is there or not: CLOISTER_STATE_DIR, or as root
 * /var/lib/cloister, or $XDG_STATE_HOME/cloister, or ~/.local/state/cloister.  The caller owns it. */
char *data_state_path(struct err *err);
/* Likewise the runtime folder: CLOISTER_RUNTIME_DIR, or as root /run/cloister, or
 * $XDG_RUNTIME_DIR/cloister, or /tmp/cloister-UID. */
char *data_runtime_path(struct err *err);
#endif
