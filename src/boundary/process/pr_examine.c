/* pr_examine.c - whether this machine can hold cells without namespaces, and which. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/tree.h"
#include "boundary/namespace/ns_plan.h"
#include "boundary/namespace/ns_walls.h"
#include "boundary/process/porter.h"
#include "boundary/process/pr.h"
#include "confine/landlock.h"

bool
pr_has_own_uid(void)
{
	const uint32_t needed = 1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_CHOWN | 1u << CAP_SETPCAP | 1u << CAP_KILL;
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = {0};

	return ns_has_range() && syscall(SYS_capget, &header, data) == 0 && (data[0].effective & needed) == needed;
}

/* ---- a trial ---- */

/* A call of a child is reported, answered with a descriptor, and its memory is read: all that the porter does. */
_Noreturn static void
run_child(int channel, const unsigned char *secret)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_epoll_create1, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { ARRAY_LEN(code), code };
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);
	long listener;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		_exit(1);
	listener = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	if (listener < 0)
		_exit(2);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &(int){ (int)listener }, sizeof(int));
	if (sendmsg(channel, &message, 0) < 0)
		_exit(1);
	/* If the other side ends, the kernel refuses the call. */
	close((int)listener);
	_exit(syscall(SYS_epoll_create1, secret) >= 0 ? 0 : 3);
}

static int
take_listener(int channel)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC) == 1 && (c = CMSG_FIRSTHDR(&message)) != NULL &&
	    c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static int
answer(int listener, const unsigned char *secret, struct err *err)
{
	struct seccomp_notif notif = {0};
	struct seccomp_notif_addfd add = { .flags = SECCOMP_ADDFD_FLAG_SEND, .srcfd = STDERR_FILENO };
	unsigned char seen[8] = {0};
	struct porter_call call;

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &notif) < 0)
		return err_errno(err, "the kernel does not report system calls to user space");
	call = (struct porter_call){ notif.id, (pid_t)notif.pid, notif.data };
	if (porter_read(&call, notif.data.args[0], seen, sizeof(seen)) < 0 || memcmp(seen, secret, sizeof(seen)) != 0)
		return err_set(err, EPERM, "the boundary 'process' reads the arguments of system calls, and a process may not read "
		               "the memory of its own children here (see /proc/sys/kernel/yama/ptrace_scope)");
	add.id = notif.id;
	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0)
		return err_errno(err, "this kernel cannot answer a reported call with a descriptor (Linux 5.14 can)");
	return 0;
}

/* In a child of its own, because the caller's memory may be private. */
static int
try_notification(struct err *err)
{
	static const unsigned char secret[8] = "cloister";
	OWN(closep) int ours = -1, theirs = -1, listener = -1;
	int ends[2], status = 0, r;
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a channel");
	ours = ends[0];
	theirs = ends[1];
	pid = fork();
	if (pid == 0) {
		/* Else what is sent would stay, and the call wait for ever. */
		close(ours);
		run_child(theirs, secret);
	}
	if (pid < 0)
		return err_errno(err, "cannot start a process");
	close(theirs);
	theirs = -1;
	listener = take_listener(ours);
	r = listener < 0 ? err_set(err, ENOTSUP, "seccomp cannot report system calls to user space here (user notification): "
	                           "the kernel lacks it, a filter forbids it, or another filter has it") :
	    answer(listener, secret, err);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, &status, 0);
	return r;
}

/* ---- answers ---- */

int
pr_able(bool emulated, struct err *err)
{
	const int abi = landlock_abi();
	struct stat st;

	(void)emulated;
	if (abi == 0)
		return err_set(err, ENOTSUP, "the boundary 'process' needs Landlock, which this kernel lacks or has switched off "
		               "(CONFIG_SECURITY_LANDLOCK, and 'landlock' in lsm=)");
	if (abi < LANDLOCK_LEAST)
		return err_set(err, ENOTSUP, "the boundary 'process' needs Landlock of version %d (Linux 6.2), and this kernel has "
		               "version %d", LANDLOCK_LEAST, abi);
	if (abi < LANDLOCK_HAS_SCOPES && !pr_has_own_uid())
		return err_set(err, ENOTSUP, "the boundary 'process' keeps signals in the cell with Landlock of version %d (Linux "
		               "6.12), and this kernel has version %d: start it as root, so that the cell has a user of its own",
		               LANDLOCK_HAS_SCOPES, abi);
	if (stat("/proc/self/fd", &st) < 0)
		return err_set(err, ENOTSUP, "the boundary 'process' needs /proc");
	return try_notification(err);
}

void
pr_examine(struct findings *f)
{
	static const char what[] = "boundary process";
	struct err err = {0};

	if (pr_able(false, &err) < 0) {
		findings_advise(findings_add(f, what, FINDING_MISSING, "%s", err.text), "only --boundary process needs it");
		return;
	}
	findings_add(f, what, FINDING_OK, "works here, and is weaker than namespaces: the cell sees the machine's processes and "
	             "their command lines, has %s, the machine's /tmp and mounts stay visible, and the kernel's whole surface "
	             "for files and processes is the agent's", pr_has_own_uid() ? "a user of its own" : "your user");
}

static int
refuse(struct err *err, const char *what, const char *instead)
{
	return err_set(err, ENOTSUP, "the boundary 'process' has no mounts or namespaces of its own, so it cannot give the cell "
	               "%s: %s", what, instead);
}

static bool
is_empty(const char *path)
{
	OWN(closep) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir >= 0 && tree_has_entries(dir) == 0;
}

/* Landlock adds rights, and takes none away beneath a folder that has them. */
static int
check_nested(const struct cell_spec *spec, struct err *err)
{
	for (size_t i = 0; i < spec->n_grants; i++)
		for (size_t k = 0; k < spec->n_grants; k++) {
			const struct cell_grant *inner = &spec->grants[i], *outer = &spec->grants[k];

			if (inner->access == CELL_READ && outer->access == CELL_WRITE && tree_is_beneath(inner->host, outer->host) &&
			    !pr_is_capability(inner))
				return err_set(err, ENOTSUP, "the boundary 'process' has no mounts, so '%s' cannot be read-only within '%s', "
				               "which may be written: grant folders beside each other", inner->host, outer->host);
		}
	return 0;
}

int
pr_check_hidden(const struct cell_spec *spec, const char *const *hidden, struct err *err)
{
	for (; *hidden != NULL; hidden++)
		for (size_t i = 0; i < spec->n_grants; i++)
			if (!pr_is_capability(&spec->grants[i]) && !pr_is_out(&spec->grants[i]) &&
			    (tree_is_beneath(*hidden, spec->grants[i].host) || tree_is_beneath(spec->grants[i].host, *hidden)))
				return err_set(err, EPERM, "the boundary 'process' has no mounts, so '%s' would show the cell cloister's own "
				               "folder '%s': grant folders beside it", spec->grants[i].host, *hidden);
	return 0;
}

static int
check_grants(const struct cell_spec *spec, struct err *err)
{
	for (size_t i = 0; i < spec->n_grants; i++) {
		const struct cell_grant *g = &spec->grants[i];

		if (g->volume)
			return err_set(err, ENOTSUP, "the boundary 'process' has no mounts, so there are no volumes: use another boundary");
		/* Of a dispatch: see pr_places.c. */
		if (pr_is_capability(g) || (pr_is_out(g) && is_empty(g->host)))
			continue;
		if (strcmp(g->host, g->cell) != 0)
			return err_set(err, ENOTSUP, "the boundary 'process' has no mounts, so '%s' cannot be at '%s' in the cell: grant "
			               "it at its own path", g->host, g->cell);
		if (g->access == CELL_OVERLAY)
			return err_set(err, ENOTSUP, "the boundary 'process' has no overlays, so changes to '%s' cannot be kept apart: use "
			               "-w DIR:rw on a copy or a git worktree, or -w DIR:ro", g->host);
	}
	return 0;
}

int
pr_check(const struct cell_spec *spec, struct err *err)
{
	int r = pr_able(false, err);

	if (r == 0)
		r = check_grants(spec, err);
	if (r == 0)
		r = check_nested(spec, err);
	if (r < 0)
		return r;
	if (cell_spec_programs(spec) != CELL_PROGRAMS_HOST)
		return refuse(err, "programs of its own", "leave out --rootfs, --image and --root none");
	if (spec->root)
		return refuse(err, "a root user", "leave out --root");
	if (spec->profile == CELL_PROFILE_NESTED)
		return refuse(err, "sandboxes within it", "leave out --profile nested");
	if (spec->n_ports > 0)
		return refuse(err, "published ports", "leave out --publish");
	if (spec->known_hosts[0] != '\0')
		return refuse(err, "an SSH agent", "leave out SSH keys");
	if (spec->has_tools)
		return refuse(err, "tools", "leave them out of the policy");
	if (spec->tty && !pr_has_own_uid())
		return refuse(err, "a terminal, unless root starts it", "leave out -t");
	if ((spec->limits.asked & CELL_LIMIT_DISK) != 0)
		return refuse(err, "a limit on disk space", "leave out --disk");
	return ns_check(spec, err);
}
