/* policy_parts.h - a policy's memory and its index; for src/policy, src/vault and src/witness only. */
#ifndef CLOISTER_POLICY_PARTS_H
#define CLOISTER_POLICY_PARTS_H
#include "base/call.h"
#include "policy/policy_budget.h"
#include "policy/policy_rule.h"

#define POLICY_MEMORY_MAX (32 * 1024 * 1024)    /* of one policy's strings and lists */
#define POLICY_HOSTS_MAX 65536                  /* in all rules together */

/* A rule's host that may match.  The other members summarise the rule: for most requests they
 * exclude it without a look at the rule itself. */
struct policy_entry {
	uint16_t rule, host;
	uint16_t methods;               /* bits of policy_method_bit() */
	uint16_t prefix;                /* length of its paths' common prefix ... */
	uint64_t tail;                  /* ... and its last 8 bytes, zero-padded */
};

/* The entries for one name, in the order of rules. */
struct policy_bucket {
	const char *name;               /* NULL: free */
	uint32_t hash;
	enum policy_host_kind kind;
	uint32_t first, n;              /* in struct policy's entries */
};

#define POLICY_CALLS_MAX CALL_NUMBERS_MAX       /* names in a list of `syscalls` */
struct policy_calls {
	struct policy_list deny, allow; /* names, of calls and classes */
	bool has_programs;              /* `programs` is there; without any, it denies `exec` */
	struct policy_list programs;    /* names and paths */
};

struct policy {
	struct policy_rule *rules;
	size_t n_rules, cap_rules;
	struct policy_chunk *chunks;    /* all memory but RULES and the index */
	size_t used;
	/* the index, made by policy_seal() */
	struct policy_entry *entries;
	struct policy_bucket *buckets;
	size_t n_buckets;               /* a power of two, or 0 */
	struct policy_bucket any, nets; /* hosts of kind ANY and NET */
	bool has_suffixes;
	size_t n_consequences, n_narrows;       /* among its rules */
	struct policy_tripwires tripwires;
	bool open;                      /* a request that matches no rule is left to other layers */
	bool is_narrow;                 /* while it is read: it is the narrowing of another policy's
	                                 * rule */
	struct policy_budget *budgets;  /* besides those of rules; room for POLICY_BUDGETS_MAX */
	size_t n_budgets;
	size_t n_rule_budgets;
	struct policy_model_price *prices;      /* room for POLICY_PRICES_MAX */
	size_t n_prices;
	struct policy_rate rate;
	uint64_t bandwidth;             /* bytes a second; 0: no limit */
	struct policy_behaviour *behaviours;    /* room for POLICY_BEHAVIOURS_MAX */
	size_t n_behaviours;
	struct policy_calls calls;
	const struct policy_tools *tools;       /* or NULL */
	struct policy *within;          /* the next layer, or NULL */
};

/* Memory that lives as long as P does, all zero; NULL beyond POLICY_MEMORY_MAX. */
void *policy_alloc(struct policy *p, size_t n, size_t size);
char *policy_copy(struct policy *p, const char *text, size_t len);
/* A new rule at the end, all zero; NULL beyond POLICY_RULES_MAX. */
struct policy_rule *policy_add_rule(struct policy *p);
/* Make the index: after the last rule, before the first question. */
int policy_seal(struct policy *p, struct err *err);

/* ---- policy_consequence.c ---- */

struct policy_getting;
bool policy_has_consequences(const struct policy *p);   /* or tripwires, or is open */
/* The values of `key`, and of `meaning` for its narrowing. */
uint64_t policy_consequence_hash(const char *text, const struct policy_consequence *c);
uint64_t policy_bytes_hash(const void *data, size_t len);
uint64_t policy_narrow_hash(const struct policy *narrow);
void policy_put_consequences(struct buf *b, const struct policy *p);
void policy_get_consequences(struct policy_getting *g); /* into g->p, which has its rules */

void policy_put_consequence(struct buf *b, const struct policy_consequence *c);
void policy_get_consequence(struct policy_getting *g, struct policy_consequence *c);

/* ---- policy_behaviour.c: in front of the rules, for readers that want nothing else ---- */

#define POLICY_FORMAT_WATCH 0x706f6c37u
struct policy_behaviour;
/* A new one, all zero; NULL beyond POLICY_BEHAVIOURS_MAX. */
struct policy_behaviour *policy_add_behaviour(struct policy *p);
/* The value of `key`. */
uint64_t policy_behaviour_hash(const struct policy_behaviour *rule);
/* Whether it has any consequence. */
bool policy_behaviour_does(const struct policy_behaviour *rule);
void policy_put_behaviours(struct buf *b, const struct policy *p);      /* of all layers */
void policy_get_behaviours(struct policy_getting *g);   /* into the layers of g->p */

/* ---- policy_calls.c: behind the behaviours ---- */

#define POLICY_CALL_NAME_MAX 64
extern const char policy_calls_needed[];        /* no program starts or ends without these; separated by one space */
bool policy_calls_next(const char **words, char ret_word[POLICY_CALL_NAME_MAX]);        /* false: that was the last */
bool policy_calls_have(const char *words, const char *word);
const char *policy_class_calls(const char *name);       /* NULL: there is no such class */

void policy_put_calls(struct buf *b, const struct policy *p);   /* of all layers */
void policy_get_calls(struct policy_getting *g, bool layers);

/* ---- policy_price.c ---- */

/* The rule by which WAY passes the layer P, the Ith, or NULL. */
const struct policy_rule *policy_rule_of(const struct policy *p, const struct policy_way *way,
                                         size_t i);

/* ---- policy_put_budget.c: a layer's budgets, encoded behind its rules ---- */

struct policy_getting;
bool policy_has_budgets(const struct policy *p);        /* or prices, or rates */
void policy_put_budgets(struct buf *b, const struct policy *p);
void policy_get_budgets(struct policy_getting *g);      /* into g->p, which has its rules */

/* ---- policy_layers.c ---- */

enum policy_off policy_off_for(const struct policy_rule *rule, const char *principal,
                               const char *chain);

/* ---- policy_field.c ---- */

/* A message that is being read.  After the first error, BAD stays set; callers check it once. */
struct policy_getting {
	struct buf *b;
	struct policy *p;               /* owns the memory of the values read */
	bool bad;
};
uint32_t policy_get_upto(struct policy_getting *g, uint32_t max);
uint64_t policy_get_u64(struct policy_getting *g);
bool policy_get_bool(struct policy_getting *g);
/* Memory for N items, all zero; NULL if it is bad, or becomes so. */
void *policy_get_room(struct policy_getting *g, size_t n, size_t size);
const char *policy_get_text(struct policy_getting *g, size_t max);      /* "" if it is bad */
struct policy_list policy_get_list(struct policy_getting *g, uint32_t max);
void policy_put_list(struct buf *b, const struct policy_list *list);

/* ---- policy_put_layers.c ---- */

void policy_put_layers(struct buf *b, const struct policy *p, void (*put)(struct buf *b, const struct policy *layer));
/* GET reads into g->p, which is each layer in turn.  LAYERS: there are as many as g->p has; otherwise layers are added
 * to it. */
void policy_get_layers(struct policy_getting *g, bool layers, void (*get)(struct policy_getting *g));

/* ---- policy_put.c ---- */

void policy_put_host(struct buf *b, const struct policy_host *host);
void policy_get_host(struct policy_getting *g, struct policy_host *host);

/* ---- policy_put_keys.c ---- */

/* A pointer with its values; it may have none. */
struct policy_json;
void policy_put_json(struct buf *b, const struct policy_json *json);
void policy_get_json(struct policy_getting *g, struct policy_json *json);
/* The keys that every message has room for.  PLAIN: without those about the cell. */
void policy_put_keys(struct buf *b, const struct policy_rule *rule, bool plain);
void policy_get_keys(struct policy_getting *g, struct policy_rule *rule, bool plain);
/* The other keys, each with its name. */
uint32_t policy_n_added(const struct policy_rule *rule);
void policy_put_added(struct buf *b, const struct policy_rule *rule);
void policy_get_added(struct policy_getting *g, struct policy_rule *rule);

/* ---- policy_edits.c ---- */

void policy_put_rewrite(struct buf *b, const struct policy_rule *rule);
void policy_get_rewrite(struct policy_getting *g, struct policy_rule *rule);

/* ---- policy_put_hook.c ---- */

/* Whether the hook can be called as it is written.  The error has no place; *ret_member names the
 * member of `hook` that it is about. */
int policy_check_hook(const struct policy_hook *hook, const char **ret_member, struct err *err);
void policy_put_hook(struct buf *b, const struct policy_rule *rule);
void policy_get_hook(struct policy_getting *g, struct policy_rule *rule);

/* ---- policy_put_call.c ---- */

void policy_put_call(struct buf *b, const struct policy_rule *rule);
void policy_get_call(struct policy_getting *g, struct policy_rule *rule);

/* ---- policy_ask.c ---- */

/* Set the defaults of an `ask` rule. */
void policy_ask_default(struct policy_rule *rule);
bool policy_ask_is_default(const struct policy_rule *rule);
void policy_put_ask(struct buf *b, const struct policy_rule *rule);
void policy_get_ask(struct policy_getting *g, struct policy_rule *rule);

/* ---- policy_doh.c ---- */

/* Whether HOST, as a request has it, is a known resolver.  An IPv4 address may be in IPv6 form. */
bool policy_is_resolver(const char *host);
/* Whether everything that RULE matches at HOST is policy_is_doh(). */
bool policy_rule_is_doh(const struct policy_rule *rule, const struct policy_host *host);

/* ---- policy_match.c ---- */

/* Parse TEXT as an address; IPv6 may be in brackets.  IPv4 becomes ::ffff:a.b.c.d. */
bool policy_address(const char *text, unsigned char ret_address[16]);
bool policy_net_is_ipv4(const struct policy_host *net);
bool policy_net_has(const struct policy_host *net, const unsigned char address[16]);
bool policy_host_fits(const struct policy_host *pattern, const char *host);
bool policy_port_fits(const struct policy_rule *rule, const struct policy_host *host,
                      uint16_t port);
/* A glob without "*". */
bool policy_glob_is_plain(const char *glob);

/* The head of a request, parsed once for all rules. */
struct policy_facts {
	const struct http_head *head;
	const char *path;               /* decoded, without the query */
	size_t path_len;
	/* The same with "%2F" left alone, if there is one: some servers treat it as a slash, others
	 * do not.  NULL otherwise. */
	const char *other;
	size_t other_len;
	struct http_text query;         /* as sent, without "?" */
	bool has_query;
	bool for_tools;                 /* the caller sets it: for POLICY_TOOLS_HOST */
	bool names_method, names_path;  /* fields name another method or path: policy_override.c */
	enum policy_git_op { POLICY_GIT_NONE, POLICY_GIT_FETCH, POLICY_GIT_PUSH_REFS,
	                     POLICY_GIT_PUSH } git;
	const char *repo;               /* points into PATH, unless git is NONE */
	size_t repo_len;
};
/* Room for PATH and OTHER.  It is large, and most paths do not need it. */
struct policy_decoded { char text[2][HTTP_HEAD_MAX]; };
bool policy_wants_decoded(const struct http_head *head);
/* If DECODED is wanted, it must outlive FACTS; otherwise it may be NULL. */
void policy_facts_init(struct policy_facts *facts, const struct http_head *head,
                       struct policy_decoded *decoded);
/* The key that keeps RULE from matching the head, or NULL if the head matches.  Ignores bodies and
 * sizes. */
const char *policy_head_differs(const struct policy_rule *rule,
                                const struct policy_facts *facts);

/* Whether a server may treat a field called NAME as WANT. */
bool policy_header_is_like(struct http_text name, const char *want);

/* ---- policy_override.c ---- */

void policy_find_overrides(struct policy_facts *facts);
/* If fields of FACTS name a method, whether it fits LIST: strictly for a rule that allows (ALLOWS),
 * loosely for others. */
bool policy_overrides_fit(const struct policy_facts *facts, const struct policy_list *list,
                          bool allows);

/* ---- policy_index.c ---- */

/* Iterates over the rules' hosts that fit HOST, in the order of rules.  With FACTS, it skips some
 * rules whose methods or paths do not fit. */
#define POLICY_WALK_MAX 136             /* more than the labels of the longest name */
struct policy_walk {
	const struct policy *p;
	bool is_address;
	unsigned char address[16];
	/* of a request; otherwise any path and method */
	uint16_t method;
	const char *path;
	size_t path_len;
	uint64_t path_head;             /* its first 8 bytes, zero-padded */
	size_t n;
	struct { const struct policy_entry *at, *end; } lists[POLICY_WALK_MAX];
};
void policy_walk_init(struct policy_walk *walk, const struct policy *p, const char *host,
                      const struct policy_facts *facts);
const struct policy_entry *policy_walk_next(struct policy_walk *walk);

/* Whether HOST, a canonical name, is the tools' gateway. */
bool policy_is_tools_host(const char *host);

#define POLICY_HOST_OF_MACHINE "host.cloister.internal"
#define POLICY_HOST_OF_GATE "gate.cloister.internal"
#endif
