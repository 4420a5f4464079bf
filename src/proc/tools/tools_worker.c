/* tools_worker.c - the half of cloister-tools that reads what the agent and the servers send.
 *
 * It has only its channels and what comes over them: connections of the agent, and the streams of servers.  It gives
 * up everything else before it reads the first byte. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "confine/lockdown.h"
#include "ipc/ipc.h"
#include "proc/tools/tools_worker.h"

#define COURIERS_MAX 4                  /* at once: a new one may come before the old one is gone */

struct loop *gateway_loop;
const struct policy_tools *gateway_tools;
const struct policy *gateway_policy;
static struct loop_source keeper = { .fd = TOOLS_WORKER_FD }, couriers[COURIERS_MAX];

void
worker_send(const struct buf *message)
{
	/* Without its keeper it can do nothing more. */
	if (ipc_send(TOOLS_WORKER_FD, message, NULL, 0, NULL) < 0)
		exit(1);
}

/* ---- the courier ---- */

static void
courier_ready(void *arg, uint32_t events)
{
	struct loop_source *courier = arg;
	OWN(ipc_message_free) struct ipc_message message = { .fds = { -1, -1, -1, -1 } };
	int r = ipc_receive(courier->fd, &message, NULL);

	(void)events;
	if (r == -EAGAIN)
		return;
	if (r == 0 && message.type == TOOLS_CONNECT && message.n_fds == 1 && buf_left(&message.body) == 0) {
		int fd = ipc_take_fd(&message, 0);

		if (fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
			tools_http_give(fd);
		return;
	}
	loop_unwatch(gateway_loop, courier);
	closep(&courier->fd);
	courier->fd = -1;
}

static void
take_courier(int fd)
{
	for (size_t i = 0; i < COURIERS_MAX; i++) {
		if (couriers[i].fd >= 0)
			continue;
		couriers[i] = (struct loop_source){ .fd = fd, .ready = courier_ready, .arg = &couriers[i] };
		if (fcntl(fd, F_SETFL, O_NONBLOCK) == 0 && loop_watch(gateway_loop, &couriers[i], EPOLLIN, NULL) == 0)
			return;
		couriers[i].fd = -1;
		break;
	}
	close(fd);
}

/* ---- the keeper ---- */

static int
hear_answer(struct ipc_message *message)
{
	const char *why;
	uint64_t question;
	uint32_t yes;

	if (buf_get_u64(&message->body, &question) < 0 || buf_get_u32(&message->body, &yes) < 0 ||
	    buf_get_str(&message->body, &why) < 0)
		return -EBADMSG;
	result_answered(question, yes == 1, why);
	return 0;
}

static int
hear(struct ipc_message *message)
{
	int fds[3];
	const char *text;
	uint32_t number;

	if (message->type == TOOLS_SERVE && message->n_fds == 1) {
		take_courier(ipc_take_fd(message, 0));
		return 0;
	}
	if (message->type == TOOLS_ANSWER)
		return hear_answer(message);
	if (buf_get_u32(&message->body, &number) < 0 || buf_get_str(&message->body, &text) < 0)
		return -EBADMSG;
	if (message->type == TOOLS_ENDED) {
		instance_ended(number, text);
		return 0;
	}
	if (message->type == TOOLS_FROZEN) {
		instance_frozen(number, text);
		return 0;
	}
	if (message->type == TOOLS_HELD) {
		instance_held(number, text);
		return 0;
	}
	if (message->type != TOOLS_STARTED || message->n_fds != 3)
		return -EBADMSG;
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		fds[i] = ipc_take_fd(message, i);
	instance_started(number, text, fds);
	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		closep(&fds[i]);
	return 0;
}

static void
keeper_ready(void *arg, uint32_t events)
{
	OWN(ipc_message_free) struct ipc_message message = { .fds = { -1, -1, -1, -1 } };

	(void)arg, (void)events;
	if (ipc_receive(TOOLS_WORKER_FD, &message, NULL) < 0 || hear(&message) < 0)
		exit(1);
}

/* Does what libraries would do at their first use. */
static void
prepare(void)
{
	json_object_seed(0);
	(void)OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	for (size_t i = 0; i < COURIERS_MAX; i++)
		couriers[i].fd = -1;
}

int
tools_worker_main(bool learns)
{
	const struct lockdown what_is_left = { .filter = FILTER_MCP };
	OWN(policy_freep) struct policy *policy = NULL;
	struct err err = {0};
	int r;

	signal(SIGPIPE, SIG_IGN);
	prepare();
	r = tools_read_policy(TOOLS_WORKER_POLICY_FD, &policy, &err);
	gateway_tools = r < 0 ? NULL : policy_tools_of(policy);
	gateway_policy = learns ? NULL : policy;
	r = r < 0 ? r : lockdown_enter(&what_is_left, TOOLS_WORKER_POLICY_FD, &err);
	r = r < 0 ? r : loop_new(&gateway_loop, &err);
	keeper.ready = keeper_ready;
	r = r < 0 ? r : loop_watch(gateway_loop, &keeper, EPOLLIN, &err);
	r = r < 0 ? r : tools_http_begin(&err);
	if (r == 0)
		loop_linger(gateway_loop);
	r = r < 0 ? r : loop_run(gateway_loop, &err);
	fprintf(stderr, "cloister-tools: %s\n", err.text);
	return 125;
}
