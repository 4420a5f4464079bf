/* kernel.bpf.h - the members of the kernel's structures that the programs read.
 *
 * Only these, written down by hand: their places are looked up in the running kernel's own type
 * information when the programs are loaded. */
#ifndef CLOISTER_WITNESS_KERNEL_BPF_H
#define CLOISTER_WITNESS_KERNEL_BPF_H
#include <linux/bpf.h>
#include <stdbool.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define KERNEL __attribute__((preserve_access_index))

/* ---- processes ---- */

struct ns_common {
	unsigned inum;
} KERNEL;
struct pid_namespace {
	struct ns_common ns;
} KERNEL;
struct upid {
	int nr;
	struct pid_namespace *ns;
} KERNEL;
struct pid {
	unsigned level;
	struct upid numbers[1];
} KERNEL;

struct atomic {
	int counter;
};
struct signal_struct {
	struct atomic live;
	int group_exit_code;
	unsigned flags;
	unsigned long long sum_sched_runtime;
	unsigned long maxrss;
} KERNEL;
struct sched_entity {
	u64 sum_exec_runtime;
} KERNEL;
struct mm_struct {
	unsigned long arg_start, arg_end;
} KERNEL;
struct kuid {
	unsigned val;
};
struct cred {
	struct kuid fsuid, fsgid;
} KERNEL;

/* Calls that a filter allows whatever their arguments are. */
struct action_cache {
	unsigned long allow_native[8];
} KERNEL;
struct seccomp_filter {
	struct action_cache cache;
} KERNEL;
struct seccomp {
	struct seccomp_filter *filter;
} KERNEL;

struct vfsmount;
struct dentry;
struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
} KERNEL;
struct file;
struct fdtable {
	unsigned max_fds;
	struct file **fd;
} KERNEL;
struct files_struct {
	struct atomic count;
	struct fdtable *fdt;
} KERNEL;
struct fs_struct {
	struct path root, pwd;
} KERNEL;

struct thread_info {
	unsigned long flags;
	u32 status;                     /* amd64 */
} KERNEL;
struct task_struct {
	struct thread_info thread_info;
	int pid, tgid, exit_code;
	u64 start_time;
	struct task_struct *group_leader, *real_parent;
	struct pid *thread_pid;
	struct signal_struct *signal;
	struct sched_entity se;
	struct mm_struct *mm;
	struct fs_struct *fs;
	struct files_struct *files;
	const struct cred *cred;
	struct seccomp seccomp;
} KERNEL;

/* ---- files ---- */

struct qstr {
	const unsigned char *name;
} KERNEL;
struct super_block {
	unsigned long s_flags;
} KERNEL;
struct inode {
	unsigned short i_mode;
	struct kuid i_uid, i_gid;
	unsigned i_nlink;
	s64 i_size;
	s64 i_mtime_sec;                /* since Linux 6.11 */
	u32 i_mtime_nsec;
} KERNEL;
struct timespec64 {
	s64 tv_sec;
	long tv_nsec;
} KERNEL;
struct inode___before_6_11 {
	struct timespec64 __i_mtime;
} KERNEL;
struct inode___before_6_7 {
	struct timespec64 i_mtime;
} KERNEL;
struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
	struct inode *d_inode;
} KERNEL;
struct vfsmount {
	struct dentry *mnt_root;
	struct super_block *mnt_sb;
	int mnt_flags;
} KERNEL;
struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
} KERNEL;
struct file {
	unsigned f_mode, f_flags;
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
} KERNEL;
struct linux_binprm {
	struct file *file;
	int argc;
	const char *filename, *interp;
} KERNEL;

#define FMODE_READ 1
#define FMODE_WRITE 2
#define FMODE_PATH 0x4000
#define FMODE_CREATED 0x100000
#define MNT_READONLY 0x40
#define SB_RDONLY 1
#define SIGNAL_GROUP_EXIT 4
#define SIGSYS 31
#define MAX_ERRNO 4095
#define AT_FDCWD (-100)
#define O_ACCMODE 3
#define O_PATH 010000000
#define O_TMPFILE 020000000             /* the bit that is its own */
#define S_IFMT 0170000
#define S_IFSOCK 0140000

/* ---- sockets ---- */

struct in6_addr {
	u8 bytes[16];
};
struct sock_common {
	unsigned short skc_family;
	u16 skc_num;
	u16 skc_dport;
	u32 skc_daddr, skc_rcv_saddr;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
} KERNEL;
struct sock {
	struct sock_common __sk_common;
} KERNEL;
struct socket {
	struct sock *sk;
} KERNEL;
struct sockaddr_un {
	char path[1];
};
struct unix_address {
	int len;
	struct sockaddr_un name[0];
} KERNEL;
struct unix_sock {
	struct unix_address *addr;
	struct path path;               /* of the file, if it has one */
	struct sock *peer;
} KERNEL;

#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10

/* ---- errors ---- */

#define EPERM 1
#define EACCES 13
#define EROFS 30
#define ENOSYS 38
#define EAFNOSUPPORT 97
#define EINPROGRESS 115

/* ---- system calls ---- */

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long di, si, dx, r10, r8, r9, ax, orig_ax;
} KERNEL;
#define SYSCALL_NR(regs) ((u32)(regs)->orig_ax)
/* As it was before the call: a filter that ends a process has this restored, and no call returns it. */
#define IS_ROLLED_BACK(regs) ((regs)->ax == (regs)->orig_ax)
#define IS_32_BIT(task) (((task)->thread_info.status & 2) != 0)           /* TS_COMPAT */
#define SYSCALL_ARGS(regs) \
	{ (regs)->di, (regs)->si, (regs)->dx, (regs)->r10, (regs)->r8, (regs)->r9 }
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	u64 regs[31];
	u64 orig_x0;
	int syscallno;
} KERNEL;
#define SYSCALL_NR(regs) ((u32)(regs)->syscallno)
#define IS_ROLLED_BACK(r) ((r)->regs[0] == (r)->orig_x0)
#define IS_32_BIT(task) (((task)->thread_info.flags & 1 << 22) != 0)      /* TIF_32BIT */
#define SYSCALL_ARGS(r) \
	{ (r)->orig_x0, (r)->regs[1], (r)->regs[2], (r)->regs[3], (r)->regs[4], (r)->regs[5] }
#else
#error "an architecture whose system calls are not known"
#endif
#endif
