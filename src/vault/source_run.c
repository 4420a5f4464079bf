/* source_run.c - runs a program and reads its output. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "vault/source.h"

/* ---- words ---- */

int
source_split(const char *command, struct source_words *ret_words, struct err *err)
{
	struct source_words *w = ret_words;
	char *out = w->text, quote;
	const char *c = command;

	w->n = 0;
	if (strlen(command) > SOURCE_TEXT_MAX)
		return err_set(err, EINVAL, "this command is longer than %d bytes", SOURCE_TEXT_MAX);
	for (;;) {
		c += strspn(c, " \t\n");
		if (*c == '\0')
			break;
		if (w->n == SOURCE_WORDS_MAX)
			return err_set(err, EINVAL, "a command has at most %d words", SOURCE_WORDS_MAX);
		w->at[w->n++] = out;
		for (; *c != '\0' && strchr(" \t\n", *c) == NULL; c++) {
			if (*c != '\'' && *c != '"') {
				*out++ = *c;
				continue;
			}
			for (quote = *c++; *c != '\0' && *c != quote; c++)
				*out++ = *c;
			if (*c == '\0')
				return err_set(err, EINVAL, "a quote (%c) in this command is not closed", quote);
		}
		/* The blank makes room for the NUL; the last word has its own. */
		if (*c != '\0')
			c++;
		*out++ = '\0';
	}
	w->at[w->n] = NULL;
	return w->n > 0 && *w->at[0] != '\0' ? 0 : err_set(err, EINVAL, "there is no program in it");
}

/* ---- the program ---- */

/* Wait until FD is readable or its other end is closed. */
static int
await(int fd, int64_t deadline, const char *program, struct err *err)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int64_t left;
	int n;

	do {
		left = deadline - io_now_ms();
		n = left > 0 ? poll(&p, 1, left > INT_MAX ? INT_MAX : (int)left) : 0;
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		return err_set(err, ETIMEDOUT, "'%.64s', which should give the value, did not end in time",
		               program);
	return n > 0 ? 0 : err_errno(err, "cannot wait for '%.64s'", program);
}

static int
read_output(struct guard *g, int fd, int64_t deadline, const char *program, struct err *err)
{
	ssize_t n;
	int r;

	for (;;) {
		r = await(fd, deadline, program, err);
		if (r < 0)
			return r;
		n = read(fd, g->at + g->len, g->cap + 1 - g->len);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return err_errno(err, "cannot read what '%.64s' prints", program);
		if (n == 0)
			break;
		g->len += (size_t)n;
		if (g->len > g->cap) {
			g->len = g->cap;
			return err_set(err, EFBIG, "'%.64s', which should give the value, prints over %zu bytes",
			               program, g->cap);
		}
	}
	g->at[g->len] = '\0';
	return 0;
}

/* Read its exit status.  A program that continues with its output closed has until the deadline. */
static int
read_status(int pidfd, int64_t deadline, const char *program, struct err *err)
{
	siginfo_t info = {0};
	int r = await(pidfd, deadline, program, err);

	if (r < 0)
		return r;
	if (waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOWAIT) < 0)
		return err_errno(err, "cannot wait for '%.64s'", program);
	if (info.si_code == CLD_EXITED && info.si_status == 0)
		return 0;
	return err_set(err, ECHILD, "'%.64s', which should give the value, ended with %s %d", program,
	               info.si_code == CLD_EXITED ? "status" : "signal", info.si_status);
}

/* A process group of its own, so that its children end with it. */
int
source_run(enum trust_use use, const char *command, unsigned timeout_ms, struct guard *g,
           struct err *err)
{
	OWN(closep) int pidfd = -1, out = -1;
	struct source_words words;
	char program[PATH_MAX];
	int64_t deadline;
	int ends[2], r = source_split(command, &words, err);
	pid_t pid;

	r = r == 0 ? trust_command(use, words.at, program, err) : r;
	/* If it is missing, its start explains that. */
	if (r == 0 && access(program, F_OK) == 0)
		r = trust_program(program, err);
	if (r < 0)
		return r;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	out = ends[0];
	pid = spawn_start(&(struct spawn){ .argv = words.at, .path = program, .cwd = trust_here() ? NULL : "/",
		.fds = (struct spawn_fd[]){ { SPAWN_NULL, STDIN_FILENO }, { ends[1], STDOUT_FILENO } }, .n_fds = 2,
		.flags = SPAWN_GROUP | SPAWN_DIES | SPAWN_COMMAND }, &pidfd, err);
	close(ends[1]);
	if (pid < 0)
		return err_set(err, -pid, "cannot run '%.64s', which should give the value: %s", words.at[0],
		               strerrordesc_np(-pid));
	deadline = io_now_ms() + timeout_ms;
	r = read_output(g, out, deadline, words.at[0], err);
	r = r == 0 ? read_status(pidfd, deadline, words.at[0], err) : r;
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	return r;
}
