/* io.c - see io.h. */
#include "base/io.h"

#include <errno.h>
#include <time.h>
#include <poll.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/own.h"

int
read_exactly(int fd, void *data, size_t len, struct err *err)
{
	char *p = data;
	ssize_t n;

	while (len > 0) {
		n = read(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read");
		if (n == 0)
			return err_set(err, EBADMSG, "ended too early");
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int
write_all(int fd, const void *data, size_t len, struct err *err)
{
	const char *p = data;
	ssize_t n;

	while (len > 0) {
		n = write(fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot write");
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int
read_whole(int fd, size_t max, char **ret_text, size_t *ret_len, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len, at = 0;
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return err_errno(err, "cannot read a file");
	if (st.st_size < 0 || (uint64_t)st.st_size > max)
		return err_set(err, EFBIG, "a file is over %zu bytes", max);
	len = (size_t)st.st_size;
	text = malloc(len + 1);
	if (text == NULL)
		return err_set(err, ENOMEM, "out of memory");
	while (at < len) {
		n = pread(fd, text + at, len - at, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? err_errno(err, "cannot read a file") : err_set(err, EIO, "a file became shorter");
		at += (size_t)n;
	}
	text[len] = '\0';
	*ret_text = TAKE(text);
	if (ret_len != NULL)
		*ret_len = len;
	return 0;
}

int
read_open(int fd, const char *path, size_t max, char **ret_text, size_t *ret_len, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len = 0, cap = 0;
	ssize_t n = 1;
	char *more;

	while (n > 0) {
		if (len == cap) {
			/* Reading one byte over the maximum detects a file that is too large. */
			if (cap > max)
				return err_set(err, EFBIG, "'%s' is over %zu bytes", path, max);
			cap = cap == 0 ? 4096 : cap * 2;
			if (cap > max + 1)
				cap = max + 1;
			more = realloc(text, cap + 1);
			if (more == NULL)
				return err_errno(err, "cannot read '%s'", path);
			text = more;
		}
		n = read(fd, text + len, cap - len);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			return err_errno(err, "cannot read '%s'", path);
		else
			len += (size_t)n;
	}
	if (len > max)
		return err_set(err, EFBIG, "'%s' is over %zu bytes", path, max);
	text[len] = '\0';
	*ret_text = TAKE(text);
	if (ret_len != NULL)
		*ret_len = len;
	return 0;
}

int
read_file_at(int dirfd, const char *path, size_t max, char **ret_text,
             size_t *ret_len, struct err *err)
{
	OWN(closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY |
	                            O_NONBLOCK);

	return fd < 0 ? err_errno(err, "cannot open '%s'", path) :
	       read_open(fd, path, max, ret_text, ret_len, err);
}

static int
write_whole(int fd, const char *path, const char *text, struct err *err)
{
	size_t len = strlen(text);
	ssize_t n;

	do
		n = write(fd, text, len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_errno(err, "cannot write '%s'", path);
	if ((size_t)n != len)
		return err_set(err, EIO, "cannot write all of '%s'", path);
	return 0;
}

int
write_file_at(int dirfd, const char *path, const char *text, struct err *err)
{
	OWN(closep) int fd = openat(dirfd, path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return err_errno(err, "cannot open '%s'", path);
	return write_whole(fd, path, text, err);
}

int
write_filef_at(int dirfd, const char *path, struct err *err, const char *fmt, ...)
{
	char text[4096];
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(text))
		return err_set(err, EFBIG, "too much to write to '%s'", path);
	return write_file_at(dirfd, path, text, err);
}

int
create_file_at(int dirfd, const char *path, mode_t mode, const char *text,
               struct err *err)
{
	OWN(closep) int fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC |
	                            O_NOFOLLOW, mode);

	if (fd < 0)
		return err_errno(err, "cannot create '%s'", path);
	if (*text == '\0')
		return 0;
	return write_whole(fd, path, text, err);
}

char *
str_format(const char *fmt, ...)
{
	va_list args;
	char *s = NULL;

	va_start(args, fmt);
	if (vasprintf(&s, fmt, args) < 0)
		s = NULL;
	va_end(args);
	return s;
}

int64_t
io_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static const int endings[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

/* A descriptor that is readable once a signal that ends programs waits to be taken. */
static int
open_endings(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(endings); i++)
		sigaddset(&set, endings[i]);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int
io_pending_end(void)
{
	sigset_t pending;

	if (sigpending(&pending) < 0)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(endings); i++)
		if (sigismember(&pending, endings[i]) == 1)
			return endings[i];
	return 0;
}

int
io_await(int fd, int64_t deadline)
{
	OWN(closep) int ended = open_endings();
	struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = ended, .events = POLLIN } };

	for (;;) {
		int64_t left = deadline == 0 ? INT_MAX : deadline - io_now_ms();
		int r = left <= 0 ? 0 : poll(p, ARRAY_LEN(p), left > INT_MAX ? INT_MAX : (int)left);

		if (r < 0 && errno != EINTR)
			return -errno;
		if (r > 0)
			return p[0].revents != 0 ? 0 : -EINTR;
		if (r == 0 && deadline != 0)
			return -ETIMEDOUT;
	}
}

bool
io_is_readable(int fd, int64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int64_t left;
	int r;

	if (fd < 0)
		return false;
	do {
		left = deadline - io_now_ms();
		r = poll(&p, 1, left > 0 ? (int)left : 0);
	} while (r < 0 && errno == EINTR);
	return r > 0;
}

void
io_raise_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == files.rlim_max)
		return;
	files.rlim_cur = files.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &files);
}
