/* plan_proc.h - shared by the files of cloister-plan. */
#ifndef CLOISTER_PLAN_PROC_H
#define CLOISTER_PLAN_PROC_H
#include <stdbool.h>
#include <stddef.h>

#include "audit/key.h"
#include "base/args.h"
#include "base/buf.h"
#include "base/err.h"
#include "plan/plan.h"
#include "plan/plan_files.h"

#define PLAN_FILE "plan.json"           /* in the folder of a plan with its data, */
#define PLAN_DATA "data"                /* and the folder of files */

/* A command: returns its exit status, or negative with ERR set. */
int cmd_plan(const struct args *args, struct err *err);         /* export.c */
int cmd_rebuild(const struct args *args, struct err *err);      /* rebuild.c */

/* ---- child.c ---- */

/* Run `cloister WORDS...` in FOLDER (NULL: here); WORDS ends with NULL.  The caller owns *ret_out, at most MAX bytes; it may
 * be NULL.  An exit status other than 0 is an error with what the command printed. */
int child_run(const char *folder, char *const *words, size_t max, char **ret_out, size_t *ret_len, struct err *err);

/* ---- collect_runs.c ---- */

/* Adds {"document","hash","name","restart"} of each detached cell that is started again; sorted by name.  With ALL, one that
 * has no document is an error; otherwise its document is "". */
int collect_runs(json_t *list, bool all, struct err *err);
/* The names of the vault's secrets, sorted. */
int collect_secrets(json_t *list, struct err *err);

/* ---- collect_objects.c ---- */

/* The newest live versions, and those that they pin.  DATA: as for plan_keep_tree(). */
int collect_objects(json_t *list, int data, struct err *err);

/* ---- rebuild.c ---- */

enum result { ITEM_SAME, ITEM_MADE, ITEM_REPLACED, ITEM_ABSENT, ITEM_DIFFERS, ITEM_MISSING, ITEM_FAILED };
struct row {
	const char *kind, *name;        /* the plan's */
	enum result result;
	char *note;                     /* NULL: none */
};
struct rebuild {
	struct plan plan;
	int data;                       /* -1: there is none */
	int journal;                    /* DATA/rebuild; -1 with --dry-run */
	bool dry, replace;
	unsigned char key[AUDIT_KEY];   /* of this machine */
	bool has_key;
	struct row *rows;
	size_t n_rows;
	struct registry *registry;      /* NULL: none yet */
};
/* NOTE may be NULL; it is copied. */
int rebuild_note(struct rebuild *b, const char *kind, const char *name, enum result result, const char *note, struct err *err);
/* An item that differs may be changed with --replace, or if a rebuild that was killed has begun it. */
bool rebuild_may_change(const struct rebuild *b, const char *kind, const char *name);
int rebuild_begin(const struct rebuild *b, const char *kind, const char *name, struct err *err);
int rebuild_end(const struct rebuild *b, const char *kind, const char *name, struct err *err);
/* A new empty folder in the data folder, which rebuild_drop_folder() removes. */
int rebuild_make_folder(const struct rebuild *b, struct err *err);
void rebuild_drop_folder(const struct rebuild *b);
/* Each looks at all items of its kind, changes what has to be changed, and notes a row.  Negative: give up. */
int rebuild_objects(struct rebuild *b, struct err *err);        /* rebuild_objects.c */
int rebuild_check_objects(struct rebuild *b, struct err *err);
int rebuild_states(struct rebuild *b, struct err *err);         /* rebuild_states.c */
int rebuild_volumes(struct rebuild *b, struct err *err);        /* rebuild_volumes.c */
int rebuild_secrets(struct rebuild *b, struct err *err);        /* rebuild_runs.c */
int rebuild_runs(struct rebuild *b, struct err *err);
#endif
