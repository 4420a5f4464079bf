/* policy_schema.c - `cloister policy schema`: the JSON Schema of policies.
 *
 * share/policy.schema.json is its output.  The keys of a rule come from policy_table.h, and the forms
 * of their values from share/policy.shapes.json.  After a change of either, run
 * `cloister policy schema >share/policy.schema.json`; a test compares both. */
#include <jansson.h>
#include <stdio.h>

#include "base/own.h"
#include "cli/cli.h"
#include "cli/policy.h"

/* Both files, included at build time. */
__asm__(".section .rodata.policy_schema, \"a\"\n"
        ".globl policy_schema\n"
        "policy_schema:\n"
        ".incbin \"share/policy.schema.json\"\n"
        ".byte 0\n"
        ".globl policy_shapes\n"
        "policy_shapes:\n"
        ".incbin \"share/policy.shapes.json\"\n"
        ".byte 0\n"
        ".previous\n");
extern const char policy_schema[], policy_shapes[];

static const struct {
	const char *name, *shape, *text;
} keys[] = {
#define CONDITION(id, name, flags, read, fits, covers, print, put, get, has, shape, text) \
	{ name, #shape, text },
#define SETTING(id, name, flags, read, print, put, get, has, shape, text) { name, #shape, text },
#include "policy/policy_table.h"
};

/* The schemas of a rule's keys; NULL if a shape is missing. */
static json_t *
make_properties(const json_t *shapes)
{
	json_t *properties = json_object();

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		json_t *key = json_deep_copy(json_object_get(shapes, keys[i].shape));

		if (*keys[i].text != '\0')
			json_object_set_new(key, "description", json_string(keys[i].text));
		if (json_object_set_new(properties, keys[i].name, key) < 0) {
			json_decref(properties);
			return NULL;
		}
	}
	return properties;
}

int
policy_cli_schema(const struct policy_cli *cli, int argc, char **argv)
{
	json_t *schema, *shapes, *properties = NULL, *rule;
	int r = -1;

	(void)cli, (void)argv;
	if (argc > 0)
		return cli_failf("`policy schema` takes no arguments");
	schema = json_loads(policy_schema, 0, NULL);
	shapes = json_loads(policy_shapes, 0, NULL);
	rule = json_object_get(json_object_get(schema, "definitions"), "rule");
	properties = make_properties(shapes);
	if (properties != NULL)
		r = json_object_set_new(rule, "properties", properties);
	if (r == 0)
		r = json_dumpf(schema, stdout, JSON_INDENT(2));
	json_decref(schema);
	json_decref(shapes);
	if (r < 0)
		return cli_failf("cannot print the schema: out of memory");
	putchar('\n');
	return 0;
}
