/* oci_exec.c - `exec`: runs another process in a container.
 *
 * A process of its own carries the input and output, forwards signals, and ends as the container's process did: it
 * is the one whose pid the engine gets. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "base/spawn.h"
#include "boundary/boundary.h"
#include "cell/cell_control.h"
#include "cell/cell_exec_error.h"
#include "ipc/control_channel.h"
#include "ipc/init_channel.h"
#include "loop/stdio.h"
#include "proc/oci/oci.h"

#define FAILED 125

/* What is to run. */
struct process {
	char **argv, **env;
	const char *cwd;
	bool tty;
	unsigned rows, columns;
};

struct exec {
	const struct process *process;
	struct cell_spec *cell;
	struct cell_entry entry;
	struct loop *loop;
	struct stdio stdio;
	struct loop_source source;      /* the connection to the supervisor */
	int report;                     /* gets "+" once it runs, or why it does not; -1: it was written */
	bool exited;
	int status;
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
take_process(const json_t *file, const struct cell_spec *cell, struct process *p, struct err *err)
{
	const json_t *args = json_object_get(file, "args"), *env = json_object_get(file, "env");
	const json_t *size = json_object_get(file, "consoleSize");
	OWN(freep) const char **words = NULL, **entries = NULL;
	int r = check_user(json_object_get(file, "user"), cell, err);

	p->tty = json_is_true(json_object_get(file, "terminal"));
	p->rows = (unsigned)json_integer_value(json_object_get(size, "height"));
	p->columns = (unsigned)json_integer_value(json_object_get(size, "width"));
	p->cwd = oci_text(file, "cwd");
	r = r == 0 ? texts_of(args, "args", &words, err) : r;
	r = r == 0 ? texts_of(env, "env", &entries, err) : r;
	r = r == 0 ? copy_texts(words, json_array_size(args), &p->argv, err) : r;
	return r == 0 ? merge_env(entries, json_array_size(env), cell->env, &p->env, err) : r;
}

static int
take_words(const struct oci *oci, const struct cell_spec *cell, struct process *p, struct err *err)
{
	int r = oci->user != NULL ? err_set(err, ENOTSUP, "a process of the container runs as its user: remove --user") : 0;

	p->tty = oci->tty;
	p->cwd = oci->cwd;
	r = r == 0 ? copy_texts(oci->words + 1, oci->n_words - 1, &p->argv, err) : r;
	return r == 0 ? merge_env(oci->environment, oci->n_environment, cell->env, &p->env, err) : r;
}

/* ---- the client of the supervisor ---- */

static void
report(struct exec *exec, const char *text)
{
	if (exec->report >= 0)
		(void)!write(exec->report, text, strlen(text));
	closep(&exec->report);
	exec->report = -1;
}

static void
fail(struct exec *exec, const char *text)
{
	report(exec, text);
	exec->status = FAILED;
	loop_quit(exec->loop);
}

static void
check_end(void *arg)
{
	struct exec *exec = arg;

	if (exec->exited && (stdio_finish(&exec->stdio) || stdio_is_idle(&exec->stdio)))
		loop_quit(exec->loop);
}

static void
take_started(struct exec *exec, struct ipc_message *message)
{
	struct err err = {0};
	uint32_t error;

	if (buf_get_u32(&message->body, &error) < 0) {
		fail(exec, "the cell's supervisor is of another version");
		return;
	}
	if (error != 0)
		(void)cell_explain_exec_error(exec->cell, exec->process->argv[0], (int)error, &err);
	else if (exec->process->tty)
		(void)stdio_carry_terminal(&exec->stdio, ipc_take_fd(message, 0), false, &err);
	if (err.code != 0)
		fail(exec, err.text);
	else
		report(exec, "+");
}

static void
cell_ready(void *arg, uint32_t events)
{
	struct exec *exec = arg;
	OWN(ipc_message_free) struct ipc_message message = {0};
	struct err err = {0};
	const char *text;
	uint32_t number;

	(void)events;
	if (ipc_receive(exec->source.fd, &message, &err) < 0) {
		/* The container ended, and so did this process. */
		fail(exec, "the container has ended");
		exec->status = SPAWN_KILLED + SIGKILL;
	} else if (message.type == CONTROL_STARTED) {
		take_started(exec, &message);
	} else if (message.type == CONTROL_EXITED && buf_get_u32(&message.body, &number) == 0) {
		exec->exited = true;
		exec->status = WIFSIGNALED((int)number) ? SPAWN_KILLED + WTERMSIG((int)number) : WEXITSTATUS((int)number);
		loop_unwatch(exec->loop, &exec->source);
		check_end(exec);
	} else if (message.type == CONTROL_REFUSED && buf_get_u32(&message.body, &number) == 0 &&
	           buf_get_str(&message.body, &text) == 0) {
		fail(exec, text);
	} else if (message.type != CONTROL_SAYS) {
		fail(exec, "the cell's supervisor is of another version");
	}
}

static void
caught(void *arg, const struct signalfd_siginfo *info)
{
	struct exec *exec = arg;
	OWN(buf_free) struct buf message = {0};

	if (info->ssi_signo == SIGWINCH) {
		stdio_resize(&exec->stdio);
		return;
	}
	steer_put(&message, &(struct steer_request){ .verb = VERB_SIGNAL, .n = { info->ssi_signo } });
	(void)ipc_send(exec->source.fd, &message, NULL, 0, NULL);
}

static int
catch_signals(struct exec *exec, struct err *err)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		sigaddset(&set, numbers[i]);
	signal(SIGPIPE, SIG_IGN);
	return loop_catch(exec->loop, &set, caught, exec, err);
}

static int
send_exec(struct exec *exec, struct err *err)
{
	const struct process *p = exec->process;
	const struct boundary *boundary = boundary_find(exec->cell->boundary, err);
	struct winsize size = { .ws_row = (unsigned short)p->rows, .ws_col = (unsigned short)p->columns };
	OWN(buf_free) struct buf message = {0};
	int inside[3], r = boundary == NULL ? -EINVAL : stdio_open(&exec->stdio, p->tty, inside, err);

	if (r < 0)
		return r;
	for (int i = 0; i < 3; i++)
		boundary->give_to_agent(inside[i], exec->entry.slot, exec->cell);
	if (p->tty)
		(void)ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
	steer_put(&message, &(struct steer_request){ .verb = VERB_EXEC });
	buf_put_u32(&message, p->tty ? INIT_TTY : 0);
	buf_put_u32(&message, size.ws_row);
	buf_put_u32(&message, size.ws_col);
	buf_put_str(&message, p->cwd != NULL && p->cwd[0] == '/' ? p->cwd : exec->cell->cwd);
	buf_put_strv(&message, p->argv);
	buf_put_strv(&message, p->env);
	r = ipc_send(exec->source.fd, &message, p->tty ? &inside[2] : inside, p->tty ? (inside[2] >= 0 ? 1 : 0) : 3, err);
	for (int i = 0; i < 3; i++)
		closep(&inside[i]);
	return r;
}

/* The process itself, from the inside of a child. */
static int
carry(struct exec *exec, int runtime, struct err *err)
{
	int r = loop_new(&exec->loop, err);

	if (r < 0)
		return r;
	stdio_init(&exec->stdio, exec->loop, check_end, exec);
	exec->source = (struct loop_source){ .ready = cell_ready, .arg = exec,
	                                     .fd = cell_connect(runtime, &exec->entry, err) };
	r = exec->source.fd < 0 ? exec->source.fd : catch_signals(exec, err);
	r = r == 0 ? send_exec(exec, err) : r;
	r = r == 0 ? loop_watch(exec->loop, &exec->source, EPOLLIN, err) : r;
	r = r == 0 ? loop_run(exec->loop, err) : r;
	stdio_close(&exec->stdio);
	return r < 0 ? r : exec->status;
}

/* ---- the command ---- */

_Noreturn static void
be_process(struct exec *exec, int runtime, int console, bool apart)
{
	struct err err = {0};
	int r = apart && setsid() < 0 ? err_errno(&err, "cannot leave the engine's session") : 0;

	r = r == 0 && console >= 0 ? oci_enter_console(console, &err) : r;
	r = r == 0 ? carry(exec, runtime, &err) : r;
	if (r < 0)
		report(exec, err.text);
	_exit(r < 0 ? FAILED : r);
}

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
start(const struct oci *oci, struct exec *exec, int runtime, struct err *err)
{
	const bool terminal = exec->process->tty && oci->console != NULL;
	OWN(closep) int console = -1, started = -1;
	int ends[2], r;
	pid_t pid;

	if (terminal)
		console = oci_open_console(oci->console, exec->process->rows, exec->process->columns, err);
	if (terminal && console < 0)
		return console;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	started = ends[0];
	exec->report = ends[1];
	pid = fork();
	if (pid == 0) {
		close(started);
		be_process(exec, runtime, console, oci->detach || terminal);
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
exec_in(const struct oci *oci, const struct oci_state *state, struct err *err)
{
	OWN(json_decrefp) json_t *file = NULL;
	OWN(cell_spec_free) struct cell_spec cell = {0};
	OWN(strv_freep) char **argv = NULL, **env = NULL;
	struct process process = {0};
	struct exec exec = { .process = &process, .cell = &cell, .report = -1 };
	OWN(closep) int runtime = oci_find_cell(state, &exec.entry, err);
	struct cell_info info = {0};
	int r = runtime < 0 ? runtime : cell_control_info(runtime, &exec.entry, &info, err);

	if (r < 0)
		return r;
	cell = info.spec;
	if (info.state == CONTROL_STATE_SILENT)
		return cell_is_silent(&exec.entry, err);
	r = oci->process == NULL ? take_words(oci, &cell, &process, err) : oci_read_json(oci->process, &file, err);
	r = r == 0 && file != NULL ? take_process(file, &cell, &process, err) : r;
	argv = process.argv;
	env = process.env;
	if (r == 0 && argv[0] == NULL)
		r = err_set(err, EINVAL, "no command is given: cloister-oci exec ID CMD...");
	return r < 0 ? r : start(oci, &exec, runtime, err);
}

int
oci_exec(const struct oci *oci, struct err *err)
{
	OWN(closep) int root = oci_state_root(oci, err);
	OWN(oci_state_free) struct oci_state state = {0};
	int r = root < 0 ? root : oci_state_read(root, oci->words[0], &state, err);

	if (r < 0)
		return r;
	if (!oci_state_is_alive(&state) || !state.is_started)
		return err_set(err, ESRCH, "container not running");
	return exec_in(oci, &state, err);
}
