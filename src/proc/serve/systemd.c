/* systemd.c - see systemd.h: sd_listen_fds(3) and sd_notify(3). */
#include "proc/serve/systemd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"

#define FIRST 3                         /* the first descriptor */

int
systemd_take_sockets(struct systemd_socket ret_sockets[SYSTEMD_SOCKETS_MAX], size_t *ret_n,
                     struct err *err)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	const char *names = getenv("LISTEN_FDNAMES");
	uint64_t its_pid, n = 0;

	*ret_n = 0;
	if (pid == NULL || fds == NULL || num_parse_count(pid, 1, INT32_MAX, &its_pid, NULL) < 0 ||
	    (pid_t)its_pid != getpid())
		return 0;
	if (num_parse_count(fds, 0, SYSTEMD_SOCKETS_MAX, &n, NULL) < 0)
		return err_set(err, E2BIG, "LISTEN_FDS is '%s', but the service accepts at most %d "
		               "sockets", fds,
		               SYSTEMD_SOCKETS_MAX);
	for (size_t i = 0; i < n; i++) {
		struct systemd_socket *s = &ret_sockets[i];
		size_t len = names == NULL ? 0 : strcspn(names, ":");

		s->fd = FIRST + (int)i;
		if (fcntl(s->fd, F_SETFD, FD_CLOEXEC) < 0 || fcntl(s->fd, F_SETFL, O_RDWR | O_NONBLOCK) < 0)
			return err_errno(err, "socket %zu of those that systemd opened", i);
		snprintf(s->name, sizeof(s->name), "%.*s", (int)len, names == NULL ? "" : names);
		if (names != NULL)
			names += len + (names[len] == ':');
	}
	*ret_n = n;
	/* Processes that are started later must not see it. */
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	return 0;
}

void
systemd_notify(const char *state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	size_t len = path != NULL ? strlen(path) : 0;
	OWN(closep) int fd = -1;

	if (len < 2 || len >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(address.sun_path, path, len);
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address,
		              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
}
