/* run_agent_home.c - the agent's home: folders that it keeps between runs, and files of the operator's own.
 *
 * Only folders are kept: programs replace files by renaming, which a mounted file refuses. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "cli/run.h"
#include "cli/run_agent.h"
#include "inspect/inspect.h"
#include "workspace/workspace_tree.h"

#define SCANNED_MAX (16u << 20)         /* bytes that are searched for keys, in all */
#define FILES_MAX 2000
#define DEPTH_MAX 16

int
run_agent_grant(struct run *run, const char *host, const char *cell, bool write, struct err *err)
{
	for (size_t i = 0; i < run->spec.n_grants; i++) {
		const struct cell_grant *g = &run->spec.grants[i];

		/* The command line has something there, or the project has it already. */
		if (strcmp(g->cell, cell) == 0 ||
		    (strcmp(g->host, g->cell) == 0 && strcmp(host, cell) == 0 && tree_is_beneath(cell, g->cell)))
			return 0;
	}
	return run_grant_path(run, host, cell, write ? CELL_WRITE : CELL_READ, err);
}

/* ---- the operator's own files ---- */

struct searching {
	size_t bytes, files;            /* that are left */
};

/* Why the file FD is not given; NULL: it holds no key. */
static const char *
search_file(struct searching *s, int fd, size_t size)
{
	OWN(freep) char *text = NULL;
	struct secrets_scan scan = {0};
	size_t len;

	if (s->files == 0 || size > s->bytes)
		return "there is too much in it to search for keys";
	s->files--;
	s->bytes -= size;
	if (read_whole(fd, SCANNED_MAX, &text, &len, NULL) < 0)
		return "it cannot be read";
	return secrets_find(&scan, text, len) != NULL ? "it holds a key" : NULL;
}

/* The same for what is at NAME in FOLDER, with all that is in it.  Links inside it lead nowhere in the cell. */
static const char *
search(struct searching *s, int folder, const char *name, int depth)
{
	OWN(closep) int fd = openat(folder, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (depth > 0 ? O_NOFOLLOW : 0));
	OWN(closedirp) DIR *list = NULL;
	const char *why = NULL;
	struct stat st;
	struct dirent *d;

	if (fd < 0 && errno == ELOOP && depth > 0)
		return NULL;
	if (fd < 0 || fstat(fd, &st) < 0)
		return "it cannot be read";
	if (S_ISREG(st.st_mode))
		return search_file(s, fd, (size_t)st.st_size);
	if (!S_ISDIR(st.st_mode) || depth == DEPTH_MAX)
		return "it is neither a file nor a folder of files";
	list = tree_list(fd);
	while (why == NULL && list != NULL && (d = readdir(list)) != NULL)
		if (!tree_is_dots(d->d_name))
			why = search(s, dirfd(list), d->d_name, depth + 1);
	return why;
}

int
run_agent_find_reads(struct run_agent *a, struct err *err)
{
	char *const *read = a->found->profile->read;
	const char *home = getenv("HOME");

	for (size_t i = 0; read != NULL && read[i] != NULL && home != NULL && home[0] == '/'; i++) {
		struct searching s = { .bytes = SCANNED_MAX, .files = FILES_MAX };
		OWN(freep) char *path = str_format("%s/%s", home, read[i]);

		if (path == NULL)
			return err_set(err, ENOMEM, "out of memory");
		if (access(path, F_OK) < 0)
			continue;
		a->withheld[i] = search(&s, AT_FDCWD, path, 0);
		if (a->withheld[i] == NULL)
			a->read[i] = TAKE(path);
	}
	return 0;
}

/* ---- making places ---- */

/* Opens the folder NAME.  An agent may have closed it, or put something else there, which is replaced. */
static int
open_whatever(int dir, const char *name, struct err *err)
{
	int fd = tree_open_dir_anyway(dir, name);

	if (fd != -ENOTDIR && fd != -ELOOP)
		return fd;
	return wtree_remove(dir, name, NULL, err) < 0 || mkdirat(dir, name, 0700) < 0 ? fd : tree_open_dir(dir, name);
}

int
run_agent_make_folder(int dir, const char *path, struct err *err)
{
	OWN(closep) int at = fcntl(dir, F_DUPFD_CLOEXEC, 3);
	OWN(freep) char *rest = strdup(path);
	char *words = rest, *part;

	while (at >= 0 && (part = strsep(&words, "/")) != NULL) {
		int next;

		(void)mkdirat(at, part, 0700);
		next = open_whatever(at, part, err);
		if (next < 0)
			return err_set(err, -next, "cannot make '%s' for the agent: %s", path, strerrordesc_np(-next));
		close(at);
		at = next;
	}
	return at < 0 ? err_errno(err, "cannot make '%s' for the agent", path) : TAKE_FD(at);
}

/* Something of the kind of HOST at PATH beneath DIR, for a mount.  The agent may have put anything there. */
static int
make_place(int dir, const char *path, const char *host, struct err *err)
{
	const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
	OWN(freep) char *above = slash != NULL ? strndup(path, (size_t)(slash - path)) : NULL;
	OWN(closep) int at = -1, file = -1;
	struct stat st;

	if (stat(host, &st) < 0)
		return err_errno(err, "cannot find '%s'", host);
	if (S_ISDIR(st.st_mode))
		file = run_agent_make_folder(dir, path, err);
	if (S_ISDIR(st.st_mode))
		return file < 0 ? file : 0;
	at = slash != NULL ? run_agent_make_folder(dir, above, err) : fcntl(dir, F_DUPFD_CLOEXEC, 3);
	if (at < 0)
		return at;
	if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
		return 0;
	if (wtree_remove(at, name, NULL, err) < 0)
		return err_wrap(err, "cannot make '%s' for the agent", path);
	file = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return file < 0 ? err_errno(err, "cannot make '%s' for the agent", path) : 0;
}

/* ---- granting ---- */

/* A path of `read` that is in the kept folder KEEP needs a place there. */
static int
make_places(const struct run_agent *a, const char *keep, int folder, struct err *err)
{
	char *const *read = a->found->profile->read;
	int r = 0;

	for (size_t i = 0; r == 0 && read != NULL && read[i] != NULL; i++)
		if (a->read[i] != NULL && tree_is_beneath(read[i], keep))
			r = make_place(folder, read[i] + strlen(keep) + 1, a->read[i], err);
	return r;
}

static int
grant_kept(struct run *run, const struct run_agent *a, const char *place, int project, const char *keep,
           struct err *err)
{
	OWN(freep) char *host = str_format("%s/%s", place, keep), *cell = str_format(CELL_HOME "/%s", keep);
	OWN(closep) int folder = run_agent_make_folder(project, keep, err);
	int r = folder < 0 ? folder : make_places(a, keep, folder, err);

	if (r < 0)
		return r;
	return host == NULL || cell == NULL ? err_set(err, ENOMEM, "out of memory") :
	       run_agent_grant(run, host, cell, true, err);
}

int
run_agent_open_kept(const struct run_agent *a, char **ret_place, struct err *err)
{
	OWN(freep) char *name = profile_home_project(a->folder);
	OWN(freep) char *part = name == NULL ? NULL : str_format(DATA_HOMES "/%s/%s", a->found->name, name);

	*ret_place = part == NULL ? NULL : data_path(part, err);
	return *ret_place == NULL ? -ENOMEM : data_folder(part, true, err);
}

static int
grant_all_kept(struct run *run, const struct run_agent *a, struct err *err)
{
	OWN(freep) char *place = NULL;
	OWN(closep) int project = run_agent_open_kept(a, &place, err);
	int r = project < 0 ? project : 0;

	for (char **keep = a->found->profile->keep; r == 0 && *keep != NULL; keep++)
		r = grant_kept(run, a, place, project, *keep, err);
	return r;
}

int
run_agent_grant_home(struct run *run, const struct run_agent *a, struct err *err)
{
	const struct profile *p = a->found->profile;
	int r = p->keep == NULL ? 0 : grant_all_kept(run, a, err);

	for (size_t i = 0; r == 0 && p->read != NULL && p->read[i] != NULL; i++) {
		OWN(freep) char *cell = str_format(CELL_HOME "/%s", p->read[i]);

		if (cell == NULL)
			return err_set(err, ENOMEM, "out of memory");
		if (a->read[i] != NULL)
			r = run_agent_grant(run, a->read[i], cell, false, err);
	}
	return r;
}
