/* porter_memory.c - the caller's memory: see porter.h. */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "boundary/process/porter.h"

int
porter_read(const struct porter_call *c, uint64_t from, void *to, size_t len)
{
	const struct iovec local = { to, len }, remote = { (void *)(uintptr_t)from, len };
	ssize_t n = len == 0 ? 0 : process_vm_readv(c->tid, &local, 1, &remote, 1, 0);

	return n == (ssize_t)len ? 0 : n < 0 && errno == EPERM ? -EPERM : -EFAULT;
}

int
porter_write(const struct porter_call *c, uint64_t to, const void *from, size_t len)
{
	const struct iovec local = { (void *)(uintptr_t)from, len }, remote = { (void *)(uintptr_t)to, len };
	ssize_t n = len == 0 ? 0 : process_vm_writev(c->tid, &local, 1, &remote, 1, 0);

	return n == (ssize_t)len ? 0 : -EFAULT;
}

int
porter_read_path(const struct porter_call *c, uint64_t from, char *to, size_t size)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t n = 0;

	/* What follows the path may not be mapped. */
	while (n < size) {
		size_t part = page - (size_t)((from + n) % page);
		int r;

		if (part > size - n)
			part = size - n;
		r = porter_read(c, from + n, to + n, part);
		if (r < 0)
			return r;
		if (memchr(to + n, '\0', part) != NULL)
			return 0;
		n += part;
	}
	return -ENAMETOOLONG;
}

int
porter_write_name(const struct porter_call *c, uint64_t to, uint64_t to_len, const struct sockaddr_storage *name,
                  socklen_t len)
{
	int32_t room;
	int r = porter_read(c, to_len, &room, sizeof(room));

	if (r == 0 && room < 0)
		r = -EINVAL;
	if (r == 0)
		r = porter_write(c, to, name, (socklen_t)room < len ? (socklen_t)room : len);
	return r < 0 ? r : porter_write(c, to_len, &len, sizeof(len));
}
