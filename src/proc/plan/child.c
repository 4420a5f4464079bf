/* child.c - runs other commands of cloister. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "proc/plan/plan_proc.h"

#define WORDS_MAX 4096
#define SENTENCE_MAX 8192               /* of what it printed about an error */

/* Its own sentence, or its status. */
static int
explain(int fd, const char *what, int status, struct err *err)
{
	OWN(freep) char *text = NULL;
	size_t len;
	char *at;

	if (read_whole(fd, SENTENCE_MAX, &text, &len, NULL) < 0 || len == 0)
		return err_set(err, EIO, "`cloister %s` has ended with status %d", what, status);
	at = strncmp(text, "cloister: ", 10) == 0 ? text + 10 : text;
	at[strcspn(at, "\n")] = '\0';
	return err_set(err, EIO, "%s", at);
}

int
child_run(const char *folder, char *const *words, size_t max, char **ret_out, size_t *ret_len, struct err *err)
{
	/* Files, and not pipes: a detached cell may keep them open. */
	OWN(closep) int out = memfd_create("out", MFD_CLOEXEC), told = memfd_create("err", MFD_CLOEXEC);
	char program[PATH_MAX], *argv[WORDS_MAX + 2] = { (char[]){ "cloister" } };
	const struct spawn_fd fds[] = { { SPAWN_NULL, STDIN_FILENO }, { out, STDOUT_FILENO }, { told, STDERR_FILENO } };
	size_t n = 0;
	int r = exe_find_cloister(program, err);

	if (r < 0)
		return r;
	if (out < 0 || told < 0)
		return err_errno(err, "cannot make a file");
	for (; words[n] != NULL; n++) {
		if (n == WORDS_MAX)
			return err_set(err, E2BIG, "a command line has over %d words", WORDS_MAX);
		argv[n + 1] = words[n];
	}
	argv[n + 1] = NULL;
	r = spawn_run(&(struct spawn){ .path = program, .argv = argv, .cwd = folder, .fds = fds, .n_fds = ARRAY_LEN(fds),
	                               .flags = SPAWN_ONLY }, err);
	if (r != 0)
		return r < 0 ? r : explain(told, words[0], r, err);
	return ret_out == NULL ? 0 : read_whole(out, max, ret_out, ret_len, err);
}
