/* registry_assign.c - the next version of an agent: the last one, with more grants. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/own.h"
#include "registry/object.h"
#include "registry/registry_parts.h"

/* The members that grants are assigned to.  In each, what stands before one of ENDS is the name. */
static const struct {
	const char *name, *ends;
	enum registry_kind kind;
	bool is_registered;
} members[] = {
	{ "capabilities", "@", REGISTRY_CAPABILITY, true },
	{ "env", "@", REGISTRY_ENV, true },
	{ "secrets", "=:@", 0, false },
};

/* Adds WORD to LIST, in place of one with the same name. */
static int
add(json_t *list, const char *word, const char *ends, struct err *err)
{
	size_t len = strcspn(word, ends), i;
	json_t *other;

	json_array_foreach(list, i, other) {
		const char *text = json_string_value(other);

		if (strcspn(text, ends) == len && strncmp(text, word, len) == 0)
			return json_array_set_new(list, i, json_string(word)) < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
	}
	return json_array_append_new(list, json_string(word)) < 0 ? err_set(err, ENOMEM, "out of memory") : 0;
}

static int
add_all(struct registry *r, json_t *content, json_t *more, size_t i, struct err *err)
{
	json_t *list = json_object_get(content, members[i].name), *word;
	struct registry_version version;
	size_t k;
	int n = 0;

	json_array_foreach(json_object_get(more, members[i].name), k, word) {
		const char *text = json_string_value(word);

		if (n == 0 && members[i].is_registered)
			n = registry_resolve(r, members[i].kind, text, REGISTRY_LIVE, &version, NULL, err);
		n = n == 0 ? add(list, text, members[i].ends, err) : n;
	}
	return n;
}

int
registry_assign(struct registry *r, const char *agent, json_t *more, struct object **ret_object, struct err *err)
{
	OWN(json_decrefp) json_t *content = NULL;
	char pointer[OBJECT_POINTER_MAX];
	struct registry_version version;
	int n;

	if (strchr(agent, '@') != NULL)
		return err_set(err, EINVAL, "'%.80s' names one version, which never changes: write the agent's name alone",
		               agent);
	n = registry_resolve(r, REGISTRY_AGENT, agent, REGISTRY_LIVE, &version, &content, err);
	for (size_t i = 0; n == 0 && i < ARRAY_LEN(members); i++)
		n = add_all(r, content, more, i, err);
	return n < 0 ? n : object_read_json(NULL, REGISTRY_AGENT, content, ret_object, pointer, err);
}
