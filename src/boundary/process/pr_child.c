/* pr_child.c - the porter, from the supervisor's fork on, and the cell's first process, from the porter's. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/control.h"
#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "boundary/namespace/ns_plan.h"
#include "boundary/process/porter.h"
#include "boundary/process/pr.h"
#include "confine/filter.h"
#include "confine/landlock.h"
#include "confine/privileges.h"
#include "ipc/init_channel.h"
#include "ipc/ipc.h"

/* The user whom the porter and the watcher are beside the agent's, which they act as: so no signal of the agent reaches
 * them, with Landlock or without. */
#define PORTER_BESIDE 1

/* The porter's descriptors. */
enum { CONTROL = 3, CHANNEL, GATE, DNS, INIT_EXE, AGENTS, PORTERS, KEPT };

_Noreturn static void
fail(int channel, const struct err *err)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, INIT_FAILED);
	buf_put_u32(&message, (uint32_t)err->code);
	buf_put_str(&message, err->text);
	(void)ipc_send(channel, &message, NULL, 0, NULL);
	_exit(125);
}

/* ---- the cell's first process ---- */

/* The kernel counts all processes of a user, threads included. */
static uint64_t
count_processes(uid_t uid)
{
	OWN(closedirp) DIR *proc = opendir("/proc");
	struct dirent *d, *t;
	uint64_t n = 0;

	while (proc != NULL && (d = readdir(proc)) != NULL) {
		OWN(closedirp) DIR *tasks = NULL;
		char path[300];
		struct stat st;

		snprintf(path, sizeof(path), "/proc/%s/task", d->d_name);
		if (d->d_name[0] < '1' || d->d_name[0] > '9' || stat(path, &st) < 0 || st.st_uid != uid)
			continue;
		tasks = opendir(path);
		while (tasks != NULL && (t = readdir(tasks)) != NULL)
			n += t->d_name[0] != '.';
	}
	return n;
}

_Noreturn static void
become_init(const struct pr_plan *plan)
{
	const struct cell_limits *limits = &plan->spec->limits;
	char filter[2] = { (char)('0' + FILTER_PROCESS), '\0' }, over[24], flags[4];
	char *argv[] = { (char[]){ "cloister-init" }, filter, over, flags, NULL }, *envp[] = { NULL, NULL };
	const uint64_t most = limits->pids + 1 + (plan->has_own_uid ? 1 : count_processes(geteuid()));
	struct err err = {0};
	sigset_t none;

#ifdef CLOISTER_MUTANT
	if (getenv("CLOISTER_OFF") != NULL)
		envp[0] = str_format("CLOISTER_OFF=%s", getenv("CLOISTER_OFF"));
#endif
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (plan->has_own_uid && setresuid(plan->uid, plan->uid, plan->uid) < 0) {
		(void)err_errno(&err, "cannot become the cell's own user");
		fail(CHANNEL, &err);
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ns_limit_self(most, !plan->has_own_uid, true, &err) < 0)
		fail(CHANNEL, &err);
	snprintf(over, sizeof(over), "%llu", (unsigned long long)cell_limits_over_ms(limits->time_ms, limits->ttl_ms));
	snprintf(flags, sizeof(flags), "%c%c%s", INIT_HAS_LANDLOCK, INIT_NOTIFIES,
	         plan->has_own_uid ? "" : (char[]){ INIT_SPARES_FILES, '\0' });
	if (fcntl(INIT_EXE, F_DUPFD_CLOEXEC, 100) != 100 || fcntl(AGENTS, F_DUPFD_CLOEXEC, 100) != 101 ||
	    dup2(CHANNEL, INIT_CHANNEL_FD) < 0 || dup2(101, INIT_LANDLOCK_FD) < 0) {
		(void)err_errno(&err, "cannot arrange init's descriptors");
		fail(CHANNEL, &err);
	}
	(void)close_range(INIT_LANDLOCK_FD + 1, 99, 0);
	syscall(SYS_execveat, 100, "", argv, envp, AT_EMPTY_PATH);
	(void)err_errno(&err, "cannot run cloister-init");
	fail(INIT_CHANNEL_FD, &err);
}

/* ---- the porter ---- */

/* Puts the descriptors into place.  Nothing else of the supervisor's stays open. */
static int
keep_descriptors(const struct pr_plan *plan, int agents, int porters, struct err *err)
{
	const int from[] = { plan->control, plan->channel, plan->gate, plan->dns, plan->init_exe, agents, porters };
	int high[ARRAY_LEN(from)], null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (size_t i = 0; i < ARRAY_LEN(from); i++) {
		high[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, 100);
		if (from[i] >= 0 && high[i] < 0)
			return err_errno(err, "cannot arrange the porter's descriptors");
	}
	for (int fd = 0; fd < 3; fd++)
		if (dup2(null, fd) < 0)
			return err_errno(err, "cannot arrange the porter's descriptors");
	for (size_t i = 0; i < ARRAY_LEN(from); i++) {
		close(CONTROL + (int)i);
		if (high[i] >= 0 && dup3(high[i], CONTROL + (int)i, O_CLOEXEC) < 0)
			return err_errno(err, "cannot arrange the porter's descriptors");
	}
	(void)close_range(KEPT, ~0u, 0);
	return 0;
}

static int
become_cells_user(const struct pr_plan *plan, struct err *err)
{
	if (plan->has_own_uid && (privileges_close(err) < 0 || setgroups(0, NULL) < 0 ||
	                          setresgid(plan->uid, plan->uid, plan->uid) < 0 ||
	                          setresuid(plan->uid + PORTER_BESIDE, plan->uid, plan->uid + PORTER_BESIDE) < 0))
		return err_errno(err, "cannot become the cell's own user");
	/* Without rights to give up, this does nothing. */
	if (!plan->has_own_uid)
		(void)privileges_close(NULL);
	if (privileges_drop(err) < 0)
		return -err->code;
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ?
	       err_errno(err, "cannot restrict the porter") : 0;
}

/* Sockets that were granted may be connected to. */
static void
list_granted(struct porter *p, const struct pr_plan *plan)
{
	for (size_t i = 0; i < plan->spec->n_grants; i++) {
		OWN(closep) int fd = open(plan->spec->grants[i].host, O_PATH | O_CLOEXEC);
		struct stat st;

		if (fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode))
			p->granted[p->n_granted++] = (struct porter_file){ st.st_dev, st.st_ino, TAKE_FD(fd) };
	}
}

static int
prepare(struct porter *p, const struct pr_plan *plan, struct err *err)
{
	int agents = -1, porters = -1, r = pr_make_rulesets(plan, &agents, &porters, err);
	unsigned char random[12];
	char hex[2 * sizeof(random) + 1];

	if (r == 0)
		r = keep_descriptors(plan, agents, porters, err);
	if (r < 0)
		return r;
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return err_errno(err, "no random numbers are available");
	codec_hex(random, sizeof(random), hex);
	snprintf(p->prefix, sizeof(p->prefix), "%s/", hex);
	p->control.fd = CONTROL;
	p->listener.fd = -1;
	p->gate.fd = plan->gate < 0 ? -1 : GATE;
	p->dns.fd = DNS;
	p->folder = plan->folder;
	pr_list_writable(plan, p->roots);
	list_granted(p, plan);
	r = porter_prepare(p, err);
	if (r == 0)
		r = become_cells_user(plan, err);
	/* Before the first process: only processes that inherit its domain can the porter look into. */
	return r < 0 ? r : landlock_enforce(PORTERS, err);
}

static int
tell_first(const struct porter *p)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, PORTER_FIRST);
	buf_put_u32(&message, (uint32_t)p->first);
	return ipc_send(CONTROL, &message, NULL, 0, NULL);
}

/* Outside of the porter, so that nothing outlives a porter that was killed, or that an agent keeps waiting in a call.  If
 * this process is killed, the porter kills everything. */
_Noreturn static void
watch(const struct pr_plan *plan, pid_t porter)
{
	/* The kernel reports that the supervisor has hung up, whatever was asked for. */
	struct pollfd fds[2] = { { .events = POLLIN }, { .fd = CONTROL } };
	struct signalfd_siginfo info;
	sigset_t signals;
	bool ends = false;
	pid_t pid;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	(void)close_range(CONTROL + 1, ~0u, 0);
	fds[0].fd = signalfd(-1, &signals, SFD_CLOEXEC);
	if (fds[0].fd < 0 || filter_load(FILTER_PORTER, NULL) < 0)
		_exit(125);
	while (!ends && (poll(fds, ARRAY_LEN(fds), -1) > 0 || errno == EINTR)) {
		ends = fds[1].revents != 0 || ((fds[0].revents & POLLIN) != 0 &&
		       (read(fds[0].fd, &info, sizeof(info)) != sizeof(info) || info.ssi_signo == SIGTERM));
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			ends = ends || pid == porter;
	}
	porter_kill_all(true);
	porter_remove_folder(plan->folder, false);
	_exit(0);
}

void
pr_child_run(const struct pr_plan *plan)
{
	static struct porter porter;
	struct err err = {0};
	sigset_t signals;
	pid_t pid;

	(void)prctl(PR_SET_NAME, PR_NAME);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGTTOU, SIG_DFL);
	/* Kept for the loop. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_SETMASK, &signals, NULL);
	umask(022);
	/* Keys of the operator's terminal are for the supervisor. */
	(void)setsid();
	if (chdir("/") < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) {
		(void)err_errno(&err, "cannot start the porter");
		fail(plan->channel, &err);
	}
	io_raise_files();
	if (prepare(&porter, plan, &err) < 0)
		fail(CHANNEL, &err);
	pid = fork();
	if (pid > 0)
		watch(plan, pid);
	/* Itself a subreaper: the cell's processes are its descendants, whatever they do. */
	if (pid < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) < 0) {
		(void)err_errno(&err, "cannot start the porter");
		fail(CHANNEL, &err);
	}
	porter.first = fork();
	if (porter.first == 0)
		become_init(plan);
	if (porter.first < 0) {
		(void)err_errno(&err, "cannot start the cell's first process");
		fail(CHANNEL, &err);
	}
	close(CHANNEL);
	close(INIT_EXE);
	close(AGENTS);
	close(PORTERS);
	if (filter_load(FILTER_PORTER, &err) < 0 || tell_first(&porter) < 0)
		_exit(125);
	porter_run(&porter);
}
