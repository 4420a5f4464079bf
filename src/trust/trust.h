/* trust.h - finds host files that an agent could have written.
 *
 * Cloister reads, runs and believes host files with the operator's rights: policies, programs that
 * print secrets, lists of certificate authorities.  Each use of such a file is checked here, and
 * trust_table lists them all.  A file is refused if an agent can write it, or ever could, through a
 * writable grant.  All ways count: its path, a link or folder on the way, another mount of the same
 * folder, or a second name of the same file.
 *
 * The folders that agents could write are *marked* in the file "writable" in the state folder.
 * After an inspection, a person clears a mark (`cloister trust`).  Cloister's own folders do not
 * count as writable by agents, whatever was marked around them: every cell has them covered, and
 * cannot move the cover (src/boundary/namespace/ns_cover.c). */
#ifndef CLOISTER_TRUST_H
#define CLOISTER_TRUST_H
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* ---- trust_table.c: every checked use of a host file ---- */

enum trust_use {
	/* Programs that run on the host. */
	TRUST_SECRET_COMMAND, TRUST_KEY_COMMAND, TRUST_NOTIFY_COMMAND, TRUST_HOOK_COMMAND, TRUST_EDITOR,
	TRUST_BROWSER, TRUST_LOGIN_COMMAND, TRUST_IMAGE_TOOL, TRUST_RUNTIME,
	/* Files that decide what a cell may do. */
	TRUST_POLICY, TRUST_POLICY_FOUND, TRUST_POLICY_EXTENDED, TRUST_WITHIN, TRUST_SECRET_LIST,
	TRUST_POLICY_SET, TRUST_DOCUMENT, TRUST_PROFILE, TRUST_PROFILE_FOUND, TRUST_ANSWERS, TRUST_PROGRAM,
	/* Files whose contents are given to others, or believed. */
	TRUST_SECRET_FILE, TRUST_SECRET_DEFINITION, TRUST_ENV_FILE, TRUST_AUTHORITY, TRUST_KNOWN_HOSTS,
	TRUST_NOTIFY_FILE, TRUST_NOTIFY_SECRET, TRUST_HOOK_SOCKET, TRUST_REGISTERED, TRUST_VM_KERNEL,
	TRUST_REGISTRIES, TRUST_LOGINS, TRUST_IMAGE_KEY, TRUST_SERVER, TRUST_ENGINE,
	/* Paths on which only links matter.  The target is given to a cell, and may well be another
	 * agent's work. */
	TRUST_INPUT, TRUST_DISPATCH_INPUT, TRUST_GRANT, TRUST_ROOTFS,
	TRUST_USES
};
enum trust_kind { TRUST_RUN, TRUST_READ, TRUST_LINKS };
struct trust_row {
	const char *name;               /* "secret-command": used in tests and docs/security.md */
	enum trust_kind kind;
	const char *what;               /* "the program that gives a secret" */
};
extern const struct trust_row trust_table[TRUST_USES];

/* ---- trust_check.c ---- */

/* Count FOLDER as marked in this process too: a folder that the cell being described may write.  At
 * most TRUST_ALSO_MAX; borrowed for good. */
#define TRUST_ALSO_MAX 64
void trust_also(const char *folder);

/* -EPERM if an agent has influenced, or could have influenced, what PATH leads to.  A missing file
 * is fine if no agent could create it. */
int trust_path(enum trust_use use, const char *path, struct err *err);
/* The same.  RET_END is what PATH leads to, by the very links that were checked: use it instead of PATH where an agent
 * could exchange a folder for a link meanwhile.  It is without links, and may be missing. */
int trust_follow(enum trust_use use, const char *path, char ret_end[PATH_MAX], struct err *err);
/* Open the regular file at PATH, check the opened file, and return its descriptor.  Never blocks. */
int trust_open(enum trust_use use, const char *path, struct err *err);
/* Read all of it, as read_file_at(). */
int trust_read(enum trust_use use, const char *path, size_t max, char **ret_text, size_t *ret_len,
               struct err *err);
/* Whether programs may run in the current folder: many obey files that they find there. */
bool trust_here(void);
/* Whether PATH itself is marked, without following links; for lists and tests. */
bool trust_is_marked(const char *path);

/* ---- trust_command.c ---- */

/* Characters that separate words in a shell command, roughly. */
#define TRUST_BETWEEN_WORDS " \t\n!\"'`$(){}<>|&;="

/* Call EACH with every host path that the command WORDS names: its program, found on PATH; the
 * interpreters of scripts; and every path in its words, also within quotes.  The paths are
 * absolute.  A negative value from EACH ends it and is returned. */
int trust_each_path(char *const *words, int (*each)(void *arg, const char *path), void *arg);
/* Check all of them.  RET_PROGRAM is the file to execute; if the program is not found, it is the
 * first word, and executing it fails. */
int trust_command(enum trust_use use, char *const *words, char ret_program[PATH_MAX], struct err *err);

/* Whether nobody but root and this user may write PROGRAM, which runs with this user's rights. */
int trust_program(const char *program, struct err *err);

/* ---- trust_marks.c ---- */

#define TRUST_MARKS "writable"          /* in the state folder */
#define TRUST_MARKS_MAX (1 << 20)       /* beyond this, everything counts as marked */

/* Mark FOLDERS, other paths under which they are mounted, and the mounts inside them.  While the
 * returned descriptor is open, it shows that a cell can write there.  Call it before an agent runs. */
int trust_mark(const char *const *folders, size_t n, struct err *err);

struct trust_mark {
	const char *path;               /* points into the list's text */
	uint64_t inode, born_ns;        /* identify the folder; 0: not known */
	uint64_t since_ns;              /* when it was marked; realtime clock; 0: not known */
	bool is_held;                   /* by a running cell */
};
struct trust_marks {
	char *text;
	struct trust_mark *at;
	size_t n;
	bool is_full;                   /* then everything counts as marked */
};
int trust_marks_load(struct trust_marks *ret_marks, struct err *err);
void trust_marks_free(struct trust_marks *m);   /* for OWN() too */
/* Clear the marks on FOLDER and beneath it.  -EBUSY if a running cell can write there, -ENOENT if
 * there are none. */
int trust_clear(const char *folder, struct err *err);

/* ---- trust_mounts.c ---- */

struct trust_mounts;                    /* a parsed /proc/self/mountinfo */
int trust_mounts_load(struct trust_mounts **ret_mounts, struct err *err);
/* The same from TEXT; takes ownership of it. */
int trust_mounts_parse(char *text, struct trust_mounts **ret_mounts, struct err *err);
void trust_mounts_freep(struct trust_mounts **m);
/* Call EACH with every path of the file or folder at PATH, PATH first.  With BELOW, also with every
 * path of the mounts beneath PATH.  EACH as above. */
int trust_mounts_each(const struct trust_mounts *m, const char *path, bool below,
                      int (*each)(void *arg, const char *alias), void *arg);

/* ---- trust_believed.c ---- */

/* Files outside cloister's own folders that have passed a check.  `apply` holds back changes to
 * them: cloister will use them again with the operator's rights. */
#define TRUST_BELIEVED "believed"       /* in the state folder */
#define TRUST_BELIEVED_MAX (1 << 18)
void trust_believe(const char *path);
int trust_each_believed(int (*each)(void *arg, const char *path), void *arg);

/* ---- trust_own.c ---- */

/* Cloister's own folders, without links: runtime, data, state.  The caller frees each. */
#define TRUST_OWN 3
struct trust_own {
	char *at[TRUST_OWN];            /* NULL: not there */
};
void trust_own_find(struct trust_own *ret_own);
void trust_own_free(struct trust_own *own);     /* for OWN() too */
/* Whether PATH is one of them, or in one, and no agent's home. */
bool trust_own_covers(const struct trust_own *own, const char *path);
/* Whether one of them is beneath the folder PATH. */
bool trust_own_is_in(const struct trust_own *own, const char *path);
#endif
