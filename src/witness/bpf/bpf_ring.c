/* bpf_ring.c - reads a ring buffer of the kernel. */
#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "base/err.h"
#include "base/own.h"
#include "witness/bpf/bpf.h"

int
bpf_ring_new(size_t size, struct bpf_ring *ret_ring, struct err *err)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	/* libbpf's function would first load a program, to find out how the kernel accounts for memory. */
	union bpf_attr ring = { .map_type = BPF_MAP_TYPE_RINGBUF, .max_entries = (uint32_t)size };
	OWN(closep) int fd = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &ring, sizeof(ring));
	struct bpf_map_info info = {0};
	uint32_t info_size = sizeof(info);
	void *consumer, *producer;

	if (fd < 0)
		return err_set(err, ENOTSUP, "eBPF is not allowed here: %s", strerror(errno));
	if (bpf_obj_get_info_by_fd(fd, &info, &info_size) < 0)
		return err_errno(err, "cannot look at a ring buffer");
	consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (consumer == MAP_FAILED)
		return err_errno(err, "cannot map a ring buffer");
	producer = mmap(NULL, page + 2 * size, PROT_READ, MAP_SHARED, fd, (off_t)page);
	if (producer == MAP_FAILED) {
		int r = err_errno(err, "cannot map a ring buffer");

		munmap(consumer, page);
		return r;
	}
	*ret_ring = (struct bpf_ring){ TAKE_FD(fd), info.id, size, consumer, producer };
	return 0;
}

void
bpf_ring_free(struct bpf_ring *ring)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (ring->fd < 0)
		return;
	munmap(ring->consumer, page);
	munmap((void *)(uintptr_t)ring->producer, page + 2 * ring->size);
	close(ring->fd);
	ring->fd = -1;
}

size_t
bpf_ring_read(struct bpf_ring *ring, void (*take)(void *arg, const void *data, size_t len), void *arg)
{
	const char *data = (const char *)ring->producer + sysconf(_SC_PAGESIZE);
	unsigned long at = __atomic_load_n(ring->consumer, __ATOMIC_ACQUIRE), begin = at;

	while (at < __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE)) {
		const char *sample = data + (at & (ring->size - 1));
		uint32_t head = __atomic_load_n((const uint32_t *)(const void *)sample, __ATOMIC_ACQUIRE);
		uint32_t len = head & ~(uint32_t)(BPF_RINGBUF_BUSY_BIT | BPF_RINGBUF_DISCARD_BIT);

		/* It is being written; its writer wakes us. */
		if ((head & BPF_RINGBUF_BUSY_BIT) != 0 || len > ring->size - BPF_RINGBUF_HDR_SZ)
			break;
		if ((head & BPF_RINGBUF_DISCARD_BIT) == 0)
			take(arg, sample + BPF_RINGBUF_HDR_SZ, len);
		at += (len + BPF_RINGBUF_HDR_SZ + 7) / 8 * 8;
		__atomic_store_n(ring->consumer, at, __ATOMIC_RELEASE);
	}
	return at - begin;
}
