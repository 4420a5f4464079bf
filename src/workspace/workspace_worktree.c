/* workspace_worktree.c - see workspace_worktree.h. */
#include "workspace/workspace_worktree.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"
#include "base/tree.h"
#include "workspace/workspace_held.h"
#include "workspace/worktree.h"

#define FOLDER ".git/worktrees/"        /* in the workspace: one folder for each of its worktrees */
#define COMMON "commondir"              /* in such a folder: the place of config and hooks */
#define COMMON_HERE "../..\n"           /* the workspace's own git directory */

static bool
is_name(const char *name)
{
	return *name != '\0' && strchr(name, '/') == NULL && !tree_is_dots(name);
}

/* Read a whole short file; false if it is longer. */
static bool
read_short(int folder, const char *name, char *ret_text, size_t size)
{
	OWN(closep) int fd = wtree_open_file(folder, name);
	ssize_t n = fd < 0 ? -1 : read(fd, ret_text, size);

	if (n < 0 || (size_t)n == size || memchr(ret_text, '\0', (size_t)n) != NULL)
		return false;
	ret_text[n] = '\0';
	return true;
}

/* Open the folder of the worktree NAME beneath TOP, with no link on the way. */
static int
open_folder(int top, const char *name)
{
	OWN(closep) int git = tree_open_dir(top, ".git");
	OWN(closep) int all = git < 0 ? -1 : tree_open_dir(git, "worktrees");

	return all < 0 ? -1 : tree_open_dir(all, name);
}

static bool
is_common_here(int folder)
{
	char text[sizeof(COMMON_HERE) + 1];

	return read_short(folder, COMMON, text, sizeof(text)) && strcmp(text, COMMON_HERE) == 0;
}

/* The future content: from the changes if they have it, else from the workspace. */
static bool
has_config_here(const struct workspace *ws, const char *name)
{
	OWN(closep) int changed = open_folder(ws->changes, name);
	OWN(closep) int real = open_folder(ws->real, name);
	struct stat st;

	if (changed >= 0 && fstatat(changed, COMMON, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return is_common_here(changed);
	return real >= 0 && is_common_here(real);
}

/* "gitdir: WORKSPACE/.git/worktrees/NAME" */
static bool
links_to_own(const struct workspace *ws, const struct walk_node *node)
{
	char text[PATH_MAX + 64], path[64], top[PATH_MAX], *link;
	ssize_t n;
	size_t len;

	if (!read_short(node->changes, node->name, text, sizeof(text)))
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ws->real);
	n = readlink(path, top, sizeof(top) - 1);
	len = strlen(text);
	/* Exactly one line, as git writes it. */
	link = strchr(text, '\n') == text + len - 1 ? worktree_parse_link(text) : NULL;
	if (n <= 0 || link == NULL)
		return false;
	top[n] = '\0';
	len = strlen(top);
	return strncmp(link, top, len) == 0 && link[len] == '/' &&
	       strncmp(link + len + 1, FOLDER, strlen(FOLDER)) == 0 &&
	       is_name(link + len + 1 + strlen(FOLDER)) &&
	       has_config_here(ws, link + len + 1 + strlen(FOLDER));
}

/* Whether the folder around NODE is itself held. */
static bool
is_in_held(const struct walk_node *node)
{
	OWN(freep) char *folder = strndup(node->path, strlen(node->path) - strlen(node->name) - 1);
	bool in_git;

	return folder == NULL || held_path(folder, NULL, &in_git) == HELD_YES;
}

bool
workspace_adds_worktree(const struct workspace *ws, const struct walk_node *node, bool in_git)
{
	const char *rest = node->path + strlen(FOLDER);

	if (ws->git_dir || !S_ISREG(node->new.st_mode) || node->old.st_mode != 0)
		return false;
	if (strcmp(node->name, ".git") == 0)
		return strcmp(node->path, ".git") != 0 && !in_git && !is_in_held(node) &&
		       links_to_own(ws, node);
	if (strncmp(node->path, FOLDER, strlen(FOLDER)) != 0)
		return false;
	rest += strcspn(rest, "/");
	return strcmp(rest, "/" COMMON) == 0 && is_common_here(node->changes);
}
