/* kernel.h - finds the kernel that a guest boots, and the folder of its modules. */
#ifndef CLOISTER_KERNEL_H
#define CLOISTER_KERNEL_H
#include <limits.h>

struct err;

struct kernel {
	char *path;                     /* absolute, without links */
	char *release;                  /* "6.1.0-50-cloud-amd64" */
	char *modules;                  /* has modules.builtin and, if there are any, kernel/ */
};

/* PATH is a kernel, or "" for one of these, the first that is there and readable:
 * - the newest in the folder OWN, where cloister's own kernel is installed; "" for no such folder;
 * - the newest for cloud machines in /boot (vmlinuz-*-cloud-ARCH), then the newest other (vmlinuz-*).
 *
 * MODULES is the folder of its modules, or "": then it is the kernel's own folder if that has a file
 * modules.builtin, as for a kernel with everything built in, or else /lib/modules/RELEASE or
 * /usr/lib/modules/RELEASE.  With MODULES, OWN is not searched.  ROOT is before the other folders that are
 * searched: "", except in tests.
 *
 * The release is in the file's name; if it is not there, it is the name of the folder MODULES.  Errors
 * explain what to install or to change.  On success the caller frees *ret_kernel. */
int kernel_find(const char *root, const char *own, const char *path, const char *modules,
                struct kernel *ret_kernel, struct err *err);
void kernel_free(struct kernel *k);     /* for OWN() too */

/* The folder OWN of kernel_find(): vm, beside cloister-initramfs.  Who may write there could replace that
 * program itself. */
int kernel_own_folder(char ret_path[PATH_MAX], struct err *err);

/* Open a file that goes into a guest: a descriptor.  It must be a regular file, no link, and only root
 * and this user may write it. */
int kernel_open_file(int dir, const char *name, struct err *err);
#endif
