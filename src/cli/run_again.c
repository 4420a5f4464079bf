/* run_again.c - `run --restart`: the keeper, which starts a cell again after its end, a new one each time. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exe.h"
#include "base/io.h"
#include "base/num.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cell/cell_series.h"
#include "cli/cli.h"
#include "cli/run.h"

#define FIRST_PAUSE_MS 1000
#define PAUSE_MAX_MS 300000
#define GOOD_WHILE_MS 300000            /* a cell that ran so long makes the next pause the first again */
#define KEPT 8                          /* ended detached cells without changes that keep their logs */
#define BEFORE_MAX 3                    /* words before those of the command line */

struct again {
	const struct run *run;
	int argc;
	char **argv;
	char program[PATH_MAX];
	int runtime, file, ended, signals;      /* ENDED is readable once the series was ended */
	char series[CELL_ID_LEN + 1], last[CELL_ID_LEN + 1];
	char kept[KEPT][CELL_ID_LEN + 1];
	size_t n;                       /* cells that were started */
	bool over;                      /* a signal ended it */
};

int
run_set_restart(struct run *run, const char *value, struct err *err)
{
	const char *number = value;

	run->restarts = true;
	run->restart_most = UINT64_MAX;
	if (value == NULL)
		return 0;
	if (strncmp(value, "always", 6) == 0 && (value[6] == '\0' || value[6] == ':')) {
		run->restart_always = true;
		number = value[6] == '\0' ? NULL : value + 7;
	}
	if (number != NULL && num_parse_count(number, 1, 1000000, &run->restart_most, NULL) < 0)
		return err_set(err, EINVAL, "--restart '%s' is not a number, `always` or `always:N`", value);
	return 0;
}

int
run_set_attempt(struct run *run, const char *value, struct err *err)
{
	char series[CELL_ID_LEN + 1], last[CELL_ID_LEN + 1] = "";
	const size_t len = strlen(value);

	snprintf(series, sizeof(series), "%s", value);
	if (len > CELL_ID_LEN)
		snprintf(last, sizeof(last), "%s", value + CELL_ID_LEN + 1);
	if (!cell_id_ok(series) || (len > CELL_ID_LEN && (value[CELL_ID_LEN] != ':' || len != 2 * CELL_ID_LEN + 1 ||
	                                                  !cell_id_ok(last))))
		return err_set(err, EINVAL, "--attempt '%s' is not ID or ID:ID: it is for `run --restart`", value);
	memcpy(run->spec.series, series, sizeof(series));
	memcpy(run->spec.restart_of, last, sizeof(last));
	/* Whoever knows the first cell's id knows the series. */
	if (last[0] == '\0')
		memcpy(run->spec.id, series, sizeof(series));
	return 0;
}

int
run_check_restart(const struct run *run, struct err *err)
{
	const char *with = run->spec.claim ? "--id" : run->spec.held ? "--hold" : run->leaves ? "--detach-keys" :
	                   run->warm ? "--warm" : run->layer_fd > 0 ? "--layer" : run->learn ? "learn" : NULL;

	if (with == NULL)
		return 0;
	return err_set(err, EINVAL, "--restart and %s do not go together: one is for many cells, the other for one", with);
}

/* ---- signals, and the end of the series ---- */

static void
end_series(struct again *a)
{
	cell_series_end(a->runtime, a->series);
	a->over = true;
}

/* A terminal sends its signals to the cell's supervisor too. */
static void
take_signal(struct again *a, pid_t pid)
{
	struct signalfd_siginfo info;

	if (read(a->signals, &info, sizeof(info)) != sizeof(info))
		return;
	end_series(a);
	if (pid > 0 && info.ssi_code <= 0)
		(void)kill(pid, (int)info.ssi_signo);
}

static bool
is_over(const struct again *a)
{
	struct stat st;

	return a->over || fstat(a->file, &st) < 0 || st.st_nlink == 0;
}

/* Waits for the end of PID: its status as of a shell.  ASIDE: it only watches the cell, and ends with the keeper. */
static int
await(struct again *a, pid_t pid, bool aside)
{
	OWN(closep) int process = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd fds[] = { { .fd = process, .events = POLLIN }, { .fd = a->signals, .events = POLLIN } };
	int status;

	while (process >= 0 && fds[0].revents == 0) {
		if (poll(fds, ARRAY_LEN(fds), -1) < 0 && errno != EINTR)
			break;
		if (fds[1].revents != 0)
			take_signal(a, aside ? 0 : pid);
		if (a->over && aside)
			(void)kill(pid, SIGKILL);
	}
	status = spawn_await(pid, NULL);
	return status < 0 ? CLI_FAILED : status;
}

/* So that a plan can have it (`cloister plan export`). */
static int
describe(const struct again *a, struct err *err)
{
	const uint64_t most = a->run->restart_most;
	char restart[32], folder[PATH_MAX];

	if (!a->run->spec.detached)
		return 0;
	if (getcwd(folder, sizeof(folder)) == NULL)
		return err_errno(err, "cannot find the current folder");
	snprintf(restart, sizeof(restart), "%s", a->run->restart_always ? "always" : "");
	if (most != UINT64_MAX)
		snprintf(restart + strlen(restart), sizeof(restart) - strlen(restart), "%s%llu", restart[0] != '\0' ? ":" : "",
		         (unsigned long long)most);
	return cell_series_describe(a->file, restart, folder, a->argv + 1, (size_t)a->argc - 1, err);
}

static int
start(struct again *a, struct err *err)
{
	sigset_t set;
	int r;

	if ((r = exe_find_cloister(a->program, err)) < 0 || (r = cell_make_id(a->series, err)) < 0 ||
	    (r = a->runtime = cell_runtime_open(err)) < 0 ||
	    (r = cell_series_make(a->runtime, a->series, &a->file, err)) < 0 || (r = describe(a, err)) < 0)
		return r;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGQUIT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	a->signals = signalfd(-1, &set, SFD_CLOEXEC);
	a->ended = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	return a->signals < 0 || a->ended < 0 ? err_errno(err, "cannot watch a cell that is started again") : 0;
}

/* Waits before the next attempt, and while the series is held; false: it was ended. */
static bool
wait_out(struct again *a, uint64_t ms)
{
	const int64_t until = io_now_ms() + (int64_t)ms;
	struct pollfd fds[] = { { .fd = a->ended, .events = POLLIN }, { .fd = a->signals, .events = POLLIN } };
	OWN(freep) char *path = str_format("/proc/self/fd/%d", a->file);
	const int watch = path == NULL ? -1 : inotify_add_watch(a->ended, path, IN_ATTRIB | IN_MODIFY);
	char events[512];
	int64_t left;
	bool held;

	while (watch >= 0 && !is_over(a) && ((held = cell_series_is_held(a->file)) || (left = until - io_now_ms()) > 0)) {
		(void)poll(fds, ARRAY_LEN(fds), held ? -1 : (int)left);
		if (fds[1].revents != 0)
			take_signal(a, 0);
		(void)!read(a->ended, events, sizeof(events));
	}
	return watch >= 0 && !is_over(a);
}

/* ---- one cell ---- */

/* Runs `cloister WORDS...`, and then the words of the command line if TAKES. */
static pid_t
spawn_own(const struct again *a, char *const words[BEFORE_MAX], bool takes, int out, int other, struct err *err)
{
	const struct spawn_fd fds[] = { { other, STDIN_FILENO }, { out, STDOUT_FILENO }, { other, STDERR_FILENO } };
	OWN(freep) char **argv = calloc(BEFORE_MAX + (size_t)a->argc + 1, sizeof(*argv));
	size_t n = 0;

	if (argv == NULL)
		return err_set(err, ENOMEM, "out of memory");
	for (; n < BEFORE_MAX && words[n] != NULL; n++)
		argv[n] = words[n];
	for (int i = 1; takes && i < a->argc; i++)
		argv[n++] = a->argv[i];
	return spawn_start(&(struct spawn){ .path = a->program, .argv = argv, .fds = fds, .n_fds = ARRAY_LEN(fds) },
	                   NULL, err);
}

/* A detached cell leaves its log and record.  Those of the last ones stay, and all with changes to review. */
static void
forget_old(struct again *a)
{
	char *slot = a->kept[a->n++ % KEPT];
	OWN(cell_record_free) struct cell_record record = {0};
	OWN(closep) int dir = -1;
	struct cell_entry entry;
	pid_t pid;

	if (slot[0] != '\0' && cli_open_record(slot, &entry, &dir, &record, NULL) >= 0 && record.n_changes == 0 &&
	    !record.spec.keep) {
		pid = spawn_own(a, (char *[]){ (char[]){ "cloister" }, (char[]){ "discard" }, slot }, false, SPAWN_NULL,
		                SPAWN_NULL, NULL);
		if (pid > 0)
			(void)await(a, pid, false);
	}
	memcpy(slot, a->last, sizeof(a->last));
}

/* Starts a detached cell, whose id it prints. */
static int
start_detached(struct again *a, char *const words[BEFORE_MAX], bool first, struct err *err)
{
	char id[CELL_ID_LEN + 2] = "";
	OWN(closep) int from = -1;
	int ends[2], status;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	from = ends[0];
	pid = spawn_own(a, words, true, ends[1], first ? 0 : SPAWN_NULL, err);
	close(ends[1]);
	if (pid < 0)
		return pid;
	(void)read_exactly(from, id, CELL_ID_LEN, NULL);
	status = await(a, pid, false);
	if (status == 0 && cell_id_ok(id)) {
		memcpy(a->last, id, sizeof(a->last));
		forget_old(a);
	}
	return status;
}

static int
await_detached(struct again *a, struct err *err)
{
	pid_t pid = spawn_own(a, (char *[]){ (char[]){ "cloister" }, (char[]){ "wait" }, a->last }, false, SPAWN_NULL,
	                      SPAWN_NULL, err);

	return pid < 0 ? pid : await(a, pid, true);
}

static int
run_attempt(struct again *a, bool first, struct err *err)
{
	char attempt[2 * CELL_ID_LEN + 32], *words[] = { (char[]){ "cloister" }, (char[]){ "run" }, attempt };
	pid_t pid;

	snprintf(attempt, sizeof(attempt), "--attempt=%s%s%s", a->series, a->last[0] != '\0' ? ":" : "", a->last);
	if (a->run->spec.detached)
		return start_detached(a, words, first, err);
	/* Its id is in the series' file by now, and stays there. */
	pid = spawn_own(a, words, true, 0, 0, err);
	return pid < 0 ? pid : await(a, pid, false);
}

/* The id of a cell that was not detached. */
static void
note_last(struct again *a)
{
	char id[CELL_ID_LEN + 1] = "";

	if (pread(a->file, id, CELL_ID_LEN, 0) == CELL_ID_LEN && cell_id_ok(id))
		memcpy(a->last, id, sizeof(id));
}

/* ---- all of them ---- */

/* The terminal and the shell are left alone once the first cell runs. */
static void
go_on_alone(int told, const char *id)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	puts(id);
	fflush(stdout);
	(void)!write(told, "", 1);
	close(told);
	for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
		(void)dup2(null, fd);
}

static uint64_t
next_pause(uint64_t pause_ms, int64_t ran_ms)
{
	if (ran_ms >= GOOD_WHILE_MS || pause_ms == 0)
		return FIRST_PAUSE_MS;
	return pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS;
}

/* Whether the command does not exist or cannot be executed, as shells report it. */
static bool
is_missing(int status)
{
	return status == 126 || status == 127;
}

/* TOLD: gets a byte once the first detached cell runs. */
static int
keep(struct again *a, int told, struct err *err)
{
	const bool detached = a->run->spec.detached;
	uint64_t pause = 0, left = a->run->restart_most;
	int64_t begun;
	int status;

	for (bool first = true;; first = false) {
		begun = io_now_ms();
		status = run_attempt(a, first, err);
		if (status < 0 || (first && status == CLI_FAILED))
			return status;
		if (detached && status == 0) {
			if (first)
				go_on_alone(told, a->last);
			status = await_detached(a, err);
		}
		note_last(a);
		if (is_over(a) || (first && is_missing(status)) || left-- == 0 || (status == 0 && !a->run->restart_always))
			return status;
		pause = next_pause(pause, io_now_ms() - begun);
		if (!detached && !a->run->spec.quiet)
			fprintf(stderr, "cloister: the cell ended with status %d, and starts again in %llu s\n", status,
			        (unsigned long long)pause / 1000);
		if (!wait_out(a, pause))
			return status;
	}
}

static int
keep_all(const struct run *run, int argc, char **argv, int told)
{
	struct again a = { .run = run, .argc = argc, .argv = argv, .runtime = -1, .file = -1, .ended = -1, .signals = -1 };
	struct err err = {0};
	int status = start(&a, &err);

	if (status == 0)
		status = keep(&a, told, &err);
	if (a.runtime >= 0)
		cell_series_end(a.runtime, a.series);
	return status < 0 ? cli_fail(&err) : status;
}

int
run_again(const struct run *run, int argc, char **argv, struct err *err)
{
	OWN(closep) int from = -1;
	int ends[2], status;
	char byte;
	pid_t pid;

	if (!run->spec.detached)
		return keep_all(run, argc, argv, -1);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	from = ends[0];
	pid = fork();
	if (pid == 0) {
		(void)setsid();
		_exit(keep_all(run, argc, argv, ends[1]));
	}
	close(ends[1]);
	if (pid < 0)
		return err_errno(err, "cannot start the cell's keeper");
	if (read(from, &byte, 1) == 1)
		return 0;
	status = spawn_await(pid, err);
	return status > SPAWN_KILLED ? CLI_FAILED : status;
}
