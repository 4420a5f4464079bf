/* filter_table.h - the system calls that each profile may make, row by row.
 *
 * Only filter_gen.c (which turns this into BPF) and the tests read it.  A row answers for the
 * system calls it names, either with one verdict or with cases, the first that fits.  If two tables
 * of a profile name the same call, the earlier table decides.
 *
 * Every tested argument is tested by its lower 32 bits: each of them is an int, an unsigned int or
 * flags of which the kernel itself uses no more, so the upper half can neither open nor close
 * anything.  The one pointer that is tested, for being NULL, is tested in both halves. */
#ifndef CLOISTER_FILTER_TABLE_H
#define CLOISTER_FILTER_TABLE_H
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/kvm.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "confine/filter.h"

/* ---- how to read a row -------------------------------------------------------- */

#define ALLOW     SECCOMP_RET_ALLOW
#define KILL      SECCOMP_RET_KILL_PROCESS
#define ERRNO(e)  (SECCOMP_RET_ERRNO | (e))
#define DENY      ERRNO(EPERM)      /* known, and dangerous */
#define ABSENT    ERRNO(ENOSYS)     /* programs fall back as on an older kernel */
#define NONE      ERRNO(0)          /* not done, and answered with a zero */

/* The mutant build has one more filter for each of these, with its rows opened. */
enum filter_group {
	GROUP_NONE,
	GROUP_CLONE, GROUP_SOCKET, GROUP_IOCTL, GROUP_ARCH, GROUP_KEYRING, GROUP_IOURING,
	GROUP_BPF, GROUP_PERF, GROUP_UFFD, GROUP_MOUNT, GROUP_NOTIFY, GROUP_HANDLE,
	GROUP_PIDFD, GROUP_PERSONALITY, GROUP_PRCTL, GROUP_MKNOD, GROUP_FANOTIFY, GROUP_CORE,
	GROUP_SETID, GROUP_AIO, GROUP_LEASE,
	GROUPS
};

#define FILTER_TESTS_MAX 3
struct filter_test {
	int arg;                    /* 0 to 5; with 8 added: its upper half */
	uint32_t mask;
	const uint32_t *values;     /* argument & mask is one of these */
	size_t count;
};
struct filter_case {            /* fits if all its tests do; one without tests ends the list */
	uint32_t verdict;
	struct filter_test tests[FILTER_TESTS_MAX];
};
struct filter_row {
	const char *names;          /* separated by one space */
	uint32_t verdict;           /* or: */
	const struct filter_case *cases;
	enum filter_group group;
};

#define VALUES(...) (const uint32_t[]){ __VA_ARGS__ }, \
	sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t)
#define IS(arg, ...)           { arg, 0xffffffff, VALUES(__VA_ARGS__) }
#define BITS(arg, mask, ...)   { arg, mask, VALUES(__VA_ARGS__) }
#define NO_BITS(arg, mask)     { arg, mask, VALUES(0) }
#define ONLY_BITS(arg, mask)   { arg, ~(uint32_t)(mask), VALUES(0) }
#define IS_NULL(arg)           NO_BITS(arg, 0xffffffff), NO_BITS((arg) | 8, 0xffffffff)
#define END                    { 0 }

/* ---- the agent: arguments ------------------------------------------------------ */

#define NAMESPACE_FLAGS (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | \
	CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* A user namespace of one's own opens most of the kernel's privileged code, where most escapes of
 * recent years began. */
static const struct filter_case filter_clone[] = {
	{ ALLOW, { NO_BITS(0, NAMESPACE_FLAGS) } },
	{ DENY,  { END } },
};
static const struct filter_case filter_unshare[] = {
	{ ALLOW, { ONLY_BITS(0, CLONE_FILES | CLONE_FS | CLONE_SYSVSEM | CLONE_VM |
	                        CLONE_SIGHAND | CLONE_THREAD) } },
	{ DENY,  { END } },
};

/* The type is tested too: SOCK_SEQPACKET with protocol 0 would be SCTP.  The error is that of a
 * kernel without the family: PAM goes on if NETLINK_AUDIT is not supported, but gives up if it is
 * forbidden. */
#define SOCKET_TYPE (~(uint32_t)(SOCK_CLOEXEC | SOCK_NONBLOCK))
static const struct filter_case filter_socket[] = {
	{ ALLOW, { IS(0, AF_UNIX) } },
	{ ALLOW, { IS(0, AF_INET, AF_INET6), BITS(1, SOCKET_TYPE, SOCK_STREAM, SOCK_DGRAM),
	           IS(2, 0, IPPROTO_TCP, IPPROTO_UDP) } },
	{ ALLOW, { IS(0, AF_NETLINK), IS(2, NETLINK_ROUTE) } },
	{ ERRNO(EAFNOSUPPORT), { END } },
};
static const struct filter_case filter_socketpair[] = {
	{ ALLOW, { IS(0, AF_UNIX) } },
	{ ERRNO(EAFNOSUPPORT), { END } },
};

/* The only list of forbidden values: a list of the ioctls that programs need has no end.  The
 * cell's /dev keeps devices out; this is about the terminal. */
static const struct filter_case filter_ioctl[] = {
	{ DENY,  { IS(1, TIOCSTI,           /* types on the terminal as its owner */
	                 TIOCLINUX,         /* the same by selecting and pasting */
	                 TIOCSETD,          /* loads line disciplines, a source of holes */
	                 TIOCCONS,          /* takes the console's output */
	                 TIOCSLCKTRMIOS, TIOCVHANGUP, TIOCSSERIAL) } },
	{ ALLOW, { END } },
};

/* Query, reset, and one flag without which programs under ThreadSanitizer do not start and gdb
 * cannot repeat a run.  It weakens only the caller itself.  The rest maps page zero, makes data
 * executable, or emulates the quirks of old systems. */
static const struct filter_case filter_personality[] = {
	{ ALLOW, { IS(0, 0, 0xffffffff, ADDR_NO_RANDOMIZE) } },
	{ DENY,  { END } },
};

/* The limit on core files is 1, at which the kernel starts no crash handler.  At 0 it would start
 * the host's, as the host's root, on the agent's memory.  Programs that guard secrets ask for 0 and
 * give up if it is refused.  So the call reports success; there are no core files either way. */
static const struct filter_case filter_setrlimit[] = {
	{ ERRNO(0), { IS(0, RLIMIT_CORE) } },
	{ ALLOW, { END } },
};
static const struct filter_case filter_prlimit[] = {
	{ ALLOW, { IS_NULL(2) } },
	{ ERRNO(0), { IS(1, RLIMIT_CORE) } },
	{ ALLOW, { END } },
};

/* The agent's own filters can only narrow cloister's.  But if two filters notify, the later one's
 * listener answers, and may let the call go on. */
static const struct filter_case filter_seccomp[] = {
	{ ALLOW, { IS(0, SECCOMP_SET_MODE_FILTER),
	           ONLY_BITS(1, SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG |
	                        SECCOMP_FILTER_FLAG_SPEC_ALLOW) } },
	{ ALLOW, { IS(0, SECCOMP_SET_MODE_STRICT, SECCOMP_GET_ACTION_AVAIL,
	                 SECCOMP_GET_NOTIF_SIZES), IS(1, 0) } },
	/* As the kernel answers: libseccomp asks so whether the call exists. */
	{ ERRNO(EINVAL), { IS(0, SECCOMP_SET_MODE_STRICT) } },
	{ DENY,  { END } },
};

/* A set-id file is of no use in the cell, where mounts and no_new_privs make the bits void.  In a
 * folder that the operator granted, anyone else on the host could use it to become the operator. */
#define SETID (S_ISUID | S_ISGID)
#define HAS_SETID(arg) BITS(arg, SETID, S_ISUID, S_ISGID, SETID)
#define TMPFILE 020000000       /* the bit of O_TMPFILE that is its own */
#define CREATES(arg) BITS(arg, O_CREAT | TMPFILE, O_CREAT, TMPFILE, O_CREAT | TMPFILE)
static const struct filter_case filter_open[] = {
	{ DENY,  { CREATES(1), HAS_SETID(2) } },
	{ ALLOW, { END } },
};
static const struct filter_case filter_openat[] = {
	{ DENY,  { CREATES(2), HAS_SETID(3) } },
	{ ALLOW, { END } },
};
static const struct filter_case filter_chmod[] = {
	{ DENY,  { HAS_SETID(1) } },
	{ ALLOW, { END } },
};
static const struct filter_case filter_fchmodat[] = {
	{ DENY,  { HAS_SETID(2) } },
	{ ALLOW, { END } },
};

/* A lease on a file of the host, even one that is only readable, blocks every process that opens
 * the file there.  A notification reveals what others do. */
static const struct filter_case filter_fcntl[] = {
	{ DENY,  { IS(1, F_SETLEASE, F_NOTIFY) } },
	{ ALLOW, { END } },
};

/* No type at all means a regular file. */
static const struct filter_case filter_mknod[] = {
	{ ALLOW, { BITS(1, S_IFMT | SETID, 0, S_IFREG, S_IFIFO, S_IFSOCK) } },
	{ DENY,  { END } },
};
static const struct filter_case filter_mknodat[] = {
	{ ALLOW, { BITS(2, S_IFMT | SETID, 0, S_IFREG, S_IFIFO, S_IFSOCK) } },
	{ DENY,  { END } },
};

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_GET_MDWE 66
#endif
#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif
#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856
#endif
#ifndef PR_GET_SHADOW_STACK_STATUS
#define PR_GET_SHADOW_STACK_STATUS 74
#define PR_SET_SHADOW_STACK_STATUS 75
#define PR_LOCK_SHADOW_STACK_STATUS 76
#endif
/* For the rest, the error is that of a kernel that does not know the option. */
static const struct filter_case filter_prctl[] = {
	{ ALLOW, { IS(0, PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_SET_PDEATHSIG,
	                 PR_GET_PDEATHSIG, PR_SET_DUMPABLE, PR_GET_DUMPABLE,
	                 PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_SET_SECCOMP,
	                 PR_GET_SECCOMP, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_CAP_AMBIENT,
	                 PR_SET_KEEPCAPS, PR_GET_KEEPCAPS, PR_SET_SECUREBITS,
	                 PR_GET_SECUREBITS, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER,
	                 PR_SET_PTRACER, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK,
	                 PR_SET_TIMING, PR_GET_TIMING, PR_GET_TID_ADDRESS,
	                 PR_SET_THP_DISABLE, PR_GET_THP_DISABLE, PR_GET_AUXV,
	                 PR_SET_TSC, PR_GET_TSC, PR_GET_SPECULATION_CTRL,
	                 PR_SET_SPECULATION_CTRL, PR_SET_SYSCALL_USER_DISPATCH,
	                 PR_SET_MDWE, PR_GET_MDWE, PR_GET_SHADOW_STACK_STATUS,
	                 PR_SET_SHADOW_STACK_STATUS, PR_LOCK_SHADOW_STACK_STATUS,
	                 PR_SVE_SET_VL, PR_SVE_GET_VL, PR_SME_SET_VL, PR_SME_GET_VL,
	                 PR_PAC_RESET_KEYS, PR_PAC_SET_ENABLED_KEYS, PR_PAC_GET_ENABLED_KEYS,
	                 PR_SET_TAGGED_ADDR_CTRL, PR_GET_TAGGED_ADDR_CTRL) } },
	{ DENY,  { IS(0, PR_SET_MM,             /* forges /proc/self/exe and the argv others see */
	                 PR_SET_MEMORY_MERGE,   /* merged pages reveal what other processes' memory holds */
	                 PR_SCHED_CORE,         /* idles a core's siblings for everybody */
	                 PR_MCE_KILL, PR_SET_IO_FLUSHER) } },
	{ ERRNO(EINVAL), { END } },
};

/* ---- the agent: system calls ---------------------------------------------------- */

static const struct filter_row filter_agent[] = {
	/* Descriptors and bytes. */
	{ "read readv pread64 preadv preadv2 write writev pwrite64 pwritev pwritev2 lseek "
	  "sendfile splice tee vmsplice copy_file_range readahead fadvise64", .verdict = ALLOW },
	{ "fcntl", .cases = filter_fcntl, .group = GROUP_LEASE },
	{ "close close_range dup dup2 dup3 flock pipe pipe2", .verdict = ALLOW },
	{ "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait "
	  "epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4", .verdict = ALLOW },
	{ "timerfd_create timerfd_settime timerfd_gettime inotify_init inotify_init1 "
	  "inotify_add_watch inotify_rm_watch", .verdict = ALLOW },
	/* The old asynchronous interface, for databases: it is small and long settled. */
	/* Counted for the whole machine, so one cell could leave none for the others; programs fall
	 * back to threads. */
	{ "io_setup io_destroy io_submit io_cancel io_getevents io_pgetevents",
	  .verdict = ABSENT, .group = GROUP_AIO },

	/* Files: the mounts and Landlock decide which can be reached. */
	/* A queue is a file, too, which an overlay could copy. */
	{ "open mq_open", .cases = filter_open, .group = GROUP_SETID },
	{ "openat", .cases = filter_openat, .group = GROUP_SETID },
	/* Its mode is in memory, where a filter cannot look. */
	{ "openat2", .verdict = ABSENT, .group = GROUP_SETID },
	{ "creat chmod fchmod", .cases = filter_chmod, .group = GROUP_SETID },
	{ "fchmodat fchmodat2", .cases = filter_fchmodat, .group = GROUP_SETID },
	{ "truncate ftruncate fallocate sync syncfs fsync "
	  "fdatasync sync_file_range", .verdict = ALLOW },
	{ "stat lstat fstat newfstatat statx statfs fstatfs access faccessat faccessat2 "
	  "readlink readlinkat getdents getdents64 getcwd chdir fchdir umask", .verdict = ALLOW },
	{ "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink "
	  "symlinkat", .verdict = ALLOW },
	{ "chown fchown lchown fchownat utime utimes "
	  "utimensat futimesat", .verdict = ALLOW },
	{ "setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr "
	  "flistxattr removexattr lremovexattr fremovexattr setxattrat getxattrat listxattrat "
	  "removexattrat", .verdict = ALLOW },
	/* A handle by itself opens nothing; mountpoint(1) and file watchers compare them. */
	{ "name_to_handle_at", .verdict = ALLOW },

	/* Memory. */
	{ "brk mmap munmap mremap mprotect madvise msync mincore mlock mlock2 munlock mlockall "
	  "munlockall mseal memfd_create pkey_alloc pkey_free pkey_mprotect map_shadow_stack "
	  "process_madvise process_mrelease", .verdict = ALLOW },
	/* Placement of one's own pages; libnuma, the JVM and numeric libraries ask. */
	{ "get_mempolicy set_mempolicy mbind", .verdict = ALLOW },

	/* Processes, threads, signals, identity (there are no capabilities to gain). */
	{ "fork vfork execve execveat exit exit_group wait4 waitid set_tid_address "
	  "set_robust_list get_robust_list futex futex_waitv futex_wait futex_wake "
	  "futex_requeue rseq membarrier arch_prctl restart_syscall", .verdict = ALLOW },
	{ "kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigpending rt_sigqueueinfo "
	  "rt_tgsigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait sigaltstack pause "
	  "pidfd_open pidfd_send_signal", .verdict = ALLOW },
	{ "getpid getppid gettid getpgid setpgid getpgrp getsid setsid getuid geteuid getgid "
	  "getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid "
	  "setresgid setfsuid setfsgid setgroups capget capset", .verdict = ALLOW },
	{ "setrlimit", .cases = filter_setrlimit, .group = GROUP_CORE },
	{ "prlimit64", .cases = filter_prlimit, .group = GROUP_CORE },
	{ "getrlimit getrusage times getpriority setpriority ioprio_get "
	  "ioprio_set sched_yield sched_getaffinity sched_setaffinity sched_getattr "
	  "sched_setattr sched_getparam sched_setparam sched_getscheduler sched_setscheduler "
	  "sched_get_priority_max sched_get_priority_min sched_rr_get_interval getcpu",
	  .verdict = ALLOW },
	/* Debuggers, strace and LeakSanitizer need these.  They reach only processes that the
	 * caller may already signal: the pid namespace and the user namespace are their bounds. */
	{ "ptrace process_vm_readv process_vm_writev kcmp", .verdict = ALLOW },
	/* An agent that walls in its own children makes its cell stronger. */
	{ "landlock_create_ruleset landlock_add_rule landlock_restrict_self", .verdict = ALLOW },

	/* Time and the machine's name. */
	{ "nanosleep clock_nanosleep clock_gettime clock_getres gettimeofday time alarm "
	  "getitimer setitimer timer_create timer_settime timer_gettime timer_getoverrun "
	  "timer_delete uname sysinfo getrandom", .verdict = ALLOW },

	/* Sockets that exist, and System V and POSIX queues: all in the cell's namespaces. */
	{ "bind listen accept accept4 connect getsockname getpeername getsockopt setsockopt "
	  "shutdown sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg", .verdict = ALLOW },
	{ "shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv "
	  "msgctl mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr",
	  .verdict = ALLOW },

	/* Decided by their arguments. */
	{ "clone", .cases = filter_clone, .group = GROUP_CLONE },
	{ "unshare", .cases = filter_unshare, .group = GROUP_CLONE },
	{ "socket", .cases = filter_socket, .group = GROUP_SOCKET },
	{ "socketpair", .cases = filter_socketpair, .group = GROUP_SOCKET },
	{ "ioctl", .cases = filter_ioctl, .group = GROUP_IOCTL },
	{ "personality", .cases = filter_personality, .group = GROUP_PERSONALITY },
	{ "prctl", .cases = filter_prctl, .group = GROUP_PRCTL },
	{ "seccomp", .cases = filter_seccomp, .group = GROUP_NOTIFY },
	{ "mknod", .cases = filter_mknod, .group = GROUP_MKNOD },
	{ "mknodat", .cases = filter_mknodat, .group = GROUP_MKNOD },

	/* Absent, as on an older kernel, so that programs fall back.  clone3's flags are in memory,
	 * where a filter cannot see them; io_uring does what filters forbid. */
	{ "clone3", .verdict = ABSENT },
	{ "io_uring_setup io_uring_enter io_uring_register",
	  .verdict = ABSENT, .group = GROUP_IOURING },
	/* Also absent, because they are not listed: cachestat reveals what others read from shared
	 * files; memfd_secret hides memory from the host; statmount and listmount reveal mounts;
	 * remap_file_pages, sysfs, ustat, uselib and the like are obsolete. */

	/* Dangerous, or not needed in a cell. */
	{ "setns", .verdict = DENY, .group = GROUP_CLONE },
	{ "mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig "
	  "fsmount fspick mount_setattr", .verdict = DENY, .group = GROUP_MOUNT },
	{ "bpf", .verdict = DENY, .group = GROUP_BPF },
	{ "perf_event_open", .verdict = DENY, .group = GROUP_PERF },
	/* Stops the kernel in mid-copy, the usual tool to win its races. */
	{ "userfaultfd", .verdict = DENY, .group = GROUP_UFFD },
	/* Keys are kept per user id, which cells of one user share. */
	{ "keyctl add_key request_key", .verdict = DENY, .group = GROUP_KEYRING },
	/* Opens by inode number, past every mount and path. */
	{ "open_by_handle_at", .verdict = DENY, .group = GROUP_HANDLE },
	{ "pidfd_getfd", .verdict = DENY, .group = GROUP_PIDFD },
	/* Watches and blocks other people's file accesses. */
	{ "fanotify_init fanotify_mark", .verdict = DENY, .group = GROUP_FANOTIFY },
	/* Other processes' pages; placement of one's own is above. */
	{ "move_pages migrate_pages set_mempolicy_home_node", .verdict = DENY },
	{ "sethostname setdomainname", .verdict = DENY },
	/* The machine itself. */
	{ "kexec_load kexec_file_load reboot swapon swapoff init_module finit_module "
	  "delete_module settimeofday clock_settime adjtimex clock_adjtime acct quotactl "
	  "quotactl_fd nfsservctl iopl ioperm modify_ldt lookup_dcookie syslog vhangup",
	  .verdict = DENY },
};

/* For bubblewrap, a browser's own sandbox and the like.  The namespaces that they make are owned by
 * the cell's, so none of this reaches out of it.  The cost is a larger attack surface of the
 * kernel. */
static const struct filter_row filter_nested[] = {
	{ "clone unshare setns", .verdict = ALLOW, .group = GROUP_CLONE },
	{ "mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig "
	  "fsmount fspick mount_setattr", .verdict = ALLOW, .group = GROUP_MOUNT },
	{ "sethostname setdomainname", .verdict = ALLOW },
};

/* For cells that can write a folder of the host.  In a user namespace of its own an agent may give
 * a program capabilities.  In a folder of root's, which the agent owns inside, these are valid on
 * the host.  A filter cannot see which attribute is set, because that is in memory.  So the error
 * is that of a file system without attributes. */
static const struct filter_row filter_beside[] = {
	{ "setxattr lsetxattr fsetxattr setxattrat", .verdict = ERRNO(EOPNOTSUPP),
	  .group = GROUP_SETID },
};

/* For cells that cannot.  bubblewrap as Debian 13 builds it does not start without this.  A set-id
 * file made this way is in memory and ends with the cell: changes are collected from there without
 * the bits. */
static const struct filter_row filter_apart[] = {
	{ "openat2", .verdict = ALLOW, .group = GROUP_SETID },
};

/* ---- the helpers: a call that is not listed kills --------------------------------- */

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
/* The courier resolves and dials, and reads the certificates that it trusts: the mounts and
 * Landlock decide which files it can read. */
static const struct filter_row filter_courier[] = {
	{ "socket", .cases = filter_dial },
	{ "connect getsockopt setsockopt getsockname getpeername bind", .verdict = ALLOW },
	{ "open openat stat lstat fstat newfstatat statx readlink readlinkat access faccessat "
	  "faccessat2 getdents64 lseek pread64 getuid geteuid getgid getegid uname",
	  .verdict = ALLOW },
	{ "ioctl", .cases = filter_socket_ioctl },
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
static const struct filter_case filter_own_files[] = {
	{ ALLOW, { IS(0, 0), IS(1, RLIMIT_NOFILE) } },
	{ KILL,  { END } },
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

/* Files come over its one socket, and the answer goes back there.  It may raise its time limit for
 * the next one. */
static const struct filter_case filter_own_time[] = {
	{ ALLOW, { IS(0, 0), IS(1, RLIMIT_CPU) } },
	{ KILL,  { END } },
};
static const struct filter_row filter_compare[] = {
	{ "prlimit64", .cases = filter_own_time },
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

#ifdef CLOISTER_SANITIZED
/* The sanitizers' run-time, a dynamic program's start, and the search for leaks. */
static const struct filter_row filter_sanitizer[] = {
	{ "mmap mprotect clone prctl", .verdict = ALLOW },
	{ "open openat stat access readlink readlinkat faccessat getcwd sched_getaffinity "
	  "sched_yield getrusage getrlimit prlimit64 sysinfo uname gettimeofday time munlock "
	  "mlock msync mincore", .verdict = ALLOW },
	{ "ptrace process_vm_readv wait4 kill tkill pipe2 dup2 dup3 nanosleep getppid getuid "
	  "geteuid getgid set_robust_list set_tid_address rseq arch_prctl personality",
	  .verdict = ALLOW },
	/* Reports ask the terminal for colours. */
	{ "ioctl", .verdict = ALLOW },
};
#endif

/* ---- the profiles --------------------------------------------------------------- */

#define FILTER_TABLES_MAX 3
#define TABLE(t) { t, sizeof(t) / sizeof((t)[0]) }
static const struct filter_profile_spec {
	const char *name;
	uint32_t otherwise;
	struct { const struct filter_row *rows; size_t count; } tables[FILTER_TABLES_MAX];
} filter_profiles[FILTER_PROFILES] = {
	[FILTER_DEFAULT] = { "default", ABSENT, { TABLE(filter_agent) } },
	[FILTER_MONITOR] = { "monitor", ABSENT, { TABLE(filter_monitor) } },
	[FILTER_HYPERVISOR] = { "hypervisor", ABSENT, { TABLE(filter_hypervisor), TABLE(filter_monitor) } },
	[FILTER_SHARE] = { "share", ABSENT, { TABLE(filter_share), TABLE(filter_agent) } },
	[FILTER_DISK] = { "disk", ABSENT, { TABLE(filter_disk) } },
	[FILTER_SHARE_RUST] = { "share_rust", ABSENT, { TABLE(filter_share_rust),
		TABLE(filter_share), TABLE(filter_agent) } },
	[FILTER_NESTED] = { "nested", ABSENT, { TABLE(filter_beside),
		TABLE(filter_nested), TABLE(filter_agent) } },
	[FILTER_NESTED_APART] = { "nested_apart", ABSENT, { TABLE(filter_apart),
		TABLE(filter_nested), TABLE(filter_agent) } },
#ifdef CLOISTER_SANITIZED
	[FILTER_SUPERVISOR] = { "supervisor", KILL, { TABLE(filter_sanitizer),
		TABLE(filter_supervisor), TABLE(filter_collect) } },
	[FILTER_COLLECT] = { "collect", KILL, { TABLE(filter_sanitizer), TABLE(filter_collect) } },
	[FILTER_AUDIT] = { "audit", KILL, { TABLE(filter_sanitizer), TABLE(filter_audit) } },
#define EGRESS(name) KILL, { TABLE(filter_sanitizer), TABLE(filter_##name), TABLE(filter_egress) }
#else
	[FILTER_SUPERVISOR] = { "supervisor", KILL, { TABLE(filter_supervisor),
		TABLE(filter_collect) } },
	[FILTER_COLLECT] = { "collect", KILL, { TABLE(filter_collect) } },
	[FILTER_AUDIT] = { "audit", KILL, { TABLE(filter_audit) } },
#define EGRESS(name) KILL, { TABLE(filter_##name), TABLE(filter_egress) }
#endif
	[FILTER_GATE] = { "gate", EGRESS(gate) },
	[FILTER_COURIER] = { "courier", EGRESS(courier) },
	[FILTER_INSPECT] = { "inspect", EGRESS(inspect) },
	[FILTER_PUBLISH] = { "publish", EGRESS(publish) },
	[FILTER_MCP] = { "mcp", EGRESS(mcp) },
	[FILTER_COMPARE] = { "compare", EGRESS(compare) },
};

/* The names of the groups in CLOISTER_OFF; see control.h. */
static const char *const filter_groups[GROUPS] = {
	[GROUP_CLONE] = "seccomp-clone",
	[GROUP_SOCKET] = "seccomp-socket",
	[GROUP_IOCTL] = "seccomp-ioctl",
	[GROUP_ARCH] = "seccomp-arch",          /* no rows: the check in front of them */
	[GROUP_KEYRING] = "seccomp-keyring",
	[GROUP_IOURING] = "seccomp-iouring",
	[GROUP_BPF] = "seccomp-bpf",
	[GROUP_PERF] = "seccomp-perf",
	[GROUP_UFFD] = "seccomp-uffd",
	[GROUP_MOUNT] = "seccomp-mount",
	[GROUP_NOTIFY] = "seccomp-notify",
	[GROUP_HANDLE] = "seccomp-handle",
	[GROUP_PIDFD] = "seccomp-pidfd",
	[GROUP_PERSONALITY] = "seccomp-personality",
	[GROUP_PRCTL] = "seccomp-prctl",
	[GROUP_MKNOD] = "seccomp-mknod",
	[GROUP_FANOTIFY] = "seccomp-fanotify", [GROUP_CORE] = "seccomp-core",
	[GROUP_SETID] = "seccomp-setid", [GROUP_AIO] = "seccomp-aio", [GROUP_LEASE] = "seccomp-lease",
};

/* Numbers of calls that are newer than the oldest supported libseccomp.  Since 5.1 all
 * architectures number new calls alike. */
static const struct { const char *name; int nr; } filter_numbers[] = {
	{ "pidfd_send_signal", 424 }, { "io_uring_setup", 425 }, { "io_uring_enter", 426 },
	{ "io_uring_register", 427 }, { "open_tree", 428 }, { "move_mount", 429 },
	{ "fsopen", 430 }, { "fsconfig", 431 }, { "fsmount", 432 }, { "fspick", 433 },
	{ "pidfd_open", 434 }, { "clone3", 435 }, { "close_range", 436 }, { "openat2", 437 },
	{ "pidfd_getfd", 438 }, { "faccessat2", 439 }, { "process_madvise", 440 },
	{ "epoll_pwait2", 441 }, { "mount_setattr", 442 }, { "quotactl_fd", 443 },
	{ "landlock_create_ruleset", 444 }, { "landlock_add_rule", 445 },
	{ "landlock_restrict_self", 446 }, { "process_mrelease", 448 }, { "futex_waitv", 449 },
	{ "set_mempolicy_home_node", 450 }, { "fchmodat2", 452 }, { "map_shadow_stack", 453 },
	{ "futex_wake", 454 }, { "futex_wait", 455 }, { "futex_requeue", 456 },
	{ "mseal", 462 }, { "setxattrat", 463 }, { "getxattrat", 464 }, { "listxattrat", 465 },
	{ "removexattrat", 466 }, { "open_tree_attr", 467 },
};
#endif
