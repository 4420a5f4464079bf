/* main.c - cloister-courier: decides on the agent's requests, and sends them.
 *
 *   fd 3  the supervisor: sends the policy and orders, receives events
 *   fd 4  the gate's mux
 *   fd 5  cloister-inspect's mux
 *   fd 6  cloister-publish, if webhooks come to the cell
 *   fd 7  the keeper, if secrets expire
 *   fd 8  cloister-hook, if rules have hooks
 *   fd 9  cloister-tools, if the cell has tools
 *
 * It reads its start message before it locks itself down, and messages of the gate only afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "confine/lockdown.h"
#include "egress/courier.h"
#include "ipc/courier_channel.h"
#include "ipc/ipc.h"
#include "ipc/webhook_channel.h"
#include "proc/courier/courier_gate.h"

#define ENVIRONMENT_MAX 64
#define READABLE_MAX 20

static struct courier courier;

struct orders {
	uint64_t flags;
	uint32_t n_steers;              /* steer messages that follow */
	struct courier_who who;
	char **environment;
	struct policy *policy;
	char *pem;
	size_t pem_len;
	int secrets, keeper;            /* descriptors, or -1 */
};

static void
orders_free(struct orders *o)
{
	strv_free(o->environment);
	policy_free(o->policy);
	free(o->pem);
	closep(&o->secrets);
	closep(&o->keeper);
}

/* The policy is the rest of the message, or in a descriptor with it. */
static int
take_policy(struct ipc_message *message, struct policy **ret_policy, struct err *err)
{
	OWN(closep) int fd = ipc_take_fd(message, 0);

	return fd < 0 ? policy_get(&message->body, ret_policy, err) :
	                courier_read_policy(fd, ret_policy, err);
}

static int
take_orders(struct orders *ret_orders, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = { .fds = { -1, -1, -1, -1 } };
	OWN(closep) int pem = -1;
	const char *id, *name, *chain, *principal;
	int r = ipc_receive(EGRESS_SUPERVISOR_FD, &message, err);

	if (r < 0)
		return r;
	if (message.type != COURIER_START ||
	    buf_get_u64(&message.body, &ret_orders->flags) < 0 ||
	    buf_get_u32(&message.body, &ret_orders->n_steers) < 0 ||
	    ret_orders->n_steers > COURIER_STEERS_FIRST ||
	    buf_get_str(&message.body, &id) < 0 || buf_get_str(&message.body, &name) < 0 ||
	    buf_get_str(&message.body, &chain) < 0 || buf_get_str(&message.body, &principal) < 0 ||
	    buf_dup_strv(&message.body, ENVIRONMENT_MAX, &ret_orders->environment) < 0)
		return err_set(err, EBADMSG, "the supervisor's first message is malformed");
	snprintf(ret_orders->who.cell, sizeof(ret_orders->who.cell), "%s", id);
	snprintf(ret_orders->who.chain, sizeof(ret_orders->who.chain), "%s", chain);
	snprintf(ret_orders->who.principal, sizeof(ret_orders->who.principal), "%s", principal);
	if ((ret_orders->flags & COURIER_SECRETS) != 0) {
		size_t last = message.n_fds - ((ret_orders->flags & COURIER_KEEPER) != 0 ? 2 : 1);

		ret_orders->secrets = message.n_fds < 2 ? -1 : ipc_take_fd(&message, last);
		if ((ret_orders->flags & COURIER_KEEPER) != 0)
			ret_orders->keeper = ipc_take_fd(&message, last + 1);
		if (ret_orders->secrets < 0)
			return err_set(err, EBADMSG, "the supervisor's first message is malformed");
	}
	pem = ipc_take_fd(&message, 1);
	if (pem >= 0)
		r = courier_read_whole(pem, TLS_CA_FILE_MAX, &ret_orders->pem, &ret_orders->pem_len, err);
	return r < 0 ? r : take_policy(&message, &ret_orders->policy, err);
}

/* Add the folders of SSL_CERT_DIR.  LIST is separated by ":", and is cut into pieces. */
static size_t
add_folders(char *list, const char **readable, size_t n)
{
	char *rest = list, *folder;

	while (n < READABLE_MAX && (folder = strsep(&rest, ":")) != NULL)
		if (folder[0] == '/' && access(folder, R_OK) == 0)
			readable[n++] = folder;
	return n;
}

/* The courier reads certificates when a server shows one, and /etc/hosts for each name. */
static int
lock_down(char **environment, int keep_fds, struct err *err)
{
	const char *readable[READABLE_MAX + 1] = { "/etc/hosts", "/etc/resolv.conf",
	                                           "/etc/nsswitch.conf", "/etc/gai.conf" };
	size_t n = 4;
	struct lockdown l = { .filter = FILTER_COURIER, .network = true, .readable = readable };

	for (size_t i = 0; tls_readable[i] != NULL && n < READABLE_MAX; i++)
		if (access(tls_readable[i], R_OK) == 0)
			readable[n++] = tls_readable[i];
	for (; environment != NULL && *environment != NULL; environment++)
		if (strncmp(*environment, "SSL_CERT_DIR=", 13) == 0)
			n = add_folders(*environment + 13, readable, n);
	return lockdown_enter(&l, keep_fds, err);
}

static int
take_recorded(struct courier *c, struct ipc_message *message)
{
	uint64_t number;

	if (buf_get_u64(&message->body, &number) < 0)
		return -EBADMSG;
	courier_recorded(c, number);
	return 0;
}

static int
take_halt(struct courier *c, struct ipc_message *message)
{
	const char *why;

	if (buf_get_str(&message->body, &why) < 0)
		return -EBADMSG;
	courier_halt(c, why);
	return 0;
}

static const struct {
	uint32_t type;
	int (*take)(struct courier *c, struct ipc_message *message);
} supervisor_may_say[] = {
	{ COURIER_STEER, courier_steer },
	{ COURIER_RECORDED, take_recorded },
	{ COURIER_HALT, take_halt },
};

static int
hear(struct courier *c, struct ipc_message *message)
{
	for (size_t i = 0; i < ARRAY_LEN(supervisor_may_say); i++)
		if (supervisor_may_say[i].type == message->type)
			return supervisor_may_say[i].take(c, message);
	return -EBADMSG;
}

static void
quit(void *arg)
{
	struct courier *c = arg;

	loop_quit(c->loop);
}

/* What the gate said before this is still recorded: it is read in the same round. */
static void
leave(struct courier *c)
{
	static struct loop_round last = { .run = quit };

	last.arg = c;
	loop_at_round_end(c->loop, &last);
}

/* The supervisor has sent a message, or has gone. */
static void
supervisor_ready(void *arg, uint32_t events)
{
	struct courier *c = arg;
	OWN(ipc_message_free) struct ipc_message message = { .fds = { -1, -1, -1, -1 } };
	struct err err = {0};

	(void)events;
	if (ipc_receive(EGRESS_SUPERVISOR_FD, &message, &err) < 0) {
		if (err.code != EAGAIN)
			leave(c);
		return;
	}
	if (hear(c, &message) < 0)
		loop_quit(c->loop);
}

/* Apply the changes that must be in force before the first decision. */
static int
take_first(struct courier *c, uint32_t n, struct err *err)
{
	int r = 0;

	while (r == 0 && n > 0) {
		OWN(ipc_message_free) struct ipc_message message = { .fds = { -1, -1, -1, -1 } };

		r = ipc_receive(EGRESS_SUPERVISOR_FD, &message, err);
		if (r == 0 && message.type == COURIER_STEER)
			n--;
		if (r == 0 && hear(c, &message) < 0)
			r = err_set(err, EBADMSG, "a first message of the supervisor is malformed");
	}
	return r;
}

static void
caught(void *arg, const struct signalfd_siginfo *info)
{
	(void)info;
	leave(arg);
}

static int
run(struct courier *c, struct loop *loop, int inspect, int webhooks, int hooks, uint32_t n_steers,
    struct err *err)
{
	sigset_t signals;
	int r = courier_start(c, loop, EGRESS_SUPERVISOR_FD, EGRESS_MUX_FD, &courier_gate_handler,
	                      inspect, err);

	if (r < 0)
		return r;
	c->supervisor = (struct loop_source){ .fd = EGRESS_SUPERVISOR_FD, .ready = supervisor_ready,
	                                      .arg = c };
	/* Deliver the records before the process ends. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	r = loop_catch(loop, &signals, caught, c, err);
	if (r == 0)
		r = take_first(c, n_steers, err);
	if (r == 0)
		r = loop_watch(loop, &c->supervisor, EPOLLIN, err);
	if (r == 0 && c->keeper.fd >= 0)
		r = courier_start_keeper(c, err);
	if (r == 0 && webhooks >= 0)
		r = webhooks_start(c, webhooks, err);
	if (r == 0 && hooks >= 0)
		r = courier_start_hooks(c, hooks, err);
	if (r == 0) {
		loop_linger(loop);
		r = loop_run(loop, err);
	}
	if (r == 0 && c->gate_error != 0)
		r = err_set(err, -c->gate_error, "the gate broke off: %s", strerror(-c->gate_error));
	return r;
}

static int
place_keeper(struct orders *o, struct err *err)
{
	if (o->keeper != COURIER_KEEPER_FD && dup2(o->keeper, COURIER_KEEPER_FD) < 0)
		return err_errno(err, "cannot keep the channel for renewed secrets");
	if (o->keeper != COURIER_KEEPER_FD)
		close(o->keeper);
	o->keeper = -1;
	courier.keeper.fd = COURIER_KEEPER_FD;
	return 0;
}

#define FREED 0x5a                      /* the byte that overwrites freed memory */

int
main(void)
{
	OWN(orders_free) struct orders orders = { .secrets = -1, .keeper = -1 };
	OWN(loop_freep) struct loop *loop = NULL;
	/* Without inspect, a request that needs inspection is refused. */
	int inspect = fcntl(COURIER_INSPECT_FD, F_GETFD) < 0 ? -1 : COURIER_INSPECT_FD;
	int webhooks = fcntl(COURIER_WEBHOOK_FD, F_GETFD) < 0 ? -1 : COURIER_WEBHOOK_FD;
	int hooks = fcntl(COURIER_HOOK_FD, F_GETFD) < 0 ? -1 : COURIER_HOOK_FD;
	bool has_tools = fcntl(COURIER_TOOLS_FD, F_SETFL, O_NONBLOCK) == 0;
	struct err err = {0};
	int r;

	/* Signals from the operator's terminal are for the cell. */
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	/* Each connection needs a descriptor. */
	io_raise_files();
	/* Memory freed by libraries is overwritten too: heads and bodies with values pass through
	 * their buffers. */
	(void)mallopt(M_PERTURB, FREED);
	r = take_orders(&orders, &err);
	if (r == 0)
		r = courier_init(&courier, TAKE(orders.policy), (orders.flags & COURIER_LEARN) != 0,
		                 orders.environment, orders.pem, orders.pem_len, &err);
	if (r == 0 && orders.secrets >= 0)
		r = secrets_open(&courier.secrets, orders.secrets, &err);
	if (r == 0)
		r = webhooks_prepare(&courier, &err);
	closep(&orders.secrets);
	courier.who = orders.who;
	courier.alarms = (orders.flags & COURIER_ALARMS) != 0;
	courier.strict = (orders.flags & COURIER_STRICT) != 0;
	courier.keeper.fd = -1;
	if (r == 0 && orders.keeper >= 0)
		r = place_keeper(&orders, &err);
	/* Close these numbers, whatever they are, without their users: nothing else opened so far is
	 * needed. */
	if (webhooks < 0)
		close(COURIER_WEBHOOK_FD);
	if (courier.keeper.fd < 0)
		close(COURIER_KEEPER_FD);
	if (hooks < 0)
		close(COURIER_HOOK_FD);
	courier.tools = has_tools ? COURIER_TOOLS_FD : 0;
	if (r == 0)
		r = lock_down(orders.environment, has_tools ? COURIER_TOOLS_FD + 1 : COURIER_TOOLS_FD, &err);
	if (r == 0)
		r = loop_new(&loop, &err);
	if (r == 0)
		r = run(&courier, loop, inspect, webhooks, hooks, orders.n_steers, &err);
	if (courier.pool != NULL)
		courier_close(&courier);
	if (r < 0)
		fprintf(stderr, "cloister-courier: %s\n", err.text);
	return r < 0 || courier.bereft ? EXIT_FAILURE : EXIT_SUCCESS;
}
