/* body_git.c - what rules say about a push. */
#include "inspect/git.h"

#include <string.h>

#include "base/own.h"

bool
body_git_is_push(struct http_text method, struct http_text path)
{
	static const char end[] = "/git-receive-pack";
	const char *mark = path.len > 0 ? memchr(path.at, '?', path.len) : NULL;
	size_t n = sizeof(end) - 1;

	if (mark != NULL)
		path.len = (size_t)(mark - path.at);
	return http_text_is(method, "POST") && path.len > n &&
	       memcmp(path.at + path.len - n, end, n) == 0;
}

static bool
ref_fits(const struct git_command *c, const struct policy_git *rule)
{
	for (size_t i = 0; i < rule->push.n; i++)
		if (policy_glob_path(rule->push.at[i], c->ref, strlen(c->ref)))
			return true;
	return false;
}

static bool
is_forced(const struct git_command *c)
{
	return c->kind == GIT_UPDATE && !c->descends;
}

static bool
may_push(const struct git_command *c, const struct policy_git *rule)
{
	return ref_fits(c, rule) && (!is_forced(c) || rule->force) &&
	       (c->kind != GIT_DELETE || rule->delete);
}

static bool
is_meant(const struct git_command *c, const struct policy_git *rule)
{
	if (!ref_fits(c, rule))
		return false;
	return (!rule->force && !rule->delete) || (rule->force && is_forced(c)) ||
	       (rule->delete && c->kind == GIT_DELETE);
}

/* A push of nothing is how git asks whether it may push. */
enum body_fit
body_git_fits(const struct git_push *p, const struct policy_git *rule, bool every)
{
	for (size_t i = 0; i < p->n_commands; i++) {
		if (every && !may_push(&p->commands[i], rule))
			return BODY_MISFITS;
		if (!every && is_meant(&p->commands[i], rule))
			return BODY_FITS;
	}
	return every ? BODY_FITS : BODY_MISFITS;
}

bool
body_git_needs_pack(const struct git_push *p, const struct policy_git *rule, bool every)
{
	bool open = false;

	for (size_t i = 0; i < p->n_commands; i++) {
		const struct git_command *c = &p->commands[i];
		struct git_command forward = *c;

		forward.descends = true;
		/* One that does not fit at its best, or is meant as it stands, settles it. */
		if (every ? !may_push(&forward, rule) : is_meant(&forward, rule))
			return false;
		open = open || (is_forced(c) && ref_fits(c, rule) && rule->force != every);
	}
	return open;
}
