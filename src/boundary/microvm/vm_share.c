/* vm_share.c - the file server of a virtual machine: virtiofsd, with the guest's tree as its root.
 *
 * It runs in the cell's namespaces, as their root, and may do there what it needs to act for the
 * guest's users.  It makes the tree its root and filters its own calls before it reads a request. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "boundary/microvm/vm.h"

/* Where distributions have it. */
static const char *const servers[] = { "/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd" };

/* An ordinary user's cell has no user 0, and a program that is started keeps only ambient rights. */
static int
keep_rights(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		return -errno;
	data[0].inheritable = data[0].permitted;
	data[1].inheritable = data[1].permitted;
	if (syscall(SYS_capset, &header, data) < 0)
		return -errno;
	for (int cap = 0; cap <= 63 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) == 0; cap++)
		;
	return 0;
}

_Noreturn static void
become_server(const char *path, int listener)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char fd[24];
	char *argv[] = { (char[]){ "virtiofsd" }, fd, (char[]){ "-o" },
	                 (char[]){ "source=/" VM_TREE ",sandbox=chroot,cache=auto,xattr,log_level=err" },
	                 (char[]){ "--rlimit-nofile=0" }, (char[]){ "-f" }, NULL };
	char *env[] = { NULL };

	snprintf(fd, sizeof(fd), "--fd=%d", listener);
	for (int i = 0; i < 3; i++)
		if (null < 0 || dup2(null, i) < 0)
			_exit(127);
	if (fcntl(listener, F_SETFD, 0) == 0 && keep_rights() == 0)
		execve(path, argv, env);
	_exit(127);
}

const char *
vm_find_server(struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(servers); i++)
		if (access(servers[i], X_OK) == 0)
			return servers[i];
	(void)err_set(err, ENOENT, "there is no virtiofsd, which a virtual machine needs for its files: "
	              "install qemu-system-common, or virtiofsd");
	return NULL;
}

int
vm_share(int *ret_socket, struct err *err)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	socklen_t len = sizeof(at);
	OWN(closep) int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	OWN(closep) int socket_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const char *path = vm_find_server(err);
	pid_t pid;

	if (path == NULL)
		return -ENOENT;
	/* The kernel chooses a name in the cell's own network. */
	if (listener < 0 || socket_fd < 0 || bind(listener, (struct sockaddr *)&at, sizeof(at.sun_family)) < 0 ||
	    listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&at, &len) < 0 ||
	    connect(socket_fd, (struct sockaddr *)&at, len) < 0)
		return err_errno(err, "cannot make the socket of the virtual machine's files");
	pid = fork();
	if (pid < 0)
		return err_errno(err, "cannot start virtiofsd");
	if (pid == 0)
		become_server(path, listener);
	*ret_socket = TAKE_FD(socket_fd);
	return 0;
}
