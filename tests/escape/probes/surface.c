/* surface.c - which parts of the kernel answer at all.
 *
 * Each call has arguments that do no harm: what tells is whether the kernel's
 * own code refused them (EFAULT, EINVAL, EBADF...) or something before it did. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe.h"

#define BAD ((void *)1)
#define NR_STATMOUNT 457
#define NR_LISTMOUNT 458
#define NR_LSM_LIST_MODULES 461
#define NR_OPEN_TREE_ATTR 467

static long
try_settimeofday(void)
{
	struct timeval tv = { 0, -1 };

	return syscall(SYS_settimeofday, &tv, NULL);
}

static long
try_clock_settime(void)
{
	struct timespec ts = { 0, -1 };

	return syscall(SYS_clock_settime, CLOCK_REALTIME, &ts);
}

static long
try_alarm_timer(void)
{
	timer_t timer;

	errno = 0;
	/* Where no clock can wake the machine, there is nothing to try. */
	if (timer_create(CLOCK_REALTIME_ALARM, NULL, &timer) < 0 && errno == EOPNOTSUPP)
		errno = ENOSYS;
	return errno == 0 ? 0 : -1;
}

static long
try_prctl_mm(void)
{
	unsigned size = 0;

	return prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0);
}

static long
try_notify(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog prog = { 1, &allow };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
}

static long
try_io_uring_fd(void)
{
	long r = syscall(426, -1, 0, 0, 0, 0, 0);

	return reached(r) ? 0 : syscall(427, -1, 0, 0, 0);
}

#define TRY(name, ...) static long try_##name(void) { return syscall(__VA_ARGS__); }
TRY(io_uring_setup, 425, 1, BAD)
TRY(bpf, SYS_bpf, 0, BAD, 8)
TRY(perf, SYS_perf_event_open, BAD, 0, 0, -1, 0)
TRY(userfaultfd, SYS_userfaultfd, 1)
TRY(keyctl, SYS_keyctl, KEYCTL_DESCRIBE, -1, NULL, 0)
TRY(add_key, SYS_add_key, BAD, BAD, NULL, 0, 0)
TRY(request_key, SYS_request_key, BAD, BAD, NULL, 0)
TRY(mount, SYS_mount, NULL, "/no/such/place", NULL, 0, NULL)
TRY(umount, SYS_umount2, "/no/such/place", 0x40000000)
TRY(open_tree, 428, AT_FDCWD, "/", O_CLOEXEC)
TRY(move_mount, 429, -1, "", -1, "", 0x40000000)
TRY(fsopen, 430, BAD, 0)
TRY(fspick, 433, -1, BAD, 0)
TRY(mount_setattr, 442, -1, BAD, 0, BAD, 0)
TRY(open_tree_attr, NR_OPEN_TREE_ATTR, -1, BAD, 0, BAD, 0)
TRY(statmount, NR_STATMOUNT, BAD, BAD, 8, 0)
TRY(listmount, NR_LISTMOUNT, BAD, BAD, 8, 0)
TRY(pivot_root, SYS_pivot_root, "/no/such/place", "/no/such/place")
TRY(chroot, SYS_chroot, "/no/such/place")
TRY(setns, SYS_setns, -1, 0)
TRY(handle_open, SYS_open_by_handle_at, -1, BAD, 0)
TRY(kexec, SYS_kexec_load, 0, 1UL << 20, BAD, 0)
TRY(reboot, SYS_reboot, 0, 0, 0, NULL)
TRY(swapon, SYS_swapon, "/no/such/place", 0x4000000)
TRY(swapoff, SYS_swapoff, "/no/such/place")
TRY(acct, SYS_acct, "/no/such/place")
TRY(init_module, SYS_init_module, BAD, 8, "")
TRY(finit_module, SYS_finit_module, -1, "", 0)
TRY(quotactl, SYS_quotactl, 0x7fffffff, NULL, 0, NULL)
TRY(fanotify, SYS_fanotify_init, 0x200, 0)
TRY(sethostname, SYS_sethostname, "x", -1)
TRY(lsm_list, NR_LSM_LIST_MODULES, BAD, BAD, 0)
TRY(pidfd_getfd, 438, -1, 0, 0)
#undef TRY

static const struct {
	const char *name;
	long (*call)(void);
} calls[] = {
	{ "io_uring_setup", try_io_uring_setup }, { "io_uring_fd",    try_io_uring_fd    },
	{ "bpf",            try_bpf            }, { "perf",           try_perf           },
	{ "userfaultfd",    try_userfaultfd    }, { "keyctl",         try_keyctl         },
	{ "add_key",        try_add_key        }, { "request_key",    try_request_key    },
	{ "mount",          try_mount          }, { "umount",         try_umount         },
	{ "open_tree",      try_open_tree      }, { "move_mount",     try_move_mount     },
	{ "fsopen",         try_fsopen         }, { "fspick",         try_fspick         },
	{ "mount_setattr",  try_mount_setattr  }, { "open_tree_attr", try_open_tree_attr },
	{ "statmount",      try_statmount      }, { "listmount",      try_listmount      },
	{ "pivot_root",     try_pivot_root     }, { "chroot",         try_chroot         },
	{ "setns",          try_setns          }, { "handle_open",    try_handle_open    },
	{ "kexec",          try_kexec          }, { "reboot",         try_reboot         },
	{ "swapon",         try_swapon         }, { "swapoff",        try_swapoff        },
	{ "acct",           try_acct           },
	{ "init_module",    try_init_module    }, { "finit_module",   try_finit_module   },
	{ "quotactl",       try_quotactl       }, { "fanotify",       try_fanotify       },
	{ "sethostname",    try_sethostname    }, { "lsm_list",       try_lsm_list       },
	{ "pidfd_getfd",    try_pidfd_getfd    }, { "settimeofday",   try_settimeofday   },
	{ "clock_settime",  try_clock_settime  }, { "alarm_timer",    try_alarm_timer    },
	{ "notify",         try_notify         }, { "prctl_mm",       try_prctl_mm       },
};

static int
probe_surface(int argc, char **argv)
{
	(void)argc;
	for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
		if (strcmp(calls[i].name, argv[0]) != 0)
			continue;
		report_ready();
		if (reached(calls[i].call()))
			return report_won("%s", argv[0]);
		return report_lost(argv[0]);
	}
	return 2;
}

#if defined(__aarch64__)
/* An ARM program of three instructions: _exit(42) by 32-bit calls. */
static const uint32_t foreign_code[] = { 0xe3a07001, 0xe3a0002a, 0xef000000 };
#define FOREIGN_MACHINE 40
#elif defined(__x86_64__)
/* mov $1,%eax; mov $42,%ebx; int $0x80 */
static const uint8_t foreign_code[] = { 0xb8, 1, 0, 0, 0, 0xbb, 42, 0, 0, 0, 0xcd, 0x80 };
#define FOREIGN_MACHINE 3
#else
static const uint8_t foreign_code[] = { 0 };
#define FOREIGN_MACHINE 0
#endif

struct foreign {
	uint8_t ident[16];
	uint16_t type, machine;
	uint32_t version, entry, phoff, shoff, flags;
	uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
	uint32_t p_type, p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_flags, p_align;
	uint8_t code[sizeof(foreign_code)];
};

/* Run a program of the other word size, out of memory. */
static int
probe_foreign(int argc, char **argv)
{
	struct foreign f = {
		.ident = { 0x7f, 'E', 'L', 'F', 1, 1, 1 }, .type = 2, .machine = FOREIGN_MACHINE,
		.version = 1, .entry = 0x10000 + offsetof(struct foreign, code), .phoff = 52,
		.flags = 0x05000000, .ehsize = 52, .phentsize = 32, .phnum = 1, .p_type = 1,
		.p_vaddr = 0x10000, .p_filesz = sizeof(f), .p_memsz = sizeof(f), .p_flags = 5,
		.p_align = 0x1000,
	};
	char *args[] = { "foreign", (char *)probe_nonce, NULL };
	int fd = memfd_create("foreign", 0), status = 0;
	pid_t pid;

	(void)argc, (void)argv;
	memcpy(f.code, foreign_code, sizeof(foreign_code));
	if (fd < 0 || write(fd, &f, sizeof(f)) != sizeof(f))
		return report_lost("memfd");
	report_ready();
	pid = fork();
	if (pid == 0) {
		fexecve(fd, args, environ);
		_exit(report_lost("exec"));
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 42)
		return report_won("32-bit calls are answered");
	return report_lost("foreign");
}

#if defined(__x86_64__)
static long
call_x32(void)
{
	return syscall(0x40000000 | SYS_getpid);
}

static long
call_int80(void)
{
	long r;

	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
	return r;
}
#endif

/* The other entry points of this same program. */
static int
probe_entry(int argc, char **argv)
{
	(void)argc;
	report_ready();
	errno = ENOSYS;
#if defined(__x86_64__)
	if ((strcmp(argv[0], "x32") == 0 ? call_x32() : call_int80()) == getpid())
		return report_won("%s", argv[0]);
#endif
	return report_lost(argv[0]);
}

static int
probe_personality(int argc, char **argv)
{
	(void)argc;
	report_ready();
	if (personality(strtoul(argv[0], NULL, 16)) < 0)
		report_lost("personality");
	else
		report_won("personality");
	return hold();
}

static void
read_key(long serial)
{
	char text[256] = "";
	long n = syscall(SYS_keyctl, KEYCTL_READ, serial, text, sizeof(text) - 1, 0);

	if (n > 0)
		printf("key %ld: %s\n", serial, text);
	else
		report_lost("keyctl read");
}

/* NAME SERIAL: a key of the host, by the keyrings one has and by its number. */
static int
probe_key(int argc, char **argv)
{
	static const int rings[] = {
		KEY_SPEC_SESSION_KEYRING, KEY_SPEC_USER_KEYRING, KEY_SPEC_USER_SESSION_KEYRING,
		KEY_SPEC_PROCESS_KEYRING, KEY_SPEC_THREAD_KEYRING,
	};
	long serial;

	(void)argc;
	report_ready();
	for (size_t i = 0; i < ARRAY_LEN(rings); i++) {
		serial = syscall(SYS_keyctl, KEYCTL_SEARCH, rings[i], "user", argv[0], 0);
		if (serial > 0)
			read_key(serial);
	}
	serial = syscall(SYS_request_key, "user", argv[0], NULL, 0);
	if (serial > 0)
		read_key(serial);
	if (strcmp(argv[1], "0") != 0)
		read_key(atol(argv[1]));
	fflush(stdout);
	return 0;
}

/* The kernel runs the host's crash handler unless this limit is exactly 1. */
static int
probe_core_limit(int argc, char **argv)
{
	struct rlimit none = { 0, 0 };

	(void)argc, (void)argv;
	report_ready();
	if (syscall(SYS_prlimit64, 0, RLIMIT_CORE, &none, NULL) < 0)
		report_lost("prlimit64");
	/* The resource is an unsigned int: the filter must not see the upper half. */
	if (syscall(SYS_prlimit64, 0, 1UL << 32 | RLIMIT_CORE, &none, NULL) < 0)
		report_lost("prlimit64 with upper bits");
	if (syscall(SYS_prlimit64, getpid(), RLIMIT_CORE, &none, NULL) < 0)
		report_lost("prlimit64 by number");
#ifdef SYS_setrlimit
	if (syscall(SYS_setrlimit, RLIMIT_CORE, &none) < 0)
		report_lost("setrlimit");
#endif
	fprintf(stderr, "@made 1\n");
	return hold();
}

/* Real-time scheduling and a raised priority, seen from outside. */
static int
probe_priority(int argc, char **argv)
{
	struct sched_param p = { .sched_priority = 1 };

	(void)argc, (void)argv;
	report_ready();
	if (syscall(SYS_sched_setscheduler, 0, 1 /* SCHED_FIFO */, &p) < 0)
		report_lost("SCHED_FIFO");
	if (syscall(SYS_setpriority, 0, 0, -5) < 0)
		report_lost("nice");
	return hold();
}

const struct probe probes_surface[] = {
	{ "surface",     "CALL",        probe_surface,     1 },
	{ "foreign",     "",            probe_foreign,     0 },
	{ "entry",       "x32|int80",   probe_entry,       1 },
	{ "personality", "FLAGS",       probe_personality, 1 },
	{ "key",         "NAME SERIAL", probe_key,         2 },
	{ "core-limit",  "",            probe_core_limit,  0 },
	{ "priority",    "",            probe_priority,    0 },
	{ 0 }
};
