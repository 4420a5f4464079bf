/* registry_open.c - opens and creates the registry's folders. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "registry/registry_parts.h"

#define TMP_AGE_MAX (24 * 3600)         /* seconds; no write takes longer */

int
registry_tmp_name(char ret_name[REGISTRY_TMP_MAX], struct err *err)
{
	unsigned char random[16];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_errno(err, "cannot get random bytes");
	codec_hex(random, sizeof(random), ret_name);
	return 0;
}

/* Removes files in tmp/ whose writers did not finish. */
static void
registry_clear_tmp(struct registry *r)
{
	int copy = openat(r->tmp, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *dir = copy < 0 ? NULL : fdopendir(copy);
	time_t now = time(NULL);
	struct dirent *d;
	struct stat st;

	while (dir != NULL && (d = readdir(dir)) != NULL) {
		OWN(closep) int fd = -1;

		if (tree_is_dots(d->d_name) || fstatat(r->tmp, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    st.st_mtime > now - TMP_AGE_MAX)
			continue;
		fd = S_ISDIR(st.st_mode) ? tree_open_dir_anyway(r->tmp, d->d_name) : -1;
		if (fd >= 0)
			tree_empty(fd, NULL);
		unlinkat(r->tmp, d->d_name, fd >= 0 ? AT_REMOVEDIR : 0);
	}
}

static int
open_part(struct registry *r, const char *name, int *ret_fd, struct err *err)
{
	if (mkdirat(r->folder, name, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make '%s/%s'", r->path, name);
	*ret_fd = openat(r->folder, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return *ret_fd < 0 ? err_errno(err, "cannot open '%s/%s'", r->path, name) : 0;
}

/* ---- the database ---- */

/* Writes a name for this data folder, unless it has one. */
static int
make_home(struct registry *r, struct err *err)
{
	char tmp[REGISTRY_TMP_MAX], name[REGISTRY_TMP_MAX];
	OWN(closep) int fd = -1;
	int n = registry_tmp_name(tmp, err);

	n = n == 0 ? registry_tmp_name(name, err) : n;
	if (n < 0)
		return n;
	fd = openat(r->tmp, tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "cannot write to '%s/tmp'", r->path);
	n = write_all(fd, name, DB_HOME_MAX - 1, err);
	if (n == 0 && fsync(fd) < 0)
		n = err_errno(err, "cannot write '%s/home' to the disk", r->path);
	if (n == 0 && linkat(r->tmp, tmp, r->folder, "home", 0) < 0 && errno != EEXIST)
		n = err_errno(err, "cannot make '%s/home'", r->path);
	unlinkat(r->tmp, tmp, 0);
	return n;
}

static int
read_home(struct registry *r, char ret_home[DB_HOME_MAX], struct err *err)
{
	OWN(closep) int fd = openat(r->folder, "home", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	int n;

	if (fd < 0 && errno == ENOENT) {
		n = make_home(r, err);
		if (n < 0)
			return n;
		fd = openat(r->folder, "home", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	}
	n = fd < 0 ? err_errno(err, "cannot open") : read_exactly(fd, ret_home, DB_HOME_MAX - 1, err);
	ret_home[DB_HOME_MAX - 1] = '\0';
	if (n == 0 && strspn(ret_home, "0123456789abcdef") != DB_HOME_MAX - 1)
		n = err_set(err, EUCLEAN, "this is not the name of a data folder");
	return n < 0 ? err_wrap(err, "'%s/home'", r->path) : 0;
}

int
registry_open_db(struct registry *r, const char *store, struct db **ret_db, struct err *err)
{
	char home[DB_HOME_MAX];
	int n;

	if (store == NULL)
		return db_open_sqlite(r->folder, r->path, &registry_migrations, ret_db, err);
	n = registry_check_store(store, err);
	n = n == 0 ? read_home(r, home, err) : n;
	return n < 0 ? n : db_open_postgres(store, home, &registry_migrations, ret_db, err);
}

int
registry_open(bool make, struct registry **ret_registry, struct err *err)
{
	OWN(registry_closep) struct registry *r = calloc(1, sizeof(*r));
	int n;

	if (r == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r->path = data_path("registry", err);
	if (r->path == NULL)
		return -ENOENT;
	/* What others have put there is there also for a folder that is new. */
	r->folder = data_folder("registry", make || registry_store() != NULL, err);
	if (r->folder < 0)
		return r->folder;
	n = open_part(r, "blobs", &r->blobs, err);
	n = n == 0 ? open_part(r, "trees", &r->trees, err) : n;
	n = n == 0 ? open_part(r, "tmp", &r->tmp, err) : n;
	n = n == 0 ? s3_open(&r->s3, err) : n;
	n = n == 0 ? registry_open_db(r, registry_store(), &r->db, err) : n;
	if (n == 0 && make && fsync(r->folder) < 0)
		n = err_errno(err, "cannot write '%s' to the disk", r->path);
	if (n < 0)
		return n;
	if (make)
		registry_clear_tmp(r);
	*ret_registry = TAKE(r);
	return 0;
}

void
registry_close(struct registry *r)
{
	if (r == NULL)
		return;
	registry_drop_staged(r);
	free(r->staged);
	s3_close(r->s3);
	registry_marks_free(&r->known);
	db_close(r->db);
	close_fd(&r->folder);
	close_fd(&r->blobs);
	close_fd(&r->trees);
	close_fd(&r->tmp);
	free(r->path);
	free(r);
}

struct db *
registry_db(struct registry *r)
{
	return r->db;
}
