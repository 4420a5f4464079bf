/* oci_keeper.c - the first process of a cell with an OCI runtime: it drives the runtime, and ends with the
 * container.
 *
 * It and the runtime have every capability in the cell's user namespace and none outside.  The container has
 * none at all. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/oci/oci.h"

#define ARGS_MAX 24
#define ANSWER_MAX 16384
#define PID_FILE "/" OCI_STATE "/pid"
#define LOG_FD 3
#define KILLED 128                      /* and the signal: an exit status */
#define NAME "cell"                     /* the container's, which is alone there */

struct keeper {
	const struct oci *oci;
	size_t options;                 /* the list of options that works */
	int64_t until_ms;
};

/* ---- one command of the runtime ---- */

_Noreturn static void
run_child(char *const *argv, const int stdio[3])
{
	static char path[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	static char runtime[] = "XDG_RUNTIME_DIR=/" OCI_STATE, home[] = "HOME=/" OCI_STATE, temporary[] = "TMPDIR=/" OCI_STATE;
	char *env[] = { path, runtime, home, temporary, NULL };

	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	for (int fd = 0; fd < 3; fd++)
		if (dup2(stdio[fd], fd) < 0)
			_exit(125);
	execve("/" OCI_RUNTIME, argv, env);
	dprintf(2, "cannot run it: %s\n", strerrordesc_np(errno));
	_exit(125);
}

/* Reaps whatever has ended.  True once PID has, whose status is then *ret_status; 0 if it was reaped before, as a
 * container that ends while the runtime starts it. */
static bool
reap(pid_t pid, int *ret_status)
{
	int status;
	pid_t ended;

	while ((ended = waitpid(-1, &status, WNOHANG | __WALL)) > 0)
		if (ended == pid) {
			*ret_status = status;
			return true;
		}
	*ret_status = 0;
	return waitpid(pid, &status, WNOHANG | __WALL) < 0 && errno == ECHILD;
}

/* Waits for the end of PID, and meanwhile reaps others: runtimes wait for them too.  Its exit status, or
 * -ETIMEDOUT. */
static int
await_child(pid_t pid, int64_t until_ms)
{
	sigset_t child;
	int status;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	while (!reap(pid, &status)) {
		const int64_t left = until_ms - io_now_ms();
		const struct timespec limit = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };

		if (until_ms == 0)
			(void)sigwaitinfo(&child, NULL);
		else if (left <= 0)
			return -ETIMEDOUT;
		else
			(void)sigtimedwait(&child, NULL, &limit);
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : KILLED + WTERMSIG(status);
}

/* Runs `RUNTIME OPTIONS WORDS... NAME`.  IN and OUT are its standard input and output. */
static int
command(const struct keeper *k, const char *const *words, int in, int out)
{
	const char *argv[ARGS_MAX] = { k->oci->runtime->name[0] != '\0' ? k->oci->runtime->name : OCI_RUNTIME };
	const char *const *options = k->oci->runtime->options[k->options];
	const int stdio[] = { in, out, k->oci->log };
	size_t n = 1;
	pid_t pid;

	while (*options != NULL)
		argv[n++] = *options++;
	while (*words != NULL)
		argv[n++] = *words++;
	argv[n++] = NAME;
	pid = fork();
	if (pid == 0)
		run_child((char *const *)(uintptr_t)argv, stdio);
	return pid < 0 ? -errno : await_child(pid, k->until_ms);
}

static int
quiet(const struct keeper *k, const char *const *words)
{
	OWN(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	return null < 0 ? -errno : command(k, words, null, null);
}

/* ---- the container ---- */

static void
forget_output(int log)
{
	char zeros[512] = {0};
	off_t at = 0;

	while (pwrite(log, zeros, sizeof(zeros), at) > 0)
		at += (off_t)sizeof(zeros);
	(void)lseek(log, 0, SEEK_SET);
}

static int
remove_container(const struct keeper *k)
{
	static const char *const words[] = { "delete", "--force", NULL };

	return quiet(k, words);
}

/* Tries the lists of options in turn.  The container's standard input is STREAM.  Its output is not, because
 * gVisor shuts a socket down when one of its descriptors is closed. */
static int
create(struct keeper *k, int stream, struct err *err)
{
	static const char *const words[] = { "create", "--bundle", "/" OCI_BUNDLE, "--pid-file", PID_FILE, NULL };
	int status = 0;

	for (k->options = 0; k->oci->runtime->options[k->options][0] != NULL; k->options++) {
		forget_output(k->oci->log);
		status = command(k, words, stream, k->oci->log);
		if (status <= 0)
			return status < 0 ? err_set(err, -status, "the runtime did not make the container in time") : 0;
		(void)remove_container(k);
	}
	return err_set(err, EPROTO, "the runtime did not make the container: it ended with %d", status);
}

/* The value of "status" in the runtime's description of the container. */
static bool
has_status(const char *answer, const char *status)
{
	const char *at = strstr(answer, "\"status\"");
	const size_t len = strlen(status);

	at = at == NULL ? NULL : strchr(at + strlen("\"status\""), '"');
	return at != NULL && strncmp(at + 1, status, len) == 0 && at[1 + len] == '"';
}

static int
check_created(const struct keeper *k, struct err *err)
{
	static const char *const words[] = { "state", NULL };
	OWN(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	OWN(closep) int out = memfd_create("state", MFD_CLOEXEC);
	char answer[ANSWER_MAX + 1] = "";
	int status = null < 0 || out < 0 ? -errno : command(k, words, null, out);

	if (status != 0 || pread(out, answer, ANSWER_MAX, 0) <= 0 || !has_status(answer, "created"))
		return err_set(err, EPROTO, "the runtime made no container");
	return 0;
}

static int
start(const struct keeper *k, struct err *err)
{
	static const char *const words[] = { "start", NULL };
	int status = quiet(k, words);

	if (status == 0)
		return 0;
	(void)remove_container(k);
	return err_set(err, status < 0 ? -status : EPROTO, "the runtime did not start the container");
}

/* The container's first process, or the sandbox around it: a child of this process, because its maker has
 * ended. */
static int
find_container(pid_t *ret_pid, struct err *err)
{
	OWN(freep) char *text = NULL;
	int r = read_file_at(AT_FDCWD, PID_FILE, 32, &text, NULL, err);

	if (r == 0 && ((*ret_pid = (pid_t)strtol(text, NULL, 10)) <= 1 || kill(*ret_pid, 0) < 0))
		r = err_set(err, EPROTO, "the runtime named no process");
	return r;
}

/* ---- the keeper ---- */

/* User namespaces that the agent could make are counted in this one.  Init makes one if it names the agent. */
static int
limit_namespaces(const struct oci *oci, struct err *err)
{
	if (oci->agents->profile == CELL_PROFILE_NESTED || !CONTROL_ON("max-userns"))
		return 0;
	return write_file_at(AT_FDCWD, "/proc/sys/user/max_user_namespaces",
	                     oci_names_agent(oci->agents) && !oci->runtime->is_sandbox ? "1" : "0", err);
}

/* Gives the network that this process has joined a path. */
static int
show_net(struct err *err)
{
	OWN(closep) int at = open(OCI_NET, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return at < 0 || mount("/proc/self/ns/net", OCI_NET, NULL, MS_BIND, NULL) < 0 ?
	       err_errno(err, "cannot show the cell's network to the runtime") : 0;
}

static int
prepare(const struct ns_plan *plan, const struct oci *oci, struct err *err)
{
	bool notifies;
	int r = ns_set_kernel(plan, err);

	if (r == 0)
		r = limit_namespaces(oci, err);
	if (r == 0)
		r = ns_set_limits(plan, err);
	if (r == 0)
		r = oci_build_root(plan, oci, err);
	if (r == 0)
		r = ns_join_net(plan, &notifies, err);
	if (r == 0)
		r = show_net(err);
	/* Set again: changing ids has cleared it. */
	if (r == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0))
		r = err_errno(err, "cannot restrict the runtime");
	return r;
}

/* The operator's terminal and pipes are not the cell's. */
static int
leave_stdio(struct err *err)
{
	OWN(closep) int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	return null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ?
	       err_errno(err, "cannot arrange the keeper's descriptors") : 0;
}

/* Everything but the log is closed: the supervisor reads the end of its channel, the container alone has the
 * stream, and no copy of a pipe keeps the agent's input open. */
_Noreturn static void
keep(struct keeper *k, pid_t container)
{
	static struct oci own;

	own = *k->oci;
	if (dup2(own.log, LOG_FD) < 0)
		_exit(125);
	own.log = LOG_FD;
	k->oci = &own;
	(void)close_range(LOG_FD + 1, ~0u, 0);
	(void)await_child(container, 0);
	k->until_ms = io_now_ms() + OCI_END_MS;
	(void)remove_container(k);
	_exit(0);
}

int
oci_build(const struct ns_plan *plan, struct err *err)
{
	const struct oci *oci = plan->inside->arg;
	struct keeper k = { .oci = oci, .until_ms = io_now_ms() + OCI_START_MS };
	pid_t container = 0;
	sigset_t child;
	int r;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	/* Keys of the operator's terminal are for the supervisor. */
	(void)setsid();
	r = leave_stdio(err);
	if (r == 0)
		r = prepare(plan, oci, err);
	if (r == 0)
		r = create(&k, plan->stream, err);
	if (r == 0)
		r = find_container(&container, err);
	if (r == 0)
		r = check_created(&k, err);
	if (r == 0)
		r = start(&k, err);
	if (r < 0) {
		oci_explain(oci->log, oci->runtime->name[0] != '\0' ? oci->runtime->name : "the runtime", err);
		return -err->code;
	}
	keep(&k, container);
}
