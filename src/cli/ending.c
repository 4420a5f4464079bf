/* ending.c - `cloister stop`, `kill` and `wait`: wait for cells to end. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "audit/operator.h"
#include "base/data.h"
#include "base/num.h"
#include "base/own.h"
#include "base/spawn.h"
#include "boundary/halt.h"
#include "cell/cell_control.h"
#include "cell/cell_series.h"
#include "cell/cell_steer.h"
#include "cli/cli.h"

#define HANG_UP_MS 10

enum { OPT_TIME };

struct ending {
	uint64_t grace_ms;
	bool all;
};

const struct cli_option cli_stop_options[] = {
	{ "time", 't', "TIME", "the time before a cell is killed (10s)", OPT_TIME },
	{ "all", 0, NULL, "stop every cell of this user", CLI_FLAG(struct ending, all) },
	{0}
};
const struct cli_option cli_kill_options[] = {
	{ "all", 0, NULL, "kill every cell of this user: the emergency stop", CLI_FLAG(struct ending, all) },
	{0}
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct ending *ending = arg;

	if (option->id < 0)
		return 0;
	if (num_parse_duration(value, &ending->grace_ms, err) < 0)
		return err_wrap(err, "--time");
	if (ending->grace_ms > 24 * 3600 * 1000)
		return err_set(err, EINVAL, "--time '%s' is too long: a day is the maximum", value);
	return 0;
}

/* Reports and records a cell whose supervisor did not answer, since that one did neither. */
static int
tell_forced(const struct halt *h)
{
	struct audit_member members[] = {
		{ .name = "cell", .text = h->entry.id },
		{ .name = "why", .text = "its supervisor did not answer" },
	};
	char text[HALT_TEXT_MAX];
	struct err err = {0};

	halt_describe(h, text);
	if (text[0] == '\0')
		return 0;
	(void)cli_failf("%s", text);
	if (operator_note("cell.kill", members, ARRAY_LEN(members), &err) < 0) {
		(void)err_wrap(&err, "it is done, but could not be recorded");
		return cli_fail(&err);
	}
	return 0;
}

/* Ends the cells that WORD means and that are started again: true if one was waiting for its next start. */
static bool
end_series(const char *word)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);

	return runtime >= 0 && cell_series_end_each(runtime, word) > 0;
}

/* Finds the entries of those WORDS that run.  The others are reported as errors. */
static size_t
find_each(char **words, int n, struct halt *halts, int *ret_runtime, int *failed)
{
	size_t found = 0;

	for (int i = 0; i < n; i++) {
		const bool waited = end_series(words[i]);
		struct err err = {0};
		OWN(closep) int runtime = cli_find_running(words[i], &halts[found].entry, &err);

		if (runtime == -ENOENT && waited)
			continue;
		if (runtime < 0) {
			*failed = cli_fail(&err);
			continue;
		}
		found++;
		if (*ret_runtime < 0)
			*ret_runtime = TAKE_FD(runtime);
	}
	return found;
}

static int
ask_to_stop(int runtime, struct halt *halts, size_t n, const struct ending *how)
{
	const struct cell_steer_who every = { .tells = true };
	struct err err = {0};
	int failed = 0;

	for (size_t i = 0; i < n; i++)
		if (halt_stop(runtime, &halts[i], (uint32_t)how->grace_ms, how->all ? &every : NULL, &err) < 0)
			failed = cli_fail(&err);
	return failed;
}

/* Asks each cell first, then waits for each: they end at the same time. */
static int
end_found(int runtime, struct halt *halts, size_t n, const struct ending *how, bool kill)
{
	struct err err = {0};
	uint32_t status;
	char cause[256];
	int failed = 0;

	if (kill)
		halt_kill(runtime, halts, n, NULL);
	else if (ask_to_stop(runtime, halts, n, how) != 0)
		failed = CLI_FAILED;
	for (size_t i = 0; i < n; i++) {
		struct halt *h = &halts[i];

		if (kill && (h->state == HALT_GONE || h->state == HALT_FAILED))
			failed = cli_fail(&h->err);
		else if (h->state == HALT_ASKED || h->state == HALT_DEAD)
			(void)halt_await_end(runtime, h, (uint32_t)how->grace_ms, &status, cause, &err);
		/* Whatever else was reported, it counts that nothing of it runs. */
		if (h->state == HALT_FAILED && !kill)
			failed = cli_fail(&h->err);
		if (tell_forced(h) != 0)
			failed = CLI_FAILED;
	}
	halt_close(halts, n);
	return failed;
}

static int
end_each(char **words, int n, const struct ending *how, bool kill)
{
	OWN(freep) struct halt *halts = calloc((size_t)n + 1, sizeof(*halts));
	OWN(closep) int runtime = -1;
	int failed = 0, status;
	size_t found;

	if (halts == NULL)
		return cli_failf("out of memory");
	found = find_each(words, n, halts, &runtime, &failed);
	status = end_found(runtime, halts, found, how, kill);
	return failed != 0 ? failed : status;
}

/* Every cell that runs; the caller frees *ret_halts.  Those that are started again end first: any of theirs that is
 * not listed yet does not start. */
static int
find_all(int *ret_runtime, struct halt **ret_halts, size_t *ret_n, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	OWN(freep) struct cell_entry *entries = NULL;
	int r = runtime;

	if (r >= 0)
		(void)cell_series_end_each(runtime, NULL);
	if (r >= 0)
		r = cell_list(runtime, true, &entries, ret_n, err);
	if (r < 0)
		return r;
	*ret_halts = calloc(*ret_n + 1, sizeof(**ret_halts));
	if (*ret_halts == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < *ret_n; i++)
		(*ret_halts)[i].entry = entries[i];
	*ret_runtime = TAKE_FD(runtime);
	return 0;
}

/* Hanging up lets each supervisor go on.  That must not happen before all cells are dead, nor while
 * the operator waits.  So a separate process does it after this one is gone.  It pauses first,
 * before hundreds of supervisors compete for the processors. */
static void
hang_up_later(void)
{
	OWN(closep) int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
	struct pollfd over = { .fd = self, .events = POLLIN };

	if (self < 0 || fork() != 0)
		return;
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		close(fd);
	(void)poll(&over, 1, -1);
	(void)poll(NULL, 0, HANG_UP_MS);
	_exit(0);
}

/* Otherwise a dispatch that waits for a place would start next. */
static int
cancel_dispatches(void)
{
	char *const argv[] = { (char[]){ "cloister-dispatch" }, (char[]){ "cancel-all" }, (char[]){ "--" }, NULL };
	OWN(closep) int folder = data_folder("dispatches", false, NULL);
	struct err err = {0};
	int status;

	if (folder == -ENOENT)
		return 0;
	status = spawn_run(&(struct spawn){ .argv = argv }, &err);
	if (status < 0)
		return cli_fail(&err);
	if (status > SPAWN_KILLED)
		return cli_failf("some waiting dispatches could not be cancelled: see `cloister "
		                 "dispatches`");
	return status;
}

/* Counts the dead cells.  The others are reported as errors. */
static size_t
count_dead(const struct halt *halts, size_t n, int *failed)
{
	char text[HALT_TEXT_MAX];
	size_t dead = 0;

	for (size_t i = 0; i < n; i++) {
		dead += halts[i].state == HALT_DEAD;
		halt_describe(&halts[i], text);
		if (text[0] != '\0')
			(void)cli_failf("%s", text);
		if (halts[i].state == HALT_FAILED)
			*failed = cli_fail(&halts[i].err);
	}
	return dead;
}

/* The emergency stop is over when nothing runs; the supervisors tidy up later. */
static int
kill_all(void)
{
	static const struct cell_steer_who who = { .tells = true };
	OWN(freep) struct halt *halts = NULL;
	OWN(closep) int runtime = -1;
	struct err err = {0};
	int r, failed = 0, status;
	size_t n, dead;

	if (find_all(&runtime, &halts, &n, &err) < 0)
		return cli_fail(&err);
	halt_kill(runtime, halts, n, &who);
	dead = count_dead(halts, n, &failed);
	printf("killed %zu %s\n", dead, dead == 1 ? "cell" : "cells");
	fflush(stdout);
	r = cli_note_every(VERB_KILL, dead, NULL, NULL, &err);
	status = cancel_dispatches();
	hang_up_later();
	return r < 0 ? cli_fail(&err) : failed != 0 ? failed : status;
}

/* Dispatches are cancelled first: otherwise one that waits for a place would start next. */
static int
stop_all(const struct ending *how)
{
	int cancelled = cancel_dispatches(), r, status;
	OWN(freep) struct halt *halts = NULL;
	OWN(closep) int runtime = -1;
	struct err err = {0};
	size_t n;

	if (find_all(&runtime, &halts, &n, &err) < 0)
		return cli_fail(&err);
	r = cli_note_every(VERB_STOP, n, NULL, NULL, &err);
	status = end_found(runtime, halts, n, how, false);
	if (status == 0)
		printf("stopped %zu %s\n", n, n == 1 ? "cell" : "cells");
	return r < 0 ? cli_fail(&err) : status != 0 ? status : cancelled;
}

/* Whether the command line names cells or --all, and not both. */
static int
check_cells(const struct ending *how, const char *verb, int argc, char **argv, int rest, struct err *err)
{
	if (how->all && rest < argc)
		return err_set(err, EINVAL, "--all means every cell: remove '%s'", argv[rest]);
	if (!how->all && rest == argc)
		return err_set(err, EINVAL, "no cell is given: cloister %s CELL..., or cloister %s --all", verb, verb);
	return 0;
}

int
cmd_stop(int argc, char **argv)
{
	struct ending how = { .grace_ms = 10000 };
	struct err err = {0};
	int rest;

	if (cli_parse(cli_stop_options, argc, argv, true, take_option, &how, &rest, &err) < 0)
		return cli_fail(&err);
	if (check_cells(&how, "stop", argc, argv, rest, &err) < 0)
		return cli_fail(&err);
	return how.all ? stop_all(&how) : end_each(argv + rest, argc - rest, &how, false);
}

int
cmd_kill(int argc, char **argv)
{
	struct ending how = {0};
	struct err err = {0};
	int rest;

	if (cli_parse(cli_kill_options, argc, argv, true, take_option, &how, &rest, &err) < 0 ||
	    check_cells(&how, "kill", argc, argv, rest, &err) < 0)
		return cli_fail(&err);
	return how.all ? kill_all() : end_each(argv + rest, argc - rest, &how, true);
}

static int
explain_hang_up(const struct cell_entry *entry, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(NULL);

	return runtime >= 0 && cell_is_alive(runtime, entry) ? cell_is_silent(entry, err) :
	       err_set(err, EPIPE, "the cell's supervisor was killed, and the cell with it");
}

int
cli_await_end(const char *word, uint32_t *ret_status, struct err *err)
{
	OWN(cell_record_free) struct cell_record record = {0};
	OWN(closep) int fd = -1, dir = -1;
	struct cell_entry entry;
	char cause[256];
	int r;

	fd = cli_connect(word, &entry, err);
	if (fd >= 0) {
		r = cell_control_ask(fd, VERB_WAIT, NULL, err);
		if (r == 0)
			r = cell_control_await_end(fd, ret_status, cause, err);
		/* It may have ended between the two; then there is a record. */
		if (r == 0 || cli_open_record(entry.id, &entry, &dir, &record, NULL) < 0)
			return r == -EPIPE || r == -ECONNRESET ? explain_hang_up(&entry, err) : r;
	} else if (fd != -ENOENT || cli_open_record(word, &entry, &dir, &record, err) < 0) {
		return -err->code;
	}
	*ret_status = record.status;
	return 0;
}

int
cmd_wait(int argc, char **argv)
{
	struct err err = {0};
	uint32_t status = 0;
	int rest;

	if (cli_parse(cli_no_options, argc, argv, false, NULL, NULL, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest == argc)
		return cli_failf("no cell is given: cloister wait CELL...");
	for (int i = rest; i < argc; i++)
		if (cli_await_end(argv[i], &status, &err) < 0)
			return cli_fail(&err);
	return (int)status;
}
