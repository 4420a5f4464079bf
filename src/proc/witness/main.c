/* main.c - cloister-witness: records what the processes of a cell do.
 *
 * It reads what the agent's processes are and ask for, so it may be compromised: it is in the cell's user namespace,
 * where it can look at those processes and at nothing else, sees no file of the host but /proc, and has one
 * descriptor to the supervisor.  It never decides. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "confine/lockdown.h"
#include "ipc/ipc.h"
#include "proc/witness/witness_proc.h"

/* ---- the start ---- */

static int
take_start(struct witness *w, struct err *err)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	uint32_t level, first, holds;
	int r = ipc_receive(WITNESS_SUPERVISOR_FD, &message, err);

	if (r == 0 && message.type == WITNESS_RULES) {
		r = witness_take_rules(w, &message);
		if (r < 0)
			return err_set(err, EBADMSG, "the supervisor sent something unexpected");
		ipc_message_free(&message);
		message = (struct ipc_message){0};
		r = ipc_receive(WITNESS_SUPERVISOR_FD, &message, err);
	}
	if (r < 0)
		return r;
	if (message.type != WITNESS_START || buf_get_u32(&message.body, &level) < 0 || level > WITNESS_FULL ||
	    buf_get_u64(&message.body, &w->cell.pid_namespace) < 0 || buf_get_u32(&message.body, &first) < 0 ||
	    first == 0 || first > INT_MAX || buf_get_u64(&message.body, &w->total) < 0 ||
	    call_set_get(&message.body, &w->cell.calls) < 0 || buf_get_u32(&message.body, &holds) < 0 || holds > 1 ||
	    buf_dup_strv(&message.body, WITNESS_GRANTS_MAX, &w->grants) < 0 || buf_left(&message.body) != 0 ||
	    message.n_fds > 0)
		return err_set(err, EBADMSG, "the supervisor sent something unexpected");
	w->cell.level = level;
	w->cell.holds_programs = holds == 1;
	w->cell.grants = w->grants;
	w->cell.first = (pid_t)first;
	return 0;
}

static const struct witness_source *const sources[] = {
#ifdef WITNESS_BPF
	&witness_bpf,
#endif
	&witness_notify,
};

/* The source NAME; NULL: this build does not have it. */
static const struct witness_source *
find_source(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(sources); i++)
		if (strcmp(sources[i]->name, name) == 0)
			return sources[i];
	return NULL;
}

/* Another one that works here takes the place of W's; then WHY says why. */
static void
choose_source(struct witness *w, struct err *why)
{
	if (w->source == NULL || w->source->prepare(why) == 0 || w->source == &witness_notify)
		return;
	if (witness_notify.able(NULL) == 0 && witness_notify.prepare(NULL) == 0)
		w->source = &witness_notify;
}

static int
say_source(const struct witness *w, const struct err *why, struct err *err)
{
	OWN(buf_free) struct buf message;

	ipc_begin(&message, WITNESS_SOURCE);
	buf_put_str(&message, w->source != NULL ? w->source->name : "none");
	buf_put_str(&message, why->text);
	return ipc_send(WITNESS_SUPERVISOR_FD, &message, NULL, 0, err);
}

/* If it does not work, ERR says why, and there is none. */
static void
open_source(struct witness *w, struct err *err)
{
	if (w->source == NULL)
		err_set(err, ENOTSUP, "this build has no way to see what a cell's processes do");
	else if (w->source->open(&w->cell, &w->state, err) < 0)
		w->source = NULL;
}

/* ---- the lockdown ---- */

static int
open_first(const struct witness *w, const char *what, int flags)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)w->cell.first, what);
	return open(path, flags | O_CLOEXEC);
}

/* A cell of an engine may have none of its own. */
static bool
is_own(int ns)
{
	struct stat a, b;

	return fstat(ns, &a) == 0 && stat("/proc/self/ns/user", &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static int
lock_down(struct witness *w, struct err *err)
{
	static const char *const readable[] = { "/proc", NULL };
	/* To look at processes, and to read programs that only their user may read. */
	const uint32_t rights = 1u << CAP_SYS_PTRACE | 1u << CAP_DAC_READ_SEARCH;
	struct lockdown l = { .filter = FILTER_WITNESS, .readable = readable, .looks = true,
	                      .network = true };        /* it can make no socket */
	OWN(closep) int ns = geteuid() == 0 ? open_first(w, "ns/user", O_RDONLY) : -1;

	/* An ordinary user owns the cell's user namespace, and so may look without being in it.  In it, the witness
	 * would count as one of the cell's processes. */
	if (ns >= 0 && !is_own(ns)) {
		l.user_namespace = ns;
		l.kept = rights;
	}
	return lockdown_enter(&l, INT_MAX, err);
}

/* ---- its work ---- */

static void
failed(void *arg, const char *why)
{
	(void)arg;
	fprintf(stderr, "cloister-witness: %s\n", why);
	exit(1);
}

static void
finish(struct witness *w)
{
	OWN(buf_free) struct buf done;

	ipc_begin(&done, WITNESS_DONE);
	w->source->finish(w->state);
	witness_take_all(w);
	witness_out_say(&w->out, &done);
	/* The end of the process closes the source.  To give back a ring buffer would make the cell's end wait for the
	 * kernel: the next witness does that. */
}

static int
take_listener(const struct witness *w, struct ipc_message *message)
{
	struct err err = {0};
	uint32_t filter;
	int r;

	if (message->n_fds != 1 || w->source->hear == NULL || buf_get_u32(&message->body, &filter) < 0)
		return -EBADMSG;
	r = w->source->hear(w->state, ipc_take_fd(message, 0), filter, &err);
	if (r < 0)
		fprintf(stderr, "cloister-witness: %s\n", err.text);
	return r;
}

static void
supervisor_ready(void *arg, uint32_t events)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	struct witness *w = arg;
	int r;

	if ((events & EPOLLOUT) != 0)
		witness_out_writable(&w->out);
	if ((events & ~(uint32_t)EPOLLOUT) == 0)
		return;
	r = ipc_receive(w->out.channel.fd, &message, NULL);
	if (r == -EAGAIN)
		return;
	if (r == 0 && message.type == WITNESS_ROOT && message.n_fds == 1 && w->root < 0) {
		w->root = ipc_take_fd(&message, 0);
		return;
	}
	if (r == 0 && message.type == WITNESS_LISTENER && take_listener(w, &message) == 0)
		return;
	if (r == 0 && message.type == WITNESS_RULES && witness_take_rules(w, &message) == 0)
		return;
	if (r == 0 && message.type == WITNESS_FINISH)
		finish(w);
	loop_quit(w->loop);
}

static int
say_ready(const struct witness *w, const struct err *why, struct err *err)
{
	OWN(buf_free) struct buf message;
	uint32_t n = 0;

	ipc_begin(&message, WITNESS_READY);
	buf_put_str(&message, w->source != NULL ? w->source->name : "none");
	while (w->source != NULL && n < WITNESS_UNSEEN_MAX && w->source->unseen[n] != NULL)
		n++;
	buf_put_u32(&message, w->source != NULL ? n : 1);
	if (w->source == NULL)
		buf_put_str(&message, why->text);
	for (uint32_t i = 0; i < n; i++)
		buf_put_str(&message, w->source->unseen[i]);
	return ipc_send(WITNESS_SUPERVISOR_FD, &message, NULL, 0, err);
}

static int
serve(struct witness *w, struct err *err)
{
	const struct witness_taker taker = { witness_take, witness_take_port, failed, w };
	int r = loop_new(&w->loop, err);

	if (r < 0)
		return r;
	w->out.loop = w->loop;
	w->out.channel = (struct loop_source){ .fd = WITNESS_SUPERVISOR_FD, .ready = supervisor_ready, .arg = w };
	if (witness_take_open(w) < 0)
		return err_set(err, ENOMEM, "out of memory");
	r = lock_down(w, err);
	if (r == 0)
		r = w->source->watch(w->state, w->loop, &taker, err);
	if (r == 0)
		r = say_ready(w, NULL, err);
	if (r == 0 && fcntl(WITNESS_SUPERVISOR_FD, F_SETFL, O_NONBLOCK) < 0)
		r = err_errno(err, "cannot use the channel to the supervisor");
	if (r == 0)
		r = loop_watch(w->loop, &w->out.channel, EPOLLIN, err);
	return r == 0 ? loop_run(w->loop, err) : r;
}

int
main(int argc, char **argv)
{
	static struct witness w = { .root = -1, .cell.listener = -1 };
	struct err err = {0}, why = {0};
	int r;

	if (argc != 2 || fcntl(WITNESS_SUPERVISOR_FD, F_SETFD, FD_CLOEXEC) < 0) {
		fprintf(stderr, "cloister-witness is started by cloister-supervisor only\n");
		return 125;
	}
	signal(SIGPIPE, SIG_IGN);
	/* It hands over the filter's listener, however many descriptors the agent has under way. */
	io_raise_files();
	w.source = find_source(argv[1]);
	/* While the cell is made. */
	choose_source(&w, &why);
	r = say_source(&w, &why, &err);
	if (r == 0)
		r = take_start(&w, &err);
	if (r == -EPIPE)
		return 0;
	if (r == 0)
		open_source(&w, &why);
	if (r == 0)
		r = w.source == NULL ? say_ready(&w, &why, &err) : serve(&w, &err);
	if (r < 0)
		fprintf(stderr, "cloister-witness: %s\n", err.text);
	return r < 0;
}
