/* definition.c - the pinned members of a tool's definition, their hash and its annotations. */
#include <errno.h>
#include <string.h>

#include "base/codec.h"
#include "base/err.h"
#include "base/own.h"
#include "canon/canon.h"
#include "tools/definition.h"

bool
definition_is_name(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-");

	return len > 0 && len <= DEFINITION_NAME_MAX && name[len] == '\0';
}

/* With another type, clients and we could differ about it. */
static const struct {
	const char *name;
	json_type type;
	bool needed;
} members[] = {
	{ "name", JSON_STRING, true }, { "title", JSON_STRING, false }, { "description", JSON_STRING, false },
	{ "inputSchema", JSON_OBJECT, true }, { "outputSchema", JSON_OBJECT, false },
	{ "annotations", JSON_OBJECT, false },
};

static int
check_name(const json_t *tool, struct err *err)
{
	const json_t *name = json_object_get(tool, "name");

	if (!json_is_object(tool) || !json_is_string(name))
		return err_set(err, EINVAL, "a tool has no name");
	if (strlen(json_string_value(name)) != json_string_length(name) ||
	    !definition_is_name(json_string_value(name)))
		return err_set(err, EINVAL, "the name of a tool is not 1 to %d of A-Z, a-z, 0-9, '_', '-', '.' and '/'",
		               DEFINITION_NAME_MAX);
	return 0;
}

int
definition_pin(json_t *tool, json_t **ret_pinned, struct err *err)
{
	OWN(json_decrefp) json_t *pinned = json_object();
	int r = check_name(tool, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(members); i++) {
		json_t *value = json_object_get(tool, members[i].name);

		/* Some servers write null for what they do not have. */
		if (!members[i].needed && (value == NULL || json_is_null(value)))
			continue;
		if (value == NULL || json_typeof(value) != members[i].type)
			return err_set(err, EINVAL, "the tool '%s' has no valid '%s'",
			               json_string_value(json_object_get(tool, "name")), members[i].name);
		if (json_object_set(pinned, members[i].name, value) < 0)
			return err_set(err, ENOMEM, "out of memory");
	}
	*ret_pinned = TAKE(pinned);
	return 0;
}

int
definition_hash(json_t *tool, char ret_hex[HASH_HEX + 1], struct err *err)
{
	OWN(json_decrefp) json_t *pinned = NULL;
	OWN(freep) char *text = NULL;
	unsigned char hash[HASH_LEN];
	size_t len;
	int r = definition_pin(tool, &pinned, err);

	if (r < 0)
		return r;
	r = canon_dump(pinned, DEFINITION_MAX, &text, &len, err);
	if (r < 0)
		return err_wrap(err, "the tool '%s'", json_string_value(json_object_get(pinned, "name")));
	hash_of(text, len, hash);
	codec_hex(hash, sizeof(hash), ret_hex);
	return 0;
}

/* ---- annotations ---- */

static const struct {
	unsigned bit;
	const char *member, *name;
} hints[] = {
	{ DEFINITION_READ_ONLY, "readOnlyHint", "read_only" },
	{ DEFINITION_DESTRUCTIVE, "destructiveHint", "destructive" },
	{ DEFINITION_IDEMPOTENT, "idempotentHint", "idempotent" },
	{ DEFINITION_OPEN_WORLD, "openWorldHint", "open_world" },
};

struct definition_hints
definition_hints(const json_t *tool)
{
	const json_t *annotations = json_object_get(tool, "annotations");
	struct definition_hints found = {0};

	for (size_t i = 0; i < ARRAY_LEN(hints); i++) {
		const json_t *value = json_object_get(annotations, hints[i].member);

		if (json_is_boolean(value)) {
			found.stated |= hints[i].bit;
			found.values |= json_is_true(value) ? hints[i].bit : 0;
		}
	}
	return found;
}

unsigned
definition_hints_missing(struct definition_hints h)
{
	unsigned needed = DEFINITION_READ_ONLY | DEFINITION_OPEN_WORLD;

	if ((h.values & DEFINITION_READ_ONLY) == 0)
		needed |= DEFINITION_DESTRUCTIVE;
	return needed & ~h.stated;
}

const char *
definition_hint_name(unsigned hint)
{
	for (size_t i = 0; i < ARRAY_LEN(hints); i++)
		if (hints[i].bit == hint)
			return hints[i].name;
	return NULL;
}
