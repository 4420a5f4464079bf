/* dispatch_dirs.c - DATA/dispatches: a folder for each dispatch, locked by its driver. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/data.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"
#include "dispatch/dispatch_parts.h"

#define TOP "dispatches"
#define TURN "turn"                     /* touched when there is news: waiting processes watch it */
/* A new inode is the largest cost here, so folders are shared where possible. */
#define EMPTY "out"
#define NEXT "next"                     /* a folder made in advance, when nobody waited */

static const char id_letters[] = "abcdefghijklmnopqrstuvwxyz234567";

uint64_t
dispatch_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

char *
dispatch_show_time(char text[DISPATCH_TIME_MAX], uint64_t ms)
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;
	size_t n;

	gmtime_r(&seconds, &tm);
	n = strftime(text, DISPATCH_TIME_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(text + n, DISPATCH_TIME_MAX - n, ".%03uZ", (unsigned)(ms % 1000));
	return text;
}

bool
dispatch_boot(char ret_boot[DISPATCH_BOOT_MAX])
{
	OWN(freep) char *text = NULL;

	ret_boot[0] = '\0';
	if (read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &text, NULL, NULL) < 0)
		return false;
	snprintf(ret_boot, DISPATCH_BOOT_MAX, "%.*s", (int)strcspn(text, "\n"), text);
	return true;
}

bool
dispatch_is_of_this_boot(const char *boot)
{
	char now[DISPATCH_BOOT_MAX];

	return dispatch_boot(now) && strcmp(now, boot) == 0;
}

bool
dispatch_id_ok(const char *id)
{
	return strlen(id) == DISPATCH_ID_LEN && strspn(id, id_letters) == DISPATCH_ID_LEN;
}

int
dispatch_make_id(char ret_id[DISPATCH_ID_LEN + 1], struct err *err)
{
	unsigned char random[DISPATCH_ID_LEN];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return err_errno(err, "cannot get random bytes");
	for (size_t i = 0; i < DISPATCH_ID_LEN; i++)
		ret_id[i] = id_letters[random[i] % 32];
	ret_id[DISPATCH_ID_LEN] = '\0';
	return 0;
}

int
dispatch_top(struct err *err)
{
	return data_folder(TOP, true, err);
}

int
dispatch_folder(const char *id, bool make, struct err *err)
{
	OWN(closep) int top = -1;
	int fd;

	if (!dispatch_id_ok(id))
		return err_set(err, EINVAL, "'%.64s' is no dispatch's id", id);
	top = dispatch_top(err);
	if (top < 0)
		return top;
	if (make && mkdirat(top, id, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make the folder of dispatch %s", id);
	fd = openat(top, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? err_errno(err, "cannot open the folder of dispatch %s", id) : fd;
}

int
dispatch_new_folder(const char *id, struct err *err)
{
	OWN(closep) int top = dispatch_top(err);

	if (top < 0)
		return top;
	(void)renameat(top, NEXT, top, id);
	return dispatch_folder(id, true, err);
}

void
dispatch_prepare_folder(void)
{
	OWN(closep) int top = dispatch_top(NULL);
	OWN(closep) int folder = -1, events = -1;

	if (top < 0 || mkdirat(top, NEXT, 0700) < 0)
		return;
	folder = openat(top, NEXT, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (folder >= 0)
		events = openat(folder, DISPATCH_EVENTS_FILE, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		                0600);
}

char *
dispatch_path(const char *id, const char *name, struct err *err)
{
	OWN(freep) char *top = data_path(TOP, err);
	char *path = top == NULL ? NULL : str_format("%s/%s/%s", top, id, name);

	if (top != NULL && path == NULL)
		(void)err_set(err, ENOMEM, "out of memory");
	return path;
}

int
dispatch_lock(const char *id, struct err *err)
{
	OWN(closep) int folder = dispatch_folder(id, true, err);

	if (folder < 0)
		return folder;
	if (flock(folder, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? err_set(err, EBUSY, "dispatch %s is being driven", id) :
		       err_errno(err, "cannot lock dispatch %s", id);
	return TAKE_FD(folder);
}

int
dispatch_empty(struct err *err)
{
	OWN(closep) int top = dispatch_top(err);
	OWN(closep) int fd = -1;

	if (top < 0)
		return top;
	if (mkdirat(top, EMPTY, 0700) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make the folder that every " DISPATCH_OUT " begins as");
	fd = openat(top, EMPTY, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_errno(err, "cannot open the folder that every " DISPATCH_OUT " begins as");
	if (tree_has_entries(fd) != 0)
		return err_set(err, ENOTEMPTY, "'" EMPTY "' in the folder of dispatches is not empty, and "
		               "every " DISPATCH_OUT " begins as that: remove what is in it");
	return TAKE_FD(fd);
}

char *
dispatch_empty_path(struct err *err)
{
	OWN(closep) int fd = dispatch_empty(err);
	OWN(freep) char *top = fd < 0 ? NULL : data_path(TOP, err);
	char *path = top == NULL ? NULL : str_format("%s/" EMPTY, top);

	if (top != NULL && path == NULL)
		(void)err_set(err, ENOMEM, "out of memory");
	return path;
}

bool
dispatch_is_driven(const char *id)
{
	OWN(closep) int lock = dispatch_lock(id, NULL);

	return lock == -EBUSY;
}

void
dispatch_tell(void)
{
	OWN(closep) int top = dispatch_top(NULL);
	OWN(closep) int fd = top < 0 ? -1 : openat(top, TURN, O_WRONLY | O_CREAT | O_CLOEXEC |
	                                           O_NOFOLLOW, 0600);

	/* Closing a file that was open for writing notifies the watchers. */
	if (fd >= 0)
		(void)futimens(fd, NULL);
}

bool
dispatch_is_untidy(const char *id)
{
	OWN(closep) int folder = dispatch_folder(id, false, NULL);

	return folder >= 0 && faccessat(folder, DISPATCH_ASKED_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void
dispatch_tidy(const char *id)
{
	static const char *const names[] = { DISPATCH_TOOLS_FILE, DISPATCH_RESULT_FILE, DISPATCH_ASKED_FILE };
	OWN(closep) int folder = dispatch_folder(id, false, NULL);

	for (size_t i = 0; folder >= 0 && i < ARRAY_LEN(names); i++)
		(void)unlinkat(folder, names[i], 0);
}

void
dispatch_remove_folder(const char *id)
{
	OWN(closep) int top = dispatch_top(NULL);
	OWN(closep) int folder = dispatch_folder(id, false, NULL);

	if (top >= 0 && folder >= 0 && tree_empty(folder, NULL) == 0)
		(void)unlinkat(top, id, AT_REMOVEDIR);
}

int
dispatch_write_file(int folder, const char *name, const void *data, size_t len, bool sync,
                    struct err *err)
{
	char tmp[NAME_MAX];
	OWN(closep) int fd = -1;
	int r;

	snprintf(tmp, sizeof(tmp), "%s.new", name);
	fd = openat(folder, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_errno(err, "cannot write '%s'", name);
	r = write_all(fd, data, len, err);
	if (r < 0)
		return err_wrap(err, "cannot write '%s'", name);
	if ((sync && fdatasync(fd) < 0) || renameat(folder, tmp, folder, name) < 0 ||
	    (sync && fsync(folder) < 0))
		return err_errno(err, "cannot write '%s'", name);
	return 0;
}
