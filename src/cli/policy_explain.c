/* policy_explain.c - `cloister policy explain`: shows a request's way through the rules. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/num.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/policy.h"
#include "policy/policy_budget.h"
#include "policy/policy_explain.h"
#include "policy/policy_hook.h"

struct explaining {
	const struct policy_cli *cli;
	struct policy *p;
	struct policy_asked asked;
	struct policy_judgement got;
	struct policy_step *steps;
	bool open;                      /* depends on a body that was not given */
	struct policy_sent *sent;       /* or NULL: it is refused, or depends on the body */
};

static const char *
step_name(enum policy_step_kind kind)
{
	static const char *const names[] = { "behind", "host", "port", "protocol", "key", "size",
		"body", "open", "logs", "decides" };

	return names[kind];
}

/* Describes what keeps the rule from matching this request. */
static void
describe_key(const struct policy_asked *asked, const char *key, char text[POLICY_STEP_TEXT_MAX])
{
	const struct http_head *head = &asked->head;
	struct http_text type = http_head_get(head, "content-type");

	if (strcmp(key, "methods") == 0)
		snprintf(text, POLICY_STEP_TEXT_MAX, "no: the method is %.*s", (int)head->method.len,
		         head->method.at);
	else if (strcmp(key, "scheme") == 0)
		snprintf(text, POLICY_STEP_TEXT_MAX, "no: the scheme is %s",
		         head->scheme == HTTP_TLS ? "https" : "http");
	else if (strcmp(key, "paths") == 0)
		snprintf(text, POLICY_STEP_TEXT_MAX, "no: the path is %.*s", head->path.len > 200 ? 200 :
		         (int)head->path.len, head->path.at);
	else if (strcmp(key, "content_type") == 0)
		snprintf(text, POLICY_STEP_TEXT_MAX, "no: the content type is %.*s", type.len > 100 ? 100 :
		         (int)type.len, type.len > 0 ? type.at : "");
	else if (strcmp(key, "upgrade") == 0)
		snprintf(text, POLICY_STEP_TEXT_MAX, head->upgrade.len > 0 ?
		         "no: it does not allow WebSockets" : "no: the request is not for a WebSocket");
	else if (strcmp(key, "args") == 0)
		snprintf(text, POLICY_STEP_TEXT_MAX, "no: a rule for hosts allows no tool");
	else if (strcmp(key, "git") == 0)
		snprintf(text, POLICY_STEP_TEXT_MAX, "no: `git` does not match");
	else if (strcmp(key, "principal") == 0 || strcmp(key, "chain") == 0)
		snprintf(text, POLICY_STEP_TEXT_MAX, "no: `%s` does not match this cell", key);
	else
		snprintf(text, POLICY_STEP_TEXT_MAX, "no: `%s` does not match", key);
}

void
policy_cli_describe(const struct policy_asked *asked, const struct policy_step *step,
                    char text[POLICY_STEP_TEXT_MAX])
{
	static const char *const protocols[] = { "HTTP", "raw TCP", "TLS that is passed through" };

	switch (step->kind) {
	case POLICY_STEP_KEY:
		describe_key(asked, step->key, text);
		break;
	case POLICY_STEP_PORT:
		snprintf(text, POLICY_STEP_TEXT_MAX, "no: the port is %d", asked->req.port);
		break;
	case POLICY_STEP_PROTOCOL:
		snprintf(text, POLICY_STEP_TEXT_MAX, "no: this is %s", protocols[asked->req.protocol]);
		break;
	case POLICY_STEP_SIZE:
		snprintf(text, POLICY_STEP_TEXT_MAX, "no: the body is too large");
		break;
	case POLICY_STEP_BODY:
		snprintf(text, POLICY_STEP_TEXT_MAX, asked->call != NULL ? "no: the call does not match" : "no: the body does not match");
		break;
	case POLICY_STEP_OPEN:
		snprintf(text, POLICY_STEP_TEXT_MAX, "if the body matches");
		break;
	case POLICY_STEP_LOGS:
		snprintf(text, POLICY_STEP_TEXT_MAX, "yes: recorded, on to the next rule");
		break;
	case POLICY_STEP_DECIDES:
		snprintf(text, POLICY_STEP_TEXT_MAX, "yes");
		break;
	default:
		snprintf(text, POLICY_STEP_TEXT_MAX, "no: other hosts");
		break;
	}
}

/* Shows one layer, whose rules are those from FIRST to N. */
static void
show_layer(const struct explaining *e, size_t first, size_t n)
{
	size_t others = 0, behind = 0;
	char text[POLICY_STEP_TEXT_MAX];

	for (size_t i = first; i < n; i++) {
		const struct policy_step *step = &e->steps[i];

		/* Nobody wrote it. */
		if (policy_rule_is_built_in(e->p, (int)i) && step->kind != POLICY_STEP_DECIDES)
			continue;
		others += step->kind == POLICY_STEP_HOST;
		behind += step->kind == POLICY_STEP_BEHIND;
		if (step->kind == POLICY_STEP_HOST || step->kind == POLICY_STEP_BEHIND)
			continue;
		policy_cli_describe(&e->asked, step, text);
		printf("  %s  %s\n      ", policy_rule_place(e->p, (int)i), policy_rule_text(e->p, (int)i));
		text_print_safe(stdout, text, strlen(text), false);
		printf("\n");
	}
	if (others > 0)
		printf("  %zu rule%s about other hosts\n", others, others == 1 ? " is" : "s are");
	if (behind > 0)
		printf("  %zu rule%s after it\n", behind, behind == 1 ? " is" : "s are");
}

static void
show_steps(const struct explaining *e)
{
	const struct policy *p = e->p;
	size_t at = 0;

	if (e->asked.refused[0] != '\0')
		return;                 /* no rule is evaluated */
	for (size_t i = 0; p != NULL; p = policy_outer(p), i++) {
		if (i > 0)
			printf("within %s\n", e->cli->within[i - 1]);
		show_layer(e, at, at + policy_n_own(p));
		at += policy_n_own(p);
	}
}

/* Shows each layer that asks: all of them have to agree. */
static void
show_asked(const struct explaining *e)
{
	struct policy_question q;
	char time[NUM_TEXT_MAX];

	for (unsigned layer = 0; layer < POLICY_LAYERS_MAX; layer++) {
		int rule = policy_way_rule(e->p, &e->got.decision.way, layer);

		if (!policy_question(e->p, rule, &q))
			continue;
		printf("asked: %u of ", q.approvals);
		for (size_t i = 0; i < q.n_approvers; i++)
			printf("%s%s", i > 0 ? ", " : "", q.approvers[i]);
		printf("%s, for %s%s\n", q.n_approvers == 0 ? "any operator" : "",
		       num_format_duration(time, q.timeout_ms),
		       q.freeze ? ", while the cell is frozen" : "");
	}
}

/* Whether budget I counts for the request. */
static bool
counts(const struct explaining *e, size_t i)
{
	const struct policy_decision *d = &e->got.decision;
	const struct policy *p = e->p;
	int rule, first = 0;

	(void)policy_budget_at(e->p, i, &rule);
	if (d->verdict != POLICY_ALLOW || e->open)
		return false;
	for (size_t layer = 0; p != NULL && rule >= 0; p = policy_outer(p), layer++) {
		if (d->way.rule[layer] >= 0 && first + d->way.rule[layer] == rule)
			return true;
		first += (int)policy_n_own(p);
	}
	return rule < 0;
}

/* "requests 100, money 5.00 USD, then freeze" */
static void
show_budgets(const struct explaining *e)
{
	char text[POLICY_AMOUNT_TEXT];

	for (size_t i = 0; i < policy_n_budgets(e->p); i++) {
		const struct policy_budget *b = policy_budget_at(e->p, i, NULL);

		if (!counts(e, i))
			continue;
		printf("budget %s:", b->name);
		for (unsigned k = 0; k < POLICY_KINDS; k++)
			if (b->limits[k] != 0)
				printf(" %s %s,", policy_kind_name(k),
				       policy_amount_format(text, k, b->limits[k]));
		printf(" then %s\n", policy_then_name(b->then));
	}
}

static void
json_budgets(struct json *out, const struct explaining *e)
{
	json_open(out, "budgets", '[');
	for (size_t i = 0; i < policy_n_budgets(e->p); i++) {
		const struct policy_budget *b = policy_budget_at(e->p, i, NULL);

		if (!counts(e, i))
			continue;
		json_open(out, NULL, '{');
		json_str(out, "name", b->name);
		json_str(out, "per", policy_per_name(b->per));
		for (unsigned k = 0; k < POLICY_KINDS; k++)
			if (b->limits[k] != 0)
				json_u64(out, policy_kind_name(k), b->limits[k]);
		json_str(out, "then", policy_then_name(b->then));
		json_close(out, '}');
	}
	json_close(out, ']');
}

/* Shows each layer's hook: all of them have to agree. */
static void
show_hooks(const struct explaining *e)
{
	for (unsigned layer = 0; e->sent != NULL && layer < POLICY_LAYERS_MAX; layer++) {
		int rule = policy_way_rule(e->p, &e->got.decision.way, layer);
		const struct policy_hook *hook = policy_hook_of(e->p, rule);

		if (hook == NULL)
			continue;
		printf("if the hook of %s agrees:", policy_rule_place(e->p, rule));
		if (hook->socket != NULL)
			printf(" unix:%s", hook->socket);
		for (size_t i = 0; hook->argv != NULL && hook->argv[i] != NULL; i++)
			printf(" %s", hook->argv[i]);
		printf("\n");
	}
}

static void
json_hooks(const struct explaining *e, struct json *out)
{
	json_open(out, "hooks", '[');
	for (unsigned layer = 0; layer < POLICY_LAYERS_MAX; layer++) {
		int rule = policy_way_rule(e->p, &e->got.decision.way, layer);
		const struct policy_hook *hook = policy_hook_of(e->p, rule);

		if (hook == NULL)
			continue;
		json_open(out, NULL, '{');
		json_str(out, "rule", policy_rule_place(e->p, rule));
		if (hook->socket != NULL)
			json_str(out, "socket", hook->socket);
		else
			json_open(out, "program", '[');
		for (size_t i = 0; hook->argv != NULL && hook->argv[i] != NULL; i++)
			json_str(out, NULL, hook->argv[i]);
		if (hook->argv != NULL)
			json_close(out, ']');
		json_u64(out, "timeout_ms", hook->timeout_ms);
		json_u64(out, "body", hook->body_max);
		json_close(out, '}');
	}
	json_close(out, ']');
}

static void
show_verdict(const struct explaining *e)
{
	const struct policy_decision *d = &e->got.decision;

	if (e->open) {
		printf("it depends on the body: give one with --body\n");
		return;
	}
	printf("%s", policy_verdict_name(d->verdict));
	if (d->rule >= 0)
		printf(", by %s", policy_rule_place(e->p, d->rule));
	else if (e->got.why[0] == '\0')
		printf(": no rule allows it%s%s", d->layer > 0 ? " in " : "",
		       d->layer > 0 ? e->cli->within[d->layer - 1] : "");
	if (e->got.why[0] != '\0')
		printf(": %s", e->got.why);
	printf("\n");
	if (d->verdict == POLICY_ASK)
		show_asked(e);
	if (d->reason != NULL && d->verdict != POLICY_ALLOW)
		printf("reason: %s\n", d->reason);
	show_hooks(e);
	if (e->sent != NULL)
		policy_sent_print(e->sent);
	show_budgets(e);
}

static void
json_asked(const struct explaining *e, struct json *out)
{
	struct policy_question q;

	json_open(out, "asked", '[');
	for (unsigned layer = 0; layer < POLICY_LAYERS_MAX; layer++) {
		int rule = policy_way_rule(e->p, &e->got.decision.way, layer);

		if (!policy_question(e->p, rule, &q))
			continue;
		json_open(out, NULL, '{');
		json_str(out, "rule", policy_rule_place(e->p, rule));
		json_open(out, "approvers", '[');
		for (size_t i = 0; i < q.n_approvers; i++)
			json_str(out, NULL, q.approvers[i]);
		json_close(out, ']');
		json_u64(out, "approvals", q.approvals);
		json_u64(out, "timeout_ms", q.timeout_ms);
		json_bool(out, "freeze", q.freeze);
		json_close(out, '}');
	}
	json_close(out, ']');
}

static void
show_json(const struct explaining *e)
{
	const struct policy_decision *d = &e->got.decision;
	struct json out = { .out = stdout };

	json_open(&out, NULL, '{');
	json_str(&out, "verdict", e->open ? NULL : policy_verdict_name(d->verdict));
	json_bool(&out, "needs_body", e->open);
	json_str(&out, "rule", d->rule >= 0 && !e->open ? policy_rule_place(e->p, d->rule) : NULL);
	if (e->cli->n_within > 0)
		json_u64(&out, "layer", d->layer);
	json_str(&out, "reason", d->reason);
	json_str(&out, "why", e->got.why[0] != '\0' ? e->got.why : NULL);
	if (d->verdict == POLICY_ASK && !e->open)
		json_asked(e, &out);
	if (e->sent != NULL) {
		policy_sent_json(&out, e->sent);
		if (policy_hooks(e->p))
			json_hooks(e, &out);
	}
	json_open(&out, "rules", '[');
	for (size_t i = 0; e->asked.refused[0] == '\0' && i < policy_n_rules(e->p); i++) {
		json_open(&out, NULL, '{');
		json_str(&out, "rule", policy_rule_place(e->p, (int)i));
		json_str(&out, "text", policy_rule_text(e->p, (int)i));
		json_str(&out, "step", step_name(e->steps[i].kind));
		json_str(&out, "key", e->steps[i].key);
		json_close(&out, '}');
	}
	json_close(&out, ']');
	if (policy_n_budgets(e->p) > 0)
		json_budgets(&out, e);
	json_close(&out, '}');
	printf("\n");
}

/* "@FILE", or the text itself. */
static int
take_body(const char *word, char **ret_text, size_t *ret_len, struct err *err)
{
	if (word[0] == '@')
		return read_file_at(AT_FDCWD, word + 1, POLICY_CLI_BODY_MAX, ret_text, ret_len, err);
	*ret_text = strdup(word);
	*ret_len = strlen(word);
	return *ret_text != NULL ? 0 : err_set(err, ENOMEM, "out of memory");
}

static int
explain(struct explaining *e, const char *method, const char *url, struct err *err)
{
	OWN(policy_judge_freep) struct policy_judge *judge = NULL;
	OWN(freep) char *body = NULL;
	size_t n_body = 0;
	int r = 0;

	if (e->cli->body != NULL)
		r = take_body(e->cli->body, &body, &n_body, err);
	r = r == 0 ? policy_asked_init(&e->asked, method, url, e->cli->headers, e->cli->n_headers,
	                               body, n_body, err) : r;
	r = r == 0 ? policy_judge_new(e->p, &judge, err) : r;
	if (r < 0)
		return r;
	/* Without --body, the request may have one. */
	if (e->asked.refused[0] != '\0') {
		return policy_judge(judge, &e->asked, &e->got, err);
	} else if (e->asked.body == NULL && !http_text_is(e->asked.head.method, "GET") &&
	    !http_text_is(e->asked.head.method, "HEAD")) {
		e->asked.head.length = HTTP_LENGTH_UNKNOWN;
		policy_decide(e->p, &e->asked.req, &e->got.decision, &e->got.logged);
		e->open = e->got.decision.needs_body;
	} else {
		r = policy_judge(judge, &e->asked, &e->got, err);
	}
	if (r < 0)
		return r;
	policy_explain(e->p, &e->asked.req, e->steps);
	return e->open ? 0 : policy_judge_sent(judge, &e->asked, &e->got, &e->sent, err);
}

/* "POST https://x", as in cases: returns the method, or NULL. */
static const char *
cut_method(char *word, char **ret_url)
{
	size_t n = strcspn(word, " ");

	if (word[n] == '\0' || strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") != n)
		return NULL;
	word[n] = '\0';
	*ret_url = word + n + 1 + strspn(word + n + 1, " ");
	return word;
}

/* Whether WORD begins a request, and so no policy is before it. */
static bool
begins_request(const char *word)
{
	return strstr(word, "://") != NULL || policy_asked_is_call(word) || strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == strlen(word);
}

/* The words with the default policy in front; false if there is none. */
static bool
add_default(int *argc, char ***argv, char *ret_words[4])
{
	int none = 0;
	char **found = NULL;

	if (*argc < 1 || *argc > 2 ||
	    (!begins_request((*argv)[0]) && !(*argc == 2 && policy_cli_begins_act((*argv)[0]))))
		return true;
	if (!policy_cli_default(&none, &found))
		return false;
	ret_words[0] = found[0];
	memcpy(ret_words + 1, *argv, (size_t)(*argc + 1) * sizeof(**argv));
	*argv = ret_words;
	++*argc;
	return true;
}

int
policy_cli_explain(const struct policy_cli *cli, int argc, char **argv)
{
	OWN(policy_freep) struct policy *p = NULL;
	OWN(freep) struct policy_step *steps = NULL;
	OWN(policy_sent_freep) struct policy_sent *sent = NULL;
	struct explaining e = { .cli = cli };
	struct err err = {0};
	char *url = argc > 0 ? argv[argc - 1] : NULL, *words[4];
	const char *method;
	int r;

	if (!add_default(&argc, &argv, words))
		return cli_failf("there is no " POLICY_CLI_FILE " here or above: cloister policy explain FILE [METHOD] URL");
	if (argc < (cli->n_within > 0 ? 1 : 2) || argc > 3)
		return cli_failf("`policy explain` takes a policy and a request: cloister policy "
		                 "explain [FILE] [METHOD] URL; a call: cloister policy explain [FILE] tool:SERVER.NAME; an act: cloister policy explain [FILE] write PATH; or "
		                 "two policies: cloister policy explain FILE --within FILE");
	if (policy_cli_load(cli, argv[0], &p, &err) < 0)
		return policy_cli_refuse(cli, argv[0], &err);
	if (argc == 1) {
		policy_cli_show_pairs(cli, p);
		return 0;
	}
	if (argc == 3 && policy_cli_begins_act(argv[1]))
		return policy_cli_explain_act(cli, p, argv[1], argv[2]);
	e.p = p;
	e.steps = steps = calloc(policy_n_rules(p) + 1, sizeof(*steps));
	if (steps == NULL)
		return cli_failf("out of memory");
	method = argc == 3 ? argv[1] : cut_method(argv[1], &url);
	r = explain(&e, method, url, &err);
	sent = e.sent;
	if (r < 0) {
		policy_asked_free(&e.asked);
		return cli_fail(&err);
	}
	if (cli->json) {
		show_json(&e);
	} else {
		show_steps(&e);
		show_verdict(&e);
	}
	policy_asked_free(&e.asked);
	return 0;
}
