/* ns_halt.c - kills a cell through the kernel, without its supervisor. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/namespace/ns_walls.h"
#include "cell/cell_steer.h"

#define DEATH_MS 8000                   /* time for the kernel: an agent can leave it much to clean up */
#define PROC_FILE_MAX (1 << 20)

static int
open_pid(pid_t pid)
{
	return pid <= 0 ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
}

static void
send_signal(int pidfd, int number)
{
	(void)syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0);
}

static bool
is_dead(int pidfd, int wait_ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return poll(&p, 1, wait_ms) == 1;
}

/* The supervisor is the process that holds the entry's lock, both before and after its pidfd was
 * opened.  For a supervisor from before that lock existed, it is the peer of SOCKET. */
static int
open_supervisor(int runtime, const struct cell_entry *entry, int socket, pid_t *ret_pid)
{
	struct ucred peer = { .pid = 0 };
	socklen_t len = sizeof(peer);
	pid_t pid = cell_supervisor(runtime, entry);
	int pidfd = open_pid(pid);

	if (pidfd >= 0 && cell_supervisor(runtime, entry) != pid)
		closep(&pidfd), pidfd = -1;
	if (pid <= 0 && socket > 0 && getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0)
		pidfd = open_pid(pid = peer.pid);
	*ret_pid = pid;
	return pidfd;
}

/* The fields behind NAME in TEXT, which is /proc/PID/status: the first and the last number, and how
 * many there are. */
static size_t
read_numbers(const char *text, const char *name, long *ret_first, long *ret_last)
{
	const char *line = strstr(text, name);
	size_t n = 0;
	char *end;

	for (line = line == NULL ? "" : line + strlen(name); *line == '\t' || *line == ' '; line = end, n++) {
		*ret_last = strtol(line, &end, 10);
		if (n == 0)
			*ret_first = *ret_last;
		if (end == line)
			break;
	}
	return n;
}

/* Whether PID is a child of PARENT, and pid 1 of a namespace of its own. */
static bool
is_init(pid_t pid, pid_t parent)
{
	OWN(freep) char *text = NULL;
	char path[40];
	long first = 0, last = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (read_file_at(AT_FDCWD, path, PROC_FILE_MAX, &text, NULL, NULL) < 0)
		return false;
	if (read_numbers(text, "\nPPid:", &first, &last) != 1 || first != parent)
		return false;
	return read_numbers(text, "\nNSpid:", &first, &last) >= 2 && last == 1;
}

/* A pidfd of the child of the supervisor that IS_OUTER recognises: the cell's pid 1.  -ESRCH: there is none; other errors: it could not be searched for. */
static int
open_init(pid_t supervisor, bool (*is_outer)(pid_t pid, pid_t parent))
{
	OWN(freep) char *text = NULL;
	char path[64], *at, *end;
	pid_t pid;
	int pidfd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)supervisor, (int)supervisor);
	if (read_file_at(AT_FDCWD, path, PROC_FILE_MAX, &text, NULL, NULL) < 0)
		return -EIO;
	for (at = text; (pid = (pid_t)strtol(at, &end, 10)) > 0; at = end) {
		/* Opened first, so that the data read afterwards belongs to the process behind the
		 * descriptor. */
		pidfd = open_pid(pid);
		if (pidfd >= 0 && is_outer(pid, supervisor))
			return pidfd;
		closep(&pidfd);
	}
	return -ESRCH;
}

/* For the supervisor, which otherwise would not know why its cell died. */
void
ns_leave_mark(int dir, const struct cell_steer_who *who)
{
	char by[64];

	snprintf(by, sizeof(by), "uid %u, pid %d", (unsigned)geteuid(), (int)getpid());
	(void)create_file_at(dir, CELL_KILLED, 0600, who != NULL && who->by != NULL && who->by[0] != '\0' ?
	                     who->by : by, NULL);
}

static int
kill_init(int dir, int init, int number, const struct cell_steer_who *who)
{
	OWN(freep) char *groups = NULL;

	if (is_dead(init, 0))
		return 0;
	ns_leave_mark(dir, who);
	/* A group frozen by version 1 dies only when it is thawed. */
	if (read_file_at(dir, CELL_WALLS, PROC_FILE_MAX, &groups, NULL, NULL) == 0)
		cgroup_kill_paths(groups);
	send_signal(init, number);
	return is_dead(init, DEATH_MS) ? 1 : -ETIMEDOUT;
}

/* No pid 1 was found.  If the control socket exists, the cell is already gone and its supervisor
 * tidies up.  Otherwise the cell is only just being made, and ends with its supervisor. */
static int
kill_supervisor(int dir, int supervisor, bool may_tidy)
{
	if (may_tidy && faccessat(dir, CELL_CONTROL, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	send_signal(supervisor, SIGKILL);
	return is_dead(supervisor, DEATH_MS) ? 1 : -ETIMEDOUT;
}

/* The supervisor itself is spared, because it still has to keep the cell's changes.  It gets SIGCONT,
 * in case somebody stopped it.  It is killed only if no pid 1 is found. */
int
ns_halt_by(bool (*is_outer)(pid_t pid, pid_t parent), int number, int runtime, const struct cell_entry *entry,
           int socket, const struct cell_steer_who *who, struct err *err)
{
	OWN(closep) int dir = openat(runtime, entry->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	OWN(closep) int supervisor = -1, init = -1;
	pid_t pid = 0;
	int r;

	if (dir >= 0)
		supervisor = open_supervisor(runtime, entry, socket, &pid);
	if (!cell_is_alive(runtime, entry))
		return 0;
	if (supervisor < 0)
		return err_set(err, ESRCH, "cell %s does not answer, and its supervisor is not among the "
		               "processes that are seen from here: kill it where it was started", entry->id);
	init = open_init(pid, is_outer);
	r = init >= 0 ? kill_init(dir, init, number, who) : kill_supervisor(dir, supervisor, init == -ESRCH);
	send_signal(supervisor, SIGCONT);
	if (r < 0)
		return err_set(err, -r, "cell %s was killed, but is not dead yet: the kernel may have much to tidy "
		               "up after it, a group above its own may be frozen, or its disk may hang; `cloister "
		               "ps` tells when it is gone", entry->id);
	return r;
}

int
ns_halt(int runtime, const struct cell_entry *entry, int socket, const struct cell_steer_who *who,
        struct err *err)
{
	return ns_halt_by(is_init, SIGKILL, runtime, entry, socket, who, err);
}
