/* confine_filter.c - tests of the filters' code, for both architectures on either:
 * a small interpreter runs it over calls that nobody has to make. */
#define FILTER_EVERY_ARCH
#include "confine/filter_table.h"

#include <linux/audit.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "filter_bpf.h"
#include "test.h"

#define UPPER (UINT64_C(1) << 32)

static const struct {
	const char *name;
	uint32_t token;
	const struct filter_code *codes, *notifying;
} arches[] = {
	{ "x86_64", AUDIT_ARCH_X86_64, filter_x86_64, filter_x86_64_notifying },
	{ "aarch64", AUDIT_ARCH_AARCH64, filter_aarch64, filter_aarch64_notifying },
};

/* ---- classic BPF, as seccomp uses it -------------------------------------------- */

static uint32_t
load_word(const struct seccomp_data *data, uint32_t offset)
{
	uint32_t word;

	CHECK(offset % 4 == 0 && offset <= sizeof(*data) - sizeof(word));
	memcpy(&word, (const char *)data + offset, sizeof(word));
	return word;
}

/* ret_reads_args: whether an argument was looked at, which is what makes the kernel
 * run the filter instead of asking its bitmap.  May be NULL. */
static uint32_t
run_code(const struct filter_code *c, const struct seccomp_data *data, bool *ret_reads_args)
{
	uint32_t a = 0;
	bool reads_args = false;

	for (size_t pc = 0;; pc++) {
		const struct sock_filter *i = &c->at[pc];

		CHECK(pc < c->count);       /* all jumps go forward: this ends */
		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			a = load_word(data, i->k);
			reads_args |= i->k >= offsetof(struct seccomp_data, args);
			break;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_RET | BPF_K:
			if (ret_reads_args != NULL)
				*ret_reads_args = reads_args;
			return i->k;
		default:
			test_fail(__FILE__, __LINE__, "instruction %#x", i->code);
		}
	}
}

static int
number_of(const char *name, size_t arch)
{
	for (size_t i = 0; i < ARRAY_LEN(filter_calls); i++)
		if (strcmp(filter_calls[i].name, name) == 0)
			return filter_calls[i].nr[arch];
	test_fail(__FILE__, __LINE__, "no table names %s", name);
}

static uint32_t
verdict(size_t arch, enum filter_profile profile, int nr, const uint64_t args[6])
{
	struct seccomp_data data = { .nr = nr, .arch = arches[arch].token };

	memcpy(data.args, args, sizeof(data.args));
	return run_code(&arches[arch].codes[profile], &data, NULL);
}

/* ---- what we want, by hand --------------------------------------------------------- */

#define NOFAMILY ERRNO(EAFNOSUPPORT)

static const struct {
	const char *name;
	uint64_t args[6];
	uint32_t by_default, nested;
} agent_cases[] = {
	{ "read", { 0 }, ALLOW, ALLOW },
	{ "execve", { 0 }, ALLOW, ALLOW },
	{ "open", { 0 }, ALLOW, ALLOW },
	{ "arch_prctl", { 0 }, ALLOW, ALLOW },
	{ "openat2", { 0 }, ABSENT, ABSENT },
	{ "setxattr", { 0 }, ALLOW, ERRNO(EOPNOTSUPP) },
	{ "lsetxattr", { 0 }, ALLOW, ERRNO(EOPNOTSUPP) },
	{ "fsetxattr", { 0 }, ALLOW, ERRNO(EOPNOTSUPP) },
	{ "removexattr", { 0 }, ALLOW, ALLOW },
	{ "openat", { 0, 0, 0, 06777 }, ALLOW, ALLOW },         /* nothing is made: no mode */
	{ "openat", { 0, 0, 0100, 0777 }, ALLOW, ALLOW },
	{ "openat", { 0, 0, 0100, 04755 }, DENY, DENY },
	{ "openat", { 0, 0, 020000000, 02755 }, DENY, DENY },
	{ "open", { 0, 0100, 06755 }, DENY, DENY },
	{ "mq_open", { 0, 0100, 0600 }, ALLOW, ALLOW },
	{ "mq_open", { 0, 0100, 04755 }, DENY, DENY },
	{ "creat", { 0, 04755 }, DENY, DENY },
	{ "chmod", { 0, 01777 }, ALLOW, ALLOW },
	{ "chmod", { 0, 04755 }, DENY, DENY },
	{ "fchmod", { 0, 0x100000000 | 02755 }, DENY, DENY },
	{ "fchmodat", { 0, 0, 06755 }, DENY, DENY },
	{ "fchmodat2", { 0, 0, 04000 }, DENY, DENY },
	{ "mknodat", { 0, 0, 0100000 | 04755 }, DENY, DENY },
	{ "io_setup", { 0 }, ABSENT, ABSENT },
	{ "fcntl", { 0, 4 }, ALLOW, ALLOW },
	{ "fcntl", { 0, 1024 }, DENY, DENY },
	{ "fcntl", { 0, 0x100000000 | 1026 }, DENY, DENY },
	{ "futex_waitv", { 0 }, ALLOW, ALLOW },
	{ "mseal", { 0 }, ALLOW, ALLOW },
	{ "ptrace", { 0 }, ALLOW, ALLOW },
	{ "process_vm_readv", { 0 }, ALLOW, ALLOW },
	{ "landlock_create_ruleset", { 0 }, ALLOW, ALLOW },
	{ "clone3", { 0 }, ABSENT, ABSENT },
	{ "io_uring_setup", { 0 }, ABSENT, ABSENT },
	{ "io_uring_enter", { 0 }, ABSENT, ABSENT },
	{ "io_uring_register", { 0 }, ABSENT, ABSENT },

	{ "clone", { CLONE_VM | CLONE_VFORK | 17 }, ALLOW, ALLOW },
	{ "clone", { 0x3d0f00 }, ALLOW, ALLOW },            /* pthread_create() */
	{ "clone", { CLONE_NEWUSER | 17 }, DENY, ALLOW },
	{ "clone", { CLONE_NEWNS }, DENY, ALLOW },
	{ "clone", { CLONE_NEWPID }, DENY, ALLOW },
	{ "clone", { CLONE_NEWNET }, DENY, ALLOW },
	{ "clone", { CLONE_NEWIPC }, DENY, ALLOW },
	{ "clone", { CLONE_NEWUTS }, DENY, ALLOW },
	{ "clone", { CLONE_NEWCGROUP }, DENY, ALLOW },
	{ "clone", { CLONE_NEWUSER | UPPER }, DENY, ALLOW },
	{ "unshare", { CLONE_FILES | CLONE_FS }, ALLOW, ALLOW },
	{ "unshare", { CLONE_NEWUSER }, DENY, ALLOW },
	{ "unshare", { CLONE_NEWNET | CLONE_FILES }, DENY, ALLOW },
	{ "unshare", { CLONE_NEWTIME }, DENY, ALLOW },
	{ "unshare", { 0x100000 }, DENY, ALLOW },           /* whatever it will mean */
	{ "setns", { 3, CLONE_NEWNS }, DENY, ALLOW },

	{ "socket", { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0 }, ALLOW, ALLOW },
	{ "socket", { AF_INET, SOCK_STREAM, 0 }, ALLOW, ALLOW },
	{ "socket", { AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP }, ALLOW, ALLOW },
	{ "socket", { AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDP }, ALLOW, ALLOW },
	{ "socket", { AF_NETLINK, SOCK_RAW, NETLINK_ROUTE }, ALLOW, ALLOW },
	{ "socket", { AF_INET, SOCK_DGRAM, IPPROTO_ICMP }, NOFAMILY, NOFAMILY },
	{ "socket", { AF_INET, SOCK_RAW, IPPROTO_TCP }, NOFAMILY, NOFAMILY },
	{ "socket", { AF_INET, SOCK_SEQPACKET, 0 }, NOFAMILY, NOFAMILY },
	{ "socket", { AF_INET6, SOCK_STREAM, IPPROTO_SCTP }, NOFAMILY, NOFAMILY },
	{ "socket", { AF_NETLINK, SOCK_RAW, NETLINK_AUDIT }, NOFAMILY, NOFAMILY },
	{ "socket", { AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER }, NOFAMILY, NOFAMILY },
	{ "socket", { AF_PACKET, SOCK_RAW, 0 }, NOFAMILY, NOFAMILY },
	{ "socket", { AF_PACKET | UPPER, SOCK_RAW, 0 }, NOFAMILY, NOFAMILY },
	{ "socket", { AF_ALG, SOCK_SEQPACKET, 0 }, NOFAMILY, NOFAMILY },
	{ "socket", { AF_VSOCK, SOCK_STREAM, 0 }, NOFAMILY, NOFAMILY },
	{ "socket", { AF_XDP, SOCK_RAW, 0 }, NOFAMILY, NOFAMILY },
	{ "socket", { AF_UNIX | UPPER, SOCK_STREAM, 0 }, ALLOW, ALLOW },    /* as the kernel reads it */
	{ "socketpair", { AF_UNIX, SOCK_DGRAM }, ALLOW, ALLOW },
	{ "socketpair", { AF_TIPC, SOCK_STREAM }, NOFAMILY, NOFAMILY },

	{ "ioctl", { 0, TCGETS }, ALLOW, ALLOW },
	{ "ioctl", { 0, TIOCSCTTY }, ALLOW, ALLOW },
	{ "ioctl", { 0, TIOCSTI }, DENY, DENY },
	{ "ioctl", { 0, TIOCSTI | UPPER }, DENY, DENY },
	{ "ioctl", { 0, TIOCLINUX }, DENY, DENY },
	{ "ioctl", { 0, TIOCSETD | UPPER << 31 }, DENY, DENY },
	{ "ioctl", { 0, TIOCCONS }, DENY, DENY },

	{ "personality", { 0 }, ALLOW, ALLOW },
	{ "personality", { 0xffffffff }, ALLOW, ALLOW },
	{ "personality", { UINT64_MAX }, ALLOW, ALLOW },
	{ "personality", { ADDR_NO_RANDOMIZE }, ALLOW, ALLOW },
	{ "personality", { READ_IMPLIES_EXEC }, DENY, DENY },
	{ "personality", { READ_IMPLIES_EXEC | ADDR_NO_RANDOMIZE }, DENY, DENY },
	{ "personality", { MMAP_PAGE_ZERO | UPPER }, DENY, DENY },
	{ "prctl", { PR_SET_NAME }, ALLOW, ALLOW },
	{ "prctl", { PR_SET_PTRACER }, ALLOW, ALLOW },
	{ "prctl", { PR_SET_MM }, DENY, DENY },
	{ "prctl", { PR_SET_MM | UPPER }, DENY, DENY },
	{ "prctl", { PR_SET_MEMORY_MERGE }, DENY, DENY },
	{ "prctl", { 12345 }, ERRNO(EINVAL), ERRNO(EINVAL) },

	{ "seccomp", { SECCOMP_SET_MODE_FILTER, 0 }, ALLOW, ALLOW },
	{ "seccomp", { SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC |
	               SECCOMP_FILTER_FLAG_LOG }, ALLOW, ALLOW },
	{ "seccomp", { SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER }, DENY, DENY },
	{ "seccomp", { SECCOMP_SET_MODE_FILTER | UPPER, SECCOMP_FILTER_FLAG_TSYNC |
	               SECCOMP_FILTER_FLAG_NEW_LISTENER | UPPER }, DENY, DENY },
	{ "seccomp", { SECCOMP_GET_ACTION_AVAIL, 0 }, ALLOW, ALLOW },
	{ "seccomp", { 99, 0 }, DENY, DENY },

	{ "mknodat", { 0, 0, 0644 }, ALLOW, ALLOW },
	{ "mknodat", { 0, 0, S_IFIFO | 0644 }, ALLOW, ALLOW },
	{ "mknodat", { 0, 0, S_IFSOCK }, ALLOW, ALLOW },
	{ "mknodat", { 0, 0, S_IFCHR | 0666 }, DENY, DENY },
	{ "mknodat", { 0, 0, S_IFBLK | 0666 | UPPER }, DENY, DENY },
	{ "mknod", { 0, S_IFREG | 0644 }, ALLOW, ALLOW },
	{ "mknod", { 0, S_IFBLK | 0600 }, DENY, DENY },

	{ "mount", { 0 }, DENY, ALLOW },
	{ "umount2", { 0 }, DENY, ALLOW },
	{ "pivot_root", { 0 }, DENY, ALLOW },
	{ "chroot", { 0 }, DENY, ALLOW },
	{ "open_tree", { 0 }, DENY, ALLOW },
	{ "open_tree_attr", { 0 }, DENY, ALLOW },
	{ "move_mount", { 0 }, DENY, ALLOW },
	{ "fsopen", { 0 }, DENY, ALLOW },
	{ "fsconfig", { 0 }, DENY, ALLOW },
	{ "fsmount", { 0 }, DENY, ALLOW },
	{ "fspick", { 0 }, DENY, ALLOW },
	{ "mount_setattr", { 0 }, DENY, ALLOW },
	{ "sethostname", { 0 }, DENY, ALLOW },
	{ "setdomainname", { 0 }, DENY, ALLOW },

	{ "bpf", { 0 }, DENY, DENY },
	{ "perf_event_open", { 0 }, DENY, DENY },
	{ "userfaultfd", { 0 }, DENY, DENY },
	{ "keyctl", { 0 }, DENY, DENY },
	{ "add_key", { 0 }, DENY, DENY },
	{ "request_key", { 0 }, DENY, DENY },
	{ "open_by_handle_at", { 0 }, DENY, DENY },
	{ "name_to_handle_at", { 0 }, ALLOW, ALLOW },
	{ "pidfd_getfd", { 0 }, DENY, DENY },
	{ "fanotify_init", { 0 }, DENY, DENY },
	{ "move_pages", { 0 }, DENY, DENY },
	{ "migrate_pages", { 0 }, DENY, DENY },
	{ "mbind", { 0 }, ALLOW, ALLOW },
	{ "kexec_load", { 0 }, DENY, DENY },
	{ "kexec_file_load", { 0 }, DENY, DENY },
	{ "reboot", { 0 }, DENY, DENY },
	{ "swapon", { 0 }, DENY, DENY },
	{ "swapoff", { 0 }, DENY, DENY },
	{ "init_module", { 0 }, DENY, DENY },
	{ "finit_module", { 0 }, DENY, DENY },
	{ "delete_module", { 0 }, DENY, DENY },
	{ "settimeofday", { 0 }, DENY, DENY },
	{ "clock_settime", { 0 }, DENY, DENY },
	{ "adjtimex", { 0 }, DENY, DENY },
	{ "clock_adjtime", { 0 }, DENY, DENY },
	{ "acct", { 0 }, DENY, DENY },
	{ "quotactl", { 0 }, DENY, DENY },
	{ "quotactl_fd", { 0 }, DENY, DENY },
	{ "iopl", { 0 }, DENY, DENY },
	{ "ioperm", { 0 }, DENY, DENY },
	{ "modify_ldt", { 0 }, DENY, DENY },
	{ "syslog", { 0 }, DENY, DENY },
	{ "vhangup", { 0 }, DENY, DENY },
	{ "setrlimit", { 4 }, ERRNO(0), ERRNO(0) },
	{ "setrlimit", { 7 }, ALLOW, ALLOW },
	{ "prlimit64", { 0, 4, 0 }, ALLOW, ALLOW },
	{ "prlimit64", { 0, 4, 0x7fff0000 }, ERRNO(0), ERRNO(0) },
	{ "prlimit64", { 0, 4, 0x100000000 }, ERRNO(0), ERRNO(0) },     /* a page that begins there */
	{ "prlimit64", { 0, 7, 0x7fff0000 }, ALLOW, ALLOW },
};

static void
check_verdict(size_t arch, enum filter_profile profile, const char *name,
              const uint64_t args[6], uint32_t want)
{
	int nr = number_of(name, arch);
	uint32_t got;

	if (nr < 0)
		return;                     /* not a call of this architecture */
	got = verdict(arch, profile, nr, args);
	if (got != want)
		test_fail(__FILE__, __LINE__, "%s %s: %s(%#llx, %#llx, %#llx, ...) gets %#x, not %#x",
		          arches[arch].name, filter_profiles[profile].name, name,
		          (unsigned long long)args[0], (unsigned long long)args[1],
		          (unsigned long long)args[2], got, want);
}

TEST(filter_agent_verdicts)
{
	for (size_t i = 0; i < ARRAY_LEN(agent_cases); i++)
		for (size_t a = 0; a < ARRAY_LEN(arches); a++) {
			check_verdict(a, FILTER_DEFAULT, agent_cases[i].name, agent_cases[i].args,
			              agent_cases[i].by_default);
			check_verdict(a, FILTER_NESTED, agent_cases[i].name, agent_cases[i].args,
			              agent_cases[i].nested);
			/* The calls in which it differs. */
			check_verdict(a, FILTER_NESTED_APART, agent_cases[i].name, agent_cases[i].args,
			              strcmp(agent_cases[i].name, "openat2") == 0 ||
			              strstr(agent_cases[i].name, "setxattr") != NULL
			              ? ALLOW : agent_cases[i].nested);
		}
}

static const struct {
	enum filter_profile profile;
	const char *name;
	uint64_t args[6];
	uint32_t want;
} helper_cases[] = {
	{ FILTER_COLLECT, "openat2", { 0 }, ALLOW },
	{ FILTER_COLLECT, "copy_file_range", { 0 }, ALLOW },
	{ FILTER_COLLECT, "exit_group", { 0 }, ALLOW },
	{ FILTER_COLLECT, "mknodat", { 0, 0, S_IFCHR, 0 }, ALLOW },         /* a whiteout */
	{ FILTER_COLLECT, "mknodat", { 0, 0, S_IFCHR | 0666, 0x103 }, DENY },
	{ FILTER_COLLECT, "mknodat", { 0, 0, S_IFBLK, 0 }, DENY },
	{ FILTER_COLLECT, "execve", { 0 }, KILL },
	{ FILTER_COLLECT, "sendmsg", { 0 }, KILL },
	{ FILTER_COLLECT, "setns", { 0 }, KILL },
	{ FILTER_UNPACK, "openat2", { 0 }, ALLOW },
	{ FILTER_UNPACK, "fchownat", { 0 }, ALLOW },
	{ FILTER_UNPACK, "mknodat", { 0, 0, S_IFCHR, 0 }, ALLOW },          /* a whiteout */
	{ FILTER_UNPACK, "mknodat", { 0, 0, S_IFIFO | 0644, 0 }, ALLOW },
	{ FILTER_UNPACK, "mknodat", { 0, 0, S_IFCHR | 0666, 0x103 }, KILL },
	{ FILTER_UNPACK, "mknodat", { 0, 0, S_IFBLK, 0 }, KILL },
	{ FILTER_UNPACK, "execve", { 0 }, KILL },
	{ FILTER_UNPACK, "socket", { AF_UNIX }, KILL },
	{ FILTER_UNPACK, "chroot", { 0 }, KILL },
	{ FILTER_UNPACK, "setns", { 0 }, KILL },
	{ FILTER_UNPACK, "mount", { 0 }, KILL },
	{ FILTER_SUPERVISOR, "epoll_pwait", { 0 }, ALLOW },
	{ FILTER_SUPERVISOR, "recvmsg", { 0 }, ALLOW },
	{ FILTER_SUPERVISOR, "execveat", { 0 }, ALLOW },
	{ FILTER_SUPERVISOR, "clone3", { 0 }, ABSENT },
	{ FILTER_SUPERVISOR, "setns", { 3, CLONE_NEWUSER }, ALLOW },
	{ FILTER_SUPERVISOR, "setns", { 3, 0 }, KILL },
	{ FILTER_SUPERVISOR, "setns", { 3, CLONE_NEWNET }, KILL },
	{ FILTER_SUPERVISOR, "seccomp", { SECCOMP_SET_MODE_FILTER, 0 }, ALLOW },
	{ FILTER_SUPERVISOR, "socket", { AF_UNIX }, KILL },
	{ FILTER_SUPERVISOR, "connect", { 0 }, KILL },
	{ FILTER_SUPERVISOR, "mount", { 0 }, KILL },
	{ FILTER_SUPERVISOR, "bpf", { 0 }, KILL },
	{ FILTER_GATE, "accept4", { 0 }, ALLOW },
	{ FILTER_GATE, "socket", { AF_INET, SOCK_STREAM, 0 }, KILL },
	{ FILTER_GATE, "connect", { 0 }, KILL },
	{ FILTER_GATE, "execve", { 0 }, KILL },
	{ FILTER_COURIER, "socket", { AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0 }, ALLOW },
	{ FILTER_COURIER, "socket", { AF_NETLINK, SOCK_RAW, 0 }, NOFAMILY },
	{ FILTER_COURIER, "socketpair", { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0 }, ALLOW },
	{ FILTER_COURIER, "socketpair", { AF_UNIX, SOCK_DGRAM, 0 }, KILL },
	{ FILTER_COURIER, "accept4", { 0 }, KILL },
	{ FILTER_COURIER, "execve", { 0 }, KILL },
	{ FILTER_INSPECT, "recvmsg", { 0 }, ALLOW },
	{ FILTER_INSPECT, "connect", { 0 }, KILL },
	{ FILTER_INSPECT, "execve", { 0 }, KILL },
	{ FILTER_PUBLISH, "connect", { 0 }, ALLOW },
	{ FILTER_PUBLISH, "socket", { AF_INET, SOCK_DGRAM, 0 }, NOFAMILY },
	{ FILTER_PUBLISH, "bind", { 0 }, KILL },
	{ FILTER_PUBLISH, "memfd_create", { 0 }, ALLOW },
	{ FILTER_PUBLISH, "setns", { 0 }, KILL },
	{ FILTER_MCP, "accept4", { 0 }, ALLOW },
	{ FILTER_MCP, "recvmsg", { 0 }, ALLOW },
	{ FILTER_MCP, "socket", { AF_UNIX, SOCK_STREAM, 0 }, KILL },
	{ FILTER_MCP, "connect", { 0 }, KILL },
	{ FILTER_MCP, "bind", { 0 }, KILL },
	{ FILTER_MCP, "execve", { 0 }, KILL },
	{ FILTER_MCP, "setns", { 0 }, KILL },
	{ FILTER_MONITOR, "ioctl", { 0, TUNSETOFFLOAD }, ALLOW },
	{ FILTER_MONITOR, "ioctl", { 0, TUNSETIFF }, DENY },
	{ FILTER_MONITOR, "ioctl", { 0, TUNSETPERSIST }, DENY },
	{ FILTER_MONITOR, "bind", { 0 }, ABSENT },
	{ FILTER_HYPERVISOR, "bind", { 0 }, ALLOW },
	{ FILTER_HYPERVISOR, "socket", { AF_UNIX, SOCK_STREAM }, ALLOW },
	{ FILTER_HYPERVISOR, "socket", { AF_INET, SOCK_STREAM }, DENY },
	{ FILTER_HYPERVISOR, "socket", { AF_NETLINK, SOCK_RAW }, DENY },
	{ FILTER_HYPERVISOR, "ioctl", { 0, TUNSETIFF }, ALLOW },
	{ FILTER_HYPERVISOR, "ioctl", { 0, SIOCGIFMTU }, ALLOW },
	{ FILTER_HYPERVISOR, "ioctl", { 0, SIOCSIFFLAGS }, DENY },
	{ FILTER_HYPERVISOR, "seccomp", { SECCOMP_SET_MODE_FILTER, 0 }, ALLOW },
	{ FILTER_HYPERVISOR, "seccomp", { SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER }, DENY },
	{ FILTER_HYPERVISOR, "unlinkat", { 0, 0, AT_REMOVEDIR }, DENY },
	{ FILTER_HYPERVISOR, "ptrace", { 0 }, ABSENT },
	{ FILTER_DISK, "pwrite64", { 0 }, ALLOW },
	{ FILTER_DISK, "openat", { 0, 0, O_CREAT, 04755 }, DENY },
	{ FILTER_DISK, "clone", { CLONE_THREAD }, ALLOW },
	{ FILTER_DISK, "clone", { SIGCHLD }, DENY },
	{ FILTER_DISK, "socket", { AF_UNIX, SOCK_STREAM }, ABSENT },
	{ FILTER_DISK, "unlink", { 0 }, ABSENT },
	{ FILTER_DISK, "ioctl", { 0, TIOCSTI }, ABSENT },
	/* A step of a build has set-id files, and with one id, gives none away. */
	{ FILTER_BUILD, "chmod", { 0, 04755 }, ALLOW },
	{ FILTER_BUILD, "openat", { 0, 0, O_CREAT, 04755 }, ALLOW },
	{ FILTER_BUILD, "fchownat", { 0 }, ALLOW },
	{ FILTER_BUILD, "setgroups", { 0 }, ALLOW },
	{ FILTER_BUILD, "mount", { 0 }, DENY },
	{ FILTER_BUILD, "openat2", { 0 }, ABSENT },
	{ FILTER_BUILD, "mknodat", { 0, 0, S_IFCHR }, DENY },
	{ FILTER_BUILD, "clone", { CLONE_NEWUSER }, DENY },
	{ FILTER_BUILD_ALONE, "fchmodat", { 0, 0, 04755 }, ALLOW },
	{ FILTER_BUILD_ALONE, "fchownat", { 0 }, SECCOMP_RET_ERRNO },
	{ FILTER_BUILD_ALONE, "setgroups", { 0 }, SECCOMP_RET_ERRNO },
	{ FILTER_BUILD_ALONE, "setresuid", { 0 }, SECCOMP_RET_ERRNO },
	{ FILTER_BUILD_ALONE, "mount", { 0 }, DENY },
	{ FILTER_VOLUME, "linkat", { 0 }, ALLOW },
	{ FILTER_VOLUME, "fchownat", { 0 }, ALLOW },
	{ FILTER_VOLUME, "mknodat", { 0, 0, S_IFCHR, 0 }, KILL },
	{ FILTER_VOLUME, "fsetxattr", { 0 }, KILL },
	{ FILTER_VOLUME, "socket", { AF_UNIX }, KILL },
	{ FILTER_VOLUME, "execve", { 0 }, KILL },
	{ FILTER_VOLUME, "kill", { 0 }, KILL },
	{ FILTER_VOLUME, "mount", { 0 }, KILL },
	{ FILTER_LAYER, "openat2", { 0 }, ALLOW },
	{ FILTER_LAYER, "flistxattr", { 0 }, ALLOW },
	{ FILTER_LAYER, "socket", { AF_INET, SOCK_STREAM, 0 }, KILL },
	{ FILTER_LAYER, "unlinkat", { 0 }, KILL },
	{ FILTER_LAYER, "fsetxattr", { 0 }, KILL },
	{ FILTER_LAYER, "execve", { 0 }, KILL },
	{ FILTER_WITNESS, "openat", { 0, 0, O_RDONLY | O_CLOEXEC }, ALLOW },
	{ FILTER_WITNESS, "openat", { 0, 0, O_PATH | O_DIRECTORY }, ALLOW },
	{ FILTER_WITNESS, "process_vm_readv", { 0 }, ALLOW },
	{ FILTER_WITNESS, "kill", { 7, 0 }, ALLOW },
	{ FILTER_WITNESS, "execve", { 0 }, KILL },
	{ FILTER_WITNESS, "setns", { 0 }, KILL },
	{ FILTER_WARDEN, "socket", { AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0 }, ALLOW },
	{ FILTER_WARDEN, "connect", { 0 }, ALLOW },
	{ FILTER_WARDEN, "pidfd_send_signal", { 0 }, ALLOW },
	{ FILTER_WARDEN, "socket", { AF_INET, SOCK_STREAM, 0 }, ERRNO(EAFNOSUPPORT) },
	{ FILTER_WARDEN, "execve", { 0 }, KILL },
	{ FILTER_WARDEN, "setns", { 0 }, KILL },
	{ FILTER_COMPARE, "read", { 0 }, ALLOW },
	{ FILTER_COMPARE, "prlimit64", { 0, RLIMIT_CPU }, ALLOW },
	{ FILTER_COMPARE, "connect", { 0 }, KILL },
	{ FILTER_COMPARE, "execve", { 0 }, KILL },
	{ FILTER_LOGIN, "accept4", { 0 }, ALLOW },
	{ FILTER_LOGIN, "execve", { 0 }, KILL },
	{ FILTER_LOGIN, "renameat", { 0 }, KILL },
	{ FILTER_LOGIN, "listen", { 0 }, KILL },
	{ FILTER_LOGIN, "socket", { AF_UNIX, SOCK_STREAM, 0 }, SECCOMP_RET_ERRNO | EAFNOSUPPORT },
	{ FILTER_PULL, "socket", { AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0 }, ALLOW },
	{ FILTER_PULL, "socket", { AF_UNIX, SOCK_STREAM, 0 }, SECCOMP_RET_ERRNO | EAFNOSUPPORT },
	{ FILTER_PULL, "renameat", { 0 }, ALLOW },
	{ FILTER_PULL, "ioctl", { 2, TIOCGWINSZ }, ALLOW },
	{ FILTER_PULL, "execve", { 0 }, KILL },
	{ FILTER_PULL, "listen", { 0 }, KILL },
	{ FILTER_PULL, "fchown", { 0 }, KILL },
	{ FILTER_SHARE, "chroot", { 0 }, ALLOW },
	{ FILTER_SHARE, "getgroups", { 0 }, SECCOMP_RET_ERRNO },
	/* The one in C returns to the user that it was. */
	{ FILTER_SHARE, "geteuid", { 0 }, ALLOW },
	{ FILTER_SHARE_RUST, "geteuid", { 0 }, SECCOMP_RET_ERRNO },
	{ FILTER_SHARE_RUST, "chroot", { 0 }, ALLOW },
	{ FILTER_SHARE_RUST, "chmod", { 0, 04755 }, DENY },
	{ FILTER_SHARE, "chmod", { 0, 04755 }, DENY },
	{ FILTER_SHARE, "mount", { 0 }, DENY },
	{ FILTER_MONITOR, "ioctl", { 3, KVM_RUN }, ALLOW },
	{ FILTER_MONITOR, "ioctl", { 3, TIOCSTI }, DENY },
	{ FILTER_MONITOR, "clone", { CLONE_VM | CLONE_THREAD }, ALLOW },
	{ FILTER_MONITOR, "clone", { 17 }, DENY },
	{ FILTER_MONITOR, "socket", { AF_UNIX, SOCK_STREAM, 0 }, DENY },
	{ FILTER_MONITOR, "unlink", { 0 }, ABSENT },
	{ FILTER_MONITOR, "mount", { 0 }, ABSENT },
	{ FILTER_MONITOR, "ptrace", { 0 }, ABSENT },
	{ FILTER_ANSWER, "ioctl", { 0, SECCOMP_IOCTL_NOTIF_RECV }, ALLOW },
	{ FILTER_ANSWER, "ioctl", { 0, SECCOMP_IOCTL_NOTIF_SEND }, ALLOW },
	{ FILTER_ANSWER, "execve", { 0 }, KILL },
	{ FILTER_ANSWER, "socket", { AF_UNIX }, KILL },
	{ FILTER_ANSWER, "sendmsg", { 0 }, KILL },
	{ FILTER_ANSWER, "read", { 0 }, KILL },
	{ FILTER_AUDIT, "openat", { 0 }, ALLOW },
	{ FILTER_AUDIT, "flock", { 0 }, ALLOW },
	{ FILTER_AUDIT, "ioctl", { 0, TIOCGWINSZ }, ALLOW },
	{ FILTER_AUDIT, "socket", { AF_INET, SOCK_STREAM, 0 }, KILL },
	{ FILTER_AUDIT, "sendmsg", { 0 }, KILL },
	{ FILTER_AUDIT, "execve", { 0 }, KILL },
	{ FILTER_AUDIT, "fchown", { 0 }, KILL },
#ifndef CLOISTER_SANITIZED
	{ FILTER_ANSWER, "ioctl", { 0, SECCOMP_IOCTL_NOTIF_ADDFD }, KILL },
	{ FILTER_ANSWER, "openat", { 0 }, KILL },
	{ FILTER_ANSWER, "process_vm_readv", { 0 }, KILL },
	{ FILTER_BLOBS, "socket", { AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0 }, ALLOW },
	{ FILTER_BLOBS, "socket", { AF_UNIX, SOCK_STREAM, 0 }, SECCOMP_RET_ERRNO | EAFNOSUPPORT },
	{ FILTER_BLOBS, "pwrite64", { 0 }, ALLOW },
	{ FILTER_BLOBS, "ioctl", { 2, TCGETS }, KILL },
	{ FILTER_BLOBS, "unlinkat", { 0 }, KILL },
	{ FILTER_BLOBS, "renameat2", { 0 }, KILL },
	{ FILTER_BLOBS, "execve", { 0 }, KILL },
	{ FILTER_BLOBS, "clone", { 0 }, KILL },
	{ FILTER_PULL, "ioctl", { 2, TIOCSTI }, KILL },
	{ FILTER_PULL, "clone", { 0 }, KILL },
	{ FILTER_PULL, "mmap", { 0, 4096, PROT_READ | PROT_EXEC }, KILL },
	{ FILTER_COMPARE, "prlimit64", { 1, RLIMIT_CPU }, KILL },
	{ FILTER_COMPARE, "openat", { 0 }, KILL },
	{ FILTER_AUDIT, "ioctl", { 0, TIOCSTI }, KILL },
	{ FILTER_AUDIT, "mmap", { 0, 4096, PROT_READ | PROT_EXEC }, KILL },
	{ FILTER_AUDIT, "clone", { 0 }, KILL },
	{ FILTER_AUDIT, "kill", { 0 }, KILL },
	{ FILTER_WITNESS, "openat", { 0, 0, O_RDWR }, KILL },
	{ FILTER_WITNESS, "openat", { 0, 0, O_RDONLY | O_CREAT }, KILL },
	{ FILTER_WITNESS, "process_vm_writev", { 0 }, KILL },
	{ FILTER_WITNESS, "ptrace", { 0 }, KILL },
	{ FILTER_WITNESS, "kill", { 7, 9 }, KILL },
	{ FILTER_WITNESS, "ioctl", { 3, SECCOMP_IOCTL_NOTIF_SEND }, KILL },
	{ FILTER_WITNESS, "socket", { AF_UNIX }, KILL },
	{ FILTER_WARDEN, "kill", { 0 }, KILL },
	{ FILTER_COLLECT, "mmap", { 0, 4096, PROT_READ | PROT_WRITE }, ALLOW },
	{ FILTER_COLLECT, "mmap", { 0, 4096, PROT_READ | PROT_EXEC }, KILL },
	{ FILTER_COLLECT, "mprotect", { 0, 4096, PROT_EXEC | UPPER }, KILL },
	{ FILTER_COLLECT, "clone", { 17 }, KILL },
	{ FILTER_COLLECT, "ptrace", { 0 }, KILL },
	{ FILTER_SUPERVISOR, "mmap", { 0, 4096, PROT_EXEC }, KILL },
	{ FILTER_GATE, "openat", { 0 }, KILL },
	{ FILTER_MCP, "openat", { 0 }, KILL },
	{ FILTER_MCP, "mmap", { 0, 4096, PROT_EXEC }, KILL },
	{ FILTER_GATE, "mmap", { 0, 4096, PROT_EXEC }, KILL },
	{ FILTER_COURIER, "mprotect", { 0, 4096, PROT_EXEC }, KILL },
	{ FILTER_PUBLISH, "openat", { 0 }, KILL },
	{ FILTER_INSPECT, "openat", { 0 }, KILL },
	{ FILTER_SUPERVISOR, "clone", { CLONE_VM | CLONE_VFORK | 17 }, ALLOW },
	{ FILTER_SUPERVISOR, "clone", { CLONE_NEWUSER | 17 }, KILL },
	{ FILTER_SUPERVISOR, "ioctl", { 0, TIOCSWINSZ }, ALLOW },
	{ FILTER_SUPERVISOR, "ioctl", { 0, TIOCSTI }, KILL },
	{ FILTER_SUPERVISOR, "prctl", { PR_SET_MM }, KILL },
	{ FILTER_SUPERVISOR, "ptrace", { 0 }, KILL },
#endif
};

TEST(filter_helper_verdicts)
{
	for (size_t i = 0; i < ARRAY_LEN(helper_cases); i++)
		for (size_t a = 0; a < ARRAY_LEN(arches); a++)
			check_verdict(a, helper_cases[i].profile, helper_cases[i].name,
			              helper_cases[i].args, helper_cases[i].want);
}

/* Numbers that no table names: ours of today, and those of tomorrow. */
TEST(filter_unknown_calls)
{
	static const int numbers[] = { 447 /* memfd_secret */, 451 /* cachestat */,
		457 /* statmount */, 458 /* listmount */, 500, 1023, 1024, 9999, 0x3fffffff, -1 };
	const uint64_t args[6] = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		for (size_t a = 0; a < ARRAY_LEN(arches); a++) {
			for (enum filter_profile p = 0; p < FILTER_PROFILES; p++)
				CHECK(verdict(a, p, numbers[i], args) ==
				      (p < FILTER_SUPERVISOR || p >= FILTER_MONITOR ? ABSENT : KILL));
		}
}

TEST(filter_kills_foreign_architectures)
{
	static const uint32_t tokens[] = { AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64,
		AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_RISCV64, 0, UINT32_MAX };
	static const uint64_t args[6] = { 0 };

	for (size_t a = 0; a < ARRAY_LEN(arches); a++)
		for (enum filter_profile p = 0; p < FILTER_PROFILES; p++)
			for (size_t t = 0; t < ARRAY_LEN(tokens); t++)
				for (int nr = 0; nr < 500; nr++) {
					struct seccomp_data data = { .nr = nr, .arch = tokens[t] };

					if (tokens[t] != arches[a].token)
						CHECK(run_code(&arches[a].codes[p], &data, NULL) == KILL);
				}
	/* x32 has x86-64's token and a bit in the number. */
	CHECK(verdict(0, FILTER_DEFAULT, 0x40000000, args) == KILL);
	CHECK(verdict(0, FILTER_DEFAULT, 0x40000000 + 520, args) == KILL);
	CHECK(verdict(0, FILTER_NESTED, -2, args) == KILL);
}

/* ---- the code says what the table says ------------------------------------------------ */

static bool
names_include(const char *names, const char *name)
{
	size_t len = strlen(name);

	for (const char *p = names; (p = strstr(p, name)) != NULL; p += len)
		if ((p == names || p[-1] == ' ') && (p[len] == ' ' || p[len] == '\0'))
			return true;
	return false;
}

static const struct filter_row *
row_of(enum filter_profile profile, const char *name)
{
	for (size_t t = 0; t < FILTER_TABLES_MAX; t++)
		for (size_t i = 0; i < filter_profiles[profile].tables[t].count; i++) {
			const struct filter_row *row = &filter_profiles[profile].tables[t].rows[i];

			if (names_include(row->names, name))
				return row;
		}
	return NULL;
}

static bool
test_holds(const struct filter_test *t, const uint64_t args[6])
{
	for (size_t i = 0; i < t->count; i++)
		if (((uint32_t)(args[t->arg & 7] >> (t->arg & 8 ? 32 : 0)) & t->mask) == t->values[i])
			return true;
	return false;
}

static uint32_t
table_verdict(const struct filter_row *row, const uint64_t args[6])
{
	const struct filter_case *c = row->cases;

	if (c == NULL)
		return row->verdict;
	for (;; c++) {
		size_t n = 0;

		while (n < FILTER_TESTS_MAX && c->tests[n].count > 0 && test_holds(&c->tests[n], args))
			n++;
		if (n == FILTER_TESTS_MAX || c->tests[n].count == 0)
			return c->verdict;
	}
}

static uint64_t
next_random(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Arguments near to what the row tests: its values, some with a bit turned. */
static void
draw_args(const struct filter_row *row, uint64_t args[6])
{
	for (size_t i = 0; i < 6; i++)
		args[i] = next_random() % 3 == 0 ? next_random() : 0;
	for (const struct filter_case *c = row->cases; c != NULL; c++) {
		for (size_t n = 0; n < FILTER_TESTS_MAX && c->tests[n].count > 0; n++)
			if (next_random() % 3 == 0)
				args[c->tests[n].arg & 7] = c->tests[n].values[next_random() % c->tests[n].count];
		if (c->tests[0].count == 0)
			break;
	}
	if (next_random() % 2 == 0)
		args[next_random() % 4] ^= UINT64_C(1) << next_random() % 64;
}

#ifdef CLOISTER_SANITIZED
#define DRAWS 300
#else
#define DRAWS 2000
#endif

TEST(filter_code_agrees_with_table)
{
	for (size_t i = 0; i < ARRAY_LEN(filter_calls); i++)
		for (enum filter_profile p = 0; p < FILTER_PROFILES; p++) {
			const struct filter_row *row = row_of(p, filter_calls[i].name);

			for (size_t n = 0; row != NULL && n < (row->cases != NULL ? DRAWS : 3); n++) {
				uint64_t args[6];

				draw_args(row, args);
				for (size_t a = 0; a < ARRAY_LEN(arches); a++)
					check_verdict(a, p, filter_calls[i].name, args,
					              table_verdict(row, args));
			}
		}
}

/* What no row names has the profile's answer, whatever its number. */
TEST(filter_code_has_nothing_more)
{
	for (size_t a = 0; a < ARRAY_LEN(arches); a++)
		for (enum filter_profile p = 0; p < FILTER_PROFILES; p++) {
			bool named[2048] = { false };
			const uint64_t args[6] = { 0 };

			for (size_t i = 0; i < ARRAY_LEN(filter_calls); i++)
				if (filter_calls[i].nr[a] >= 0 && row_of(p, filter_calls[i].name) != NULL)
					named[filter_calls[i].nr[a]] = true;
			for (int nr = 0; nr < (int)ARRAY_LEN(named); nr++)
				if (!named[nr])
					CHECK(verdict(a, p, nr, args) == filter_profiles[p].otherwise);
		}
}

/* The collector runs under the supervisor's filter as well as its own. */
TEST(filter_supervisor_includes_collector)
{
	for (size_t i = 0; i < ARRAY_LEN(filter_calls); i++) {
		const struct filter_row *row = row_of(FILTER_COLLECT, filter_calls[i].name);

		for (size_t n = 0; row != NULL && n < 500; n++) {
			uint64_t args[6];

			draw_args(row, args);
			for (size_t a = 0; a < ARRAY_LEN(arches); a++) {
				int nr = filter_calls[i].nr[a];

				if (nr >= 0 && verdict(a, FILTER_COLLECT, nr, args) == ALLOW)
					check_verdict(a, FILTER_SUPERVISOR, filter_calls[i].name, args, ALLOW);
			}
		}
	}
}

TEST(filter_common_calls_need_no_filter_run)
{
	static const char *const common[] = { "read", "write", "close", "newfstatat",
		"fstat", "statx", "mmap", "munmap", "mprotect", "brk", "futex", "poll", "ppoll",
		"epoll_pwait", "clock_gettime", "clock_nanosleep", "rt_sigprocmask", "sendmsg",
		"recvmsg", "execve", "wait4", "getdents64", "readlinkat", "getpid" };

	for (size_t i = 0; i < ARRAY_LEN(common); i++)
		for (size_t a = 0; a < ARRAY_LEN(arches); a++)
			for (enum filter_profile p = FILTER_DEFAULT; p <= FILTER_LAST_AGENT; p++) {
				struct seccomp_data data = { .nr = number_of(common[i], a),
				                             .arch = arches[a].token };
				bool reads_args;

				if (data.nr < 0)
					continue;
				CHECK(run_code(&arches[a].codes[p], &data, &reads_args) == ALLOW);
				CHECK(!reads_args);
			}
}

/* ---- notifications ---------------------------------------------------------------------------- */

static uint32_t
notifying_verdict(size_t arch, enum filter_profile profile, int nr, const uint64_t args[6])
{
	struct seccomp_data data = { .nr = nr, .arch = arches[arch].token };

	memcpy(data.args, args, sizeof(data.args));
	return run_code(&arches[arch].notifying[profile], &data, NULL);
}

/* ALLOW here means: not reported. */
static const struct {
	const char *name;
	uint64_t args[6];
	uint32_t want, nested;
} notify_cases[] = {
	{ "execve", { 0 }, NOTIFY, NOTIFY },
	{ "execveat", { 0 }, NOTIFY, NOTIFY },
	{ "read", { 0 }, ALLOW, ALLOW },
	{ "openat", { 0, 0, O_RDONLY | O_CLOEXEC | O_DIRECTORY }, ALLOW, ALLOW },
	{ "openat", { 0, 0, O_WRONLY }, NOTIFY, NOTIFY },
	{ "openat", { 0, 0, O_RDWR | UPPER }, NOTIFY, NOTIFY },
	{ "openat", { 0, 0, O_ACCMODE }, NOTIFY, NOTIFY },
	{ "openat", { 0, 0, O_CREAT }, NOTIFY, NOTIFY },
	{ "openat", { 0, 0, O_TRUNC }, NOTIFY, NOTIFY },
	{ "openat", { 0, 0, O_CREAT | O_TRUNC | O_EXCL, 0644 }, NOTIFY, NOTIFY },
	{ "openat", { 0, 0, O_CREAT, 04755 }, NOTIFY, NOTIFY },             /* refused */
	{ "open", { 0, O_RDONLY }, ALLOW, ALLOW },
	{ "open", { 0, O_RDWR }, NOTIFY, NOTIFY },
	{ "creat", { 0 }, NOTIFY, NOTIFY },
	{ "mq_open", { 0, O_RDWR }, ALLOW, ALLOW },
	{ "unlinkat", { 0 }, NOTIFY, NOTIFY },
	{ "connect", { 0 }, NOTIFY, NOTIFY },
	{ "sendto", { 0 }, ALLOW, ALLOW },
	{ "sendto", { 0, 0, 0, MSG_NOSIGNAL | UPPER }, ALLOW, ALLOW },
	{ "sendto", { 0, 0, 0, MSG_NOSIGNAL | MSG_FASTOPEN }, NOTIFY, NOTIFY },
	{ "sendmsg", { 0, 0, MSG_NOSIGNAL }, ALLOW, ALLOW },
	{ "sendmsg", { 0, 0, MSG_FASTOPEN }, NOTIFY, NOTIFY },
	{ "sendmmsg", { 0, 0, 0, MSG_FASTOPEN }, NOTIFY, NOTIFY },
	{ "kill", { 1, 0 }, ALLOW, ALLOW },
	{ "kill", { 1, SIGTERM }, NOTIFY, NOTIFY },
	{ "tgkill", { 1, 1, SIGURG }, ALLOW, ALLOW },
	{ "tgkill", { 1, 1, SIGKILL }, NOTIFY, NOTIFY },
	{ "ptrace", { PTRACE_CONT }, ALLOW, ALLOW },
	{ "ptrace", { PTRACE_SEIZE }, NOTIFY, NOTIFY },
	{ "clone", { CLONE_VM | CLONE_VFORK | SIGCHLD }, ALLOW, ALLOW },
	{ "clone", { CLONE_NEWUSER | SIGCHLD }, NOTIFY, NOTIFY },
	{ "unshare", { CLONE_FILES }, ALLOW, ALLOW },
	{ "unshare", { CLONE_NEWTIME }, NOTIFY, NOTIFY },
	{ "bpf", { 0 }, NOTIFY, NOTIFY },
	{ "io_uring_setup", { 0 }, NOTIFY, NOTIFY },
	{ "socket", { AF_PACKET, SOCK_RAW, 0 }, NOTIFY, NOTIFY },
	{ "socket", { AF_UNIX, SOCK_STREAM, 0 }, ALLOW, ALLOW },
	{ "setxattr", { 0 }, ALLOW, NOTIFY },
	/* Programs ask for these all the time, and go on without. */
	{ "clone3", { 0 }, ABSENT, ABSENT },
	{ "openat2", { 0 }, ABSENT, ABSENT },
	/* Reports success. */
	{ "setrlimit", { RLIMIT_CORE }, ERRNO(0), ERRNO(0) },
};

TEST(filter_notifies)
{
	for (size_t i = 0; i < ARRAY_LEN(notify_cases); i++)
		for (size_t a = 0; a < ARRAY_LEN(arches); a++) {
			int nr = number_of(notify_cases[i].name, a);

			if (nr < 0)
				continue;
			if (notifying_verdict(a, FILTER_DEFAULT, nr, notify_cases[i].args) != notify_cases[i].want ||
			    notifying_verdict(a, FILTER_NESTED, nr, notify_cases[i].args) != notify_cases[i].nested)
				test_fail(__FILE__, __LINE__, "%s: %s, case %zu", arches[a].name, notify_cases[i].name, i);
		}
	/* bubblewrap has its flags in memory. */
	CHECK(notifying_verdict(0, FILTER_NESTED_APART, number_of("openat2", 0), (uint64_t[6]){ 0 }) == NOTIFY);
}

static bool
is_refusal(uint32_t verdict)
{
	return (verdict & SECCOMP_RET_ACTION_FULL) == SECCOMP_RET_ERRNO && (verdict & SECCOMP_RET_DATA) != 0;
}

/* A report may replace a verdict that the answerer gives again, from the same code, and no other: so a call gets
 * the same with notifications and without. */
static void
check_notifying(size_t arch, enum filter_profile profile, int nr, const uint64_t args[6], bool is_quiet)
{
	uint32_t plain = verdict(arch, profile, nr, args), notifying = notifying_verdict(arch, profile, nr, args);

	if (notifying == NOTIFY ? plain != ALLOW && !is_refusal(plain) :
	    notifying != plain || (is_refusal(plain) && !is_quiet))
		test_fail(__FILE__, __LINE__, "%s %s: call %d(%#llx, %#llx, %#llx, ...) gets %#x, and %#x with notifications",
		          arches[arch].name, filter_profiles[profile].name, nr, (unsigned long long)args[0],
		          (unsigned long long)args[1], (unsigned long long)args[2], plain, notifying);
}

TEST(filter_notifications_change_no_verdict)
{
	for (size_t i = 0; i < ARRAY_LEN(filter_calls); i++)
		for (enum filter_profile p = 0; p <= FILTER_LAST_AGENT; p++) {
			const struct filter_row *row = row_of(p, filter_calls[i].name);
			const bool is_quiet = names_include(filter_quiet, filter_calls[i].name);

			for (size_t n = 0; n < (row != NULL && row->cases != NULL ? DRAWS : 20); n++) {
				uint64_t args[6];

				draw_args(row != NULL ? row : &(struct filter_row){ 0 }, args);
				for (size_t a = 0; a < ARRAY_LEN(arches); a++)
					if (filter_calls[i].nr[a] >= 0)
						check_notifying(a, p, filter_calls[i].nr[a], args, is_quiet);
			}
		}
}

/* Calls that no table names, foreign architectures, and a tracer's way to skip a call. */
TEST(filter_notifications_of_unknown_calls)
{
	static const int numbers[] = { 447 /* memfd_secret */, 457 /* statmount */, 1023, 1024, 9999, 0x3fffffff };
	const uint64_t args[6] = { 0 };

	for (size_t a = 0; a < ARRAY_LEN(arches); a++)
		for (enum filter_profile p = 0; p <= FILTER_LAST_AGENT; p++) {
			struct seccomp_data foreign = { .nr = 1, .arch = AUDIT_ARCH_I386 };

			for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
				CHECK(notifying_verdict(a, p, numbers[i], args) == NOTIFY);
			CHECK(run_code(&arches[a].notifying[p], &foreign, NULL) == KILL);
		}
	CHECK(notifying_verdict(0, FILTER_DEFAULT, -1, args) == ABSENT);
	CHECK(notifying_verdict(0, FILTER_DEFAULT, 0x40000000, args) == KILL);
}

/* The answerer runs the code that the kernel would. */
TEST(filter_answers_as_the_kernel_does)
{
#if defined(__aarch64__)
	const size_t native = 1;
#else
	const size_t native = 0;
#endif
	for (size_t i = 0; i < ARRAY_LEN(filter_calls); i++)
		for (enum filter_profile p = 0; p <= FILTER_LAST_AGENT; p++) {
			const struct filter_row *row = row_of(p, filter_calls[i].name);
			struct seccomp_data data = { .nr = filter_calls[i].nr[native], .arch = arches[native].token };
			uint64_t args[6];

			draw_args(row != NULL ? row : &(struct filter_row){ 0 }, args);
			memcpy(data.args, args, sizeof(args));
			CHECK(filter_answer(p, &data) == verdict(native, p, data.nr, args));
		}
}

TEST(filter_notifying_leaves_common_calls_alone)
{
	static const char *const common[] = { "read", "write", "close", "newfstatat", "fstat", "statx", "mmap", "munmap",
		"mprotect", "brk", "futex", "ppoll", "epoll_pwait", "clock_gettime", "rt_sigprocmask", "recvmsg",
		"wait4", "getdents64", "readlinkat", "getpid" };

	for (size_t i = 0; i < ARRAY_LEN(common); i++)
		for (size_t a = 0; a < ARRAY_LEN(arches); a++)
			for (enum filter_profile p = 0; p <= FILTER_LAST_AGENT; p++) {
				struct seccomp_data data = { .nr = number_of(common[i], a), .arch = arches[a].token };
				bool reads_args;

				CHECK(run_code(&arches[a].notifying[p], &data, &reads_args) == ALLOW && !reads_args);
			}
}
