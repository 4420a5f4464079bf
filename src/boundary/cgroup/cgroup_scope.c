/* cgroup_scope.c - asks the user's systemd for a scope that this process may divide, where it has no such group.
 *
 * In a login session, the groups above a process are root's.  The user's own systemd can move the process into a
 * scope below user@UID.service, which is the user's: as `systemd-run --user --scope -p Delegate=yes` does. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup_parts.h"
#include "boundary/cgroup/dbus.h"

#define TIMEOUT_S 3                     /* for each message */
#define MOVED_TRIES 300                 /* of 10 ms, until this process is in the scope */
#define MOVED_US 10000

/* Connects to the socket NAME in the user's runtime folder.  A process of anybody else there is not believed. */
static int
dial(const char *name)
{
	const struct timeval timeout = { .tv_sec = TIMEOUT_S };
	const char *folder = getenv("XDG_RUNTIME_DIR");
	OWN(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct ucred peer;
	socklen_t size = sizeof(peer);
	int n = folder != NULL && folder[0] == '/' ? snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", folder, name) :
	        snprintf(at.sun_path, sizeof(at.sun_path), "/run/user/%u/%s", (unsigned)geteuid(), name);

	if (fd < 0 || n < 0 || (size_t)n >= sizeof(at.sun_path))
		return -ENOENT;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0 ||
	    connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		return -errno;
	return peer.uid == geteuid() ? TAKE_FD(fd) : -EPERM;
}

static int
call(int fd, const struct buf *message)
{
	int r = buf_failed(message) ? -ENOMEM : write_all(fd, message->data, message->len, NULL);

	return r < 0 ? r : dbus_await_answer(fd);
}

static int
ask(const char *socket_name, bool via_bus, const char *scope)
{
	OWN(closep) int fd = dial(socket_name);
	OWN(buf_free) struct buf hello = BUF(DBUS_MESSAGE_MAX), start = BUF(DBUS_MESSAGE_MAX);
	int r = fd < 0 ? fd : dbus_log_in(fd, geteuid());

	if (r == 0 && via_bus) {
		dbus_put_hello(&hello, 1);
		r = call(fd, &hello);
	}
	dbus_put_scope(&start, 2, scope, getpid(), via_bus);
	return r < 0 ? r : call(fd, &start);
}

/* The answer only says that systemd has begun. */
static bool
is_moved(const char *scope)
{
	char text[CGROUP_FILE_MAX];

	return cgroup_get(AT_FDCWD, "/proc/self/cgroup", text) && strstr(text, scope) != NULL;
}

bool
cgroup_scope_helps(const struct cgroup_making *m)
{
	const unsigned missing = m->asked & ~m->in_force;

	return geteuid() != 0 && missing != 0 && (missing & m->v1) == 0 &&
	       (m->reason == CGROUP_NOT_DELEGATED || m->reason == CGROUP_OCCUPIED);
}

int
cgroup_scope_enter(const char *id)
{
	char scope[CGROUP_NAME_MAX + sizeof("/.scope")], cell[CGROUP_NAME_MAX];
	int r;

	snprintf(scope, sizeof(scope), "/%s.scope", cgroup_cell_name(cell, id));
	r = ask("bus", true, scope + 1);
	if (r < 0)
		r = ask("systemd/private", false, scope + 1);
	for (int i = 0; r == 0 && !is_moved(scope); i++) {
		if (i == MOVED_TRIES)
			return -ETIMEDOUT;
		usleep(MOVED_US);
	}
	return r;
}
