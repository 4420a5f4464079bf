/* tools_keeper.c - starts and ends the cells of the servers, on the worker's small requests.
 *
 * The worker names a server by its number in the policy, so a worker that was taken over can start no other
 * program, and in no other cell. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "canon/hash.h"
#include "canon/members.h"
#include "cell/cell_spec.h"
#include "ipc/courier_channel.h"
#include "ipc/ipc.h"
#include "proc/tools/tools_proc.h"
#include "tools/scope_hold.h"
#include "tools/server_hold.h"
#include "tools/server_run.h"

#define POLICY_AT 3                     /* numbers of the memory files that a cell's start gets */
#define WITHIN_AT 4

struct kept {
	bool used;
	unsigned number;
	uint32_t server;
	pid_t pid;
	struct loop_source ended;       /* a pidfd */
	struct loop_timer patience;
	bool stopping;
	struct tools_timeline timeline;
	struct loop_file changes;       /* of it */
	struct loop_timer look;
	bool frozen;                    /* as the worker knows it */
	char id[CELL_ID_LEN + 1];
};

static struct {
	struct loop *loop;
	const struct policy_tools *tools;
	struct loop_source worker;
	struct loop_source events;
	bool over;
	struct kept at[TOOLS_INSTANCES_MAX];
	struct server_hold hold;
	uint64_t starts[POLICY_TOOLS_SERVERS_MAX][KEEPER_RESTARTS_MAX];        /* times of failed ones */
} keeper;

static void
over(void)
{
	keeper.over = true;
	loop_unwatch(keeper.loop, &keeper.worker);
	loop_quit(keeper.loop);
}

bool
tools_keeper_is_over(void)
{
	return keeper.over;
}

static void
say(const struct buf *message, const int *fds, size_t n)
{
	if (!keeper.over && ipc_send(keeper.worker.fd, message, fds, n, NULL) < 0)
		over();
}

void
tools_keeper_serve(int fd)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, TOOLS_SERVE);
	say(&message, &fd, 1);
}

static void
say_ended(uint32_t number, const char *why)
{
	OWN(buf_free) struct buf message;
	char text[TOOLS_WHY_MAX];

	snprintf(text, sizeof(text), "%s", why);
	ipc_begin(&message, TOOLS_ENDED);
	buf_put_u32(&message, number);
	buf_put_str(&message, text);
	say(&message, NULL, 0);
}

/* ---- records ---- */

static void
forward(const char *event)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, TOOLS_EVENT);
	buf_put_str(&message, event);
	(void)ipc_send(keeper.events.fd, &message, NULL, 0, NULL);
}

static void
record_of(const struct kept *k, const char *what, const char *of, const char *why)
{
	OWN(members_free) struct members m = {0};
	OWN(buf_free) struct buf text = BUF(TOOLS_EVENT_MAX);

	members_init(&m, TOOLS_EVENT_MAX);
	members_str(&m, "type", TOOLS_EVENT_TYPE);
	members_str(&m, "did", what);
	members_str(&m, "of", of);
	members_str(&m, "server_cell", k->id);
	members_str(&m, "reason", why);
	members_put(&m, &text);
	buf_put(&text, "", 1);
	if (!members_failed(&m) && !buf_failed(&text))
		forward((char *)text.data);
}

static void
record(const struct kept *k, const char *what, const char *why)
{
	record_of(k, what, keeper.tools->servers[k->server].name, why);
}

static void
record_breach(void *arg, const char *of, const char *why)
{
	record_of(arg, "breach", of, why);
}

static void
read_breaches(struct kept *k)
{
	bool more = true;

	while (more)
		more = tools_timeline_breaches(&k->timeline, keeper.tools->servers[k->server].name, record_breach, k);
}

static void
read_freezes(struct kept *k)
{
	OWN(buf_free) struct buf message = {0};
	const char *by = k->timeline.frozen_by;
	char why[TOOLS_WHY_MAX] = "";

	while (tools_timeline_freezes(&k->timeline))
		;
	if (k->frozen == (by[0] != '\0'))
		return;
	k->frozen = by[0] != '\0';
	if (k->frozen)
		snprintf(why, sizeof(why), "its cell %s is frozen (%s): `cloister events %s` shows why", k->id, by, k->id);
	record(k, k->frozen ? "frozen" : "thawed", k->frozen ? by : NULL);
	ipc_begin(&message, TOOLS_FROZEN);
	buf_put_u32(&message, k->number);
	buf_put_str(&message, why);
	say(&message, NULL, 0);
}

static void
timeline_changed(void *arg, const char *name)
{
	struct kept *k = arg;

	(void)name;
	if (k->look.at_ms == 0)
		loop_set_timer(keeper.loop, &k->look, KEEPER_LOOK_MS);
}

static void
look(void *arg)
{
	struct kept *k = arg;
	int dir = tools_timeline_open(&k->timeline, k->id);

	/* Before it is read for the first time, so that no change is missed. */
	if (dir >= 0 && k->changes.watch == 0)
		(void)loop_watch_file(keeper.loop, &k->changes, dir, LOOP_FILE_MODIFIED, NULL);
	read_breaches(k);
	read_freezes(k);
	if (k->changes.watch == 0)
		loop_set_timer(keeper.loop, &k->look, KEEPER_FIND_MS);
}

static void
look_last(struct kept *k)
{
	loop_cancel_timer(keeper.loop, &k->look);
	loop_unwatch_file(keeper.loop, &k->changes);
	(void)tools_timeline_open(&k->timeline, k->id);
	read_breaches(k);
	tools_timeline_close(&k->timeline);
}

/* ---- ends ---- */

static bool
fails_too_often(uint32_t server)
{
	const uint64_t *starts = keeper.starts[server];

	for (size_t i = 0; i < KEEPER_RESTARTS_MAX; i++)
		if (starts[i] == 0 || loop_now_ms() - starts[i] > KEEPER_RESTARTS_MS)
			return false;
	return true;
}

static void
note_failure(uint32_t server)
{
	uint64_t *starts = keeper.starts[server], *oldest = starts;

	for (size_t i = 1; i < KEEPER_RESTARTS_MAX; i++)
		if (starts[i] < *oldest)
			oldest = &starts[i];
	*oldest = loop_now_ms();
}

static void
forget(struct kept *k, int status)
{
	char why[128];
	/* One for a session has to stay, whatever its status is. */
	bool failed = !k->stopping && (status != 0 || !keeper.tools->servers[k->server].per_call);

	loop_cancel_timer(keeper.loop, &k->patience);
	loop_unwatch(keeper.loop, &k->ended);
	closep(&k->ended.fd);
	k->used = false;
	look_last(k);
	if (WIFSIGNALED(status))
		snprintf(why, sizeof(why), "its cell was killed by signal %d", WTERMSIG(status));
	else
		snprintf(why, sizeof(why), WEXITSTATUS(status) == 125 ? "its cell could not be started" :
		         "it ended with status %d", WEXITSTATUS(status));
	record(k, "end", k->stopping ? NULL : why);
	if (failed)
		note_failure(k->server);
	say_ended(k->number, why);
}

static void
ended(void *arg, uint32_t events)
{
	struct kept *k = arg;
	int status = 0;

	(void)events;
	if (waitpid(k->pid, &status, WNOHANG) == k->pid)
		forget(k, status);
}

static void
kill_late(void *arg)
{
	const struct kept *k = arg;

	(void)kill(k->pid, SIGKILL);
}

static void
stop(struct kept *k, enum tools_stop how)
{
	if (k->patience.at_ms != 0)
		return;
	k->stopping = how == TOOLS_STOP_UNUSED;
	if (how != TOOLS_STOP_CLOSED)
		(void)kill(k->pid, SIGTERM);
	loop_set_timer(keeper.loop, &k->patience, KEEPER_STOP_MS);
}

void
tools_keeper_end(void)
{
	uint64_t until = loop_now_ms() + KEEPER_STOP_MS;
	int status;

	for (size_t i = 0; i < TOOLS_INSTANCES_MAX; i++)
		if (keeper.at[i].used && !keeper.at[i].stopping)
			(void)kill(keeper.at[i].pid, SIGTERM);
	for (size_t i = 0; i < TOOLS_INSTANCES_MAX; i++) {
		struct kept *k = &keeper.at[i];

		if (!k->used)
			continue;
		(void)io_is_readable(k->ended.fd, io_now_ms() + (int64_t)(until > loop_now_ms() ? until - loop_now_ms() : 0));
		(void)kill(k->pid, SIGKILL);
		(void)waitpid(k->pid, &status, 0);
		k->used = false;
		look_last(k);
	}
	server_hold_end(&keeper.hold);
}

/* ---- starts ---- */

/* Pipes for the server's input, output and errors: OURS for the worker, which must not wait for them. */
static int
make_pipes(int ours[3], int theirs[3], struct err *err)
{
	for (int i = 0; i < 3; i++) {
		int ends[2];

		if (pipe2(ends, O_CLOEXEC) < 0)
			return err_errno(err, "cannot make a pipe");
		ours[i] = ends[i == 0];
		theirs[i] = ends[i != 0];
		if (fcntl(ours[i], F_SETFL, O_NONBLOCK) < 0)
			return err_errno(err, "cannot make a pipe");
	}
	return 0;
}

/* Folders in which agents write are no place to start from. */
static const char *
here(char path[PATH_MAX])
{
	return getcwd(path, PATH_MAX) != NULL ? path : "/";
}

/* The scopes of all tools of a server. */
static struct scope_hold
scopes_of(uint32_t server, const struct policy_tool *ret_tools[POLICY_TOOLS_LOCKED_MAX], char folder[PATH_MAX])
{
	const char *home = getenv("HOME");

	return (struct scope_hold){ .tools = keeper.tools->has_lock ? ret_tools : NULL, .folder = here(folder),
		.n = scope_hold_tools_of(keeper.tools, keeper.tools->servers[server].name, ret_tools),
		.home = home != NULL ? home : "/" };
}

/* What scopes state, and a running cell is not held to. */
static void
record_unheld(const struct kept *k, const struct scope_hold *scopes)
{
	const struct policy_tools_server *server = &keeper.tools->servers[k->server];

	if (!keeper.tools->has_lock || server->url != NULL || scopes->tools == NULL)
		return;
	if (scope_hold_programs(scopes) == SCOPE_HOLD_PROGRAMS_SHARED)
		record(k, "unheld", "each call may start the programs of all scopes, unless the server has `per: call`");
	else if (scope_hold_programs(scopes) == SCOPE_HOLD_PROGRAMS_ANY)
		record(k, "unheld", "each call may start any program, because the scope of a tool has no `programs`, unless the server "
		       "has `per: call`");
}

/* A cell that lists tools, or reads resources and prompts, works for no tool: as for one whose scope is empty. */
static const struct policy_tool no_tool = { .name = SCOPE_HOLD_NO_TOOL, .hash = "", .scope = "{}" };

/* NULL: no scope holds the cell from its start. */
static const struct policy_tool *
tool_of(const struct kept *k, uint32_t tool)
{
	if (tool != TOOLS_NO_TOOL && tool != TOOLS_UNLOCKED)
		return &keeper.tools->locked[tool];
	return tool == TOOLS_NO_TOOL && keeper.tools->servers[k->server].per_call ? &no_tool : NULL;
}

static int
spawn_cell(struct kept *k, const struct policy_tool *tool, const int theirs[3], struct err *err)
{
	OWN(server_run_free) struct server_run run = { .policy = -1, .within = -1 };
	OWN(server_held_free) struct server_held held = {0};
	const struct policy_tool *all[POLICY_TOOLS_LOCKED_MAX];
	char program[PATH_MAX], folder[PATH_MAX];
	const struct scope_hold scopes = scopes_of(k->server, all, folder);
	const struct server_run_place place = { .folder = scopes.folder, .home = scopes.home, .id = k->id,
		.tool = CONTROL_ON("tools-scope") ? tool : NULL, .is_held = keeper.tools->has_lock && !keeper.tools->servers[k->server].per_call,
		.all = keeper.tools->servers[k->server].per_call ? NULL : scopes.tools, .n_all = scopes.n, .held = &held,
		.stands_in = tool == &no_tool,
		.policy_at = POLICY_AT, .within_at = WITHIN_AT };
	int r = exe_find_cloister(program, err);

	r = r < 0 ? r : cell_make_id(k->id, err);
	keeper.hold.folder = scopes.folder;
	keeper.hold.home = scopes.home;
	r = r < 0 ? r : server_hold_check(&keeper.hold, &keeper.tools->servers[k->server], &held, err);
	r = r < 0 ? r : server_run_build(&keeper.tools->servers[k->server], &place, &run, err);
	if (r < 0)
		return r;
	if (held.loose[0] != '\0')
		record(k, "unheld", held.loose);
	record_unheld(k, tool != NULL ? &(struct scope_hold){ .tools = &tool, .n = 1 } : &scopes);
	k->pid = spawn_start(&(struct spawn){ .argv = run.words, .path = program, .n_fds = 5,
		.fds = (struct spawn_fd[]){ { theirs[0], 0 }, { theirs[1], 1 }, { theirs[2], 2 },
		{ run.policy, POLICY_AT }, { run.within, WITHIN_AT } },
		.flags = SPAWN_APART | SPAWN_DIES | SPAWN_ONLY }, &k->ended.fd, err);
	return k->pid < 0 ? (int)k->pid : 0;
}

static int
start(struct kept *k, uint32_t tool, struct err *err)
{
	OWN(buf_free) struct buf message = {0};
	int ours[3] = { -1, -1, -1 }, theirs[3] = { -1, -1, -1 };
	int r = fails_too_often(k->server) ?
	        err_set(err, EAGAIN, "it ended by itself %d times within 10 minutes: see its errors in the cell's events",
	                KEEPER_RESTARTS_MAX) : make_pipes(ours, theirs, err);

	r = r < 0 ? r : spawn_cell(k, tool_of(k, tool), theirs, err);
	k->ended.ready = ended;
	k->ended.arg = k;
	loop_prepare_timer(&k->patience, kill_late, k);
	loop_prepare_timer(&k->look, look, k);
	k->changes = (struct loop_file){ .changed = timeline_changed, .arg = k };
	if (r == 0) {
		k->used = true;
		r = loop_watch(keeper.loop, &k->ended, EPOLLIN, err);
		record(k, "start", NULL);
		loop_set_timer(keeper.loop, &k->look, KEEPER_FIND_MS);
		ipc_begin(&message, TOOLS_STARTED);
		buf_put_u32(&message, k->number);
		buf_put_str(&message, k->id);
		say(&message, ours, 3);
	}
	for (int i = 0; i < 3; i++) {
		closep(&ours[i]);
		closep(&theirs[i]);
	}
	return r;
}

/* ---- the worker's requests ---- */

static bool
is_tool(uint32_t tool)
{
	return tool == TOOLS_NO_TOOL || (tool == TOOLS_UNLOCKED ? !keeper.tools->has_lock : tool < keeper.tools->n_locked);
}

static int
take_start(struct ipc_message *message)
{
	uint32_t number, server, tool;
	struct err err = {0};
	struct kept *k;

	if (buf_get_u32(&message->body, &number) < 0 || number >= TOOLS_INSTANCES_MAX || keeper.at[number].used ||
	    buf_get_u32(&message->body, &server) < 0 || server >= keeper.tools->n_servers ||
	    buf_get_u32(&message->body, &tool) < 0 || !is_tool(tool))
		return -EBADMSG;
	k = &keeper.at[number];
	*k = (struct kept){ .number = number, .server = server, .ended = { .fd = -1 },
	                    .timeline = { .dir = -1 } };
	if (start(k, tool, &err) < 0) {
		record(k, "failed", err.text);
		say_ended(number, err.text);
	}
	return 0;
}

static int
take_stop(struct ipc_message *message)
{
	uint32_t number, how;

	if (buf_get_u32(&message->body, &number) < 0 || number >= TOOLS_INSTANCES_MAX ||
	    buf_get_u32(&message->body, &how) < 0 || how >= TOOLS_N_STOPS)
		return -EBADMSG;
	/* It may have ended in the meantime. */
	if (keeper.at[number].used)
		stop(&keeper.at[number], (enum tools_stop)how);
	return 0;
}

static int
take_hold(struct ipc_message *message)
{
	const struct policy_tool *tools[TOOLS_HOLD_MAX], *all[POLICY_TOOLS_LOCKED_MAX];
	OWN(buf_free) struct buf answer = {0};
	struct scope_hold scopes;
	char folder[PATH_MAX];
	char why[TOOLS_WHY_MAX] = "";
	uint32_t number, n, tool;
	struct err err = {0};
	const struct kept *k;

	if (buf_get_u32(&message->body, &number) < 0 || number >= TOOLS_INSTANCES_MAX ||
	    buf_get_u32(&message->body, &n) < 0 || n > TOOLS_HOLD_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; i < n; i++) {
		if (buf_get_u32(&message->body, &tool) < 0 || tool >= keeper.tools->n_locked)
			return -EBADMSG;
		tools[i] = &keeper.tools->locked[tool];
	}
	k = &keeper.at[number];
	/* It may have ended in the meantime. */
	if (!k->used || k->stopping)
		return 0;
	scopes = scopes_of(k->server, all, folder);
	if (tools_hold(k->id, &keeper.tools->servers[k->server], &scopes, tools, n, &err) < 0)
		snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1, err.text);
	if (why[0] != '\0')
		record(k, "failed", why);
	ipc_begin(&answer, TOOLS_HELD);
	buf_put_u32(&answer, number);
	buf_put_str(&answer, why);
	say(&answer, NULL, 0);
	return 0;
}

static int
take_event(struct ipc_message *message)
{
	const char *event, *type;
	size_t len;

	if (buf_get_str(&message->body, &event) < 0 || strlen(event) > TOOLS_EVENT_MAX ||
	    !members_check(event, strlen(event), &type, &len) || len != strlen(TOOLS_EVENT_TYPE) ||
	    memcmp(type, TOOLS_EVENT_TYPE, len) != 0)
		return -EBADMSG;
	forward(event);
	return 0;
}

static bool
is_of_server(const char *of, const struct policy_tools_server *server)
{
	static const char *const kinds[][2] = { { "tool:", "." }, { "prompt:", "." }, { "resource:", "/" } };
	size_t len = strlen(server->name);

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		size_t n = strlen(kinds[i][0]);

		if (strncmp(of, kinds[i][0], n) == 0 && strncmp(of + n, server->name, len) == 0 && of[n + len] == kinds[i][1][0])
			return true;
	}
	return false;
}

/* An approval that holds for the rule is for this tool, or resource, and not for another reason. */
static void
name_rule(const char *text, const char *of, unsigned char ret_rule[HASH_LEN])
{
	struct hash h;

	hash_begin(&h);
	hash_add(&h, text, strlen(text) + 1);
	hash_add(&h, of, strlen(of));
	hash_end(&h, ret_rule);
}

static int
take_ask(struct ipc_message *message)
{
	const struct policy_tools *tools = keeper.tools;
	OWN(buf_free) struct buf question = {0};
	const char *of, *kinds, *shape, *text;
	char reason[TOOLS_WHY_MAX];
	unsigned char rule[HASH_LEN];
	uint64_t number, size;
	uint32_t server;

	if (buf_get_u64(&message->body, &number) < 0 || number == 0 || buf_get_u32(&message->body, &server) < 0 ||
	    server >= tools->n_servers || buf_get_str(&message->body, &of) < 0 || strlen(of) > TOOLS_OF_MAX ||
	    !is_of_server(of, &tools->servers[server]) || buf_get_str(&message->body, &kinds) < 0 ||
	    strlen(kinds) >= TOOLS_WHY_MAX / 2 || buf_get_u64(&message->body, &size) < 0 ||
	    buf_get_str(&message->body, &shape) < 0 || strlen(shape) > COURIER_ASK_SHAPE ||
	    !(tools->ask_results || (tools->injection == POLICY_INJECTION_ASK && kinds[0] != '\0')))
		return -EBADMSG;
	text = tools->ask_results ? "results: ask" : "injection: ask";
	name_rule(text, of, rule);
	snprintf(reason, sizeof(reason), "%s%s", kinds[0] != '\0' ? "it looks like instructions to the model: " : "", kinds);
	ipc_begin(&question, TOOLS_ASK);
	buf_put_u64(&question, number);
	buf_put_u64(&question, tools->ask_ms);
	buf_put(&question, rule, sizeof(rule));
	buf_put_str(&question, of);
	buf_put_str(&question, text);
	buf_put_str(&question, reason);
	buf_put_u64(&question, size);
	buf_put_str(&question, shape);
	/* If the supervisor is too busy, the worker does not wait for ever. */
	(void)ipc_send(keeper.events.fd, &question, NULL, 0, NULL);
	return 0;
}

static int
take_withdraw(struct ipc_message *message)
{
	OWN(buf_free) struct buf withdrawn = {0};
	uint64_t number;

	if (buf_get_u64(&message->body, &number) < 0)
		return -EBADMSG;
	ipc_begin(&withdrawn, TOOLS_WITHDRAW);
	buf_put_u64(&withdrawn, number);
	(void)ipc_send(keeper.events.fd, &withdrawn, NULL, 0, NULL);
	return 0;
}

/* What the worker may ask for.  Anything else ends it, and the servers with it. */
static const struct {
	uint32_t type;
	int (*take)(struct ipc_message *message);
} worker_may_ask[] = {
	{ TOOLS_START, take_start },
	{ TOOLS_STOP, take_stop },
	{ TOOLS_HOLD, take_hold },
	{ TOOLS_EVENT, take_event },
	{ TOOLS_ASK, take_ask },
	{ TOOLS_WITHDRAW, take_withdraw },
};

static int
take(struct ipc_message *message)
{
	if (message->n_fds != 0)
		return -EBADMSG;
	for (size_t i = 0; i < ARRAY_LEN(worker_may_ask); i++)
		if (worker_may_ask[i].type == message->type) {
			int r = worker_may_ask[i].take(message);

			return r == 0 && buf_left(&message->body) != 0 ? -EBADMSG : r;
		}
	return -EBADMSG;
}

static void
worker_ready(void *arg, uint32_t events)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(keeper.worker.fd, &message, NULL);

	(void)arg, (void)events;
	if (r == -EAGAIN)
		return;
	if (r < 0 || take(&message) < 0) {
		fprintf(stderr, "cloister-tools: %s: the agent's tools do not answer any more\n", r < 0 ?
		        "its worker has ended" : "its worker made a request that it may not make");
		over();
	}
}

/* The supervisor's answers. */
static void
events_ready(void *arg, uint32_t events)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	OWN(buf_free) struct buf answer = {0};
	const char *why;
	uint64_t number;
	uint32_t yes;
	int r = ipc_receive(keeper.events.fd, &message, NULL);

	(void)arg, (void)events;
	if (r == -EAGAIN)
		return;
	if (r < 0 || message.type != TOOLS_ANSWER || buf_get_u64(&message.body, &number) < 0 ||
	    buf_get_u32(&message.body, &yes) < 0 || buf_get_str(&message.body, &why) < 0) {
		loop_unwatch(keeper.loop, &keeper.events);
		return;
	}
	ipc_begin(&answer, TOOLS_ANSWER);
	buf_put_u64(&answer, number);
	buf_put_u32(&answer, yes == 1);
	buf_put_str(&answer, why);
	say(&answer, NULL, 0);
}

int
tools_keeper_begin(struct loop *loop, const struct policy_tools *tools, int channel, int events, struct err *err)
{
	int r;

	keeper.loop = loop;
	keeper.tools = tools;
	server_hold_init(&keeper.hold, tools);
	keeper.events = (struct loop_source){ .fd = events, .ready = events_ready };
	keeper.worker = (struct loop_source){ .fd = channel, .ready = worker_ready };
	r = loop_watch(loop, &keeper.events, EPOLLIN, err);
	return r < 0 ? r : loop_watch(loop, &keeper.worker, EPOLLIN, err);
}
