/* ending.c - `cloister stop`, `kill` and `wait`: all of them see cells to their end. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/data.h"
#include "base/num.h"
#include "base/own.h"
#include "cell/cell_control.h"
#include "cell/cell_steer.h"
#include "cli/cli.h"
#include "ipc/control_channel.h"

#define HANG_UP_MS 10

enum { OPT_TIME, OPT_ALL };

const struct cli_option cli_stop_options[] = {
	{ "time", 't', "TIME", "how long it may take before the cell is killed (10s)", OPT_TIME },
	{0}
};
const struct cli_option cli_kill_options[] = {
	{ "all", 0, NULL, "the emergency stop: end every cell of this user", OPT_ALL },
	{0}
};

struct ending {
	uint64_t grace_ms;
	bool all;
};

static int
take_option(void *arg, const struct cli_option *option, const char *value, struct err *err)
{
	struct ending *ending = arg;

	if (option->id == OPT_ALL) {
		ending->all = true;
		return 0;
	}
	if (num_parse_duration(value, &ending->grace_ms, err) < 0)
		return err_wrap(err, "--time");
	if (ending->grace_ms > 24 * 3600 * 1000)
		return err_set(err, EINVAL, "--time '%s': a day is the most", value);
	return 0;
}

/* Ask each cell first, then wait for each: they end at the same time. */
static int
end_each(char **words, int n, const struct ending *how, bool kill)
{
	OWN(freep) int *fds = calloc((size_t)n + 1, sizeof(int));
	struct cell_entry entry;
	struct err err = {0};
	uint32_t status;
	char cause[256];
	int failed = 0, r;

	if (fds == NULL)
		return cli_failf("out of memory");
	for (int i = 0; i < n; i++) {
		fds[i] = cli_connect(words[i], &entry, &err);
		r = fds[i];
		if (r >= 0)
			r = kill ? cell_control_ask(fds[i], CONTROL_KILL, &err) :
			           cell_control_ask_stop(fds[i], (uint32_t)how->grace_ms, NULL, &err);
		if (r < 0)
			failed = cli_fail(&err);
	}
	for (int i = 0; i < n; i++) {
		/* However the supervisor went, the cell is gone. */
		if (fds[i] >= 0) {
			if (kill && cell_control_await_dead(fds[i], NULL) == 0)
				(void)cell_control_ask(fds[i], CONTROL_WAIT, NULL);
			(void)cell_control_await_end(fds[i], &status, cause, &err);
			close(fds[i]);
		}
	}
	return failed;
}

/* Hanging up lets each supervisor go on: not before all are dead, and not while the
 * operator waits.  So a process of its own does it, once this one has gone, and whoever
 * waited for that has had a moment before hundreds of them want the processors. */
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

/* Or what waits for a place would be next. */
static int
cancel_dispatches(void)
{
	char *const argv[] = { (char[]){ "cloister-dispatch" }, (char[]){ "cancel-all" }, (char[]){ "--" }, NULL };
	OWN(closep) int folder = data_folder("dispatches", false, NULL);
	struct err err = {0};
	int status;
	pid_t pid;

	if (folder == -ENOENT)
		return 0;
	pid = fork();
	if (pid == 0) {
		(void)cli_become_with(argv[0], argv, environ, &err);
		_exit(cli_fail(&err));
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return cli_failf("dispatches that wait could not be cancelled: see `cloister dispatches`");
	return WEXITSTATUS(status);
}

/* The emergency stop is over when nothing runs; the supervisors tidy up after that. */
static int
kill_all(void)
{
	static const struct cell_steer_who who = { .tells = true };
	struct err err = {0};
	OWN(closep) int runtime = cell_runtime_open(&err);
	OWN(freep) struct cell_entry *entries = NULL;
	OWN(freep) int *fds = NULL;
	size_t n, dead = 0;
	int r, status;

	if (runtime < 0 || cell_list(runtime, true, &entries, &n, &err) < 0)
		return cli_fail(&err);
	fds = calloc(n + 1, sizeof(int));
	if (fds == NULL)
		return cli_failf("out of memory");
	for (size_t i = 0; i < n; i++) {
		fds[i] = cell_connect(runtime, &entries[i], NULL);
		if (fds[i] >= 0)
			(void)cell_control_ask_for(fds[i], CONTROL_KILL, &who, NULL);
	}
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0 && cell_control_await_dead(fds[i], NULL) == 0)
			dead++;
	printf("killed %zu %s\n", dead, dead == 1 ? "cell" : "cells");
	fflush(stdout);
	r = cli_note_every("cells.kill", dead, NULL, NULL, &err);
	status = cancel_dispatches();
	hang_up_later();
	return r < 0 ? cli_fail(&err) : status;
}

int
cmd_stop(int argc, char **argv)
{
	struct ending how = { .grace_ms = 10000 };
	struct err err = {0};
	int rest;

	if (cli_parse(cli_stop_options, argc, argv, true, take_option, &how, &rest, &err) < 0)
		return cli_fail(&err);
	if (rest == argc)
		return cli_failf("which cell? cloister stop [-t TIME] CELL...");
	return end_each(argv + rest, argc - rest, &how, false);
}

int
cmd_kill(int argc, char **argv)
{
	struct ending how = {0};
	struct err err = {0};
	int rest;

	if (cli_parse(cli_kill_options, argc, argv, true, take_option, &how, &rest, &err) < 0)
		return cli_fail(&err);
	if (how.all && rest < argc)
		return cli_failf("--all means every cell: leave '%s' out", argv[rest]);
	if (!how.all && rest == argc)
		return cli_failf("which cell? cloister kill CELL..., or cloister kill --all");
	return how.all ? kill_all() : end_each(argv + rest, argc - rest, &how, true);
}

static int
wait_one(const char *word, uint32_t *ret_status, struct err *err)
{
	OWN(cell_record_free) struct cell_record record = {0};
	OWN(closep) int fd = -1, dir = -1;
	struct cell_entry entry;
	char cause[256];
	int r;

	fd = cli_connect(word, &entry, err);
	if (fd >= 0) {
		r = cell_control_ask(fd, CONTROL_WAIT, err);
		if (r == 0)
			r = cell_control_await_end(fd, ret_status, cause, err);
		/* It may have ended between the two; then its record tells. */
		if (r == 0 || cli_open_record(entry.id, &entry, &dir, &record, NULL) < 0)
			return r;
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
		return cli_failf("which cell? cloister wait CELL...");
	for (int i = rest; i < argc; i++)
		if (wait_one(argv[i], &status, &err) < 0)
			return cli_fail(&err);
	return (int)status;
}
