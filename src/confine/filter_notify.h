/* filter_notify.h - the agent's calls that are reported before they are done: see filter_table.h.
 *
 * These rows are read only for calls that the agent's tables allow: NOTIFY has them reported, ALLOW
 * does not.  A call that the tables refuse is reported too, unless filter_quiet names it.
 *
 * A report stops the caller for some microseconds.  So a call that programs make often is reported
 * only if its arguments show that it matters. */
#ifndef CLOISTER_FILTER_NOTIFY_H
#define CLOISTER_FILTER_NOTIFY_H
#include <fcntl.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <signal.h>

#include "confine/filter_agent.h"
#include "confine/filter_row.h"

/* O_CREAT and O_TRUNC change files even if the file is only to be read. */
#define WRITES(arg) BITS(arg, O_ACCMODE, O_WRONLY, O_RDWR, O_ACCMODE)
#define MAKES(arg)  BITS(arg, O_CREAT | O_TRUNC, O_CREAT, O_TRUNC, O_CREAT | O_TRUNC)
static const struct filter_case filter_notify_open[] = {
	{ NOTIFY, { WRITES(1) } },
	{ NOTIFY, { MAKES(1) } },
	{ ALLOW,  { END } },
};
static const struct filter_case filter_notify_openat[] = {
	{ NOTIFY, { WRITES(2) } },
	{ NOTIFY, { MAKES(2) } },
	{ ALLOW,  { END } },
};

/* The requests that make a process the tracer of another. */
static const struct filter_case filter_notify_ptrace[] = {
	{ NOTIFY, { IS(0, PTRACE_TRACEME, PTRACE_ATTACH, PTRACE_SEIZE) } },
	{ ALLOW,  { END } },
};

/* Signal 0 is none. */
static const struct filter_case filter_notify_kill[] = {
	{ ALLOW,  { IS(1, 0) } },
	{ NOTIFY, { END } },
};
/* Language runtimes signal their own threads often, with other signals than these. */
#define ENDING SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM, SIGSTOP
static const struct filter_case filter_notify_tkill[] = {
	{ NOTIFY, { IS(1, ENDING) } },
	{ ALLOW,  { END } },
};
static const struct filter_case filter_notify_tgkill[] = {
	{ NOTIFY, { IS(2, ENDING) } },
	{ ALLOW,  { END } },
};

/* Programs that could be set-id give rights up in vain.  Only root has any to gain. */
static const struct filter_case filter_notify_setid[] = {
	{ NOTIFY, { IS(0, 0) } },
	{ NOTIFY, { IS(1, 0) } },
	{ NOTIFY, { IS(2, 0) } },
	{ ALLOW,  { END } },
};

static const struct filter_case filter_notify_clone[] = {
	{ ALLOW,  { NO_BITS(0, NAMESPACE_FLAGS) } },
	{ NOTIFY, { END } },
};
/* CLONE_NEWTIME is a flag of unshare alone. */
static const struct filter_case filter_notify_unshare[] = {
	{ ALLOW,  { NO_BITS(0, NAMESPACE_FLAGS | CLONE_NEWTIME) } },
	{ NOTIFY, { END } },
};

/* With TCP Fast Open, sending connects. */
static const struct filter_case filter_notify_sendto[] = {
	{ ALLOW,  { NO_BITS(3, MSG_FASTOPEN) } },
	{ NOTIFY, { END } },
};
static const struct filter_case filter_notify_sendmsg[] = {
	{ ALLOW,  { NO_BITS(2, MSG_FASTOPEN) } },
	{ NOTIFY, { END } },
};

static const struct filter_row filter_notified[] = {
	{ "execve execveat exit_group", .verdict = NOTIFY },

	{ "open", .cases = filter_notify_open },
	{ "openat", .cases = filter_notify_openat },
	/* Its flags are in memory. */
	{ "openat2 creat truncate", .verdict = NOTIFY },
	{ "mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat "
	  "mknod mknodat", .verdict = NOTIFY },
	{ "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes utimensat futimesat",
	  .verdict = NOTIFY },

	{ "connect bind listen", .verdict = NOTIFY },
	{ "sendto sendmmsg", .cases = filter_notify_sendto },
	{ "sendmsg", .cases = filter_notify_sendmsg },

	{ "ptrace", .cases = filter_notify_ptrace },
	{ "process_vm_readv process_vm_writev memfd_create", .verdict = NOTIFY },
	{ "setuid setgid setreuid setregid setresuid setresgid setfsuid setfsgid", .cases = filter_notify_setid },
	{ "kill rt_sigqueueinfo pidfd_send_signal", .cases = filter_notify_kill },
	{ "tkill", .cases = filter_notify_tkill },
	{ "tgkill rt_tgsigqueueinfo", .cases = filter_notify_tgkill },
	{ "clone", .cases = filter_notify_clone },
	{ "unshare", .cases = filter_notify_unshare },
	{ "setns mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount "
	  "fspick mount_setattr", .verdict = NOTIFY },
};

/* The C library asks for these first, for each new process and many a file, and goes on without. */
static const char filter_quiet[] = "clone3 openat2";
#endif
