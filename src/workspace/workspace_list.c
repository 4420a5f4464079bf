/* workspace_list.c - builds the list of changes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "workspace/workspace_walk.h"

void
workspace_changes_free(struct workspace_change *list)
{
	for (struct workspace_change *c = list; c != NULL && c->path != NULL; c++)
		free((char *)(uintptr_t)c->path);
	free(list);
}

/* Make room for one more entry and the end. */
static int
list_grow(struct walk_list *list, struct err *err)
{
	struct workspace_change *more;
	size_t cap = list->cap == 0 ? 64 : list->cap * 2;

	if (list->n + 1 < list->cap)
		return 0;
	more = reallocarray(list->change, cap, sizeof(*more));
	if (more == NULL)
		return err_errno(err, "cannot list the changes");
	list->change = more;
	list->cap = cap;
	return 0;
}

int
walk_list_add(struct walk_list *list, const struct workspace_change *change, struct err *err)
{
	size_t len = strlen(change->path) + 1;
	char *path;
	int r;

	if (len > WORKSPACE_NAMES_MAX - list->bytes)
		return err_set(err, E2BIG, "too many changes to list");
	r = list_grow(list, err);
	if (r < 0)
		return r;
	path = strdup(change->path);
	if (path == NULL)
		return err_errno(err, "cannot list the changes");
	list->bytes += len;
	list->change[list->n] = *change;
	list->change[list->n++].path = path;
	list->change[list->n].path = NULL;
	return 0;
}

static int
list_visit(void *arg, const struct walk_node *node, struct err *err)
{
	return node->differs ? walk_list_add(arg, &node->change, err) : 0;
}

int
workspace_list(const struct workspace *ws, struct workspace_change **ret_list,
               size_t *ret_n, struct err *err)
{
	static const struct walk_hooks hooks = { .visit = list_visit };
	struct walk_list list = {0};
	struct walk walk = { .ws = ws, .hooks = &hooks, .arg = &list };
	int r = list_grow(&list, err);

	if (r < 0)
		return r;
	list.change[0].path = NULL;
	r = walk_run(&walk, err);
	if (r < 0) {
		workspace_changes_free(list.change);
		return r;
	}
	*ret_list = list.change;
	*ret_n = list.n;
	return 0;
}

int
workspace_list_folder(int real, const char *path, struct workspace_change **ret_list, size_t *ret_n,
                      struct err *err)
{
	OWN(closep) int dir = wtree_open_folder(real, path);
	const struct workspace ws = { .changes = dir, .real = -1 };
	char shown[WTREE_SHOWN_MAX];

	if (dir < 0) {
		errno = -dir;
		return err_errno(err, "cannot open '%s'", wtree_show(shown, path));
	}
	return workspace_list(&ws, ret_list, ret_n, err);
}
