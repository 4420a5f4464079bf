/* supervisor_agent.c - starts the operator's commands in the cell: the setups, one after the other,
 * and then the agent. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_exec_error.h"
#include "ipc/init_channel.h"
#include "proc/supervisor/supervisor.h"

static bool
is_start_of(const char *start, const char *word)
{
	const char *space = strchr(start, ' ');

	return space != NULL && strcmp(space + 1, word) == 0;
}

/* The hashes of the programs that WORD starts. */
static int
put_hashes(const struct supervisor *sv, const char *word, struct buf *spawn)
{
	char *hashes[INIT_EXECS_MAX + 1] = { NULL };
	OWN(freep) char *list = NULL;
	char **start = sv->spec.starts, *rest;
	size_t n = 0;

	while (*start != NULL && (word == NULL || !is_start_of(*start, word)))
		start++;
	if (*start != NULL) {
		rest = list = strndup(*start, strcspn(*start, " "));
		if (list == NULL)
			return -ENOMEM;
		while (n < INIT_EXECS_MAX && (hashes[n] = strsep(&rest, ",")) != NULL)
			n++;
	}
	buf_put_strv(spawn, hashes);
	return 0;
}

/* The words of a command, with the paths that these walls have. */
static int
put_argv(const struct supervisor *sv, char *const *argv, struct buf *spawn, struct err *err)
{
	OWN(strv_freep) char **own = NULL;

	if (sv->boundary->settle == NULL) {
		buf_put_strv(spawn, argv);
		return 0;
	}
	own = calloc(strv_len(argv) + 1, sizeof(*own));
	for (size_t i = 0; own != NULL && argv[i] != NULL; i++)
		if ((own[i] = strdup(argv[i])) == NULL)
			return err_set(err, ENOMEM, "out of memory");
	if (own == NULL)
		return err_set(err, ENOMEM, "out of memory");
	if (sv->boundary->settle(sv->spec.id, own, NULL, NULL, err) < 0)
		return -err->code;
	buf_put_strv(spawn, own);
	return 0;
}

static int
describe(const struct supervisor *sv, uint32_t handle, char *const *argv, struct buf *ret_spawn,
         struct err *err)
{
	static char wait[] = INIT_OWN_WAIT, *const own_wait[] = { wait, NULL };
	const bool tty = sv->spec.tty && handle == INIT_HANDLE_AGENT;
	const bool waits = sv->spec.waits && handle == INIT_HANDLE_AGENT && argv[0] == NULL;
	struct winsize size = { .ws_row = SUPERVISOR_ROWS, .ws_col = SUPERVISOR_COLUMNS };

	if (tty)
		(void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	ipc_begin(ret_spawn, INIT_SPAWN);
	buf_put_u32(ret_spawn, handle);
	buf_put_u32(ret_spawn, (tty ? INIT_TTY : 0) | (waits ? INIT_OWN : 0) |
	            (handle == INIT_HANDLE_AGENT && sv->spec.fork_of.id[0] != '\0' ? INIT_ADOPT : 0));
	buf_put_u32(ret_spawn, size.ws_row);
	buf_put_u32(ret_spawn, size.ws_col);
	buf_put_str(ret_spawn, sv->spec.cwd);
	if (put_argv(sv, waits ? own_wait : argv, ret_spawn, err) < 0)
		return -err->code;
	buf_put_strv(ret_spawn, sv->spec.env);
	if (put_hashes(sv, argv[0], ret_spawn) < 0)
		return err_set(err, ENOMEM, "out of memory");
	supervisor_put_walls(sv, ret_spawn);
	if (buf_failed(ret_spawn))
		return err_set(err, E2BIG, "the command and its environment are over %d KiB",
		               IPC_MESSAGE_MAX / 1024);
	return 0;
}

static int
describe_setup(const struct supervisor *sv, struct buf *ret_spawn, struct err *err)
{
	return describe(sv, INIT_HANDLE_SETUP, (char *[]){ sv->spec.setups[sv->setup.next], NULL },
	                ret_spawn, err);
}

/* The agent starts later. */
static int
hold(struct supervisor *sv, const int inside[3], struct err *err)
{
	struct setup *setup = &sv->setup;
	int r = describe(sv, INIT_HANDLE_AGENT, sv->spec.argv, &setup->agent, err);

	for (int i = 0; r == 0 && i < 3; i++) {
		setup->inside[i] = inside[i] < 0 ? -1 : fcntl(inside[i], F_DUPFD_CLOEXEC, 3);
		if (inside[i] >= 0 && setup->inside[i] < 0)
			r = err_errno(err, "cannot keep the agent's input and output");
	}
	setup->holds = r == 0;
	return r;
}

int
supervisor_start_held(struct supervisor *sv, struct err *err)
{
	struct setup *setup = &sv->setup;
	const bool tty = sv->spec.tty;
	int r;

	if (!setup->holds)
		return err_set(err, EBUSY, "the command of cell %s was started already", sv->spec.id);
	r = port_start(sv->boundary->port(sv->walls), &setup->agent, setup->inside + (tty ? 2 : 0),
	               !tty ? 3 : setup->inside[2] >= 0 ? 1 : 0, err);
	supervisor_setup_over(sv);
	return r;
}

int
supervisor_describe_first(struct supervisor *sv, struct buf *ret_spawn, int ret_inside[3],
                          struct err *err)
{
	struct setup *setup = &sv->setup;
	int r;

	r = sv->spec.detached ? supervisor_open_log(sv, ret_inside, err)
	                      : stdio_open(&sv->stdio, sv->spec.tty, ret_inside, err);
	if (r == 0 && sv->spec.held)
		return hold(sv, ret_inside, err);
	if (r < 0 || sv->spec.setups[0] == NULL)
		return r < 0 ? r : describe(sv, INIT_HANDLE_AGENT, sv->spec.argv, ret_spawn, err);
	/* Describe the agent too, so that a resource it cannot have is reported now. */
	r = describe(sv, INIT_HANDLE_AGENT, sv->spec.argv, &setup->agent, err);
	for (int i = 0; r == 0 && i < 3; i++) {
		setup->inside[i] = fcntl(ret_inside[i], F_DUPFD_CLOEXEC, 3);
		if (setup->inside[i] < 0)
			r = err_errno(err, "cannot keep the agent's input and output");
	}
	if (r < 0)
		return r;
	/* Only the agent gets the input. */
	closep(&ret_inside[0]);
	ret_inside[0] = setup->null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	setup->null = fcntl(setup->null, F_DUPFD_CLOEXEC, 3);
	if (ret_inside[0] < 0 || setup->null < 0)
		return err_errno(err, "cannot open /dev/null");
	setup->runs = true;
	return describe_setup(sv, ret_spawn, err);
}

void
supervisor_setup_over(struct supervisor *sv)
{
	struct setup *setup = &sv->setup;

	for (int i = 0; i < 3; i++) {
		closep(&setup->inside[i]);
		setup->inside[i] = -1;
	}
	closep(&setup->null);
	setup->null = -1;
	buf_free(&setup->agent);
	setup->agent = (struct buf){0};
	setup->runs = setup->holds = false;
}

/* Ends the cell; the output so far is still forwarded. */
static void
fail(struct supervisor *sv, const char *why)
{
	if (sv->killed_by == KILLED_NOT) {
		sv->killed_by = KILLED_BY_SETUP;
		snprintf(sv->cause, sizeof(sv->cause), "setup %s failed %s",
		         sv->spec.setups[sv->setup.next], why);
	}
	supervisor_setup_over(sv);
	sv->boundary->kill(sv->walls);
}

/* The parts of the streams that the current setup has written. */
static void
note_output(const struct supervisor *sv, struct json *w)
{
	static const char *const from[] = { "stdout_from", "stderr_from" }, *const to[] = { "stdout_to", "stderr_to" };

	for (size_t i = 0; sv->spec.streams && i < ARRAY_LEN(from); i++) {
		json_u64(w, from[i], sv->setup.from[i]);
		json_u64(w, to[i], sv->streams[i].size);
	}
}

/* PATH is NULL for the agent. */
static void
note_step(const struct supervisor *sv, const char *path, int status)
{
	struct step step;

	if (!supervisor_step_begin(sv, &step, path != NULL ? "setup.ran" : "agent.started"))
		return;
	if (path != NULL) {
		json_str(&step.w, "path", path);
		json_u64(&step.w, "status", (uint64_t)status);
		note_output(sv, &step.w);
	}
	supervisor_step_end(sv, &step);
}

/* Call once the current setup has ended.  If sending fails, init is gone. */
static void
start_next(struct supervisor *sv)
{
	struct setup *setup = &sv->setup;
	int fds[3] = { setup->null, setup->inside[1], setup->inside[2] };
	OWN(buf_free) struct buf spawn = {0};
	struct err err = {0};

	if (sv->spec.setups[setup->next] == NULL) {
		(void)port_start(sv->boundary->port(sv->walls), &setup->agent, setup->inside, 3, NULL);
		supervisor_setup_over(sv);
		return;
	}
	if (describe_setup(sv, &spawn, &err) < 0)
		fail(sv, err.text);
	else
		(void)port_start(sv->boundary->port(sv->walls), &spawn, fds, 3, NULL);
}

int
supervisor_setup_spawned(struct supervisor *sv, uint32_t error)
{
	char why[160];

	if (!sv->setup.runs || sv->setup.spawned)
		return -EBADMSG;
	sv->setup.spawned = error == 0;
	if (error == 0) {
		supervisor_begun(sv);
		return 0;
	}
	snprintf(why, sizeof(why), "to start: %s", error == EUCLEAN ? "the program that would run it " CELL_NOT_RESOLVED :
	         strerrordesc_np((int)error));
	fail(sv, why);
	return 0;
}

int
supervisor_setup_exited(struct supervisor *sv, uint32_t wait_status)
{
	const int status = WIFEXITED((int)wait_status) ? WEXITSTATUS((int)wait_status) :
	                   128 + WTERMSIG((int)wait_status);
	const char *path;
	char note[32];

	if (!sv->setup.runs || !sv->setup.spawned)
		return -EBADMSG;
	path = sv->spec.setups[sv->setup.next];
	/* Its output is in the pipes by now, and belongs to it. */
	stdio_flush(&sv->stdio);
	note_step(sv, path, status);
	for (size_t i = 0; i < ARRAY_LEN(sv->setup.from); i++)
		sv->setup.from[i] = sv->streams[i].size;
	supervisor_record_setup(sv, path, status);
	if (status != 0) {
		snprintf(note, sizeof(note), "with %d", status);
		fail(sv, note);
		return 0;
	}
	sv->setup.spawned = false;
	sv->setup.next++;
	start_next(sv);
	return 0;
}

void
supervisor_agent_started(const struct supervisor *sv)
{
	if (sv->spec.argv[0] != NULL || sv->spec.waits)
		note_step(sv, NULL, 0);
}
