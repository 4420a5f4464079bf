/* landlock.c - the cell's Landlock ruleset; see landlock.h. */
#include "confine/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/control.h"
#include "base/err.h"
#include "base/own.h"

/* A distribution's kernel header may be older than its kernels, so the interface is declared here. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif
#define CREATE_RULESET_VERSION 1u
#define RULE_PATH_BENEATH 1

enum {
	FS_EXECUTE     = 1 << 0,
	FS_WRITE_FILE  = 1 << 1,
	FS_READ_FILE   = 1 << 2,
	FS_READ_DIR    = 1 << 3,
	FS_REMOVE_DIR  = 1 << 4,
	FS_REMOVE_FILE = 1 << 5,
	FS_MAKE_CHAR   = 1 << 6,
	FS_MAKE_DIR    = 1 << 7,
	FS_MAKE_FILE   = 1 << 8,
	FS_MAKE_SOCK   = 1 << 9,
	FS_MAKE_BLOCK  = 1 << 11,
	FS_MAKE_SYM    = 1 << 12,
	FS_FIRST       = (1 << 13) - 1,     /* all rights of the first ABI */
	FS_REFER       = 1 << 13,           /* ABI 2 */
	FS_TRUNCATE    = 1 << 14,           /* ABI 3 */
	FS_IOCTL_DEV   = 1 << 15,           /* ABI 5 */
	FS_OF_A_FILE   = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV,

	NET_BIND_TCP    = 1 << 0,           /* ABI 4 */
	NET_CONNECT_TCP = 1 << 1,

	SCOPE_ABSTRACT_SOCKET = 1 << 0,     /* ABI 6 */
	SCOPE_SIGNAL          = 1 << 1,
};

#define ABI_REFER    2
#define ABI_TRUNCATE 3
#define ABI_NETWORK  4
#define ABI_IOCTL    5
#define ABI_SCOPES   6

/* A kernel that knows fewer fields requires the others to be zero, whatever size is passed. */
struct ruleset_attr {
	uint64_t handled_fs, handled_net, scoped;
};
struct path_beneath_attr {
	uint64_t allowed;
	int32_t parent_fd;
} __attribute__((packed));

int
landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);

	return abi < 0 ? 0 : (int)abi;
}

static uint64_t
known_rights(int abi)
{
	uint64_t rights = FS_FIRST;

	if (abi >= ABI_REFER)
		rights |= FS_REFER;
	if (abi >= ABI_TRUNCATE)
		rights |= FS_TRUNCATE;
	if (abi >= ABI_IOCTL)
		rights |= FS_IOCTL_DEV;
	return rights;
}

static int
allow_beneath(int ruleset, const char *path, uint64_t rights, struct err *err)
{
	OWN(closep) int fd = open(path, O_PATH | O_CLOEXEC);
	struct path_beneath_attr rule = { rights, fd };
	struct stat st;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot open '%s' for Landlock", path);
	if (!S_ISDIR(st.st_mode))
		rule.allowed &= FS_OF_A_FILE;
	if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) < 0)
		return err_errno(err, "cannot add '%s' to the Landlock rules", path);
	return 0;
}

/* Terminals need FS_IOCTL_DEV, and the cell's /dev holds no dangerous device.  The right is handled
 * all the same, so that devices outside the root do not have it. */
static int
allow_files(int ruleset, enum landlock_kind kind, uint64_t known,
            const char *const *writable, struct err *err)
{
	const uint64_t read = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR | FS_IOCTL_DEV;
	/* A shell's > truncates, in /proc too. */
	const uint64_t as_it_stands = FS_WRITE_FILE | FS_TRUNCATE;
	const uint64_t nodes = kind == LANDLOCK_SUPERVISOR ? FS_MAKE_BLOCK
	                                                   : FS_MAKE_BLOCK | FS_MAKE_CHAR;
	const uint64_t change = known & ~nodes;
	int r;

	r = allow_beneath(ruleset, "/", known & read, err);
	if (r == 0)
		r = allow_beneath(ruleset, "/dev", known & as_it_stands, err);
	if (r == 0)
		r = allow_beneath(ruleset, "/proc", known & as_it_stands, err);
	/* The empty folder of a cell of the boundary `process`. */
	if (r == 0 && kind == LANDLOCK_SUPERVISOR)
		r = allow_beneath(ruleset, "/tmp", known & FS_REMOVE_DIR, err);
	for (; r == 0 && *writable != NULL; writable++)
		r = allow_beneath(ruleset, *writable, change, err);
	return r;
}

int
landlock_make_apart(int *ret_fd, struct err *err)
{
	/* The kernel wants a right that is handled.  Without FS_REFER it would forbid that one. */
	const struct ruleset_attr attr = { .handled_fs = FS_MAKE_BLOCK | FS_REFER };
	OWN(closep) int fd = -1;
	int r;

	if (landlock_abi() < ABI_REFER)
		return err_set(err, ENOTSUP, "this kernel has no Landlock of version 2");
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (fd < 0)
		return err_errno(err, "cannot make a Landlock ruleset");
	r = allow_beneath(fd, "/", FS_MAKE_BLOCK | FS_REFER, err);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

int
landlock_make_execute(int *ret_fd, struct err *err)
{
	const struct ruleset_attr attr = { .handled_fs = FS_EXECUTE | FS_REFER };
	OWN(closep) int fd = -1;
	int r;

	if (landlock_abi() < ABI_REFER)
		return err_set(err, ENOTSUP, "this kernel has no Landlock of version 2");
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (fd < 0)
		return err_errno(err, "cannot make a Landlock ruleset");
	r = allow_beneath(fd, "/", FS_REFER, err);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

void
landlock_allow_execute(int ruleset, int program)
{
	const struct path_beneath_attr rule = { FS_EXECUTE, program };

	(void)syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0);
}

int
landlock_make(enum landlock_kind kind, const char *const *writable, int *ret_fd,
              struct err *err)
{
	int abi = CONTROL_ON("landlock") ? landlock_abi() : 0;
	struct ruleset_attr attr = { 0 };
	OWN(closep) int fd = -1;
	int r;

	/* The first ABI forbids every rename between folders, without which npm and cargo do not work. */
	if (kind != LANDLOCK_SCOPES_ONLY && abi >= ABI_REFER)
		attr.handled_fs = known_rights(abi);
	if (kind != LANDLOCK_SUPERVISOR && abi >= ABI_SCOPES)
		attr.scoped = SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL;
	if (attr.handled_fs == 0 && attr.scoped == 0) {
		*ret_fd = -1;
		return 0;
	}

	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (fd < 0)
		return err_errno(err, "cannot make a Landlock ruleset");
	if (attr.handled_fs != 0) {
		r = allow_files(fd, kind, attr.handled_fs, writable, err);
		if (r < 0)
			return r;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* A ruleset for scopes alone takes no rule: then nothing forbids it. */
void
landlock_allow_program(int ruleset, int program)
{
	const struct path_beneath_attr rule = { FS_EXECUTE | FS_READ_FILE, program };

	(void)syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0);
}

/* A ruleset without rules, or -1 on a kernel without Landlock. */
static int
make_empty(bool dials, int *ret_fd, struct err *err)
{
	int abi = CONTROL_ON("landlock") ? landlock_abi() : 0;
	struct ruleset_attr attr = { .handled_fs = known_rights(abi) };

	*ret_fd = -1;
	if (abi == 0)
		return 0;
	if (abi >= ABI_NETWORK)
		attr.handled_net = NET_BIND_TCP | (dials ? 0 : NET_CONNECT_TCP);
	if (abi >= ABI_SCOPES)
		attr.scoped = SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL;
	*ret_fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	return *ret_fd < 0 ? err_errno(err, "cannot make a Landlock ruleset") : 0;
}

static int
allow_all(int ruleset, const char *const *paths, uint64_t rights, struct err *err)
{
	int r = 0;

	for (; r == 0 && ruleset >= 0 && paths != NULL && *paths != NULL; paths++)
		r = allow_beneath(ruleset, *paths, rights, err);
	return r;
}

int
landlock_make_reader(const char *const *readable, const char *const *writable, bool links, bool dials, int *ret_fd,
                     struct err *err)
{
	const uint64_t change = FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_MAKE_FILE | FS_MAKE_DIR |
	                        FS_REMOVE_FILE | FS_REMOVE_DIR | FS_REFER | FS_TRUNCATE | (links ? FS_MAKE_SYM : 0);
	OWN(closep) int fd = -1;
	int r;

	*ret_fd = -1;
	/* The first ABI forbids every rename between folders. */
	if (writable != NULL && landlock_abi() < ABI_REFER)
		return 0;
	r = make_empty(dials, &fd, err);
	if (r == 0)
		r = allow_all(fd, readable, FS_READ_FILE | FS_READ_DIR, err);
	if (r == 0)
		r = allow_all(fd, writable, change & known_rights(landlock_abi()), err);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

int
landlock_make_program(const char *const *readable, const char *const *writable, int *ret_fd, struct err *err)
{
	OWN(closep) int fd = -1;
	int r = make_empty(false, &fd, err);

	if (r == 0)
		r = allow_all(fd, readable, FS_EXECUTE | FS_READ_FILE | FS_READ_DIR, err);
	if (r == 0)
		r = allow_all(fd, writable, FS_READ_FILE | FS_WRITE_FILE | (known_rights(landlock_abi()) & FS_TRUNCATE), err);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

int
landlock_make_filler(int dir, int *ret_fd, struct err *err)
{
	const int abi = landlock_abi();
	OWN(closep) int fd = -1;
	/* A whiteout is a character device of number 0; the filter refuses other numbers. */
	struct path_beneath_attr rule = { known_rights(abi) & ~(uint64_t)(FS_EXECUTE | FS_MAKE_BLOCK | FS_MAKE_SOCK |
	                                  FS_IOCTL_DEV), dir };
	int r = 0;

	*ret_fd = -1;
	if (abi < ABI_REFER)
		return 0;
	r = make_empty(false, &fd, err);
	if (r == 0 && fd >= 0 && syscall(SYS_landlock_add_rule, fd, RULE_PATH_BENEATH, &rule, 0) < 0)
		r = err_errno(err, "cannot add a folder to the Landlock rules");
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

int
landlock_make_cell(const struct landlock_cell *cell, int *ret_fd, struct err *err)
{
	const int abi = landlock_abi();
	const uint64_t known = known_rights(abi);
	const char *const folder[] = { cell->folder, NULL };
	struct ruleset_attr attr = { .handled_fs = known };
	OWN(closep) int fd = -1;
	int r;

	if (abi < LANDLOCK_LEAST)
		return err_set(err, ENOTSUP, abi == 0 ? "this kernel has no Landlock" :
		               "this kernel's Landlock does not restrict truncation (Linux 6.2 has it)");
	if (cell->is_agent && abi >= ABI_NETWORK && CONTROL_ON("landlock"))
		attr.handled_net = NET_BIND_TCP | NET_CONNECT_TCP;
	if (cell->is_agent && abi >= ABI_SCOPES && CONTROL_ON("scopes"))
		attr.scoped = SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL;
	if (!cell->is_agent && abi >= ABI_SCOPES)
		attr.scoped = SCOPE_SIGNAL;
	fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (fd < 0)
		return err_errno(err, "cannot make a Landlock ruleset");
	r = allow_all(fd, cell->readable, FS_EXECUTE | FS_READ_FILE | FS_READ_DIR, err);
	if (r == 0)
		r = allow_all(fd, cell->looks, FS_READ_FILE | FS_READ_DIR | (cell->is_agent ? 0 : FS_WRITE_FILE), err);
	if (r == 0)
		r = allow_all(fd, cell->devices, known & (FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV), err);
	if (r == 0)
		r = allow_all(fd, cell->writable, known & ~(uint64_t)(FS_MAKE_BLOCK | FS_MAKE_CHAR), err);
	if (r == 0 && !cell->is_agent)
		r = allow_all(fd, folder, FS_REMOVE_DIR, err);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

int
landlock_enforce(int fd, struct err *err)
{
	if (fd < 0 || syscall(SYS_landlock_restrict_self, fd, 0) == 0)
		return 0;
	return err_errno(err, "cannot enforce the Landlock ruleset");
}
