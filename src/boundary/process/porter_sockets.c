/* porter_sockets.c - the sockets of the cell that the porter holds: all that are not connected. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/own.h"
#include "boundary/process/porter.h"

#define FDS_MAX (1 << 20)

/* ---- which there are ---- */

/* The inode of the socket behind a link of /proc; 0: it is none. */
static ino_t
socket_of(int dir, const char *name, int *ret_error)
{
	char link[64];
	ssize_t n = readlinkat(dir, name, link, sizeof(link) - 1);

	*ret_error = n < 0 ? (errno == ENOENT ? EBADF : errno == EACCES ? EPERM : errno) : ENOTSOCK;
	if (n <= 0)
		return 0;
	link[n] = '\0';
	return strncmp(link, "socket:[", 8) == 0 ? (ino_t)strtoull(link + 8, NULL, 10) : 0;
}

static struct porter_socket *
by_inode(struct porter *p, ino_t ino)
{
	for (size_t i = 0; i < p->n_sockets; i++)
		if (p->sockets[i]->ino == ino)
			return p->sockets[i];
	return NULL;
}

int
porter_find(struct porter *p, const struct porter_call *c, int fd, struct porter_socket **ret_socket)
{
	char path[64];
	int error;
	ino_t ino;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)c->tid, fd);
	ino = socket_of(AT_FDCWD, path, &error);
	if (!porter_is_valid(p, c))
		return -EINTR;
	if (ino == 0)
		return -error;
	*ret_socket = by_inode(p, ino);
	return 0;
}

struct porter_socket *
porter_by_number(struct porter *p, uint32_t number)
{
	for (size_t i = 0; i < p->n_sockets; i++)
		if (p->sockets[i]->number == number)
			return p->sockets[i];
	return NULL;
}

void
porter_release(struct porter *p, struct porter_socket *s)
{
	for (size_t i = 0; i < p->n_sockets; i++)
		if (p->sockets[i] == s) {
			p->sockets[i] = p->sockets[--p->n_sockets];
			break;
		}
	if (s->kind == PORTER_UDP)
		porter_forget_waiting(p, s);
	if (s->waits.events != 0)
		loop_unwatch(p->loop, &s->waits);
	if (s->other.events != 0)
		loop_unwatch(p->loop, &s->other);
	closep(&s->other.fd);
	closep(&s->fd);
	free(s);
}

/* ---- which there are no more ---- */

static bool
is_held(const struct porter_socket *s)
{
	char path[64];
	int error;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)s->holder, s->holder_fd);
	return s->holder > 0 && socket_of(AT_FDCWD, path, &error) == s->ino;
}

static void
mark_held(struct porter *p, pid_t pid, bool *held)
{
	OWN(closedirp) DIR *dir = NULL;
	struct dirent *d;
	char path[32];
	int error;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	while (dir != NULL && (d = readdir(dir)) != NULL) {
		ino_t ino = socket_of(dirfd(dir), d->d_name, &error);

		for (size_t i = 0; ino != 0 && i < p->n_sockets; i++)
			if (p->sockets[i]->ino == ino) {
				held[i] = true;
				p->sockets[i]->holder = pid;
				p->sockets[i]->holder_fd = (int)strtol(d->d_name, NULL, 10);
			}
	}
}

void
porter_sweep(struct porter *p, const struct porter_socket *keep)
{
	static pid_t pids[PORTER_PROCESSES_MAX];
	bool held[PORTER_SOCKETS_MAX] = { false };
	size_t missing = 0, n;

	for (size_t i = 0; i < p->n_sockets; i++) {
		held[i] = p->sockets[i] == keep || is_held(p->sockets[i]);
		missing += !held[i];
	}
	if (missing == 0)
		return;
	n = porter_list(pids);
	for (size_t i = 0; i < n; i++)
		mark_held(p, pids[i], held);
	/* Downwards: releasing one puts the last in its place. */
	for (size_t i = p->n_sockets; i-- > 0;)
		if (!held[i])
			porter_release(p, p->sockets[i]);
}

/* ---- socket(2) ---- */

static int
open_socket(struct porter *p, struct porter_socket *s, int type, int *ret_theirs)
{
	struct stat st;
	int r = 0;

	if (s->kind == PORTER_UDP)
		r = porter_open_udp(p, s, type, ret_theirs);
	else if ((s->fd = socket(s->domain, type | SOCK_CLOEXEC, 0)) < 0)
		r = -errno;
	if (r == 0 && fstat(s->fd, &st) < 0)
		r = -errno;
	if (r == 0)
		s->ino = st.st_ino;
	return r;
}

int
porter_socket(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	const int domain = (int)c->data.args[0], type = (int)c->data.args[1], kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct seccomp_notif_addfd add = { .id = c->id, .flags = SECCOMP_ADDFD_FLAG_SEND,
	                                   .newfd_flags = (type & SOCK_CLOEXEC) != 0 ? O_CLOEXEC : 0 };
	struct porter_socket *s;
	int theirs = -1, r;

	(void)ret_value;
	/* The filter has seen the same registers. */
	if (domain == AF_UNIX && c->data.args[2] != 0 && (int)c->data.args[2] != PF_UNIX)
		return -EPROTONOSUPPORT;
	if (p->n_sockets == PORTER_SOCKETS_MAX)
		porter_sweep(p, NULL);
	s = p->n_sockets == PORTER_SOCKETS_MAX ? NULL : calloc(1, sizeof(*s));
	if (s == NULL)
		return -ENOBUFS;
	*s = (struct porter_socket){ .kind = domain == AF_UNIX ? PORTER_UNIX : kind == SOCK_STREAM ? PORTER_TCP : PORTER_UDP,
	                             .domain = domain, .fd = -1, .other = { .fd = -1 }, .porter = p,
	                             .number = ++p->next_number };
	r = open_socket(p, s, type, &theirs);
	p->sockets[p->n_sockets++] = s;
	if (r == 0) {
		add.srcfd = (uint32_t)s->fd;
		if (ioctl(p->listener.fd, SECCOMP_IOCTL_NOTIF_ADDFD, &add) < 0)
			r = -errno;
	}
	if (r < 0) {
		porter_release(p, s);
		return r;
	}
	return PORTER_ANSWERED;
}

/* ---- its name and its peer ---- */

static int
read_name(const struct porter_call *c, struct sockaddr_storage *ret_name, socklen_t *ret_len)
{
	const int len = (int)c->data.args[2];

	memset(ret_name, 0, sizeof(*ret_name));
	if (len < 0 || (size_t)len > sizeof(*ret_name))
		return -EINVAL;
	*ret_len = (socklen_t)len;
	return porter_read(c, c->data.args[1], ret_name, (size_t)len);
}

int
porter_connect(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	struct sockaddr_storage to;
	struct porter_socket *s = NULL;
	socklen_t len = 0;
	int r = porter_find(p, c, (int)c->data.args[0], &s);

	(void)ret_value;
	if (r == 0)
		r = read_name(c, &to, &len);
	if (r < 0)
		return r;
	/* It is connected, is one of a pair, or was accepted. */
	if (s == NULL)
		return -EISCONN;
	if (s->listens)
		return -EISCONN;
	switch (s->kind) {
	case PORTER_TCP:
		r = porter_connect_inet(p, s, &to, len);
		break;
	case PORTER_UDP:
		return porter_connect_udp(p, s, &to, len);
	case PORTER_UNIX:
		r = porter_connect_unix(p, c, s, (const struct sockaddr_un *)&to, len);
		break;
	}
	/* From now on, that the agent closes it has to reach its peer. */
	if (r == 0 || r == -EINPROGRESS)
		porter_release(p, s);
	return r;
}

int
porter_bind(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	struct sockaddr_storage at;
	struct porter_socket *s = NULL;
	socklen_t len = 0;
	int r = porter_find(p, c, (int)c->data.args[0], &s);

	(void)ret_value;
	if (r == 0)
		r = read_name(c, &at, &len);
	if (r < 0)
		return r;
	if (s == NULL || s->bound)
		return -EINVAL;
	r = s->kind == PORTER_TCP ? porter_bind_inet(p, s, &at, len) :
	    s->kind == PORTER_UDP ? porter_bind_udp(p, s, &at, len) :
	    porter_bind_unix(p, c, s, (const struct sockaddr_un *)&at, len);
	s->bound = s->bound || r == 0;
	return r;
}

int
porter_listen(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	struct porter_socket *s = NULL;
	int r = porter_find(p, c, (int)c->data.args[0], &s);

	(void)ret_value;
	if (r < 0)
		return r;
	if (s == NULL)
		return -EINVAL;
	if (s->kind == PORTER_UDP)
		return -EOPNOTSUPP;
	s->holder = c->tid;
	s->holder_fd = (int)c->data.args[0];
	if (s->kind == PORTER_TCP)
		return porter_listen_inet(p, s, (int)c->data.args[1]);
	if (listen(s->fd, (int)c->data.args[1]) < 0)
		return -errno;
	/* Its clients find it by its name. */
	porter_release(p, s);
	return 0;
}

int
porter_getsockname(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	struct porter_socket *s = NULL;
	struct sockaddr_storage none = {0};
	int r = porter_find(p, c, (int)c->data.args[0], &s);

	(void)ret_value;
	if (r < 0 || s == NULL)
		return r < 0 ? r : PORTER_GO_ON;
	if (s->asked_len > 0)
		return porter_write_name(c, c->data.args[1], c->data.args[2], &s->asked, s->asked_len);
	if (s->kind != PORTER_UDP)
		return PORTER_GO_ON;
	none.ss_family = (sa_family_t)s->domain;
	return porter_write_name(c, c->data.args[1], c->data.args[2], &none,
	                         s->domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
}

int
porter_getpeername(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	struct porter_socket *s = NULL;
	int r = porter_find(p, c, (int)c->data.args[0], &s);

	(void)ret_value;
	if (r < 0 || s == NULL || s->kind != PORTER_UDP)
		return r < 0 ? r : PORTER_GO_ON;
	if (!s->connected)
		return -ENOTCONN;
	return porter_write_name(c, c->data.args[1], c->data.args[2], &s->peer,
	                         s->domain == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
}

/* IPV6_V6ONLY and SO_REUSEPORT, which the agent's sockets have by name alone. */
int
porter_setsockopt(struct porter *p, const struct porter_call *c, int64_t *ret_value)
{
	struct porter_socket *s = NULL;
	int32_t on = 0;
	int r = porter_find(p, c, (int)c->data.args[0], &s);

	(void)ret_value;
	if (r == 0 && (int)c->data.args[4] < (int)sizeof(on))
		r = -EINVAL;
	if (r == 0)
		r = porter_read(c, c->data.args[3], &on, sizeof(on));
	if (r < 0)
		return r;
	if ((int)c->data.args[1] == SOL_SOCKET) {
		if (s != NULL && s->kind == PORTER_UNIX)
			return -EOPNOTSUPP;
		if (s != NULL)
			s->shares_port = on != 0;
		return 0;
	}
	if (s == NULL || s->domain != AF_INET6 || s->bound)
		return s != NULL && s->domain != AF_INET6 ? -ENOPROTOOPT : -EINVAL;
	s->v6only = on != 0;
	return 0;
}
