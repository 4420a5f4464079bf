/* init_files.c - reads, writes and lists files of the cell: see init_own.c. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/json.h"
#include "base/own.h"
#include "base/codec.h"
#include "base/utf8.h"
#include "proc/init/init.h"

#define PIECE (64 * 1024)

/* Neither a pipe nor a device is waited for. */
static int
open_regular(const char *path, int flags, int *ret_fd)
{
	OWN(closep) int fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Copies until FROM's end, or *LEFT bytes, of which it takes those that it copies.  Returns an errno. */
static int
copy(int from, int to, unsigned long long *left)
{
	static char piece[PIECE];
	ssize_t n = 1;

	while (*left > 0 && (n = read(from, piece, *left < sizeof(piece) ? (size_t)*left : sizeof(piece))) > 0) {
		if (write_all(to, piece, (size_t)n, NULL) < 0)
			return errno;
		*left -= (unsigned long long)n;
	}
	return n < 0 ? errno : 0;
}

int
init_own_read(char **argv)
{
	unsigned long long left = strtoull(argv[1], NULL, 10);
	OWN(closep) int fd = -1;
	int error = open_regular(argv[0], O_RDONLY, &fd);
	struct stat st;
	char more;

	if (error != 0)
		return error;
	/* Before the first byte, if that is possible. */
	if (fstat(fd, &st) == 0 && st.st_size > 0 && (unsigned long long)st.st_size > left)
		return EFBIG;
	error = copy(fd, STDOUT_FILENO, &left);
	return error == 0 && left == 0 && read(fd, &more, 1) > 0 ? EFBIG : error;
}

int
init_make_parents(char *path)
{
	for (char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
		int r;

		*at = '\0';
		r = mkdir(path, 0777);
		*at = '/';
		if (r < 0 && errno != EEXIST && errno != EROFS && errno != EACCES)
			return errno;
	}
	return 0;
}

int
init_own_write(char **argv)
{
	unsigned long long left = strtoull(argv[1], NULL, 10);
	OWN(closep) int fd = -1;
	int error = argv[0][0] != '\0' ? init_make_parents(argv[0]) : ENOENT;

	error = error == 0 ? open_regular(argv[0], O_WRONLY | O_CREAT, &fd) : error;
	if (error == 0 && ftruncate(fd, 0) < 0)
		error = errno;
	error = error == 0 ? copy(STDIN_FILENO, fd, &left) : error;
	if (error == 0 && left > 0)
		return EPIPE;
	/* Some file systems report a full disk only here. */
	return error == 0 && close(TAKE_FD(fd)) < 0 ? errno : error;
}

/* ---- folders ---- */

void
init_put_name(struct json *w, const char *key, const char *key_base64, const char *name)
{
	size_t len = strlen(name), step = 1;
	uint32_t code;
	char text[CODEC_BASE64_LEN(2 * PATH_MAX) + 1];

	for (size_t i = 0; i < len && step > 0; i += step)
		step = utf8_next(name + i, len - i, &code);
	if (step > 0) {
		json_str(w, key, name);
	} else if (len <= 2 * PATH_MAX) {
		codec_base64(CODEC_BASE64, name, len, text);
		json_str(w, key_base64, text);
	}
}

const char *
init_type_of(mode_t mode)
{
	return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "folder" : S_ISLNK(mode) ? "link" : S_ISFIFO(mode) ? "pipe" :
	       S_ISSOCK(mode) ? "socket" : "device";
}

static void
put_entry(DIR *dir, const char *name, const struct stat *st)
{
	struct json w = { .out = stdout };
	char target[PATH_MAX];
	ssize_t n = S_ISLNK(st->st_mode) ? readlinkat(dirfd(dir), name, target, sizeof(target) - 1) : -1;

	json_open(&w, NULL, '{');
	init_put_name(&w, "name", "name_base64", name);
	json_str(&w, "type", init_type_of(st->st_mode));
	json_u64(&w, "size", (uint64_t)st->st_size);
	json_u64(&w, "mode", st->st_mode & 07777);
	json_u64(&w, "modified_ms", st->st_mtim.tv_sec < 0 ? 0 :
	         (uint64_t)st->st_mtim.tv_sec * 1000 + (uint64_t)st->st_mtim.tv_nsec / 1000000);
	if (n >= 0) {
		target[n] = '\0';
		init_put_name(&w, "target", "target_base64", target);
	}
	json_close(&w, '}');
	putchar('\n');
}

int
init_own_list(char **argv)
{
	unsigned long max = strtoul(argv[1], NULL, 10);
	OWN(closedirp) DIR *dir = opendir(argv[0]);
	struct dirent *entry;
	struct stat st;

	if (dir == NULL)
		return errno;
	while (max > 0 && (errno = 0, entry = readdir(dir)) != NULL) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		/* It may be gone by now. */
		if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		put_entry(dir, entry->d_name, &st);
		max--;
	}
	if (max > 0 && errno != 0)
		return errno;
	return fflush(stdout) != 0 ? EPIPE : 0;
}
