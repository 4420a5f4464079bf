/* supervisor_control.c - the control socket: the requests that operators' tools may make. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "ipc/control_channel.h"
#include "ipc/init_channel.h"
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
	supervisor_steer_forget(sv, client);
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

static int
answer_info(struct client *client, struct ipc_message *message)
{
	struct supervisor *sv = client->sv;
	OWN(buf_free) struct buf answer = {0};
	struct boundary_usage usage;
	pid_t first, agent;

	if (buf_left(&message->body) != 0)
		return -EBADMSG;
	supervisor_usage(sv, &usage);
	sv->boundary->pids(sv->walls, &first, &agent);
	ipc_begin(&answer, CONTROL_IS);
	buf_put_u32(&answer, sv->dead ? CONTROL_STATE_DEAD :
	                     sv->frozen ? CONTROL_STATE_FROZEN : CONTROL_STATE_RUNS);
	cell_spec_put(&answer, &sv->spec);
	buf_put_u64(&answer, sv->started_ns);
	buf_put_u32(&answer, (uint32_t)getpid());
	buf_put_u32(&answer, (uint32_t)first);
	buf_put_u32(&answer, sv->agent_ran ? (uint32_t)agent : 0);
	buf_put_u64(&answer, usage.memory);
	buf_put_u64(&answer, usage.pids);
	buf_put_u32(&answer, sv->boundary->facts(sv->walls).can_freeze);
	buf_put_u32(&answer, (uint32_t)sv->approvals.n_pending);
	supervisor_client_send(client, &answer, NULL, 0);
	return -EPIPE;
}

static int
answer_wait(struct client *client, struct ipc_message *message)
{
	client->state = CLIENT_WAITS;
	supervisor_check_end(client->sv);
	return buf_left(&message->body) == 0 ? 0 : -EBADMSG;
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

/* The requester is named behind the request, or else known only by the socket. */
static int
take_who(struct client *client, struct buf *body, struct steer_who *ret_who)
{
	*ret_who = (struct steer_who){0};
	if (buf_left(body) == 0) {
		ret_who->uid = supervisor_client_describe(client, ret_who->by, sizeof(ret_who->by));
		return 0;
	}
	return steer_take_who(client, body, ret_who) < 0 || buf_left(body) != 0 ? -EBADMSG : 0;
}

/* Copies the last record to the operator's timeline. */
static void
tell_operator(struct supervisor *sv, const char *type, const struct steer_who *who)
{
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "by", who->by);
	members_str(&m, "why", who->why);
	if (!who->tells)
		supervisor_tell_operator(sv, type, &m);
}

static int
answer_stop(struct client *client, struct ipc_message *message)
{
	struct steer_who who;
	uint32_t grace;

	if (buf_get_u32(&message->body, &grace) < 0 || take_who(client, &message->body, &who) < 0)
		return -EBADMSG;
	client->state = CLIENT_WAITS;
	supervisor_record(client->sv, "stopped", who.by, who.why);
	tell_operator(client->sv, "cell.stop", &who);
	supervisor_stop(client->sv, grace, KILLED_BY_OPERATOR);
	return 0;
}

static int
answer_kill(struct client *client, struct ipc_message *message)
{
	/* The clients that had the cell killed were informed already, so this one must be answered here. */
	bool is_late = client->sv->dead && supervisor_egress_is_over(client->sv);
	OWN(buf_free) struct buf answer;
	struct steer_who who;

	ipc_begin(&answer, CONTROL_DEAD);
	if (take_who(client, &message->body, &who) < 0)
		return -EBADMSG;
	client->state = CLIENT_KILLS;
	if (is_late)
		supervisor_client_send(client, &answer, NULL, 0);
	/* Kill first, then record it. */
	supervisor_kill(client->sv, KILLED_BY_OPERATOR);
	supervisor_record(client->sv, "killed", who.by, who.why);
	tell_operator(client->sv, "cell.kill", &who);
	return 0;
}

static int
freeze_or_thaw(struct client *client, struct ipc_message *message, bool freeze)
{
	struct supervisor *sv = client->sv;
	bool changes = freeze ? !sv->frozen || sv->frozen_for_approval : sv->frozen;
	OWN(buf_free) struct buf answer;
	struct steer_who who;
	struct err err = {0};

	ipc_begin(&answer, CONTROL_DONE);
	if (take_who(client, &message->body, &who) < 0)
		return -EBADMSG;
	if (!sv->begun || sv->dead)
		(void)err_set(&err, ESRCH, "the cell is ending");
	else if (freeze)
		(void)supervisor_freeze(sv, who.by, &err);
	else
		(void)supervisor_thaw(sv, who.by, &err);
	if (err.code == 0 && changes)
		tell_operator(sv, freeze ? "cell.freeze" : "cell.thaw", &who);
	if (err.code != 0)
		supervisor_client_refuse(client, &err);
	else
		supervisor_client_send(client, &answer, NULL, 0);
	return -EPIPE;
}

static int
answer_freeze(struct client *client, struct ipc_message *message)
{
	return freeze_or_thaw(client, message, true);
}

static int
answer_thaw(struct client *client, struct ipc_message *message)
{
	return freeze_or_thaw(client, message, false);
}

/* The client's own tool checked this.  It is checked again, because the descriptor passes into the cell. */
static bool
may_enter(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 &&
	       (S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)));
}

/* Whether init will understand the message: a mistake there would end the cell. */
static bool
is_spawn(const struct ipc_message *message)
{
	OWN(strv_freep) char **argv = NULL;
	OWN(strv_freep) char **env = NULL;
	struct buf b = message->body;           /* a reader of its own */
	uint32_t flags, rows, columns;
	const char *cwd;

	for (size_t i = 0; i < message->n_fds; i++)
		if (!may_enter(message->fds[i]))
			return false;
	return buf_get_u32(&b, &flags) == 0 && (flags & ~(uint32_t)INIT_TTY) == 0 &&
	       buf_get_u32(&b, &rows) == 0 && buf_get_u32(&b, &columns) == 0 &&
	       buf_get_str(&b, &cwd) == 0 && buf_dup_strv(&b, CELL_ARGS_MAX, &argv) == 0 &&
	       buf_dup_strv(&b, CELL_ARGS_MAX, &env) == 0 && buf_left(&b) == 0 &&
	       argv[0] != NULL &&
	       (flags == INIT_TTY ? message->n_fds <= 1 : message->n_fds == 3);
}

static void
record_exec(struct client *client, struct buf body)
{
	OWN(strv_freep) char **argv = NULL;
	uint32_t flags, rows, columns;
	const char *cwd;
	char by[48];

	if (buf_get_u32(&body, &flags) < 0 || buf_get_u32(&body, &rows) < 0 ||
	    buf_get_u32(&body, &columns) < 0 || buf_get_str(&body, &cwd) < 0 ||
	    buf_dup_strv(&body, CELL_ARGS_MAX, &argv) < 0)
		return;
	(void)supervisor_client_describe(client, by, sizeof(by));
	supervisor_record_exec(client->sv, by, argv);
}

static int
answer_exec(struct client *client, struct ipc_message *message)
{
	struct supervisor *sv = client->sv;
	struct err err = {0};

	if (!is_spawn(message))
		return -EBADMSG;
	client->state = CLIENT_EXEC;
	client->handle = ++sv->next_handle;
	if (!sv->begun || sv->dead)
		(void)err_set(&err, ESRCH, "the cell is ending");
	else if (sv->frozen_for_approval)
		(void)err_set(&err, EBUSY, "the cell stands still until what it asks for is answered: see "
		              "`cloister approvals %s`", sv->spec.id);
	else if (sv->frozen)
		(void)err_set(&err, EBUSY, "the cell is frozen: `cloister thaw %s` first", sv->spec.id);
	else
		(void)supervisor_send_spawn(sv, client->handle, &message->body, message->fds,
		                            message->n_fds, &err);
	if (err.code != 0) {
		supervisor_client_refuse(client, &err);
		return -EPIPE;
	}
	record_exec(client, message->body);
	return 0;
}

static int
answer_signal(struct client *client, struct ipc_message *message)
{
	uint32_t number;

	if (buf_get_u32(&message->body, &number) < 0 || buf_left(&message->body) != 0 ||
	    number == 0 || number > 64)
		return -EBADMSG;
	supervisor_signal(client->sv, client->handle, (int)number);
	return 0;
}

static int
answer_resize(struct client *client, struct ipc_message *message)
{
	struct supervisor *sv = client->sv;
	uint32_t rows, columns;

	if (buf_get_u32(&message->body, &rows) < 0 || buf_get_u32(&message->body, &columns) < 0 ||
	    buf_left(&message->body) != 0)
		return -EBADMSG;
	port_resize(sv->boundary->port(sv->walls), client->handle, rows, columns);
	return 0;
}

/* The requests that a client may make, and when.  Any other drops the client. */
static const struct route {
	uint32_t type;
	int state;
	int (*answer)(struct client *client, struct ipc_message *message);
} client_may_ask[] = {
	{ CONTROL_INFO, CLIENT_NEW, answer_info },
	{ CONTROL_FREEZE, CLIENT_NEW, answer_freeze },
	{ CONTROL_THAW, CLIENT_NEW, answer_thaw },
	{ CONTROL_WAIT, CLIENT_NEW, answer_wait },
	{ CONTROL_WAIT, CLIENT_KILLS, answer_wait },
	{ CONTROL_STOP, CLIENT_NEW, answer_stop },
	{ CONTROL_KILL, CLIENT_NEW, answer_kill },
	{ CONTROL_EXEC, CLIENT_NEW, answer_exec },
	{ CONTROL_SIGNAL, CLIENT_EXEC, answer_signal },
	{ CONTROL_RESIZE, CLIENT_EXEC, answer_resize },
	{ CONTROL_SET_POLICY, CLIENT_NEW, supervisor_answer_set_policy },
	{ CONTROL_GET_POLICY, CLIENT_NEW, supervisor_answer_get_policy },
	{ CONTROL_REVOKE, CLIENT_NEW, supervisor_answer_revoke },
	{ CONTROL_ROTATE, CLIENT_NEW, supervisor_answer_rotate },
	{ CONTROL_SECRETS, CLIENT_NEW, supervisor_answer_secrets },
	{ CONTROL_TTL, CLIENT_NEW, supervisor_answer_ttl },
	{ CONTROL_TAKEN, CLIENT_NEW, supervisor_answer_taken },
	{ CONTROL_GET_BUDGET, CLIENT_NEW, supervisor_answer_get_budget },
	{ CONTROL_RAISE, CLIENT_NEW, supervisor_answer_raise },
	{ CONTROL_APPROVALS, CLIENT_NEW, supervisor_answer_approvals },
	{ CONTROL_APPROVALS, CLIENT_APPROVALS, supervisor_answer_approvals },
	{ CONTROL_APPROVE, CLIENT_NEW, supervisor_answer_approve },
	{ CONTROL_REFUSE_ASKED, CLIENT_NEW, supervisor_answer_refuse_asked },
};

/* Clients that make these requests stay as long as they like.  A client that had the cell killed
 * stays until its end. */
static bool
wants_seat(const struct client *client, uint32_t type)
{
	return client->state == CLIENT_NEW && (type == CONTROL_WAIT || type == CONTROL_EXEC ||
	                                       type == CONTROL_APPROVALS);
}

static bool
take_seat(struct client *client)
{
	struct supervisor *sv = client->sv;
	struct err err;

	if (sv->n_staying == SUPERVISOR_STAY_MAX) {
		(void)err_set(&err, EBUSY, "%d clients wait for cell %s or run commands in it already: end some "
		              "of them", SUPERVISOR_STAY_MAX, sv->spec.id);
		supervisor_client_refuse(client, &err);
		return false;
	}
	client->stays = true;
	sv->n_staying++;
	return true;
}

static int
answer(struct client *client, const struct route *route, struct ipc_message *message)
{
	if (route == NULL || (wants_seat(client, route->type) && !take_seat(client)))
		return -EPIPE;
	return route->answer(client, message);
}

static void
client_ready(void *arg, uint32_t events)
{
	struct client *client = arg;
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(client->source.fd, &message, NULL);
	const struct route *route = NULL;
	struct supervisor *sv;

	(void)events;
	if (r == -EAGAIN)
		return;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(client_may_ask); i++)
		if (client_may_ask[i].type == message.type &&
		    client_may_ask[i].state == (int)client->state)
			route = &client_may_ask[i];
	r = answer(client, route, &message);
	if (r == 0)
		return;
	/* The client started a process and went away: hang up the process. */
	if (client->state == CLIENT_EXEC && client->started)
		supervisor_signal(client->sv, client->handle, SIGHUP);
	sv = client->sv;
	supervisor_client_drop(client);
	supervisor_check_end(sv);
}

static bool
may_connect(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       (peer.uid == geteuid() || peer.uid == 0);
}

/* There is always room for one more client, which may want to end the cell.  The oldest client
 * without a request yields, or else the oldest whose request is done, or soon will be. */
static void
make_room(struct supervisor *sv)
{
	struct client *silent = NULL, *served = NULL;

	/* The list has the newest first. */
	for (struct client *c = sv->clients; c != NULL; c = c->next) {
		silent = c->state == CLIENT_NEW ? c : silent;
		served = !c->stays ? c : served;
	}
	if (sv->n_clients == SUPERVISOR_CLIENTS_MAX)
		supervisor_client_drop(silent != NULL ? silent : served);
}

static void
listener_ready(void *arg, uint32_t events)
{
	struct supervisor *sv = arg;
	OWN(closep) int fd = accept4(sv->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct client *client;

	(void)events;
	if (fd < 0 || !may_connect(fd))
		return;
	make_room(sv);
	client = calloc(1, sizeof(*client));
	if (client == NULL)
		return;
	client->sv = sv;
	client->source = (struct loop_source){ .fd = fd, .ready = client_ready, .arg = client };
	if (loop_watch(sv->loop, &client->source, EPOLLIN, NULL) < 0) {
		free(client);
		return;
	}
	client->source.fd = TAKE_FD(fd);
	client->next = sv->clients;
	sv->clients = client;
	sv->n_clients++;
}

int
supervisor_listen(struct supervisor *sv, struct err *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	/* Use /proc: a path may be longer than a socket address can be. */
	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/" CELL_CONTROL,
	         sv->place.dir);
	sv->listener = (struct loop_source){ .ready = listener_ready, .arg = sv,
		.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) };
	if (sv->listener.fd < 0 ||
	    bind(sv->listener.fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(sv->listener.fd, 64) < 0)
		return err_errno(err, "cannot make the cell's control socket");
	return loop_watch(sv->loop, &sv->listener, EPOLLIN, err);
}

static struct client *
find_exec(struct supervisor *sv, uint32_t handle)
{
	struct client *client = sv->clients;

	while (client != NULL && (client->state != CLIENT_EXEC || client->handle != handle))
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
supervisor_say_to_execs(const struct supervisor *sv, const char *text)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, CONTROL_SAYS);
	buf_put_str(&message, text);
	for (struct client *c = sv->clients; c != NULL; c = c->next)
		if (c->state == CLIENT_EXEC && c->started)
			supervisor_client_send(c, &message, NULL, 0);
}

static void
patience_over(void *arg)
{
	supervisor_check_end(arg);
}

void
supervisor_tell_dead(struct supervisor *sv)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, CONTROL_DEAD);
	for (struct client *c = sv->clients; c != NULL; c = c->next)
		if (c->state == CLIENT_KILLS)
			supervisor_client_send(c, &message, NULL, 0);
	sv->patience = (struct loop_timer){ .due = patience_over, .arg = sv };
	loop_set_timer(sv->loop, &sv->patience, 1000);
}

bool
supervisor_is_awaited(const struct supervisor *sv)
{
	const struct client *c = sv->clients;

	while (c != NULL && c->state != CLIENT_KILLS)
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
		if (sv->clients->state == CLIENT_WAITS || sv->clients->state == CLIENT_KILLS)
			supervisor_client_send(sv->clients, &message, NULL, 0);
		supervisor_client_drop(sv->clients);
	}
}
