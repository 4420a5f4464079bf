/* why_near.c - the rules that nearly matched a request that no rule allowed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/io.h"
#include "base/own.h"
#include "base/text.h"
#include "cli/policy.h"
#include "cli/timeline.h"
#include "cli/why.h"
#include "policy/policy_explain.h"

#define NEAR_MAX 5                      /* rules to show */
#define SSH_PORT 22

/* The policy that the cell had, or NULL. */
static struct policy *
load_policy(const struct timeline *t)
{
	OWN(freep) char *text = NULL;
	struct policy *p = NULL;
	struct buf b;
	size_t len;

	if (t->dir <= 0 || read_file_at(t->dir, CELL_POLICY, POLICY_ENCODED_MAX, &text, &len, NULL) < 0)
		return NULL;
	buf_init_borrowed(&b, (unsigned char *)text, len);
	return policy_get(&b, &p, NULL) == 0 ? p : NULL;
}

bool
why_is_layered(const struct timeline *t)
{
	OWN(policy_freep) struct policy *p = load_policy(t);

	return p != NULL && policy_outer(p) != NULL;
}

bool
why_is_git_over_ssh(const struct timeline *t, const struct timeline_event *e)
{
	OWN(policy_freep) struct policy *p = strcmp(e->type, "tcp") != 0 || e->port != SSH_PORT ? NULL : load_policy(t);

	return p != NULL && policy_has_git_host(p, e->host);
}

/* The request again, as far as it was recorded: without query, headers and body. */
static int
ask_again(const struct timeline_event *e, struct policy_asked *ret_asked)
{
	OWN(freep) char *url = str_format("%s://%s:%u%s", e->is_upgrade ?
	                                  strcmp(e->scheme, "http") == 0 ? "ws" : "wss" : e->scheme,
	                                  e->host, e->port, e->path);
	int r = url == NULL ? -1 : policy_asked_init(ret_asked, e->method, url, NULL, 0, NULL, 0, NULL);

	ret_asked->head.length = HTTP_LENGTH_UNKNOWN;
	return r;
}

/* The record lacks these; the rule may depend on any of them. */
static bool
is_guess(const struct policy_step *step)
{
	return step->kind == POLICY_STEP_KEY && !policy_key_is_recorded(step->key);
}

static void
print_step(const struct policy *p, size_t rule, const struct policy_asked *asked,
           const struct policy_step *step, bool is_push)
{
	char text[POLICY_STEP_TEXT_MAX];

	if (is_push && step->kind == POLICY_STEP_OPEN)
		snprintf(text, sizeof(text), "no: the refs, or the changes to them, do not match");
	else if (is_guess(step))
		snprintf(text, sizeof(text), "no: its query or headers do not match");
	else if (step->kind == POLICY_STEP_OPEN)
		snprintf(text, sizeof(text), "no: its body does not match");
	else
		policy_cli_describe(asked, step, text);
	printf("    %s  %s\n        ", policy_rule_place(p, (int)rule), policy_rule_text(p, (int)rule));
	text_print_safe(stdout, text, strlen(text), false);
	putchar('\n');
}

void
why_print_near(const struct timeline *t, const struct timeline_event *e)
{
	OWN(policy_freep) struct policy *p = load_policy(t);
	OWN(freep) struct policy_step *steps = NULL;
	struct policy_asked asked = {0};
	size_t shown = 0;

	steps = p == NULL ? NULL : calloc(policy_n_rules(p) + 1, sizeof(*steps));
	if (steps == NULL || strcmp(e->type, "http") != 0 || ask_again(e, &asked) < 0) {
		policy_asked_free(&asked);
		return;
	}
	policy_explain(p, &asked.req, steps);
	for (size_t i = 0; i < policy_n_rules(p); i++) {
		if (steps[i].kind == POLICY_STEP_HOST || steps[i].kind == POLICY_STEP_BEHIND ||
		    steps[i].kind == POLICY_STEP_LOGS || steps[i].kind == POLICY_STEP_DECIDES)
			continue;
		if (shown == 0)
			puts("\nThe rules about this host:");
		if (shown++ < NEAR_MAX)
			print_step(p, i, &asked, &steps[i], e->refs != NULL);
	}
	if (shown > NEAR_MAX)
		printf("    and %zu more\n", shown - NEAR_MAX);
	policy_asked_free(&asked);
}
