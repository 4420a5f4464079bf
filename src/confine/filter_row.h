/* filter_row.h - how the tables of system calls are written.
 *
 * A row answers for the system calls it names, either with one verdict or with cases, the first that fits.
 *
 * Every tested argument is tested by its lower 32 bits: each of them is an int, an unsigned int or
 * flags of which the kernel itself uses no more, so the upper half can neither open nor close
 * anything.  The one pointer that is tested, for being NULL, is tested in both halves. */
#ifndef CLOISTER_FILTER_ROW_H
#define CLOISTER_FILTER_ROW_H
#include <errno.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

#include "confine/filter.h"

#define ALLOW     SECCOMP_RET_ALLOW
#define KILL      SECCOMP_RET_KILL_PROCESS
#define ERRNO(e)  (SECCOMP_RET_ERRNO | (e))
#define DENY      ERRNO(EPERM)      /* known, and dangerous */
#define ABSENT    ERRNO(ENOSYS)     /* programs fall back as on an older kernel */
#define NONE      ERRNO(0)          /* not done, and answered with a zero */
#define NOTIFY    SECCOMP_RET_USER_NOTIF        /* only in filter_notify.h */

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
#endif
