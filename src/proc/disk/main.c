/* main.c - cloister-disk: makes a disk of a folder's programs for virtual machines, or finds it in a cache.
 *
 *   cloister-disk --folder DIR --agent ID --cache DIR
 *   cloister-disk --image DIGEST --agent ID --cache DIR LAYER...
 *
 * prints two lines: the path of the disk and its hash.  The disk is an erofs image with the entries of DIR that
 * a cell is shown.  Its name is the hash of what DIR looks like: names, types, sizes, modes, owners, times and
 * inodes.  So another state of the folder is another disk.
 *
 * The disk of an image has everything that is in its layers, the lowest first, and its name is by the image's digest.
 *
 * Root's cells have ids of their own for the files' owners.  For anybody else all files belong to the agent,
 * whose id is ID, because they are the operator's or could be read by everybody.
 *
 * The operator runs it.  A stranger may have written DIR.  So it keeps one right, to read any file if it is
 * root; it may change nothing but its cache; and it opens no file itself: that is left to mkfs.erofs, behind a
 * filter. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/tell.h"
#include "base/tree.h"
#include "boundary/namespace/ns_plan.h"
#include "confine/landlock.h"
#include "confine/privileges.h"
#include "proc/disk/disk_proc.h"
#include "vm/disk.h"
#include "vm/vmcache.h"

/* Part of the hash: change it whenever the same folder makes another disk. */
#define LAYOUT "cloister-disk 1"
#define TRIES 3
#define OPTION_WORDS 6

struct request {
	const char *folder, *image, *agent, *cache;     /* FOLDER or IMAGE is NULL */
	char **layers;                  /* of the image; else empty */
};

static bool
parse_options(int argc, char **argv, struct request *ret_request)
{
	const struct { const char *name; const char **value; } options[] = {
		{ "--folder", &ret_request->folder }, { "--image", &ret_request->image }, { "--agent", &ret_request->agent },
		{ "--cache", &ret_request->cache },
	};

	if (argc < 1 + OPTION_WORDS)
		return false;
	for (int i = 1; i < OPTION_WORDS; i += 2)
		for (size_t o = 0; o < ARRAY_LEN(options); o++)
			if (strcmp(argv[i], options[o].name) == 0)
				*options[o].value = argv[i + 1];
	ret_request->layers = argv + 1 + OPTION_WORDS;
	return ret_request->agent != NULL && ret_request->cache != NULL &&
	       (ret_request->folder != NULL) == (ret_request->layers[0] == NULL) &&
	       (ret_request->image != NULL) == (ret_request->layers[0] != NULL);
}

/* A program that root starts gets what the bounding set has. */
static int
keep_one_right(struct err *err)
{
	for (int cap = 0; cap <= 63; cap++)
		if (cap != CAP_DAC_READ_SEARCH)
			(void)prctl(PR_CAPBSET_DROP, cap);
	return privileges_keep(1u << CAP_DAC_READ_SEARCH, err);
}

static int
restrict_self(const char *cache, struct err *err)
{
	const char *const writable[] = { cache, NULL };
	OWN(closep) int landlock = -1;
	int r = keep_one_right(err);

	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = err_errno(err, "cannot give up privileges");
	if (r == 0)
		r = landlock_make(LANDLOCK_FILES_TOO, writable, &landlock, err);
	return r < 0 ? r : landlock_enforce(landlock, err);
}

/* Of an image, TREE is not known yet. */
static void
name_disk(const struct request *request, const struct disk_tree *tree, long owner, unsigned char ret_hash[HASH_LEN])
{
	struct hash h;

	hash_begin(&h);
	hash_add(&h, LAYOUT, sizeof(LAYOUT));
	hash_add(&h, &owner, sizeof(owner));
	if (request->image != NULL)
		hash_add(&h, request->image, strlen(request->image));
	else
		hash_add(&h, tree->hash, sizeof(tree->hash));
	hash_end(&h, ret_hash);
}

/* A folder that changes meanwhile could make a disk that it never was like. */
static int
check_unchanged(const struct request *request, const struct disk_tree *before, struct err *err)
{
	OWN(disk_tree_free) struct disk_tree now = {0};
	int r = disk_look(request->image != NULL, &now, err);

	return r == 0 && memcmp(now.hash, before->hash, HASH_LEN) != 0 ? -ESTALE : r;
}

static int
write_disk(const struct request *request, struct disk_tree *tree, long owner, struct vmcache *cache,
           vmcache_sum *ret_sum, struct err *err)
{
	OWN(closep) int fd = vmcache_begin(cache, err);
	OWN(freep) char *part = NULL;
	uint64_t size;
	int r;

	if (fd < 0 || vmcache_use(cache, ret_sum))
		return fd < 0 ? fd : 0;
	part = str_format("%s/%s", request->cache, cache->part);
	r = request->image != NULL ? disk_look(true, tree, err) : 0;
	if (r < 0)
		return r;
	r = part == NULL ? err_set(err, ENOMEM, "out of memory") :
	    disk_make(tree, owner, part, err);
	if (r == 0)
		r = check_unchanged(request, tree, err);
	if (r == 0)
		r = hash_fd(fd, UINT64_MAX, *ret_sum, &size, err);
	if (r == 0)
		r = vmcache_finish(cache, fd, (const vmcache_sum *)ret_sum, err);
	if (r == 0)
		vmcache_prune(cache, DISK_KEEP);
	return r;
}

/* -ESTALE or -EAGAIN: look again. */
static int
find_disk(const struct request *request, long owner, struct err *err)
{
	OWN(disk_tree_free) struct disk_tree tree = {0};
	OWN(vmcache_close) struct vmcache cache = {0};
	unsigned char hash[HASH_LEN];
	char sum[HASH_NAME + 1];
	vmcache_sum sums[1];
	int r = request->image != NULL ? 0 : disk_look(false, &tree, err);

	if (r < 0)
		return r;
	name_disk(request, &tree, owner, hash);
	r = vmcache_open(request->cache, DISK_PREFIX, 1, hash, &cache, err);
	if (r == 0 && !vmcache_use(&cache, sums))
		r = write_disk(request, &tree, owner, &cache, sums, err);
	if (r < 0)
		return r;
	hash_name(sums[0], sum);
	if (printf("%s/%s\n%s\n", request->cache, cache.name, sum) < 0 || fflush(stdout) != 0)
		return err_errno(err, "cannot print the disk's path");
	return 0;
}

/* Everything is done from within the folder, whatever takes its path meanwhile. */
static int
enter_folder(const char *folder, struct err *err)
{
	OWN(closep) int dir = tree_open_resolved(folder);

	if (dir < 0)
		return err_set(err, -dir, "cannot open it: %s", strerrordesc_np(-dir));
	return fchdir(dir) < 0 ? err_errno(err, "cannot enter it") : 0;
}

/* An ordinary user needs a user namespace for that. */
static int
make_namespaces(struct err *err)
{
	const unsigned uid = geteuid(), gid = getegid();
	int r;

	if (uid == 0 && unshare(CLONE_NEWNS) == 0)
		return 0;
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return err_errno(err, "cannot make the namespaces in which the layers are put together");
	r = write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny", err);
	if (r == 0)
		r = write_filef_at(AT_FDCWD, "/proc/self/uid_map", err, "%u %u 1\n", uid, uid);
	return r < 0 ? r : write_filef_at(AT_FDCWD, "/proc/self/gid_map", err, "%u %u 1\n", gid, gid);
}

static int
enter_image(char **layers, struct err *err)
{
	int r = make_namespaces(err);

	return r < 0 ? r : ns_enter_layers(layers, err);
}

static int
run(const struct request *request, struct err *err)
{
	const bool has_range = ns_has_range();

	uint64_t agent;
	int changed = 0, r = num_parse_count(request->agent, 0, UINT16_MAX, &agent, err);

	if (r == 0)
		r = request->image != NULL ? enter_image(request->layers, err) : enter_folder(request->folder, err);
	if (r == 0)
		r = restrict_self(request->cache, err);
	while (r == 0 && changed < TRIES) {
		r = find_disk(request, has_range ? -1 : (long)agent, err);
		if (r != -ESTALE && r != -EAGAIN)
			return r;
		changed += r == -ESTALE ? 1 : 0;
		r = 0;
	}
	return r < 0 ? r : err_set(err, ESTALE, "it changed all the while");
}

int
main(int argc, char **argv)
{
	struct request request = {0};
	struct err err = {0};

	if (!parse_options(argc, argv, &request)) {
		fprintf(stderr, "cloister-disk is started by cloister only\n");
		return TELL_FAILED;
	}
	if (run(&request, &err) == 0)
		return 0;
	(void)err_wrap(&err, "no disk can be made of '%s'", request.folder != NULL ? request.folder : request.image);
	return tell_error(&err);
}
