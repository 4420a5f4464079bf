/* supervisor_egress.c - the gate and the courier, seen from the supervisor: prepared with the cell,
 * started by its first connection or question, ended with it.
 *
 * The supervisor reads nothing from the gate, and only events from the courier. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/cgroup/cgroup.h"
#include "cell/cell_trust.h"
#include "ipc/courier_channel.h"
#include "policy/policy_calls.h"
#include "proc/supervisor/supervisor.h"

#define PEM_MAX 8192
#define STOP_MS 5000                    /* to kill them */
#define QUICK_MS 2000                   /* a helper that ends sooner is broken, not unlucky */
#define QUICK_ENDS 3                    /* restarts without a delay */
#define PAUSE_MAX_MS 10000
#define ENDED_MAX 512                   /* bytes of the record of their end */
/* Memory that the helpers may use besides the cell, which makes them work.  The bodies that they
 * hold have a smaller limit. */
#define HELPERS_MEMORY ((uint64_t)1536 * 1024 * 1024)
#define HELPERS_PIDS 16
#define KEEPER_PIDS 240                 /* as many again for programs that provide secrets */

/* ---- before the cell --------------------------------------------------------------- */

static int
start_mint(struct supervisor *sv, struct err *err)
{
	struct egress *e = &sv->egress;
	OWN(closep) int said = -1;
	char seconds[24];
	char *argv[] = { (char[]){ "cloister-mint" }, sv->spec.id, seconds,
	                 e->trust.keystore >= 0 ? (char[]){ "java" } : NULL, NULL };
	struct spawn_how how = { .argv = argv, .n_fds = 5 };
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	e->trust.ready = ends[0];
	said = ends[1];
	how.fds = (int[]){ e->trust.certificate, e->key, said, e->trust.keystore,
	                   e->trust.authorities };
	snprintf(seconds, sizeof(seconds), "%" PRIu64, sv->spec.limits.time_ms / 1000 + 1);
	pid = supervisor_spawn(sv->libexec, &how, err);
	if (pid < 0)
		return pid;
	e->mint = pid;
	return 0;
}

/* The certificate is made while the cell is. */
/* What no later change of the policy changes. */
static int
settle_calls(struct supervisor *sv, struct err *err)
{
	buf_init(&sv->programs, IPC_MESSAGE_MAX);
	policy_call_set(sv->watch, CALL_ARCH_HERE, &sv->calls);
	policy_put_programs(&sv->programs, sv->watch);
	return buf_failed(&sv->programs) ? err_set(err, E2BIG, "the policy lists too many `programs`") : 0;
}

int
supervisor_egress_prepare(struct supervisor *sv, struct err *err)
{
	struct egress *e = &sv->egress;
	int r;

	e->policy = (struct cell_policy){ .policy = CELL_POLICY_FD, .text = CELL_POLICY_TEXT_FD,
	                                  .counts = CELL_COUNTS_FD };
	if (sv->spec.has_authorities)
		e->trust.authorities = CELL_AUTHORITIES_FD;
	if (sv->spec.has_secrets)
		e->secrets = CELL_SECRETS_FD;
	if (sv->spec.keeper != 0) {
		e->keeper = CELL_KEEPER_FD;
		/* The keeper is a child of this process, or of the process that waits for the cell
		 * to start, so the pid cannot have been reused. */
		e->keeper_process = (int)syscall(SYS_pidfd_open, sv->spec.keeper, 0);
		if (e->keeper_process < 0)
			return err_errno(err, "the keeper of the cell's secrets has gone");
	}
	e->trust.certificate = memfd_create("ca", MFD_CLOEXEC);
	e->key = memfd_create("key", MFD_CLOEXEC);
	e->names = memfd_create("names", MFD_CLOEXEC);
	if (cell_trust_has_java(&sv->spec))
		e->trust.keystore = memfd_create("keystore", MFD_CLOEXEC);
	if (e->trust.certificate < 0 || e->key < 0 || e->names < 0)
		return err_errno(err, "cannot make a memory file");
	r = supervisor_watch_load(sv, err);
	if (r == 0 && sv->watch != NULL)
		r = settle_calls(sv, err);
	r = r == 0 ? start_mint(sv, err) : r;
	return r < 0 ? r : supervisor_sides_start(sv, err);
}

/* ---- starting ------------------------------------------------------------------------ */

static int
read_pem(int fd, char ret_text[PEM_MAX], struct err *err)
{
	ssize_t n = pread(fd, ret_text, PEM_MAX - 1, 0);

	if (n <= 0)
		return err_set(err, EIO, "the cell's certificate is gone");
	ret_text[n] = '\0';
	return 0;
}

/* The helper's first messages wait in its channel before it is started. */
static int
send_start(const struct supervisor *sv, int gate, int courier, uint32_t n_steers, struct err *err)
{
	const struct egress *e = &sv->egress;
	OWN(buf_free) struct buf to_gate, to_courier;
	char certificate[PEM_MAX], key[PEM_MAX];
	int fds[IPC_FDS_MAX], r;
	size_t n = 0;

	ipc_begin(&to_gate, GATE_START);
	to_gate.wipes = true;
	ipc_begin(&to_courier, COURIER_START);
	r = read_pem(e->trust.certificate, certificate, err);
	if (r == 0)
		r = read_pem(e->key, key, err);
	if (r == 0) {
		buf_put_str(&to_gate, certificate);
		buf_put_str(&to_gate, key);
		r = ipc_send(gate, &to_gate, NULL, 0, err);
	}
	explicit_bzero(key, sizeof(key));
	if (r < 0)
		return r;
	buf_put_u64(&to_courier, (sv->spec.learn ? COURIER_LEARN : 0) |
	                         (e->secrets >= 0 ? COURIER_SECRETS : 0) |
	                         (e->keeper >= 0 ? COURIER_KEEPER : 0) |
	                         (sv->spec.exfiltration != CELL_REFUSE ? COURIER_ALARMS : 0) |
	                         (sv->spec.audit_strict ? COURIER_STRICT : 0));
	buf_put_u32(&to_courier, n_steers);
	buf_put_str(&to_courier, sv->spec.id);
	buf_put_str(&to_courier, sv->spec.name);
	buf_put_str(&to_courier, sv->spec.chain != NULL ? sv->spec.chain : "");
	buf_put_str(&to_courier, sv->spec.principal != NULL ? sv->spec.principal : "");
	buf_put_strv(&to_courier, sv->spec.egress_env);
	fds[n++] = e->policy.policy;
	if (e->trust.authorities >= 0)
		fds[n++] = e->trust.authorities;
	if (e->secrets >= 0)
		fds[n++] = e->secrets;
	if (e->keeper >= 0)
		fds[n++] = e->keeper;
	return ipc_send(courier, &to_courier, fds, n, err);
}

static void
close_channels(struct supervisor *sv)
{
	struct loop_source *const both[] = { &sv->egress.gate, &sv->egress.courier };

	for (size_t i = 0; i < ARRAY_LEN(both); i++)
		if (both[i]->fd >= 0) {
			loop_unwatch(sv->loop, both[i]);
			close(both[i]->fd);
			both[i]->fd = -1;
		}
}

/* The gate sends nothing, so its channel has ended, or the gate misbehaves. */
static void
gate_ready(void *arg, uint32_t events)
{
	struct supervisor *sv = arg;
	char byte;

	(void)events;
	supervisor_egress_hung_up(sv, &sv->egress.gate);
	if (recv(sv->egress.gate.fd, &byte, 1, MSG_DONTWAIT) <= 0)
		return;
	supervisor_say(sv, "the cell's gate broke the rules, so it was killed");
	/* The courier first sends the records of what was under way; the gate ends with it. */
	shutdown(sv->egress.courier.fd, SHUT_WR);
}

static int
activate(struct supervisor *sv, struct err *err)
{
	struct egress *e = &sv->egress;
	OWN(buf_free) struct buf message;
	int gate[2] = { -1, -1 }, courier[2] = { -1, -1 }, r;
	uint32_t n_steers = 0;

	ipc_begin(&message, STARTER_START);
	r = supervisor_steer_prepare(sv, &n_steers, err);
	if (r == 0 && (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, gate) < 0 ||
	               socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, courier) < 0))
		r = err_errno(err, "cannot make a channel");
	if (r == 0)
		r = send_start(sv, gate[0], courier[0], n_steers, err);
	if (r == 0)
		r = ipc_send(e->starter_channel.fd, &message, (int[]){ gate[1], courier[1] }, 2, err);
	closep(&gate[1]);
	closep(&courier[1]);
	if (r < 0) {
		closep(&gate[0]);
		closep(&courier[0]);
		return r;
	}
	e->gate = (struct loop_source){ .fd = gate[0], .ready = gate_ready, .arg = sv };
	e->courier = (struct loop_source){ .fd = courier[0], .ready = supervisor_courier_ready,
	                                   .arg = sv };
	(void)fcntl(courier[0], F_SETFL, O_NONBLOCK);
	e->running = true;
	e->started_ms = loop_now_ms();
	r = loop_watch(sv->loop, &e->gate, EPOLLIN, err);
	if (r == 0)
		r = loop_watch(sv->loop, &e->courier, EPOLLIN, err);
	if (r == 0)
		supervisor_timeline_egress(sv);
	supervisor_steer_flush(sv);
	return r;
}

static void
listener_ready(void *arg, uint32_t events)
{
	struct supervisor *sv = arg;
	struct err err = {0};

	(void)events;
	supervisor_egress_listen(sv, false);
	if (activate(sv, &err) < 0)
		supervisor_complain(err.text);
}

/* Publish asks the courier something, or is gone. */
static void
webhooks_ready(void *arg, uint32_t events)
{
	struct supervisor *sv = arg;
	struct loop_source *source = &sv->egress.webhooks;

	if ((events & (EPOLLHUP | EPOLLERR)) == 0) {
		listener_ready(sv, events);
		return;
	}
	loop_unwatch(sv->loop, source);
	close(source->fd);
	source->fd = -1;
}

/* ---- their end ------------------------------------------------------------------------- */

static void
again_due(void *arg)
{
	supervisor_egress_listen(arg, true);
}

/* Prepares for the next connection: at once, unless the helpers keep dying. */
static void
wait_for_next(struct supervisor *sv)
{
	struct egress *e = &sv->egress;
	uint64_t pause = 0;

	e->quick_ends = loop_now_ms() - e->started_ms < QUICK_MS ? e->quick_ends + 1 : 0;
	if (e->quick_ends > QUICK_ENDS)
		pause = 100ULL << (e->quick_ends - QUICK_ENDS < 8 ? e->quick_ends - QUICK_ENDS : 8);
	loop_set_timer(sv->loop, &e->again, pause < PAUSE_MAX_MS ? pause : PAUSE_MAX_MS);
}

/* Recorded in the timeline too: whatever a killed courier had not sent is missing there. */
static void
tell_ended(struct supervisor *sv, uint32_t which, int status)
{
	static const char *const names[] = { "gate", "courier", "inspector" };
	bool by_itself = which < ARRAY_LEN(names);
	char how[32] = "it was killed";

	if (by_itself && WIFSIGNALED(status))
		snprintf(how, sizeof(how), "signal %d", WTERMSIG(status));
	else if (by_itself)
		snprintf(how, sizeof(how), "status %d", WEXITSTATUS(status));
	if (supervisor_timeline_has_room(sv, ENDED_MAX))
		supervisor_record(sv, "egress broke off", by_itself ? names[which] : "supervisor", how);
	if (!by_itself || sv->egress.quick_ends > QUICK_ENDS)
		return;
	supervisor_say(sv, "the cell's %s ended by itself (%s); the next connection starts it again",
	               names[which], how);
}

/* Egress is over for good: the cell ended, or nothing is left to restart the helpers.  In the
 * second case the cell goes on, and its connections are refused. */
static void
end_for_good(struct supervisor *sv)
{
	struct egress *e = &sv->egress;

	loop_unwatch(sv->loop, &e->starter_channel);
	loop_cancel_timer(sv->loop, &e->patience);
	if (!e->finishing) {
		supervisor_say(sv, "the process that starts the cell's gate was killed: the cell has no "
		               "network any more");
		supervisor_egress_listen(sv, false);
		for (size_t i = 0; i < BOUNDARY_SOCKETS; i++) {
			closep(&sv->sockets[i]);
			sv->sockets[i] = e->listeners[i].fd = -1;
		}
	}
	e->over = true;
	if (sv->dead)
		supervisor_tell_dead(sv);
	supervisor_check_end(sv);
}

static void
starter_ready(void *arg, uint32_t events)
{
	struct supervisor *sv = arg;
	struct egress *e = &sv->egress;
	OWN(ipc_message_free) struct ipc_message message = {0};
	uint32_t which = STARTER_HELPERS, status = 0;
	int r = ipc_receive(e->starter_channel.fd, &message, NULL);
	bool cut_off = e->running && (e->stopping || r < 0);

	(void)events;
	if (r == -EAGAIN)
		return;
	if (r == 0 && message.type == STARTER_ENDED && buf_get_u32(&message.body, &which) == 0)
		(void)buf_get_u32(&message.body, &status);
	/* Read all that the courier sent before it went. */
	while (e->courier.fd >= 0 && e->courier.events != 0 && supervisor_hear_courier(sv) == 0)
		;
	close_channels(sv);
	loop_cancel_timer(sv->loop, &e->patience);
	e->running = e->stopping = false;
	supervisor_steer_gone(sv);
	supervisor_approvals_gone(sv, APPROVAL_OF_REQUEST, sv->dead ? "the cell has ended" :
	                          "the cell's courier has gone, and the request with it");
	if (r < 0 || e->finishing) {
		/* As a rule the courier has sent everything and ended by itself. */
		if (cut_off)
			tell_ended(sv, STARTER_HELPERS, 0);
		end_for_good(sv);
		return;
	}
	wait_for_next(sv);
	tell_ended(sv, which, (int)status);
}

static void
patience_over(void *arg)
{
	struct supervisor *sv = arg;
	struct egress *e = &sv->egress;

	if (!e->stopping) {
		e->stopping = true;
		supervisor_egress_stop(sv);
		loop_set_timer(sv->loop, &e->patience, STOP_MS);
		return;
	}
	/* Not even the starter answers. */
	kill(e->starter, SIGKILL);
}

/* The group is beside the cell's.  So the agent can neither use more of the machine through its
 * helpers than it was granted, nor starve them. */
static int
make_group(struct supervisor *sv, struct err *err)
{
	struct cgroup_limits limits = { .memory = HELPERS_MEMORY,
		.pids = HELPERS_PIDS + (sv->spec.keeper != 0 ? KEEPER_PIDS : 0),
		.cpus_milli = sv->spec.limits.cpus_milli };
	OWN(freep) char *id = str_format("%s" CGROUP_HELPERS, sv->spec.id);
	char why[512];
	unsigned missing;
	int r;

	if (id == NULL)
		return err_errno(err, "cannot make a cgroup");
	/* Missing limits were reported when the cell's own group was made. */
	r = cgroup_create(id, &limits, &sv->egress.cgroup, &missing, why, sizeof(why), err);
	return r < 0 || sv->spec.keeper == 0 ? r : cgroup_enter(sv->egress.cgroup,
	                                                        (pid_t)sv->spec.keeper, err);
}

/* It ends with the starter, or with this descriptor. */
static void
end_side(struct side *side, bool wait)
{
	closep(&side->channel);
	side->channel = -1;
	if (!wait || side->pid <= 0)
		return;
	waitpid(side->pid, NULL, 0);
	side->pid = 0;
}

int
supervisor_egress_start(struct supervisor *sv, struct err *err)
{
	struct egress *e = &sv->egress;
	int channel, r;

	/* The child has already waited for it. */
	if (e->mint > 0)
		waitpid(e->mint, NULL, 0);
	e->mint = 0;
	closep(&e->trust.ready);
	closep(&e->trust.keystore);
	e->trust.ready = e->trust.keystore = -1;
	r = make_group(sv, err);
	if (r == 0)
		r = supervisor_fork_starter(sv, &channel, &e->starter, err);
	if (r < 0)
		return r;
	end_side(&e->hooks, false);
	end_side(&e->tools, false);
	(void)fcntl(channel, F_SETFL, O_NONBLOCK);
	e->starter_channel = (struct loop_source){ .fd = channel, .ready = starter_ready, .arg = sv };
	loop_prepare_timer(&e->again, again_due, sv);
	loop_prepare_timer(&e->patience, patience_over, sv);
	for (size_t i = 0; i < BOUNDARY_SOCKETS; i++)
		e->listeners[i] = (struct loop_source){ .fd = sv->sockets[i],
			.ready = listener_ready, .arg = sv };
	e->webhooks.ready = webhooks_ready;
	e->webhooks.arg = sv;
	supervisor_egress_listen(sv, true);
	r = supervisor_sides_watch(sv, err);
	return r < 0 ? r : loop_watch(sv->loop, &e->starter_channel, EPOLLIN, err);
}

int
supervisor_egress_close(struct supervisor *sv)
{
	struct egress *e = &sv->egress;
	int r;

	if (e->mint > 0) {
		kill(e->mint, SIGKILL);
		waitpid(e->mint, NULL, 0);
	}
	close_channels(sv);
	supervisor_secrets_close(sv);
	supervisor_fired_close(sv);
	supervisor_watch_close(sv);
	/* Left alone, it would only go once a program that it waits for has ended. */
	if (e->keeper_process >= 0)
		(void)syscall(SYS_pidfd_send_signal, e->keeper_process, SIGKILL, NULL, 0);
	closep(&e->keeper);
	closep(&e->keeper_process);
	e->keeper = e->keeper_process = -1;
	closep(&e->starter_channel.fd);
	e->starter_channel.fd = -1;
	/* The end of the channel ends the starter and the helpers that it started. */
	if (e->starter > 0)
		waitpid(e->starter, NULL, 0);
	end_side(&e->hooks, true);
	end_side(&e->tools, true);
	supervisor_sides_hear_last(sv);
	closep(&e->tool_events.fd);
	e->tool_events.fd = -1;
	e->mint = e->starter = 0;
	r = cgroup_destroy(e->cgroup);
	e->cgroup = NULL;
	return r;
}
