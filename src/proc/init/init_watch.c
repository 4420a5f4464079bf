/* init_watch.c - reports changes of files in the cell: see init_own.c.
 *
 * Each line is an object: `change` (watching, created, modified, removed or overflow), and `path`.  With names, a
 * renamed entry is `renamed` instead of removed, and changed attributes are `attributes`. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "proc/init/init.h"

#define WATCHES_MAX 1024
#define DEPTH_MAX 32
#define CHANGES (IN_CREATE | IN_MODIFY | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF)

struct watched {
	int wd;
	char *path;
};

static struct watched watched[WATCHES_MAX];
static size_t n_watched;
static int inotify = -1;
static bool recursive, tells_names;

static void
put_change(const char *change, const char *path)
{
	struct json w = { .out = stdout };

	json_open(&w, NULL, '{');
	json_str(&w, "change", change);
	if (path != NULL)
		init_put_name(&w, "path", "path_base64", path);
	json_close(&w, '}');
	putchar('\n');
}

/* NAME in the folder PATH; the caller owns it. */
static char *
join(const char *path, const char *name)
{
	size_t len = strlen(path);

	return str_format("%s%s%s", path, len > 0 && path[len - 1] == '/' ? "" : "/", name);
}

static int
watch_one(const char *path, uint32_t flags)
{
	int wd = inotify_add_watch(inotify, path, CHANGES | (tells_names ? IN_ATTRIB : 0) | flags);

	if (wd < 0)
		return errno;
	for (size_t i = 0; i < n_watched; i++)
		if (watched[i].wd == wd)
			return 0;
	if (n_watched == WATCHES_MAX || (watched[n_watched].path = strdup(path)) == NULL) {
		inotify_rm_watch(inotify, wd);
		return ENOSPC;
	}
	watched[n_watched++].wd = wd;
	return 0;
}

/* The folders beneath PATH.  TELL: their entries are new. */
static void
watch_beneath(const char *path, bool tell, unsigned depth)
{
	OWN(closedirp) DIR *dir = depth < DEPTH_MAX ? opendir(path) : NULL;
	struct dirent *entry;
	struct stat st;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		OWN(freep) char *inner = join(path, entry->d_name);

		if (inner == NULL || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (tell)
			put_change("created", inner);
		if (!S_ISDIR(st.st_mode))
			continue;
		if (watch_one(inner, IN_ONLYDIR | IN_DONT_FOLLOW) == ENOSPC)
			put_change("overflow", NULL);
		watch_beneath(inner, tell, depth + 1);
	}
}

/* The watches of PATH and of all beneath it. */
static void
forget(const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; i < n_watched;) {
		if (strncmp(watched[i].path, path, len) != 0 ||
		    (watched[i].path[len] != '\0' && watched[i].path[len] != '/')) {
			i++;
			continue;
		}
		inotify_rm_watch(inotify, watched[i].wd);
		free(watched[i].path);
		watched[i] = watched[--n_watched];
	}
}

static const char *
change_of(uint32_t mask)
{
	if ((mask & (IN_CREATE | IN_MOVED_TO)) != 0)
		return "created";
	if ((mask & IN_MODIFY) != 0)
		return "modified";
	if ((mask & IN_ATTRIB) != 0)
		return "attributes";
	return tells_names && (mask & (IN_MOVED_FROM | IN_MOVE_SELF)) != 0 ? "renamed" : "removed";
}

static void
take_event(const struct inotify_event *event)
{
	const struct watched *of = NULL;
	OWN(freep) char *path = NULL;

	if ((event->mask & IN_Q_OVERFLOW) != 0)
		put_change("overflow", NULL);
	for (size_t i = 0; i < n_watched && of == NULL; i++)
		of = watched[i].wd == event->wd ? &watched[i] : NULL;
	/* A folder beneath is reported by the one above it. */
	if (of == NULL || (event->mask & (CHANGES | IN_ATTRIB)) == 0 || (event->len == 0 && of != watched))
		return;
	path = event->len > 0 ? join(of->path, event->name) : strdup(of->path);
	if (path == NULL)
		return;
	put_change(change_of(event->mask), path);
	if (!recursive || (event->mask & IN_ISDIR) == 0 || event->len == 0)
		return;
	if ((event->mask & (IN_DELETE | IN_MOVED_FROM)) != 0) {
		forget(path);
	} else if ((event->mask & (IN_CREATE | IN_MOVED_TO)) != 0) {
		if (watch_one(path, IN_ONLYDIR | IN_DONT_FOLLOW) == ENOSPC)
			put_change("overflow", NULL);
		watch_beneath(path, true, 1);
	}
}

/* Until what is watched is gone. */
static int
take_events(void)
{
	static char data[16 * 1024] __attribute__((aligned(8)));
	ssize_t n = read(inotify, data, sizeof(data));

	if (n < 0)
		return errno == EINTR ? 0 : errno;
	for (char *at = data; at < data + n;) {
		const struct inotify_event *event = (void *)at;

		take_event(event);
		if (n_watched > 0 && event->wd == watched[0].wd && (event->mask & IN_IGNORED) != 0)
			return fflush(stdout) != 0 ? EPIPE : -1;
		at += sizeof(*event) + event->len;
	}
	return fflush(stdout) != 0 ? EPIPE : 0;
}

int
init_own_watch(char **argv)
{
	int error;

	recursive = strcmp(argv[1], "yes") == 0 || strcmp(argv[1], "all-names") == 0;
	tells_names = strstr(argv[1], "names") != NULL;
	inotify = inotify_init1(IN_CLOEXEC);
	error = inotify < 0 ? errno : watch_one(argv[0], tells_names ? IN_ONLYDIR : 0);
	if (error != 0)
		return error;
	if (recursive)
		watch_beneath(argv[0], false, 1);
	put_change("watching", argv[0]);
	if (fflush(stdout) != 0)
		return EPIPE;
	while ((error = take_events()) == 0)
		;
	return error < 0 ? 0 : error;
}
