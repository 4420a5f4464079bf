/* policy_override.c - finds fields that make many servers treat a request as a different one.
 *
 * As with a path that has two readings, an `allow` rule must fit both, and a rule that refuses fits
 * if one does. */
#include <string.h>

#include "base/own.h"
#include "policy/policy_parts.h"

static const char *const methods[] = { "x-http-method-override", "x-http-method",
                                       "x-method-override" };
static const char *const paths[] = { "x-original-url", "x-rewrite-url" };

static bool
is_one_of(const char *const *names, size_t n, struct http_text name)
{
	for (size_t i = 0; i < n; i++)
		if (policy_header_is_like(name, names[i]))
			return true;
	return false;
}

void
policy_find_overrides(struct policy_facts *facts)
{
	const struct http_head *head = facts->head;

	facts->names_method = facts->names_path = false;
	for (size_t i = 0; i < head->n_fields; i++) {
		struct http_text name = head->fields[i].name;

		/* The length excludes nearly all fields. */
		if (name.len < strlen("x-http-method") || name.at[0] != 'x')
			continue;
		facts->names_method |= is_one_of(methods, ARRAY_LEN(methods), name);
		facts->names_path |= is_one_of(paths, ARRAY_LEN(paths), name);
	}
}

/* Some servers treat "delete" as DELETE.  A value that is not a method may be anything. */
static bool
may_be(struct http_text value, const struct policy_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (http_text_is_nocase(value, list->at[i]))
			return true;
	for (size_t i = 0; i < value.len; i++)
		if (strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-", value.at[i]) == NULL)
			return true;
	return value.len == 0;
}

static bool
is(struct http_text value, const struct policy_list *list)
{
	for (size_t i = 0; i < list->n; i++)
		if (http_text_is(value, list->at[i]))
			return true;
	return false;
}

bool
policy_overrides_fit(const struct policy_facts *facts, const struct policy_list *list, bool allows)
{
	const struct http_head *head = facts->head;

	for (size_t i = 0; i < head->n_fields; i++) {
		const struct http_field *field = &head->fields[i];

		if (!is_one_of(methods, ARRAY_LEN(methods), field->name))
			continue;
		if (allows ? !is(field->value, list) : may_be(field->value, list))
			return !allows;
	}
	return allows;
}
