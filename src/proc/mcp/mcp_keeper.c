/* mcp_keeper.c - connects to the service on its run-time socket, and starts it if none runs. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/exe.h"
#include "base/own.h"
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

/* The service is independent: it serves others too, and ends when nobody needs it. */
static void
become_service(const char *path)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	(void)setsid();
	if (fork() != 0)
		_exit(0);
	if (dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0)
		_exit(127);
	execl(path, "cloister", "serve", "--idle-exit", "60s", (char *)NULL);
	_exit(127);
}

static int
start_service(struct err *err)
{
	char path[PATH_MAX];
	int r = exe_find_cloister(path, err), status;
	pid_t pid;

	if (r < 0)
		return r;
	pid = fork();
	if (pid == 0)
		become_service(path);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return err_errno(err, "cannot start `cloister serve`");
	return 0;
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
	return fd >= 0 ? fd : err_set(err, ETIMEDOUT, "no service runs, and none could be started: see "
	                              "what `cloister serve` says");
}
