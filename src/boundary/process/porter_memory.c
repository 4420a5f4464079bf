/* porter_memory.c - the caller's memory: see porter.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "boundary/process/porter.h"

/* Containers may forbid process_vm_readv(2); the kernel asks for the same right here. */
static int
open_memory(const struct porter_call *c, int how)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)c->tid);
	fd = open(path, how | O_CLOEXEC);
	return fd >= 0 ? fd : errno == EACCES || errno == EPERM ? -EPERM : -EFAULT;
}

int
porter_read(const struct porter_call *c, uint64_t from, void *to, size_t len)
{
	OWN(closep) int fd = open_memory(c, O_RDONLY);

	if (fd < 0 || len == 0)
		return fd < 0 ? fd : 0;
	return pread(fd, to, len, (off_t)from) == (ssize_t)len ? 0 : -EFAULT;
}

int
porter_write(const struct porter_call *c, uint64_t to, const void *from, size_t len)
{
	OWN(closep) int fd = open_memory(c, O_WRONLY);

	if (fd < 0 || len == 0)
		return fd < 0 ? fd : 0;
	return pwrite(fd, from, len, (off_t)to) == (ssize_t)len ? 0 : -EFAULT;
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
