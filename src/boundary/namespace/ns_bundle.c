/* ns_bundle.c - the file system of a container: the engine's layers, an empty one above them that gets
 * all changes, and the cell's own /dev, /proc and names.
 *
 * The engine's own mount of the layers is not used: an overlay file system cannot be id-mapped, but its
 * layers can.  What the image contains is hostile.  So nothing in it is followed or written before it
 * is the root of this process. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/timing.h"
#include "boundary/namespace/ns_plan.h"
#include "ipc/init_channel.h"

/* In the scratch space, beside the folders that the cell sees. */
#define LAYERS "layers"
#define UPPER "upper"
#define WORK "work"
#define MERGED "merged"
#define OPTIONS_MAX 4096                /* bytes, as mount(2) takes them */

static int
cannot(struct err *err)
{
	return err_errno(err, "cannot make the container's root file system");
}

/* ---- the layers ---- */

static int
attach_layers(char *const *paths, const int *layers, struct err *err)
{
	char at[32];
	int r = 0;

	for (int i = 0; r == 0 && paths[i] != NULL; i++) {
		OWN(closep) int own = layers == NULL ? mounts_copy_tree(AT_FDCWD, paths[i], err) : -1;
		int mount = layers == NULL ? own : layers[i];

		snprintf(at, sizeof(at), LAYERS "/%d", i);
		if (mount < 0)
			return mount;
		if (mkdirat(AT_FDCWD, at, 0700) < 0)
			return cannot(err);
		r = mounts_set_attrs(mount, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, true, err);
		r = r == 0 ? mounts_attach(mount, AT_FDCWD, at, err) : r;
	}
	return r;
}

/* The options of the overlay, in which no path of the host is. */
static int
write_options(const struct cell_bundle *bundle, bool is_users, char ret_text[OPTIONS_MAX], struct err *err)
{
	size_t n = 0, len;

	while (bundle->layers[n] != NULL)
		n++;
	len = (size_t)snprintf(ret_text, OPTIONS_MAX, "upperdir=" UPPER ",workdir=" WORK ",index=off%s%s,lowerdir=",
	                       is_users ? ",userxattr" : "", bundle->metacopy && !is_users ? ",metacopy=on" : "");
	/* The highest comes first. */
	while (n-- > 0 && len < OPTIONS_MAX)
		len += (size_t)snprintf(ret_text + len, OPTIONS_MAX - len, LAYERS "/%zu%s", n, n > 0 ? ":" : "");
	return len < OPTIONS_MAX ? 0 : err_set(err, E2BIG, "the container has too many layers");
}

static int
make_upper(const struct cell_bundle *bundle, uid_t root, struct err *err)
{
	static const char *const folders[] = { LAYERS, UPPER, WORK, MERGED };
	struct stat st;

	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		if (mkdirat(AT_FDCWD, folders[i], 0700) < 0)
			return cannot(err);
	/* The mode of "/" is that of the image. */
	if (stat(bundle->layers[0], &st) < 0 || chmod(UPPER, st.st_mode & 0777) < 0 || chown(UPPER, root, root) < 0)
		return cannot(err);
	return 0;
}

/* Puts the layers together in the scratch space *SCRATCH, which is replaced by a copy; both results are
 * detached mounts.  This process has mounts of its own, and stays in the scratch space.  LAYERS may be
 * NULL: then they are opened here. */
static int
merge(const struct ns_plan *plan, const int *layers, uid_t root, int *scratch, int *ret_merged, struct err *err)
{
	const struct cell_bundle *bundle = &plan->spec->bundle;
	char options[OPTIONS_MAX];
	int copy, r = mounts_attach(*scratch, AT_FDCWD, "/", err);

	if (r == 0 && fchdir(*scratch) < 0)
		r = cannot(err);
	r = r == 0 ? make_upper(bundle, root, err) : r;
	r = r == 0 ? attach_layers(bundle->layers, layers, err) : r;
	r = r == 0 ? write_options(bundle, layers == NULL, options, err) : r;
	if (r == 0 && mount("overlay", MERGED, "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		r = cannot(err);
	if (r < 0)
		return r;
	copy = open_tree(AT_FDCWD, ".", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	*ret_merged = open_tree(AT_FDCWD, MERGED, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	if (copy < 0 || *ret_merged < 0 || chown(".", root, root) < 0)
		return cannot(err);
	close(*scratch);
	*scratch = copy;
	return 0;
}

struct work {
	struct ns_plan *plan;
	const int *layers;
	struct err *err;
	int r;
};

/* Shares memory and descriptors with the supervisor, but not its mounts. */
static int
merge_apart(void *arg)
{
	struct work *work = arg;
	struct ns_plan *plan = work->plan;

	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		work->r = cannot(work->err);
	else
		work->r = merge(plan, work->layers, plan->base, &plan->scratch, &plan->bundle, work->err);
	return 0;
}

int
ns_prepare_bundle(struct ns_plan *plan, const int *layers, struct err *err)
{
	static char stack[64 * 1024] __attribute__((aligned(16)));
	struct work work = { plan, layers, err, 0 };
	pid_t pid;

	plan->scratch = ns_new_scratch(plan, err);
	if (plan->scratch < 0)
		return plan->scratch;
	pid = clone(merge_apart, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_NEWNS | SIGCHLD,
	            &work);
	if (pid < 0)
		return cannot(err);
	(void)waitpid(pid, NULL, 0);
	return work.r;
}

/* An ordinary user's: in the cell's own namespaces. */
static int
merge_here(const struct ns_plan *plan, int *ret_scratch, int *ret_merged, struct err *err)
{
	*ret_scratch = ns_new_scratch(plan, err);
	return *ret_scratch < 0 ? *ret_scratch : merge(plan, NULL, (uid_t)-1, ret_scratch, ret_merged, err);
}

/* ---- what the cell adds ---- */

/* A link here would lead out, as long as "/" is the host's. */
static int
make_folder(int root, const char *name, struct err *err)
{
	OWN(closep) int fd = -1;

	if (mkdirat(root, name, 0755) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make '/%s' in the container", name);
	fd = openat(root, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 ? 0 : err_errno(err, "the image has no folder '/%s' but something else", name);
}

static int
make_own(int root, struct err *err)
{
	static const char *const folders[] = { "dev", "proc", "sys" };
	const char *const options[] = { "source", "tmpfs", "mode", "0755", "size", "64k", "nr_inodes", "64", NULL };
	OWN(closep) int dev = mounts_new_fs("tmpfs", options, MOUNTS_QUIET | MOUNT_ATTR_NOEXEC, err);
	int r = dev < 0 ? dev : 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(folders); i++)
		r = make_folder(root, folders[i], err);
	r = r == 0 ? mounts_attach(dev, root, "dev", err) : r;
	if (r == 0 && (mkdirat(root, "dev/pts", 0755) < 0 || mkdirat(root, "dev/shm", 0755) < 0))
		r = err_errno(err, "cannot make '/dev' in the container");
	r = r == 0 ? ns_make_devices(root, err) : r;
	return r == 0 ? mounts_set_attrs(dev, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, false, err) : r;
}

/* Folder NUMBER of the scratch space, at PATH. */
static int
attach_scratch(int root, int scratch, int number, const char *path, struct err *err)
{
	OWN(closep) int target = mounts_make_target(root, path, false, (uid_t)-1, err), mount = -1;
	char name[32];

	snprintf(name, sizeof(name), "scratch%d", number);
	if (target < 0)
		return target;
	if (mkdirat(scratch, name, 0700) < 0 || fchmodat(scratch, name, 01777, 0) < 0)
		return err_errno(err, "cannot make '%s'", path);
	mount = open_tree(scratch, name, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
	return mount < 0 ? err_errno(err, "cannot make '%s'", path) : mounts_attach(mount, target, "", err);
}

/* The whole is mounted where /dev/shm will be, which hides it. */
static int
attach_scratches(const struct cell_bundle *bundle, int root, int scratch, struct err *err)
{
	int r = mounts_attach(scratch, root, "dev/shm", err);

	for (int i = 0; r == 0 && bundle->scratches[i] != NULL; i++)
		r = attach_scratch(root, scratch, i + 1, bundle->scratches[i], err);
	return r == 0 ? attach_scratch(root, scratch, 0, "/dev/shm", err) : r;
}

/* ---- the grants ---- */

/* While the host's paths are still there. */
static int
take_grants(const struct ns_plan *plan, int ret_mounts[CELL_GRANTS_MAX], struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->spec->n_grants; i++) {
		const struct cell_grant *grant = &plan->spec->grants[i];
		unsigned attrs = MOUNTS_QUIET | (grant->access == CELL_WRITE ? 0 : MOUNT_ATTR_RDONLY);

		ret_mounts[i] = plan->grants[i] >= 0 ? plan->grants[i] : mounts_copy_tree(AT_FDCWD, grant->host, err);
		r = ret_mounts[i] < 0 ? ret_mounts[i] : mounts_set_attrs(ret_mounts[i], attrs, true, err);
	}
	return r;
}

static int
attach_grants(const struct ns_plan *plan, int root, const int *mounts, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < plan->spec->n_grants; i++) {
		OWN(closep) int target = -1;
		struct stat st;

		if (fstat(mounts[i], &st) < 0)
			return err_errno(err, "cannot look at '%s'", plan->spec->grants[i].host);
		target = mounts_make_target(root, plan->spec->grants[i].cell, !S_ISDIR(st.st_mode), (uid_t)-1, err);
		r = target < 0 ? target : mounts_attach(mounts[i], target, "", err);
	}
	for (size_t i = 0; r == 0 && i < plan->spec->n_grants; i++)
		r = ns_cover_own(plan, root, i, err);
	return r;
}

/* ---- all of it ---- */

/* From here on links of the image lead to the image. */
static int
fill_etc(const struct ns_plan *plan, int root, struct err *err)
{
	OWN(closep) int etc = -1;
	int r;

	if (mkdir("/etc", 0755) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make '/etc' in the container");
	etc = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (etc < 0)
		return err_errno(err, "cannot open '/etc' in the container");
	r = ns_replace_names(etc, plan->spec, err);
	return r == 0 && plan->ground->trust != NULL ? ns_make_trust(root, plan, err) : r;
}

int
ns_build_bundle(const struct ns_plan *plan, struct err *err)
{
	const struct cell_bundle *bundle = &plan->spec->bundle;
	int mounts[CELL_GRANTS_MAX], scratch = plan->scratch, root = plan->bundle;
	OWN(closep) int cwd = -1, proc = -1;
	int r = root >= 0 ? 0 : merge_here(plan, &scratch, &root, err);

	r = r == 0 ? mounts_attach(root, AT_FDCWD, "/", err) : r;
	if (r == 0 && fchdir(root) < 0)
		r = cannot(err);
	timing_mark(TIMING_SKELETON);
	r = r == 0 ? make_own(root, err) : r;
	proc = r == 0 ? ns_new_proc(plan, err) : r;
	r = proc < 0 ? proc : 0;
	timing_mark(TIMING_PROC);
	r = r == 0 ? attach_scratches(bundle, root, scratch, err) : r;
	r = r == 0 ? ns_send_fds(plan, INIT_SCRATCH, 0, &scratch, 1, err) : r;
	timing_mark(TIMING_SCRATCH);
	r = r == 0 ? take_grants(plan, mounts, err) : r;
	r = r == 0 ? ns_pivot(root, err) : r;
	/* Without a /proc, no link of the container's leads to the descriptors of this process. */
	r = r == 0 ? fill_etc(plan, root, err) : r;
	r = r == 0 ? ns_attach_proc(plan, proc, root, err) : r;
	r = r == 0 ? attach_grants(plan, root, mounts, err) : r;
	timing_mark(TIMING_GRANTED);
	if (r < 0)
		return r;
	/* As other runtimes do.  If it cannot be made, the start reports it. */
	cwd = mounts_follow_target(root, plan->spec->cwd, false, (uid_t)-1, NULL);
	r = mounts_set_attrs(root, MOUNTS_QUIET | (bundle->readonly ? MOUNT_ATTR_RDONLY : 0), false, err);
	timing_mark(TIMING_ROOT);
	return r;
}
