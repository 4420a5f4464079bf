/* filter_table.h - the system calls that each profile may make: which tables it has.
 *
 * Only filter_gen.c (which turns this into BPF) and the tests read it.  If two tables of a profile name the
 * same call, the earlier table decides. */
#ifndef CLOISTER_FILTER_TABLE_H
#define CLOISTER_FILTER_TABLE_H
#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#include "confine/filter_agent.h"
#include "confine/filter_helpers.h"
#include "confine/filter_machines.h"
#include "confine/filter_notify.h"
#include "confine/filter_porter.h"
#include "confine/filter_process.h"
#include "confine/filter_row.h"

#ifdef CLOISTER_SANITIZED
/* The sanitizers' run-time, a dynamic program's start, and the search for leaks. */
static const struct filter_row filter_sanitizer[] = {
	{ "sigaltstack mmap mprotect clone prctl", .verdict = ALLOW },
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
	[FILTER_BUILD] = { "build", ABSENT, { TABLE(filter_build), TABLE(filter_agent) } },
	[FILTER_BUILD_ALONE] = { "build_alone", ABSENT, { TABLE(filter_alone),
		TABLE(filter_build), TABLE(filter_agent) } },
	[FILTER_PROCESS] = { "process", ABSENT, { TABLE(filter_process), TABLE(filter_agent) } },
#ifdef CLOISTER_SANITIZED
	[FILTER_PORTER] = { "porter", KILL, { TABLE(filter_sanitizer), TABLE(filter_porter) } },
	[FILTER_LAYER] = { "layer", KILL, { TABLE(filter_sanitizer), TABLE(filter_layer) } },
	[FILTER_ANSWER] = { "answer", KILL, { TABLE(filter_sanitizer), TABLE(filter_answerer) } },
	[FILTER_SUPERVISOR] = { "supervisor", KILL, { TABLE(filter_sanitizer),
		TABLE(filter_supervisor), TABLE(filter_collect) } },
	[FILTER_COLLECT] = { "collect", KILL, { TABLE(filter_sanitizer), TABLE(filter_collect) } },
	[FILTER_AUDIT] = { "audit", KILL, { TABLE(filter_sanitizer), TABLE(filter_audit) } },
#define EGRESS(name) KILL, { TABLE(filter_sanitizer), TABLE(filter_##name), TABLE(filter_egress) }
#else
	[FILTER_PORTER] = { "porter", KILL, { TABLE(filter_porter) } },
	[FILTER_LAYER] = { "layer", KILL, { TABLE(filter_layer) } },
	[FILTER_ANSWER] = { "answer", KILL, { TABLE(filter_answerer) } },
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
	[FILTER_PULL] = { "pull", EGRESS(pull) },
	[FILTER_BLOBS] = { "blobs", EGRESS(blobs) },
	[FILTER_FLEET] = { "fleet", EGRESS(fleet) },
	[FILTER_LINK] = { "link", EGRESS(link) },
	[FILTER_LOGIN] = { "login", EGRESS(login) },
	[FILTER_WARDEN] = { "warden", EGRESS(warden) },
	[FILTER_STATE] = { "state", EGRESS(state) },
	[FILTER_UNPACK] = { "unpack", EGRESS(unpack) },
	[FILTER_VOLUME] = { "volume", EGRESS(volume) },
	[FILTER_WITNESS] = { "witness", EGRESS(witness) },
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
