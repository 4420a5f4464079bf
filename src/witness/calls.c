/* calls.c - see calls.h. */
#include "witness/calls.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/prctl.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/call.h"
#include "base/own.h"

const char *
calls_name(uint32_t nr, char ret_name[CALLS_NAME_MAX])
{
	const char *name = nr == ACT_NR_UNKNOWN ? "unknown" : call_name(CALL_ARCH_HERE, nr);

	if (name != NULL)
		snprintf(ret_name, CALLS_NAME_MAX, "%s", name);
	else
		snprintf(ret_name, CALLS_NAME_MAX, "%u", nr);
	return ret_name;
}

const char *
calls_error(int error, char ret_name[CALLS_NAME_MAX])
{
	const char *name = error > 0 ? strerrorname_np(error) : NULL;

	if (name != NULL)
		snprintf(ret_name, CALLS_NAME_MAX, "%s", name);
	else
		snprintf(ret_name, CALLS_NAME_MAX, "%d", error);
	return ret_name;
}

const char *
calls_signal(int number, char ret_name[CALLS_NAME_MAX])
{
	const char *name = number > 0 ? sigabbrev_np(number) : NULL;

	if (name != NULL)
		snprintf(ret_name, CALLS_NAME_MAX, "%s", name);
	else
		snprintf(ret_name, CALLS_NAME_MAX, "%d", number);
	return ret_name;
}

/* ---- words ---- */

struct word {
	uint64_t value;
	const char *name;
};
#define WORD(name) { name, #name }
#define WORDS(...) (const struct word[]){ __VA_ARGS__, { 0, NULL } }

struct args {
	char *text;
	size_t len;
};

static void
put_bytes(struct args *a, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len && a->len < ACT_ARGS_MAX - 1; i++)
		a->text[a->len++] = bytes[i] == '\0' ? ' ' : bytes[i];
}

static void
put_str(struct args *a, const char *text)
{
	put_bytes(a, text, strlen(text));
}

static void
put_number(struct args *a, const char *format, uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), format, (unsigned long long)value);
	put_str(a, text);
}

/* One of WORDS, or a number. */
static void
put_word(struct args *a, const struct word *words, uint64_t value)
{
	for (; words->name != NULL; words++)
		if (words->value == value) {
			put_str(a, words->name);
			return;
		}
	put_number(a, "%lld", value);
}

/* Those of WORDS whose bits are set, and the rest as a number. */
static void
put_bits(struct args *a, const struct word *words, uint64_t value, const char *none)
{
	bool first = true;

	for (; words->name != NULL; words++) {
		if ((value & words->value) != words->value)
			continue;
		put_str(a, first ? "" : "|");
		put_str(a, words->name);
		value &= ~words->value;
		first = false;
	}
	if (value != 0 || first) {
		put_str(a, first ? "" : "|");
		if (value == 0)
			put_str(a, none);
		else
			put_number(a, "%#llx", value);
	}
}

/* ---- arguments ---- */

static void
put_open_flags(struct args *a, uint64_t value)
{
	static const struct word ways[] = { WORD(O_RDONLY), WORD(O_WRONLY), WORD(O_RDWR), { 0, NULL } };
	/* O_SYNC and O_TMPFILE contain others' bits: they come first. */
	static const struct word bits[] = { WORD(O_TMPFILE), WORD(O_SYNC), WORD(O_CREAT), WORD(O_EXCL), WORD(O_NOCTTY),
		WORD(O_TRUNC), WORD(O_APPEND), WORD(O_NONBLOCK), WORD(O_DSYNC), WORD(O_DIRECT), WORD(O_DIRECTORY),
		WORD(O_NOFOLLOW), WORD(O_NOATIME), WORD(O_CLOEXEC), WORD(O_PATH), { 0, NULL } };

	/* glibc's O_LARGEFILE is 0 on 64-bit machines; the kernel's bit says nothing. */
	value &= ~(uint64_t)0100000;
	put_word(a, ways, value & O_ACCMODE);
	if ((value & ~(uint64_t)O_ACCMODE) != 0) {
		put_str(a, "|");
		put_bits(a, bits, value & ~(uint64_t)O_ACCMODE, "0");
	}
}

static const struct word clone_flags[] = {
	WORD(CLONE_NEWNS), WORD(CLONE_NEWCGROUP), WORD(CLONE_NEWUTS), WORD(CLONE_NEWIPC), WORD(CLONE_NEWUSER),
	WORD(CLONE_NEWPID), WORD(CLONE_NEWNET), WORD(CLONE_VM), WORD(CLONE_FS), WORD(CLONE_FILES), WORD(CLONE_SIGHAND),
	WORD(CLONE_PIDFD), WORD(CLONE_PTRACE), WORD(CLONE_VFORK), WORD(CLONE_PARENT), WORD(CLONE_THREAD),
	WORD(CLONE_SYSVSEM), WORD(CLONE_SETTLS), WORD(CLONE_PARENT_SETTID), WORD(CLONE_CHILD_CLEARTID),
	WORD(CLONE_UNTRACED), WORD(CLONE_CHILD_SETTID), WORD(CLONE_IO), { 0, NULL } };

static void
put_clone_flags(struct args *a, uint64_t value)
{
	char name[CALLS_NAME_MAX];
	int number = (int)(value & 0xff);

	put_bits(a, clone_flags, value & ~(uint64_t)0xff, "0");
	if (number != 0) {
		put_str(a, "|SIG");
		put_str(a, calls_signal(number, name));
	}
}

static void
put_namespaces(struct args *a, uint64_t value)
{
	put_bits(a, clone_flags, value, "0");
}

static void
put_family(struct args *a, uint64_t value)
{
	put_word(a, WORDS(WORD(AF_UNSPEC), WORD(AF_UNIX), WORD(AF_INET), WORD(AF_INET6), WORD(AF_NETLINK), WORD(AF_PACKET),
	         WORD(AF_BLUETOOTH), WORD(AF_VSOCK), WORD(AF_ALG), WORD(AF_KEY), WORD(AF_XDP), WORD(AF_TIPC), WORD(AF_CAN),
	         WORD(AF_RDS), WORD(AF_SMC), WORD(AF_KCM), WORD(AF_PPPOX), WORD(AF_LLC), WORD(AF_NFC), WORD(AF_QIPCRTR)),
	         value);
}

static void
put_socket_type(struct args *a, uint64_t value)
{
	put_word(a, WORDS(WORD(SOCK_STREAM), WORD(SOCK_DGRAM), WORD(SOCK_RAW), WORD(SOCK_SEQPACKET), WORD(SOCK_RDM),
	         WORD(SOCK_PACKET)), value & 0xf);
	if ((value & ~(uint64_t)0xf) != 0) {
		put_str(a, "|");
		put_bits(a, WORDS(WORD(SOCK_CLOEXEC), WORD(SOCK_NONBLOCK)), value & ~(uint64_t)0xf, "0");
	}
}

static void
put_ptrace(struct args *a, uint64_t value)
{
	put_word(a, WORDS(WORD(PTRACE_TRACEME), WORD(PTRACE_PEEKTEXT), WORD(PTRACE_PEEKDATA), WORD(PTRACE_PEEKUSR),
	         WORD(PTRACE_POKETEXT), WORD(PTRACE_POKEDATA), WORD(PTRACE_POKEUSR), WORD(PTRACE_CONT), WORD(PTRACE_KILL),
	         WORD(PTRACE_SINGLESTEP), WORD(PTRACE_ATTACH), WORD(PTRACE_DETACH), WORD(PTRACE_SYSCALL),
	         WORD(PTRACE_SETOPTIONS), WORD(PTRACE_GETEVENTMSG), WORD(PTRACE_GETSIGINFO), WORD(PTRACE_SETSIGINFO),
	         WORD(PTRACE_GETREGSET), WORD(PTRACE_SETREGSET), WORD(PTRACE_SEIZE), WORD(PTRACE_INTERRUPT),
	         WORD(PTRACE_LISTEN)), value);
}

static void
put_mount_flags(struct args *a, uint64_t value)
{
	put_bits(a, WORDS(WORD(MS_RDONLY), WORD(MS_NOSUID), WORD(MS_NODEV), WORD(MS_NOEXEC), WORD(MS_REMOUNT),
	         WORD(MS_NOATIME), WORD(MS_BIND), WORD(MS_MOVE), WORD(MS_REC), WORD(MS_UNBINDABLE), WORD(MS_PRIVATE),
	         WORD(MS_SLAVE), WORD(MS_SHARED), WORD(MS_RELATIME), WORD(MS_STRICTATIME)), value, "0");
}

static void
put_prctl(struct args *a, uint64_t value)
{
	put_word(a, WORDS(WORD(PR_SET_PDEATHSIG), WORD(PR_GET_DUMPABLE), WORD(PR_SET_DUMPABLE), WORD(PR_SET_KEEPCAPS),
	         WORD(PR_SET_NAME), WORD(PR_SET_SECCOMP), WORD(PR_CAPBSET_DROP), WORD(PR_SET_TSC), WORD(PR_SET_SECUREBITS),
	         WORD(PR_SET_MM), WORD(PR_SET_CHILD_SUBREAPER), WORD(PR_SET_NO_NEW_PRIVS), WORD(PR_SET_PTRACER),
	         WORD(PR_CAP_AMBIENT), WORD(PR_SET_VMA), WORD(PR_SET_SPECULATION_CTRL), WORD(PR_SET_THP_DISABLE)), value);
}

static void
put_mode(struct args *a, uint64_t value)
{
	put_number(a, "%#llo", value & 07777);
}

static void
put_file_type(struct args *a, uint64_t value)
{
	put_word(a, WORDS(WORD(S_IFREG), WORD(S_IFCHR), WORD(S_IFBLK), WORD(S_IFIFO), WORD(S_IFSOCK), { 0, "0" }),
	         value & S_IFMT);
	put_number(a, "|%#llo", value & 07777);
}

static void
put_folder(struct args *a, uint64_t value)
{
	if ((int)value == AT_FDCWD)
		put_str(a, "AT_FDCWD");
	else
		put_number(a, "%lld", (uint64_t)(int64_t)(int)value);
}

static void
put_at_flags(struct args *a, uint64_t value)
{
	put_bits(a, WORDS(WORD(AT_SYMLINK_NOFOLLOW), WORD(AT_REMOVEDIR), WORD(AT_SYMLINK_FOLLOW), WORD(AT_NO_AUTOMOUNT),
	         WORD(AT_EMPTY_PATH), WORD(AT_RECURSIVE)), value & UINT32_MAX, "0");
}

static void
put_signal(struct args *a, uint64_t value)
{
	char name[CALLS_NAME_MAX];

	calls_signal((int)value, name);
	put_str(a, name[0] >= 'A' ? "SIG" : "");
	put_str(a, name);
}

static void
put_bpf(struct args *a, uint64_t value)
{
	put_word(a, WORDS(WORD(BPF_MAP_CREATE), WORD(BPF_MAP_LOOKUP_ELEM), WORD(BPF_MAP_UPDATE_ELEM), WORD(BPF_PROG_LOAD),
	         WORD(BPF_OBJ_PIN), WORD(BPF_OBJ_GET), WORD(BPF_PROG_ATTACH), WORD(BPF_BTF_LOAD), WORD(BPF_LINK_CREATE)),
	         value);
}

static void
put_keyctl(struct args *a, uint64_t value)
{
	put_word(a, WORDS(WORD(KEYCTL_GET_KEYRING_ID), WORD(KEYCTL_JOIN_SESSION_KEYRING), WORD(KEYCTL_UPDATE),
	         WORD(KEYCTL_REVOKE), WORD(KEYCTL_CHOWN), WORD(KEYCTL_SETPERM), WORD(KEYCTL_DESCRIBE), WORD(KEYCTL_CLEAR),
	         WORD(KEYCTL_LINK), WORD(KEYCTL_UNLINK), WORD(KEYCTL_SEARCH), WORD(KEYCTL_READ)), value);
}

static void
put_seccomp(struct args *a, uint64_t value)
{
	put_word(a, WORDS(WORD(SECCOMP_SET_MODE_STRICT), WORD(SECCOMP_SET_MODE_FILTER), WORD(SECCOMP_GET_ACTION_AVAIL),
	         WORD(SECCOMP_GET_NOTIF_SIZES)), value);
}

static void
put_memfd_flags(struct args *a, uint64_t value)
{
	put_bits(a, WORDS({ 1, "MFD_CLOEXEC" }, { 2, "MFD_ALLOW_SEALING" }, { 4, "MFD_HUGETLB" }, { 8, "MFD_NOEXEC_SEAL" },
	         { 16, "MFD_EXEC" }), value & UINT32_MAX, "0");
}

static void
put_personality(struct args *a, uint64_t value)
{
	put_bits(a, WORDS(WORD(ADDR_NO_RANDOMIZE), WORD(READ_IMPLIES_EXEC), WORD(MMAP_PAGE_ZERO), WORD(ADDR_COMPAT_LAYOUT)),
	         value & UINT32_MAX, "0");
}

static void
put_decimal(struct args *a, uint64_t value)
{
	put_number(a, "%lld", (uint64_t)(int64_t)(int)value);
}

static void
put_unsigned(struct args *a, uint64_t value)
{
	put_number(a, "%llu", value);
}

static void
put_hex(struct args *a, uint64_t value)
{
	put_number(a, value == 0 ? "%llu" : "%#llx", value);
}

static void
put_pointer(struct args *a, uint64_t value)
{
	put_str(a, value == 0 ? "NULL" : "ptr");
}

static const struct {
	char letter;
	void (*put)(struct args *a, uint64_t value);
} kinds[] = {
	{ 'D', put_folder }, { 'o', put_open_flags }, { 'm', put_mode }, { 'y', put_file_type }, { 'c', put_clone_flags },
	{ 'n', put_namespaces }, { 'f', put_family }, { 't', put_socket_type }, { 'r', put_ptrace },
	{ 'M', put_mount_flags }, { 'P', put_prctl }, { 'a', put_at_flags }, { 'k', put_signal }, { 'b', put_bpf },
	{ 'K', put_keyctl }, { 'S', put_seccomp }, { 'e', put_memfd_flags }, { 'L', put_personality },
	{ 'd', put_decimal }, { 'u', put_unsigned }, { 'x', put_hex }, { 'p', put_pointer },
};

/* A letter for each argument; 's' is a text.  Only the first text is known (struct act), others are pointers. */
static const struct {
	const char *name, *args;
} calls[] = {
	{ "open", "som" }, { "openat", "Dsom" }, { "openat2", "Dspu" }, { "creat", "sm" },
	{ "open_by_handle_at", "dpo" }, { "name_to_handle_at", "Dsppa" },
	{ "execve", "spp" }, { "execveat", "Dsppa" },
	{ "unlink", "s" }, { "unlinkat", "Dsa" }, { "rmdir", "s" }, { "mkdir", "sm" }, { "mkdirat", "Dsm" },
	{ "rename", "sp" }, { "renameat", "DsDp" }, { "renameat2", "DsDpx" }, { "link", "sp" }, { "linkat", "DsDpa" },
	{ "symlink", "sp" }, { "symlinkat", "sDp" }, { "mknod", "syx" }, { "mknodat", "Dsyx" },
	{ "chmod", "sm" }, { "fchmodat", "Dsm" }, { "fchmodat2", "Dsma" }, { "fchmod", "dm" },
	{ "chown", "sdd" }, { "lchown", "sdd" }, { "fchown", "ddd" }, { "fchownat", "Dsdda" },
	{ "truncate", "su" }, { "chroot", "s" }, { "pivot_root", "sp" }, { "chdir", "s" },
	{ "setxattr", "sppux" }, { "lsetxattr", "sppux" }, { "removexattr", "sp" },
	{ "mount", "sppMp" }, { "umount2", "sx" }, { "open_tree", "Dsx" }, { "move_mount", "DsDpx" }, { "fsopen", "sx" },
	{ "fsconfig", "dxppd" }, { "fsmount", "dxx" }, { "fspick", "Dsx" }, { "mount_setattr", "Dsxpu" },
	{ "swapon", "sx" }, { "swapoff", "s" }, { "acct", "s" }, { "quotactl", "xpdp" },
	{ "clone", "cpppp" }, { "clone3", "pu" }, { "unshare", "n" }, { "setns", "dn" },
	{ "socket", "ftd" }, { "socketpair", "ftdp" }, { "connect", "dpu" }, { "bind", "dpu" }, { "listen", "dd" },
	{ "accept", "dpp" }, { "accept4", "dppx" }, { "setsockopt", "dddpu" },
	{ "ptrace", "rdxx" }, { "process_vm_readv", "dpupux" }, { "process_vm_writev", "dpupux" },
	{ "process_madvise", "dpudx" }, { "process_mrelease", "dx" }, { "kcmp", "ddddd" },
	{ "pidfd_open", "dx" }, { "pidfd_getfd", "ddx" }, { "pidfd_send_signal", "dkpx" },
	{ "kill", "dk" }, { "tkill", "dk" }, { "tgkill", "ddk" }, { "rt_sigqueueinfo", "dkp" },
	{ "rt_tgsigqueueinfo", "ddkp" },
	{ "memfd_create", "se" }, { "memfd_secret", "x" }, { "userfaultfd", "o" }, { "mprotect", "pux" },
	{ "prctl", "Pxxxx" }, { "personality", "L" }, { "seccomp", "Sxp" },
	{ "setuid", "d" }, { "setgid", "d" }, { "setreuid", "dd" }, { "setregid", "dd" }, { "setresuid", "ddd" },
	{ "setresgid", "ddd" }, { "setfsuid", "d" }, { "setfsgid", "d" }, { "setgroups", "dp" }, { "capset", "pp" },
	{ "bpf", "bpu" }, { "perf_event_open", "pdddx" }, { "keyctl", "Kxxxx" }, { "add_key", "sppud" },
	{ "request_key", "sppd" }, { "io_uring_setup", "up" }, { "io_uring_enter", "duuxpu" },
	{ "io_uring_register", "ddpu" }, { "fanotify_init", "xx" }, { "fanotify_mark", "dxxDp" },
	{ "init_module", "pup" }, { "finit_module", "dpx" }, { "delete_module", "sx" }, { "kexec_load", "pupx" },
	{ "kexec_file_load", "ddupx" }, { "reboot", "xxdp" }, { "syslog", "dpd" }, { "ioperm", "uud" }, { "iopl", "d" },
	{ "sethostname", "su" }, { "setdomainname", "su" }, { "settimeofday", "pp" }, { "clock_settime", "dp" },
	{ "clock_adjtime", "dp" }, { "adjtimex", "p" }, { "vhangup", "" }, { "ioctl", "dxp" }, { "fcntl", "ddx" },
	{ "modify_ldt", "dpu" }, { "lookup_dcookie", "upu" }, { "nfsservctl", "dpp" }, { "uselib", "s" },
	{ "landlock_create_ruleset", "pux" }, { "landlock_add_rule", "ddpx" }, { "landlock_restrict_self", "dx" },
	{ "sched_setscheduler", "ddp" }, { "sched_setattr", "dpx" }, { "setpriority", "ddd" }, { "prlimit64", "ddpp" },
	{ "setrlimit", "dp" }, { "io_setup", "up" }, { "mbind", "pudpux" }, { "move_pages", "duppp" },
	{ "migrate_pages", "dupp" }, { "set_mempolicy", "dpu" },
};

static void
put_text(struct args *a, const struct act *act, uint64_t value)
{
	if (act->text.at == NULL) {
		put_pointer(a, value);
		return;
	}
	put_str(a, "\"");
	put_bytes(a, act->text.at, act->text.len);
	put_str(a, act->text.cut ? "\"..." : "\"");
}

static void
put_arg(struct args *a, const struct act *act, char letter, uint64_t value)
{
	if (letter == 's') {
		put_text(a, act, value);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (kinds[i].letter == letter)
			kinds[i].put(a, value);
}

#define MAKES (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))

/* A mode says nothing if no file is made. */
static size_t
n_args(const char *name, const char *letters, const uint64_t args[6])
{
	size_t n = strlen(letters);
	bool makes = strcmp(name, "open") == 0 ? (args[1] & MAKES) != 0 :
	             strcmp(name, "openat") == 0 ? (args[2] & MAKES) != 0 : true;

	return makes ? n : n - 1;
}

size_t
calls_args(const struct act *act, char ret_args[ACT_ARGS_MAX])
{
	struct args a = { .text = ret_args };
	char name[CALLS_NAME_MAX];
	size_t n;

	calls_name(act->nr, name);
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		if (strcmp(calls[i].name, name) != 0)
			continue;
		n = n_args(name, calls[i].args, act->args);
		for (size_t j = 0; j < n; j++) {
			put_str(&a, j == 0 ? "" : ", ");
			put_arg(&a, act, calls[i].args[j], act->args[j]);
		}
		break;
	}
	ret_args[a.len] = '\0';
	return a.len;
}
