/* disk.c - see disk.h. */
#include "vm/disk.h"

#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"

const char *
disk_find_maker(struct err *err)
{
	static const char *const places[] = { "/usr/bin/mkfs.erofs", "/usr/sbin/mkfs.erofs", "/sbin/mkfs.erofs" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (access(places[i], X_OK) == 0)
			return places[i];
	(void)err_set(err, ENOENT, "there is no mkfs.erofs, which makes disks for virtual machines: install erofs-utils");
	return NULL;
}
