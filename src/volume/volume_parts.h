/* volume_parts.h - shared by the files of src/volume. */
#ifndef CLOISTER_VOLUME_PARTS_H
#define CLOISTER_VOLUME_PARTS_H
#include "volume/volume.h"

#define VOLUME_FILES "files"            /* in the folder of a tree */
#define VOLUME_SIZE "size"
#define VOLUME_PART ".new-"             /* names of folders that are not whole: the prefix and VOLUME_ID digits */
#define VOLUME_OLD ".old-"              /* and of those that are being removed */
#define VOLUME_PART_MAX 32

int volume_new_id(char ret_id[VOLUME_ID + 1], struct err *err);
/* The lock for changes; the caller closes it. */
int volume_lock(const struct volumes *v, struct err *err);
/* Write the description, whole. */
int volume_save(const struct volumes *v, const struct volume *volume, struct err *err);
/* Open the folder names/NAME. */
int volume_folder(const struct volumes *v, const char *name, struct err *err);

/* Locks of V->locks.  A volume has two: one for its writer, and one that all its users share. */
enum volume_byte { VOLUME_TREE, VOLUME_WRITER, VOLUME_USERS };
/* -EBUSY: another process has it. */
int volume_hold(const struct volumes *v, enum volume_byte byte, const char *id, bool alone, struct err *err);
void volume_release(const struct volumes *v, enum volume_byte byte, const char *id);
bool volume_is_held(const struct volumes *v, enum volume_byte byte, const char *id);

/* volume_tree.c */
/* Makes a tree of BASE (-1: nothing) and CHANGES (-1: none), the latter as cloister-collect leaves them, and syncs it.
 * -EDQUOT: it would have more than MOST entries. */
int volume_make_tree(const struct volumes *v, int base, int changes, uint64_t most, char ret_id[VOLUME_ID + 1], struct err *err);
int volume_open_tree(const struct volumes *v, const char *id, struct err *err);         /* its files */
/* Put the folder NAME of DIR aside, so that it is gone at once; volume_sweep() removes it. */
int volume_put_aside(const struct volumes *v, int dir, const char *name, struct err *err);
#endif
