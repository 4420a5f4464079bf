/* module.h - reads what a kernel module states about itself, and the names of module files.
 *
 * Pure: bytes in, meaning out.  Every offset in the file is checked before it is used. */
#ifndef CLOISTER_MODULE_H
#define CLOISTER_MODULE_H
#include <stdbool.h>
#include <stddef.h>

struct err;

#define MODULE_NAME_MAX 64              /* with a NUL; the kernel's own limit is 56 */

/* Strings of the section .modinfo. */
struct module_info {
	const char *name;
	const char *depends;            /* names with commas between them, or "" */
	const char *vermagic;           /* the kernel's release, then its build options */
};

/* Parse a module: an ELF file for amd64 or arm64, not compressed.  The strings point into DATA. */
int module_parse(const void *data, size_t len, struct module_info *ret_info, struct err *err);

/* Whether VERMAGIC is that of a module for the kernel RELEASE. */
bool module_is_for(const char *vermagic, const char *release);

/* Copy NAME, of LEN bytes, with '_' for each '-': the kernel treats the two as equal.  False if it
 * is too long, or has anything but letters, digits, '_' and '-'. */
bool module_name(const char *name, size_t len, char ret_name[MODULE_NAME_MAX]);

/* Take the next name from DEPENDS, which is advanced: 1, 0 at its end, -EBADMSG if that is no name. */
int module_next(const char **depends, char ret_name[MODULE_NAME_MAX]);

/* The name of the module in the file PATH of LEN bytes, and the suffix of its compression, which
 * points into PATH: "" or ".xz" and so on.  False if it is no module file. */
bool module_file_name(const char *path, size_t len, char ret_name[MODULE_NAME_MAX],
                      const char **ret_suffix);

/* Whether BUILTIN, the text of modules.builtin, lists NAME, which is as module_name() makes it. */
bool module_is_builtin(const char *builtin, const char *name);
#endif
