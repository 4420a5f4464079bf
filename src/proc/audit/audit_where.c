/* audit_where.c - where timelines are. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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

int
audit_open_cell(const char *word, struct cell_entry *ret_entry, struct err *err)
{
	OWN(closep) int state = cell_state_open(false, err);
	int r, fd;

	if (state == -ENOENT)
		return err_set(err, ENOENT, "there is no cell '%.64s': nothing is kept of any", word);
	if (state < 0)
		return state;
	r = cell_find(state, false, word, ret_entry, err);
	if (r < 0)
		return r;
	fd = openat(state, ret_entry->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "cannot open what is kept of '%s'", word) : fd;
}

int
audit_list_cells(int *ret_state, struct cell_entry **ret_entries, size_t *ret_n, struct err *err)
{
	int state = cell_state_open(false, err), r;

	*ret_state = -1;
	*ret_entries = NULL;
	*ret_n = 0;
	if (state < 0)
		return state == -ENOENT ? 0 : state;
	r = cell_list(state, false, ret_entries, ret_n, err);
	if (r < 0)
		close(state);
	else
		*ret_state = state;
	return r;
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
