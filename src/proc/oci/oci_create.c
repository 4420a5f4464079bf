/* oci_create.c - `create` and `run`: makes the cell of a container.
 *
 * The supervisor of the cell becomes a child of the engine's shim once this process has ended.  The shim waits for
 * it, and it ends as the container's process did.  It keeps the input and output that the engine gave to this
 * process. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/exe.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "cell/cell_doc.h"
#include "proc/oci/oci.h"

/* The descriptors of `cloister run`. */
#define DOC_FD 3
#define HOLD_FD 4
#define NAME_LEN 12                     /* as much of the container's id as engines show */

static int
write_doc(json_t *doc, struct err *err)
{
	OWN(closep) int fd = memfd_create("cell", MFD_CLOEXEC);
	OWN(freep) char *text = NULL;
	size_t len;
	int r = cell_doc_write(doc, &text, &len, err);

	if (r < 0)
		return r;
	if (fd < 0)
		return err_errno(err, "cannot describe the cell");
	r = write_all(fd, text, len, err);
	return r < 0 ? r : TAKE_FD(fd);
}

/* In the child: becomes `cloister run`, which becomes the supervisor. */
static int
become_run(const char *id, int doc, int hold, int console, struct err *err)
{
	char cloister[PATH_MAX], name[NAME_LEN + 1], option[] = "--name";
	char *argv[] = { (char[]){ "cloister" }, (char[]){ "run" }, (char[]){ "-q" }, (char[]){ "--doc" },
	                 (char[]){ "/proc/self/fd/3" }, (char[]){ "--hold" }, (char[]){ "4" },
	                 console >= 0 ? (char[]){ "-t" } : (char[]){ "-T" }, NULL, NULL, NULL };
	const struct spawn_fd fds[] = { { doc, DOC_FD }, { hold, HOLD_FD } };
	int r = exe_find_cloister(cloister, err);

	snprintf(name, sizeof(name), "%s", id);
	argv[8] = cell_name_ok(name) ? option : NULL;
	argv[9] = name;
	if (r == 0 && setsid() < 0)
		r = err_errno(err, "cannot leave the engine's session");
	r = r == 0 && console >= 0 ? oci_enter_console(console, err) : r;
	return r < 0 ? r : spawn_become(&(struct spawn){ .argv = argv, .path = cloister, .fds = fds,
		.n_fds = ARRAY_LEN(fds), .flags = SPAWN_ONLY }, err);
}

/* Starts it: ret_hold gets the cell's id once the cell is made, or the reason why it is not. */
static pid_t
start_run(const char *id, int doc, int console, int *ret_hold, struct err *err)
{
	struct err reason = {0};
	int ends[2];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		(void)become_run(id, doc, ends[1], console, &reason);
		(void)!write(ends[1], reason.text, strlen(reason.text));
		_exit(125);
	}
	close(ends[1]);
	*ret_hold = ends[0];
	return pid < 0 ? err_errno(err, "cannot start a process") : pid;
}

/* A reason is a sentence, and longer than an id. */
static int
await_cell(int hold, char ret_cell[CELL_ID_LEN + 1], struct err *err)
{
	char text[ERR_TEXT_MAX] = "";
	size_t len = 0;
	ssize_t n;

	while (len < sizeof(text) - 1 && ((n = read(hold, text + len, sizeof(text) - 1 - len)) > 0 ||
	                                  (n < 0 && errno == EINTR)))
		len += n > 0 ? (size_t)n : 0;
	if (len == 0)
		return err_set(err, EIO, "the container's cell could not be made");
	if (!cell_id_ok(text))
		return err_set(err, EIO, "%s", text);
	memcpy(ret_cell, text, CELL_ID_LEN + 1);
	return 0;
}

static char *
now_text(void)
{
	struct timespec now;
	char text[40];
	struct tm when;

	clock_gettime(CLOCK_REALTIME, &now);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &when));
	return str_format("%s.%09ldZ", text, now.tv_nsec);
}

static int
make_cell(const struct oci_config *config, const struct oci *oci, struct oci_state *state, struct err *err)
{
	OWN(closep) int doc = write_doc(config->doc, err), console = -1, hold = -1;
	int r;

	if (doc < 0)
		return doc;
	if (config->terminal)
		console = oci_open_console(oci->console, config->rows, config->columns, err);
	if (config->terminal && console < 0)
		return console;
	state->pid = start_run(state->id, doc, console, &hold, err);
	if (state->pid < 0)
		return (int)state->pid;
	r = await_cell(hold, state->cell, err);
	if (r < 0)
		(void)waitpid(state->pid, NULL, 0);
	state->since = oci_process_since(state->pid);
	return r;
}

static int
create(const struct oci *oci, int root, struct oci_state *state, struct err *err)
{
	const char *bundle = oci->bundle != NULL ? oci->bundle : ".";
	OWN(oci_config_free) struct oci_config config = {0};
	OWN(closep) int dir = -1;
	int r = oci_config_read(oci, bundle, &config, err);

	snprintf(state->id, sizeof(state->id), "%s", oci->words[0]);
	if (r < 0)
		return r;
	dir = oci_state_make(root, oci->words[0], err);
	if (dir < 0)
		return dir;
	state->bundle = realpath(bundle, NULL);
	state->created = now_text();
	state->annotations = json_incref(json_object_get(config.config, "annotations"));
	r = state->bundle == NULL || state->created == NULL ? err_errno(err, "cannot open the bundle '%s'", bundle) :
	    make_cell(&config, oci, state, err);
	r = r == 0 ? oci_state_write(dir, state, err) : r;
	r = r == 0 ? oci_write_pid(oci->pid_file, state->pid, err) : r;
	if (r < 0) {
		if (state->cell[0] != '\0')
			(void)oci_end_cell(state, NULL);
		oci_state_remove(root, state->id);
	}
	return r;
}

int
oci_create(const struct oci *oci, struct err *err)
{
	OWN(closep) int root = oci_state_root(oci, err);
	OWN(oci_state_free) struct oci_state state = {0};

	return root < 0 ? root : create(oci, root, &state, err);
}

int
oci_run(const struct oci *oci, struct err *err)
{
	OWN(closep) int root = oci_state_root(oci, err);
	OWN(oci_state_free) struct oci_state state = {0};
	int r = root < 0 ? root : create(oci, root, &state, err);

	if (r < 0)
		return r;
	r = oci_state_mark_started(root, state.id, err);
	r = r == 0 ? oci_start_cell(&state, err) : r;
	if (r < 0)
		(void)oci_end_cell(&state, NULL);
	if (r == 0 && oci->detach)
		return 0;
	r = r == 0 ? spawn_await(state.pid, err) : r;
	oci_state_remove(root, state.id);
	return r;
}
