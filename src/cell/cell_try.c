/* cell_try.c - see cell_try.h. */
#include "cell/cell_try.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/tree.h"

#define SAID_MAX 4096

/* Uses the real runtime folder: its slots keep root's cells apart. */
static pid_t
start_run(const char *folder, const char *runtime, int out, struct err *err)
{
	char path[PATH_MAX];
	char *contained[] = { (char[]){ "--boundary" }, (char[]){ "oci" }, (char[]){ "--runtime" }, (char *)(uintptr_t)runtime };
	char *truth[] = { (char[]){ "true" } }, *own[] = { path, (char[]){ "version" } };
	/* Where there is nothing but cloister. */
	bool bare = access("/usr/bin/true", X_OK) < 0 && access("/bin/true", X_OK) < 0;
	char *argv[16] = { (char[]){ "cloister" }, (char[]){ "run" }, (char[]){ "-q" }, (char[]){ "--no-policy" },
	                   (char[]){ "--time" }, (char[]){ "30s" } };
	size_t n = 6;
	int r = exe_find_cloister(path, err);

	for (size_t i = 0; runtime != NULL && i < ARRAY_LEN(contained); i++)
		argv[n++] = contained[i];
	argv[n++] = (char[]){ "--" };
	argv[n++] = bare ? own[0] : truth[0];
	if (bare)
		argv[n++] = own[1];
	OWN(freep) char *state = str_format("CLOISTER_STATE_DIR=%s", folder);
	OWN(freep) char *data = str_format("CLOISTER_DATA_DIR=%s", folder);
	OWN(freep) char **env = state == NULL || data == NULL ? NULL : spawn_env((char *[]){ state, data, NULL });
	const struct spawn_fd fds[] = { { SPAWN_NULL, STDIN_FILENO }, { SPAWN_NULL, STDOUT_FILENO },
		{ out, STDERR_FILENO } };

	return r < 0 ? r : env == NULL ? err_set(err, ENOMEM, "out of memory") :
	       spawn_start(&(struct spawn){ .argv = argv, .path = path, .env = env, .cwd = "/",
	                   .fds = fds, .n_fds = ARRAY_LEN(fds) }, NULL, err);
}

/* The last line of output is the reason why it failed. */
static void
keep_last_line(char *said, char ret_why[CELL_TRY_WHY_MAX])
{
	static const char prefix[] = "cloister: ";
	size_t len = strlen(said);
	char *line;

	while (len > 0 && said[len - 1] == '\n')
		said[--len] = '\0';
	line = strrchr(said, '\n');
	line = line == NULL ? said : line + 1;
	if (strncmp(line, prefix, sizeof(prefix) - 1) == 0)
		line += sizeof(prefix) - 1;
	snprintf(ret_why, CELL_TRY_WHY_MAX, "%s", line[0] != '\0' ? line : "it gave no reason");
}

static int
run_true(const char *folder, const char *runtime, char ret_why[CELL_TRY_WHY_MAX])
{
	char said[SAID_MAX] = "", rest[256];
	struct err err = {0};
	size_t len = 0;
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = start_run(folder, runtime, ends[1], &err);
	close(ends[1]);
	while (pid > 0 && (n = read(ends[0], rest, sizeof(rest))) != 0) {
		if (n < 0 && errno != EINTR)
			break;
		for (ssize_t i = 0; i < n; i++)
			if (len < sizeof(said) - 1)
				said[len++] = rest[i];
	}
	close(ends[0]);
	status = pid < 0 ? pid : spawn_await(pid, &err);
	if (status < 0)
		snprintf(said, sizeof(said), "%s", err.text);
	if (status == 0)
		return 0;
	keep_last_line(said, ret_why);
	return 1;
}

int
cell_try(const char *runtime, char ret_why[CELL_TRY_WHY_MAX])
{
	char folder[] = "/tmp/cloister-try-XXXXXX";
	int r;

	if (mkdtemp(folder) == NULL)
		return -errno;
	r = run_true(folder, runtime, ret_why);
	{
		OWN(closep) int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

		if (fd >= 0)
			(void)tree_empty(fd, NULL);
	}
	(void)rmdir(folder);
	return r;
}
