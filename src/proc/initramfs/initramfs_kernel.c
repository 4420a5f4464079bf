/* initramfs_kernel.c - the kernel without the program that decompresses it, for monitors that boot only that. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "proc/initramfs/initramfs.h"
#include "vm/bzimage.h"
#include "vm/vmcache.h"

#define PREFIX "kernel-"
#define KEEP 4
#define PLAIN_MAX ((size_t)512 << 20)
/* Part of the hash: change it whenever the same kernel makes another file. */
#define LAYOUT "cloister-kernel 1"

static int
unpack(int kernel, struct buf *out, struct err *err)
{
	OWN(freep) char *data = NULL;
	const char *suffix;
	const void *at;
	size_t len, size;
	int r = read_whole(kernel, INITRAMFS_KERNEL_MAX, &data, &len, err);

	if (r < 0)
		return r;
	if (bzimage_is_elf(data, len)) {
		buf_put(out, data, len);
		return buf_failed(out) ? err_set(err, ENOMEM, "out of memory") : 0;
	}
	r = bzimage_find(data, len, &at, &size, &suffix, err);
	if (r == 0 && strcmp(suffix, ".lz4") == 0)
		r = lz4_unpack(at, size, out) < 0 ? err_set(err, EBADMSG, "it cannot be decompressed") : 0;
	else if (r == 0)
		r = initramfs_unpack(suffix, at, size, out, err);
	if (r == 0 && !bzimage_is_elf(out->data, out->len))
		r = err_set(err, EBADMSG, "there is no ELF file in it");
	return r;
}

static int
make(int kernel, struct vmcache *cache, vmcache_sum *ret_sum, struct err *err)
{
	OWN(closep) int fd = vmcache_begin(cache, err);
	OWN(buf_free) struct buf plain = BUF(PLAIN_MAX);
	int r = fd < 0 ? fd : unpack(kernel, &plain, err);

	if (r == 0)
		r = write_all(fd, plain.data, plain.len, err);
	if (r < 0)
		return r;
	hash_of(plain.data, plain.len, *ret_sum);
	r = vmcache_finish(cache, fd, (const vmcache_sum *)ret_sum, err);
	if (r == 0)
		vmcache_prune(cache, KEEP);
	return r;
}

int
initramfs_plain_kernel(int kernel, const char *folder, char **ret_path, unsigned char ret_hash[HASH_LEN],
                       struct err *err)
{
	OWN(vmcache_close) struct vmcache cache = {0};
	unsigned char hash[HASH_LEN];
	vmcache_sum sums[1];
	struct stat st;
	struct hash h;
	int r;

	if (fstat(kernel, &st) < 0)
		return err_errno(err, "cannot examine the kernel");
	hash_begin(&h);
	hash_add(&h, LAYOUT, sizeof(LAYOUT));
	hash_add(&h, &st.st_dev, sizeof(st.st_dev));
	hash_add(&h, &st.st_ino, sizeof(st.st_ino));
	hash_add(&h, &st.st_size, sizeof(st.st_size));
	hash_add(&h, &st.st_ctim, sizeof(st.st_ctim));
	hash_end(&h, hash);
	r = vmcache_open(folder, PREFIX, 1, hash, &cache, err);
	if (r < 0)
		return r;
	do
		r = vmcache_use(&cache, sums) ? 0 : make(kernel, &cache, sums, err);
	while (r == -EAGAIN);
	if (r < 0)
		return r;
	memcpy(ret_hash, sums[0], HASH_LEN);
	*ret_path = str_format("%s/%s", folder, cache.name);
	return *ret_path == NULL ? err_set(err, ENOMEM, "out of memory") : 0;
}
