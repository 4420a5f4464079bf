/* main.c - cloister-initramfs: makes the initramfs of a virtual machine, or finds it in a cache.
 *
 *   cloister-initramfs --kernel FILE|"" --modules DIR|"" --init FILE --cloister-init FILE --cache DIR
 *                      --form file|elf
 *
 * prints four lines: the paths of the kernel and of the initramfs, then the hash of each.  kernel.h
 * explains the empty words.  The kernel is the file as it is, or the ELF file in it, which is kept in the
 * cache too.  The initramfs has /init and /cloister-init, which are the given files; the
 * folders /dev, /proc, /sys, /host and /modules; /dev/console; and the kernel modules that a guest needs,
 * as /modules/00-NAME.ko and on, in an order in which they can be loaded.
 *
 * The operator runs it, with the operator's rights and no more.  No agent has written what it reads:
 * it refuses a kernel or a module that anybody but root and the operator may write, or that is not a
 * regular file.  Inside the folder of modules it follows no link and crosses no mount.  It starts no
 * program, and writes only to its cache, which must be the operator's own.  So it is not locked down. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tell.h"
#include "proc/initramfs/initramfs.h"
#include "vm/cpio.h"
#include "vm/kernel.h"
#include "vm/vmcache.h"

/* Part of the hash: change it whenever the same input makes another initramfs. */
#define LAYOUT "cloister-initramfs 2"

static const char *const folders[] = { "dev", "proc", "sys", "host", "modules" };

/* What a virtual machine boots, for the record. */
enum sum { KERNEL_SUM, INITRAMFS_SUM, SUMS };

enum option { KERNEL, MODULES, INIT, CLOISTER_INIT, CACHE, FORM, OPTIONS };
static const char *const option_names[OPTIONS] = {
	"--kernel", "--modules", "--init", "--cloister-init", "--cache", "--form"
};

/* A program that goes in. */
struct program {
	const char *name;
	char *data;
	size_t len;
};

struct input {
	struct kernel kernel;
	int kernel_fd;                  /* 0: not open */
	struct initramfs_files files;
	struct program programs[2];
};

static void
input_free(struct input *in)
{
	kernel_free(&in->kernel);
	close_fd(&in->kernel_fd);
	initramfs_files_free(&in->files);
	for (size_t i = 0; i < ARRAY_LEN(in->programs); i++)
		free(in->programs[i].data);
}

static bool
parse_options(int argc, char **argv, const char *ret_values[OPTIONS])
{
	size_t n = 0;

	for (int i = 1; i + 1 < argc; i += 2)
		for (size_t o = 0; o < OPTIONS; o++)
			if (strcmp(argv[i], option_names[o]) == 0 && ret_values[o] == NULL) {
				ret_values[o] = argv[i + 1];
				n++;
			}
	return n == OPTIONS && argc == 1 + 2 * OPTIONS;
}

static int
find_kernel(const char *const options[OPTIONS], struct input *in, struct err *err)
{
	char own[PATH_MAX];
	int r = kernel_own_folder(own, err);

	if (r == 0)
		r = kernel_find("", own, options[KERNEL], options[MODULES], &in->kernel, err);
	if (r < 0)
		return r;
	in->kernel_fd = kernel_open_file(AT_FDCWD, in->kernel.path, err);
	return in->kernel_fd < 0 ? in->kernel_fd : 0;
}

static int
read_input(const char *const options[OPTIONS], struct input *in, struct err *err)
{
	const char *const paths[] = { options[INIT], options[CLOISTER_INIT] };
	static const char *const names[] = { "init", "cloister-init" };
	int r = find_kernel(options, in, err);

	if (r == 0)
		r = initramfs_files_list(in->kernel.modules, &in->files, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(paths); i++) {
		in->programs[i].name = names[i];
		r = read_file_at(AT_FDCWD, paths[i], INITRAMFS_PROGRAM_MAX, &in->programs[i].data,
		                 &in->programs[i].len, err);
	}
	return r;
}

/* With its length, so that no two inputs are the same bytes. */
static void
add_bytes(struct hash *h, const void *data, size_t len)
{
	uint64_t n = len;

	hash_add(h, &n, sizeof(n));
	hash_add(h, data, len);
}

static void
add_file(struct hash *h, const char *path, uint64_t size, int64_t ctime_ns, uint64_t device, uint64_t inode)
{
	add_bytes(h, path, strlen(path));
	add_bytes(h, &size, sizeof(size));
	add_bytes(h, &ctime_ns, sizeof(ctime_ns));
	add_bytes(h, &device, sizeof(device));
	add_bytes(h, &inode, sizeof(inode));
}

/* The kernel and its modules count by path, size and time: reading them would take longer than a start
 * may. */
static int
hash_input(const struct input *in, unsigned char ret_hash[HASH_LEN], struct err *err)
{
	struct stat kernel;
	struct hash h;

	if (fstat(in->kernel_fd, &kernel) < 0)
		return err_errno(err, "cannot examine the kernel '%s'", in->kernel.path);
	hash_begin(&h);
	add_bytes(&h, LAYOUT, strlen(LAYOUT));
	for (size_t i = 0; initramfs_wanted[i] != NULL; i++)
		add_bytes(&h, initramfs_wanted[i], strlen(initramfs_wanted[i]));
	for (size_t i = 0; initramfs_welcome[i] != NULL; i++)
		add_bytes(&h, initramfs_welcome[i], strlen(initramfs_welcome[i]));
	add_bytes(&h, in->kernel.release, strlen(in->kernel.release));
	add_bytes(&h, in->files.builtin, strlen(in->files.builtin));
	add_file(&h, in->kernel.path, (uint64_t)kernel.st_size,
	         kernel.st_ctim.tv_sec * 1000000000 + kernel.st_ctim.tv_nsec, kernel.st_dev, kernel.st_ino);
	for (size_t i = 0; i < in->files.n; i++) {
		const struct initramfs_file *f = &in->files.at[i];

		add_file(&h, f->path, f->size, f->ctime_ns, f->device, f->inode);
	}
	for (size_t i = 0; i < ARRAY_LEN(in->programs); i++)
		add_bytes(&h, in->programs[i].data, in->programs[i].len);
	hash_end(&h, ret_hash);
	return 0;
}

static int
pack(const struct input *in, const struct initramfs_chosen *chosen, int fd, struct err *err)
{
	struct cpio c;

	cpio_begin(&c, fd);
	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		cpio_put_folder(&c, folders[i], 0755);
	cpio_put_device(&c, "dev/console", 0600, 5, 1);
	for (size_t i = 0; i < ARRAY_LEN(in->programs); i++)
		cpio_put_file(&c, in->programs[i].name, 0755, in->programs[i].data, in->programs[i].len);
	for (size_t i = 0; i < chosen->n; i++) {
		char name[MODULE_NAME_MAX + 48];

		snprintf(name, sizeof(name), "modules/%02zu-%s.ko", i, chosen->at[i].file->name);
		cpio_put_file(&c, name, 0644, chosen->at[i].data.data, chosen->at[i].data.len);
	}
	return cpio_end(&c, err);
}

/* FD is the finished initramfs. */
static int
sum(const struct input *in, int fd, vmcache_sum ret_sums[SUMS], struct err *err)
{
	uint64_t size;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(err, "cannot read the initramfs");
	if (hash_fd(fd, UINT64_MAX, ret_sums[INITRAMFS_SUM], &size, err) < 0)
		return err_wrap(err, "the initramfs");
	if (hash_fd(in->kernel_fd, INITRAMFS_KERNEL_MAX, ret_sums[KERNEL_SUM], &size, err) < 0)
		return err_wrap(err, "the kernel '%s'", in->kernel.path);
	return 0;
}

static int
make(struct input *in, struct vmcache *cache, vmcache_sum ret_sums[SUMS], struct err *err)
{
	OWN(initramfs_chosen_free) struct initramfs_chosen chosen = {0};
	OWN(closep) int fd = -1;
	int r = fd = vmcache_begin(cache, err);

	if (r < 0)
		return r;
	r = initramfs_choose(&in->files, in->kernel.release, initramfs_wanted, initramfs_welcome, &chosen, err);
	if (r < 0)
		return r;
	if (pack(in, &chosen, fd, err) < 0)
		return err_wrap(err, "the initramfs");
	r = sum(in, fd, ret_sums, err);
	if (r == 0)
		r = vmcache_finish(cache, fd, ret_sums, err);
	if (r == 0)
		vmcache_prune(cache, SIZE_MAX);
	return r;
}

static int
print(const char *kernel_path, const char *folder, const char *name, const vmcache_sum sums[SUMS],
      struct err *err)
{
	char kernel[HASH_NAME + 1], initramfs[HASH_NAME + 1];

	hash_name(sums[KERNEL_SUM], kernel);
	hash_name(sums[INITRAMFS_SUM], initramfs);
	if (printf("%s\n%s/%s\n%s\n%s\n", kernel_path, folder, name, kernel, initramfs) < 0 ||
	    fflush(stdout) != 0)
		return err_errno(err, "cannot print the paths");
	return 0;
}

static int
run(const char *const options[OPTIONS], struct err *err)
{
	OWN(vmcache_close) struct vmcache cache = {0};
	OWN(input_free) struct input in = {0};
	OWN(freep) char *plain = NULL;
	vmcache_sum sums[SUMS];
	unsigned char hash[HASH_LEN];
	int r = read_input(options, &in, err);

	if (r == 0)
		r = hash_input(&in, hash, err);
	if (r == 0)
		r = vmcache_open(options[CACHE], "", SUMS, hash, &cache, err);
	if (r < 0)
		return r;
	do
		r = vmcache_use(&cache, sums) ? 0 : make(&in, &cache, sums, err);
	while (r == -EAGAIN);
	if (r == 0 && strcmp(options[FORM], "elf") == 0)
		r = initramfs_plain_kernel(in.kernel_fd, options[CACHE], &plain, sums[KERNEL_SUM], err);
	if (r < 0)
		return r;
	return print(plain != NULL ? plain : in.kernel.path, options[CACHE], cache.name, sums, err);
}

int
main(int argc, char **argv)
{
	const char *options[OPTIONS] = {0};
	struct err err = {0};

	if (!parse_options(argc, argv, options)) {
		fprintf(stderr, "cloister-initramfs is started by cloister only\n");
		return TELL_FAILED;
	}
	return run(options, &err) < 0 ? tell_error(&err) : 0;
}
