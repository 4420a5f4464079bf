/* policy_behaviour.h - `watch`: rules over what the processes of a cell do, and their consequences.
 *
 * Pure, and immutable as the policy is.  All rules of all layers apply, and each that fits fires.
 * They never decide whether something is done: cloister-witness sees it while it is done, or after. */
#ifndef CLOISTER_POLICY_BEHAVIOUR_H
#define CLOISTER_POLICY_BEHAVIOUR_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy_rule.h"

struct buf;
struct err;
struct policy;

#define POLICY_BEHAVIOURS_MAX 256       /* in one layer */
#define POLICY_BEHAVIOUR_ASK_MS (10 * 60 * 1000)        /* then an unanswered question is refused */

enum policy_behaviour_kind { POLICY_EXEC, POLICY_WRITE, POLICY_READ, POLICY_CONNECT, POLICY_REFUSED,
                             POLICY_BEHAVIOURS };

struct policy_behaviour {
	enum policy_behaviour_kind kind;
	/* A pattern of a path fits that path and everything beneath.  It begins with "/", "~/" (the cell's
	 * home folder) or a "**" and "/".  Patterns of refused calls are globs of their names. */
	struct policy_list patterns;
	const struct policy_host *nets; /* POLICY_CONNECT: of kind NET or ANY */
	size_t n_nets;
	bool memory;                    /* POLICY_EXEC: from memory, without a file */
	bool downloaded;                /* POLICY_EXEC: from memory, or from where the agent may write */
	bool refused;                   /* POLICY_EXEC: a wall refused it */
	bool stops;                     /* the consequence stops the cell */
	bool ask, kill;
	uint64_t key;                   /* policy_consequence_key() */
	const struct policy_consequence *then;  /* NULL in matchers */
	const char *reason;             /* or NULL */
	const char *place, *text;       /* as of other rules */
};

const char *policy_behaviour_name(enum policy_behaviour_kind kind);
/* The behaviours of P's layers together, its own first. */
size_t policy_n_behaviours(const struct policy *p);
const struct policy_behaviour *policy_behaviour_at(const struct policy *p, size_t i);
/* The one with that key, or NULL. */
const struct policy_behaviour *policy_behaviour_find(const struct policy *p, uint64_t key);
/* "freeze, notify": what it leads to. */
#define POLICY_LEADS_MAX 96
const char *policy_behaviour_leads(const struct policy_behaviour *rule, char ret_text[POLICY_LEADS_MAX]);

/* Whether a policy that begins with these bytes, as policy_put() encodes it, has any, or `syscalls`. */
bool policy_begins_with_behaviours(const unsigned char bytes[4]);
/* The behaviours and `syscalls` of a policy as policy_put() encodes it, without its other parts.  The layers of
 * behaviours are lost. */
int policy_get_behaviours_only(struct buf *b, struct policy **ret_policy, struct err *err);
/* Conditions alone, without consequences and places: for cloister-witness.  RULES is of either form. */
void policy_put_matchers(struct buf *b, const struct policy *rules);
int policy_get_matchers(struct buf *b, struct policy **ret_policy, struct err *err);
#endif
