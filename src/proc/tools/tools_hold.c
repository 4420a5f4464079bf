/* tools_hold.c - holds the cells of servers to the scopes of tools, for the keeper: by the policy of the cell. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "cell/cell_policy.h"
#include "policy/policy_flat.h"
#include "policy/policy_yaml.h"
#include "proc/tools/tools_proc.h"
#include "tools/scope_hold.h"

/* The server's own policy, but for what was settled when its cell started: that holds around it. */
static int
put_own(struct buf *b, const struct policy_tools_server *server, struct err *err)
{
	const char *own = server->policy[0] != '\0' ? server->policy : "{version: 1}", *between = "";
	OWN(node_freep) struct node *root = NULL;
	int r = node_parse("policy", own, strlen(own), &root, err);

	buf_put_text(b, "{");
	for (size_t i = 0; r == 0 && i < root->n; i++) {
		if (cell_policy_is_fixed(root->items[i]->text))
			continue;
		buf_put_text(b, between);
		policy_flat_put_node(b, root->items[i]);
		buf_put_text(b, ": ");
		policy_flat_put_node(b, root->values[i]);
		between = ", ";
	}
	buf_put_text(b, "}");
	return r == 0 && buf_failed(b) ? err_set(err, ENOMEM, "out of memory") : r;
}

/* The text of the policy, for a server with this policy of its own. */
static int
put_text(struct buf *b, const struct policy_tools_server *server, const struct scope_hold *all,
         const struct policy_tool *const *tools, size_t n, struct err *err)
{
	int r = scope_hold_put(b, tools, n, err);

	if (r != -ENOENT)
		return r < 0 ? r : scope_hold_put_watch(b, all, server, err);
	buf_reset(b);
	return put_own(b, server, err);
}

int
tools_hold(const char *cell, const struct policy_tools_server *server, const struct scope_hold *all,
           const struct policy_tool *const *tools, size_t n, struct err *err)
{
	OWN(cell_policy_plan_free) struct cell_policy_plan plan = {0};
	char why[POLICY_TOOLS_NAME_MAX + sizeof(TOOLS_HOLD_OTHERS)];
	const struct cell_policy_order order = { .cut = true, .verb = VERB_POLICY, .rule = "",
		.who = { .by = TOOLS_HOLD_BY, .why = why } };
	OWN(buf_free) struct buf text = BUF(SCOPE_HOLD_MAX);
	OWN(closep) int runtime = cell_runtime_open(err);
	struct cell_entry entry;
	char hash[HASH_NAME + 1];
	int r = runtime < 0 ? runtime : cell_find(runtime, true, cell, &entry, err);

	snprintf(why, sizeof(why), "%s%s", n > 0 ? tools[0]->name : "no call", n > 1 ? TOOLS_HOLD_OTHERS : "");
	r = r < 0 ? r : put_text(&text, server, all, tools, n, err);
	r = r < 0 ? r : cell_policy_plan_text(runtime, &entry, "scope", (char *)text.data, text.len, NULL, &plan, err);
	return r < 0 || plan.diff[0] == '\0' ? r : cell_policy_carry_out(runtime, &entry, &plan, &order, hash, err);
}
