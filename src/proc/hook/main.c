/* main.c - cloister-hook: asks the operator's hooks for the courier of one cell.
 *
 *   fd 3  the supervisor at first, then the starter, which sends the channel of each courier
 *   fd 4  the policy, which names the hooks
 *
 * The supervisor starts it before the cell.  It runs programs of the operator's with the operator's
 * rights and environment, so it is not confined; it parses nothing that an agent wrote, and of
 * an answer only the id. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "ipc/ipc.h"
#include "proc/hook/hook.h"

static struct hook_server server;
static struct loop_source control = { .fd = HOOK_CONTROL_FD };

static int
read_policy(struct policy **ret_policy, struct err *err)
{
	OWN(freep) char *text = NULL;
	struct buf b;
	size_t len;
	int r = read_whole(HOOK_POLICY_FD, POLICY_ENCODED_MAX, &text, &len, err);

	close(HOOK_POLICY_FD);
	if (r < 0)
		return r;
	buf_init_borrowed(&b, text, len);
	return policy_get(&b, ret_policy, err);
}

/* Without the descriptor, the courier's channel ends, and requests that need a hook are refused. */
static void
control_ready(void *arg, uint32_t events)
{
	OWN(ipc_message_free) struct ipc_message message = { .fds = { -1, -1, -1, -1 } };
	struct err err = {0};
	int r = ipc_receive(HOOK_CONTROL_FD, &message, NULL);

	(void)arg, (void)events;
	if (r == -EAGAIN)
		return;
	if (r < 0 || message.type != HOOK_SERVE || message.n_fds != 1 || buf_left(&message.body) != 0)
		loop_quit(server.loop);
	else if (hook_serve(&server, ipc_take_fd(&message, 0), &err) < 0)
		fprintf(stderr, "cloister-hook: %s\n", err.text);
}

static void
caught(void *arg, const struct signalfd_siginfo *info)
{
	(void)arg, (void)info;
	loop_quit(server.loop);
}

static int
prepare(struct err *err)
{
	struct policy *policy = NULL;
	sigset_t signals;
	int r = read_policy(&policy, err);

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	r = r < 0 ? r : loop_new(&server.loop, err);
	r = r < 0 ? r : hook_pool_new(server.loop, policy, &server.pool, err);
	r = r < 0 ? r : loop_catch(server.loop, &signals, caught, NULL, err);
	control.ready = control_ready;
	return r < 0 ? r : loop_watch(server.loop, &control, EPOLLIN, err);
}

static int
run(struct err *err)
{
	OWN(buf_free) struct buf ready;
	int r = prepare(err);

	ipc_begin(&ready, HOOK_READY);
	if (r == 0)
		r = ipc_send(HOOK_CONTROL_FD, &ready, NULL, 0, err);
	if (r == 0 && fcntl(HOOK_CONTROL_FD, F_SETFL, O_NONBLOCK) < 0)
		r = err_errno(err, "cannot use the channel to the starter");
	return r == 0 ? loop_run(server.loop, err) : r;
}

int
main(void)
{
	struct err err = {0};
	int r;

	if (fcntl(HOOK_CONTROL_FD, F_GETFD) < 0 || fcntl(HOOK_POLICY_FD, F_GETFD) < 0) {
		fprintf(stderr, "cloister-hook is started by cloister-supervisor only\n");
		return 125;
	}
	/* If the supervisor dies, the hooks' programs are killed with all that they started. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	prctl(PR_SET_DUMPABLE, 0);
	(void)fcntl(HOOK_CONTROL_FD, F_SETFD, FD_CLOEXEC);
	signal(SIGPIPE, SIG_IGN);
	r = run(&err);
	hook_serve_end(&server);
	hook_pool_free(server.pool);
	if (r < 0)
		fprintf(stderr, "cloister-hook: %s\n", err.text);
	return r < 0;
}
