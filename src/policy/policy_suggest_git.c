/* policy_suggest_git.c - writes the `git` part of a rule for a recorded push. */
#include <string.h>

#include "policy/policy_suggest_parts.h"

#define REFS_SHOWN 8                    /* more of them become a glob */

/* Get the next ref at *at, without its mark; false at the end. */
static bool
next_ref(const char **at, char ret_ref[POLICY_TEXT_MAX + 1], char *ret_mark)
{
	size_t len;

	*at += strspn(*at, " ");
	*ret_mark = **at == '+' || **at == ':' ? **at : '\0';
	*at += *ret_mark != '\0';
	len = strcspn(*at, " ");
	if (len == 0 || len > POLICY_TEXT_MAX)
		return false;
	memcpy(ret_ref, *at, len);
	ret_ref[len] = '\0';
	*at += len;
	return true;
}

/* Whether a rule can name the ref: "..." stands for refs that were not recorded. */
static bool
can_say_ref(const char *ref)
{
	return strncmp(ref, "refs/", 5) == 0 && strpbrk(ref, "*?[\\'\"") == NULL;
}

void
suggest_put_push(struct buf *b, const struct policy_seen *seen)
{
	const char *at = seen->refs != NULL ? seen->refs : "";
	char ref[POLICY_TEXT_MAX + 1], mark;
	bool all = true, force = false, delete = false, tags = false;
	size_t n = 0;

	while (next_ref(&at, ref, &mark)) {
		n++;
		all = all && can_say_ref(ref);
		tags = tags || strncmp(ref, "refs/tags/", 10) == 0;
		force = force || mark == '+';
		delete = delete || mark == ':';
	}
	suggest_put(b, "push: [");
	if (n == 0 || n > REFS_SHOWN || !all) {
		suggest_put(b, tags ? "'refs/heads/**', 'refs/tags/**'" : "'refs/heads/**'");
	} else {
		at = seen->refs;
		for (size_t i = 0; next_ref(&at, ref, &mark); i++) {
			suggest_put(b, "%s", i > 0 ? ", " : "");
			suggest_put_word(b, ref);
		}
	}
	suggest_put(b, "]%s%s%s", force ? ", force: true" : "", delete ? ", delete: true" : "",
	            seen->push_options ? ", options: true" : "");
}
