/* init_engine.c - init's start in a container that an engine made.
 *
 * The engine has started init as the agent's user, without rights.  Init connects to its supervisor and waits, while
 * that builds the cell around it.  Its arguments, behind those that it always has: the socket's path, the most
 * processes, the agent's ids as "UID:GID", and the folders that the agent may write. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/own.h"
#include "boundary/namespace/ns_plan.h"
#include "confine/landlock.h"
#include "ipc/init_channel.h"
#include "proc/init/init.h"

enum { AT_PORT = 4, AT_MOST, AT_USER, AT_WRITABLE };

static int
connect_to(const char *path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || dup2(fd, INIT_CHANNEL_FD) < 0)
		return -errno;
	if (fd != INIT_CHANNEL_FD)
		close(fd);
	return 0;
}

void
init_await_engine(char *const *argv)
{
	char byte;

	if (argv[AT_PORT] == NULL || argv[AT_MOST] == NULL || argv[AT_USER] == NULL || connect_to(argv[AT_PORT]) < 0) {
		fprintf(stderr, "cloister-init cannot reach its supervisor\n");
		_exit(125);
	}
	if (read(INIT_CHANNEL_FD, &byte, 1) != 1)
		_exit(125);
}

/* Engines count the first group among the others. */
static bool
has_other_groups(void)
{
	gid_t groups[2];
	int n = getgroups(ARRAY_LEN(groups), groups);

	return n < 0 || n > 1 || (n == 1 && groups[0] != getgid());
}

/* What the engine was asked for. */
static int
check_rights(const char *user, struct err *err)
{
	char own[32];

	for (int cap = 0, r; (r = prctl(PR_CAPBSET_READ, cap)) >= 0; cap++)
		if (r != 0)
			return err_set(err, EPERM, "the engine left capability %d in the container", cap);
	snprintf(own, sizeof(own), "%u:%u", getuid(), getgid());
	if (strcmp(own, user) != 0 || getuid() == 0 || has_other_groups())
		return err_set(err, EPERM, "the engine gave the container another user");
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		return err_set(err, EPERM, "the engine lets programs in the container gain rights");
	return 0;
}

int
init_enter_engine(char *const *argv, bool *ret_landlock, struct err *err)
{
	const char *writable[CELL_GRANTS_MAX + 8] = { "/tmp", "/var/tmp", CELL_HOME, "/dev/shm" };
	size_t n = 4;
	int fd = -1, r = check_rights(argv[AT_USER], err);

	/* The root is another one since init was started. */
	if (r == 0 && chdir("/") < 0)
		r = err_errno(err, "cannot enter the cell's root");
	if (r == 0)
		r = ns_limit_self(strtoull(argv[AT_MOST], NULL, 10), false, false, err);
	for (size_t i = AT_WRITABLE; argv[i] != NULL && n < ARRAY_LEN(writable) - 1; i++)
		writable[n++] = argv[i];
	if (r == 0)
		r = landlock_make(LANDLOCK_FILES_TOO, writable, &fd, err);
	if (r < 0)
		return r;
	*ret_landlock = fd >= 0;
	if (fd >= 0 && fd != INIT_LANDLOCK_FD && dup2(fd, INIT_LANDLOCK_FD) < 0)
		return err_errno(err, "cannot arrange init's descriptors");
	if (dup2(open("/dev/null", O_RDWR), 0) < 0 || dup2(0, 1) < 0 || dup2(0, 2) < 0)
		return err_errno(err, "cannot arrange init's descriptors");
	return 0;
}
