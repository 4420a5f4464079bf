/* cpio.c - see cpio.h. */
#include "vm/cpio.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"

/* The kernel's Documentation/driver-api/early-userspace/buffer-format.rst: a magic number, then 13
 * numbers of 8 hex digits each.  Name and contents are padded to multiples of 4 bytes. */
#define HEADER_LEN (6 + 13 * 8)
#define PADDED(n) (((n) + 3) / 4 * 4)
#define TRAILER "TRAILER!!!"

void
cpio_begin(struct cpio *c, int fd)
{
	*c = (struct cpio){ .fd = fd };
}

/* The header and the name, with their padding. */
static int
put_head(struct cpio *c, const char *name, mode_t mode, uint32_t len, unsigned major, unsigned minor)
{
	char head[PADDED(HEADER_LEN + CPIO_NAME_MAX + 1)] = "";
	size_t name_len = strlen(name);

	if (name_len == 0 || name_len > CPIO_NAME_MAX || name[0] == '/')
		return err_set(&c->err, EINVAL, "'%s' is no name for an entry of an initramfs", name);
	snprintf(head, sizeof(head), "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s",
	         c->n++, (unsigned)mode, 0, 0, S_ISDIR(mode) ? 2 : 1, 0, len, 0, 0, major, minor,
	         (unsigned)name_len + 1, 0, name);
	return write_all(c->fd, head, PADDED(HEADER_LEN + name_len + 1), &c->err);
}

static void
put(struct cpio *c, const char *name, mode_t mode, const void *data, size_t len, unsigned major, unsigned minor)
{
	static const char zeros[4] = "";

	if (c->result == 0 && len > UINT32_MAX)
		c->result = err_set(&c->err, EFBIG, "'%s' is too large for an initramfs", name);
	if (c->result == 0)
		c->result = put_head(c, name, mode, (uint32_t)len, major, minor);
	if (c->result == 0)
		c->result = write_all(c->fd, data, len, &c->err);
	if (c->result == 0)
		c->result = write_all(c->fd, zeros, PADDED(len) - len, &c->err);
}

void
cpio_put_folder(struct cpio *c, const char *name, mode_t mode)
{
	put(c, name, S_IFDIR | mode, NULL, 0, 0, 0);
}

void
cpio_put_file(struct cpio *c, const char *name, mode_t mode, const void *data, size_t len)
{
	put(c, name, S_IFREG | mode, data, len, 0, 0);
}

void
cpio_put_link(struct cpio *c, const char *name, const char *target)
{
	put(c, name, S_IFLNK | 0777, target, strlen(target), 0, 0);
}

void
cpio_put_device(struct cpio *c, const char *name, mode_t mode, unsigned major, unsigned minor)
{
	put(c, name, S_IFCHR | mode, NULL, 0, major, minor);
}

int
cpio_end(struct cpio *c, struct err *err)
{
	put(c, TRAILER, 0, NULL, 0, 0, 0);
	return c->result == 0 ? 0 : err_set(err, c->err.code, "%s", c->err.text);
}
