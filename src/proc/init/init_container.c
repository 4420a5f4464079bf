/* init_container.c - init's start in a container, whose runtime hands over standard input alone.
 *
 * So init makes for itself what it is otherwise given: the agent's user id, a Landlock ruleset, the socket of
 * the SSH agent. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "cell/cell_net.h"
#include "cell/cell_spec.h"
#include "confine/landlock.h"
#include "confine/privileges.h"
#include "ipc/init_channel.h"
#include "proc/init/init.h"

#define BACKLOG 64

enum { INIT_FLAGS = 3, INIT_MOST };     /* arguments: see init_channel.h */

/* Nothing that init starts has the channel as its standard input. */
static int
take_channel(struct err *err)
{
	int null;

	if (dup2(0, INIT_CHANNEL_FD) < 0 || (null = open("/dev/null", O_RDWR | O_CLOEXEC)) < 0)
		return err_errno(err, "cannot arrange init's descriptors");
	for (int fd = 0; fd <= 2; fd++)
		if (dup2(null, fd) < 0)
			return err_errno(err, "cannot arrange init's descriptors");
	close(null);
	return 0;
}

/* gVisor has no secure bits, and calls them invalid. */
static int
close_privileges(bool sandboxed, struct err *err)
{
	struct err why = {0};
	int r = privileges_close(&why);

	if (r == -EINVAL && sandboxed)
		return 0;
	if (r < 0)
		*err = why;
	return r;
}

/* An ordinary user's container has one user, and runtimes call it root. */
static int
name_agent(bool sandboxed, struct err *err)
{
	int r;

	if (unshare(CLONE_NEWUSER) < 0)
		return err_errno(err, "cannot give the agent its user id");
	r = write_file_at(AT_FDCWD, "/proc/self/setgroups", "deny", err);
	if (r == 0 || r == -ENOENT || r == -EACCES)
		r = write_filef_at(AT_FDCWD, "/proc/self/uid_map", err, "%u 0 1\n", CELL_AGENT_ID);
	if (r == 0)
		r = write_filef_at(AT_FDCWD, "/proc/self/gid_map", err, "%u 0 1\n", CELL_AGENT_ID);
	if (r == 0)
		r = close_privileges(sandboxed, err);
	return r < 0 ? r : privileges_drop(err);
}

/* Runtimes would count their own processes too. */
static int
limit_processes(const char *most, struct err *err)
{
	const rlim_t n = strtoull(most, NULL, 10);
	struct rlimit limit = { n, n }, now;

	if (getrlimit(RLIMIT_NPROC, &now) == 0 && now.rlim_max < n)
		return 0;
	return CONTROL_ON("limit-pids") && setrlimit(RLIMIT_NPROC, &limit) < 0 ?
	       err_errno(err, "cannot limit the cell's processes") : 0;
}

static int
make_landlock(bool files_too, char *const *writable, struct err *err)
{
	int fd = -1, r = landlock_make(files_too ? LANDLOCK_FILES_TOO : LANDLOCK_SCOPES_ONLY,
	                               (const char *const *)writable, &fd, err);

	if (r == 0 && fd >= 0 && fd != INIT_LANDLOCK_FD && dup2(fd, INIT_LANDLOCK_FD) < 0)
		r = err_errno(err, "cannot arrange init's descriptors");
	return r < 0 ? r : fd >= 0;
}

static int
listen_for_ssh(struct err *err)
{
	const struct sockaddr_un at = { .sun_family = AF_UNIX, .sun_path = CELL_NET_SSH_AGENT };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || chmod(at.sun_path, 0666) < 0 ||
	    listen(fd, BACKLOG) < 0 || (fd != INIT_SSH_FD && dup2(fd, INIT_SSH_FD) < 0))
		return err_errno(err, "cannot make the socket of the SSH agent");
	return 0;
}

int
init_start_container(char *const *argv, bool *ret_landlock, struct err *err)
{
	const char *flags = argv[INIT_FLAGS];
	int r = take_channel(err);

	*ret_landlock = false;
	if (r == 0 && strchr(flags, INIT_NAMES_AGENT) != NULL)
		r = name_agent(strchr(flags, INIT_IN_SANDBOX) != NULL, err);
	if (r == 0)
		r = argv[INIT_MOST] == NULL ? err_set(err, EINVAL, "init has too few arguments") : limit_processes(argv[INIT_MOST], err);
	if (r == 0 && strchr(flags, INIT_HAS_SSH) != NULL)
		r = listen_for_ssh(err);
	if (r == 0 && CONTROL_ON("landlock"))
		r = make_landlock(strchr(flags, INIT_IS_NESTED) == NULL, argv + INIT_MOST + 1, err);
	*ret_landlock = r > 0;
	return r < 0 ? r : 0;
}
