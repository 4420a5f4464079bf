/* vmcache.c - see vmcache.h. */
#include "vm/vmcache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"

#define PART "part-"
#define SUMS ".sums"
#define SUMS_SIZE (VMCACHE_NAME_SIZE + sizeof(SUMS))
#define SUMS_TEXT_MAX 256
#define KEEP_SECONDS (VMCACHE_KEEP_DAYS * 24 * 3600)

int
vmcache_open(const char *folder, const char *prefix, size_t n_sums, const unsigned char hash[HASH_LEN],
             struct vmcache *ret_cache, struct err *err)
{
	int dir = tree_open_made(folder, true, "name another folder", err);

	if (dir < 0)
		return dir;
	*ret_cache = (struct vmcache){ .dir = dir, .prefix = prefix, .n_sums = n_sums };
	snprintf(ret_cache->name, sizeof(ret_cache->name), "%.*s", VMCACHE_PREFIX_MAX, prefix);
	codec_hex(hash, HASH_LEN, ret_cache->name + strlen(ret_cache->name));
	return 0;
}

void
vmcache_close(struct vmcache *c)
{
	if (c->part[0] != '\0')
		(void)unlinkat(c->dir, c->part, 0);
	c->part[0] = '\0';
	close_fd(&c->dir);
}

/* Without the lock, a file could be removed between its last check and its use.  It goes with DIR,
 * or with the process. */
static void
lock(int dir, int how)
{
	while (flock(dir, how) < 0 && errno == EINTR)
		continue;
}

static void
name_sums(const char *name, char ret_name[SUMS_SIZE])
{
	snprintf(ret_name, SUMS_SIZE, "%.*s" SUMS, (int)VMCACHE_NAME_SIZE - 1, name);
}

/* The hashes, and what any change of the file changes.  Who may set a file's times cannot set its ctime. */
static void
put_sums(const vmcache_sum *sums, size_t n, const struct stat *st, char ret_text[SUMS_TEXT_MAX])
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++, at += HASH_HEX + 1) {
		codec_hex(sums[i], HASH_LEN, ret_text + at);
		ret_text[at + HASH_HEX] = '\n';
	}
	snprintf(ret_text + at, SUMS_TEXT_MAX - at, "%llu %llu %lld %lld.%09ld\n", (unsigned long long)st->st_dev,
	         (unsigned long long)st->st_ino, (long long)st->st_size, (long long)st->st_ctim.tv_sec,
	         (long)st->st_ctim.tv_nsec);
}

static bool
get_sums(const char *text, vmcache_sum *ret_sums, size_t n)
{
	char hex[HASH_HEX + 1];

	for (size_t i = 0; i < n; i++, text += HASH_HEX + 1) {
		if (sscanf(text, "%64[0-9a-f]", hex) != 1 || strlen(hex) != HASH_HEX || text[HASH_HEX] != '\n' ||
		    !codec_unhex_lower(hex, ret_sums[i], HASH_LEN))
			return false;
	}
	return true;
}

/* Whether the entry is whole, and nothing has changed the file. */
static bool
is_whole(const struct vmcache *c, const char *sums_name, vmcache_sum *ret_sums)
{
	OWN(freep) char *found = NULL;
	char text[SUMS_TEXT_MAX];
	struct stat st;

	if (fstatat(c->dir, c->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    read_file_at(c->dir, sums_name, SUMS_TEXT_MAX, &found, NULL, NULL) < 0 ||
	    !get_sums(found, ret_sums, c->n_sums))
		return false;
	put_sums(ret_sums, c->n_sums, &st, text);
	return strcmp(text, found) == 0;
}

bool
vmcache_use(const struct vmcache *c, vmcache_sum *ret_sums)
{
	char sums[SUMS_SIZE];
	bool is_there;

	name_sums(c->name, sums);
	lock(c->dir, LOCK_EX);
	is_there = is_whole(c, sums, ret_sums) && utimensat(c->dir, sums, NULL, AT_SYMLINK_NOFOLLOW) == 0;
	lock(c->dir, LOCK_UN);
	return is_there;
}

int
vmcache_begin(struct vmcache *c, struct err *err)
{
	char part[sizeof(c->part)];
	OWN(closep) int fd = -1;
	struct stat mine, named;

	snprintf(part, sizeof(part), PART "%s", c->name);
	fd = openat(c->dir, part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_errno(err, "cannot make a file in the cache of virtual machines");
	/* Whoever writes it holds this lock. */
	lock(fd, LOCK_EX);
	if (fstat(fd, &mine) < 0 || fstatat(c->dir, part, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
	    mine.st_ino != named.st_ino)
		return -EAGAIN;
	if (ftruncate(fd, 0) < 0)
		return err_errno(err, "cannot empty a file in the cache of virtual machines");
	memcpy(c->part, part, sizeof(part));
	return TAKE_FD(fd);
}

/* Renaming changes a file's ctime, so the sums come last.  A cell's ids are not the operator's, and its virtual
 * machine reads this file; the part must stay writable for whoever waits to make it. */
static int
enter(struct vmcache *c, int fd, const vmcache_sum *sums)
{
	char name[SUMS_SIZE], text[SUMS_TEXT_MAX];
	struct stat st;

	name_sums(c->name, name);
	if (unlinkat(c->dir, name, 0) < 0 && errno != ENOENT)
		return -errno;
	if (renameat(c->dir, c->part, c->dir, c->name) < 0 || fchmod(fd, 0444) < 0 || fstat(fd, &st) < 0)
		return -errno;
	c->part[0] = '\0';
	put_sums(sums, c->n_sums, &st, text);
	return create_file_at(c->dir, name, 0600, text, NULL);
}

int
vmcache_finish(struct vmcache *c, int fd, const vmcache_sum *sums, struct err *err)
{
	int r;

	/* After a crash, the name must not stand for half a file. */
	if (fsync(fd) < 0)
		return err_errno(err, "cannot keep '%s'", c->name);
	lock(c->dir, LOCK_EX);
	r = enter(c, fd, sums);
	lock(c->dir, LOCK_UN);
	return r < 0 ? err_set(err, -r, "cannot keep '%s': %s", c->name, strerror(-r)) : 0;
}

/* The digits of an entry's name; NULL: it is none with PREFIX, or it does not end with END. */
static const char *
digits_of(const char *name, const char *prefix, const char *end)
{
	unsigned char hash[HASH_LEN];
	char hex[HASH_HEX + 1];

	if (strncmp(name, prefix, strlen(prefix)) != 0)
		return NULL;
	name += strlen(prefix);
	snprintf(hex, sizeof(hex), "%.*s", HASH_HEX, name);
	return strlen(hex) == HASH_HEX && codec_unhex_lower(hex, hash, HASH_LEN) && strcmp(name + HASH_HEX, end) == 0 ?
	       name : NULL;
}

/* When the entry NAME was used last: its sums tell, if it has any. */
static time_t
last_use(int dir, const char *name, const struct stat *st)
{
	char sums[SUMS_SIZE];
	struct stat other;

	name_sums(name, sums);
	return fstatat(dir, sums, &other, AT_SYMLINK_NOFOLLOW) == 0 && other.st_mtime > st->st_mtime ? other.st_mtime :
	       st->st_mtime;
}

static int
by_use(const void *a, const void *b)
{
	const struct vmcache_entry *first = a, *second = b;

	return first->used < second->used ? 1 : first->used > second->used ? -1 : strcmp(first->hash, second->hash);
}

int
vmcache_list(int dir, const char *prefix, struct vmcache_entry **ret_list, size_t *ret_n, struct err *err)
{
	OWN(closedirp) DIR *names = tree_list(dir);
	struct vmcache_entry *list = NULL, *more;
	size_t n = 0;

	for (struct dirent *d; names != NULL && (d = readdir(names)) != NULL;) {
		const char *digits = digits_of(d->d_name, prefix, "");
		struct stat st;

		if (digits == NULL || fstatat(dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
			continue;
		more = reallocarray(list, n + 1, sizeof(*list));
		if (more == NULL) {
			free(list);
			return err_set(err, ENOMEM, "out of memory");
		}
		list = more;
		list[n] = (struct vmcache_entry){ .used = last_use(dir, d->d_name, &st),
			.size = (unsigned long long)st.st_blocks * 512 };
		memcpy(list[n++].hash, digits, HASH_HEX + 1);
	}
	if (n > 0)
		qsort(list, n, sizeof(*list), by_use);
	*ret_list = list;
	*ret_n = n;
	return 0;
}

int
vmcache_remove(int dir, const char *prefix, const struct vmcache_entry *entry, struct err *err)
{
	char name[VMCACHE_NAME_SIZE], sums[SUMS_SIZE];

	snprintf(name, sizeof(name), "%s%s", prefix, entry->hash);
	name_sums(name, sums);
	(void)unlinkat(dir, sums, 0);
	return unlinkat(dir, name, 0) < 0 ? err_errno(err, "cannot remove '%s'", name) : 0;
}

/* Parts that nobody writes any more, and sums without a file. */
static void
remove_litter(const struct vmcache *c, time_t before)
{
	OWN(closedirp) DIR *names = tree_list(c->dir);
	struct stat st;

	for (struct dirent *d; names != NULL && (d = readdir(names)) != NULL;) {
		char name[VMCACHE_NAME_SIZE];

		if (strncmp(d->d_name, PART, sizeof(PART) - 1) != 0) {
			if (digits_of(d->d_name, c->prefix, SUMS) == NULL)
				continue;
			snprintf(name, sizeof(name), "%.*s", (int)(strlen(d->d_name) - sizeof(SUMS) + 1), d->d_name);
			if (faccessat(c->dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
				continue;
		}
		if (fstatat(c->dir, d->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_mtime < before)
			(void)unlinkat(c->dir, d->d_name, 0);
	}
}

void
vmcache_prune(const struct vmcache *c, size_t most)
{
	const time_t oldest = time(NULL) - KEEP_SECONDS;
	OWN(freep) struct vmcache_entry *list = NULL;
	size_t n = 0;

	lock(c->dir, LOCK_EX);
	(void)vmcache_list(c->dir, c->prefix, &list, &n, NULL);
	for (size_t i = 0; i < n; i++)
		if (i >= most || list[i].used < oldest)
			(void)vmcache_remove(c->dir, c->prefix, &list[i], NULL);
	remove_litter(c, oldest);
	lock(c->dir, LOCK_UN);
}
