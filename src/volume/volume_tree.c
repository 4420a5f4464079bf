/* volume_tree.c - makes the trees of volumes.
 *
 * A new tree has links to the files of the old one, which nothing writes to any more, and to those of a cell's changes.
 * Agents chose all names and contents: this walks by descriptor, follows no link, reads no contents and keeps only files,
 * folders and symbolic links. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"
#include "base/since.h"
#include "base/tree.h"
#include "volume/volume_parts.h"
#include "workspace/workspace_tree.h"

#define PAGE 4096
#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct counted {
	uint64_t inode, bytes;
};

struct making {
	uid_t owner;
	gid_t group;
	uint64_t entries, most;
	struct counted *files;          /* by name; a file with several names is counted once in the end */
	size_t n_files, room;
	struct wtree_path path;
};

static int
fail(const struct making *m, int code, struct err *err)
{
	char shown[WTREE_SHOWN_MAX];

	errno = code;
	return err_errno(err, "cannot keep '%s' in the volume", wtree_show(shown, m->path.text != NULL ? m->path.text : ""));
}

/* The bytes that a file takes: holes take none, and a file system may add a few of its own. */
static int
count(struct making *m, const struct stat *st)
{
	const uint64_t whole = ((uint64_t)st->st_size + PAGE - 1) / PAGE * PAGE, used = (uint64_t)st->st_blocks * 512;

	if (m->n_files == m->room) {
		size_t room = m->room == 0 ? 1024 : 2 * m->room;
		struct counted *files = reallocarray(m->files, room, sizeof(*files));

		if (files == NULL)
			return -ENOMEM;
		m->files = files;
		m->room = room;
	}
	m->files[m->n_files++] = (struct counted){ st->st_ino, used < whole ? used : whole };
	return 0;
}

static int
order_inodes(const void *a, const void *b)
{
	const struct counted *one = a, *other = b;

	return one->inode < other->inode ? -1 : one->inode > other->inode;
}

static uint64_t
sum(struct making *m)
{
	uint64_t bytes = 0;

	if (m->n_files > 0)
		qsort(m->files, m->n_files, sizeof(*m->files), order_inodes);
	for (size_t i = 0; i < m->n_files; i++)
		if (i == 0 || m->files[i].inode != m->files[i - 1].inode)
			bytes += m->files[i].bytes;
	return bytes;
}

/* A file of changes gets the owner of the volumes, and the mode that the agent gave it.  A file that cannot be opened
 * has it already: an earlier attempt was killed. */
static int
settle_file(const struct making *m, int dir, const char *name, const struct stat *st)
{
	OWN(closep) int fd = -1;
	mode_t mode;

	if (S_ISLNK(st->st_mode))
		return st->st_uid == m->owner || fchownat(dir, name, m->owner, m->group, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : -errno;
	fd = wtree_open_file(dir, name);
	if (fd == -EACCES)
		return 0;
	if (fd < 0)
		return fd;
	mode = wtree_mode(fd, st) & 0777;
	if (st->st_uid != m->owner && fchown(fd, m->owner, m->group) < 0)
		return -errno;
	return fchmod(fd, mode) < 0 ? -errno : 0;
}

/* Another name of the same file.  If it has too many already, a copy. */
static int
link_file(int from, int to, const char *name, const struct stat *st)
{
	OWN(closep) int in = -1, out = -1;
	struct timespec times[2] = { st->st_atim, st->st_mtim };
	int r;

	if (linkat(from, name, to, name, 0) == 0)
		return 0;
	if (errno != EMLINK || !S_ISREG(st->st_mode))
		return -errno;
	in = wtree_open_file(from, name);
	out = in < 0 ? -1 : openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (out < 0)
		return in < 0 ? in : -errno;
	r = wtree_copy_data(in, out, (uint64_t)st->st_size);
	return r < 0 ? r : fchmod(out, st->st_mode & 0777) < 0 || futimens(out, times) < 0 ? -errno : 0;
}

static int make_folder(struct making *m, int base, int changes, int to, int depth, struct err *err);

/* BASE and CHANGES are -1, or descriptors that it takes. */
static int
make_subfolder(struct making *m, int base, int changes, int to, const char *name, int depth, struct err *err)
{
	OWN(closep) int old = base, upper = changes, new = -1;
	struct timespec times[2] = {{0}};
	struct stat st;
	mode_t mode;
	int r;

	if (depth >= WORKSPACE_DEPTH_MAX)
		return fail(m, ENAMETOOLONG, err);
	if (fstat(upper >= 0 ? upper : old, &st) < 0 || mkdirat(to, name, 0700) < 0 ||
	    (new = openat(to, name, FOLDER_FLAGS)) < 0)
		return fail(m, errno, err);
	mode = upper >= 0 ? wtree_mode(upper, &st) : st.st_mode;
	times[0] = times[1] = st.st_mtim;
	r = make_folder(m, old, upper, new, depth + 1, err);
	if (r == 0 && (fchmod(new, (mode & 0777) | 0700) < 0 || futimens(new, times) < 0))
		r = fail(m, errno, err);
	return r;
}

/* Entry NAME of the changes. */
static int
put_change(struct making *m, int base, int changes, int to, const char *name, int depth, struct err *err)
{
	struct stat st;
	int upper, old, r;

	if (fstatat(changes, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(m, errno, err);
	if (S_ISDIR(st.st_mode)) {
		m->entries++;
		upper = tree_open_dir_anyway(changes, name);
		if (upper < 0)
			return fail(m, -upper, err);
		old = base < 0 || wtree_is_opaque(upper) ? -1 : tree_open_dir(base, name);
		return make_subfolder(m, old < 0 ? -1 : old, upper, to, name, depth, err);
	}
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return 0;
	m->entries++;
	r = settle_file(m, changes, name, &st);
	r = r == 0 ? link_file(changes, to, name, &st) : r;
	r = r == 0 && S_ISREG(st.st_mode) ? count(m, &st) : r;
	return r < 0 ? fail(m, -r, err) : 0;
}

/* Entry NAME of the old tree, unless the changes have one of that name. */
static int
keep_old(struct making *m, int base, int changes, int to, const char *name, int depth, struct err *err)
{
	struct stat st, hidden;
	int old, r;

	if (changes >= 0 && fstatat(changes, name, &hidden, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (fstatat(base, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fail(m, errno, err);
	m->entries++;
	if (S_ISDIR(st.st_mode)) {
		old = tree_open_dir(base, name);
		return old < 0 ? fail(m, -old, err) : make_subfolder(m, old, -1, to, name, depth, err);
	}
	r = link_file(base, to, name, &st);
	r = r == 0 && S_ISREG(st.st_mode) ? count(m, &st) : r;
	return r < 0 ? fail(m, -r, err) : 0;
}

static int
each(struct making *m, int base, int changes, int to, bool is_old, int depth, struct err *err)
{
	OWN(closedirp) DIR *dir = tree_list(is_old ? base : changes);
	size_t len = m->path.len;
	struct dirent *d;
	int r = dir == NULL ? fail(m, errno, err) : 0;

	while (r == 0 && (errno = 0, d = readdir(dir)) != NULL) {
		if (tree_is_dots(d->d_name))
			continue;
		r = wtree_path_push(&m->path, d->d_name, err);
		if (r == 0 && m->entries > m->most)
			r = fail(m, EDQUOT, err);
		if (r == 0)
			r = is_old ? keep_old(m, base, changes, to, d->d_name, depth, err) :
			    put_change(m, base, changes, to, d->d_name, depth, err);
		wtree_path_pop(&m->path, len);
		if (m->entries % 1024 == 0)
			progress_show(m->entries, 0);
	}
	return r == 0 && dir != NULL && errno != 0 ? fail(m, errno, err) : r;
}

static int
make_folder(struct making *m, int base, int changes, int to, int depth, struct err *err)
{
	int r = changes < 0 ? 0 : each(m, base, changes, to, false, depth, err);

	return r < 0 || base < 0 ? r : each(m, base, changes, to, true, depth, err);
}

static int
fill(int base, int changes, uint64_t most, int folder, struct err *err)
{
	struct making m = { .owner = geteuid(), .group = getegid(), .most = most };
	char text[64];
	OWN(closep) int files = -1;
	int r;

	if (mkdirat(folder, VOLUME_FILES, 0755) < 0 || (files = openat(folder, VOLUME_FILES, FOLDER_FLAGS)) < 0 ||
	    fchmod(files, 0755) < 0)
		return err_errno(err, "cannot make a tree of the volume");
	progress_begin("keeping the changes of the volume");
	r = make_folder(&m, base, changes, files, 0, err);
	progress_end();
	r = r == 0 && m.entries > most ? fail(&m, EDQUOT, err) : r;
	if (r == 0) {
		snprintf(text, sizeof(text), "%" PRIu64 " %" PRIu64 "\n", sum(&m), m.entries);
		r = create_file_at(folder, VOLUME_SIZE, 0600, text, err);
	}
	if (r == 0 && syncfs(folder) < 0)
		r = err_errno(err, "cannot put the volume's files on the disk");
	wtree_path_free(&m.path);
	free(m.files);
	return r;
}

int
volume_make_tree(const struct volumes *v, int base, int changes, uint64_t most, char ret_id[VOLUME_ID + 1], struct err *err)
{
	char id[VOLUME_ID + 1], part[VOLUME_PART_MAX];
	OWN(closep) int folder = -1;
	int r = volume_new_id(id, err);

	if (r < 0)
		return r;
	snprintf(part, sizeof(part), VOLUME_PART "%s", id);
	if (mkdirat(v->trees, part, 0700) < 0 || (folder = openat(v->trees, part, FOLDER_FLAGS)) < 0)
		return err_errno(err, "cannot make a tree in '%s/trees'", v->path);
	/* While this is locked, nobody sweeps it; then the tree's own lock has to hold it. */
	if (flock(folder, LOCK_EX | LOCK_NB) < 0)
		return err_errno(err, "cannot lock a tree in '%s/trees'", v->path);
	r = fill(base, changes, most, folder, err);
	r = r == 0 ? volume_hold(v, VOLUME_TREE, id, false, err) : r;
	if (r == 0 && renameat2(v->trees, part, v->trees, id, RENAME_NOREPLACE) < 0)
		r = err_errno(err, "cannot keep a tree in '%s/trees'", v->path);
	if (r == 0)
		snprintf(ret_id, VOLUME_ID + 1, "%s", id);
	else
		(void)volume_put_aside(v, v->trees, part, NULL);
	return r;
}

int
volume_open_tree(const struct volumes *v, const char *id, struct err *err)
{
	OWN(freep) char *path = str_format("%s/" VOLUME_FILES, id);
	int fd = path == NULL ? -1 : openat(v->trees, path, FOLDER_FLAGS);

	return fd < 0 ? err_errno(err, "cannot open the tree '%s' of a volume", id) : fd;
}

int
volume_put_aside(const struct volumes *v, int dir, const char *name, struct err *err)
{
	char id[VOLUME_ID + 1], old[VOLUME_PART_MAX];
	int r = volume_new_id(id, err);

	if (r < 0)
		return r;
	snprintf(old, sizeof(old), VOLUME_OLD "%s", id);
	return renameat(dir, name, v->trees, old) < 0 ? err_errno(err, "cannot remove '%s'", name) : 0;
}

/* ---- the end of a cell ---- */

/* The cell was killed before its changes were whole: they are dropped. */
static bool
is_done(int new)
{
	return faccessat(new, VOLUME_NEW_DONE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static uint64_t
end_of(int new)
{
	struct stat st;

	return fstatat(new, VOLUME_NEW_ENDED, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_mtim.tv_sec * 1000 : 0;
}

/* Under the lock, because the description may have changed meanwhile. */
static int
name_tree(const struct volumes *v, const char *name, const char *tree, uint64_t ended_ms, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	OWN(closep) int lock = volume_lock(v, err), folder = -1;
	int r = lock < 0 ? lock : volume == NULL ? err_set(err, ENOMEM, "out of memory") : volume_load(v, name, volume, err);

	if (r < 0)
		return r;
	if (tree != NULL)
		snprintf(volume->tree, sizeof(volume->tree), "%s", tree);
	if (ended_ms > volume->used_ms && ended_ms <= since_now_ms())
		volume->used_ms = ended_ms;
	r = volume_save(v, volume, err);
	folder = r < 0 ? r : volume_folder(v, name, err);
	return folder < 0 ? folder : volume_put_aside(v, folder, VOLUME_NEW, err);
}

/* The agent made them so that they never can be kept.  If they stayed, no other cell could have the volume. */
static bool
is_refused(int r)
{
	return r == -EDQUOT || r == -ENAMETOOLONG || r == -EMFILE;
}

static int
settle(const struct volumes *v, const struct volume *volume, int new, enum volume_settled *ret_settled, struct err *err)
{
	OWN(closep) int base = -1, changes = -1;
	char id[VOLUME_ID + 1];
	enum volume_settled result;
	bool done = is_done(new);
	int r = 0;

	if (done) {
		base = volume_open_tree(v, volume->tree, err);
		changes = base < 0 ? -1 : tree_open_dir_anyway(new, VOLUME_NEW_FILES);
		r = base < 0 ? base : changes < 0 ? err_set(err, -changes, "cannot open the changes of the volume '%s'", volume->name) :
		    volume_make_tree(v, base, changes, 2 * volume_entries_max(volume->size), id, err);
	}
	result = is_refused(r) ? VOLUME_REFUSED : done ? VOLUME_CHANGED : VOLUME_SAME;
	if (r == 0 || is_refused(r))
		r = name_tree(v, volume->name, result == VOLUME_CHANGED ? id : NULL, end_of(new), err);
	if (r == 0)
		*ret_settled = result;
	return r;
}

int
volume_settle(struct volumes *v, const char *name, enum volume_settled *ret_settled, struct err *err)
{
	OWN(freep) struct volume *volume = calloc(1, sizeof(*volume));
	OWN(closep) int folder = -1, new = -1;
	int r = volume == NULL ? err_set(err, ENOMEM, "out of memory") : volume_load(v, name, volume, err);

	*ret_settled = VOLUME_SAME;
	r = r == 0 ? volume_hold(v, VOLUME_WRITER, volume->id, true, err) : r;
	if (r < 0)
		return r == -EBUSY ? 0 : r;
	/* Another process may have settled it meanwhile. */
	r = volume_load(v, name, volume, err);
	folder = r < 0 ? r : volume_folder(v, name, err);
	new = folder < 0 ? -1 : openat(folder, VOLUME_NEW, FOLDER_FLAGS);
	r = folder < 0 ? folder : new < 0 && errno != ENOENT ? err_errno(err, "cannot open the changes of the volume '%s'", name) :
	    new < 0 ? 0 : settle(v, volume, new, ret_settled, err);
	volume_release(v, VOLUME_WRITER, volume->id);
	return r;
}
