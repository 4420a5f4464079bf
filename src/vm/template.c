/* template.c - see template.h. */
#include "vm/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"

#define PREFIX_LEN (sizeof(TEMPLATE_PREFIX) - 1)

static int
by_use(const void *a, const void *b)
{
	const struct template *first = a, *second = b;

	return first->st.st_atime < second->st.st_atime ? 1 : first->st.st_atime > second->st.st_atime ? -1 : 0;
}

int
template_list(int folder, struct template **ret_list, size_t *ret_n, struct err *err)
{
	OWN(closedirp) DIR *dir = tree_list(folder);
	struct template *list = NULL, *more, one;
	size_t n = 0;

	for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
		if (strncmp(d->d_name, TEMPLATE_PREFIX, PREFIX_LEN) != 0 ||
		    strlen(d->d_name) != PREFIX_LEN + HASH_HEX ||
		    fstatat(folder, d->d_name, &one.st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		memcpy(one.hash, d->d_name + PREFIX_LEN, sizeof(one.hash));
		more = reallocarray(list, n + 1, sizeof(*list));
		if (more == NULL) {
			free(list);
			return err_set(err, ENOMEM, "out of memory");
		}
		list = more;
		list[n++] = one;
	}
	if (n > 0)
		qsort(list, n, sizeof(*list), by_use);
	*ret_list = list;
	*ret_n = n;
	return 0;
}

int
template_remove(int folder, const struct template *t, struct err *err)
{
	char name[PREFIX_LEN + HASH_HEX + 1];

	snprintf(name, sizeof(name), TEMPLATE_PREFIX "%s", t->hash);
	return unlinkat(folder, name, 0) < 0 ? err_errno(err, "cannot remove the template %s", t->hash) : 0;
}
