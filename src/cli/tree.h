/* tree.h - the processes of a cell and what each did, made from its timeline for `cloister tree`.
 *
 * Bounded: beyond TREE_PROCESSES_MAX processes, and beyond TREE_TEXT_MAX bytes of texts, acts are only
 * counted.  Texts are safe to print. */
#ifndef CLOISTER_CLI_TREE_H
#define CLOISTER_CLI_TREE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/record.h"

struct err;
struct timeline_event;

#define TREE_PROCESSES_MAX 50000
#define TREE_TEXT_MAX (32u << 20)
#define TREE_COMMAND_MAX 160            /* bytes of a program with its arguments */
#define TREE_BUCKETS 4096

enum tree_kind { TREE_PROGRAM, TREE_FILE, TREE_NET, TREE_REQUEST, TREE_REFUSED, TREE_DANGER, TREE_WATCH, TREE_KINDS };
extern const char *const tree_kind_names[TREE_KINDS];   /* for people, plural */

/* One act of a process. */
struct tree_deed {
	struct tree_deed *next;
	uint64_t n;                     /* of its record */
	enum tree_kind kind;
	char text[];
};

struct tree_deeds {
	struct tree_deed *first, *last;
	uint64_t all[TREE_KINDS], kept[TREE_KINDS];
};

struct tree_process {
	uint32_t pid;
	uint32_t parent;                /* its index plus one; 0: none, or unknown */
	bool is_parent;
	uint32_t first, last, next;     /* children and siblings, likewise; see tree_finish() */
	uint32_t older;                 /* the next in its bucket, likewise */
	char *command;                  /* NULL: it ran no program of its own */
	char sha256[65];                /* "": unknown */
	char *end;                      /* "ended with 0 after 1s"; NULL: it runs, or its end is unknown */
	char started[AUDIT_TIME_LEN + 1], ended[AUDIT_TIME_LEN + 1];    /* "": unknown */
	bool has_status;
	uint32_t status;
	char signal[16];
	uint64_t ms, cpu_ms, peak;      /* 0: unknown */
	struct tree_deeds deeds;
};

struct tree {
	struct tree_process *at;        /* in the order in which they appear */
	size_t n, cap;
	uint32_t buckets[TREE_BUCKETS]; /* by pid, the newest first */
	uint32_t ports[65536];          /* the process that connected from there; index plus one */
	struct tree_deeds others;       /* requests of unknown processes */
	uint64_t uncounted;             /* acts of processes beyond the maximum */
	size_t text;                    /* bytes of texts */
	char *record, *end;             /* how it was recorded, how the cell ended; or NULL */
	char *lost;                     /* the last record of a loss, or NULL */
	uint64_t n_lost, n_acts;
};
struct tree *tree_new(void);            /* NULL: out of memory */
void tree_free(struct tree *t);         /* NULL is fine */
/* Takes an event.  -ENOMEM. */
int tree_note(struct tree *t, const struct timeline_event *e);
/* Links children; nothing is noted after that. */
void tree_finish(struct tree *t);
/* The process after P in the order in which a tree is drawn, NULL: P was the last; DEPTH is changed.  P NULL:
 * the first. */
const struct tree_process *tree_next(const struct tree *t, const struct tree_process *p, unsigned *depth);

/* For programs: one object. */
void tree_print_json(const struct tree *t, const char *cell, bool live);
#endif
