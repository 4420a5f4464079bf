/* policy_budget.h - how much a cell may use: what a policy says of budgets, prices and rates.
 *
 * Pure, and immutable as the policy is.  What was used is counted in a ledger (ledger.h), under
 * a budget's KEY: budgets of the same scope, in whatever layer, share what was used and differ
 * in where they end.  All of all layers count, so that none can loosen another's. */
#ifndef CLOISTER_POLICY_BUDGET_H
#define CLOISTER_POLICY_BUDGET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy;
struct policy_way;
struct err;

#define POLICY_BUDGETS_MAX 64           /* of one layer, those of its rules included */
#define POLICY_WARNS_MAX 8              /* of one budget */
#define POLICY_PRICES_MAX 256           /* of one layer */
#define POLICY_MODEL_MAX 128            /* bytes of a model's name */
#define POLICY_BUDGET_NAME_MAX 256      /* and longer ones are cut */
#define POLICY_MONEY_MAX (1000000ULL * 1000000000)      /* a million dollars */

/* What is counted: requests, bytes of bodies, distinct hosts, milliseconds, and thousand
 * millionths of a dollar. */
enum policy_kind { POLICY_REQUESTS, POLICY_BYTES_IN, POLICY_BYTES_OUT, POLICY_DISTINCT_HOSTS,
                   POLICY_TIME, POLICY_CPU, POLICY_MONEY, POLICY_KINDS };
/* Of whom. */
enum policy_per { POLICY_PER_CELL, POLICY_PER_PRINCIPAL, POLICY_PER_SECRET, POLICY_PER_RULE,
                  POLICY_PERS };
/* What reaching it does; each is stricter than the one before. */
enum policy_then { POLICY_THEN_REFUSE, POLICY_THEN_ASK, POLICY_THEN_FREEZE, POLICY_THEN_KILL,
                   POLICY_THENS };

struct policy_budget {
	enum policy_per per;
	const char *of;                 /* the secret's name; "" otherwise */
	uint64_t limits[POLICY_KINDS];  /* 0: none */
	enum policy_then then;
	uint8_t warns[POLICY_WARNS_MAX]; /* percent, rising */
	size_t n_warns;
	const char *place;              /* "cloister.yaml:12:5" */
	const char *name;               /* "cell", "secret:NAME", "rule:cloister.yaml:12:5" */
	uint64_t key;                   /* in the ledger; never 0 */
};

/* In USD for a million tokens, as thousand millionths: 3 USD are 3,000,000,000. */
struct policy_price {
	uint64_t input, output, cache_read, cache_write;
	uint64_t long_over;             /* of prompts with more tokens, input costs twice and output half
	                                 * as much more; 0: of none */
};
struct policy_model_price {
	const char *model;              /* a glob */
	struct policy_price price;
};
struct policy_tokens { uint64_t input, output, cache_read, cache_write; };

/* The answers of a model's provider, as rules and hosts tell them. */
enum policy_usage { POLICY_USAGE_NONE, POLICY_USAGE_ANTHROPIC, POLICY_USAGE_OPENAI,
                    POLICY_USAGE_GEMINI, POLICY_USAGES };

const char *policy_kind_name(enum policy_kind kind);    /* "bytes_in" */
const char *policy_per_name(enum policy_per per);
const char *policy_then_name(enum policy_then then);
/* The kind that NAME names, or -1. */
int policy_kind_find(const char *name);
/* An amount of KIND, as people write it: "100", "5M", "1h30m", "2.50 USD". */
int policy_amount_parse(enum policy_kind kind, const char *text, uint64_t *ret_amount,
                        struct err *err);
#define POLICY_AMOUNT_TEXT 40
char *policy_amount_format(char text[POLICY_AMOUNT_TEXT], enum policy_kind kind, uint64_t amount);

/* The budgets of all layers: those of the policies first, then those of rules. */
size_t policy_n_budgets(const struct policy *p);
/* RET_RULE, unless NULL: the rule that it is of, counted through all layers, or -1. */
const struct policy_budget *policy_budget_at(const struct policy *p, size_t i, int *ret_rule);
uint64_t policy_budget_key(enum policy_per per, const char *of);

/* Where a warning at PERCENT of LIMIT is due. */
uint64_t policy_warns_at(uint64_t limit, unsigned percent);

/* What somebody has to watch while nothing is asked for: times after which the cell is stopped,
 * of the cell's own (0) and its principal's (1), by the wall (0) and of processors (1), frozen
 * (0) or killed (1); 0: none. */
struct policy_watch {
	uint64_t limits[2][2][2];
	bool times;                     /* there is a budget of time, whatever reaching it does; */
	bool cpu;                       /* of processors */
	bool principal;                 /* there is a budget per principal */
};
void policy_watch(const struct policy *p, struct policy_watch *ret_watch);

/* The strictest of all layers; 0: none is said.  A rate is N requests in MS. */
struct policy_rate { uint64_t n, ms; };
struct policy_rate policy_rate(const struct policy *p);
uint64_t policy_bandwidth(const struct policy *p);
void policy_set_rate(struct policy *p, struct policy_rate rate);        /* of its first layer */
void policy_set_bandwidth(struct policy *p, uint64_t bytes);
/* "10/s", "100/m", "5/h". */
int policy_rate_parse(const char *text, struct policy_rate *ret_rate, struct err *err);

/* What a request that is let through by WAY costs beside its tokens: the dearest that a layer
 * says. */
uint64_t policy_price_of_request(const struct policy *p, const struct policy_way *way);
/* Whose answer it will be: what a rule of WAY says, or HOST tells.  RET_SURE: it is one that
 * tells of tokens; otherwise PATH is none that is known to, and it may.  RET_MODEL: which one
 * is asked, where such a host has that in PATH, or "". */
enum policy_usage policy_usage_of(const struct policy *p, const struct policy_way *way,
                                  const char *host, const char *path, size_t path_len,
                                  bool *ret_sure, char ret_model[POLICY_MODEL_MAX + 1]);
/* Whether what is asked for at PATH of such a host is a batch, which costs something only later. */
bool policy_costs_later(const char *path, size_t path_len);
/* Whether METHOD at PATH of HOST may cost something that nothing tells of: HOST is a provider of
 * models, the path is none whose answers tell of tokens, and none that is known to be free. */
bool policy_costs_untold(const char *host, const char *method, size_t method_len, const char *path,
                         size_t path_len);
/* The most tokens that one answer of MODEL has; what is not known is POLICY_OUTPUT_MAX. */
#define POLICY_OUTPUT_MAX 128000
uint64_t policy_max_output(const char *model);
/* What TOKENS of MODEL cost: the dearest that a layer says; what none mentions is in the
 * built-in table, and a model that nobody knows is dear.  Rounded up. */
uint64_t policy_price_of_tokens(const struct policy *p, const char *model,
                                const struct policy_tokens *tokens);
/* The same in two steps, for who asks for one model again and again: how many there are, and
 * their costs. */
size_t policy_find_prices(const struct policy *p, const char *model,
                          const struct policy_price **ret_prices, size_t max);
uint64_t policy_dearest(const struct policy_price *const *prices, size_t n,
                        const struct policy_tokens *tokens);
/* As of when the built-in prices are, and the table: ends with a glob of everything. */
#define POLICY_PRICES_AS_OF "2026-11"
extern const struct policy_model_price policy_builtin_prices[];
#endif
