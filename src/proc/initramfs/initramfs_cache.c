/* initramfs_cache.c - keeps finished initramfs files under the hash of what went in, each with its sums. */
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
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "proc/initramfs/initramfs.h"

#define PART "part-"
#define SUMS ".sums"
#define SUMS_TEXT_MAX 256
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

static void
name_sums(const char *name, char ret_name[HASH_HEX + sizeof(SUMS)])
{
	snprintf(ret_name, HASH_HEX + sizeof(SUMS), "%.*s" SUMS, HASH_HEX, name);
}

/* Two hashes, and what any change of the initramfs changes.  Who may set a file's times cannot set its
 * ctime. */
static void
put_sums(const struct initramfs_sums *sums, const struct stat *st, char ret_text[SUMS_TEXT_MAX])
{
	char kernel[HASH_HEX + 1], initramfs[HASH_HEX + 1];

	codec_hex(sums->kernel, HASH_LEN, kernel);
	codec_hex(sums->initramfs, HASH_LEN, initramfs);
	snprintf(ret_text, SUMS_TEXT_MAX, "%s\n%s\n%llu %llu %lld %lld.%09ld\n", kernel, initramfs,
	         (unsigned long long)st->st_dev, (unsigned long long)st->st_ino, (long long)st->st_size,
	         (long long)st->st_ctim.tv_sec, (long)st->st_ctim.tv_nsec);
}

static bool
get_sums(const char *text, struct initramfs_sums *ret_sums)
{
	char hex[2][HASH_HEX + 1];

	return sscanf(text, "%64[0-9a-f]\n%64[0-9a-f]\n", hex[0], hex[1]) == 2 &&
	       codec_unhex_lower(hex[0], ret_sums->kernel, HASH_LEN) &&
	       codec_unhex_lower(hex[1], ret_sums->initramfs, HASH_LEN);
}

/* Whether the entry is whole, and nothing has changed the initramfs. */
static bool
is_whole(const struct initramfs_cache *c, const char *sums_name, struct initramfs_sums *ret_sums)
{
	OWN(freep) char *found = NULL;
	char text[SUMS_TEXT_MAX];
	struct stat st;

	if (fstatat(c->dir, c->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    read_file_at(c->dir, sums_name, SUMS_TEXT_MAX, &found, NULL, NULL) < 0 || !get_sums(found, ret_sums))
		return false;
	put_sums(ret_sums, &st, text);
	return strcmp(text, found) == 0;
}

bool
initramfs_cache_use(const struct initramfs_cache *c, struct initramfs_sums *ret_sums)
{
	char sums[HASH_HEX + sizeof(SUMS)];
	bool is_there;

	name_sums(c->name, sums);
	lock(c, LOCK_EX);
	is_there = is_whole(c, sums, ret_sums) && utimensat(c->dir, sums, NULL, AT_SYMLINK_NOFOLLOW) == 0;
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
	fd = openat(c->dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_errno(err, "cannot make a file in the cache of initramfs files");
	memcpy(c->part, name, sizeof(name));
	return fd;
}

/* Renaming changes a file's ctime, so the sums come last. */
static int
enter(struct initramfs_cache *c, int fd, const struct initramfs_sums *sums)
{
	char name[HASH_HEX + sizeof(SUMS)], text[SUMS_TEXT_MAX];
	struct stat st;

	name_sums(c->name, name);
	if (unlinkat(c->dir, name, 0) < 0 && errno != ENOENT)
		return -errno;
	if (renameat(c->dir, c->part, c->dir, c->name) < 0 || fstat(fd, &st) < 0)
		return -errno;
	c->part[0] = '\0';
	put_sums(sums, &st, text);
	return create_file_at(c->dir, name, 0600, text, NULL);
}

int
initramfs_cache_finish(struct initramfs_cache *c, int fd, const struct initramfs_sums *sums, struct err *err)
{
	int r;

	/* A cell's ids are not the operator's, and its virtual machine reads this file.  After a crash, the
	 * name must not stand for half a file. */
	if (fchmod(fd, 0444) < 0 || fsync(fd) < 0)
		return err_errno(err, "cannot keep the initramfs");
	lock(c, LOCK_EX);
	r = enter(c, fd, sums);
	lock(c, LOCK_UN);
	return r < 0 ? err_set(err, -r, "cannot keep the initramfs: %s", strerror(-r)) : 0;
}

static bool
is_ours(const char *name)
{
	unsigned char hash[HASH_LEN];
	char hex[HASH_HEX + 1];

	snprintf(hex, sizeof(hex), "%.*s", HASH_HEX, name);
	return strncmp(name, PART, sizeof(PART) - 1) == 0 ||
	       (strlen(hex) == HASH_HEX && codec_unhex_lower(hex, hash, HASH_LEN) &&
	        (name[HASH_HEX] == '\0' || strcmp(name + HASH_HEX, SUMS) == 0));
}

static bool
is_older(const struct initramfs_cache *c, const char *name, time_t than)
{
	struct stat st;

	return fstatat(c->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_mtime < than;
}

/* An initramfs is as old as its sums, if it has any. */
static bool
is_unused(const struct initramfs_cache *c, const char *name, time_t since)
{
	char sums[HASH_HEX + sizeof(SUMS)];

	name_sums(name, sums);
	return is_older(c, name, since) &&
	       (faccessat(c->dir, sums, F_OK, AT_SYMLINK_NOFOLLOW) < 0 || is_older(c, sums, since));
}

void
initramfs_cache_prune(const struct initramfs_cache *c)
{
	int fd = openat(c->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	time_t oldest = time(NULL) - KEEP_SECONDS;

	if (dir == NULL) {
		closep(&fd);
		return;
	}
	lock(c, LOCK_EX);
	for (struct dirent *e; (e = readdir(dir)) != NULL;)
		if (is_ours(e->d_name) && is_unused(c, e->d_name, oldest))
			(void)unlinkat(c->dir, e->d_name, 0);
	lock(c, LOCK_UN);
}
