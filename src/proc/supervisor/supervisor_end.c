/* supervisor_end.c - explains the end of a cell, keeps its record and changes, and removes everything else. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/spawn.h"
#include "base/timing.h"
#include "base/tree.h"
#include "cell/cell_exec_error.h"
#include "cell/cell_unsaved.h"
#include "ipc/control_channel.h"
#include "proc/supervisor/supervisor.h"

void
supervisor_find_reason(struct supervisor *sv)
{
	OWN(freep) char *by = NULL;
	char what[COURIER_REACHED_MAX];
	uint64_t now = loop_now_ms();

	if (sv->killed_by != KILLED_NOT || sv->agent_exited)
		return;
	if (read_file_at(sv->place.dir, CELL_KILLED, CONTROL_BY_MAX, &by, NULL, NULL) == 0) {
		sv->killed_by = KILLED_BY_OPERATOR;
		supervisor_record(sv, "killed", by, "the supervisor did not answer");
	} else if (sv->time.at_ms != 0 && sv->time.at_ms <= now) {
		sv->killed_by = KILLED_BY_TIME;
	} else if (sv->ttl.at_ms != 0 && sv->ttl.at_ms <= now) {
		sv->killed_by = KILLED_BY_TTL;
	} else if (supervisor_budget_ended(sv, what)) {
		sv->killed_by = KILLED_BY_BUDGET;
		supervisor_record(sv, "killed", "budget", what);
		snprintf(sv->cause, sizeof(sv->cause), "%.200s", what);
	}
}

static void
tell_cause(struct supervisor *sv)
{
	const struct cell_limits *limits = &sv->spec.limits;
	struct boundary_usage usage;
	char text[NUM_TEXT_MAX];

	if (sv->cause[0] != '\0')
		return;
	supervisor_usage(sv, &usage);
	if (sv->killed_by == KILLED_BY_TIME)
		snprintf(sv->cause, sizeof(sv->cause), "it reached its time limit (--time %s)",
		         num_format_duration(text, limits->time_ms));
	else if (sv->killed_by == KILLED_BY_TTL)
		snprintf(sv->cause, sizeof(sv->cause), "its time to live was over (--ttl %s)",
		         num_format_duration(text, limits->ttl_ms));
	else if (sv->killed_by == KILLED_BY_OPERATOR)
		snprintf(sv->cause, sizeof(sv->cause), "an operator ended it");
	else if (sv->killed_by == KILLED_BY_PEER)
		snprintf(sv->cause, sizeof(sv->cause), "its init broke the rules, so it was killed");
	else if (sv->killed_by == KILLED_BY_ALARM && sv->not_frozen[0] != '\0')
		snprintf(sv->cause, sizeof(sv->cause), "it sent a secret to where that may not go, and was "
		         "killed: %s", sv->not_frozen);
	else if (sv->killed_by == KILLED_BY_ALARM)
		snprintf(sv->cause, sizeof(sv->cause), "it sent a secret to where that may not go, and was "
		         "killed");
	else if (sv->killed_by == KILLED_BY_WITNESS)
		snprintf(sv->cause, sizeof(sv->cause), "nothing recorded its processes any more, and it was killed "
		         "(record: {lost: kill})");
	else if (usage.oom_kills > 0)
		snprintf(sv->cause, sizeof(sv->cause), "it ran out of memory (--memory %s), and %llu "
		         "of its processes %s killed for it", num_format_size(text, limits->memory),
		         (unsigned long long)usage.oom_kills, usage.oom_kills == 1 ? "was" : "were");
	else if (usage.pids_refused > 0)
		snprintf(sv->cause, sizeof(sv->cause), "it reached its limit of processes (--pids %llu)",
		         (unsigned long long)limits->pids);
	else if (usage.disk_full)
		snprintf(sv->cause, sizeof(sv->cause), "its disk was full (--disk %s)",
		         num_format_size(text, limits->disk));
	else if (sv->killed_by == KILLED_NOT && !sv->agent_exited && sv->spawn_error == 0 &&
	         strcmp(sv->boundary->name, BOUNDARY_MICROVM) == 0)
		snprintf(sv->cause, sizeof(sv->cause), "its virtual machine ended before its command did");
	else if (sv->killed_by == KILLED_NOT && !sv->agent_exited && sv->spawn_error == 0 && sv->spec.runtime != NULL)
		snprintf(sv->cause, sizeof(sv->cause), "its container ended before its command did");
}

static int
tell_spawn_error(struct supervisor *sv)
{
	struct err err;
	int status = cell_explain_exec_error(&sv->spec, sv->spec.argv[0] != NULL ? sv->spec.argv[0] : "",
	                                     sv->spawn_error, &err);

	/* This is an error, so it is printed with -q too; and with -d, whose `run` is still waiting. */
	supervisor_complain(err.text);
	snprintf(sv->cause, sizeof(sv->cause), "%.255s", err.text);
	return status;
}

/* The operator's name for the cell. */
static const char *
called(const struct supervisor *sv)
{
	return sv->spec.name[0] != '\0' ? sv->spec.name : sv->spec.id;
}

/* The word for the cell in commands: its name, unless another kept cell has it too. */
static const char *
findable(const struct supervisor *sv)
{
	OWN(closep) int folder = cell_state_open(false, NULL);
	struct cell_entry entry;
	int r = folder < 0 ? -ENOENT : cell_find(folder, false, called(sv), &entry, NULL);

	return r == -ENOENT || (r == 0 && strcmp(entry.id, sv->spec.id) == 0) ? called(sv) : sv->spec.id;
}

static void
tell_changes(struct supervisor *sv, bool whole)
{
	const char *name = findable(sv);

	supervisor_say(sv, "%s kept: `cloister diff %s`, then `cloister apply %s` or `cloister discard %s`",
	               whole ? "the workspace's changes are" : "a part of the workspace's changes is", name, name,
	               name);
}

int
supervisor_status(struct supervisor *sv)
{
	tell_cause(sv);
	if (sv->stdio.write_error != 0)
		supervisor_say(sv, "cannot write all of the command's output: %s",
		               strerrordesc_np(sv->stdio.write_error));
	if (sv->spawn_error != 0)
		return tell_spawn_error(sv);
	if (sv->killed_by == KILLED_BY_SETUP) {
		supervisor_complain(sv->cause);
		return 125;
	}
	if (sv->cause[0] != '\0')
		supervisor_say(sv, "cell %s: %s", called(sv), sv->cause);
	if (sv->agent_exited && WIFEXITED(sv->agent_status))
		return WEXITSTATUS(sv->agent_status);
	if (sv->agent_exited && WIFSIGNALED(sv->agent_status))
		return 128 + WTERMSIG(sv->agent_status);
	return 128 + SIGKILL;
}

int
supervisor_make_changes(struct supervisor *sv, struct err *err)
{
	uid_t owner = sv->boundary->inner_root(sv->place.entry.slot);
	gid_t group = owner == geteuid() ? (gid_t)-1 : owner;
	char name[32];

	if (!cell_spec_has_overlay(&sv->spec) && !sv->spec.image.build)
		return 0;
	if (mkdirat(sv->state, CELL_CHANGES, 0700) < 0)
		return err_errno(err, "cannot make room for the workspace's changes");
	sv->changes = openat(sv->state, CELL_CHANGES, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < sv->spec.n_grants; i++) {
		snprintf(name, sizeof(name), "%zu", i);
		if (sv->spec.grants[i].access == CELL_OVERLAY &&
		    (mkdirat(sv->changes, name, 0700) < 0 ||
		     fchownat(sv->changes, name, owner, group, 0) < 0))
			return err_errno(err, "cannot make room for the workspace's changes");
	}
	if (fchown(sv->changes, owner, group) < 0)
		return err_errno(err, "cannot make room for the workspace's changes");
	return 0;
}

/* Copies one overlay's changes out of the cell. */
static int
collect(struct supervisor *sv, size_t grant, uint32_t *ret_left_out, struct err *err)
{
	OWN(closep) int target = -1;
	char name[32];
	int r;

	if (sv->changes < 0 && supervisor_make_changes(sv, err) < 0)
		return -err->code;
	snprintf(name, sizeof(name), "%zu", grant);
	target = openat(sv->changes, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (target < 0)
		return err_errno(err, "cannot keep the workspace's changes");
	r = sv->boundary->collect(sv->walls, grant, target, ret_left_out, NULL, err);
	if (r == 0 && *ret_left_out > 0)
		supervisor_say(sv, "of the workspace's changes, %u %s left out: devices, sockets, "
		               "FIFOs, or files too large for the disk", *ret_left_out,
		               *ret_left_out == 1 ? "was" : "were");
	return r;
}

static int
run_base_keeper(struct supervisor *sv, const int fds[4], struct err *err)
{
	char since[24], *argv[] = { (char[]){ "cloister-collect" }, (char[]){ "--base" }, since, NULL };
	const struct spawn_how how = { .argv = argv, .fds = fds, .n_fds = 4, .silent = true };
	pid_t pid;
	int status;

	snprintf(since, sizeof(since), "%llu", (unsigned long long)sv->started_ns);
	pid = supervisor_spawn(sv->libexec, &how, err);
	if (pid < 0)
		return pid;
	status = spawn_await(pid, err);
	return status == 0 ? 0 : status < 0 ? status : -EIO;
}

/* Keeps the files that the changes replace as they were: later, `apply` can merge.  Without them it
 * leaves files that changed on both sides alone, so a failure is none of the cell's. */
static void
keep_base(struct supervisor *sv, size_t grant)
{
	OWN(closep) int changes = -1, base = -1, real = tree_open_resolved(sv->spec.grants[grant].host);
	char name[48];

	snprintf(name, sizeof(name), "%s/%zu", CELL_CHANGES, grant);
	changes = openat(sv->state, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(name, sizeof(name), "%s/%zu", CELL_BASE, grant);
	if (real < 0 || changes < 0 || (mkdirat(sv->state, CELL_BASE, 0700) < 0 && errno != EEXIST) ||
	    mkdirat(sv->state, name, 0700) < 0)
		return;
	base = openat(sv->state, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (base >= 0)
		(void)run_base_keeper(sv, (int[]){ changes, base, SPAWN_NULL, real }, NULL);
}

static size_t
collect_all(struct supervisor *sv, struct cell_record *record)
{
	struct err err = {0};
	size_t kept = 0;

	/* No agent ran in a cell that could not be made. */
	for (size_t i = 0; !sv->gave_up && i < sv->spec.n_grants; i++) {
		if (sv->spec.grants[i].volume || sv->spec.grants[i].state || !sv->boundary->is_changed(sv->walls, i))
			continue;
		if (collect(sv, i, &record->left_out[i], &err) < 0) {
			supervisor_complain(err.text);
			snprintf(record->incomplete, sizeof(record->incomplete), "%.255s", err.text);
		} else if (sv->spec.grants[i].access == CELL_OVERLAY) {
			keep_base(sv, i);
		}
		kept++;
	}
	return kept;
}

/* The layer of a step that succeeded.  Without its end, the reader knows that it failed. */
static void
write_layer(struct supervisor *sv, int status)
{
	struct err err = {0};

	if (!sv->spec.image.build || sv->gave_up || status != 0)
		return;
	if (sv->boundary->write_layer == NULL)
		supervisor_complain("these walls make no layers: use --boundary namespace");
	else if (sv->boundary->write_layer(sv->walls, &sv->spec, CELL_LAYER_FD, &err) < 0)
		supervisor_complain(err.text);
}

static enum cell_end
how_ended(const struct supervisor *sv)
{
	static const enum cell_end ends[] = {
		[KILLED_BY_OPERATOR] = CELL_END_OPERATOR, [KILLED_BY_TIME] = CELL_END_TIME,
		[KILLED_BY_TTL] = CELL_END_TTL, [KILLED_BY_PEER] = CELL_END_RULES,
		[KILLED_BY_ALARM] = CELL_END_ALARM, [KILLED_BY_SETUP] = CELL_END_SETUP,
		[KILLED_BY_BUDGET] = CELL_END_BUDGET, [KILLED_BY_WITNESS] = CELL_END_ALARM,
	};

	if (sv->gave_up || sv->spawn_error != 0)
		return CELL_END_NOT_STARTED;
	if (sv->killed_by != KILLED_NOT)
		return ends[sv->killed_by];
	return sv->agent_exited ? CELL_END_EXITED : CELL_END_KILLED;
}

static void
keep_state(struct supervisor *sv, int status)
{
	struct cell_record record = { .spec = sv->spec, .started_ns = sv->started_ns,
	                              .status = (uint32_t)status, .end = how_ended(sv),
	                              .cut = (sv->streams[0].cut ? CELL_CUT_STDOUT : 0) |
	                                     (sv->streams[1].cut ? CELL_CUT_STDERR : 0),
	                              .lost = supervisor_lost_rights(sv) };
	/* Values given with -e may be secret, and are not needed any more. */
	char *no_env[] = { NULL };
	OWN(closep) int folder = -1;
	char entry[CELL_ENTRY_MAX];
	struct err err = {0};

	if (!sv->gave_up)
		supervisor_volumes_keep(sv);
	if (sv->state < 0)
		return;
	record.spec.env = record.spec.egress_env = no_env;
	record.n_changes = (uint32_t)collect_all(sv, &record);
	write_layer(sv, status);
	supervisor_saver_end(sv);
	record.ended_ns = supervisor_now_ns();
	memcpy(record.cause, sv->cause, sizeof(record.cause));
	supervisor_timeline_end(sv, status, record.n_changes > 0);
	if (record.n_changes == 0 && !cell_has_unsaved(sv->state) && !sv->spec.keep && (!sv->spec.detached || !sv->begun)) {
		snprintf(entry, sizeof(entry), "%s.%s", sv->spec.id, sv->spec.name);
		folder = cell_state_open(false, NULL);
		if (folder >= 0 && sv->timeline.kept && !cell_spec_has_state(&sv->spec))
			(void)cell_state_retire(folder, entry, true, NULL);
		else if (folder >= 0)
			(void)cell_state_remove(folder, entry, NULL);
		return;
	}
	if (cell_record_write(sv->state, &record, &err) < 0) {
		(void)err_wrap(&err, "what the cell left is lost");
		supervisor_complain(err.text);
	} else if (record.n_changes > 0 && sv->spawn_error == 0) {
		tell_changes(sv, record.incomplete[0] == '\0');
	}
}

void
supervisor_clean_up(struct supervisor *sv, int status)
{
	int left;

	stdio_close(&sv->stdio);
	supervisor_unpublish(sv);
	left = supervisor_egress_close(sv);
	supervisor_witness_close(sv);
	supervisor_tell_refusals(sv, findable(sv));
	supervisor_tell_net(sv);
	keep_state(sv, status);
	supervisor_timeline_prune(sv);
	timing_mark(TIMING_KEPT);
	/* If a process in it would not die, the entry stays for a later run to clear. */
	if (sv->walls != NULL && sv->boundary->close(sv->walls) < 0)
		left = -EBUSY;
	sv->walls = NULL;
	cell_place_leave(&sv->place, left == 0);
	supervisor_witness_reap(sv);
	timing_mark(TIMING_REMOVED);
	closep(&sv->state);
	sv->state = -1;
	supervisor_tell_ended(sv, (uint32_t)status);
	supervisor_approvals_free(sv);
}

void
supervisor_cell_died(struct supervisor *sv)
{
	timing_mark(TIMING_DEAD);
	sv->dead = true;
	supervisor_copy_end(sv, NULL);
	supervisor_pause_end(sv);
	supervisor_saver_stop(sv);
	supervisor_find_reason(sv);
	supervisor_approvals_gone(sv, APPROVAL_OF_CELL, "the cell has ended");
	loop_cancel_timer(sv->loop, &sv->grace);
	supervisor_unpublish(sv);
	supervisor_setup_over(sv);
	supervisor_egress_finish(sv);
	supervisor_resources_end(sv);
	supervisor_witness_finish(sv);
	supervisor_tell_dead(sv);
	supervisor_check_end(sv);
}
