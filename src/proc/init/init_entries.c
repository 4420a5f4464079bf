/* init_entries.c - describes, makes, moves and removes files and folders of the cell: see init_own.c.
 *
 * An entry is a line of JSON, with the same members whoever asks. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "proc/init/init.h"

#define WALK_FDS 16
#define NAME_TEXT_MAX 256

/* The C library's own lookups would load code; these read the cell's files. */
static void
put_owner(struct json *w, uid_t uid)
{
	OWN(fclosep) FILE *file = fopen("/etc/passwd", "re");
	char number[16];
	const struct passwd *at;

	while (file != NULL && (at = fgetpwent(file)) != NULL)
		if (at->pw_uid == uid && strlen(at->pw_name) < NAME_TEXT_MAX) {
			init_put_name(w, "owner", "owner_base64", at->pw_name);
			return;
		}
	snprintf(number, sizeof(number), "%u", uid);
	json_str(w, "owner", number);
}

static void
put_group(struct json *w, gid_t gid)
{
	OWN(fclosep) FILE *file = fopen("/etc/group", "re");
	char number[16];
	const struct group *at;

	while (file != NULL && (at = fgetgrent(file)) != NULL)
		if (at->gr_gid == gid && strlen(at->gr_name) < NAME_TEXT_MAX) {
			init_put_name(w, "group", "group_base64", at->gr_name);
			return;
		}
	snprintf(number, sizeof(number), "%u", gid);
	json_str(w, "group", number);
}

static void
put_target(struct json *w, const char *path)
{
	OWN(freep) char *target = realpath(path, NULL);
	struct stat st;

	init_put_name(w, "target", "target_base64", target != NULL ? target : path);
	if (target == NULL || stat(target, &st) < 0)
		return;
	json_str(w, "target_type", init_type_of(st.st_mode));
	json_u64(w, "target_mode", st.st_mode & 07777);
}

/* Returns an errno. */
static int
put_entry(const char *path)
{
	struct json w = { .out = stdout };
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno;
	json_open(&w, NULL, '{');
	init_put_name(&w, "path", "path_base64", path);
	json_str(&w, "type", init_type_of(st.st_mode));
	json_u64(&w, "size", (uint64_t)st.st_size);
	json_u64(&w, "mode", st.st_mode & 07777);
	json_u64(&w, "modified_ms", st.st_mtim.tv_sec < 0 ? 0 :
	         (uint64_t)st.st_mtim.tv_sec * 1000 + (uint64_t)st.st_mtim.tv_nsec / 1000000);
	put_owner(&w, st.st_uid);
	put_group(&w, st.st_gid);
	if (S_ISLNK(st.st_mode))
		put_target(&w, path);
	json_close(&w, '}');
	putchar('\n');
	return fflush(stdout) != 0 ? EPIPE : 0;
}

int
init_own_stat(char **argv)
{
	return put_entry(argv[0]);
}

/* ---- folders ---- */

static int
is_inner(const struct dirent *entry)
{
	return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static void
free_names(struct dirent **names, int n)
{
	for (int i = 0; i < n; i++)
		free(names[i]);
	free(names);
}

/* Each folder before its entries, which are sorted.  *LEFT: how many more. */
static int
put_tree(const char *path, unsigned long depth, unsigned long *left)
{
	struct dirent **names = NULL;
	int n = scandir(path, &names, is_inner, alphasort), error = n < 0 ? errno : 0;
	size_t len = strlen(path);

	for (int i = 0; i < n && *left > 0 && error == 0; i++) {
		OWN(freep) char *inner = str_format("%s%s%s", path, len > 0 && path[len - 1] == '/' ? "" : "/", names[i]->d_name);
		struct stat st;

		error = inner == NULL ? ENOMEM : put_entry(inner);
		/* It may be gone by now. */
		if (error == ENOENT) {
			error = 0;
			continue;
		}
		--*left;
		if (error == 0 && depth > 1 && lstat(inner, &st) == 0 && S_ISDIR(st.st_mode)) {
			error = put_tree(inner, depth - 1, left);
			/* One that may not be read has no entries here. */
			error = error == EACCES || error == ENOENT ? 0 : error;
		}
	}
	free_names(names, n);
	return error;
}

int
init_own_tree(char **argv)
{
	unsigned long left = strtoul(argv[1], NULL, 10), depth = strtoul(argv[2], NULL, 10);

	return put_tree(argv[0], depth, &left);
}

int
init_own_make_folder(char **argv)
{
	struct stat st;
	int error;

	if (stat(argv[0], &st) == 0)
		return S_ISDIR(st.st_mode) ? EEXIST : ENOTDIR;
	error = argv[0][0] != '\0' ? init_make_parents(argv[0]) : ENOENT;
	if (error == 0 && mkdir(argv[0], 0777) < 0)
		error = errno;
	return error == 0 ? put_entry(argv[0]) : error;
}

/* ---- changes ---- */

int
init_own_move(char **argv)
{
	struct stat st;
	int error;

	/* Before folders are made for it. */
	if (lstat(argv[0], &st) < 0)
		return errno;
	error = argv[1][0] != '\0' ? init_make_parents(argv[1]) : ENOENT;
	if (error == 0 && rename(argv[0], argv[1]) < 0)
		error = errno;
	return error == 0 ? put_entry(argv[1]) : error;
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path) < 0 && errno != ENOENT ? errno : 0;
}

int
init_own_remove(char **argv)
{
	int r = nftw(argv[0], remove_one, WALK_FDS, FTW_DEPTH | FTW_PHYS);

	if (r >= 0)
		return r;
	return errno == ENOENT ? 0 : errno;
}
