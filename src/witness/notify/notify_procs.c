/* notify_procs.c - the processes that have made reported calls, and their ends. */
#include "witness/notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/own.h"

#define STATUS_MAX 4096

/* ---- numbers ---- */

/* The number FIELD of the line that begins with NAME, counted from 0. */
static bool
field_of(const char *text, const char *name, unsigned field, uint32_t *ret)
{
	const char *line = text;
	size_t len = strlen(name);
	char *end;

	while (line != NULL && strncmp(line, name, len) != 0) {
		line = strchr(line, '\n');
		line = line == NULL ? NULL : line + 1;
	}
	if (line == NULL)
		return false;
	for (line += len;; line = end) {
		unsigned long value;

		line += strspn(line, " \t");
		if (*line < '0' || *line > '9')
			return false;
		value = strtoul(line, &end, 10);
		if (field-- == 0) {
			*ret = (uint32_t)value;
			return value <= UINT32_MAX;
		}
	}
}

unsigned
notify_parse_levels(const char *text)
{
	unsigned n = 0;

	for (uint32_t pid; field_of(text, "NStgid:", n, &pid);)
		n++;
	return n;
}

int
notify_parse_status(const char *text, unsigned level, struct notify_ids *ret)
{
	uint32_t host, parent;

	if (!field_of(text, "Tgid:", 0, &host) || !field_of(text, "PPid:", 0, &parent) ||
	    !field_of(text, "NStgid:", level, &ret->pid) || host == 0 || host > INT32_MAX || parent > INT32_MAX)
		return -EBADMSG;
	ret->host = (pid_t)host;
	ret->host_parent = (pid_t)parent;
	return 0;
}

static int
read_text(const char *path, char *to, size_t max)
{
	OWN(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, to, max - 1);
	if (n < 0)
		return -errno;
	to[n] = '\0';
	return 0;
}

static int
read_small(pid_t tid, const char *what, char *to, size_t max)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)tid, what);
	return read_text(path, to, max);
}

int
notify_read_ids(const struct notify *n, pid_t tid, struct notify_ids *ret)
{
	char text[STATUS_MAX];
	int r = read_small(tid, "status", text, sizeof(text));

	return r < 0 ? r : notify_parse_status(text, n->level, ret);
}

ssize_t
notify_read_words(pid_t host, char *to, size_t max)
{
	OWN(closep) int fd = -1;
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)host);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : read(fd, to, max);
}

bool
notify_is_randomized(pid_t host)
{
	char text[16];

	if (read_small(host, "personality", text, sizeof(text)) < 0 || (strtoul(text, NULL, 16) & ADDR_NO_RANDOMIZE) != 0)
		return false;
	return read_text("/proc/sys/kernel/randomize_va_space", text, sizeof(text)) == 0 && text[0] != '0';
}

unsigned
notify_read_levels(pid_t tid)
{
	char text[STATUS_MAX];

	return read_small(tid, "status", text, sizeof(text)) < 0 ? 0 : notify_parse_levels(text);
}

/* ---- the table ---- */

static struct notify_proc **
place_of(struct notify *n, pid_t host)
{
	struct notify_proc **at = &n->hash[(uint32_t)host % NOTIFY_PROCS_MAX];

	while (*at != NULL && (*at)->host != host)
		at = &(*at)->next;
	return at;
}

void
notify_drop_proc(struct notify *n, struct notify_proc *p)
{
	struct notify_proc **at = place_of(n, p->host);

	*at = p->next;
	loop_unwatch(n->loop, &p->died);
	close(p->died.fd);
	*p = (struct notify_proc){ .next = n->free };
	n->free = p;
}

/* ---- ends ---- */

/* Not in the headers of older systems.  The fields that come later are left out. */
struct info {
	uint64_t mask, cgroup;
	uint32_t pid, tgid, ppid, ids[8];
	int32_t exit_code;
};
#define GET_INFO _IOWR(0xFF, 11, struct info)
#define INFO_EXIT (UINT64_C(1) << 3)    /* from Linux 6.15 on, once the process is reaped */

static bool
exit_of_reaped(const struct notify_proc *p, int *ret_status)
{
	struct info info = { .mask = INFO_EXIT };

	if (ioctl(p->died.fd, GET_INFO, &info) < 0 || (info.mask & INFO_EXIT) == 0)
		return false;
	*ret_status = info.exit_code;
	return true;
}

/* The field FIELD of a stat file.  The second one is a name, in brackets. */
static const char *
field_of_stat(const char *text, unsigned field)
{
	const char *at = strrchr(text, ')');

	for (unsigned i = 2; at != NULL && i < field; i++) {
		at = strchr(at, ' ');
		at = at == NULL ? NULL : at + 1;
	}
	return at;
}

uint64_t
notify_read_stat(pid_t host, unsigned field)
{
	char text[1024];
	const char *at = read_small(host, "stat", text, sizeof(text)) < 0 ? NULL : field_of_stat(text, field);

	return at == NULL ? 0 : strtoull(at, NULL, 10);
}

static bool
exit_of_dead(const struct notify_proc *p, int *ret_status)
{
	char text[1024];
	const char *state, *status;

	if (read_small(p->host, "stat", text, sizeof(text)) < 0)
		return false;
	state = field_of_stat(text, 3);
	status = field_of_stat(text, 52);
	if (state == NULL || state[0] != 'Z' || status == NULL)
		return false;
	*ret_status = (int)strtol(status, NULL, 10);
	return true;
}

/* A call that kills is not reported: neither those of another architecture, nor those that a filter of the agent's own
 * does not let live. */
static void
report_killed(struct notify *n, const struct act *exit)
{
	struct act act = { .kind = ACT_REFUSED, .time_ns = exit->time_ns, .pid = exit->pid, .parent = exit->parent,
	                   .host_pid = exit->host_pid, .by = ACT_BY_FILTER, .nr = ACT_NR_UNKNOWN, .unknown = true,
	                   .signalled = true, .status = SIGSYS };

	notify_take(n, &act);
}

static void
proc_died(void *arg, uint32_t events)
{
	struct notify_proc *p = arg;
	struct notify *n = p->of;
	struct act act = { .kind = ACT_EXIT, .time_ns = notify_now_ns(), .pid = p->pid, .parent = p->parent,
	                   .host_pid = p->host };
	int status;

	(void)events;
	/* It may be reaped in between. */
	act.status_unknown = !exit_of_reaped(p, &status) && !exit_of_dead(p, &status) && !exit_of_reaped(p, &status);
	if (!act.status_unknown) {
		act.signalled = WIFSIGNALED(status);
		act.status = act.signalled ? WTERMSIG(status) : WEXITSTATUS(status);
	}
	act.ran_ns = act.time_ns - p->began_ns;
	notify_settle_gone(n, p);
	notify_drop_proc(n, p);
	if (act.signalled && act.status == SIGSYS)
		report_killed(n, &act);
	notify_take(n, &act);
}

/* ---- finding ---- */

static bool
is_dead(const struct notify_proc *p)
{
	struct pollfd fd = { .fd = p->died.fd, .events = POLLIN };

	return poll(&fd, 1, 0) != 0;
}

static uint32_t
pid_in_cell(struct notify *n, pid_t host)
{
	struct notify_proc *known = *place_of(n, host);
	struct notify_ids ids;

	if (host == 0)
		return 0;
	/* The file is slow to read. */
	if (host == n->first)
		return 1;
	if (known != NULL)
		return known->pid;
	return notify_read_ids(n, host, &ids) == 0 ? ids.pid : 0;
}

static int
add_proc(struct notify *n, const struct notify_ids *ids, struct notify_proc **ret)
{
	struct notify_proc *p = n->free, **at;
	int fd;

	if (p == NULL && n->n_procs == NOTIFY_PROCS_MAX)
		return -ENOSPC;
	fd = (int)syscall(SYS_pidfd_open, ids->host, 0);
	if (fd < 0)
		return errno == EMFILE || errno == ENFILE ? -ENOSPC : -errno;
	if (p == NULL)
		p = &n->procs[n->n_procs++];
	else
		n->free = p->next;
	*p = (struct notify_proc){ .of = n, .host = ids->host, .pid = ids->pid, .began_ns = notify_now_ns(),
	                           .died = { .fd = fd, .ready = proc_died, .arg = p } };
	p->parent = pid_in_cell(n, ids->host_parent);
	at = &n->hash[(uint32_t)p->host % NOTIFY_PROCS_MAX];
	p->next = *at;
	*at = p;
	if (loop_watch(n->loop, &p->died, EPOLLIN, NULL) < 0) {
		notify_drop_proc(n, p);
		return -ENOSPC;
	}
	*ret = p;
	return 0;
}

int
notify_find_proc(struct notify *n, pid_t tid, bool ends, struct notify_proc **ret, struct notify_proc *spare)
{
	struct notify_proc *p = *place_of(n, tid);
	struct notify_ids ids;
	int r;

	/* Its number may be another's by now. */
	if (p != NULL && is_dead(p)) {
		proc_died(p, 0);
		p = NULL;
	}
	if (p == NULL) {
		r = notify_read_ids(n, tid, &ids);
		if (r < 0)
			return r;
		p = *place_of(n, ids.host);
		if (p != NULL) {
			*ret = p;
			return 0;
		}
		r = ends ? -ENOSPC : add_proc(n, &ids, ret);
		if (r != -ENOSPC)
			return r;
		*spare = (struct notify_proc){ .of = n, .host = ids.host, .pid = ids.pid, .died.fd = -1,
		                               .parent = pid_in_cell(n, ids.host_parent) };
		p = spare;
	}
	*ret = p;
	return 0;
}
