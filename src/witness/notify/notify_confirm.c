/* notify_confirm.c - looks whether an execution or a connection became what was asked for.
 *
 * A process that has executed another program has another file behind /proc/PID/exe, or other random bytes from the
 * kernel.  A socket knows its peer. */
#include "witness/notify/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own.h"

#define FIRST_MS 1
#define TRIES_MAX 8                     /* each waits twice as long as the one before */
#define AUXV_MAX 64                     /* entries */

/* ---- executions ---- */

static bool
exe_of(pid_t host, uint64_t *ret_dev, uint64_t *ret_ino)
{
	char path[48];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)host);
	if (stat(path, &st) < 0)
		return false;
	*ret_dev = st.st_dev;
	*ret_ino = st.st_ino;
	return true;
}

/* Where the kernel has put the random bytes that it gives to each program; 0: unknown. */
static uint64_t
random_of(pid_t host)
{
	OWN(closep) int fd = -1;
	uint64_t auxv[AUXV_MAX][2];
	char path[48];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)host);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, auxv, sizeof(auxv));
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(auxv[0]); i++)
		if (auxv[i][0] == AT_RANDOM)
			return auxv[i][1];
	return 0;
}

void
notify_exec_before(struct notify_proc *p, struct notify_seen *seen, int target)
{
	char path[48], bytes[2];
	struct stat st;
	int fd;

	seen->is_script = false;
	seen->dev = seen->ino = seen->before_dev = seen->before_ino = seen->before_random = 0;
	(void)exe_of(p->host, &seen->before_dev, &seen->before_ino);
	if (target >= 0 && fstat(target, &st) == 0) {
		seen->dev = st.st_dev;
		seen->ino = st.st_ino;
		if (!S_ISREG(st.st_mode) || (st.st_mode & 0111) == 0)
			seen->act.error = EACCES;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", target);
		fd = S_ISREG(st.st_mode) ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
		seen->is_script = fd >= 0 && pread(fd, bytes, sizeof(bytes), 0) == 2 && memcmp(bytes, "#!", 2) == 0;
		closep(&fd);
	}
	if (target < 0 || seen->is_script || (seen->dev == seen->before_dev && seen->ino == seen->before_ino))
		seen->before_random = random_of(p->host);
}

/* Whether the process runs another program than when it asked. */
static bool
has_executed(const struct notify_proc *p, const struct notify_seen *seen, uint64_t *ret_dev, uint64_t *ret_ino)
{
	uint64_t random;

	if (!exe_of(p->host, ret_dev, ret_ino))
		return false;
	if (*ret_dev != seen->before_dev || *ret_ino != seen->before_ino)
		return true;
	random = seen->before_random == 0 ? 0 : random_of(p->host);
	return random != 0 && random != seen->before_random;
}

static void
set_text(struct act_text *to, const struct notify_text *from)
{
	*to = (struct act_text){ from->at, from->len, from->cut };
}

/* The file that runs is the path; what was asked for is the script, if it is one. */
static bool
confirm_exec(struct notify_proc *p, struct notify_seen *seen)
{
	uint64_t dev, ino;

	if (!has_executed(p, seen, &dev, &ino))
		return false;
	seen->act.asked = false;
	seen->act.error = 0;
	if (dev == seen->dev && ino == seen->ino)
		return true;
	seen->to = seen->path;
	if (notify_link(p->host, "exe", &seen->path) < 0) {
		seen->path = seen->to;
		seen->act.asked = true;
	}
	set_text(&seen->act.path, &seen->path);
	if (seen->is_script)
		set_text(&seen->act.script, &seen->to);
	return true;
}

/* ---- connections ---- */

static void
take_peer(struct notify_seen *seen, const struct sockaddr_storage *peer, socklen_t len)
{
	struct act *act = &seen->act;

	if (peer->ss_family == AF_UNIX && act->family == AF_UNIX) {
		act->asked = len <= offsetof(struct sockaddr_un, sun_path);
		return;
	}
	if (peer->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)peer;

		memcpy(act->address, &in->sin_addr, sizeof(in->sin_addr));
		act->port = ntohs(in->sin_port);
	} else if (peer->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)peer;

		memcpy(act->address, &in6->sin6_addr, sizeof(in6->sin6_addr));
		act->port = ntohs(in6->sin6_port);
	} else {
		return;
	}
	act->family = peer->ss_family;
	act->asked = false;
}

static uint16_t
port_of(const struct sockaddr_storage *at)
{
	return at->ss_family == AF_INET ? ntohs(((const struct sockaddr_in *)at)->sin_port) :
	       at->ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)at)->sin6_port) : 0;
}

/* The process's own socket is held only while it is asked. */
static bool
confirm_connect(const struct notify_proc *p, struct notify_pending *pending)
{
	OWN(closep) int fd = (int)syscall(SYS_pidfd_getfd, p->died.fd, pending->fd, 0);
	struct sockaddr_storage own = {0}, peer = {0};
	socklen_t own_len = sizeof(own), peer_len = sizeof(peer);

	if (fd < 0)
		return false;
	if (getsockname(fd, (struct sockaddr *)&own, &own_len) == 0)
		pending->seen.act.local = port_of(&own);
	if (getpeername(fd, (struct sockaddr *)&peer, &peer_len) < 0)
		return false;
	take_peer(&pending->seen, &peer, peer_len);
	return !pending->seen.act.asked;
}

/* ---- what waits ---- */

/* The texts of a copy are its own. */
static void
move_texts(struct notify_seen *to, const struct notify_seen *from)
{
	struct act_text *texts[] = { &to->act.path, &to->act.to, &to->act.argv, &to->act.cwd, &to->act.script };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (texts[i]->at != NULL)
			texts[i]->at = (const char *)to + (texts[i]->at - (const char *)from);
}

static void
report(struct notify *n, struct notify_pending *pending)
{
	pending->proc = NULL;
	n->n_pending--;
	notify_take(n, &pending->seen.act);
}

static bool
confirm(struct notify_pending *pending)
{
	return pending->fd < 0 ? confirm_exec(pending->proc, &pending->seen) : confirm_connect(pending->proc, pending);
}

void
notify_pend(struct notify *n, struct notify_proc *p, int fd, pid_t tid)
{
	struct notify_pending *pending = n->pending, *oldest = n->pending;

	for (size_t i = 0; i < NOTIFY_PENDING_MAX && pending->proc != NULL; i++, pending++)
		if (pending->seen.act.time_ns < oldest->seen.act.time_ns)
			oldest = pending;
	if (n->n_pending == NOTIFY_PENDING_MAX) {
		(void)confirm(oldest);
		report(n, oldest);
		pending = oldest;
	}
	pending->proc = p;
	pending->fd = fd;
	pending->tid = tid;
	pending->tries = 0;
	pending->settled = false;
	pending->seen = n->seen;
	move_texts(&pending->seen, &n->seen);
	n->n_pending++;
	if (n->confirm.at_ms == 0)
		loop_set_timer(n->loop, &n->confirm, FIRST_MS);
}

/* A thread that makes another call has not executed a program, if that is not the one of before. */
void
notify_settle(struct notify *n, struct notify_proc *p, pid_t tid)
{
	for (size_t i = 0; i < NOTIFY_PENDING_MAX && n->n_pending > 0; i++) {
		struct notify_pending *pending = &n->pending[i];
		bool failed = pending->fd < 0 && pending->tid == tid;

		if (pending->proc != p || pending->settled)
			continue;
		pending->settled = confirm(pending) || failed;
		n->has_settled = n->has_settled || pending->settled;
		if (failed && pending->seen.act.asked && pending->seen.act.error == 0)
			pending->seen.act.error = ENOEXEC;
	}
}

void
notify_report_settled(struct notify *n)
{
	for (size_t i = 0; i < NOTIFY_PENDING_MAX && n->has_settled; i++)
		if (n->pending[i].proc != NULL && n->pending[i].settled)
			report(n, &n->pending[i]);
	n->has_settled = false;
}

void
notify_settle_gone(struct notify *n, struct notify_proc *p)
{
	for (size_t i = 0; i < NOTIFY_PENDING_MAX && n->n_pending > 0; i++)
		if (n->pending[i].proc == p)
			report(n, &n->pending[i]);
}

void
notify_confirm_due(void *arg)
{
	struct notify *n = arg;
	unsigned least = TRIES_MAX;

	for (size_t i = 0; i < NOTIFY_PENDING_MAX && n->n_pending > 0; i++) {
		struct notify_pending *pending = &n->pending[i];

		if (pending->proc == NULL)
			continue;
		if (confirm(pending) || ++pending->tries == TRIES_MAX)
			report(n, pending);
		else if (pending->tries < least)
			least = pending->tries;
	}
	if (n->n_pending > 0)
		loop_set_timer(n->loop, &n->confirm, (uint64_t)FIRST_MS << least);
}
