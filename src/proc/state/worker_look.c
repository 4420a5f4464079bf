/* worker_look.c - looks into files that an agent has changed, while they are written: for secrets, for text that looks like
 * instructions, and whether they are text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proc/state/worker_guard.h"
#include "workspace/compare.h"

void
worker_look(struct look *look, const void *data, size_t len)
{
	const char *kind;

	/* Nothing reads instructions in what is not text. */
	if (!look->begun)
		look->found.binary = compare_is_binary(data, len < COMPARE_SNIFF ? len : COMPARE_SNIFF);
	look->begun = true;
	if (!look->found.binary)
		injection_feed(&look->injection, data, len);
	kind = look->found.secret == NULL ? secrets_find(&look->secrets, data, len) : NULL;
	if (kind != NULL)
		look->found.secret = kind;
}

int
worker_look_end(struct looks *looks, const struct look *look, const git_oid *id, struct err *err)
{
	struct look_found *more = looks->found, found = look->found;

	found.injection = look->injection.found;
	found.id = *id;
	if (found.injection == 0 && found.secret == NULL && !found.binary)
		return 0;
	if ((looks->n & (looks->n - 1)) == 0)
		more = realloc(looks->found, (looks->n == 0 ? 1 : 2 * looks->n) * sizeof(*more));
	if (more == NULL)
		return err_set(err, ENOMEM, "out of memory");
	looks->found = more;
	more[looks->n++] = found;
	looks->sorted = false;
	return 0;
}

static int
by_id(const void *a, const void *b)
{
	return git_oid_cmp(&((const struct look_found *)a)->id, &((const struct look_found *)b)->id);
}

const struct look_found *
worker_looked(struct looks *looks, const git_oid *id)
{
	const struct look_found key = { .id = *id };

	if (looks->n == 0)
		return NULL;
	if (!looks->sorted)
		qsort(looks->found, looks->n, sizeof(*looks->found), by_id);
	looks->sorted = true;
	return bsearch(&key, looks->found, looks->n, sizeof(key), by_id);
}

void
worker_looks_free(struct looks *looks)
{
	free(looks->found);
	*looks = (struct looks){0};
}
