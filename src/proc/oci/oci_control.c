/* oci_control.c - commands for a container that exists: start, kill, pause, resume, delete. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "cell/cell_control.h"
#include "cell/cell_steer.h"
#include "proc/oci/oci.h"

#define END_MS 10000                    /* how long a supervisor may take to tidy up */

static const struct cell_steer_who engine = { .why = "the container's engine" };

int
oci_write_pid(const char *path, pid_t pid, struct err *err)
{
	OWN(freep) char *new = path == NULL ? NULL : str_format("%s.new", path);
	char text[16];
	int r;

	if (path == NULL)
		return 0;
	snprintf(text, sizeof(text), "%d", (int)pid);
	r = new == NULL ? err_set(err, ENOMEM, "out of memory") : create_file_at(AT_FDCWD, new, 0644, text, err);
	if (r == 0 && rename(new, path) < 0)
		r = err_errno(err, "cannot write '%s'", path);
	return r;
}

int
oci_find_cell(const struct oci_state *state, struct cell_entry *ret_entry, struct err *err)
{
	OWN(closep) int runtime = cell_runtime_open(err);
	int r = runtime < 0 ? runtime : cell_find(runtime, true, state->cell, ret_entry, err);

	return r < 0 ? r : TAKE_FD(runtime);
}

static int
connect_to(const struct oci_state *state, struct err *err)
{
	struct cell_entry entry;
	OWN(closep) int runtime = oci_find_cell(state, &entry, err);

	return runtime < 0 ? runtime : cell_connect(runtime, &entry, err);
}

static int
steer(const struct oci_state *state, const struct steer_request *q, struct err *err)
{
	OWN(closep) int fd = connect_to(state, err);
	OWN(buf_free) struct buf message = {0};

	if (fd < 0)
		return fd;
	cell_steer_put(&message, &engine, q);
	return cell_steer(fd, &message, NULL, 0, NULL, err);
}

static void
await_end(const struct oci_state *state)
{
	OWN(closep) int process = (int)syscall(SYS_pidfd_open, state->pid, 0);

	if (oci_state_is_alive(state))
		(void)io_is_readable(process, io_now_ms() + END_MS);
}

/* If the command cannot run, the cell ends.  The engine tidies up after an error, and can do so only then. */
int
oci_start_cell(const struct oci_state *state, struct err *err)
{
	int r = steer(state, &(struct steer_request){ .verb = VERB_START }, err);

	if (r < 0)
		await_end(state);
	return r;
}

/* If the supervisor does not answer, it is killed, and the cell with it. */
static int
end_cell(const struct oci_state *state, bool await, struct err *err)
{
	OWN(closep) int fd = connect_to(state, NULL);
	OWN(closep) int process = (int)syscall(SYS_pidfd_open, state->pid, 0);
	int r = fd < 0 ? fd : cell_control_ask(fd, VERB_KILL, &engine, NULL);

	r = r == 0 ? cell_control_await_dead(fd, NULL) : r;
	if (r < 0 && oci_state_is_alive(state) && syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0) < 0 &&
	    errno != ESRCH)
		return err_errno(err, "cannot end container '%s'", state->id);
	if (fd >= 0)
		close(TAKE_FD(fd));
	if (await)
		await_end(state);
	return 0;
}

int
oci_end_cell(const struct oci_state *state, struct err *err)
{
	return end_cell(state, true, err);
}

static int
open_state(const struct oci *oci, int *ret_root, struct oci_state *ret_state, struct err *err)
{
	*ret_root = oci_state_root(oci, err);
	return *ret_root < 0 ? *ret_root : oci_state_read(*ret_root, oci->words[0], ret_state, err);
}

int
oci_start(const struct oci *oci, struct err *err)
{
	OWN(closep) int root = -1;
	OWN(oci_state_free) struct oci_state state = {0};
	int r = open_state(oci, &root, &state, err);

	if (r < 0)
		return r;
	if (!oci_state_is_alive(&state))
		return err_set(err, ESRCH, "container '%s' cannot be started: it has ended", state.id);
	if (state.is_started)
		return err_set(err, EBUSY, "container '%s' was started already", state.id);
	/* First: the process may end before its start is known here. */
	r = oci_state_mark_started(root, state.id, err);
	return r < 0 ? r : oci_start_cell(&state, err);
}

/* "TERM", "SIGTERM" or "15". */
static int
parse_signal(const char *text)
{
	char *end;
	long number = strtol(text, &end, 10);

	if (*text != '\0' && *end == '\0')
		return number > 0 && number <= SIGRTMAX ? (int)number : -1;
	if (strncasecmp(text, "SIG", 3) == 0)
		text += 3;
	for (int i = 1; i < NSIG; i++)
		if (sigabbrev_np(i) != NULL && strcasecmp(sigabbrev_np(i), text) == 0)
			return i;
	return -1;
}

int
oci_kill(const struct oci *oci, struct err *err)
{
	const char *word = oci->n_words > 1 ? oci->words[1] : "TERM";
	OWN(closep) int root = -1;
	OWN(oci_state_free) struct oci_state state = {0};
	int number = parse_signal(word), r = open_state(oci, &root, &state, err);

	if (r < 0)
		return r;
	if (number < 0)
		return err_set(err, EINVAL, "there is no signal '%.40s'", word);
	/* Engines know these words. */
	if (!oci_state_is_alive(&state))
		return err_set(err, ESRCH, "container not running");
	if (number == SIGKILL || !state.is_started)
		return end_cell(&state, false, err);
	return steer(&state, &(struct steer_request){ .verb = VERB_SIGNAL_AGENT, .n = { (uint64_t)number } }, err);
}

int
oci_delete(const struct oci *oci, struct err *err)
{
	OWN(closep) int root = -1;
	OWN(oci_state_free) struct oci_state state = {0};
	int r = open_state(oci, &root, &state, err);

	if (r == -ENOENT && oci->force)
		return 0;
	if (r < 0 && !oci->force)
		return r;
	if (r == 0 && oci_state_is_alive(&state)) {
		if (state.is_started && !oci->force)
			return err_set(err, EBUSY, "container '%s' runs: kill it first, or use --force", state.id);
		r = oci_end_cell(&state, err);
		if (r < 0)
			return r;
	}
	if (root >= 0)
		oci_state_remove(root, oci->words[0]);
	return 0;
}

static int
pause_or_resume(const struct oci *oci, enum steer_verb verb, struct err *err)
{
	OWN(closep) int root = -1, runtime = -1;
	OWN(oci_state_free) struct oci_state state = {0};
	struct cell_entry entry;
	int r = open_state(oci, &root, &state, err);

	if (r < 0)
		return r;
	runtime = oci_find_cell(&state, &entry, err);
	return runtime < 0 ? runtime : cell_control_ask_one(runtime, &entry, verb, &engine, err);
}

int
oci_pause(const struct oci *oci, struct err *err)
{
	return pause_or_resume(oci, VERB_FREEZE, err);
}

int
oci_resume(const struct oci *oci, struct err *err)
{
	return pause_or_resume(oci, VERB_THAW, err);
}
