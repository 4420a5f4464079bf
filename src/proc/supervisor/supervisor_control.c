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

static void
put_use(struct buf *answer, const struct boundary_usage *usage)
{
	buf_put_u64(answer, usage->cpu_us);
	buf_put_u64(answer, usage->memory_peak);
	buf_put_u64(answer, usage->disk);
	buf_put_u32(answer, usage->has_io);
	buf_put_u64(answer, usage->read);
	buf_put_u64(answer, usage->written);
	buf_put_u32(answer, usage->has_pressure);
	buf_put_u64(answer, usage->pressure_cpu);
	buf_put_u64(answer, usage->pressure_io);
	buf_put_u64(answer, usage->pressure_memory);
}

static int
answer_info(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	OWN(buf_free) struct buf answer = {0};
	struct boundary_usage usage;
	pid_t first, agent;

	(void)call;
	supervisor_usage(sv, &usage);
	sv->boundary->pids(sv->walls, &first, &agent);
	ipc_begin(&answer, CONTROL_IS);
	buf_put_u32(&answer, sv->dead ? CONTROL_STATE_DEAD : supervisor_is_paused(sv) ? CONTROL_STATE_PAUSED :
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
	put_use(&answer, &usage);
	supervisor_client_send(client, &answer, NULL, 0);
	return -EPIPE;
}

static int
answer_wait(struct client *client, struct steer_call *call)
{
	(void)call;
	supervisor_check_end(client->sv);
	return 0;
}

/* Copies the last record to the operator's timeline. */
static void
tell_operator(struct supervisor *sv, const struct steer_call *call)
{
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "by", call->who.by);
	members_str(&m, "why", call->who.why);
	if (!call->who.tells)
		supervisor_tell_operator(sv, steer_rows[call->q.verb].record, &m);
}

static int
answer_stop(struct client *client, struct steer_call *call)
{
	supervisor_record(client->sv, "stopped", call->who.by, call->who.why);
	tell_operator(client->sv, call);
	supervisor_stop(client->sv, call->q.n[0], KILLED_BY_OPERATOR);
	return 0;
}

static int
answer_kill(struct client *client, struct steer_call *call)
{
	/* The clients that had the cell killed were informed already, so this one must be answered here. */
	bool is_late = client->sv->dead && supervisor_egress_is_over(client->sv);
	OWN(buf_free) struct buf answer;

	ipc_begin(&answer, CONTROL_DEAD);
	if (is_late)
		supervisor_client_send(client, &answer, NULL, 0);
	/* Kill first, then record it. */
	supervisor_kill(client->sv, KILLED_BY_OPERATOR);
	supervisor_record(client->sv, "killed", call->who.by, call->who.why);
	tell_operator(client->sv, call);
	return 0;
}

static int
answer_freeze_or_thaw(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	bool freeze = call->q.verb == VERB_FREEZE;
	bool changes = freeze ? !sv->frozen || sv->frozen_for_approval : sv->frozen;
	OWN(buf_free) struct buf answer;
	struct err err = {0};

	ipc_begin(&answer, CONTROL_DONE);
	if (freeze)
		(void)supervisor_freeze(sv, call->who.by, &err);
	else
		(void)supervisor_thaw(sv, call->who.by, &err);
	if (err.code == 0 && changes)
		tell_operator(sv, call);
	if (err.code != 0)
		supervisor_client_refuse(client, &err);
	else
		supervisor_client_send(client, &answer, NULL, 0);
	return -EPIPE;
}

/* The client's own tool checked this.  It is checked again, because the descriptor passes into the cell. */
static bool
may_enter(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 &&
	       (S_ISFIFO(st.st_mode) || (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3)));
}

/* A request to run a command. */
struct spawning {
	char **argv, **env;
	struct buf rest;                /* for init */
	const char *by;                 /* for whom, or NULL */
};

static void
spawning_free(struct spawning *s)
{
	strv_free(s->argv);
	strv_free(s->env);
}

/* Whether init will understand the message: a mistake there would end the cell. */
static bool
read_spawn(const struct ipc_message *message, struct spawning *ret)
{
	struct buf b = message->body;           /* a reader of its own */
	uint32_t flags, rows, columns;
	const char *cwd;

	for (size_t i = 0; i < message->n_fds; i++)
		if (!may_enter(message->fds[i]))
			return false;
	if (buf_get_u32(&b, &flags) < 0 || (flags != 0 && flags != INIT_TTY && flags != INIT_OWN) ||
	    buf_get_u32(&b, &rows) < 0 || buf_get_u32(&b, &columns) < 0 || buf_get_str(&b, &cwd) < 0 ||
	    buf_dup_strv(&b, CELL_ARGS_MAX, &ret->argv) < 0 || buf_dup_strv(&b, CELL_ARGS_MAX, &ret->env) < 0)
		return false;
	ret->rest = message->body;
	ret->rest.len = b.pos;
	if (buf_left(&b) > 0 && (buf_get_str(&b, &ret->by) < 0 || strlen(ret->by) > CONTROL_BY_MAX))
		return false;
	return buf_left(&b) == 0 && ret->argv[0] != NULL &&
	       (flags == INIT_TTY ? message->n_fds <= 1 : message->n_fds == 3);
}

static int
answer_exec(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;
	struct ipc_message *message = call->message;
	OWN(spawning_free) struct spawning s = {0};
	struct err err = {0};

	if (!read_spawn(message, &s))
		return -EBADMSG;
	client->handle = ++sv->next_handle;
	if (supervisor_send_spawn(sv, client->handle, &s.rest, message->fds, message->n_fds, &err) < 0)
		return steer_refuse(client, &err);
	supervisor_record_exec(sv, s.by != NULL && s.by[0] != '\0' ? s.by : call->who.by, s.argv);
	return 0;
}

static int
answer_signal(struct client *client, struct steer_call *call)
{
	uint64_t number = call->q.n[0];

	if (number == 0 || number > 64)
		return -EBADMSG;
	supervisor_signal(client->sv, client->handle, (int)number);
	return 0;
}

static int
answer_resize(struct client *client, struct steer_call *call)
{
	struct supervisor *sv = client->sv;

	port_resize(sv->boundary->port(sv->walls), client->handle, (uint32_t)call->q.n[0],
	            (uint32_t)call->q.n[1]);
	return 0;
}

static int
answer_start(struct client *client, struct steer_call *call)
{
	struct err err = {0};

	(void)call;
	return supervisor_start_held(client->sv, &err) < 0 ? steer_refuse(client, &err) : 0;
}

static int
answer_signal_agent(struct client *client, struct steer_call *call)
{
	uint64_t number = call->q.n[0];
	OWN(buf_free) struct buf answer = {0};

	if (number == 0 || number > 64)
		return -EBADMSG;
	supervisor_signal(client->sv, INIT_HANDLE_AGENT, (int)number);
	ipc_begin(&answer, CONTROL_DONE);
	supervisor_client_send(client, &answer, NULL, 0);
	return -EPIPE;
}

/* The functions that carry out the requests of steer/steer.c, once supervisor_may_ask() permits them. */
static int (*const answers[STEER_VERBS])(struct client *client, struct steer_call *call) = {
	[VERB_INFO] = answer_info,
	[VERB_WAIT] = answer_wait,
	[VERB_STOP] = answer_stop,
	[VERB_KILL] = answer_kill,
	[VERB_FREEZE] = answer_freeze_or_thaw,
	[VERB_THAW] = answer_freeze_or_thaw,
	[VERB_EXEC] = answer_exec,
	[VERB_SIGNAL] = answer_signal,
	[VERB_RESIZE] = answer_resize,
	[VERB_START] = answer_start,
	[VERB_SIGNAL_AGENT] = answer_signal_agent,
	[VERB_ATTACH] = supervisor_answer_attach,
	[VERB_COPY] = supervisor_answer_copy,
	[VERB_PAUSE] = supervisor_answer_pause,
	[VERB_RESUME] = supervisor_answer_resume,
	[VERB_FORK] = supervisor_answer_fork,
	[VERB_CHECKPOINT] = supervisor_answer_checkpoint,
	[VERB_TTL] = supervisor_answer_ttl,
	[VERB_GET_POLICY] = supervisor_answer_get_policy,
	[VERB_POLICY] = supervisor_answer_set_policy,
	[VERB_ALLOW] = supervisor_answer_set_policy,
	[VERB_DENY] = supervisor_answer_set_policy,
	[VERB_GET_BUDGET] = supervisor_answer_get_budget,
	[VERB_BUDGET] = supervisor_answer_raise,
	[VERB_APPROVALS] = supervisor_answer_approvals,
	[VERB_APPROVE] = supervisor_answer_approve,
	[VERB_REFUSE] = supervisor_answer_refuse_asked,
	[VERB_SECRETS] = supervisor_answer_secrets,
	[VERB_REVOKE] = supervisor_answer_revoke,
	[VERB_ROTATE] = supervisor_answer_rotate,
	[VERB_LOST_RIGHTS] = supervisor_answer_lost_rights,
};

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

/* Whether the request may come at this point of the connection. */
static bool
is_in_turn(const struct client *client, const struct steer_row *row)
{
	return client->request == 0 ? !row->later : client->request == (uint32_t)row->after;
}

int
supervisor_client_answer(struct client *client, struct ipc_message *message)
{
	const size_t begin = message->body.pos;
	struct steer_call call = { .message = message };
	const struct steer_row *row;
	struct err err = {0};

	if (steer_get(message->type, &message->body, message->n_fds, &call.q) < 0)
		return -EBADMSG;
	row = &steer_rows[call.q.verb];
	if (!is_in_turn(client, row))
		return -EBADMSG;
	if ((row->when & STEER_AWAKE) != 0 && supervisor_client_is_operator(client)) {
		const size_t end = message->body.pos;

		message->body.pos = begin;
		if (supervisor_hold_client(client, message))
			return 0;
		message->body.pos = end;
	}
	steer_find_who(client, &call);
	if (supervisor_may_ask(client, &call, &err) < 0)
		return steer_refuse(client, &err);
	if (row->stays && client->request == 0 && !take_seat(client))
		return -EPIPE;
	/* A later request is about the first one, whose answer is still due. */
	if (!row->later)
		client->request = message->type;
	return answers[call.q.verb](client, &call);
}

static void
client_ready(void *arg, uint32_t events)
{
	struct client *client = arg;
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(client->source.fd, &message, NULL);
	struct supervisor *sv;

	(void)events;
	if (r == -EAGAIN)
		return;
	r = r == 0 ? supervisor_client_answer(client, &message) : r;
	if (r == 0)
		return;
	/* The client started a process and went away: hang up the process. */
	if (client->request == CONTROL_EXEC && client->started)
		supervisor_signal(client->sv, client->handle, SIGHUP);
	sv = client->sv;
	supervisor_client_drop(client);
	supervisor_check_end(sv);
}

/* There is always room for one more client, which may want to end the cell.  The oldest client
 * without a request yields, or else the oldest whose request is done, or soon will be. */
static void
make_room(struct supervisor *sv)
{
	struct client *silent = NULL, *served = NULL;

	/* The list has the newest first. */
	for (struct client *c = sv->clients; c != NULL; c = c->next) {
		silent = c->request == 0 ? c : silent;
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
	if (fd < 0 || !supervisor_client_is_operator(&(struct client){ .source = { .fd = fd } }))
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

