/* command_check.c - `cloister tools check`: compares servers with the lock, and what they do with what they promise. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/own.h"
#include "base/spawn.h"
#include "ipc/ipc.h"
#include "ipc/lock_channel.h"
#include "policy/policy_flat.h"
#include "policy/policy_yaml.h"
#include "proc/lock/lock_proc.h"
#include "tools/scope.h"

/* ---- one call ---- */

struct check_call {
	struct keeper *k;
	const struct policy_tools_server *server;
	const char *tool;
	const struct node *entry;       /* in the lock */
	uint32_t example;
	uint64_t ms;
	struct buf *why;                /* the error of a call that failed */
};

/* Everything is let through, to the one upstream.  So a call is observed to its end, and the record has what it did. */
static char *
write_policy(uint16_t port)
{
	return str_format("version: 1\n"
	                  "record: {level: acts}\n"
	                  "egress:\n"
	                  "  - allow: '*'\n"
	                  "    ports: ['1-65535']\n"
	                  "    secrets: allow\n"
	                  "    rewrite:\n"
	                  "      host: 127.0.0.1:%u\n"
	                  "      headers: {remove: [origin, referer, sec-fetch-mode, sec-fetch-site, sec-fetch-dest]}\n", port);
}

static int
ask_call(const struct check_call *c, const struct server_cell *cell, uint64_t *ret_failed, struct err *err)
{
	OWN(buf_free) struct buf b;

	ipc_begin(&b, LOCK_CALL);
	buf_put_str(&b, c->server->name);
	buf_put_str(&b, c->tool);
	buf_put_u32(&b, c->example);
	buf_put_str(&b, "");
	buf_put_str(&b, c->k->folder);
	buf_put_str(&b, c->k->home);
	buf_put_u64(&b, c->ms);
	return keeper_ask(c->k, &b, cell->fds, 3, LOCK_START_MS + (int64_t)c->ms, c->why, ret_failed, err);
}

int
keeper_observe(struct keeper *k, const struct server_cell *cell, bool judges, struct err *err)
{
	char *events[] = { (char[]){ "cloister" }, (char[]){ "events" }, (char[]){ "--json" }, (char *)(uintptr_t)cell->id, NULL };
	char *diff[] = { (char[]){ "cloister" }, (char[]){ "diff" }, (char[]){ "--json" }, (char *)(uintptr_t)cell->id, NULL };
	OWN(closep) int recorded = -1, changed = -1;
	OWN(buf_free) struct buf b = {0};
	pid_t first = cell_run_cloister(events, &recorded, err), second;
	int r;

	if (first < 0)
		return (int)first;
	second = cell_run_cloister(diff, &changed, err);
	if (second < 0) {
		(void)spawn_await(first, NULL);
		return (int)second;
	}
	ipc_begin(&b, LOCK_OBSERVE);
	buf_put_u32(&b, judges);
	r = keeper_ask(k, &b, (int[]){ recorded, changed }, 2, LOCK_START_MS, NULL, NULL, err);
	close(TAKE_FD(recorded));
	close(TAKE_FD(changed));
	if (spawn_await(first, NULL) != 0 && r == 0)
		r = err_set(err, EIO, "the record of the cell %s cannot be read", cell->id);
	(void)spawn_await(second, NULL);
	return r;
}

/* The paths of a scope, which the cell gets as overlays. */
static size_t
writable_paths(const struct node *entry, const char **ret_paths, size_t max)
{
	const struct node *scope = lock_scope(entry), *write = scope != NULL ? node_get(scope, "write") : NULL;
	size_t n = 0;

	for (size_t i = 0; write != NULL && write->kind == NODE_LIST && i < write->n && n < max; i++)
		if (write->items[i]->kind == NODE_SCALAR)
			ret_paths[n++] = write->items[i]->text;
	return n;
}

static int
call_in_cell(const struct check_call *c, const struct upstream *u, uint64_t *ret_failed, struct err *err)
{
	OWN(freep) char *policy = write_policy(u->port);
	const char *paths[POLICY_TOOLS_WORDS_MAX];
	const struct policy_list writable = { paths, writable_paths(c->entry, paths, ARRAY_LEN(paths)) };
	const struct cell_wish wish = { .server = c->server, .policy = policy, .ca = u->ca, .writable = &writable,
	                                .observes = true };
	struct server_cell cell;
	struct err why = {0};
	int r, called;

	if (policy == NULL)
		return err_set(err, ENOMEM, "out of memory");
	r = cell_begin(c->k, &wish, &cell, err);
	if (r < 0)
		return r;
	called = ask_call(c, &cell, ret_failed, &why);
	cell_finish(c->k, &cell);
	/* What it did counts also if it never answered. */
	r = keeper_observe(c->k, &cell, true, err);
	cell_forget(&cell);
	return r < 0 ? r : called < 0 ? err_set(err, why.code, "%s", why.text) : 0;
}

static int
verify_call(const struct check_call *c, uint64_t *ret_failed, struct err *err)
{
	struct upstream u;
	int r = upstream_start(c->k, lock_example(c->entry, c->example), &u, err);

	if (r < 0)
		return r;
	r = call_in_cell(c, &u, ret_failed, err);
	return upstream_stop(&u, r == 0 ? err : NULL) < 0 && r == 0 ? -EPIPE : r;
}

/* ---- all calls ---- */

static uint64_t
time_of(const struct node *entry)
{
	const struct node *node = lock_scope(entry);
	OWN(scope_free) struct scope scope = {0};

	return node != NULL && scope_read(node, &scope, NULL) == 0 ? scope.time_ms : SCOPE_TIME_MS;
}

static void
verify_tool(struct keeper *k, struct check_findings *f, const struct policy_tools_server *server, const char *tool,
            const struct node *entry)
{
	OWN(buf_free) struct buf why = BUF(LOCK_CHUNK_MAX);
	struct check_call c = { .k = k, .server = server, .tool = tool, .entry = entry, .ms = time_of(entry), .why = &why };

	do {
		uint64_t failed = 0;
		struct err err = {0};

		buf_reset(&why);

		if (verify_call(&c, &failed, &err) < 0)
			check_add(f, CHECK_UNSEEN, server->name, tool, "a call could not be observed: %s", err.text);
		else if (failed)
			check_add(f, CHECK_FAILED_CALL, server->name, tool, "%s got the error '%.*s': add an example with "
			             "arguments that work, and the answers of its `upstream`", lock_example(entry, c.example) != NULL ?
			             "an example" : "a call with arguments made from the schema", (int)why.len, (char *)why.data);
		c.example++;
	} while (lock_example(entry, c.example) != NULL);
}

int
servers_verify(struct keeper *k, struct check_findings *f, struct err *err)
{
	const struct node *servers = k->lock.root != NULL ? node_get(k->lock.root, "servers") : NULL;

	(void)err;
	for (size_t i = 0; servers != NULL && i < servers->n; i++) {
		const char *name = servers->items[i]->text;
		const struct policy_tools_server *server = policy_tools_server(k->tools, name, strlen(name));
		const struct node *tools = servers->values[i]->kind == NODE_MAP ? node_get(servers->values[i], "tools") : NULL;

		if (server == NULL || server->url != NULL || !keeper_wants(k, name) || tools == NULL || tools->kind != NODE_MAP)
			continue;
		for (size_t t = 0; t < tools->n; t++)
			/* Without a scope, the check fails in any case. */
			if (definition_is_name(tools->items[t]->text) && lock_scope(tools->values[t]) != NULL)
				verify_tool(k, f, server, tools->items[t]->text, tools->values[t]);
	}
	return 0;
}

/* ---- the command ---- */

static void
report(const struct keeper *k, const struct check_findings *f)
{
	static const struct { const char *option; void (*write)(const struct keeper *k, const struct check_findings *f); } forms[] = {
		{ "json", report_json }, { "sarif", report_sarif }, { "github", report_github },
	};

	for (size_t i = 0; i < ARRAY_LEN(forms); i++)
		if (args_get(k->args, forms[i].option) != NULL) {
			forms[i].write(k, f);
			return;
		}
	report_text(f);
}

static int
compare(const void *a, const void *b)
{
	const struct check_finding *x = a, *y = b;
	int r = strcmp(x->server, y->server);

	r = r != 0 ? r : strcmp(x->tool, y->tool);
	return r != 0 ? r : (int)x->rule - (int)y->rule;
}

int
command_check(const struct args *args, struct err *err)
{
	OWN(check_free) struct check_findings found = {0}, f = {0};
	OWN(keeper_close) struct keeper k;
	int r = keeper_open(&k, args, err);

	if (r == 0 && k.lock.root == NULL)
		r = err_set(err, ENOENT, "there is no lock '%s': `cloister tools lock` writes it", k.lock_path);
	r = r == 0 ? servers_list(&k, &found, false, NULL, err) : r;
	if (r == 0 && args_get(args, "no-run") == NULL)
		r = servers_verify(&k, &found, err);
	r = r == 0 ? keeper_findings(&k, &f, err) : r;
	if (r < 0)
		return r;
	for (size_t i = 0; i < found.n; i++)
		check_add(&f, found.list[i].rule, found.list[i].server, found.list[i].tool, "%s", found.list[i].text);
	qsort(f.list, f.n, sizeof(*f.list), compare);
	report(&k, &f);
	return check_count(&f, CHECK_ERROR) > 0 || f.more;
}
