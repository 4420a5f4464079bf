/* notify_acts.c - COMMAND...: runs it under the agent's filter with notifications, and prints the acts.
 *
 * A line for each act: its kind and, behind tabs, what it was, its path, and "asked" or "error". */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "confine/filter.h"
#include "ipc/ipc.h"
#include "loop/loop.h"
#include "witness/source.h"

struct run {
	struct loop *loop;
	struct loop_source died;
	pid_t first;
	int status;
};

static void
take(void *arg, const struct act *act)
{
	static const char *const kinds[] = { "exec", "exit", "file", "net", "refused", "danger", "calls", "lost" };
	static const char *const files[] = { "write", "create", "read", "rename", "remove", "link", "mode", "owner",
		"times" };

	(void)arg;
	printf("%s\t%s\t", kinds[act->kind], act->kind == ACT_FILE ? files[act->file] : "");
	for (size_t i = 0; i < act->path.len; i++)
		putchar(act->path.at[i] < ' ' ? '?' : act->path.at[i]);
	printf("\t%s\n", act->error != 0 ? "error" : act->asked ? "asked" : "");
}

static void
failed(void *arg, const char *why)
{
	(void)arg;
	printf("failed\t%s\n", why);
}

static void
first_died(void *arg, uint32_t events)
{
	struct run *run = arg;

	(void)events;
	(void)waitpid(run->first, &run->status, 0);
	loop_unwatch(run->loop, &run->died);
	loop_quit(run->loop);
}

_Noreturn static void
be_first(int channel, char **argv)
{
	OWN(buf_free) struct buf message = {0};
	int listener, status = 0;
	pid_t pid;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || filter_load_notifying(FILTER_DEFAULT, NULL, &listener, NULL) < 0)
		_exit(120);
	ipc_begin(&message, 1);
	if (ipc_send(channel, &message, &listener, 1, NULL) < 0)
		_exit(121);
	close(listener);
	pid = fork();
	if (pid == 0) {
		execv(argv[0], argv);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	syscall(SYS_exit, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	__builtin_unreachable();
}

int
main(int argc, char **argv)
{
	struct run run = {0};
	const struct witness_taker taker = { .take = take, .failed = failed, .arg = &run };
	struct witness_cell cell = { .level = WITNESS_ACTS, .filter = FILTER_DEFAULT };
	OWN(ipc_message_free) struct ipc_message message = {0};
	struct err err = {0};
	void *state = NULL;
	int ends[2];

	if (argc < 2 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return 125;
	run.first = fork();
	if (run.first == 0)
		be_first(ends[1], argv + 1);
	close(ends[1]);
	if (run.first < 0 || ipc_receive(ends[0], &message, NULL) < 0 || message.n_fds != 1)
		return 124;
	cell.first = run.first;
	cell.listener = message.fds[0];
	if (loop_new(&run.loop, &err) < 0 || witness_notify.open(&cell, &state, &err) < 0 ||
	    witness_notify.watch(state, run.loop, &taker, &err) < 0) {
		fprintf(stderr, "notify_acts: %s\n", err.text);
		return 124;
	}
	run.died = (struct loop_source){ .fd = (int)syscall(SYS_pidfd_open, run.first, 0), .ready = first_died, .arg = &run };
	if (loop_watch(run.loop, &run.died, EPOLLIN, NULL) < 0 || loop_run(run.loop, NULL) < 0)
		return 123;
	witness_notify.finish(state);
	witness_notify.close(state);
	close(run.died.fd);
	loop_free(run.loop);
	return WIFEXITED(run.status) ? WEXITSTATUS(run.status) : 122;
}
