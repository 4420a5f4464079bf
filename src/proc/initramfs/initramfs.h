/* initramfs.h - the parts of cloister-initramfs: modules and their order, decompression. */
#ifndef CLOISTER_INITRAMFS_H
#define CLOISTER_INITRAMFS_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "canon/hash.h"
#include "vm/module.h"

struct err;
struct kernel;

#define INITRAMFS_KERNEL_MAX ((uint64_t)1 << 30)
#define INITRAMFS_PROGRAM_MAX ((size_t)64 << 20)
#define INITRAMFS_MODULE_MAX ((size_t)64 << 20) /* decompressed */
#define INITRAMFS_FILES_MAX 65536               /* module files of a kernel */
#define INITRAMFS_CHOSEN_MAX 100                /* two digits in their names */

/* ---- initramfs_unpack.c ---- */

/* Append the contents of DATA to OUT, decompressed as SUFFIX (module_file_name()) demands.  -EFBIG:
 * they are over OUT's maximum. */
int initramfs_unpack(const char *suffix, const void *data, size_t len, struct buf *out, struct err *err);

/* ---- initramfs_modules.c: the module files of a kernel ---- */

enum initramfs_state { INITRAMFS_UNSEEN, INITRAMFS_LOADING, INITRAMFS_CHOSEN };

struct initramfs_file {
	char *path;                     /* beneath the folder of modules */
	const char *suffix;             /* in PATH */
	char name[MODULE_NAME_MAX];
	uint64_t size;
	/* Who may set a file's times cannot set this one. */
	int64_t ctime_ns;
	uint64_t device, inode;
	enum initramfs_state state;
};
struct initramfs_files {
	int dir;                        /* the folder of modules; 0: not open */
	char *builtin;                  /* the text of modules.builtin */
	struct initramfs_file *at;      /* sorted by path */
	size_t n, cap;
};
int initramfs_files_list(const char *folder, struct initramfs_files *ret_files, struct err *err);
void initramfs_files_free(struct initramfs_files *f);   /* for OWN() too */

/* ---- initramfs_choose.c: the modules that go in ---- */

extern const char *const initramfs_wanted[];    /* ends with NULL */
extern const char *const initramfs_welcome[];

struct initramfs_chosen {
	size_t n;
	struct {
		const struct initramfs_file *file;
		struct buf data;        /* decompressed */
	} at[INITRAMFS_CHOSEN_MAX];
};
/* The WANTED modules that RELEASE has not built in, those that are WELCOME and there, and all they depend
 * on, in an order in which they can be loaded.  The caller frees *CHOSEN, also after an error. */
int initramfs_choose(struct initramfs_files *files, const char *release, const char *const *wanted,
                     const char *const *welcome, struct initramfs_chosen *chosen, struct err *err);
void initramfs_chosen_free(struct initramfs_chosen *c); /* for OWN() too */

/* ---- initramfs_kernel.c ---- */

/* Finds the file KERNEL in the cache FOLDER as an ELF file, or unpacks it: its path, the caller's, and its hash. */
int initramfs_plain_kernel(int kernel, const char *folder, char **ret_path, unsigned char ret_hash[HASH_LEN],
                           struct err *err);
#endif
