/* profile_trust.c - remembers which projects' profiles a person has accepted: the hashes of their contents. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/err.h"
#include "base/io.h"
#include "cell/cell_dirs.h"
#include "cli/profile.h"

#define TRUSTED_MAX (1 << 20)           /* bytes */

static int
open_list(int flags, struct err *err)
{
	OWN(closep) int state = cell_state_open((flags & O_CREAT) != 0, err);
	int fd = state < 0 ? state : openat(state, PROFILE_CLI_TRUSTED, flags | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 && state >= 0 ? err_errno(err, "cannot open the list of trusted profiles") : fd;
}

/* A line is a hash and the name that the profile had. */
static bool
lists(int fd, const char *hash)
{
	OWN(freep) char *text = NULL;

	if (read_whole(fd, TRUSTED_MAX, &text, NULL, NULL) < 0)
		return false;
	for (const char *line = text; *line != '\0'; line += strcspn(line, "\n") + (strchr(line, '\n') != NULL))
		if (strncmp(line, hash, HASH_NAME) == 0)
			return true;
	return false;
}

bool
profile_cli_is_trusted(const struct profile_found *f)
{
	OWN(closep) int fd = f->origin != PROFILE_PROJECT ? -1 : open_list(O_RDONLY, NULL);

	return f->origin != PROFILE_PROJECT || (fd >= 0 && lists(fd, f->hash));
}

static int
add(int fd, const struct profile_found *f, struct err *err)
{
	OWN(freep) char *line = str_format("%s %s\n", f->hash, f->name);
	int r = line == NULL ? err_set(err, ENOMEM, "out of memory") : write_all(fd, line, strlen(line), err);

	return r < 0 ? r : operator_note("profile.trusted", (struct audit_member[]){
		{ .name = "hash", .text = f->hash }, { .name = "profile", .text = f->name } }, 2, err);
}

int
profile_cli_trust(const struct profile_found *f, struct err *err)
{
	OWN(closep) int fd = open_list(O_RDWR | O_CREAT | O_APPEND, err);

	if (fd < 0)
		return fd;
	if (flock(fd, LOCK_EX) < 0)
		return err_errno(err, "cannot lock the list of trusted profiles");
	return lists(fd, f->hash) ? 0 : add(fd, f, err);
}
