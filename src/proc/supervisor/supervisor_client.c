/* supervisor_client.c - the clients of the control socket: who they are, and what they are sent. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_exec_error.h"
#include "ipc/control_channel.h"
#include "proc/supervisor/supervisor.h"

void
supervisor_client_drop(struct client *client)
{
	struct supervisor *sv = client->sv;
	struct client **at = &sv->clients;

	while (*at != client)
		at = &(*at)->next;
	*at = client->next;
	sv->n_clients--;
	sv->n_staying -= client->stays;
	/* Nobody waits for its changes any more. */
	for (struct steer *s = sv->steering.first; s != NULL; s = s->next)
		if (s->client == client)
			s->client = NULL;
	supervisor_seat_free(client);
	supervisor_copy_end(sv, client);
	if (client->held != NULL) {
		ipc_message_free(client->held);
		free(client->held);
	}
	supervisor_saver_left(sv, client);
	supervisor_fork_left(sv, client);
	loop_unwatch(sv->loop, &client->source);
	close(client->source.fd);
	free(client);
}

void
supervisor_client_send(struct client *client, const struct buf *message, const int *fds,
                       size_t n_fds)
{
	(void)ipc_send(client->source.fd, message, fds, n_fds, NULL);
}

void
supervisor_client_refuse(struct client *client, const struct err *err)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, CONTROL_REFUSED);
	buf_put_u32(&message, (uint32_t)err->code);
	buf_put_str(&message, err->text);
	supervisor_client_send(client, &message, NULL, 0);
}

uid_t
supervisor_client_describe(const struct client *client, char *ret_by, size_t size)
{
	struct ucred peer = { .pid = 0, .uid = (uid_t)-1 };
	socklen_t len = sizeof(peer);

	(void)getsockopt(client->source.fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	snprintf(ret_by, size, "uid %u, pid %d", (unsigned)peer.uid, (int)peer.pid);
	return peer.uid;
}

bool
supervisor_client_is_operator(const struct client *client)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(client->source.fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

/* ---- commands that run in the cell ---- */

static struct client *
find_exec(struct supervisor *sv, uint32_t handle)
{
	struct client *client = sv->clients;

	while (client != NULL && (client->request != CONTROL_EXEC || client->handle != handle))
		client = client->next;
	return client;
}

void
supervisor_spawned(struct supervisor *sv, uint32_t handle, uint32_t error, int master)
{
	struct client *client = find_exec(sv, handle);
	OWN(buf_free) struct buf message = {0};

	if (client == NULL) {
		supervisor_signal(sv, handle, SIGHUP);
		return;
	}
	client->started = error == 0;
	ipc_begin(&message, CONTROL_STARTED);
	buf_put_u32(&message, error);
	supervisor_client_send(client, &message, &master, master >= 0 ? 1 : 0);
	if (error != 0)
		supervisor_client_drop(client);
}

void
supervisor_exited(struct supervisor *sv, uint32_t handle, uint32_t status)
{
	struct client *client = find_exec(sv, handle);
	OWN(buf_free) struct buf message = {0};

	if (client == NULL)
		return;
	ipc_begin(&message, CONTROL_EXITED);
	buf_put_u32(&message, status);
	supervisor_client_send(client, &message, NULL, 0);
	supervisor_client_drop(client);
}

void
supervisor_tell_started(struct supervisor *sv)
{
	OWN(buf_free) struct buf done;
	struct client *next;
	struct err err = {0};

	ipc_begin(&done, CONTROL_DONE);
	if (sv->spawn_error != 0)
		(void)cell_explain_exec_error(&sv->spec, sv->spec.argv[0], sv->spawn_error, &err);
	for (struct client *c = sv->clients; c != NULL; c = next) {
		next = c->next;
		if (c->request != CONTROL_START)
			continue;
		if (sv->spawn_error != 0)
			supervisor_client_refuse(c, &err);
		else
			supervisor_client_send(c, &done, NULL, 0);
		supervisor_client_drop(c);
	}
}

void
supervisor_say_to_execs(const struct supervisor *sv, const char *text)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, CONTROL_SAYS);
	buf_put_str(&message, text);
	for (struct client *c = sv->clients; c != NULL; c = c->next)
		if ((c->request == CONTROL_EXEC && c->started) || c->seat != NULL)
			supervisor_client_send(c, &message, NULL, 0);
}

/* ---- the end ---- */

static void
patience_over(void *arg)
{
	supervisor_check_end(arg);
}

void
supervisor_tell_dead(struct supervisor *sv)
{
	OWN(buf_free) struct buf message = {0};

	if (!supervisor_egress_is_over(sv) || !supervisor_witness_is_over(sv))
		return;
	ipc_begin(&message, CONTROL_DEAD);
	for (struct client *c = sv->clients; c != NULL; c = c->next)
		if (c->request == CONTROL_KILL)
			supervisor_client_send(c, &message, NULL, 0);
	loop_prepare_timer(&sv->patience, patience_over, sv);
	loop_set_timer(sv->loop, &sv->patience, 1000);
}

bool
supervisor_is_awaited(const struct supervisor *sv)
{
	const struct client *c = sv->clients;

	while (c != NULL && c->request != CONTROL_KILL)
		c = c->next;
	return c != NULL && sv->patience.at_ms != 0;
}

void
supervisor_tell_ended(struct supervisor *sv, uint32_t status)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, CONTROL_ENDED);
	buf_put_u32(&message, status);
	buf_put_str(&message, sv->cause);
	while (sv->clients != NULL) {
		uint32_t request = sv->clients->request;

		if (request == CONTROL_WAIT || request == CONTROL_STOP || request == CONTROL_KILL ||
		    request == CONTROL_ATTACH)
			supervisor_client_send(sv->clients, &message, NULL, 0);
		supervisor_client_drop(sv->clients);
	}
}
