/* policy_put_hook.c - checks a rule's `hook`, and encodes it. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "policy/policy_hook.h"
#include "policy/policy_parts.h"

/* The paths are compared with those that agents could write, so they are plain. */
static bool
is_plain_path(const char *path)
{
	for (const char *c = path; (c = strchr(c, '/')) != NULL; c++)
		if (strncmp(c, "/./", 3) == 0 || strncmp(c, "/../", 4) == 0 || strcmp(c, "/..") == 0 ||
		    strcmp(c, "/.") == 0 || c[1] == '/')
			return false;
	return path[0] == '/' && path[1] != '\0' && path[strlen(path) - 1] != '/';
}

int
policy_check_hook(const struct policy_hook *hook, const char **ret_member, struct err *err)
{
	const char *path = hook->socket != NULL ? hook->socket : hook->argv[0];

	*ret_member = "call";
	if (!is_plain_path(path))
		return err_set(err, EINVAL, "'%.64s' is not a plain absolute path: begin it with /, and leave out '.', '..' and double slashes", path);
	if (hook->socket != NULL && strlen(path) > POLICY_HOOK_SOCKET_MAX)
		return err_set(err, EINVAL, "the path of a socket has at most %d bytes",
		               POLICY_HOOK_SOCKET_MAX);
	*ret_member = "timeout";
	if (hook->timeout_ms < POLICY_HOOK_TIMEOUT_LEAST_MS ||
	    hook->timeout_ms > POLICY_HOOK_TIMEOUT_MOST_MS)
		return err_set(err, EINVAL, "'timeout' of a hook is from 10ms to 60s: `timeout: 2s`");
	*ret_member = "body";
	if (hook->body_max > POLICY_HOOK_BODY_MAX)
		return err_set(err, EINVAL, "a hook gets at most 1M of a body: `body: 64K`");
	return 0;
}

static_assert(POLICY_HOOK_CALL_MAX > (POLICY_HOOK_ARGS_MAX + 1) * (POLICY_TEXT_MAX + 8), "calls fit");

void
policy_hook_put_call(struct buf *b, const struct policy_hook *hook)
{
	uint32_t n = 0;

	while (hook->argv != NULL && hook->argv[n] != NULL)
		n++;
	buf_put_u32(b, n);
	for (uint32_t i = 0; i < n; i++)
		buf_put_str(b, hook->argv[i]);
	buf_put_str(b, hook->socket != NULL ? hook->socket : "");
}

void
policy_put_hook(struct buf *b, const struct policy_rule *rule)
{
	const struct policy_hook *hook = rule->hook;

	policy_hook_put_call(b, hook);
	buf_put_u64(b, hook->timeout_ms);
	buf_put_u64(b, hook->body_max);
}

void
policy_get_hook(struct policy_getting *g, struct policy_rule *rule)
{
	struct policy_hook *hook = policy_get_room(g, 1, sizeof(*hook));
	uint32_t n = policy_get_upto(g, POLICY_HOOK_ARGS_MAX);
	const char **argv = n > 0 ? policy_get_room(g, n + 1, sizeof(*argv)) : NULL;
	const char *member;

	for (uint32_t i = 0; !g->bad && i < n; i++)
		argv[i] = policy_get_text(g, POLICY_TEXT_MAX);
	if (g->bad)
		return;
	hook->argv = argv;
	hook->socket = policy_get_text(g, POLICY_HOOK_SOCKET_MAX);
	hook->socket = *hook->socket != '\0' ? hook->socket : NULL;
	hook->timeout_ms = policy_get_u64(g);
	hook->body_max = policy_get_u64(g);
	g->bad |= (hook->argv != NULL) == (hook->socket != NULL) || rule->verb == POLICY_VERB_DENY ||
	          rule->verb == POLICY_VERB_LOG;
	g->bad = g->bad || policy_check_hook(hook, &member, NULL) < 0;
	rule->hook = g->bad ? NULL : hook;
}
