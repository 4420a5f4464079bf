/* worktree.c - see worktree.h. */
#include "workspace/worktree.h"

#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"

#define LINK_MAX_BYTES 8192

char *
worktree_parse_link(char *text)
{
	static const char start[] = "gitdir: ";
	char *path;

	if (strncmp(text, start, sizeof(start) - 1) != 0)
		return NULL;
	path = text + sizeof(start) - 1;
	path[strcspn(path, "\n")] = '\0';
	return *path != '\0' ? path : NULL;
}

static char *
join(const char *folder, const char *name)
{
	return name[0] == '/' ? strdup(name) : str_format("%s/%s", folder, name);
}

/* Whether GITDIR's own `gitdir` file names WORKSPACE/.git. */
static bool
points_back(const char *gitdir, const char *workspace)
{
	OWN(freep) char *file = join(gitdir, "gitdir");
	OWN(freep) char *text = NULL;
	OWN(freep) char *back = NULL;
	OWN(freep) char *real = NULL;
	OWN(freep) char *want = join(workspace, ".git");

	if (file == NULL || want == NULL ||
	    read_file_at(AT_FDCWD, file, LINK_MAX_BYTES, &text, NULL, NULL) < 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	back = join(gitdir, text);
	real = back == NULL ? NULL : realpath(back, NULL);
	return real != NULL && strcmp(real, want) == 0;
}

static bool
is_git_folder(const char *folder)
{
	static const char *const parts[] = { "HEAD", "objects", "refs" };
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		OWN(freep) char *path = join(folder, parts[i]);

		if (path == NULL || lstat(path, &st) < 0)
			return false;
	}
	return true;
}

int
worktree_find_common(const char *workspace, char **ret_common, struct err *err)
{
	OWN(freep) char *file = join(workspace, ".git");
	OWN(freep) char *text = NULL;
	OWN(freep) char *named = NULL;
	OWN(freep) char *gitdir = NULL;
	char *link, *folder;
	struct stat st;

	*ret_common = NULL;
	if (file == NULL)
		return err_errno(err, "cannot look for a git worktree");
	if (lstat(file, &st) < 0 || !S_ISREG(st.st_mode) ||
	    read_file_at(AT_FDCWD, file, LINK_MAX_BYTES, &text, NULL, NULL) < 0)
		return 0;
	link = worktree_parse_link(text);
	named = link == NULL ? NULL : join(workspace, link);
	gitdir = named == NULL ? NULL : realpath(named, NULL);
	if (gitdir == NULL || !points_back(gitdir, workspace))
		return 0;
	/* COMMON/worktrees/NAME */
	folder = dirname(gitdir);
	if (strcmp(strrchr(folder, '/') != NULL ? strrchr(folder, '/') : "", "/worktrees") != 0)
		return 0;
	folder = dirname(folder);
	if (!is_git_folder(folder))
		return 0;
	*ret_common = strdup(folder);
	return *ret_common != NULL ? 0 : err_errno(err, "cannot look for a git worktree");
}
