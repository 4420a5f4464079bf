/* audit_proc.h - cloister-audit: verifies, shows, exports and proves records. */
#ifndef CLOISTER_AUDIT_PROC_H
#define CLOISTER_AUDIT_PROC_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/cells.h"
#include "audit/check.h"
#include "audit/key.h"
#include "audit/record.h"
#include "cell/cell_dirs.h"

struct err;

struct audit_args {
	const char *verb, *format, *key;        /* "" if not given */
	const char *host;               /* the name of this machine */
	bool all, operator, json;
	char **words;
	int n_words;
};

/* Verbs: return an exit status, or negative with ERR. */
int audit_do_verify(const struct audit_args *args, struct err *err);
int audit_do_show(const struct audit_args *args, struct err *err);
int audit_do_export(const struct audit_args *args, struct err *err);
int audit_do_prove(const struct audit_args *args, struct err *err);
int audit_do_key(const struct audit_args *args, struct err *err);

/* audit_where.c: finds timelines. */

#define AUDIT_PATH_TEXT 4096
/* The path of an open descriptor, for people. */
void audit_path_of(int fd, char ret_path[AUDIT_PATH_TEXT]);
/* The operator's folder, or -ENOENT if nothing was ever recorded. */
int audit_open_operator(struct err *err);
/* The entry of the cell WORD, among those with full state or the ended ones. */
int audit_open_cell(const char *word, struct cell_entry *ret_entry, struct err *err);

/* Every cell that has an entry: in the state folder, or in the folder of ended cells in it. */
#define AUDIT_PLACES 2
struct audit_list {
	int folder[AUDIT_PLACES];       /* -1 if there is none */
	struct cell_entry *entries[AUDIT_PLACES];
	size_t n[AUDIT_PLACES];
};
int audit_list_cells(struct audit_list *ret_list, struct err *err);
void audit_list_free(struct audit_list *list);          /* for OWN() too */
/* Opens one of them, wherever it is by now; negative if it is gone. */
int audit_list_open(const struct audit_list *list, int place, size_t i);
/* The operator's public key: false if there is none. */
bool audit_operator_key(int dir, unsigned char ret_key[AUDIT_KEY]);

/* audit_progress.c: shows progress on a terminal, for long operations. */
struct audit_progress {
	const char *what;
	int64_t started_ms, shown_ms;
};
void audit_progress_begin(struct audit_progress *p, const char *what);
void audit_progress_show(struct audit_progress *p, uint64_t done, uint64_t total);
void audit_progress_end(struct audit_progress *p);

/* audit_policy.c: the policy beside a cell's timeline. */
struct audit_policy {
	bool is_told;                   /* the cell's initial policy is known */
	uint64_t n;                     /* the newest record with its hash; 0: none */
	unsigned char hash[AUDIT_HASH];
	bool is_used;                   /* the cell has used the network, so the file was written */
	bool may_be_gone;               /* the disk may have had no room for it, or for a newer one */
};
void audit_policy_note(struct audit_policy *p, const struct audit_record *record);
/* Only for a cell that has ended: before, the file may just be being written. */
void audit_policy_check(const struct audit_policy *p, int dir, struct audit_check *check);

/* audit_timeline.c: verifies one timeline. */
struct audit_seen {
	struct audit_check check;
	struct audit_progress progress;
	struct audit_cells *cells;      /* NULL: records about cells are not collected */
	struct audit_policy policy;     /* of an ended cell */
	bool wants_policy;
	const char *untied;             /* why the operator's timeline may lack a cell; or NULL */
	int (*note)(void *arg, const struct audit_record *record, const char *line, size_t len);
	void *arg;                      /* for NOTE, which may be NULL */
};
/* The operator's timeline; its records about cells go to *cells. */
int audit_see_operator(int dir, struct audit_seen *seen, struct err *err);
/* The operator's record of the cell whose timeline is in DIR; NULL if none. */
const struct audit_cell *audit_pick_cell(const struct audit_cells *cells, int dir, const char *id);
/* CELL: that record, or NULL.  -ENOENT: there is no file. */
int audit_see_cell(int dir, const struct cell_entry *entry, const struct audit_cell *cell,
                   struct audit_seen *seen, struct err *err);
/* Whether a version of cloister wrote it that did not chain records yet. */
bool audit_is_old(int dir, const char *name);
#endif
