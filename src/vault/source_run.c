/* source_run.c - runs a program and reads its output. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
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

/* ---- the child ---- */

/* PROGRAM is the file found for ARGV[0].  HERE: run in this folder. */
_Noreturn static void
become(const char *program, char *const *argv, bool here, int out, int failed, pid_t parent)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC), code;
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/* A process group of its own, so that its children end with it. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() == parent && null >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
	    dup2(out, STDOUT_FILENO) >= 0 && (here || chdir("/") == 0)) {
		execvp(program, argv);
		code = errno;
		while (write(failed, &code, sizeof(code)) < 0 && errno == EINTR)
			;
	}
	_exit(127);
}

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

static int
watch(pid_t pid, const int out[2], const int failed[2], int64_t deadline, struct guard *g,
      const char *program, struct err *err)
{
	OWN(closep) int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	int code = 0, r = 0;

	if (pidfd < 0)
		r = err_errno(err, "cannot watch '%.64s'", program);
	/* execve closes it; otherwise it has the error. */
	if (r == 0 && read(failed[0], &code, sizeof(code)) == sizeof(code))
		r = err_set(err, code, "cannot run '%.64s', which should give the value: %s", program,
		            strerrordesc_np(code));
	r = r == 0 ? read_output(g, out[0], deadline, program, err) : r;
	r = r == 0 ? read_status(pidfd, deadline, program, err) : r;
	return r;
}

int
source_run(enum trust_use use, const char *command, unsigned timeout_ms, struct guard *g,
           struct err *err)
{
	struct source_words words;
	char program[PATH_MAX];
	int out[2], failed[2];
	pid_t pid, parent = getpid();
	int r = source_split(command, &words, err);
	bool here = trust_here();

	r = r == 0 ? trust_command(use, words.at, program, err) : r;
	if (r < 0)
		return r;
	if (pipe2(out, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	if (pipe2(failed, O_CLOEXEC) < 0) {
		r = err_errno(err, "cannot make a pipe");
		close(out[0]);
		close(out[1]);
		return r;
	}
	pid = fork();
	if (pid == 0)
		become(program, words.at, here, out[1], failed[1], parent);
	close(out[1]);
	close(failed[1]);
	if (pid < 0) {
		r = err_errno(err, "cannot run '%.64s'", words.at[0]);
	} else {
		setpgid(pid, pid);
		r = watch(pid, out, failed, io_now_ms() + timeout_ms, g, words.at[0], err);
		kill(-pid, SIGKILL);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	close(out[0]);
	close(failed[0]);
	return r;
}
