/* state_move.c - imports, exports and removes states. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/data.h"
#include "base/io.h"
#include "base/tree.h"
#include "canon/hash.h"
#include "state/state_parts.h"

/* ---- import ---- */

/* A folder, or a repository: one with a work tree, or a bare one. */
static bool
is_repository(int dir)
{
	return faccessat(dir, ".git", F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
	       (faccessat(dir, "HEAD", F_OK, AT_SYMLINK_NOFOLLOW) == 0 && faccessat(dir, "objects", F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
	        faccessat(dir, "refs", F_OK, AT_SYMLINK_NOFOLLOW) == 0);
}

static int
ask_import(struct state *state, const char *path, int source, const char *ref, char ret_tree[STATE_ID + 1],
           char ret_source[STATE_ID + 1], struct state_committed *c, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	const char *id = "";
	bool repository = is_repository(source);
	struct state_withheld withheld;
	int r = state_worker_start(state, source, -1, err);

	if (r < 0)
		return r;
	if (!repository && ref != NULL)
		return err_set(err, EINVAL, "'%s' is not a git repository, so it has no '%.80s'", path, ref);
	ipc_begin(&b, repository ? STATE_ASK_IMPORT : STATE_ASK_TREE);
	if (repository) {
		buf_put_str(&b, ref != NULL ? ref : "");
	} else {
		buf_put_str(&b, "");
		buf_put_str(&b, "");
		buf_put_u32(&b, STATE_CHANGES_LEAVE);
		buf_put_str(&b, "");
		buf_put_str(&b, "");
	}
	r = state_ask(state, &b, state_take_refused, c, &done, err);
	if (r == 0 && repository && (buf_get_str(&done.body, &id) < 0 || !state_is_id(id)))
		r = err_set(err, EPROTO, "the process that reads the repository answered nonsense");
	r = r == 0 && !repository ? state_take_withheld(&done.body, &withheld, c, err) : r;
	snprintf(ret_source, STATE_ID + 1, "%s", id);
	return r == 0 ? state_take_tree(&done.body, ret_tree, c, err) : r;
}

static int
import_locked(struct state *state, const char *path, int source, const char *ref, struct state_committed *c, struct err *err)
{
	char tree[STATE_ID + 1], from[STATE_ID + 1] = "", subject[STATE_TEXT_MAX];
	const struct state_author author = { .subject = subject, .reason = "import" };
	struct state_change change = { .type = "state.imported", .ref = "refs/heads/" STATE_MAIN, .sum = c->tree, .author = &author };
	const char *base = change.from;
	int r = state_ref_read(state->dir, change.ref, change.from, err);

	r = r == 0 ? ask_import(state, path, source, ref, tree, from, c, err) : r;
	if (r < 0)
		return r;
	snprintf(subject, sizeof(subject), "Import %s%s%.150s", from, from[0] != '\0' ? " of " : "", path);
	change.source = from[0] != '\0' ? from : NULL;
	r = state_put_commit(state, tree, c->tree, &base, 1, &author, c->commit, err);
	memcpy(change.to, c->commit, sizeof(c->commit));
	return r == 0 ? state_change(state, &change, err) : r;
}

int
state_import(const char *name, const struct state_limits *limits, const char *path, const char *ref, bool progress,
             struct state_committed *ret, struct err *err)
{
	OWN(state_committed_free) struct state_committed c = {0};
	OWN(state_close) struct state state = {0};
	OWN(closep) int source = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), lock = -1;
	char real[PATH_MAX];
	int r;

	if (source < 0 || realpath(path, real) == NULL)
		return err_errno(err, "cannot open '%.300s'", path);
	r = state_create(name, limits, err);
	r = r == 0 ? state_open(name, &state, err) : r;
	if (r < 0)
		return r;
	state.progress = progress;
	lock = state_lock(&state, err);
	r = lock < 0 ? lock : import_locked(&state, real, source, ref, &c, err);
	if (r < 0) {
		close_fd(&lock);
		(void)state_remove(name, NULL);
		return err_wrap(err, "cannot import '%.200s'", path);
	}
	*ret = c;
	c = (struct state_committed){0};
	return 0;
}

/* ---- export ---- */

static int
ask_export(struct state *state, int target, bool bundle, const struct state_ref *refs, size_t n, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	OWN(buf_free) struct buf b = {0};
	int r = bundle ? state_worker_start(state, -1, target, err) : state_worker_start(state, -1, -1, err);

	ipc_begin(&b, STATE_ASK_EXPORT);
	buf_put_u32(&b, (uint32_t)n);
	for (size_t i = 0; i < n; i++) {
		buf_put_str(&b, refs[i].ref);
		buf_put_str(&b, refs[i].id);
	}
	buf_put_u32(&b, bundle ? 0 : 1);
	return r == 0 ? state_ask(state, &b, NULL, NULL, &done, err) : r;
}

static int
copy_one(int from, int to, const char *name, struct err *err)
{
	OWN(closep) int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC), out = -1;
	unsigned char hash[HASH_LEN];
	uint64_t size;
	int r;

	out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (in < 0 || out < 0)
		return err_errno(err, "cannot copy '%s'", name);
	r = hash_copy(in, out, UINT64_MAX, hash, &size, err);
	return r == 0 && fsync(out) < 0 ? err_errno(err, "cannot copy '%s'", name) : r;
}

/* What the worker made, and nothing else. */
static int
copy_packs(const struct state *state, int to, struct err *err)
{
	OWN(closep) int from = openat(state->dir, STATE_EXPORT, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	OWN(closedirp) DIR *list = from < 0 ? NULL : tree_list(from);
	const struct dirent *entry;
	int r = 0;

	if (list == NULL)
		return err_errno(err, "cannot find what was exported");
	while (r == 0 && (entry = readdir(list)) != NULL) {
		size_t len = strlen(entry->d_name);

		if (strncmp(entry->d_name, "pack-", 5) == 0 && len < 64 &&
		    (strcmp(entry->d_name + len - 4, ".idx") == 0 || (len > 5 && strcmp(entry->d_name + len - 5, ".pack") == 0)))
			r = copy_one(from, to, entry->d_name, err);
	}
	return r;
}

static void
drop_packs(const struct state *state)
{
	OWN(closep) int fd = openat(state->dir, STATE_EXPORT, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && tree_empty(fd, NULL) == 0)
		(void)unlinkat(state->dir, STATE_EXPORT, AT_REMOVEDIR);
}

static int
put_refs(int to, const struct state_ref *refs, size_t n, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < n; i++) {
		char text[STATE_ID + 2];

		snprintf(text, sizeof(text), "%s\n", refs[i].id);
		r = create_file_at(to, refs[i].ref, 0644, text, err);
	}
	return r;
}

static int
cannot_make(const char *path, struct err *err)
{
	return errno == EEXIST ? err_set(err, EEXIST, "'%.300s' exists already: name a new one", path) :
	       err_errno(err, "cannot make '%.300s'", path);
}

static int
export_repository(struct state *state, const char *path, const struct state_ref *refs, size_t n, struct err *err)
{
	static const char *const folders[] = { "objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags" };
	OWN(closep) int to = -1, packs = -1;
	int r = 0;

	if (mkdir(path, 0777) < 0)
		return cannot_make(path, err);
	to = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	for (size_t i = 0; to >= 0 && i < ARRAY_LEN(folders); i++)
		if (mkdirat(to, folders[i], 0777) < 0)
			return err_errno(err, "cannot make '%.300s/%s'", path, folders[i]);
	packs = to < 0 ? -1 : openat(to, "objects/pack", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (packs < 0)
		return err_errno(err, "cannot open '%.300s'", path);
	drop_packs(state);
	r = ask_export(state, -1, false, refs, n, err);
	r = r == 0 ? copy_packs(state, packs, err) : r;
	drop_packs(state);
	r = r == 0 ? put_refs(to, refs, n, err) : r;
	r = r == 0 ? create_file_at(to, "config", 0644, "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n",
	                            err) : r;
	/* Last: without it, git takes it for no repository. */
	return r == 0 ? create_file_at(to, "HEAD", 0644, "ref: refs/heads/" STATE_MAIN "\n", err) : r;
}

static int
export_bundle(struct state *state, const char *path, const struct state_ref *refs, size_t n, struct err *err)
{
	OWN(closep) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	int r;

	if (fd < 0)
		return cannot_make(path, err);
	r = ask_export(state, fd, true, refs, n, err);
	if (r == 0 && fsync(fd) < 0)
		r = err_errno(err, "cannot write '%.300s'", path);
	if (r < 0)
		(void)unlink(path);
	return r;
}

int
state_export(struct state *state, const char *path, bool bundle, struct err *err)
{
	OWN(freep) struct state_ref *refs = NULL;
	OWN(closep) int lock = state_lock(state, err);
	size_t n = 0;
	int r = lock < 0 ? lock : state_repair(state, err);

	r = r == 0 ? state_ref_list(state->dir, &refs, &n, err) : r;
	return r < 0 ? r : bundle ? export_bundle(state, path, refs, n, err) : export_repository(state, path, refs, n, err);
}

/* ---- removal ---- */

static void
unlock(int *locks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close_fd(&locks[i]);
}

/* The caller holds all of them until the state is gone. */
static int
lock_writers(const struct state *state, const struct state_ref *refs, size_t n, int *ret_locks, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		const char *branch = strncmp(refs[i].ref, "refs/heads/", 11) == 0 ? refs[i].ref + 11 : NULL;
		int fd = branch == NULL ? 0 : state_lock_writer(state, branch, "", NULL, err);

		if (fd < 0)
			return fd;
		ret_locks[i] = fd;
	}
	return 0;
}

/* What a crash left of a removal. */
static int
clear_gone(int all, const char *gone, struct err *err)
{
	OWN(closep) int dir = tree_open_dir(all, gone);
	int r = dir < 0 ? 0 : tree_empty(dir, err);

	return r == 0 && unlinkat(all, gone, AT_REMOVEDIR) < 0 && errno != ENOENT ?
	       err_errno(err, "cannot remove what is left of an earlier state of that name") : r;
}

static int
remove_locked(int all, const struct state *state, struct err *err)
{
	struct audit_member members[] = { { .name = "state", .text = state->name } };
	char gone[STATE_NAME_MAX + 8];
	int r;

	snprintf(gone, sizeof(gone), ".gone-%s", state->name);
	r = clear_gone(all, gone, err);
	/* Recorded first: then a missing state is no finding. */
	r = r == 0 ? operator_note("state.removed", members, ARRAY_LEN(members), err) : r;
	if (r == 0 && renameat(all, state->name, all, gone) < 0)
		r = err_errno(err, "cannot remove state '%s'", state->name);
	return r == 0 ? clear_gone(all, gone, err) : r;
}

int
state_remove(const char *name, struct err *err)
{
	OWN(freep) struct state_ref *refs = NULL;
	OWN(freep) int *locks = NULL;
	OWN(closep) int all = data_folder(STATE_FOLDER, false, err), lock = -1;
	OWN(state_close) struct state state = {0};
	size_t n = 0;
	int r = all < 0 ? all : state_open(name, &state, err);

	lock = r < 0 ? r : state_lock(&state, err);
	r = lock < 0 ? lock : state_ref_list(state.dir, &refs, &n, err);
	if (r < 0)
		return r;
	locks = calloc(n + 1, sizeof(*locks));
	if (locks == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = lock_writers(&state, refs, n, locks, err);
	r = r == 0 ? remove_locked(all, &state, err) : r;
	unlock(locks, n);
	return r;
}
