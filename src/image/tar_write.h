/* tar_write.h - writes a tar archive in the form of POSIX 1003.1-2001 (pax), the same bytes for the same entries.
 *
 * Bytes go to a function of the caller's.  A name or link target over 100 bytes, a number that does not fit and
 * extended attributes are in a header of their own. */
#ifndef CLOISTER_TAR_WRITE_H
#define CLOISTER_TAR_WRITE_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

struct err;

#define TAR_XATTRS_MAX (64u << 10)      /* bytes of all of one file, names included */

struct tar_write {
	int (*put)(void *arg, const void *data, size_t len, struct err *err);
	void *arg;
	uint64_t left;                  /* bytes of the current file that are still to come */
	unsigned pad;                   /* zeroes after them */
};

struct tar_entry {
	const char *path;               /* relative; a folder's without "/" at its end */
	mode_t mode;                    /* with its type: regular, folder, link, FIFO */
	uint32_t uid, gid;
	int64_t mtime;                  /* seconds */
	uint64_t size;                  /* of a regular file */
	const char *link;               /* the target of a symbolic link; else NULL */
	const char *hard;               /* the path of an earlier entry that this is another name of; else NULL */
	/* Name, NUL, u32 length, value, and so on: see tar_put_xattr(). */
	const struct buf *xattrs;       /* or NULL */
};

void tar_put_xattr(struct buf *xattrs, const char *name, const void *value, size_t len);
/* A regular file that is no hard link is followed by its SIZE bytes: tar_data(). */
int tar_entry(struct tar_write *t, const struct tar_entry *e, struct err *err);
int tar_data(struct tar_write *t, const void *data, size_t len, struct err *err);
int tar_end(struct tar_write *t, struct err *err);
#endif
