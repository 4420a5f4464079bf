/* kernel.h - finds the kernel that a guest boots, and the folder of its modules. */
#ifndef CLOISTER_KERNEL_H
#define CLOISTER_KERNEL_H

struct err;

struct kernel {
	char *path;                     /* absolute, without links */
	char *release;                  /* "6.1.0-50-cloud-amd64" */
	char *modules;                  /* has modules.builtin and kernel/ */
};

/* PATH is a kernel, or "" for the newest readable one in /boot: one for cloud machines
 * (vmlinuz-*-cloud-ARCH) before any other (vmlinuz-*).  MODULES is the folder of its modules, or ""
 * for /lib/modules/RELEASE or /usr/lib/modules/RELEASE.  ROOT is before the folders that are searched:
 * "", except in tests.
 *
 * The release is in the file's name; if it is not there, it is the name of the folder MODULES.  Errors
 * explain what to install or to change.  On success the caller frees *ret_kernel. */
int kernel_find(const char *root, const char *path, const char *modules, struct kernel *ret_kernel,
                struct err *err);
void kernel_free(struct kernel *k);     /* for OWN() too */

/* Open a file that goes into a guest: a descriptor.  It must be a regular file, no link, and only root
 * and this user may write it. */
int kernel_open_file(int dir, const char *name, struct err *err);
#endif
