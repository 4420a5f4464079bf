/* notify_confirm.c - looks whether an execution or a connection became what was asked for.
 *
 * A process that has executed another program has another file behind /proc/PID/exe, or other random bytes from the
 * kernel.  A socket knows its peer. */
#include "witness/notify/notify.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own.h"

#define FIRST_MS 1
#define TRIES_MAX 8                     /* each waits twice as long as the one before */
#define WORDS_MAX (ACT_ARGV_MAX + 1024) /* bytes of arguments, with those for interpreters */
#define SCRIPT_WORDS 16                 /* of interpreters */
#define STACK_FIELD 28                  /* startstack, in proc_pid_stat(5) */

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

/* Where the kernel has put the stack of the program, at random; 0: unknown.  Even of a process that is not dumpable,
 * who may look at it may read this. */
static uint64_t
random_of(pid_t host)
{
	return notify_read_stat(host, STACK_FIELD);
}

void
notify_exec_before(struct notify_proc *p, struct notify_seen *seen, int target)
{
	char path[48], bytes[4] = "";
	struct stat st;
	int fd;

	seen->is_script = seen->is_program = false;
	seen->dev = seen->ino = seen->before_dev = seen->before_ino = seen->before_random = 0;
	(void)exe_of(p->host, &seen->before_dev, &seen->before_ino);
	if (target >= 0 && fstat(target, &st) == 0) {
		seen->dev = st.st_dev;
		seen->ino = st.st_ino;
		if (!S_ISREG(st.st_mode) || (st.st_mode & 0111) == 0)
			seen->act.error = EACCES;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", target);
		fd = S_ISREG(st.st_mode) ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
		seen->is_script = fd >= 0 && pread(fd, bytes, sizeof(bytes), 0) == (ssize_t)sizeof(bytes) && memcmp(bytes, "#!", 2) == 0;
		seen->is_program = seen->is_script || memcmp(bytes, ELFMAG, SELFMAG) == 0;
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

/* From what runs now: another file may be behind the name. */
static void
take_place(struct notify_proc *p, struct notify_seen *seen)
{
	OWN(closep) int fd = -1;
	char path[48];
	bool memory = seen->act.from_memory, writable = seen->act.from_writable;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)p->host);
	fd = open(path, O_PATH | O_CLOEXEC);
	notify_set_place(&seen->act, fd, &seen->path);
	/* A script's interpreter is from elsewhere. */
	if (seen->is_script) {
		seen->act.from_memory = seen->act.from_memory || memory;
		seen->act.from_writable = !seen->act.from_memory && (seen->act.from_writable || writable);
	}
}

/* Whether the program has the arguments that were read before: another thread may have replaced them meanwhile.  Those
 * for the interpreter of a script come first.  A program that has changed its own looks as if they had been replaced.
 * -EAGAIN: in an execution, the kernel gives a process its new program before its arguments. */
static int
has_words(const struct notify_proc *p, const struct notify_seen *seen)
{
	const struct act_text *argv = &seen->act.argv;
	const char *first = seen->is_script && argv->len > 0 ? memchr(argv->at, '\0', argv->len) : NULL;
	size_t from = first != NULL ? (size_t)(first - argv->at) + 1 : 0, len = argv->len - from, at = 0, rest;
	char now[WORDS_MAX];
	const ssize_t n = notify_read_words(p->host, now, sizeof(now));

	if (n <= 0 && argv->len > 0)
		return n == 0 ? -EAGAIN : false;
	if (n < 0)
		return false;
	/* Without any, the kernel makes an empty one. */
	if (argv->len == 0)
		return seen->act.n_argv == 0 && !argv->cut && n <= 1;
	for (unsigned word = 0; at <= (size_t)n && word < (seen->is_script ? SCRIPT_WORDS : 1); word++) {
		rest = (size_t)n - at;
		if ((rest == len || (rest > len && argv->cut)) && memcmp(now + at, argv->at + from, len) == 0)
			return true;
		at += strnlen(now + at, rest) + 1;
	}
	return false;
}

/* The file that runs is the path; what was asked for is the script, if it is one. */
static bool
confirm_exec(struct notify_proc *p, struct notify_seen *seen)
{
	uint64_t dev, ino;
	int words;

	if (!has_executed(p, seen, &dev, &ino))
		return false;
	words = has_words(p, seen);
	if (words < 0)
		return false;
	seen->act.asked = words == 0;
	seen->act.error = 0;
	if (dev == seen->dev && ino == seen->ino && !seen->act.unknown)
		return true;
	seen->to = seen->path;
	if (notify_link(p->host, "exe", &seen->path) < 0 || seen->path.cut) {
		seen->path = seen->to;
		seen->act.asked = true;
	} else {
		seen->act.unknown = false;
	}
	set_text(&seen->act.path, &seen->path);
	if (seen->is_script)
		set_text(&seen->act.script, &seen->to);
	take_place(p, seen);
	return true;
}

/* ---- connections ---- */

/* What a socket has as its peer. */
struct peer {
	int family;
	unsigned char address[16];
	uint16_t port;
};

static struct peer
peer_of(const struct sockaddr_storage *from)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)from;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;
	struct peer peer = { .family = from->ss_family };

	if (peer.family == AF_INET) {
		memcpy(peer.address, &in->sin_addr, sizeof(in->sin_addr));
		peer.port = ntohs(in->sin_port);
	} else if (peer.family == AF_INET6) {
		memcpy(peer.address, &in6->sin6_addr, sizeof(in6->sin6_addr));
		peer.port = ntohs(in6->sin6_port);
	}
	return peer;
}

static bool
is_asked_for(const struct act *act, const struct peer *peer)
{
	return act->family == peer->family && act->port == peer->port &&
	       memcmp(act->address, peer->address, sizeof(peer->address)) == 0;
}

static uint16_t
port_of(const struct sockaddr_storage *at)
{
	return peer_of(at).port;
}

/* The socket has a peer that was not asked for: both are reported, since another thread may have changed what was. */
static void
split(struct notify *n, struct notify_seen *seen, const struct peer *peer)
{
	struct act asked = seen->act;

	asked.local = 0;
	if (asked.family != 0)
		notify_take(n, &asked);
	seen->act.family = peer->family;
	seen->act.port = peer->port;
	memcpy(seen->act.address, peer->address, sizeof(peer->address));
	seen->act.path = (struct act_text){ .at = NULL };
	seen->act.error = 0;
	seen->act.unknown = false;
}

/* A peer that the socket had before, or that of another socket with the same number, shows nothing. */
static bool
take_peer(struct notify *n, struct notify_seen *seen, const struct sockaddr_storage *from, socklen_t len)
{
	const struct peer peer = peer_of(from);

	if (peer.family == AF_UNIX)
		return seen->act.family == AF_UNIX && !seen->had_peer && len > offsetof(struct sockaddr_un, sun_path);
	if (peer.family != AF_INET && peer.family != AF_INET6)
		return false;
	if (!is_asked_for(&seen->act, &peer)) {
		if (seen->had_peer)
			return false;
		split(n, seen, &peer);
	}
	return true;
}

/* A copy of the process's socket is held since the call, or one that is closed at once would have no address.  Its end
 * thus waits for us, at most a few ms once it is connected. */
static bool
confirm_connect(struct notify *n, struct notify_seen *seen)
{
	struct sockaddr_storage own = {0}, peer = {0};
	socklen_t own_len = sizeof(own), peer_len = sizeof(peer);

	if (seen->socket <= 0)
		return false;
	if (getsockname(seen->socket, (struct sockaddr *)&own, &own_len) == 0)
		seen->act.local = port_of(&own);
	if (getpeername(seen->socket, (struct sockaddr *)&peer, &peer_len) < 0)
		return false;
	seen->act.asked = seen->act.asked && !take_peer(n, seen, &peer, peer_len);
	return !seen->act.asked;
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

/* Of a connection to nowhere nothing has become. */
static void
report(struct notify *n, struct notify_pending *pending)
{
	struct act *act = &pending->seen.act;

	pending->proc = NULL;
	close_fd(&pending->seen.socket);
	n->n_pending--;
	if (act->kind != ACT_NET || act->family != 0 || act->unknown || act->error != 0)
		notify_take(n, act);
}

static bool
is_exec(const struct notify_pending *pending)
{
	return pending->seen.act.kind == ACT_EXEC;
}

static bool
confirm(struct notify *n, struct notify_pending *pending)
{
	return is_exec(pending) ? confirm_exec(pending->proc, &pending->seen) : confirm_connect(n, &pending->seen);
}

void
notify_pend(struct notify *n, struct notify_proc *p, pid_t tid)
{
	struct notify_pending *pending = n->pending, *oldest = n->pending;

	for (size_t i = 0; i < NOTIFY_PENDING_MAX && pending->proc != NULL; i++, pending++)
		if (pending->seen.act.time_ns < oldest->seen.act.time_ns)
			oldest = pending;
	if (n->n_pending == NOTIFY_PENDING_MAX) {
		(void)confirm(n, oldest);
		report(n, oldest);
		pending = oldest;
	}
	pending->proc = p;
	pending->tid = tid;
	pending->tries = 0;
	pending->settled = false;
	pending->seen = n->seen;
	n->seen.socket = 0;
	move_texts(&pending->seen, &n->seen);
	n->n_pending++;
	if (n->confirm.at_ms == 0)
		loop_set_timer(n->loop, &n->confirm, FIRST_MS);
}

/* Whether the process would look otherwise if it had executed what it asked for.  Without random addresses, a program
 * that is started again looks like one that was not. */
static bool
differs(const struct notify_proc *p, const struct notify_seen *seen)
{
	if (seen->dev != 0 && !seen->is_script && (seen->dev != seen->before_dev || seen->ino != seen->before_ino))
		return true;
	return seen->before_random != 0 && random_of(p->host) == seen->before_random && notify_is_randomized(p->host);
}

/* A thread that makes another call has not executed a program, if that is not the one of before. */
void
notify_settle(struct notify *n, struct notify_proc *p, pid_t tid)
{
	for (size_t i = 0; i < NOTIFY_PENDING_MAX && n->n_pending > 0; i++) {
		struct notify_pending *pending = &n->pending[i];
		bool failed = is_exec(pending) && pending->tid == tid;

		if (pending->proc != p || pending->settled)
			continue;
		pending->settled = confirm(n, pending);
		failed = failed && !pending->settled;
		pending->settled = pending->settled || failed;
		n->has_settled = n->has_settled || pending->settled;
		if (failed && pending->seen.act.error == 0 && differs(p, &pending->seen))
			pending->seen.act.error = n->holds_programs && pending->seen.is_program ? EACCES : ENOEXEC;
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
	for (size_t i = 0; i < NOTIFY_PENDING_MAX && n->n_pending > 0; i++) {
		struct notify_pending *pending = &n->pending[i];

		if (pending->proc != p)
			continue;
		if (!is_exec(pending))
			(void)confirm(n, pending);
		/* Killed before it was seen what it executed: that may be another file. */
		pending->seen.act.unknown = pending->seen.act.unknown || (is_exec(pending) && pending->seen.act.asked);
		report(n, pending);
	}
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
		if (confirm(n, pending) || ++pending->tries == TRIES_MAX)
			report(n, pending);
		else if (pending->tries < least)
			least = pending->tries;
	}
	if (n->n_pending > 0)
		loop_set_timer(n->loop, &n->confirm, (uint64_t)FIRST_MS << least);
}
