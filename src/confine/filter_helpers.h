/* filter_helpers.h - the system calls of our own processes: see filter_table.h.  A call that is not listed kills. */
#ifndef CLOISTER_FILTER_HELPERS_H
#define CLOISTER_FILTER_HELPERS_H
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "confine/filter_row.h"

/* New code never becomes executable: only linked code runs. */
static const struct filter_case filter_no_exec[] = {
	{ ALLOW, { NO_BITS(2, PROT_EXEC) } },
	{ KILL,  { END } },
};
/* A char device 0,0 is a whiteout, as overlayfs writes it. */
static const struct filter_case filter_collect_mknodat[] = {
	{ ALLOW, { BITS(2, S_IFMT, 0, S_IFREG, S_IFIFO, S_IFSOCK) } },
	{ ALLOW, { BITS(2, S_IFMT, S_IFCHR), IS(3, 0) } },
	{ DENY,  { END } },
};

/* The collector copies an overlay's changes: files by descriptor, and nothing else. */
static const struct filter_row filter_collect[] = {
	{ "read write readv writev pread64 pwrite64 lseek copy_file_range close dup fcntl "
	  "fsync fdatasync", .verdict = ALLOW },
	{ "openat openat2 getdents64 fstat newfstatat statx fstatfs readlinkat ftruncate "
	  "fallocate", .verdict = ALLOW },
	{ "mkdirat symlinkat linkat unlinkat renameat renameat2 fchmod fchmodat fchmodat2 "
	  "fchown fchownat utimensat umask", .verdict = ALLOW },
	/* The same, by the names that the C library uses on amd64. */
	{ "stat lstat readlink mkdir rmdir symlink link unlink rename chmod chown lchown",
	  .verdict = ALLOW },
	{ "fgetxattr fsetxattr flistxattr fremovexattr getxattr setxattr listxattr lgetxattr "
	  "lsetxattr llistxattr lremovexattr", .verdict = ALLOW },
	{ "mknodat", .cases = filter_collect_mknodat },
	/* Calls that the C library makes by itself: memory (qsort() asks how much there is), locks,
	 * time, assert(). */
	{ "brk munmap mremap madvise sysinfo futex getrandom clock_gettime clock_nanosleep time",
	  .verdict = ALLOW },
	{ "mmap mprotect", .cases = filter_no_exec },
	{ "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall getpid gettid "
	  "tgkill exit exit_group", .verdict = ALLOW },
};

/* glibc's tcgetattr() and tcsetattr() use these from 2.42 on: TCGETS2 and its kin. */
#define TERMIOS2 0x802c542a, 0x402c542b, 0x402c542c, 0x402c542d
static const struct filter_case filter_terminal[] = {
	{ ALLOW, { IS(1, TCGETS, TCSETS, TCSETSW, TCSETSF, TERMIOS2, TIOCGWINSZ, TIOCSWINSZ,
	                 TIOCGPTN, TIOCSPTLCK, TIOCGPTPEER, TIOCGPGRP, FIONBIO, FIONREAD, FIOCLEX) } },
	{ KILL,  { END } },
};
/* To start the collector: a child in no new namespace, which joins the cell's. */
static const struct filter_case filter_plain_clone[] = {
	{ ALLOW, { NO_BITS(0, NAMESPACE_FLAGS) } },
	{ KILL,  { END } },
};
static const struct filter_case filter_join[] = {
	{ ALLOW, { IS(1, CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWUSER | CLONE_NEWNS) } },
	{ KILL,  { END } },
};
static const struct filter_case filter_own_prctl[] = {
	{ ALLOW, { IS(0, PR_SET_NAME, PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_GET_DUMPABLE,
	                 PR_SET_NO_NEW_PRIVS, PR_SET_KEEPCAPS, PR_SET_SECUREBITS,
	                 PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_SET_VMA) } },
	{ KILL,  { END } },
};
static const struct filter_case filter_own_seccomp[] = {
	{ ALLOW, { IS(0, SECCOMP_SET_MODE_FILTER), IS(1, 0) } },
	{ KILL,  { END } },
};

/* The supervisor of a running cell.  The collector is its child and inherits this,
 * so the collector's own table is part of this profile. */
static const struct filter_row filter_supervisor[] = {
	/* The loop: sockets and terminals that exist, timers, signals. */
	{ "epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 poll ppoll "
	  "pause eventfd2 timerfd_create timerfd_settime timerfd_gettime signalfd4",
	  .verdict = ALLOW },
	{ "accept4 recvmsg sendmsg recvfrom sendto getsockopt setsockopt getsockname "
	  "getpeername shutdown socketpair splice tee preadv2", .verdict = ALLOW },
	{ "ioctl", .cases = filter_terminal },
	/* The cell's end: its processes, its cgroup, its files. */
	{ "kill pidfd_open pidfd_send_signal waitid wait4", .verdict = ALLOW },
	{ "access faccessat faccessat2 flock getdents open", .verdict = ALLOW },
	/* Starting the collector. */
	{ "clone", .cases = filter_plain_clone },
	{ "clone3", .verdict = ABSENT },           /* posix_spawn() tries it first */
	{ "fork vfork execve execveat pipe2 dup2 dup3 close_range setsid fchdir chdir",
	  .verdict = ALLOW },
	{ "setns", .cases = filter_join },
	{ "prctl", .cases = filter_own_prctl },
	{ "seccomp", .cases = filter_own_seccomp },
	{ "landlock_create_ruleset landlock_add_rule landlock_restrict_self", .verdict = ALLOW },
	{ "setresuid setresgid setgroups getuid geteuid getgid getegid getppid capget capset "
	  "prlimit64", .verdict = ALLOW },
	/* How a C program starts. */
	{ "set_tid_address set_robust_list rseq arch_prctl uname sysinfo sched_getaffinity "
	  "clock_getres gettimeofday nanosleep sched_yield membarrier", .verdict = ALLOW },
};

/* Calls that every egress process makes: memory, time, an epoll loop, bytes over existing sockets,
 * and dying. */
static const struct filter_row filter_egress[] = {
	{ "read write readv writev recvmsg sendmsg recvfrom sendto recvmmsg sendmmsg shutdown "
	  "close fcntl", .verdict = ALLOW },
	{ "epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 poll ppoll "
	  "pause eventfd2 signalfd4 timerfd_create timerfd_settime", .verdict = ALLOW },
	{ "brk munmap mremap madvise futex getrandom clock_gettime clock_getres gettimeofday "
	  "time clock_nanosleep nanosleep sched_yield sysinfo", .verdict = ALLOW },
	{ "mmap mprotect", .cases = filter_no_exec },
	{ "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall getpid gettid "
	  "tgkill exit exit_group", .verdict = ALLOW },
};

/* The gate accepts connections and asks for their destination; it makes none.  The table of names
 * is mapped before. */
static const struct filter_case filter_gate_getsockopt[] = {
	{ ALLOW, { IS(1, SOL_SOCKET), IS(2, SO_ERROR) } },
	{ KILL,  { END } },
};
static const struct filter_case filter_gate_setsockopt[] = {
	{ ALLOW, { IS(1, SOL_SOCKET), IS(2, SO_RCVLOWAT, SO_LINGER) } },
	{ ALLOW, { IS(1, IPPROTO_TCP), IS(2, TCP_NODELAY) } },
	{ KILL,  { END } },
};
static const struct filter_row filter_gate[] = {
	{ "accept4 getsockname", .verdict = ALLOW },
	{ "getsockopt", .cases = filter_gate_getsockopt },
	{ "setsockopt", .cases = filter_gate_setsockopt },
};

static const struct filter_case filter_dial[] = {
	{ ALLOW, { IS(0, AF_INET, AF_INET6), BITS(1, SOCKET_TYPE, SOCK_STREAM, SOCK_DGRAM),
	           IS(2, 0, IPPROTO_TCP, IPPROTO_UDP) } },
	{ ERRNO(EAFNOSUPPORT), { END } },
};
static const struct filter_case filter_socket_ioctl[] = {
	{ ALLOW, { IS(1, FIONBIO, FIONREAD) } },
	{ KILL,  { END } },
};
static const struct filter_case filter_local_pair[] = {
	{ ALLOW, { IS(0, AF_UNIX), BITS(1, SOCKET_TYPE, SOCK_STREAM), IS(2, 0) } },
	{ KILL,  { END } },
};
static const struct filter_case filter_own_files[] = {
	{ ALLOW, { IS(0, 0), IS(1, RLIMIT_NOFILE) } },
	{ KILL,  { END } },
};
/* The courier resolves and dials, and reads the certificates that it trusts: the mounts and
 * Landlock decide which files it can read. */
static const struct filter_row filter_courier[] = {
	{ "socket", .cases = filter_dial },
	{ "connect getsockopt setsockopt getsockname getpeername bind", .verdict = ALLOW },
	{ "open openat stat lstat fstat newfstatat statx readlink readlinkat access faccessat "
	  "faccessat2 getdents64 lseek pread64 getuid geteuid getgid getegid uname",
	  .verdict = ALLOW },
	{ "ioctl", .cases = filter_socket_ioctl },
	/* A connection to cloister-tools is one end of a pair, whose other end it sends there. */
	{ "socketpair", .cases = filter_local_pair },
	{ "prlimit64", .cases = filter_own_files },     /* ipc_send() */
	/* New values of secrets, and tokens from servers, are locked in memory as well. */
	{ "mlock", .verdict = ALLOW },
};

/* The body comes over inspect's one socket, and the answer goes back there. */
static const struct filter_row filter_inspect[] = {
	{ "getuid geteuid getgid getegid", .verdict = ALLOW },
};

/* Publish connects in its network namespace: the cell's. */
static const struct filter_case filter_reach[] = {
	{ ALLOW, { IS(0, AF_INET, AF_INET6), BITS(1, SOCKET_TYPE, SOCK_STREAM),
	           IS(2, 0, IPPROTO_TCP) } },
	{ ERRNO(EAFNOSUPPORT), { END } },
};
static const struct filter_row filter_publish[] = {
	{ "socket", .cases = filter_reach },
	{ "prlimit64", .cases = filter_own_files },     /* ipc_send() */
	{ "accept4 connect getsockopt setsockopt stat lstat fstat newfstatat", .verdict = ALLOW },
	/* The body of a webhook, for the courier. */
	{ "memfd_create", .verdict = ALLOW },
};

static const struct filter_case filter_mcp_getsockopt[] = {
	{ ALLOW, { IS(1, SOL_SOCKET), IS(2, SO_ERROR, SO_PEERCRED) } },
	{ KILL,  { END } },
};
/* Its input, its output, the connections that it accepts and those that it is given; it makes none. */
static const struct filter_row filter_mcp[] = {
	{ "accept4 getsockname getpeername", .verdict = ALLOW },
	{ "getsockopt", .cases = filter_mcp_getsockopt },
	{ "setsockopt", .cases = filter_gate_setsockopt },
	/* To compare a peer's user with its own. */
	{ "getuid geteuid getgid getegid", .verdict = ALLOW },
};

static const struct filter_case filter_local[] = {
	{ ALLOW, { IS(0, AF_UNIX), BITS(1, SOCKET_TYPE, SOCK_STREAM), IS(2, 0) } },
	{ ERRNO(EAFNOSUPPORT), { END } },
};
/* The warden asks the engine by its socket, signals one process, and thaws its group. */
static const struct filter_row filter_warden[] = {
	{ "socket", .cases = filter_local },
	{ "connect pidfd_send_signal openat rt_sigpending", .verdict = ALLOW },
};

/* It opens files of the cell's programs and of /proc, only to read them: its mounts have nothing else. */
static const struct filter_case filter_witness_openat[] = {
	{ ALLOW, { NO_BITS(2, O_ACCMODE | O_CREAT | O_TRUNC) } },
	{ KILL,  { END } },
};
/* It asks whether a notification is still valid; it can answer none. */
#define PIDFD_GET_INFO_ANY 0xff0b       /* PIDFD_GET_INFO, whose size grows with the kernel's versions */
static const struct filter_case filter_witness_ioctl[] = {
	{ ALLOW, { IS(1, SECCOMP_IOCTL_NOTIF_ID_VALID) } },
	{ ALLOW, { BITS(1, 0xffff, PIDFD_GET_INFO_ANY) } },
	{ KILL,  { END } },
};
/* It reads what was lost, and gives its ring buffer back. */
static const struct filter_case filter_witness_bpf[] = {
	{ ALLOW, { IS(0, BPF_MAP_LOOKUP_ELEM, BPF_MAP_DELETE_ELEM) } },
	{ KILL,  { END } },
};
/* Signal 0 asks whether a process exists. */
static const struct filter_case filter_witness_kill[] = {
	{ ALLOW, { IS(1, 0) } },
	{ KILL,  { END } },
};
static const struct filter_row filter_witness[] = {
	{ "openat", .cases = filter_witness_openat },
	{ "openat2 fstat newfstatat statx fstatfs faccessat faccessat2 pread64 lseek readlinkat", .verdict = ALLOW },
	/* The same, by the names that the C library uses on amd64. */
	{ "stat lstat readlink access", .verdict = ALLOW },
	/* It looks at the agent's processes: their memory, and their sockets. */
	{ "process_vm_readv pidfd_open pidfd_getfd getsockname getpeername getsockopt bind wait4", .verdict = ALLOW },
	{ "kill", .cases = filter_witness_kill },
	{ "bpf", .cases = filter_witness_bpf },
	{ "ioctl", .cases = filter_witness_ioctl },
};

/* Files come over its one socket, and the answer goes back there.  It may raise its time limit for
 * the next one. */
static const struct filter_case filter_own_time[] = {
	{ ALLOW, { IS(0, 0), IS(1, RLIMIT_CPU) } },
	{ KILL,  { END } },
};
static const struct filter_row filter_compare[] = {
	{ "prlimit64", .cases = filter_own_time },
};
/* A pipe, or a whiteout, as overlayfs knows it. */
static const struct filter_case filter_unpack_mknodat[] = {
	{ ALLOW, { BITS(2, S_IFMT, S_IFIFO) } },
	{ ALLOW, { BITS(2, S_IFMT, S_IFCHR), IS(3, 0) } },
	{ KILL,  { END } },
};
/* The unpacker makes files in one folder, by descriptor: nothing that exists is opened to be written. */
static const struct filter_row filter_unpack[] = {
	{ "openat openat2 getdents64 fstat newfstatat statx lseek pwrite64 ftruncate", .verdict = ALLOW },
	{ "mkdirat symlinkat linkat unlinkat renameat renameat2 fchmod fchmodat fchmodat2 fchown fchownat "
	  "utimensat fsetxattr umask", .verdict = ALLOW },
	/* The same, by the names that the C library uses on amd64. */
	{ "open stat lstat mkdir rmdir symlink link unlink rename chmod chown lchown", .verdict = ALLOW },
	{ "mknodat", .cases = filter_unpack_mknodat },
};

/* The state's worker writes git objects, cached files and refused changes: Landlock decides where.  It has no capability,
 * starts nothing and reaches nobody. */
static const struct filter_row filter_state[] = {
	{ "open openat openat2 getdents64 stat lstat fstat newfstatat statx fstatfs lseek pread64 pwrite64 readlink readlinkat "
	  "access faccessat faccessat2 getcwd fchdir fgetxattr getuid geteuid getgid getegid dup", .verdict = ALLOW },
	{ "mkdir mkdirat symlink symlinkat unlink unlinkat rmdir rename renameat renameat2 link linkat ftruncate fallocate "
	  "copy_file_range chmod fchmod fchmodat utimensat fsync fdatasync syncfs umask", .verdict = ALLOW },
	{ "prlimit64", .cases = filter_own_files },     /* ipc_send() */
};

/* It links, copies and removes files beneath the folder of volumes, and adds to the operator's timeline: Landlock decides
 * which files those are.  It makes no device, starts nothing and has no network. */
static const struct filter_case filter_volume_ioctl[] = {
	{ ALLOW, { IS(1, TCGETS, TERMIOS2, TIOCGWINSZ) } },
	{ KILL,  { END } },
};
static const struct filter_row filter_volume[] = {
	{ "pread64 pwrite64 lseek copy_file_range close dup flock fsync fdatasync syncfs", .verdict = ALLOW },
	{ "open openat openat2 getdents64 stat lstat fstat newfstatat statx fstatfs readlink readlinkat access faccessat "
	  "faccessat2 getcwd", .verdict = ALLOW },
	{ "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 linkat ftruncate fchmod fchmodat fchmodat2 fchown "
	  "fchownat utimensat umask fgetxattr", .verdict = ALLOW },
	/* The same, by the names that the C library uses on amd64. */
	{ "link chmod chown lchown", .verdict = ALLOW },
	{ "ioctl", .cases = filter_volume_ioctl },
	{ "getuid geteuid getgid getegid uname sched_getaffinity", .verdict = ALLOW },
};

/* To find out whether its output is a terminal, and how wide. */
static const struct filter_case filter_audit_ioctl[] = {
	{ ALLOW, { IS(1, TCGETS, TERMIOS2, TIOCGWINSZ) } },
	{ KILL,  { END } },
};
/* It reads timelines, writes to its output, and completes what a killed writer of the operator's
 * timeline left half done: Landlock decides which files those are.  It starts nothing, signals
 * nobody, and has no network. */
static const struct filter_row filter_audit[] = {
	{ "read write readv writev pread64 pwrite64 lseek close dup fcntl flock fsync fdatasync",
	  .verdict = ALLOW },
	{ "open openat openat2 getdents64 stat lstat fstat newfstatat statx readlink readlinkat access "
	  "faccessat faccessat2 getcwd", .verdict = ALLOW },
	{ "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 ftruncate fchmod umask",
	  .verdict = ALLOW },
	{ "ioctl", .cases = filter_audit_ioctl },
	{ "getuid geteuid getgid getegid uname", .verdict = ALLOW },
	/* Calls that the C library makes by itself. */
	{ "brk munmap mremap madvise sysinfo sched_getaffinity futex getrandom clock_gettime "
	  "clock_nanosleep gettimeofday time", .verdict = ALLOW },
	{ "mmap mprotect", .cases = filter_no_exec },
	{ "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall getpid gettid "
	  "tgkill exit exit_group", .verdict = ALLOW },
};

/* To dial, and to draw its progress. */
static const struct filter_case filter_pull_ioctl[] = {
	{ ALLOW, { IS(1, FIONBIO, FIONREAD, TCGETS, TERMIOS2, TIOCGWINSZ) } },
	{ KILL,  { END } },
};
/* It resolves names, dials, and writes blobs: Landlock decides which files those are.  It starts nothing and
 * signals nobody. */
static const struct filter_row filter_pull[] = {
	{ "socket", .cases = filter_dial },
	{ "connect getsockopt setsockopt getsockname getpeername bind", .verdict = ALLOW },
	{ "open openat openat2 stat lstat fstat newfstatat statx fstatfs readlink readlinkat access faccessat "
	  "faccessat2 getdents64 lseek pread64 pwrite64 dup flock", .verdict = ALLOW },
	{ "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat ftruncate fallocate fchmod umask "
	  "fsync fdatasync", .verdict = ALLOW },
	{ "ioctl", .cases = filter_pull_ioctl },
	{ "getuid geteuid getgid getegid uname sched_getaffinity", .verdict = ALLOW },
};

/* It resolves names, dials, and reads and fills the files that it is given.  Landlock lets it open the configuration of name
 * servers, and tokens that others renew. */
static const struct filter_row filter_blobs[] = {
	{ "socket", .cases = filter_dial },
	{ "connect getsockopt setsockopt getsockname getpeername bind", .verdict = ALLOW },
	{ "open openat stat lstat fstat newfstatat statx readlink readlinkat access faccessat faccessat2 lseek pread64 "
	  "pwrite64 ftruncate", .verdict = ALLOW },
	{ "ioctl", .cases = filter_socket_ioctl },
	{ "prlimit64", .cases = filter_own_files },     /* ipc_send() */
	{ "getuid geteuid getgid getegid uname sched_getaffinity", .verdict = ALLOW },
};

/* It resolves names and dials, an engine's Unix socket too: it goes to the folder of that, which it has open.  Landlock
 * lets it read the configuration of name servers, and tokens that others renew. */
static const struct filter_case filter_engine[] = {
	{ ALLOW, { IS(0, AF_INET, AF_INET6), BITS(1, SOCKET_TYPE, SOCK_STREAM, SOCK_DGRAM),
	           IS(2, 0, IPPROTO_TCP, IPPROTO_UDP) } },
	{ ALLOW, { IS(0, AF_UNIX), BITS(1, SOCKET_TYPE, SOCK_STREAM), IS(2, 0) } },
	{ ERRNO(EAFNOSUPPORT), { END } },
};
static const struct filter_row filter_fleet[] = {
	{ "socket", .cases = filter_engine },
	{ "connect getsockopt setsockopt getsockname getpeername bind fchdir", .verdict = ALLOW },
	{ "open openat stat lstat fstat newfstatat statx readlink readlinkat access faccessat faccessat2 lseek pread64",
	  .verdict = ALLOW },
	{ "ioctl", .cases = filter_socket_ioctl },
	{ "prlimit64", .cases = filter_own_files },     /* ipc_send() */
	{ "getuid geteuid getgid getegid uname sched_getaffinity", .verdict = ALLOW },
};

/* It resolves names, dials, and accepts the browser's connections.  It starts nothing, and Landlock lets it read the
 * configuration of name servers alone. */
static const struct filter_case filter_login_ioctl[] = {
	{ ALLOW, { IS(1, FIONBIO, FIONREAD) } },
	{ KILL,  { END } },
};
static const struct filter_row filter_login[] = {
	{ "socket", .cases = filter_dial },
	{ "accept4 connect getsockopt setsockopt getsockname getpeername bind", .verdict = ALLOW },
	{ "open openat stat lstat fstat newfstatat statx readlink readlinkat access faccessat faccessat2 lseek pread64",
	  .verdict = ALLOW },
	{ "ioctl", .cases = filter_login_ioctl },
	{ "getuid geteuid getgid getegid uname sched_getaffinity", .verdict = ALLOW },
};

/* It accepts workers or dials the service, and keeps whom it knows in its own folder, which Landlock lets it change.  It starts
 * nothing and signals nobody. */
static const struct filter_row filter_link[] = {
	{ "socket", .cases = filter_dial },
	{ "socketpair", .cases = filter_local_pair },
	{ "accept4 connect getsockopt setsockopt getsockname getpeername bind", .verdict = ALLOW },
	{ "open openat stat lstat fstat newfstatat statx readlink readlinkat access faccessat faccessat2 getdents64 lseek "
	  "pread64", .verdict = ALLOW },
	{ "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 ftruncate fchmod fsync fdatasync umask",
	  .verdict = ALLOW },
	{ "ioctl", .cases = filter_login_ioctl },
	{ "prlimit64", .cases = filter_own_files },     /* ipc_send() */
	{ "getuid geteuid getgid getegid uname sched_getaffinity", .verdict = ALLOW },
};

/* It reads files beneath the folders that it has, and writes to a pipe.  The supervisor starts it too, so each of
 * these is in the supervisor's table. */
static const struct filter_row filter_layer[] = {
	{ "read write readv writev pread64 lseek close fcntl", .verdict = ALLOW },
	{ "openat openat2 getdents64 fstat newfstatat statx readlinkat", .verdict = ALLOW },
	{ "stat lstat readlink", .verdict = ALLOW },
	{ "fgetxattr flistxattr", .verdict = ALLOW },
	/* Calls that the C library makes by itself: memory (qsort() asks how much there is), locks, assert(). */
	{ "brk munmap mremap madvise sysinfo futex getrandom clock_gettime time", .verdict = ALLOW },
	{ "mmap mprotect", .cases = filter_no_exec },
	{ "rt_sigaction rt_sigprocmask rt_sigreturn sigaltstack restart_syscall getpid gettid "
	  "tgkill exit exit_group", .verdict = ALLOW },
};

/* It reads notifications from the kernel and writes answers to it, and speaks to one process. */
static const struct filter_case filter_answerer_ioctl[] = {
	{ ALLOW, { IS(1, SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND) } },
	{ KILL,  { END } },
};
static const struct filter_row filter_answerer[] = {
	{ "recvfrom sendto poll ppoll pause futex close restart_syscall exit exit_group", .verdict = ALLOW },
	{ "ioctl", .cases = filter_answerer_ioctl },
	/* assert() */
	{ "write writev rt_sigaction rt_sigprocmask rt_sigreturn getpid gettid tgkill", .verdict = ALLOW },
	{ "mmap", .cases = filter_no_exec },
};
#endif
