/* state.c - see state.h. */
#include "state/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/data.h"
#include "base/file_lock.h"
#include "base/io.h"
#include "base/tree.h"
#include "state/state_parts.h"

/* ---- opening ---- */

void
state_close(struct state *state)
{
	state_worker_stop(state);
	close_fd(&state->tree);
	close_fd(&state->dir);
}

static int
open_folder(const char *name, struct state *state, struct err *err)
{
	OWN(closep) int all = -1;
	int r = state_check_name("state", name, err), dir;

	if (r < 0)
		return r;
	all = data_folder(STATE_FOLDER, false, err);
	dir = all < 0 ? -1 : openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (all == -ENOENT || (all >= 0 && dir < 0 && errno == ENOENT))
		return err_set(err, ENOENT, "there is no state '%s': `cloister state create %s` makes it", name, name);
	if (dir < 0)
		return all < 0 ? all : err_errno(err, "cannot open state '%s'", name);
	*state = (struct state){ .dir = dir };
	snprintf(state->name, sizeof(state->name), "%s", name);
	return 0;
}

/* Only with the lock it is known that nobody is between `pending` and the record. */
static int
repair(struct state *state, struct err *err)
{
	OWN(closep) int lock = -1;

	if (faccessat(state->dir, STATE_PENDING, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	lock = state_lock(state, err);
	return lock < 0 ? lock : state_repair(state, err);
}

int
state_open(const char *name, struct state *ret_state, struct err *err)
{
	struct state state;
	int r = open_folder(name, &state, err);

	if (r < 0)
		return r;
	r = state_read_limits(state.dir, &state.limits, err);
	if (r == 0)
		r = repair(&state, err);
	if (r < 0) {
		state_close(&state);
		return err_wrap(err, "state '%s'", name);
	}
	*ret_state = state;
	return 0;
}

/* ---- making ---- */

static const char *const parts[] = {
	STATE_TREES, STATE_ASIDE, STATE_GIT, STATE_GIT "/objects", STATE_GIT "/objects/info", STATE_GIT "/objects/pack",
	STATE_GIT "/refs", STATE_GIT "/refs/heads", STATE_GIT "/refs/tags", STATE_GIT "/info",
};

/* So that git, if somebody uses it here, packs no refs and removes no objects. */
#define GIT_CONFIG "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n" \
                   "[gc]\n\tauto = 0\n\tpackRefs = false\n[receive]\n\tdenyNonFastForwards = true\n"

static int
fill(int dir, const struct state_limits *limits, struct err *err)
{
	OWN(closep) int git = -1;
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (mkdirat(dir, parts[i], 0755) < 0 && errno != EEXIST)
			return err_errno(err, "cannot make '%s'", parts[i]);
	git = openat(dir, STATE_GIT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (git < 0)
		return err_errno(err, "cannot open '" STATE_GIT "'");
	r = state_replace(git, "HEAD", "ref: refs/heads/" STATE_MAIN "\n", strlen("ref: refs/heads/" STATE_MAIN "\n"), err);
	if (r == 0)
		r = state_replace(git, "config", GIT_CONFIG, strlen(GIT_CONFIG), err);
	return r == 0 ? state_write_limits(dir, limits, err) : r;
}

static int
first_commit(struct state *state, struct err *err)
{
	static const struct state_author author = { .subject = "Create the state", .reason = "create" };
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	struct state_change change = { .type = "state.created", .ref = "refs/heads/" STATE_MAIN, .author = &author };
	struct state_withheld withheld;
	struct state_committed c = {0};
	const char *tree, *sum;
	int r = state_worker_start(state, -1, -1, err);

	if (r < 0)
		return r;
	ipc_begin(&b, STATE_ASK_TREE);
	buf_put_str(&b, "");
	buf_put_str(&b, "");
	buf_put_u32(&b, STATE_CHANGES_NONE);
	buf_put_str(&b, "");
	buf_put_str(&b, "");
	r = state_ask(state, &b, NULL, NULL, &done, err);
	r = r == 0 ? state_take_withheld(&done.body, &withheld, &c, err) : r;
	if (r == 0 && (buf_get_str(&done.body, &tree) < 0 || buf_get_str(&done.body, &sum) < 0 || !state_is_id(tree)))
		r = err_set(err, EPROTO, "the process that writes the state answered nonsense");
	if (r == 0)
		r = state_put_commit(state, tree, sum, NULL, 0, &author, change.to, err);
	change.sum = r == 0 ? sum : NULL;
	return r == 0 ? state_change(state, &change, err) : r;
}

/* A folder without a first commit is what a crash left. */
static bool
is_made(const struct state *state)
{
	char id[STATE_ID + 1];

	return state_ref_read(state->dir, "refs/heads/" STATE_MAIN, id, NULL) == 0 ||
	       faccessat(state->dir, STATE_PENDING, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int
count_states(int all, struct err *err)
{
	OWN(closedirp) DIR *list = tree_list(all);
	size_t n = 0;

	while (list != NULL && readdir(list) != NULL)
		n++;
	return list == NULL ? err_errno(err, "cannot list the states") : n < STATE_STATES_MAX + 2 ? 0 :
	       err_set(err, E2BIG, "there are %d states already: remove some", STATE_STATES_MAX);
}

int
state_create(const char *name, const struct state_limits *limits, struct err *err)
{
	OWN(closep) int all = -1, lock = -1;
	OWN(state_close) struct state state = {0};
	int r = state_check_name("state", name, err);

	state.limits = limits != NULL ? *limits : state_limits_default;
	state.limits.disk = state.limits.disk == 0 ? STATE_DISK : state.limits.disk;
	r = r == 0 ? state_check_limits(&state.limits, err) : r;
	if (r < 0)
		return r;
	all = data_folder(STATE_FOLDER, true, err);
	r = all < 0 ? all : count_states(all, err);
	if (r < 0)
		return r;
	if (mkdirat(all, name, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make state '%s'", name);
	snprintf(state.name, sizeof(state.name), "%s", name);
	state.dir = openat(all, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (state.dir < 0)
		return err_errno(err, "cannot make state '%s'", name);
	lock = state_lock(&state, err);
	if (lock < 0)
		return lock;
	if (is_made(&state))
		return err_set(err, EEXIST, "there is a state '%s' already", name);
	r = fill(state.dir, &state.limits, err);
	if (r == 0)
		r = first_commit(&state, err);
	return r < 0 ? err_wrap(err, "cannot make state '%s'", name) : 0;
}

/* ---- heads ---- */

int
state_head(const struct state *state, const char *branch, char ret_commit[STATE_ID + 1], struct err *err)
{
	char ref[STATE_REF_MAX];
	int r = state_ref_of(branch, ref, err);

	r = r == 0 ? state_ref_read(state->dir, ref, ret_commit, err) : r;
	return r == -ENOENT ? err_set(err, ENOENT, "state '%s' has no branch '%s'", state->name,
	                              branch == NULL ? STATE_MAIN : branch) : r;
}

/* ---- checkouts ---- */

/* With the lock.  Files that nobody uses make room. */
static int
ask_checkout(struct state *state, const char *commit, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	int r;

	state_room_prune(state, commit, STATE_TREES_KEPT);
	if (state_room_check(state, true, NULL) < 0)
		state_room_prune(state, commit, 0);
	r = state_room_check(state, true, err);
	/* A worker that reads changes may not write there. */
	if (state->reads)
		state_worker_stop(state);
	r = r == 0 ? state_worker_start(state, -1, -1, err) : r;
	if (r < 0)
		return r;
	ipc_begin(&b, STATE_ASK_CHECKOUT);
	buf_put_str(&b, commit);
	r = state_ask(state, &b, NULL, NULL, &done, err);
	return r == 0 ? state_room_hold(state, commit, err) : r;
}

int
state_checkout(struct state *state, const char *commit, char **ret_path, struct err *err)
{
	OWN(freep) char *all = NULL, *path = NULL;
	int r;

	if (!state_is_id(commit))
		return err_set(err, EINVAL, "'%.80s' is not the id of a commit", commit);
	all = data_path(STATE_FOLDER, err);
	if (all == NULL)
		return -ENOENT;
	path = str_format("%s/%s/" STATE_TREES "/%s", all, state->name, commit);
	if (path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	/* It has this name only once it is complete. */
	r = state_room_hold(state, commit, err);
	if (r == -ENOENT) {
		OWN(closep) int lock = state_lock(state, err);

		r = lock < 0 ? lock : ask_checkout(state, commit, err);
		if (r < 0)
			return err_wrap(err, "cannot lay out commit %.12s of state '%s'", commit, state->name);
	}
	if (r == 0)
		*ret_path = TAKE(path);
	return r;
}

/* ---- writers ---- */

int
state_lock_writer(const struct state *state, const char *branch, const char *cell, char ret_cell[STATE_CELL_MAX],
                  struct err *err)
{
	OWN(freep) char *holder = NULL;
	OWN(closep) int fd = -1;
	char ref[STATE_REF_MAX], name[STATE_NAME_MAX + 16];
	pid_t owner;
	int r = state_ref_of(branch, ref, err);

	if (r < 0)
		return r;
	branch = branch == NULL ? STATE_MAIN : branch;
	snprintf(name, sizeof(name), STATE_WRITER "%s", branch);
	fd = file_lock(state->dir, name, &owner, err);
	if (fd == -EBUSY) {
		(void)read_file_at(state->dir, name, STATE_CELL_MAX - 1, &holder, NULL, NULL);
		if (ret_cell != NULL)
			snprintf(ret_cell, STATE_CELL_MAX, "%s", holder != NULL ? holder : "");
		return err_set(err, EBUSY, "%s%s may write branch '%s' of state '%s': wait for its end",
		               holder != NULL && *holder != '\0' ? "cell " : "another process", holder != NULL ? holder : "", branch,
		               state->name);
	}
	if (fd < 0)
		return fd;
	if (ftruncate(fd, 0) < 0 || pwrite(fd, cell, strlen(cell), 0) != (ssize_t)strlen(cell))
		return err_errno(err, "cannot write the lock '%s'", name);
	return TAKE_FD(fd);
}
