/* cell_far.c - see cell_far.h. */
#include "cell/cell_far.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"

#define BACKLOG 64

static void
name_entry(const char *id, char ret_name[CELL_ENTRY_MAX])
{
	snprintf(ret_name, CELL_ENTRY_MAX, "%s." CELL_FAR ".", id);
}

static int
listen_in(int dir, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	OWN(closep) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" CELL_CONTROL, dir);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, BACKLOG) < 0)
		return err_errno(err, "cannot listen for a cell of another machine");
	return TAKE_FD(fd);
}

int
cell_far_make(int runtime, const char *id, const char *dispatch, const char *machine, int *ret_dir, int *ret_socket,
              struct err *err)
{
	/* Other locks of a process end when it closes any descriptor of the file. */
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	OWN(freep) struct cell_entry *entries = NULL;
	char name[CELL_ENTRY_MAX];
	OWN(closep) int dir = -1;
	size_t n;
	int r = cell_list(runtime, true, &entries, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (strcmp(entries[i].id, id) == 0)
			r = err_set(err, EEXIST, "there is a cell %s already", id);
	if (r < 0)
		return r;
	name_entry(id, name);
	if (mkdirat(runtime, name, 0700) < 0)
		return err_errno(err, "cannot make the entry of cell %s", id);
	dir = openat(runtime, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	r = dir < 0 || fcntl(dir, F_OFD_SETLK, &lock) < 0 ? err_errno(err, "cannot lock the entry of cell %s", id) :
	    create_file_at(dir, CELL_MACHINE, 0600, machine, err);
	r = r == 0 ? create_file_at(dir, CELL_DISPATCH, 0600, dispatch, err) : r;
	r = r == 0 ? *ret_socket = listen_in(dir, err) : r;
	if (r < 0) {
		cell_far_remove(runtime, id);
		return r;
	}
	*ret_dir = TAKE_FD(dir);
	return 0;
}

void
cell_far_remove(int runtime, const char *id)
{
	char name[CELL_ENTRY_MAX];
	OWN(closep) int dir = -1;

	name_entry(id, name);
	dir = openat(runtime, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (dir >= 0) {
		(void)unlinkat(dir, CELL_CONTROL, 0);
		(void)unlinkat(dir, CELL_MACHINE, 0);
		(void)unlinkat(dir, CELL_DISPATCH, 0);
	}
	(void)unlinkat(runtime, name, AT_REMOVEDIR);
}

void
cell_far_clear(int runtime)
{
	OWN(freep) struct cell_entry *entries = NULL;
	size_t n;

	if (cell_list(runtime, true, &entries, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (entries[i].far && !cell_is_alive(runtime, &entries[i]))
			cell_far_remove(runtime, entries[i].id);
}

bool
cell_far_machine(int runtime, const struct cell_entry *entry, char ret_machine[CELL_MACHINE_MAX + 1])
{
	OWN(closep) int dir = entry->far ? openat(runtime, entry->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
	OWN(freep) char *text = NULL;

	if (!entry->far)
		return false;
	if (dir < 0 || read_file_at(dir, CELL_MACHINE, CELL_MACHINE_MAX + 1, &text, NULL, NULL) < 0)
		text = NULL;
	snprintf(ret_machine, CELL_MACHINE_MAX + 1, "%s", text != NULL ? text : "?");
	return true;
}
