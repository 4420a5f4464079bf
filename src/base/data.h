/* data.h - finds the operator's data folder, which persists when no cell runs.
 *
 * Its path is CLOISTER_DATA_DIR, or as root /var/lib/cloister, or $XDG_DATA_HOME/cloister,
 * or ~/.local/share/cloister. */
#ifndef CLOISTER_DATA_H
#define CLOISTER_DATA_H
#include <stdbool.h>

struct err;

/* Its parts: every NAME below is a part, or is inside one. */
struct data_part {
	const char *name, *what;        /* WHAT describes the contents to people */
};
extern const struct data_part data_parts[];     /* ends with a NULL name */
#define DATA_HOMES "homes"              /* the part that cells may write: homes/PROFILE/PROJECT/PATH */

/* The path of the folder itself; errors as for data_path(). */
char *data_top(struct err *err);
/* The path of NAME in it, whether it exists or not; the caller owns it.  NULL: there is no home
 * folder. */
char *data_path(const char *name, struct err *err);
/* Open the folder NAME in it and return a descriptor.  Without MAKE, -ENOENT if it does not exist.
 * Refused if others can read it. */
int data_folder(const char *name, bool make, struct err *err);

/* The path of the state folder, whether it exists or not: CLOISTER_STATE_DIR, or as root
 * /var/lib/cloister, or $XDG_STATE_HOME/cloister, or ~/.local/state/cloister.  The caller owns it. */
char *data_state_path(struct err *err);
/* The path of the runtime folder: CLOISTER_RUNTIME_DIR, or as root /run/cloister, or
 * $XDG_RUNTIME_DIR/cloister, or /tmp/cloister-UID.  The caller owns it. */
char *data_runtime_path(struct err *err);
/* The path of NAME in the folder of the operator's configuration: $XDG_CONFIG_HOME/cloister, or as root
 * /etc/cloister, or ~/.config/cloister.  The caller owns it.  NULL: there is no home folder. */
char *data_config_path(const char *name, struct err *err);
#endif
