/* command_lock.c - `cloister tools lock`: starts servers in cells without a network, and asks for their tools. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/text.h"
#include "ipc/ipc.h"
#include "ipc/lock_channel.h"
#include "policy/policy_yaml.h"
#include "proc/lock/lock_proc.h"
#include "trust/trust.h"

static const char no_network[] = "version: 1\n";

/* ---- listing ---- */

static int
ask_list(struct keeper *k, const struct policy_tools_server *server, const struct server_cell *cell, struct buf *changes,
         struct err *err)
{
	OWN(buf_free) struct buf b;
	struct server_program program;
	uint64_t unused;

	keeper_find_program(k, server, &program);
	ipc_begin(&b, LOCK_LIST);
	buf_put_str(&b, server->name);
	buf_put_str(&b, program.path);
	buf_put_str(&b, program.sha256);
	buf_put_str(&b, program.package);
	buf_put_u64(&b, LOCK_START_MS);
	for (size_t i = 0; i < program.n_files; i++) {
		buf_put_str(&b, program.files[i].name);
		buf_put_str(&b, program.files[i].sha256);
	}
	return keeper_ask(k, &b, cell->fds, 3, LOCK_START_MS, changes, &unused, err);
}

static int
list_server(struct keeper *k, const struct policy_tools_server *server, struct buf *changes, struct err *err)
{
	const bool remote = server->url != NULL;
	const struct cell_wish wish = { .server = server, .allows = true, .has_secrets = remote,
	                                .policy = remote && *server->policy != '\0' ? server->policy : no_network };
	struct server_cell cell;
	int r = cell_begin(k, &wish, &cell, err);

	if (r < 0)
		return r;
	r = ask_list(k, server, &cell, changes, err);
	cell_finish(k, &cell);
	cell_forget(&cell);
	if (r < 0)
		server_program_explain(k, server, err);
	return r;
}

int
servers_list(struct keeper *k, struct check_findings *f, bool fails, struct buf *changes, struct err *err)
{
	for (size_t i = 0; i < k->tools->n_servers; i++) {
		const struct policy_tools_server *server = &k->tools->servers[i];
		struct err why = {0};

		if (!keeper_wants(k, server->name) || list_server(k, server, changes, &why) == 0)
			continue;
		if (fails)
			return err_set(err, why.code, "the server '%s': %s", server->name, why.text);
		check_add(f, CHECK_NO_ANSWER, server->name, "", "%s", why.text);
	}
	return 0;
}

/* ---- the policy ---- */

/* Where the key `lock` belongs: in front of the first line of `tools`.  NULL: `tools` are on the line of their key. */
static const struct node *
first_of_tools(const struct node *root)
{
	for (size_t i = 0; root->kind == NODE_MAP && i < root->n; i++) {
		const struct node *tools = root->values[i];

		if (strcmp(root->items[i]->text, "tools") == 0 && tools->kind == NODE_MAP && tools->n > 0 &&
		    tools->items[0]->line > root->items[i]->line)
			return tools->items[0];
	}
	return NULL;
}

static int
put_lock_key(const struct keeper *k, struct buf *b, struct err *err)
{
	OWN(node_freep) struct node *root = NULL, *after = NULL;
	OWN(freep) char *text = NULL;
	const struct node *first, *tools;
	const char *at;
	size_t len;
	int r = trust_read(TRUST_POLICY, k->file, POLICY_FILE_MAX, &text, &len, err);

	r = r == 0 ? node_parse(k->file, text, len, &root, err) : r;
	first = r == 0 ? first_of_tools(root) : NULL;
	if (first == NULL)
		return -EINVAL;
	at = text;
	for (size_t line = 1; line < first->line; line++)
		at = (const char *)memchr(at, '\n', (size_t)(text + len - at)) + 1;
	buf_put(b, text, (size_t)(at - text));
	for (size_t i = 1; i < first->column; i++)
		buf_put_text(b, " ");
	buf_put_text(b, "lock: " LOCK_FILE "\n");
	buf_put(b, at, (size_t)(text + len - at));
	r = buf_failed(b) ? -E2BIG : node_parse(k->file, (const char *)b->data, b->len, &after, err);
	tools = r == 0 && after->kind == NODE_MAP ? node_get(after, "tools") : NULL;
	return tools != NULL && tools->kind == NODE_MAP && node_get(tools, "lock") != NULL ? 0 : -EINVAL;
}

/* A lock that the policy does not name holds nobody to anything. */
static int
name_lock(const struct keeper *k, struct err *err)
{
	OWN(buf_free) struct buf b = BUF(POLICY_FILE_MAX);
	OWN(freep) char *path = realpath(k->file, NULL);
	struct err why = {0};
	int r;

	if (k->names_lock)
		return 0;
	if (args_get(k->args, "lock") != NULL || path == NULL || put_lock_key(k, &b, &why) < 0) {
		printf("%s does not name the lock, so `cloister run` does not use it: add `lock: FILE` to its `tools`\n", k->file);
		return 0;
	}
	r = keeper_write(path, b.data, b.len, err);
	if (r == 0)
		printf("%s names the lock now: `lock: " LOCK_FILE "`\n", k->file);
	return r;
}

/* ---- commands ---- */

int
command_lock(const struct args *args, struct err *err)
{
	OWN(keeper_close) struct keeper k;
	OWN(buf_free) struct buf changes = BUF(LOCK_MAX), b = {0}, text = BUF(LOCK_MAX);
	int r = keeper_open(&k, args, err);

	r = r == 0 ? servers_list(&k, NULL, true, &changes, err) : r;
	if (r < 0)
		return r;
	ipc_begin(&b, LOCK_TEXT);
	r = keeper_ask(&k, &b, NULL, 0, 0, &text, NULL, err);
	if (r < 0)
		return r;
	text_print_safe(stdout, (const char *)changes.data, changes.len, true);
	if (args_get(args, "dry-run") != NULL) {
		text_print_safe(stdout, (const char *)text.data, text.len, true);
		return 0;
	}
	if (text.len == k.lock_len && memcmp(text.data, k.lock_text, text.len) == 0) {
		printf("%s: nothing changed\n", k.lock_path);
		return name_lock(&k, err);
	}
	r = keeper_write(k.lock_path, text.data, text.len, err);
	if (r < 0)
		return r;
	printf("%s is written: `cloister tools check` shows what it lacks\n", k.lock_path);
	return name_lock(&k, err);
}
