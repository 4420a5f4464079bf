/* policy_within.c - --within, --principal and --chain of `cloister policy`: loads layers, and shows
 * them rule by rule. */
#include <fcntl.h>
#include <stdio.h>

#include "base/err.h"
#include "base/json.h"
#include "base/own.h"
#include "cli/policy.h"
#include "policy/policy_pairs.h"
#include "vault/secret_wants.h"

static int
load(const struct policy_cli *cli, const char *file, size_t layer, struct policy **ret_policy,
     struct err *err)
{
	OWN(secret_wants_free) struct secret_wants wants = {0};
	const struct policy_reader reader = { .secrets = secret_wants_read, .hook = policy_any_hook,
	                                      .arg = &wants };
	OWN(policy_freep) struct policy *p = NULL;
	char chain[POLICY_CHAIN_MAX + 1];
	int r = policy_load_file(AT_FDCWD, file, &reader, &p, NULL, err);

	if (r < 0)
		return r;
	policy_chain_before(cli->chain != NULL ? cli->chain : "", layer, chain);
	r = policy_bind(p, cli->principal != NULL ? cli->principal : "", chain, err);
	if (r == 0)
		*ret_policy = TAKE(p);
	return r;
}

int
policy_cli_within(const struct policy_cli *cli, struct policy *p, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < cli->n_within; i++) {
		OWN(policy_freep) struct policy *outer = NULL;

		r = load(cli, cli->within[i], i + 1, &outer, err);
		if (r == 0)
			r = policy_within(p, &outer, err);
	}
	return r;
}

int
policy_cli_load(const struct policy_cli *cli, const char *file, struct policy **ret_policy,
                struct err *err)
{
	OWN(policy_freep) struct policy *p = NULL;
	int r = load(cli, file, 0, &p, err);

	r = r == 0 ? policy_cli_within(cli, p, err) : r;
	if (r == 0)
		*ret_policy = TAKE(p);
	return r;
}

/* ---- rule by rule ---- */

struct showing {
	const struct policy_cli *cli;
	const struct policy *p;
	struct json out;
	int rule;                       /* whose pairs are shown; -1: none yet */
	unsigned layer;
	bool met;                       /* a rule of LAYER meets it */
};

static void
show_pair(void *arg, const struct policy_pair *pair)
{
	struct showing *s = arg;
	const char *file = pair->layer > 0 ? s->cli->within[pair->layer - 1] : "";

	if (pair->rule != s->rule)
		printf("%s  %s\n", policy_rule_place(s->p, pair->rule), policy_rule_text(s->p, pair->rule));
	s->met = pair->rule == s->rule && pair->layer == s->layer && s->met;
	s->rule = pair->rule;
	s->layer = pair->layer;
	printf("    %-5s  ", policy_verdict_name(pair->verdict));
	if (pair->outer >= 0)
		printf("%s  %s\n", policy_rule_place(s->p, pair->outer), policy_rule_text(s->p, pair->outer));
	else if (pair->layer == 0)
		printf("by itself\n");
	else
		printf("%s %s\n", s->met ? "all other requests: no rule matches in" : "no rule matches in", file);
	s->met |= pair->outer >= 0;
}

static void
json_pair(void *arg, const struct policy_pair *pair)
{
	struct showing *s = arg;

	if (pair->rule != s->rule) {
		if (s->rule >= 0) {
			json_close(&s->out, ']');
			json_close(&s->out, '}');
		}
		json_open(&s->out, NULL, '{');
		json_str(&s->out, "rule", policy_rule_place(s->p, pair->rule));
		json_str(&s->out, "text", policy_rule_text(s->p, pair->rule));
		json_open(&s->out, "within", '[');
	}
	s->rule = pair->rule;
	json_open(&s->out, NULL, '{');
	json_u64(&s->out, "layer", pair->layer);
	json_str(&s->out, "rule", pair->outer >= 0 ? policy_rule_place(s->p, pair->outer) : NULL);
	json_str(&s->out, "text", pair->outer >= 0 ? policy_rule_text(s->p, pair->outer) : NULL);
	json_str(&s->out, "verdict", policy_verdict_name(pair->verdict));
	json_close(&s->out, '}');
}

void
policy_cli_show_pairs(const struct policy_cli *cli, const struct policy *p)
{
	struct showing s = { .cli = cli, .p = p, .out = { .out = stdout }, .rule = -1 };

	if (!cli->json) {
		policy_each_pair(p, show_pair, &s);
		return;
	}
	json_open(&s.out, NULL, '[');
	policy_each_pair(p, json_pair, &s);
	if (s.rule >= 0) {
		json_close(&s.out, ']');
		json_close(&s.out, '}');
	}
	json_close(&s.out, ']');
	printf("\n");
}
