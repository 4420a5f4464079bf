/* main.c - cloister-tools: the gateway between one cell's agent and its MCP servers, each in a cell of its own.
 *
 *   fd 3  the supervisor at first, then the starter, which sends the channel of each courier
 *   fd 4  the policy, which names the servers
 *   fd 5  the supervisor, for records
 *
 * Its only argument is TOOLS_LEARNS, in a cell that learns its policy.
 *
 * The supervisor starts it before the cell.  This process, the keeper, runs `cloister run` with the operator's rights
 * and environment; the worker, which it starts, parses everything. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "ipc/ipc.h"
#include "proc/tools/tools_proc.h"

static struct loop *loop;
static struct loop_source control = { .fd = TOOLS_CONTROL_FD };

/* Its environment is empty. */
static pid_t
spawn_worker(int channel, int policy, bool learns, struct err *err)
{
	char *env[2] = { NULL };

#ifdef CLOISTER_MUTANT
	if (getenv("CLOISTER_OFF") != NULL && asprintf(&env[0], "CLOISTER_OFF=%s", getenv("CLOISTER_OFF")) < 0)
		return err_set(err, ENOMEM, "out of memory");
#endif
	return spawn_start(&(struct spawn){ .argv = (char *[]){ (char[]){ TOOLS_WORKER }, learns ?
		(char[]){ TOOLS_LEARNS } : NULL, NULL },
		.path = "/proc/self/exe", .env = env, .n_fds = 2, .fds = (struct spawn_fd[]){
		{ channel, TOOLS_WORKER_FD }, { policy, TOOLS_WORKER_POLICY_FD } },
		.flags = SPAWN_DIES | SPAWN_ONLY }, NULL, err);
}

static void
control_ready(void *arg, uint32_t events)
{
	OWN(ipc_message_free) struct ipc_message message = { .fds = { -1, -1, -1, -1 } };
	OWN(closep) int fd = -1;
	int r = ipc_receive(TOOLS_CONTROL_FD, &message, NULL);

	(void)arg, (void)events;
	if (r == -EAGAIN)
		return;
	if (r < 0 || message.type != TOOLS_SERVE || message.n_fds != 1 || buf_left(&message.body) != 0) {
		loop_quit(loop);
		return;
	}
	fd = ipc_take_fd(&message, 0);
	tools_keeper_serve(fd);
}

static void
caught(void *arg, const struct signalfd_siginfo *info)
{
	(void)arg, (void)info;
	loop_quit(loop);
}

static int
prepare(const struct policy_tools *tools, int channel, struct err *err)
{
	sigset_t signals;
	int r;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	r = loop_new(&loop, err);
	r = r < 0 ? r : loop_catch(loop, &signals, caught, NULL, err);
	r = r < 0 ? r : tools_keeper_begin(loop, tools, channel, TOOLS_EVENTS_FD, err);
	control.ready = control_ready;
	return r < 0 ? r : loop_watch(loop, &control, EPOLLIN, err);
}

static int
run(bool learns, struct policy **ret_policy, struct err *err)
{
	OWN(closep) int worker_policy = fcntl(TOOLS_POLICY_FD, F_DUPFD_CLOEXEC, TOOLS_EVENTS_FD + 1);
	OWN(buf_free) struct buf ready = {0};
	int ends[2], r = worker_policy < 0 ? err_errno(err, "cannot keep the policy") : 0;

	r = r < 0 ? r : tools_read_policy(TOOLS_POLICY_FD, ret_policy, err);
	if (r == 0 && policy_tools_of(*ret_policy) == NULL)
		r = err_set(err, EINVAL, "the policy has no tools");
	if (r == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		r = err_errno(err, "cannot make a channel");
	if (r < 0)
		return r;
	r = spawn_worker(ends[1], worker_policy, learns, err);
	close(ends[1]);
	r = r < 0 ? r : prepare(policy_tools_of(*ret_policy), ends[0], err);
	ipc_begin(&ready, TOOLS_READY);
	if (r == 0)
		r = ipc_send(TOOLS_CONTROL_FD, &ready, NULL, 0, err);
	if (r == 0 && fcntl(TOOLS_CONTROL_FD, F_SETFL, O_NONBLOCK) < 0)
		r = err_errno(err, "cannot use the channel to the starter");
	return r == 0 ? loop_run(loop, err) : r;
}

int
main(int argc, char **argv)
{
	OWN(policy_freep) struct policy *policy = NULL;
	bool learns = argc == 2 && strcmp(argv[1], TOOLS_LEARNS) == 0;
	struct err err = {0};
	int r;

	if (strcmp(argv[0], TOOLS_WORKER) == 0)
		return tools_worker_main(learns);
	if (fcntl(TOOLS_CONTROL_FD, F_GETFD) < 0 || fcntl(TOOLS_POLICY_FD, F_GETFD) < 0 ||
	    fcntl(TOOLS_EVENTS_FD, F_GETFD) < 0) {
		fprintf(stderr, "cloister-tools is started by cloister-supervisor only\n");
		return 125;
	}
	/* If the supervisor dies, the servers' cells are killed too. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	prctl(PR_SET_DUMPABLE, 0);
	for (int fd = TOOLS_CONTROL_FD; fd <= TOOLS_EVENTS_FD; fd++)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	/* A supervisor that is busy loses records; the agent's calls go on. */
	(void)fcntl(TOOLS_EVENTS_FD, F_SETFL, O_NONBLOCK);
	signal(SIGPIPE, SIG_IGN);
	r = run(learns, &policy, &err);
	tools_keeper_end();
	if (r < 0)
		fprintf(stderr, "cloister-tools: %s\n", err.text);
	return r < 0;
}
