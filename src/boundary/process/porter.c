/* porter.c - takes the calls that the agent's filter reports, and watches over the cell's processes. */
#include "boundary/process/porter.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/own.h"
#include "ipc/ipc.h"

#define SWEEP_MS 5000

/* ---- calls ---- */

static const struct {
	int nr;
	porter_handler *handle;
} calls[] = {
	{ SYS_socket, porter_socket },
	{ SYS_connect, porter_connect },
	{ SYS_bind, porter_bind },
	{ SYS_listen, porter_listen },
	{ SYS_getsockname, porter_getsockname },
	{ SYS_getpeername, porter_getpeername },
	{ SYS_setsockopt, porter_setsockopt },
	{ SYS_sendto, porter_sendto },
	{ SYS_recvfrom, porter_recvfrom },
	{ SYS_recvmsg, porter_recvmsg },
	{ SYS_recvmmsg, porter_recvmmsg },
#ifdef SYS_chmod
	{ SYS_chmod, porter_chmod },
	{ SYS_chown, porter_chown },
	{ SYS_lchown, porter_lchown },
#endif
	{ SYS_fchmod, porter_fchmod },
	{ SYS_fchmodat, porter_fchmodat },
	{ 452 /* fchmodat2 */, porter_fchmodat2 },
	{ SYS_fchown, porter_fchown },
	{ SYS_fchownat, porter_fchownat },
	{ SYS_utimensat, porter_utimensat },
};

bool
porter_is_valid(const struct porter *p, const struct porter_call *c)
{
	return ioctl(p->listener.fd, SECCOMP_IOCTL_NOTIF_ID_VALID, &c->id) == 0;
}

void
porter_answer(struct porter *p, uint64_t id, int64_t value, int error, bool goes_on)
{
	struct seccomp_notif_resp resp = { .id = id, .val = value, .error = -error,
	                                   .flags = goes_on ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0 };

	/* It fails if the caller was killed meanwhile. */
	(void)ioctl(p->listener.fd, SECCOMP_IOCTL_NOTIF_SEND, &resp);
}

static void
take_call(struct porter *p, const struct porter_call *c)
{
	int64_t value = 0;
	int r = -EPERM;

	/* So a test can see what the porter is for. */
	if (!CONTROL_ON("porter"))
		r = PORTER_GO_ON;
	for (size_t i = 0; CONTROL_ON("porter") && i < ARRAY_LEN(calls); i++)
		if (calls[i].nr == c->data.nr) {
			r = calls[i].handle(p, c, &value);
			break;
		}
	if (r != PORTER_ANSWERED)
		porter_answer(p, c->id, r == 0 ? value : 0, r < 0 ? -r : 0, r == PORTER_GO_ON);
}

static void
listener_ready(void *arg, uint32_t events)
{
	struct porter *p = arg;
	struct seccomp_notif notif;
	struct porter_call c;

	if ((events & EPOLLIN) == 0) {
		/* The filter's last process has ended. */
		loop_unwatch(p->loop, &p->listener);
		return;
	}
	memset(&notif, 0, sizeof(notif));
	/* One at a time: RECV would wait for the next. */
	if (ioctl(p->listener.fd, SECCOMP_IOCTL_NOTIF_RECV, &notif) < 0)
		return;
	c = (struct porter_call){ notif.id, (pid_t)notif.pid, notif.data };
	take_call(p, &c);
}

/* ---- life and death ---- */

_Noreturn static void
end(struct porter *p)
{
	/* What is reported now is refused: nobody answers. */
	closep(&p->listener.fd);
	porter_kill_all(false);
	porter_remove_folder(p->folder, false);
	_exit(0);
}

static void
caught(void *arg, const struct signalfd_siginfo *info)
{
	struct porter *p = arg;
	pid_t pid;

	if (info->ssi_signo == SIGTERM)
		p->ends = true;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		p->ends = p->ends || pid == p->first;
	if (p->ends)
		loop_quit(p->loop);
}

static void
control_ready(void *arg, uint32_t events)
{
	OWN(ipc_message_free) struct ipc_message message = {0};
	struct porter *p = arg;
	int r = ipc_receive(p->control.fd, &message, NULL);

	(void)events;
	if (r == -EAGAIN)
		return;
	if (r < 0 || message.type != PORTER_LISTENER || message.n_fds != 1 || p->listener.fd >= 0) {
		/* The supervisor is gone. */
		p->ends = true;
		loop_quit(p->loop);
		return;
	}
	p->listener.fd = ipc_take_fd(&message, 0);
	p->listener.ready = listener_ready;
	p->listener.arg = p;
	if (loop_watch(p->loop, &p->listener, EPOLLIN, NULL) < 0)
		end(p);
}

static void
sweep_due(void *arg)
{
	struct porter *p = arg;

	porter_sweep(p, NULL);
	loop_set_timer(p->loop, &p->sweep, SWEEP_MS);
}

void
porter_run(struct porter *p)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGCHLD);
	sigaddset(&signals, SIGTERM);
	p->control.ready = control_ready;
	p->gate.ready = porter_gate_ready;
	p->dns.ready = porter_dns_ready;
	p->control.arg = p->gate.arg = p->dns.arg = p;
	loop_prepare_timer(&p->sweep, sweep_due, p);
	if (loop_new(&p->loop, NULL) < 0 || loop_catch(p->loop, &signals, caught, p, NULL) < 0 ||
	    loop_watch(p->loop, &p->control, EPOLLIN, NULL) < 0 ||
	    (p->dns.fd >= 0 && loop_watch(p->loop, &p->dns, EPOLLIN, NULL) < 0))
		end(p);
	loop_set_timer(p->loop, &p->sweep, SWEEP_MS);
	(void)loop_run(p->loop, NULL);
	end(p);
}
