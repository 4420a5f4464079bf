/* registry_tree.c - makes a capability's files, from blobs, a read-only folder. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fsverity.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "canon/canon.h"
#include "registry/object.h"
#include "registry/registry_parts.h"
#include "registry/registry_tree.h"

/* Opens the folder of PATH, and creates those above it, in DIR; *ret_name is the rest of the path. */
static int
open_parents(int dir, const char *path, const char **ret_name, struct err *err)
{
	const char *slash;
	char part[OBJECT_PATH_MAX + 1];
	int at = fcntl(dir, F_DUPFD_CLOEXEC, 3), next;

	for (; at >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
		snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		if (mkdirat(at, part, 0700) < 0 && errno != EEXIST) {
			close(at);
			return err_errno(err, "cannot make the folder '%s'", part);
		}
		next = openat(at, part, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		close(at);
		at = next;
	}
	*ret_name = path;
	return at < 0 ? err_errno(err, "cannot open a folder") : at;
}

/* Copies, and checks the hash: the disk may have lost data. */
static int
copy_blob(struct registry *r, const char *hash, int to, struct err *err)
{
	OWN(closep) int from = registry_open_blob(r, hash, err);
	unsigned char block[64 * 1024], digest[HASH_LEN];
	char name[HASH_NAME + 1];
	struct hash h;
	ssize_t n;

	if (from < 0)
		return from;
	hash_begin(&h);
	while ((n = read(from, block, sizeof(block))) > 0) {
		hash_add(&h, block, (size_t)n);
		if (write_all(to, block, (size_t)n, err) < 0)
			return -EIO;
	}
	if (n < 0)
		return err_errno(err, "cannot read the blob %s", hash);
	hash_end(&h, digest);
	hash_name(digest, name);
	if (strcmp(name, hash) != 0)
		return err_set(err, EUCLEAN, "the blob %s is damaged: register the capability again after "
		               "removing '%s/blobs/%.2s/%s'", hash, r->path, hash + strlen(HASH_PREFIX),
		               hash + strlen(HASH_PREFIX) + 2);
	return 0;
}

/* If the file system supports it, nobody can change the file any more, not even root; it can only
 * be replaced. */
static void
seal_file(int folder, const char *name)
{
	OWN(closep) int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct fsverity_enable_arg arg = { .version = 1, .hash_algorithm = FS_VERITY_HASH_ALG_SHA256,
	                                   .block_size = 4096 };

	if (fd >= 0)
		(void)ioctl(fd, FS_IOC_ENABLE_VERITY, &arg);
}

static int
make_file(struct registry *r, int dir, json_t *file, struct err *err)
{
	const char *path = json_string_value(json_object_get(file, "path")), *name = NULL;
	bool executable = json_is_true(json_object_get(file, "executable"));
	OWN(closep) int folder = open_parents(dir, path, &name, err);
	OWN(closep) int fd = -1;
	int n;

	if (folder < 0)
		return folder;
	fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0200);
	if (fd < 0)
		return err_errno(err, "cannot make '%s'", path);
	n = copy_blob(r, json_string_value(json_object_get(file, "hash")), fd, err);
	if (n < 0) {
		err_wrap(err, "'%s'", path);
		return n;
	}
	if (fchmod(fd, executable ? 0555 : 0444) < 0)
		return err_errno(err, "cannot make '%s'", path);
	/* It cannot be sealed while it is open for writing. */
	close(TAKE_FD(fd));
	seal_file(folder, name);
	return 0;
}

/* Folders lose their write bits last, from the innermost out. */
static int
close_folders(int dir, struct err *err)
{
	int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *stream = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *d;
	int n = 0;

	if (stream == NULL)
		return err_errno(err, "cannot list a folder");
	while (n == 0 && (d = readdir(stream)) != NULL) {
		OWN(closep) int fd = -1;

		if (tree_is_dots(d->d_name))
			continue;
		fd = openat(dir, d->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0)
			n = close_folders(fd, err);
	}
	if (n == 0 && fchmod(dir, 0555) < 0)
		n = err_errno(err, "cannot make a folder read-only");
	return n;
}

/* Stored beside the files, so that they can be checked without the database. */
static int
write_content(int dir, json_t *content, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	int n = canon_dump(content, OBJECT_TEXT_MAX, &text, &len, err);

	if (n < 0)
		return n;
	(void)unlinkat(dir, REGISTRY_TREE_CONTENT, 0);
	return create_file_at(dir, REGISTRY_TREE_CONTENT, 0400, text, err);
}

static int
fill(struct registry *r, int dir, json_t *content, struct err *err)
{
	json_t *files = json_object_get(content, "files");
	OWN(closep) int top = -1;
	int n = 0;

	if (mkdirat(dir, REGISTRY_TREE_FILES, 0700) < 0)
		return err_errno(err, "cannot make a capability's folder");
	top = openat(dir, REGISTRY_TREE_FILES, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (top < 0)
		return err_errno(err, "cannot open a capability's folder");
	for (size_t i = 0; n == 0 && i < json_array_size(files); i++)
		n = make_file(r, top, json_array_get(files, i), err);
	n = n == 0 ? close_folders(top, err) : n;
	n = n == 0 ? write_content(dir, content, err) : n;
	/* After a crash, half a folder would be taken for a whole one. */
	if (n == 0 && syncfs(dir) < 0)
		n = err_errno(err, "cannot write a capability's files to the disk");
	return n;
}

static int
build(struct registry *r, json_t *content, const char *name, struct err *err)
{
	OWN(closep) int dir = -1;
	char tmp[REGISTRY_TMP_MAX];
	int n = registry_tmp_name(tmp, err);

	if (n == 0 && mkdirat(r->tmp, tmp, 0700) < 0)
		n = err_errno(err, "cannot write to '%s/tmp'", r->path);
	if (n < 0)
		return n;
	dir = openat(r->tmp, tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	n = dir < 0 ? err_errno(err, "cannot open a folder") : fill(r, dir, content, err);
	if (n == 0 && renameat(r->tmp, tmp, r->trees, name) == 0)
		return 0;
	/* Another process may have been quicker. */
	if (n == 0 && errno != EEXIST && errno != ENOTEMPTY)
		n = err_errno(err, "cannot keep a capability's folder");
	if (dir >= 0)
		tree_empty(dir, NULL);
	unlinkat(r->tmp, tmp, AT_REMOVEDIR);
	return n;
}

static int
check(struct registry *r, json_t *content, const char *name, struct err *err)
{
	OWN(closep) int dir = tree_open_dir(r->trees, name);
	int n = registry_check_tree(r->trees, name, content, err);

	if (n == -EUCLEAN)
		(void)err_wrap(err, "'%s/trees/%s' is not what was registered (look at it, then remove it)", r->path,
		               name);
	/* An earlier version of cloister made it. */
	if (n == 0 && dir >= 0 && faccessat(dir, REGISTRY_TREE_CONTENT, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		n = write_content(dir, content, err);
	return n;
}

/* A time that is later than everything in the folder, by the clock with which the kernel dates
 * changes: later changes are dated no earlier.  That clock ticks 100 times a second. */
static uint64_t
take_moment(const struct registry *r, const char *name)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	struct timespec now;
	uint64_t newest, ns = 0;

	if (registry_newest_change(r->trees, name, &newest) < 0)
		return 0;
	for (int i = 0; i < 50 && ns <= newest; i++) {
		if (i > 0)
			nanosleep(&pause, NULL);
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
		ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	}
	return ns;
}

bool
registry_tree_is_since(struct registry *r, const char *hash, uint64_t since_ns)
{
	uint64_t newest;

	return registry_newest_change(r->trees, hash + strlen(HASH_PREFIX), &newest) == 0 && newest < since_ns;
}

int
registry_tree(struct registry *r, const struct registry_version *version, json_t *content,
              char **ret_path, uint64_t *ret_since_ns, struct err *err)
{
	const char *name = version->hash + strlen(HASH_PREFIX);
	char *path;
	int n = 0;

	if (faccessat(r->trees, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		n = build(r, content, name, err);
	if (n == 0 && ret_since_ns != NULL)
		*ret_since_ns = take_moment(r, name);
	/* Every time: any process with the operator's uid could have changed it since. */
	n = n == 0 ? check(r, content, name, err) : n;
	if (n < 0) {
		err_wrap(err, "the capability '%s'", version->name);
		return n;
	}
	path = str_format("%s/trees/%s/" REGISTRY_TREE_FILES, r->path, name);
	if (path == NULL)
		return err_set(err, ENOMEM, "out of memory");
	*ret_path = path;
	return 0;
}
