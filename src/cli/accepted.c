/* accepted.c - see accepted.h. */
#include "cli/accepted.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "canon/hash.h"
#include "cell/cell_dirs.h"

#define LIST_MAX (1 << 20)              /* bytes */

static int
open_list(int flags, struct err *err)
{
	OWN(closep) int state = cell_state_open((flags & O_CREAT) != 0, err);
	int fd = state < 0 ? state : openat(state, ACCEPTED_LIST, flags | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 && state >= 0 ? err_errno(err, "cannot open the list of accepted files") : fd;
}

/* A line is a hash and the name that the file had. */
static bool
lists(int fd, const char *hash)
{
	OWN(freep) char *text = NULL;

	if (read_whole(fd, LIST_MAX, &text, NULL, NULL) < 0)
		return false;
	for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + (strchr(line, '\n') != NULL))
		if (strncmp(line, hash, HASH_NAME) == 0)
			return true;
	return false;
}

bool
accepted_has(const char *hash)
{
	OWN(closep) int fd = open_list(O_RDONLY, NULL);

	return fd >= 0 && lists(fd, hash);
}

int
accepted_add(const char *hash, const char *name, const char *event, const char *member, struct err *err)
{
	OWN(closep) int fd = open_list(O_RDWR | O_CREAT | O_APPEND, err);
	OWN(freep) char *line = str_format("%s %s\n", hash, name);
	int r;

	if (fd < 0 || line == NULL)
		return fd < 0 ? fd : err_set(err, ENOMEM, "out of memory");
	if (flock(fd, LOCK_EX) < 0)
		return err_errno(err, "cannot lock the list of accepted files");
	if (lists(fd, hash))
		return 0;
	r = write_all(fd, line, strlen(line), err);
	return r < 0 ? r : operator_note(event, (struct audit_member[]){
		{ .name = "hash", .text = hash }, { .name = member, .text = name } }, 2, err);
}
