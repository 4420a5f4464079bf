/* diff_renames.c - finds files that a cell renamed: removed under one name, added under another with
 * mostly the same contents. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"
#include "base/io.h"
#include "cli/changes.h"
#include "cli/cli.h"

#define LIKE_MIN 50             /* per cent that two names of one file have in common, as git counts */
#define PAIRS_MAX 4000          /* of files whose contents are compared */

/* A file that is gone under its old name. */
struct diff_gone {
	char *path;
	mode_t mode;
	uint64_t size;
	bool renamed;
};
struct pair {
	size_t gone, added;
	unsigned like;
	bool same_name;                 /* the last name in the path */
};
struct pairs {
	struct pair *list;
	size_t n;
};

void
diff_renames_free(struct diff_renames *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->gone[i].path);
	free(r->gone);
	*r = (struct diff_renames){0};
}

static int
add_gone(struct diff_renames *r, const struct changes_part *part, char *path)
{
	struct diff_gone *more = path == NULL ? NULL : reallocarray(r->gone, r->n + 1, sizeof(*more));
	OWN(closep) int fd = -1;
	struct stat st;

	if (more == NULL) {
		free(path);
		return -ENOMEM;
	}
	r->gone = more;
	fd = workspace_open(part->ws.real, path, NULL);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size == 0) {
		free(path);
		return 0;
	}
	r->gone[r->n++] = (struct diff_gone){ path, st.st_mode, (uint64_t)st.st_size, false };
	return 0;
}

/* The files of a removed folder, too. */
static int
find_gone(struct diff_renames *r, const struct changes_part *part, const struct workspace_change *change)
{
	OWN(workspace_changes_freep) struct workspace_change *list = NULL;
	size_t n = 0;
	int failed = 0;

	if (S_ISREG(change->old_mode))
		return add_gone(r, part, strdup(change->path));
	if (!S_ISDIR(change->old_mode) || workspace_list_folder(part->ws.real, change->path, &list, &n, NULL) < 0)
		return 0;
	for (size_t i = 0; failed == 0 && i < n && r->n < PAIRS_MAX; i++)
		if (S_ISREG(list[i].mode))
			failed = add_gone(r, part, str_format("%s/%s", change->path, list[i].path));
	return failed;
}

static const char *
last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

static int
likeness(struct diff_reader *reader, const struct changes_part *part, const char *from, const char *to,
         unsigned *ret_like, struct err *err)
{
	OWN(closep) int old = workspace_open(part->ws.real, from, NULL);
	OWN(closep) int new = workspace_open(part->ws.changes, to, NULL);
	int r;

	*ret_like = 0;
	if (old < 0 || new < 0)
		return 0;
	r = diff_likeness(reader, old, new, ret_like, err);
	return r == -E2BIG ? 0 : r;
}

static int
add_pair(struct pairs *pairs, struct pair pair)
{
	struct pair *more = reallocarray(pairs->list, pairs->n + 1, sizeof(*more));

	if (more == NULL)
		return -ENOMEM;
	pairs->list = more;
	pairs->list[pairs->n++] = pair;
	return 0;
}

static void
pairs_free(struct pairs *pairs)
{
	free(pairs->list);
}

static bool
is_added_file(const struct workspace_change *c)
{
	return c->kind == WORKSPACE_ADDED && S_ISREG(c->mode) && c->size > 0 && c->summed == 0 && !c->newer;
}

/* Files whose sizes are too different cannot be alike.  If files cannot be compared on this machine,
 * names still can be listed. */
static int
find_pairs(const struct diff_renames *r, struct diff_reader *reader, const struct changes_part *part,
           const struct workspace_change *list, size_t n, struct pairs *pairs)
{
	struct err err = {0};
	size_t asked = 0;
	int failed = 0;

	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; is_added_file(&list[i]) && failed == 0 && j < r->n; j++) {
			const struct diff_gone *gone = &r->gone[j];
			uint64_t less = gone->size < list[i].size ? gone->size : list[i].size;
			uint64_t most = gone->size < list[i].size ? list[i].size : gone->size;
			struct pair pair = { j, i, 0, strcmp(last_name(gone->path), last_name(list[i].path)) == 0 };

			if (less < most - less || asked++ >= PAIRS_MAX)
				continue;
			failed = likeness(reader, part, gone->path, list[i].path, &pair.like, &err);
			if (failed == 0 && pair.like >= LIKE_MIN)
				failed = add_pair(pairs, pair);
		}
	}
	return failed == -ENOMEM ? failed : 0;
}

static int
best_first(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	if (x->like != y->like)
		return x->like > y->like ? -1 : 1;
	if (x->same_name != y->same_name)
		return x->same_name ? -1 : 1;
	if (x->added != y->added)
		return x->added < y->added ? -1 : 1;
	return x->gone < y->gone ? -1 : 1;
}

int
diff_renames_find(struct diff_renames *r, struct diff_reader *reader, const struct changes_part *part,
                  struct workspace_change *list, size_t n, struct err *err)
{
	OWN(pairs_free) struct pairs pairs = {0};
	int failed = 0;

	for (size_t i = 0; failed == 0 && i < n && r->n < PAIRS_MAX; i++)
		if (list[i].summed == 0 && !S_ISDIR(list[i].mode) &&
		    (list[i].kind == WORKSPACE_DELETED || S_ISDIR(list[i].old_mode)))
			failed = find_gone(r, part, &list[i]);
	if (failed == 0 && r->n > 0)
		failed = find_pairs(r, reader, part, list, n, &pairs);
	if (failed < 0)
		return err_set(err, ENOMEM, "cannot compare names: out of memory");
	if (pairs.n > 0)
		qsort(pairs.list, pairs.n, sizeof(*pairs.list), best_first);
	for (size_t i = 0; i < pairs.n; i++) {
		struct workspace_change *to = &list[pairs.list[i].added];
		struct diff_gone *from = &r->gone[pairs.list[i].gone];

		if (to->from != NULL || from->renamed)
			continue;
		from->renamed = true;
		r->renamed++;
		to->from = from->path;
		to->old_mode = from->mode;
		to->like = pairs.list[i].like;
	}
	return 0;
}

bool
diff_is_renamed(const struct diff_renames *r, const char *path)
{
	for (size_t i = 0; r->renamed > 0 && i < r->n; i++)
		if (r->gone[i].renamed && strcmp(r->gone[i].path, path) == 0)
			return true;
	return false;
}
