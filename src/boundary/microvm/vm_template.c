/* vm_template.c - templates: machines that have booted and wait for a cell, kept as files.
 *
 * A template is one sparse file: the guest's memory, and behind it the state of the devices.  Its name
 * is the hash of all that it was made with. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "base/version.h"
#include "boundary/microvm/vm.h"
#include "canon/hash.h"
#include "vm/template.h"

#define PREFIX TEMPLATE_PREFIX
#define PART TEMPLATE_PART
#define KEEP 8
#define TRIES 3
/* The kernels of all copies have the same layout in memory.  So no template is used for long. */
#define KEEP_SECONDS (24 * 3600)
#define PAGE ((size_t)4096)
#define NAME_SIZE VM_NAME_SIZE
_Static_assert(NAME_SIZE >= sizeof(PART) + HASH_HEX, "the name of a template fits");

/* ---- names ---- */

static void
add_file(struct hash *h, const char *path)
{
	struct stat st = {0};

	(void)stat(path, &st);
	hash_add(h, path, strlen(path) + 1);
	hash_add(h, &st.st_dev, sizeof(st.st_dev));
	hash_add(h, &st.st_ino, sizeof(st.st_ino));
	hash_add(h, &st.st_size, sizeof(st.st_size));
	hash_add(h, &st.st_ctim, sizeof(st.st_ctim));
}

/* The first processor, without what changes from moment to moment: a guest that uses its features cannot go
 * on where they are missing. */
static void
add_processor(struct hash *h)
{
	static const char *const lines[] = { "vendor_id", "model name", "microcode", "flags", "bugs", "Features",
	                                    "CPU part" };
	OWN(freep) char *text = NULL;

	if (read_file_at(AT_FDCWD, "/proc/cpuinfo", 1 << 20, &text, NULL, NULL) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		const char *at = strstr(text, lines[i]);

		if (at != NULL)
			hash_add(h, at, strcspn(at, "\n"));
	}
}

static void
name_template(const struct cell_spec *spec, const struct vm *vm, char ret_name[NAME_SIZE])
{
	const struct vm_machine *m = &vm->machine;
	const char *initramfs = strrchr(spec->vm_initramfs, '/');
	const uint64_t numbers[] = { m->memory, m->cpus, m->emulated, m->has_net, m->has_net && spec->vm_tap };
	unsigned char hash[HASH_LEN];
	struct utsname host = {0};
	struct hash h;

	hash_begin(&h);
	hash_add(&h, CLOISTER_VERSION, sizeof(CLOISTER_VERSION));
	hash_add(&h, vm->driver->shape, strlen(vm->driver->shape) + 1);
	hash_add(&h, numbers, sizeof(numbers));
	add_file(&h, vm_program(vm->driver));
	add_file(&h, spec->vm_kernel);
	/* Its name is the hash of its contents. */
	hash_add(&h, initramfs, strlen(initramfs) + 1);
	add_processor(&h);
	/* The guest's kernel has chosen its protections by what this one showed. */
	(void)uname(&host);
	hash_add(&h, host.release, sizeof(host.release));
	hash_add(&h, host.version, sizeof(host.version));
	hash_end(&h, hash);
	memcpy(ret_name, PREFIX, sizeof(PREFIX));
	codec_hex(hash, HASH_LEN, ret_name + sizeof(PREFIX) - 1);
}

static int
open_folder(const struct cell_spec *spec, struct err *err)
{
	OWN(freep) char *path = strdup(spec->vm_initramfs);

	if (path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*strrchr(path, '/') = '\0';
	return tree_open_made(path, false, "name another data folder", err);
}

/* ---- use ---- */

static bool
is_old(const struct stat *st)
{
	return st->st_mtime < time(NULL) - KEEP_SECONDS;
}

static int
use(int folder, const char *name, struct vm *vm)
{
	OWN(closep) int memory = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	OWN(closep) int state = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st, other;

	if (memory < 0 || state < 0 || fstat(memory, &st) < 0 || fstat(state, &other) < 0)
		return -errno;
	/* Somebody else may have made it anew just now. */
	if (!S_ISREG(st.st_mode) || st.st_ino != other.st_ino || is_old(&st) ||
	    (uint64_t)st.st_size <= vm->machine.memory || lseek(state, (off_t)vm->machine.memory, SEEK_SET) < 0)
		return -EBADMSG;
	/* Its last use; the other time tells its age. */
	(void)utimensat(folder, name, (struct timespec[]){ { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_OMIT } },
	                AT_SYMLINK_NOFOLLOW);
	vm->machine.start = VM_RESTORE;
	vm->until_s = st.st_mtime + KEEP_SECONDS;
	memcpy(vm->template, name, strlen(name) + 1);
	vm->machine.state = TAKE_FD(state);
	vm->memory = TAKE_FD(memory);
	return 0;
}

void
vm_forget_template(const struct cell_spec *spec, const struct vm *vm)
{
	OWN(closep) int folder = open_folder(spec, NULL);
	char name[NAME_SIZE];

	name_template(spec, vm, name);
	if (folder >= 0)
		(void)unlinkat(folder, name, 0);
}

/* ---- making ---- */

static bool
is_zero(const char *page)
{
	return page[0] == 0 && memcmp(page, page + 1, PAGE - 1) == 0;
}

/* Pages of zeros become holes, which cost a copy nothing. */
static int
write_range(int file, const char *memory, size_t at, size_t most, struct err *err)
{
	for (size_t end; at < most; at = end) {
		for (end = at; end < most && !is_zero(memory + end); end += PAGE)
			continue;
		if (end == at)
			end += PAGE;
		else if (pwrite(file, memory + at, end - at, (off_t)at) != (ssize_t)(end - at))
			return err_errno(err, "cannot write a template");
	}
	return 0;
}

/* Memory that the guest never wrote is not looked at: that alone would fill it. */
static int
write_memory(int file, const struct vm_machine *m, struct err *err)
{
	const off_t size = (off_t)m->memory;
	char *memory = mmap(NULL, m->memory, PROT_READ, MAP_SHARED, m->ram, 0);
	off_t at, end = 0;
	int r = 0;

	if (memory == MAP_FAILED)
		return err_errno(err, "cannot read the memory of a virtual machine");
	while (r == 0 && end < size && (at = lseek(m->ram, end, SEEK_DATA)) >= 0) {
		end = lseek(m->ram, at, SEEK_HOLE);
		end = end < 0 ? size : end;
		r = write_range(file, memory, (size_t)at, (size_t)end, err);
	}
	munmap(memory, m->memory);
	return r;
}

static int
write_state(int file, const struct vm_machine *m, struct err *err)
{
	OWN(freep) char *state = NULL;
	size_t len;
	int r = read_whole(m->state, (size_t)64 << 20, &state, &len, err);

	if (r == 0 && pwrite(file, state, len, (off_t)m->memory) != (ssize_t)len)
		r = err_errno(err, "cannot write a template");
	return r;
}

static int
write_template(int file, const struct vm_machine *m, struct err *err)
{
	int r = ftruncate(file, 0) < 0 ? err_errno(err, "cannot write a template") : write_memory(file, m, err);

	if (r == 0)
		r = write_state(file, m, err);
	/* After a crash, the name must not stand for half a file. */
	if (r == 0 && (fsync(file) < 0 || fchmod(file, 0400) < 0))
		r = err_errno(err, "cannot keep a template");
	return r;
}

/* The file of a template that nobody else is making; -EBUSY: somebody is, or just was. */
static int
open_part(int folder, const char *part)
{
	OWN(closep) int file = openat(folder, part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct stat mine, named;

	if (file < 0)
		return -errno;
	if (flock(file, LOCK_EX | LOCK_NB) < 0 || fstat(file, &mine) < 0 ||
	    fstatat(folder, part, &named, AT_SYMLINK_NOFOLLOW) < 0 || mine.st_ino != named.st_ino)
		return -EBUSY;
	return TAKE_FD(file);
}

/* Parts that nobody is making: their makers were killed. */
static void
remove_parts(int folder)
{
	OWN(closedirp) DIR *dir = tree_list(folder);

	for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
		OWN(closep) int file = -1;

		if (strncmp(e->d_name, PART, sizeof(PART) - 1) != 0)
			continue;
		file = openat(folder, e->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0)
			(void)unlinkat(folder, e->d_name, 0);
	}
}

/* Those that were used last stay, until they are old. */
static void
prune(int folder)
{
	OWN(freep) struct template *list = NULL;
	size_t n = 0, kept = 0;

	remove_parts(folder);
	(void)template_list(folder, &list, &n, NULL);
	for (size_t i = 0; i < n; i++)
		if (is_old(&list[i].st) || ++kept > KEEP)
			(void)template_remove(folder, &list[i], NULL);
}

/* A full disk is no reason to fail: *RET_WRITTEN. */
static int
make(const struct cell_spec *spec, const struct boundary_ground *ground, int file, const struct vm *like,
     bool *ret_written, struct err *err)
{
	struct vm vm = *like;
	int r;

	vm.machine.start = VM_RECORD;
	vm.machine.has_disk = vm.machine.has_share = false;
	vm.machine.has_net = vm.machine.has_net && !vm.driver->plugs_card;
	vm.machine.state = memfd_create("state", MFD_CLOEXEC);
	if (vm.machine.state < 0)
		return err_errno(err, "cannot make a file for a virtual machine's state");
	/* It takes some seconds: somebody who waits at a terminal is told why. */
	if (!spec->quiet && isatty(STDERR_FILENO))
		fprintf(stderr, "cloister: booting a virtual machine as a template, once for all cells of its kind...\n");
	r = vm_record(spec, ground, &vm, err);
	if (r == 0)
		*ret_written = write_template(file, &vm.machine, NULL) == 0;
	vm_close(&vm);
	return r;
}

int
vm_prepare_template(const struct cell_spec *spec, const struct boundary_ground *ground, struct vm *vm,
                    struct err *err)
{
	OWN(closep) int folder = open_folder(spec, err);
	OWN(closep) int file = -1;
	char name[NAME_SIZE], part[NAME_SIZE];
	bool written = false;
	int r = -EAGAIN;

	if (folder < 0)
		return folder;
	name_template(spec, vm, name);
	if (use(folder, name, vm) == 0)
		return 0;
	memcpy(part, PART, sizeof(PART));
	memcpy(part + sizeof(PART) - 1, name + sizeof(PREFIX) - 1, HASH_HEX + 1);
	file = open_part(folder, part);
	/* Whoever cannot write there boots each time. */
	if (file < 0)
		return 0;
	for (int i = 0; r == -EAGAIN && i < TRIES; i++)
		r = make(spec, ground, file, vm, &written, err);
	if (written && renameat(folder, part, folder, name) == 0) {
		prune(folder);
		(void)use(folder, name, vm);
	} else {
		(void)unlinkat(folder, part, 0);
	}
	return r;
}
