/* policy_read_hook.c - reads a rule's `hook`. */
#include <string.h>

#include "base/err.h"
#include "base/num.h"
#include "policy/policy_hook.h"
#include "policy/policy_load.h"

static int
read_call(struct policy_draft *d, const struct node *node, struct policy_hook *hook)
{
	struct policy_list words;
	const char **argv;
	int r;

	if (node->kind == NODE_LIST && node->n == 0)
		return node_err(d->err, node, "this hook has no program: write `hook: /PATH`, or leave the key "
		                "out");
	r = policy_read_list(d, node, "a program or an argument", NULL, &words);
	if (r < 0)
		return r;
	if (words.n > POLICY_HOOK_ARGS_MAX)
		return node_err(d->err, node, "a hook has at most %d words", POLICY_HOOK_ARGS_MAX);
	if (strncmp(words.at[0], "unix:", 5) == 0) {
		hook->socket = words.at[0] + 5;
		return words.n == 1 ? 0 : node_err(d->err, node, "a socket takes no arguments");
	}
	argv = policy_alloc(d->p, words.n + 1, sizeof(*argv));
	if (argv == NULL)
		return policy_read_oom(d);
	memcpy(argv, words.at, words.n * sizeof(*argv));
	hook->argv = argv;
	return 0;
}

static int
read_member(struct policy_draft *d, const struct node *key, const struct node *value,
            struct policy_hook *hook)
{
	static const char *const names[] = { "call", "timeout", "body", NULL };
	const char *text;
	int r;

	if (strcmp(key->text, "call") == 0)
		return read_call(d, value, hook);
	if (strcmp(key->text, "timeout") != 0 && strcmp(key->text, "body") != 0)
		return policy_read_unknown(key, names, "in `hook`", d->err);
	r = policy_read_text(d, value, "a time or a size", &text);
	if (r < 0)
		return r;
	if (strcmp(key->text, "timeout") == 0)
		return num_parse_duration(text, &hook->timeout_ms, NULL) == 0 ? 0 :
		       node_err(d->err, value, "'timeout' of a hook is from 10ms to 60s: `timeout: 2s`");
	return num_parse_size(text, &hook->body_max, NULL) == 0 ? 0 :
	       node_err(d->err, value, "'body' of a hook is how much of a body it gets: `body: 64K`");
}

int
policy_read_hook(struct policy_draft *d, const struct node *node)
{
	struct policy_hook *hook = policy_alloc(d->p, 1, sizeof(*hook));
	const char *member;
	const struct node *at;
	struct err why = {0};
	int r = 0;

	if (hook == NULL)
		return policy_read_oom(d);
	hook->timeout_ms = POLICY_HOOK_TIMEOUT_MS;
	if (node->kind != NODE_MAP)
		r = read_call(d, node, hook);
	for (size_t i = 0; r == 0 && node->kind == NODE_MAP && i < node->n; i++)
		r = read_member(d, node->items[i], node->values[i], hook);
	if (r < 0)
		return r;
	if (hook->argv == NULL && hook->socket == NULL)
		return node_err(d->err, node, "`hook` needs `call`: a program, or unix:/PATH of a socket");
	if (policy_check_hook(hook, &member, &why) < 0) {
		at = node_get(node, member);
		return node_err(d->err, at != NULL ? at : node, "%s", why.text);
	}
	d->rule.hook = hook;
	return 0;
}

int
policy_any_hook(void *arg, const struct node *node, const struct policy_hook *hook,
                struct err *err)
{
	(void)arg, (void)node, (void)hook, (void)err;
	return 0;
}
