/* filter_porter.h - the system calls of the porter of a cell of the boundary `process`: see filter_table.h. */
#ifndef CLOISTER_FILTER_PORTER_H
#define CLOISTER_FILTER_PORTER_H
#include <errno.h>
#include <sys/socket.h>

#include "confine/filter_agent.h"
#include "confine/filter_helpers.h"
#include "confine/filter_row.h"

#define NOTIF_ADDFD 0x40182103          /* SECCOMP_IOCTL_NOTIF_*, which old headers lack */
#define NOTIF_ID_VALID 0x40082102
#define NOTIF_RECV 0xc0502100
#define NOTIF_SEND 0xc0182101
static const struct filter_case filter_porter_ioctl[] = {
	{ ALLOW, { IS(1, NOTIF_ADDFD, NOTIF_ID_VALID, NOTIF_RECV, NOTIF_SEND) } },
	{ KILL,  { END } },
};
static const struct filter_case filter_porter_socket[] = {
	{ ALLOW, { IS(0, AF_UNIX, AF_INET, AF_INET6), BITS(1, SOCKET_TYPE, SOCK_STREAM, SOCK_SEQPACKET) } },
	{ KILL,  { END } },
};

/* It opens no file but to hold it (O_PATH), to look at processes, or to empty the cell's folder: Landlock decides. */
static const struct filter_row filter_porter[] = {
	{ "read write readv writev close fcntl dup openat openat2 readlinkat fstat newfstatat statx getdents64 unlinkat fchmod lseek renameat renameat2",
	  .verdict = ALLOW },
	{ "stat lstat readlink open unlink rmdir rename epoll_create pause", .verdict = ALLOW },
	/* On the agent's behalf. */
	{ "fchmodat fchownat utimensat bind connect listen accept4 getsockname getsockopt setsockopt socketpair "
	  "sendmsg recvmsg sendto recvfrom shutdown pread64 pwrite64 umask", .verdict = ALLOW },
	{ "chmod chown lchown", .verdict = ALLOW },
	{ "socket", .cases = filter_porter_socket },
	{ "ioctl", .cases = filter_porter_ioctl },
	{ "epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 poll ppoll signalfd4 timerfd_create timerfd_settime",
	  .verdict = ALLOW },
	/* The end of the cell. */
	{ "kill wait4 waitid pidfd_send_signal", .verdict = ALLOW },
	{ "brk munmap mremap madvise sysinfo futex getrandom clock_gettime clock_nanosleep nanosleep time gettimeofday",
	  .verdict = ALLOW },
	{ "mmap mprotect", .cases = filter_no_exec },
	{ "rt_sigaction rt_sigtimedwait rt_sigprocmask rt_sigreturn sigaltstack restart_syscall getpid gettid tgkill exit exit_group "
	  "getuid geteuid getgid getegid", .verdict = ALLOW },
};
#endif
