/* trust_check.c - checks whether an agent could have written what a path leads to. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "trust/trust.h"

#define NAMES_MAX 200000                /* names searched for a file's second name */
#define DEPTH_MAX 128                   /* nesting of folders in that search */

static struct {
	const char *at[TRUST_ALSO_MAX];
	size_t n;
} also;

void
trust_also(const char *folder)
{
	for (size_t i = 0; i < also.n; i++)
		if (strcmp(also.at[i], folder) == 0)
			return;
	if (also.n < TRUST_ALSO_MAX)
		also.at[also.n++] = folder;
}

struct looking {
	enum trust_use use;
	struct trust_marks marks;
	struct trust_own own;
	struct trust_mounts *mounts;
	const char *step;               /* the place being examined */
	char found[PATH_MAX], mark[PATH_MAX];   /* what an agent could write, and the mark for it */
	bool is_granted;                /* the mark is a grant of the cell being described */
};

static void
looking_free(struct looking *l)
{
	trust_marks_free(&l->marks);
	trust_own_free(&l->own);
	trust_mounts_freep(&l->mounts);
}

/* Returns 0 if nothing is marked at all, 1 if a check is needed. */
static int
look_begin(struct looking *l, struct err *err)
{
	int r = trust_marks_load(&l->marks, err);

	if (r < 0 || (l->marks.n == 0 && also.n == 0 && !l->marks.is_full))
		return r;
	trust_own_find(&l->own);
	r = trust_mounts_load(&l->mounts, err);
	return r < 0 ? r : 1;
}

static bool
covers(const char *mark, const char *path)
{
	return strcmp(mark, "/") == 0 || tree_is_beneath(path, mark);
}

static int
note(struct looking *l, const char *mark)
{
	snprintf(l->found, sizeof(l->found), "%s", l->step);
	snprintf(l->mark, sizeof(l->mark), "%s", mark);
	return -EPERM;
}

static int
note_grant(struct looking *l, const char *folder)
{
	l->is_granted = true;
	return note(l, folder);
}

/* Check one of its paths.  Grants come first: while one exists, clearing a mark does not help. */
static int
look_at_alias(void *arg, const char *alias)
{
	struct looking *l = arg;

	for (size_t i = 0; i < also.n; i++)
		if (covers(also.at[i], alias))
			return note_grant(l, also.at[i]);
	if (l->marks.is_full)
		return note(l, "/");
	for (size_t i = 0; i < l->marks.n; i++)
		if (covers(l->marks.at[i].path, alias))
			return note(l, l->marks.at[i].path);
	return 0;
}

/* Compare inodes: a marked folder may have been moved since. */
static int
look_at_inode(struct looking *l, const char *at)
{
	struct statx st;
	uint64_t born;

	if (statx(AT_FDCWD, at, AT_SYMLINK_NOFOLLOW, STATX_INO | STATX_BTIME, &st) < 0 ||
	    (st.stx_mask & STATX_BTIME) == 0)
		return 0;
	born = (uint64_t)st.stx_btime.tv_sec * 1000000000 + st.stx_btime.tv_nsec;
	for (size_t i = 0; i < l->marks.n; i++)
		if (l->marks.at[i].born_ns != 0 && l->marks.at[i].inode == st.stx_ino &&
		    l->marks.at[i].born_ns == born)
			return note(l, at);
	return 0;
}

/* Check one place on the way.  If it cannot be examined, it counts as the agent's, unless it does
 * not exist. */
static int
look_at_step(void *arg, const char *at, int found)
{
	struct looking *l = arg;
	int r;

	l->step = at;
	/* No cell can move a folder that leads to one of ours.  The folders beneath it are checked
	 * next. */
	if (trust_own_covers(&l->own, at) || (found == 0 && trust_own_is_in(&l->own, at)))
		return 0;
	if (trust_table[l->use].kind == TRUST_LINKS && found <= 0)
		return 0;
	r = trust_mounts_each(l->mounts, at, false, look_at_alias, l);
	if (r == 0)
		r = look_at_inode(l, at);
	if (r == 0 && found < 0 && found != -ENOENT && found != -ENOTDIR)
		r = note(l, at);
	return r;
}

/* ---- a file's other names ---- */

struct finding {
	dev_t device;
	ino_t inode;
	size_t left;
};

static int find_name(struct finding *f, int fd, int depth);

/* Check one name in the folder FROM. */
static int
find_in(struct finding *f, int from, const char *name, int depth)
{
	struct stat st;
	int below;

	if (f->left-- == 0)
		return 1;
	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno != ENOENT;
	if (st.st_dev == f->device && st.st_ino == f->inode)
		return 1;
	if (!S_ISDIR(st.st_mode) || st.st_dev != f->device)
		return 0;
	below = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return below < 0 ? errno != ENOENT : find_name(f, below, depth + 1);
}

/* Returns 1 if it is found, or if not everything can be searched: an agent may have closed or
 * nested its folders.  Takes ownership of FD. */
static int
find_name(struct finding *f, int fd, int depth)
{
	OWN(closedirp) DIR *dir = fdopendir(fd);
	struct dirent *d;
	int r = 0;

	if (dir == NULL)
		close(fd);
	if (dir == NULL || depth == DEPTH_MAX)
		return 1;
	for (errno = 0; r == 0 && (d = readdir(dir)) != NULL; errno = 0)
		r = tree_is_dots(d->d_name) ? 0 : find_in(f, dirfd(dir), d->d_name, depth);
	return r != 0 || errno != 0;
}

/* MARK is a folder, or a file that was granted alone. */
static bool
is_in(const char *mark, const struct stat *file)
{
	struct finding f = { .device = file->st_dev, .inode = file->st_ino, .left = NAMES_MAX };
	struct stat st;
	int fd;

	if (stat(mark, &st) < 0)
		return errno != ENOENT && errno != ENOTDIR;
	if (!S_ISDIR(st.st_mode))
		return st.st_dev == f.device && st.st_ino == f.inode;
	fd = open(mark, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 || find_name(&f, fd, 0) != 0;
}

static int
look_for_names(struct looking *l, const char *path, const struct stat *st)
{
	l->step = path;
	if (!S_ISREG(st->st_mode) || st->st_nlink < 2 || trust_own_covers(&l->own, path))
		return 0;
	for (size_t i = 0; i < also.n; i++)
		if (is_in(also.at[i], st))
			return note_grant(l, also.at[i]);
	for (size_t i = 0; i < l->marks.n; i++)
		if (is_in(l->marks.at[i].path, st))
			return note(l, l->marks.at[i].path);
	return 0;
}

/* ---- public functions ---- */

static int
refuse(const struct looking *l, const char *path, struct err *err)
{
	const char *what = trust_table[l->use].what;
	struct stat st;
	/* The marked folder may have been moved. */
	const char *folder = stat(l->mark, &st) == 0 ? l->mark : l->found;

	if (l->is_granted)
		return err_set(err, EPERM, "this cell could change '%.150s', %s, because it may write '%.150s': "
		               "grant that with :overlay or :ro, or keep the file elsewhere%s", path, what, l->mark,
		               l->use == TRUST_POLICY_FOUND ? " and name it with -p" : "");
	if (strcmp(l->found, path) == 0)
		return err_set(err, EPERM, "an agent can or could write '%.250s', %s: look with `cloister trust "
		               "%.250s`, or keep it where no cell may write", path, what, folder);
	return err_set(err, EPERM, "an agent can or could write '%.150s', which leads to '%.150s', %s: look "
	               "with `cloister trust %.150s`, or keep it where no cell may write", l->found, path,
	               what, folder);
}

static int
look(struct looking *l, const char *path, char ret_end[PATH_MAX])
{
	int r = tree_follow(path, look_at_step, l, ret_end);

	/* A ring of links, or a name that is too long: it cannot be opened. */
	if (r < 0 && l->found[0] == '\0') {
		l->step = path;
		(void)note(l, path);
	}
	return r;
}

/* Record files that are used with the operator's rights, not those only passed on to a cell. */
static void
believe(enum trust_use use, const char *path)
{
	OWN(freep) char *here = path[0] == '/' ? NULL : getcwd(NULL, 0);
	OWN(freep) char *whole = str_format("%s%s%s", here != NULL ? here : "", path[0] == '/' ? "" : "/",
	                                    path);

	if (whole != NULL && trust_table[use].kind == TRUST_READ)
		trust_believe(whole);
}

int
trust_follow(enum trust_use use, const char *path, char ret_end[PATH_MAX], struct err *err)
{
	OWN(looking_free) struct looking l = { .use = use };
	struct stat st;
	bool is_there = stat(path, &st) == 0;
	int r = look_begin(&l, err), refused = 0;

	if (r < 0)
		return r;
	if (r > 0)
		refused = look(&l, path, ret_end);
	else if (realpath(path, ret_end) == NULL)
		snprintf(ret_end, PATH_MAX, "%s", path);
	/* As tree_follow() names the root. */
	if (refused == 0 && ret_end[0] == '\0')
		memcpy(ret_end, "/", sizeof("/"));
	if (r > 0 && refused == 0 && trust_table[use].kind != TRUST_LINKS && is_there)
		refused = look_for_names(&l, path, &st);
	if (refused < 0)
		return refuse(&l, path, err);
	if (is_there && S_ISREG(st.st_mode))
		believe(use, path);
	return 0;
}

int
trust_path(enum trust_use use, const char *path, struct err *err)
{
	char end[PATH_MAX];

	return trust_follow(use, path, end, err);
}

/* Check the path of FD's file as the kernel knows it: another file may be there now.  Where only links matter, it must
 * be CHECKED, the end of the path that was. */
static int
look_at_opened(struct looking *l, int fd, const char *checked)
{
	char link[48], path[PATH_MAX], end[PATH_MAX];
	struct stat st;
	ssize_t n;
	int r;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0 || fstat(fd, &st) < 0)
		return -EPERM;
	path[n] = '\0';
	/* A pipe or memory file is in no folder. */
	if (path[0] != '/' || !S_ISREG(st.st_mode) || st.st_nlink == 0)
		return 0;
	l->step = path;
	if (trust_table[l->use].kind == TRUST_LINKS && strcmp(path, checked) != 0)
		r = note(l, path);
	else
		r = look(l, path, end) < 0 ? -EPERM : look_for_names(l, path, &st);
	l->step = NULL;                 /* it may be in PATH */
	return r;
}

static int
check_opened(enum trust_use use, const char *path, int fd, struct err *err)
{
	OWN(looking_free) struct looking l = { .use = use };
	char end[PATH_MAX];
	int r = look_begin(&l, err);

	if (r <= 0)
		return r;
	r = look(&l, path, end);
	if (r == 0)
		r = look_at_opened(&l, fd, end);
	return r < 0 ? refuse(&l, path, err) : 0;
}

int
trust_open(enum trust_use use, const char *path, struct err *err)
{
	OWN(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	int r;

	if (fd < 0)
		return err_errno(err, "cannot open '%s'", path);
	r = check_opened(use, path, fd, err);
	if (r < 0)
		return r;
	believe(use, path);
	return TAKE_FD(fd);
}

int
trust_read(enum trust_use use, const char *path, size_t max, char **ret_text, size_t *ret_len,
           struct err *err)
{
	OWN(closep) int fd = trust_open(use, path, err);

	return fd < 0 ? fd : read_open(fd, path, max, ret_text, ret_len, err);
}

bool
trust_here(void)
{
	OWN(looking_free) struct looking l = { .use = TRUST_SECRET_COMMAND };
	char here[PATH_MAX], end[PATH_MAX];
	int r = look_begin(&l, NULL);

	return r == 0 || (r > 0 && getcwd(here, sizeof(here)) != NULL && look(&l, here, end) == 0);
}

bool
trust_is_marked(const char *path)
{
	OWN(looking_free) struct looking l = { .use = TRUST_POLICY, .step = path };
	int r = look_begin(&l, NULL);

	return r < 0 || (r > 0 && look_at_alias(&l, path) < 0);
}
