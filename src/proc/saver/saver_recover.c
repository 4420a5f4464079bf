/* saver_recover.c - commits what cells left whose savers were killed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "cell/cell_unsaved.h"
#include "proc/saver/saver.h"

/* If its branch has moved on, for example because somebody has gone back to an earlier commit, it gets a branch of its
 * own. */
static int
commit(struct state *state, const char *cell, const struct cell_unsaved *u, int changes, struct err *err)
{
	const struct state_author author = { .subject = "Recover what a cell left", .reason = SAVER_RECOVERED, .cell = cell };
	OWN(state_committed_free) struct state_committed c = {0}, back = {0};
	char branch[STATE_NAME_MAX];
	int r = saver_own(changes, err);

	/* Those of the cell that has ended. */
	state->guards = u->guards;
	r = r == 0 ? state_commit_over(state, u->branch, u->head, u->base, changes, &author, &c, err) : r;

	if (r == 0 && u->goes_back)
		r = state_go_back(state, u->branch, u->base, &author, &back, err);
	if (r != -ESTALE && r != -ENOENT)
		return r;
	snprintf(branch, sizeof(branch), "cell-%s", cell);
	r = state_make_branch(state, branch, u->head, &author, err);
	return r < 0 && r != -EEXIST ? r : state_commit_over(state, branch, u->head, u->base, changes, &author, &c, err);
}

static int
commit_guarded(struct state *state, const char *cell, const struct cell_unsaved *u, int changes, struct err *err)
{
	const char *guards = state->guards;
	int r = commit(state, cell, u, changes, err);

	state->guards = guards;
	return r;
}

static int
recover_entry(struct state *state, int folder, const struct cell_entry *entry, struct err *err)
{
	OWN(closep) int dir = openat(folder, entry->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = 0;

	if (dir < 0 || !cell_has_unsaved(dir) || cell_state_is_live(dir))
		return 0;
	for (uint32_t i = 0; r == 0 && i < CELL_STATES_MAX; i++) {
		struct cell_unsaved u;
		OWN(closep) int changes = cell_unsaved_get(dir, i, &u, NULL);

		if (changes < 0 || strcmp(u.state, state->name) != 0)
			continue;
		r = commit_guarded(state, entry->id, &u, changes, err);
		r = r == 0 ? cell_unsaved_remove(dir, i, err) : err_wrap(err, "cell %s left changes of state '%s' that are not "
		                                                         "committed", entry->id, state->name);
	}
	return r;
}

int
saver_recover(struct state *state, struct err *err)
{
	OWN(closep) int folder = cell_state_open(false, NULL);
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n;
	int r = 0;

	if (folder < 0 || cell_list(folder, false, &entries, &n, NULL) < 0)
		return 0;
	for (size_t i = 0; r == 0 && i < n; i++)
		r = recover_entry(state, folder, &entries[i], err);
	return r;
}
