/* kvm_child.c - runs a guest in a child process that cannot take its parent with it. */
#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "vm/kvm_parts.h"

/* A process that a broken driver holds may never die.  Then it is left behind. */
#define DYING_MS 900

void
kvm_limit_child(int ms)
{
	const struct itimerval limit = { .it_value = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 } };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	(void)signal(SIGALRM, SIG_DFL);
	(void)sigprocmask(SIG_UNBLOCK, &set, NULL);
	(void)setitimer(ITIMER_REAL, &limit, NULL);
}

/* It ends with its parent.  If it is left behind, it must not keep our caller's pipes open. */
static _Noreturn void
be_child(int (*guest)(void))
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)syscall(SYS_close_range, 0u, ~0u, 0u);
	_exit(guest());
}

/* Without an exit signal: the child's end is nobody's business but ours. */
static int
start(int (*guest)(void), int *ret_pidfd)
{
	int pidfd = -1;
	struct clone_args args = { .flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&pidfd };
	pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));

	if (pid < 0)
		return -errno;
	if (pid == 0)
		be_child(guest);
	*ret_pidfd = pidfd;
	return 0;
}

int
kvm_run_child(int (*guest)(void), int deadline_ms, enum kvm_end *ret_end, int *ret_errno)
{
	OWN(closep) int pidfd = -1;
	siginfo_t info = {0};
	int r = start(guest, &pidfd);
	bool is_late;

	if (r < 0)
		return r;
	is_late = !io_is_readable(pidfd, io_now_ms() + deadline_ms);
	if (is_late)
		(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0u);
	if (is_late && !io_is_readable(pidfd, io_now_ms() + DYING_MS)) {
		*ret_end = KVM_END_LATE;
		return 0;
	}
	if (waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, WEXITED | __WALL) < 0)
		return -errno;
	/* It was killed by us, or by its own limit. */
	if (info.si_code != CLD_EXITED)
		*ret_end = is_late || info.si_status == SIGALRM ? KVM_END_LATE : KVM_END_STRANGE;
	else if (info.si_status == 0 || info.si_status == KVM_GUEST_STRANGE)
		*ret_end = info.si_status == 0 ? KVM_END_OK : KVM_END_STRANGE;
	else
		*ret_end = KVM_END_ERRNO, *ret_errno = info.si_status;
	return 0;
}
