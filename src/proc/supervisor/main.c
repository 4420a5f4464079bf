/* main.c - cloister-supervisor: one cell, from its description to its end. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/timing.h"
#include "base/tree.h"
#include "cell/cell_series.h"
#include "confine/filter.h"
#include "confine/landlock.h"
#include "confine/privileges.h"
#include "ipc/init_channel.h"
#include "proc/supervisor/supervisor.h"
#include "trust/trust.h"

static int
read_spec(struct supervisor *sv, struct err *err)
{
	OWN(freep) char *text = NULL;
	struct buf b;
	size_t len;
	int r;

	r = read_file_at(AT_FDCWD, "/proc/self/fd/3", CELL_SPEC_MAX, &text, &len, err);
	if (r < 0)
		return err_set(err, EINVAL, "cloister-supervisor is started by `cloister run` only");
	close(CELL_SPEC_FD);
	buf_init_borrowed(&b, text, len);
	r = cell_spec_get(&b, &sv->spec, err);
	for (int fd = CELL_STARTED_FD; r == 0 && fd < CELL_FDS_END; fd++) {
		bool has = fd == CELL_TIMING_FD ? timing_file >= 0 : cell_spec_has_fd(&sv->spec, fd);

		if (has && fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
			r = err_errno(err, "a file of the cell's description did not reach the supervisor");
		else if (!has && CONTROL_ON("fds"))
			close(fd);
	}
	if (r == 0 && (sv->boundary = boundary_find(sv->spec.boundary, err)) == NULL)
		r = -EINVAL;
	if (r == 0 && sv->boundary->settle != NULL)
		r = sv->boundary->settle(sv->spec.id, NULL, &sv->spec.env, &sv->spec.cwd, err);
	/* Close every other descriptor that the operator's shell left open. */
	if (CONTROL_ON("fds") && sv->waiting == NULL)
		syscall(SYS_close_range, (unsigned)CELL_FDS_END, ~0u, 0u);
	return r;
}

static int
open_libexec(struct supervisor *sv, struct err *err)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n < 0)
		return err_errno(err, "cannot find the folder of the helpers");
	exe[n] = '\0';
	sv->libexec = open(dirname(exe), O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (sv->libexec < 0)
		return err_errno(err, "cannot open the folder of the helpers");
	return 0;
}

/* The session's keyring may hold the operator's keys, and the cell would inherit it.  An empty
 * keyring takes its place, shared by all of this user's cells: each key counts against the user's
 * quota. */
static int
leave_keyring(struct err *err)
{
	if (CONTROL_ON("keyring") &&
	    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, "cloister", 0, 0, 0) < 0 &&
	    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL, 0, 0, 0) < 0 &&
	    /* The filter of a container around us, which nobody in the cell can pass either. */
	    errno != ENOSYS && errno != EPERM)
		return err_errno(err, "cannot leave the operator's keyring");
	return 0;
}

/* True once for as long as the runtime folder lives: until the machine restarts or the user logs
 * out.  `cloister doctor` reports it every time. */
static bool
is_first_time(const struct supervisor *sv, const char *what)
{
	OWN(closep) int fd = openat(sv->place.runtime, what, O_WRONLY | O_CREAT | O_EXCL |
	                            O_CLOEXEC, 0600);

	return fd >= 0;
}

static void
tell_once(void *arg, const char *topic, const char *text)
{
	const struct supervisor *sv = arg;

	if (is_first_time(sv, topic))
		supervisor_say(sv, "%s (this is shown only once)", text);
}

/* Checks where the timeline will be; the entry is made with the first event. */
static int
check_state_folder(struct err *err)
{
	OWN(closep) int state = cell_state_open(true, err);

	return state < 0 ? state : 0;
}

/* Makes the state entry for this id.  If a cell with this id existed before, no agent runs. */
static int
make_state(struct supervisor *sv, struct err *err)
{
	if (sv->state >= 0)
		return 0;
	return cell_spec_has_state(&sv->spec) ? cell_state_make(&sv->spec, &sv->state, err) :
	       sv->spec.has_policy ? check_state_folder(err) : 0;
}

/* From now on, files that the agent may write are not trusted as the operator's. */
static int
mark_grants(struct supervisor *sv, struct err *err)
{
	const char *folders[CELL_GRANTS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < sv->spec.n_grants; i++)
		if (sv->spec.grants[i].access == CELL_WRITE)
			folders[n++] = sv->spec.grants[i].host;
	if (n == 0)
		return 0;
	sv->marks = trust_mark(folders, n, err);
	return sv->marks < 0 ? sv->marks : 0;
}

/* Runs while the walls go up, because the disk is slow. */
static int
make_files(void *arg, struct walls *walls, struct err *err)
{
	struct supervisor *sv = arg;
	int r = make_state(sv, err);

	sv->walls = walls;
	/* Only now: a cell that was refused has written nothing. */
	if (r == 0)
		r = mark_grants(sv, err);
	if (r == 0) {
		supervisor_timeline_begin(sv);
		r = supervisor_budget_prepare(sv, err);
	}
	if (r == 0)
		r = supervisor_make_logs(sv, err);
	/* The supervisor cannot change their owner later. */
	return r == 0 && sv->changes < 0 && sv->has_inner_root ? supervisor_make_changes(sv, err) : r;
}

static void
begun(void *arg, struct walls *walls)
{
	supervisor_witness_begin(arg, walls);
}

static bool
notifies(void *arg)
{
	return supervisor_witness_choose(arg);
}

static int
before_spawn(void *arg, struct err *err)
{
	return supervisor_witness_await(arg, err);
}

/* Builds the walls and starts the agent behind them. */
static int
start_cell(struct supervisor *sv, struct err *err)
{
	OWN(buf_free) struct buf spawn = {0};
	OWN(own_paths_free) struct own_paths own = {0};
	bool tty = sv->spec.tty;
	int inside[3] = { -1, -1, -1 };
	const bool is_fork = sv->spec.fork_of.id[0] != '\0';
	struct boundary_ground ground = {
		.memory = is_fork ? CELL_POINT_MEMORY_FD : -1, .state = is_fork ? CELL_POINT_STATE_FD : -1,
		.slot = sv->place.entry.slot, .entry = sv->place.dir, .libexec = sv->libexec,
		.changes = sv->changes, .loop = sv->loop,
		.trust = sv->spec.has_policy ? &sv->egress.trust : NULL, .waiting = sv->waiting,
		.spawn = sv->spec.held ? NULL : &spawn, .spawn_fds = inside + (tty ? 2 : 0),
		.meanwhile = make_files, .tell_once = tell_once, .arg = sv, .notifies = notifies, .calls = &sv->calls,
		.begun = begun, .before_spawn = before_spawn,
	};
	int r = supervisor_find_own(&sv->spec, &own, err);

	for (size_t i = 0; i < own.n; i++)
		ground.hidden[i] = own.at[i];
	if (r == 0)
		r = supervisor_describe_first(sv, &spawn, inside, err);
	ground.n_spawn_fds = !tty ? 3 : inside[2] >= 0 ? 1 : 0;
	/* A script that opens /dev/stdout reopens the pipe, as the agent. */
	for (int i = 0; r == 0 && i < 3; i++) {
		sv->boundary->give_to_agent(inside[i], sv->place.entry.slot, &sv->spec);
		sv->boundary->give_to_agent(sv->setup.inside[i], sv->place.entry.slot, &sv->spec);
	}
	if (r == 0) {
		sv->waiting = NULL;
		r = sv->boundary->start(&sv->spec, &ground, &sv->walls, err);
	}
	if (r < 0)
		sv->walls = NULL;
	for (int i = 0; i < 3; i++)
		closep(&inside[i]);
	return r;
}

static void
walls_died(void *arg, uint32_t events)
{
	struct supervisor *sv = arg;

	(void)events;
	if (!sv->boundary->reap(sv->walls, false))
		return;
	loop_unwatch(sv->loop, &sv->died);
	if (port_finish(sv->boundary->port(sv->walls)))
		supervisor_cell_died(sv);
}

static void
caught(void *arg, const struct signalfd_siginfo *info)
{
	struct supervisor *sv = arg;

	if (info->ssi_signo == SIGWINCH || info->ssi_signo == SIGCONT)
		stdio_resize(&sv->stdio);
	else if (info->ssi_signo == SIGTSTP)
		supervisor_suspend(sv);
	else if (sv->dead || (sv->frozen && info->ssi_signo != SIGUSR1 && info->ssi_signo != SIGUSR2))
		supervisor_kill(sv, KILLED_BY_OPERATOR);
	else
		supervisor_signal(sv, sv->setup.runs ? INIT_HANDLE_SETUP : INIT_HANDLE_AGENT,
		                  (int)info->ssi_signo);
}

static int
catch_signals(struct supervisor *sv, struct err *err)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2,
	                               SIGWINCH, SIGCONT, SIGTSTP };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		sigaddset(&set, numbers[i]);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTTOU, SIG_IGN);
	return loop_catch(sv->loop, &set, caught, sv, err);
}

static void
time_over(void *arg)
{
	supervisor_kill(arg, KILLED_BY_TIME);
}

static void
ttl_over(void *arg)
{
	supervisor_stop(arg, CELL_TTL_GRACE_MS, KILLED_BY_TTL);
}

static int
watch_cell(struct supervisor *sv, struct err *err)
{
	int r;

	sv->boundary->sockets(sv->walls, sv->sockets);
	sv->died = (struct loop_source){ .fd = sv->boundary->died(sv->walls), .arg = sv, .ready = walls_died };
	loop_prepare_timer(&sv->time, time_over, sv);
	loop_prepare_timer(&sv->ttl, ttl_over, sv);
	loop_set_timer(sv->loop, &sv->time, sv->spec.limits.time_ms);
	if (sv->spec.limits.ttl_ms > 0)
		loop_set_timer(sv->loop, &sv->ttl, sv->spec.limits.ttl_ms);
	/* Init's own clock is that of the cell that it was copied from. */
	if (sv->spec.fork_of.id[0] != '\0')
		supervisor_tell_limit(sv);
	r = supervisor_watch_port(sv, err);
	return r < 0 ? r : loop_watch(sv->loop, &sv->died, EPOLLIN, err);
}

/* The supervisor may write to its own folders and to cgroups, nowhere else.  The changes of
 * overlays are listed one by one: once the cell is dead they are beneath no root. */
static int
make_landlock(const struct supervisor *sv, int *ret_fd, struct err *err)
{
	char paths[2 * CELL_GRANTS_MAX + 3][32];
	const char *writable[2 * CELL_GRANTS_MAX + 5] = { "/sys/fs/cgroup" };
	/* The timeline is here, and moves there when the cell has ended. */
	OWN(closep) int state = cell_state_open(false, NULL);
	int folders[CELL_GRANTS_MAX];
	size_t n = 0, n_folders = sv->boundary->folders(sv->walls, folders);

	snprintf(paths[n++], sizeof(paths[0]), "/proc/self/fd/%d", sv->place.runtime);
	if (state >= 0)
		snprintf(paths[n++], sizeof(paths[0]), "/proc/self/fd/%d", state);
	if (sv->timeline.operator.dir > 0)
		snprintf(paths[n++], sizeof(paths[0]), "/proc/self/fd/%d", sv->timeline.operator.dir);
	for (size_t i = 0; i < n_folders; i++)
		snprintf(paths[n++], sizeof(paths[0]), "/proc/self/fd/%d", folders[i]);
	for (size_t i = 0; i < sv->spec.n_grants; i++)
		if (sv->volumes[i] > 0)
			snprintf(paths[n++], sizeof(paths[0]), "/proc/self/fd/%d", sv->volumes[i]);
	for (size_t i = 0; i < n; i++)
		writable[i + 1] = paths[i];
	return landlock_make(LANDLOCK_SUPERVISOR, writable, ret_fd, err);
}

/* Everything is in place.  From here on the supervisor serves an agent, and needs almost none of
 * root's rights.  It can kill the cell and read its changes because it owns the cell's user
 * namespace.  CAP_DAC_OVERRIDE stays: the folders from which cgroups are removed are writable to
 * nobody. */
static int
lock_down(const struct supervisor *sv, struct err *err)
{
	const unsigned kept = geteuid() == 0 ? 1u << CAP_DAC_OVERRIDE : 0;
	OWN(closep) int landlock = -1;
	int r;

	if (prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_errno(err, "cannot drop the supervisor's own rights");
	/* Root of a container may not have it. */
	r = privileges_keep(kept, err);
	if (r == 0)
		r = make_landlock(sv, &landlock, err);
	if (r == 0)
		r = landlock_enforce(landlock, err);
	return r < 0 ? r : filter_load(FILTER_SUPERVISOR, err);
}

static int
start(struct supervisor *sv, struct err *err)
{
	bool on_disk = (cell_spec_has_overlay(&sv->spec) || sv->spec.image.build) && !sv->boundary->keeps_changes();
	int r;

	sv->started_ns = supervisor_now_ns();
	r = sv->boundary->check(&sv->spec, err);
	timing_mark(TIMING_LIMITED);
	sv->has_inner_root = sv->boundary->inner_root(sv->place.entry.slot) != geteuid();
	if (r == 0)
		r = supervisor_idle_check(sv, err);
	if (r == 0 && (sv->spec.again != NULL || sv->spec.fork_of.id[0] != '\0') && sv->boundary->take_point == NULL)
		r = err_set(err, ENOTSUP, "--forkable does not work with the boundary `%s`: use --boundary microvm", sv->boundary->name);
	if (r == 0 && on_disk) {
		r = make_state(sv, err);
		r = r < 0 ? r : supervisor_make_changes(sv, err);
	}
	if (r == 0)
		r = supervisor_volumes_open(sv, err);
	if (r == 0 && sv->spec.n_ports > 0)
		r = supervisor_take_ports(sv, err);
	if (r == 0)
		r = start_cell(sv, err);
	if (r == 0 && cell_spec_writes_state(&sv->spec))
		r = supervisor_saver_begin(sv, err);
	if (r == 0)
		r = supervisor_witness_listen(sv, err);
	/* The files are in the cell by now, or never will be. */
	cell_spec_free_files(&sv->spec);
	/* Changes that are written to disk from the start are not under the disk limit. */
	if (r == 0 && on_disk)
		tell_once(sv, "told-disk", "changes to overlay workspaces have no limit on disk here: this "
		          "kernel's tmpfs cannot hold them, Linux 6.6 can");
	if (r == 0) {
		r = watch_cell(sv, err);
		supervisor_watch_net(sv);
		supervisor_budget_begin(sv);
		supervisor_resources_begin(sv);
	}
	if (r == 0)
		r = supervisor_idle_begin(sv, err);
	if (r == 0)
		r = supervisor_witness_watch(sv, err);
	if (r == 0 && sv->spec.has_policy)
		r = supervisor_egress_start(sv, err);
	if (r == 0 && sv->spec.n_ports > 0)
		r = supervisor_publish(sv, err);
	if (r == 0)
		supervisor_notify_start(sv);
	if (r == 0)
		supervisor_saver_watch(sv);
	if (r == 0)
		r = supervisor_listen(sv, err);
	timing_mark(TIMING_LISTENS);
	return r;
}

/* Clears what is left of a cell whose supervisor was killed. */
static int
clear_walls(void *arg, int dir, const char *id)
{
	const struct supervisor *sv = arg;
	const struct boundary *kind = boundary_of(dir);

	/* Another version of cloister clears what this one does not know. */
	return kind == NULL ? -ENOTSUP : kind->clear(kind == sv->boundary ? sv->walls : NULL, dir, id);
}

struct known {
	int runtime;
	struct cell_entry *entries;
	size_t n;
	bool is_listed;
};

static int
by_id(const void *a, const void *b)
{
	return strcmp(((const struct cell_entry *)a)->id, ((const struct cell_entry *)b)->id);
}

/* A cell's entry exists before its walls and until after them.  So the entries must be listed after
 * the walls. */
static bool
is_known(void *arg, const char *id)
{
	struct known *known = arg;
	struct cell_entry like = {0};

	if (!known->is_listed) {
		if (cell_list(known->runtime, true, &known->entries, &known->n, NULL) < 0)
			return true;
		known->is_listed = true;
		if (known->n > 0)
			qsort(known->entries, known->n, sizeof(*known->entries), by_id);
	}
	snprintf(like.id, sizeof(like.id), "%s", id);
	return known->n > 0 && bsearch(&like, known->entries, known->n, sizeof(like), by_id) != NULL;
}

/* Clears what is left of cells whose runtime entries are already gone, for example because somebody
 * emptied that folder. */
static void
clear_forgotten(const struct supervisor *sv)
{
	struct known known = { .runtime = sv->place.runtime };

	sv->boundary->clear_unknown(sv->walls, is_known, &known);
	free(known.entries);
}

static int
supervise(struct supervisor *sv, struct err *err)
{
	const struct cell_clearer clearer = { clear_walls, supervisor_timeline_lost, sv };
	int r = start(sv, err);

	/* All of this happens while the agent starts.  The supervisor reads nothing from it before
	 * it has locked itself down. */
	if (r == 0) {
		cell_clear_stale(&sv->place, &clearer);
		clear_forgotten(sv);
		timing_mark(TIMING_CLEARED);
		r = lock_down(sv, err);
		timing_mark(TIMING_LOCKED);
	}
	if (r == 0 && sv->spec.held) {
		(void)!write(CELL_STARTED_FD, sv->spec.id, CELL_ID_LEN);
		close(CELL_STARTED_FD);
		sv->made = true;
	}
	return r < 0 ? r : loop_run(sv->loop, err);
}

/* The status of a start that failed: a signal may have ended it (io_await), and still waits. */
static int
failed_status(const struct err *err)
{
	int number = err->code == EINTR ? io_pending_end() : 0;

	return number > 0 ? 128 + number : 125;
}

/* The cell could not be made. */
static void
complain(const struct supervisor *sv, const struct err *err)
{
	/* If it is held, standard error is its command's. */
	if (!sv->spec.held || sv->made || write(CELL_STARTED_FD, err->text, strlen(err->text)) < 0)
		supervisor_complain(err->text);
}

/* Fail with nothing left behind. */
static int
give_up(struct supervisor *sv, const struct err *err)
{
	int status = failed_status(err);

	if (sv->walls != NULL && !sv->dead) {
		sv->boundary->kill(sv->walls);
		(void)sv->boundary->reap(sv->walls, true);
	}
	supervisor_setup_over(sv);
	stdio_close(&sv->stdio);
	complain(sv, err);
	snprintf(sv->cause, sizeof(sv->cause), "%.255s", err->text);
	sv->spec.quiet = sv->gave_up = true;
	supervisor_clean_up(sv, status);
	return status;
}

/* Signals that the operator's shell ignored (SIGCHLD, say) are not ignored here or in the cell. */
static void
reset_signals(void)
{
	for (int number = 1; number < NSIG; number++)
		spawn_reset_signal(number);
}

/* In a real-time class the agent could keep a processor from everybody else, and a cgroup would not
 * accept it. */
static void
leave_real_time(void)
{
	static const struct sched_param none;
	int class = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;

	if (class == SCHED_FIFO || class == SCHED_RR)
		(void)sched_setscheduler(0, SCHED_OTHER, &none);
}

static void
output_ended(void *arg)
{
	supervisor_check_end(arg);
}

/* WORD: what the supervisor is to do beside its work, or NULL. */
static int
begin(struct supervisor *sv, const char *word, struct err *err)
{
	const bool waits = word != NULL && strcmp(word, SUPERVISOR_WAITS) == 0;
	int r = waits ? supervisor_keep_numbers(err) : word != NULL ? supervisor_timing_begin(sv, word, err) : 0;

	if (r == 0 && !waits)
		r = read_spec(sv, err);
	if (r == 0)
		r = leave_keyring(err);
	if (r == 0)
		r = open_libexec(sv, err);
	if (r == 0 && waits)
		r = supervisor_wait(sv, err);
	return r < 0 || !waits ? r : read_spec(sv, err);
}

int
main(int argc, char **argv)
{
	static struct supervisor sv = { .taker = -1,
		.libexec = -1, .state = -1, .changes = -1, .log = -1,
		.counters = -1, .idle.counters = -1, .forking = { .memory = -1, .state = -1 }, .webhooks = -1, .streams = { { .fd = -1 }, { .fd = -1 } },
		.setup = { .inside = { -1, -1, -1 }, .null = -1, .steps = -1 },
		.sockets = { -1, -1, -1, -1, -1 },
		.egress = { .trust = { -1, -1, -1, -1 }, .key = -1,
		            .policy = { .policy = -1, .text = -1, .counts = -1 },
		            .secrets = -1, .keeper = -1, .keeper_process = -1, .names = -1, .hooks = { .channel = -1 },
		            .tools = { .channel = -1 }, .tool_events = { .fd = -1 },
		            .starter_channel.fd = -1, .gate.fd = -1, .courier.fd = -1,
		            .webhooks.fd = -1 },
		.notifier.channel.fd = -1, .dials.fd = -1, .witness.channel.fd = -1,
		.budgets = { .cell_fd = -1, .principal_fd = -1 },
		.timeline.log.fd = -1,
	};
	struct err err = {0};
	int r, status;

	umask(077);
	reset_signals();
	leave_real_time();
	r = begin(&sv, argc > 1 ? argv[1] : NULL, &err);
	/* This takes longest, so it runs beside all that follows. */
	if (r == 0 && sv.spec.has_policy)
		r = supervisor_egress_prepare(&sv, &err);
	if (r == 0)
		r = supervisor_witness_prepare(&sv, &err);
	if (r == 0)
		r = loop_new(&sv.loop, &err);
	if (r == 0) {
		stdio_init(&sv.stdio, sv.loop, output_ended, &sv);
		sv.stdio.resize = supervisor_resize;
		r = catch_signals(&sv, &err);
	}
	if (r == 0)
		r = sv.waiting != NULL ? cell_place_enter(&sv.spec, &sv.place, &err) :
		    cell_place_take(&sv.spec, &sv.place, &err);
	timing_mark(TIMING_PLACED);
	if (r == 0 && (r = cell_series_enter(sv.place.runtime, &sv.spec, &err)) < 0)
		cell_place_leave(&sv.place, true);
	if (r < 0) {
		supervisor_egress_close(&sv);
		supervisor_witness_close(&sv);
		complain(&sv, &err);
		supervisor_tell_taker(&sv, 125);
		return 125;
	}
	if (supervise(&sv, &err) < 0) {
		status = give_up(&sv, &err);
		supervisor_tell_taker(&sv, status);
		return status;
	}
	status = supervisor_status(&sv);
	supervisor_clean_up(&sv, status);
	supervisor_timing_print(&sv);
	return status;
}
