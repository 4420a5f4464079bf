/* cell_screen.c - see cell_screen.h. */
#include "cell/cell_screen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "cell/cell_dirs.h"

#define FAR_MS 1000                     /* how long output may be on its way here */
#define FAR_LOOK_MS 10

struct tail {
	unsigned char *data;            /* room for two times what is shown */
	size_t len;
};

static int
open_in(int folder, const char *id)
{
	struct cell_entry entry;

	if (folder < 0 || cell_find(folder, false, id, &entry, NULL) < 0)
		return -ENOENT;
	return openat(folder, entry.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* The cell's folder in the state.  That of another machine's cell (IS_FAR) is among those of ended cells. */
static int
open_entry(const char *id, bool *ret_is_far)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	OWN(closep) int ended = -1;
	int dir = open_in(state, id);

	if (dir < 0 && state >= 0) {
		ended = cell_ended_open(state);
		dir = open_in(ended, id);
		*ret_is_far = true;
	}
	return dir;
}

static int
open_output(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

/* Follows the first SIZE bytes of FD, the last ones of many. */
static void
read_output(int fd, uint64_t size, struct screen *screen, struct tail *tail)
{
	ssize_t n;

	if (size != CELL_SCREEN_WHOLE && size > CELL_SCREEN_READ) {
		(void)lseek(fd, (off_t)(size - CELL_SCREEN_READ), SEEK_SET);
		size = CELL_SCREEN_READ;
	}
	while (size > 0 && (n = read(fd, tail->data + tail->len, size < CELL_SCREEN_SHOWN ? (size_t)size :
	                                                          CELL_SCREEN_SHOWN)) > 0) {
		screen_watch(screen, tail->data + tail->len, (size_t)n);
		size -= (size_t)n;
		tail->len += (size_t)n;
		if (tail->len > CELL_SCREEN_SHOWN) {
			memmove(tail->data, tail->data + tail->len - CELL_SCREEN_SHOWN, CELL_SCREEN_SHOWN);
			tail->len = CELL_SCREEN_SHOWN;
		}
	}
}

/* A log that is smaller than SIZE has become the older one since. */
static void
read_all(int dir, uint64_t size, struct screen *screen, struct tail *tail)
{
	OWN(closep) int older = open_output(dir, CELL_LOG ".1"), log = open_output(dir, CELL_LOG);
	OWN(closep) int output = log < 0 ? open_output(dir, CELL_STDOUT) : -1;
	int fd = log >= 0 ? log : output;
	struct stat st;

	if (older >= 0)
		read_output(older, CELL_SCREEN_WHOLE, screen, tail);
	if (fd >= 0 && fstat(fd, &st) == 0 && size > 0 && (size == CELL_SCREEN_WHOLE || (uint64_t)st.st_size >= size))
		read_output(fd, size == CELL_SCREEN_WHOLE ? (uint64_t)st.st_size : size, screen, tail);
}

/* It comes from the other machine apart from the terminal. */
static void
await_output(int dir, uint64_t size)
{
	const struct timespec pause = { .tv_nsec = FAR_LOOK_MS * 1000000L };
	struct stat st;

	for (int i = 0; i < FAR_MS / FAR_LOOK_MS; i++) {
		if (fstatat(dir, CELL_STDOUT, &st, AT_SYMLINK_NOFOLLOW) == 0 && (uint64_t)st.st_size >= size)
			return;
		(void)nanosleep(&pause, NULL);
	}
}

void
cell_screen_show(const char *id, uint64_t size, struct screen *screen, struct buf *out)
{
	bool is_far = false;
	OWN(closep) int dir = open_entry(id, &is_far);
	OWN(freep) unsigned char *data = dir < 0 ? NULL : malloc(2 * (size_t)CELL_SCREEN_SHOWN);
	struct tail tail = { .data = data };
	char modes[SCREEN_MODES_MAX];
	size_t skip = 0;

	if (data == NULL)
		return;
	if (is_far && size != CELL_SCREEN_WHOLE)
		await_output(dir, size);
	read_all(dir, size, screen, &tail);
	if (size != CELL_SCREEN_WHOLE)
		buf_put(out, modes, screen_restore(screen, modes));
	while (tail.len == CELL_SCREEN_SHOWN && skip < tail.len && data[skip] != '\n')
		skip++;
	buf_put(out, data, screen_redraw(data + skip, tail.len - skip, data));
}
