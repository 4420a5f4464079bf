/* policy_load.h - shared by the files that load policies, and by src/vault and src/registry, which
 * read files of the same form. */
#ifndef CLOISTER_POLICY_LOAD_H
#define CLOISTER_POLICY_LOAD_H
#include "policy/policy_parts.h"
#include "policy/policy_preset.h"
#include "policy/policy_yaml.h"

#define POLICY_EXTENDS_MAX 8            /* nesting depth */
#define POLICY_FILES_MAX 64

enum policy_key {
#define CONDITION(id, ...) POLICY_KEY_##id,
#define SETTING(id, ...) POLICY_KEY_##id,
#include "policy/policy_table.h"
	POLICY_KEYS
};

enum policy_key_flags {
	POLICY_KEY_OF_HTTP = 1,         /* not for raw TCP, or TLS that is passed through */
	POLICY_KEY_IS_HTTP = 2,         /* a rule with it is for HTTP only */
	POLICY_KEY_OF_REQUEST = POLICY_KEY_OF_HTTP | POLICY_KEY_IS_HTTP,
	POLICY_KEY_OF_CELL = 4,         /* about the cell, not the request */
	POLICY_KEY_OF_ASK = 8,          /* only in a rule that asks */
	POLICY_KEY_PERMITS = 16,        /* only in a rule that allows or asks */
	POLICY_KEY_NOT_GIT = 32,        /* not beside `git` */
	POLICY_KEY_NOT_GRPC = 64,       /* not beside `grpc` */
	POLICY_KEY_SENDS = 128,         /* about a request that is sent: only in a rule that allows or
	                                 * asks */
	POLICY_KEY_OF_CALL = 512,       /* only in a rule for calls of tools */
	POLICY_KEY_NOT_CALL = 1024,     /* not in such a rule */
	POLICY_KEY_UNRECORDED = 256,    /* about parts of a request that timelines leave out */
};

/* A rule that is being read. */
struct policy_draft {
	struct policy *p;
	struct policy_rule rule;
	const struct node *at;     /* the whole rule */
	const char *shown;              /* its file's name in places */
	const struct node *keys[POLICY_KEYS];      /* the key node of each key present */
	const struct node *values[POLICY_KEYS];
	struct err *err;
};

/* ---- policy_load.c ---- */

/* Add the rules of a preset. */
int policy_load_preset(struct policy *p, const char *name, struct err *err);

/* ---- policy_read.c ---- */

/* Read the rule at NODE and add it to P.  Places call the file SHOWN. */
int policy_read_rule(struct policy *p, const struct node *node, const char *shown,
                     struct err *err);

/* The text of a scalar that is not null.  Errors call it WHAT. */
int policy_read_text(struct policy_draft *d, const struct node *node, const char *what,
                     const char **ret_text);
int policy_read_bool(struct policy_draft *d, const struct node *node, const char *what,
                     bool *ret_truth);
/* A scalar or a list of them, each made canonical by FIX (may be NULL). */
typedef int policy_fix(struct policy_draft *d, const struct node *node, char *text);
int policy_read_list(struct policy_draft *d, const struct node *node, const char *what,
                     policy_fix *fix, struct policy_list *ret_list);
/* Set an error for KEY, which is not in NAMES (NULL-terminated). */
int policy_read_unknown(const struct node *key, const char *const *names,
                        const char *where, struct err *err);
int policy_read_oom(struct policy_draft *d);
/* The first key of the rule that has FLAG, of enum policy_key_flags, or NULL. */
const struct node *policy_draft_key(const struct policy_draft *d, unsigned flag);

/* ---- policy_read_head.c ---- */

int policy_read_protocol(struct policy_draft *d, const struct node *node);
int policy_read_scheme(struct policy_draft *d, const struct node *node);
int policy_read_methods(struct policy_draft *d, const struct node *node);
int policy_read_paths(struct policy_draft *d, const struct node *node);
int policy_read_content_type(struct policy_draft *d, const struct node *node);
int policy_read_headers(struct policy_draft *d, const struct node *node);
int policy_read_cookies(struct policy_draft *d, const struct node *node);
int policy_read_query(struct policy_draft *d, const struct node *node);

/* ---- policy_read_host.c ---- */

int policy_read_hosts(struct policy_draft *d, const struct node *node);
int policy_read_ports(struct policy_draft *d, const struct node *node);
/* Parse TEXT as one host pattern.  The error has no place. */
int policy_parse_host(struct policy *p, const char *text, struct policy_host *ret_host,
                      struct err *err);

/* ---- policy_read_body.c, policy_read_git.c ---- */

int policy_read_body(struct policy_draft *d, const struct node *node);
int policy_read_grpc(struct policy_draft *d, const struct node *node);
int policy_read_git(struct policy_draft *d, const struct node *node);

/* ---- policy_read_rewrite.c, policy_read_hook.c ---- */

int policy_read_rewrite(struct policy_draft *d, const struct node *node);
/* Refuse edits that the rule's other keys make impossible. */
int policy_check_rewrite(const struct policy_draft *d);
int policy_read_hook(struct policy_draft *d, const struct node *node);

/* ---- policy_read_call.c, policy_read_schema.c ---- */

extern const char *const policy_call_kinds[POLICY_CALL_KINDS];  /* "tool:", as rules begin */
/* Whether TEXT is for calls, not for a host: "tool:github.get_*". */
bool policy_is_call(const char *text);
int policy_read_calls(struct policy_draft *d, const struct node *node);
int policy_read_args(struct policy_draft *d, const struct node *node);
int policy_read_annotations(struct policy_draft *d, const struct node *node);
/* Refuse keys that only one of both kinds of rules may have. */
int policy_check_call(const struct policy_draft *d);
/* Check that NODE is JSON Schema, of the keywords that are evaluated.  *ret_json is in P's memory. */
int policy_read_schema(struct policy_draft *d, const struct node *node, const char **ret_json);
/* A value of a JSON pointer, and its pointer: policy_read_body.c. */
int policy_read_value(struct policy_draft *d, const struct node *node, struct policy_value *value);
int policy_check_pointer(struct policy_draft *d, const struct node *key);
int policy_check_regex(struct policy_draft *d, const struct node *node, const char *text);

/* ---- policy_call.c ---- */

/* Put the tools of the lock in place of `annotations`, once the whole policy is read. */
int policy_settle_annotations(struct policy *p, struct err *err);
/* If P has tools, or rules for calls, add the rules for messages that call nothing: in front of the
 * first rule for calls, or at the end.  They are added once. */
int policy_add_uncalled(struct policy *p, struct err *err);

/* ---- policy_read_ask.c ---- */

int policy_read_approvers(struct policy_draft *d, const struct node *node);
int policy_read_approvals(struct policy_draft *d, const struct node *node);
int policy_read_timeout(struct policy_draft *d, const struct node *node);
int policy_read_freeze(struct policy_draft *d, const struct node *node);
/* Refuse keys that only an `ask` rule may have, and conditions that nobody can meet. */
int policy_check_ask(const struct policy_draft *d);

/* ---- policy_read_then.c ---- */

int policy_read_then(struct policy_draft *d, const struct node *node);
/* The members of a map NODE; whether they do anything is the caller's to check. */
int policy_read_consequence(struct policy_draft *d, const struct node *node, struct policy_consequence *c);
/* Complete the rules for calls of NARROW, a narrowing of OF.  IS_WHOLE: it refuses what it does not
 * allow. */
int policy_finish_narrow(struct policy *narrow, const struct policy *of, bool is_whole, struct err *err);
/* Make NARROW, which NODE named, the narrowing of C. */
int policy_set_narrow(struct policy *p, struct policy_consequence *c, const struct node *node,
                      const struct policy *narrow, struct err *err);
/* *ret_exfiltration is the node for exfiltration, or NULL. */
int policy_read_tripwires(struct policy *p, const struct node *node,
                          const struct node **ret_exfiltration, struct err *err);

/* ---- policy_read_watch.c ---- */

#define POLICY_MATCHERS_MAX (32 * 1024) /* bytes of the conditions of one policy, encoded */
int policy_read_watch(struct policy *p, const struct node *node, const char *shown, struct err *err);

/* ---- policy_read_calls.c ---- */

int policy_read_syscalls(struct policy *p, const struct node *node, struct err *err);
int policy_read_programs(struct policy *p, const struct node *node, struct err *err);

/* ---- policy_read_budget.c ---- */

int policy_read_budget(struct policy_draft *d, const struct node *node);
int policy_read_price(struct policy_draft *d, const struct node *node);
int policy_read_usage(struct policy_draft *d, const struct node *node);
/* Set the name and the ledger key of the rule's budget, once the rule is complete. */
int policy_name_budget(struct policy_draft *d);
/* A policy's own `budgets` and `prices`.  Places call the file SHOWN. */
int policy_read_budgets(struct policy *p, const struct node *node, const char *shown,
                        struct err *err);
int policy_read_prices(struct policy *p, const struct node *node, struct err *err);

/* ---- policy_check.c ---- */

/* Refuse keys that exclude each other. */
int policy_check_rule(const struct policy_draft *d);
/* Refuse rule INDEX if earlier rules cover it.  In the file NAME, which places call SHOWN, any
 * earlier rule counts.  In other files, only earlier rules of the same file count. */
int policy_check_reach(const struct policy *p, size_t index, const char *name,
                       const char *shown, struct err *err);
/* Whether A alone covers B.  False if that is not certain. */
bool policy_rule_covers(const struct policy_rule *a, const struct policy_rule *b);
/* The last of the rules that together cover rule INDEX, or NULL. */
const struct policy_rule *policy_who_covers(const struct policy *p, size_t index);

/* ---- policy_text.c ---- */

/* "allow api.github.com methods [GET]", in P's memory; NULL if that is full. */
const char *policy_text_of(struct policy *p, const struct policy_rule *rule);
/* "watch write [~/.ssh] then freeze" */
const char *policy_text_of_behaviour(struct policy *p, const struct policy_behaviour *rule);

/* ---- policy_preset.c ---- */

/* Set the error "did you mean 'npm'?", or list all presets. */
int policy_no_preset(const struct node *node, const char *name, struct err *err);
#endif
