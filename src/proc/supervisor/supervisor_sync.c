/* supervisor_sync.c - has the timeline on the disk, in a process of its own: however long a disk
 * takes, the supervisor answers.
 *
 * One request at a time: what is recorded meanwhile is all in the next one. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own.h"
#include "ipc/courier_channel.h"
#include "proc/supervisor/supervisor.h"

#define SYNC 1                          /* fd: the file; back: u32 errno */

_Noreturn static void
serve(int channel)
{
	for (;;) {
		OWN(ipc_message_free) struct ipc_message message = {0};
		OWN(buf_free) struct buf answer = {0};
		uint32_t error = 0;

		if (ipc_receive(channel, &message, NULL) < 0)
			_exit(0);
		for (size_t i = 0; i < message.n_fds; i++)
			if (fdatasync(message.fds[i]) < 0)
				error = (uint32_t)errno;
		ipc_begin(&answer, SYNC);
		buf_put_u32(&answer, error);
		if (ipc_send(channel, &answer, NULL, 0, NULL) < 0)
			_exit(0);
	}
}

static void
drop_oldest(struct sync *s)
{
	close(s->files[0]);
	memmove(s->files, s->files + 1, --s->n_files * sizeof(s->files[0]));
}

static void
ask(struct supervisor *sv)
{
	struct sync *s = &sv->timeline.sync;
	OWN(buf_free) struct buf message;

	ipc_begin(&message, SYNC);
	s->asked = sv->timeline.awaited;
	/* Between two files the last records are in the older. */
	if (ipc_send(s->channel.fd, &message, s->files, s->n_files, NULL) < 0) {
		supervisor_timeline_failed(sv, EIO);
		return;
	}
	s->busy = true;
	while (s->n_files > 1)
		drop_oldest(s);
}

static void
tell(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;
	OWN(buf_free) struct buf message;

	ipc_begin(&message, COURIER_RECORDED);
	buf_put_u64(&message, t->synced);
	if (sv->egress.courier.fd >= 0 &&
	    ipc_send(sv->egress.courier.fd, &message, NULL, 0, NULL) == -EAGAIN)
		loop_set_timer(sv->loop, &t->sync.again, 10);
}

static void
tell_again(void *arg)
{
	tell(arg);
}

static void
answered(void *arg, uint32_t events)
{
	struct supervisor *sv = arg;
	struct timeline *t = &sv->timeline;
	OWN(ipc_message_free) struct ipc_message message = {0};
	uint32_t error = EIO;
	int r = ipc_receive(t->sync.channel.fd, &message, NULL);

	(void)events;
	if (r == -EAGAIN)
		return;
	if (r < 0 || buf_get_u32(&message.body, &error) < 0 || error != 0) {
		loop_unwatch(sv->loop, &t->sync.channel);
		supervisor_timeline_failed(sv, (int)error);
		return;
	}
	t->sync.busy = false;
	t->synced = t->sync.asked;
	tell(sv);
	if (t->awaited > t->synced)
		ask(sv);
}

int
supervisor_sync_start(struct supervisor *sv, struct err *err)
{
	struct sync *s = &sv->timeline.sync;
	pid_t parent = getpid();
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return err_errno(err, "cannot make a channel");
	s->pid = fork();
	if (s->pid == 0) {
		/* Nothing of the cell's or the operator's stays open in it. */
		if (dup2(ends[1], 3) == 3 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
		    getppid() == parent && setsid() > 0 && syscall(SYS_close_range, 4u, ~0u, 0u) == 0) {
			for (int i = 0; i < 3; i++)
				close(i);
			serve(3);
		}
		_exit(125);
	}
	close(ends[1]);
	if (s->pid < 0) {
		close(ends[0]);
		return err_errno(err, "cannot start who has the timeline on the disk");
	}
	s->again = (struct loop_timer){ .due = tell_again, .arg = sv };
	s->channel = (struct loop_source){ .fd = ends[0], .ready = answered, .arg = sv };
	return loop_watch(sv->loop, &s->channel, EPOLLIN, err);
}

void
supervisor_sync_before(struct supervisor *sv)
{
	struct sync *s = &sv->timeline.sync;

	if (s->pid <= 0 || (s->n_files > 0 && s->file == sv->timeline.log.last))
		return;
	/* One more, and the older until it was asked for. */
	if (s->n_files == ARRAY_LEN(s->files) ||
	    (s->files[s->n_files] = dup(sv->timeline.log.fd)) < 0) {
		supervisor_timeline_failed(sv, EMFILE);
		return;
	}
	s->n_files++;
	s->file = sv->timeline.log.last;
}

void
supervisor_sync_after(struct supervisor *sv)
{
	struct timeline *t = &sv->timeline;

	if (t->sync.pid > 0 && !t->sync.busy && t->awaited > t->synced)
		ask(sv);
}

void
supervisor_sync_end(struct supervisor *sv)
{
	struct sync *s = &sv->timeline.sync;

	if (s->pid <= 0)
		return;
	loop_unwatch(sv->loop, &s->channel);
	loop_cancel_timer(sv->loop, &s->again);
	close(s->channel.fd);
	while (s->n_files > 0)
		drop_oldest(s);
	/* It may be at a disk that does not answer: nobody waits for it. */
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, WNOHANG);
	s->pid = 0;
}
