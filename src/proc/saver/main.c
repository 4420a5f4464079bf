/* main.c - cloister-saver: see saver.h. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "proc/saver/saver.h"

#define DEAD_MS 15000                   /* until a cell without a supervisor is dead */

static int
open_libexec(struct err *err)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	int fd;

	exe[n < 0 ? 0 : n] = '\0';
	fd = n < 0 ? -1 : open(dirname(exe), O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_errno(err, "cannot open the folder of the helpers") : fd;
}

/* It reads nothing that the agent wrote.  With Landlock, its helpers could not give up as much as they do. */
static int
lock_down(struct err *err)
{
	return prctl(PR_SET_DUMPABLE, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ?
	       err_errno(err, "cannot give up privileges") : 0;
}

static void
fail(const struct err *err)
{
	OWN(buf_free) struct buf answer = {0};

	ipc_begin(&answer, SAVER_FAILED);
	buf_put_u32(&answer, (uint32_t)err->code);
	buf_put_str(&answer, err->text);
	(void)ipc_send(SAVER_CHANNEL_FD, &answer, NULL, 0, NULL);
}

static int
take_open(struct saver *s, struct ipc_message *m)
{
	OWN(buf_free) struct buf answer = {0};
	struct err err = {0};
	int r;

	ipc_begin(&answer, SAVER_OPENED);
	r = s->n > 0 ? -EBADMSG : saver_open(s, m, &answer, &err);
	if (r == 0)
		return ipc_send(SAVER_CHANNEL_FD, &answer, NULL, 0, NULL);
	if (r != -EBADMSG)
		fail(&err);
	return r;
}

static int
take_commit(struct saver *s, struct ipc_message *m)
{
	OWN(buf_free) struct buf answer = {0};
	struct saver_why why = {0};
	uint32_t live, last;

	if (s->entry < 0 || s->ended || buf_get_u32(&m->body, &live) < 0 || buf_get_u32(&m->body, &last) < 0 ||
	    buf_get_str(&m->body, &why.reason) < 0 || buf_get_u64(&m->body, &why.timeline_n) < 0 ||
	    buf_get_str(&m->body, &why.timeline_head) < 0)
		return -EBADMSG;
	why.live = live != 0;
	why.last = last != 0;
	ipc_begin(&answer, SAVER_COMMITTED);
	saver_commit_all(s, &why, &answer);
	s->ended = last != 0;
	/* Whoever waits for the cell's end may start the next one at once. */
	if (s->ended)
		saver_let_go(s);
	return ipc_send(SAVER_CHANNEL_FD, &answer, NULL, 0, NULL);
}

static int
take_go_back(struct saver *s, struct ipc_message *m)
{
	return s->ended || s->goes_back != NULL ? -EBADMSG : buf_dup_str(&m->body, &s->goes_back);
}

/* The supervisor is gone. */
static void
commit_rest(struct saver *s)
{
	struct pollfd died = { .fd = s->died, .events = POLLIN };
	const struct saver_why why = { .reason = SAVER_CRASH, .timeline_head = "", .live = true, .last = true };
	OWN(buf_free) struct buf answer = {0};

	if (s->entry < 0 || s->ended)
		return;
	if (s->died >= 0)
		(void)poll(&died, 1, DEAD_MS);
	ipc_begin(&answer, SAVER_COMMITTED);
	saver_commit_all(s, &why, &answer);
}

static int
take_message(struct saver *s)
{
	OWN(ipc_message_free) struct ipc_message m = {0};
	int r = ipc_receive(SAVER_CHANNEL_FD, &m, NULL);

	if (r < 0)
		return r;
	switch (m.type) {
	case SAVER_OPEN:   return take_open(s, &m);
	case SAVER_CELL:   return saver_take_cell(s, &m);
	case SAVER_UPPER:  return saver_take_upper(s, &m);
	case SAVER_COMMIT: return take_commit(s, &m);
	case SAVER_GO_BACK: return take_go_back(s, &m);
	default:           return -EBADMSG;
	}
}

int
main(void)
{
	static struct saver s = { .entry = -1, .died = -1, .collector = { .libexec = -1, .userns = -1 } };
	struct err err = {0};
	int r;

	umask(077);
	for (int number = 1; number < NSIG; number++)
		spawn_reset_signal(number);
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < CELL_STATES_MAX; i++)
		s.states[i].lock = s.states[i].upper = -1;
	r = lock_down(&err);
	r = r < 0 ? r : (s.collector.libexec = open_libexec(&err));
	if (r < 0) {
		fail(&err);
		return 1;
	}
	while (take_message(&s) == 0)
		;
	commit_rest(&s);
	saver_let_go(&s);
	return s.n > 0 ? 0 : 1;
}
