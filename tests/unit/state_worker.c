/* state_worker.c - a state's worker that is in an agent's hands: it is heard only so often. */
#include "state/state_parts.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

/* A worker that answers with steps, and never ends. */
static pid_t
start_talker(int *ret_channel)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		OWN(buf_free) struct buf b = {0};

		close(pair[0]);
		ipc_begin(&b, STATE_STEP);
		buf_put_u64(&b, 1);
		buf_put_u64(&b, 2);
		while (ipc_send(pair[1], &b, NULL, 0, NULL) == 0)
			;
		_exit(0);
	}
	close(pair[1]);
	*ret_channel = pair[0];
	return pid;
}

TEST(state_worker_that_never_ends_its_answer)
{
	OWN(ipc_message_free) struct ipc_message done = {0};
	struct state state = { .name = "brain", .limits = state_limits_default };
	OWN(buf_free) struct buf b = {0};
	struct err err = {0};
	pid_t pid = start_talker(&state.channel);

	CHECK(pid > 0);
	ipc_begin(&b, STATE_ASK_FIND);
	CHECK(state_ask(&state, &b, NULL, NULL, &done, &err) == -EPROTO);
	CHECK(state.channel == 0);
	CHECK(waitpid(pid, NULL, 0) == pid);
}
