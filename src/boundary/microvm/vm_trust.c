/* vm_trust.c - what the programs of a guest with a disk trust: it goes with the cell's description, because nothing
 * of a cell is on the disk. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "boundary/microvm/vm_guest.h"
#include "cell/cell_trust.h"

/* Both, one after the other, from their beginnings; -1: none. */
static int
put_files(struct buf *message, int first, int second, struct err *err)
{
	const int files[] = { first, second };
	struct stat st[ARRAY_LEN(files)] = {0};

	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (files[i] >= 0 && (fstat(files[i], &st[i]) < 0 || !S_ISREG(st[i].st_mode)))
			return err_set(err, EINVAL, "cannot read the trusted certificates");
	if (st[0].st_size > VM_GUEST_MESSAGE_MAX || st[1].st_size > VM_GUEST_MESSAGE_MAX)
		return err_set(err, E2BIG, "the trusted certificates are too large for a virtual machine");
	buf_put_u32(message, (uint32_t)(st[0].st_size + st[1].st_size));
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		unsigned char *at = st[i].st_size == 0 ? NULL : buf_add(message, (size_t)st[i].st_size);

		if (at != NULL && pread(files[i], at, (size_t)st[i].st_size, 0) != st[i].st_size)
			return err_errno(err, "cannot read the trusted certificates");
	}
	return 0;
}

int
vm_put_trust(struct buf *message, const struct ns_plan *plan, struct err *err)
{
	const struct boundary_trust *trust = plan->ground->trust;
	OWN(closep) int own = ns_open_bundle(plan);
	/* Programs without authorities of their own trust those of this machine. */
	OWN(closep) int system = own < 0 ? cell_trust_open() : -1;
	char hash[NS_SUBJECT_HASH + 1];
	int r = ns_await_trust(trust->ready, hash, err);

	if (r < 0)
		return r;
	buf_put_str(message, hash);
	r = put_files(message, trust->certificate, -1, err);
	if (r == 0)
		r = put_files(message, system, trust->authorities, err);
	return r < 0 ? r : put_files(message, trust->keystore, -1, err);
}
