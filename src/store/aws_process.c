/* aws_process.c - see aws_process.h. */
#include "store/aws_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"

#define PATIENCE_MS 60000               /* of the keeper: a person may have to log in again */
#define FAILED UINT32_MAX

int
aws_process_split(char *command, char *ret_words[AWS_PROCESS_WORDS_MAX + 1], struct err *err)
{
	char *to = command, quote = '\0';
	bool inside = false;
	size_t n = 0;

	for (char *at = command; ; at++) {
		char c = *at;

		if (c == '\0' || (quote == '\0' && (c == ' ' || c == '\t'))) {
			if (inside)
				*to++ = '\0';
			inside = false;
			if (c == '\0')
				break;
			continue;
		}
		if (!inside) {
			if (n == AWS_PROCESS_WORDS_MAX)
				return err_set(err, E2BIG, "credential_process has over %d words", AWS_PROCESS_WORDS_MAX);
			ret_words[n++] = to;
			inside = true;
		}
		if (c == quote)
			quote = '\0';
		else if (quote == '\0' && (c == '"' || c == '\''))
			quote = c;
		else
			*to++ = c;
	}
	ret_words[n] = NULL;
	return n == 0 || quote != '\0' ? err_set(err, EINVAL, "credential_process is empty, or has a quote without its end") : 0;
}

/* ---- the keeper ---- */

/* All that comes from FD by then; its length, or FAILED. */
static uint32_t
read_by(int fd, char *text, int64_t until)
{
	struct pollfd from = { .fd = fd, .events = POLLIN };
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0 && len < AWS_PROCESS_OUT_MAX) {
		int64_t left = until - io_now_ms();

		if (left <= 0 || poll(&from, 1, (int)left) <= 0)
			return FAILED;
		n = read(fd, text + len, AWS_PROCESS_OUT_MAX - len);
		len += n > 0 ? (size_t)n : 0;
	}
	return n == 0 ? (uint32_t)len : FAILED;
}

static uint32_t
run(char *const *words, char *text)
{
	OWN(closep) int from = -1;
	uint32_t len;
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return FAILED;
	from = ends[0];
	pid = spawn_start(&(struct spawn){ .argv = words, .path = words[0], .flags = SPAWN_COMMAND | SPAWN_GROUP | SPAWN_DIES, .n_fds = 2,
		.fds = (const struct spawn_fd[]){ { SPAWN_NULL, STDIN_FILENO }, { ends[1], STDOUT_FILENO } } }, NULL, NULL);
	close(ends[1]);
	if (pid < 0)
		return FAILED;
	len = read_by(from, text, io_now_ms() + PATIENCE_MS);
	if (len == FAILED)
		(void)kill(-pid, SIGKILL);
	return spawn_await(pid, NULL) == 0 ? len : FAILED;
}

/* Ends with whoever asks. */
static void
keep(int fd, char *const *words)
{
	static char text[AWS_PROCESS_OUT_MAX];
	uint32_t len;
	char asked;

	while (read(fd, &asked, 1) == 1) {
		len = run(words, text);
		if (write_all(fd, &len, sizeof(len), NULL) < 0 || (len != FAILED && write_all(fd, text, len, NULL) < 0))
			break;
		explicit_bzero(text, sizeof(text));
	}
	_exit(0);
}

int
aws_process_start(const char *command, int *ret_fd, struct err *err)
{
	OWN(freep) char *own = strdup(command);
	char *words[AWS_PROCESS_WORDS_MAX + 1];
	int ends[2], r = own == NULL ? err_set(err, ENOMEM, "out of memory") : aws_process_split(own, words, err);
	pid_t pid;

	if (r < 0)
		return r;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot start the keeper of a program");
	pid = fork();
	if (pid == 0) {
		/* Its ends of this process's channels would keep others waiting. */
		if (dup2(ends[1], STDERR_FILENO + 1) < 0 || close_range(STDERR_FILENO + 2, ~0u, 0) < 0)
			_exit(1);
		signal(SIGPIPE, SIG_IGN);
		keep(STDERR_FILENO + 1, words);
	}
	close(ends[1]);
	if (pid < 0) {
		close(ends[0]);
		return err_errno(err, "cannot start the keeper of a program");
	}
	*ret_fd = ends[0];
	return 0;
}

/* ---- asking it ---- */

int
aws_process_ask(int fd, struct buf *out, struct err *err)
{
	OWN(freep) char *text = malloc(AWS_PROCESS_OUT_MAX);
	uint32_t len = FAILED;
	int r = text == NULL ? err_set(err, ENOMEM, "out of memory") : write_all(fd, "?", 1, err);

	r = r == 0 ? read_exactly(fd, &len, sizeof(len), err) : r;
	if (r == 0 && len > AWS_PROCESS_OUT_MAX)
		return err_set(err, EACCES, "it failed, or did not end within %d s", PATIENCE_MS / 1000);
	r = r == 0 ? read_exactly(fd, text, len, err) : r;
	if (r == 0)
		buf_put(out, text, len);
	if (text != NULL)
		explicit_bzero(text, AWS_PROCESS_OUT_MAX);
	return r == 0 && buf_failed(out) ? err_set(err, ENOMEM, "out of memory") : r;
}
