/* audit_where.c - finds timelines. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/data.h"
#include "base/err.h"
#include "base/own.h"
#include "proc/audit/audit_proc.h"

void
audit_path_of(int fd, char ret_path[AUDIT_PATH_TEXT])
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, ret_path, AUDIT_PATH_TEXT - 1);
	ret_path[n < 0 ? 0 : n] = '\0';
}

int
audit_open_operator(struct err *err)
{
	return data_folder("audit", false, err);
}

static int
open_place(int state, int place)
{
	return openat(state, place == 0 ? "." : CELL_ENDED, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	              O_CLOEXEC);
}

static int
open_entry(int folder, const char *entry)
{
	return folder < 0 ? -1 : openat(folder, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

int
audit_open_cell(const char *word, struct cell_entry *ret_entry, struct err *err)
{
	OWN(closep) int state = cell_state_open(false, err);
	int r = -ENOENT;

	if (state < 0 && state != -ENOENT)
		return state;
	/* A name may have belonged to another cell before; a cell that is not among the ended is newer. */
	for (int place = 0; place < AUDIT_PLACES && state >= 0; place++) {
		OWN(closep) int folder = open_place(state, place);
		int fd;

		r = folder < 0 ? -ENOENT : cell_find(folder, false, word, ret_entry, err);
		fd = r < 0 ? -1 : open_entry(folder, ret_entry->dir);
		if (fd >= 0)
			return fd;
		if (r < 0 && r != -ENOENT)
			return r;
	}
	return err_set(err, ENOENT, "there are no records of a cell '%.64s': `cloister audit verify` lists "
	               "all cells", word);
}

int
audit_list_cells(struct audit_list *ret_list, struct err *err)
{
	OWN(closep) int state = cell_state_open(false, err);
	int r = state < 0 && state != -ENOENT ? state : 0;

	*ret_list = (struct audit_list){ .folder = { -1, -1 } };
	for (int place = 0; place < AUDIT_PLACES && state >= 0 && r == 0; place++) {
		ret_list->folder[place] = open_place(state, place);
		if (ret_list->folder[place] >= 0)
			r = cell_list(ret_list->folder[place], false, &ret_list->entries[place],
			              &ret_list->n[place], err);
	}
	if (r < 0)
		audit_list_free(ret_list);
	return r;
}

void
audit_list_free(struct audit_list *list)
{
	for (int place = 0; place < AUDIT_PLACES; place++) {
		if (list->folder[place] >= 0)
			close(list->folder[place]);
		free(list->entries[place]);
		list->folder[place] = -1;
		list->entries[place] = NULL;
	}
}

int
audit_list_open(const struct audit_list *list, int place, size_t i)
{
	const char *name = list->entries[place][i].dir;
	int fd = open_entry(list->folder[place], name);

	/* It may have moved to the ended meanwhile, whose folder may not have existed yet. */
	if (fd < 0 && place == 0) {
		OWN(closep) int ended = open_place(list->folder[0], 1);

		fd = open_entry(ended, name);
	}
	return fd;
}

bool
audit_operator_key(int dir, unsigned char ret_key[AUDIT_KEY])
{
	OWN(audit_key_wipe) struct audit_key key = {0};

	if (audit_key_load(dir, OPERATOR_KEY, false, &key, NULL) < 0)
		return false;
	memcpy(ret_key, key.public, AUDIT_KEY);
	return true;
}
