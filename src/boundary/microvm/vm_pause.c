/* vm_pause.c - the memory of a frozen virtual machine goes to a file, and comes back.
 *
 * The monitor and the file server stay, frozen.  So open files, devices and terminals are as they were, and nothing
 * of their state has to be saved: QEMU 7.2 cannot save a machine that has mounted a share.  All the memory of the guest is
 * one memory file that the monitor maps.  Pages that were taken out of it come back with the same contents before any of
 * its processes runs an instruction. */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "boundary/namespace/ns_walls.h"

#define CHUNK ((size_t)1 << 20)
#define FROZEN_MS 10000                 /* for all processes to stop */
#define LOOK_NS 2000000L

static int
await_frozen(const struct walls *w, struct err *err)
{
	const int64_t until = io_now_ms() + FROZEN_MS;
	const struct timespec pause = { .tv_nsec = LOOK_NS };

	while (!cgroup_is_frozen(w->cgroup)) {
		if (io_now_ms() > until)
			return err_set(err, ETIMEDOUT, "the virtual machine does not stand still: try again");
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

static int
copy_range(int from, int to, off_t at, off_t end, char *room)
{
	while (at < end) {
		size_t most = (off_t)CHUNK < end - at ? CHUNK : (size_t)(end - at);
		ssize_t n = pread(from, room, most, at);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		if (pwrite(to, room, (size_t)n, at) != n)
			return errno != 0 ? -errno : -ENOSPC;
		at += n;
	}
	return 0;
}

int
vm_copy_memory(int from, int to)
{
	static char room[CHUNK];
	off_t at, end = 0;
	int r = 0;

	errno = 0;
	while (r == 0 && (at = lseek(from, end, SEEK_DATA)) >= 0) {
		end = lseek(from, at, SEEK_HOLE);
		if (end < 0)
			return -errno;
		r = copy_range(from, to, at, end, room);
	}
	return r < 0 || errno == ENXIO || errno == 0 ? r : -errno;
}

int
vm_can_pause(const struct walls *w, struct err *err)
{
	if (w->memory < 0)
		return err_set(err, ENOTSUP, "only a virtual machine of QEMU that is no fork can be paused: use `cloister freeze`, which "
		               "keeps the memory");
	return cgroup_can_freeze(w->cgroup) ? 0 :
	       err_set(err, ENOTSUP, "the cell has no cgroup that can be frozen, so it cannot be paused: see `cloister doctor`");
}

int
vm_put_aside(const struct walls *w, int file, int told, struct err *err)
{
	const off_t size = lseek(w->memory, 0, SEEK_END);
	int r = await_frozen(w, err);

	if (r < 0)
		return r;
	r = size < 0 ? -errno : ftruncate(file, size) < 0 ? -errno : vm_copy_memory(w->memory, file);
	if (r == 0 && fsync(file) < 0)
		r = -errno;
	if (r < 0)
		return err_set(err, -r, "cannot write the memory of the cell to the state folder: %s", strerrordesc_np(-r));
	/* From here on, the file counts, and the memory is only a copy. */
	r = write_all(told, "S", 1, err);
	if (r == 0 && fallocate(w->memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size) < 0)
		r = err_errno(err, "cannot free the memory of the cell");
	return r;
}

int
vm_bring_back(const struct walls *w, int file, struct err *err)
{
	const int r = vm_copy_memory(file, w->memory);

	return r == 0 ? 0 : err_set(err, -r, "cannot bring the memory of the cell back: %s; it stays paused",
	                            strerrordesc_np(-r));
}
