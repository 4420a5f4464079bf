/* guest_files.c - the guest's files: the shared tree, the disk, and what came with the cell's description. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/boundary.h"
#include "boundary/microvm/vm_guest.h"
#include "boundary/namespace/ns_plan.h"
#include "proc/guest/guest.h"

#define DISK "/dev/vda"                 /* a guest has no other */

int
guest_mount_files(uint32_t flags, struct err *err)
{
	if ((flags & VM_GUEST_HAS_SHARE) != 0 &&
	    mount(VM_GUEST_SHARE, VM_GUEST_HOST, "virtiofs", MS_NOSUID | MS_NODEV, NULL) < 0)
		return err_errno(err, "the guest cannot mount its files");
	if ((flags & VM_GUEST_HAS_DISK) != 0 && (mkdir(VM_GUEST_DISK, 0755) < 0 ||
	    mount(DISK, VM_GUEST_DISK, "erofs", MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0))
		return err_errno(err, "the guest cannot mount its disk");
	return 0;
}

/* A file of the message; -1: it is empty. */
static int
take_file(struct buf *message, int *ret_fd, struct err *err)
{
	OWN(closep) int fd = memfd_create("trust", MFD_CLOEXEC);
	uint32_t len;

	if (buf_get_u32(message, &len) < 0 || buf_left(message) < len)
		return err_set(err, EBADMSG, "the guest's first message is malformed");
	if (fd < 0 || write_all(fd, message->data + message->pos, len, err) < 0)
		return err_errno(err, "the guest cannot keep its certificates");
	message->pos += len;
	*ret_fd = len > 0 ? TAKE_FD(fd) : -1;
	return 0;
}

int
guest_take_trust(struct buf *message, struct boundary_trust *ret_trust, struct err *err)
{
	int *const files[VM_GUEST_TRUST_FILES] = { &ret_trust->certificate, &ret_trust->authorities,
	                                           &ret_trust->keystore };
	const char *hash;
	int ends[2];

	if (buf_get_str(message, &hash) < 0 || strlen(hash) != NS_SUBJECT_HASH)
		return err_set(err, EBADMSG, "the guest's first message is malformed");
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (take_file(message, files[i], err) < 0)
			return -err->code;
	if (pipe2(ends, O_CLOEXEC) < 0 || dprintf(ends[1], "%s\n", hash) < 0)
		return err_errno(err, "the guest cannot make a pipe");
	close(ends[1]);
	ret_trust->ready = ends[0];
	return 0;
}
