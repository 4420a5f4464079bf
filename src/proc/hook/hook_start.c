/* hook_start.c - starts a hook's program, or connects to its service. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/own.h"
#include "base/spawn.h"
#include "proc/hook/hook.h"
#include "trust/trust.h"

/* It keeps the operator's rights and environment, and nothing of this process. */
static pid_t
start(const char *program, char *const *argv, int in, int out, int *ret_pidfd, struct err *err)
{
	const struct spawn_fd fds[] = { { in, STDIN_FILENO }, { out, STDOUT_FILENO } };

	/* The program inherits this. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "cannot give up privileges");
	return spawn_start(&(struct spawn){ .argv = argv, .path = program, .fds = fds, .n_fds = 2,
	                                    .cwd = trust_here() ? NULL : "/",
	                                    .flags = SPAWN_APART | SPAWN_DIES | SPAWN_ONLY },
	                   ret_pidfd, err);
}

int
hook_start_program(const struct policy_hook *call, pid_t *ret_pid, int *ret_pidfd, int *ret_in,
                   int *ret_out, struct err *err)
{
	char *const *argv = (char *const *)(uintptr_t)call->argv;
	OWN(closep) int in_read = -1, in_write = -1, out_read = -1, out_write = -1;
	char program[PATH_MAX];
	int ends[2], r;
	pid_t pid;

	/* Checked each time: a cell may have been granted the path since. */
	r = trust_command(TRUST_HOOK_COMMAND, argv, program, err);
	if (r == 0)
		r = trust_program(program, err);
	if (r < 0 && CONTROL_ON("hook-trust"))
		return r;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot start the hook '%.200s'", argv[0]);
	in_read = ends[0];
	in_write = ends[1];
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot start the hook '%.200s'", argv[0]);
	out_read = ends[0];
	out_write = ends[1];
	if (fcntl(in_write, F_SETFL, O_NONBLOCK) < 0 || fcntl(out_read, F_SETFL, O_NONBLOCK) < 0)
		return err_errno(err, "cannot start the hook '%.200s'", argv[0]);
	/* Its path is absolute: nothing was searched for. */
	pid = start(argv[0], argv, in_read, out_write, ret_pidfd, err);
	if (pid < 0)
		return err_wrap(err, "cannot start the hook");
	*ret_pid = pid;
	*ret_in = TAKE_FD(in_write);
	*ret_out = TAKE_FD(out_read);
	return 0;
}

/* Somebody else may have put a socket of his own in its place. */
static int
check_peer(int fd, const char *path, struct err *err)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		return err_errno(err, "cannot find out who serves the hook '%.200s'", path);
	if (peer.uid != geteuid() && peer.uid != 0)
		return err_set(err, EPERM, "the hook '%.200s' is served by user %u: only you or root may "
		               "serve it", path, peer.uid);
	return 0;
}

static_assert(POLICY_HOOK_SOCKET_MAX < sizeof((struct sockaddr_un){0}.sun_path), "paths fit");

int
hook_connect(const struct policy_hook *call, int *ret_in, int *ret_out, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	OWN(closep) int in = -1, out = -1;
	int r = trust_path(TRUST_HOOK_SOCKET, call->socket, err);

	if (r < 0 && CONTROL_ON("hook-trust"))
		return r;
	memcpy(address.sun_path, call->socket, strlen(call->socket));
	in = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (in < 0 || connect(in, (struct sockaddr *)&address, sizeof(address)) < 0)
		return err_errno(err, "cannot connect to the hook '%.200s'", call->socket);
	r = check_peer(in, call->socket, err);
	if (r < 0)
		return r;
	/* Two descriptors, as a program has. */
	out = fcntl(in, F_DUPFD_CLOEXEC, 3);
	if (out < 0)
		return err_errno(err, "cannot connect to the hook '%.200s'", call->socket);
	*ret_in = TAKE_FD(in);
	*ret_out = TAKE_FD(out);
	return 0;
}
