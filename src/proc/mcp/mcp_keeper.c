/* mcp_keeper.c - connects to the service on its run-time socket, and starts it if none runs. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/exe.h"
#include "base/own.h"
#include "base/spawn.h"
#include "loop/loop.h"
#include "proc/mcp/mcp_proc.h"

#define START_MS 10000                  /* for the service to come up */
#define LOOK_MS 10                      /* between two checks */

static int
try_connect(int runtime)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	OWN(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/agents.sock", runtime);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		return -errno;
	return fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : TAKE_FD(fd);
}

/* The service is independent: it serves others too, and ends when nobody needs it.  So it is not a
 * child of this process, but of one that ends at once. */
static int
start_service(struct err *err)
{
	static const struct spawn_fd fds[] = { { SPAWN_NULL, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO },
		{ SPAWN_NULL, STDERR_FILENO } };
	char path[PATH_MAX];
	const struct spawn how = { .argv = (char *[]){ (char[]){ "cloister" }, (char[]){ "serve" },
		(char[]){ "--idle-exit" }, (char[]){ "60s" }, NULL }, .path = path, .fds = fds,
		.n_fds = ARRAY_LEN(fds), .flags = SPAWN_APART };
	int r = exe_find_cloister(path, err);
	pid_t pid;

	if (r < 0)
		return r;
	pid = fork();
	if (pid == 0)
		_exit(spawn_start(&how, NULL, NULL) < 0);
	if (pid < 0)
		return err_errno(err, "cannot start `cloister serve`");
	r = spawn_await(pid, err);
	return r <= 0 ? r : err_set(err, EIO, "cannot start `cloister serve`: '%.200s' cannot be run", path);
}

int
keeper_connect(int runtime, bool may_start, struct err *err)
{
	const struct timespec pause = { .tv_nsec = LOOK_MS * 1000 * 1000 };
	int fd = try_connect(runtime), r;
	uint64_t until;

	if (fd >= 0 || !may_start || (fd != -ENOENT && fd != -ECONNREFUSED))
		return fd >= 0 ? fd : err_set(err, -fd, "cannot reach the service at agents.sock: %s",
		                              strerror(-fd));
	r = start_service(err);
	if (r < 0)
		return r;
	for (until = loop_now_ms() + START_MS; fd < 0 && loop_now_ms() < until; fd = try_connect(runtime))
		(void)nanosleep(&pause, NULL);
	return fd >= 0 ? fd : err_set(err, ETIMEDOUT, "no service runs, and none could be started: run "
	                              "`cloister serve` to see why");
}
