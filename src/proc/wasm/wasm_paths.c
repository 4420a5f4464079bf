/* wasm_paths.c - a module's calls that name a path, beneath a folder that it was given. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/own.h"
#include "cell/cell_net.h"
#include "proc/wasm/wasm_files.h"

#define HALF (WASM_AREA / 2)            /* where a second path is */

/* The LEN bytes at AT as a path.  False: it has a NUL, or is too long. */
static bool
take_path(size_t at, double len, char ret_path[WASM_PATH_MAX + 1])
{
	size_t n = wasm_bounded(len, WASM_PATH_MAX + 1);

	errno = n > WASM_PATH_MAX ? ENAMETOOLONG : EINVAL;
	if (n > WASM_PATH_MAX || memchr(wasm_area + at, '\0', n) != NULL)
		return false;
	memcpy(ret_path, wasm_area + at, n);
	ret_path[n] = '\0';
	return true;
}

/* The folder of a path, and its last part, for calls that know no RESOLVE_BENEATH. */
struct place {
	int dir;
	char path[WASM_PATH_MAX + 1];
	const char *last;
};

static void
place_close(const struct place *p)
{
	closep(&p->dir);
}

static bool
find_place(double number, size_t at, double len, struct place *ret_place)
{
	struct place *p = ret_place;
	char *end, *slash;

	p->dir = -1;
	if (!take_path(at, len, p->path))
		return false;
	for (end = p->path + strlen(p->path); end > p->path + 1 && end[-1] == '/';)
		*--end = '\0';
	slash = strrchr(p->path, '/');
	p->last = slash != NULL ? slash + 1 : p->path;
	/* It names nothing, or something outside. */
	errno = p->path[0] == '\0' ? ENOENT : EXDEV;
	if (*p->last == '\0' || strcmp(p->last, "..") == 0 || slash == p->path)
		return false;
	if (slash != NULL)
		*slash = '\0';
	p->dir = wasm_open_beneath(wasm_fd_of(number), slash != NULL ? p->path : ".", O_PATH | O_DIRECTORY, 0);
	return p->dir >= 0;
}

static int
dial(void)
{
	struct sockaddr_in gate = { .sin_family = AF_INET, .sin_port = htons(CELL_NET_PROXY_PORT) };
	OWN(closep) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	inet_pton(AF_INET, CELL_NET_GATE4, &gate.sin_addr);
	return fd < 0 || connect(fd, (struct sockaddr *)&gate, sizeof(gate)) < 0 ? -1 : TAKE_FD(fd);
}

static int
flags_of(unsigned oflags, unsigned rights, unsigned fdflags, bool follow)
{
	int flags = rights == 3 ? O_RDWR : rights == 2 ? O_WRONLY : O_RDONLY;

	if ((oflags & 2) != 0)
		flags = O_RDONLY | O_DIRECTORY;
	flags |= ((oflags & 1) != 0 ? O_CREAT : 0) | ((oflags & 4) != 0 ? O_EXCL : 0) | ((oflags & 8) != 0 ? O_TRUNC : 0);
	flags |= ((fdflags & 1) != 0 ? O_APPEND : 0) | ((fdflags & 2) != 0 ? O_DSYNC : 0) |
	         ((fdflags & 4) != 0 ? O_NONBLOCK : 0) | ((fdflags & 16) != 0 ? O_SYNC : 0);
	return flags | (follow ? 0 : O_NOFOLLOW);
}

/* folder, bytes of its path, oflags, rights (1: read, 2: write), fdflags, whether links are followed */
double
wasm_call_open(const double *n)
{
	const struct wasm_file *f = wasm_file_at(n[0]);
	const int flags = flags_of((unsigned)wasm_whole(n[2]), (unsigned)wasm_whole(n[3]), (unsigned)wasm_whole(n[4]), n[5] != 0);
	char path[WASM_PATH_MAX + 1];
	int fd;

	if (f == NULL)
		return wasm_failed(EBADF);
	if (!take_path(0, n[1], path))
		return wasm_failed(errno);
	if (f->kind == FILE_DEVICES)
		fd = strcmp(path, WASM_HTTP) == 0 ? dial() : (errno = ENOENT, -1);
	else if (f->kind == FILE_GRANT)
		fd = path[strspn(path, "./")] == '\0' ? open(f->path, flags | O_CLOEXEC) : (errno = ENOTDIR, -1);
	else
		fd = wasm_open_beneath(f->fd, path, flags, (flags & O_CREAT) != 0 ? 0666 : 0);
	return fd < 0 ? wasm_failed(errno) : wasm_file_add(FILE_OPEN, fd, NULL);
}

double
wasm_call_stat_path(const double *n)
{
	const struct wasm_file *f = wasm_file_at(n[0]);
	char path[WASM_PATH_MAX + 1];
	OWN(closep) int fd = -1;
	struct stat st;

	if (f == NULL || !take_path(0, n[1], path))
		return wasm_failed(f == NULL ? EBADF : errno);
	if (f->kind == FILE_DEVICES && strcmp(path, WASM_HTTP) == 0) {
		st = (struct stat){ .st_mode = S_IFCHR };
	} else if (f->kind == FILE_GRANT) {
		if (path[strspn(path, "./")] != '\0' || fstat(f->fd, &st) < 0)
			return wasm_failed(ENOTDIR);
	} else {
		fd = wasm_open_beneath(f->fd, path, O_PATH | (n[2] != 0 ? 0 : O_NOFOLLOW), 0);
		if (fd < 0 || fstat(fd, &st) < 0)
			return wasm_failed(errno);
	}
	wasm_put_state(&st);
	return 0;
}

double
wasm_call_times_path(const double *n)
{
	OWN(place_close) struct place p;
	struct timespec times[2];

	wasm_times_of(n + 3, times);
	/* A link that is followed might lead out. */
	return !find_place(n[0], 0, n[1], &p) ? wasm_failed(errno) : wasm_result(utimensat(p.dir, p.last, times, AT_SYMLINK_NOFOLLOW));
}

double
wasm_call_mkdir(const double *n)
{
	OWN(place_close) struct place p;

	return !find_place(n[0], 0, n[1], &p) ? wasm_failed(errno) : wasm_result(mkdirat(p.dir, p.last, 0777));
}

double
wasm_call_remove(const double *n)
{
	OWN(place_close) struct place p;

	return !find_place(n[0], 0, n[1], &p) ? wasm_failed(errno) : wasm_result(unlinkat(p.dir, p.last, n[2] != 0 ? AT_REMOVEDIR : 0));
}

double
wasm_call_rename(const double *n)
{
	OWN(place_close) struct place from, to = { .dir = -1 };

	return !find_place(n[0], 0, n[1], &from) || !find_place(n[2], HALF, n[3], &to) ? wasm_failed(errno) :
	       wasm_result(renameat(from.dir, from.last, to.dir, to.last));
}

double
wasm_call_link(const double *n)
{
	OWN(place_close) struct place from, to = { .dir = -1 };

	return !find_place(n[0], 0, n[1], &from) || !find_place(n[2], HALF, n[3], &to) ? wasm_failed(errno) :
	       wasm_result(linkat(from.dir, from.last, to.dir, to.last, 0));
}

double
wasm_call_symlink(const double *n)
{
	OWN(place_close) struct place p = { .dir = -1 };
	char text[WASM_PATH_MAX + 1];

	return !take_path(0, n[0], text) || !find_place(n[1], HALF, n[2], &p) ? wasm_failed(errno) :
	       wasm_result(symlinkat(text, p.dir, p.last));
}

double
wasm_call_readlink(const double *n)
{
	OWN(place_close) struct place p;

	return !find_place(n[0], 0, n[1], &p) ? wasm_failed(errno) :
	       wasm_result(readlinkat(p.dir, p.last, (char *)wasm_area, WASM_PATH_MAX));
}
