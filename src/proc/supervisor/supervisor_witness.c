/* supervisor_witness.c - cloister-witness, seen from the supervisor: started before the cell, heard while it runs,
 * ended with it.
 *
 * The witness reads what the agent's processes do and may be compromised.  Its events are checked as those of the
 * courier are, and it can do nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "policy/policy_calls.h"
#include "proc/supervisor/supervisor.h"
#include "witness/able.h"

#define READY_MS 30000                  /* until it sees the cell, on a busy machine */
#define BATCH_MAX 16                    /* messages in one round */
#define HEARD_MAX 4096                  /* many times what a channel holds: it does not have to stop sending */
#define SLACK (1u << 20)                /* bytes above its limit: the witness counts without our wrapping */
#define UNSEEN_BYTES (WITNESS_UNSEEN_MAX * (2 * WITNESS_TEXT_MAX + 3))

static const char *const levels[] = { [CELL_RECORD_OFF] = "off", [CELL_RECORD_ACTS] = "acts",
                                      [CELL_RECORD_FULL] = "full" };

/* ---- the header ---- */

static void
record_header(struct supervisor *sv, const char *by, const char *const *unseen, size_t n)
{
	OWN(members_free) struct members m;

	members_init(&m, AUDIT_EVENT_MAX);
	members_str(&m, "type", "record");
	members_str(&m, "level", levels[sv->spec.record]);
	members_str(&m, "by", by);
	members_list(&m, "unseen", unseen, n, WITNESS_TEXT_MAX);
	if (sv->witness.why[0] != '\0')
		members_str(&m, "why", sv->witness.why);
	snprintf(sv->witness.by, sizeof(sv->witness.by), "%.15s", by);
	supervisor_record_members(sv, &m);
}

/* Nothing sees the cell's processes. */
static int
do_without(struct supervisor *sv, const char *why, struct err *err)
{
	const char *const unseen[] = { "what the cell's processes do", why };

	if (sv->spec.record_demanded)
		return err_set(err, ENOTSUP, "the policy demands a record of what the cell's processes do, and there can be "
		               "none: %s", why);
	record_header(sv, "none", unseen, sv->spec.record == CELL_RECORD_OFF ? 1 : 2);
	return 0;
}

/* ---- its start ---- */

/* By which way the witness can see this cell; 0: none. */
static unsigned
sight_of(const struct supervisor *sv)
{
	const unsigned sights = sv->boundary->sights;
	unsigned filter;

	if (sv->spec.record == CELL_RECORD_OFF)
		return 0;
	filter = witness_able_by_filter() ? sights & BOUNDARY_SIGHT_FILTER : 0;
	/* To see all calls is worth a slow start. */
	if ((sights & BOUNDARY_SIGHT_KERNEL) != 0 &&
	    (sv->spec.record == CELL_RECORD_FULL || filter == 0 || witness_able_to_share()) && witness_able_by_kernel())
		return BOUNDARY_SIGHT_KERNEL;
	return filter;
}

int
supervisor_witness_prepare(struct supervisor *sv, struct err *err)
{
	struct witness_ward *w = &sv->witness;
	const unsigned sight = sight_of(sv);
	char source[] = "notify", ebpf[] = "ebpf";
	char *argv[] = { (char[]){ "cloister-witness" }, sight == BOUNDARY_SIGHT_KERNEL ? ebpf : source, NULL };
	struct spawn_how how = { .argv = argv, .n_fds = 1, .silent = sv->spec.detached, .aside = true };
	OWN(closep) int theirs = -1;
	int ends[2];

	if (sight == 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a channel");
	w->channel.fd = ends[0];
	theirs = ends[1];
	w->by_filter = sight == BOUNDARY_SIGHT_FILTER;
	w->max = sv->spec.audit_max / 2;
	how.fds = &theirs;
	w->pid = supervisor_spawn(sv->libexec, &how, err);
	return w->pid < 0 ? w->pid : 0;
}

static uint64_t
pid_namespace_of(pid_t pid)
{
	char path[40];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid_for_children", (int)pid);
	return pid > 0 && stat(path, &st) == 0 ? st.st_ino : 0;
}

void
supervisor_witness_rules(const struct supervisor *sv)
{
	OWN(buf_free) struct buf message = {0};

	if (sv->witness.channel.fd < 0)
		return;
	ipc_begin(&message, WITNESS_RULES);
	supervisor_watch_put(sv, &message);
	(void)ipc_send(sv->witness.channel.fd, &message, NULL, 0, NULL);
}

static void
send_start(const struct supervisor *sv, const struct walls *walls)
{
	OWN(buf_free) struct buf message;
	pid_t first = 0, agent;

	if (sv->watch != NULL)
		supervisor_witness_rules(sv);
	sv->boundary->pids(walls, &first, &agent);
	ipc_begin(&message, WITNESS_START);
	buf_put_u32(&message, sv->spec.record);
	buf_put_u64(&message, pid_namespace_of(first));
	buf_put_u32(&message, (uint32_t)first);
	buf_put_u64(&message, sv->witness.max);
	call_set_put(&message, &sv->calls);
	buf_put_u32(&message, sv->watch != NULL && policy_lists_programs(sv->watch));
	buf_put_u32(&message, (uint32_t)sv->spec.n_grants);
	for (size_t i = 0; i < sv->spec.n_grants; i++)
		buf_put_str(&message, sv->spec.grants[i].cell);
	(void)ipc_send(sv->witness.channel.fd, &message, NULL, 0, NULL);
}

void
supervisor_witness_begin(struct supervisor *sv, const struct walls *walls)
{
	/* If it has gone, that is noticed when it is waited for. */
	if (sv->witness.channel.fd >= 0)
		send_start(sv, walls);
}

/* A cell that another source would see begins all the same; take_ready() reports a witness that is broken. */
static void
take_source(struct supervisor *sv, struct ipc_message *message)
{
	struct witness_ward *w = &sv->witness;
	const char *by, *why;

	if (message->type != WITNESS_SOURCE || buf_get_str(&message->body, &by) < 0 ||
	    buf_get_str(&message->body, &why) < 0 || buf_left(&message->body) != 0)
		return;
	w->by_filter = strcmp(by, "notify") == 0 && (sv->boundary->sights & BOUNDARY_SIGHT_FILTER) != 0;
	snprintf(w->why, sizeof(w->why), "%s", why);
}

bool
supervisor_witness_choose(struct supervisor *sv)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	struct witness_ward *w = &sv->witness;

	if (w->channel.fd >= 0 && io_is_readable(w->channel.fd, io_now_ms() + READY_MS) &&
	    ipc_receive(w->channel.fd, &message, NULL) == 0)
		take_source(sv, &message);
	return w->by_filter;
}

/* The message comes before the witness has read anything of the agent's. */
static int
take_ready(struct supervisor *sv, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	const char *by, *unseen[WITNESS_UNSEEN_MAX];
	uint32_t n = 0;

	if (!io_is_readable(sv->witness.channel.fd, io_now_ms() + READY_MS) ||
	    ipc_receive(sv->witness.channel.fd, &message, NULL) < 0 || message.type != WITNESS_READY ||
	    buf_get_str(&message.body, &by) < 0 || buf_get_u32(&message.body, &n) < 0 || n > WITNESS_UNSEEN_MAX)
		return do_without(sv, "cloister-witness did not start", err);
	for (uint32_t i = 0; i < n; i++)
		if (buf_get_str(&message.body, &unseen[i]) < 0)
			return do_without(sv, "cloister-witness did not start", err);
	if (strcmp(by, "none") == 0)
		return do_without(sv, n > 0 ? unseen[0] : "no source works here", err);
	sv->witness.ready = true;
	record_header(sv, by, unseen, n);
	return 0;
}

static void
hang_up(struct supervisor *sv)
{
	struct witness_ward *w = &sv->witness;

	if (w->channel.fd >= 0) {
		if (w->channel.events != 0)
			loop_unwatch(sv->loop, &w->channel);
		close(w->channel.fd);
	}
	w->channel.fd = -1;
}

void
supervisor_witness_reap(struct supervisor *sv)
{
	struct witness_ward *w = &sv->witness;

	if (w->pid > 0) {
		kill(w->pid, SIGKILL);
		waitpid(w->pid, NULL, 0);
	}
	w->pid = 0;
}

/* It has nothing to do any more, or is broken: then it may not end by itself. */
static void
end(struct supervisor *sv)
{
	hang_up(sv);
	supervisor_witness_reap(sv);
}

/* With it, the file of a program is found after the program has ended. */
static void
send_root(const struct supervisor *sv)
{
	OWN(buf_free) struct buf message;
	OWN(closep) int root = -1;
	pid_t first = 0, agent;
	char path[40];

	ipc_begin(&message, WITNESS_ROOT);
	sv->boundary->pids(sv->walls, &first, &agent);
	snprintf(path, sizeof(path), "/proc/%d/root", (int)first);
	root = first > 0 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (root >= 0)
		(void)ipc_send(sv->witness.channel.fd, &message, &root, 1, NULL);
}

/* From now on it can answer the agent's first call, which waits for that. */
static bool
send_listener(const struct supervisor *sv)
{
	OWN(buf_free) struct buf message = {0};
	OWN(closep) int listener = -1;
	uint32_t filter = 0;

	listener = sv->boundary->listener(sv->walls, &filter);
	ipc_begin(&message, WITNESS_LISTENER);
	buf_put_u32(&message, filter);
	if (listener >= 0)
		(void)ipc_send(sv->witness.channel.fd, &message, &listener, 1, NULL);
	return listener >= 0;
}

int
supervisor_witness_listen(struct supervisor *sv, struct err *err)
{
	int r;

	if (sv->witness.channel.fd < 0)
		return 0;
	if (!sv->witness.by_filter) {
		send_root(sv);
		return 0;
	}
	if (!send_listener(sv)) {
		end(sv);
		return do_without(sv, "the agent's filter does not notify", err);
	}
	send_root(sv);
	r = supervisor_witness_await(sv, err);
	/* Without an answer, no program can be started in it. */
	return r == 0 && !sv->witness.ready ? err_set(err, EIO, "cloister-witness did not start, and the cell's processes "
	       "wait for it: look for its own message above, or use --record off") : r;
}

int
supervisor_witness_await(struct supervisor *sv, struct err *err)
{
	struct witness_ward *w = &sv->witness;
	const bool off = sv->spec.record == CELL_RECORD_OFF;
	int r;

	if (w->channel.fd < 0)
		return do_without(sv, off ? "" : sv->boundary->sights == 0 ? "nothing can look behind these walls" :
		                  "nothing on this machine can see it (`cloister doctor`)", err);
	r = take_ready(sv, err);
	if (!w->ready)
		end(sv);
	return r;
}

/* ---- its end ---- */

static void
stop(struct supervisor *sv)
{
	enum cell_witness_lost then = sv->spec.record_lost;
	struct err err = {0};

	if (sv->dead || then == CELL_LOST_GO_ON || !supervisor_is_to_stop(sv, then == CELL_LOST_FREEZE))
		return;
	if (then == CELL_LOST_FREEZE && supervisor_freeze(sv, "witness", &err) == 0) {
		supervisor_say(sv, "cell %s is frozen: nothing records its processes any more (record: {lost: freeze})",
		               sv->spec.id);
		return;
	}
	supervisor_record(sv, "killed", "witness", err.text);
	supervisor_kill(sv, KILLED_BY_WITNESS);
}

static void
is_lost(struct supervisor *sv, const char *why)
{
	end(sv);
	supervisor_record(sv, "witness lost", "supervisor", why);
	supervisor_say(sv, "nothing records the processes of cell %s any more: %s", sv->spec.id, why);
	stop(sv);
	if (sv->dead)
		supervisor_tell_dead(sv);
	supervisor_check_end(sv);
}

static void
patience_over(void *arg)
{
	is_lost(arg, "cloister-witness did not send its last events in time");
}

void
supervisor_witness_finish(struct supervisor *sv)
{
	struct witness_ward *w = &sv->witness;
	OWN(buf_free) struct buf message;

	ipc_begin(&message, WITNESS_FINISH);
	if (w->channel.fd < 0 || w->finishing)
		return;
	w->finishing = true;
	loop_prepare_timer(&w->patience, patience_over, sv);
	loop_set_timer(sv->loop, &w->patience, WITNESS_MS);
	(void)ipc_send(w->channel.fd, &message, NULL, 0, NULL);
}

bool
supervisor_witness_is_over(const struct supervisor *sv)
{
	return sv->witness.channel.fd < 0;
}

void
supervisor_witness_close(struct supervisor *sv)
{
	if (sv->loop != NULL)
		loop_cancel_timer(sv->loop, &sv->witness.patience);
	if (sv->witness.channel.fd >= 0)
		end(sv);
}

/* ---- its events ---- */

static void
count(struct witness_ward *w, const char *event, size_t len)
{
	uint64_t n;

	if (strstr(event, "\"type\":\"exec\"") != NULL && strstr(event, "\"error\":\"") == NULL)
		w->programs++;
	else if (strstr(event, "\"type\":\"refused\"") != NULL && members_find_u64(event, len, "count", &n))
		w->refused += n;
}

/* Called twice, so that a message is recorded as a whole or rejected as a whole. */
static int
read_events(struct supervisor *sv, struct buf body, bool record, uint32_t *ret_n)
{
	static const char *const types[] = { WITNESS_TYPES };
	const char *event;
	int r = 0;

	if (buf_get_u32(&body, ret_n) < 0 || *ret_n == 0 || *ret_n > WITNESS_EVENTS_MAX)
		return -EBADMSG;
	for (uint32_t i = 0; r == 0 && i < *ret_n; i++) {
		if (buf_get_str(&body, &event) < 0 || (!record && !supervisor_is_event(event, types, ARRAY_LEN(types))))
			return -EBADMSG;
		if (record) {
			count(&sv->witness, event, strlen(event));
			r = supervisor_timeline_put(sv, event, strlen(event));
		}
	}
	return r == 0 && buf_left(&body) != 0 ? -EBADMSG : r;
}

/* These records have a limit of their own: they must not use up the room of requests. */
static int
take_events(struct supervisor *sv, struct ipc_message *message)
{
	struct witness_ward *w = &sv->witness;
	uint64_t before;
	uint32_t n = 0;
	int r = read_events(sv, message->body, false, &n);

	w->bytes += buf_left(&message->body);
	if (r < 0 || w->bytes > w->max + w->max / 4 + SLACK)
		return -EBADMSG;
	if (!supervisor_timeline_has_room(sv, buf_left(&message->body) + (size_t)n * SUPERVISOR_WRAP_MAX)) {
		w->unrecorded += n;
		return 0;
	}
	before = sv->timeline.bytes;
	r = read_events(sv, message->body, true, &n);
	if (r == 0)
		r = supervisor_timeline_write(sv);
	sv->timeline.bytes = before;
	w->unrecorded += r < 0 ? n : 0;
	return 0;
}

static int
take_connected(struct supervisor *sv, struct ipc_message *message)
{
	struct witness_ward *w = &sv->witness;
	uint32_t pid, port;

	if (buf_get_u32(&message->body, &pid) < 0 || buf_get_u32(&message->body, &port) < 0 || port > UINT16_MAX ||
	    buf_left(&message->body) != 0)
		return -EBADMSG;
	w->ports[w->next_port % WITNESS_PORTS].port = (uint16_t)port;
	w->ports[w->next_port % WITNESS_PORTS].pid = pid;
	w->next_port++;
	return 0;
}

uint32_t
supervisor_witness_process(const struct supervisor *sv, uint64_t port)
{
	const struct witness_ward *w = &sv->witness;
	const size_t n = w->next_port < WITNESS_PORTS ? w->next_port : WITNESS_PORTS;

	/* Ports are used again: the newest counts. */
	for (size_t i = 1; i <= n; i++)
		if (w->ports[(w->next_port - i) % WITNESS_PORTS].port == port)
			return w->ports[(w->next_port - i) % WITNESS_PORTS].pid;
	return 0;
}

static int
take_done(struct supervisor *sv, const struct ipc_message *message)
{
	if (buf_left(&message->body) != 0 || !sv->witness.finishing)
		return -EBADMSG;
	loop_cancel_timer(sv->loop, &sv->witness.patience);
	/* It ends by itself, while the supervisor goes on. */
	hang_up(sv);
	supervisor_tell_dead(sv);
	supervisor_check_end(sv);
	return -EPIPE;
}

/* Handles one message; negative if there is none, or it was the last. */
static int
hear(struct supervisor *sv)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	int r = ipc_receive(sv->witness.channel.fd, &message, NULL);

	if (r == -EAGAIN)
		return r;
	if (r < 0) {
		is_lost(sv, "cloister-witness ended by itself");
		return r;
	}
	r = message.n_fds > 0 ? -EBADMSG : message.type == WITNESS_EVENTS ? take_events(sv, &message) :
	    message.type == WITNESS_CONNECTED ? take_connected(sv, &message) :
	    message.type == WITNESS_FIRED ? supervisor_watch_fired(sv, &message) :
	    message.type == WITNESS_DONE ? take_done(sv, &message) : -EBADMSG;
	if (r == -EBADMSG)
		is_lost(sv, "cloister-witness broke the rules, so it was killed");
	return r;
}

static void
witness_ready(void *arg, uint32_t events)
{
	(void)events;
	for (int i = 0; i < BATCH_MAX && hear(arg) == 0; i++)
		;
}

void
supervisor_witness_catch_up(struct supervisor *sv)
{
	const struct loop_source *channel = &sv->witness.channel;

	for (int i = 0; i < HEARD_MAX && channel->fd >= 0 && channel->events != 0 && hear(sv) == 0; i++)
		;
}

int
supervisor_witness_watch(struct supervisor *sv, struct err *err)
{
	struct witness_ward *w = &sv->witness;

	if (w->channel.fd < 0)
		return 0;
	w->channel.ready = witness_ready;
	w->channel.arg = sv;
	(void)fcntl(w->channel.fd, F_SETFL, O_NONBLOCK);
	return loop_watch(sv->loop, &w->channel, EPOLLIN, err);
}

void
supervisor_witness_put_totals(const struct supervisor *sv, struct members *m)
{
	const struct witness_ward *w = &sv->witness;

	if (!w->ready)
		return;
	members_u64(m, "programs", w->programs);
	members_u64(m, "refused", w->refused);
	if (w->unrecorded > 0)
		members_u64(m, "unrecorded", w->unrecorded);
}
