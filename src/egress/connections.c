/* connections.c - what the pool of connections has to know of the courier (struct pool_owner). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "egress/courier.h"
#include "ipc/ipc.h"
#include "ipc/tools_channel.h"

/* The rules that allow an exchange: earlier rules may still deny addresses. */
struct rules {
	struct courier_policy *policy;
	struct policy_way way;
};

static void *
take_rules(const struct transfer *t)
{
	const struct exchange *ex = exchange_of_const(t);
	struct rules *rules = malloc(sizeof(*rules));

	if (rules != NULL)
		*rules = (struct rules){ courier_policy_use(ex->policy), exchange_way(ex) };
	return rules;
}

static void
release_rules(void *arg)
{
	struct rules *rules = arg;

	courier_policy_release(rules->policy);
	free(rules);
}

static bool
has_rules(const struct transfer *t, const void *arg)
{
	const struct exchange *ex = exchange_of_const(t);
	const struct rules *rules = arg;
	struct policy_way way = exchange_way(ex);

	return ex->policy == rules->policy && memcmp(&way, &rules->way, sizeof(way)) == 0;
}

static const char *
denies(const void *arg, const char *address, uint16_t port)
{
	const struct rules *rules = arg;
	int rule = policy_denies_address(rules->policy->policy, &rules->way, address, port);

	return rule < 0 ? NULL : policy_rule_place(rules->policy->policy, rule);
}

static bool
is_slowed(void *arg)
{
	return courier_is_slowed(arg);
}

static bool
is_behind(void *arg)
{
	struct courier *c = arg;

	return mux_is_full(c->gate);
}

static bool
has_secrets(void *arg)
{
	struct courier *c = arg;

	return c->secrets.view != NULL;
}

static int
show_certificate(void *arg, unsigned certificate, SSL *ssl, struct err *err)
{
	struct courier *c = arg;

	return mtls_show(&c->secrets, certificate, ssl, err);
}

static void
at_round_end(void *arg)
{
	courier_at_round_end(arg);
}

static void
wake(void *arg)
{
	courier_wake(arg);
}

static int
connect_tools(void *arg, struct err *err)
{
	const struct courier *c = arg;
	OWN(buf_free) struct buf message = {0};
	OWN(closep) int ours = -1, theirs = -1;
	int ends[2];

	if (c->tools <= 0)
		return err_set(err, ENOENT, "the cell was started without tools: start a new cell to use them");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return err_errno(err, "cannot connect to the tools");
	ours = ends[0];
	theirs = ends[1];
	ipc_begin(&message, TOOLS_CONNECT);
	if (ipc_send(c->tools, &message, &theirs, 1, NULL) < 0)
		return err_set(err, EPIPE, "cloister-tools has ended; start the cell again");
	return TAKE_FD(ours);
}

const struct pool_owner courier_pool_owner = {
	.is_slowed = is_slowed, .is_behind = is_behind, .has_secrets = has_secrets,
	.show_certificate = show_certificate, .certificate_shown = mtls_shown,
	.at_round_end = at_round_end, .wake = wake, .take_rules = take_rules,
	.release_rules = release_rules, .has_rules = has_rules, .denies = denies,
	.connect_tools = connect_tools,
};
