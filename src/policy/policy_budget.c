/* policy_budget.c - parses amounts and combines the budgets of all layers. */
#include "policy/policy_budget.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "base/own.h"
#include "policy/policy_parts.h"

#define COUNT_MAX 1000000000000ULL

static const char *const kinds[POLICY_KINDS] = { "requests", "bytes_in", "bytes_out", "hosts",
	"time", "cpu", "money" };

const char *
policy_kind_name(enum policy_kind kind)
{
	return kinds[kind];
}

const char *
policy_per_name(enum policy_per per)
{
	static const char *const names[POLICY_PERS] = { "cell", "principal", "secret", "rule" };

	return names[per];
}

const char *
policy_then_name(enum policy_then then)
{
	static const char *const names[POLICY_THENS] = { "refuse", "ask", "freeze", "kill" };

	return names[then];
}

int
policy_kind_find(const char *name)
{
	for (int i = 0; i < POLICY_KINDS; i++)
		if (strcmp(kinds[i], name) == 0)
			return i;
	return -1;
}

/* ---- amounts ---- */

/* "5", "$5", "5 USD".  Any other currency is an error. */
static int
parse_money(const char *text, uint64_t *ret_amount, struct err *err)
{
	char number[40];
	size_t len = strlen(text);

	if (text[0] == '$')
		text++, len--;
	else if (len > 3 && strcmp(text + len - 3, "USD") == 0)
		len -= text[len - 4] == ' ' ? 4 : 3;
	if (len >= sizeof(number))
		return err_set(err, EINVAL, "'%.40s' is not an amount such as 5 USD", text);
	memcpy(number, text, len);
	number[len] = '\0';
	if (num_parse_nano(number, ret_amount, NULL) < 0 || *ret_amount > POLICY_MONEY_MAX)
		return err_set(err, EINVAL, "'%.40s' is not an amount of money such as 5 USD or 0.25", text);
	return 0;
}

int
policy_amount_parse(enum policy_kind kind, const char *text, uint64_t *ret_amount, struct err *err)
{
	switch (kind) {
	case POLICY_BYTES_IN:
	case POLICY_BYTES_OUT:
		return num_parse_size(text, ret_amount, err);
	case POLICY_TIME:
	case POLICY_CPU:
		return num_parse_duration(text, ret_amount, err);
	case POLICY_MONEY:
		return parse_money(text, ret_amount, err);
	default:
		return num_parse_count(text, 0, COUNT_MAX, ret_amount, err);
	}
}

char *
policy_amount_format(char text[POLICY_AMOUNT_TEXT], enum policy_kind kind, uint64_t amount)
{
	char number[NUM_TEXT_MAX];

	switch (kind) {
	case POLICY_BYTES_IN:
	case POLICY_BYTES_OUT:
		snprintf(text, POLICY_AMOUNT_TEXT, "%s", num_format_size(number, amount));
		break;
	case POLICY_TIME:
	case POLICY_CPU:
		snprintf(text, POLICY_AMOUNT_TEXT, "%s", num_format_duration(number, amount));
		break;
	case POLICY_MONEY:
		snprintf(text, POLICY_AMOUNT_TEXT, "%s USD", num_format_nano(number, amount));
		break;
	default:
		snprintf(text, POLICY_AMOUNT_TEXT, "%" PRIu64, amount);
	}
	return text;
}

int
policy_rate_parse(const char *text, struct policy_rate *ret_rate, struct err *err)
{
	static const struct { char unit; uint64_t ms; } units[] = {
		{ 's', 1000 }, { 'm', 60000 }, { 'h', 3600000 } };
	const char *slash = strchr(text, '/');
	char number[24];
	uint64_t n;

	for (size_t i = 0; slash != NULL && slash - text < (ptrdiff_t)sizeof(number) &&
	     i < ARRAY_LEN(units); i++) {
		if (slash[1] != units[i].unit || slash[2] != '\0')
			continue;
		snprintf(number, sizeof(number), "%.*s", (int)(slash - text), text);
		if (num_parse_count(number, 1, 1000000, &n, NULL) < 0)
			break;
		*ret_rate = (struct policy_rate){ n, units[i].ms };
		return 0;
	}
	return err_set(err, EINVAL, "'%.40s' is not a rate such as 10/s, 100/m or 500/h", text);
}

/* ---- all layers ---- */

uint64_t
policy_budget_key(enum policy_per per, const char *of)
{
	const char *parts[] = { policy_per_name(per), of };
	uint64_t hash = 0xcbf29ce484222325;     /* FNV-1a: a collision only makes a budget stricter */

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		for (const char *c = parts[i]; *c != '\0'; c++)
			hash = (hash ^ (unsigned char)*c) * 0x100000001b3;
		hash = (hash ^ 0xff) * 0x100000001b3;
	}
	return hash != 0 ? hash : 1;
}

size_t
policy_n_budgets(const struct policy *p)
{
	size_t n = 0;

	for (; p != NULL; p = p->within)
		n += p->n_budgets + p->n_rule_budgets;
	return n;
}

static const struct policy_budget *
find_rule_budget(const struct policy *p, size_t i, int first, int *ret_rule)
{
	for (size_t k = 0; k < p->n_rules; k++)
		if (p->rules[k].budget != NULL && i-- == 0) {
			*ret_rule = first + (int)k;
			return p->rules[k].budget;
		}
	return NULL;
}

const struct policy_budget *
policy_budget_at(const struct policy *p, size_t i, int *ret_rule)
{
	int first = 0, rule = -1;
	const struct policy_budget *found = NULL;
	const struct policy *at = p;

	for (; at != NULL && found == NULL; at = at->within) {
		if (i < at->n_budgets)
			found = &at->budgets[i];
		else
			i -= at->n_budgets;
	}
	for (at = p; at != NULL && found == NULL; at = at->within) {
		if (i < at->n_rule_budgets)
			found = find_rule_budget(at, i, first, &rule);
		else
			i -= at->n_rule_budgets;
		first += (int)at->n_rules;
	}
	if (ret_rule != NULL)
		*ret_rule = rule;
	return found;
}

uint64_t
policy_warns_at(uint64_t limit, unsigned percent)
{
	return limit / 100 * percent + (limit % 100 * percent + 99) / 100;
}

void
policy_watch(const struct policy *p, struct policy_watch *ret_watch)
{
	static const enum policy_kind times[] = { POLICY_TIME, POLICY_CPU };
	size_t n = policy_n_budgets(p);

	*ret_watch = (struct policy_watch){0};
	for (size_t i = 0; i < n; i++) {
		const struct policy_budget *b = policy_budget_at(p, i, NULL);

		ret_watch->principal |= b->per == POLICY_PER_PRINCIPAL;
		ret_watch->cpu |= b->limits[POLICY_CPU] != 0;
		for (size_t k = 0; k < ARRAY_LEN(times); k++) {
			uint64_t limit = b->limits[times[k]], *at;

			ret_watch->times |= limit != 0;
			if (limit == 0 || b->then < POLICY_THEN_FREEZE)
				continue;
			at = &ret_watch->limits[b->per == POLICY_PER_PRINCIPAL][k][b->then == POLICY_THEN_KILL];
			if (*at == 0 || limit < *at)
				*at = limit;
		}
	}
}

struct policy_rate
policy_rate(const struct policy *p)
{
	struct policy_rate least = {0};

	for (; p != NULL; p = p->within)
		if (p->rate.n != 0 && (least.n == 0 || p->rate.n * least.ms < least.n * p->rate.ms))
			least = p->rate;
	return least;
}

uint64_t
policy_bandwidth(const struct policy *p)
{
	uint64_t least = 0;

	for (; p != NULL; p = p->within)
		if (p->bandwidth != 0 && (least == 0 || p->bandwidth < least))
			least = p->bandwidth;
	return least;
}

void
policy_set_rate(struct policy *p, struct policy_rate rate)
{
	p->rate = rate;
}

void
policy_set_bandwidth(struct policy *p, uint64_t bytes)
{
	p->bandwidth = bytes;
}
