/* workspace_data.c - copies and compares file contents, skipping holes. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "workspace/workspace_tree.h"

#define CHUNK 65536

static int
copy_range(int from, int to, off_t at, off_t end)
{
	char chunk[CHUNK];
	ssize_t n, done, w;

	for (; at < end; at += n) {
		n = pread(from, chunk, end - at < CHUNK ? (size_t)(end - at) : CHUNK, at);
		if (n < 0 && errno == EINTR) {
			n = 0;
			continue;
		}
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;            /* the file shrank while we read it */
		for (done = 0; done < n; done += w) {
			w = pwrite(to, chunk + done, (size_t)(n - done), at + done);
			if (w < 0 && errno != EINTR)
				return -errno;
			if (w < 0)
				w = 0;
		}
	}
	return 0;
}

int
wtree_copy_data(int from, int to, uint64_t size)
{
	off_t end = (off_t)size, data = 0, hole;
	int r;

	while (data < end) {
		data = lseek(from, data, SEEK_DATA);
		if (data < 0 && errno == ENXIO)
			break;                  /* only a hole is left */
		if (data < 0)
			return -errno;
		hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0)
			return -errno;
		if (hole > end)
			hole = end;
		r = copy_range(from, to, data, hole);
		if (r < 0)
			return r;
		data = hole;
	}
	return ftruncate(to, end) < 0 ? -errno : 0;
}

/* Read up to LEN bytes, as many as there are. */
static ssize_t
read_up_to(int fd, char *data, size_t len, off_t at)
{
	size_t got = 0;
	ssize_t n = 1;

	while (got < len && n != 0) {
		n = pread(fd, data + got, len - got, at + (off_t)got);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0)
			got += (size_t)n;
	}
	return (ssize_t)got;
}

static bool
all_zero(const char *data, size_t len)
{
	return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

static off_t
next_data(int fd, off_t at, off_t end)
{
	off_t data = lseek(fd, at, SEEK_DATA);

	if (data < 0)
		return errno == ENXIO ? end : at;
	return data < end ? data : end;
}

int
wtree_same_data(int a, int b, uint64_t size)
{
	char chunk_a[CHUNK / 2], chunk_b[CHUNK / 2];
	off_t at = 0, end = (off_t)size, next_a, next_b;
	ssize_t n, m;

	while (at < end) {
		n = read_up_to(a, chunk_a, sizeof(chunk_a), at);
		if (n < 0)
			return (int)n;
		m = read_up_to(b, chunk_b, sizeof(chunk_b), at);
		if (n == 0 || n != m || memcmp(chunk_a, chunk_b, (size_t)n) != 0)
			return 0;
		at += n;
		/* A hole of terabytes must not take hours. */
		if (all_zero(chunk_a, (size_t)n) && at < end) {
			next_a = next_data(a, at, end);
			next_b = next_data(b, at, end);
			at = next_a < next_b ? next_a : next_b;
		}
	}
	return 1;
}
