/* policy_read_git.c - reads a rule's matchers for git and gRPC. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "policy/policy_load.h"

/* ---- git ---- */

static int
fix_ref(struct policy_draft *d, const struct node *node, char *text)
{
	if (strncmp(text, "refs/", 5) != 0 && text[0] != '*')
		return node_err(d->err, node, "a ref is written in full: refs/heads/%.64s", text);
	if (strpbrk(text, " ~^:?[\\") != NULL || strstr(text, "..") != NULL ||
	    strstr(text, "//") != NULL || text[strlen(text) - 1] == '/')
		return node_err(d->err, node, "'%.64s' cannot be the name of a ref", text);
	return 0;
}

static int
fix_repo(struct policy_draft *d, const struct node *node, char *text)
{
	size_t len = strlen(text);

	if (*text == '/' || len == 0)
		return node_err(d->err, node, "a repository is written owner/name, without '/' in front");
	if (len > 4 && strcmp(text + len - 4, ".git") == 0)
		return node_err(d->err, node, "leave '.git' out: it fits with and without");
	/* Rules that refuse match in any letter case: see repo_fits(). */
	for (char *c = text; d->rule.verb != POLICY_VERB_ALLOW && *c != '\0'; c++)
		*c = (char)tolower((unsigned char)*c);
	return 0;
}

static int
all_refs(struct policy_draft *d)
{
	static const char *const all[] = { "**" };

	d->rule.git.push = (struct policy_list){ all, 1 };
	return 0;
}

static int
read_push(struct policy_draft *d, const struct node *node)
{
	bool truth;

	if (!node_is_bool(node, &truth))
		return policy_read_list(d, node, "a ref", fix_ref, &d->rule.git.push);
	return truth ? all_refs(d) : 0;
}

static int
read_git_member(struct policy_draft *d, const struct node *key,
                const struct node *node)
{
	static const char *const names[] = { "fetch", "push", "force", "delete", "options",
	                                     "repos", NULL };
	struct policy_git *git = &d->rule.git;

	if (strcmp(key->text, "fetch") == 0)
		return policy_read_bool(d, node, "fetch", &git->fetch);
	if (strcmp(key->text, "push") == 0)
		return read_push(d, node);
	if (strcmp(key->text, "force") == 0)
		return policy_read_bool(d, node, "force", &git->force);
	if (strcmp(key->text, "delete") == 0)
		return policy_read_bool(d, node, "delete", &git->delete);
	if (strcmp(key->text, "options") == 0)
		return policy_read_bool(d, node, "options", &git->options);
	if (strcmp(key->text, "repos") == 0)
		return policy_read_list(d, node, "a repository", fix_repo, &git->repos);
	return policy_read_unknown(key, names, "in `git`", d->err);
}

/* In a rule that refuses, `force: true` alone means every forced push. */
static int
finish_git(struct policy_draft *d, const struct node *node)
{
	struct policy_git *git = &d->rule.git;
	bool allows = d->rule.verb == POLICY_VERB_ALLOW;

	if ((git->force || git->delete || git->options) && git->push.n == 0) {
		if (allows)
			return node_err(d->err, node, "%s are about pushing: say `push` too",
			                git->options ? "`options`" : "`force` and `delete`");
		all_refs(d);
	}
	if (!git->fetch && git->push.n == 0)
		return node_err(d->err, node, "this matches nothing: say `fetch: true` or `push`");
	return 0;
}

int
policy_read_git(struct policy_draft *d, const struct node *node)
{
	struct policy_git *git = &d->rule.git;
	int r = 0;

	git->present = true;
	if (node->kind == NODE_SCALAR && strcmp(node->text, "fetch") == 0) {
		git->fetch = true;
		return 0;
	}
	if (node->kind != NODE_MAP)
		return node_err(d->err, node, "`git` is `fetch`, or a map: {push: [refs/heads/agent/*]}");
	/* Pushing requires fetching, so `allow` includes it.  An approval for pushing is not one
	 * for fetching. */
	git->fetch = d->rule.verb == POLICY_VERB_ALLOW;
	for (size_t i = 0; r == 0 && i < node->n; i++)
		r = read_git_member(d, node->items[i], node->values[i]);
	return r == 0 ? finish_git(d, node) : r;
}

/* ---- gRPC ---- */

static int
fix_name(struct policy_draft *d, const struct node *node, char *text)
{
	if (*text == '\0' || strpbrk(text, "/ ?#%") != NULL)
		return node_err(d->err, node, "'%.64s' is not the name of a service or method", text);
	return 0;
}

static int
grpc_paths(struct policy_draft *d, const struct node *node,
           const struct policy_list *services, const struct policy_list *methods)
{
	size_t n = services->n * methods->n, at = 0;
	const char **paths;
	char text[POLICY_TEXT_MAX + 1];
	int len;

	if (n > POLICY_LIST_MAX)
		return node_err(d->err, node, "these are more than %d methods", POLICY_LIST_MAX);
	paths = policy_alloc(d->p, n, sizeof(*paths));
	if (paths == NULL)
		return policy_read_oom(d);
	for (size_t s = 0; s < services->n; s++) {
		for (size_t m = 0; m < methods->n; m++) {
			len = snprintf(text, sizeof(text), "/%s/%s", services->at[s], methods->at[m]);
			if (len < 0 || (size_t)len >= sizeof(text))
				return node_err(d->err, node, "these names are too long");
			paths[at] = policy_copy(d->p, text, (size_t)len);
			if (paths[at++] == NULL)
				return policy_read_oom(d);
		}
	}
	d->rule.paths = (struct policy_list){ paths, n };
	return 0;
}

int
policy_read_grpc(struct policy_draft *d, const struct node *node)
{
	static const char *const names[] = { "service", "methods", NULL };
	static const char *const any[] = { "*" };
	struct policy_list services = {0}, methods = { any, 1 };
	int r = 0;

	if (node->kind != NODE_MAP)
		return node_err(d->err, node, "`grpc` is a map: {service: pkg.Service, methods: [Get*]}");
	for (size_t i = 0; r == 0 && i < node->n; i++) {
		if (strcmp(node->items[i]->text, "service") == 0)
			r = policy_read_list(d, node->values[i], "a service", fix_name, &services);
		else if (strcmp(node->items[i]->text, "methods") == 0)
			r = policy_read_list(d, node->values[i], "a method", fix_name, &methods);
		else
			r = policy_read_unknown(node->items[i], names, "in `grpc`", d->err);
	}
	if (r < 0)
		return r;
	if (services.n == 0)
		return node_err(d->err, node, "say which `service`: its full name, or '*'");
	d->rule.grpc = true;
	/* `paths` and `grpc` together are an error, and paths are read first. */
	if (d->keys[POLICY_KEY_PATHS] != NULL)
		return 0;
	return grpc_paths(d, node, &services, &methods);
}
