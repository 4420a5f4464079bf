/* policy_read_calls.c - reads `syscalls` and `programs`: see policy_calls.h.
 *
 * Apart from the rest, which processes that load no policy have, too. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "policy/policy_calls.h"
#include "policy/policy_load.h"

static int
unknown(const struct node *node, struct err *err)
{
	const char *names[POLICY_CALL_CLASSES + 1], *nearest;
	char all[300] = "";
	size_t n = 0, len = 0;

	for (; policy_call_classes[n].name != NULL; n++) {
		names[n] = policy_call_classes[n].name;
		len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", n > 0 ? ", " : "", names[n]);
	}
	names[n] = NULL;
	nearest = text_nearest(node->text, names);
	nearest = nearest != NULL ? nearest : call_nearest(node->text);
	if (nearest != NULL)
		return node_err(err, node, "there is no system call '%.64s': did you mean '%s'?", node->text, nearest);
	return node_err(err, node, "there is no system call '%.64s', and no class of that name: these are %s", node->text, all);
}

static int
check_word(const struct node *node, bool denies, struct err *err)
{
	if (policy_class_calls(node->text) != NULL)
		return 0;
	if (!call_is_known(node->text))
		return unknown(node, err);
	return denies && policy_calls_have(policy_calls_needed, node->text) ?
	       node_err(err, node, "no program starts without the system call '%s'", node->text) : 0;
}

static bool
list_has(const struct policy_list *list, const char *name)
{
	for (size_t i = 0; i < list->n; i++) {
		const char *calls = policy_class_calls(list->at[i]);

		if (calls != NULL ? policy_calls_have(calls, name) : strcmp(list->at[i], name) == 0)
			return true;
	}
	return false;
}

static int
check_needed(const struct node *node, const struct policy_list *list, struct err *err)
{
	const char *words = policy_calls_needed;
	char word[POLICY_CALL_NAME_MAX], missing[200] = "";
	size_t len = 0;

	while (policy_calls_next(&words, word))
		if (!list_has(list, word))
			len += (size_t)snprintf(missing + len, sizeof(missing) - len, "%s%s", len > 0 ? ", " : "", word);
	return len == 0 ? 0 : node_err(err, node, "no program starts without some of the calls that this list leaves out: "
	                               "add %s", missing);
}

static int
read_list(struct policy *p, const struct node *node, bool denies, struct policy_list *ret_list, struct err *err)
{
	size_t n = node->kind == NODE_LIST ? node->n : 1;
	const char **at = policy_alloc(p, n, sizeof(*at));
	struct policy_list list = { at, n };
	int r = 0;

	if (n == 0 || n > POLICY_CALLS_MAX)
		return node_err(err, node, "here stand 1 to %d system calls or classes of them", POLICY_CALLS_MAX);
	for (size_t i = 0; at != NULL && r == 0 && i < n; i++) {
		const struct node *item = node->kind == NODE_LIST ? node->items[i] : node;

		if (item->kind != NODE_SCALAR || node_is_null(item))
			return node_err(err, item, "a system call is a word: ptrace");
		r = check_word(item, denies, err);
		at[i] = policy_copy(p, item->text, strlen(item->text));
		if (at[i] == NULL)
			return err_set(err, ENOMEM, "the policy is too large");
	}
	if (at == NULL)
		return err_set(err, ENOMEM, "the policy is too large");
	r = r == 0 && !denies ? check_needed(node, &list, err) : r;
	/* A nearer file has set it. */
	if (r == 0 && ret_list->n == 0)
		*ret_list = list;
	return r;
}

int
policy_read_syscalls(struct policy *p, const struct node *node, struct err *err)
{
	static const char *const names[] = { "deny", "allow", NULL };
	int r = 0;

	if (node_is_null(node))
		return 0;
	if (node->kind != NODE_MAP)
		return node_err(err, node, "`syscalls` is a map: {deny: [ptrace, network]}, or {allow: [...]}");
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		const struct node *key = node->items[i], *value = node->values[i];

		if (strcmp(key->text, "deny") == 0)
			r = read_list(p, value, true, &p->calls.deny, err);
		else if (strcmp(key->text, "allow") == 0)
			r = read_list(p, value, false, &p->calls.allow, err);
		else
			r = policy_read_unknown(key, names, "in `syscalls`", err);
	}
	return r;
}

int
policy_read_programs(struct policy *p, const struct node *node, struct err *err)
{
	const char **at = node->kind == NODE_LIST ? policy_alloc(p, node->n, sizeof(*at)) : NULL;

	if (node_is_null(node))
		return 0;
	if (node->kind != NODE_LIST || node->n > POLICY_PROGRAMS_MAX)
		return node_err(err, node, "`programs` is a list of at most %d names and paths: [git, /usr/bin/node]",
		                POLICY_PROGRAMS_MAX);
	for (size_t i = 0; at != NULL && i < node->n; i++) {
		const struct node *item = node->items[i];

		if (item->kind != NODE_SCALAR || node_is_null(item) || !policy_is_program(item->text))
			return node_err(err, item, "a program is a name such as 'git', or a path that begins with '/' or '~/' and has no "
			                "'*'");
		at[i] = policy_copy(p, item->text, strlen(item->text));
		if (at[i] == NULL)
			return err_set(err, ENOMEM, "the policy is too large");
	}
	if (at == NULL && node->n > 0)
		return err_set(err, ENOMEM, "the policy is too large");
	/* A nearer file has set it. */
	if (!p->calls.has_programs)
		p->calls.programs = (struct policy_list){ at, node->n };
	p->calls.has_programs = true;
	return 0;
}
