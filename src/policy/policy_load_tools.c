/* policy_load_tools.c - loads `tools` and their lock. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "policy/policy_flat.h"
#include "policy/policy_load.h"
#include "policy/policy_loading.h"
#include "policy/policy_tools_parts.h"

static int
tell_no_lock(struct policy_loading *l, const struct policy_load_source *from, const struct node *node)
{
	const char *file = policy_load_last_part(from->name);
	const bool usual = strcmp(file, "cloister.yaml") == 0;

	return node_err(l->err, node, "the lock '%s' does not exist: `cloister tools lock%s%s` writes it", node->text,
	                usual ? "" : " -p ", usual ? "" : file);
}

/* The lock is a map here, or the name of a file. */
static int
load_lock(struct policy_loading *l, const struct policy_load_source *from, const struct node *node,
          struct policy_tools *tools)
{
	struct policy_load_source source = { .from = from, .depth = from->depth + 1 };
	OWN(node_freep) struct node *root = NULL;
	OWN(freep) char *text = NULL;
	int r;

	if (node->kind == NODE_MAP)
		return policy_tools_read_lock(l->p, node, tools, l->err);
	if (node->kind != NODE_SCALAR || node_is_null(node))
		return node_err(l->err, node, "`lock` is the name of a file: `lock: tools.lock.yaml`");
	if (l->dirfd == -1)
		return node_err(l->err, node, "a file cannot be read from here");
	source.name = policy_load_beside(l, from->name, node->text);
	if (source.name == NULL)
		return err_set(l->err, ENOMEM, "the policy is too large");
	r = policy_load_may_read(l, node, source.name);
	if (r < 0)
		return r;
	r = policy_load_read(l, &source, POLICY_TOOLS_LOCK_MAX, &text);
	if (r == -ENOENT)
		return tell_no_lock(l, from, node);
	if (r < 0)
		return err_wrap(l->err, "%s:%zu:%zu", node->file, node->line, node->column);
	r = node_parse(source.name, source.text, source.len, &root, l->err);
	return r < 0 ? r : policy_tools_read_lock(l->p, root, tools, l->err);
}

/* The reader gets the lock, too, and no name of a file. */
static int
tell_tools(struct policy_loading *l, const struct node *node, const struct policy_tools *tools)
{
	static char name[] = "tools";
	const struct node key = { .kind = NODE_SCALAR, .text = name, .plain = true, .file = node->file,
	                          .line = node->line, .column = node->column };
	OWN(node_freep) struct node *whole = NULL;
	OWN(buf_free) struct buf b = BUF(POLICY_FLAT_MAX);
	int r;

	if (l->reader == NULL || l->reader->part == NULL)
		return 0;
	policy_tools_put_yaml(&b, tools);
	if (buf_failed(&b))
		return node_err(l->err, node, "`tools` and their lock are too large");
	r = node_parse(node->file, (const char *)b.data, b.len, &whole, l->err);
	return r < 0 ? r : l->reader->part(l->reader->arg, &key, whole, l->err);
}

int
policy_load_tools(struct policy_loading *l, const struct policy_load_source *source, const struct node *node)
{
	struct policy_tools *tools;
	const struct node *lock;
	int r;

	if (node_is_null(node))
		return 0;
	/* As with a hook: its servers start with what the operator may. */
	if (l->reader == NULL || l->reader->hook == NULL)
		return node_err(l->err, node, "`tools` start servers outside of this cell: only a policy that is given with -p or "
		                "--within, or that a person has accepted for an agent, can have them (`cloister run -p %s -- COMMAND`, "
		                "or `cloister policy trust` and `cloister run AGENT`)", node->file);
	r = policy_read_tools(l->p, node, l->reader, &tools, &lock, l->err);
	if (r == 0 && lock != NULL)
		r = load_lock(l, source, lock, tools);
	/* A nearer file's count. */
	if (r < 0 || l->p->tools != NULL)
		return r;
	l->p->tools = tools;
	return tell_tools(l, node, tools);
}
