/* cpio.h - writes a "newc" cpio archive, the format of an initramfs.
 *
 * Each entry goes to the descriptor at once; nothing is gathered.  Everything belongs to root and
 * has no time, so the same entries make the same bytes.  Names have no leading slash, and a folder
 * comes before its contents.  A failed put sticks: cpio_end() returns the first error. */
#ifndef CLOISTER_CPIO_H
#define CLOISTER_CPIO_H
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define CPIO_NAME_MAX 255

struct cpio {
	int fd;                         /* borrowed */
	uint32_t n;                     /* entries, which are numbered as inodes */
	int result;                     /* 0, or the first error, which ERR describes */
	struct err err;
};

void cpio_begin(struct cpio *c, int fd);
/* MODE has only permission bits.  A file has at most UINT32_MAX bytes. */
void cpio_put_folder(struct cpio *c, const char *name, mode_t mode);
void cpio_put_file(struct cpio *c, const char *name, mode_t mode, const void *data, size_t len);
void cpio_put_link(struct cpio *c, const char *name, const char *target);
/* A character device. */
void cpio_put_device(struct cpio *c, const char *name, mode_t mode, unsigned major, unsigned minor);
/* Write the trailer.  The descriptor stays open. */
int cpio_end(struct cpio *c, struct err *err);
#endif
