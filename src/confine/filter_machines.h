/* filter_machines.h - the system calls of programs that are not ours, for virtual machines: see filter_table.h. */
#ifndef CLOISTER_FILTER_MACHINES_H
#define CLOISTER_FILTER_MACHINES_H
#include <linux/if_tun.h>
#include <linux/kvm.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "confine/filter_agent.h"
#include "confine/filter_helpers.h"
#include "confine/filter_row.h"

/* The monitor of a virtual machine: a program that is not ours.  A call that it can do without is
 * absent, as an older kernel would have it. */
static const struct filter_case filter_monitor_ioctl[] = {
	{ ALLOW, { IS(1, FIONREAD, FIONBIO) } },
	/* The tap that it is given, as it is. */
	{ ALLOW, { IS(1, TUNGETIFF, TUNGETFEATURES, TUNGETVNETHDRSZ, TUNSETVNETHDRSZ, TUNSETVNETLE,
	              TUNSETOFFLOAD, TUNSETSNDBUF) } },
	{ ALLOW, { BITS(1, 0xff00, KVMIO << 8) } },
	{ DENY,  { END } },
};
static const struct filter_case filter_monitor_clone[] = {
	{ ALLOW, { BITS(0, CLONE_THREAD, CLONE_THREAD) } },
	{ DENY,  { END } },
};
static const struct filter_case filter_monitor_socket[] = {
	{ ALLOW, { IS(0, AF_INET, AF_INET6), BITS(1, SOCKET_TYPE, SOCK_STREAM, SOCK_DGRAM),
	           IS(2, 0, IPPROTO_TCP, IPPROTO_UDP) } },
	{ DENY,  { END } },
};
static const struct filter_case filter_monitor_prctl[] = {
	{ ALLOW, { IS(0, PR_SET_NAME, PR_SET_TIMERSLACK) } },
	{ DENY,  { END } },
};
static const struct filter_row filter_monitor[] = {
	{ "read write pread64 close dup2 ppoll eventfd2 signalfd4", .verdict = ALLOW },
	/* Its libraries, the kernel and the initramfs: all that is in its root is for reading. */
	{ "access newfstatat", .verdict = ALLOW },
	{ "openat", .cases = filter_openat },
	{ "fcntl", .cases = filter_fcntl },
	{ "connect getpeername getsockname getsockopt recvfrom recvmsg sendto sendmsg", .verdict = ALLOW },
	{ "socket", .cases = filter_monitor_socket },
	{ "socketpair", .cases = filter_socketpair },
	{ "prlimit64", .cases = filter_prlimit },
	{ "ioctl", .cases = filter_monitor_ioctl },
	/* The guest's memory, and code that an emulator makes. */
	{ "mmap mprotect", .verdict = ALLOW },
	{ "clone", .cases = filter_monitor_clone },
	{ "futex arch_prctl rt_sigprocmask", .verdict = ALLOW },
	/* It is started behind this filter. */
	{ "execve", .verdict = ALLOW },
	/* ---- what an emulated session on amd64 goes without: test_microvm_filter.py ---- */
	/* Programs and threads begin and end tidily, and give memory back. */
	{ "brk munmap madvise set_robust_list set_tid_address rseq gettid sched_getaffinity getrandom clock_nanosleep "
	  "rt_sigaction exit_group", .verdict = ALLOW },
	{ "prctl", .cases = filter_monitor_prctl },
	/* Connections without delay, and those of which one half has ended. */
	{ "setsockopt shutdown", .verdict = ALLOW },
	/* A machine that is restored with KVM ends at once without one of these: test_kvm.py. */
	{ "uname sysinfo statfs fstatfs", .verdict = ALLOW },
	/* A processor is kicked, with KVM; a thread has nothing to do any more; a call was interrupted. */
	{ "tgkill getpid rt_sigreturn exit restart_syscall", .verdict = ALLOW },
	/* The kernel has to be asked for the time if the processor's clock is not trusted. */
	{ "clock_gettime clock_getres gettimeofday time nanosleep", .verdict = ALLOW },
	/* Where its program is, and so its firmware; and a complaint on its log that would hide others. */
	{ "readlink epoll_create1", .verdict = ALLOW },
	/* The same functions in another C library, or on arm64. */
	{ "stat lstat fstat statx faccessat faccessat2 readlinkat dup3 poll pause epoll_create", .verdict = ALLOW },
	/* The memory and the state of a machine that is saved or restored. */
	{ "readv writev preadv pwritev pwrite64 lseek fallocate", .verdict = ALLOW },
};

/* A monitor that works by sockets of its own: it has no other network, no code to make, and one more filter
 * for each of its threads.  The calls are those of its own filters, as far as our machines use them. */
static const struct filter_case filter_hypervisor_socket[] = {
	{ ALLOW, { IS(0, AF_UNIX), BITS(1, SOCKET_TYPE, SOCK_STREAM, SOCK_DGRAM) } },
	{ DENY,  { END } },
};
static const struct filter_case filter_hypervisor_ioctl[] = {
	{ ALLOW, { IS(1, FIONREAD, FIONBIO, FIOCLEX) } },
	/* A tap that has a network already stays there. */
	{ ALLOW, { IS(1, TUNGETIFF, TUNGETFEATURES, TUNSETIFF, TUNSETVNETHDRSZ, TUNSETOFFLOAD) } },
	{ ALLOW, { IS(1, SIOCGIFFLAGS, SIOCGIFHWADDR, SIOCGIFMTU, SIOCGIFINDEX) } },
	{ ALLOW, { BITS(1, 0xff00, KVMIO << 8) } },
	{ DENY,  { END } },
};
static const struct filter_case filter_hypervisor_unlinkat[] = {
	{ ALLOW, { IS(2, 0) } },
	{ DENY,  { END } },
};
static const struct filter_case filter_hypervisor_prctl[] = {
	{ ALLOW, { IS(0, PR_SET_NAME, PR_SET_TIMERSLACK, PR_SET_NO_NEW_PRIVS) } },
	{ DENY,  { END } },
};
static const struct filter_case filter_hypervisor_seccomp[] = {
	{ ALLOW, { IS(0, SECCOMP_SET_MODE_FILTER), IS(1, 0, SECCOMP_FILTER_FLAG_TSYNC) } },
	{ DENY,  { END } },
};
static const struct filter_row filter_hypervisor[] = {
	{ "bind listen accept4 unlink dup epoll_ctl epoll_wait epoll_pwait timerfd_create timerfd_settime pipe2 "
	  "getdents64 getcwd getuid memfd_create ftruncate fsync fdatasync mremap sched_yield sched_setaffinity "
	  "sigaltstack tkill close_range", .verdict = ALLOW },
	{ "open", .cases = filter_open },
	{ "unlinkat", .cases = filter_hypervisor_unlinkat },
	{ "socket", .cases = filter_hypervisor_socket },
	{ "ioctl", .cases = filter_hypervisor_ioctl },
	{ "prctl", .cases = filter_hypervisor_prctl },
	{ "seccomp", .cases = filter_hypervisor_seccomp },
};

/* The file server of a virtual machine: what an agent may do, and one call more. */
static const struct filter_row filter_share[] = {
	{ "chroot", .verdict = ALLOW },
	/* It leaves its groups before it serves, or ends.  An ordinary user's processes cannot leave theirs
	 * in a user namespace; the group that may open /dev/kvm is one. */
	{ "getgroups", .verdict = NONE },
};
/* This one makes a folder its root only if it is user 0, whatever its rights.  An ordinary user's cell has no
 * such user. */
static const struct filter_row filter_share_rust[] = {
	{ "geteuid", .verdict = NONE },
};

/* mkfs.erofs, a program that is not ours: it reads files and writes one.  Newer ones have threads. */
static const struct filter_row filter_disk[] = {
	{ "read write pread64 pwrite64 readv writev preadv pwritev close lseek ftruncate fallocate fsync fdatasync "
	  "dup dup2 dup3", .verdict = ALLOW },
	{ "openat", .cases = filter_openat },
	{ "open", .cases = filter_open },
	{ "stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat getdents64 "
	  "getcwd", .verdict = ALLOW },
	{ "fcntl", .cases = filter_fcntl },
	{ "prlimit64", .cases = filter_prlimit },
	{ "mmap mprotect munmap mremap madvise brk", .verdict = ALLOW },
	{ "clone", .cases = filter_monitor_clone },
	{ "futex arch_prctl rt_sigprocmask rt_sigaction rt_sigreturn sigaltstack set_robust_list set_tid_address rseq "
	  "gettid getpid getppid getuid geteuid getgid getegid sched_getaffinity sched_yield sysinfo uname getrandom "
	  "clock_gettime gettimeofday time clock_nanosleep exit exit_group restart_syscall", .verdict = ALLOW },
	{ "execve", .verdict = ALLOW },
};
#endif
