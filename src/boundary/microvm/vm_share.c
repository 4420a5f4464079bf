/* vm_share.c - the file server of a virtual machine: virtiofsd, with the guest's tree as its root.
 *
 * It runs in the cell's namespaces with the rights that it needs to act for the guest's users, and
 * with the agent's filter and Landlock around it: whatever a guest's kernel asks for, no file gets a
 * set-id bit.  Only it has the tree.  It makes the tree its root before it reads a request. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"
#include "confine/filter.h"
#include "confine/landlock.h"

/* Where distributions have it: in Rust, to which the other name may be a link, or in C as up to Debian 12. */
static const struct server {
	const char *path;
	enum filter_profile filter;
} servers[] = {
	{ "/usr/libexec/virtiofsd", FILTER_SHARE_RUST },
	{ "/usr/lib/qemu/virtiofsd", FILTER_SHARE },
};

/* What it needs to act for the guest's users, and to make the tree its root.  A program that is
 * started keeps only ambient rights, because an ordinary user's cell has no user 0. */
static int
keep_rights(void)
{
	static const int kept[] = { CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_SETGID, CAP_SETUID,
	                            CAP_MKNOD, CAP_SETFCAP, CAP_SYS_CHROOT,
	                            CAP_SETPCAP };      /* with which it drops the last two */
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {0};
	unsigned mask = 0;

	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		mask |= 1u << kept[i];
	for (int cap = 0; cap <= 63; cap++)
		if ((cap >= 32 || (mask >> cap & 1) == 0) && prctl(PR_CAPBSET_DROP, cap) < 0 && errno != EINVAL)
			return -errno;
	data[0] = (struct __user_cap_data_struct){ mask, mask, mask };
	if (syscall(SYS_capset, &header, data) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_LEN(kept); i++)
		if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, kept[i], 0, 0) < 0)
			return -errno;
	return 0;
}

/* The second layer: it may change files beneath the grants that can be written, nowhere else. */
static int
restrict_files(const struct ns_plan *plan, struct err *err)
{
	const char *writable[CELL_GRANTS_MAX + 1] = {0};
	OWN(closep) int landlock = -1;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < plan->spec->n_grants; i++)
		if (plan->spec->grants[i].access != CELL_READ)
			writable[n++] = str_format("/" VM_TREE "%s", plan->spec->grants[i].cell);
	for (size_t i = 0; i < n; i++)
		if (writable[i] == NULL)
			return err_set(err, ENOMEM, "out of memory");
	r = landlock_make(LANDLOCK_FILES_TOO, writable, &landlock, err);
	if (r == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		r = -errno;
	return r < 0 ? r : landlock_enforce(landlock, err);
}

int
vm_lift_limit(int what)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)what, &limit) < 0)
		return -errno;
	limit.rlim_cur = limit.rlim_max;
	return setrlimit((__rlimit_resource_t)what, &limit) < 0 ? -errno : 0;
}

static const struct server *
find_server(struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(servers); i++)
		if (access(servers[i].path, X_OK) == 0)
			return &servers[i];
	(void)err_set(err, ENOENT, "there is no virtiofsd, which a virtual machine needs for its files: "
	              "install qemu-system-common, or virtiofsd");
	return NULL;
}

const char *
vm_find_server(struct err *err)
{
	const struct server *server = find_server(err);

	return server == NULL ? NULL : server->path;
}

/* Some requests (a rename, a link) are carried out as the server itself, and a grant's mount knows only those ids
 * that the agent has.  Its rights do not depend on its id. */
static int
take_agents_id(const struct ns_plan *plan)
{
	if (!plan->range || plan->spec->root)
		return 0;
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED) < 0 ||
	    setresgid(CELL_AGENT_ID, CELL_AGENT_ID, CELL_AGENT_ID) < 0 ||
	    setresuid(CELL_AGENT_ID, CELL_AGENT_ID, CELL_AGENT_ID) < 0)
		return -errno;
	return 0;
}

/* The server of a tree that only this process has. */
int
vm_become_server(const struct ns_plan *plan, int listener, int alive, struct err *err)
{
	const struct server *server = find_server(err);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char fd[24];
	char *argv[] = { (char[]){ "virtiofsd" }, fd, (char[]){ "-o" },
	                 (char[]){ "source=/" VM_TREE ",sandbox=chroot,cache=auto,xattr" },
	                 (char[]){ "--rlimit-nofile=0" }, (char[]){ "-f" }, NULL };
	char *env[] = { NULL };

	if (server == NULL)
		return -ENOENT;
	snprintf(fd, sizeof(fd), "--fd=%d", listener);
	for (int i = 0; i < 3; i++)
		if (null < 0 || dup2(null, i) < 0)
			return err_errno(err, "cannot arrange the file server's descriptors");
	/* It holds a descriptor for each file that the guest's kernel remembers. */
	if (fcntl(listener, F_SETFD, 0) == 0 && fcntl(alive, F_SETFD, 0) == 0 && vm_lift_limit(RLIMIT_NOFILE) == 0 &&
	    restrict_files(plan, NULL) == 0 && take_agents_id(plan) == 0 && keep_rights() == 0 &&
	    filter_load(server->filter, NULL) == 0)
		execve(server->path, argv, env);
	return err_errno(err, "cannot start virtiofsd");
}

_Noreturn static void
start_server(const struct ns_plan *plan, int listener, int apart)
{
	/* From here on the monitor can let go of the tree. */
	if (unshare(CLONE_NEWNS) == 0 && write(apart, "", 1) == 1)
		(void)vm_become_server(plan, listener, apart, NULL);
	_exit(127);
}

int
vm_end_with_server(int alive, struct err *err)
{
	if (fcntl(alive, F_SETOWN, getpid()) < 0 || fcntl(alive, F_SETSIG, SIGTERM) < 0 ||
	    fcntl(alive, F_SETFL, O_ASYNC) < 0 || fcntl(alive, F_SETFD, 0) < 0)
		return err_errno(err, "cannot watch the virtual machine's file server");
	return 0;
}

int
vm_connect_pair(int *ret_listener, int *ret_socket, struct err *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(at);
	OWN(closep) int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	OWN(closep) int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	/* The kernel chooses a name in the cell's own network. */
	if (listener < 0 || client < 0 || bind(listener, (struct sockaddr *)&at, sizeof(at.sun_family)) < 0 ||
	    listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&at, &len) < 0 ||
	    connect(client, (struct sockaddr *)&at, len) < 0)
		return err_errno(err, "cannot make the virtual machine's sockets");
	*ret_listener = TAKE_FD(listener);
	*ret_socket = TAKE_FD(client);
	return 0;
}

/* The monitor, which connects to it, is not yet the agent. */
static int
listen_by_path(int *ret_listener, struct err *err)
{
	int r = vm_listen("/" VM_SOCKETS "/" VM_SHARE, ret_listener, err);

	if (r == 0 && chmod("/" VM_SOCKETS "/" VM_SHARE, 0666) < 0)
		r = err_errno(err, "cannot open the socket of the virtual machine's files to its monitor");
	return r;
}

int
vm_share(const struct ns_plan *plan, bool by_sockets, int *ret_socket, int *ret_alive, struct err *err)
{
	OWN(closep) int listener = -1, socket_fd = -1;
	int apart[2], r;
	char byte;
	pid_t pid;

	if (vm_find_server(err) == NULL)
		return -ENOENT;
	r = by_sockets ? listen_by_path(&listener, err) : vm_connect_pair(&listener, &socket_fd, err);
	if (r < 0)
		return r;
	if (pipe2(apart, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		return err_errno(err, "cannot start virtiofsd");
	if (pid == 0)
		start_server(plan, listener, apart[1]);
	close(apart[1]);
	r = read(apart[0], &byte, 1) == 1 && umount2("/" VM_TREE, MNT_DETACH) == 0 ? 0 :
	    err_errno(err, "cannot keep the guest's files from the monitor");
	if (r < 0)
		return r;
	*ret_socket = TAKE_FD(socket_fd);
	*ret_alive = apart[0];
	return 0;
}
