/* ns_root.c - the cell's file system: a read-only skeleton on a small tmpfs, the host's programs, a
 * scratch space that is limited in bytes and files, and the grants.
 *
 * Built from the outside in: the new root is mounted over "/", which this process does not see
 * until it enters it, so host paths can still be opened. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/timing.h"
#include "base/tree.h"
#include "boundary/namespace/ns_plan.h"
#include "boundary/overlay/overlay.h"
#include "ipc/init_channel.h"

static uid_t
agent_id(const struct ns_plan *plan)
{
	return cell_spec_uid(plan->spec);
}

static int
make_folders(int root, struct err *err)
{
	static const char *const folders[] = {
		"dev", "dev/pts", "dev/shm", "home", "home/agent", "proc", "run", "sys",
		"tmp", "usr", "var", "var/tmp", OVERLAY_CHANGES, OVERLAY_LOWER,
	};

	for (size_t i = 0; i < ARRAY_LEN(folders); i++)
		if (mkdirat(root, folders[i], 0755) < 0)
			return err_errno(err, "cannot make '%s'", folders[i]);
	return 0;
}

/* Shows one entry of the programs' tree: a folder is bound, a link is recreated. */
static int
show_entry(int from, const char *name, int root, struct err *err)
{
	char link[256];
	struct stat st;
	ssize_t n;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot look at '/%s'", name);
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(from, name, link, sizeof(link) - 1);
		if (n < 0)
			return err_errno(err, "cannot read the link '/%s'", name);
		link[n] = '\0';
		if (symlinkat(link, root, name) < 0 && errno != EEXIST)
			return err_errno(err, "cannot make '/%s'", name);
		return 0;
	}
	if (!S_ISDIR(st.st_mode))
		return 0;
	if (mkdirat(root, name, 0755) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make '/%s'", name);
	return mounts_bind(from, name, root, name, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, err);
}

int
ns_show_host(int root, struct err *err)
{
	static const char *const entries[] = { "usr", "bin", "sbin", "lib", "lib32",
	                                       "lib64", "libx32" };
	OWN(closep) int host = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(entries); i++)
		r = show_entry(host, entries[i], root, err);
	return r;
}

/* The generated files over those of the root file system LOWER.  The kernel would follow a link of LOWER out of
 * it, so what is laid under is mounted first, found as the cell would find it. */
static int
show_rootfs_etc(int lower, int root, struct err *err)
{
	const char *const layers[] = { "lowerdir", "etc:" OVERLAY_LOWER, NULL };
	OWN(closep) int below = mounts_copy_inside(lower, "etc", err), etc = -1;
	int r = below < 0 ? below : mounts_attach(below, root, OVERLAY_LOWER, err);

	if (r < 0)
		return r;
	etc = mounts_new_fs("overlay", layers, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, err);
	umount2(OVERLAY_LOWER, MNT_DETACH);
	return etc < 0 ? etc : mounts_attach(etc, root, "etc", err);
}

static int
show_folder(const struct ns_plan *plan, int root, struct err *err)
{
	OWN(closep) int mount = plan->rootfs;
	OWN(closep) int from = -1;
	OWN(closedirp) DIR *dir = NULL;
	struct dirent *d;
	int r;

	if (mount < 0)
		mount = mounts_copy_tree(AT_FDCWD, plan->spec->rootfs, err);
	if (mount < 0)
		return mount;
	r = mounts_set_attrs(mount, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, true, err);
	if (r == 0)
		r = mounts_attach(mount, root, OVERLAY_LOWER, err);
	if (r < 0)
		return r;
	from = openat(root, OVERLAY_LOWER, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = from < 0 ? NULL : fdopendir(dup(from));
	if (dir == NULL)
		return err_errno(err, "cannot list '%s'", plan->spec->rootfs);
	while (r == 0 && (d = readdir(dir)) != NULL)
		if (ns_is_programs(d->d_name) || (plan->has_etc && strcmp(d->d_name, "etc") == 0))
			r = show_entry(from, d->d_name, root, err);
	if (r == 0 && !plan->has_etc && faccessat(from, "etc", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		r = show_rootfs_etc(from, root, err);
	umount2(OVERLAY_LOWER, MNT_DETACH);
	return r;
}

int
ns_make_devices(int root, struct err *err)
{
	static const struct { const char *name; unsigned major, minor; } nodes[] = {
		{ "null", 1, 3 }, { "zero", 1, 5 }, { "full", 1, 7 }, { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 },
	};
	static const struct { const char *name, *to; } links[] = {
		{ "dev/fd", "/proc/self/fd" }, { "dev/stdin", "/proc/self/fd/0" },
		{ "dev/stdout", "/proc/self/fd/1" }, { "dev/stderr", "/proc/self/fd/2" },
		{ "dev/ptmx", "pts/ptmx" },
	};
	/* The kernel also counts terminals for the whole machine. */
	const char *const pts_options[] = { "source", "devpts", "mode", "0620", "ptmxmode", "0666", "max", "256", NULL };
	OWN(closep) int pts = -1;
	char from[32];
	struct stat st;
	int r = 0;

	/* "/dev/null" is still the host's, "dev/null" the cell's. */
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(nodes); i++) {
		snprintf(from, sizeof(from), "/dev/%s", nodes[i].name);
		if (mknodat(root, from + 1, S_IFREG | 0644, 0) < 0 ||
		    mount(from, from + 1, NULL, MS_BIND, NULL) < 0 || fstatat(root, from + 1, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_errno(err, "cannot make '%s'", from);
		/* In a container, /dev may be the image author's: a volume. */
		if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(nodes[i].major, nodes[i].minor))
			return err_set(err, EPERM, "'%s' is not the device of that name: an image must not bring its own /dev",
			               from);
	}
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(links); i++)
		if (symlinkat(links[i].to, root, links[i].name) < 0)
			r = err_errno(err, "cannot make '/%s'", links[i].name);
	if (r < 0)
		return r;
	pts = mounts_new_fs("devpts", pts_options, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
	return pts < 0 ? pts : mounts_attach(pts, root, "dev/pts", err);
}

int
ns_make_dev(int root, struct err *err)
{
	/* Images have it. */
	if (symlinkat("/run", root, "var/run") < 0 && errno != EEXIST)
		return err_errno(err, "cannot make '/var/run'");
	return ns_make_devices(root, err);
}

/* Files of /proc that describe the host or could change it.  For most of them the agent, who is
 * nobody outside, has no access; this protects them without relying on that. */
static const char *const masked_files[] = {
	"proc/buddyinfo", "proc/cmdline", "proc/config.gz", "proc/consoles", "proc/locks",
	 "proc/crypto", "proc/diskstats", "proc/dma", "proc/interrupts",
	"proc/iomem", "proc/ioports", "proc/kallsyms", "proc/kcore", "proc/key-users",
	"proc/keys", "proc/kmsg", "proc/kpagecgroup", "proc/kpagecount", "proc/kpageflags",
	"proc/latency_stats", "proc/mdstat", "proc/modules", "proc/mtrr", "proc/pagetypeinfo",
	"proc/partitions", "proc/sched_debug", "proc/schedstat", "proc/slabinfo",
	"proc/softirqs", "proc/swaps", "proc/sysrq-trigger", "proc/timer_list",
	"proc/vmallocinfo", "proc/zoneinfo",
};
static const char *const masked_folders[] = {
	"proc/acpi", "proc/asound", "proc/bus", "proc/driver",
	"proc/dynamic_debug", "proc/fs", "proc/irq", "proc/pressure", "proc/scsi", "proc/tty",
};

const char *
ns_masked(size_t i)
{
	const size_t n = ARRAY_LEN(masked_files);

	return i < n ? masked_files[i] : i - n < ARRAY_LEN(masked_folders) ? masked_folders[i - n] : NULL;
}

/* Runs in the new root, which is the working folder.  The old way to bind is a single call. */
static int
mask(const char *const *paths, size_t n, const char *with, struct err *err)
{
	for (size_t i = 0; i < n; i++)
		if (mount(with, paths[i], NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
			return err_errno(err, "cannot mask '/%s'", paths[i]);
	return 0;
}

/* The host's boot id would let cells on one host recognise each other. */
static int
make_boot_id(int root, struct err *err)
{
	static const char at[] = "proc/sys/kernel/random/boot_id", name[] = ".boot_id";
	unsigned char b[16];
	char text[40];
	int r;

	if (getrandom(b, sizeof(b), 0) != (ssize_t)sizeof(b))
		return err_errno(err, "cannot make the cell's boot id");
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);     /* RFC 9562: version 4 */
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	snprintf(text, sizeof(text),
	         "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x\n", b[0], b[1],
	         b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
	r = create_file_at(root, name, 0444, text, err);
	if (r == 0 && mount(name, at, NULL, MS_BIND, NULL) < 0 && errno != ENOENT)
		r = err_errno(err, "cannot hide the host's boot id");
	if (r == 0 && unlinkat(root, name, 0) < 0)
		r = err_errno(err, "cannot make the cell's boot id");
	return r;
}

static int
mask_proc(int root, struct err *err)
{
	int r = mask(masked_files, ARRAY_LEN(masked_files), "dev/null", err);

	/* The empty /sys is made read-only first: copies of a mount inherit that. */
	if (r == 0)
		r = mounts_bind(root, "sys", root, "sys", MOUNTS_QUIET | MOUNT_ATTR_RDONLY, err);
	if (r == 0)
		r = mask(masked_folders, ARRAY_LEN(masked_folders), "sys", err);
	if (r == 0)
		r = mounts_bind(root, "proc/sys", root, "proc/sys",
		            MOUNTS_QUIET | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, err);
	return r < 0 || !CONTROL_ON("boot-id") ? r : make_boot_id(root, err);
}

int
ns_new_proc(const struct ns_plan *plan, struct err *err)
{
	const char *const options[] = { "source", "proc", NULL };

	/* Without a pid namespace of its own there is no /proc of its own to mount. */
	return CONTROL_ON("pidns") && !plan->keeps_proc ?
	       mounts_new_fs("proc", options, MOUNTS_QUIET | MOUNT_ATTR_NOEXEC, err) :
	       mounts_copy_tree(AT_FDCWD, "/proc", err);
}

int
ns_attach_proc(const struct ns_plan *plan, int proc, int root, struct err *err)
{
	int r = mounts_attach(proc, root, "proc", err);

	/* A nested sandbox may mount a /proc of its own only if it sees all of this one.  There the
	 * only protection is that the agent is nobody outside. */
	if (r == 0 && plan->spec->profile != CELL_PROFILE_NESTED && CONTROL_ON("proc-mask"))
		r = mask_proc(root, err);
	return r;
}

int
ns_make_proc(const struct ns_plan *plan, int root, struct err *err)
{
	OWN(closep) int proc = ns_new_proc(plan, err);
	int r = proc < 0 ? proc : ns_attach_proc(plan, proc, root, err);

	if (r == 0 && !CONTROL_ON("sys-empty"))
		r = mounts_bind(AT_FDCWD, "/sys", root, "sys", 0, err);
	return r;
}

int
ns_new_scratch(const struct ns_plan *plan, struct err *err)
{
	const struct cell_limits *limits = &plan->spec->limits;
	char size[32], inodes[32];
	const char *const options[] = { "mode", "0755", "size", size, "nr_inodes", inodes, NULL };

	snprintf(size, sizeof(size), "%llu",
	         (unsigned long long)(CONTROL_ON("limit-disk") ? limits->disk : 1ULL << 40));
	snprintf(inodes, sizeof(inodes), "%llu",
	         (unsigned long long)(CONTROL_ON("limit-disk") ? limits->inodes : 1ULL << 30));
	return mounts_new_fs("tmpfs", options, MOUNTS_QUIET, err);
}

/* Everything that the cell may write is in one place, with one limit. */
int
ns_make_scratch(const struct ns_plan *plan, int root, int *ret_scratch, struct err *err)
{
	static const struct { const char *name, *at; mode_t mode; bool agents; } places[] = {
		{ MOUNTS_SCRATCH "/var-tmp", "var/tmp", 01777, false },
		{ MOUNTS_SCRATCH "/shm", "dev/shm", 01777, false },
		{ MOUNTS_SCRATCH "/home", "home/agent", 0700, true },
		{ MOUNTS_SCRATCH "/tmp", "tmp", 01777, false },     /* last: it hides the others */
	};
	uid_t agent = agent_id(plan);
	OWN(closep) int scratch = ns_new_scratch(plan, err);
	int r;

	r = scratch < 0 ? scratch : mounts_attach(scratch, root, MOUNTS_SCRATCH, err);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(places); i++) {
		if (mkdirat(root, places[i].name, 0700) < 0 ||
		    fchmodat(root, places[i].name, places[i].mode, 0) < 0 ||
		    (places[i].agents && fchownat(root, places[i].name, agent, agent, 0) < 0))
			return err_errno(err, "cannot make '/%s'", places[i].at);
		r = mounts_bind(root, places[i].name, root, places[i].at, 0, err);
	}
	if (r == 0)
		*ret_scratch = TAKE_FD(scratch);
	return r;
}

/* Puts the workspace in *MOUNT below an upper folder, which is sent to the supervisor. */
static int
lay_over(const struct ns_plan *plan, int root, int changes, size_t grant, int *mount, struct err *err)
{
	OWN(closep) int upper = -1;
	int r = overlay_mount(root, changes, grant, agent_id(plan), mount, &upper, err);

	return r < 0 ? r : ns_send_fds(plan, INIT_UPPER, (uint32_t)grant, &upper, 1, err);
}

#define OVERLAY_ENTRIES 16              /* of the tmpfs and the overlay themselves, some of them for a moment */

/* A size of 0 would be no limit, so a tmpfs for a full volume has a page, and this file in it. */
static int
fill_page(int changes, struct err *err)
{
	return create_file_at(changes, "full", 0400, "x", err);
}

/* Uses up the entries that the overlay did not need, so that the agent has no more than ENTRIES. */
static int
fill_entries(int changes, uint64_t entries, struct err *err)
{
	struct statfs fs;
	char name[16];

	for (int i = 0; i < OVERLAY_ENTRIES; i++) {
		if (fstatfs(changes, &fs) < 0)
			return err_errno(err, "cannot count the room for changes");
		if (fs.f_ffree <= entries)
			return 0;
		snprintf(name, sizeof(name), "full%d", i);
		if (mknodat(changes, name, S_IFREG | 0400, 0) < 0)
			return err_errno(err, "cannot limit the room for changes");
	}
	return 0;
}

/* The changes of a volume have a tmpfs of their own, which is what limits them. */
static int
lay_over_volume(const struct ns_plan *plan, int root, size_t i, int *mount, struct err *err)
{
	const struct cell_grant *grant = &plan->spec->grants[i];
	const bool limited = CONTROL_ON("limit-disk");
	char size[32], inodes[32];
	const char *const options[] = { "mode", "0755", "size", size, "nr_inodes", inodes, NULL };
	OWN(closep) int changes = -1;
	int r;

	snprintf(size, sizeof(size), "%llu", (unsigned long long)(limited ? (grant->size > 0 ? grant->size : 1) : 1ULL << 40));
	snprintf(inodes, sizeof(inodes), "%llu", (unsigned long long)(limited ? grant->entries + OVERLAY_ENTRIES : 1ULL << 30));
	changes = mounts_new_fs("tmpfs", options, MOUNTS_QUIET, err);
	if (changes < 0)
		return err_wrap(err, "the volume");
	r = mounts_attach(changes, root, OVERLAY_CHANGES, err);
	r = r == 0 && grant->size == 0 ? fill_page(changes, err) : r;
	r = r == 0 ? lay_over(plan, root, changes, i, mount, err) : r;
	r = r == 0 && limited ? fill_entries(changes, grant->entries, err) : r;
	umount2(OVERLAY_CHANGES, MNT_DETACH | UMOUNT_NOFOLLOW);
	return r < 0 ? err_wrap(err, "the volume") : 0;
}

static int
attach_grant(const struct ns_plan *plan, int root, int changes, size_t i, struct err *err)
{
	const struct cell_grant *grant = &plan->spec->grants[i];
	OWN(closep) int mount = plan->grants[i];
	OWN(closep) int target = -1;
	unsigned attrs = MOUNTS_QUIET;
	struct stat st;
	int r;

	if (mount < 0)
		mount = mounts_copy_tree(AT_FDCWD, grant->host, err);
	if (mount < 0)
		return mount;
	if (grant->access != CELL_WRITE && (grant->access == CELL_READ ||
	                                    CONTROL_ON("workspace-overlay")))
		attrs |= MOUNT_ATTR_RDONLY;
	r = mounts_set_attrs(mount, attrs, true, err);
	if (r == 0 && grant->access == CELL_OVERLAY && CONTROL_ON("workspace-overlay"))
		r = lay_over(plan, root, changes, i, &mount, err);
	else if (r == 0 && grant->access == CELL_VOLUME)
		r = lay_over_volume(plan, root, i, &mount, err);
	if (r < 0)
		return r;
	if (fstat(mount, &st) < 0)
		return err_errno(err, "cannot look at '%s'", grant->host);
	/* In a build, the caller has the ids that there are. */
	target = mounts_make_target(root, grant->cell, !S_ISDIR(st.st_mode),
	                            plan->spec->image.build ? (uid_t)-1 : agent_id(plan), err);
	return target < 0 ? target : mounts_attach(mount, target, "", err);
}

int
ns_attach_grants(const struct ns_plan *plan, int root, int scratch, struct err *err)
{
	OWN(closep) int changes = -1;
	int r = 0;

	if (cell_spec_has_overlay(plan->spec)) {
		changes = overlay_open_changes(root, scratch, plan->ground->changes, plan->changes, err);
		if (changes < 0)
			return changes;
	}
	for (size_t i = 0; r == 0 && i < plan->spec->n_grants; i++)
		r = attach_grant(plan, root, changes, i, err);
	/* Exists only if the changes go to disk.  In a build, an image may have a link there. */
	umount2(OVERLAY_CHANGES, MNT_DETACH | UMOUNT_NOFOLLOW);
	for (size_t i = 0; r == 0 && i < plan->spec->n_grants; i++)
		r = ns_cover_own(plan, root, i, err);
	return r;
}

/* Whether something is mounted on the root that the caller has: a path such as "/.." leads there. */
static bool
is_covered(int root)
{
	struct statx own = {0}, top = {0};

	return statx(root, "", AT_EMPTY_PATH, STATX_MNT_ID, &own) < 0 ||
	       statx(AT_FDCWD, "/..", 0, STATX_MNT_ID, &top) < 0 || own.stx_mnt_id != top.stx_mnt_id;
}

/* Leaves the host's tree and detaches it, and where the new root was made: an image's is on top of that. */
int
ns_pivot(int root, struct err *err)
{
	if (fchdir(root) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return err_errno(err, "cannot make the new root the root");
	while (is_covered(root))
		if (umount2(".", MNT_DETACH) < 0)
			return err_errno(err, "cannot let go of the host's files");
	if (chdir("/") < 0)
		return err_errno(err, "cannot let go of the host's files");
	return 0;
}

/* What is left in ROOT is for reading only. */
int
ns_enter_root(int root, struct err *err)
{
	int r;

	if (unlinkat(root, OVERLAY_LOWER, AT_REMOVEDIR) < 0 ||
	    unlinkat(root, OVERLAY_CHANGES, AT_REMOVEDIR) < 0)
		return err_errno(err, "cannot tidy the cell's root");
	r = ns_pivot(root, err);
	return r < 0 ? r : mounts_set_attrs(root, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, false, err);
}

int
ns_leave_tree(struct err *err)
{
	return umount2(".", MNT_DETACH) < 0 || chdir("/") < 0 ? err_errno(err, "cannot take the cell's files aside") : 0;
}

int
ns_begin_root(const char *size, bool is_image, int *ret_root, struct err *err)
{
	const char *const options[] = { "mode", "0755", "size", size, "nr_inodes", "8k", NULL };
	OWN(closep) int root = mounts_new_fs("tmpfs", options, MOUNTS_QUIET, err);
	int r;

	if (root < 0)
		return err_wrap(err, "the cell's root (see `cloister doctor`)");
	r = mounts_attach(root, AT_FDCWD, is_image ? NS_IMAGE_PARTS : "/", err);
	if (r == 0 && fchdir(root) < 0)
		r = err_errno(err, "cannot enter the cell's root");
	if (r == 0 && is_image)
		r = ns_begin_image(&root, err);
	if (r == 0)
		r = make_folders(root, err);
	if (r == 0)
		*ret_root = TAKE_FD(root);
	return r;
}

int
ns_show_programs(const struct ns_plan *plan, int *root, struct err *err)
{
	const enum cell_programs programs = cell_spec_programs(plan->spec);
	int r = plan->has_etc ? 0 : ns_make_etc(*root, plan->spec, err);

	if (r == 0 && plan->spec->known_hosts[0] != '\0')
		r = ns_make_ssh(*root, plan, err);
	if (r == 0 && plan->ground->trust != NULL && programs != CELL_PROGRAMS_HOST)
		r = ns_make_trust(*root, plan, err);
	if (r < 0 || programs == CELL_PROGRAMS_NONE)
		return r;
	return programs == CELL_PROGRAMS_HOST ? ns_show_host(*root, err) :
	       programs == CELL_PROGRAMS_IMAGE ? ns_compose_image(plan, root, err) : show_folder(plan, *root, err);
}

/* An image may name a working folder that it does not have. */
static int
make_place(const struct ns_plan *plan, int root, struct err *err)
{
	OWN(closep) int fd = mounts_follow_target(root, plan->spec->cwd, false, agent_id(plan), err);

	return fd < 0 ? err_wrap(err, "the working folder of the image") : 0;
}

int
ns_build_root(const struct ns_plan *plan, struct err *err)
{
	const bool trust = plan->ground->trust != NULL;
	OWN(closep) int root = -1, scratch = -1;
	int r;

	/* Mounts made from here on are seen nowhere else. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_errno(err, "cannot make the mounts private (see `cloister doctor`)");
	if (plan->spec->bundle.layers != NULL)
		return ns_build_bundle(plan, err);
	r = ns_begin_root(trust ? "32m" : "4m", plan->spec->image.layers != NULL, &root, err);
	if (r == 0 && plan->spec->image.build) {
		r = ns_build_image_root(plan, &root, err);
		timing_mark(TIMING_GRANTED);
		return r < 0 ? r : ns_pivot(root, err);
	}
	if (r == 0)
		r = ns_show_programs(plan, &root, err);
	timing_mark(TIMING_SKELETON);
	if (r == 0)
		r = ns_make_dev(root, err);
	timing_mark(TIMING_DEVICES);
	if (r == 0)
		r = ns_make_proc(plan, root, err);
	timing_mark(TIMING_PROC);
	if (r == 0)
		r = ns_make_scratch(plan, root, &scratch, err);
	if (r == 0)
		r = ns_make_home(root, plan->spec, err);
	timing_mark(TIMING_SCRATCH);
	if (r == 0)
		r = ns_send_fds(plan, INIT_SCRATCH, 0, &scratch, 1, err);
	/* Done late, because it has to be waited for. */
	if (r == 0 && trust && cell_spec_programs(plan->spec) == CELL_PROGRAMS_HOST)
		r = ns_make_trust(root, plan, err);
	if (r == 0)
		r = ns_attach_grants(plan, root, scratch, err);
	if (r == 0 && plan->spec->image.layers != NULL)
		r = make_place(plan, root, err);
	if (r == 0 && plan->spec->image.layers != NULL)
		r = ns_seal_image(root, err);
	if (r < 0)
		return r;
	timing_mark(TIMING_GRANTED);
	r = ns_enter_root(root, err);
	timing_mark(TIMING_ROOT);
	return r;
}
