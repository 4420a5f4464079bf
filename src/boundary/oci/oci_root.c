/* oci_root.c - the files of a cell with an OCI runtime: the container's root, and the keeper's around it. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/oci/oci.h"
#include "boundary/overlay/overlay.h"
#include "ipc/init_channel.h"

/* A copy, which all runtimes can show, wherever cloister is installed. */
static int
copy_init(int init, int tree, struct err *err)
{
	OWN(closep) int to = openat(tree, OCI_INIT, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
	off_t at = 0;
	struct stat st;
	ssize_t n;

	if (to < 0 || fstat(init, &st) < 0)
		return err_errno(err, "cannot make the cell's init");
	while (at < st.st_size)
		if ((n = sendfile(to, init, &at, (size_t)(st.st_size - at))) <= 0)
			return err_errno(err, "cannot copy the cell's init");
	return 0;
}

/* The root of an ordinary cell, but for /proc, which belongs to the container's own processes. */
static int
build_tree(const struct ns_plan *plan, const struct oci *oci, int *ret_tree, struct err *err)
{
	const bool trust = plan->ground->trust != NULL;
	OWN(closep) int tree = -1, scratch = -1;
	const bool image = plan->spec->image.layers != NULL;
	int r = ns_begin_root(trust ? "32m" : "8m", image, &tree, err);

	if (r == 0)
		r = ns_show_programs(plan, &tree, err);
	if (r == 0)
		r = ns_make_dev(tree, err);
	if (r == 0)
		r = ns_make_scratch(plan, tree, &scratch, err);
	if (r == 0)
		r = ns_make_home(tree, plan->spec, err);
	if (r == 0)
		r = ns_send_fds(plan, INIT_SCRATCH, 0, &scratch, 1, err);
	if (r == 0)
		r = copy_init(oci->init, tree, err);
	if (r == 0 && plan->spec->known_hosts[0] != '\0' && mkdirat(tree, OCI_SSH, 0755) < 0)
		r = err_errno(err, "cannot make the folder of the SSH agent");
	if (r == 0 && trust && cell_spec_programs(plan->spec) == CELL_PROGRAMS_HOST)
		r = ns_make_trust(tree, plan, err);
	if (r == 0)
		r = ns_attach_grants(plan, tree, scratch, err);
	if (r == 0 && (unlinkat(tree, OVERLAY_LOWER, AT_REMOVEDIR) < 0 ||
	               unlinkat(tree, OVERLAY_CHANGES, AT_REMOVEDIR) < 0))
		r = err_errno(err, "cannot tidy the cell's root");
	if (r == 0)
		*ret_tree = TAKE_FD(tree);
	return r;
}

/* A copy with everything that is mounted in it. */
static int
take_tree(const struct ns_plan *plan, const struct oci *oci, int *ret_tree, int *ret_copy, struct err *err)
{
	int r = build_tree(plan, oci, ret_tree, err);

	if (r < 0)
		return r;
	*ret_copy = open_tree(*ret_tree, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
	if (*ret_copy < 0)
		return err_errno(err, "cannot take the container's files");
	r = ns_leave_tree(err);
	return r < 0 ? r : mounts_set_attrs(*ret_copy, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, false, err);
}

static int
show_program(const struct oci *oci, int root, struct err *err)
{
	OWN(closep) int from = oci->program >= 0 ? oci->program : mounts_copy_tree(AT_FDCWD, oci->agents->runtime, err);
	int r = from < 0 ? from : mounts_set_attrs(from, MOUNTS_QUIET | MOUNT_ATTR_RDONLY, false, err);

	if (r == 0 && mknodat(root, OCI_RUNTIME, S_IFREG | 0755, 0) < 0)
		r = err_errno(err, "cannot make '/" OCI_RUNTIME "'");
	return r < 0 ? r : mounts_attach(from, root, OCI_RUNTIME, err);
}

/* runc looks at the cgroups that it is in.  It can change none. */
static int
show_cgroups(int root, struct err *err)
{
	static const char *const none[] = { NULL };
	OWN(closep) int groups = -1;

	if (mkdirat(root, "sys/fs", 0755) < 0 || mkdirat(root, "sys/fs/cgroup", 0755) < 0)
		return err_errno(err, "cannot make '/sys/fs/cgroup'");
	groups = mounts_new_fs("cgroup2", none, MOUNTS_QUIET | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, NULL);
	return groups < 0 ? 0 : mounts_attach(groups, root, "sys/fs/cgroup", err);
}

/* Where the runtime keeps its state. */
static int
make_state(int root, struct err *err)
{
	static const char *const options[] = { "mode", "0700", "size", "16m", "nr_inodes", "4k", NULL };
	OWN(closep) int state = mounts_new_fs("tmpfs", options, MOUNTS_QUIET | MOUNT_ATTR_NOEXEC, err);
	int r = state < 0 ? state : mounts_attach(state, root, OCI_STATE, err);

	if (r == 0 && (mkdirat(root, OCI_BUNDLE, 0755) < 0 || mkdirat(root, OCI_TREE, 0755) < 0))
		r = err_errno(err, "cannot make the container's folders");
	return r;
}

/* What the runtime has: programs of the host, devices, its own processes; nothing that is masked, because a
 * kernel shows a container no more of /proc than its maker sees. */
static int
build_keepers(const struct ns_plan *plan, const struct oci *oci, int *ret_root, struct err *err)
{
	struct cell_spec open = *plan->spec;
	struct ns_plan unmasked = *plan;
	int r = ns_begin_root("1m", false, ret_root, err);

	open.profile = CELL_PROFILE_NESTED;
	unmasked.spec = &open;
	if (r == 0)
		r = ns_show_host(*ret_root, err);
	if (r == 0)
		r = ns_make_dev(*ret_root, err);
	if (r == 0)
		r = ns_make_proc(&unmasked, *ret_root, err);
	if (r == 0)
		r = show_cgroups(*ret_root, err);
	if (r == 0)
		r = make_state(*ret_root, err);
	return r < 0 ? r : show_program(oci, *ret_root, err);
}

int
oci_build_root(const struct ns_plan *plan, const struct oci *oci, struct err *err)
{
	OWN(closep) int tree = -1, root = -1, copy = -1, bundle = -1;
	int r;

	/* Mounts made from here on are seen nowhere else. */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_errno(err, "cannot make the mounts private (see `cloister doctor`)");
	r = take_tree(plan, oci, &tree, &copy, err);
	if (r == 0)
		r = build_keepers(plan, oci, &root, err);
	if (r == 0)
		r = mounts_attach(copy, root, OCI_TREE, err);
	if (r == 0 && (bundle = openat(root, OCI_BUNDLE, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		r = err_errno(err, "cannot open the container's bundle");
	if (r == 0)
		r = oci_write_config(plan, oci, bundle, err);
	return r < 0 ? r : ns_enter_root(root, err);
}
