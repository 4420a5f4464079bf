/* workspace_base.c - keeps the files of a workspace as they were when a cell started. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "workspace/workspace_walk.h"

struct keeping {
	const struct workspace *ws;
	int to;
	uint64_t bytes, kept;
};

static int64_t
changed_ns(const struct stat *st)
{
	return (int64_t)st->st_ctim.tv_sec * 1000000000 + st->st_ctim.tv_nsec;
}

bool
workspace_is_newer(const struct workspace *ws, const struct stat *st)
{
	return changed_ns(st) > ws->since_ns;
}

/* The folder of PATH beneath TO, which the caller owns. */
static int
make_folder(int to, const char *path)
{
	OWN(closep) int dir = fcntl(to, F_DUPFD_CLOEXEC, 0);
	char name[NAME_MAX + 1];
	size_t len;

	for (; dir >= 0 && path[len = strcspn(path, "/")] == '/'; path += len + 1) {
		OWN(closep) int outer = TAKE_FD(dir);

		if (len > NAME_MAX)
			return -ENAMETOOLONG;
		memcpy(name, path, len);
		name[len] = '\0';
		if (mkdirat(outer, name, 0700) < 0 && errno != EEXIST)
			return -errno;
		dir = openat(outer, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	return dir < 0 ? -errno : TAKE_FD(dir);
}

/* A copy counts only if the file did not change until it was complete. */
static int
keep_file(struct keeping *k, const struct walk_node *node)
{
	OWN(closep) int from = wtree_open_file(node->real, node->name), dir = -1;
	OWN(closep) int out = -1;
	struct stat st;
	int r;

	if (from < 0)
		return 0;
	dir = make_folder(k->to, node->path);
	if (dir < 0)
		return dir;
	out = openat(dir, node->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return -errno;
	r = wtree_copy_data(from, out, (uint64_t)node->old.st_size);
	if (r == 0 && (fstat(from, &st) < 0 || workspace_is_newer(k->ws, &st) || st.st_size != node->old.st_size))
		r = -EBUSY;
	if (r == 0)
		r = wtree_set_mode(out, node->old.st_mode);
	if (r < 0)
		unlinkat(dir, node->name, 0);
	k->kept += r == 0;
	return r == -EBUSY || r == -EIO ? 0 : r;
}

/* Git's own files are never merged. */
static bool
is_wanted(const struct keeping *k, const struct walk_node *node)
{
	const uint64_t size = (uint64_t)node->old.st_size;

	return node->differs && S_ISREG(node->new.st_mode) && S_ISREG(node->old.st_mode) &&
	       !node->change.in_git && !workspace_is_newer(k->ws, &node->old) && size <= WORKSPACE_BASE_FILE_MAX &&
	       size <= WORKSPACE_BASE_MAX - k->bytes && k->kept < WORKSPACE_BASE_FILES_MAX;
}

static int
keep_visit(void *arg, const struct walk_node *node, struct err *err)
{
	struct keeping *k = arg;
	char shown[WTREE_SHOWN_MAX];
	int r;

	if (!is_wanted(k, node))
		return 0;
	k->bytes += (uint64_t)node->old.st_size;
	r = keep_file(k, node);
	if (r == 0)
		return 0;
	errno = -r;
	return err_errno(err, "cannot keep '%s' as it was", wtree_show(shown, node->path));
}

int
workspace_keep_base(const struct workspace *ws, int to, uint64_t *ret_kept, struct err *err)
{
	static const struct walk_hooks hooks = { .visit = keep_visit };
	struct keeping k = { .ws = ws, .to = to };
	struct walk walk = { .ws = ws, .hooks = &hooks, .arg = &k, .only_replaced = true };
	int r = walk_run(&walk, err);

	if (r == 0)
		*ret_kept = k.kept;
	return r;
}
