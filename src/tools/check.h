/* check.h - findings of `cloister tools check`: what a lock lacks, what servers changed since, and what they did
 * against what they promise.
 *
 * Pure. */
#ifndef CLOISTER_TOOLS_CHECK_H
#define CLOISTER_TOOLS_CHECK_H
#include <stddef.h>

#include "tools/lock.h"

struct buf;
struct err;

#define CHECK_FINDINGS_MAX 2000
#define CHECK_TEXT_MAX 512              /* bytes of a finding; safe to print */
#define CHECK_EVENTS_MAX (32u << 20)    /* bytes of a cell's record */
#define CHECK_CHANGES_MAX (8u << 20)    /* of the changes of its files */

enum check_level { CHECK_NOTE, CHECK_WARNING, CHECK_ERROR };

enum check_rule {
	CHECK_NO_SERVER, CHECK_NO_ANSWER, CHECK_UNLOCKED, CHECK_GONE, CHECK_CHANGED, CHECK_NO_ANNOTATION, CHECK_NO_SCOPE,
	CHECK_BAD_SCOPE, CHECK_HIDDEN, CHECK_SHADOWED, CHECK_NAMES_OTHER, CHECK_WRITING_SCOPE, CHECK_PROGRAM, CHECK_FILE, CHECK_WROTE,
	CHECK_LEFT_HOSTS, CHECK_LEFT_SCOPE, CHECK_UNSEEN, CHECK_FAILED_CALL,
	CHECK_RULES
};
struct check_row {
	const char *name;               /* "changed-definition" */
	enum check_level level;
	const char *help;               /* one sentence for lists of rules */
};
extern const struct check_row check_rules[CHECK_RULES];
extern const char *const check_levels[];        /* "note", "warning", "error": SARIF's words */

struct check_finding {
	enum check_rule rule;
	char server[POLICY_TOOLS_SERVER_MAX + 1], tool[POLICY_TOOLS_TOOL_MAX + 1];      /* "": none */
	char *text;
};
struct check_findings {
	struct check_finding *list;
	size_t n, cap;
	bool more;                      /* there were more than CHECK_FINDINGS_MAX */
};
void check_free(struct check_findings *f); /* for OWN() too */
/* A finding that is there already is not added again.  Out of memory sets MORE. */
void check_add(struct check_findings *f, enum check_rule rule, const char *server, const char *tool, const char *fmt, ...)
	__attribute__((format(printf, 5, 6)));
/* For the channel between processes.  Reading checks everything. */
void check_put(struct buf *b, const struct check_findings *f);
int check_get(struct buf *b, struct check_findings *f, struct err *err);
size_t check_count(const struct check_findings *f, enum check_level level);

/* What the listings show: locked, unchanged, annotated, scoped, nothing hidden, no name twice. */
void check_listings(struct check_findings *f, const struct lock *lock, const struct listing *const *listings, size_t n);

/* ---- observation (observe.c) ---- */

/* What a cell did during one call of TOOL, compared with its entry in the lock. */
struct observation {
	const struct node *tool;        /* of the lock */
	const char *server, *name;
	const char *events;             /* lines of `cloister events --json` */
	size_t n_events;
	const char *changes;            /* of `cloister diff --json`; may be empty */
	size_t n_changes;
	const char *called;             /* when the call began, as times in events are written */
	const char *folder, *home;      /* for the scope's paths: see policy_tools_path() */
};
void check_observation(struct check_findings *f, const struct observation *o);

/* Append the scope that the calls in EVENTS needed, on one line of YAML.  A record does not show all of it: `time` and
 * `programs` are those of OLD, which may be NULL. */
int check_put_scope(struct buf *b, const struct node *old, const char *events, size_t n_events, struct err *err);

/* Arguments for TOOL from its input schema.  The caller owns them; NULL: out of memory. */
json_t *check_example(const struct listed_tool *tool);
#endif
