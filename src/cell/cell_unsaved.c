/* cell_unsaved.c - see cell_unsaved.h. */
#include "cell/cell_unsaved.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/tree.h"

#define NAME "unsaved.%u"
#define TO NAME ".to"
#define NAME_SIZE 32
#define TEXT_MAX (512 + CELL_GUARDS_MAX)

int
cell_unsaved_put(int dir, const char *from, uint32_t number, const struct cell_unsaved *u, struct err *err)
{
	char name[NAME_SIZE], to[NAME_SIZE], text[TEXT_MAX];
	int r;

	snprintf(name, sizeof(name), NAME, number);
	snprintf(to, sizeof(to), TO, number);
	snprintf(text, sizeof(text), "%s %s %s %s %d\n%s", u->state, u->branch, u->base, u->head, u->goes_back, u->guards);
	(void)unlinkat(dir, to, 0);
	r = create_file_at(dir, to, 0600, text, err);
	if (r < 0)
		return r;
	return renameat(dir, from, dir, name) < 0 ? err_errno(err, "cannot keep the changes of state '%s'", u->state) : 0;
}

int
cell_unsaved_get(int dir, uint32_t number, struct cell_unsaved *ret, struct err *err)
{
	char name[NAME_SIZE], to[NAME_SIZE];
	OWN(freep) char *text = NULL;
	OWN(closep) int fd = -1;
	int r, end = 0, goes_back = 0;

	snprintf(name, sizeof(name), NAME, number);
	snprintf(to, sizeof(to), TO, number);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ENOENT : err_errno(err, "cannot open changes of a state");
	r = read_file_at(dir, to, TEXT_MAX, &text, NULL, err);
	if (r < 0)
		return r;
	if (sscanf(text, "%79s %79s %64s %64s %1d%n", ret->state, ret->branch, ret->base, ret->head, &goes_back, &end) != 5 ||
	    text[end] != '\n' || strlen(text + end + 1) > CELL_GUARDS_MAX)
		return err_set(err, EBADMSG, "the file '%s' in a cell's state folder is malformed", to);
	ret->goes_back = goes_back != 0;
	snprintf(ret->guards, sizeof(ret->guards), "%s", text + end + 1);
	return TAKE_FD(fd);
}

static int
remove_gone(int dir, const char *gone, struct err *err)
{
	OWN(closep) int fd = openat(dir, gone, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return err_errno(err, "cannot remove what was committed");
	if (tree_empty(fd, err) < 0)
		return -err->code;
	return unlinkat(dir, gone, AT_REMOVEDIR) < 0 ? err_errno(err, "cannot remove what was committed") : 0;
}

int
cell_unsaved_remove(int dir, uint32_t number, struct err *err)
{
	char name[NAME_SIZE], to[NAME_SIZE], gone[NAME_SIZE];
	int r;

	snprintf(name, sizeof(name), NAME, number);
	snprintf(to, sizeof(to), TO, number);
	snprintf(gone, sizeof(gone), "saved.%u", number);
	/* A part of an earlier one may be left: its removal was killed. */
	r = remove_gone(dir, gone, err);
	if (r < 0)
		return r;
	/* From here on it is not there any more, whenever this process ends. */
	if (renameat(dir, name, dir, gone) < 0)
		return err_errno(err, "cannot remove what was committed");
	(void)unlinkat(dir, to, 0);
	return remove_gone(dir, gone, err);
}

bool
cell_has_unsaved(int dir)
{
	char name[NAME_SIZE];

	for (uint32_t i = 0; i < CELL_STATES_MAX; i++) {
		snprintf(name, sizeof(name), NAME, i);
		if (faccessat(dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return true;
	}
	return false;
}
