/* io.h - whole reads and writes, and small files. */
#ifndef CLOISTER_IO_H
#define CLOISTER_IO_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* All of LEN bytes, or an error; EINTR is retried. */
int read_exactly(int fd, void *data, size_t len, struct err *err);
int write_all(int fd, const void *data, size_t len, struct err *err);

/* The whole of a file of at most MAX bytes, NUL-terminated; the caller owns
 * *ret_text.  ret_len may be NULL.  Works on /proc and /sys files. */
int read_file_at(int dirfd, const char *path, size_t max, char **ret_text,
                 size_t *ret_len, struct err *err);
/* Likewise the unread rest of FD, which errors call PATH. */
int read_open(int fd, const char *path, size_t max, char **ret_text, size_t *ret_len,
              struct err *err);
/* All of the file FD from its start, whatever its position; FD must have a size.  Otherwise as
 * read_file_at().  -EFBIG: it is over MAX bytes. */
int read_whole(int fd, size_t max, char **ret_text, size_t *ret_len, struct err *err);
/* Write TEXT to an existing file in one write, as /proc and cgroup files require. */
int write_file_at(int dirfd, const char *path, const char *text, struct err *err);
/* As write_file_at with a formatted text of at most 4 KiB. */
int write_filef_at(int dirfd, const char *path, struct err *err, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Create (or truncate) a regular file with these contents. */
int create_file_at(int dirfd, const char *path, mode_t mode, const char *text,
                   struct err *err);

/* Milliseconds of a monotonic clock. */
int64_t io_now_ms(void);
/* Wait until DEADLINE of that clock for FD to be readable or at its end.  False for a negative FD. */
bool io_is_readable(int fd, int64_t deadline);
/* The same for a process that has signals blocked: -ETIMEDOUT after DEADLINE (0: none), or -EINTR if a
 * signal that ends programs is pending.  It stays pending. */
int io_await(int fd, int64_t deadline);
/* That signal, or 0. */
int io_pending_end(void);

/* printf into new memory; the caller owns it; NULL when out of memory. */
char *str_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Raises the limit on open files as far as permitted.  Descriptors under way in sockets count too, those of an agent of
 * the same user included. */
void io_raise_files(void);
#endif
