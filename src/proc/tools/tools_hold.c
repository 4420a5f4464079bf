/* tools_hold.c - holds the cells of servers to the scopes of tools, for the keeper: by the policy of the cell. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "cell/cell_dirs.h"
#include "cell/cell_policy.h"
#include "proc/tools/tools_proc.h"
#include "tools/scope_hold.h"

/* The text of the policy, for a server with this policy of its own. */
static int
put_text(struct buf *b, const struct policy_tools_server *server, const struct scope_hold *all,
         const struct policy_tool *const *tools, size_t n, struct err *err)
{
	int r = scope_hold_put(b, tools, n, err);

	if (r != -ENOENT)
		return r < 0 ? r : scope_hold_put_watch(b, all, server, err);
	buf_reset(b);
	buf_put_text(b, server->policy[0] != '\0' ? server->policy : "{version: 1}");
	return buf_failed(b) ? err_set(err, ENOMEM, "out of memory") : 0;
}

int
tools_hold(const char *cell, const struct policy_tools_server *server, const struct scope_hold *all,
           const struct policy_tool *const *tools, size_t n, struct err *err)
{
	OWN(cell_policy_plan_free) struct cell_policy_plan plan = {0};
	const struct cell_policy_order order = { .cut = true, .verb = VERB_POLICY, .rule = "",
		.who = { .by = "cloister-tools", .why = n > 0 ? tools[0]->name : "no call" } };
	OWN(buf_free) struct buf text = BUF(SCOPE_HOLD_MAX);
	OWN(closep) int runtime = cell_runtime_open(err);
	struct cell_entry entry;
	char hash[HASH_NAME + 1];
	int r = runtime < 0 ? runtime : cell_find(runtime, true, cell, &entry, err);

	r = r < 0 ? r : put_text(&text, server, all, tools, n, err);
	r = r < 0 ? r : cell_policy_plan_text(runtime, &entry, "scope", (char *)text.data, text.len, NULL, &plan, err);
	return r < 0 || plan.diff[0] == '\0' ? r : cell_policy_carry_out(runtime, &entry, &plan, &order, hash, err);
}
