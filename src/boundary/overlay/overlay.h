/* overlay.h - the merged view of a workspace: the host's folder below, and the cell's changes apart
 * from it, in an upper folder.
 *
 * It is mounted on the host's side, in the cell's mount namespace.  So changes are listed, applied
 * and collected in the same way for every kind of walls. */
#ifndef CLOISTER_OVERLAY_H
#define CLOISTER_OVERLAY_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct err;

/* Two empty folders in the cell's root while it is made, for mounts. */
#define OVERLAY_LOWER ".lower"
#define OVERLAY_CHANGES ".changes"

/* Whether this kernel's tmpfs can hold an upper folder. */
bool overlay_fits_memory(void);

/* Opens the place for upper folders: SCRATCH, where limits count, if it can hold them.  Otherwise the
 * folder CHANGES on the host's disk, where they do not; MOUNT is its detached mount, or -1.  The
 * working folder is ROOT, the cell's root.  The caller owns the result, and unmounts OVERLAY_CHANGES. */
int overlay_open_changes(int root, int scratch, int changes, int mount, struct err *err);
/* Replaces *MOUNT, a detached mount of workspace NUMBER, by the overlay of it and a new upper folder
 * in CHANGES.  OWNER owns the upper folder inside.  The caller owns *ret_upper. */
int overlay_mount(int root, int changes, size_t number, uid_t owner, int *mount, int *ret_upper,
                  struct err *err);

/* Whether anything is in the upper folder, or it cannot be known: then it must not be thrown away. */
bool overlay_is_changed(int upper);
/* Removes the folders of overlay NUMBER from CHANGES, if they were there. */
void overlay_remove(int changes, size_t number);
#endif
