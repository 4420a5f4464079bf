/* main.c - cloister-gate: turns the agent's bytes into canonical requests, and hands them to the
 * courier.
 *
 * It has no secret and no authority. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "confine/lockdown.h"
#include "ipc/courier_channel.h"
#include "ipc/ipc.h"
#include "proc/gate/gate.h"
#include "proc/gate/gate_names.h"

#define KEPT_FDS (GATE_SSH_FD + 1)
#define SPARE_FDS 32

/* The supervisor never sends anything here, so it has gone. */
static void
supervisor_ready(void *arg, uint32_t events)
{
	struct gate *g = arg;

	(void)events;
	loop_quit(g->loop);
}

static int
gate_read_start(struct gate *g, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	const char *certificate, *key;
	int r = ipc_receive(EGRESS_SUPERVISOR_FD, &message, err);

	if (r < 0)
		return r;
	message.body.wipes = true;
	if (message.type != GATE_START || buf_get_str(&message.body, &certificate) < 0 ||
	    buf_get_str(&message.body, &key) < 0)
		return err_set(err, EBADMSG, "the first message is unexpected");
	if (certificate[0] != '\0') {
		g->ca_certificate = OPENSSL_strdup(certificate);
		g->ca_key = OPENSSL_strdup(key);
		if (g->ca_certificate == NULL || g->ca_key == NULL)
			r = err_set(err, ENOMEM, "out of memory");
	}
	return r;
}

/* Allow as many connections as there may be descriptors. */
static void
gate_set_limits(struct gate *g)
{
	struct rlimit limit;

	g->conns_max = GATE_CONNS_MAX;
	io_raise_files();
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (limit.rlim_cur < GATE_CONNS_MAX + SPARE_FDS)
		g->conns_max = limit.rlim_cur > 2 * SPARE_FDS ? limit.rlim_cur - SPARE_FDS : SPARE_FDS;
}

/* Do everything that is not possible after the lock-down. */
static int
gate_prepare(struct gate *g, struct err *err)
{
	unsigned char seed[16];
	int r;

	signal(SIGPIPE, SIG_IGN);
	/* No configuration file may change the agent's TLS.  The library reads everything else that
	 * it needs from the system now. */
	OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	if (RAND_bytes(seed, sizeof(seed)) != 1)
		return err_set(err, EIO, "no random numbers are available");
	gate_set_limits(g);
	buf_init(&g->frame, MUX_FRAME_MAX);
	buf_init(&g->text, MUX_FRAME_MAX);
	gate_conn_init(g);
	r = gate_names_new(GATE_NAMES_FD, &g->names, err);
	return r == 0 ? gate_read_start(g, err) : r;
}

/* A machine without IPv6 has no sockets for it.  Check before anything is opened, which would take
 * their numbers. */
static bool
gate_has_ipv6(void)
{
	return fcntl(GATE_TCP6_FD, F_GETFD) >= 0 && fcntl(GATE_UDP6_FD, F_GETFD) >= 0;
}

/* The same for the SSH agent's socket. */
static bool
gate_has_ssh(void)
{
	return fcntl(GATE_SSH_FD, F_GETFD) >= 0;
}

static int
gate_watch(struct gate *g, bool ipv6, bool ssh, struct err *err)
{
	int r = loop_new(&g->loop, err);

	if (r == 0)
		r = mux_new(g->loop, EGRESS_MUX_FD, &gate_mux_handler, g, &g->mux, err);
	g->supervisor = (struct loop_source){
		.fd = EGRESS_SUPERVISOR_FD, .ready = supervisor_ready, .arg = g,
	};
	if (r == 0)
		r = loop_watch(g->loop, &g->supervisor, EPOLLIN, err);
	g->listeners[GATE_LISTENS6].fd = g->listeners[GATE_LISTENS_SSH].fd = -1;
	g->resolvers[1].fd = -1;
	if (r == 0)
		r = gate_listen(g, GATE_LISTENS4, GATE_TCP_FD, err);
	if (r == 0 && ipv6)
		r = gate_listen(g, GATE_LISTENS6, GATE_TCP6_FD, err);
	if (r == 0 && ssh)
		r = gate_listen(g, GATE_LISTENS_SSH, GATE_SSH_FD, err);
	if (r == 0)
		r = gate_dns_listen(g, 0, GATE_UDP_FD, err);
	if (r == 0 && ipv6)
		r = gate_dns_listen(g, 1, GATE_UDP6_FD, err);
	return r;
}

int
main(void)
{
	static const struct lockdown lockdown = { .filter = FILTER_GATE };
	static struct gate gate;
	struct err err = {0};
	bool ipv6 = gate_has_ipv6(), ssh = gate_has_ssh();
	int r = gate_prepare(&gate, &err);

	if (r == 0)
		r = lockdown_enter(&lockdown, KEPT_FDS, &err);
	if (r == 0)
		r = gate_watch(&gate, ipv6, ssh, &err);
	if (r == 0) {
		loop_linger(gate.loop);
		r = loop_run(gate.loop, &err);
	}
	if (r < 0)
		fprintf(stderr, "cloister-gate: %s\n", err.text);
	return r < 0;
}
