/* diff_text.c - a unified diff of files that an agent wrote.
 *
 * diff(1) reads them, in a process that has no network, can write nothing but its
 * output, and may call only what an agent may. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/text.h"
#include "boundary/namespace/filter.h"
#include "boundary/namespace/landlock.h"
#include "cli/changes.h"
#include "trust/trust.h"

_Noreturn static void
become_diff(int old, int new, int out, const char *old_label, const char *new_label)
{
	static const char *const nothing[] = { NULL };
	const struct rlimit cpu = { 20, 20 }, memory = { 2ULL << 30, 2ULL << 30 };
	char *argv[] = { (char[]){ "diff" }, (char[]){ "-u" }, (char[]){ "--label" },
	                 (char *)(uintptr_t)old_label, (char[]){ "--label" },
	                 (char *)(uintptr_t)new_label, (char[]){ "/dev/fd/3" },
	                 (char[]){ "/dev/fd/4" }, NULL };
	char *envp[] = { (char[]){ "LC_ALL=C" }, NULL };
	int fds[] = { open("/dev/null", O_RDWR | O_CLOEXEC), out, -1, old, new }, landlock = -1;

	fds[2] = fds[0];
	for (int i = 0; i < 5; i++)
		fds[i] = fcntl(fds[i] >= 0 ? fds[i] : fds[0], F_DUPFD_CLOEXEC, 100);
	for (int i = 0; i < 5; i++)
		if (dup2(fds[i], i) < 0)
			_exit(3);
	setrlimit(RLIMIT_CPU, &cpu);
	setrlimit(RLIMIT_AS, &memory);
	/* Where namespaces cannot be had there are no cells to show either. */
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0 ||
	    syscall(SYS_close_range, 5u, ~0u, 0u) < 0 ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    landlock_make(LANDLOCK_FILES_TOO, nothing, &landlock, NULL) < 0 ||
	    landlock_enforce(landlock, NULL) < 0 || filter_load(FILTER_DEFAULT, NULL) < 0)
		_exit(3);
	execve("/usr/bin/diff", argv, envp);
	_exit(4);
}

/* Runs diff(1) and gives each line that it says, without its end, to TAKE. */
static int
each_line(int old, int new, const char *old_label, const char *new_label,
          void (*take)(void *arg, const char *line, size_t len), void *arg, struct err *err)
{
	OWN(fclosep) FILE *from = NULL;
	OWN(freep) char *line = NULL;
	size_t cap = 0;
	int ends[2], status, r;
	ssize_t n;
	pid_t pid;

	r = trust_path(TRUST_DIFF, "/usr/bin/diff", err);
	if (r < 0)
		return r;
	fflush(stdout);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	pid = fork();
	if (pid == 0)
		become_diff(old, new, ends[1], old_label, new_label);
	close(ends[1]);
	from = pid < 0 ? NULL : fdopen(ends[0], "r");
	if (from == NULL)
		return err_errno(err, "cannot run diff");
	while ((n = getline(&line, &cap, from)) > 0)
		take(arg, line, (size_t)n - (line[n - 1] == '\n' ? 1 : 0));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 4)
		return err_set(err, ENOENT, "there is no /usr/bin/diff: use --name-status");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 3)
		return err_set(err, EPERM, "diff could not be run safely here: use --name-status");
	if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
		return err_set(err, E2BIG, "diff gave up on it");
	return 0;
}

static void
print_line(void *arg, const char *line, size_t len)
{
	const char *start = "";

	if (*(const bool *)arg && len > 0)
		start = line[0] == '+' ? "\033[32m" : line[0] == '-' ? "\033[31m" :
		        line[0] == '@' ? "\033[36m" : "";
	fputs(start, stdout);
	text_print_safe(stdout, line, len, true);
	if (*start != '\0')
		fputs("\033[m", stdout);
	putchar('\n');
}

int
diff_print_text(int old, int new, const char *old_label, const char *new_label, bool colour,
                struct err *err)
{
	return each_line(old, new, old_label, new_label, print_line, &colour, err);
}

struct count {
	size_t lines;
	struct diff_count n;
};

static void
count_line(void *arg, const char *line, size_t len)
{
	static const char head[] = "--- ";
	struct count *c = arg;

	/* Two lines of a patch that name the files, or one that says no more than that they differ. */
	if (c->lines++ == 0)
		c->n.binary = len < sizeof(head) || memcmp(line, head, sizeof(head) - 1) != 0;
	if (c->lines <= 2 || len == 0)
		return;
	c->n.added += line[0] == '+';
	c->n.removed += line[0] == '-';
}

int
diff_count_text(int old, int new, struct diff_count *ret_count, struct err *err)
{
	struct count c = {0};
	int r = each_line(old, new, "a", "b", count_line, &c, err);

	if (r == 0)
		*ret_count = c.n;
	return r;
}
