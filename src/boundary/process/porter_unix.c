/* porter_unix.c - AF_UNIX: the cell's own sockets, and those that were granted.
 *
 * A socket with a path is one that the porter bound for the cell, or a grant: it is recognised by its inode, which the
 * porter holds.  Abstract names get a prefix, so they are the cell's own. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "base/control.h"
#include "base/own.h"
#include "boundary/process/porter.h"

#define STATUS_MAX 4096
#define BRIEF_MS 200
#define PATH_AT offsetof(struct sockaddr_un, sun_path)

/* The name in the cell's own part of the machine's names. */
static int
own_name(struct porter *p, const struct sockaddr_un *name, socklen_t len, struct sockaddr_un *ret_name, socklen_t *ret_len)
{
	const size_t prefix = strlen(p->prefix), given = len - PATH_AT;
	char *to = ret_name->sun_path;

	*ret_name = (struct sockaddr_un){ .sun_family = AF_UNIX };
	/* As getsockname(2) shows it. */
	if (given > prefix && memcmp(name->sun_path + 1, p->prefix, prefix) == 0) {
		memcpy(to, name->sun_path, given);
		*ret_len = len;
		return 0;
	}
	if (given + prefix > sizeof(ret_name->sun_path))
		return -ENAMETOOLONG;
	memcpy(to + 1, p->prefix, prefix);
	memcpy(to + 1 + prefix, name->sun_path + 1, given - 1);
	*ret_len = (socklen_t)(len + prefix);
	return 0;
}

static int
connect_brief(int fd, const struct sockaddr_un *to, socklen_t len)
{
	const struct timeval brief = { .tv_usec = BRIEF_MS * 1000 };
	struct timeval before = {0};
	socklen_t size = sizeof(before);
	int r;

	(void)getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &before, &size);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &brief, sizeof(brief));
	r = connect(fd, (const struct sockaddr *)to, len) < 0 ? -errno : 0;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &before, sizeof(before));
	return r;
}

static bool
is_among(const struct porter_file *files, size_t n, const struct stat *st)
{
	for (size_t i = 0; i < n; i++)
		if (files[i].dev == st->st_dev && files[i].ino == st->st_ino)
			return true;
	return false;
}

/* The path of a name of LEN bytes, which may lack its NUL. */
static void
path_of(const struct sockaddr_un *name, socklen_t len, char ret_path[sizeof(name->sun_path) + 1])
{
	memcpy(ret_path, name->sun_path, len - PATH_AT);
	ret_path[len - PATH_AT] = '\0';
}

static int
check(const struct sockaddr_un *name, socklen_t len)
{
	return len < sizeof(sa_family_t) || len > sizeof(*name) || name->sun_family != AF_UNIX ? -EINVAL : 0;
}

int
porter_connect_unix(struct porter *p, const struct porter_call *c, struct porter_socket *s, const struct sockaddr_un *to,
                    socklen_t len)
{
	struct sockaddr_un real = { .sun_family = AF_UNIX };
	char path[sizeof(to->sun_path) + 1];
	OWN(closep) int fd = -1;
	struct stat st;
	int r = check(to, len);

	if (r < 0 || len <= PATH_AT)
		return -EINVAL;
	if (to->sun_path[0] == '\0') {
		r = own_name(p, to, len, &real, &len);
		return r < 0 ? r : connect_brief(s->fd, &real, len);
	}
	path_of(to, len, path);
	fd = porter_open_path(c, AT_FDCWD, path, 0);
	if (fd < 0)
		return fd;
	if (!porter_is_valid(p, c))
		return -EINTR;
	if (fstat(fd, &st) < 0 || !S_ISSOCK(st.st_mode) ||
	    (!is_among(p->bound, p->n_bound, &st) && !is_among(p->granted, p->n_granted, &st)))
		return -ECONNREFUSED;
	/* The very inode that was checked. */
	snprintf(real.sun_path, sizeof(real.sun_path), "/proc/self/fd/%d", fd);
	return connect_brief(s->fd, &real, sizeof(real));
}

/* ---- bind(2) ---- */

static mode_t
umask_of(const struct porter_call *c)
{
	char path[32], text[STATUS_MAX], *at;
	OWN(closep) int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)c->tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = '\0';
	at = strstr(text, "\nUmask:");
	return at == NULL ? 077 : (mode_t)strtoul(at + strlen("\nUmask:"), NULL, 8) & 0777;
}

/* Whoever has removed the file has no use for its place. */
static int
make_room(struct porter *p)
{
	for (size_t i = p->n_bound; i-- > 0;) {
		struct stat st;

		if (fstat(p->bound[i].fd, &st) == 0 && st.st_nlink > 0)
			continue;
		close(p->bound[i].fd);
		p->bound[i] = p->bound[--p->n_bound];
	}
	return p->n_bound < PORTER_BOUND_MAX ? 0 : -ENOBUFS;
}

/* Whether FD is a socket that was made since BEFORE: the one that was just bound.  The agent can put another in its place,
 * even one of the machine's if that lies in a granted folder, but none that is as young. */
static bool
is_new(int fd, const struct timespec *before, struct stat *ret_st)
{
	struct statx x = {0};

	return fstat(fd, ret_st) == 0 && S_ISSOCK(ret_st->st_mode) && ret_st->st_uid == geteuid() &&
	       statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &x) == 0 && (x.stx_mask & STATX_BTIME) != 0 &&
	       (x.stx_btime.tv_sec > before->tv_sec ||
	        (x.stx_btime.tv_sec == before->tv_sec && x.stx_btime.tv_nsec >= before->tv_nsec));
}

static int
bind_path(struct porter *p, const struct porter_call *c, struct porter_socket *s, char *path)
{
	struct sockaddr_un real = { .sun_family = AF_UNIX };
	char *slash = strrchr(path, '/'), *base = slash == NULL ? path : slash + 1;
	OWN(closep) int parent = -1, fd = -1;
	struct timespec now;
	mode_t before;
	struct stat st;
	int r;

	if (base[0] == '\0' || strcmp(base, ".") == 0 || strcmp(base, "..") == 0)
		return base[0] == '\0' ? -ENOENT : -EADDRINUSE;
	r = p->n_bound < PORTER_BOUND_MAX ? 0 : make_room(p);
	if (r < 0)
		return r;
	if (slash != NULL)
		*slash = '\0';
	parent = porter_open_path(c, AT_FDCWD, slash == NULL ? "." : slash == path ? "/" : path, O_DIRECTORY);
	if (parent < 0)
		return parent;
	if (!porter_is_valid(p, c))
		return -EINTR;
	if (snprintf(real.sun_path, sizeof(real.sun_path), "/proc/self/fd/%d/%s", parent, base) >= (int)sizeof(real.sun_path))
		return -ENAMETOOLONG;
	before = umask(umask_of(c));
	/* The clock of files. */
	(void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
	r = bind(s->fd, (struct sockaddr *)&real, sizeof(real)) < 0 ? -errno : 0;
	(void)umask(before);
	if (r < 0)
		return r;
	fd = openat(parent, base, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	/* Clients of any other are refused. */
	if (fd >= 0 && is_new(fd, CONTROL_ON("sockets") ? &now : &(struct timespec){0}, &st))
		p->bound[p->n_bound++] = (struct porter_file){ st.st_dev, st.st_ino, TAKE_FD(fd) };
	return 0;
}

int
porter_bind_unix(struct porter *p, const struct porter_call *c, struct porter_socket *s, const struct sockaddr_un *at,
                 socklen_t len)
{
	struct sockaddr_un real = { .sun_family = AF_UNIX };
	char path[sizeof(at->sun_path) + 1];
	int r = check(at, len);

	if (r < 0)
		return r;
	/* "Any": the kernel would take a name that is not the cell's. */
	if (len == PATH_AT) {
		real.sun_path[0] = '\0';
		len = (socklen_t)(PATH_AT + 1 + (size_t)snprintf(real.sun_path + 1, sizeof(real.sun_path) - 1, "%s%05x",
		                                                 p->prefix, ++p->next_number));
		return bind(s->fd, (struct sockaddr *)&real, len) < 0 ? -errno : 0;
	}
	if (at->sun_path[0] == '\0') {
		r = own_name(p, at, len, &real, &len);
		return r < 0 ? r : bind(s->fd, (struct sockaddr *)&real, len) < 0 ? -errno : 0;
	}
	path_of(at, len, path);
	r = bind_path(p, c, s, path);
	if (r == 0) {
		/* The kernel knows it by another path. */
		memcpy(&s->asked, at, len);
		s->asked_len = len;
	}
	return r;
}
