/* cell_screen.c - see cell_screen.h. */
#include "cell/cell_screen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "cell/cell_dirs.h"

struct tail {
	unsigned char *data;            /* room for two times what is shown */
	size_t len;
};

/* The cell's folder in the state. */
static int
open_entry(const char *id)
{
	OWN(closep) int state = cell_state_open(false, NULL);
	struct cell_entry entry;

	if (state < 0 || cell_find(state, false, id, &entry, NULL) < 0)
		return -ENOENT;
	return openat(state, entry.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
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

void
cell_screen_show(const char *id, uint64_t size, struct screen *screen, struct buf *out)
{
	OWN(closep) int dir = open_entry(id);
	OWN(freep) unsigned char *data = dir < 0 ? NULL : malloc(2 * (size_t)CELL_SCREEN_SHOWN);
	struct tail tail = { .data = data };
	char modes[SCREEN_MODES_MAX];
	size_t skip = 0;

	if (data == NULL)
		return;
	read_all(dir, size, screen, &tail);
	if (size != CELL_SCREEN_WHOLE)
		buf_put(out, modes, screen_restore(screen, modes));
	while (tail.len == CELL_SCREEN_SHOWN && skip < tail.len && data[skip] != '\n')
		skip++;
	buf_put(out, data, screen_redraw(data + skip, tail.len - skip, data));
}
