/* template.h - the templates of virtual machines, as files in the data folder. */
#ifndef CLOISTER_TEMPLATE_H
#define CLOISTER_TEMPLATE_H
#include <stddef.h>
#include <sys/stat.h>

#include "canon/hash.h"

struct err;

#define TEMPLATE_FOLDER "vm"            /* with the initramfs files */
#define TEMPLATE_PREFIX "template-"     /* and the hash of what it was made with */
#define TEMPLATE_PART "part-" TEMPLATE_PREFIX   /* being made */

struct template {
	char hash[HASH_HEX + 1];
	struct stat st;                 /* its atime is its last use, its mtime tells its age */
};

/* All templates in FOLDER (-1: none), the last used first; the caller owns *ret_list. */
int template_list(int folder, struct template **ret_list, size_t *ret_n, struct err *err);
int template_remove(int folder, const struct template *t, struct err *err);
#endif
