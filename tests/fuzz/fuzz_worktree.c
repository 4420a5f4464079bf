/* fuzz_worktree.c - trees of changes: the bytes are what an agent did, in two cells.
 *
 * Each step is: what and where to (one byte), how many names (one), the names (one
 * each).  Whatever was done: nothing outside the workspace changes, what is not held
 * is applied, and nothing of the agent's gets to where a host would run it. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "fuzz.h"
#include "workspace/workspace.h"
#include "workspace/workspace_tree.h"

static const char *const names[] = {
	"a", "b", "HEAD", "objects", "refs", "config", "hooks", "commondir", ".git", "info",
	"attributes", "modules", "worktrees", ".envrc", ".vscode", ".cargo", "config.toml",
	".husky", ".GIT", "\n", "\033[m", "a.b",
};

static char lab[64];
static int top = -1, outside = -1;
static struct workspace ws;

static int
open_new(const char *name)
{
	assert(mkdirat(top, name, 0755) == 0);
	return openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void
write_file(int dir, const char *path, const char *text)
{
	int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

	if (fd >= 0) {
		assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
		close(fd);
	}
}

/* In memory, where it can say all that an upper folder says. */
static void
set_up(void)
{
	snprintf(lab, sizeof(lab), "/dev/shm/fuzz-worktree-XXXXXX");
	if (mkdtemp(lab) == NULL || setxattr(lab, "user.test", "y", 1, 0) < 0) {
		rmdir(lab);
		snprintf(lab, sizeof(lab), "/tmp/fuzz-worktree-XXXXXX");
		assert(mkdtemp(lab) != NULL);
	}
	top = open(lab, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	outside = open_new("outside");
	write_file(outside, "config", "canary");
	write_file(outside, "a", "canary");
	ws = (struct workspace){ .real = open_new("real"), .changes = open_new("changes"), .base = -1, .since_ns = INT64_MAX };
}

static void
tear_down(void)
{
	close(ws.real);
	close(ws.changes);
	close(outside);
	assert(tree_empty(top, NULL) == 0);
	close(top);
	assert(rmdir(lab) == 0);
}

/* ---- what was done ---------------------------------------------------------------- */

struct bytes {
	const uint8_t *data;
	size_t left;
};

static unsigned
next_byte(struct bytes *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->data++;
}

static void
next_path(struct bytes *in, int dir, char path[PATH_MAX])
{
	unsigned depth = next_byte(in) % 4;
	size_t len = 0;

	for (;;) {
		len += (size_t)snprintf(path + len, PATH_MAX - len, "%s",
		                        names[next_byte(in) % ARRAY_LEN(names)]);
		if (depth-- == 0)
			return;
		if (mkdirat(dir, path, 0755) < 0 && errno != EEXIST)
			return;
		path[len++] = '/';
	}
}

static void
do_step(struct bytes *in, bool agents_only)
{
	unsigned what = next_byte(in);
	bool agents = agents_only || (what & 1);
	int dir = agents ? ws.changes : ws.real;
	char path[PATH_MAX];
	struct stat st;

	next_path(in, dir, path);
	/* The one who made the tree wrote through no link either. */
	switch (what >> 1 & 7) {
	case 0: case 1: case 2:
		write_file(dir, path, agents ? "evil" : "good");
		break;
	case 3:
		(void)mkdirat(dir, path, what & 16 ? 0755 : 0700);
		break;
	case 4:
		(void)!symlinkat(agents ? "../outside" : what & 16 ? "a" : "../outside", dir, path);
		break;
	case 5:
		if (agents)
			(void)mknodat(dir, path, S_IFCHR | 0600, makedev(0, 0));
		break;
	case 6: case 7:
		if (agents && fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
			OWN(closep) int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

			(void)fsetxattr(fd, WTREE_OPAQUE, "y", 1, 0);
		}
		break;
	}
}

/* ---- what must hold ----------------------------------------------------------------- */

static bool
is_evil(int dir, const char *path)
{
	char text[64] = "";
	OWN(closep) int fd = -1;

	if (readlinkat(dir, path, text, sizeof(text) - 1) > 0)
		return false;               /* the operator may have such a link himself */
	fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && strcmp(text, "evil") == 0;
}

static bool
has(int dir, const char *folder, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void
check_git_dir(const char *folder)
{
	char path[PATH_MAX];

	if (!has(ws.real, folder, "HEAD") ||
	    (!has(ws.real, folder, "objects") && !has(ws.real, folder, "commondir")))
		return;
	snprintf(path, sizeof(path), "%s/config", folder);
	assert(!is_evil(ws.real, path));
	snprintf(path, sizeof(path), "%s/hooks/a", folder);
	assert(!is_evil(ws.real, path));
	snprintf(path, sizeof(path), "%s/commondir", folder);
	assert(!is_evil(ws.real, path));
}

static int
check_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	const char *relative = path + strlen(lab) + strlen("/real");

	(void)st, (void)ftw;
	if (type == FTW_D)
		check_git_dir(*relative == '\0' ? "." : relative + 1);
	else if (workspace_would_run(relative + 1, false))
		assert(!is_evil(ws.real, relative + 1));
	return 0;
}

static void
check_workspace(void)
{
	char path[80];

	assert(is_evil(outside, "a") == false && is_evil(outside, "config") == false);
	assert(has(outside, ".", "a") && has(outside, ".", "config"));
	snprintf(path, sizeof(path), "%s/real", lab);
	assert(nftw(path, check_entry, 8, FTW_PHYS) == 0);
}

static void
must(int r, const struct err *err)
{
	if (r < 0)
		fprintf(stderr, "%s\n", err->text);
	assert(r == 0);
}

static void
apply_and_check(void)
{
	struct workspace_apply how = { .cell = "fuzz" };
	struct workspace_change *list = NULL;
	size_t n = 0, applied, held, still = 0;
	struct err err = {0};

	must(workspace_list(&ws, &list, &n, &err), &err);
	for (size_t i = 0; i < n; i++)
		assert(i == 0 || strcmp(list[i - 1].path, list[i].path) != 0);
	workspace_changes_free(TAKE(list));
	must(workspace_apply_changes(&ws, &how, &applied, &held, &err), &err);
	check_workspace();
	must(workspace_list(&ws, &list, &n, &err), &err);
	for (size_t i = 0; i < n; i++)
		still += list[i].held;
	assert(still == n && still == held);
	workspace_changes_free(list);
}

static void
check_names(const uint8_t *data, size_t size)
{
	char path[512], longer[600];

	if (size >= sizeof(path))
		size = sizeof(path) - 1;
	memcpy(path, data, size);
	path[size] = '\0';
	snprintf(longer, sizeof(longer), "%s/x", path);
	for (int git = 0; git < 2; git++)
		assert(!workspace_would_run(path, git) || workspace_would_run(longer, git));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct bytes in = { data, size };
	size_t steps = 0;

	if (size > 400)
		return 0;
	check_names(data, size);
	set_up();
	for (; in.left > size / 2 && steps < 64; steps++)
		do_step(&in, false);
	apply_and_check();
	for (; in.left > 0 && steps < 128; steps++)
		do_step(&in, true);
	apply_and_check();
	tear_down();
	return 0;
}
