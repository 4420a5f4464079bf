/* policy_budget.h - budgets, prices and rates of a policy.
 *
 * Pure, and immutable as the policy is.  A ledger (ledger.h) counts use under a budget's KEY.
 * Budgets of the same scope share one count, whatever their layer, and have limits of their own.
 * The budgets of all layers apply, so no layer can loosen another's. */
#ifndef CLOISTER_POLICY_BUDGET_H
#define CLOISTER_POLICY_BUDGET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct policy;
struct policy_way;
struct err;

#define POLICY_BUDGETS_MAX 64           /* in one layer, including its rules' budgets */
#define POLICY_WARNS_MAX 8              /* in one budget */
#define POLICY_PRICES_MAX 256           /* in one layer */
#define POLICY_MODEL_MAX 128            /* bytes of a model's name */
#define POLICY_BUDGET_NAME_MAX 256      /* longer names are cut */
#define POLICY_MONEY_MAX (1000000ULL * 1000000000)      /* a million dollars */

/* The units counted: requests, bytes of bodies, distinct hosts, milliseconds, and billionths of a
 * dollar. */
enum policy_kind { POLICY_REQUESTS, POLICY_BYTES_IN, POLICY_BYTES_OUT, POLICY_DISTINCT_HOSTS,
                   POLICY_TIME, POLICY_CPU, POLICY_MONEY, POLICY_KINDS };
/* The scope of a count. */
enum policy_per { POLICY_PER_CELL, POLICY_PER_PRINCIPAL, POLICY_PER_SECRET, POLICY_PER_RULE,
                  POLICY_PERS };
/* The effect of reaching a limit; each is stricter than the one before. */
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

/* In USD per million tokens, counted in billionths: 3 USD is 3,000,000,000. */
struct policy_price {
	uint64_t input, output, cache_read, cache_write;
	uint64_t long_over;             /* for prompts with more tokens than this, input costs 2x
	                                 * and output 1.5x; 0: never */
};
struct policy_model_price {
	const char *model;              /* a glob */
	struct policy_price price;
};
struct policy_tokens { uint64_t input, output, cache_read, cache_write; };

/* The response format of a model provider, known from the rule or the host. */
enum policy_usage { POLICY_USAGE_NONE, POLICY_USAGE_ANTHROPIC, POLICY_USAGE_OPENAI,
                    POLICY_USAGE_GEMINI, POLICY_USAGES };

const char *policy_kind_name(enum policy_kind kind);    /* "bytes_in" */
const char *policy_per_name(enum policy_per per);
const char *policy_then_name(enum policy_then then);
/* The kind called NAME, or -1. */
int policy_kind_find(const char *name);
/* Parse an amount of KIND as people write it: "100", "5M", "1h30m", "2.50 USD". */
int policy_amount_parse(enum policy_kind kind, const char *text, uint64_t *ret_amount,
                        struct err *err);
#define POLICY_AMOUNT_TEXT 40
char *policy_amount_format(char text[POLICY_AMOUNT_TEXT], enum policy_kind kind, uint64_t amount);

/* The budgets of all layers: the policies' own first, then those of rules. */
size_t policy_n_budgets(const struct policy *p);
/* RET_RULE, unless NULL, is set to the budget's rule, numbered through all layers, or -1. */
const struct policy_budget *policy_budget_at(const struct policy *p, size_t i, int *ret_rule);
uint64_t policy_budget_key(enum policy_per per, const char *of);

/* The amount at which a warning at PERCENT of LIMIT is due. */
uint64_t policy_warns_at(uint64_t limit, unsigned percent);

/* Time limits that must be watched even while the cell sends no request.  The indices are: cell (0)
 * or principal (1); wall clock (0) or CPU (1); freeze (0) or kill (1).  0: no limit. */
struct policy_watch {
	uint64_t limits[2][2][2];
	bool times;                     /* a time budget exists, whatever its effect */
	bool cpu;                       /* a CPU time budget exists */
	bool principal;                 /* a budget per principal exists */
};
void policy_watch(const struct policy *p, struct policy_watch *ret_watch);

/* The strictest limits of all layers; 0: none.  A rate is N requests in MS. */
struct policy_rate { uint64_t n, ms; };
struct policy_rate policy_rate(const struct policy *p);
uint64_t policy_bandwidth(const struct policy *p);
void policy_set_rate(struct policy *p, struct policy_rate rate);        /* in its first layer */
void policy_set_bandwidth(struct policy *p, uint64_t bytes);
/* "10/s", "100/m", "5/h". */
int policy_rate_parse(const char *text, struct policy_rate *ret_rate, struct err *err);

/* The price of a request that WAY lets through, besides its tokens: the highest of any layer. */
uint64_t policy_price_of_request(const struct policy *p, const struct policy_way *way);
/* Whose response format to expect: set by a rule of WAY, or known from HOST.  RET_SURE: responses
 * at PATH are known to report tokens; otherwise they may.  RET_MODEL: the requested model, if PATH
 * names it at such a host, or "". */
enum policy_usage policy_usage_of(const struct policy *p, const struct policy_way *way,
                                  const char *host, const char *path, size_t path_len,
                                  bool *ret_sure, char ret_model[POLICY_MODEL_MAX + 1]);
/* Whether PATH ends with END, ignoring the query and normalised as provider paths are. */
bool policy_path_ends(const char *path, size_t path_len, const char *end);
/* Whether a request to PATH at a provider orders a batch, which costs money only later. */
bool policy_costs_later(const char *path, size_t path_len);
/* Whether METHOD at PATH of HOST may cost money that no response reports.  HOST is then a model
 * provider, and PATH is known neither to report tokens nor to be free. */
bool policy_costs_untold(const char *host, const char *method, size_t method_len, const char *path,
                         size_t path_len);
/* The most tokens in one response of MODEL; POLICY_OUTPUT_MAX for unknown models. */
#define POLICY_OUTPUT_MAX 128000
uint64_t policy_max_output(const char *model);
/* The cost of TOKENS of MODEL, rounded up: the highest of any layer.  If no layer prices the model,
 * the built-in table does; an unknown model is assumed to be expensive. */
uint64_t policy_price_of_tokens(const struct policy *p, const char *model,
                                const struct policy_tokens *tokens);
/* The same in two steps, for callers that price one model repeatedly: find the prices, returning
 * how many there are, then compute the highest cost. */
size_t policy_find_prices(const struct policy *p, const char *model,
                          const struct policy_price **ret_prices, size_t max);
uint64_t policy_dearest(const struct policy_price *const *prices, size_t n,
                        const struct policy_tokens *tokens);
/* The date of the built-in prices, and their table, which ends with a glob that matches everything. */
#define POLICY_PRICES_AS_OF "2026-11"
extern const struct policy_model_price policy_builtin_prices[];
#endif
