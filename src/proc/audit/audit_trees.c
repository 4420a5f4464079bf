/* audit_trees.c - checks that the capabilities for cells are still what was registered. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/data.h"
#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "canon/hash.h"
#include "proc/audit/audit_verifier.h"
#include "registry/registry_tree.h"

static void
tell(struct audit_verifier *v, const char *name, const struct err *why)
{
	v->bad_trees++;
	if (v->args->json) {
		json_open(&v->out, NULL, '{');
		json_str(&v->out, "hash", name);
		json_str(&v->out, "message", why->text);
		json_close(&v->out, '}');
		return;
	}
	printf("capability %s: %s\n  ", name, why->code == EUCLEAN ? "changed" : "cannot be checked");
	text_print_safe(stdout, why->text, strlen(why->text), false);
	printf("\n");
}

int
audit_verify_trees(struct audit_verifier *v, struct err *err)
{
	OWN(freep) char *path = data_path("registry/trees", NULL);
	OWN(closedirp) DIR *dir = path == NULL ? NULL : opendir(path);
	struct dirent *d;

	if (dir == NULL)
		return path == NULL || errno == ENOENT ? 0 : err_errno(err, "cannot list '%s'", path);
	while ((d = readdir(dir)) != NULL) {
		struct err why = {0};
		int r;

		/* A name that is not a hash belongs to nothing: no dispatch looks for it. */
		if (strlen(d->d_name) != HASH_HEX || strspn(d->d_name, "0123456789abcdef") != HASH_HEX)
			continue;
		v->trees++;
		r = registry_check_tree(dirfd(dir), d->d_name, NULL, &why);
		if (r == -ENOMEM)
			return err_set(err, ENOMEM, "out of memory");
		if (r < 0)
			tell(v, d->d_name, &why);
	}
	return 0;
}
