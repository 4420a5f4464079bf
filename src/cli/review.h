/* review.h - the permission review: what runs were given, what they used, and what would have been enough. */
#ifndef CLOISTER_CLI_REVIEW_H
#define CLOISTER_CLI_REVIEW_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "audit/record.h"
#include "base/buf.h"
#include "cli/timeline.h"
#include "policy/policy.h"

struct err;

#define REVIEW_ITEMS_MAX 4096           /* rules, refusals, grants or secrets; further ones are only counted */
#define REVIEW_NAMES_MAX 32             /* hosts or methods of one rule that are kept */
#define REVIEW_SEEN_MAX 65536           /* different requests, to check a narrower policy with */
#define REVIEW_RUNS_MAX 1000

/* Different texts; owned. */
struct review_names {
	char *at[REVIEW_NAMES_MAX];
	size_t n;
	bool more;
};

struct review_item {
	char *key, *text;               /* RULE: its place and text.  REFUSAL: why, and of what.  GRANT: in the cell, on the
	                                 * host.  SECRET: its name, "" */
	char access[8];                 /* GRANT */
	uint64_t uses, writes, approved, refused;       /* WRITES: GRANT.  APPROVED, REFUSED: RULE that asks */
	uint32_t runs, last_run;        /* runs that used it; the number of the last, from 1 */
	bool is_given;                  /* RULE: of the policy as it is now */
	struct review_names hosts, methods;     /* RULE */
	bool only_http;                 /* RULE: nothing else was seen */
};
struct review_list {
	struct review_item *at;
	size_t n, cap;
	uint64_t more;
};

enum review_limit { REVIEW_MEMORY, REVIEW_PIDS, REVIEW_TIME, REVIEW_LIMITS };
extern const char *const review_limit_names[REVIEW_LIMITS];     /* as policies name them */

struct review {
	uint32_t n_runs, n_recorded;    /* RECORDED: with a record of their processes */
	char first[AUDIT_TIME_LEN + 1], last[AUDIT_TIME_LEN + 1];
	struct review_list rules, refusals, grants, secrets;
	struct { uint64_t given, used; bool known; } limits[REVIEW_LIMITS];     /* the most of all runs */
	struct timeline_event *events;  /* allowed requests, each once */
	size_t n_seen, cap_seen;
	bool seen_more;                 /* there were too many */
	uint32_t *places;               /* of a table of SEEN by hash: index plus one */
};
void review_free(struct review *v);     /* for OWN() too */
/* Rules that the review is about, before any run is read. */
int review_add_rules(struct review *v, const struct policy *p, struct err *err);
/* Reads the timeline of one more run. */
int review_read(struct review *v, const char *cell, struct err *err);
/* The item, made if it is not there; NULL: there are too many, or no memory. */
struct review_item *review_item(struct review_list *list, const char *key, const char *text);

/* ---- review_narrow.c ---- */

/* A narrower policy than TEXT of the file NAME, that would have allowed all that was allowed: *ret_diff gets what
 * to change, as `patch` reads it; empty: nothing.  -ENOTSUP: none can be proposed, and ERR explains why. */
int review_narrow(const struct review *v, const char *name, const char *text, size_t len, struct buf *ret_diff,
                  struct err *err);
/* A round limit above what was used, or 0 if GIVEN is near enough. */
uint64_t review_lower(enum review_limit limit, uint64_t given, uint64_t used);

/* ---- review_print.c ---- */
void review_print(const struct review *v, const char *diff, const char *no_diff);
void review_print_json(const struct review *v, const char *diff, const char *no_diff);
#endif
