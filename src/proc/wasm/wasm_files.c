/* wasm_files.c - what a module has open, and the system calls for it.
 *
 * The cell has no more than the module may use. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "proc/wasm/wasm_files.h"

#define SECOND UINT64_C(1000000000)
#define DEVICES "/dev"

unsigned char wasm_area[WASM_AREA];
static struct wasm_file files[WASM_FILES_MAX];
static struct buf input;
static struct buf *output;

/* ---- errors ---- */

static const struct { int here; unsigned char there; } errors[] = {
	{ E2BIG, 1 }, { EACCES, 2 }, { EAGAIN, 6 }, { EBADF, 8 }, { EBUSY, 10 }, { ECONNREFUSED, 14 }, { ECONNRESET, 15 },
	{ EDQUOT, 19 }, { EEXIST, 20 }, { EFAULT, 21 }, { EFBIG, 22 }, { EHOSTUNREACH, 23 }, { EILSEQ, 25 }, { EINTR, 27 },
	{ EINVAL, 28 }, { EIO, 29 }, { EISDIR, 31 }, { ELOOP, 32 }, { EMFILE, 33 }, { EMLINK, 34 }, { ENAMETOOLONG, 37 },
	{ ENETUNREACH, 40 }, { ENFILE, 41 }, { ENODEV, 43 }, { ENOENT, 44 }, { ENOMEM, 48 }, { ENOSPC, 51 }, { ENOSYS, 52 },
	{ ENOTCONN, 53 }, { ENOTDIR, 54 }, { ENOTEMPTY, 55 }, { ENOTSUP, 57 }, { ENXIO, 59 }, { EOVERFLOW, 60 },
	{ EPERM, 62 }, { EPIPE, 63 }, { EROFS, 69 }, { ESPIPE, 70 }, { ETIMEDOUT, 73 }, { ETXTBSY, 74 },
	/* The path leads out of the folder. */
	{ EXDEV, 76 },
};

double
wasm_failed(int code)
{
	for (size_t i = 0; i < ARRAY_LEN(errors); i++)
		if (errors[i].here == code)
			return -(double)errors[i].there;
	return -29;
}

double
wasm_result(long long r)
{
	return r < 0 ? wasm_failed(errno) : (double)r;
}

/* ---- numbers ---- */

uint64_t
wasm_whole(double n)
{
	return n >= 0 && n < 18446744073709551616.0 ? (uint64_t)n : 0;
}

size_t
wasm_bounded(double n, size_t max)
{
	return n >= 0 && n < (double)max ? (size_t)n : max;
}

static void
put_number(size_t at, uint64_t n, size_t size)
{
	for (size_t i = 0; i < size; i++)
		wasm_area[at + i] = (unsigned char)(n >> 8 * i);
}

/* ---- open files ---- */

struct wasm_file *
wasm_file_at(double number)
{
	return number >= 0 && number < WASM_FILES_MAX && files[(size_t)number].kind != FILE_NONE ? &files[(size_t)number] :
	       NULL;
}

/* -1 for those that are no files of this system. */
int
wasm_fd_of(double number)
{
	const struct wasm_file *f = wasm_file_at(number);

	return f != NULL ? f->fd : -1;
}

/* Takes FD. */
double
wasm_file_add(enum wasm_kind kind, int fd, const char *name)
{
	for (size_t i = 3; i < WASM_FILES_MAX; i++)
		if (files[i].kind == FILE_NONE) {
			files[i] = (struct wasm_file){ .kind = kind, .fd = fd, .name = name };
			return (double)i;
		}
	closep(&fd);
	return wasm_failed(EMFILE);
}

static void
drop(struct wasm_file *f)
{
	if (f->fd > STDERR_FILENO)
		close(f->fd);
	*f = (struct wasm_file){ .fd = -1 };
}

static void
give(const char *path, const char *name)
{
	int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat st;
	double at;

	if (fd < 0 || fstat(fd, &st) < 0) {
		closep(&fd);
		return;
	}
	at = wasm_file_add(S_ISDIR(st.st_mode) ? FILE_OPEN : FILE_GRANT, fd, name);
	if (at >= 0)
		files[(size_t)at].path = path;
}

void
wasm_files_begin(const struct buf *in, struct buf *out, const char *const *paths)
{
	for (size_t i = 0; i < WASM_FILES_MAX; i++)
		if (files[i].kind != FILE_NONE)
			drop(&files[i]);
	files[0] = (struct wasm_file){ .kind = in != NULL ? FILE_INPUT : FILE_OPEN, .fd = in != NULL ? -1 : STDIN_FILENO };
	files[1] = (struct wasm_file){ .kind = out != NULL ? FILE_OUTPUT : FILE_OPEN, .fd = out != NULL ? -1 : STDOUT_FILENO };
	files[2] = (struct wasm_file){ .kind = FILE_OPEN, .fd = STDERR_FILENO };
	if (in != NULL)
		buf_init_borrowed(&input, in->data, in->len);
	output = out;
	(void)wasm_file_add(FILE_DEVICES, -1, DEVICES);
	if (paths[0] != NULL && strcmp(paths[0], "-") != 0) {
		give(paths[0], ".");
		give(paths[0], paths[0]);
	}
	for (size_t i = 1; paths[0] != NULL && paths[i] != NULL; i++)
		give(paths[i], paths[i]);
}

/* ---- bytes ---- */

static double
call_read(const double *n)
{
	const struct wasm_file *f = wasm_file_at(n[0]);
	size_t len = wasm_bounded(n[1], WASM_AREA);

	if (f == NULL)
		return wasm_failed(EBADF);
	if (f->kind == FILE_INPUT) {
		len = len < buf_left(&input) ? len : buf_left(&input);
		memcpy(wasm_area, input.data + input.pos, len);
		input.pos += len;
		return (double)len;
	}
	return wasm_result(n[2] < 0 ? read(f->fd, wasm_area, len) : pread(f->fd, wasm_area, len, (off_t)wasm_whole(n[2])));
}

static double
call_write(const double *n)
{
	const struct wasm_file *f = wasm_file_at(n[0]);
	size_t len = wasm_bounded(n[1], WASM_AREA);

	if (f == NULL)
		return wasm_failed(EBADF);
	if (f->kind == FILE_OUTPUT) {
		buf_put(output, wasm_area, len);
		/* No number: it ends the module, which may not look at errors. */
		return buf_failed(output) ? NAN : (double)len;
	}
	return wasm_result(n[2] < 0 ? write(f->fd, wasm_area, len) : pwrite(f->fd, wasm_area, len, (off_t)wasm_whole(n[2])));
}

static double
call_seek(const double *n)
{
	static const int from[] = { SEEK_SET, SEEK_CUR, SEEK_END };

	return n[2] < 0 || n[2] > 2 ? wasm_failed(EINVAL) : wasm_result(lseek(wasm_fd_of(n[0]), (off_t)n[1], from[(size_t)n[2]]));
}

static double
call_close(const double *n)
{
	struct wasm_file *f = wasm_file_at(n[0]);

	if (f == NULL)
		return wasm_failed(EBADF);
	drop(f);
	return 0;
}

static double
call_renumber(const double *n)
{
	struct wasm_file *from = wasm_file_at(n[0]), *to = wasm_file_at(n[1]);

	if (from == NULL || to == NULL)
		return wasm_failed(EBADF);
	if (from == to)
		return 0;
	drop(to);
	*to = *from;
	*from = (struct wasm_file){ .fd = -1 };
	return 0;
}

static double
call_sync(const double *n)
{
	return wasm_result(fsync(wasm_fd_of(n[0])));
}

static double
call_truncate(const double *n)
{
	return wasm_result(ftruncate(wasm_fd_of(n[0]), (off_t)wasm_whole(n[1])));
}

static double
call_allocate(const double *n)
{
	int r = posix_fallocate(wasm_fd_of(n[0]), (off_t)wasm_whole(n[1]), (off_t)wasm_whole(n[2]));

	return r == 0 ? 0 : wasm_failed(r);
}

static double
call_shutdown(const double *n)
{
	return wasm_result(shutdown(wasm_fd_of(n[0]), n[1] == 1 ? SHUT_RD : n[1] == 2 ? SHUT_WR : SHUT_RDWR));
}

/* ---- states ---- */

static unsigned
type_of(mode_t mode)
{
	return S_ISDIR(mode) ? TYPE_FOLDER : S_ISREG(mode) ? TYPE_FILE : S_ISLNK(mode) ? TYPE_LINK :
	       S_ISBLK(mode) ? TYPE_BLOCK : S_ISSOCK(mode) || S_ISFIFO(mode) || S_ISCHR(mode) ? TYPE_CHARACTER : TYPE_UNKNOWN;
}

void
wasm_put_state(const struct stat *st)
{
	memset(wasm_area, 0, 64);
	put_number(0, st->st_dev, 8);
	put_number(8, st->st_ino, 8);
	put_number(16, type_of(st->st_mode), 1);
	put_number(24, st->st_nlink, 8);
	put_number(32, (uint64_t)st->st_size, 8);
	put_number(40, (uint64_t)st->st_atim.tv_sec * SECOND + (uint64_t)st->st_atim.tv_nsec, 8);
	put_number(48, (uint64_t)st->st_mtim.tv_sec * SECOND + (uint64_t)st->st_mtim.tv_nsec, 8);
	put_number(56, (uint64_t)st->st_ctim.tv_sec * SECOND + (uint64_t)st->st_ctim.tv_nsec, 8);
}

/* What is no file of this system looks like one that is. */
static int
state_of(const struct wasm_file *f, struct stat *ret_st)
{
	*ret_st = (struct stat){ .st_mode = S_IFCHR };
	if (f == NULL) {
		errno = EBADF;
		return -1;
	}
	if (f->kind == FILE_OPEN)
		return fstat(f->fd, ret_st);
	if (f->kind == FILE_DEVICES || f->kind == FILE_GRANT)
		ret_st->st_mode = S_IFDIR;
	return 0;
}

static double
call_stat(const double *n)
{
	struct stat st;

	if (state_of(wasm_file_at(n[0]), &st) < 0)
		return wasm_failed(errno);
	wasm_put_state(&st);
	return 0;
}

static double
call_state(const double *n)
{
	const struct wasm_file *f = wasm_file_at(n[0]);
	struct stat st;
	int flags = 0;

	if (state_of(f, &st) < 0)
		return wasm_failed(errno);
	if (f->fd >= 0)
		flags = fcntl(f->fd, F_GETFL);
	memset(wasm_area, 0, 24);
	put_number(0, type_of(st.st_mode), 1);
	put_number(2, ((flags & O_APPEND) != 0 ? 1u : 0) | ((flags & O_NONBLOCK) != 0 ? 4u : 0), 2);
	put_number(8, UINT64_MAX, 8);
	put_number(16, UINT64_MAX, 8);
	return 0;
}

static double
call_flags(const double *n)
{
	unsigned flags = (unsigned)wasm_whole(n[1]);

	return wasm_result(fcntl(wasm_fd_of(n[0]), F_SETFL, ((flags & 1) != 0 ? O_APPEND : 0) | ((flags & 4) != 0 ? O_NONBLOCK : 0)));
}

static struct timespec
time_of(double ns, bool given, bool now)
{
	uint64_t at = wasm_whole(ns);

	return !given ? (struct timespec){ .tv_nsec = now ? UTIME_NOW : UTIME_OMIT } :
	       (struct timespec){ .tv_sec = (time_t)(at / SECOND), .tv_nsec = (long)(at % SECOND) };
}

void
wasm_times_of(const double *n, struct timespec ret_times[2])
{
	unsigned flags = (unsigned)wasm_whole(n[2]);

	ret_times[0] = time_of(n[0], (flags & 1) != 0, (flags & 2) != 0);
	ret_times[1] = time_of(n[1], (flags & 4) != 0, (flags & 8) != 0);
}

static double
call_times(const double *n)
{
	struct timespec times[2];

	wasm_times_of(n + 1, times);
	return wasm_result(futimens(wasm_fd_of(n[0]), times));
}

/* The name of a folder that the module was given, without a NUL. */
static double
call_given(const double *n)
{
	const struct wasm_file *f = wasm_file_at(n[0]);
	size_t len;

	if (f == NULL || f->name == NULL)
		return wasm_failed(EBADF);
	len = strlen(f->name);
	memcpy(wasm_area, f->name, len);
	return (double)len;
}

/* ---- folders ---- */

static size_t
put_entry(size_t at, size_t max, uint64_t next, const struct dirent *e)
{
	unsigned char entry[24 + 256] = {0};
	size_t len = strlen(e->d_name), n;
	unsigned type = e->d_type == DT_DIR ? TYPE_FOLDER : e->d_type == DT_REG ? TYPE_FILE : e->d_type == DT_LNK ? TYPE_LINK :
	                TYPE_UNKNOWN;

	for (size_t i = 0; i < 8; i++) {
		entry[i] = (unsigned char)(next >> 8 * i);
		entry[8 + i] = (unsigned char)((uint64_t)e->d_ino >> 8 * i);
	}
	entry[16] = (unsigned char)len;
	entry[20] = (unsigned char)type;
	memcpy(entry + 24, e->d_name, len < 256 ? len : 255);
	/* One that does not fit is cut: so the module knows that there is more. */
	n = 24 + len < max - at ? 24 + len : max - at;
	memcpy(wasm_area + at, entry, n);
	return n;
}

static double
call_list(const double *n)
{
	int fd = openat(wasm_fd_of(n[0]), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	OWN(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	size_t max = wasm_bounded(n[2], WASM_AREA), used = 0;
	uint64_t from = wasm_whole(n[1]);
	const struct dirent *e;

	if (dir == NULL) {
		double r = wasm_failed(errno);

		closep(&fd);
		return r;
	}
	for (uint64_t i = 0; used < max && (e = readdir(dir)) != NULL; i++)
		if (i >= from)
			used += put_entry(used, max, i + 1, e);
	return (double)used;
}

/* ---- time and chance ---- */

static double
call_clock(const double *n)
{
	static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID,
	                                    CLOCK_THREAD_CPUTIME_ID };
	struct timespec now;

	if (n[0] < 0 || n[0] >= (double)ARRAY_LEN(clocks))
		return wasm_failed(EINVAL);
	(void)clock_gettime(clocks[(size_t)n[0]], &now);
	put_number(0, (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec, 8);
	return 0;
}

static double
call_random(const double *n)
{
	size_t len = wasm_bounded(n[0], WASM_AREA), got = 0;

	while (got < len) {
		ssize_t r = getrandom(wasm_area + got, len - got, 0);

		if (r < 0 && errno != EINTR)
			return wasm_failed(errno);
		got += r > 0 ? (size_t)r : 0;
	}
	return 0;
}

static double
call_sleep(const double *n)
{
	uint64_t ns = wasm_whole(n[0]);
	struct timespec time = { .tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND) };

	while (nanosleep(&time, &time) < 0 && errno == EINTR)
		;
	return 0;
}

const struct wasm_call wasm_calls[] = {
	{ "read", call_read }, { "write", call_write }, { "seek", call_seek }, { "close", call_close },
	{ "renumber", call_renumber }, { "sync", call_sync }, { "truncate", call_truncate }, { "allocate", call_allocate },
	{ "shutdown", call_shutdown }, { "stat", call_stat }, { "state", call_state }, { "flags", call_flags },
	{ "times", call_times }, { "given", call_given }, { "list", call_list }, { "open", wasm_call_open },
	{ "stat_path", wasm_call_stat_path }, { "times_path", wasm_call_times_path }, { "mkdir", wasm_call_mkdir },
	{ "remove", wasm_call_remove }, { "rename", wasm_call_rename }, { "link", wasm_call_link }, { "symlink", wasm_call_symlink },
	{ "readlink", wasm_call_readlink }, { "clock", call_clock }, { "random", call_random }, { "sleep", call_sleep },
	{0}
};
