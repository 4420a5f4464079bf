/* initramfs_cache.c - keeps finished initramfs files, each under the hash of what went in. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "proc/initramfs/initramfs.h"

#define PART "part-"
#define KEEP_SECONDS (INITRAMFS_KEEP_DAYS * 24 * 3600)

int
initramfs_cache_open(const char *folder, const unsigned char hash[HASH_LEN], struct initramfs_cache *ret_cache,
                     struct err *err)
{
	int dir = tree_open_made(folder, true, "name another folder", err);

	if (dir < 0)
		return dir;
	*ret_cache = (struct initramfs_cache){ .dir = dir };
	codec_hex(hash, HASH_LEN, ret_cache->name);
	return 0;
}

void
initramfs_cache_close(struct initramfs_cache *c)
{
	if (c->part[0] != '\0')
		(void)unlinkat(c->dir, c->part, 0);
	c->part[0] = '\0';
	close_fd(&c->dir);
}

/* Without the lock, a file could be removed between its last check and its use.  It goes with DIR,
 * or with the process. */
static void
lock(const struct initramfs_cache *c, int how)
{
	while (flock(c->dir, how) < 0 && errno == EINTR)
		continue;
}

bool
initramfs_cache_use(const struct initramfs_cache *c)
{
	bool is_there;

	lock(c, LOCK_EX);
	is_there = utimensat(c->dir, c->name, NULL, AT_SYMLINK_NOFOLLOW) == 0;
	lock(c, LOCK_UN);
	return is_there;
}

int
initramfs_cache_begin(struct initramfs_cache *c, struct err *err)
{
	unsigned char random[8];
	char name[sizeof(c->part)] = PART;
	int fd;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_errno(err, "cannot name a file");
	codec_hex(random, sizeof(random), name + sizeof(PART) - 1);
	fd = openat(c->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_errno(err, "cannot make a file in the cache of initramfs files");
	memcpy(c->part, name, sizeof(name));
	return fd;
}

int
initramfs_cache_finish(struct initramfs_cache *c, int fd, struct err *err)
{
	/* A cell's ids are not the operator's, and its virtual machine reads this file.  After a crash, the
	 * name must not stand for half a file. */
	if (fchmod(fd, 0444) < 0 || fsync(fd) < 0 || renameat(c->dir, c->part, c->dir, c->name) < 0)
		return err_errno(err, "cannot keep the initramfs");
	c->part[0] = '\0';
	return 0;
}

static bool
is_ours(const char *name)
{
	unsigned char hash[HASH_LEN];

	return strncmp(name, PART, sizeof(PART) - 1) == 0 ||
	       (strlen(name) == HASH_HEX && codec_unhex_lower(name, hash, HASH_LEN));
}

void
initramfs_cache_prune(const struct initramfs_cache *c)
{
	int fd = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	time_t oldest = time(NULL) - KEEP_SECONDS;
	struct stat st;

	if (dir == NULL) {
		closep(&fd);
		return;
	}
	lock(c, LOCK_EX);
	for (struct dirent *e; (e = readdir(dir)) != NULL;)
		if (is_ours(e->d_name) && fstatat(c->dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    S_ISREG(st.st_mode) && st.st_mtime < oldest)
			(void)unlinkat(c->dir, e->d_name, 0);
	lock(c, LOCK_UN);
}
