/* oci_exec.c - `exec`: runs another process in a container.
 *
 * A process of its own carries the input and output, forwards signals, and ends as the container's process did: it
 * is the one whose pid the engine gets. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/spawn.h"
#include "boundary/exec.h"
#include "cell/cell_control.h"
#include "ipc/control_channel.h"
#include "proc/oci/oci.h"

#define FAILED 125

struct process {
	char **argv, **env;             /* owned */
	struct cell_spec cell;          /* the container's cell, as it describes itself */
	struct exec exec;
	int report;                     /* gets "+" once it runs, or why it does not; -1: it was written */
};

/* ---- what is to run ---- */

static int
no_memory(struct err *err)
{
	return err_set(err, ENOMEM, "out of memory");
}

static bool
has_name(char *const *env, const char *entry)
{
	size_t len = strcspn(entry, "=");

	for (; *env != NULL; env++)
		if (strncmp(*env, entry, len) == 0 && (*env)[len] == '=')
			return true;
	return false;
}

/* The variables of ENTRIES, and those of the cell that they do not set: among them are the certificates and the
 * placeholders of secrets.  ret_env has room for all. */
static int
merge_env(const char *const *entries, size_t n, char *const *cell, char ***ret_env, struct err *err)
{
	size_t at = 0;
	char **env = calloc(n + strv_len(cell) + 1, sizeof(char *));

	*ret_env = env;
	for (size_t i = 0; env != NULL && i < n; i++)
		if ((env[at++] = strdup(entries[i])) == NULL)
			return no_memory(err);
	for (; env != NULL && *cell != NULL; cell++)
		if (!has_name(env, *cell) && (env[at++] = strdup(*cell)) == NULL)
			return no_memory(err);
	return env == NULL ? no_memory(err) : 0;
}

static int
copy_texts(const char *const *texts, size_t n, char ***ret_texts, struct err *err)
{
	return merge_env(texts, n, (char *[]){ NULL }, ret_texts, err);
}

/* The strings of a list, borrowed; the caller frees the array. */
static int
texts_of(const json_t *list, const char *what, const char ***ret_texts, struct err *err)
{
	const json_t *item;
	size_t i;

	*ret_texts = calloc(json_array_size(list) + 1, sizeof(char *));
	json_array_foreach(list, i, item) {
		if (*ret_texts == NULL || json_string_value(item) == NULL)
			return err_set(err, EINVAL, "process.%s[%zu] is not a text", what, i);
		(*ret_texts)[i] = json_string_value(item);
	}
	return *ret_texts == NULL ? no_memory(err) : 0;
}

/* The cell's first process has given up the right to become another user. */
static int
check_user(const json_t *user, const struct cell_spec *cell, struct err *err)
{
	json_int_t uid = json_integer_value(json_object_get(user, "uid"));
	json_int_t gid = json_integer_value(json_object_get(user, "gid"));

	if (user != NULL && (uid != cell_spec_uid(cell) || gid != cell_spec_gid(cell)))
		return err_set(err, ENOTSUP, "a process of the container runs as its user, %u:%u, and as no other",
		               (unsigned)cell_spec_uid(cell), (unsigned)cell_spec_gid(cell));
	return 0;
}

static int
take_process(const json_t *file, struct process *p, struct err *err)
{
	const json_t *args = json_object_get(file, "args"), *env = json_object_get(file, "env");
	const json_t *size = json_object_get(file, "consoleSize");
	OWN(freep) const char **words = NULL, **entries = NULL;
	int r = check_user(json_object_get(file, "user"), &p->cell, err);

	p->exec.tty = json_is_true(json_object_get(file, "terminal"));
	p->exec.rows = (unsigned)json_integer_value(json_object_get(size, "height"));
	p->exec.columns = (unsigned)json_integer_value(json_object_get(size, "width"));
	p->exec.cwd = oci_text(file, "cwd");
	r = r == 0 ? texts_of(args, "args", &words, err) : r;
	r = r == 0 ? texts_of(env, "env", &entries, err) : r;
	r = r == 0 ? copy_texts(words, json_array_size(args), &p->argv, err) : r;
	return r == 0 ? merge_env(entries, json_array_size(env), p->cell.env, &p->env, err) : r;
}

static int
take_words(const struct oci *oci, struct process *p, struct err *err)
{
	int r = oci->user != NULL ? err_set(err, ENOTSUP, "a process of the container runs as its user: remove --user") : 0;

	p->exec.tty = oci->tty;
	p->exec.cwd = oci->cwd;
	r = r == 0 ? copy_texts(oci->words + 1, oci->n_words - 1, &p->argv, err) : r;
	return r == 0 ? merge_env(oci->environment, oci->n_environment, p->cell.env, &p->env, err) : r;
}

/* ---- the process that stands for it ---- */

static void
report(struct process *p, const char *text)
{
	if (p->report >= 0)
		(void)!write(p->report, text, strlen(text));
	closep(&p->report);
	p->report = -1;
}

static void
started(void *arg)
{
	report(arg, "+");
}

static int
carry(struct process *p, int runtime, struct err *err)
{
	struct exec *exec = &p->exec;
	int socket = cell_connect(runtime, &exec->entry, err);

	if (socket < 0)
		return socket;
	exec->argv = p->argv;
	exec->env = p->env;
	exec->cwd = exec->cwd != NULL && exec->cwd[0] == '/' ? exec->cwd : p->cell.cwd;
	exec->cell = &p->cell;
	exec->started = started;
	exec->arg = p;
	exec_run(exec, socket);
	if (exec->err.code == 0)
		return exec->status;
	*err = exec->err;
	/* The process ended with its container. */
	return exec->is_cell_gone && p->report < 0 ? SPAWN_KILLED + SIGKILL : -exec->err.code;
}

_Noreturn static void
be_process(struct process *p, int runtime, int console, bool apart)
{
	struct err err = {0};
	int r = apart && setsid() < 0 ? err_errno(&err, "cannot leave the engine's session") : 0;

	r = r == 0 && console >= 0 ? oci_enter_console(console, &err) : r;
	r = r == 0 ? carry(p, runtime, &err) : r;
	if (r < 0)
		report(p, err.text);
	_exit(r < 0 ? FAILED : r);
}

/* ---- the command ---- */

static int
await_start(int fd, struct err *err)
{
	char text[ERR_TEXT_MAX] = "";
	size_t len = 0;
	ssize_t n;

	while (len < sizeof(text) - 1 && ((n = read(fd, text + len, sizeof(text) - 1 - len)) > 0 ||
	                                  (n < 0 && errno == EINTR)))
		len += n > 0 ? (size_t)n : 0;
	return strcmp(text, "+") == 0 ? 0 :
	       err_set(err, EIO, "%s", len > 0 ? text : "the process could not be started");
}

static int
start(const struct oci *oci, struct process *p, int runtime, struct err *err)
{
	const bool terminal = p->exec.tty && oci->console != NULL;
	OWN(closep) int console = -1, started = -1;
	int ends[2], r;
	pid_t pid;

	if (terminal)
		console = oci_open_console(oci->console, p->exec.rows, p->exec.columns, err);
	if (terminal && console < 0)
		return console;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	started = ends[0];
	p->report = ends[1];
	pid = fork();
	if (pid == 0) {
		close(started);
		be_process(p, runtime, console, oci->detach || terminal);
	}
	close(ends[1]);
	if (pid < 0)
		return err_errno(err, "cannot start a process");
	r = oci_write_pid(oci->pid_file, pid, err);
	r = r == 0 ? await_start(started, err) : r;
	if (r < 0) {
		kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		return r;
	}
	return oci->detach ? 0 : spawn_await(pid, err);
}

static int
exec_in(const struct oci *oci, const struct oci_state *state, struct process *p, struct err *err)
{
	OWN(json_decrefp) json_t *file = NULL;
	OWN(closep) int runtime = oci_find_cell(state, &p->exec.entry, err);
	struct cell_info info = {0};
	int r = runtime < 0 ? runtime : cell_control_info(runtime, &p->exec.entry, &info, err);

	if (r < 0)
		return r;
	p->cell = info.spec;
	if (info.state == CONTROL_STATE_SILENT)
		return cell_is_silent(&p->exec.entry, err);
	r = oci->process == NULL ? take_words(oci, p, err) : oci_read_json(oci->process, &file, err);
	r = r == 0 && file != NULL ? take_process(file, p, err) : r;
	if (r == 0 && p->argv[0] == NULL)
		r = err_set(err, EINVAL, "no command is given: cloister-oci exec ID CMD...");
	return r < 0 ? r : start(oci, p, runtime, err);
}

int
oci_exec(const struct oci *oci, struct err *err)
{
	OWN(closep) int root = oci_state_root(oci, err);
	OWN(oci_state_free) struct oci_state state = {0};
	struct process process = { .report = -1 };
	int r = root < 0 ? root : oci_state_read(root, oci->words[0], &state, err);

	if (r < 0)
		return r;
	if (!oci_state_is_alive(&state) || !state.is_started)
		return err_set(err, ESRCH, "container not running");
	r = exec_in(oci, &state, &process, err);
	strv_freep(&process.argv);
	strv_freep(&process.env);
	cell_spec_free(&process.cell);
	return r;
}
