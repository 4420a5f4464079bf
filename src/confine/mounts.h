/* mounts.h - small steps with the kernel's descriptor-based mount interface.
 *
 * Each returns a descriptor that the caller closes, or 0; or a negative errno and a message. */
#ifndef CLOISTER_MOUNTS_H
#define CLOISTER_MOUNTS_H
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/types.h>

struct err;

/* The scratch space is mounted where /tmp will be; a folder of its own on top of it hides it.
 * (Unmounting it instead would cost a wait for every processor.) */
#define MOUNTS_SCRATCH "tmp"
#define MOUNTS_QUIET (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
/* A new file system, detached; OPTIONS are pairs of key and value (NULL for a flag), ended by NULL. */
int mounts_new_fs(const char *type, const char *const *options, unsigned attrs,
              struct err *err);
/* A detached copy of the mounts at a path; follows no link in it. */
int mounts_copy_tree(int dir, const char *path, struct err *err);
/* A detached copy of the folder at PATH beneath ROOT, found as by mounts_open_inside(). */
int mounts_copy_inside(int root, const char *path, struct err *err);
int mounts_set_attrs(int mount, unsigned attrs, bool below_too, struct err *err);
int mounts_make_writable(int mount, struct err *err);
int mounts_attach(int mount, int dir, const char *path, struct err *err);
/* Binds the mounts at FROM, restricted by ATTRS, to the existing DIR/PATH. */
int mounts_bind(int from_dir, const char *from, int dir, const char *path, unsigned attrs,
            struct err *err);
/* Opens PATH beneath ROOT as the cell will see it, links included: a descriptor, or -1 and errno. */
int mounts_open_inside(int root, const char *path);
/* Opens PATH beneath ROOT as the cell will see it, links included.  Makes missing folders (a file
 * for the last part if FILE) on the cell's own file systems only.  New entries in the scratch space
 * belong to OWNER; with -1, to the caller. */
int mounts_follow_target(int root, const char *path, bool file, uid_t owner, struct err *err);
/* The same, but never opens the target of a link: a mount there would hide what other paths lead to.  A link in
 * the place of the last part is replaced, if it is the cell's own, and refused otherwise. */
int mounts_make_target(int root, const char *path, bool file, uid_t owner, struct err *err);
#endif
