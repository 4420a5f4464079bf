/* cgroup_parts.h - types and functions that the files of the cgroup module share. */
#ifndef CLOISTER_CGROUP_PARTS_H
#define CLOISTER_CGROUP_PARTS_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "boundary/cgroup/cgroup.h"

struct err;

/* Other things than limits that a hierarchy may carry. */
enum cgroup_carry {
	CGROUP_FREEZER = 1 << 4,        /* v1 */
	CGROUP_CPUACCT = 1 << 5,        /* v1 */
};

#define CGROUP_HIERARCHIES_MAX CGROUP_FOLDERS_MAX
#define CGROUP_PARTS_MAX       CGROUP_HIERARCHIES_MAX
#define CGROUP_TABLE_MAX       (4u << 20)

/* ---- text: cgroup_text.c, pure ---- */

/* One line of /proc/self/mountinfo, cut and unescaped in place. */
struct mountinfo_line {
	unsigned major, minor;
	char *root, *point, *type, *source, *options;   /* the superblock's options */
};
/* The next well-formed line from *CURSOR on; false at the end. */
bool mountinfo_next(char **cursor, struct mountinfo_line *ret_line);

struct cgroup_hierarchy {
	int version;
	unsigned carries;               /* v1: cgroup_limit and cgroup_carry bits */
	const char *root, *point;       /* borrowed from the text */
	const char *own;                /* the caller's group; NULL if unknown */
};
struct cgroup_hierarchies {
	struct cgroup_hierarchy list[CGROUP_HIERARCHIES_MAX];
	size_t n;
};
/* Note LINE if it mounts cgroups, unless an equally good mount is noted already. */
void cgroup_note_mount(struct cgroup_hierarchies *hs, const struct mountinfo_line *line);
/* Cut TEXT (/proc/self/cgroup) in place and fill in each `own`. */
void cgroup_note_own(struct cgroup_hierarchies *hs, char *text);
/* The directory of the caller's own group; false if this mount does not show it. */
bool cgroup_own_dir(const struct cgroup_hierarchy *h, char dir[PATH_MAX]);
/* The limits named in a list such as "cpu io,memory"; knows v1's names too. */
unsigned cgroup_parse_controllers(const char *list);
/* The number behind KEY in lines of "key number"; 0 if it is not there. */
uint64_t cgroup_parse_key(const char *text, const char *key);
/* The sums over all disks of version 2's io.stat, or of version 1's io_service_bytes. */
void cgroup_parse_io(const char *text, uint64_t *ret_read, uint64_t *ret_written);
/* The first line's avg10 of a file such as cpu.pressure, in hundredths of a per cent. */
uint64_t cgroup_parse_pressure(const char *text);
#define CGROUP_NAME_MAX (32 + CGROUP_ID_MAX)
/* "cloister-<id>"; returns NAME. */
const char *cgroup_cell_name(char name[CGROUP_NAME_MAX], const char *id);
bool cgroup_is_cell_name(const char *name);
/* "memory, cpus and io". */
void cgroup_name_limits(unsigned limits, char *text, size_t size);

/* ---- disks: cgroup_disk.c ---- */

/* The disks behind a cell's devices. */
struct cgroup_disks {
	dev_t list[CGROUP_DEVICES_MAX];
	size_t n;
	bool unknown;                   /* one of them cannot be limited */
	dev_t pending[CGROUP_DEVICES_MAX];  /* with an anonymous device number */
	bool settled[CGROUP_DEVICES_MAX];
	size_t n_pending;
};
void cgroup_disks_init(struct cgroup_disks *d, const dev_t *devices, size_t n);
void cgroup_note_disk(struct cgroup_disks *d, const struct mountinfo_line *line);
void cgroup_disks_finish(struct cgroup_disks *d);
/* Replaces partitions by their whole disks, found in sysfs. */
void cgroup_disks_make_whole(struct cgroup_disks *d);

/* ---- the parts of a group ---- */

struct cgroup_part {
	int version;
	unsigned carries;
	int parent, dir;                /* directories */
	int inside;                     /* v2: where processes go; may be `dir` itself */
	int tasks;                      /* v1: the file by which a process enters */
	bool between;                   /* v2: parent is the group between, made by cloister */
	char *path;                     /* owned; its last part is the name in parent */
};

struct cgroup {
	struct cgroup_part parts[CGROUP_PARTS_MAX];     /* v2, if there, is first */
	size_t n;
	char *paths;
};

/* Why something is missing. */
enum cgroup_reason {
	CGROUP_FINE,
	CGROUP_NOT_MOUNTED,
	CGROUP_READ_ONLY,
	CGROUP_NOT_DELEGATED,           /* may not write */
	CGROUP_OCCUPIED,                /* v2: processes in each group that cloister may divide */
	CGROUP_FAILED,                  /* see the errno */
};
struct cgroup_making {
	const char *id;
	const struct cgroup_limits *limits;
	unsigned asked, in_force;       /* enum cgroup_limit bits */
	unsigned v1;                    /* all that v1 hierarchies carry */
	struct cgroup_disks disks;
	enum cgroup_reason reason;      /* the first one met */
	int error;
};
/* If ERROR is specific to one of the reasons, it overrides REASON. */
void cgroup_note_failure(struct cgroup_making *m, enum cgroup_reason reason, int error);

/* cgroup_create(), with all details that were found. */
int cgroup_make(const char *id, const struct cgroup_limits *limits,
                struct cgroup **ret_cgroup, struct cgroup_making *ret_making, struct err *err);
/* Explains why MISSING limits are missing, and what to do (may be empty): cgroup_report.c. */
void cgroup_describe(const struct cgroup_making *m, unsigned missing, char *found,
                     size_t found_size, char *todo, size_t todo_size);

/* Reads MOUNTS, a table of mounts, which is cut: all hierarchies in it, and disks if DISKS is not NULL. */
void cgroup_read_mounts(char *mounts, struct cgroup_hierarchies *hs, struct cgroup_disks *disks);
/* Write TEXT to FILE in one write; 0 or a negative errno. */
int cgroup_put(int dir, const char *file, const char *text);
int cgroup_putf(int dir, const char *file, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Read a small file; false (and "") if it cannot be read. */
#define CGROUP_FILE_MAX 4096
bool cgroup_get(int dir, const char *file, char text[CGROUP_FILE_MAX]);
/* Adds a part for the caller to fill in; there is always room for one per hierarchy. */
struct cgroup_part *cgroup_add_part(struct cgroup *cg, int version);
/* Removes the part added last. */
void cgroup_drop_part(struct cgroup *cg);
const char *cgroup_part_name(const struct cgroup_part *part);

#define CGROUP_CPU_PERIOD_US 100000     /* the kernel's default for a new group */
/* How a version sets each limit in DIR; 0 or a negative errno. */
struct cgroup_setters {
	int (*memory)(int dir, uint64_t bytes);
	int (*cpus)(int dir, uint64_t quota_us, uint64_t period_us);
	int (*pids)(int dir, uint64_t pids);
	int (*io)(int dir, dev_t disk, uint64_t bps);
};
/* Sets those of the requested limits that PART carries. */
void cgroup_set_limits(const struct cgroup_part *part, const struct cgroup_setters *set,
                       struct cgroup_making *m);

/* ---- cgroup_scope.c ---- */

/* Whether limits are missing only because this process may not divide its group. */
bool cgroup_scope_helps(const struct cgroup_making *m);
/* Move this process into a scope of the user's systemd for cell ID; 0 or a negative errno. */
int cgroup_scope_enter(const char *id);

/* ---- cgroup_v1.c, cgroup_v2.c ---- */

/* Makes the part of the group in H and sets the limits that it carries.  A negative errno only for
 * failures that no other hierarchy can make good. */
int cgroup_v1_make(struct cgroup *cg, const struct cgroup_hierarchy *h,
                   struct cgroup_making *m);
/* WANT: the limits that no v1 hierarchy carries. */
int cgroup_v2_make(struct cgroup *cg, const struct cgroup_hierarchy *h, unsigned want,
                   struct cgroup_making *m);
/* Whether the group at PATH has the group between above it. */
bool cgroup_v2_has_between(const char *path);
/* Removes the group if it holds no process; 0 or a negative errno. */
int cgroup_v2_remove(struct cgroup_part *part);
#endif
