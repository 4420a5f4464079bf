/* filter_agent.h - the system calls of an agent: see filter_table.h. */
#ifndef CLOISTER_FILTER_AGENT_H
#define CLOISTER_FILTER_AGENT_H
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "confine/filter_row.h"

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
#define PRCTL_ALLOWED \
	PR_SET_NAME, PR_GET_NAME, PR_SET_VMA, PR_SET_PDEATHSIG, \
	PR_GET_PDEATHSIG, PR_SET_DUMPABLE, PR_GET_DUMPABLE, \
	PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS, PR_SET_SECCOMP, \
	PR_GET_SECCOMP, PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_CAP_AMBIENT, \
	PR_SET_KEEPCAPS, PR_GET_KEEPCAPS, PR_SET_SECUREBITS, \
	PR_GET_SECUREBITS, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER, \
	PR_SET_PTRACER, PR_SET_TIMERSLACK, PR_GET_TIMERSLACK, \
	PR_SET_TIMING, PR_GET_TIMING, PR_GET_TID_ADDRESS, \
	PR_SET_THP_DISABLE, PR_GET_THP_DISABLE, PR_GET_AUXV, \
	PR_SET_TSC, PR_GET_TSC, PR_GET_SPECULATION_CTRL, \
	PR_SET_SPECULATION_CTRL, PR_SET_SYSCALL_USER_DISPATCH, \
	PR_SET_MDWE, PR_GET_MDWE, PR_GET_SHADOW_STACK_STATUS, \
	PR_SET_SHADOW_STACK_STATUS, PR_LOCK_SHADOW_STACK_STATUS, \
	PR_SVE_SET_VL, PR_SVE_GET_VL, PR_SME_SET_VL, PR_SME_GET_VL, \
	PR_PAC_RESET_KEYS, PR_PAC_SET_ENABLED_KEYS, PR_PAC_GET_ENABLED_KEYS, \
	PR_SET_TAGGED_ADDR_CTRL, PR_GET_TAGGED_ADDR_CTRL
#define PRCTL_FORBIDDEN \
	PR_SET_MM,              /* forges /proc/self/exe and the argv others see */ \
	PR_SET_MEMORY_MERGE,    /* merged pages reveal what other processes' memory holds */ \
	PR_SCHED_CORE,          /* idles a core's siblings for everybody */ \
	PR_MCE_KILL, PR_SET_IO_FLUSHER
/* For the rest, the error is that of a kernel that does not know the option. */
static const struct filter_case filter_prctl[] = {
	{ ALLOW, { IS(0, PRCTL_ALLOWED) } },
	{ DENY,  { IS(0, PRCTL_FORBIDDEN) } },
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

/* ---- a step of a build ------------------------------------------------------------ */

/* Packages have set-id programs.  The files are those of an image, on the cell's own file system, where the bits have no
 * effect, and become entries of an archive. */
static const struct filter_row filter_build[] = {
	{ "open mq_open openat creat chmod fchmod fchmodat fchmodat2", .verdict = ALLOW },
};

/* An ordinary user's cell has one id.  Package managers give files to others and become others, and give up if they
 * cannot: so these calls report success and do nothing. */
static const struct filter_row filter_alone[] = {
	{ "chown fchown lchown fchownat setgroups setuid setgid setreuid setregid setresuid setresgid",
	  .verdict = NONE },
};
#endif
