/* body_git.c - matches a push against rules. */
#include "inspect/git.h"

#include <string.h>

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
is_meant(const struct git_push *p, const struct git_command *c, const struct policy_git *rule)
{
	if (!ref_fits(c, rule))
		return false;
	return (!rule->force && !rule->delete && !rule->options) ||
	       (rule->force && is_forced(c)) || (rule->delete && c->kind == GIT_DELETE) ||
	       (rule->options && p->has_options);
}

/* An empty push is how git asks whether it may push. */
enum body_fit
body_git_fits(const struct git_push *p, const struct policy_git *rule, bool every)
{
	if (every && p->has_options && !rule->options)
		return BODY_MISFITS;
	for (size_t i = 0; i < p->n_commands; i++) {
		if (every && !may_push(&p->commands[i], rule))
			return BODY_MISFITS;
		if (!every && is_meant(p, &p->commands[i], rule))
			return BODY_FITS;
	}
	return every ? BODY_FITS : BODY_MISFITS;
}

bool
body_git_needs_pack(const struct git_push *p, const struct policy_git *rule, bool every)
{
	bool open = false;

	if (every && p->has_options && !rule->options)
		return false;
	for (size_t i = 0; i < p->n_commands; i++) {
		const struct git_command *c = &p->commands[i];
		struct git_command forward = *c;

		forward.descends = true;
		/* A command that cannot fit in the best case, or fits as it is, decides. */
		if (every ? !may_push(&forward, rule) : is_meant(p, &forward, rule))
			return false;
		open = open || (is_forced(c) && ref_fits(c, rule) && rule->force != every);
	}
	return open;
}
