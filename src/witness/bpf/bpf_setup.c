/* bpf_setup.c - how the programs look at each system call, by this architecture's numbers. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own.h"
#include "witness/bpf/bpf.h"

/* Newer than the headers of some systems; the number is the same everywhere. */
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

static const struct {
	unsigned nr;
	struct sample_call how;
} ways[] = {
#define OPEN(name, dir, path, flags) { SYS_##name, { SAMPLE_WAY_OPEN, 0, dir, path, flags, 0 } }
#define NAMES(name, act, dir, path, to_dir, to) \
	{ SYS_##name, { SAMPLE_WAY_NAMES, SAMPLE_##act, dir, path, to_dir, to } }
#define AT_FD(name, act) { SYS_##name, { SAMPLE_WAY_FD, SAMPLE_##act, 1, 0, 0, 0 } }
#define PLAIN(name, way) { SYS_##name, { SAMPLE_WAY_##way, 0, 0, 0, 0, 0 } }
#define TEXT(name, way, path) { SYS_##name, { SAMPLE_WAY_##way, 0, 0, path, 0, 0 } }
#define WHOM(name, way, signal) { SYS_##name, { SAMPLE_WAY_##way, 0, 1, 0, 0, signal } }
	OPEN(openat, 1, 2, 3),
	OPEN(openat2, 1, 2, 0),
	NAMES(unlinkat, REMOVE, 1, 2, 0, 0),
	NAMES(renameat2, RENAME, 1, 2, 3, 4),
	NAMES(linkat, LINK, 1, 2, 3, 4),
	NAMES(mkdirat, CREATE, 1, 2, 0, 0),
	NAMES(mknodat, CREATE, 1, 2, 0, 0),
	NAMES(truncate, WRITE, 0, 1, 0, 0),
	NAMES(fchmodat, MODE, 1, 2, 0, 0),
	NAMES(fchmodat2, MODE, 1, 2, 0, 0),
	NAMES(fchownat, OWNER, 1, 2, 0, 0),
	NAMES(utimensat, TIMES, 1, 2, 0, 0),
	{ SYS_symlinkat, { SAMPLE_WAY_SYMLINK, SAMPLE_LINK, 0, 1, 2, 3 } },
	AT_FD(fchmod, MODE),
	AT_FD(fchown, OWNER),
	{ SYS_execve, { SAMPLE_WAY_EXEC, 0, 0, 1, 0, 0 } },
	{ SYS_execveat, { SAMPLE_WAY_EXEC, 0, 1, 2, 0, 0 } },
	PLAIN(connect, CONNECT),
	PLAIN(bind, BIND),
	PLAIN(listen, LISTEN),
	PLAIN(accept, ACCEPT),
	PLAIN(accept4, ACCEPT),
	PLAIN(sendto, SENDTO),
	PLAIN(sendmsg, SENDMSG),
	PLAIN(sendmmsg, SENDMSG),
	PLAIN(ptrace, DANGER),
	PLAIN(process_vm_readv, DANGER),
	PLAIN(process_vm_writev, DANGER),
	TEXT(memfd_create, DANGER, 1),
	PLAIN(unshare, DANGER),
	PLAIN(setns, DANGER),
	PLAIN(setuid, DANGER),
	PLAIN(setgid, DANGER),
	PLAIN(setreuid, DANGER),
	PLAIN(setregid, DANGER),
	PLAIN(setresuid, DANGER),
	PLAIN(setresgid, DANGER),
	PLAIN(setfsuid, DANGER),
	PLAIN(setfsgid, DANGER),
	PLAIN(setgroups, DANGER),
	PLAIN(pidfd_send_signal, DANGER),
	/* Its calls are not seen. */
	PLAIN(io_uring_setup, DANGER),
	PLAIN(clone, CLONE),
	PLAIN(clone3, CLONE3),
	WHOM(kill, KILL, 2),
	WHOM(tgkill, KILL, 3),
	WHOM(rt_sigqueueinfo, KILL, 2),
	WHOM(rt_tgsigqueueinfo, KILL, 3),
	WHOM(tkill, TKILL, 2),
	/* Looked at only if they are refused. */
	TEXT(chdir, NONE, 1),
	TEXT(chroot, NONE, 1),
	TEXT(statfs, NONE, 1),
	TEXT(statx, NONE, 2),
	TEXT(faccessat, NONE, 2),
	TEXT(faccessat2, NONE, 2),
	TEXT(readlinkat, NONE, 2),
	TEXT(newfstatat, NONE, 2),
	TEXT(mount, NONE, 1),
	TEXT(umount2, NONE, 1),
	TEXT(pivot_root, NONE, 1),
	TEXT(swapon, NONE, 1),
	TEXT(open_tree, NONE, 2),
	TEXT(fsopen, NONE, 1),
	TEXT(name_to_handle_at, NONE, 2),
	TEXT(setxattr, NONE, 1),
	TEXT(removexattr, NONE, 1),
	TEXT(acct, NONE, 1),
#ifdef SYS_renameat
	NAMES(renameat, RENAME, 1, 2, 3, 4),
#endif
#ifdef SYS_open
	OPEN(open, 0, 1, 2),
	{ SYS_creat, { SAMPLE_WAY_CREAT, 0, 0, 1, 0, 0 } },
	NAMES(unlink, REMOVE, 0, 1, 0, 0),
	NAMES(rmdir, REMOVE, 0, 1, 0, 0),
	NAMES(rename, RENAME, 0, 1, 0, 2),
	NAMES(link, LINK, 0, 1, 0, 2),
	{ SYS_symlink, { SAMPLE_WAY_SYMLINK, SAMPLE_LINK, 0, 1, 0, 2 } },
	NAMES(mkdir, CREATE, 0, 1, 0, 0),
	NAMES(mknod, CREATE, 0, 1, 0, 0),
	NAMES(chmod, MODE, 0, 1, 0, 0),
	NAMES(chown, OWNER, 0, 1, 0, 0),
	NAMES(lchown, OWNER, 0, 1, 0, 0),
	NAMES(utime, TIMES, 0, 1, 0, 0),
	NAMES(utimes, TIMES, 0, 1, 0, 0),
	NAMES(futimesat, TIMES, 1, 2, 0, 0),
	PLAIN(fork, FORK),
	PLAIN(vfork, FORK),
	TEXT(stat, NONE, 1),
	TEXT(lstat, NONE, 1),
	TEXT(access, NONE, 1),
	TEXT(readlink, NONE, 1),
#endif
};

void
bpf_setup(struct sample_setup *ret_setup)
{
	memset(ret_setup, 0, sizeof(*ret_setup));
	ret_setup->page_shift = (unsigned)__builtin_ctzl((unsigned long)sysconf(_SC_PAGESIZE));
	ret_setup->sigreturn = SYS_rt_sigreturn;
	for (size_t i = 0; i < ARRAY_LEN(ways); i++)
		if (ways[i].nr < SAMPLE_CALLS)
			ret_setup->calls[ways[i].nr] = ways[i].how;
}
